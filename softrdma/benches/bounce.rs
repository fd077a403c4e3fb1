//! What payload through shared memory costs beside the direct way: `cargo bench -p softrdma --bench bounce`.
//!
//! Medians of several rounds, between two processes; each needs a processor of its own for the figures to mean
//! anything.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use softrdma::shm::atomics::Operation;
use softrdma::shm::bounce::{CopyService, Local, Origin, Piece, Purpose, Registered, atomic, transfer};
use softrdma::shm::copy::{self, Direction, Span};
use softrdma::shm::folder::{Config, Folder};
use softrdma::shm::segment::{Peer, Segment};
use softrdma_testing::timing::median;

const LIMIT: Duration = Duration::from_secs(10);
const LEN: u64 = 1 << 20;

/// Opens everything.
struct All;

impl Registered for All {
    fn with(&self, _: Purpose, _: &Origin, _: &Piece, access: &mut dyn FnMut()) -> bool {
        access();
        true
    }
}

fn say(what: &str, bytes: u64, ns: f64) {
    println!(
        "{what:<40} {bytes:>8} bytes {:>10.2} µs {:>10.0} MB/s",
        ns / 1000.0,
        bytes as f64 * 1000.0 / ns
    );
}

fn main() {
    let dir = PathBuf::from(format!("/dev/shm/ironverbs-bench-bounce-{}", std::process::id()));
    let folder = Arc::new(Folder::open(&Config { path: dir.clone(), group: None }).unwrap());
    // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
    let there = unsafe {
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let p = libc::mmap(std::ptr::null_mut(), LEN as usize, access, flags, -1, 0);
        assert_ne!(p, libc::MAP_FAILED);
        p as u64
    };
    // SAFETY: this program has one thread; the child never returns.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        // SAFETY: plain system call; the child must not outlive a failed parent.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        let service = CopyService::new(Arc::new(Segment::create(folder).unwrap()));
        service.serve(Arc::new(All)).unwrap();
        loop {
            std::thread::sleep(Duration::from_secs(1000));
        }
    }
    let peer = loop {
        match Peer::open(&folder, 0) {
            Ok(peer) => break peer,
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    };
    let image = peer.image().unwrap();
    let me = Segment::create(folder.clone()).unwrap();
    let mut source = vec![1u8; LEN as usize];
    let from = source.as_mut_ptr() as u64;
    let bounce = |purpose, bytes| {
        let (pieces, here) = ([Piece { key: 1, addr: there, len: bytes }], [Span { addr: from, len: bytes }]);
        // SAFETY: the ranges are `source` and the child's mapping, which nobody else uses.
        unsafe { transfer(&me, &peer, Origin::NONE, purpose, &pieces, Local::Memory(&here), LIMIT) }
    };
    while bounce(Purpose::Write, LEN).is_err() {}
    for (bytes, turns) in [(8, 20_000), (4096, 20_000), (65_536, 4000), (LEN, 300)] {
        for (direction, purpose, name) in
            [(Direction::Write, Purpose::Write, "write"), (Direction::Read, Purpose::Read, "read")]
        {
            let direct = median(turns, || {
                let (here, there) = ([Span { addr: from, len: bytes }], [Span { addr: there, len: bytes }]);
                // SAFETY: as above.
                unsafe { copy::transfer(&image, direction, &here, &there) }.unwrap();
            });
            say(&format!("direct {name}"), bytes, direct);
            say(&format!("bounce {name}"), bytes, median(turns, || bounce(purpose, bytes).unwrap()));
        }
    }
    // SAFETY: `source` is alive, and only read.
    let inline = unsafe { std::slice::from_raw_parts(from as *const u8, 8) };
    let pieces = [Piece { key: 1, addr: there, len: 8 }];
    let put = || {
        // SAFETY: nothing of this process is written.
        unsafe { transfer(&me, &peer, Origin::NONE, Purpose::Write, &pieces, Local::Bytes(inline), LIMIT) }
            .unwrap();
    };
    say("bounce write of own bytes", 8, median(20_000, put));
    let add = || assert!(atomic(&me, &peer, Origin::NONE, pieces[0], Operation::FetchAdd(1), LIMIT).is_ok());
    say("bounce fetch and add", 8, median(20_000, add));
    for bytes in [8, 65_536] {
        let mut took: Vec<f64> = (0..200)
            .map(|_| {
                std::thread::sleep(Duration::from_millis(1));
                let start = Instant::now();
                bounce(Purpose::Write, bytes).unwrap();
                start.elapsed().as_nanos() as f64
            })
            .collect();
        took.sort_by(f64::total_cmp);
        say("bounce write, the service slept", bytes, took[took.len() / 2]);
    }
    // SAFETY: the process is our child; its status is not wanted.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
    drop((me, peer));
    let _ = std::fs::remove_dir_all(&dir);
}
