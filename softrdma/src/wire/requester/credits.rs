//! Receive requests that the peer says it has (end-to-end flow control, IBA vol. 1 §9.7.7.2).
//!
//! An acknowledgement may say for how many messages beyond those that it counts there are receive requests. A
//! message that needs one and goes beyond that is sent as the only one, so that its answer says what there is
//! by then. An adapter counts so; soft-RoCE always says that it does not (31, `AETH_ACK_UNLIMITED` in Linux'
//! `rxe_resp.c`), and so does this library's responder: who is sent too much there answers that it is not
//! ready.

use crate::rules::verbs::Opcode;
use crate::wire::packet::Aeth;

/// The code of who does not count.
const UNLIMITED: u8 = 31;

/// How far messages may go.
#[derive(Debug, Default)]
pub(super) struct Credits {
    /// Requests that were begun: as the peer counts them, each part of a read is one.
    begun: u64,
    /// As many may be, where the peer counts. More by each that takes no receive request.
    limit: Option<u64>,
}

impl Credits {
    /// A positive answer came.
    // rule: wire-credits
    pub(super) fn told(&mut self, aeth: Aeth) {
        let Some(credits) = credits(aeth.syndrome & 31) else {
            self.limit = None;
            return;
        };
        // It counts 24 bits, and no more than was begun.
        let behind = (self.begun as u32).wrapping_sub(aeth.msn) & 0xff_ffff;
        let limit = self.begun.saturating_sub(u64::from(behind)) + credits;
        // What it counted before does not take back what it said since.
        self.limit = Some(self.limit.map_or(limit, |known| known.max(limit)));
    }

    /// A request begins.
    pub(super) fn begins(&mut self, takes_request: bool) {
        self.begun += 1;
        if !takes_request && let Some(limit) = &mut self.limit {
            *limit += 1;
        }
    }

    /// Whether the next message that takes a receive request waits, of which one more than said may be sent.
    pub(super) fn are_spent(&self) -> bool {
        self.limit.is_some_and(|limit| self.begun > limit)
    }
}

/// What a code says (IBA vol. 1 table 46, §9.7.5.2.1): powers of two from 2 on, and one and a half times each.
fn credits(code: u8) -> Option<u64> {
    match code {
        UNLIMITED.. => None,
        0..=2 => Some(u64::from(code)),
        _ => Some(if code % 2 == 1 { 3 << (code / 2 - 1) } else { 2 << (code / 2 - 1) }),
    }
}

/// Whether a message takes a receive request of the peer.
pub(super) const fn takes_request(opcode: Opcode) -> bool {
    matches!(opcode, Opcode::Send | Opcode::SendWithImm | Opcode::SendWithInv | Opcode::RdmaWriteWithImm)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes() {
        let all = [
            0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048,
            3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768,
        ];
        for (code, count) in all.into_iter().enumerate() {
            assert_eq!(credits(code as u8), Some(count), "{code}");
        }
        assert_eq!(credits(31), None);
    }

    #[test]
    // rule: wire-credits
    fn counts_wrap_around() {
        let mut credits = Credits { begun: 0x100_0001, limit: None };
        // Two are under way.
        credits.told(Aeth { syndrome: 2, msn: 0xff_ffff });
        assert_eq!((credits.limit, credits.are_spent()), (Some(0x100_0001), false));
        credits.begins(true);
        assert!(credits.are_spent());
        credits.begins(false);
        assert!(credits.are_spent());
        // Late, and new.
        credits.told(Aeth { syndrome: 0, msn: 0xff_ffff });
        assert_eq!(credits.limit, Some(0x100_0002));
        credits.told(Aeth { syndrome: 4, msn: 3 });
        assert_eq!((credits.limit, credits.are_spent()), (Some(0x100_0007), false));
        credits.told(Aeth { syndrome: 31, msn: 3 });
        assert_eq!(credits.limit, None);
    }
}
