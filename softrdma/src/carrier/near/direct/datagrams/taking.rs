//! Datagrams taken from rings, behind the lock of their queue pair.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering};

use super::requests::{Own, Request};
use super::{DatagramReader, DatagramRing, LOOKS, SLOTS, WORDS};
use crate::carrier::near::bytes;
use crate::carrier::near::endpoint::Endpoint;
use crate::carrier::near::key_cache::KeyCache;
use crate::carrier::near::mapped::Locked;
use crate::carrier::near::own_ring::OwnReader;
use crate::queues::direct::SHORT;
use crate::queues::direct::datagram::{Datagram, SHORT_WORDS};
use crate::rules::completion::Completion;
use crate::rules::verbs::{Status, WcFlags, WcOpcode};
use crate::shm::lock::Lock;

/// Most datagrams that are taken at a time.
const TOGETHER: usize = 8;

/// A datagram that was taken with a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ready<const MOST_WORDS: usize> {
    pub(super) wr_id: u64,
    pub(super) to: u64,
    pub(super) datagram: Datagram,
    pub(super) words: [u64; MOST_WORDS],
}

impl<const MOST_WORDS: usize> Ready<MOST_WORDS> {
    /// Puts its bytes into the memory of the request, which the caller uses, and completes that.
    #[inline(always)]
    fn complete(&self, qp_num: u32, src_qp: u32) -> Completion {
        let Self { wr_id, to, datagram, words } = self;
        bytes::put_words(*to, words, datagram.bytes);
        // rule: wc-header, wc-immediate
        let mut flags = WcFlags::GRH;
        if words[0].to_ne_bytes()[0] >> 4 != 6 {
            flags = flags.union(WcFlags::IPV4);
        }
        let imm = datagram.header.imm;
        if imm.is_some() {
            flags = flags.union(WcFlags::WITH_IMM);
        }
        Completion {
            wr_id: *wr_id,
            status: Status::Success,
            opcode: WcOpcode::Recv,
            vendor_err: 0,
            byte_len: datagram.bytes,
            imm_or_key: imm.unwrap_or(0),
            qp_num,
            src_qp,
            flags,
            timestamp: 0,
            places: 0,
        }
    }
}

/// What became of a look at a ring.
enum Look {
    /// So many datagrams were handed out.
    Taken(u32),
    /// There is none, or those that were there came to nobody.
    Nothing,
    /// It waits.
    Waits,
    /// It waits for the lock.
    Kept,
}

impl DatagramReader {
    /// Hands out the next datagrams of a ring, at most so many, where no completion waits in the shared queue,
    /// nor an own one that was there before: `next` is the word where the next one is seen, `head` were taken.
    /// `may_sleep`: who finds nothing may not come again by himself.
    #[inline(always)]
    pub(in super::super) fn take(
        &mut self,
        endpoint: &Endpoint,
        (next, head): (&AtomicU64, u32),
        own: &OwnReader,
        (most, may_sleep): (u32, bool),
        take: &mut impl FnMut(&Completion),
    ) -> u32 {
        let count = self.rings.len();
        for n in 0..count {
            let place = if self.first + n < count { self.first + n } else { self.first + n - count };
            if !self.rings.get(place).is_some_and(DatagramRing::is_there) {
                continue;
            }
            let none_waits = || next.load(Ordering::Acquire) as u32 != head.wrapping_add(1);
            // Looked at after it was seen.
            if !none_waits() || !own.lets_pass(&mut self.own_first) {
                return 0;
            }
            match self.take_from(endpoint, place, none_waits, own, most, take) {
                Look::Taken(taken) => {
                    self.first = if place + 1 < count { place + 1 } else { 0 };
                    self.passed = 0;
                    return taken;
                }
                Look::Nothing => {}
                Look::Kept => {
                    self.is_kept(may_sleep);
                    return 0;
                }
                Look::Waits => return 0,
            }
        }
        0
    }

    #[inline(always)]
    fn take_from(
        &mut self,
        endpoint: &Endpoint,
        place: usize,
        none_waits: impl Fn() -> bool,
        own: &OwnReader,
        most: u32,
        take: &mut impl FnMut(&Completion),
    ) -> Look {
        let Self { rings, own: requests, key_cache, own_first, pd, qp_num, .. } = self;
        let (pd, qp_num) = (*pd, *qp_num);
        let Some(ring) = rings.get_mut(place) else { return Look::Nothing };
        let lock = requests.lock.get();
        let Some(locked) = Locked::take(lock, endpoint.segment.owner()).or_else(|| try_again(lock, endpoint))
        else {
            return Look::Kept;
        };
        self.vain = 0;
        // All that came behind the lock, and got a request before, stands in the shared queue by now.
        if !none_waits() {
            locked.give_back();
            return Look::Waits;
        }
        let qkey = requests.key(&self.datagrams);
        let mut left = SLOTS;
        let (datagram, request) = loop {
            let Some(datagram) = ring.next().filter(|_| left > 0) else {
                locked.give_back();
                return Look::Nothing;
            };
            if let Some(request) = requests.request_for(&datagram, 0, qkey) {
                break (datagram, request);
            }
            ring.take(&datagram);
            left -= 1;
        };
        let Request { wr_id, sge, .. } = request;
        let source = if sge.length >= datagram.bytes {
            bytes::source(endpoint, key_cache, pd, &sge, false, true)
        } else {
            None
        };
        let Some((to, _in_use)) = source else {
            self.leaves = true;
            locked.give_back();
            return Look::Waits;
        };
        let src_qp = ring.src_qp;
        // The memory may not be there: a program that goes on after the fault must not keep the lock.
        if datagram.bytes > SHORT {
            let ready = take_long(ring, requests, &datagram, wr_id, to);
            locked.give_back();
            take(&ready.complete(qp_num, src_qp));
            return Look::Taken(1);
        }
        let ready = ring.pass::<SHORT_WORDS>(&datagram, wr_id, to);
        if most > 1 && ring.behind().is_some() {
            let goes_on = || none_waits() && own.lets_pass(own_first);
            let find =
                |request: &Request, bytes| same_key(endpoint, key_cache, (pd, sge.lkey), request, bytes);
            let all = Together { ring, requests, qkey, locked, qp_num };
            let taken = all.take(ready, most, goes_on, find, take);
            return Look::Taken(taken);
        }
        requests.pass(1);
        ring.tell();
        locked.give_back();
        take(&ready.complete(qp_num, src_qp));
        Look::Taken(1)
    }
}

/// Where so many bytes of a request go whose memory has this key, which is in use.
#[inline(always)]
fn same_key(
    endpoint: &Endpoint,
    key_cache: &mut KeyCache,
    (pd, lkey): (u32, u32),
    request: &Request,
    bytes: u32,
) -> Option<u64> {
    let sge = &request.sge;
    if sge.lkey != lkey || sge.length < bytes {
        return None;
    }
    let entry = key_cache.find(&endpoint.keys, pd, lkey, sge.addr, sge.length, true)?;
    Some(entry.translate(sge.addr))
}

/// A ring of which several datagrams are taken behind one lock.
struct Together<'a> {
    ring: &'a mut DatagramRing,
    requests: &'a Own,
    qkey: Option<u32>,
    locked: Locked<'a>,
    qp_num: u32,
}

impl Together<'_> {
    /// Hands out one that was passed, and those behind it, as long as they are as that, `goes_on`, and it is
    /// found where they go; how many. Others are looked at anew the next time.
    #[inline(never)]
    fn take(
        self,
        first: Ready<SHORT_WORDS>,
        most: u32,
        mut goes_on: impl FnMut() -> bool,
        mut find: impl FnMut(&Request, u32) -> Option<u64>,
        take: &mut impl FnMut(&Completion),
    ) -> u32 {
        let Self { ring, requests, qkey, locked, qp_num } = self;
        let (mut all, mut passed) = ([first; TOGETHER], 1);
        for ready in all.iter_mut().take(most as usize).skip(1) {
            let Some(datagram) = ring.behind().filter(|datagram| datagram.bytes <= SHORT) else { break };
            // Looked at after it was seen.
            if !goes_on() {
                break;
            }
            let Some(request) = requests.request_for(&datagram, passed, qkey) else { break };
            let Some(to) = find(&request, datagram.bytes) else { break };
            *ready = ring.pass(&datagram, request.wr_id, to);
            passed += 1;
        }
        requests.pass(passed);
        ring.tell();
        locked.give_back();
        for ready in all.iter().take(passed as usize) {
            take(&ready.complete(qp_num, ring.src_qp));
        }
        passed
    }
}

#[inline(never)]
fn take_long(
    ring: &mut DatagramRing,
    requests: &Own,
    datagram: &Datagram,
    wr_id: u64,
    to: u64,
) -> Ready<WORDS> {
    let ready = ring.pass(datagram, wr_id, to);
    requests.pass(1);
    ring.tell();
    ready
}

/// Takes the lock that another has just now, within some microseconds.
#[cold]
#[inline(never)]
fn try_again<'a>(lock: &'a Lock, endpoint: &Endpoint) -> Option<Locked<'a>> {
    for _ in 0..LOOKS {
        spin_loop();
        if let Some(locked) = Locked::take(lock, endpoint.segment.owner()) {
            return Some(locked);
        }
    }
    None
}
