//! Encoded times of the specification, in nanoseconds.

/// How long a requester waits after a receiver-not-ready answer, by the 5-bit code in it (`min_rnr_timer`; IBA
/// §9.7.5.2.8, table 45). Code 0 is the longest.
#[must_use]
pub fn rnr_timer(code: u8) -> u64 {
    const UNITS: [u64; 32] = [
        65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048,
        3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
    ];
    // rule: rnr-codes
    UNITS[usize::from(code & 31)] * 10_000
}

/// How long a requester waits for an answer: 4.096 µs · 2^code, or without end for code 0 (`timeout`; IBA
/// §9.7.6.1.3).
#[must_use]
pub fn ack_timeout(code: u8) -> Option<u64> {
    // rule: ack-timeout
    match code & 31 {
        0 => None,
        code => Some(4096 << code),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    // rule: rnr-codes, ack-timeout
    fn times_of_the_tables() {
        assert_eq!(rnr_timer(0), 655_360_000);
        assert_eq!(rnr_timer(1), 10_000);
        assert_eq!(rnr_timer(12), 640_000);
        assert_eq!(rnr_timer(31), 491_520_000);
        for code in 1..31 {
            assert!(rnr_timer(code) < rnr_timer(code + 1));
        }
        assert_eq!(ack_timeout(0), None);
        assert_eq!(ack_timeout(14), Some(67_108_864));
        assert_eq!(ack_timeout(31), Some(8_796_093_022_208));
    }
}
