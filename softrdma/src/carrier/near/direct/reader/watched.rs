//! Which rings a poll looks at: those by which messages came lately. The senders of the others ring the
//! doorbell of the completion queue ([`queues::direct`](crate::queues::direct)).

use ironverbs_os::barrier;
use ironverbs_os::growth::TryPush;

use super::{DatagramReader, MOST, RingReader, RingReaders, WATCHED};
use crate::carrier::near::direct::{Direct, Rings};
use crate::carrier::near::endpoint::Endpoint;
use crate::queues::direct::DirectWord;
use crate::queues::shared::{Memory as _, Word};
use crate::shm::objects::DirectRing;

/// So old these rings [grow](RingReaders::grow_older) until it is looked by which of them nothing comes. Other
/// processors are interrupted then.
const AGE: u32 = if cfg!(simulated) { 16 } else { 4096 };

impl RingReader {
    pub(super) fn words(&self) -> DirectRing<'_> {
        DirectRing::of(&self.ring)
    }

    /// Whether no message was taken since this was asked last, and none is there.
    fn is_idle(&mut self) -> bool {
        let taken = self.receiver.taken_slots();
        std::mem::replace(&mut self.taken_then, taken) == taken && !self.is_there()
    }
}

impl RingReaders {
    /// Takes messages from this ring, too; `false` where that is not possible. Its sender needs no fence where
    /// this process can have others fence, as long as nobody [sleeps](RingReaders::fence) for messages.
    pub(crate) fn add(&mut self, mut ring: RingReader, endpoint: &Endpoint, rings: &Rings) -> bool {
        let count = self.all().count();
        // Each may be among those that are watched, and among the others.
        let has_room = [&mut self.watched, &mut self.others]
            .into_iter()
            .all(|readers| readers.try_reserve(count + 1 - readers.len()).is_ok());
        if count >= MOST || !has_room {
            return false;
        }
        let Some(doorbell) = self.doorbell.give(endpoint, rings) else { return false };
        ring.bit = doorbell.bit;
        let words = ring.words();
        words.store(Word::Direct { qp: ring.direct.qp, word: DirectWord::Doorbell as u32 }, doorbell.pack());
        let is_watched = count < WATCHED;
        if !is_watched {
            // Nothing was written there.
            let _ = ring.receiver.unwatch(&words);
        }
        if !self.fenced && barrier::is_there() {
            ring.receiver.lighten(&words);
        }
        self.leads_to_shared |= ring.shared.is_some();
        if is_watched {
            self.watched.push_reserved(ring)
        } else {
            self.others.push_reserved(ring)
        }
        true
    }

    /// Forgets a ring.
    pub(super) fn forget(&mut self, direct: &Direct) {
        let is_another = |ring: &RingReader| !std::ptr::eq(&*ring.direct, direct);
        self.watched.retain(is_another);
        self.others.retain(is_another);
        self.first = 0;
    }

    /// There are no rings any more, and their doorbell may be another queue's.
    pub(crate) fn end(&mut self, rings: &Rings) {
        self.doorbell.give_back(rings);
    }

    /// All of them.
    pub(super) fn all(&self) -> impl Iterator<Item = &RingReader> {
        self.watched.iter().chain(&self.others)
    }

    /// Whether a message came by a ring that is not looked at.
    #[inline(always)]
    pub(crate) fn is_rung(&self) -> bool {
        self.doorbell.is_rung()
    }

    /// Looks, from now on with each poll, at the rings for which the doorbell was rung.
    #[cold]
    #[inline(never)]
    pub(crate) fn answer(&mut self) {
        let bits = self.doorbell.answer();
        self.watch(|reader| bits >> reader.bit & 1 == 1 && reader.is_there());
    }

    /// Looks at these rings with each poll from now on.
    pub(super) fn watch(&mut self, is_meant: impl Fn(&RingReader) -> bool) {
        let mut place = 0;
        while let Some(reader) = self.others.get(place) {
            if is_meant(reader) {
                reader.receiver.watch(&reader.words());
                self.watched.push_reserved(self.others.swap_remove(place));
            } else {
                place += 1;
            }
        }
    }

    /// Polls were in vain, or it was another ring's turn.
    #[inline(always)]
    pub(crate) fn grow_older(&mut self, by: u32) {
        self.age += by;
        if self.age >= AGE {
            self.age = 0;
            // In a forked child the rings are its parent's.
            if self.watched.len() + self.others.len() > WATCHED && self.doorbell.is_mine() {
                self.unwatch_idle();
            }
        }
    }

    /// Looks no more at rings by which nothing comes.
    #[cold]
    #[inline(never)]
    fn unwatch_idle(&mut self) {
        let (mut place, mut is_light, before) = (0, false, self.others.len());
        while let Some(reader) = self.watched.get_mut(place) {
            if reader.is_idle() {
                is_light |= reader.receiver.unwatch(&reader.words());
                self.others.push_reserved(self.watched.swap_remove(place));
            } else {
                place += 1;
            }
        }
        if self.others.len() == before {
            return;
        }
        self.first = 0;
        if is_light {
            barrier::everywhere();
        }
        // Whoever wrote there without ringing did so before.
        self.watch(RingReader::is_there);
    }

    /// The ring of the queue pair with this number. Often it is that of the last one, or the next.
    #[inline(always)]
    pub(super) fn of_number(&mut self, qp_num: u32) -> Option<&mut RingReader> {
        let (first, count) = (self.latest, self.watched.len());
        let mut places = (first..count).chain(0..first.min(count));
        let is_its = |reader: &RingReader| reader.qp_num == qp_num;
        match places.find(|place| self.watched.get(*place).is_some_and(is_its)) {
            Some(place) => {
                self.latest = place;
                self.watched.get_mut(place)
            }
            None => self.others.iter_mut().find(|reader| is_its(reader)),
        }
    }

    /// The completion queue was armed, and is to be polled once more: who does not see a message of before then
    /// is rung for it. So it is each time from now on.
    pub(crate) fn fence(&mut self) {
        if std::mem::replace(&mut self.fenced, true) {
            return;
        }
        let fence = |light, reader: &RingReader| reader.receiver.fence(&reader.words()) | light;
        let light = self.all().fold(false, fence);
        if self.datagrams.iter().fold(light, |light, reader| DatagramReader::fence(reader) | light) {
            barrier::everywhere();
        }
    }
}
