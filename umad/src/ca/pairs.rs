//! CAs that serve one port together: one for subnet management, one for general services. Devices of several
//! planes have such pairs; every other CA is both.

use core::ffi::{CStr, c_int};

use ironverbs_os::errno::{Errno, Result};

use super::adapter::Ca;
use super::{bytes_of, choice, list, port, text_of};
use crate::abi::umad::{UMAD_CA_NAME_LEN, UMAD_MAX_DEVICES, UMAD_MAX_PORTS, umad_ca_pair, umad_port};
use crate::debug::trace;

/// A pair of no CAs.
pub const NONE: umad_ca_pair = umad_ca_pair {
    smi_name: [0; UMAD_CA_NAME_LEN],
    smi_preferred_port: 0,
    gsi_name: [0; UMAD_CA_NAME_LEN],
    gsi_preferred_port: 0,
};

/// Port state from which on a port counts as active here.
const INITIALIZED: u32 = 2;
const SWITCH: u32 = 2;

/// A table of port GUIDs, in network byte order, with a value each.
struct ByGuid<T> {
    entries: [(u64, T); UMAD_MAX_PORTS],
    used: usize,
}

impl<T: Copy> ByGuid<T> {
    fn new(nothing: T) -> Self {
        Self { entries: [(0, nothing); UMAD_MAX_PORTS], used: 0 }
    }

    fn get(&self, guid: u64) -> Option<T> {
        self.entries[..self.used].iter().find(|(known, _)| *known == guid).map(|(_, value)| *value)
    }

    /// The value of the GUID, put there if it is new; None where the table is full.
    fn entry(&mut self, guid: u64, new: T) -> Option<&mut T> {
        let place = self.entries[..self.used].iter().position(|(known, _)| *known == guid);
        let place = match place {
            Some(place) => place,
            None => {
                *self.entries.get_mut(self.used)? = (guid, new);
                self.used += 1;
                self.used - 1
            }
        };
        self.entries.get_mut(place).map(|(_, value)| value)
    }
}

type Named = ([u8; UMAD_CA_NAME_LEN], Option<Ca>);

fn name_of(named: &Named) -> &CStr {
    CStr::from_bytes_until_nul(&named.0).unwrap_or_default()
}

/// All CAs, each read once; those that cannot be read have only a name.
fn read_all() -> Result<Vec<Named>> {
    let mut all: Vec<Named> = Vec::new();
    all.try_reserve(UMAD_MAX_DEVICES).map_err(|_| Errno::ENOMEM)?;
    let mut add = |name: &CStr| {
        let mut field = [0; UMAD_CA_NAME_LEN];
        let length = name.to_bytes().len().min(UMAD_CA_NAME_LEN - 1);
        field[..length].copy_from_slice(&name.to_bytes()[..length]);
        all.push((field, None));
    };
    trace!("umad_get_cas_names", "max %d", UMAD_MAX_DEVICES as c_int);
    match list::sorted(UMAD_MAX_DEVICES, &mut add) {
        Some(count) => trace!("umad_get_cas_names", "return %d cas", count as c_int),
        None => {
            add(choice::DEFAULT_NAME);
            trace!("umad_get_cas_names", "return 1 ca");
        }
    }
    for named in &mut all {
        named.1 = choice::read_ca(name_of(named)).ok();
    }
    Ok(all)
}

/// Writes the pairs; how many they are. An error where the ports are more than the tables hold.
pub fn find(pairs: &mut [umad_ca_pair]) -> Result<usize> {
    let all = read_all()?;
    pairs.fill(NONE);
    let mut counts = ByGuid::new(0u8);
    for (_, port) in all.iter().filter_map(|named| named.1.as_ref()).flat_map(Ca::ports) {
        if counts_for_pairs(port)
            && let Some(count) = counts.entry(port.port_guid, 0)
        {
            *count = count.wrapping_add(1);
        }
    }

    let mut places = ByGuid::new(0usize);
    for named in &all {
        let name = name_of(named);
        trace!("umad_get_ca", "ca_name %s", name.as_ptr());
        let Some(ca) = &named.1 else { continue };
        trace!("umad_get_ca", "opened %s", name.as_ptr());
        for (_, port) in ca.ports().filter(|(_, port)| counts_for_pairs(port)) {
            let count = counts.get(port.port_guid).unwrap_or(0);
            let next = places.used;
            if places.get(port.port_guid).is_none() && next >= pairs.len() {
                continue;
            }
            let Some(place) = places.entry(port.port_guid, next) else { continue };
            let Some(pair) = pairs.get_mut(*place) else { continue };
            take_port(pair, ca, port, count)?;
            break;
        }
    }
    Ok(places.used)
}

fn counts_for_pairs(port: &umad_port) -> bool {
    port.port_guid != 0 && port::is_infiniband(port)
}

fn take_port(pair: &mut umad_ca_pair, ca: &Ca, port: &umad_port, count: u8) -> Result<()> {
    let set = |field: &mut [core::ffi::c_char; UMAD_CA_NAME_LEN]| {
        let field = bytes_of(field);
        field.fill(0);
        field[..ca.name().len()].copy_from_slice(ca.name());
    };
    let disabled = port::is_smi_disabled(port);
    match count {
        0 => return Err(Errno(1)),
        1 => {
            if !disabled {
                set(&mut pair.smi_name);
            }
            set(&mut pair.gsi_name);
        }
        _ if disabled => set(&mut pair.gsi_name),
        _ => set(&mut pair.smi_name),
    }
    Ok(())
}

/// Which half of a pair.
#[derive(Clone, Copy, PartialEq)]
enum Half {
    Smi,
    Gsi,
}

impl Half {
    fn other(self) -> Self {
        match self {
            Self::Smi => Self::Gsi,
            Self::Gsi => Self::Smi,
        }
    }

    fn port(self, pair: &mut umad_ca_pair) -> &mut u32 {
        match self {
            Self::Smi => &mut pair.smi_preferred_port,
            Self::Gsi => &mut pair.gsi_preferred_port,
        }
    }
}

/// The pair of the CA `name`, or of any, with ports to use; None where no pair has them, Some of nothing where
/// there is no pair at all. `pair` is then the last one that was looked at.
pub fn find_one(
    name: Option<&CStr>,
    portnum: u8,
    smi_wanted: bool,
    pair: &mut umad_ca_pair,
) -> Result<Option<()>> {
    *pair = NONE;
    let mut pairs: Vec<umad_ca_pair> = Vec::new();
    pairs.try_reserve_exact(UMAD_MAX_PORTS).map_err(|_| Errno(1))?;
    pairs.resize(UMAD_MAX_PORTS, NONE);
    let count = find(&mut pairs).map_err(|_| Errno(1))?;
    if count == 0 {
        return Ok(None);
    }
    for candidate in &pairs[..count] {
        let (smi, gsi) = (text_of(&candidate.smi_name), text_of(&candidate.gsi_name));
        let is_named = |half: &[u8]| name.is_some_and(|name| name.to_bytes() == half);
        if (smi_wanted && smi.is_empty())
            || gsi.is_empty()
            || (name.is_some() && !is_named(smi) && !is_named(gsi))
        {
            continue;
        }
        let gsi_meant = (!smi_wanted && smi.is_empty()) || is_named(gsi);
        let (half, ca_name) =
            if gsi_meant { (Half::Gsi, &candidate.gsi_name) } else { (Half::Smi, &candidate.smi_name) };
        let mut text = [0; UMAD_CA_NAME_LEN + 1];
        text[..text_of(ca_name).len()].copy_from_slice(text_of(ca_name));
        let Ok(ca) = choice::read_ca(CStr::from_bytes_until_nul(&text).unwrap_or_default()) else { continue };
        if portnum != 0 && ca.port(portnum.into()).is_none() {
            continue;
        }
        *pair = *candidate;
        if prefer_ports(pair, &ca, half, portnum.into(), name.is_some()) {
            return Ok(Some(()));
        }
    }
    Err(Errno::ENODEV.also_set())
}

fn is_active(ca: &Ca, portnum: c_int) -> bool {
    // Signed, as rdma-core compares it.
    ca.port(portnum).is_some_and(|port| port.state as c_int >= INITIALIZED as c_int)
}

fn prefer_active(pair: &mut umad_ca_pair, ca: &Ca, half: Half) -> bool {
    let found = (0..=ca.numports()).find(|number| is_active(ca, *number)).and_then(|number| ca.port(number));
    if let Some(port) = found {
        *half.port(pair) = port.portnum as u32;
    }
    found.is_some()
}

/// Sets the ports of both halves, `portnum` for `half` unless it is 0 and the CA has several; whether they are
/// what the program can use.
fn prefer_ports(pair: &mut umad_ca_pair, ca: &Ca, half: Half, mut portnum: c_int, named: bool) -> bool {
    if ca.numports() == 1
        && let Some((_, port)) = ca.ports().next()
    {
        portnum = port.portnum;
    }
    if portnum == 0 && ca.node_type() != SWITCH {
        let smi = prefer_active(pair, ca, Half::Smi);
        return prefer_active(pair, ca, Half::Gsi) && smi;
    }
    // What a program asks for by name and number need not be active.
    if !named && !is_active(ca, portnum) {
        return false;
    }
    *half.port(pair) = portnum as u32;
    if text_of(&pair.gsi_name) == text_of(&pair.smi_name) {
        *half.other().port(pair) = portnum as u32;
        return true;
    }
    prefer_active(pair, ca, half.other()) || named
}
