//! Flows that meet at one bottleneck have fair shares, by the model of the bench: the protocol that ships, on a
//! clock of its own.

#[allow(dead_code)]
#[path = "../benches/congestion.rs"]
mod model;

use model::{Network, shares};

/// Eight flows, 400 Mbit/s, a queue of 20 ms that drops what it has no room for.
fn narrow(trains: bool) -> Network {
    Network { flows: 8, rate: 5e7, room: 1_000_000, delay: 50_000, lost: 0, trains }
}

#[test]
fn flows_at_a_bottleneck_have_fair_shares() {
    for seed in 1..=10 {
        for trains in [false, true] {
            let (sum, least, most, _) = shares(narrow(trains), 8, seed);
            assert!(least > -0.2 && most < 0.2, "seed {seed}: {least:+.2} to {most:+.2} of the mean");
            // Of 47.7 MiB/s, with headers.
            assert!(sum > 39.0, "seed {seed}: {sum:.1} MiB/s");
        }
    }
}

#[test]
fn a_flow_does_not_collapse_where_packets_are_lost() {
    // 10 Gbit/s, 100 us over and back; each way of 1000 packets so many are lost.
    for (lost, least) in [(0, 1100.0), (10, 300.0), (50, 40.0)] {
        let network = Network { flows: 1, rate: 1.25e9, room: 4 << 20, delay: 50_000, lost, trains: false };
        let (sum, ..) = shares(network, 2, 1);
        assert!(sum > least, "{lost} of 1000 lost: {sum:.1} MiB/s");
    }
}
