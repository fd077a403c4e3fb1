//! Real filters of system calls, as containers have them.

use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use libc::sock_filter;

fn stmt(code: u32, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

/// Skips so many instructions where the word is this one, and so many where it is not.
fn jump(k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16, jt, jf, k }
}

/// A word of what the kernel says of a call: its number, or the lower half of an argument on a little-endian
/// machine.
fn load(at: u32) -> sock_filter {
    stmt(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, at)
}

const NUMBER: u32 = 0;
const fn argument(n: u32) -> u32 {
    16 + 8 * n
}

fn answer(answer: u32) -> sock_filter {
    stmt(libc::BPF_RET | libc::BPF_K, answer)
}

fn install(filter: &mut [sock_filter]) {
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the filter is read during the call; the process gives up rights and nothing else.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program), 0);
    }
}

/// Makes `process_vm_readv` and `process_vm_writev` fail with `EPERM` in this process from now on.
pub fn forbid_direct_copies() {
    install(&mut [
        load(NUMBER),
        jump(libc::SYS_process_vm_readv as u32, 2, 0),
        jump(libc::SYS_process_vm_writev as u32, 1, 0),
        answer(libc::SECCOMP_RET_ALLOW),
        answer(libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
    ]);
}

/// Makes each `sendmsg`, and so all that is sent as one message, fail with this `errno` value in this process
/// from now on.
pub fn forbid_single_messages(errno: i32) {
    install(&mut [
        load(NUMBER),
        jump(libc::SYS_sendmsg as u32, 1, 0),
        answer(libc::SECCOMP_RET_ALLOW),
        answer(libc::SECCOMP_RET_ERRNO | errno.cast_unsigned()),
    ]);
}

/// Ends this process when the calling thread is about to ring a bell: a `write` of one byte.
pub fn die_at_bells() {
    install(&mut [
        load(NUMBER),
        jump(libc::SYS_write as u32, 0, 2),
        load(argument(2)),
        jump(1, 1, 0),
        answer(libc::SECCOMP_RET_ALLOW),
        answer(libc::SECCOMP_RET_KILL_PROCESS),
    ]);
}

/// Copies that a thread is about to make by the kernel, each of which waits until it is let go on.
#[derive(Debug)]
pub struct Copies(OwnedFd);

/// Holds the calling thread at each `process_vm_writev` from now on.
pub fn hold_at_direct_copies() -> Copies {
    let mut filter = [
        load(NUMBER),
        jump(libc::SYS_process_vm_writev as u32, 1, 0),
        answer(libc::SECCOMP_RET_ALLOW),
        answer(libc::SECCOMP_RET_USER_NOTIF),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: as in `install`, of the calling thread alone; the answer is a descriptor that nothing else has.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let (mode, flags) = (libc::SECCOMP_SET_MODE_FILTER, libc::SECCOMP_FILTER_FLAG_NEW_LISTENER);
        let fd = libc::syscall(libc::SYS_seccomp, mode, flags, &raw const program);
        assert!(fd >= 0, "{}", std::io::Error::last_os_error());
        Copies(OwnedFd::from_raw_fd(fd as i32))
    }
}

impl Copies {
    /// Waits for the next one; `None` when the thread has ended.
    pub fn next(&self) -> Option<u64> {
        // SAFETY: numbers, of which zeroes are values, and which the call fills.
        unsafe {
            let mut call: libc::seccomp_notif = std::mem::zeroed();
            let mut poll = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            assert_eq!(libc::poll(&raw mut poll, 1, -1), 1);
            if poll.revents & libc::POLLIN == 0 {
                return None;
            }
            (libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut call) == 0)
                .then_some(call.id)
        }
    }

    /// Lets it go on.
    pub fn go_on(&self, copy: u64) {
        // SAFETY: numbers, which the call reads.
        unsafe {
            let mut answer: libc::seccomp_notif_resp = std::mem::zeroed();
            (answer.id, answer.flags) = (copy, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32);
            assert_eq!(libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut answer), 0);
        }
    }
}
