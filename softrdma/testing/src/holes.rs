//! Memory of a program that is not there.

use softrdma::rules::receive::Sge;
use softrdma::rules::verbs::QpType;

use crate::device::{ALL, End, Node};

/// Bytes of a page.
pub const PAGE: u64 = 4096;

/// Pages of memory, of which a hole can be made.
pub struct Pages(pub u64, u64);

impl Pages {
    pub fn new(count: u64) -> Self {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping at an address of the kernel's choice.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), (count * PAGE) as usize, access, kind, -1, 0) };
        assert_ne!(at, libc::MAP_FAILED);
        Pages(at as u64, count)
    }

    /// Takes the rights to a page away; nothing else is mapped there meanwhile.
    pub fn protect(&self, page: u64, rights: libc::c_int) {
        // SAFETY: within the mapping, and nothing looks into it but the device.
        unsafe { assert_eq!(libc::mprotect((self.0 + page * PAGE) as *mut _, PAGE as usize, rights), 0) };
    }

    pub fn word(&self, at: u64) -> *mut u64 {
        (self.0 + at) as *mut u64
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the mapping that `new` made.
        unsafe { libc::munmap(self.0 as *mut _, (self.1 * PAGE) as usize) };
    }
}

/// One side of a connection that has memory with a hole in a region with pages on demand: the second of three
/// pages.
pub struct Holey {
    pub end: End,
    pub pages: Pages,
    pub lkey: u32,
}

impl Holey {
    pub fn new(node: &Node, qp_type: QpType) -> Self {
        let pages = Pages::new(3);
        let region = node.device.register_on_demand(node.pd, pages.0, 3 * PAGE, pages.0, ALL).unwrap();
        pages.protect(1, libc::PROT_NONE);
        Holey { end: node.end(qp_type), pages, lkey: region.lkey }
    }

    pub fn sge(&self, offset: u64, length: u64) -> Sge {
        Sge { addr: self.pages.0 + offset, length: length as u32, lkey: self.lkey }
    }
}
