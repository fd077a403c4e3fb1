//! Which CA and port is meant where a program leaves it open.

use core::ffi::{CStr, c_int};

use ironverbs_os::errno::{Errno, Result};

use super::adapter::Ca;
use super::{list, port};
use crate::abi::umad::umad_port;
use crate::debug::trace;

/// The name that is used where no CA has a port to use.
pub const DEFAULT_NAME: &CStr = c"mthca0";
/// The port likewise.
const DEFAULT_PORT: c_int = 1;

const SWITCH: u32 = 2;
const ACTIVE: u32 = 4;
const DISABLED: u32 = 3;
const LINK_UP: u32 = 5;

/// Bytes of a folder entry's name with its NUL.
const ENTRY: usize = 256;

/// The name of a CA: the program's, or one that was found.
#[allow(clippy::large_enum_variant)] // Few live at a time, all on the stack.
pub enum Name<'a> {
    /// The program's.
    Given(&'a CStr),
    /// Found in the folder.
    Found([u8; ENTRY]),
}

impl Name<'_> {
    fn found(name: &CStr) -> Self {
        let mut entry = [0; ENTRY];
        let length = name.to_bytes().len().min(ENTRY - 1);
        entry[..length].copy_from_slice(&name.to_bytes()[..length]);
        Self::Found(entry)
    }

    /// The name itself.
    #[must_use]
    pub fn as_c_str(&self) -> &CStr {
        match self {
            Self::Given(name) => name,
            Self::Found(entry) => CStr::from_bytes_until_nul(entry).unwrap_or_default(),
        }
    }
}

/// A CA and a port to use.
pub struct Choice<'a> {
    /// Name of the CA.
    pub name: Name<'a>,
    /// Number of the port.
    pub portnum: c_int,
    /// The CA, where it had to be read to choose.
    pub ca: Option<Ca>,
}

/// How good a port is.
#[derive(PartialEq)]
enum Grade {
    Usable,
    Active,
}

/// Reads a CA, and says so.
pub fn read_ca(name: &CStr) -> Result<Ca> {
    trace!("umad_get_ca", "ca_name %s", name.as_ptr());
    let ca = Ca::read(name)?;
    trace!("umad_get_ca", "opened %s", name.as_ptr());
    Ok(ca)
}

/// The CA `ca_in`, or by default the first one with an active port, or else with one that may become so; and
/// port `portnum` of it, or if that is 0 by default likewise. `smi_only` leaves out ports that take no subnet
/// management datagrams. ENODEV where there is no such port, not in `errno`.
///
/// What is given is not looked at: a program may name what does not exist.
pub fn choose(ca_in: Option<&CStr>, portnum: c_int, smi_only: bool) -> Result<Choice<'_>> {
    match ca_in {
        Some(name) if portnum != 0 => Ok(Choice { name: Name::Given(name), portnum, ca: None }),
        Some(name) => {
            let mut portnum = portnum;
            let (_, ca) = choose_port(name, &mut portnum, smi_only).ok_or(Errno::ENODEV)?;
            Ok(Choice { name: Name::Given(name), portnum, ca: Some(ca) })
        }
        None => choose_ca(portnum, Some(DEFAULT_PORT), smi_only),
    }
}

/// The CA alone, as [`choose`] would choose it with its port.
pub fn choose_ca_only(ca_in: Option<&CStr>) -> Result<Choice<'_>> {
    match ca_in {
        Some(name) => Ok(Choice { name: Name::Given(name), portnum: 0, ca: None }),
        None => choose_ca(0, None, false),
    }
}

fn choose_ca<'a>(wanted: c_int, default_port: Option<c_int>, smi_only: bool) -> Result<Choice<'a>> {
    let names = list::in_folders_order().map_err(|_| Errno::ENODEV)?;
    if names.is_empty() {
        return Err(Errno::ENODEV);
    }
    let mut usable: Option<(&CStr, c_int, Ca)> = None;
    for name in names.iter() {
        trace!("resolve_ca_name", "checking ca '%s'", name.as_ptr());
        let mut portnum = wanted;
        let Some((grade, ca)) = choose_port(name, &mut portnum, smi_only) else { continue };
        let active = grade == Grade::Active;
        trace!(
            "resolve_ca_name",
            "found ca %s with port %d type %d",
            name.as_ptr(),
            portnum,
            c_int::from(active),
        );
        if active {
            trace!("resolve_ca_name", "found ca %s with active port %d", name.as_ptr(), portnum);
            return Ok(Choice { name: Name::found(name), portnum, ca: Some(ca) });
        }
        usable.get_or_insert((name, portnum, ca));
    }
    trace!(
        "resolve_ca_name",
        "phys found on %s port %d",
        usable.as_ref().map_or(core::ptr::null(), |(name, ..)| name.as_ptr()),
        usable.as_ref().map_or(0, |(_, portnum, _)| *portnum),
    );
    if let Some((name, portnum, ca)) = usable {
        trace!("resolve_ca_name", "phys found on %s port %d", name.as_ptr(), portnum);
        return Ok(Choice { name: Name::found(name), portnum, ca: Some(ca) });
    }
    Ok(Choice { name: Name::Given(DEFAULT_NAME), portnum: default_port.unwrap_or(0), ca: None })
}

/// Whether `portnum` of the CA can be used, or if that is 0 which port can.
fn choose_port(name: &CStr, portnum: &mut c_int, smi_only: bool) -> Option<(Grade, Ca)> {
    trace!("resolve_ca_port", "checking ca '%s'", name.as_ptr());
    let ca = read_ca(name).ok()?;
    if ca.node_type() == SWITCH {
        *portnum = 0;
        return Some((Grade::Active, ca));
    }
    let may_be = |port: &umad_port| !(smi_only && port::is_smi_disabled(port));
    if *portnum > 0 {
        let port = ca.port(*portnum).filter(|port| port::is_infiniband(port) && may_be(port))?;
        return if port.state == ACTIVE {
            Some((Grade::Active, ca))
        } else if port.phys_state != DISABLED {
            Some((Grade::Usable, ca))
        } else {
            None
        };
    }

    let mut up = false;
    for number in 0..=ca.numports() {
        trace!("resolve_ca_port", "checking port %d", number);
        let Some(port) = ca.port(number).filter(|port| port::is_infiniband(port) && may_be(port)) else {
            continue;
        };
        if !up && port.phys_state == LINK_UP {
            up = true;
            *portnum = number;
        }
        if port.state == ACTIVE {
            *portnum = number;
            trace!("resolve_ca_port", "found active port %d", number);
            return Some((Grade::Active, ca));
        }
    }
    if !up {
        for number in 0..=ca.numports() {
            trace!("resolve_ca_port", "checking port %d", number);
            let Some(port) = ca.port(number).filter(|port| may_be(port)) else { continue };
            if port.phys_state != DISABLED {
                up = true;
                *portnum = number;
                break;
            }
        }
    }
    up.then_some((Grade::Usable, ca))
}
