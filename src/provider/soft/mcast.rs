//! Multicast groups.

use ironverbs_os::growth::TryPush;

use super::SoftContext;
use super::convert::refused;
use super::qp::object;
use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::provider::object::Handle;
use crate::provider::verbs::Mcasts;

impl Mcasts for SoftContext {
    /// Joins a multicast group. Doing it again changes nothing.
    fn attach_mcast(&self, qp: Handle<ibv_qp>, gid: &ibv_gid, lid: u16) -> Result<()> {
        // SAFETY: every view of the GID union is 16 plain bytes.
        let group = unsafe { (gid.raw, lid) };
        let mut groups = object(qp).groups();
        groups.try_reserve(1)?;
        self.engine.attach_multicast(&object(qp).queue, &group.0).map_err(refused)?;
        if !groups.contains(&group) {
            groups.push_reserved(group);
        }
        Ok(())
    }

    /// Leaves a multicast group; EINVAL where the queue pair is not in it, or joined it with another LID.
    fn detach_mcast(&self, qp: Handle<ibv_qp>, gid: &ibv_gid, lid: u16) -> Result<()> {
        // SAFETY: every view of the GID union is 16 plain bytes.
        let group = unsafe { (gid.raw, lid) };
        let mut groups = object(qp).groups();
        let place =
            groups.iter().position(|known| *known == group).ok_or_else(|| Errno::EINVAL.also_set())?;
        // The group is left with the last LID that it was joined with.
        if groups.iter().filter(|known| known.0 == group.0).count() == 1 {
            self.engine.detach_multicast(&object(qp).queue, &group.0).map_err(refused)?;
        }
        groups.swap_remove(place);
        Ok(())
    }
}
