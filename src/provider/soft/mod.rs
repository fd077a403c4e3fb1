//! The software device.
pub mod gids;
pub mod identity;
pub mod port;
