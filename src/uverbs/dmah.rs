//! Hints for direct memory access.

use super::command::Command;
use super::destroy;
use super::device_file::DeviceFile;
use crate::abi::uapi::ib_user_ioctl_cmds::*;
use crate::errno::Result;

/// The hints; each may be left out.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hints {
    /// The processor whose cache is meant.
    pub cpu_id: Option<u32>,
    /// Kind of memory (`enum ibv_tph_mem_type`).
    pub mem_type: Option<u8>,
    /// Processing hint.
    pub processing: Option<[u8; 1]>,
}

/// Makes a handle of hints and returns its number.
///
/// Path: ioctl DMAH_ALLOC only.
pub fn alloc(file: &DeviceFile, hints: &Hints) -> Result<u32> {
    let mut cmd = Command::<4>::new(UVERBS_OBJECT_DMAH, UVERBS_METHOD_DMAH_ALLOC);
    let handle = cmd.object_out(UVERBS_ATTR_ALLOC_DMAH_HANDLE);
    if let Some(cpu_id) = hints.cpu_id {
        cmd.number32(UVERBS_ATTR_ALLOC_DMAH_CPU_ID, cpu_id);
    }
    if let Some(mem_type) = hints.mem_type {
        cmd.choice(UVERBS_ATTR_ALLOC_DMAH_TPH_MEM_TYPE, mem_type, &[]);
    }
    if let Some(processing) = &hints.processing {
        let _ = cmd.bytes(UVERBS_ATTR_ALLOC_DMAH_PH, processing);
    }
    cmd.execute(file)?;
    Ok(cmd.created(handle))
}

/// Gives a handle back; EBUSY while a region uses it.
///
/// Path: ioctl DMAH_FREE only.
pub fn free(file: &DeviceFile, handle: u32) -> Result<()> {
    let (object, method) = (UVERBS_OBJECT_DMAH, UVERBS_METHOD_DMAH_FREE);
    destroy::by_ioctl(file, object, method, UVERBS_ATTR_FREE_DMA_HANDLE, handle)
}
