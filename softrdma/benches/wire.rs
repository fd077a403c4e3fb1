//! What the work on a packet of RoCE v2 costs, in nanoseconds: `cargo bench -p softrdma --bench wire`.
//!
//! Every figure is the median of several rounds.

use std::hint::black_box;

use softrdma::wire::flow::Flow;
use softrdma::wire::icrc::{self, ICRC_BYTES, Icrc};
use softrdma::wire::opcode::Opcode;
use softrdma::wire::packet::{Bth, Head, Headers, MAX_HEAD, Packet, Reth};
use softrdma::wire::psn::Psn;
use softrdma_testing::timing::median;

const TURNS: u32 = 200_000;

fn say(what: &str, bytes: usize, ns: f64) {
    println!("{what:<40} {bytes:>5} bytes {ns:>8.1} ns {:>6.1} GB/s", bytes as f64 / ns);
}

fn main() {
    let v4 = Flow::new("10.0.0.1:49152".parse().unwrap(), "10.0.0.2:4791".parse().unwrap()).unwrap();
    let v6 = Flow::new("[fe80::1]:49152".parse().unwrap(), "[fe80::2]:4791".parse().unwrap()).unwrap();
    let write_only = Opcode::from_byte(0x0a).unwrap();
    let reth = Some(Reth { va: 0x1000, rkey: 7, length: 4096 });
    let head =
        Head { bth: Bth::new(write_only, 17, Psn::new(1)), headers: Headers { reth, ..Headers::NONE } };
    let mut packet = [0; MAX_HEAD];
    let written = median(TURNS, || {
        black_box(black_box(&head).write(&mut packet));
    });
    say("headers written", head.bytes(), written);
    for payload in [0, 64, 256, 1024, 4096] {
        let data = vec![0x5a; payload];
        for (flow, family) in [(&v4, "IPv4"), (&v6, "IPv6")] {
            let bytes = head.write(&mut packet);
            let icrc = || {
                let mut icrc = Icrc::new(black_box(flow), 0, &packet[..bytes], bytes + payload);
                icrc.update(black_box(&data));
                icrc.finish()
            };
            let took = median(TURNS, || {
                black_box(icrc());
            });
            say(&format!("ICRC, {family}"), payload, took);
        }
        let bytes = head.write(&mut packet);
        let mut datagram = [&packet[..bytes], &data].concat();
        let took = median(TURNS, || {
            black_box(Packet::parse(black_box(&datagram)));
        });
        say("packet parsed", payload, took);
        for identification in [0, 0x718c] {
            let mut icrc = Icrc::new(&v4, identification, &packet[..bytes], bytes + payload);
            icrc.update(&data);
            datagram.truncate(bytes + payload);
            datagram.extend_from_slice(&icrc.finish());
            assert_eq!(datagram.len(), bytes + payload + ICRC_BYTES);
            let took = median(TURNS, || {
                let found = icrc::identification(black_box(&v4), 0, black_box(&datagram));
                assert_eq!(found, Some(identification));
            });
            say(&format!("checked, identification {identification:#x} found"), payload, took);
        }
    }
}
