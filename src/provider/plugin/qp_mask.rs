//! Whether a plugin's queue pair has the `ibv_wr_*` functions: a bit in `verbs_qp.comp_mask`, which stands
//! behind the public part and has moved with it.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::abi::driver::{VERBS_QP_EX, VERBS_QP_XRCD};
use crate::abi::uapi::ib_user_ioctl_verbs::*;
use crate::abi::verbs::ibv_qp;

/// Where the queue pairs of a context have their mask.
pub struct QpMask {
    /// Where it may stand (bytes), in ascending order.
    places: &'static [usize],
    /// Where it was found, or 0.
    found: AtomicUsize,
    /// Whether the plugin makes its queue pairs as a `verbs_qp`. Others are a bare `ibv_qp`, behind which the
    /// plugin's own fields begin.
    extended: AtomicBool,
}

/// Whether the plugins of this kernel driver make their queue pairs as a plain `ibv_qp`, in some release at
/// least: bnxt_re before rdma-core 56.
fn may_make_plain_ones(driver_id: u32) -> bool {
    matches!(
        driver_id,
        RDMA_DRIVER_BNXT_RE
            | RDMA_DRIVER_CXGB4
            | RDMA_DRIVER_ERDMA
            | RDMA_DRIVER_HFI1
            | RDMA_DRIVER_IRDMA
            | RDMA_DRIVER_MTHCA
            | RDMA_DRIVER_OCRDMA
            | RDMA_DRIVER_QIB
            | RDMA_DRIVER_SIW
            | RDMA_DRIVER_VMW_PVRDMA
    )
}

impl QpMask {
    /// For a plugin of this kernel driver with these places.
    pub fn new(places: &'static [usize], driver_id: u32) -> Self {
        let found = if let [only] = places { *only } else { 0 };
        let extended = AtomicBool::new(!may_make_plain_ones(driver_id));
        Self { places, found: AtomicUsize::new(found), extended }
    }

    /// Notes that the plugin makes its queue pairs as a `verbs_qp`: it has called a function that takes one.
    pub fn note_extended(&self) {
        self.extended.store(true, Ordering::Relaxed);
    }

    /// Whether a queue pair has the functions.
    ///
    /// Where the place is not known yet, the first is taken that holds the marked mask and no other bit: where
    /// a newer release has the mask further behind, a function's address stands there, or NULL.
    ///
    /// # Safety
    /// `qp` is a live queue pair of the plugin.
    pub unsafe fn is_set(&self, qp: *const ibv_qp) -> bool {
        if !self.extended.load(Ordering::Relaxed) {
            return false;
        }
        // SAFETY: the plugin makes its queue pairs as a verbs_qp with fields of its own behind it, which all
        // places lie in.
        let at = |place: usize| unsafe { qp.byte_add(place) };
        match self.found.load(Ordering::Relaxed) {
            0 => {
                let marked = |mask: u32| mask & !VERBS_QP_XRCD == VERBS_QP_EX;
                // SAFETY: as above.
                let found =
                    self.places.iter().find(|&&place| marked(unsafe { at(place).cast::<u32>().read() }));
                if let Some(&place) = found {
                    self.found.store(place, Ordering::Relaxed);
                }
                found.is_some()
            }
            // SAFETY: as above.
            place => (unsafe { at(place).cast::<u32>().read() } & VERBS_QP_EX) != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A queue pair of 48 words, with a value at an offset.
    fn qp(place: usize, value: u64) -> [u64; 48] {
        let mut words = [0; 48];
        words[place / 8] = value;
        words
    }

    fn is_set(mask: &QpMask, words: &[u64; 48]) -> bool {
        // SAFETY: as many bytes as any place needs.
        unsafe { mask.is_set(words.as_ptr().cast()) }
    }

    #[test]
    fn the_first_marked_queue_pair_shows_the_place_for_all() {
        const FUNCTION: u64 = 0x7f12_3456_7890;
        for place in [344, 352, 360] {
            let mask = QpMask::new(&[344, 352, 360], RDMA_DRIVER_BNXT_RE);
            let mut marked = qp(place, 2);
            for before in (344..place).step_by(8) {
                marked[before / 8] = FUNCTION;
            }
            assert!(!is_set(&mask, &marked), "a bare ibv_qp has no mask");
            mask.note_extended();
            assert!(!is_set(&mask, &qp(place, 0)));
            assert!(!is_set(&mask, &qp(place, 1)));
            assert!(is_set(&mask, &marked));
            assert!(is_set(&mask, &qp(place, 3)));
            assert!(!is_set(&mask, &qp(place, 0)));
            for other in [344, 352, 360].into_iter().filter(|other| *other != place) {
                assert!(!is_set(&mask, &qp(other, 2)), "{other} is not {place}");
            }
        }
    }

    #[test]
    fn a_known_place_alone_is_looked_at() {
        let mask = QpMask::new(&[360], RDMA_DRIVER_MLX5);
        assert!(is_set(&mask, &qp(360, 2)) && !is_set(&mask, &qp(344, 2)));
    }
}
