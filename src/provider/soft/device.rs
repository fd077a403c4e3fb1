//! The engine of this process, and what the device says of itself.

use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::sync::{Arc, Weak};

use ironverbs_os::fork::ProcessMutex;
use ironverbs_os::growth::small_arc;
use nix::time::ClockId;
use softrdma::device::{Device, Settings};
use softrdma::shm::folder::Config;

use super::convert::refused;
use super::threads::{Others, Threads, know_connection_manager};
use super::{SoftContext, gids, identity, network, port};
use crate::abi::verbs::*;
use crate::errno::{Errno, Result};
use crate::guard::guarded;
use crate::provider::verbs::Devices;

/// What soft-RoCE says as well: no vendor.
const VENDOR_ID: u32 = 0xff_ffff;
/// Regions may have pages of any size from 4096 bytes on.
const PAGE_SIZES: u64 = 0xffff_f000;
/// An answer comes within 4.096 µs · 2^15, 134 ms: the other process may not run just now.
const ACK_DELAY: u8 = 15;
/// Address handles: as many as memory holds.
const MAX_AH: i32 = 1 << 20;
/// Kilohertz of the clock of completions, which counts nanoseconds.
const CLOCK_KHZ: u64 = 1_000_000;

/// The engine as contexts have it, and nobody else: it ends with the last of them. Objects, and the thread that
/// works for them, know the [`Device`] alone and may have it a moment longer.
pub struct Engine(Arc<Device>);

impl Deref for Engine {
    type Target = Arc<Device>;

    fn deref(&self) -> &Arc<Device> {
        &self.0
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// The engine, shared by all contexts of the process as long as one is open. A child that a fork made gets its
/// own.
static ENGINE: ProcessMutex<Weak<Engine>> = ProcessMutex::new(Weak::new());

/// The engine of this process, with the host's addresses as they are now. The first context after none was open
/// finds the environment as it is then.
pub fn engine() -> Result<Arc<Engine>> {
    let mut shared = ENGINE.lock().map_err(|error| refused(error.into()))?;
    let engine = match shared.upgrade().filter(|engine| engine.is_mine()) {
        Some(engine) => engine,
        None => {
            know_connection_manager();
            let folder = Config::from_env().map_err(|error| refused(error.into()))?;
            let settings =
                Settings { folder, copying: identity::copying(), network: Settings::asks_for_network() };
            let device = Device::open(&settings).map_err(refused)?;
            network::tell(&device);
            let engine = small_arc(Engine(device));
            *shared = Arc::downgrade(&engine);
            engine
        }
    };
    addresses(&engine);
    Ok(engine)
}

/// Asks the kernel, where there are to be software devices, for what takes long once the program has threads;
/// the shared library has it called when it is loaded (`libibverbs/src/lib.rs`).
pub extern "C" fn begin() {
    let _ = guarded(|| {
        if identity::are_wanted() {
            queue_lock::prepare_while_alone();
        }
        Ok(())
    });
}

/// Leaves nothing behind when the program ends without closing its devices; the shared library has it called
/// when it ends itself (`libibverbs/src/lib.rs`). While other threads of the program run, which may be at work
/// in another process's memory, the names stay until somebody else looks for the dead.
///
/// Asks for no memory and gives none back, and waits for nothing that may never come: programs call `exit` in
/// handlers of signals, which interrupt the allocator and this library anywhere.
pub extern "C" fn leave() {
    let _ = guarded(|| {
        let engine = ENGINE.try_lock().and_then(|engine| engine.upgrade());
        // Not dropped, where it might be the last.
        let Some(engine) = engine.map(ManuallyDrop::new).filter(|engine| engine.is_mine()) else {
            return Ok(());
        };
        // A peer whose message the program has must not wait in vain, whatever the program's threads do.
        engine.send_acknowledgements_now();
        // Again where one woke just now.
        let mut threads = Threads::default();
        let _ = (0..3).any(|_| {
            threads.look_after_a_moment() != Others::AtRest
                || engine.leave_if(|| threads.look() == Others::AtRest)
        });
        Ok(())
    });
}

/// The addresses of the device's network namespace as they are now, which the engine gets to know, and shows to
/// other processes.
pub fn addresses(engine: &Device) -> Vec<gids::Gid> {
    shown(engine, gids::table(engine.network()))
}

/// The same, looked up now.
pub fn addresses_anew(engine: &Device) -> Vec<gids::Gid> {
    shown(engine, gids::table_anew(engine.network()))
}

fn shown(engine: &Device, table: Vec<gids::Gid>) -> Vec<gids::Gid> {
    let mut raw = [[0; 16]; gids::TABLE_LENGTH as usize];
    for (place, gid) in raw.iter_mut().zip(&table) {
        *place = gid.raw;
    }
    engine.set_gids(&raw[..table.len().min(raw.len())]);
    let on_network = table.iter().filter(|gid| network::is_on(gid));
    engine.set_network_addresses(on_network.map(|gid| (gid.raw, gid.ifindex)));
    table
}

impl Devices for SoftContext {
    /// Attributes of the device.
    fn query_device(
        &self,
        _input: Option<&ibv_query_device_ex_input>,
        attr: &mut ibv_device_attr_ex,
        _attr_size: usize,
    ) -> Result<()> {
        const CAPABILITIES: u32 = IBV_DEVICE_SYS_IMAGE_GUID as u32
            | IBV_DEVICE_RC_RNR_NAK_GEN as u32
            | IBV_DEVICE_SRQ_RESIZE as u32
            | IBV_DEVICE_CURR_QP_STATE_MOD as u32
            | IBV_DEVICE_MEM_WINDOW as u32
            | IBV_DEVICE_XRC as u32
            | IBV_DEVICE_MEM_MGT_EXTENSIONS as u32
            | IBV_DEVICE_MEM_WINDOW_TYPE_2B as u32;
        let limits = self.engine.limits();
        // The limits fit, and programs take a negative one for none.
        let number = |limit: u32| i32::try_from(limit).unwrap_or(i32::MAX);
        // SAFETY: plain C data; all zeros is its empty value, and says that there is no such feature.
        *attr = unsafe { core::mem::zeroed() };
        let base = &mut attr.orig_attr;
        for (to, from) in base.fw_ver.iter_mut().zip(env!("CARGO_PKG_VERSION").bytes()) {
            *to = from as libc::c_char;
        }
        base.node_guid = self.guid.to_be();
        base.sys_image_guid = self.guid.to_be();
        base.max_mr_size = limits.max_mr_size;
        base.page_size_cap = PAGE_SIZES;
        base.vendor_id = VENDOR_ID;
        base.max_qp = number(limits.max_qp);
        base.max_qp_wr = number(limits.max_qp_wr);
        base.device_cap_flags = CAPABILITIES;
        base.max_sge = number(limits.max_sge);
        base.max_sge_rd = number(limits.max_sge);
        base.max_cq = number(limits.max_cq);
        base.max_cqe = number(limits.max_cqe);
        base.max_mr = number(limits.max_mr);
        base.max_pd = number(limits.max_pd);
        base.max_qp_rd_atom = i32::from(limits.max_rd_atomic);
        base.max_qp_init_rd_atom = i32::from(limits.max_rd_atomic);
        base.max_res_rd_atom = number(limits.max_qp.saturating_mul(u32::from(limits.max_rd_atomic)));
        base.atomic_cap = IBV_ATOMIC_HCA as ibv_atomic_cap_t;
        base.max_mw = number(limits.max_mw);
        base.max_mcast_grp = number(limits.max_mcast_grp);
        base.max_mcast_qp_attach = number(limits.max_mcast_qp_attach);
        base.max_total_mcast_qp_attach =
            number(limits.max_mcast_grp.saturating_mul(limits.max_mcast_qp_attach));
        base.max_ah = MAX_AH;
        base.max_srq = number(limits.max_srq);
        base.max_srq_wr = number(limits.max_srq_wr);
        base.max_srq_sge = number(limits.max_sge);
        base.max_pkeys = 1;
        base.local_ca_ack_delay = ACK_DELAY;
        base.phys_port_cnt = port::NUMBER;
        // No memory is ever pinned.
        attr.odp_caps.general_caps = IBV_ODP_SUPPORT as u64 | IBV_ODP_SUPPORT_IMPLICIT as u64;
        let every_datagram =
            IBV_ODP_SUPPORT_SEND as u32 | IBV_ODP_SUPPORT_RECV as u32 | IBV_ODP_SUPPORT_SRQ_RECV as u32;
        let every_write = every_datagram | IBV_ODP_SUPPORT_WRITE as u32;
        let everything = every_write
            | IBV_ODP_SUPPORT_READ as u32
            | IBV_ODP_SUPPORT_ATOMIC as u32
            | IBV_ODP_SUPPORT_ATOMIC_WRITE as u32;
        attr.odp_caps.per_transport_caps = ibv_odp_caps_per_transport_caps {
            rc_odp_caps: everything,
            uc_odp_caps: every_write,
            ud_odp_caps: every_datagram,
        };
        attr.xrc_odp_caps = everything;
        attr.completion_timestamp_mask = u64::MAX;
        attr.hca_core_clock = CLOCK_KHZ;
        attr.device_cap_flags_ex = u64::from(CAPABILITIES);
        attr.max_dm_size = limits.max_dm_size;
        attr.phys_port_cnt_ex = u32::from(port::NUMBER);
        Ok(())
    }

    /// The clock of completions, CLOCK_MONOTONIC, in nanoseconds, as hardware gives its raw clock: all of it in
    /// `tv_nsec`.
    fn query_rt_values(&self, values: &mut ibv_values_ex) -> Result<()> {
        const RAW_CLOCK: u32 = IBV_VALUES_MASK_RAW_CLOCK as u32;
        if values.comp_mask & !RAW_CLOCK != 0 {
            return Err(Errno::EINVAL);
        }
        if values.comp_mask & RAW_CLOCK != 0 {
            values.raw_clock.tv_sec = 0;
            values.raw_clock.tv_nsec = nanoseconds(libc::CLOCK_MONOTONIC) as libc::c_long;
        }
        Ok(())
    }
}

/// What a clock shows now.
pub fn nanoseconds(clock: libc::clockid_t) -> u64 {
    // The clocks asked for exist everywhere.
    let now = ClockId::from_raw(clock).now();
    now.map_or(0, |now| now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64)
}
