//! Asynchronous events of a context.

use std::os::fd::{OwnedFd, RawFd};
use std::sync::{Arc, Mutex, PoisonError};

use softrdma::device::{Device, EventQueue, LinkWatch};
use softrdma::rules::verbs::Event;
use softrdma::shm::named::Named;
use softrdma::shm::watch::Watch;

use super::convert::refused;
use super::cq::Cq;
use super::gids::Gid;
use super::qp::Qp;
use super::srq::Srq;
use super::{SoftContext, device, port};
use crate::abi::verbs::{
    IBV_EVENT_GID_CHANGE, IBV_EVENT_PORT_ACTIVE, IBV_EVENT_PORT_ERR, ibv_cq, ibv_event_type,
    ibv_event_type_t, ibv_qp, ibv_srq,
};
use crate::errno::Result;
use crate::provider::object::Handle;
use crate::provider::verbs::{AsyncEvent, EventSource, Events};

/// What a context tells its program of: events of its objects, that the table of GIDs has changed, and what
/// becomes of the port's link.
pub struct AllEvents {
    /// Of the objects.
    pub queue: Arc<EventQueue>,
    watch: Watch,
    link: Option<LinkWatch>,
    /// The table of GIDs as the program was last told to look at it.
    seen: Mutex<Vec<Gid>>,
}

impl AllEvents {
    /// Of a context that is being opened.
    pub fn new(engine: &Arc<Device>, named: &Named) -> Result<Self> {
        let queue = EventQueue::new(engine).map_err(refused)?;
        // First this, so that no change is missed.
        let watch = Watch::new(engine.network()).map_err(|error| refused(error.into()))?;
        let link = LinkWatch::new().map_err(refused)?;
        Ok(Self { queue, watch, link, seen: Mutex::new(named.table(device::addresses_anew(engine))) })
    }

    /// The descriptor of the program's, which is readable while an event waits. The queue's own stays with the
    /// queue.
    pub fn open(&self) -> Result<OwnedFd> {
        let link = self.link.as_ref().map(LinkWatch::fd);
        self.watch.beside([self.queue.fd()].into_iter().chain(link)).map_err(|error| refused(error.into()))
    }

    /// Takes an event; None if there is none any more.
    ///
    /// The kernel also tells of changes that leave the table as it is. A call that came `at_once`, because the
    /// descriptor was readable, gets the event all the same where there is no other: with a file that blocks it
    /// would wait.
    pub fn next(&self, engine: &Device, named: &Named, at_once: bool) -> Option<AsyncEvent> {
        let of_port = |event: ibv_event_type| {
            let (event_type, element) = (event as ibv_event_type_t, u64::from(port::NUMBER));
            AsyncEvent { event_type, element }
        };
        let changed = || of_port(IBV_EVENT_GID_CHANGE);
        if let Some(is_back) = self.link.as_ref().and_then(LinkWatch::next) {
            return Some(of_port(if is_back { IBV_EVENT_PORT_ACTIVE } else { IBV_EVENT_PORT_ERR }));
        }
        let told = self.watch.has_changed();
        if told && self.has_other_gids(engine, named) {
            return Some(changed());
        }
        match self.queue.take(count) {
            Some((event, cookie)) => {
                Some(AsyncEvent { event_type: event as ibv_event_type_t, element: cookie as u64 })
            }
            None => (told && at_once).then(changed),
        }
    }

    fn has_other_gids(&self, engine: &Device, named: &Named) -> bool {
        let now = named.table(device::addresses_anew(engine));
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = *seen != now;
        *seen = now;
        changed
    }
}

impl Events for SoftContext {
    fn open_async_events(&self) -> Result<OwnedFd> {
        self.all_events.open()
    }

    fn async_event_source(&self, async_fd: RawFd) -> EventSource {
        EventSource { fd: async_fd, record: 0 }
    }

    fn next_async_event(&self, _record: &[u8], at_once: bool) -> Result<Option<AsyncEvent>> {
        Ok(self.all_events.next(&self.engine, &self.named, at_once))
    }
}

/// Counts an event that the program gets now; its object waits for as many acknowledgements when it is
/// destroyed.
fn count(event: Event, cookie: usize) {
    use Event::*;
    // SAFETY: the cookie is the address that the object was made with, and an object with events that nobody
    // took is alive: it drops them when it is destroyed.
    unsafe {
        match event {
            CqErr => {
                if let Ok(cq) = Handle::from_c(cookie as *mut ibv_cq) {
                    cq.object::<Cq>().events.count_asynchronous();
                }
            }
            SrqErr | SrqLimitReached => {
                if let Ok(srq) = Handle::from_c(cookie as *mut ibv_srq) {
                    srq.object::<Srq>().events.count_asynchronous();
                }
            }
            QpFatal | QpReqErr | QpAccessErr | CommEst | SqDrained | QpLastWqeReached => {
                if let Ok(qp) = Handle::from_c(cookie as *mut ibv_qp) {
                    qp.object::<Qp>().events.count_asynchronous();
                }
            }
        }
    }
}
