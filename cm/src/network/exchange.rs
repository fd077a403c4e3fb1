//! The messages of one connection, or of one question for a queue pair.

use std::collections::VecDeque;
use std::time::Duration;

use super::repeat::{Patience, Repeated};
use super::{Output, Peer};
use crate::wire::{self, Apr, Body, Drep, Dreq, Mad, Mra, Refused, Rej, Rep, SidrRep, reason, status};
use crate::world::{Link, Message};

/// The timer code by which the kernel asks for time.
const SERVICE_TIME: u8 = 24;
/// Of MRA: which message it answers.
const OF_REQ: u8 = 0;
const OF_REP: u8 = 1;

/// How far it has come, as the messages say that went both ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// REQ or SIDR_REQ was sent.
    Asks,
    /// One came.
    Asked,
    /// REP was sent.
    Offers,
    /// REP came.
    Offered,
    Established,
    /// DREQ was sent.
    Leaves,
    /// DREQ came.
    Left,
    /// Nothing follows but what was said before.
    Over,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Exchange {
    pub link: Link,
    pub peer: Peer,
    /// The number here.
    pub own: u32,
    /// The number there, once it is known.
    pub remote: Option<u32>,
    /// The queue pair there; 0 where it is not known.
    pub remote_qpn: u32,
    pub is_ud: bool,
    pub stage: Stage,
    /// The manager knows the link.
    pub is_open: bool,
    /// When nobody asks any more for what was said.
    pub forgotten: Option<Duration>,
    /// It counts among those that are over.
    pub is_counted: bool,
    pub asked: Option<Repeated>,
    /// The last word of it, where the process ends now.
    pub farewell: Option<Message>,
    transaction: u64,
    patience: Patience,
    ca_guid: [u8; 8],
    /// The service id of a question for a queue pair.
    service: u64,
    /// The answer to what may be asked again.
    said: Option<Message>,
}

impl Exchange {
    /// One that begins with a request, which is sent.
    pub fn asks(link: Link, peer: Peer, message: &Message, now: Duration) -> Option<Exchange> {
        let mad = wire::decode(&message[..]).ok()?;
        let mut exchange = Exchange::begun(link, peer, &mad, true)?;
        exchange.stage = Stage::Asks;
        exchange.asked = Some(Repeated::new(message.clone(), exchange.patience, now));
        Some(exchange)
    }

    /// One that begins with a request that came; the connection here has the number `own`.
    pub fn asked(link: Link, peer: Peer, message: &[u8], own: u32) -> Option<Exchange> {
        let mad = wire::decode(message).ok()?;
        let exchange = Exchange::begun(link, peer, &mad, false)?;
        Some(Exchange { remote: Some(exchange.own), own, ..exchange })
    }

    fn begun(link: Link, peer: Peer, mad: &Mad, is_sender: bool) -> Option<Exchange> {
        let (own, remote_qpn, is_ud, patience, ca_guid, service) = match &mad.body {
            Body::Req(req) if is_sender => {
                (req.local_comm_id, 0, false, Patience::of_sender(req), req.ca_guid, req.service)
            }
            Body::Req(req) => {
                (req.local_comm_id, req.qpn, false, Patience::of_receiver(req), [0; 8], req.service)
            }
            Body::SidrReq(req) => (req.request_id, 0, true, Patience::for_datagrams(), [0; 8], req.service),
            _ => return None,
        };
        Some(Exchange {
            link,
            peer,
            own,
            remote: None,
            remote_qpn,
            is_ud,
            stage: Stage::Asked,
            is_open: true,
            forgotten: None,
            is_counted: false,
            asked: None,
            farewell: None,
            transaction: mad.transaction,
            patience,
            ca_guid,
            service,
            said: None,
        })
    }

    /// The next time at which something is to be done.
    pub fn due(&self) -> Option<Duration> {
        let asked = self.asked.as_ref().map(|asked| asked.due);
        asked.into_iter().chain(self.forgotten).min()
    }

    /// Whether a request came of which the other side may not know the number here.
    pub fn is_new(&self) -> bool {
        matches!(self.stage, Stage::Asked | Stage::Offers)
    }

    /// Whether a request was sent, and the answer to it will be heard.
    pub fn waits_for_answer(&self) -> bool {
        self.stage == Stage::Asks && self.is_open && !self.is_ud
    }

    /// Whether the program may think that the queue pair there is connected: nobody has asked for the end.
    pub fn is_in_use(&self) -> bool {
        self.is_open && matches!(self.stage, Stage::Offered | Stage::Established)
    }

    /// Whether the manager has closed the link, and no answer is awaited either.
    pub fn is_over(&self) -> bool {
        !self.is_open && self.asked.is_none()
    }

    /// Whether the other side has named the number here, and is not over.
    pub fn has_heard(&self) -> bool {
        !matches!(self.stage, Stage::Asks | Stage::Asked | Stage::Offers | Stage::Over)
    }

    /// Whether a message that names both numbers, or does not know the one there, is of this connection.
    pub fn is_named(&self, theirs: u32) -> bool {
        self.remote.is_none_or(|remote| remote == theirs)
    }

    /// The manager sends a message.
    pub fn send(&mut self, message: Message, now: Duration, out: &mut VecDeque<Output>) {
        let Ok(mad) = wire::decode(&message[..]) else { return };
        self.asked = None;
        match &mad.body {
            Body::Rep(rep) => {
                self.own = rep.local_comm_id;
                self.stage = Stage::Offers;
                self.asked = Some(Repeated::new(message.clone(), self.patience, now));
            }
            Body::Dreq(_) => {
                self.stage = Stage::Leaves;
                self.asked = Some(Repeated::new(message.clone(), self.patience, now));
            }
            Body::Rtu(_) => {
                self.stage = Stage::Established;
                self.said = Some(message.clone());
            }
            _ => {
                self.stage = Stage::Over;
                self.said = Some(message.clone());
            }
        }
        self.packet(message, out);
    }

    /// The manager has closed the link; whether there is anything that may be asked again.
    pub fn close(&mut self) -> bool {
        self.is_open = false;
        match &mut self.asked {
            Some(asked) if self.stage == Stage::Leaves => asked.hurry(),
            asked => *asked = None,
        }
        // A request that was dropped is as if it had not come.
        !(self.stage == Stage::Asked && self.said.is_none())
    }

    /// The time of the message that waits for its answer is over.
    pub fn repeat(&mut self, now: Duration, out: &mut VecDeque<Output>) {
        let Some(asked) = self.asked.as_mut().filter(|asked| asked.due <= now) else { return };
        if asked.again(now) {
            let message = asked.message.clone();
            return self.packet(message, out);
        }
        self.asked = None;
        // The manager knows itself how long it waits for the end, and for the answer to SIDR_REQ.
        if self.is_open && !self.is_ud && matches!(self.stage, Stage::Asks | Stage::Offers) {
            out.push_back(Output::Unreachable { link: self.link });
        }
    }

    /// A request came again.
    pub fn request_again(&mut self, out: &mut VecDeque<Output>) {
        let message = match (self.stage, &self.asked, &self.said) {
            (Stage::Offers, Some(asked), _) => asked.message.clone(),
            (Stage::Asked, ..) if !self.is_ud => self.more_time(OF_REQ),
            (Stage::Over, _, Some(said)) if self.is_rej(said) || self.is_ud => said.clone(),
            // Of a connection that was, it comes too late. So says the kernel.
            (Stage::Over, ..) if !self.is_ud => {
                self.own_message(self.rej(Refused::None, reason::STALE_CONNECTION, None))
            }
            _ => return,
        };
        self.packet(message, out);
    }

    /// The queue pair that is offered has another connection still. As with the kernel, the request waits on.
    pub fn refuse_stale(&self, rep: &Rep, out: &mut VecDeque<Output>) {
        let body = Body::Rej(Box::new(Rej {
            local_comm_id: self.own,
            remote_comm_id: rep.local_comm_id,
            refused: Refused::Rep,
            reason: reason::STALE_CONNECTION,
            ca_guid: None,
            private_data: [0; 148],
        }));
        self.packet(self.own_message(body), out);
    }

    /// A message came that names this connection; `bytes` are those of it.
    pub fn arrived(&mut self, mad: &Mad, bytes: &[u8], now: Duration, out: &mut VecDeque<Output>) {
        match &mad.body {
            Body::Rep(rep) => self.rep_came(rep, bytes, out),
            Body::Mra(mra) => {
                let is_meant =
                    matches!((self.stage, mra.message), (Stage::Asks, OF_REQ) | (Stage::Offers, OF_REP));
                if let Some(asked) = self.asked.as_mut().filter(|_| is_meant) {
                    asked.postpone(mra.service_timeout, now);
                }
            }
            Body::Rtu(_) if self.stage == Stage::Offers => {
                self.asked = None;
                self.stage = Stage::Established;
                self.tell(bytes, out);
            }
            Body::Dreq(_) => self.dreq_came(bytes, out),
            Body::Drep(_) if matches!(self.stage, Stage::Leaves | Stage::Left) => {
                self.asked = None;
                self.stage = Stage::Over;
                self.tell(bytes, out);
            }
            Body::Rej(_) if !self.is_ud && self.stage != Stage::Over => {
                self.asked = None;
                self.stage = Stage::Over;
                self.tell(bytes, out);
            }
            Body::SidrRep(_) if self.is_ud && self.stage == Stage::Asks => {
                self.asked = None;
                self.stage = Stage::Over;
                self.tell(bytes, out);
            }
            Body::Lap(lap) => {
                let apr = Apr {
                    local_comm_id: self.own,
                    remote_comm_id: lap.local_comm_id,
                    status: wire::UNSUPPORTED,
                };
                let message = wire::encode(&Mad { transaction: mad.transaction, body: Body::Apr(apr) });
                self.packet(message, out);
            }
            _ => {}
        }
    }

    fn rep_came(&mut self, rep: &Rep, bytes: &[u8], out: &mut VecDeque<Output>) {
        if self.is_ud {
            return;
        }
        let again = match (self.stage, &self.said) {
            // It comes after the time in which it was waited for.
            (Stage::Asks | Stage::Offered, _) if !self.is_open => {
                self.asked = None;
                self.remote = Some(rep.local_comm_id);
                self.stage = Stage::Over;
                let message = self.own_message(self.rej(Refused::Rep, reason::CONSUMER_DEFINED, None));
                self.said = Some(message.clone());
                message
            }
            (Stage::Asks, _) => {
                self.asked = None;
                self.remote = Some(rep.local_comm_id);
                self.remote_qpn = rep.qpn;
                self.stage = Stage::Offered;
                return self.tell(bytes, out);
            }
            (Stage::Offered, _) => self.more_time(OF_REP),
            // A refusal that was said before the other side had a number names it now.
            (Stage::Over, Some(said)) if self.remote.is_none() => {
                self.remote = Some(rep.local_comm_id);
                match wire::decode(&said[..]).map(|mad| mad.body) {
                    Ok(Body::Rej(rej)) => self
                        .own_message(Body::Rej(Box::new(Rej { remote_comm_id: rep.local_comm_id, ..*rej }))),
                    _ => return,
                }
            }
            (Stage::Established | Stage::Leaves | Stage::Left | Stage::Over, Some(said)) => said.clone(),
            _ => return,
        };
        self.packet(again, out);
    }

    fn dreq_came(&mut self, bytes: &[u8], out: &mut VecDeque<Output>) {
        if self.is_ud {
            return;
        }
        match (self.stage, &self.said) {
            // It ended in another way here.
            (Stage::Over, Some(said)) if self.is_drep(said) => {
                let message = said.clone();
                self.packet(message, out);
            }
            _ if !self.is_open => {
                self.asked = None;
                self.stage = Stage::Over;
                let message = self.own_message(self.drep());
                self.said = Some(message.clone());
                self.packet(message, out);
            }
            (Stage::Offers | Stage::Offered | Stage::Established | Stage::Leaves, _) => {
                self.asked = None;
                // One that is not ready yet says so before it agrees.
                if self.stage != Stage::Offered {
                    self.stage = Stage::Left;
                }
                self.tell(bytes, out);
            }
            _ => {}
        }
    }

    fn is_rej(&self, said: &Message) -> bool {
        matches!(wire::decode(&said[..]), Ok(Mad { body: Body::Rej(_), .. }))
    }

    fn is_drep(&self, said: &Message) -> bool {
        matches!(wire::decode(&said[..]), Ok(Mad { body: Body::Drep(_), .. }))
    }

    fn tell(&self, bytes: &[u8], out: &mut VecDeque<Output>) {
        if let Ok(message) = bytes.try_into()
            && self.is_open
        {
            out.push_back(Output::Message { link: self.link, message: Box::new(message) });
        }
    }

    fn packet(&self, message: Message, out: &mut VecDeque<Output>) {
        out.push_back(Output::Packet { peer: self.peer, message });
    }

    fn own_message(&self, body: Body) -> Message {
        wire::encode(&Mad { transaction: self.transaction, body })
    }

    fn more_time(&self, message: u8) -> Message {
        let (local_comm_id, remote_comm_id) = self.numbers();
        let service_timeout = SERVICE_TIME;
        self.own_message(Body::Mra(Mra { local_comm_id, remote_comm_id, message, service_timeout }))
    }

    fn numbers(&self) -> (u32, u32) {
        (self.own, self.remote.unwrap_or(0))
    }

    fn drep(&self) -> Body {
        let (local_comm_id, remote_comm_id) = self.numbers();
        Body::Drep(Drep { local_comm_id, remote_comm_id })
    }

    fn rej(&self, refused: Refused, reason: u16, ca_guid: Option<[u8; 8]>) -> Body {
        let (local_comm_id, remote_comm_id) = self.numbers();
        let private_data = [0; 148];
        Body::Rej(Box::new(Rej { local_comm_id, remote_comm_id, refused, reason, ca_guid, private_data }))
    }

    /// What the other side is told where the process ends now.
    pub fn last_word(&self) -> Option<Message> {
        let (local_comm_id, remote_comm_id) = self.numbers();
        let rej = |refused, reason, ca_guid| self.rej(refused, reason, ca_guid);
        let body = match self.stage {
            // It may have been lost, and nobody is there any more to repeat it.
            Stage::Leaves => return self.asked.as_ref().map(|asked| asked.message.clone()),
            // So may the answer to who asked for it, whom nobody answers any more.
            Stage::Over => return self.said.clone().filter(|said| self.is_drep(said)),
            _ if !self.is_open => return None,
            Stage::Asked if self.is_ud => Body::SidrRep(Box::new(SidrRep {
                request_id: remote_comm_id,
                status: status::REJECT,
                qpn: 0,
                service: self.service,
                qkey: 0,
                ece: Default::default(),
                private_data: [0; 136],
            })),
            Stage::Asks if self.is_ud => return None,
            Stage::Asks => rej(Refused::None, reason::TIMEOUT, Some(self.ca_guid)),
            Stage::Asked => rej(Refused::Req, reason::CONSUMER_DEFINED, None),
            Stage::Offers => rej(Refused::None, reason::CONSUMER_DEFINED, None),
            Stage::Offered => rej(Refused::Rep, reason::CONSUMER_DEFINED, None),
            Stage::Established => {
                Body::Dreq(Dreq { local_comm_id, remote_comm_id, remote_qpn: self.remote_qpn })
            }
            Stage::Left => self.drep(),
        };
        Some(self.own_message(body))
    }
}
