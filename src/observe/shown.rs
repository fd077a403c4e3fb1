//! How a value of each type is shown: numbers, objects, addresses.

use core::ffi::{CStr, c_char, c_void};
use core::fmt::Write;

use super::line::Line;
use super::names;
use crate::abi::verbs::*;

/// A value that can be shown.
pub trait Shown {
    /// Shows it.
    ///
    /// # Safety
    /// A pointer is null, or valid as the verb takes it.
    unsafe fn show(&self, line: &mut Line);

    /// The value as a word, where it is one: a number, flags, an address. What `ironverbs check` judges by.
    fn word(&self) -> u64 {
        0
    }
}

macro_rules! numbers {
    ($($number:ty)+) => {$(
        impl Shown for $number {
            unsafe fn show(&self, line: &mut Line) {
                let _ = write!(line, "{self}");
            }

            fn word(&self) -> u64 {
                *self as u64
            }
        }

        /// Where a number is, or is put.
        impl Shown for *mut $number {
            unsafe fn show(&self, line: &mut Line) {
                // SAFETY: by the contract.
                match unsafe { self.as_ref() } {
                    None => line.put("NULL"),
                    Some(value) => {
                        let _ = write!(line, "[{value}]");
                    }
                }
            }

            fn word(&self) -> u64 {
                *self as u64
            }
        }
    )+};
}

numbers! { i32 u8 u16 u32 u64 usize isize }

/// A number in hexadecimal digits.
pub struct Hex(pub u64);

impl Shown for Hex {
    unsafe fn show(&self, line: &mut Line) {
        let _ = write!(line, "{:#x}", self.0);
    }

    fn word(&self) -> u64 {
        self.0
    }
}

impl Shown for ibv_fork_status {
    unsafe fn show(&self, line: &mut Line) {
        let _ = names::FORK_STATUS.value(line, *self as u64);
    }
}

impl Shown for () {
    unsafe fn show(&self, line: &mut Line) {
        line.put("void");
    }
}

/// Whatever stands behind it.
pub struct Address<T>(pub *const T);

impl<T> Shown for Address<T> {
    unsafe fn show(&self, line: &mut Line) {
        line.address(self.0 as usize);
    }

    fn word(&self) -> u64 {
        self.0 as u64
    }
}

/// An element of the program's.
pub struct List<T>(pub *const T, pub usize);

impl<T> Shown for List<T>
where
    *mut T: Shown,
{
    unsafe fn show(&self, line: &mut Line) {
        /// More are counted, and not shown.
        const MOST: usize = 16;
        if self.0.is_null() {
            return line.put("NULL");
        }
        line.put("[");
        for at in 0..self.1.min(MOST) {
            line.put(if at > 0 { ", " } else { "" });
            // SAFETY: by the contract the list has as many elements.
            unsafe { self.0.add(at).cast_mut().show(line) };
        }
        if self.1 > MOST {
            let _ = write!(line, ", … {} more", self.1 - MOST);
        }
        line.put("]");
    }
}

impl Shown for *mut c_void {
    unsafe fn show(&self, line: &mut Line) {
        line.address(*self as usize);
    }

    fn word(&self) -> u64 {
        *self as u64
    }
}

impl Shown for *mut *mut c_void {
    unsafe fn show(&self, line: &mut Line) {
        // SAFETY: by the contract.
        let value = unsafe { self.as_ref() };
        match value {
            None => line.put("NULL"),
            Some(value) => {
                line.put("[");
                line.address(*value as usize);
                line.put("]");
            }
        }
    }
}

impl Shown for *const c_char {
    unsafe fn show(&self, line: &mut Line) {
        if self.is_null() {
            return line.put("NULL");
        }
        // SAFETY: by the contract, a C string.
        line.foreign(unsafe { CStr::from_ptr(*self) }.to_bytes());
    }
}

/// Objects that the command gives numbers.
macro_rules! objects {
    ($($object:ident $kind:literal;)+) => {$(
        impl Shown for *mut $object {
            unsafe fn show(&self, line: &mut Line) {
                line.object($kind, *self as usize);
            }

            fn word(&self) -> u64 {
                *self as u64
            }
        }

        impl Shown for *mut *mut $object {
            unsafe fn show(&self, line: &mut Line) {
                // SAFETY: by the contract.
                match unsafe { self.as_ref() } {
                    None => line.put("NULL"),
                    Some(object) => {
                        line.put("[");
                        line.object($kind, *object as usize);
                        line.put("]");
                    }
                }
            }

            fn word(&self) -> u64 {
                *self as u64
            }
        }
    )+};
}

objects! {
    ibv_pd "pd";
    ibv_td "td";
    ibv_xrcd "xrcd";
    ibv_mw "mw";
    ibv_dm "dm";
    ibv_dmah "dmah";
    ibv_buf "buf";
    ibv_comp_channel "channel";
    ibv_cq "cq";
    ibv_cq_ex "cq";
    ibv_srq "srq";
    ibv_wq "wq";
    ibv_rwq_ind_table "table";
    ibv_ah "ah";
    ibv_flow "flow";
    ibv_flow_action "action";
    ibv_counters "counters";
    ibv_comp_cntr "counter";
}

impl Shown for *mut ibv_device {
    unsafe fn show(&self, line: &mut Line) {
        // SAFETY: by the contract; a device has its name.
        match unsafe { self.as_ref() } {
            None => line.put("NULL"),
            Some(device) => name_of(device, line),
        }
    }
}

fn name_of(device: &ibv_device, line: &mut Line) {
    let name = device.name.iter().map(|letter| *letter as u8).take_while(|letter| *letter != 0);
    for letter in name {
        // What the kernel, or a plugin, calls a device.
        let _ = line.write_char(if letter.is_ascii_graphic() { char::from(letter) } else { '?' });
    }
}

impl Shown for *mut ibv_context {
    unsafe fn show(&self, line: &mut Line) {
        // SAFETY: by the contract; an open context names its device.
        match unsafe { self.as_ref() } {
            None => line.put("NULL"),
            // SAFETY: as above.
            Some(context) => unsafe { context.device.show(line) },
        }
    }

    fn word(&self) -> u64 {
        *self as u64
    }
}

impl Shown for *mut ibv_qp {
    unsafe fn show(&self, line: &mut Line) {
        // SAFETY: by the contract.
        match unsafe { self.as_ref() } {
            None => line.put("NULL"),
            Some(qp) => {
                let _ = write!(line, "{:#x}", qp.qp_num);
            }
        }
    }

    fn word(&self) -> u64 {
        *self as u64
    }
}

impl Shown for *mut ibv_qp_ex {
    unsafe fn show(&self, line: &mut Line) {
        // SAFETY: by the contract; a queue pair is the first field.
        unsafe { self.cast::<ibv_qp>().show(line) }
    }

    fn word(&self) -> u64 {
        *self as u64
    }
}

/// A region just made, with its keys.
pub struct NewRegion(pub *mut ibv_mr);

impl Shown for *mut ibv_mr {
    unsafe fn show(&self, line: &mut Line) {
        line.object("mr", *self as usize);
    }

    fn word(&self) -> u64 {
        *self as u64
    }
}

impl Shown for NewRegion {
    unsafe fn show(&self, line: &mut Line) {
        line.object("mr", self.0 as usize);
        // SAFETY: by the contract.
        if let Some(mr) = unsafe { self.0.as_ref() } {
            let _ = write!(line, " {{lkey={:#x}, rkey={:#x}}}", mr.lkey, mr.rkey);
        }
    }

    fn word(&self) -> u64 {
        self.0 as u64
    }
}

impl Shown for *mut *mut ibv_device {
    unsafe fn show(&self, line: &mut Line) {
        // SAFETY: by the contract, a list that ends with NULL.
        unsafe {
            if self.is_null() {
                return line.put("NULL");
            }
            line.put("[");
            let mut place = *self;
            while !(*place).is_null() {
                line.put(if place == *self { "" } else { ", " });
                (*place).show(line);
                place = place.add(1);
            }
            line.put("]");
        }
    }
}

impl Shown for ibv_gid {
    unsafe fn show(&self, line: &mut Line) {
        // SAFETY: every view of the GID union is 16 plain bytes.
        let raw = unsafe { self.raw };
        let _ = write!(line, "{}", core::net::Ipv6Addr::from(raw));
    }
}

impl Shown for *const ibv_gid {
    unsafe fn show(&self, line: &mut Line) {
        // SAFETY: by the contract.
        match unsafe { self.as_ref() } {
            None => line.put("NULL"),
            // SAFETY: as above.
            Some(gid) => unsafe { gid.show(line) },
        }
    }
}

impl Shown for *mut ibv_gid {
    unsafe fn show(&self, line: &mut Line) {
        // SAFETY: by the contract.
        unsafe { self.cast_const().show(line) }
    }
}
