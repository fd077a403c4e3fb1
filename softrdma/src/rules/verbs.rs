//! The vocabulary: every number equals the verbs enumerator of the same name (`infiniband/verbs.h`), so that a
//! provider converts by value.

/// An enum with numbers, and the way back from a number that somebody else wrote.
macro_rules! numbered {
    ($(#[$doc:meta])* $name:ident { $($(#[$var_doc:meta])* $var:ident = $value:expr,)+ }) => {
        $(#[$doc])*
        #[repr(u32)]
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
        pub enum $name { $($(#[$var_doc])* $var = $value,)+ }

        impl $name {
            /// Every value.
            pub const ALL: &[Self] = &[$(Self::$var,)+];

            /// The value with this number.
            #[must_use]
            #[inline]
            pub const fn from_number(number: u32) -> Option<Self> {
                match number {
                    $($value => Some(Self::$var),)+
                    _ => None,
                }
            }
        }
    };
}

/// A set of flags in a word, with names.
macro_rules! flags {
    ($(#[$doc:meta])* $name:ident { $($(#[$flag_doc:meta])* $flag:ident = $value:expr,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
        pub struct $name(pub u32);

        impl $name {
            $($(#[$flag_doc])* pub const $flag: Self = Self($value);)+

            /// None of the flags.
            pub const NONE: Self = Self(0);

            /// Whether all of these are set.
            #[must_use]
            pub const fn has(self, flags: Self) -> bool {
                self.0 & flags.0 == flags.0
            }

            /// Whether one of these is set.
            #[must_use]
            pub const fn any(self, flags: Self) -> bool {
                self.0 & flags.0 != 0
            }

            /// All flags of both.
            #[must_use]
            pub const fn union(self, flags: Self) -> Self {
                Self(self.0 | flags.0)
            }
        }
    };
}

numbered! {
    /// Transport service of a queue pair (`enum ibv_qp_type`; IBA vol 1 §9.2, XRC: annex A14).
    QpType {
        /// Reliable connection.
        Rc = 2,
        /// Unreliable connection.
        Uc = 3,
        /// Unreliable datagram.
        Ud = 4,
        /// Extended reliable connection, initiator (`IBV_QPT_XRC_SEND`).
        XrcSend = 9,
        /// Extended reliable connection, target (`IBV_QPT_XRC_RECV`).
        XrcRecv = 10,
    }
}

impl QpType {
    /// Whether every request is answered, so that it can be tried again (IBA §9.7).
    #[must_use]
    pub fn is_reliable(self) -> bool {
        matches!(self, Self::Rc | Self::XrcSend | Self::XrcRecv)
    }
}

numbered! {
    /// State of a queue pair (`enum ibv_qp_state`; IBA §10.3.1).
    QpState {
        /// Nothing is processed; queues are empty.
        Reset = 0,
        /// Receive requests may be posted.
        Init = 1,
        /// Ready to receive.
        Rtr = 2,
        /// Ready to send.
        Rts = 3,
        /// Send queue drained.
        Sqd = 4,
        /// Send queue error.
        Sqe = 5,
        /// Error: everything is flushed.
        Err = 6,
    }
}

numbered! {
    /// Operation of a work request (`enum ibv_wr_opcode`). TSO and the driver opcodes are not RDMA and not
    /// here.
    Opcode {
        /// RDMA write.
        RdmaWrite = 0,
        /// RDMA write that also consumes a receive request and hands over immediate data.
        RdmaWriteWithImm = 1,
        /// Send.
        Send = 2,
        /// Send with immediate data.
        SendWithImm = 3,
        /// RDMA read.
        RdmaRead = 4,
        /// Compare and swap, 8 bytes.
        CmpAndSwp = 5,
        /// Fetch and add, 8 bytes.
        FetchAndAdd = 6,
        /// Local invalidate.
        LocalInv = 7,
        /// Bind of a memory window, type 2.
        BindMw = 8,
        /// Send that invalidates a key of the receiver.
        SendWithInv = 9,
        /// Flush of remote memory (IBA 1.5 §9.4.8; `IBV_WR_FLUSH`).
        Flush = 14,
        /// Atomic write, 8 bytes (IBA 1.5 §9.4.9; `IBV_WR_ATOMIC_WRITE`).
        AtomicWrite = 15,
    }
}

numbered! {
    /// Status of a completion (`enum ibv_wc_status`; IBA §10.10.3, §11.6.2).
    Status {
        /// Done.
        Success = 0,
        /// Local length error.
        LocLenErr = 1,
        /// Local queue pair operation error.
        LocQpOpErr = 2,
        /// Local protection error.
        LocProtErr = 4,
        /// Flushed: never started, or given up with its queue pair.
        WrFlushErr = 5,
        /// Memory window bind error.
        MwBindErr = 6,
        /// Bad response.
        BadRespErr = 7,
        /// Local access error: the memory of a receive request refused an RDMA write with immediate.
        LocAccessErr = 8,
        /// Remote invalid request.
        RemInvReqErr = 9,
        /// Remote access error.
        RemAccessErr = 10,
        /// Remote operational error.
        RemOpErr = 11,
        /// Transport retry counter exceeded.
        RetryExcErr = 12,
        /// Receiver-not-ready retry counter exceeded.
        RnrRetryExcErr = 13,
        /// Remote aborted.
        RemAbortErr = 16,
        /// Fatal.
        FatalErr = 19,
        /// Response timeout.
        RespTimeoutErr = 20,
        /// General error.
        GeneralErr = 21,
    }
}

numbered! {
    /// What completed (`enum ibv_wc_opcode`).
    WcOpcode {
        /// Send, any kind.
        Send = 0,
        /// RDMA write, with or without immediate.
        RdmaWrite = 1,
        /// RDMA read.
        RdmaRead = 2,
        /// Compare and swap.
        CompSwap = 3,
        /// Fetch and add.
        FetchAdd = 4,
        /// Bind of a memory window.
        BindMw = 5,
        /// Local invalidate.
        LocalInv = 6,
        /// Flush.
        Flush = 8,
        /// Atomic write.
        AtomicWrite = 9,
        /// A receive request, by a send.
        Recv = 128,
        /// A receive request, by an RDMA write with immediate.
        RecvRdmaWithImm = 129,
    }
}

impl From<Opcode> for WcOpcode {
    /// The opcode in the sender's completion.
    fn from(opcode: Opcode) -> Self {
        match opcode {
            Opcode::RdmaWrite | Opcode::RdmaWriteWithImm => Self::RdmaWrite,
            Opcode::Send | Opcode::SendWithImm | Opcode::SendWithInv => Self::Send,
            Opcode::RdmaRead => Self::RdmaRead,
            Opcode::CmpAndSwp => Self::CompSwap,
            Opcode::FetchAndAdd => Self::FetchAdd,
            Opcode::LocalInv => Self::LocalInv,
            Opcode::BindMw => Self::BindMw,
            Opcode::Flush => Self::Flush,
            Opcode::AtomicWrite => Self::AtomicWrite,
        }
    }
}

numbered! {
    /// Asynchronous event (`enum ibv_event_type`; IBA §11.6.3), those that queues raise.
    Event {
        /// Completion queue overrun.
        CqErr = 0,
        /// Queue pair broke by itself (its completion queue overran).
        QpFatal = 1,
        /// The responder refused an invalid request.
        QpReqErr = 2,
        /// The responder refused an access violation.
        QpAccessErr = 3,
        /// First message arrived while still in RTR.
        CommEst = 4,
        /// The send queue drained after RTS → SQD.
        SqDrained = 5,
        /// Shared receive queue failed.
        SrqErr = 14,
        /// Shared receive queue fell below its limit.
        SrqLimitReached = 15,
        /// A queue pair in error has taken its last request from the shared receive queue.
        QpLastWqeReached = 16,
    }
}

flags! {
    /// Flags of a completion (`enum ibv_wc_flags`).
    WcFlags {
        /// The first 40 bytes of the buffer are a global route header.
        GRH = 1 << 0,
        /// Immediate data is there.
        WITH_IMM = 1 << 1,
        /// A key was invalidated.
        WITH_INV = 1 << 3,
        /// With `GRH`: the header is an IPv4 one, in the last 20 of the 40 bytes. Not one of the enumeration:
        /// adapters tell the type of a RoCE packet in the service level, which RoCE has no other use for.
        IPV4 = 1 << 31,
    }
}

flags! {
    /// Flags of a send request (`enum ibv_send_flags`).
    SendFlags {
        /// Starts after all reads and atomics before it are done.
        FENCE = 1 << 0,
        /// Asks for a completion.
        SIGNALED = 1 << 1,
        /// Wakes a receiver that waits for solicited completions.
        SOLICITED = 1 << 2,
        /// The data is taken when posting.
        INLINE = 1 << 3,
    }
}

flags! {
    /// Rights (`enum ibv_access_flags`), of memory and of a queue pair.
    Access {
        /// The device may write here for its own process (receive, read, atomic result).
        LOCAL_WRITE = 1 << 0,
        /// Peers may write.
        REMOTE_WRITE = 1 << 1,
        /// Peers may read.
        REMOTE_READ = 1 << 2,
        /// Peers may do atomics.
        REMOTE_ATOMIC = 1 << 3,
        /// Windows may be bound.
        MW_BIND = 1 << 4,
        /// Addresses start at 0 instead of the virtual address.
        ZERO_BASED = 1 << 5,
        /// The memory need not be there before it is used.
        ON_DEMAND = 1 << 6,
        /// Peers may flush to visibility.
        FLUSH_GLOBAL = 1 << 8,
        /// Peers may flush to persistence.
        FLUSH_PERSISTENT = 1 << 9,
        /// Of this crate alone: only the owner's own loads, stores and system calls reach the memory.
        UNPINNABLE = 1 << 31,
    }
}

flags! {
    /// Attributes named in a modify call (`enum ibv_qp_attr_mask`).
    Attr {
        /// `qp_state`
        STATE = 1 << 0,
        /// `cur_qp_state`
        CUR_STATE = 1 << 1,
        /// `en_sqd_async_notify`
        EN_SQD_ASYNC_NOTIFY = 1 << 2,
        /// `qp_access_flags`
        ACCESS_FLAGS = 1 << 3,
        /// `pkey_index`
        PKEY_INDEX = 1 << 4,
        /// `port_num`
        PORT = 1 << 5,
        /// `qkey`
        QKEY = 1 << 6,
        /// `ah_attr`
        AV = 1 << 7,
        /// `path_mtu`
        PATH_MTU = 1 << 8,
        /// `timeout`
        TIMEOUT = 1 << 9,
        /// `retry_cnt`
        RETRY_CNT = 1 << 10,
        /// `rnr_retry`
        RNR_RETRY = 1 << 11,
        /// `rq_psn`
        RQ_PSN = 1 << 12,
        /// `max_rd_atomic`
        MAX_QP_RD_ATOMIC = 1 << 13,
        /// `alt_ah_attr` and its companions
        ALT_PATH = 1 << 14,
        /// `min_rnr_timer`
        MIN_RNR_TIMER = 1 << 15,
        /// `sq_psn`
        SQ_PSN = 1 << 16,
        /// `max_dest_rd_atomic`
        MAX_DEST_RD_ATOMIC = 1 << 17,
        /// `path_mig_state`
        PATH_MIG_STATE = 1 << 18,
        /// `cap`
        CAP = 1 << 19,
        /// `dest_qp_num`
        DEST_QPN = 1 << 20,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for &state in QpState::ALL {
            assert_eq!(QpState::from_number(state as u32), Some(state));
        }
        assert_eq!(QpState::from_number(7), None);
        assert_eq!(Status::from_number(3), None);
        assert_eq!(Opcode::from_number(u32::MAX), None);
    }
}
