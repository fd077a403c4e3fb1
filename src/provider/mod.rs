//! What a kind of device must be able to do.
//!
//! A [`Provider`] recognises and opens devices ([`discovery`] asks each of them); the [`Context`] of an opened
//! device has the control operations of every object, one trait each ([`verbs`]). A provider implements the
//! trait of an object in its own file of that name. The data path does not go through here: a context gives its
//! C functions once ([`Context::data_path`]) and programs call them from then on.
//!
//! | file | what it does |
//! |---|---|
//! | [`discovery`] [`device`] [`context`] | who drives a device; device and context as C knows them |
//! | [`verbs`] [`data_path`] | what a context does: operations of each object; functions for each message |
//! | [`rxe`] [`siw`] [`soft`] [`plugin`] | the kinds of devices |
//! | [`kernel`] | what drivers in Linux' own style have in common |
//! | [`object`] [`public_fields`] | C handles and Rust objects; what C programs see in queues and queue pairs |
//! | [`event_name`] [`wait`] | objects that events name; waiting for acknowledgements when they go |
//! | [`domain`] [`buffer`] [`bind`] [`mapping`] | domains, buffers, bindings of windows, mapped memory |
//! | [`cq_ex`] [`qp_ex`] | which functions an extended queue or queue pair has |
//! | [`posting`] | how posting a list of requests begins |

pub mod bind;
pub mod buffer;
pub mod context;
pub mod cq_ex;
pub mod data_path;
pub mod device;
pub mod discovery;
pub mod domain;
pub mod event_name;
pub mod kernel;
pub mod mapping;
pub mod object;
pub mod plugin;
pub mod posting;
pub mod public_fields;
pub mod qp_ex;
pub mod rxe;
pub mod siw;
pub mod soft;
pub mod verbs;
pub mod wait;

use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use ironverbs_os::growth::small_box;

use crate::abi::verbs::ibv_context;
use crate::errno::{Errno, Result};
use crate::uverbs::device_file::{DeviceFile, GotContext};
use crate::uverbs::discovery::DeviceInfo;
use data_path::DataPath;
use object::Handle;
use verbs::*;

/// A kind of RDMA device.
#[allow(unused_variables)]
pub trait Provider: Sync {
    /// The name that the trace shows, for example `rxe`.
    fn name(&self) -> &'static str;

    /// Whether this provider drives the device that discovery found.
    fn takes(&self, device: &DeviceInfo) -> bool;

    /// Opens the device that discovery found.
    fn open(&self, device: &DeviceInfo) -> Result<Opened>;

    /// Joins the context that somebody else, perhaps another process, made with this command file of the
    /// device; the file goes into the context, or is closed on an error.
    fn import(&self, device: &DeviceInfo, file: OwnedFd) -> Result<Opened>;

    /// The device (`DeviceInfo::sysfs_name`) whose command file this is, where that is no character device of
    /// the kernel.
    fn device_of(&self, cmd_fd: RawFd) -> Option<String> {
        None
    }
}

/// A device just opened: the context and what is known of the device.
pub struct Opened {
    /// The provider's side of the context.
    pub context: Box<dyn Context>,
    /// Completion vectors that a CQ may name, from 0.
    pub num_comp_vectors: u32,
    /// `IB_UVERBS_CORE_SUPPORT_*` bits.
    pub core_support: u64,
}

impl Opened {
    /// A device whose driver has just made its side of the context.
    pub fn new(context: impl Context + 'static, got: &GotContext) -> Self {
        Self {
            context: small_box(context),
            num_comp_vectors: got.num_comp_vectors,
            core_support: got.core_support,
        }
    }

    /// What the kernel said about the device.
    pub fn got(&self) -> GotContext {
        GotContext { num_comp_vectors: self.num_comp_vectors, core_support: self.core_support }
    }
}

/// How a device was opened.
pub enum Opening {
    /// By a provider of the library, whose context still has to be made.
    Native(Opened),
    /// By a plugin, which made its context.
    Plugin(Handle<ibv_context>),
}

/// The way to the kernel, which the operations of all objects share.
pub trait CommandFile: Send + Sync {
    /// The command file, the way to the kernel; None for a device that is not the kernel's.
    fn file(&self) -> Option<&DeviceFile>;

    /// What stands in `ibv_context.cmd_fd`.
    fn cmd_fd(&self) -> RawFd {
        self.file().map_or(-1, AsRawFd::as_raw_fd)
    }

    /// The command file, for what cannot do without; EOPNOTSUPP where there is none.
    fn kernel(&self) -> Result<&DeviceFile> {
        self.file().ok_or(Errno::EOPNOTSUPP)
    }
}

/// An opened device: the operations of all objects, and the data path.
pub trait Context:
    Ahs
    + Bufs
    + Channels
    + CompCntrs
    + Counters
    + Cqs
    + Devices
    + Dms
    + Dmahs
    + Events
    + Flows
    + Gids
    + Mcasts
    + Mrs
    + Mws
    + Pds
    + Ports
    + Qps
    + Srqs
    + Tds
    + Wqs
    + Xrcds
{
    /// The functions that programs call for every message.
    fn data_path(&self) -> DataPath;

    /// The library's side of a context that a plugin made; none for a native provider's.
    fn plugin(&self) -> Option<&plugin::context::PluginContext> {
        None
    }
}
