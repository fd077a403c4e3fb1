//! WRITE_CM_EVENT, and RESOLVE_IB_SERVICE, which no RoCE device can do.

use crate::errno::Errno;
use crate::event::{EventKind, Param};
use crate::file::File;
use crate::id::State;
use crate::manager::{Manager, Unread};

impl Manager {
    pub(crate) fn write_event(
        &mut self,
        file: File,
        number: u32,
        event: u32,
        status: i32,
        argument: u64,
    ) -> Result<(), Errno> {
        let kind = match event {
            18 => EventKind::User,
            19 => EventKind::Internal,
            _ => return Err(Errno::EINVAL),
        };
        let mut event = self.id(file, number)?.event(kind, status);
        event.param = Param::Argument([argument as u32, (argument >> 32) as u32]);
        // The program itself says it: also where the id has no uid.
        self.push(file, Unread { owner: number, join: None, request: None, event });
        Ok(())
    }

    pub(crate) fn resolve_ib_service(&mut self, file: File, number: u32) -> Result<(), Errno> {
        let id = self.id(file, number)?;
        if id.device.is_none() || id.state != State::AddrBound {
            return Err(Errno::EINVAL);
        }
        Err(Errno::EOPNOTSUPP)
    }
}
