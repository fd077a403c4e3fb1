//! Ports: who may have which, by the kernel's rules.
//!
//! A port is reserved per network namespace and port space. These are pure functions over the list of
//! reservations of a namespace, which the caller keeps:
//!
//! | when | call |
//! |---|---|
//! | a port is wanted (`port` 0: any) | [`choose`] |
//! | an id begins to listen | [`may_listen`] |
//!
//! # The rules
//!
//! - A given port conflicts with a reservation of the same port space and port unless both have `reuse`, or
//!   both are for their family alone and the families differ, or both name different specific hosts.
//!   [`NoPort::AnyHost`] where one of them is for any host (a loopback address counts as any), else
//!   [`NoPort::SameHost`].
//! - Any port: from the range, beginning at a random one. One that is reserved serves where each reservation of
//!   it differs in the destination's port, or in a specific host of source or destination.
//! - A listener conflicts as if it had no `reuse`, which is looked at only where it has: whoever takes the
//!   option back before listening may share a port, and who came first gets the requests.

use crate::address::{Address, PortSpace};

/// A port that is wanted or reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// Port space.
    pub space: PortSpace,
    /// Own address with the port; port 0 in a request for any.
    pub source: Address,
    /// The destination, where one is known; [`Address::Unspecified`] otherwise.
    pub destination: Address,
    /// REUSEADDR.
    pub reuse: bool,
    /// AFONLY: addresses of other families are no conflict.
    pub family_only: bool,
}

/// Why an id gets no port, or may not listen at the one that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPort {
    /// A port below 1024, without the right to it.
    Privileged,
    /// Another id has the port, and one of the two is for any host.
    AnyHost,
    /// Another id has the port at the same host.
    SameHost,
    /// Others take and leave the port all the time that it is asked for.
    Contended,
    /// Every port of the range is taken.
    NoneLeft,
    /// What the system failed with: an errno.
    System(i32),
}

impl From<i32> for NoPort {
    fn from(errno: i32) -> NoPort {
        NoPort::System(errno)
    }
}

impl Binding {
    fn conflict(&self, other: &Binding, reuse: bool) -> Option<NoPort> {
        if reuse && other.reuse {
            return None;
        }
        let (a, b) = (&self.source, &other.source);
        if self.family_only && other.family_only && a.family() != b.family() {
            return None;
        }
        if a.is_any() || b.is_any() {
            return Some(NoPort::AnyHost);
        }
        a.same_host(b).then_some(NoPort::SameHost)
    }

    fn shares_port(&self, other: &Binding) -> bool {
        self.space == other.space && self.source.port() == other.source.port()
    }

    /// Whether connections of both can be told apart.
    fn distinct(&self, other: &Binding) -> bool {
        let (to, others) = (&self.destination, &other.destination);
        let ports = (to.port(), others.port());
        let differ = |a: &Address, b: &Address| !a.is_any() && !b.is_any() && !a.same_host(b);
        (ports.0 != 0 && ports.1 != 0 && ports.0 != ports.1)
            || differ(&self.source, &other.source)
            || differ(to, others)
    }
}

/// The port that `wanted` gets beside `reserved` (the reservations of all other ids of the namespace, newest
/// first: which one is answered where there are several conflicts).
///
/// `range` is /proc/sys/net/ipv4/ip_local_port_range, both ends belong to it. `low` tells whether ports below
/// 1024 may be taken (CAP_NET_BIND_SERVICE). `random` is any number.
///
/// # Errors
///
/// [`NoPort`], as above; never `Contended` or `System`.
///
/// # Examples
///
/// ```
/// use ironverbs_cm::address::{Address, PortSpace};
/// use ironverbs_cm::ports::{Binding, NoPort, choose};
///
/// let to = |port| Binding {
///     space: PortSpace::Tcp,
///     source: Address::ip([10, 0, 0, 1].into(), port),
///     destination: Address::Unspecified,
///     reuse: false,
///     family_only: false,
/// };
/// let reserved = [to(7471)];
/// assert_eq!(choose(&to(7472), reserved.iter(), (32768, 60999), false, 0), Ok(7472));
/// assert_eq!(choose(&to(7471), reserved.iter(), (32768, 60999), false, 0), Err(NoPort::SameHost));
/// assert_eq!(choose(&to(0), reserved.iter(), (32768, 60999), false, 5), Ok(32773));
/// ```
pub fn choose<'a, I>(
    wanted: &Binding,
    reserved: I,
    range: (u16, u16),
    low: bool,
    random: u32,
) -> Result<u16, NoPort>
where
    I: Iterator<Item = &'a Binding> + Clone,
{
    let port = wanted.source.port();
    if port != 0 {
        if port < 1024 && !low {
            return Err(NoPort::Privileged);
        }
        let mut sharing = reserved.filter(|r| wanted.shares_port(r));
        return sharing.find_map(|r| wanted.conflict(r, wanted.reuse)).map_or(Ok(port), Err);
    }
    let (first, last) = (range.0.min(range.1).max(1), range.1.max(range.0).max(1));
    let count = u32::from(last - first) + 1;
    let start = random % count;
    (0..count)
        .map(|i| first + ((start + i) % count) as u16)
        .find(|&port| {
            let one = Binding { source: wanted.source.with_port(port), ..*wanted };
            reserved.clone().filter(|r| one.shares_port(r)).all(|r| one.distinct(r))
        })
        .ok_or(NoPort::NoneLeft)
}

/// Whether `bound`, an id's reservation, may listen beside `reserved` (those of all other ids of the namespace,
/// newest first).
///
/// # Errors
///
/// [`NoPort::AnyHost`], [`NoPort::SameHost`].
pub fn may_listen<'a>(
    bound: &Binding,
    mut reserved: impl Iterator<Item = &'a Binding>,
) -> Result<(), NoPort> {
    if !bound.reuse {
        return Ok(());
    }
    let conflict = reserved.find_map(|r| bound.shares_port(r).then(|| bound.conflict(r, false)).flatten());
    conflict.map_or(Ok(()), Err)
}
