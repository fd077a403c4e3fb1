//! The end of a queue pair.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::device::deferred::DeferredQp;
use crate::device::stuck::SOON;
use crate::device::{Error, Result};
use crate::queues::flush::reset;
use crate::queues::shared::Object;
use crate::queues::transport::{Transport, acquire};
use crate::rules::verbs::{QpState, QpType};

use super::QueuePair;

impl QueuePair {
    /// Ends the queue pair. Its requests are gone without completions, and so are completions of it that nobody
    /// polled. An XRC target that others opened stays until the last of them has closed it.
    ///
    /// # Errors
    /// [`Error::Busy`] while it is in a multicast group.
    pub fn destroy(&self) -> Result<()> {
        if self.groups.load(Ordering::Acquire) > 0 {
            return Err(Error::Busy);
        }
        if !self.closed.swap(true, Ordering::AcqRel) {
            self.device.unsubscribe(Object::Qp(self.index), &self.init.events, self.init.cookie);
            self.close_once()?;
        }
        Ok(())
    }

    /// One more handle; `false` when the last was closed already.
    pub(in crate::device) fn open_once_more(&self) -> bool {
        self.handles
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |handles| (handles > 0).then_some(handles + 1))
            .is_ok()
    }

    /// One handle less. The queue pair ends with the last.
    pub(in crate::device) fn close_once(&self) -> Result<()> {
        if self.handles.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.end();
        }
        Ok(())
    }

    fn end(&self) {
        // A forked child has locks as the parent's threads had them then.
        let is_mine = self.device.is_mine();
        if is_mine {
            // The program may have seen what came before its answer left, and the peer would wait for that in
            // vain.
            self.answer();
        }
        self.set_far(false);
        self.talks_afar(false);
        let Some(mut side) = (if is_mine { Some(self.send_side()) } else { self.send_side_soon() }) else {
            return;
        };
        self.leave_far(&mut side);
        side.ring.clear();
        side.unflushed = false;
        side.requester.set_state(QpState::Reset);
        self.schedule(&mut side);
        // Before its number may be another's, which would go on writing to the peer's ring.
        side.carrier.end();
        self.end_shared();
        self.detach_counters(&mut side.counters);
        self.device.receive_pds[self.index as usize].store(0, Ordering::Relaxed);
        self.release_queues();
        self.init.send_cq.iter().for_each(|cq| cq.release_sends(self.init.cap.max_send_wr));
        self.init.srq.iter().for_each(|srq| srq.release());
        self.init.xrcd.iter().for_each(|xrcd| xrcd.release());
        if self.init.qp_type != QpType::XrcRecv {
            self.device.release_pd(self.init.pd);
        }
    }

    /// Ends what stands in the segment.
    fn end_shared(&self) {
        let object = Object::Qp(self.index);
        let endpoint = &self.device.endpoint;
        // What a stopped peer holds is ended later.
        let is_retired = acquire(&endpoint.own.within(SOON), object).is_ok();
        let cqs = if is_retired {
            self.end_direct();
            self.end_datagrams(true);
            let held = reset(&endpoint.own, self.index);
            let _ = endpoint.objects.retire(object);
            endpoint.own.unlock(object);
            self.put_back(held);
            self.forget_completions()
        } else {
            self.abandon_direct();
            self.end_datagrams(false);
            self.each_cq().map(|cq| cq.map(Arc::downgrade))
        };
        if let Some(permissions) = &endpoint.permissions {
            permissions.remove(object);
        }
        if is_retired && cqs.iter().all(Option::is_none) {
            let _ = endpoint.objects.free(object);
        } else {
            let srq = self.init.srq.as_ref().map(Arc::downgrade);
            self.device.defer(DeferredQp { index: self.index, qp_num: self.qp_num, is_retired, cqs, srq });
        }
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        if self.handles.swap(0, Ordering::AcqRel) > 0 {
            self.device.unsubscribe(Object::Qp(self.index), &self.init.events, self.init.cookie);
            self.end();
        }
        crate::device::forget(&self.device.queue_pairs, self.index, self);
    }
}
