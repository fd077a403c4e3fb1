//! Rules about the way to a peer, when a queue pair is modified.

use super::gids;
use super::objects::{Detail, Ledger, Object};
use super::queue_pair::{Path, QueuePair};
use super::report::Findings;
use super::rules::Id;
use crate::abi::verbs::*;

/// Judges a queue pair that was just modified.
pub fn judge(ledger: &Ledger, found: &mut Findings, address: u64, mask: u32) {
    let depths = IBV_QP_MAX_QP_RD_ATOMIC as u32 | IBV_QP_MAX_DEST_RD_ATOMIC as u32;
    if mask & depths != 0 {
        depth(ledger, found, address);
    }
}

fn qp(object: &Object) -> Option<&QueuePair> {
    match &object.detail {
        Detail::Qp(qp) => Some(qp),
        _ => None,
    }
}

/// Compares the depths of two queue pairs of one device, each of which names the other.
fn depth(ledger: &Ledger, found: &mut Findings, address: u64) {
    let Some(object) = ledger.objects.get(address) else { return };
    let Some(own) = qp(object).filter(|own| own.service == IBV_QPT_RC as u32) else { return };
    let Some(path) = own.path else { return };
    let peer = ledger.objects.values().find(|other| {
        qp(other).is_some_and(|peer| {
            let names = |path: Path| path.number == own.number && peer.number == path_of(own).number;
            other.context == object.context && peer.path.is_some_and(names) && leads_back(path, peer.path)
        })
    });
    let Some(peer) = peer.and_then(qp) else { return };
    for (one, other) in [(own, peer), (peer, own)] {
        if let (Some(depth), Some(most)) = (one.depth, other.peers_depth)
            && depth > most
        {
            let what = format!(
                "queue pair {:#x} has max_rd_atomic {depth}, and its peer {:#x} max_dest_rd_atomic {most}",
                one.number, other.number
            );
            return found.error(Id::ReadAtomicDepth, what, object.about());
        }
    }
}

fn path_of(qp: &QueuePair) -> Path {
    qp.path.unwrap_or_default()
}

/// Whether each names the other's own GID: then they are of one device of this host, where a number is one
/// queue pair's.
fn leads_back(path: Path, back: Option<Path>) -> bool {
    back.is_some_and(|back| back.gid == path.own && path.gid == back.own && path.gid != [0; 16])
}

/// Judges the own GID that a way to a peer names.
pub fn judge_gid(found: &mut Findings, object: &Object, attr: &ibv_ah_attr, gids: &[ibv_gid_entry]) {
    let index = attr.grh.sgid_index;
    if attr.is_global != 0
        && let Some(newer) = gids::newer(gids, attr.port_num, index)
    {
        let what = || format!("the GID at index {index} is of RoCE v1, the same address at {newer} of v2");
        found.note(Id::GidRoceV1, what, object.about());
    }
}
