//! Protection domains, thread domains, and the parent domains that join the two; protection domains of somebody
//! else.
//!
//! The device knows the protection domain alone, by a number. A parent domain has its number, so that every
//! operation takes either; what it adds is the promise of its thread domain, which spares the queues made under
//! it their locked instructions. The queues themselves lie in memory of the device, so a parent domain's
//! allocators have nothing to allocate here.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::disallowed_macros))]

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU32, Ordering};

use ironverbs_os::growth::small_box;

use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::provider::object::{Handle, Object};

/// A protection domain or a parent domain.
#[repr(C)]
struct Pd {
    public: UnsafeCell<ibv_pd>,
    /// Parent domains that stand for this one.
    parents: AtomicU32,
    /// What a parent domain is made of; none for a protection domain.
    parts: Option<Parts>,
    /// Somebody else's protection domain.
    imported: bool,
}

impl Pd {
    fn publish(public: ibv_pd, parts: Option<Parts>, imported: bool) -> Handle<ibv_pd> {
        let public = UnsafeCell::new(public);
        Handle::publish(small_box(Self { public, parents: AtomicU32::new(0), parts, imported }))
    }
}

/// What a parent domain joins.
struct Parts {
    pd: Handle<ibv_pd>,
    td: Option<Handle<ibv_td>>,
}

// SAFETY: repr(C), and the first field is the public struct.
unsafe impl Object for Pd {
    type Public = ibv_pd;
}

#[repr(C)]
struct Td {
    public: UnsafeCell<ibv_td>,
    /// Parent domains that name this one.
    parents: AtomicU32,
}

// SAFETY: repr(C), and the first field is the public struct.
unsafe impl Object for Td {
    type Public = ibv_td;
}

/// The protection domain that the device knows by this number, without the context that it belongs to.
pub fn publish(handle: u32) -> Handle<ibv_pd> {
    Pd::publish(ibv_pd { context: core::ptr::null_mut(), handle }, None, false)
}

/// The protection domain that somebody else allocated under this number, as one of `context`.
pub fn publish_imported(context: Handle<ibv_context>, handle: u32) -> Handle<ibv_pd> {
    Pd::publish(ibv_pd { context: context.as_ptr(), handle }, None, true)
}

/// Forgets an imported protection domain, which stays in the kernel. What was not imported stays as it is, and
/// so does a domain that a parent domain stands for.
pub fn unimport(pd: Handle<ibv_pd>) {
    // SAFETY: all domains are published as Pd.
    let object = unsafe { pd.object::<Pd>() };
    if object.imported && object.parents.load(Ordering::Acquire) == 0 {
        // SAFETY: the program gives up the handle, which was published as a Pd.
        drop(unsafe { pd.reclaim::<Pd>() });
    }
}

/// Frees a protection domain, which `free` ends in the device by its number; or a parent domain, of which the
/// device knows nothing. EBUSY while a parent domain stands for it.
pub fn dealloc(pd: Handle<ibv_pd>, free: impl FnOnce(u32) -> Result<()>) -> Result<()> {
    // SAFETY: all domains are published as Pd.
    let object = unsafe { pd.object::<Pd>() };
    if object.parents.load(Ordering::Acquire) != 0 {
        return Err(Errno::EBUSY);
    }
    match &object.parts {
        Some(parts) => parts.count(|parents| {
            parents.fetch_sub(1, Ordering::Release);
        }),
        // SAFETY: a live handle.
        None => free(unsafe { (*pd.as_ptr()).handle })?,
    }
    // SAFETY: the program gives up the handle, which was published as a Pd.
    drop(unsafe { pd.reclaim::<Pd>() });
    Ok(())
}

/// Makes a thread domain; EINVAL for attributes that nobody knows.
pub fn alloc_td(attr: &ibv_td_init_attr) -> Result<Handle<ibv_td>> {
    if attr.comp_mask != 0 {
        return Err(Errno::EINVAL);
    }
    let public = UnsafeCell::new(ibv_td { context: core::ptr::null_mut() });
    Ok(Handle::publish(small_box(Td { public, parents: AtomicU32::new(0) })))
}

/// Frees a thread domain; EBUSY while a parent domain names it.
pub fn dealloc_td(td: Handle<ibv_td>) -> Result<()> {
    // SAFETY: all thread domains are published as Td.
    if unsafe { td.object::<Td>() }.parents.load(Ordering::Acquire) != 0 {
        return Err(Errno::EBUSY);
    }
    // SAFETY: the program gives up the handle, which was published as a Td.
    drop(unsafe { td.reclaim::<Td>() });
    Ok(())
}

/// Makes a parent domain; EINVAL without a protection domain, and for attributes that nobody knows.
pub fn alloc_parent(attr: &ibv_parent_domain_init_attr) -> Result<Handle<ibv_pd>> {
    // The third allows memory that only a device behind a guest's bounce buffers needs; plain memory does here.
    const KNOWN: u32 = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS as u32
        | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT as u32
        | IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC as u32;
    // SAFETY: the program passes live domains or null.
    let parts = unsafe { Parts { pd: Handle::from_c(attr.pd)?, td: Handle::optional(attr.td) } };
    if attr.comp_mask & !KNOWN != 0 {
        return Err(Errno::EINVAL);
    }
    parts.count(|parents| {
        parents.fetch_add(1, Ordering::Relaxed);
    });
    // SAFETY: a live handle; context and number are all that an ibv_pd is.
    let public = unsafe { *parts.pd.as_ptr() };
    Ok(Pd::publish(public, Some(parts), false))
}

/// Whether queues made under the domain are used by one thread at a time.
///
/// # Safety
/// `pd` is null or a live domain of this module.
pub unsafe fn one_thread(pd: *mut ibv_pd) -> bool {
    // SAFETY: by the contract.
    let object = unsafe { Pd::from_c(pd) };
    object.and_then(|pd| pd.parts.as_ref()).is_some_and(|parts| parts.td.is_some())
}

impl Parts {
    /// Changes the counters of the domains that this one is made of.
    fn count(&self, change: impl Fn(&AtomicU32)) {
        // SAFETY: published as these; they stay alive as long as they are counted.
        unsafe {
            change(&self.pd.object::<Pd>().parents);
            if let Some(td) = self.td {
                change(&td.object::<Td>().parents);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ptr::null_mut;

    fn plain() -> Handle<ibv_pd> {
        publish(7)
    }

    fn attributes(pd: *mut ibv_pd, td: *mut ibv_td) -> ibv_parent_domain_init_attr {
        ibv_parent_domain_init_attr { pd, td, comp_mask: 0, alloc: None, free: None, pd_context: null_mut() }
    }

    fn parents(pd: Handle<ibv_pd>) -> u32 {
        // SAFETY: published as a Pd and alive.
        unsafe { pd.object::<Pd>() }.parents.load(Ordering::Relaxed)
    }

    /// Frees a parent domain.
    fn free_parent(pd: Handle<ibv_pd>) -> Result<()> {
        dealloc(pd, |handle| panic!("the device is not asked to free {handle}"))
    }

    #[test]
    fn a_parent_domain_stands_for_its_parts_and_keeps_them_busy() {
        let pd = plain();
        let td = alloc_td(&ibv_td_init_attr { comp_mask: 0 }).unwrap();
        let outer = alloc_parent(&attributes(pd.as_ptr(), td.as_ptr())).unwrap();
        let inner = alloc_parent(&attributes(outer.as_ptr(), null_mut())).unwrap();
        // SAFETY: live domains.
        unsafe {
            assert_eq!((*inner.as_ptr()).handle, 7);
            assert!(one_thread(outer.as_ptr()) && !one_thread(inner.as_ptr()) && !one_thread(pd.as_ptr()));
            assert!(!one_thread(null_mut()));
        }
        assert_eq!((parents(pd), parents(outer), parents(inner)), (1, 1, 0));
        assert_eq!(dealloc_td(td), Err(Errno::EBUSY));
        assert_eq!(free_parent(outer), Err(Errno::EBUSY));
        free_parent(inner).unwrap();
        free_parent(outer).unwrap();
        assert_eq!(parents(pd), 0);
        dealloc_td(td).unwrap();
        // SAFETY: published as a Pd; nobody else has it.
        drop(unsafe { pd.reclaim::<Pd>() });
    }

    #[test]
    fn only_an_imported_domain_without_parents_is_forgotten() {
        let pd = Pd::publish(ibv_pd { context: null_mut(), handle: 7 }, None, true);
        let outer = alloc_parent(&attributes(pd.as_ptr(), null_mut())).unwrap();
        unimport(pd);
        unimport(outer);
        assert_eq!((parents(pd), parents(outer)), (1, 0));
        free_parent(outer).unwrap();
        assert_eq!(parents(pd), 0);
        // Miri and sanitizers tell if it is not freed.
        unimport(pd);
        let own = plain();
        unimport(own);
        assert_eq!(parents(own), 0);
        // SAFETY: published as a Pd; nobody else has it.
        drop(unsafe { own.reclaim::<Pd>() });
    }

    #[test]
    fn what_nobody_knows_is_refused() {
        assert_eq!(alloc_td(&ibv_td_init_attr { comp_mask: 1 }).unwrap_err(), Errno::EINVAL);
        assert_eq!(alloc_parent(&attributes(null_mut(), null_mut())).unwrap_err(), Errno::EINVAL);
        let pd = plain();
        let mut attr = attributes(pd.as_ptr(), null_mut());
        attr.comp_mask = 8;
        assert_eq!(alloc_parent(&attr).unwrap_err(), Errno::EINVAL);
        assert_eq!(parents(pd), 0);
        attr.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC as u32;
        free_parent(alloc_parent(&attr).unwrap()).unwrap();
        // SAFETY: as above.
        drop(unsafe { pd.reclaim::<Pd>() });
    }
}
