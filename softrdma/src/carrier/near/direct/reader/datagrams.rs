//! Rings of datagrams, beside those of connections.

use ironverbs_os::barrier;
use ironverbs_os::growth::TryPush;

use super::RingReaders;
use crate::carrier::near::direct::Rings;
use crate::carrier::near::direct::datagrams::MOST;
use crate::carrier::near::direct::datagrams::{DatagramReader, Datagrams, Waiting};
use crate::carrier::near::endpoint::Endpoint;
use crate::carrier::near::entries::Entries;
use crate::carrier::near::own_ring::OwnReader;
use crate::rules::completion::Completion;

impl RingReaders {
    /// Whether there may be a datagram.
    #[inline(always)]
    pub(super) fn may_have_datagram(&self) -> bool {
        self.datagrams.iter().any(DatagramReader::is_there)
    }

    /// Whether datagrams may come by rings.
    #[inline(always)]
    pub(crate) fn has_datagrams(&self) -> bool {
        !self.datagrams.is_empty()
    }

    /// As [`RingReaders::take_message`], or datagrams, at most so many, in turn, so that neither kind waits for
    /// ever; how many there were.
    #[inline(always)]
    pub(crate) fn take_beside_datagrams(
        &mut self,
        endpoint: &Endpoint,
        entries: &Entries,
        (head, most): (u32, u32),
        own: &OwnReader,
        take: &mut impl FnMut(&Completion),
    ) -> u32 {
        let is_first = !self.after_datagram || self.is_empty();
        self.after_datagram = false;
        for is_turn in [is_first, !is_first] {
            let taken = if is_turn {
                self.take_datagrams(endpoint, entries, (head, most), own, take)
            } else {
                self.take_message(endpoint, entries, head, own, take).into()
            };
            if taken > 0 {
                self.after_datagram = is_turn;
                return taken;
            }
        }
        0
    }

    /// Hands out datagrams, at most so many, where no completion of the shared queue waits, of which `head`
    /// were taken; how many there were.
    #[inline(always)]
    fn take_datagrams(
        &mut self,
        endpoint: &Endpoint,
        entries: &Entries,
        (head, most): (u32, u32),
        own: &OwnReader,
        take: &mut impl FnMut(&Completion),
    ) -> u32 {
        let Some(next) = entries.word(head).filter(|_| endpoint.segment.is_mine()) else { return 0 };
        let count = self.datagrams.len();
        for n in 0..count {
            let place = if self.next_datagram + n < count { n + self.next_datagram } else { n };
            let Some(reader) = self.datagrams.get_mut(place) else { break };
            let taken = reader.take(endpoint, (next, head), own, (most, self.fenced), take);
            if taken > 0 {
                self.next_datagram = if place + 1 < count { place + 1 } else { 0 };
                return taken;
            }
        }
        0
    }

    /// Takes datagrams of this queue pair, too; `false` where that is not possible.
    pub(crate) fn add_datagrams(&mut self, reader: DatagramReader) -> bool {
        // A poll looks at each.
        if self.datagrams.len() >= MOST {
            return false;
        }
        self.datagrams.try_push(reader).is_ok()
    }

    /// Forgets the datagrams of a queue pair that nobody polled, and their rings, if they are this process's.
    /// `rings`: where they go.
    pub(crate) fn remove_datagrams(&mut self, datagrams: &Datagrams, is_mine: bool, rings: Option<&Rings>) {
        for reader in self.datagrams.iter_mut().filter(|reader| reader.is_of(datagrams)) {
            reader.end(is_mine, rings);
        }
        self.datagrams.retain(|reader| !reader.is_of(datagrams));
        self.next_datagram = 0;
    }

    /// A datagram of this queue pair that waits, for the general way.
    pub(crate) fn waiting_datagram(&mut self, datagrams: &Datagrams) -> Option<Waiting> {
        self.datagrams.iter_mut().find(|reader| reader.is_of(datagrams))?.waiting()
    }

    /// Datagrams of this queue pair are left waiting; whether the device's thread is to see to them, since who
    /// polls may sleep, and does not yet.
    pub(crate) fn await_datagrams(&mut self, datagrams: &Datagrams) -> bool {
        let reader = self.datagrams.iter_mut().find(|reader| reader.is_of(datagrams));
        self.fenced && reader.is_some_and(DatagramReader::await_some)
    }

    /// Takes it, behind the queue pair's lock; `false` where its sender has taken it back.
    pub(crate) fn take_out(&mut self, datagrams: &Datagrams, waiting: &Waiting) -> bool {
        let reader = self.datagrams.iter_mut().find(|reader| reader.is_of(datagrams));
        reader.is_some_and(|reader| reader.take_out(waiting))
    }

    /// The number of a queue pair whose datagrams that wait are to be seen to by the general way.
    #[cold]
    pub(crate) fn left_over(&mut self) -> Option<u32> {
        let reader = self.datagrams.iter_mut().find(|reader| reader.leaves)?;
        reader.leaves = false;
        Some(reader.qp_num)
    }

    /// A completion of a receive request was taken from the shared queue.
    pub(super) fn passed_datagrams(&mut self, completion: &Completion, endpoint: &Endpoint, rings: &Rings) {
        let is_light = !self.fenced && barrier::is_there();
        let datagrams = self.datagrams.iter().map(DatagramReader::count).sum::<usize>();
        let all = self.all().count().min(MOST) + datagrams;
        for reader in &mut self.datagrams {
            let others = all - reader.count();
            reader.passed(completion, endpoint, rings, others.min(MOST), is_light);
        }
    }
}
