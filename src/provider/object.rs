//! How C handles and Rust objects are one: the C struct is the first field of the provider's struct, which lives in a
//! box from creation to destruction. This file is the only place that casts between the two.

use core::ptr::NonNull;

/// A Rust object that a C program knows by a pointer to its first field.
///
/// # Safety
/// The implementor is `#[repr(C)]` and its first field has type `Handle` (or a struct that starts with one).
pub unsafe trait Object: Sized {
    /// The public C struct, for example `ibv_cq`.
    type Handle;
}

/// Gives the object to the C program. It stays alive until [`reclaim`].
pub fn publish<T: Object>(object: Box<T>) -> NonNull<T::Handle> {
    NonNull::from(Box::leak(object)).cast()
}

/// The object behind a handle.
///
/// # Safety
/// `handle` came from [`publish`] for this very `T` and has not been reclaimed; the C program keeps it alive for `'a`,
/// as every verb demands of its caller.
pub unsafe fn borrow<'a, T: Object>(handle: NonNull<T::Handle>) -> &'a T {
    // SAFETY: by the contract the allocation is a live T, and the handle is its first field, so at the same address.
    unsafe { handle.cast::<T>().as_ref() }
}

/// Takes the object back; the C program may not use the handle any more.
///
/// # Safety
/// As for [`borrow`], and no borrow of the object is alive.
pub unsafe fn reclaim<T: Object>(handle: NonNull<T::Handle>) -> Box<T> {
    // SAFETY: by the contract the pointer is the one that Box::leak gave in `publish`, and nobody else holds it.
    unsafe { Box::from_raw(handle.cast::<T>().as_ptr()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C)]
    struct Public {
        number: u32,
    }
    #[repr(C)]
    struct Private {
        public: Public,
        name: String,
    }
    // SAFETY: repr(C), and the first field is the handle type.
    unsafe impl Object for Private {
        type Handle = Public;
    }

    #[test]
    fn a_published_object_comes_back_whole() {
        let handle = publish(Box::new(Private { public: Public { number: 7 }, name: "seven".to_owned() }));
        // SAFETY: published just above, alive, and of this type.
        unsafe {
            assert_eq!(handle.as_ref().number, 7);
            assert_eq!(borrow::<Private>(handle).name, "seven");
            assert_eq!(reclaim::<Private>(handle).name, "seven");
        }
    }
}
