//! Commands as they are copied for the kernel.

use super::*;

const REJECT: u32 = 9;
const DISCONNECT: u32 = 10;
/// The number that the kernel gives in these tests.
const THERE: u32 = 5;

fn command(number: u32, input: u16, body: &[u8]) -> Vec<u8> {
    [Header { command: number, input, output: 0 }.as_bytes(), body].concat()
}

#[test]
fn a_copy_has_all_that_the_kernel_reads() {
    // Whatever the lengths say, the kernel reads the whole struct.
    let body = [7; size_of::<layout::Reject>()];
    let bytes = command(REJECT, 0, &body);
    let copy = Copied::with_id(bytes.as_ptr() as u64, 12, THERE).unwrap();
    let got = &copy.bytes[size_of::<Header>()..][..body.len()];
    assert_eq!((copy.length, &got[..4], &got[4..]), (12, &THERE.to_ne_bytes()[..], &body[4..]));
    assert!(copy.bytes[size_of::<Header>() + body.len()..].iter().all(|byte| *byte == 0));
}

#[test]
fn a_copy_has_nothing_that_the_kernel_does_not_read() {
    // At the end of what is mapped.
    const PAGE: usize = 4096;
    // SAFETY: two new pages, of which the second one becomes a hole.
    let page = unsafe {
        let (rights, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let at = libc::mmap(std::ptr::null_mut(), 2 * PAGE, rights, kind, -1, 0);
        assert!(at != libc::MAP_FAILED && libc::munmap(at.byte_add(PAGE), PAGE) == 0);
        at.cast::<u8>()
    };
    let bytes = command(DISCONNECT, 4, &[0; 4]);
    // SAFETY: the end of the page, which nobody else uses.
    let from = unsafe {
        let from = page.add(PAGE - bytes.len());
        from.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        from as u64
    };
    let copy = Copied::with_id(from, 300, THERE).unwrap();
    assert_eq!((copy.length, &copy.bytes[..12]), (300, &command(DISCONNECT, 4, &THERE.to_ne_bytes())[..]));
    assert_eq!(Copied::with_id(from + 8, 300, THERE).unwrap_err(), libc::EFAULT);
}
