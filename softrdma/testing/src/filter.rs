//! Real filters of system calls, as containers have them.

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
