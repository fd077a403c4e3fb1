//! CONNECT, and what the active side hears.

use crate::address::{Address, IbAddress, PortSpace};
use crate::command::{ConnParam, Ece};
use crate::connection::{answer_time, sidr_time};
use crate::errno::Errno;
use crate::event::{EventKind, Param, UdParam};
use crate::file::File;
use crate::id::{Cm, Id, QPT_RC, QPT_UC, QPT_XRC_INI, State, Wait};
use crate::manager::Manager;
use crate::wire::{self, Body, IpHeader, Mad, Rej, Rep, Req, SidrRep, SidrReq, reason, status};
use crate::world::{Action, Destination, Device};

/// Timer code: how long the other side may take to answer.
const RESPONSE_TIMEOUT: u8 = 20;
const MAX_RETRIES: u8 = 15;

impl Manager {
    pub(crate) fn connect(
        &mut self,
        file: File,
        number: u32,
        param: &ConnParam,
        ece: Ece,
    ) -> Result<(), Errno> {
        if param.valid == 0 {
            return Err(Errno::EINVAL);
        }
        let (id, device) = self.id_with_device(file, number)?;
        if id.state != State::RouteResolved {
            return Err(Errno::EINVAL);
        }
        id.connection.qpn = param.qp_num & 0xff_ffff;
        id.connection.srq = param.srq != 0;
        let body = id.request(&device, param, ece)?;
        let (from, to, is_ud) = (id.source, id.destination, id.is_ud());
        let time = if is_ud { sidr_time() } else { answer_time(id.packet_life_time()) };
        let space = id.space;
        let comm_id = self.next_comm_id().ok_or(Errno::ENOMEM)?;
        let link = self.new_link();
        self.links.insert(link, number);
        let id = self.id(file, number)?;
        id.state = State::Connect;
        let c = &mut id.connection;
        c.link = Some(link);
        c.local_comm_id = comm_id;
        c.transaction = u64::from(comm_id);
        let body = match body {
            Body::Req(mut req) => {
                c.cm = Cm::ReqSent;
                req.local_comm_id = comm_id;
                c.service = req.service;
                Body::Req(req)
            }
            Body::SidrReq(mut req) => {
                c.cm = Cm::SidrReqSent;
                req.request_id = comm_id;
                c.service = req.service;
                Body::SidrReq(req)
            }
            other => other,
        };
        let to = match to {
            // The service id alone says where it is looked for.
            Address::Ib(a) => Destination {
                address: Address::Ib(IbAddress { mask: u64::MAX, ..a }),
                space: PortSpace::of_service(a.service).unwrap_or(space),
                service: a.service,
            },
            address => Destination { address, space, service: c.service },
        };
        let message = wire::encode(&Mad { transaction: c.transaction, body });
        self.set_alarm(number, Some((self.now + time, Wait::Answer)));
        self.act(Action::Connect { link, file, from, to, message });
        Ok(())
    }

    /// ACCEPT without parameters on the active side: the program has its queue pair ready.
    pub(crate) fn establish(&mut self, number: u32) -> Result<(), Errno> {
        let Some(id) = self.ids.get_mut(&number) else { return Err(Errno::ENOENT) };
        if id.connection.cm != Cm::RepRcvd {
            self.reject_anyway(number);
            return Err(Errno::EINVAL);
        }
        id.connection.cm = Cm::Established;
        let rtu = wire::Rtu {
            local_comm_id: id.connection.local_comm_id,
            remote_comm_id: id.connection.remote_comm_id,
        };
        let early = std::mem::take(&mut id.connection.early_dreq);
        self.say(number, Body::Rtu(rtu));
        if early {
            self.dreq_came(number);
        }
        Ok(())
    }

    pub(crate) fn rep_came(&mut self, number: u32, rep: &Rep) {
        let Some(id) = self.ids.get_mut(&number) else { return };
        let xrc = id.qp_type == QPT_XRC_INI;
        let c = &mut id.connection;
        if c.cm != Cm::ReqSent || rep.remote_comm_id != c.local_comm_id {
            return;
        }
        c.cm = Cm::RepRcvd;
        c.remote_comm_id = rep.local_comm_id;
        let qpn = if xrc { rep.eecn } else { rep.qpn };
        c.remote_qpn = qpn;
        c.sq_psn = rep.starting_psn;
        c.initiator_depth = rep.responder_resources;
        c.responder_resources = rep.initiator_depth;
        c.rnr_retry = rep.rnr_retry_count;
        let mut event = id.event(EventKind::ConnectResponse, 0);
        let mut param = ConnParam {
            qp_num: qpn,
            responder_resources: rep.initiator_depth,
            initiator_depth: rep.responder_resources,
            flow_control: rep.flow_control.into(),
            rnr_retry_count: rep.rnr_retry_count,
            srq: rep.srq.into(),
            private_data_len: rep.private_data.len() as u8,
            ..ConnParam::default()
        };
        param.private_data[..rep.private_data.len()].copy_from_slice(&rep.private_data);
        event.param = Param::Conn(Box::new(param));
        event.ece = rep.ece;
        self.set_alarm(number, None);
        self.queue(event);
    }

    /// A refusal, of either side's message.
    pub(crate) fn rej_came(&mut self, number: u32, rej: &Rej) {
        let Some(id) = self.ids.get(&number) else { return };
        match id.connection.cm {
            Cm::ReqSent | Cm::RepSent | Cm::DreqSent | Cm::ReqRcvd
                if rej.reason == reason::STALE_CONNECTION =>
            {
                self.enter_timewait(number);
            }
            Cm::ReqSent | Cm::RepSent | Cm::DreqSent | Cm::ReqRcvd | Cm::DreqRcvd | Cm::RepRcvd => {
                self.reset(number);
            }
            // The other side refused before it had RTU.
            Cm::Established => self.enter_timewait(number),
            _ => return,
        }
        let Some(id) = self.ids.get(&number) else { return };
        if id.state != State::Connect {
            return;
        }
        let mut event = id.event(EventKind::Rejected, rej.reason.into());
        let mut param = ConnParam { private_data_len: rej.private_data.len() as u8, ..ConnParam::default() };
        param.private_data[..rej.private_data.len()].copy_from_slice(&rej.private_data);
        event.param = Param::Conn(Box::new(param));
        self.queue(event);
    }

    pub(crate) fn sidr_rep_came(&mut self, number: u32, rep: &SidrRep) {
        let Some(id) = self.ids.get_mut(&number) else { return };
        if id.connection.cm != Cm::SidrReqSent || rep.request_id != id.connection.local_comm_id {
            return;
        }
        let mut param = UdParam { private_data_len: rep.private_data.len() as u8, ..UdParam::default() };
        param.private_data[..rep.private_data.len()].copy_from_slice(&rep.private_data);
        let mut event = if rep.status != status::SUCCESS {
            id.event(EventKind::Unreachable, rep.status.into())
        } else if let Err(errno) = id.set_qkey(rep.qkey) {
            id.event(EventKind::AddrError, errno.status())
        } else {
            param.ah = id.ah();
            param.qp_num = rep.qpn;
            param.qkey = rep.qkey;
            id.event(EventKind::Established, 0)
        };
        // The kernel does not tell of the answer's options.
        event.param = Param::Ud(Box::new(param));
        self.reset(number);
        self.queue(event);
    }

    /// A number for a connection; `None` where all have one that other hosts can be told.
    pub(crate) fn next_comm_id(&mut self) -> Option<u32> {
        let Manager { comm_ids, names, ids, .. } = self;
        let Some(names) = names else {
            *comm_ids = comm_ids.wrapping_add(1);
            return Some(*comm_ids);
        };
        names.next(comm_ids, || ids.values().map(|id| id.connection.local_comm_id).collect())
    }
}

impl Id {
    /// REQ or SIDR_REQ, without the number that it gets when it is sent.
    fn request(&mut self, device: &Device, param: &ConnParam, ece: Ece) -> Result<Body, Errno> {
        let path = self.path.ok_or(Errno::EINVAL)?;
        let service = self.service(&self.destination);
        if self.is_ud() {
            let mut private_data = [0; 216];
            self.fill(&mut private_data, param.data())?;
            return Ok(Body::SidrReq(Box::new(SidrReq {
                request_id: 0,
                pkey: path.pkey,
                service,
                private_data,
            })));
        }
        let (transport, extended_transport) = match self.qp_type {
            QPT_RC => (0, 0),
            QPT_UC => (1, 0),
            QPT_XRC_INI => (3, 1),
            _ => return Err(Errno::EINVAL),
        };
        let mut private_data = [0; 92];
        self.fill(&mut private_data, param.data())?;
        let c = &mut self.connection;
        c.responder_resources = param.responder_resources;
        c.initiator_depth = param.initiator_depth;
        c.retry = param.retry_count.min(7);
        c.rnr_retry = param.rnr_retry_count.min(7);
        c.path_mtu = path.mtu;
        c.timeout = path.packet_life_time.saturating_add(1).min(31);
        Ok(Body::Req(Box::new(Req {
            service,
            ca_guid: device.node_guid,
            qpn: c.qpn,
            responder_resources: param.responder_resources,
            initiator_depth: param.initiator_depth,
            remote_response_timeout: RESPONSE_TIMEOUT,
            transport,
            extended_transport,
            flow_control: param.flow_control != 0,
            starting_psn: self.psn,
            local_response_timeout: RESPONSE_TIMEOUT,
            retry_count: c.retry,
            pkey: path.pkey,
            mtu: path.mtu,
            rnr_retry_count: c.rnr_retry,
            max_retries: MAX_RETRIES,
            srq: c.srq,
            local_lid: 0xffff,
            remote_lid: 0xffff,
            local_gid: path.sgid,
            remote_gid: path.dgid,
            flow_label: path.flow_label,
            rate: path.rate,
            traffic_class: path.traffic_class,
            hop_limit: path.hop_limit,
            sl: path.sl,
            ack_timeout: c.timeout,
            ece,
            private_data,
            ..Req::default()
        })))
    }

    /// Puts the IP header and a program's data into a request's private data.
    fn fill(&self, field: &mut [u8], data: &[u8]) -> Result<(), Errno> {
        let offset = self.header_size();
        field.get_mut(offset..offset + data.len()).ok_or(Errno::EINVAL)?.copy_from_slice(data);
        if let (Some(source), Some(destination)) = (self.source.as_ip(), self.destination.as_ip()) {
            IpHeader { port: self.source.port(), source, destination }.write(field);
        }
        Ok(())
    }

    /// Takes over a queue key; one that was set before stays.
    pub fn set_qkey(&mut self, qkey: u32) -> Result<(), Errno> {
        match (self.qkey, qkey) {
            (0, _) => self.qkey = qkey,
            (own, given) if given != 0 && own != given => return Err(Errno::EINVAL),
            _ => {}
        }
        Ok(())
    }
}
