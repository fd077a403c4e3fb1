//! Flow actions: what a device does with the packets of a flow, here the cryptography of IPsec ESP.

use super::command::{Command, Prepared};
use super::destroy;
use super::device_file::DeviceFile;
use crate::abi::uapi::ib_user_ioctl_cmds::*;
use crate::errno::Result;

/// The parts of an ESP action that are given, as the bytes of the kernel's structures.
#[derive(Clone, Copy, Default)]
pub struct Esp<'a> {
    /// Upper half of the extended sequence number.
    pub esn: Option<&'a [u8]>,
    /// `IB_UVERBS_FLOW_ACTION_ESP_KEYMAT_*` and the key material.
    pub keymat: Option<(u8, &'a [u8])>,
    /// `IB_UVERBS_FLOW_ACTION_ESP_REPLAY_*` and the parameters.
    pub replay: Option<(u8, &'a [u8])>,
    /// First header of the encapsulation.
    pub encap: Option<&'a [u8]>,
    /// Security association.
    pub attrs: Option<&'a [u8]>,
}

impl<'a> Esp<'a> {
    fn put<const N: usize>(&self, cmd: &mut Command<'a, N>) {
        if let Some(esn) = self.esn {
            let _ = cmd.bytes(UVERBS_ATTR_FLOW_ACTION_ESP_ESN, esn);
        }
        if let Some((protocol, keymat)) = self.keymat {
            cmd.choice(UVERBS_ATTR_FLOW_ACTION_ESP_KEYMAT, protocol, keymat);
        }
        if let Some((protocol, replay)) = self.replay {
            cmd.choice(UVERBS_ATTR_FLOW_ACTION_ESP_REPLAY, protocol, replay);
        }
        if let Some(encap) = self.encap {
            let _ = cmd.bytes(UVERBS_ATTR_FLOW_ACTION_ESP_ENCAP, encap);
        }
        if let Some(attrs) = self.attrs {
            let _ = cmd.bytes(UVERBS_ATTR_FLOW_ACTION_ESP_ATTRS, attrs);
        }
    }
}

/// Makes an ESP action and returns its number.
///
/// Path: ioctl FLOW_ACTION_ESP_CREATE only.
pub fn create_esp(file: &DeviceFile, esp: &Esp<'_>, prepared: Prepared<'_>) -> Result<u32> {
    let mut cmd = Command::<6>::new(UVERBS_OBJECT_FLOW_ACTION, UVERBS_METHOD_FLOW_ACTION_ESP_CREATE);
    let handle = cmd.object_out(UVERBS_ATTR_CREATE_FLOW_ACTION_ESP_HANDLE);
    esp.put(&mut cmd);
    cmd.append(prepared);
    cmd.execute(file)?;
    Ok(cmd.created(handle))
}

/// Changes the given parts of an ESP action.
///
/// Path: ioctl FLOW_ACTION_ESP_MODIFY only.
pub fn modify_esp(file: &DeviceFile, handle: u32, esp: &Esp<'_>, prepared: Prepared<'_>) -> Result<()> {
    let mut cmd = Command::<6>::new(UVERBS_OBJECT_FLOW_ACTION, UVERBS_METHOD_FLOW_ACTION_ESP_MODIFY);
    cmd.object(UVERBS_ATTR_MODIFY_FLOW_ACTION_ESP_HANDLE, handle);
    esp.put(&mut cmd);
    cmd.append(prepared);
    cmd.execute(file)
}

/// Destroys an action; EBUSY while a flow uses it.
///
/// Path: ioctl FLOW_ACTION_DESTROY only.
pub fn destroy(file: &DeviceFile, handle: u32) -> Result<()> {
    let attr = UVERBS_ATTR_DESTROY_FLOW_ACTION_HANDLE;
    destroy::by_ioctl(file, UVERBS_OBJECT_FLOW_ACTION, UVERBS_METHOD_FLOW_ACTION_DESTROY, attr, handle)
}
