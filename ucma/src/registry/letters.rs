//! The mailbox of a process, and how others find it.

use std::ffi::CString;

use super::namespace::{owner_of_connections, with_connections_name, with_mailbox_name};
use super::{ATTEMPTS, Registry};
use crate::mail::{Letter, Mailbox};
use crate::sys;

/// Whom a letter is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// The process whose connections have numbers with these upper bits.
    Connections(u16),
    /// The process of this number.
    Owner(u64),
}

impl Registry {
    /// Makes this process's mailbox, and upper bits for the numbers of its connections that no other process of
    /// the network namespace has; they are not 0.
    ///
    /// # Errors
    /// EADDRINUSE where all bits that were tried are somebody's; those of the system.
    pub fn open_mailbox(&mut self) -> Result<(u16, Mailbox), i32> {
        let owner = self.owner.number();
        self.remove_mailbox();
        let mailbox = with_mailbox_name(owner, |name| Mailbox::new(&self.folder, name))?;
        let target = CString::new(format!("{owner:016x}")).unwrap_or_default();
        for _ in 0..ATTEMPTS {
            let bits = sys::random() as u16;
            if bits == 0 {
                continue;
            }
            match with_connections_name(bits, |name| self.folder.write_link(&target, name)) {
                Ok(()) => {
                    self.connections = bits;
                    return Ok((bits, mailbox));
                }
                Err(why) if why.errno() == libc::EEXIST => {}
                Err(why) => {
                    self.remove_mailbox();
                    return Err(why.errno());
                }
            }
        }
        self.remove_mailbox();
        Err(libc::EADDRINUSE)
    }

    /// Sends a letter; whether there is somebody who gets it.
    pub fn send(&self, from: &Mailbox, to: To, letter: &Letter) -> bool {
        let owner = match to {
            To::Owner(owner) => Some(owner),
            To::Connections(bits) => owner_of_connections(&self.folder, bits),
        };
        owner.is_some_and(|owner| with_mailbox_name(owner, |name| from.send(&self.folder, name, letter)))
    }

    /// Takes the names of the mailbox out of the folder. Asks for no memory.
    pub(super) fn remove_mailbox(&self) {
        if self.connections != 0 {
            let _ = with_connections_name(self.connections, |name| self.folder.remove(name));
        }
        let _ = with_mailbox_name(self.owner.number(), |name| self.folder.remove(name));
    }
}
