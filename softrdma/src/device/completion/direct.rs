//! A completion queue's direct rings.

use std::sync::atomic::Ordering;

use crate::carrier::near::direct::{Direct, RingReader};
use crate::device::CompletionQueue;
use crate::queues::completion::wanted;
use crate::queues::shared::{Memory as _, Object};

impl CompletionQueue {
    /// Takes messages from this ring, too; `false` where that is not possible.
    pub(in crate::device) fn add_direct(&self, ring: RingReader) -> bool {
        let device = &*self.device;
        self.reader().direct.add(ring, &device.endpoint, &device.rings)
    }

    /// Closes the ring of a queue pair, behind that one's lock; how many of its receive requests are taken
    /// then, where it took `head` by what stands there. `None` when it has no ring, and in a forked child: the
    /// ring is its parent's.
    pub(in crate::device) fn close_direct(&self, direct: &Direct, head: u32) -> Option<u32> {
        if self.device.is_mine() { self.reader().direct.close(direct, head) } else { None }
    }

    /// Takes the messages that wait in the ring of a queue pair out of it, so that the memory of their requests
    /// may be another's. `head` requests were taken by what stood at the queue pair before: they went the other
    /// way, or are in the ring. Not where as many wait as the queue has entries: there is an end to what a
    /// program may leave unpolled.
    #[cold]
    pub(in crate::device) fn free_direct(&self, direct: &Direct, head: u32) {
        let mut reader = self.reader();
        if reader.is_full() {
            return;
        }
        if let Some(behind) = reader.direct.take_early(&self.device.endpoint, direct) {
            direct.free(head, behind);
        }
    }

    /// Forgets the messages of a ring that was closed which nobody polled. In a forked child they are its
    /// parent's.
    pub(in crate::device) fn remove_direct(&self, direct: &Direct) {
        self.reader().direct.remove(direct, self.device.is_mine());
    }

    /// Whether messages may wait for this queue in rings, without anybody noticing but who polls.
    pub(in crate::device) fn takes_direct(&self) -> bool {
        self.has_room_for_all()
    }

    /// Whether it has room for all requests that may complete here at a time, and its owner wants nothing
    /// special.
    pub(super) fn has_room_for_all(&self) -> bool {
        let own = &self.device.endpoint.own;
        let capacity = own.capacity(Object::Cq(self.index()));
        wanted(own, self.index()) == 0 && self.promised.load(Ordering::Acquire) <= u64::from(capacity)
    }
}
