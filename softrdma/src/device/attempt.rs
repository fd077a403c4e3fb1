//! One request, carried out at its target by the process that posted it.

use crate::core::completion::Completion;
use crate::core::deliver::Delivered;
use crate::core::requester::Outcome;
use crate::core::transport::LockError;
use crate::core::verbs::QpType;

use super::site::Site;
use super::wr::Wr;

/// The sending side of a queue pair, as [`attempt`] needs it. Its owner changes it with the queue pair, and holds it
/// alone while a request is carried out.
#[derive(Debug)]
pub struct Initiator {
    /// Its number.
    pub qp_num: u32,
    /// Transport service.
    pub qp_type: QpType,
    /// Protection domain.
    pub pd: u32,
    /// The peer's number.
    pub dest_qp_num: u32,
    /// The address that the peer is reached at.
    pub dgid: [u8; 16],
    /// Datagrams: the own key.
    pub qkey: u32,
    /// `max_rd_atomic`
    pub max_rd_atomic: u8,
    /// Longest datagram.
    pub mtu: u32,
}

impl Initiator {
    /// That of a fresh queue pair.
    #[must_use]
    pub fn new(qp_num: u32, qp_type: QpType, pd: u32) -> Self {
        Self { qp_num, qp_type, pd, dest_qp_num: 0, dgid: [0; 16], qkey: 0, max_rd_atomic: 0, mtu: 4096 }
    }

    /// Forgets whom it talked to: on RESET, and on RTR after the attributes were set.
    pub fn reconnect(&mut self) {}
}

/// Carries out one request now; never waits for anything but short locks.
pub fn attempt(site: &Site, from: &mut Initiator, wr: &Wr<'_>) -> Outcome {
    let _ = (site, from, wr);
    Outcome::NoAnswer
}

/// Appends a completion to an own completion queue, bell included.
///
/// # Errors
/// When the queue's lock could not be had.
pub fn complete(
    site: &Site,
    cq: u32,
    completion: &Completion,
    solicited: bool,
) -> Result<Delivered, LockError> {
    let _ = (site, cq, completion, solicited);
    Err(LockError::Gone)
}
