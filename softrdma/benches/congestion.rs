//! What the wire's protocol makes of a network that is narrow or loses packets: the requesters and responders
//! that ship, on a clock of this program's own. The same figures on every machine.
//!
//! `congestion [SEED...]`: goodput of one flow where packets are lost at random, and the shares of several
//! flows that meet at one bottleneck, whose queue drops what it has no room for.

use std::collections::BTreeMap;

use softrdma::rules::requester::Retry;
use softrdma::rules::verbs::{Opcode, Status};
use softrdma::wire::connection::{Connection, Mtu};
use softrdma::wire::opcode::Transport;
use softrdma::wire::packet::{Head, Packet};
use softrdma::wire::psn::Psn;
use softrdma::wire::requester::Requester;
use softrdma::wire::requester::message::Message;
use softrdma::wire::responder::Responder;
use softrdma::wire::responder::step::{Executed, Step};

/// Bytes of a message, and how many wait at a time.
const MESSAGE: u32 = 1 << 16;
const QUEUED: u32 = 64;
/// Packets that leave together, as the device lets them.
const BURST: usize = 32;
/// And of these by one call.
const LONGEST_TRAIN: u32 = 15;
/// Bytes of headers, from Ethernet's on.
const HEADERS: u64 = 82;
const PAYLOAD: [u8; 4096] = [7; 4096];
/// An answer comes later by less than that, in nanoseconds.
const JITTER: u64 = 50_000;
const MILLISECOND: u64 = 1_000_000;

/// A network: all packets to the responders go by one queue.
#[derive(Clone, Copy)]
pub struct Network {
    /// How many.
    pub flows: usize,
    /// Bytes in a second.
    pub rate: f64,
    /// Bytes that the queue holds.
    pub room: u64,
    /// One way, in nanoseconds, beside the queue.
    pub delay: u64,
    /// Of 1000 packets, each way.
    pub lost: u64,
    /// Packets that leave together are kept or dropped together, as where a host cuts them late.
    pub trains: bool,
}

/// What happens to a flow.
enum Event {
    /// Packets arrive at the responder, with so many bytes of payload.
    Requests(Vec<(Head, u32)>),
    Answer(Head),
    Timer,
}

struct Flow {
    requester: Requester,
    responder: Responder,
    /// Bytes of messages that ended.
    done: u64,
    /// Packets sent.
    sent: u64,
    timer: u64,
}

struct World {
    network: Network,
    flows: Vec<Flow>,
    /// By their time, and their number where that is the same: of which flow.
    events: BTreeMap<(u64, u64), (usize, Event)>,
    /// When the queue is empty.
    drained: u64,
    count: u64,
    random: u64,
}

impl World {
    fn new(network: Network, seed: u64) -> Self {
        let connection = Connection {
            transport: Transport::Rc,
            mtu: Mtu::MOST,
            dest_qp: 2,
            p_key: 0xffff,
            psn: Psn::new(77),
        };
        let flow = || {
            let mut requester = Requester::new(QUEUED, 1).unwrap();
            requester.start(connection, Retry { timeout: 14, retry_cnt: 7, rnr_retry: 7 }, 1);
            let mut responder = Responder::new(1).unwrap();
            responder.start(connection, 1);
            Flow { requester, responder, done: 0, sent: 0, timer: u64::MAX }
        };
        let flows = (0..network.flows).map(|_| flow()).collect();
        let events = BTreeMap::new();
        Self { network, flows, events, drained: 0, count: 0, random: seed.wrapping_mul(0x9e37_79b9) | 1 }
    }

    fn random(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }

    fn is_lost(&mut self) -> bool {
        self.random(1000) < self.network.lost
    }

    fn push(&mut self, at: u64, flow: usize, event: Event) {
        self.count += 1;
        self.events.insert((at, self.count), (flow, event));
    }

    /// When bytes that come to the queue now have left it; `None` where it has no room.
    fn queue(&mut self, bytes: u64, now: u64) -> Option<u64> {
        let waiting = self.drained.saturating_sub(now) as f64 * self.network.rate / 1e9;
        if waiting as u64 + bytes > self.network.room {
            return None;
        }
        self.drained = self.drained.max(now) + (bytes as f64 * 1e9 / self.network.rate) as u64;
        Some(self.drained)
    }

    /// What a flow may send leaves.
    fn send(&mut self, at: usize, now: u64) {
        loop {
            let flow = &mut self.flows[at];
            while let Some(done) = flow.requester.done() {
                assert_eq!(done.status, Status::Success);
                flow.done += u64::from(MESSAGE);
            }
            while flow.requester.waiting() < QUEUED {
                flow.requester.post(&Message::new(Opcode::RdmaWrite, MESSAGE)).unwrap();
            }
            let mut burst = Vec::new();
            while burst.len() < BURST
                && let Some(transmit) = flow.requester.next(now)
            {
                flow.sent += 1;
                burst.push((transmit.head, transmit.length));
            }
            if burst.is_empty() {
                break;
            }
            self.carry(at, burst, now);
        }
        let deadline = self.flows[at].requester.deadline().unwrap_or(u64::MAX);
        if deadline < self.flows[at].timer || self.flows[at].timer <= now {
            self.flows[at].timer = deadline;
            if deadline < u64::MAX {
                self.push(deadline, at, Event::Timer);
            }
        }
    }

    fn carry(&mut self, at: usize, mut burst: Vec<(Head, u32)>, now: u64) {
        let train = self.flows[at].requester.train().min(LONGEST_TRAIN) as usize;
        let together = if self.network.trains { train } else { 1 };
        while !burst.is_empty() {
            let mut train: Vec<_> = burst.drain(..together.min(burst.len())).collect();
            let bytes = train.iter().map(|(_, length)| u64::from(*length) + HEADERS).sum();
            let Some(left) = self.queue(bytes, now) else { continue };
            train.retain(|_| !self.is_lost());
            if !train.is_empty() {
                self.push(left + self.network.delay, at, Event::Requests(train));
            }
        }
    }

    fn happen(&mut self, at: usize, event: Event, now: u64) {
        let flow = &mut self.flows[at];
        match event {
            Event::Timer => {
                if now >= flow.timer {
                    flow.timer = u64::MAX;
                    flow.requester.expire(now);
                }
            }
            Event::Answer(head) => {
                flow.requester.take(&Packet { bth: head.bth, headers: head.headers, payload: &[] }, now);
            }
            Event::Requests(packets) => {
                for (head, length) in packets {
                    let payload = &PAYLOAD[..length as usize];
                    let step = flow.responder.take(&Packet { bth: head.bth, headers: head.headers, payload });
                    if let Step::Execute(_) = step {
                        flow.responder.executed(Executed::Done);
                    }
                }
                let mut answers = Vec::new();
                while let Some(answer) = flow.responder.next_response(now) {
                    answers.push(answer.head);
                }
                for answer in answers {
                    if !self.is_lost() {
                        // Hosts are not always as fast: flows do not go in step.
                        let late = self.random(JITTER);
                        self.push(now + self.network.delay + late, at, Event::Answer(answer));
                    }
                }
                return;
            }
        }
        self.send(at, now);
    }

    fn run(&mut self, until: u64) {
        if self.count == 0 {
            // Not all at once.
            (0..self.flows.len()).for_each(|at| self.push(at as u64 * MILLISECOND / 10, at, Event::Timer));
            self.flows.iter_mut().for_each(|flow| flow.timer = 0);
        }
        while let Some(first) = self.events.first_entry().filter(|first| first.key().0 < until) {
            let ((now, _), (at, event)) = first.remove_entry();
            self.happen(at, event, now);
        }
    }
}

/// What flows make of a network over so many seconds, from the second on: MiB/s of all, how far the least and
/// the most are from their mean, and how much of what was sent was of use.
pub fn shares(network: Network, seconds: u64, seed: u64) -> (f64, f64, f64, f64) {
    let mut world = World::new(network, seed);
    world.run(1000 * MILLISECOND);
    let before: Vec<_> = world.flows.iter().map(|flow| (flow.done, flow.sent)).collect();
    world.run((1 + seconds) * 1000 * MILLISECOND);
    let of = |n: usize| (world.flows[n].done - before[n].0) as f64;
    let all: Vec<_> = (0..network.flows).map(of).collect();
    let sum: f64 = all.iter().sum();
    let mean = sum / all.len() as f64;
    let least = all.iter().copied().fold(f64::MAX, f64::min);
    let most = all.iter().copied().fold(0.0, f64::max);
    let sent: u64 = world.flows.iter().zip(&before).map(|(flow, before)| flow.sent - before.1).sum();
    let useful = sum / 4096.0 / sent as f64;
    (sum / seconds as f64 / f64::from(1 << 20), least / mean - 1.0, most / mean - 1.0, useful)
}

fn main() {
    let seeds: Vec<u64> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let seeds = if seeds.is_empty() { vec![1, 2, 3] } else { seeds };
    println!("one flow, 10 Gbit/s, 100 us over and back; of 1000 packets so many are lost each way");
    for lost in [0, 1, 10, 50] {
        let network = Network { flows: 1, rate: 1.25e9, room: 4 << 20, delay: 50_000, lost, trains: false };
        for seed in &seeds {
            let (sum, _, _, useful) = shares(network, 4, *seed);
            println!("lost {lost:3}  {sum:8.1} MiB/s, {:3.0} % of the packets useful", 100.0 * useful);
        }
    }
    println!("8 flows, 400 Mbit/s, a queue of 20 ms");
    for (trains, delay) in [(false, 50_000), (true, 50_000), (true, 2_000_000)] {
        let network = Network { flows: 8, rate: 5e7, room: 1_000_000, delay, lost: 0, trains };
        for seed in &seeds {
            let (sum, least, most, useful) = shares(network, 8, *seed);
            println!(
                "{} {:5} us  {sum:8.1} MiB/s, least {:+.0} %, most {:+.0} % of the mean, {:3.0} % useful",
                if trains { "trains " } else { "packets" },
                2 * delay / 1000,
                100.0 * least,
                100.0 * most,
                100.0 * useful
            );
        }
    }
}
