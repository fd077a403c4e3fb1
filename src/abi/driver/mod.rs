//! The private provider ABI: what the library and a provider share and programs never see. Names are those of
//! rdma-core's `driver.h`. What is here has been the same since rdma-core 35 unless its module says otherwise.

mod command;
mod device;
mod objects;
pub mod ops;

pub use command::*;
pub use device::*;
pub use objects::*;
pub use ops::verbs_context_ops;

/// Layouts of rdma-core 44, where they are not those of newer releases.
pub mod v44 {
    pub use super::objects::v44::*;
    pub use super::ops::v44::*;
}
