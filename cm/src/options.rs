//! SET_OPTION.

use crate::answer::Path;
use crate::command::{PATH_DATA_SIZE, PATH_FLAGS};
use crate::errno::Errno;
use crate::event::EventKind;
use crate::file::File;
use crate::id::{Id, QPT_RC, QPT_XRC_INI, State};
use crate::manager::Manager;

const LEVEL_ID: u32 = 0;
const LEVEL_IB: u32 = 1;

const ID_TOS: u32 = 0;
const ID_REUSEADDR: u32 = 1;
const ID_AFONLY: u32 = 2;
const ID_ACK_TIMEOUT: u32 = 3;
const IB_PATH: u32 = 1;

impl Manager {
    pub(crate) fn set_option(
        &mut self,
        file: File,
        number: u32,
        level: u32,
        name: u32,
        value: &[u8],
    ) -> Result<(), Errno> {
        let id = self.id(file, number)?;
        match (level, name) {
            (LEVEL_ID, ID_TOS) => id.tos = Some(byte(value)?),
            (LEVEL_ID, ID_REUSEADDR) => {
                id.set_reuse(int(value)? != 0)?;
                self.update(number);
            }
            (LEVEL_ID, ID_AFONLY) => {
                id.set_family_only(int(value)? != 0)?;
                self.update(number);
            }
            (LEVEL_ID, ID_ACK_TIMEOUT) => {
                let code = byte(value)?;
                if !matches!(id.qp_type, QPT_RC | QPT_XRC_INI) {
                    return Err(Errno::EINVAL);
                }
                id.ack_timeout = Some(code);
            }
            (LEVEL_IB, IB_PATH) => {
                id.set_path(value)?;
                self.queue_plain(number, EventKind::RouteResolved, 0);
            }
            _ => return Err(Errno::ENOSYS),
        }
        Ok(())
    }
}

fn byte(value: &[u8]) -> Result<u8, Errno> {
    match value {
        [byte] => Ok(*byte),
        _ => Err(Errno::EINVAL),
    }
}

fn int(value: &[u8]) -> Result<i32, Errno> {
    value.try_into().map(i32::from_ne_bytes).map_err(|_| Errno::EINVAL)
}

impl Id {
    fn set_reuse(&mut self, reuse: bool) -> Result<(), Errno> {
        // The kernel takes it in every state but LISTEN, and takes it back in IDLE alone.
        let may = if reuse { self.state != State::Listen } else { self.state == State::Idle };
        if !may {
            return Err(Errno::EINVAL);
        }
        self.reuse = reuse;
        Ok(())
    }

    fn set_family_only(&mut self, only: bool) -> Result<(), Errno> {
        if !matches!(self.state, State::Idle | State::AddrBound) {
            return Err(Errno::EINVAL);
        }
        self.family_only = only;
        self.family_only_set = true;
        Ok(())
    }

    /// A path that the program found itself.
    fn set_path(&mut self, value: &[u8]) -> Result<(), Errno> {
        if !value.len().is_multiple_of(PATH_DATA_SIZE) {
            return Err(Errno::EINVAL);
        }
        let path: [u8; 64] = value
            .chunks_exact(PATH_DATA_SIZE)
            .find(|entry| entry[..4] == PATH_FLAGS.to_ne_bytes())
            .and_then(|entry| entry[8..].try_into().ok())
            .ok_or(Errno::EINVAL)?;
        let device = self.device.ok_or(Errno::EINVAL)?;
        if self.state != State::AddrResolved {
            return Err(Errno::EINVAL);
        }
        let path = Path::unpack(&path);
        // The kernel takes over what the program says, and the layer below from the resolved address.
        self.path = Some(Path { sgid: if path.sgid == [0; 16] { device.gid } else { path.sgid }, ..path });
        self.state = State::RouteResolved;
        Ok(())
    }
}
