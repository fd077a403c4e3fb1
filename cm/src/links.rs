//! What links bring, apart from requests: messages, and their own end.

use crate::errno::Errno;
use crate::event::EventKind;
use crate::id::{Cm, Id, State};
use crate::manager::Manager;
use crate::wire::{self, Body, Rej, SidrRep, reason, status};
use crate::world::{Link, World};

impl Manager {
    /// The id whose link this is; none while its request still waits for room.
    fn owner(&self, link: Link) -> Option<u32> {
        let number = *self.links.get(&link)?;
        (self.ids.get(&number)?.connection.link == Some(link)).then_some(number)
    }

    /// A message arrived on a link. Of a link that was closed it is ignored.
    pub fn message(&mut self, link: Link, message: &[u8], world: &mut dyn World) {
        self.now = world.now();
        let Some(number) = self.owner(link) else { return };
        let Ok(mad) = wire::decode(message) else { return };
        let Some(id) = self.ids.get(&number) else { return };
        let c = &id.connection;
        // Whoever has the other end of the link knows both numbers, once he was told them. A REJ may come
        // before.
        let known = |local: u32, remote: u32| {
            remote == c.local_comm_id && (c.cm == Cm::ReqSent || local == c.remote_comm_id)
        };
        match mad.body {
            Body::Rep(rep) => self.rep_came(number, &rep),
            Body::Rtu(rtu) if known(rtu.local_comm_id, rtu.remote_comm_id) => self.established(number),
            Body::Dreq(dreq) if known(dreq.local_comm_id, dreq.remote_comm_id) => self.dreq_came(number),
            Body::Drep(drep) if known(drep.local_comm_id, drep.remote_comm_id) => self.drep_came(number),
            Body::Rej(rej) if !id.is_ud() => self.rej_came(number, &rej),
            Body::SidrRep(rep) => self.sidr_rep_came(number, &rep),
            // Nobody asks for more time here, and nobody asks twice.
            _ => {}
        }
    }

    /// The other side refused in the way that its manager would have, had it had the time.
    fn refused_with(&mut self, number: u32, why: u16, sidr: u8) {
        let Some(id) = self.ids.get(&number) else { return };
        if id.is_ud() {
            let request_id = id.connection.local_comm_id;
            let rep = SidrRep { request_id, ..id.sidr_rep(sidr) };
            self.sidr_rep_came(number, &rep);
        } else {
            let rej = Rej { reason: why, private_data: [0; 148], ..id.rej(why) };
            self.rej_came(number, &rej);
        }
    }

    /// [`Action::Connect`](crate::Action::Connect) found nobody who listens. `known` tells whether somebody
    /// listens at this port, though not at this address: the other side's answer would have been "consumer
    /// defined" (28) instead of "invalid service id" (8).
    pub fn refused(&mut self, link: Link, known: bool, world: &mut dyn World) {
        self.now = world.now();
        let Some(number) = self.owner(link) else { return };
        let (why, sidr) = if known {
            (reason::CONSUMER_DEFINED, status::REJECT)
        } else {
            (reason::INVALID_SERVICE_ID, status::UNSUPPORTED)
        };
        self.refused_with(number, why, sidr);
    }

    /// [`Action::Connect`](crate::Action::Connect) cannot get there at all.
    pub fn unreachable(&mut self, link: Link) {
        let Some(number) = self.owner(link) else { return };
        let state = self.ids.get(&number).map(|id| id.state);
        self.reset(number);
        if state == Some(State::Connect) {
            self.queue_plain(number, EventKind::Unreachable, Errno::ETIMEDOUT.status());
        }
    }

    /// The other end of a link is gone: closed by its manager, or with its process. Everything that it had sent
    /// was given to [`Manager::message`] before; [`Action::Close`](crate::Action::Close) follows, behind the
    /// answer to a DREQ where that is due: nobody reads it, but who looks at messages sees it. Of a link that
    /// was closed here it is ignored.
    pub fn ended(&mut self, link: Link, world: &mut dyn World) {
        self.now = world.now();
        // What the other side's manager would have said, had it had the time, is said here.
        let Some(number) = self.owner(link) else {
            self.drop_waiting(link);
            return;
        };
        // The program has not agreed yet, and its peer is gone. On a network the answer would leave all the
        // same.
        if let Some(drep) = self.ids.get(&number).filter(|id| id.connection.cm == Cm::DreqRcvd).map(Id::drep)
        {
            self.say(number, drep);
        }
        self.hang_up(number);
        let asked = self.ids.get(&number).is_some_and(|id| id.connection.asked_end);
        match self.ids.get(&number).map(|id| id.connection.cm) {
            Some(Cm::ReqSent | Cm::SidrReqSent) => {
                self.refused_with(number, reason::CONSUMER_DEFINED, status::REJECT);
            }
            Some(Cm::ReqRcvd) => self.refused_with(number, reason::TIMEOUT, status::REJECT),
            Some(Cm::RepSent | Cm::RepRcvd) => {
                self.refused_with(number, reason::CONSUMER_DEFINED, status::REJECT);
            }
            Some(Cm::Established) => self.dreq_came(number),
            Some(Cm::DreqSent) => self.drep_came(number),
            // Both asked for the end, and the other side has no program any more that would wait for an answer.
            Some(Cm::DreqRcvd) if asked => self.drep_came(number),
            _ => {}
        }
    }

    /// A request that waited for room is given up by its sender.
    fn drop_waiting(&mut self, link: Link) {
        let Some(listener) = self.links.get(&link).copied() else { return };
        if let Some(id) = self.ids.get_mut(&listener) {
            id.waiting.retain(|(waiting, _)| *waiting != link);
        }
        self.close_link(link);
        self.note_room(listener);
    }
}
