//! Datagrams from other hosts: what a receive queue keeps for those that come.
//!
//! One that comes is carried out as one from a process of the folder is: by the rules of a responder, behind
//! the queue pair's lock.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use ironverbs_os::growth::try_box;

use super::port::flow::Flow;
use crate::carrier::near::at_target::{AtTarget, MoveBytes, Place};
use crate::carrier::near::bytes;
use crate::carrier::near::completion_order::CompletionOrder;
use crate::carrier::near::endpoint::Endpoint;
use crate::carrier::near::target::Target;
use crate::queues::respond::{MoveError, Payload};
use crate::queues::transaction::LockError;
use crate::rules::responder::Incoming;
use crate::rules::verbs::{Opcode, QpType};
use crate::wire::datagram::{HEADER_BYTES, Seen, header};
use crate::wire::flow::Flow as WireFlow;
use crate::wire::packet::Packet;

/// How often the queue pair is looked at anew whose queues were moved just then.
const TRIES: u32 = 3;

/// A packet that came.
#[derive(Clone, Copy)]
pub(crate) struct Arrived<'a> {
    pub(crate) flow: &'a Flow,
    pub(crate) wire: WireFlow,
    pub(crate) packet: Packet<'a>,
    pub(crate) identification: u16,
}

/// What became of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Received {
    /// It took a receive request, or found none.
    Taken,
    /// It has not the key of its receiver.
    WrongKey,
    /// It could not be looked at.
    Lost,
}

/// What a datagram queue pair keeps for what comes from other hosts: itself as a target, once something has.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    own: Mutex<Option<Box<Target>>>,
    in_use: AtomicBool,
}

impl Mailbox {
    /// Datagrams come or go, or do not any more; whether that is new.
    #[inline]
    pub(crate) fn set_in_use(&self, in_use: bool) -> bool {
        self.in_use.load(Ordering::Relaxed) != in_use && self.in_use.swap(in_use, Ordering::AcqRel) != in_use
    }

    /// Takes a datagram for the own queue pair with this number and index, by its rules.
    pub(crate) fn take(
        &self,
        endpoint: &Endpoint,
        (qp_num, qp): (u32, u32),
        arrived: &Arrived<'_>,
    ) -> Received {
        let mut target = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        if target.is_none() {
            let own = Target::own(endpoint, qp_num, qp).ok();
            *target = own.and_then(|own| try_box(own).ok());
        }
        match target.as_mut() {
            Some(target) => arrived.carry_out(endpoint, target),
            None => Received::Lost,
        }
    }
}

impl Arrived<'_> {
    fn carry_out(&self, endpoint: &Endpoint, target: &mut Target) -> Received {
        let Some(incoming) = self.incoming() else { return Received::Lost };
        let (traffic_class, hop_limit, label) =
            (self.flow.traffic_class, self.flow.hop_limit, self.flow.label);
        let seen = Seen { identification: self.identification, traffic_class, hop_limit, label };
        let request = AtTarget {
            endpoint,
            incoming,
            is_from_afar: false,
            rkey: 0,
            srq_num: 0,
            is_datagram: true,
            payload: None,
            begins: None,
            order: &CompletionOrder::new(None),
            bytes: Bytes { header: header(&self.wire, &seen, &self.packet), payload: self.packet.payload },
        };
        for _ in 0..TRIES {
            match request.carry_out(target, &mut None) {
                Ok(Some(_)) if target.attributes.is_some_and(|own| own.qkey != incoming.qkey) => {
                    return Received::WrongKey;
                }
                Ok(Some(_)) => return Received::Taken,
                Ok(None) => {}
                Err(LockError::Gone) if target.find_queues_again() => {}
                Err(_) => return Received::Lost,
            }
        }
        Received::Lost
    }

    /// As the responder's rules look at it.
    fn incoming(&self) -> Option<Incoming> {
        let deth = self.packet.headers.deth?;
        Some(Incoming {
            qp_type: QpType::Ud,
            opcode: if self.packet.headers.imm.is_some() { Opcode::SendWithImm } else { Opcode::Send },
            src_qp: deth.source_qp,
            path_matches: true,
            qkey: deth.qkey,
            ipv4: self.flow.is_v4(),
            length: self.packet.payload.len() as u64,
            addr: 0,
            imm_or_key: self.packet.headers.imm.unwrap_or(0),
            solicited: self.packet.bth.solicited,
            timestamp: 0,
        })
    }
}

/// The bytes that a receive request gets.
struct Bytes<'a> {
    header: [u8; HEADER_BYTES],
    payload: &'a [u8],
}

impl MoveBytes for Bytes<'_> {
    fn move_to(&self, place: &Place<'_>, payload: &Payload) -> Result<(), MoveError> {
        let Payload::Receive(receive) = payload else { return Ok(()) };
        let (endpoint, pd, sges) = (place.endpoint, place.target.receive_pd, &receive.sges);
        bytes::put_parts(endpoint, pd, sges, 0, &[&self.header])?;
        bytes::put_parts(endpoint, pd, sges, self.header.len(), &[self.payload])
    }
}
