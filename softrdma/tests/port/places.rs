//! Which process gets which packet, whoever begins, ends or dies.

use softrdma::testing::number;
use softrdma::testing::port::Port;
use softrdma::testing::port::error::PortError;
use softrdma::testing::port::set::COMMON;
use softrdma_testing::child::begin;
use softrdma_testing::network::{index, ip, up};
use softrdma_testing::processes::Words;

use crate::crew::{Crew, OPEN, Told, apart, from_here, kill, packet, refused, send, wait};

/// Sends one to a process, and looks who gets it.
fn reaches(crew: &Crew, to: &str, interface: u32, slot: u16) {
    let number = number(slot, u32::from(slot) + 3);
    send(to, interface, &packet(number, &[0x5a]));
    let (slot, number) = (slot.into(), number.into());
    assert_eq!(crew.told(), Told { slot, place: slot, number, byte: 0x5a }, "{to}");
}

#[test]
fn all_places_by_both_families_and_on_a_link() {
    apart(|| {
        ip("link add veth type veth peer name other");
        up("other", &[]);
        up("veth", &["10.9.0.1/24", "fd09::1/64", "fe80::9/64"]);
        let veth = index("veth");
        let crew = Crew::new();
        let slots: Vec<u16> = (0..COMMON).collect();
        crew.begin_all(&slots);
        for slot in &slots {
            reaches(&crew, "127.0.0.1", 0, *slot);
            reaches(&crew, "::1", 0, *slot);
        }
        // The choice goes by the packet, whichever address it has.
        for slot in [0, 1, 33, 63] {
            reaches(&crew, "10.9.0.1", 0, slot);
            reaches(&crew, "fd09::1", 0, slot);
            reaches(&crew, "fe80::9", veth, slot);
        }
        // One of them gets what is for nobody in particular.
        let others = [0, 1, number(64, 0), number(1023, 77), 0xff_ffff];
        let all = others.iter().map(|number| (packet(*number, &[9]), *number, 9));
        for (bytes, number, byte) in all.chain([(vec![1, 2, 3], 0, 0)]) {
            for to in ["127.0.0.1", "fd09::1"] {
                send(to, 0, &bytes);
                let told = crew.told();
                let expected = Told { slot: told.slot, place: COMMON.into(), number: number.into(), byte };
                assert_eq!(told, expected);
            }
        }
        assert_eq!(refused(COMMON), PortError::NoPlace { slot: COMMON });
        let line = refused(70).to_string();
        assert_eq!(
            line,
            "UDP port 4791 has places for 64 processes, and this one is number 71 in its folder"
        );
    });
}

#[test]
fn places_outlive_their_maker_and_begin_empty() {
    apart(|| {
        let crew = Crew::new();
        let mut processes = crew.begin_all(&[0]);
        processes.extend(crew.begin_all(&[1, 5, 63]));
        let reach_all = |slots: &[u16]| {
            for slot in slots {
                reaches(&crew, "127.0.0.1", 0, *slot);
                reaches(&crew, "::1", 0, *slot);
            }
        };
        reach_all(&[0, 1, 5, 63]);
        kill(processes[0]);
        reach_all(&[1, 5, 63]);
        // Nobody has this place, and nobody gets this.
        for n in 0..100 {
            send("127.0.0.1", 0, &packet(number(0, n), &[1]));
        }
        kill(processes[2]);
        processes.extend(crew.begin_all(&[9, 0]));
        reach_all(&[0, 1, 9, 63]);
        for process in [processes[1], processes[3], processes[4]] {
            kill(process);
        }
        // The last one knows the sockets from others alone.
        reach_all(&[0]);
        kill(processes[5]);
        // All anew.
        crew.begin_all(&[3, 4]);
        reach_all(&[3, 4]);
    });
}

#[test]
fn processes_that_begin_at_once_meet_whoever_has_just_died() {
    apart(|| {
        let crew = Crew::new();
        let slots = [7, 3, 60, 0, 12, 1];
        for _ in 0..20 {
            let (mut gate, go) = std::io::pipe().unwrap();
            let processes: Vec<_> = slots
                .iter()
                .map(|slot| {
                    let (gate, go) = (&mut gate, &go);
                    crew.begin_after(*slot, move || {
                        // The end of the pipe, which this process has, too.
                        // SAFETY: closes the child's own copy, which it does not use.
                        unsafe { libc::close(std::os::fd::AsRawFd::as_raw_fd(go)) };
                        let _ = std::io::Read::read(gate, &mut [0]);
                    })
                })
                .collect();
            drop(go);
            crew.all_open(&slots);
            for slot in slots {
                reaches(&crew, "127.0.0.1", 0, slot);
                reaches(&crew, "::1", 0, slot);
            }
            // SAFETY: plain system calls on own children. They are still dying when the next ones begin.
            processes
                .iter()
                .for_each(|process| unsafe { assert_eq!(libc::kill(*process, libc::SIGKILL), 0) });
        }
    });
}

/// Wherever a process is killed while it begins, the next ones have the port.
#[test]
fn who_dies_while_it_begins_keeps_nobody_out() {
    apart(|| {
        let crew = Crew::new();
        for round in 0..60 {
            let first = crew.begin(0);
            let second = crew.begin(1);
            // Other steps of theirs each time.
            for _ in 0..round * 20 {
                std::thread::yield_now();
            }
            // SAFETY: plain system calls on own children.
            [first, second]
                .iter()
                .for_each(|process| unsafe { assert_eq!(libc::kill(*process, libc::SIGKILL), 0) });
            let third = crew.begin(2);
            loop {
                let told = crew.told();
                assert_eq!(told.place, OPEN);
                if told.slot == 2 {
                    break;
                }
            }
            reaches(&crew, "127.0.0.1", 0, 2);
            reaches(&crew, "::1", 0, 2);
            [first, second, third].into_iter().for_each(kill);
        }
    });
}

/// Where nobody can answer, that is said, and by whom.
#[test]
fn a_stopped_process_is_waited_for_no_longer_than_it_is_worth() {
    apart(|| {
        let crew = Crew::new();
        let process = crew.begin_all(&[0])[0];
        // SAFETY: plain system calls on an own child.
        unsafe {
            let mut status = 0;
            assert_eq!(libc::kill(process, libc::SIGSTOP), 0);
            assert_eq!(libc::waitpid(process, &raw mut status, libc::WUNTRACED), process);
        }
        let error = refused(1);
        assert_eq!(error, PortError::NoAnswer { pid: process });
        assert!(error.to_string().ends_with(&format!("Process {process} was the first")), "{error}");
        // SAFETY: as above.
        unsafe { assert_eq!(libc::kill(process, libc::SIGCONT), 0) };
        crew.begin_all(&[1]);
        reaches(&crew, "::1", 0, 1);
    });
}

/// Two folders give two processes one slot.
#[test]
fn a_place_has_one_process() {
    apart(|| {
        let crew = Crew::new();
        let processes = crew.begin_all(&[2, 3]);
        // SAFETY: plain system call.
        let uid = unsafe { libc::geteuid() };
        let error = refused(2);
        assert_eq!(error, PortError::PlaceTaken { place: 2, pid: processes[0], uid });
        let line = error.to_string();
        assert!(line.contains(&format!("process {} of user {uid}", processes[0])), "{line}");
        kill(processes[0]);
        crew.begin_all(&[2]);
        reaches(&crew, "127.0.0.1", 0, 2);
    });
}

/// A child that never calls the library keeps nothing of its parent's.
#[test]
fn a_forked_child_gives_all_up() {
    apart(|| {
        let crew = Crew::new();
        let words = Words::new();
        let parent = begin(|| {
            let port = Port::open(4, from_here()).unwrap();
            let child = begin(|| {
                // Survives its parent.
                // SAFETY: plain system call.
                unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, 0) };
                assert_eq!((port.own().raw(), port.door()), (-1, -1));
                words.put(1, &[0]);
                wait(&[words.fd(1)]);
                0
            });
            words.get::<1>(0);
            // The parent has what it had.
            assert!(port.own().raw() >= 0 && port.door() >= 0);
            child
        });
        let mut status = 0;
        // SAFETY: the process is our child, and `status` writable.
        unsafe { libc::waitpid(parent, &raw mut status, 0) };
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) != 99, "{status:#x}");
        crew.begin_all(&[4, 6]);
        reaches(&crew, "127.0.0.1", 0, 4);
        // It was alive all the time.
        words.put(0, &[0]);
    });
}

/// A process that closes and opens it again, alone and beside another.
#[test]
fn a_place_is_given_back() {
    apart(|| {
        let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        let before = descriptors();
        for _ in 0..3 {
            let port = Port::open(1, from_here()).unwrap();
            assert_eq!((port.own().place(), port.common().place()), (1, COMMON));
        }
        assert_eq!(descriptors(), before);
        let crew = Crew::new();
        crew.begin_all(&[8]);
        let before = descriptors();
        for _ in 0..3 {
            drop(Port::open(1, from_here()).unwrap());
        }
        assert_eq!(descriptors(), before);
        crew.begin_all(&[1]);
    });
}
