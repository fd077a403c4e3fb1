//! What requester and responder of RoCE v2 cost, without a network:
//! `cargo bench -p softrdma --bench connection`.
//!
//! Messages go from one to the other, with as many under way as the queue has places for, and so do answers.
//! Packets are not written and payload is not copied. What a packet costs must not grow with the queue.

use std::time::Instant;

use softrdma::rules::requester::Retry;
use softrdma::rules::verbs::{Opcode, Status};
use softrdma::wire::connection::{Connection, Mtu};
use softrdma::wire::opcode::Transport;
use softrdma::wire::packet::{DEFAULT_P_KEY, Head, Packet};
use softrdma::wire::psn::Psn;
use softrdma::wire::requester::Requester;
use softrdma::wire::requester::message::Message;
use softrdma::wire::responder::Responder;
use softrdma::wire::responder::step::{Executed, Step};

const MTU: Mtu = Mtu::MOST;

/// Sends so many messages; every so many packets one is lost, if any. Packets that were sent both ways.
fn exchange(opcode: Opcode, length: u32, places: u32, messages: u64, lost_every: u64) -> u64 {
    let connection =
        Connection { transport: Transport::Rc, mtu: MTU, dest_qp: 1, p_key: DEFAULT_P_KEY, psn: Psn::new(7) };
    let mut requester = Requester::new(places, 16).unwrap();
    let mut responder = Responder::new(16).unwrap();
    requester.start(connection, Retry { timeout: 4, retry_cnt: 7, rnr_retry: 7 }, 16);
    responder.start(connection, 16);
    let data = vec![0; MTU.bytes() as usize];
    let message = Message::new(opcode, length);
    let (mut posted, mut done, mut packets, mut now) = (0, 0, 0_u64, 0);
    let mut is_lost = move || {
        packets += 1;
        (lost_every > 0 && packets.is_multiple_of(lost_every), packets)
    };
    let packet = |head: &Head, length: u32| Packet {
        bth: head.bth,
        headers: head.headers,
        payload: &data[..length as usize],
    };
    let mut sent = 0;
    while done < messages {
        while posted < messages && requester.post(&message).is_ok() {
            posted += 1;
        }
        let before = sent;
        while let Some(transmit) = requester.next(now) {
            let (lost, count) = is_lost();
            sent = count;
            if !lost && let Step::Execute(piece) = responder.take(&packet(&transmit.head, transmit.length)) {
                let atomic = piece.atomic.is_some();
                responder.executed(if atomic { Executed::Original(1) } else { Executed::Done });
            }
        }
        while let Some(response) = responder.next_response(0) {
            let (lost, count) = is_lost();
            sent = count;
            if !lost {
                let length = response.payload.map_or(0, |part| part.length);
                let _ = requester.take(&packet(&response.head, length), now);
            }
        }
        while let Some(ended) = requester.done() {
            assert_eq!(ended.status, Status::Success);
            done += 1;
        }
        if sent == before {
            now = requester.deadline().expect("something is waited for");
            requester.expire(now);
        }
    }
    sent
}

fn main() {
    for (what, opcode, length, messages) in [
        ("sends of 8 bytes", Opcode::Send, 8, 1_000_000),
        ("writes of 64 KiB", Opcode::RdmaWrite, 1 << 16, 100_000),
        ("reads of 8 bytes", Opcode::RdmaRead, 8, 1_000_000),
        ("reads of 1 MiB", Opcode::RdmaRead, 1 << 20, 10_000),
        ("fetch and add", Opcode::FetchAndAdd, 8, 1_000_000),
    ] {
        for (places, lost_every) in [(16, 0), (1024, 0), (16384, 0), (1024, 1000)] {
            let start = Instant::now();
            let packets = exchange(opcode, length, places, messages, lost_every);
            let ns = start.elapsed().as_nanos() as f64;
            let loss = if lost_every > 0 { ", one packet of 1000 lost" } else { "" };
            let what = format!("{what}, {places} places{loss}");
            let (message, packet) = (ns / messages as f64, ns / packets as f64);
            println!("{what:<60} {message:>9.1} ns a message {packet:>7.1} ns a packet");
        }
    }
}
