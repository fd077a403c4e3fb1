//! Buffers whose kind the device chooses.

use core::ffi::c_void;

use crate::abi::verbs::*;
use crate::errno::Result;
use crate::provider::object::Handle;
use crate::provider::{CommandFile, buffer};

/// Buffers whose kind the device chooses.
#[allow(unused_variables)]
pub trait Bufs: CommandFile {
    /// Memory of `size` bytes at a page's start that suits the device; `buf` gets its handle.
    fn alloc_buf(&self, pd: Handle<ibv_pd>, size: usize, buf: &mut *mut ibv_buf) -> Result<*mut c_void> {
        buffer::allocate(pd, size, buf)
    }

    /// Frees what [`Bufs::alloc_buf`] made.
    fn free_buf(&self, buf: Handle<ibv_buf>) {
        buffer::free(buf)
    }
}
