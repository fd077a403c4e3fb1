//! A run: pairs of ends that send each other random messages over a bad network.

use std::collections::BTreeMap;

use softrdma::rules::requester::Retry;
use softrdma::rules::verbs::Status;
use softrdma::wire::connection::Mtu;
use softrdma::wire::opcode::{Opcode, Transport};
use softrdma::wire::packet::{Head, MAX_HEAD, Packet};
use softrdma::wire::psn::Psn;
use softrdma::wire::requester::Requester;
use softrdma::wire::requester::message::Ticket;

use crate::end::{End, PLACES, Terms};
use crate::message::{self, Shadow};
use crate::network::{Network, Weather};
use crate::random::Random;

/// How often what was seen.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub runs: u64,
    pub messages: u64,
    pub packets: u64,
    pub lost: u64,
    pub lives: u64,
    pub unreliable: u64,
    pub changed: u64,
    pub drained: u64,
    pub notified: u64,
    pub asked: u64,
    pub beyond: u64,
    pub statuses: BTreeMap<&'static str, u64>,
}

impl Seen {
    pub fn add(&mut self, other: &Seen) {
        self.runs += other.runs;
        self.messages += other.messages;
        self.packets += other.packets;
        self.lost += other.lost;
        self.lives += other.lives;
        self.unreliable += other.unreliable;
        self.changed += other.changed;
        self.drained += other.drained;
        self.notified += other.notified;
        self.asked += other.asked;
        self.beyond += other.beyond;
        for (status, count) in &other.statuses {
            *self.statuses.entry(status).or_default() += count;
        }
    }
}

struct Pair {
    ends: [End; 2],
    terms: Terms,
    /// Messages that each end posts in a life.
    total: u64,
    lives: u64,
    psns: [u32; 2],
    /// When a pair of which one end is broken begins anew.
    renewed: Option<u64>,
    drains: [bool; 2],
    /// Acts of programs of a thousand that post receive requests.
    receives: u64,
}

pub struct World {
    random: Random,
    network: Network,
    weather: Weather,
    now: u64,
    pairs: Vec<Pair>,
    /// All but the times of verbs takes so many times as long: in slow runs the last packet is asked for early.
    pace: u64,
    /// Ends die, retries are few, memory goes, messages are refused.
    mortal: bool,
    changes: bool,
    seen: Seen,
}

/// The pace of a slow run, a power of two.
const SLOW: u64 = 64;

/// Steps after which a run counts as one that does not end.
const STEPS: u64 = 400_000;

pub fn run(seed: u64) -> Seen {
    let mut world = World::new(seed);
    let mut steps = 0;
    while !world.pairs.iter().all(Pair::is_over) {
        steps += 1;
        assert!(steps < STEPS, "it does not end");
        world.step();
    }
    world.check_the_end();
    world.seen.runs = 1;
    world.seen.packets = world.network.sent;
    world.seen.lost = world.network.lost;
    world.seen.changed = u64::from(world.changes);
    world.seen
}

impl World {
    fn new(seed: u64) -> World {
        let mut random = Random::new(seed);
        let random = &mut random;
        let mortal = random.per_mille(250);
        let changes = random.per_mille(100);
        let calm = random.per_mille(200);
        let pace = random.one_of(&[1, 1, SLOW]);
        let weather = Weather {
            lost: if calm { 0 } else { random.below(if mortal { 300 } else { 90 }) },
            doubled: if calm { 0 } else { random.below(100) },
            late: random.one_of(&[0, 20, 100, 300]),
            by: random.one_of(&[3_000, 30_000, 300_000]) * pace,
            delay: 5_000 * pace,
            marked: random.one_of(&[0, 0, 30, 300]),
            damaged: if calm { 0 } else { random.below(20) },
            changed: if changes { 1 + random.below(60) } else { 0 },
        };
        let pairs = 1 + random.below(2) as usize;
        let mut world = World {
            random: Random::new(seed ^ 0xffff),
            network: Network::default(),
            weather,
            now: 1,
            pairs: vec![],
            pace,
            mortal,
            changes,
            seen: Seen::default(),
        };
        for _ in 0..pairs {
            let pair = world.pair();
            world.pairs.push(pair);
            world.begin(world.pairs.len() - 1);
        }
        world
    }

    fn pair(&mut self) -> Pair {
        let random = &mut self.random;
        let unreliable = random.per_mille(150);
        self.seen.unreliable += u64::from(unreliable);
        let terms = Terms {
            transport: if unreliable { Transport::Uc } else { Transport::Rc },
            mtu: Mtu::from_bytes(random.one_of(&[256, 256, 512, 1024, 2048, 4096])).unwrap(),
            retry: Retry {
                // From 65 µs to 1 ms, or from 4 to 67 ms.
                timeout: (4 + random.below(5) + u64::from(self.pace.ilog2())) as u8,
                retry_cnt: if self.mortal { random.below(4) as u8 } else { 7 },
                rnr_retry: if self.mortal { 1 + random.below(7) as u8 } else { 7 },
            },
            reads: random.one_of(&[1, 2, 3, 4, 16]),
            window: random.one_of(&[1, 2, 5, 16, 64, 128, 128]),
            counts: random.per_mille(400),
        };
        Pair {
            ends: [End::new(0), End::new(1)],
            terms,
            total: 5 + random.below(25),
            lives: if self.mortal { 1 + random.below(3) } else { 1 },
            psns: [
                random.next() as u32,
                if random.per_mille(500) { 0xff_fff0 } else { random.next() as u32 },
            ],
            renewed: None,
            drains: [false; 2],
            receives: random.one_of(&[20, 100, 300, 300]),
        }
    }

    /// Begins a life of a pair: its numbers are those of the one before, with other PSNs.
    fn begin(&mut self, index: usize) {
        self.seen.lives += 1;
        let pair = &mut self.pairs[index];
        for psn in &mut pair.psns {
            *psn = if pair.renewed.is_none() && self.random.per_mille(300) {
                // They wrap around soon.
                (Psn::COUNT - 1) - self.random.below(60) as u32
            } else {
                psn.wrapping_add((1 << 20) + self.random.below(1 << 22) as u32)
            };
        }
        if pair.terms.transport == Transport::Uc {
            // UC takes any message that begins, also one of the life before: no number is used again so soon.
            self.network.forget([index * 2, index * 2 + 1]);
        }
        let psns = pair.psns.map(Psn::new);
        for side in 0..2 {
            let shadow = Shadow { memory: pair.ends[side ^ 1].memory.clone(), read_since: false };
            let dest_qp = number(index, side ^ 1);
            pair.ends[side].unsure = self.changes;
            pair.ends[side].trouble = self.network.trouble(index);
            pair.ends[side].start(&pair.terms, dest_qp, psns[side], psns[side ^ 1], shadow);
        }
        (pair.renewed, pair.drains) = (None, [false; 2]);
        pair.lives -= 1;
    }

    fn step(&mut self) {
        let acts = self.now + 1 + self.random.below(12_000 * self.pace);
        let deadlines =
            self.pairs.iter().flat_map(|pair| &pair.ends).filter_map(|end| end.requester.deadline());
        let next = deadlines.chain(self.network.next_arrival()).chain([acts]).min().unwrap();
        self.now = self.now.max(next);
        self.take();
        for index in 0..self.pairs.len() {
            for side in 0..2 {
                self.pairs[index].ends[side].requester.expire(self.now);
                self.act(index, side);
                self.transmit(index, side);
                self.follow(index, side);
            }
            let pair = &mut self.pairs[index];
            if pair.renewed.is_some_and(|at| at <= self.now) {
                self.renew(index);
            }
        }
    }

    /// Takes packets that have arrived, of which some for the same queue pair come together.
    fn take(&mut self) {
        let arrived: Vec<_> = std::iter::from_fn(|| self.network.arrived(self.now)).collect();
        let joins: Vec<_> = arrived.iter().map(|_| self.random.per_mille(700)).collect();
        let mut joins = joins.into_iter();
        for together in arrived.chunk_by(|one, next| joins.next() == Some(true) && one.0 == next.0) {
            let to = together[0].0;
            let parsed = together.iter().map(|(_, bytes, marked)| (Packet::parse(bytes), *marked));
            let packets: Vec<_> =
                parsed.filter_map(|(packet, marked)| packet.map(|packet| (packet, marked))).collect();
            assert!(self.changes || packets.len() == together.len(), "a packet that is not understood");
            // As a carrier does: by the number of the queue pair.
            for run in packets.chunk_by(|one, next| one.0.bth.dest_qp == next.0.bth.dest_qp) {
                if run[0].0.bth.dest_qp == number(to / 2, to % 2) {
                    self.take_run(to, run);
                }
            }
        }
    }

    /// Takes packets for one end, and whether each came with a mark of congestion.
    fn take_run(&mut self, to: usize, run: &[(Packet<'_>, bool)]) {
        let pair = &mut self.pairs[to / 2];
        let [one, other] = &mut pair.ends;
        let (end, peer) = if to.is_multiple_of(2) { (one, other) } else { (other, one) };
        let terms = &pair.terms;
        for (packet, marked) in run {
            if *marked && packet.bth.opcode.is_heavy() && !end.broken {
                end.mark(peer, terms, packet, self.now);
            }
        }
        let mut left: &[_] = &run.iter().map(|(packet, _)| *packet).collect::<Vec<_>>();
        while !left.is_empty() {
            left = &left[end.take(peer, terms, left, self.now)..];
            if std::mem::take(&mut end.is_answered) {
                end.trouble = self.network.trouble(to / 2);
            }
        }
    }

    /// What programs do.
    fn act(&mut self, index: usize, side: usize) {
        let random = &mut self.random;
        let pair = &mut self.pairs[index];
        let reliable = pair.terms.transport == Transport::Rc;
        let [one, other] = &mut pair.ends;
        let (end, peer) = if side == 0 { (one, &*other) } else { (other, &*one) };
        if end.broken {
            return;
        }
        let posted = end.posted.len() as u64;
        if posted < pair.total && end.requester.waiting() < PLACES && random.per_mille(400) {
            let refused = self.mortal && reliable && random.per_mille(15);
            let mtu = pair.terms.mtu.bytes();
            let message = message::random(posted, mtu, reliable, refused, &mut end.shadow, random);
            assert_eq!(end.requester.post(&message.message), Ok(Ticket(posted)));
            end.posted.push(message);
        }
        // Receivers are not ready now and then.
        if random.per_mille(pair.receives) {
            end.receives += random.below(4) as u32;
        }
        if random.per_mille(5) {
            end.slow(peer, &pair.terms, Requester::congested);
        }
        let drains = &mut pair.drains[side];
        if *drains && end.requester.is_drained() {
            self.seen.drained += 1;
            *drains = false;
            end.requester.set_draining(false);
        } else if !*drains && random.per_mille(10) {
            *drains = true;
            end.requester.set_draining(true);
        }
        if self.mortal && posted > end.ended && random.per_mille(2) && end.spoiled.is_none() {
            // Memory of one of the messages goes.
            let ticket = end.ended + random.below(posted - end.ended);
            end.requester.fail(Ticket(ticket), Status::LocProtErr);
            end.spoiled = Some(ticket);
        }
        if self.mortal && random.per_mille(1) {
            end.requester.flush();
            end.broken = true;
        }
    }

    /// Sends what may go, as far as there is room.
    fn transmit(&mut self, index: usize, side: usize) {
        let pair = &mut self.pairs[index];
        let [one, other] = &mut pair.ends;
        let (end, peer) = if side == 0 { (one, other) } else { (other, one) };
        let to = index * 2 + (side ^ 1);
        let random = &mut self.random;
        for _ in 0..random.below(12) {
            if end.broken {
                break;
            }
            let alone = end.requester.is_drained();
            let Some(transmit) = end.requester.next(self.now) else { break };
            self.seen.beyond += u64::from(end.check_credits(peer, &pair.terms, &transmit, alone));
            end.check_packet(peer, &pair.terms, &transmit, pair.drains[side]);
            self.seen.asked += u64::from(end.is_question(&pair.terms, &transmit, self.now));
            if random.per_mille(30) {
                // There is no room after all.
                end.requester.unsend(&transmit);
                end.last = None;
                break;
            }
            let ticket = transmit.ticket.0 as usize;
            let from = transmit.offset as usize;
            let payload = if transmit.length == 0 {
                &[][..]
            } else {
                &end.posted[ticket].payload[from..from + transmit.length as usize]
            };
            let packet = encode(&transmit.head, payload);
            self.network.send(self.now, to, &packet, &self.weather, random);
        }
        // The last answer of one that breaks goes out.
        let room = if end.broken && !end.responder.is_failed() { 0 } else { random.below(20) };
        for _ in 0..room {
            let Some(response) = end.responder.next_response(self.now) else { break };
            if random.per_mille(30) {
                end.responder.unsend(&response);
                break;
            }
            if response.head.bth.opcode == Opcode::CONGESTION_NOTIFICATION {
                self.seen.notified += 1;
                end.check_notification(self.now);
            }
            let head = end.with_credits(&pair.terms, &response.head);
            let payload = match &response.payload {
                Some(part) => {
                    let at = end.place(part.va, part.length).unwrap_or(0);
                    &end.memory[at..at + part.length as usize]
                }
                None => &[][..],
            };
            let packet = encode(&head, payload);
            self.network.send(self.now, to, &packet, &self.weather, random);
        }
    }

    /// Messages that ended, and ends that break.
    fn follow(&mut self, index: usize, side: usize) {
        let pair = &mut self.pairs[index];
        let reliable = pair.terms.transport == Transport::Rc;
        let [one, other] = &mut pair.ends;
        let (end, peer) = if side == 0 { (one, other) } else { (other, one) };
        let mut failed = end.responder.is_failed();
        let trouble = self.network.trouble(index) - end.trouble;
        if failed && !end.broken {
            end.requester.flush();
        }
        while let Some(done) = end.requester.done() {
            self.seen.messages += 1;
            let first = end.succeeded == done.ticket.0;
            end.end(peer, done, reliable);
            *self.seen.statuses.entry(name(done.status)).or_default() += 1;
            if done.status == Status::Success {
                continue;
            }
            let posted = &end.posted[done.ticket.0 as usize];
            let allowed = match done.status {
                Status::WrFlushErr => !first || end.broken || failed,
                Status::RemAccessErr => posted.refused,
                Status::LocProtErr => end.spoiled == Some(done.ticket.0),
                // Half of the tries, and it is the network: an answer may wait as well.
                Status::RetryExcErr => self.mortal || peer.broken || trouble >= 4,
                Status::RnrRetryExcErr => self.mortal,
                _ => false,
            };
            assert!(allowed || end.unsure, "{done:?}");
            assert!(first || done.status == Status::WrFlushErr, "after a failure all is flushed");
            failed = true;
        }
        end.broken |= failed;
        if end.broken && pair.renewed.is_none() {
            pair.renewed = Some(self.now + self.random.below(3_000_000 * self.pace));
        }
    }

    /// Both ends begin anew, or the pair is over.
    fn renew(&mut self, index: usize) {
        for side in 0..2 {
            let end = &mut self.pairs[index].ends[side];
            if !end.broken {
                end.broken = true;
                end.requester.flush();
            }
            self.follow(index, side);
            let end = &self.pairs[index].ends[side];
            assert_eq!(end.ended, end.posted.len() as u64, "all messages end");
        }
        if self.pairs[index].lives > 0 {
            self.begin(index);
        } else {
            self.pairs[index].lives = 0;
            self.pairs[index].renewed = Some(u64::MAX);
        }
    }

    /// What must be true of those that did not break.
    fn check_the_end(&self) {
        for pair in &self.pairs {
            if pair.renewed.is_some() || pair.terms.transport != Transport::Rc || self.changes {
                continue;
            }
            for side in 0..2 {
                let (end, peer) = (&pair.ends[side], &pair.ends[side ^ 1]);
                assert_eq!(peer.executed, pair.total, "all is carried out");
                assert!(peer.memory == end.shadow.memory, "memory is as all messages have left it");
            }
        }
    }
}

impl Pair {
    fn is_over(&self) -> bool {
        match self.renewed {
            Some(at) => at == u64::MAX,
            None => self.ends.iter().all(|end| end.ended == self.total),
        }
    }
}

/// The number of a queue pair.
fn number(pair: usize, side: usize) -> u32 {
    0x100 + (pair * 2 + side) as u32
}

fn encode(head: &Head, payload: &[u8]) -> Vec<u8> {
    let mut bytes = [0; MAX_HEAD];
    let written = head.write(&mut bytes);
    let mut packet = bytes[..written].to_vec();
    packet.extend(payload);
    packet.resize(packet.len() + usize::from(head.bth.pad), 0);
    packet
}

fn name(status: Status) -> &'static str {
    match status {
        Status::Success => "success",
        Status::WrFlushErr => "flushed",
        Status::LocProtErr => "protection",
        Status::RemAccessErr => "access",
        Status::RetryExcErr => "retries",
        Status::RnrRetryExcErr => "not ready",
        _ => "other",
    }
}
