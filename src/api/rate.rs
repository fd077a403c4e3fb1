//! Static rates: conversions between `enum ibv_rate`, multiples of 2.5 Gb/s, and Mb/s (`man ibv_rate_to_mult`).

use core::ffi::c_int;

use super::entry;
use crate::abi::verbs::*;
use crate::observe::call;

struct Rate {
    rate: ibv_rate,
    /// Multiple of the base rate of 2.5 Gb/s; 0 where the rate is none.
    mult: c_int,
    /// Data rate in Mb/s, before rounding to the name that the rate goes by.
    mbps: c_int,
}

const fn rate(rate: ibv_rate, mult: c_int, mbps: c_int) -> Rate {
    Rate { rate, mult, mbps }
}

const RATES: [Rate; 23] = [
    rate(IBV_RATE_2_5_GBPS, 1, 2_500),
    rate(IBV_RATE_5_GBPS, 2, 5_000),
    rate(IBV_RATE_10_GBPS, 4, 10_000),
    rate(IBV_RATE_20_GBPS, 8, 20_000),
    rate(IBV_RATE_30_GBPS, 12, 30_000),
    rate(IBV_RATE_40_GBPS, 16, 40_000),
    rate(IBV_RATE_60_GBPS, 24, 60_000),
    rate(IBV_RATE_80_GBPS, 32, 80_000),
    rate(IBV_RATE_120_GBPS, 48, 120_000),
    rate(IBV_RATE_14_GBPS, 0, 14_062),
    rate(IBV_RATE_56_GBPS, 0, 56_250),
    rate(IBV_RATE_112_GBPS, 0, 112_500),
    rate(IBV_RATE_168_GBPS, 0, 168_750),
    rate(IBV_RATE_25_GBPS, 0, 25_781),
    rate(IBV_RATE_100_GBPS, 0, 103_125),
    rate(IBV_RATE_200_GBPS, 0, 206_250),
    rate(IBV_RATE_300_GBPS, 0, 309_375),
    rate(IBV_RATE_28_GBPS, 11, 28_125),
    rate(IBV_RATE_50_GBPS, 20, 53_125),
    rate(IBV_RATE_400_GBPS, 160, 425_000),
    rate(IBV_RATE_600_GBPS, 240, 637_500),
    rate(IBV_RATE_800_GBPS, 320, 850_000),
    rate(IBV_RATE_1200_GBPS, 480, 1_275_000),
];

fn of(rate: ibv_rate_t) -> Option<&'static Rate> {
    RATES.iter().find(|known| known.rate as ibv_rate_t == rate)
}

/// The rate as a multiple of 2.5 Gb/s; -1 where it is none.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_rate_to_mult(rate: ibv_rate_t) -> c_int {
    entry::plain(call!("ibv_rate_to_mult", rate), || {
        of(rate).filter(|known| known.mult != 0).map_or(-1, |known| known.mult)
    })
}

/// The rate that is `mult` times 2.5 Gb/s; IBV_RATE_MAX where there is none.
#[unsafe(no_mangle)]
pub extern "C" fn mult_to_ibv_rate(mult: c_int) -> ibv_rate_t {
    entry::plain(call!("mult_to_ibv_rate", mult), || {
        let known = RATES.iter().find(|known| known.mult == mult && mult != 0);
        known.map_or(IBV_RATE_MAX, |known| known.rate) as ibv_rate_t
    })
}

/// The rate in Mb/s; -1 for an unknown one.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_rate_to_mbps(rate: ibv_rate_t) -> c_int {
    entry::plain(call!("ibv_rate_to_mbps", rate), || of(rate).map_or(-1, |known| known.mbps))
}

/// The rate of exactly `mbps` Mb/s; IBV_RATE_MAX where there is none.
#[unsafe(no_mangle)]
pub extern "C" fn mbps_to_ibv_rate(mbps: c_int) -> ibv_rate_t {
    entry::plain(call!("mbps_to_ibv_rate", mbps), || {
        let known = RATES.iter().find(|known| known.mbps == mbps);
        known.map_or(IBV_RATE_MAX, |known| known.rate) as ibv_rate_t
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversions_are_inverse() {
        for known in &RATES {
            assert_eq!(mbps_to_ibv_rate(known.mbps), known.rate as ibv_rate_t);
            assert_eq!(ibv_rate_to_mbps(known.rate as ibv_rate_t), known.mbps);
            if known.mult != 0 {
                assert_eq!(mult_to_ibv_rate(known.mult), known.rate as ibv_rate_t);
                assert_eq!(ibv_rate_to_mult(known.rate as ibv_rate_t), known.mult);
            }
        }
    }

    #[test]
    fn what_is_no_rate() {
        assert_eq!(ibv_rate_to_mult(IBV_RATE_14_GBPS as ibv_rate_t), -1);
        assert_eq!(ibv_rate_to_mult(IBV_RATE_MAX as ibv_rate_t), -1);
        assert_eq!(mult_to_ibv_rate(0), IBV_RATE_MAX as ibv_rate_t);
        assert_eq!(ibv_rate_to_mbps(999), -1);
        assert_eq!(mbps_to_ibv_rate(-1), IBV_RATE_MAX as ibv_rate_t);
    }
}
