//! Error numbers of Linux, as commands of the connection manager's device answer them, and which of them stands
//! for what the world answers.

use crate::ports::NoPort;
use crate::world::{NoDevice, NoRoute};

/// An error number, positive as in `errno`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Errno(pub i32);

macro_rules! numbers {
    ($($name:ident $value:literal $meaning:literal)*) => {
        impl Errno { $(#[doc = $meaning] pub const $name: Errno = Errno($value);)* }
    };
}

numbers! {
    ENOENT 2 "No such id."
    ENXIO 6 "The id is being destroyed."
    EAGAIN 11 "No event is there."
    ENOMEM 12 "No number is left."
    EACCES 13 "A port below 1024 without the right to it."
    EBUSY 16 "Already set."
    ENODEV 19 "No device has this address."
    EINVAL 22 "The arguments or the state do not allow it."
    ENOSYS 38 "Not known here."
    EPROTONOSUPPORT 93 "No port space has this service id."
    EOPNOTSUPP 95 "Not for this kind of id."
    EAFNOSUPPORT 97 "This address family is not served."
    EADDRINUSE 98 "Another id has this address and port."
    EADDRNOTAVAIL 99 "The port is not free."
    ENETUNREACH 101 "No route."
    EISCONN 106 "It is connected already."
    ETIMEDOUT 110 "Nobody answered."
    EHOSTUNREACH 113 "No route to this host."
    ENOTSUPP 524 "The kernel's own number for what it does not do."
}

impl Errno {
    /// The status of an event that tells of this error: the negative number.
    pub fn status(self) -> i32 {
        -self.0
    }
}

impl From<NoDevice> for Errno {
    fn from(why: NoDevice) -> Errno {
        match why {
            NoDevice::NotLocal => Errno::EADDRNOTAVAIL,
            NoDevice::NoneHasIt => Errno::ENODEV,
        }
    }
}

impl From<NoRoute> for Errno {
    fn from(why: NoRoute) -> Errno {
        match why {
            NoRoute::Table(errno) => Errno(errno),
            NoRoute::NoHost => Errno::EHOSTUNREACH,
            NoRoute::NoNeighbour => Errno::ETIMEDOUT,
        }
    }
}

impl From<NoPort> for Errno {
    fn from(why: NoPort) -> Errno {
        match why {
            NoPort::Privileged => Errno::EACCES,
            NoPort::AnyHost | NoPort::NoneLeft => Errno::EADDRNOTAVAIL,
            NoPort::SameHost | NoPort::Contended => Errno::EADDRINUSE,
            NoPort::System(errno) => Errno(errno),
        }
    }
}
