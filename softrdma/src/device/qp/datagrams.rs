//! Direct rings of datagrams: offered while a datagram queue pair receives, ended with a reset or the queue
//! pair.

use std::time::Duration;

use crate::carrier::near::at_target::{AtTarget, MoveBytes, Place};
use crate::carrier::near::bytes;
use crate::carrier::near::completion_order::CompletionOrder;
use crate::carrier::near::direct::{DATAGRAM_WORDS, DatagramReader, Datagrams, Settled, Waiting};
use crate::carrier::near::target::Target;
use crate::device::CompletionQueue;
use crate::queues::respond::{MoveError, Payload};
use crate::queues::shared::Object;
use crate::queues::transaction::LockError;
use crate::queues::transport::{Transport as _, acquire};
use crate::rules::responder::{GRH_BYTES, Incoming};
use crate::rules::verbs::{Opcode, QpType};

use super::QueuePair;

/// Most datagrams that are carried out at a time, while others come: some rings full.
const MOST: u32 = 512;
/// How often the queue pair is looked at anew whose queues were moved just then.
const TRIES: u32 = 3;

impl QueuePair {
    /// Offers rings to senders of datagrams, where that is possible. Behind the queue pair's lock.
    pub(super) fn open_datagrams(&self, qkey: u32) {
        let (device, init) = (&*self.device, &self.init);
        let (Some(cq), Some(receive)) = (&init.recv_cq, &self.receive) else { return };
        let is_possible = init.qp_type == QpType::Ud && init.srq.is_none() && device.is_mine();
        if !is_possible || device.endpoint.permissions.is_some() || !cq.takes_direct() {
            return;
        }
        self.end_datagrams(true);
        let Some(datagrams) = Datagrams::new(&device.rings, &device.endpoint, qkey) else { return };
        let requests = receive.lock().requests();
        let numbers = (self.index, self.qp_num, init.pd);
        let reader = DatagramReader::new(&device.endpoint, &datagrams, numbers, requests);
        if reader.is_some_and(|reader| cq.reader().direct.add_datagrams(reader)) {
            *self.datagrams.lock() = Some(datagrams);
        } else {
            datagrams.give_back(&device.rings);
        }
    }

    /// Nothing comes by rings any more, and what waits there is lost. `is_locked`: the queue pair's lock is
    /// had; else a peer may still find the rings, so that they serve nobody else.
    pub(super) fn end_datagrams(&self, is_locked: bool) {
        let Some(datagrams) = self.datagrams.lock().take() else { return };
        self.device.retries.remove_datagrams(self);
        let rings = (is_locked && self.device.is_mine()).then_some(&self.device.rings);
        if let Some(cq) = &self.init.recv_cq {
            cq.reader().direct.remove_datagrams(&datagrams, self.device.is_mine(), rings);
        }
        rings.iter().for_each(|rings| datagrams.give_back(rings));
    }

    /// Another key counts from now on. Behind the queue pair's lock.
    pub(super) fn set_datagrams_key(&self, qkey: u32) {
        self.datagrams.lock().iter().for_each(|datagrams| datagrams.set_key(qkey));
    }

    /// Has the datagrams that wait in rings come as by the general way. Its locks are waited for no longer than
    /// `limit`.
    #[cold]
    pub(in crate::device) fn settle_datagrams(&self, limit: Duration) -> Settled {
        let datagrams = self.datagrams.lock().clone();
        let (Some(datagrams), Some(cq), true) = (datagrams, &self.init.recv_cq, self.device.is_mine()) else {
            return Settled::Nothing;
        };
        let Ok(mut target) = Target::own(&self.device.endpoint, self.qp_num, self.index) else {
            return Settled::Nothing;
        };
        let mut settled = Settled::Nothing;
        for _ in 0..MOST {
            let Some(waiting) = cq.reader().direct.waiting_datagram(&datagrams) else { return settled };
            if !self.carry_out_datagram(&mut target, cq, &datagrams, &waiting, limit) {
                break;
            }
            settled = Settled::All;
        }
        Settled::Left
    }

    /// Whether datagrams may wait in rings.
    pub(in crate::device) fn has_datagrams(&self) -> bool {
        self.datagrams.lock().is_some()
    }

    /// What waits in rings comes though nobody polls, as soon as the lock of the queue pair can be had: who
    /// sleeps was not told of it, and who has the lock may bring nothing.
    #[cold]
    pub(in crate::device) fn settle_datagrams_later(&self) {
        let (datagrams, Some(cq)) = (self.datagrams.lock().clone(), &self.init.recv_cq) else { return };
        if let (Some(datagrams), Some(me)) = (datagrams, self.me.upgrade())
            && cq.reader().direct.await_datagrams(&datagrams)
        {
            self.device.retries.add_datagrams(&self.device, &me);
        }
    }

    /// Whether others may follow.
    fn carry_out_datagram(
        &self,
        target: &mut Target,
        cq: &CompletionQueue,
        datagrams: &Datagrams,
        waiting: &Waiting,
        limit: Duration,
    ) -> bool {
        let mut bytes = [0; 8 * DATAGRAM_WORDS];
        for (bytes, word) in bytes.as_chunks_mut().0.iter_mut().zip(waiting.words) {
            *bytes = word.to_ne_bytes();
        }
        let (header, length) = (waiting.datagram.header, waiting.datagram.bytes as usize);
        // What has no header comes to nobody, and is too short for what is said of it.
        let Some(payload) = bytes.get(..length.max(GRH_BYTES as usize)) else { return false };
        let request = AtTarget {
            endpoint: &self.device.endpoint,
            incoming: Incoming {
                qp_type: QpType::Ud,
                opcode: if header.imm.is_some() { Opcode::SendWithImm } else { Opcode::Send },
                src_qp: waiting.src_qp,
                path_matches: true,
                qkey: header.qkey,
                ipv4: payload[0] >> 4 != 6,
                length: payload.len() as u64 - GRH_BYTES,
                addr: 0,
                imm_or_key: header.imm.unwrap_or(0),
                solicited: header.solicited,
                timestamp: 0,
            },
            is_from_afar: false,
            rkey: 0,
            srq_num: 0,
            is_datagram: true,
            payload: Some(payload),
            begins: Some(&|| cq.reader().direct.take_out(datagrams, waiting)),
            order: &CompletionOrder::new(None),
            bytes: Bytes(payload),
        };
        // Who has the lock now may go on, or not.
        let (own, object) = (self.device.endpoint.own.within(limit), Object::Qp(self.index));
        if acquire(&own, object).is_err() {
            return false;
        }
        own.unlock(object);
        for _ in 0..TRIES {
            match request.carry_out(target, &mut None) {
                Ok(Some(_)) => return true,
                Ok(None) => {}
                Err(LockError::Gone) if target.find_queues_again() => {}
                Err(_) => return false,
            }
        }
        false
    }
}

/// The bytes of a datagram, with what stands in front.
struct Bytes<'a>(&'a [u8]);

impl MoveBytes for Bytes<'_> {
    fn move_to(&self, place: &Place<'_>, payload: &Payload) -> Result<(), MoveError> {
        match payload {
            Payload::Receive(receive) => {
                bytes::put_parts(place.endpoint, place.target.receive_pd, &receive.sges, 0, &[self.0])
            }
            Payload::Remote(_) => Ok(()),
        }
    }
}
