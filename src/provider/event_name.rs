//! Objects whose address is the device's name for them in events.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::disallowed_macros))]

use core::mem::MaybeUninit;

use ironverbs_os::growth::small_box;

use crate::errno::Result;
use crate::provider::object::{Handle, Object};

/// Makes such an object. Its place comes first: `command` tells the device the address, `finish` makes what
/// stands there. Where that fails, `undo` takes the device's side back, and the error is in `errno` as well;
/// nobody has got an event of the object yet, so there is nothing to wait for.
pub fn create<C, O: Object>(
    command: impl FnOnce(u64) -> Result<C>,
    finish: impl FnOnce(&C) -> Result<O>,
    undo: impl FnOnce(&C),
) -> Result<Handle<O::Public>> {
    let mut place = small_box(MaybeUninit::<O>::uninit());
    let created = command(place.as_ptr().expose_provenance() as u64)?;
    match finish(&created) {
        Ok(object) => {
            place.write(object);
            // SAFETY: just written.
            Ok(Handle::publish(unsafe { place.assume_init() }))
        }
        Err(errno) => {
            undo(&created);
            Err(errno.also_set())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::errno::Errno;
    use core::cell::Cell;

    #[repr(C)]
    struct Numbered {
        number: u32,
    }
    // SAFETY: repr(C), and the first field is the public type.
    unsafe impl Object for Numbered {
        type Public = u32;
    }

    #[test]
    fn the_device_is_told_the_address_that_the_program_gets() {
        let told = Cell::new(0);
        let command = |name| {
            told.set(name);
            Ok(7)
        };
        let handle = create(command, |number| Ok(Numbered { number: *number }), |_| panic!("kept")).unwrap();
        assert_eq!(told.get(), handle.as_ptr() as u64);
        // SAFETY: published just above, of this type.
        assert_eq!(unsafe { handle.reclaim::<Numbered>() }.number, 7);
    }

    #[test]
    fn what_cannot_be_finished_is_undone_and_keeps_its_error() {
        let undone = Cell::new(0);
        let undo = |number: &u32| {
            undone.set(*number);
            Errno::EIO.set();
        };
        let failed = create(|_| Ok(7), |_| Err::<Numbered, _>(Errno::ENOMEM), undo);
        assert_eq!((failed.unwrap_err(), Errno::last(), undone.get()), (Errno::ENOMEM, Errno::ENOMEM, 7));
    }

    #[test]
    fn what_the_device_refuses_is_not_begun() {
        let finish = |_: &u32| -> Result<Numbered> { panic!("nothing to finish") };
        let refused = create(|_| Err(Errno::EINVAL), finish, |_| panic!("nothing to undo"));
        assert_eq!(refused.unwrap_err(), Errno::EINVAL);
    }
}
