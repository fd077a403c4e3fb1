//! Atomic operations on a peer's memory.
//!
//! The initiator cannot map the peer's memory, so a processor's atomic instruction is out of its reach. It
//! takes the lock that the peer's segment has for this place, reads the eight bytes, and writes the new ones
//! back. So the operations are atomic among each other, in whatever process and on whatever queue pair, and no
//! more: `IBV_ATOMIC_HCA`, which is what real adapters promise. They are not atomic with the processor's own
//! instructions in the target, nor between two processes that registered the same shared memory, as they are
//! not between two adapters.
//!
//! A death within the operation leaves the memory with the old or the new value, since eight aligned bytes are
//! one store of the kernel's copy; so a process that takes the lock over from a dead one has nothing to repair.

use std::time::Duration;

use super::copy::{Direction, Fault, Span, guess, transfer};
use super::image::Image;
use super::lock::{Liveness, Lock, Owner};

/// What is done to the eight bytes, in the byte order of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Adds, modulo 2⁶⁴.
    FetchAdd(u64),
    /// Stores `swap` when the value is `compare`.
    CompareSwap {
        /// The value expected.
        compare: u64,
        /// The value stored then.
        swap: u64,
    },
    /// Stores the value (atomic write).
    Write(u64),
}

/// Why an atomic operation did not happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The address is no multiple of eight: a remote invalid request.
    Unaligned,
    /// Another process that lives held the lock too long.
    Busy,
    /// The memory could not be accessed.
    Fault(Fault),
}

/// Carries out an operation on eight bytes at `addr` of the program `to`; answers the value before. `lock` is
/// the peer's [`atomics_lock`](super::segment::Peer::atomics_lock).
///
/// # Safety
/// As for [`transfer`], for the eight bytes.
pub unsafe fn execute(
    lock: &Lock,
    me: Owner,
    liveness: &impl Liveness,
    limit: Duration,
    to: &Image,
    addr: u64,
    operation: Operation,
) -> Result<u64, Failure> {
    if !addr.is_multiple_of(8) {
        return Err(Failure::Unaligned);
    }
    // A lock taken over from the dead needs no repair here.
    let _ = lock.lock(me, liveness, limit).ok_or(Failure::Busy)?;
    let mut value = 0u64;
    let there = [Span { addr, len: 8 }];
    let run = |direction, value: &mut u64| {
        let here = [Span { addr: std::ptr::from_mut(value) as u64, len: 8 }];
        // SAFETY: `value` is ours alone; for the peer's eight bytes the caller vouches.
        unsafe { transfer(to, direction, &here, &there) }.map_err(Failure::Fault)
    };
    let result = (|| {
        // What is added to is proven by the write that follows; a comparison may end the operation, so it comes
        // with a proof.
        let guessed = match operation {
            Operation::FetchAdd(_) => guess(to, addr),
            Operation::CompareSwap { .. } | Operation::Write(_) => None,
        };
        match guessed {
            Some(word) => value = word,
            None => run(Direction::Read, &mut value)?,
        }
        let before = value;
        let mut after = match operation {
            Operation::FetchAdd(n) => before.wrapping_add(n),
            Operation::CompareSwap { compare, .. } if compare != before => return Ok(before),
            Operation::CompareSwap { swap, .. } => swap,
            Operation::Write(value) => value,
        };
        run(Direction::Write, &mut after)?;
        Ok(before)
    })();
    lock.unlock(me);
    result
}

#[cfg(test)]
mod tests {
    use super::super::segment::{Peer, Segment};
    use super::super::testing::{TestDir, in_child};
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    const LIMIT: Duration = Duration::from_secs(20);

    #[test]
    fn values() {
        let dir = TestDir::new("atomics");
        let me = Segment::create(dir.folder()).unwrap();
        let cell = AtomicU64::new(u64::MAX);
        let at = cell.as_ptr() as u64;
        let to = Image::own();
        let run = |addr, operation| {
            // SAFETY: the bytes are an atomic of this test, and the other addresses are not mapped.
            unsafe { execute(me.atomics_lock(addr).unwrap(), me.owner(), &me, LIMIT, &to, addr, operation) }
        };
        assert_eq!(run(at, Operation::FetchAdd(2)), Ok(u64::MAX));
        assert_eq!(run(at, Operation::CompareSwap { compare: 2, swap: 9 }), Ok(1));
        assert_eq!(run(at, Operation::CompareSwap { compare: 1, swap: 9 }), Ok(1));
        assert_eq!(run(at, Operation::Write(5)), Ok(9));
        assert_eq!(cell.load(Ordering::Relaxed), 5);
        assert_eq!(run(at + 4, Operation::Write(5)), Err(Failure::Unaligned));
        assert_eq!(run(8, Operation::Write(5)), Err(Failure::Fault(Fault::Remote)));
        assert_eq!(me.atomics_lock(at).unwrap().owner(), None);
    }

    /// Children add to the parent's memory; one dies with the lock.
    #[test]
    fn processes_lose_no_addition() {
        let dir = TestDir::new("atomics");
        let me = Segment::create(dir.folder()).unwrap();
        let cell = Box::new(AtomicU64::new(0));
        let at = cell.as_ptr() as u64;
        let folder = me.folder().clone();
        std::thread::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    let status = in_child(|| {
                        let own = Segment::create(folder.clone()).unwrap();
                        let peer = Peer::open(&folder, 0).unwrap();
                        let to = peer.image().unwrap();
                        let lock = peer.atomics_lock(at).unwrap();
                        for _ in 0..2000 {
                            // SAFETY: the bytes are the parent's atomic, which it does not touch meanwhile.
                            let r = unsafe {
                                execute(lock, own.owner(), &own, LIMIT, &to, at, Operation::FetchAdd(1))
                            };
                            r.unwrap();
                        }
                        let _ = lock.lock(own.owner(), &own, LIMIT).unwrap();
                        std::mem::forget(own);
                        true
                    });
                    assert_eq!(status, 0);
                });
            }
        });
        assert_eq!(cell.load(Ordering::Relaxed), 6000);
    }

    /// Eight aligned bytes arrive as one store: a processor that looks on never sees half of a value.
    #[test]
    fn aligned_words_do_not_tear() {
        let cell = Box::new(AtomicU64::new(0));
        let at = cell.as_ptr() as u64;
        let parent = Image::own();
        std::thread::scope(|s| {
            let writer = s.spawn(|| {
                in_child(|| {
                    let mut value = 0u64;
                    (0..100_000).all(|_| {
                        value = !value;
                        let here = [Span { addr: (&raw mut value) as u64, len: 8 }];
                        // SAFETY: the bytes are the parent's atomic.
                        unsafe { transfer(&parent, Direction::Write, &here, &[Span { addr: at, len: 8 }]) }
                            .is_ok()
                    })
                })
            });
            while !writer.is_finished() {
                let seen = cell.load(Ordering::Relaxed);
                assert!(seen == 0 || seen == u64::MAX, "{seen:#x}");
            }
            assert_eq!(writer.join().unwrap(), 0);
        });
    }
}
