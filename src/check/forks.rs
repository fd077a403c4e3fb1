//! The rule of forks: on some kernels, a fork leaves registered pages to the child.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use super::objects::{Detail, Ledger};
use super::report::Findings;
use super::rules::Id;
use crate::abi::verbs::*;
use crate::environment::harmless;
use crate::provider::context;
use crate::uverbs::discovery;

/// Whether protection was asked for.
static IS_PROTECTED: AtomicBool = AtomicBool::new(false);
/// Whether the kernel copies registered pages: 0 nobody asked, 1 yes, 2 no.
static COPIES: AtomicU8 = AtomicU8::new(0);

/// The program has called `ibv_fork_init`, with success.
pub fn protect() {
    IS_PROTECTED.store(true, Ordering::Release);
}

/// Has forks seen from now on.
pub fn watch() {
    extern "C" fn before() {
        super::forking();
    }
    let asked = |name: &str| harmless(name).is_some_and(|value| value != "0");
    if asked("RDMAV_FORK_SAFE") || asked("IBV_FORK_SAFE") {
        protect();
    }
    // SAFETY: a function of this library, which is never unloaded.
    unsafe { libc::pthread_atfork(Some(before), None, None) };
}

/// Whether a fork would take the pages of a region just made from its device. Not while a lock is held.
///
/// # Safety
/// `context` is null or open.
pub unsafe fn is_at_risk(context: *mut ibv_context) -> bool {
    // SAFETY: by the contract.
    let pins = unsafe { context::provider(context) }.is_ok_and(|provider| provider.pins());
    if !pins || IS_PROTECTED.load(Ordering::Acquire) {
        return false;
    }
    if COPIES.load(Ordering::Relaxed) == 0 {
        COPIES.store(if discovery::copy_on_fork() { 1 } else { 2 }, Ordering::Relaxed);
    }
    COPIES.load(Ordering::Relaxed) == 2
}

/// The process is about to fork.
pub fn judge(ledger: &Ledger, found: &mut Findings) {
    let at_risk = |detail: &Detail| matches!(detail, Detail::Region(region) if region.is_at_risk);
    let mut regions = ledger.objects.values().filter(|object| at_risk(&object.detail));
    if let Some(first) = regions.next() {
        let what = format!("the process forks with {} such regions", 1 + regions.count());
        found.error(Id::ForkUnsafe, what, first.about());
    }
}
