//! RESOLVE_ADDR and RESOLVE_ROUTE: how a destination is reached.

use std::time::Duration;

use crate::address::{Address, IbAddress, PortSpace};
use crate::answer::Path;
use crate::errno::Errno;
use crate::event::EventKind;
use crate::file::File;
use crate::id::{Id, State, Wait};
use crate::manager::Manager;
use crate::world::{Device, NoDevice, NoRoute, Route, World};

/// 4.096 us << this is the life time of a packet on RoCE, unless the program set the acknowledgement timeout.
const PACKET_LIFE_TIME: u8 = 18;
/// Selectors of path records: exactly.
const EXACTLY: u8 = 2;

impl Manager {
    pub(crate) fn resolve_addr(
        &mut self,
        file: File,
        number: u32,
        source: Option<Address>,
        destination: Address,
        timeout_ms: u32,
        world: &mut dyn World,
    ) -> Result<(), Errno> {
        if source == Some(Address::Unspecified) || destination == Address::Unspecified {
            return Err(Errno::EINVAL);
        }
        let id = self.id(file, number)?;
        if id.state == State::AddrBound {
            // Also what is refused below, as on Linux.
            id.destination = destination;
        } else {
            let family = destination.family().ok_or(Errno::EINVAL)?;
            let mut any = Address::zero(family).with_scope(destination.scope());
            if let (Address::Ib(any), Address::Ib(to)) = (&mut any, &destination) {
                any.pkey = to.pkey;
            }
            self.bind_id(number, source.unwrap_or(any), destination, world)?;
        }
        let id = self.id(file, number)?;
        if id.source.family() != destination.family() {
            return Err(Errno::EINVAL);
        }
        let from = Some(id.source).filter(|a| !a.is_any());
        match world.route(from.as_ref(), &destination) {
            Ok(route) => {
                let failed = id.take_route(&route).err();
                self.update(number);
                match failed {
                    None => self.queue_plain(number, EventKind::AddrResolved, 0),
                    Some(errno) => self.resolve_failed(number, errno),
                }
            }
            // The id stays bound.
            Err(why @ NoRoute::Table(_)) => return Err(why.into()),
            Err(NoRoute::NoNeighbour) => {
                id.state = State::AddrQuery;
                let end = self.now + Duration::from_millis(timeout_ms.into());
                self.set_alarm(number, Some((end, Wait::Neighbour)));
            }
            Err(why @ NoRoute::NoHost) => self.resolve_failed(number, why.into()),
        }
        Ok(())
    }

    pub(crate) fn resolve_failed(&mut self, number: u32, errno: Errno) {
        if let Some(id) = self.ids.get_mut(&number) {
            id.state = State::AddrBound;
        }
        self.queue_plain(number, EventKind::AddrError, errno.status());
    }

    pub(crate) fn resolve_route(&mut self, file: File, number: u32, timeout_ms: u32) -> Result<(), Errno> {
        let (id, device) = self.id_with_device(file, number)?;
        if timeout_ms == 0 || id.state != State::AddrResolved {
            return Err(Errno::EINVAL);
        }
        if id.space == PortSpace::Ipoib {
            return Err(Errno::ENODEV);
        }
        id.path = Some(id.own_path(&device));
        id.state = State::RouteResolved;
        self.queue_plain(number, EventKind::RouteResolved, 0);
        Ok(())
    }
}

impl Id {
    fn take_route(&mut self, route: &Route) -> Result<(), Errno> {
        if self.device.is_none() {
            // To the host itself the kernel takes a device without a look at the address.
            if self.space == PortSpace::Ipoib && !self.destination.is_any() {
                return Err(Errno::EINVAL);
            }
            self.device = Some(route.device.ok_or(NoDevice::NoneHasIt)?);
        }
        // What the program bound it to stays, also on the way to the host itself.
        if self.source.is_any() {
            self.source = match (self.source, route.source) {
                // A native address keeps its service id.
                (Address::Ib(own), Address::Ib(found)) => Address::Ib(IbAddress { gid: found.gid, ..own }),
                (own, found) => found.with_port(own.port()),
            };
        }
        if route.scope != 0 {
            self.destination = self.destination.with_scope(route.scope);
        }
        self.dgid = match self.device {
            Some(device) if self.destination.is_any() => device.gid,
            _ => route.dgid,
        };
        self.hop_limit = route.hop_limit;
        self.state = State::AddrResolved;
        Ok(())
    }

    /// The path that RoCE has without asking anybody.
    fn own_path(&self, device: &Device) -> Path {
        let flow = match &self.destination {
            Address::V6(a) => a.flowinfo() & 0xf_ffff,
            _ => 0,
        };
        let ports = u32::from(self.source.port()) * 31 + u32::from(self.destination.port());
        Path {
            // The service is the request's: the kernel's path of RoCE has none.
            service: 0,
            dgid: self.dgid,
            sgid: device.gid,
            flow_label: if flow != 0 { flow } else { ports & 0xf_ffff },
            hop_limit: self.hop_limit,
            traffic_class: self.tos.unwrap_or(0),
            reversible: true,
            pkey: 0xffff,
            mtu_selector: EXACTLY,
            mtu: device.mtu,
            rate_selector: EXACTLY,
            packet_life_time_selector: EXACTLY,
            packet_life_time: match self.ack_timeout {
                Some(code) if code != 0 => code - 1,
                _ => PACKET_LIFE_TIME,
            },
            ..Path::default()
        }
    }
}
