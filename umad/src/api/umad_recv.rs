//! `umad_recv(3)`

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU8, Ordering};

use ironverbs_os::errno::Errno;
use ironverbs_os::file;
use nix::fcntl::{F_GETFL, fcntl};

use super::umad_poll::wait;
use crate::abi::umad::ib_user_mad;
use crate::debug::{address, trace};
use crate::device_file;

unsafe extern "C-unwind" {
    /// A thread may be cancelled here: the stack unwinds through frames with nothing to drop.
    #[link_name = "read"]
    fn cancellable_read(fd: c_int, to: *mut c_void, length: usize) -> isize;
}

/// Waits up to `timeout_ms`, for ever if that is negative, and takes a datagram of up to `length` bytes. The
/// agent's number; or -errno with the error in `errno`, and `length` is then what the header says that the
/// datagram needs, which stays in the kernel.
///
/// # Safety
/// `umad` is null or a buffer with a header and `length` bytes behind it; `length` is null or a number.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn umad_recv(
    portid: c_int,
    umad: *mut c_void,
    length: *mut c_int,
    timeout_ms: c_int,
) -> c_int {
    Errno(0).set();
    trace!("umad_recv", "fd %d umad %p timeout %u", portid, address(umad), timeout_ms);
    if umad.is_null() || length.is_null() {
        Errno::EINVAL.set();
        return -libc::EINVAL;
    }
    let mad: *const ib_user_mad = umad.cast();
    // SAFETY: by the contract, and neither is null; they may lie anywhere.
    let number = |field: *const u32| unsafe { field.read_unaligned() };
    // SAFETY: as above.
    let set_length = |value: usize| unsafe { length.write_unaligned(value as c_int) };
    // SAFETY: as above.
    let asked = unsafe { length.read_unaligned() };
    let header = device_file::header_size();
    // As C adds them: a length that makes no sense is the kernel's to refuse.
    let room = header.wrapping_add(asked as usize);

    let mut got = -1;
    let mut done = false;
    if timeout_ms != 0 {
        if may_be_there(portid) {
            // SAFETY: by the contract the buffer has so many bytes.
            got = unsafe { cancellable_read(portid, umad, room) } as c_int;
            done = got >= 0 || Errno::last() != Errno::EAGAIN;
            remember(portid, done);
        }
        if !done {
            Errno(0).set();
            let waited = wait(portid, timeout_ms);
            if waited < 0 {
                if Errno::last().0 == 0 {
                    Errno(-waited).set();
                }
                return waited;
            }
        }
    }
    if !done {
        // SAFETY: as above.
        got = unsafe { cancellable_read(portid, umad, room) } as c_int;
    }

    if got >= 0 && got as usize <= room {
        // SAFETY: a field of the buffer.
        let agent = number(unsafe { &raw const (*mad).agent_id }) as c_int;
        trace!("umad_recv", "mad received by agent %d length %d", agent, got);
        set_length((got as usize).saturating_sub(header));
        return agent;
    }
    if got == -libc::EWOULDBLOCK {
        // The answer of a library that replaces the C library's function and reports so.
        if Errno::last().0 == 0 {
            Errno::EAGAIN.set();
        }
        return got;
    }
    // SAFETY: as above.
    let needed = (number(unsafe { &raw const (*mad).length }) as usize).wrapping_sub(header);
    trace!("umad_recv", "read returned %zu > sizeof umad %zu + length %d (%m)", needed, header, asked,);
    set_length(needed);
    if Errno::last().0 == 0 {
        Errno::EIO.set();
    }
    -Errno::last().0
}

/// How many of the next calls wait before they read, by descriptor.
static WAITS: [AtomicU8; 64] = [const { AtomicU8::new(0) }; 64];
/// After a datagram was not there.
const AFTER_A_MISS: u8 = 15;

fn waits(fd: c_int) -> &'static AtomicU8 {
    &WAITS[fd as usize % WAITS.len()]
}

/// Whether to read without waiting first, which saves asking twice of a datagram that is there already. Where
/// datagrams were not there lately, it would cost a call more. A program may have made the file one whose
/// reading blocks, or have another open under that number: there it would wait longer than asked.
fn may_be_there(fd: c_int) -> bool {
    let waits = waits(fd);
    let left = waits.load(Ordering::Relaxed);
    if left > 0 {
        waits.store(left - 1, Ordering::Relaxed);
        return false;
    }
    let flags = file::borrowed(fd).map(|file| fcntl(file, F_GETFL));
    matches!(flags, Ok(Ok(flags)) if flags & libc::O_NONBLOCK != 0)
}

fn remember(fd: c_int, was_there: bool) {
    if !was_there {
        waits(fd).store(AFTER_A_MISS, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixDatagram;

    const HEADER: usize = 56;

    fn kernel() -> (UnixDatagram, UnixDatagram) {
        let (kernel, file) = UnixDatagram::pair().expect("two ends");
        file.set_nonblocking(true).expect("a socket can be");
        (kernel, file)
    }

    /// The answer, the length and the buffer, of which `room` bytes behind the header may be written.
    fn receive(file: &UnixDatagram, room: c_int, timeout_ms: c_int) -> (c_int, c_int, Vec<u8>) {
        let mut buffer = vec![0x5a; HEADER + room.max(0) as usize + 64];
        let mut length = room;
        // SAFETY: the buffer has header and room, and is longer.
        let agent =
            unsafe { umad_recv(file.as_raw_fd(), buffer.as_mut_ptr().cast(), &raw mut length, timeout_ms) };
        (agent, length, buffer)
    }

    #[test]
    fn a_datagram_comes_with_its_length_whether_it_was_there_or_not() {
        let (kernel, file) = kernel();
        for _ in 0..40 {
            let mut datagram = vec![0; HEADER + 256];
            datagram[0] = 7;
            kernel.send(&datagram).expect("room in the socket");
            let (agent, length, buffer) = receive(&file, 300, 1000);
            assert_eq!((agent, length), (7, 256));
            assert!(buffer[HEADER + 256..].iter().all(|byte| *byte == 0x5a));
            assert_eq!(receive(&file, 300, 1).0, -libc::ETIMEDOUT);
            assert_eq!(Errno::last().0, libc::ETIMEDOUT);
            assert_eq!(receive(&file, 300, 0).0, -libc::EAGAIN);
        }
    }

    #[test]
    fn a_file_whose_reading_blocks_is_waited_for_no_longer_than_asked() {
        let (_kernel, file) = kernel();
        file.set_nonblocking(false).expect("a socket can be");
        for _ in 0..20 {
            assert_eq!(receive(&file, 256, 1).0, -libc::ETIMEDOUT);
        }
    }

    #[test]
    fn what_is_missing_is_refused() {
        let (_kernel, file) = kernel();
        let mut length = 256;
        // SAFETY: null is allowed.
        let answers = unsafe {
            [
                umad_recv(file.as_raw_fd(), core::ptr::null_mut(), &raw mut length, 0),
                umad_recv(file.as_raw_fd(), [0u8; 64].as_mut_ptr().cast(), core::ptr::null_mut(), 0),
            ]
        };
        assert_eq!(answers, [-libc::EINVAL; 2]);
        assert_eq!(receive(&file, -(HEADER as c_int) - 1, 0).0, -Errno::last().0);
    }

    /// Whatever comes out of the file, of any length.
    #[test]
    fn fuzz_umad_datagrams() {
        let (kernel, file) = kernel();
        corpus::check!().with_type::<(Vec<u8>, u16, bool)>().for_each(|(datagram, room, waits)| {
            kernel.send(datagram).expect("room in the socket");
            let (_, length, buffer) = receive(&file, (*room).into(), (*waits).into());
            let taken = datagram.len().min(HEADER + usize::from(*room));
            assert_eq!(buffer[..taken], datagram[..taken]);
            assert!(buffer[taken..].iter().all(|byte| *byte == 0x5a));
            assert_eq!(length as usize, taken.saturating_sub(HEADER));
        });
    }
}
