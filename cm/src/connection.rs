//! Connections: what is common to all messages between two ids, and how a connection ends.

use std::time::Duration;

use crate::address::Address;
use crate::event::AhAttr;
use crate::id::{Cm, Id, Wait};
use crate::manager::Manager;
use crate::wire::{self, Body, Drep, Dreq, Mad, Refused, Rej, SidrRep, reason, status};
use crate::world::Action;

/// Milliseconds of a timer code, as the kernel rounds them.
pub(crate) fn code_ms(code: u8) -> u64 {
    1 << code.saturating_sub(8).min(40)
}

/// 2^(20-8): the timer code that requests carry.
const RESPONSE_MS: u64 = 1 << 12;
/// 2^(24-8): what the kernel asks for with MRA.
const SERVICE_MS: u64 = 1 << 16;
/// One try and 15 more.
const TRIES: u64 = 16;

/// Until DREQ counts as lost.
pub(crate) fn disconnect_time(packet_life_time: u8) -> Duration {
    Duration::from_millis(TRIES * (2 * code_ms(packet_life_time) + RESPONSE_MS))
}

/// Until REQ or REP count as lost. A link never loses them: what is waited for is a program, in whose place the
/// kernel asks for more time (MRA) at every try.
pub(crate) fn answer_time(packet_life_time: u8) -> Duration {
    disconnect_time(packet_life_time) + Duration::from_millis(TRIES * SERVICE_MS)
}

/// Until SIDR_REQ counts as lost; there is no MRA for it.
pub(crate) fn sidr_time() -> Duration {
    Duration::from_millis(TRIES * RESPONSE_MS)
}

impl Id {
    pub fn packet_life_time(&self) -> u8 {
        self.path.map_or(18, |path| path.packet_life_time)
    }

    /// How the other side is reached; all zero without a device.
    pub fn ah(&self) -> AhAttr {
        let (Some(device), Some(path)) = (self.device, self.path) else { return AhAttr::default() };
        AhAttr {
            dgid: path.dgid,
            flow_label: path.flow_label,
            sgid_index: device.sgid_index,
            hop_limit: path.hop_limit,
            traffic_class: path.traffic_class,
            sl: path.sl,
            static_rate: path.rate,
            is_global: 1,
            port: device.port,
        }
    }

    /// How much of a request's private data is the IP header's.
    pub fn header_size(&self) -> usize {
        if matches!(self.source, Address::Ib(_)) { 0 } else { wire::HEADER_SIZE }
    }

    pub fn rej(&self, why: u16) -> Rej {
        let c = &self.connection;
        let refused = match c.cm {
            Cm::ReqRcvd => Refused::Req,
            Cm::RepRcvd => Refused::Rep,
            _ => Refused::None,
        };
        Rej {
            local_comm_id: c.local_comm_id,
            remote_comm_id: c.remote_comm_id,
            refused,
            reason: why,
            ca_guid: self.device.map(|device| device.node_guid).filter(|_| why == reason::TIMEOUT),
            private_data: [0; 148],
        }
    }

    pub fn dreq(&self) -> Body {
        let c = &self.connection;
        Body::Dreq(Dreq {
            local_comm_id: c.local_comm_id,
            remote_comm_id: c.remote_comm_id,
            remote_qpn: c.remote_qpn,
        })
    }

    pub fn drep(&self) -> Body {
        let c = &self.connection;
        Body::Drep(Drep { local_comm_id: c.local_comm_id, remote_comm_id: c.remote_comm_id })
    }

    pub fn sidr_rep(&self, status: u8) -> SidrRep {
        SidrRep {
            request_id: self.connection.remote_comm_id,
            status,
            qpn: 0,
            service: self.connection.service,
            qkey: 0,
            ece: Default::default(),
            private_data: [0; 136],
        }
    }
}

impl Manager {
    /// Sends a message of an id, if its link is still there.
    pub(crate) fn say(&mut self, number: u32, body: Body) {
        let Some(id) = self.ids.get(&number) else { return };
        if let Some(link) = id.connection.link {
            let message = wire::encode(&Mad { transaction: id.connection.transaction, body });
            self.act(Action::Send { link, message });
        }
    }

    /// Says nothing more on an id's link.
    pub(crate) fn hang_up(&mut self, number: u32) {
        if let Some(link) = self.ids.get_mut(&number).and_then(|id| id.connection.link.take()) {
            self.close_link(link);
        }
    }

    /// The connection is over without time-wait.
    pub(crate) fn reset(&mut self, number: u32) {
        self.set_alarm(number, None);
        if let Some(id) = self.ids.get_mut(&number) {
            id.connection.cm = Cm::Idle;
        }
        self.hang_up(number);
    }

    /// The connection is over; packets of it may still be under way for a while.
    pub(crate) fn enter_timewait(&mut self, number: u32) {
        let Some(id) = self.ids.get_mut(&number) else { return };
        id.connection.cm = Cm::Timewait;
        let end = self.now + Duration::from_millis(code_ms(id.connection.timeout));
        self.set_alarm(number, Some((end, Wait::Timewait)));
        self.hang_up(number);
    }

    /// Ends the connection of an id that is destroyed: the other side hears of it.
    pub(crate) fn end_connection(&mut self, number: u32) {
        let Some(id) = self.ids.get(&number) else { return };
        let body = match id.connection.cm {
            Cm::ReqSent => Some(Body::Rej(Box::new(id.rej(reason::TIMEOUT)))),
            Cm::ReqRcvd | Cm::RepSent | Cm::RepRcvd => {
                Some(Body::Rej(Box::new(id.rej(reason::CONSUMER_DEFINED))))
            }
            Cm::Established => Some(id.dreq()),
            Cm::DreqRcvd => Some(id.drep()),
            Cm::SidrReqRcvd => Some(Body::SidrRep(Box::new(id.sidr_rep(status::REJECT)))),
            _ => None,
        };
        if let Some(body) = body {
            self.say(number, body);
        }
        self.reset(number);
    }
}
