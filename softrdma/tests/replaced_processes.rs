//! Whose memory it is: a peer's process runs another program, its process id is given out again, it deregisters
//! memory under a sender that was stopped, and a third process writes where it should not. Each time memory
//! that was not registered for it keeps what it holds.
//!
//! A program of its own, since some of its processes start it anew: without a harness, by the names in
//! [`TESTS`].

use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use softrdma::device::{Region, Wr};
use softrdma::rules::request::Operands;
use softrdma::rules::verbs::{Opcode, QpState, QpType, Status};
use softrdma::shm::atomics::{Failure, Operation, execute};
use softrdma::shm::copy::{Direction, Fault, Span, transfer};
use softrdma::shm::keys::{ROOT, Table};
use softrdma_testing::content::segment_of;
use softrdma_testing::device::*;

/// Where registered memory is, and what the other program has there. Nothing else is near.
const PLACE: u64 = 0x1100_1000_0000;
const LENGTH: usize = 1 << 20;
const CANARY: u8 = 0xc5;
const TIMEOUT: Duration = Duration::from_secs(300);

/// Name, whether it needs root, and what it does.
type Test = (&'static str, bool, fn());
const TESTS: [Test; 7] = [
    ("another_program_keeps_its_memory", false, || replaced_by(exec, false)),
    ("another_process_of_the_same_number_keeps_its_memory", true, || replaced_by(reuse, true)),
    ("who_was_stopped_before_a_copy_does_not_reach_another_program", false, || stopped(true)),
    ("who_was_stopped_before_a_copy_does_not_reach_deregistered_memory", false, || stopped(false)),
    ("a_forged_pin_holds_up_no_deregistration_for_long", false, forged_pins),
    ("a_third_process_gives_no_rights", false, third),
    ("copies_go_on_when_others_are_shut_out", false, others_go_on),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [mode, fd] = &arguments[..]
        && mode == "--canary"
    {
        canary(fd.parse().unwrap());
    }
    let ignored = arguments.iter().any(|argument| argument == "--ignored");
    let wanted = arguments.iter().find(|argument| !argument.starts_with('-'));
    let (mut passed, mut failed) = (0, 0);
    for (name, root, test) in TESTS {
        if root != ignored || wanted.is_some_and(|wanted| !name.contains(wanted.as_str())) {
            continue;
        }
        // In a child: a test that does not end fails, and its processes end with it.
        let status = Child::run(|| {
            // SAFETY: plain system calls.
            unsafe {
                libc::setpgid(0, 0);
                libc::alarm(300);
            }
            test();
        });
        let ok = status.wait() == 0;
        println!("test {name} ... {}", if ok { "ok" } else { "FAILED" });
        (passed, failed) = (passed + u32::from(ok), failed + u32::from(!ok));
    }
    let result = if failed == 0 { "ok" } else { "FAILED" };
    println!("test result: {result}. {passed} passed; {failed} failed;");
    std::process::exit(i32::from(failed > 0));
}

/// Maps memory at [`PLACE`], full of `byte`.
fn place(byte: u8) -> &'static [AtomicU8] {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    // SAFETY: nothing else is mapped there but what this function mapped before; any byte is a valid atomic.
    unsafe {
        let p = libc::mmap(PLACE as *mut _, LENGTH, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        assert_eq!(p as u64, PLACE);
        std::ptr::write_bytes(p.cast::<u8>(), byte, LENGTH);
        std::slice::from_raw_parts(p.cast(), LENGTH)
    }
}

fn is_whole(bytes: &[AtomicU8]) -> bool {
    bytes.iter().all(|byte| byte.load(Ordering::Relaxed) == CANARY)
}

/// The other program: says that it is there, and at the end whether its memory is as it was.
fn canary(fd: i32) -> ! {
    let bytes = place(CANARY);
    let mut word = 1u64;
    // SAFETY: `word` is readable and writable for eight bytes; the descriptor was inherited for this.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        assert_eq!(libc::write(fd, (&raw const word).cast(), 8), 8);
        assert_eq!(libc::read(fd, (&raw mut word).cast(), 8), 8);
        word = u64::from(is_whole(bytes));
        assert_eq!(libc::write(fd, (&raw const word).cast(), 8), 8);
        libc::_exit(0)
    }
}

fn exec(fd: i32) {
    let path = std::fs::read_link("/proc/self/exe").unwrap();
    let [path, mode, fd] = [path.to_str().unwrap(), "--canary", &fd.to_string()]
        .map(|text| std::ffi::CString::new(text).unwrap());
    let arguments = [path.as_ptr(), mode.as_ptr(), fd.as_ptr(), std::ptr::null()];
    // SAFETY: strings and list live across the call, which only returns when it failed.
    unsafe { libc::execv(path.as_ptr(), arguments.as_ptr()) };
    panic!("execv: {}", std::io::Error::last_os_error());
}

/// Ends; the parent starts the other program under the same number.
fn reuse(_: i32) {
    // SAFETY: ends the process.
    unsafe { libc::_exit(0) };
}

/// A child with this process id.
fn child_with(pid: libc::pid_t, run: impl FnOnce()) {
    // SAFETY: clone_args is a struct of integers, for which all zeroes is a value; the kernel reads it and
    // `pid`. The child is as that of a fork, and this program has one thread.
    let child = unsafe {
        let mut arguments: libc::clone_args = std::mem::zeroed();
        arguments.exit_signal = libc::SIGCHLD as u64;
        arguments.set_tid = (&raw const pid) as u64;
        arguments.set_tid_size = 1;
        libc::syscall(libc::SYS_clone3, &raw const arguments, size_of::<libc::clone_args>())
    };
    assert!(child >= 0, "clone3: {}", std::io::Error::last_os_error());
    if child == 0 {
        run();
    }
}

/// Two nodes in two processes, connected; the other's memory at [`PLACE`] is registered.
fn target(folder: &Folder, words: &Words, then: impl FnOnce(&Node, Region)) -> ! {
    // SAFETY: plain system call.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    place(0);
    let node = Node::new(folder);
    let end = node.end(QpType::Rc);
    let region = node.device.register(node.pd, PLACE, LENGTH as u64, PLACE, ALL).unwrap();
    words.put(1, &[u64::from(end.qp.qp_num()), u64::from(region.rkey)]);
    let [peer] = words.get(1);
    bring_up(&end.qp, &attributes(peer as u32), QpState::Rts);
    words.put(1, &[0]);
    words.get::<1>(1);
    then(&node, region);
    // SAFETY: ends the process.
    unsafe { libc::_exit(0) };
}

/// The end that writes; the key of the other's memory.
fn initiator(folder: &Folder, words: &Words) -> (Node, End, u32) {
    // The other has slot 0.
    let [qp_num, rkey] = words.get(0);
    let node = Node::new(folder);
    let end = node.end(QpType::Rc);
    bring_up(&end.qp, &attributes(qp_num as u32), QpState::Rts);
    words.put(0, &[u64::from(end.qp.qp_num())]);
    words.get::<1>(0);
    (node, end, rkey as u32)
}

/// Writes, adds and compares without a pause until the connection breaks; the number of good operations. What
/// an atomic operation answers comes from the memory that is registered.
fn write_on(end: &End, rkey: u32, mut each: impl FnMut(u64)) -> u64 {
    let (mut good, mut added) = (0, 0);
    let start = Instant::now();
    let atomic = |wr_id, opcode| {
        let sges = [end.sge(8, 8)];
        let operands = Operands::Atomic { addr: PLACE + (32 << 10), rkey, compare_add: 1, swap: 1 };
        end.qp.post_send(&Wr { operands, ..wr(wr_id, opcode, &sges) }).unwrap();
    };
    loop {
        match good % 4 {
            0 => end.remote(good, Opcode::RdmaWrite, 0, 8, (PLACE + good % 1000 * 8, rkey)),
            1 => end.remote(good, Opcode::RdmaWrite, 0, 3000, (PLACE + (16 << 10), rkey)),
            2 => atomic(good, Opcode::FetchAndAdd),
            _ => atomic(good, Opcode::CmpAndSwp),
        }
        if end.poll().status != Status::Success {
            return good;
        }
        if good % 4 >= 2 {
            assert_eq!(end.memory.word(8), added, "after {good} operations");
            // A comparison of 1 with 1 changes nothing.
            added += u64::from(good % 4 == 2);
        }
        good += 1;
        each(good);
        assert!(start.elapsed() < TIMEOUT, "the connection does not break");
    }
}

/// A target whose process runs another program from one moment to the next, or whose number goes to another
/// process.
fn replaced_by(other: fn(i32), anew: bool) {
    for round in 0..5 {
        let (folder, words) = (Folder::new(), Words::new());
        let fd = words.fd(1);
        let parent = Child::run(|| {
            // SAFETY: this program has one thread; the child never returns.
            let pid = unsafe { libc::fork() };
            if pid == 0 {
                target(&folder, &words, |_, _| other(fd));
            }
            let wait = || {
                // SAFETY: our own child; its status is not wanted.
                assert_eq!(unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) }, pid);
            };
            wait();
            if anew {
                child_with(pid, || canary(fd));
                wait();
            }
        });
        let (_node, end, rkey) = initiator(&folder, &words);
        let good = write_on(&end, rkey, |good| {
            if good == 100 {
                words.put(0, &[0]);
            }
        });
        assert!(good >= 100, "round {round}: {good}");
        assert_eq!(words.get::<1>(0), [1]);
        words.put(0, &[0]);
        assert_eq!(words.get::<1>(0), [1], "round {round}: the other program's memory was written to");
        assert_eq!(parent.wait(), 0);
    }
}

/// A sender that is stopped when it has looked everything up, and goes on when the target has another program,
/// or has deregistered the memory.
fn stopped(replaced: bool) {
    let add = Operation::FetchAdd(1);
    let swap = Operation::CompareSwap { compare: u64::from_ne_bytes([CANARY; 8]), swap: 1 };
    let miss = Operation::CompareSwap { compare: 1, swap: 1 };
    let atomics = [add, swap, miss, Operation::Write(1)].map(|operation| (Direction::Write, Some(operation)));
    for (direction, operation) in
        [Direction::Write, Direction::Read].map(|direction| (direction, None)).into_iter().chain(atomics)
    {
        let (folder, words) = (Folder::new(), Words::new());
        let fd = words.fd(1);
        // SAFETY: this program has one thread; the child never returns.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            target(&folder, &words, |node, region| {
                if replaced {
                    exec(fd);
                }
                let start = Instant::now();
                node.device.deregister(region.lkey).unwrap();
                assert!(start.elapsed() < TIMEOUT);
                canary(fd);
            });
        }
        let [_, rkey] = words.get(0);
        let sender = Child::run(|| {
            // SAFETY: plain system call.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            let (me, peer) = folder.stranger();
            let image = peer.image().expect("the kernel copies between processes here");
            let (entry, _pin) = Table::of(&peer).pin(rkey as u32, me.owner(), &*me).unwrap();
            // SAFETY: stops this process.
            unsafe { libc::raise(libc::SIGSTOP) };
            if let Some(operation) = operation {
                let at = entry.translate(PLACE);
                let lock = peer.atomics_lock(at).unwrap();
                // SAFETY: as below.
                let done = unsafe { execute(lock, me.owner(), &*me, TIMEOUT, &image, at, operation) };
                return assert_eq!(done, Err(Failure::Fault(Fault::Replaced)));
            }
            let mut mine = vec![7u8; 5000];
            let here = [Span { addr: mine.as_mut_ptr() as u64, len: 5000 }];
            let there = [Span { addr: entry.translate(PLACE + 100), len: 5000 }];
            // SAFETY: what is overwritten is `mine`, or memory of another process that was registered for this.
            let moved = unsafe { transfer(&image, direction, &here, &there) };
            assert_eq!(moved, Err(Fault::Replaced));
            assert!(mine.iter().all(|byte| *byte == 7));
        });
        let child = sender.pid();
        let mut status = 0;
        // SAFETY: our own child; `status` is writable.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, libc::WUNTRACED) }, child);
        assert!(libc::WIFSTOPPED(status));
        words.put(0, &[0]);
        assert_eq!(words.get::<1>(0), [0]);
        words.put(0, &[0]);
        assert_eq!(words.get::<1>(0), [1]);
        // SAFETY: our own child.
        unsafe { libc::kill(child, libc::SIGCONT) };
        assert_eq!(sender.wait(), 0);
        words.put(0, &[0]);
        assert_eq!(words.get::<1>(0), [1], "the other program's memory was written to");
        // SAFETY: our own child; its status is not wanted.
        unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
    }
}

/// Whoever may write the segment says that a process is using a key, and that for ever.
fn forged_pins() {
    const PINS: u64 = 128;
    let folder = Folder::new();
    let node = Node::new(&folder);
    let (stranger, peer) = folder.stranger();
    let end = node.end(QpType::Rc);
    let table = peer.root(ROOT).unwrap();
    for owner in [peer.owner(), stranger.owner()] {
        let region =
            node.device.register(node.pd, end.memory.addr(0), 1000, end.memory.addr(0), ALL).unwrap();
        for pin in 0..PINS {
            let words = peer.memory().words(table + 16 * pin, 2).unwrap();
            words[0].store(owner.word(), Ordering::Relaxed);
            words[1].store(u64::from(region.rkey), Ordering::Relaxed);
        }
        let start = Instant::now();
        node.device.deregister(region.lkey).unwrap();
        assert!(start.elapsed() < TIMEOUT, "{:?}", start.elapsed());
        assert_eq!(node.device.query_region(region.lkey), None);
    }
}

/// A third process writes over the entry of a key, while an honest one writes by it.
fn third() {
    let (folder, words) = (Folder::new(), Words::new());
    // SAFETY: this program has one thread; the child never returns.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        target(&folder, &words, |_, _| {
            // What was never registered.
            let at = PLACE + LENGTH as u64;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
            // SAFETY: nothing else is mapped there.
            let secret = unsafe {
                let p = libc::mmap(at as *mut _, LENGTH, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
                assert_eq!(p as u64, at);
                std::ptr::write_bytes(p.cast::<u8>(), CANARY, LENGTH);
                std::slice::from_raw_parts(p.cast::<AtomicU8>(), LENGTH)
            };
            words.put(1, &[1]);
            words.get::<1>(1);
            words.put(1, &[u64::from(is_whole(secret))]);
            words.get::<1>(1);
        });
    }
    let (_node, end, rkey) = initiator(&folder, &words);
    words.put(0, &[0]);
    assert_eq!(words.get::<1>(0), [1]);
    let file = segment_of(&folder.path(), 0);
    let mut content = vec![0; file.metadata().unwrap().len() as usize];
    file.read_exact_at(&mut content, 0).unwrap();
    let places = |value: u64| -> Vec<u64> {
        let words = content.chunks_exact(8).enumerate();
        words.filter(|(_, word)| *word == value.to_ne_bytes()).map(|(at, _)| 8 * at as u64).collect()
    };
    // The address that users name stays, the one in the owner's memory comes behind it.
    let (addresses, lengths) = (places(PLACE), places(LENGTH as u64));
    assert!(addresses.len() == 2 && !lengths.is_empty(), "no entry found");
    file.write_all_at(&(PLACE + LENGTH as u64).to_ne_bytes(), addresses[1]).unwrap();
    lengths.iter().for_each(|at| file.write_all_at(&(1u64 << 40).to_ne_bytes(), *at).unwrap());
    for (n, length) in [8usize, 3000, 40_000].into_iter().cycle().take(30).enumerate() {
        end.remote(n as u64, Opcode::RdmaWrite, 0, length, (PLACE + 8 * n as u64, rkey));
        end.done(n as u64);
    }
    words.put(0, &[0]);
    assert_eq!(words.get::<1>(0), [1], "memory that was never registered was written to");
    // Nor is anything behind the region reached.
    end.remote(99, Opcode::RdmaWrite, 0, 8, (PLACE + LENGTH as u64 + 64, rkey));
    assert_eq!(end.poll().status, Status::RemAccessErr);
    // SAFETY: our own child.
    unsafe {
        libc::kill(pid, libc::SIGKILL);
        libc::waitpid(pid, std::ptr::null_mut(), 0);
    }
}

/// A process moves its identity page again and again: others who write to memory that it still has registered
/// notice nothing.
fn others_go_on() {
    let (folder, words) = (Folder::new(), Words::new());
    // SAFETY: this program has one thread; the child never returns.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        target(&folder, &words, |node, _| {
            let region = || node.device.register(node.pd, PLACE, 8, PLACE, ALL).unwrap();
            // One pin that nobody takes back.
            let (stranger, peer) = folder.stranger();
            let region = region();
            std::mem::forget(Table::of(&peer).pin(region.rkey, stranger.owner(), &*stranger).unwrap());
            node.device.deregister(region.lkey).unwrap();
            words.put(1, &[1]);
            words.get::<1>(1);
        });
    }
    let (_node, end, rkey) = initiator(&folder, &words);
    words.put(0, &[0]);
    let start = Instant::now();
    let mut n = 0;
    while !readable(words.fd(0), 0) {
        end.remote(n, Opcode::RdmaWrite, 0, 3000, (PLACE, rkey));
        end.done(n);
        n += 1;
        assert!(start.elapsed() < TIMEOUT);
    }
    for n in n..n + 100 {
        end.remote(n, Opcode::RdmaWrite, 0, 3000, (PLACE, rkey));
        end.done(n);
    }
    // SAFETY: our own child.
    unsafe {
        libc::kill(pid, libc::SIGKILL);
        libc::waitpid(pid, std::ptr::null_mut(), 0);
    }
}
