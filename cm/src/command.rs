//! Commands of the device, decoded. The numbers are the `RDMA_USER_CM_CMD_*` of the kernel's header.
//!
//! Byte layouts, the room for answers and file descriptors are the caller's; so are the checks that the kernel
//! makes on them before it looks at the id (ENOSPC for little room, EINVAL for an address whose size does not
//! fit its family, which arrives here as [`Address::Unspecified`]).

use crate::address::Address;
use crate::file::File;

/// Enhanced connection establishment option: what two devices of one vendor agree upon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Ece {
    /// Vendor, 24 bits.
    pub vendor: u32,
    /// Options.
    pub options: u32,
}

/// Parameters of a connection (`rdma_ucm_conn_param`), from a program and in events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnParam {
    /// Queue pair number, 24 bits.
    pub qp_num: u32,
    /// Queue key; used with native addresses alone.
    pub qkey: u32,
    /// Private data; behind `private_data_len` zeros.
    pub private_data: [u8; 256],
    /// Length of the private data: as given by a program, the field's whole size in events.
    pub private_data_len: u8,
    /// Whether the queue pair has a shared receive queue.
    pub srq: u8,
    /// RDMA reads and atomics that are answered at once.
    pub responder_resources: u8,
    /// RDMA reads and atomics that are asked at once.
    pub initiator_depth: u8,
    /// Whether there is end-to-end flow control.
    pub flow_control: u8,
    /// Retries, at most 7 on the wire.
    pub retry_count: u8,
    /// Retries after "receiver not ready", at most 7 on the wire.
    pub rnr_retry_count: u8,
    /// Whether the program gave parameters. ACCEPT without them establishes the active side.
    pub valid: u8,
}

impl Default for ConnParam {
    fn default() -> Self {
        ConnParam {
            qp_num: 0,
            qkey: 0,
            private_data: [0; 256],
            private_data_len: 0,
            srq: 0,
            responder_resources: 0,
            initiator_depth: 0,
            flow_control: 0,
            retry_count: 0,
            rnr_retry_count: 0,
            valid: 0,
        }
    }
}

impl ConnParam {
    /// The private data that was given.
    pub fn data(&self) -> &[u8] {
        // A u8 never leaves an array of 256.
        &self.private_data[..usize::from(self.private_data_len)]
    }
}

/// A command of a program, decoded.
#[derive(Clone, Debug, PartialEq)]
pub enum Command<'a> {
    /// Command 0. Answer: [`Created`](crate::Answer::Created).
    CreateId {
        /// What events of the id carry; 0 keeps events from coming.
        uid: u64,
        /// Port space.
        space: u16,
        /// Type of queue pair, for the port space IB.
        qp_type: u8,
    },
    /// Command 1. Answer: [`Reported`](crate::Answer::Reported).
    DestroyId {
        /// The id.
        id: u32,
    },
    /// Commands 2 and 20 BIND, which says the same.
    Bind {
        /// The id.
        id: u32,
        /// The address.
        address: Address,
    },
    /// Commands 3 and 21 RESOLVE_ADDR.
    ResolveAddr {
        /// The id.
        id: u32,
        /// The source; `None` where the program gave none (size or family 0).
        source: Option<Address>,
        /// The destination.
        destination: Address,
        /// Milliseconds until it counts as failed.
        timeout_ms: u32,
    },
    /// Command 4.
    ResolveRoute {
        /// The id.
        id: u32,
        /// Milliseconds; 0 is refused.
        timeout_ms: u32,
    },
    /// Command 5. Answer: [`Route`](crate::Answer::Route).
    QueryRoute {
        /// The id.
        id: u32,
    },
    /// Command 6.
    Connect {
        /// The id.
        id: u32,
        /// Parameters.
        param: &'a ConnParam,
        /// Zero where the program's command has none.
        ece: Ece,
    },
    /// Command 7.
    Listen {
        /// The id.
        id: u32,
        /// Requests that may wait; out of range is the maximum.
        backlog: i32,
    },
    /// Command 8.
    Accept {
        /// What events of the id carry from now on (with valid parameters).
        uid: u64,
        /// The id.
        id: u32,
        /// Parameters; `valid` 0 on the active side.
        param: &'a ConnParam,
        /// Zero where the program's command has none.
        ece: Ece,
    },
    /// Command 9.
    Reject {
        /// The id.
        id: u32,
        /// 0, 28 or 35.
        reason: u8,
        /// Private data; the caller cuts it at `private_data_len`.
        data: &'a [u8],
    },
    /// Command 10.
    Disconnect {
        /// The id.
        id: u32,
    },
    /// Command 11. Answer: [`QpAttr`](crate::Answer::QpAttr).
    InitQpAttr {
        /// The id.
        id: u32,
        /// The state that the queue pair is to get (`enum ibv_qp_state`).
        state: u32,
    },
    /// Command 12. Answer: [`Event`](crate::Answer::Event); EAGAIN where there is none, and the caller waits if
    /// it may.
    GetEvent,
    /// Command 14.
    SetOption {
        /// The id.
        id: u32,
        /// 0 (ID) or 1 (IB).
        level: u32,
        /// Number of the option.
        name: u32,
        /// Its value.
        value: &'a [u8],
    },
    /// Command 15.
    Notify {
        /// The id.
        id: u32,
        /// An asynchronous event of verbs (`enum ibv_event_type`).
        event: u32,
    },
    /// Commands 16 and 22 JOIN_MCAST. Answer: [`Created`](crate::Answer::Created) with the join's number.
    JoinMulticast {
        /// The id.
        id: u32,
        /// What events of the join carry.
        uid: u64,
        /// The group.
        address: Address,
        /// 0 full member (and always of command 16), 1 send-only.
        flags: u16,
    },
    /// Command 17. Answer: [`Reported`](crate::Answer::Reported).
    LeaveMulticast {
        /// The join.
        id: u32,
    },
    /// Command 18, written to the new file. Answer: [`Reported`](crate::Answer::Reported).
    Migrate {
        /// The id.
        id: u32,
        /// The file that the descriptor in the command names. The caller answers ENOENT where it is no open
        /// descriptor and EINVAL where it is no channel.
        from: File,
    },
    /// Command 19. Answers: [`Addresses`](crate::Answer::Addresses) of options 0 and 2,
    /// [`Paths`](crate::Answer::Paths) of option 1, [`IbServices`](crate::Answer::IbServices) of option 3;
    /// ENOSYS of others.
    Query {
        /// The id.
        id: u32,
        /// 0 addresses, 1 paths, 2 GIDs, 3 services.
        option: u32,
    },
    /// Command 23, since Linux 6.17: asks a subnet administrator, which RoCE has not. EOPNOTSUPP.
    ResolveIbService {
        /// The id.
        id: u32,
        /// Service id, where `flags` has 1.
        service: u64,
        /// Name, where `flags` has 2.
        name: [u8; 64],
        /// 1 by id, 2 by name.
        flags: u32,
    },
    /// Command 24, since Linux 6.17.
    WriteEvent {
        /// The id.
        id: u32,
        /// 18 (USER) or 19 (INTERNAL).
        event: u32,
        /// Its status.
        status: i32,
        /// Its argument.
        argument: u64,
    },
}

/// Value of the option `RDMA_OPTION_IB_PATH` as [`Command::SetOption`] takes it: entries of 72 bytes.
pub const PATH_DATA_SIZE: usize = 72;

/// Flags of the one entry that [`Command::SetOption`] uses: GMP, primary, outbound, inbound reverse.
pub const PATH_FLAGS: u32 = 43;

/// A path as an option carries it (64 bytes of SA wire format), see [`crate::answer::Path::unpack`].
pub type PathBytes = [u8; 64];
