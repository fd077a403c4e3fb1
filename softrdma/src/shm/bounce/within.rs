//! Payload within one process where the kernel refuses even that, by way of a small file in memory that nobody
//! else knows.
//!
//! A plain copy would do, were it not for memory that a program unmapped while it was registered: that must be
//! an error and no signal.

use std::os::fd::AsRawFd;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ironverbs_os::descriptor::Descriptor;
use nix::sys::memfd::{MFdFlags, memfd_create};

use super::super::atomics::Operation;
use super::super::copy::{BATCH, Cursor, Direction, NO_RANGE, Span};
use super::super::error::{Error, Result};
use super::super::memory::Memory;
use super::super::room;
use super::super::segment::Segment;
use super::super::tasks;
use super::memory::{File, HeldBack, Stop, range};
use super::{Failure, after};

const BYTES: u64 = 64 << 10;

/// A file that copies within the process go through, one at a time.
#[derive(Debug)]
pub struct Scratch {
    file: Descriptor,
    memory: Memory,
    busy: Mutex<()>,
}

impl Scratch {
    /// A new one. Errors: no descriptor or memory left.
    pub fn new() -> Result<Self> {
        let file = memfd_create(c"ironverbs-copy", MFdFlags::MFD_CLOEXEC)
            .map_err(|_| Error::last("memfd_create"))?;
        let fd = file.as_raw_fd();
        room::allocate(fd, 0, BYTES)?;
        let memory = Memory::map_within(fd, libc::PROT_READ | libc::PROT_WRITE, &[BYTES as usize])?;
        Ok(Scratch { file: Descriptor::new(file)?, memory, busy: Mutex::new(()) })
    }

    fn file(&self) -> std::result::Result<File, Failure> {
        match self.file.raw() {
            -1 => Err(Failure::Os(libc::EBADF)),
            fd => Ok(File(fd)),
        }
    }

    /// Moves all bytes between two lists of ranges of this process, in order; the shorter list ends it. `local`
    /// and `remote` play the parts of this process and of a peer.
    ///
    /// # Safety
    /// As for [`copy::transfer`](super::super::copy::transfer).
    pub unsafe fn transfer(
        &self,
        direction: Direction,
        local: &[Span],
        remote: &[Span],
    ) -> std::result::Result<(), Failure> {
        let (mut from, mut to, source, other) = match direction {
            Direction::Write => (Cursor::new(local), Cursor::new(remote), Failure::Local, Failure::Remote),
            Direction::Read => (Cursor::new(remote), Cursor::new(local), Failure::Remote, Failure::Local),
        };
        let why = |fault, stop| match stop {
            Stop::Fault => fault,
            Stop::Errno(e) => Failure::Os(e),
        };
        let _busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        let held = HeldBack::new();
        let mut ranges = [NO_RANGE; BATCH];
        loop {
            let room = to.fill(&mut ranges, BYTES).1;
            let (count, bytes) = from.fill(&mut ranges, room);
            if bytes == 0 {
                return Ok(());
            }
            // At each step: the program may close it meanwhile.
            let file = self.file()?;
            let taken = held.take_in(file, &self.memory, 0, &ranges[..count]);
            let taken = taken.map_err(|stop| why(source, stop))?;
            from.advance(taken);
            let mut brought = 0;
            while brought < taken {
                let (count, _) = to.fill(&mut ranges, taken - brought);
                // SAFETY: the caller vouches for the ranges.
                let n = unsafe { file.bring_out(brought, &ranges[..count]) };
                let n = n.map_err(|stop| why(other, stop))?;
                to.advance(n);
                brought += n;
            }
        }
    }

    /// Carries out an operation on eight bytes of this process at `addr`, behind the lock that all of them
    /// take; answers the value before.
    ///
    /// # Safety
    /// As for [`Scratch::transfer`], for the eight bytes.
    pub unsafe fn atomic(
        &self,
        me: &Segment,
        addr: u64,
        operation: Operation,
        limit: Duration,
    ) -> std::result::Result<u64, Failure> {
        let lock = me.atomics_lock(addr).map_err(|e| Failure::Os(e.errno()))?;
        // Taken over from the dead it needs no repair.
        let _ = lock.lock(me.owner(), me, limit).ok_or(Failure::Busy)?;
        let mut value = 0u64;
        let there = [Span { addr, len: 8 }];
        let run = |direction, value: &mut u64| {
            let here = [Span { addr: std::ptr::from_mut(value) as u64, len: 8 }];
            // SAFETY: `value` is ours alone; for the other eight bytes the caller vouches.
            unsafe { self.transfer(direction, &here, &there) }
        };
        let result = run(Direction::Read, &mut value).and_then(|()| {
            let before = value;
            match after(before, operation) {
                Some(mut after) => run(Direction::Write, &mut after).map(|()| before),
                None => Ok(before),
            }
        });
        lock.unlock(me.owner());
        result
    }
}

/// Whether the kernel copies from this process to itself by [`copy`](super::super::copy).
pub fn direct_to_oneself() -> bool {
    let mut bytes = [0u8; 2];
    let [from, to] = &mut bytes;
    let (from, to) = (range(std::ptr::from_mut(from) as u64, 1), range(std::ptr::from_mut(to) as u64, 1));
    // SAFETY: one byte of this function is copied to another.
    unsafe { libc::process_vm_readv(tasks::own(), to.as_ptr(), 1, from.as_ptr(), 1, 0) == 1 }
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::TestDir;
    use super::*;
    use proptest::prelude::*;
    use std::os::fd::AsRawFd;
    use std::sync::atomic::{AtomicU64, Ordering};

    fn spans(bytes: &mut [u8], lens: &[u64]) -> Vec<Span> {
        let (mut addr, mut left) = (bytes.as_mut_ptr() as u64, bytes.len() as u64);
        let mut all = Vec::new();
        for len in lens.iter().chain([&u64::MAX]) {
            let len = left.min(*len);
            all.push(Span { addr, len });
            (addr, left) = (addr + len, left - len);
        }
        all
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn scatter_and_gather(
            len in prop_oneof![0usize..100, 60_000usize..300_000],
            cuts in proptest::collection::vec(0u64..9000, 0..80),
            other in proptest::collection::vec(0u64..9000, 0..80),
            read in any::<bool>(),
        ) {
            let scratch = Scratch::new().unwrap();
            let mut from: Vec<u8> = (0..len).map(|i| ((i * 7) >> 2) as u8).collect();
            let expected = from.clone();
            let mut to = vec![0; len];
            let (a, b) = (spans(&mut from, &cuts), spans(&mut to, &other));
            // SAFETY: the ranges are the two vectors, which nobody else looks at meanwhile.
            let moved = unsafe {
                if read {
                    scratch.transfer(Direction::Read, &b, &a)
                } else {
                    scratch.transfer(Direction::Write, &a, &b)
                }
            };
            prop_assert_eq!(moved, Ok(()));
            prop_assert!(to == expected);
        }
    }

    #[test]
    fn whose_memory_failed() {
        assert!(direct_to_oneself());
        let scratch = Scratch::new().unwrap();
        let mut bytes = vec![7u8; 200];
        let good = spans(&mut bytes, &[]);
        for addr in [8, u64::MAX - 100] {
            let bad = [Span { addr, len: 200 }];
            // SAFETY: what is written is `bytes`.
            unsafe {
                assert_eq!(scratch.transfer(Direction::Write, &good, &bad), Err(Failure::Remote));
                assert_eq!(scratch.transfer(Direction::Read, &good, &bad), Err(Failure::Remote));
                assert_eq!(scratch.transfer(Direction::Write, &bad, &good), Err(Failure::Local));
                assert_eq!(scratch.transfer(Direction::Read, &bad, &good), Err(Failure::Local));
            }
        }
    }

    #[test]
    fn what_the_program_opened_in_its_place_stays_open() {
        let (scratch, pipe) = (Scratch::new().unwrap(), std::io::pipe().unwrap());
        let number = scratch.file.number();
        let is_open = || ironverbs_os::sys::stat(number).is_ok();
        // SAFETY: the number is the test's own, which plays the program that closed it.
        assert_eq!(unsafe { libc::dup3(pipe.0.as_raw_fd(), number, libc::O_CLOEXEC) }, number);
        assert!(matches!(scratch.file(), Err(Failure::Os(libc::EBADF))));
        drop(scratch);
        assert!(is_open());
        // SAFETY: as above.
        unsafe { libc::close(number) };
    }

    #[test]
    fn atomic_operations() {
        let dir = TestDir::new("within");
        let me = Segment::create(dir.folder()).unwrap();
        let scratch = Scratch::new().unwrap();
        let cell = AtomicU64::new(u64::MAX);
        // SAFETY: the bytes are an atomic of this test, and the other address is not mapped.
        let run = |addr, operation| unsafe { scratch.atomic(&me, addr, operation, Duration::from_secs(20)) };
        let at = cell.as_ptr() as u64;
        assert_eq!(run(at, Operation::FetchAdd(2)), Ok(u64::MAX));
        assert_eq!(run(at, Operation::CompareSwap { compare: 2, swap: 9 }), Ok(1));
        assert_eq!(run(at, Operation::CompareSwap { compare: 1, swap: 9 }), Ok(1));
        assert_eq!(run(at, Operation::Write(0)), Ok(9));
        assert_eq!(run(8, Operation::Write(5)), Err(Failure::Remote));
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| (0..500).for_each(|_| assert!(run(at, Operation::FetchAdd(1)).is_ok())));
            }
        });
        assert_eq!(cell.load(Ordering::Relaxed), 2000);
        assert_eq!(me.atomics_lock(at).unwrap().owner(), None);
    }
}
