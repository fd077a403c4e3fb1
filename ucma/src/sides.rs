//! Ids where the program has devices of the kernel besides the software device: which of the two each belongs
//! to.
//!
//! | an id | at the software device | at the kernel |
//! |---|---|---|
//! | that has no address yet | is | is not |
//! | bound to any address | is | is, with the same port |
//! | of an address that is left to the kernel | holds the number | is |
//! | of another address, and all that its connections make | is | is not |
//! | of a request that the kernel took | is not | is |
//!
//! The program knows the first four by the software device's numbers, which begin at [`OWN`], and the last by
//! the kernel's, which are given out lowest first and do not come there.

use std::collections::HashMap;

use ironverbs_cm::File;
use ironverbs_cm::address::Address;
use ironverbs_os::environment;

use crate::kernel::{Kernel, Setting};

/// The first number of an id or join of the software device. librdmacm has places for numbers below 2^16
/// alone, and the kernel, which gives out the lowest that is free on the machine, has the lower half.
pub const OWN: u32 = 1 << 15;

/// Which addresses are left to the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Those that a device of the kernel has.
    Devices,
    /// Those of these interfaces.
    Interfaces(Vec<String>),
}

impl Rule {
    /// What `IRONVERBS_CM_KERNEL` says.
    pub fn from_env() -> Option<Rule> {
        Rule::of(&environment::trusted("IRONVERBS_CM_KERNEL")?.to_string_lossy())
    }

    fn of(text: &str) -> Option<Rule> {
        match text.trim() {
            "" | "0" => None,
            "1" => Some(Rule::Devices),
            names => Some(Rule::Interfaces(names.split(',').map(|name| name.trim().to_owned()).collect())),
        }
    }

    /// Opens the kernel's file. `None` where there is none, and the rule says that devices decide.
    ///
    /// # Errors
    /// Those of [`Kernel::open`].
    pub fn open(&self) -> Result<Option<Kernel>, i32> {
        match Kernel::open() {
            Err(libc::ENOENT | libc::ENXIO | libc::ENODEV) if *self == Rule::Devices => Ok(None),
            other => other.map(Some),
        }
    }
}

/// Where an id is at the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum There {
    /// Nowhere yet.
    Not,
    /// Under this number, bound to any address as here.
    Too(u32),
    /// Under this number, and here it has a number alone.
    Alone(u32),
    /// Being destroyed.
    Dying,
}

/// An id that the program made and that is not the software device's alone.
#[derive(Clone, Debug)]
pub struct Id {
    /// The channel.
    pub file: File,
    /// What events of it carry.
    pub uid: u64,
    /// Port space.
    pub space: u16,
    /// Type of queue pair.
    pub qp_type: u8,
    /// Options set so far, in their order.
    pub settings: Vec<Setting>,
    /// Any address, with the port that it has.
    pub bound: Address,
    /// Where it is at the kernel.
    pub there: There,
    /// How many of its events the kernel delivered and the program does not get.
    pub unseen: u32,
}

/// All such ids of a process.
#[derive(Debug, Default)]
pub struct Sides {
    ids: HashMap<u32, Id>,
    /// The program's numbers by the kernel's.
    own: HashMap<u32, u32>,
}

impl Sides {
    /// The program made an id.
    pub fn made(&mut self, number: u32, id: Id) {
        self.ids.insert(number, id);
    }

    /// An id of this number, where it is not the software device's alone.
    pub fn get(&mut self, number: u32) -> Option<&mut Id> {
        self.ids.get_mut(&number)
    }

    /// Where an id is at the kernel from now on.
    pub fn set(&mut self, number: u32, there: There) {
        let Some(id) = self.ids.get_mut(&number) else { return };
        if let There::Too(before) | There::Alone(before) = std::mem::replace(&mut id.there, there) {
            self.own.remove(&before);
        }
        if let There::Too(kernel) | There::Alone(kernel) = there {
            self.own.insert(kernel, number);
        }
    }

    /// An id is the software device's alone, or gone.
    pub fn forget(&mut self, number: u32) {
        self.set(number, There::Not);
        self.ids.remove(&number);
    }

    /// A channel is closed.
    pub fn close(&mut self, file: File) {
        let gone: Vec<u32> =
            self.ids.iter().filter(|(_, id)| id.file == file).map(|(number, _)| *number).collect();
        for number in gone {
            self.forget(number);
        }
    }

    /// An event of the channel's id with this uid, which the kernel delivered, does not go to the program.
    pub fn unseen(&mut self, file: File, uid: u64) {
        let mut ids = self.ids.values_mut();
        let its = |id: &&mut Id| id.file == file && id.uid == uid && id.there != There::Not;
        if let Some(id) = ids.find(its) {
            id.unseen += 1;
        }
    }

    /// The number by which the program knows an id of the kernel.
    pub fn own(&self, kernel: u32) -> u32 {
        self.own.get(&kernel).copied().unwrap_or(kernel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_is_devices_or_interfaces() {
        assert_eq!(Rule::of(""), None);
        assert_eq!(Rule::of("0"), None);
        assert_eq!(Rule::of("1"), Some(Rule::Devices));
        assert_eq!(Rule::of("v0, v1"), Some(Rule::Interfaces(vec!["v0".into(), "v1".into()])));
    }

    #[test]
    fn numbers_of_the_kernel_lead_back_as_long_as_they_are_ids() {
        let id = Id {
            file: File(1),
            uid: 7,
            space: 0x106,
            qp_type: 2,
            settings: Vec::new(),
            bound: Address::Unspecified,
            there: There::Not,
            unseen: 0,
        };
        let mut sides = Sides::default();
        sides.made(OWN, id.clone());
        sides.made(OWN + 1, Id { file: File(2), ..id });
        assert_eq!(sides.own(3), 3);
        sides.set(OWN, There::Too(3));
        sides.set(OWN + 1, There::Alone(4));
        assert_eq!((sides.own(3), sides.own(4)), (OWN, OWN + 1));
        // Bound anew, and on its way out: the kernel may give the number to another id.
        sides.set(OWN, There::Too(5));
        assert_eq!((sides.own(3), sides.own(5)), (3, OWN));
        sides.set(OWN, There::Dying);
        assert_eq!(sides.own(5), 5);
        sides.close(File(2));
        assert!(sides.get(OWN + 1).is_none() && sides.own(4) == 4 && sides.get(OWN).is_some());
    }
}
