//! BIND: an id gets its own address, and a port.

use crate::address::{Address, PortSpace};
use crate::errno::Errno;
use crate::file::File;
use crate::id::State;
use crate::manager::Manager;
use crate::world::{Action, World};

/// The part of a service id that names the port space.
const SERVICE_SPACE: u64 = 0xffff_ffff_ffff_0000;

impl Manager {
    pub(crate) fn bind(
        &mut self,
        file: File,
        number: u32,
        address: Address,
        world: &mut dyn World,
    ) -> Result<(), Errno> {
        if address == Address::Unspecified {
            return Err(Errno::EINVAL);
        }
        self.id(file, number)?;
        self.bind_id(number, address, Address::Unspecified, world)
    }

    /// Binds an id of state IDLE. `destination` is what it is bound for, where that is known.
    pub(crate) fn bind_id(
        &mut self,
        number: u32,
        address: Address,
        destination: Address,
        world: &mut dyn World,
    ) -> Result<(), Errno> {
        let id = self.ids.get_mut(&number).ok_or(Errno::ENOENT)?;
        if id.state != State::Idle {
            return Err(Errno::EINVAL);
        }
        let family = address.family().ok_or(Errno::EAFNOSUPPORT)?;
        if let Address::V6(a) = &address
            && a.ip().is_unicast_link_local()
            && a.scope_id() == 0
        {
            return Err(Errno::EINVAL);
        }
        // What is refused below leaves the id with the addresses that were tried, as on Linux.
        id.source = address;
        let mut device = None;
        if !address.is_any() {
            device = Some(world.device_of(&address)?);
            if id.space == PortSpace::Ipoib {
                return Err(Errno::EINVAL);
            }
        }
        id.destination = Address::zero(family);
        if let Address::Ib(a) = &mut id.destination {
            a.pkey = 0;
        }
        if destination.family() == Some(family) {
            id.destination = destination;
        }
        let (space, source) = port_space(id.space, address)?;
        id.source = source;
        let family_only = if id.family_only_set { id.family_only } else { world.family_only(family) };
        let mut wanted = id.binding(space);
        wanted.source = source;
        wanted.destination = destination;
        wanted.family_only = family_only;
        let port = world.reserve(number, &wanted)?;
        id.source = match source {
            Address::Ib(mut a) => {
                a.service = a.service & a.mask & !0xffff | u64::from(port);
                a.mask = u64::MAX;
                Address::Ib(a)
            }
            other => other.with_port(port),
        };
        id.device = device;
        id.family_only = family_only;
        id.reserved = Some(space);
        id.state = State::AddrBound;
        Ok(())
    }

    /// Says what an id's reservation, if it has one, is now.
    pub(crate) fn update(&mut self, number: u32) {
        let Some(id) = self.ids.get(&number) else { return };
        if let Some(space) = id.reserved {
            let binding = id.binding(space);
            self.act(Action::Update { id: number, binding });
        }
    }
}

/// The port space in which an address gets its port, and the address with its service id completed.
fn port_space(space: PortSpace, address: Address) -> Result<(PortSpace, Address), Errno> {
    let Address::Ib(mut a) = address else { return Ok((space, address)) };
    let mask = a.mask & SERVICE_SPACE;
    let service = a.service & mask;
    let fits = |s: PortSpace| service == u64::from(s as u16) << 16 & mask;
    let of_ib = space == PortSpace::Ib;
    let chosen = if of_ib && fits(PortSpace::Ib) {
        PortSpace::Ib
    } else if (of_ib || space == PortSpace::Tcp) && fits(PortSpace::Tcp) {
        PortSpace::Tcp
    } else if (of_ib || space == PortSpace::Udp) && fits(PortSpace::Udp) {
        PortSpace::Udp
    } else {
        return Err(Errno::EPROTONOSUPPORT);
    };
    a.service = u64::from(chosen as u16) << 16 | u64::from(address.port());
    a.mask |= SERVICE_SPACE;
    Ok((chosen, Address::Ib(a)))
}
