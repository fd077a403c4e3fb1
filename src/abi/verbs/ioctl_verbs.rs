//! Types that verbs.h shares with the kernel interface: IPsec ESP actions and memory advice.
//!
//! In C their `ibv_` names are macros for the `ib_uverbs_` names (verbs_api.h, ib_user_ioctl_verbs.h). Pointers
//! are typed here, as in the public header; the kernel sees 64-bit integers in their place.

use libc::c_void;

/// Key material for AES-GCM.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ib_uverbs_flow_action_esp_keymat_aes_gcm {
    /// Initialisation vector.
    pub iv: u64,
    /// How initialisation vectors follow each other; [`IBV_FLOW_ACTION_IV_ALGO_SEQ`].
    pub iv_algo: u32,
    /// Salt.
    pub salt: u32,
    /// Length of the integrity check value in bytes.
    pub icv_len: u32,
    /// Length of the key in bits.
    pub key_len: u32,
    /// The key.
    pub aes_key: [u32; 8],
}

/// Replay window.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ib_uverbs_flow_action_esp_replay_bmp {
    /// Size of the window in packets.
    pub size: u32,
}

/// One header of the encapsulation; headers form a list.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ib_uverbs_flow_action_esp_encap {
    /// The header's filter, one of the `ibv_flow_*_filter` structs.
    pub val_ptr: *mut c_void,
    /// Next header, or null.
    pub next_ptr: *mut ib_uverbs_flow_action_esp_encap,
    /// Size of the filter in bytes.
    pub len: u16,
    /// A value of `ibv_flow_spec_type`.
    pub type_: u16,
}

/// Security association.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ib_uverbs_flow_action_esp {
    /// Security parameter index.
    pub spi: u32,
    /// Sequence number.
    pub seq: u32,
    /// Traffic flow confidentiality padding.
    pub tfc_pad: u32,
    /// `IBV_FLOW_ACTION_ESP_FLAGS_*` bits.
    pub flags: u32,
    /// Packets after which the association ends.
    pub hard_limit_pkts: u64,
}

/// Name in verbs.h.
pub type ibv_flow_action_esp = ib_uverbs_flow_action_esp;
/// Name in verbs.h.
pub type ibv_flow_action_esp_encap = ib_uverbs_flow_action_esp_encap;
/// Name in verbs.h.
pub type ibv_flow_action_esp_keymat_aes_gcm = ib_uverbs_flow_action_esp_keymat_aes_gcm;
/// Name in verbs.h.
pub type ibv_flow_action_esp_replay_bmp = ib_uverbs_flow_action_esp_replay_bmp;

/// Key material is for AES-GCM.
pub const IBV_FLOW_ACTION_ESP_KEYMAT_AES_GCM: u32 = 0;
/// Initialisation vectors count up.
pub const IBV_FLOW_ACTION_IV_ALGO_SEQ: u32 = 0;
/// No replay protection.
pub const IBV_FLOW_ACTION_ESP_REPLAY_NONE: u32 = 0;
/// Replay protection by a bitmap.
pub const IBV_FLOW_ACTION_ESP_REPLAY_BMP: u32 = 1;
/// Only the cryptography is offloaded.
pub const IBV_FLOW_ACTION_ESP_FLAGS_INLINE_CRYPTO: u32 = 0;
/// Encapsulation is offloaded as well.
pub const IBV_FLOW_ACTION_ESP_FLAGS_FULL_OFFLOAD: u32 = 1 << 0;
/// Tunnel mode.
pub const IBV_FLOW_ACTION_ESP_FLAGS_TUNNEL: u32 = 0;
/// Transport mode.
pub const IBV_FLOW_ACTION_ESP_FLAGS_TRANSPORT: u32 = 1 << 1;
/// Received packets are decrypted.
pub const IBV_FLOW_ACTION_ESP_FLAGS_DECRYPT: u32 = 0;
/// Sent packets are encrypted.
pub const IBV_FLOW_ACTION_ESP_FLAGS_ENCRYPT: u32 = 1 << 2;
/// The extended sequence number begins a new window.
pub const IBV_FLOW_ACTION_ESP_FLAGS_ESN_NEW_WINDOW: u32 = 1 << 3;

/// Fault pages in for reading.
pub const IBV_ADVISE_MR_ADVICE_PREFETCH: u32 = 0;
/// Fault pages in for writing.
pub const IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE: u32 = 1;
/// Map pages that are present, without faulting.
pub const IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT: u32 = 2;
/// Flag of `ibv_advise_mr`: return when the advice has been carried out.
pub const IBV_ADVISE_MR_FLAG_FLUSH: u32 = 1 << 0;

/// Bit of `ibv_port_attr::flags`: packets need a global routing header.
pub const IBV_QPF_GRH_REQUIRED: u8 = 1 << 0;
/// First of the access rights that a device may ignore.
pub const IBV_ACCESS_OPTIONAL_FIRST: u32 = 1 << 20;
/// Mask of the access rights that a device may ignore: bits 20 to 29.
pub const IBV_ACCESS_OPTIONAL_RANGE: u32 = 0x3ff0_0000;
