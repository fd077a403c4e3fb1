//! What a traced process and the command share: the layout of a ring, and of the records in it.
//!
//! A ring is a file of one thread: a page that begins with a [`Head`], and [`ROOM`] bytes of records. Positions
//! count bytes since the ring was made. Each stands twice, the second time inverted, so that who reads it by a
//! system call knows a half-written one. Words are those of the machine.

/// The first word of a ring.
pub const MAGIC: u64 = u64::from_ne_bytes(*b"ivtrace1");
/// The name of a ring in the trace's folder begins so; before it is whole, it has another.
pub const NAME: &str = "ring-";
/// The file in the trace's folder that the command holds locked as long as it reads.
pub const READER: &str = "reader";
/// A file that is made there where a thread could make no ring.
pub const LOST: &str = "lost";

/// What a ring begins with.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Head {
    /// [`MAGIC`].
    pub magic: u64,
    /// The process, as it names itself.
    pub pid: u32,
    /// Its thread.
    pub tid: u32,
    /// The number of the file of its PID namespace.
    pub namespace: u64,
    /// The name of the thread (`PR_GET_NAME`), with zeros behind.
    pub name: [u8; 16],
}

/// Where the position stands up to which records are there.
pub const WRITTEN: usize = 128;
/// Where the position stands up to which the command has taken them.
pub const TAKEN: usize = 192;
/// A word that is not 0 once the thread has ended.
pub const ENDED: usize = 256;
/// Where the thread counts what found nothing, as [`Empty`], until it writes a record of it.
pub const EMPTIES: usize = 320;
/// How many of them there are.
pub const EMPTY_PLACES: usize = 4;
/// Where the records begin.
pub const DATA: usize = 4096;
/// Bytes of records that are there at a time.
pub const ROOM: usize = 256 << 10;
/// Bytes of a ring.
pub const RING: usize = DATA + ROOM;
/// The longest record in bytes.
pub const LARGEST: usize = 64 << 10;

/// Polls of one queue that found nothing.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Empty {
    /// How many; 0: the place is free.
    pub count: u64,
    /// A [`data`] call.
    pub call: u64,
    /// The queue's address.
    pub queue: u64,
    /// When the first began.
    pub begin: u64,
    /// How long all of them took, in nanoseconds.
    pub nanos: u64,
}

/// Kinds of records.
pub mod kind {
    /// Nothing: the rest of the room before its end.
    pub const PAD: u16 = 0;
    /// A call whose arguments the process has put into words: [`Text`](super::Text).
    pub const TEXT: u16 = 1;
    /// A call of the data path, one of [`data`](super::data).
    pub const DATA: u16 = 2;
}

/// What each record begins with.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Header {
    /// Bytes of the record with this, a multiple of 8.
    pub size: u32,
    /// One of [`kind`].
    pub kind: u16,
    /// Of a data call, which one.
    pub call: u16,
    /// When the call began: nanoseconds of `CLOCK_MONOTONIC`.
    pub begin: u64,
    /// How long it took, in nanoseconds.
    pub nanos: u64,
    /// What a data call answered.
    pub answer: i64,
    /// The error number, 0 for none.
    pub errno: i32,
    /// Bits of [`flag`].
    pub flags: u32,
}

/// Bits of [`Header::flags`].
pub mod flag {
    /// The list goes on in the next record of this thread.
    pub const GOES_ON: u32 = 1;
    /// Something was too long to be shown whole.
    pub const CUT: u32 = 2;
    /// The call failed.
    pub const FAILED: u32 = 4;
}

/// What follows the [`Header`] of a [`kind::TEXT`]: lengths of what comes behind in this order, in bytes.
///
/// In arguments and answer, [`SEPARATOR`] stands between arguments, and [`OBJECT`] before the kind and address
/// of an object (`cq 55d0c0ffee00`) and [`OBJECT_END`] behind it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Text {
    /// The verb's name.
    pub name: u16,
    /// Whether the verb made an end of its first argument, 1 for yes.
    pub ends: u16,
    /// `name=value` of each argument.
    pub arguments: u32,
    /// What the verb answered.
    pub answer: u32,
}

/// Between arguments.
pub const SEPARATOR: u8 = 0x1f;
/// Before kind and address of an object.
pub const OBJECT: u8 = 0x02;
/// Behind them.
pub const OBJECT_END: u8 = 0x03;

/// A name for each call of the data path, and what its record holds behind the [`Header`].
macro_rules! data_calls {
    ($($name:ident = $number:literal $verb:literal;)+) => {
        /// Calls of the data path.
        pub mod data {
            $(#[doc = $verb] pub const $name: u16 = $number;)+

            /// The verb's name.
            #[must_use]
            pub fn verb(call: u16) -> Option<&'static str> {
                match call {
                    $($name => Some($verb),)+
                    _ => None,
                }
            }

            /// All of them.
            pub const ALL: &[u16] = &[$($name),+];
        }
    };
}

data_calls! {
    POLL_CQ = 1 "ibv_poll_cq";
    REQ_NOTIFY_CQ = 2 "ibv_req_notify_cq";
    POST_SEND = 3 "ibv_post_send";
    POST_RECV = 4 "ibv_post_recv";
    POST_SRQ_RECV = 5 "ibv_post_srq_recv";
    POST_WQ_RECV = 6 "ibv_post_wq_recv";
    POST_SRQ_OPS = 7 "ibv_post_srq_ops";
    START_POLL = 8 "ibv_start_poll";
    NEXT_POLL = 9 "ibv_next_poll";
    END_POLL = 10 "ibv_end_poll";
    MEMCPY_TO_DM = 11 "ibv_memcpy_to_dm";
    MEMCPY_FROM_DM = 12 "ibv_memcpy_from_dm";
    WR_START = 20 "ibv_wr_start";
    WR_COMPLETE = 21 "ibv_wr_complete";
    WR_ABORT = 22 "ibv_wr_abort";
    WR_ATOMIC_CMP_SWP = 23 "ibv_wr_atomic_cmp_swp";
    WR_ATOMIC_FETCH_ADD = 24 "ibv_wr_atomic_fetch_add";
    WR_ATOMIC_WRITE = 25 "ibv_wr_atomic_write";
    WR_BIND_MW = 26 "ibv_wr_bind_mw";
    WR_LOCAL_INV = 27 "ibv_wr_local_inv";
    WR_RDMA_READ = 28 "ibv_wr_rdma_read";
    WR_RDMA_WRITE = 29 "ibv_wr_rdma_write";
    WR_RDMA_WRITE_IMM = 30 "ibv_wr_rdma_write_imm";
    WR_SEND = 31 "ibv_wr_send";
    WR_SEND_IMM = 32 "ibv_wr_send_imm";
    WR_SEND_INV = 33 "ibv_wr_send_inv";
    WR_SEND_TSO = 34 "ibv_wr_send_tso";
    WR_FLUSH = 35 "ibv_wr_flush";
    WR_SET_UD_ADDR = 36 "ibv_wr_set_ud_addr";
    WR_SET_XRC_SRQN = 37 "ibv_wr_set_xrc_srqn";
    WR_SET_INLINE_DATA = 38 "ibv_wr_set_inline_data";
    WR_SET_INLINE_DATA_LIST = 39 "ibv_wr_set_inline_data_list";
    WR_SET_SGE = 40 "ibv_wr_set_sge";
    WR_SET_SGE_LIST = 41 "ibv_wr_set_sge_list";
}
