//! The passive side: ACCEPT, REJECT, and NOTIFY.

use crate::command::{ConnParam, Ece};
use crate::connection::answer_time;
use crate::errno::Errno;
use crate::event::EventKind;
use crate::file::File;
use crate::id::{Cm, Id, QPT_XRC_TGT, State, Wait};
use crate::manager::Manager;
use crate::wire::{Body, Rep, SidrRep, reason, status};

/// The well-known queue key of the port space for datagrams.
const UDP_QKEY: u32 = 0x0123_4567;

/// Asynchronous events of verbs that NOTIFY knows (`enum ibv_event_type`).
const PATH_MIG: u32 = 6;
const COMM_EST: u32 = 4;

impl Manager {
    pub(crate) fn accept(
        &mut self,
        file: File,
        number: u32,
        uid: u64,
        param: &ConnParam,
        ece: Ece,
    ) -> Result<(), Errno> {
        let (id, _) = self.id_with_device(file, number)?;
        if id.state != State::Connect {
            return Err(Errno::EINVAL);
        }
        let valid = param.valid != 0;
        if valid {
            id.connection.qpn = param.qp_num & 0xff_ffff;
            id.connection.srq = param.srq != 0;
        } else if !id.is_ud() {
            return self.establish(number);
        }
        let answer = if id.is_ud() {
            id.accept_datagrams(valid.then_some(param), ece).map(|rep| Body::SidrRep(Box::new(rep)))
        } else {
            id.accept_connection(param, ece).map(|rep| Body::Rep(Box::new(rep)))
        };
        let is_ud = id.is_ud();
        let time = answer_time(id.packet_life_time());
        match answer {
            Err(errno) => {
                self.reject_anyway(number);
                return Err(errno);
            }
            Ok(body) => self.say(number, body),
        }
        if is_ud {
            self.reset(number);
        } else {
            self.set_alarm(number, Some((self.now + time, Wait::Answer)));
        }
        let id = self.id(file, number)?;
        if !is_ud {
            id.connection.cm = Cm::RepSent;
        }
        if valid {
            id.uid = uid;
        }
        Ok(())
    }

    pub(crate) fn reject(&mut self, file: File, number: u32, why: u8, data: &[u8]) -> Result<(), Errno> {
        let why = match why.into() {
            0 | reason::CONSUMER_DEFINED => reason::CONSUMER_DEFINED,
            reason::VENDOR_OPTION_NOT_SUPPORTED => reason::VENDOR_OPTION_NOT_SUPPORTED,
            _ => return Err(Errno::EINVAL),
        };
        self.id_with_device(file, number)?;
        self.refuse(number, why, data)
    }

    /// What the kernel does with a connection whose ACCEPT fails.
    pub(crate) fn reject_anyway(&mut self, number: u32) {
        let _nothing_to_reject = self.refuse(number, reason::CONSUMER_DEFINED, &[]);
    }

    fn refuse(&mut self, number: u32, why: u16, data: &[u8]) -> Result<(), Errno> {
        let id = self.ids.get(&number).ok_or(Errno::ENOENT)?;
        let cm = id.connection.cm;
        if cm == Cm::None {
            return Err(Errno::EINVAL);
        }
        if id.is_ud() {
            let mut rep = id.sidr_rep(status::REJECT);
            let room = rep.private_data.get_mut(..data.len()).ok_or(Errno::EINVAL)?;
            if cm != Cm::SidrReqRcvd {
                return Err(Errno::EINVAL);
            }
            room.copy_from_slice(data);
            self.say(number, Body::SidrRep(Box::new(rep)));
            self.reset(number);
            return Ok(());
        }
        let mut rej = id.rej(why);
        rej.private_data.get_mut(..data.len()).ok_or(Errno::EINVAL)?.copy_from_slice(data);
        match cm {
            Cm::ReqSent | Cm::ReqRcvd | Cm::RepRcvd => {
                self.say(number, Body::Rej(Box::new(rej)));
                self.reset(number);
            }
            Cm::RepSent => {
                self.say(number, Body::Rej(Box::new(rej)));
                self.enter_timewait(number);
            }
            _ => return Err(Errno::EINVAL),
        }
        Ok(())
    }

    pub(crate) fn notify(&mut self, file: File, number: u32, event: u32) -> Result<(), Errno> {
        let (id, _) = self.id_with_device(file, number)?;
        match (event, id.connection.cm) {
            (COMM_EST, Cm::RepSent) => {
                self.established(number);
                Ok(())
            }
            (COMM_EST, Cm::Established) => Err(Errno::EISCONN),
            (PATH_MIG, Cm::Established) => Ok(()),
            _ => Err(Errno::EINVAL),
        }
    }

    /// RTU came, or what stands for it.
    pub(crate) fn established(&mut self, number: u32) {
        let Some(id) = self.ids.get_mut(&number) else { return };
        if id.connection.cm != Cm::RepSent {
            return;
        }
        id.connection.cm = Cm::Established;
        self.set_alarm(number, None);
        self.queue_plain(number, EventKind::Established, 0);
    }
}

impl Id {
    fn accept_connection(&mut self, param: &ConnParam, ece: Ece) -> Result<Rep, Errno> {
        let (psn, target) = (self.psn, self.qp_type == QPT_XRC_TGT);
        let ca_guid = self.device.map_or([0; 8], |device| device.node_guid);
        let c = &mut self.connection;
        let mut rep = Rep {
            local_comm_id: c.local_comm_id,
            remote_comm_id: c.remote_comm_id,
            qpn: if target { 0 } else { c.qpn },
            eecn: if target { c.qpn } else { 0 },
            starting_psn: psn,
            responder_resources: param.responder_resources,
            initiator_depth: param.initiator_depth,
            flow_control: param.flow_control != 0,
            rnr_retry_count: param.rnr_retry_count.min(7),
            srq: target || c.srq,
            ca_guid,
            ece,
            ..Rep::default()
        };
        let data = param.data();
        rep.private_data.get_mut(..data.len()).ok_or(Errno::EINVAL)?.copy_from_slice(data);
        if c.cm != Cm::ReqRcvd {
            return Err(Errno::EINVAL);
        }
        c.initiator_depth = param.initiator_depth;
        c.responder_resources = param.responder_resources;
        Ok(rep)
    }

    fn accept_datagrams(&mut self, param: Option<&ConnParam>, ece: Ece) -> Result<SidrRep, Errno> {
        let native = matches!(self.source, crate::Address::Ib(_));
        match param {
            Some(param) if native && param.qkey != 0 => self.set_qkey(param.qkey)?,
            _ => self.set_default_qkey(),
        }
        let mut rep = self.sidr_rep(status::SUCCESS);
        let data = param.map_or(&[][..], ConnParam::data);
        rep.private_data.get_mut(..data.len()).ok_or(Errno::EINVAL)?.copy_from_slice(data);
        if self.connection.cm != Cm::SidrReqRcvd {
            return Err(Errno::EINVAL);
        }
        rep.qpn = self.connection.qpn;
        rep.qkey = self.qkey;
        rep.ece = ece;
        Ok(rep)
    }

    pub fn set_default_qkey(&mut self) {
        if self.qkey == 0 {
            self.qkey = UDP_QKEY;
        }
    }
}
