//! Send requests: what a queue pair accepts when posting, and what is checked when a request starts.

use super::keys::{self, Key};
use super::qp::may_post_send;
use super::receive::Sge;
use super::verbs::{Opcode, QpState, QpType, Status};

/// Longest message: 2³⁰ bytes. IBA allows 2³¹ (§9.7.2), devices offer 2³⁰ (`max_msg_sz`).
pub const MAX_MESSAGE: u64 = 1 << 30;

/// What an operation needs beyond its local memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operands {
    /// Nothing.
    None,
    /// Remote memory: write, read, flush, atomic write.
    Remote {
        /// Remote address.
        addr: u64,
        /// Remote key.
        rkey: u32,
        /// Bytes, for a flush; elsewhere the local memory says how many.
        length: u64,
    },
    /// An atomic on 8 bytes of remote memory.
    Atomic {
        /// Remote address, a multiple of 8.
        addr: u64,
        /// Remote key.
        rkey: u32,
        /// Value to compare with, or to add.
        compare_add: u64,
        /// Value to store when equal.
        swap: u64,
    },
    /// A local key: invalidate.
    Key(u32),
    /// A window to bind.
    Bind(BindWindow),
}

/// A window that is to be bound (`struct ibv_mw_bind_info` and whose window it is).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BindWindow {
    /// The window's key as it is now.
    pub window: u32,
    /// The 8 bits that its key has from then on.
    pub key8: u8,
    /// The region's key.
    pub region: u32,
    /// Where, and with which rights.
    pub bind: keys::Bind,
}

/// What the checks at a request's start look at.
#[derive(Clone, Copy, Debug)]
pub struct Outline<'a> {
    /// Operation.
    pub opcode: Opcode,
    /// What it needs beyond local memory.
    pub operands: Operands,
    /// Local memory whose keys count.
    pub sges: &'a [Sge],
    /// Bytes of local memory, or of data taken when posting.
    pub length: u64,
}

impl Outline<'_> {
    /// Whether the result is written to local memory.
    #[must_use]
    pub fn writes_local(&self) -> bool {
        matches!(self.opcode, Opcode::RdmaRead | Opcode::CmpAndSwp | Opcode::FetchAndAdd)
    }
}

/// Bytes that an atomic write writes.
pub const ATOMIC_WRITE_BYTES: u32 = 8;

/// Limits of a queue pair, as it was created (`struct ibv_qp_cap`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// `max_send_wr`
    pub max_send_wr: u32,
    /// `max_send_sge`
    pub max_send_sge: u32,
    /// `max_inline_data`
    pub max_inline: u32,
}

/// Why a request was not accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rejected {
    /// The queue pair is not ready to send (`EINVAL`).
    State,
    /// Not an operation of this transport service (`EINVAL`).
    Opcode,
    /// Too many scatter/gather elements (`EINVAL`).
    TooManySges,
    /// More inline data than asked for when creating, or an operation that takes none (`EINVAL`).
    Inline,
    /// The send queue is full (`ENOMEM`).
    Full,
}

/// Which operations a transport service has (ibv_post_send(3); flush and atomic write: IBA 1.5, RC and XRC).
#[must_use]
pub fn allowed(qp_type: QpType, opcode: Opcode) -> bool {
    use Opcode::*;
    match qp_type {
        // rule: post-opcodes
        QpType::Ud => matches!(opcode, Send | SendWithImm),
        QpType::Uc => matches!(
            opcode,
            Send | SendWithImm | SendWithInv | RdmaWrite | RdmaWriteWithImm | LocalInv | BindMw
        ),
        QpType::Rc | QpType::XrcSend => true,
        QpType::XrcRecv => false,
    }
}

/// What counts of a request when it is posted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Posting {
    /// Operation.
    pub opcode: Opcode,
    /// Whether it says where a datagram goes.
    pub datagram: bool,
    /// Scatter/gather elements of registered memory.
    pub sges: usize,
    /// Bytes of inline data, when there is or could be some.
    pub inline: Option<u64>,
}

impl Posting {
    /// Checks a request when it is posted (IBA §10.8.3.1, §11.4.1.1: immediate errors). `queued` is how many
    /// wait already.
    ///
    /// # Errors
    /// The first rule that is broken; nothing is queued then.
    pub fn accept(
        &self,
        qp_type: QpType,
        state: QpState,
        limits: &Limits,
        queued: u32,
    ) -> Result<(), Rejected> {
        if !may_post_send(state) {
            return Err(Rejected::State);
        }
        if !allowed(qp_type, self.opcode) || (qp_type == QpType::Ud) != self.datagram {
            return Err(Rejected::Opcode);
        }
        // rule: post-elements
        if self.sges > limits.max_send_sge as usize {
            return Err(Rejected::TooManySges);
        }
        if let Some(bytes) = self.inline {
            let takes_inline = matches!(
                self.opcode,
                Opcode::Send
                    | Opcode::SendWithImm
                    | Opcode::SendWithInv
                    | Opcode::RdmaWrite
                    | Opcode::RdmaWriteWithImm
                    | Opcode::AtomicWrite
            );
            // The operand of an atomic write is part of the operation, whatever the queue pair was made for.
            let most = if self.opcode == Opcode::AtomicWrite {
                limits.max_inline.max(ATOMIC_WRITE_BYTES)
            } else {
                limits.max_inline
            };
            // rule: post-inline
            if !takes_inline || bytes > u64::from(most) || self.sges > 0 {
                return Err(Rejected::Inline);
            }
        }
        // rule: post-full
        if queued >= limits.max_send_wr { Err(Rejected::Full) } else { Ok(()) }
    }
}

/// What the sender's queue pair is set to, as far as starting a request needs it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sender {
    /// Transport service.
    pub qp_type: QpType,
    /// Protection domain.
    pub pd: u32,
    /// `max_rd_atomic`
    pub max_rd_atomic: u8,
    /// Bytes of a path's packet; the longest datagram.
    pub mtu: u32,
}

/// Checks a request when it starts (IBA §10.8.3.3: completion errors of the requester). `lookup` finds local
/// keys.
///
/// # Errors
/// The status that the request completes with.
pub fn start(
    request: &Outline<'_>,
    sender: &Sender,
    lookup: impl Fn(u32) -> Option<Key>,
) -> Result<(), Status> {
    use Opcode::*;
    let length = request.length;
    let fits = match request.opcode {
        // One answer of 8 bytes: the local memory is exactly that.
        CmpAndSwp | FetchAndAdd | AtomicWrite => length == 8,
        Flush | LocalInv | BindMw => length == 0,
        _ if sender.qp_type == QpType::Ud => length <= u64::from(sender.mtu),
        _ => length <= MAX_MESSAGE,
    };
    if !fits {
        return Err(Status::LocLenErr);
    }
    // These occupy a place of the responder until they are answered.
    if matches!(request.opcode, RdmaRead | CmpAndSwp | FetchAndAdd | AtomicWrite) && sender.max_rd_atomic == 0
    {
        return Err(Status::LocQpOpErr);
    }
    let operands_fit = match request.operands {
        Operands::None => matches!(request.opcode, Send | SendWithImm | SendWithInv),
        Operands::Remote { .. } => {
            matches!(request.opcode, RdmaWrite | RdmaWriteWithImm | RdmaRead | Flush | AtomicWrite)
        }
        Operands::Atomic { .. } => matches!(request.opcode, CmpAndSwp | FetchAndAdd),
        Operands::Key(_) => request.opcode == LocalInv,
        Operands::Bind(_) => request.opcode == BindMw,
    };
    if !operands_fit {
        return Err(Status::LocQpOpErr);
    }
    for sge in request.sges.iter().filter(|sge| sge.length > 0) {
        // rule: status-local-key
        let key = lookup(sge.lkey);
        keys::check_local(key.as_ref(), sender.pd, sge.addr, sge.length, request.writes_local())
            .map_err(|_| Status::LocProtErr)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::keys::Kind;
    use super::super::verbs::Access;
    use super::*;

    const LIMITS: Limits = Limits { max_send_wr: 4, max_send_sge: 1, max_inline: 16 };

    #[test]
    // rule: post-opcodes
    fn operations_of_the_services() {
        let count = |qp_type| Opcode::ALL.iter().filter(|opcode| allowed(qp_type, **opcode)).count();
        assert_eq!(count(QpType::Ud), 2);
        assert_eq!(count(QpType::Uc), 7);
        assert_eq!(count(QpType::Rc), 12);
        assert_eq!(count(QpType::XrcSend), 12);
        assert_eq!(count(QpType::XrcRecv), 0);
    }

    #[test]
    // rule: post-send-states, post-elements, post-inline, post-full
    fn posting() {
        let post = |posting: Posting, state, queued| posting.accept(QpType::Rc, state, &LIMITS, queued);
        let send = Posting { opcode: Opcode::Send, datagram: false, sges: 1, inline: None };
        assert_eq!(post(send, QpState::Rts, 3), Ok(()));
        assert_eq!(post(send, QpState::Err, 0), Ok(()));
        assert_eq!(post(send, QpState::Rtr, 0), Err(Rejected::State));
        assert_eq!(post(send, QpState::Rts, 4), Err(Rejected::Full));
        assert_eq!(post(Posting { sges: 2, ..send }, QpState::Rts, 0), Err(Rejected::TooManySges));
        let inline = |bytes| Posting { sges: 0, inline: Some(bytes), ..send };
        assert_eq!(post(inline(16), QpState::Rts, 0), Ok(()));
        assert_eq!(post(inline(17), QpState::Rts, 0), Err(Rejected::Inline));
        assert_eq!(post(Posting { sges: 1, ..inline(16) }, QpState::Rts, 0), Err(Rejected::Inline));
        let read = Posting { opcode: Opcode::RdmaRead, ..inline(1) };
        assert_eq!(post(read, QpState::Rts, 0), Err(Rejected::Inline));
        let post = |posting: Posting, qp_type| posting.accept(qp_type, QpState::Rts, &LIMITS, 0);
        let datagram = Posting { datagram: true, ..send };
        assert_eq!(post(send, QpType::Ud), Err(Rejected::Opcode));
        assert_eq!(post(datagram, QpType::Ud), Ok(()));
        assert_eq!(post(datagram, QpType::Rc), Err(Rejected::Opcode));
    }

    #[test]
    // rule: status-local-key
    fn starting() {
        let sender = Sender { qp_type: QpType::Rc, pd: 1, max_rd_atomic: 1, mtu: 1024 };
        let access = Access::NONE;
        let region = Key {
            kind: Kind::Region,
            valid: true,
            pd: 1,
            start: 0x1000,
            length: u64::from(u32::MAX),
            access,
        };
        let lookup = |key| (key == 5).then_some(region);
        /// A request of this operation for so many bytes of the region.
        fn begin(
            (opcode, operands, length): (Opcode, Operands, u32),
            sender: &Sender,
            lookup: impl Fn(u32) -> Option<Key>,
        ) -> Result<(), Status> {
            let sges = [Sge { addr: 0x1000, length, lkey: 5 }];
            start(&Outline { opcode, operands, sges: &sges, length: length.into() }, sender, lookup)
        }
        let send = |length| (Opcode::Send, Operands::None, length);
        assert_eq!(begin(send(8), &sender, lookup), Ok(()));
        assert_eq!(begin(send(1 << 30), &sender, lookup), Ok(()));
        assert_eq!(begin(send((1 << 30) + 1), &sender, lookup), Err(Status::LocLenErr));
        let datagrams = Sender { qp_type: QpType::Ud, ..sender };
        assert_eq!(begin(send(1025), &datagrams, lookup), Err(Status::LocLenErr));
        assert_eq!(begin(send(8), &sender, |_| None), Err(Status::LocProtErr));
        let read = (Opcode::RdmaRead, Operands::Remote { addr: 0, rkey: 0, length: 0 }, 8);
        assert_eq!(begin(read, &sender, lookup), Err(Status::LocProtErr), "region is read-only");
        let none = Sender { max_rd_atomic: 0, ..sender };
        assert_eq!(begin(read, &none, lookup), Err(Status::LocQpOpErr));
        let operands = Operands::Atomic { addr: 0, rkey: 0, compare_add: 0, swap: 0 };
        assert_eq!(begin((Opcode::CmpAndSwp, operands, 4), &sender, lookup), Err(Status::LocLenErr));
        let mixed = (Opcode::Send, Operands::Key(1), 8);
        assert_eq!(begin(mixed, &sender, lookup), Err(Status::LocQpOpErr));
    }
}
