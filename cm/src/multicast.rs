//! Joins of multicast groups.

use crate::address::{Address, Gid};
use crate::errno::Errno;
use crate::event::{AhAttr, Event, EventKind, Param, UdParam};
use crate::file::File;
use crate::id::{Id, State};
use crate::manager::{Join, Manager, Unread};

/// Flags of [`crate::Command::JoinMulticast`].
const FULL_MEMBER: u16 = 0;
const SEND_ONLY: u16 = 1;

/// Queue pair number of all groups.
const GROUP_QPN: u32 = 0xff_ffff;
const GROUP_HOP_LIMIT: u8 = 64;

impl Manager {
    pub(crate) fn join(
        &mut self,
        file: File,
        number: u32,
        uid: u64,
        address: Address,
        flags: u16,
    ) -> Result<u32, Errno> {
        if address == Address::Unspecified || !matches!(flags, FULL_MEMBER | SEND_ONLY) {
            return Err(Errno::EINVAL);
        }
        let (id, _) = self.id_with_device(file, number)?;
        let dgid = id.group(&address)?;
        id.set_default_qkey();
        let qkey = id.qkey;
        let (uid_set, device) = (id.uid != 0, id.device.unwrap_or_default());
        let join = self.join_numbers.take();
        self.joins.insert(join, Join { owner: number, events_reported: 0 });
        self.id(file, number)?.joins.push(join);
        let ah = AhAttr {
            dgid,
            sgid_index: device.sgid_index,
            hop_limit: GROUP_HOP_LIMIT,
            is_global: 1,
            port: device.port,
            ..AhAttr::default()
        };
        let param = Param::Ud(Box::new(UdParam { qp_num: GROUP_QPN, qkey, ah, ..UdParam::default() }));
        let kind = EventKind::MulticastJoin;
        let event = Event { uid, id: join, kind, status: 0, param, ece: Default::default() };
        if uid_set {
            self.push(file, Unread { owner: number, join: Some(join), request: None, event });
        }
        Ok(join)
    }

    pub(crate) fn leave(&mut self, file: File, join: u32) -> Result<u32, Errno> {
        let owner = self.joins.get(&join).ok_or(Errno::ENOENT)?.owner;
        let id = self.ids.get_mut(&owner).ok_or(Errno::ENOENT)?;
        if id.file != file {
            return Err(Errno::EINVAL);
        }
        id.joins.retain(|j| *j != join);
        let reported = self.joins.remove(&join).map_or(0, |j| j.events_reported);
        if let Some(channel) = self.files.get_mut(&file) {
            channel.unread.retain(|u| u.join != Some(join));
        }
        self.join_numbers.give_back(join);
        Ok(reported)
    }
}

impl Id {
    /// The GID of a group, for an id that may join one.
    fn group(&self, address: &Address) -> Result<Gid, Errno> {
        let may = self.is_ud() && matches!(self.state, State::AddrBound | State::AddrResolved);
        if !may || address.is_zero() {
            return Err(Errno::EINVAL);
        }
        match address {
            Address::V4(_) => address.gid().ok_or(Errno::EINVAL),
            _ => Err(Errno::ENOTSUPP),
        }
    }
}
