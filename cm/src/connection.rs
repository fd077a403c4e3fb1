//! Connections: the state of the protocol between two ids.

use crate::world::Link;

/// A connection's state.
#[derive(Default)]
pub(crate) struct Connection {
    pub link: Option<Link>,
}
