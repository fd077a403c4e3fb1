//! The private provider ABI: what the library and a provider share and programs never see. Names are those of
//! rdma-core's `driver.h`. What is here has been the same since rdma-core 33 unless its module says otherwise.

mod command;
mod device;
mod newer;
mod objects;
pub mod ops;

pub use command::*;
pub use device::*;
pub use newer::*;
pub use objects::*;
pub use ops::verbs_context_ops;
