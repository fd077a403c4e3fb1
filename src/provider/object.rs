//! How C handles and Rust objects are one: the C struct is the first field of the provider's struct, which
//! lives in a box from creation to destruction. This file is the only place that casts between the two.

use core::fmt;
use core::ptr::NonNull;

use crate::errno::{Errno, Result};

/// A Rust object that a C program knows by a pointer to its first field.
///
/// # Safety
/// The implementor is `#[repr(C)]` and its first field is a `Public`, or a struct that starts with one.
pub unsafe trait Object: Sized {
    /// The public C struct, for example `ibv_cq`.
    type Public;

    /// The object behind a pointer of the program; none for null.
    ///
    /// # Safety
    /// `public` is null, or live and published as this type.
    #[inline(always)]
    unsafe fn from_c<'a>(public: *mut Self::Public) -> Option<&'a Self>
    where
        Self: 'a,
    {
        // SAFETY: by the contract.
        unsafe { Handle::optional(public).map(|public| public.object::<Self>()) }
    }

    /// The object whose extended public part (`ibv_cq_ex`, `ibv_qp_ex`) holds the function that was called.
    ///
    /// # Safety
    /// `extended` is live and published as this type.
    #[inline(always)]
    unsafe fn from_extended<'a, T>(extended: *mut T) -> &'a Self
    where
        Self: 'a,
    {
        // SAFETY: an extended part starts as the plain one does. It is not null: the function was found there.
        unsafe { Self::from_c(extended.cast()).unwrap_unchecked() }
    }
}

/// A live C object: the program's promise that a pointer it passed is one we gave it, of that kind, of the
/// context that the call goes to, and not destroyed before the call ends.
///
/// The promise is taken once, where the pointer enters the library ([`Handle::from_c`]); below, code relies on
/// it.
pub struct Handle<T>(NonNull<T>);

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Handle<T> {}

impl<T> fmt::Debug for Handle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T> Handle<T> {
    /// Takes the promise; a null pointer is EINVAL.
    ///
    /// # Safety
    /// A non-null `pointer` is live as the type's documentation says.
    #[inline(always)]
    pub unsafe fn from_c(pointer: *mut T) -> Result<Self> {
        NonNull::new(pointer).map(Self).ok_or(Errno::EINVAL)
    }

    /// As [`Handle::from_c`], for the optional pointers of the C API.
    ///
    /// # Safety
    /// A non-null `pointer` is live as the type's documentation says.
    #[inline(always)]
    pub unsafe fn optional(pointer: *mut T) -> Option<Self> {
        NonNull::new(pointer).map(Self)
    }

    /// Gives an object to the C program. It stays alive until [`Handle::reclaim`].
    pub fn publish<O: Object<Public = T>>(object: Box<O>) -> Self {
        Self(NonNull::from(Box::leak(object)).cast())
    }

    /// The C pointer, which is not null.
    pub fn as_non_null(self) -> NonNull<T> {
        self.0
    }

    /// The pointer that the C program knows.
    #[inline(always)]
    pub fn as_ptr(self) -> *mut T {
        self.0.as_ptr()
    }

    /// The provider's object behind the handle.
    ///
    /// # Safety
    /// `O` is the type that the handle was published with: a provider's own type, since a handle belongs to the
    /// context that the call was dispatched to.
    #[inline(always)]
    pub unsafe fn object<'a, O: Object<Public = T>>(self) -> &'a O {
        // SAFETY: the handle is live, it was published as O, and its first field stands at the address of the
        // whole.
        unsafe { self.0.cast::<O>().as_ref() }
    }

    /// Takes the object back; the C program may not use the handle any more.
    ///
    /// # Safety
    /// As for [`Handle::object`], and no borrow of the object is alive.
    pub unsafe fn reclaim<O: Object<Public = T>>(self) -> Box<O> {
        // SAFETY: by the contract this is the pointer that Box::leak gave in `publish`, and nobody else holds
        // it.
        unsafe { Box::from_raw(self.0.cast::<O>().as_ptr()) }
    }
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
    // SAFETY: repr(C), and the first field is the public type.
    unsafe impl Object for Private {
        type Public = Public;
    }

    #[test]
    fn a_published_object_comes_back_whole() {
        let handle =
            Handle::publish(Box::new(Private { public: Public { number: 7 }, name: "seven".to_owned() }));
        // SAFETY: published just above, alive, and of this type.
        unsafe {
            assert_eq!((*handle.as_ptr()).number, 7);
            assert_eq!(handle.object::<Private>().name, "seven");
            assert_eq!(handle.reclaim::<Private>().name, "seven");
        }
    }

    #[test]
    fn null_is_refused() {
        // SAFETY: null carries no promise.
        unsafe {
            assert_eq!(Handle::<Public>::from_c(core::ptr::null_mut()).unwrap_err(), Errno::EINVAL);
            assert!(Handle::<Public>::optional(core::ptr::null_mut()).is_none());
        }
    }
}
