//! Which UDP port it is.

use std::sync::atomic::{AtomicU16, Ordering};

use ironverbs_os::environment::trusted;

use crate::wire::flow::ROCE_PORT;

/// What names it.
pub(super) const VARIABLE: &str = "IRONVERBS_SOFT_PORT";

/// The port, once it was looked up. 0 is none.
static KNOWN: AtomicU16 = AtomicU16::new(0);

/// The UDP port of this process: that of RoCE v2, or another that peers have to agree upon, where
/// `IRONVERBS_SOFT_PORT` names one. It stays for the life of the process.
#[must_use]
#[inline]
pub fn udp_port() -> u16 {
    match KNOWN.load(Ordering::Relaxed) {
        0 => look_up(),
        port => port,
    }
}

#[cold]
fn look_up() -> u16 {
    let port = asked_for().unwrap_or(ROCE_PORT);
    KNOWN.store(port, Ordering::Relaxed);
    port
}

/// The port that the environment asks for; `None` where that is no port.
pub(super) fn asked_for() -> Option<u16> {
    match trusted("IRONVERBS_SOFT_PORT").filter(|value| !value.is_empty()) {
        Some(value) => parse(value.to_str()?),
        None => Some(ROCE_PORT),
    }
}

fn parse(value: &str) -> Option<u16> {
    let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
    value.parse().ok().filter(|port| is_number && *port > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_a_number_from_1_to_65535() {
        assert_eq!(parse("4792"), Some(4792));
        assert_eq!(parse("65535"), Some(65535));
        for other in ["0", "65536", "-1", "+1", "a", "4791 ", "1e3"] {
            assert_eq!(parse(other), None, "{other}");
        }
    }

    #[test]
    fn without_a_word_it_is_that_of_roce_v2() {
        assert_eq!(udp_port(), 4791);
    }
}
