//! A peer that sends anything.

use softrdma::rules::requester::{Retry, Syndrome};
use softrdma::rules::verbs::Opcode as Verb;
use softrdma::wire::connection::{Connection, Mtu};
use softrdma::wire::opcode::{HeaderSet, Opcode, Transport};
use softrdma::wire::packet::{Aeth, AtomicEth, Bth, Headers, Packet, Reth};
use softrdma::wire::psn::Psn;
use softrdma::wire::requester::Requester;
use softrdma::wire::requester::message::{Message, Taken};
use softrdma::wire::responder::Responder;
use softrdma::wire::responder::step::{Executed, Step};

/// What the input says next; zeros behind its end.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    fn word(&mut self) -> u32 {
        u32::from_be_bytes([self.byte(), self.byte(), self.byte(), self.byte()])
    }

    /// A number that is near one of those that matter.
    fn length(&mut self) -> u32 {
        let near = [0, 256, 512, 1 << 20, 1 << 31][usize::from(self.byte() % 5)];
        u32::wrapping_add(near, u32::from(self.byte() % 8)).wrapping_sub(4)
    }
}

/// A packet with a PSN near these.
fn packet<'a>(input: &mut Input<'_>, near: Psn, payload: &'a [u8]) -> Option<Packet<'a>> {
    let opcode = match input.byte() % 0x31 {
        0x30 => Opcode::CONGESTION_NOTIFICATION,
        byte => Opcode::from_byte(byte)?,
    };
    let has = |header| opcode.headers().has(header);
    let headers = Headers {
        reth: has(HeaderSet::RETH).then(|| Reth { va: 0x1000, rkey: 5, length: input.length() }),
        atomic: has(HeaderSet::ATOMIC_ETH).then(AtomicEth::default),
        aeth: has(HeaderSet::AETH).then(|| Aeth { syndrome: input.byte(), msn: 0 }),
        atomic_ack: has(HeaderSet::ATOMIC_ACK_ETH).then_some(3),
        imm: has(HeaderSet::IMM_DT).then_some(4),
        ieth: has(HeaderSet::IETH).then_some(5),
        deth: None,
        reserved: has(HeaderSet::RESERVED),
    };
    let psn = match input.byte() {
        far @ 250.. => Psn::new(input.word().wrapping_add(u32::from(far))),
        close => near + u32::from(close % 16) - 4,
    };
    let length = [0, 1, 88, 255, 256, 257][usize::from(input.byte() % 6)];
    let payload = if opcode.has_payload() { &payload[..length] } else { &[] };
    Some(Packet { bth: Bth { ack_req: true, ..Bth::new(opcode, 1, psn) }, headers, payload })
}

fn play(input: &mut Input<'_>) {
    let transport = if input.byte().is_multiple_of(4) { Transport::Uc } else { Transport::Rc };
    let mtu = Mtu::LEAST;
    let mut near = Psn::new(u32::from(input.byte()).wrapping_sub(128));
    let connection = Connection { transport, mtu, dest_qp: 1, p_key: 0xffff, psn: near };
    let mut requester = Requester::new(4, 2).unwrap();
    requester.start(connection, Retry { timeout: 1, retry_cnt: 2, rnr_retry: 2 }, 2);
    let mut responder = Responder::new(2).unwrap();
    responder.start(connection, 2);
    let payload = [0; 257];
    let (mut now, mut lengths, mut ended, mut read) = (0, vec![], 0, 0);
    while !input.0.is_empty() {
        match input.byte() % 8 {
            0 => {
                let opcode = Verb::ALL[usize::from(input.byte()) % Verb::ALL.len()];
                let length = if opcode == Verb::FetchAndAdd { 8 } else { input.length() };
                if requester.post(&Message::new(opcode, length)).is_ok() {
                    lengths.push(length);
                }
            }
            1 | 2 => {
                if let Some(transmit) = requester.next(now) {
                    near = transmit.head.bth.psn;
                    let length = lengths[transmit.ticket.0 as usize];
                    assert!(transmit.offset + transmit.length <= length);
                }
            }
            3 => {
                now += u64::from(input.byte()) * 1000;
                requester.expire(now);
            }
            4 | 5 => {
                let Some(packet) = packet(input, near, &payload) else { continue };
                if let Taken::Read { ticket, offset } = requester.take(&packet, now) {
                    // In order, from the beginning on, within the message.
                    assert!(offset == 0 || offset == read);
                    read = offset + packet.payload.len() as u32;
                    assert!(read <= lengths[ticket.0 as usize]);
                }
            }
            6 => {
                let Some(packet) = packet(input, near, &payload) else { continue };
                if let Step::Execute(mut piece) = responder.take(&packet) {
                    near = packet.bth.psn;
                    let mut end = piece.offset + packet.payload.len() as u32;
                    while let Some(next) = self::packet(input, near, &payload)
                        && let Some(longer) = responder.join(&next)
                    {
                        (near, end) = (next.bth.psn, end + next.payload.len() as u32);
                        assert_eq!((longer.offset, longer.begins), (piece.offset, piece.begins));
                        piece = longer;
                    }
                    assert!(end <= 1 << 31 && piece.memory.is_none_or(|reth| end <= reth.length.max(257)));
                    responder.executed(match input.byte() {
                        0 => Executed::NotReady(1),
                        1 => Executed::Refused(Syndrome::Access),
                        2 => Executed::Original(5),
                        _ => Executed::Done,
                    });
                }
            }
            _ => {
                if input.byte().is_multiple_of(8) {
                    responder.marked(now);
                    responder.congested(now);
                }
                if let Some(response) = responder.next_response(now) {
                    assert!(response.payload.is_none_or(|part| part.length <= mtu.bytes()));
                }
            }
        }
        while let Some(done) = requester.done() {
            assert_eq!(done.ticket.0, ended);
            ended += 1;
        }
    }
    requester.flush();
    while requester.done().is_some() {
        ended += 1;
    }
    assert_eq!(ended, lengths.len() as u64);
    assert_eq!(requester.next(u64::MAX), None);
}

#[test]
fn fuzz_connections() {
    corpus::check!().for_each(|bytes| play(&mut Input(bytes)));
}
