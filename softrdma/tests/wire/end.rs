//! An end of a connection: its machines, its memory, and what it knows to be true of what arrives.

use softrdma::rules::requester::{Retry, Syndrome};
use softrdma::rules::timers::ack_timeout;
use softrdma::rules::verbs::{Opcode as Verb, Status};
use softrdma::wire::connection::{Connection, Mtu};
use softrdma::wire::opcode::{Opcode, Operation, Transport};
use softrdma::wire::packet::{DEFAULT_P_KEY, Head, Packet};
use softrdma::wire::psn::Psn;
use softrdma::wire::requester::Requester;
use softrdma::wire::requester::message::{Done, Taken, Transmit};
use softrdma::wire::responder::Responder;
use softrdma::wire::responder::step::{Executed, Piece, Step};

use crate::message::{BASE, Posted, RKEY, Shadow, atomic, memory};

/// Places of messages in a queue.
pub const PLACES: u32 = 12;

/// How a pair of ends is connected.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    pub transport: Transport,
    pub mtu: Mtu,
    pub retry: Retry,
    pub reads: u8,
    pub window: u32,
    /// Both say how many receive requests they have.
    pub counts: bool,
}

pub struct End {
    pub requester: Requester,
    pub responder: Responder,
    pub memory: Vec<u8>,
    /// What it has posted in this life, by ticket.
    pub posted: Vec<Posted>,
    /// How many have ended, and how many of them well.
    pub ended: u64,
    pub succeeded: u64,
    /// The peer's memory when all that is posted is carried out.
    pub shadow: Shadow,
    /// Messages of the peer that were carried out here.
    pub executed: u64,
    /// The part that came of the peer's next message, and how much of its read was answered.
    partial: Vec<u8>,
    read: u32,
    pub receives: u32,
    /// The packet behind the last that was carried out here.
    pub expected: Psn,
    /// Messages that were begun.
    pub begun: u64,
    /// Its queue pair is in ERR: it answers nothing.
    pub broken: bool,
    /// The content of packets is not to be believed, as some were changed.
    pub unsure: bool,
    mtu: Mtu,
    /// A message of its own that fails here.
    pub spoiled: Option<u64>,
    /// The packet behind the last that it has sent.
    sent: Psn,
    /// That at the time when its window was halved last for congestion.
    halved: Option<Psn>,
    /// It has sent more since it heard of congestion.
    sent_since: bool,
    /// When the first packet with a mark came, and how many notifications were sent since.
    marked: Option<u64>,
    notifications: u64,
    /// When the last of its packets was sent for the first time since an answer came, and how often since.
    pub last: Option<(u64, u32)>,
    /// Messages that take a receive request, and were begun.
    sends: u64,
    /// Behind the last packet that the peer has spoken of, and whether it has said then what room it has.
    spoken_of: Psn,
    hears_credits: bool,
    /// Receive requests that were taken here, and up to which of them the peer may have heard that there are.
    taken: u64,
    told: u64,
    /// An answer came to what is under way, and packets of the pair that were lost or late before the last one.
    pub is_answered: bool,
    pub trouble: u64,
}

/// Nanoseconds for each congestion notification.
const BETWEEN: u64 = 50_000;
/// The smallest window.
const LEAST: u32 = 2;

impl End {
    pub fn new(index: usize) -> End {
        End {
            requester: Requester::new(PLACES, 16).unwrap(),
            responder: Responder::new(16).unwrap(),
            memory: memory(index),
            posted: vec![],
            ended: 0,
            succeeded: 0,
            shadow: Shadow { memory: memory(index ^ 1), read_since: false },
            executed: 0,
            partial: vec![],
            read: 0,
            receives: 0,
            expected: Psn::new(0),
            begun: 0,
            broken: false,
            unsure: false,
            mtu: Mtu::LEAST,
            spoiled: None,
            sent: Psn::new(0),
            halved: None,
            sent_since: false,
            marked: None,
            notifications: 0,
            last: None,
            sends: 0,
            spoken_of: Psn::new(0),
            hears_credits: false,
            taken: 0,
            told: 0,
            is_answered: false,
            trouble: 0,
        }
    }

    /// A new life, with these PSNs.
    pub fn start(&mut self, terms: &Terms, dest_qp: u32, sends: Psn, receives: Psn, shadow: Shadow) {
        let connection = |psn| Connection {
            transport: terms.transport,
            mtu: terms.mtu,
            dest_qp,
            p_key: DEFAULT_P_KEY,
            psn,
        };
        self.mtu = terms.mtu;
        self.requester.start(connection(sends), terms.retry, terms.reads);
        self.requester.set_window_limit(terms.window);
        self.responder.start(connection(receives), terms.reads);
        (self.posted, self.ended, self.succeeded, self.executed) = (vec![], 0, 0, 0);
        (self.partial, self.read, self.receives) = (vec![], 0, 0);
        (self.expected, self.begun) = (receives, 0);
        (self.broken, self.spoiled, self.shadow) = (false, None, shadow);
        (self.sent, self.halved, self.sent_since) = (sends, None, false);
        (self.marked, self.notifications, self.last) = (None, 0, None);
        (self.sends, self.taken, self.told) = (0, 0, 0);
        (self.spoken_of, self.hears_credits) = (sends, false);
    }

    /// A packet came with a mark of congestion.
    pub fn mark(&mut self, peer: &End, terms: &Terms, packet: &Packet<'_>, now: u64) {
        self.marked.get_or_insert(now);
        self.responder.marked(now);
        if packet.bth.opcode.operation() == Operation::ReadResponse {
            self.slow(peer, terms, Requester::congested);
        }
    }

    /// It hears of congestion: its window is halved, if it was not already for what was under way then.
    pub fn slow(&mut self, peer: &End, terms: &Terms, hear: impl FnOnce(&mut Requester)) {
        let before = self.requester.window();
        let is_idle = self.requester.waiting() == 0;
        hear(&mut self.requester);
        let after = self.requester.window();
        let half = (before / 2).max(LEAST).min(terms.window);
        assert!(after == before || after == half, "half as many may be under way");
        if terms.transport != Transport::Rc || self.unsure {
            return;
        }
        assert!(!is_idle || !self.sent_since || after == half, "the network was not heard");
        self.sent_since = false;
        if after < before {
            let again = self.halved.replace(self.sent);
            let twice = again.is_some_and(|sent| peer.expected.is_before(sent));
            assert!(!twice, "the window was halved twice for what was under way");
        }
    }

    /// A congestion notification goes out.
    pub fn check_notification(&mut self, now: u64) {
        let first = self.marked.expect("no packet came with a mark");
        assert!(self.notifications * BETWEEN <= now - first, "notifications are few");
        self.notifications += 1;
    }

    /// Takes the first of some packets, which the peer may have sent in this life or in one before, and those
    /// that join it: how many.
    pub fn take(&mut self, peer: &End, terms: &Terms, packets: &[Packet<'_>], now: u64) -> usize {
        let packet = &packets[0];
        if self.broken {
            return 1;
        }
        if packet.bth.opcode == Opcode::CONGESTION_NOTIFICATION {
            self.responder.congested(now);
            self.slow(peer, terms, |requester| {
                assert_eq!(requester.take(packet, now), Taken::Nothing);
            });
        } else if packet.bth.opcode.operation().is_response() {
            self.take_answer(packet, now);
        } else {
            match self.responder.take(packet) {
                Step::Nothing => {}
                Step::Refused => assert!(self.unsure, "a packet of the peer broke the rules"),
                Step::Execute(piece) => return self.take_joined(peer, terms, packets, piece),
            }
        }
        1
    }

    /// Carries out the first of some packets with those that join it: how many.
    fn take_joined(&mut self, peer: &End, terms: &Terms, packets: &[Packet<'_>], first: Piece) -> usize {
        let (mut piece, mut payload) = (first, packets[0].payload.to_vec());
        let mut last = &packets[0];
        let mut count = 1;
        while let Some(next) = packets.get(count)
            && let Some(longer) = self.responder.join(next)
        {
            assert_eq!((longer.offset, longer.begins), (first.offset, first.begins));
            payload.extend(next.payload);
            (piece, last, count) = (longer, next, count + 1);
        }
        let executed = if self.unsure {
            self.believe(&piece)
        } else if terms.transport == Transport::Rc {
            self.execute(peer, &piece, &payload)
        } else {
            self.execute_unreliable(peer, &piece, &payload)
        };
        if !piece.again && matches!(executed, Executed::Done | Executed::Original(_)) {
            let packets = piece.memory.filter(|_| piece.operation == Operation::ReadRequest);
            self.expected = last.bth.psn + packets.map_or(1, |reth| self.mtu.packets(reth.length));
        }
        self.responder.executed(executed);
        count
    }

    fn take_answer(&mut self, packet: &Packet<'_>, now: u64) {
        self.last = None;
        let psn = packet.bth.psn;
        if !psn.is_before(self.spoken_of) && psn.is_before(self.sent) {
            let is_positive = packet.headers.aeth.is_some_and(|aeth| aeth.syndrome < 32);
            self.hears_credits |= is_positive;
            self.is_answered = true;
            self.spoken_of = if is_positive { psn.next() } else { psn };
        }
        match self.requester.take(packet, now) {
            Taken::Nothing => {}
            Taken::Read { ticket, offset } => {
                let posted = &mut self.posted[ticket.0 as usize];
                assert!(offset as usize + packet.payload.len() <= posted.message.length as usize);
                assert_eq!(posted.answer.len(), offset as usize, "an answer has a hole, or comes twice");
                posted.answer.extend(packet.payload);
            }
            Taken::Atomic { ticket, original } => {
                let posted = &mut self.posted[ticket.0 as usize];
                assert!(posted.answer.is_empty(), "two answers");
                posted.answer = original.to_ne_bytes().to_vec();
            }
        }
    }

    /// A packet goes out: nothing is under way that may not be.
    pub fn check_packet(&mut self, peer: &End, terms: &Terms, transmit: &Transmit, drains: bool) {
        let ticket = transmit.ticket.0;
        assert!(!drains || ticket < self.begun, "nothing is begun while the queue drains");
        self.begun = self.begun.max(ticket + 1);
        let last = last_of(terms, transmit);
        if !last.is_before(self.sent) {
            (self.sent, self.sent_since, self.last) = (last.next(), true, None);
        }
        if terms.transport != Transport::Rc || self.unsure || peer.broken {
            return;
        }
        assert!(last.ahead_of(peer.expected) < terms.window.cast_signed(), "more is under way than may be");
    }

    /// A packet goes out, with no message under way where it is alone: those that take a receive request are
    /// one more than the peer has, once it has said so. Whether it is of that one.
    pub fn check_credits(&mut self, peer: &End, terms: &Terms, transmit: &Transmit, alone: bool) -> bool {
        let ticket = transmit.ticket.0;
        let opcode = self.posted[ticket as usize].message.opcode;
        let takes = !matches!(opcode, Verb::RdmaRead | Verb::RdmaWrite | Verb::CmpAndSwp | Verb::FetchAndAdd);
        if ticket < self.begun || !takes {
            return false;
        }
        self.sends += 1;
        if !terms.counts || terms.transport != Transport::Rc || self.unsure || !self.hears_credits {
            return false;
        }
        assert!(alone || self.sends <= peer.told + 1, "more is sent than the peer has room for");
        self.sends > peer.told
    }

    /// An answer with the receive requests that there are, where that is said.
    pub fn with_credits(&mut self, terms: &Terms, head: &Head) -> Head {
        let mut head = *head;
        if let Some(aeth) = head.headers.aeth.as_mut().filter(|aeth| terms.counts && aeth.syndrome == 31) {
            let credits = self.receives.min(4);
            aeth.syndrome = credits as u8;
            self.told = self.told.max(self.taken + u64::from(credits));
        }
        head
    }

    /// Whether a packet asks once more for what was sent last, before an answer can be missing.
    pub fn is_question(&mut self, terms: &Terms, transmit: &Transmit, now: u64) -> bool {
        if terms.transport != Transport::Rc || last_of(terms, transmit).next() != self.sent {
            return false;
        }
        let (first, times) = self.last.get_or_insert((now, 0));
        let is_early = now - *first < ack_timeout(terms.retry.timeout).unwrap();
        *times += 1;
        assert!(!is_early || *times <= 2, "the last packet is asked for twice");
        assert!(*times == 1 || transmit.head.bth.ack_req, "what is sent again asks for an answer");
        is_early && *times == 2
    }

    /// Carries out what may be anything.
    fn believe(&mut self, piece: &Piece) -> Executed {
        if let Some(reth) = piece.memory
            && (reth.rkey != RKEY || reth.length > 0 && self.place(reth.va, reth.length).is_none())
        {
            return Executed::Refused(Syndrome::Access);
        }
        if piece.atomic.is_some() { Executed::Original(1) } else { Executed::Done }
    }

    /// Where bytes are in the memory.
    pub fn place(&self, va: u64, length: u32) -> Option<usize> {
        let at = usize::try_from(va.checked_sub(BASE)?).ok()?;
        (at.checked_add(length as usize)? <= self.memory.len()).then_some(at)
    }

    /// Carries out a piece, which must be the one that is next.
    fn execute(&mut self, peer: &End, piece: &Piece, payload: &[u8]) -> Executed {
        if piece.again {
            return Executed::Done;
        }
        let posted = peer.posted.get(self.executed as usize).expect("nothing more was posted");
        let message = &posted.message;
        let expected = match message.opcode {
            Verb::Send | Verb::SendWithImm | Verb::SendWithInv => Operation::Send,
            Verb::RdmaWrite | Verb::RdmaWriteWithImm => Operation::Write,
            Verb::RdmaRead => Operation::ReadRequest,
            Verb::CmpAndSwp => Operation::CompareSwap,
            _ => Operation::FetchAdd,
        };
        assert_eq!(piece.operation, expected, "messages are carried out in order, once");
        let rkey = piece.memory.map(|reth| reth.rkey).or(piece.atomic.map(|atomic| atomic.rkey));
        if let Some(rkey) = rkey
            && rkey != RKEY
            && message.length > 0
        {
            assert!(posted.refused, "the key changed");
            return Executed::Refused(Syndrome::Access);
        }
        match piece.operation {
            Operation::ReadRequest => {
                let reth = piece.memory.unwrap();
                assert_eq!(reth.va, message.va + u64::from(self.read), "reads are carried out in order");
                self.read += reth.length;
                assert!(self.read <= message.length, "more is read than was asked for");
                if self.read == message.length {
                    (self.read, self.executed) = (0, self.executed + 1);
                }
                Executed::Done
            }
            Operation::CompareSwap | Operation::FetchAdd => {
                let asked = piece.atomic.unwrap();
                let at = self.place(asked.va, 8).unwrap();
                let before = u64::from_ne_bytes(self.memory[at..at + 8].try_into().unwrap());
                let compares = piece.operation == Operation::CompareSwap;
                let after = atomic(compares, before, asked.swap_or_add, asked.compare);
                self.memory[at..at + 8].copy_from_slice(&after.to_ne_bytes());
                self.executed += 1;
                Executed::Original(before)
            }
            _ => self.receive(posted, piece, payload),
        }
    }

    /// A part of a send or write that must be the next one.
    fn receive(&mut self, posted: &Posted, piece: &Piece, payload: &[u8]) -> Executed {
        assert_eq!(piece.begins, piece.offset == 0, "a message begins at its beginning");
        assert_eq!(piece.offset as usize, self.partial.len(), "parts come in order, once");
        if let Some(not_ready) = self.needs_receive(piece) {
            return not_ready;
        }
        self.store(piece, payload);
        if piece.ends {
            assert!(self.is_message(posted, piece), "a message is as it was sent");
            self.partial.clear();
            self.executed += 1;
        }
        Executed::Done
    }

    fn execute_unreliable(&mut self, peer: &End, piece: &Piece, payload: &[u8]) -> Executed {
        if piece.begins {
            self.partial.clear();
        }
        assert_eq!(piece.offset as usize, self.partial.len(), "parts come in order, once");
        if let Some(not_ready) = self.needs_receive(piece) {
            return not_ready;
        }
        self.store(piece, payload);
        if piece.ends {
            let later = &peer.posted[self.executed as usize..];
            let skipped = later.iter().position(|posted| self.is_message(posted, piece));
            self.executed += 1 + skipped.expect("a message comes once, whole and in order") as u64;
            self.partial.clear();
        }
        Executed::Done
    }

    /// Uses up a receive request, or says that there is none.
    fn needs_receive(&mut self, piece: &Piece) -> Option<Executed> {
        let needed = match piece.operation {
            Operation::Send => piece.begins,
            _ => piece.ends && piece.imm.is_some(),
        };
        if !needed {
            return None;
        }
        match self.receives.checked_sub(1) {
            Some(left) => {
                (self.receives, self.taken) = (left, self.taken + 1);
                None
            }
            None => Some(Executed::NotReady(1 + (self.executed % 6) as u8)),
        }
    }

    fn store(&mut self, piece: &Piece, payload: &[u8]) {
        self.partial.extend(payload);
        if let Some(reth) = piece.memory
            && let Some(at) = self.place(reth.va + u64::from(piece.offset), payload.len() as u32)
        {
            self.memory[at..at + payload.len()].copy_from_slice(payload);
        }
    }

    /// Whether what came is this message.
    fn is_message(&self, posted: &Posted, piece: &Piece) -> bool {
        let message = &posted.message;
        let with_imm = matches!(message.opcode, Verb::SendWithImm | Verb::RdmaWriteWithImm);
        let with_inv = message.opcode == Verb::SendWithInv;
        let writes = matches!(message.opcode, Verb::RdmaWrite | Verb::RdmaWriteWithImm);
        let memory = piece.memory.map(|reth| (reth.va, reth.rkey, reth.length));
        self.partial == posted.payload
            && (piece.operation == Operation::Write) == writes
            && memory == writes.then_some((message.va, message.rkey, message.length))
            && piece.imm == with_imm.then_some(message.imm_or_key)
            && piece.invalidate == with_inv.then_some(message.imm_or_key)
            && piece.solicited == message.solicited
    }

    /// A message ended: it is the next, and a good end is a true one.
    pub fn end(&mut self, peer: &End, done: Done, reliable: bool) {
        assert_eq!(done.ticket.0, self.ended, "messages end in order, once");
        self.ended += 1;
        let posted = &self.posted[done.ticket.0 as usize];
        if done.status != Status::Success {
            return;
        }
        self.succeeded += 1;
        assert_eq!(self.succeeded, self.ended, "nothing ends well after a failure");
        if reliable && !self.unsure {
            assert!(!posted.refused, "what was refused does not end well");
            assert!(peer.executed >= self.ended, "it ended before it was carried out");
            assert!(posted.answer == posted.expected, "an answer is what stood there");
        }
    }
}

/// The last PSN that a packet, or the answer that it asks for, takes.
fn last_of(terms: &Terms, transmit: &Transmit) -> Psn {
    let read = transmit.head.headers.reth.filter(|_| transmit.head.bth.opcode == Opcode::READ_REQUEST);
    transmit.head.bth.psn + (read.map_or(1, |reth| terms.mtu.packets(reth.length)) - 1)
}
