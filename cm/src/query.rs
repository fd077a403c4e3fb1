//! QUERY and QUERY_ROUTE.

use crate::address::{Address, IbAddress};
use crate::answer::{Addresses, Answer, Path, Route};
use crate::errno::Errno;
use crate::file::File;
use crate::id::Id;
use crate::manager::Manager;

const ADDRESSES: u32 = 0;
const PATHS: u32 = 1;
const GIDS: u32 = 2;
const IB_SERVICES: u32 = 3;

impl Manager {
    pub(crate) fn query(&mut self, file: File, number: u32, option: u32) -> Result<Answer, Errno> {
        let id = self.id(file, number)?;
        match option {
            ADDRESSES => Ok(Answer::Addresses(id.addresses())),
            PATHS => Ok(Answer::Paths(id.path.into_iter().collect())),
            GIDS => Ok(Answer::Addresses(id.native_addresses())),
            IB_SERVICES => Ok(Answer::IbServices),
            _ => Err(Errno::ENOSYS),
        }
    }

    pub(crate) fn query_route(&mut self, file: File, number: u32) -> Result<Answer, Errno> {
        let id = self.id(file, number)?;
        let (num_paths, path) = match (id.path, id.device) {
            (_, None) => (0, Path::default()),
            (Some(path), _) => (1, path),
            (None, Some(_)) => {
                let gid = |address: &Address| address.gid().unwrap_or([0; 16]);
                let (sgid, dgid) = (gid(&id.source), gid(&id.destination));
                (0, Path { sgid, dgid, pkey: 0xffff, ..Path::default() })
            }
        };
        Ok(Answer::Route(Box::new(Route { addresses: id.addresses(), num_paths, path })))
    }
}

impl Id {
    fn addresses(&self) -> Addresses {
        let (source, destination) = (self.source, self.destination);
        match self.device {
            None => Addresses { source, destination, ..Addresses::default() },
            Some(device) => Addresses {
                node_guid: device.node_guid,
                index: device.index,
                port: device.port,
                // The kernel keeps a partition with native addresses alone: an Ethernet interface has none.
                pkey: if matches!(source, Address::Ib(_)) { 0xffff } else { 0 },
                source,
                destination,
            },
        }
    }

    fn native_addresses(&self) -> Addresses {
        let addresses = self.addresses();
        let native = |address: &Address| match address {
            Address::Ib(_) => *address,
            _ => Address::Ib(IbAddress {
                pkey: addresses.pkey,
                gid: self.device.and(address.gid()).unwrap_or([0; 16]),
                service: self.service(address),
                ..IbAddress::default()
            }),
        };
        Addresses { source: native(&self.source), destination: native(&self.destination), ..addresses }
    }
}
