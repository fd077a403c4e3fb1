//! Requests that arrive at a listener: new ids.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::address::{Address, Family, IbAddress, PortSpace};
use crate::answer::Path;
use crate::command::ConnParam;
use crate::event::{Event, EventKind, Param, UdParam};
use crate::id::{Cm, Id, QPT_RC, QPT_UC, QPT_UD, QPT_XRC_TGT, State};
use crate::manager::{Manager, Unread};
use crate::wire::{self, Body, IpHeader, Mad, Refused, Rej, Req, SidrRep, SidrReq, reason, status};
use crate::world::{Action, Device, Link, Message, World};

/// Requests that wait for room, beyond which no more are held. The caller holds them back before, see
/// [`Action::Accepting`].
const MOST_WAITING: usize = 1024;

/// Why a request gets no id: the reason of REJ, the status of SIDR_REP.
type Refusal = (u16, u8);

const NO_SERVICE: Refusal = (reason::INVALID_SERVICE_ID, status::UNSUPPORTED);
const NO_LISTENER: Refusal = (reason::CONSUMER_DEFINED, status::REJECT);
const NO_DEVICE: Refusal = (reason::INVALID_GID, status::REJECT);

/// Both ends of a request, as the listener sees them.
struct Ends {
    source: Address,
    destination: Address,
    device: Device,
}

impl Manager {
    /// A link was made to the place where the id `listener` listens, and its first message was read. The answer
    /// is the link's number from now on, which following actions may already name.
    ///
    /// A listener that exists no more, or a message that is no request for it: the link is told so and closed.
    pub fn accepted(&mut self, listener: u32, message: &[u8], world: &mut dyn World) -> Link {
        self.now = world.now();
        let link = self.new_link();
        self.take_request(listener, link, message, world);
        link
    }

    pub(crate) fn take_request(&mut self, listener: u32, link: Link, message: &[u8], world: &mut dyn World) {
        self.links.insert(link, listener);
        let mad = wire::decode(message);
        let Ok(Mad { transaction, body: body @ (Body::Req(_) | Body::SidrReq(_)) }) = mad else {
            self.close_link(link);
            return;
        };
        let Some(id) = self.ids.get_mut(&listener).filter(|id| id.state == State::Listen) else {
            self.refuse_link(link, transaction, &body, NO_SERVICE);
            return;
        };
        if id.backlog == 0 {
            match message.try_into() {
                Ok(message) if id.waiting.len() < MOST_WAITING => {
                    id.waiting.push_back((link, Box::new(message)));
                    self.note_room(listener);
                }
                _ => self.close_link(link),
            }
            return;
        }
        match self.ends(listener, &body, world) {
            Ok(ends) => self.new_connection(listener, link, transaction, &body, &ends, world),
            Err(refusal) => self.refuse_link(link, transaction, &body, refusal),
        }
    }

    /// Whether the listener is meant, and at which of its addresses.
    fn ends(&self, listener: u32, body: &Body, world: &mut dyn World) -> Result<Ends, Refusal> {
        let id = self.ids.get(&listener).ok_or(NO_SERVICE)?;
        let (service, private_data, gids, fits) = match body {
            Body::Req(req) => {
                let kind = kind_of(req).ok_or(NO_LISTENER)?;
                (
                    req.service,
                    &req.private_data[..],
                    Some((req.remote_gid, req.local_gid)),
                    kind == id.qp_type,
                )
            }
            Body::SidrReq(req) => (req.service, &req.private_data[..], None, id.qp_type == QPT_UD),
            _ => return Err(NO_SERVICE),
        };
        if !id.serves(service) {
            return Err(NO_SERVICE);
        }
        if !fits && id.qp_type != 0 {
            return Err(NO_LISTENER);
        }
        if let Address::Ib(own) = id.source {
            let (to, from) = gids.unwrap_or((own.gid, [0; 16]));
            let device = match id.device {
                Some(device) => device,
                None if gids.is_some() => world.device_of_gid(&to).ok_or(NO_DEVICE)?,
                None => self_device(Family::V4, world)?,
            };
            let side = |gid| IbAddress { pkey: 0xffff, gid, service, mask: u64::MAX, ..IbAddress::default() };
            return Ok(Ends { source: Address::Ib(side(to)), destination: Address::Ib(side(from)), device });
        }
        let header = IpHeader::read(private_data).ok_or(NO_LISTENER)?;
        let source = Address::ip(header.destination, service as u16);
        if !id.is_meant(&source) {
            return Err(NO_LISTENER);
        }
        let device = match gids {
            Some((own, _)) => world.device_of_gid(&own),
            None if source.is_any() => return self_device_ends(&header, source, world),
            None => world.device_of(&source.with_scope(id.source.scope())).ok(),
        }
        .ok_or(NO_DEVICE)?;
        Ok(Ends { source, destination: Address::ip(header.source, header.port), device })
    }

    fn new_connection(
        &mut self,
        listener: u32,
        link: Link,
        transaction: u64,
        body: &Body,
        ends: &Ends,
        world: &mut dyn World,
    ) {
        // It may come again.
        let Some(comm_id) = self.next_comm_id() else { return self.close_link(link) };
        let Some(id) = self.ids.get_mut(&listener) else { return };
        id.backlog -= 1;
        let (file, space, uid, header) = (id.file, id.space, id.uid, id.header_size());
        let kind = match body {
            Body::Req(req) => kind_of(req).unwrap_or(QPT_RC),
            _ => QPT_UD,
        };
        let number = self.new_id(file, 0, space, kind, world);
        self.links.insert(link, number);
        let Some(new) = self.ids.get_mut(&number) else { return };
        new.state = State::Connect;
        new.source = ends.source;
        new.destination = ends.destination;
        new.device = Some(ends.device);
        new.connection.link = Some(link);
        new.connection.transaction = transaction;
        new.connection.local_comm_id = comm_id;
        let (param, ece) = match body {
            Body::Req(req) => (Param::Conn(Box::new(new.take_req(req, header))), req.ece),
            Body::SidrReq(req) => (Param::Ud(Box::new(new.take_sidr_req(req, header))), Default::default()),
            _ => (Param::None, Default::default()),
        };
        let event = Event { uid, id: number, kind: EventKind::ConnectRequest, status: 0, param, ece };
        self.push(file, Unread { owner: listener, join: None, request: Some(number), event });
        self.note_room(listener);
    }

    fn refuse_link(&mut self, link: Link, transaction: u64, body: &Body, (why, sidr): Refusal) {
        if let Some(body) = refusal(body, why, sidr) {
            let message = wire::encode(&Mad { transaction, body });
            self.act(Action::Send { link, message });
        }
        self.close_link(link);
    }

    /// A request that waited for a listener that is gone.
    pub(crate) fn refuse_request(&mut self, link: Link, message: &Message) {
        match wire::decode(&message[..]) {
            Ok(mad) => self.refuse_link(link, mad.transaction, &mad.body, NO_SERVICE),
            Err(_) => self.close_link(link),
        }
    }
}

/// What refuses a request, for this reason or with this status; `None` of what is none.
pub(crate) fn refusal(body: &Body, why: u16, sidr: u8) -> Option<Body> {
    Some(match body {
        Body::Req(req) => Body::Rej(Box::new(Rej {
            local_comm_id: 0,
            remote_comm_id: req.local_comm_id,
            refused: Refused::Req,
            reason: why,
            ca_guid: None,
            private_data: [0; 148],
        })),
        Body::SidrReq(req) => Body::SidrRep(Box::new(SidrRep {
            request_id: req.request_id,
            status: sidr,
            qpn: 0,
            service: req.service,
            qkey: 0,
            ece: Default::default(),
            private_data: [0; 136],
        })),
        _ => return None,
    })
}

/// The type of queue pair that a request wants here.
fn kind_of(req: &Req) -> Option<u8> {
    match (req.transport, req.extended_transport) {
        (0, _) => Some(QPT_RC),
        (1, _) => Some(QPT_UC),
        (3, 1) => Some(QPT_XRC_TGT),
        _ => None,
    }
}

/// The device of a request to the host itself that names no GID.
fn self_device(family: Family, world: &mut dyn World) -> Result<Device, Refusal> {
    let host = match family {
        Family::V6 => IpAddr::V6(Ipv6Addr::LOCALHOST),
        _ => IpAddr::V4(Ipv4Addr::LOCALHOST),
    };
    let route = world.route(None, &Address::ip(host, 0)).map_err(|_| NO_DEVICE)?;
    route.device.ok_or(NO_DEVICE)
}

fn self_device_ends(header: &IpHeader, source: Address, world: &mut dyn World) -> Result<Ends, Refusal> {
    let device = self_device(source.family().unwrap_or(Family::V4), world)?;
    Ok(Ends { source, destination: Address::ip(header.source, header.port), device })
}

impl Id {
    /// Whether a listener has this service id.
    fn serves(&self, service: u64) -> bool {
        match &self.source {
            Address::Ib(a) => a.service & a.mask == service & a.mask,
            own => PortSpace::of_service(service) == Some(self.space) && own.port() == service as u16,
        }
    }

    /// Whether a request to this address is for this listener.
    fn is_meant(&self, to: &Address) -> bool {
        if self.source.is_any() && !self.family_only {
            return true;
        }
        self.source.family() == to.family() && (self.source.is_any() || self.source.as_ip() == to.as_ip())
    }

    fn take_req(&mut self, req: &Req, header: usize) -> ConnParam {
        let c = &mut self.connection;
        c.cm = Cm::ReqRcvd;
        c.service = req.service;
        c.remote_comm_id = req.local_comm_id;
        c.remote_qpn = req.qpn;
        c.sq_psn = req.starting_psn;
        c.initiator_depth = req.responder_resources;
        c.responder_resources = req.initiator_depth;
        c.retry = req.retry_count;
        c.rnr_retry = req.rnr_retry_count;
        c.path_mtu = req.mtu;
        c.timeout = req.ack_timeout;
        self.dgid = req.local_gid;
        self.hop_limit = req.hop_limit;
        self.path = Some(Path {
            service: req.service,
            dgid: req.local_gid,
            sgid: req.remote_gid,
            flow_label: req.flow_label,
            hop_limit: req.hop_limit,
            traffic_class: req.traffic_class,
            reversible: true,
            pkey: req.pkey,
            sl: req.sl,
            mtu_selector: 2,
            mtu: req.mtu,
            rate_selector: 2,
            rate: req.rate,
            packet_life_time_selector: 2,
            packet_life_time: req.ack_timeout.saturating_sub(1),
            ..Path::default()
        });
        let data = &req.private_data[header..];
        let mut param = ConnParam {
            qp_num: req.qpn,
            responder_resources: req.initiator_depth,
            initiator_depth: req.responder_resources,
            flow_control: req.flow_control.into(),
            retry_count: req.retry_count,
            rnr_retry_count: req.rnr_retry_count,
            srq: req.srq.into(),
            private_data_len: data.len() as u8,
            ..ConnParam::default()
        };
        param.private_data[..data.len()].copy_from_slice(data);
        param
    }

    fn take_sidr_req(&mut self, req: &SidrReq, header: usize) -> UdParam {
        let c = &mut self.connection;
        c.cm = Cm::SidrReqRcvd;
        c.service = req.service;
        c.remote_comm_id = req.request_id;
        let data = &req.private_data[header..];
        let mut param = UdParam { private_data_len: data.len() as u8, ..UdParam::default() };
        param.private_data[..data.len()].copy_from_slice(data);
        param
    }
}
