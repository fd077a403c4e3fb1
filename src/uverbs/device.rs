//! Attributes of devices and ports.

use core::mem::offset_of;

use super::Udata;
use super::command::{Command, Path, execute_write, execute_write_ex};
use super::device_file::{DeviceFile, Method};
use crate::abi::uapi::Pod;
use crate::abi::uapi::ib_user_ioctl_cmds::*;
use crate::abi::uapi::ib_user_ioctl_verbs::ib_uverbs_query_port_resp_ex;
use crate::abi::uapi::ib_user_verbs::*;
use crate::abi::verbs::{ibv_device_attr, ibv_device_attr_ex, ibv_port_attr, ibv_query_device_ex_input};
use crate::errno::{Errno, Result};

/// The end of a field: its offset plus its size.
macro_rules! end_of {
    ($owner:ty, $field:ident) => {{
        const fn size<O, F>(_: fn(&O) -> &F) -> usize {
            size_of::<F>()
        }
        offset_of!($owner, $field) + size(|owner: &$owner| &owner.$field)
    }};
}

/// What the device said that has no place in `ibv_device_attr_ex`.
#[derive(Clone, Copy, Debug)]
pub struct DeviceAnswer {
    /// Firmware version, as the driver codes it.
    pub fw_ver: u64,
    /// How many bytes of `ib_uverbs_ex_query_device_resp` the kernel filled; with driver data, how many it had.
    pub response_length: u32,
}

/// Reads the attributes of the device into the first `attr_size` bytes of `attr`; what the kernel does not know
/// is 0, and so is `fw_ver`, whose form the driver decides.
///
/// `num_ports` is the number of ports as netlink counts them, 0 if unknown. EINVAL (without `errno`) for a bit
/// in `input.comp_mask`, or for less room than `ibv_device_attr`.
///
/// Path: legacy command, extended; the basic one if the kernel lacks that, or when only `ibv_device_attr` is
/// asked for.
pub fn query(
    file: &DeviceFile,
    input: Option<&ibv_query_device_ex_input>,
    attr: &mut ibv_device_attr_ex,
    attr_size: usize,
    num_ports: u32,
    udata: Udata<'_>,
) -> Result<DeviceAnswer> {
    let mut answer = ib_uverbs_ex_query_device_resp::default();
    query_with_answer(file, input, attr, attr_size, num_ports, &mut answer, udata)?;
    Ok(DeviceAnswer { fw_ver: answer.base.fw_ver, response_length: answer.response_length })
}

/// As [`query`], giving the whole answer of the kernel. Of `answer` only the basic part and `response_length`
/// count when the kernel was asked for no more.
pub fn query_with_answer(
    file: &DeviceFile,
    input: Option<&ibv_query_device_ex_input>,
    attr: &mut ibv_device_attr_ex,
    attr_size: usize,
    num_ports: u32,
    answer: &mut ib_uverbs_ex_query_device_resp,
    udata: Udata<'_>,
) -> Result<()> {
    const BASIC: usize = size_of::<ibv_device_attr>();
    if input.is_some_and(|input| input.comp_mask != 0) || attr_size < BASIC {
        return Err(Errno::EINVAL);
    }
    // A failure leaves zeros behind.
    // SAFETY: plain C data (integers, arrays and structures of them): all zeros is a value.
    *attr = unsafe { core::mem::zeroed() };
    let mut attr_size = attr_size;
    if attr_size > BASIC {
        let request = ib_uverbs_ex_query_device::default();
        let command = IB_USER_VERBS_EX_CMD_QUERY_DEVICE;
        match execute_write_ex(file, command, &request, answer, udata) {
            Err(Errno::EOPNOTSUPP | Errno::ENOSYS) => attr_size = BASIC,
            done => done?,
        }
    }
    if attr_size == BASIC {
        let request = ib_uverbs_query_device::default();
        let base = &mut answer.base;
        execute_write(file, IB_USER_VERBS_CMD_QUERY_DEVICE, &request, base, Udata::none())?;
        answer.response_length = size_of::<ib_uverbs_query_device_resp>() as u32;
    }
    fill_device_attr(attr, attr_size, answer, num_ports);
    Ok(())
}

fn fill_device_attr(
    attr: &mut ibv_device_attr_ex,
    attr_size: usize,
    answer: &ib_uverbs_ex_query_device_resp,
    num_ports: u32,
) {
    let base = &answer.base;
    let orig = &mut attr.orig_attr;
    orig.node_guid = base.node_guid;
    orig.sys_image_guid = base.sys_image_guid;
    orig.max_mr_size = base.max_mr_size;
    orig.page_size_cap = base.page_size_cap;
    orig.vendor_id = base.vendor_id;
    orig.vendor_part_id = base.vendor_part_id;
    orig.hw_ver = base.hw_ver;
    orig.max_qp = base.max_qp as i32;
    orig.max_qp_wr = base.max_qp_wr as i32;
    orig.device_cap_flags = base.device_cap_flags;
    orig.max_sge = base.max_sge as i32;
    orig.max_sge_rd = base.max_sge_rd as i32;
    orig.max_cq = base.max_cq as i32;
    orig.max_cqe = base.max_cqe as i32;
    orig.max_mr = base.max_mr as i32;
    orig.max_pd = base.max_pd as i32;
    orig.max_qp_rd_atom = base.max_qp_rd_atom as i32;
    orig.max_ee_rd_atom = base.max_ee_rd_atom as i32;
    orig.max_res_rd_atom = base.max_res_rd_atom as i32;
    orig.max_qp_init_rd_atom = base.max_qp_init_rd_atom as i32;
    orig.max_ee_init_rd_atom = base.max_ee_init_rd_atom as i32;
    orig.atomic_cap = base.atomic_cap;
    orig.max_ee = base.max_ee as i32;
    orig.max_rdd = base.max_rdd as i32;
    orig.max_mw = base.max_mw as i32;
    orig.max_raw_ipv6_qp = base.max_raw_ipv6_qp as i32;
    orig.max_raw_ethy_qp = base.max_raw_ethy_qp as i32;
    orig.max_mcast_grp = base.max_mcast_grp as i32;
    orig.max_mcast_qp_attach = base.max_mcast_qp_attach as i32;
    orig.max_total_mcast_qp_attach = base.max_total_mcast_qp_attach as i32;
    orig.max_ah = base.max_ah as i32;
    orig.max_fmr = base.max_fmr as i32;
    orig.max_map_per_fmr = base.max_map_per_fmr as i32;
    orig.max_srq = base.max_srq as i32;
    orig.max_srq_wr = base.max_srq_wr as i32;
    orig.max_srq_sge = base.max_srq_sge as i32;
    orig.max_pkeys = base.max_pkeys;
    orig.local_ca_ack_delay = base.local_ca_ack_delay;
    orig.phys_port_cnt = base.phys_port_cnt;

    /// Runs the assignment when both the program's structure and the kernel's answer reach to the end of the
    /// fields.
    macro_rules! both_have {
        ($ours:ident, $theirs:ident => $copy:expr) => {
            if attr_size >= end_of!(ibv_device_attr_ex, $ours)
                && answer.response_length as usize >= end_of!(ib_uverbs_ex_query_device_resp, $theirs)
            {
                $copy;
            }
        };
    }
    both_have!(odp_caps, odp_caps => {
        attr.odp_caps.general_caps = answer.odp_caps.general_caps;
        let (to, from) = (&mut attr.odp_caps.per_transport_caps, &answer.odp_caps.per_transport_caps);
        to.rc_odp_caps = from.rc_odp_caps;
        to.uc_odp_caps = from.uc_odp_caps;
        to.ud_odp_caps = from.ud_odp_caps;
    });
    both_have!(completion_timestamp_mask, timestamp_mask => {
        attr.completion_timestamp_mask = answer.timestamp_mask
    });
    both_have!(hca_core_clock, hca_core_clock => attr.hca_core_clock = answer.hca_core_clock);
    both_have!(device_cap_flags_ex, device_cap_flags_ex => {
        attr.device_cap_flags_ex = answer.device_cap_flags_ex
    });
    both_have!(rss_caps, rss_caps => {
        attr.rss_caps.supported_qpts = answer.rss_caps.supported_qpts;
        attr.rss_caps.max_rwq_indirection_tables = answer.rss_caps.max_rwq_indirection_tables;
        attr.rss_caps.max_rwq_indirection_table_size = answer.rss_caps.max_rwq_indirection_table_size;
    });
    both_have!(max_wq_type_rq, max_wq_type_rq => attr.max_wq_type_rq = answer.max_wq_type_rq);
    both_have!(raw_packet_caps, raw_packet_caps => attr.raw_packet_caps = answer.raw_packet_caps);
    both_have!(tm_caps, tm_caps => {
        attr.tm_caps.max_rndv_hdr_size = answer.tm_caps.max_rndv_hdr_size;
        attr.tm_caps.max_num_tags = answer.tm_caps.max_num_tags;
        attr.tm_caps.flags = answer.tm_caps.flags;
        attr.tm_caps.max_ops = answer.tm_caps.max_ops;
        attr.tm_caps.max_sge = answer.tm_caps.max_sge;
    });
    both_have!(cq_mod_caps, cq_moderation_caps => {
        attr.cq_mod_caps.max_cq_count = answer.cq_moderation_caps.max_cq_moderation_count;
        attr.cq_mod_caps.max_cq_period = answer.cq_moderation_caps.max_cq_moderation_period;
    });
    both_have!(max_dm_size, max_dm_size => attr.max_dm_size = answer.max_dm_size);
    both_have!(xrc_odp_caps, xrc_odp_caps => attr.xrc_odp_caps = answer.xrc_odp_caps);
    if attr_size >= end_of!(ibv_device_attr_ex, phys_port_cnt_ex) {
        attr.phys_port_cnt_ex =
            if num_ports != 0 { num_ports } else { u32::from(attr.orig_attr.phys_port_cnt) };
    }
}

/// Reads the attributes of a port, counted from 1, into `attr`; `port_cap_flags2` and `active_speed_ex` stay
/// as they are when the kernel does not know them.
///
/// Path: ioctl QUERY_PORT, else the legacy command.
pub fn query_port(file: &DeviceFile, port_num: u8, attr: &mut ibv_port_attr) -> Result<()> {
    query_port_with(file, port_num, attr, Udata::none())
}

/// As [`query_port`], with what the provider tells the driver in the legacy command.
pub fn query_port_with(
    file: &DeviceFile,
    port_num: u8,
    attr: &mut ibv_port_attr,
    udata: Udata<'_>,
) -> Result<()> {
    let mut answer = ib_uverbs_query_port_resp_ex::default();
    let mut cmd = Command::<2>::new(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT);
    cmd.number(UVERBS_ATTR_QUERY_PORT_PORT_NUM, u64::from(port_num));
    cmd.value_out(UVERBS_ATTR_QUERY_PORT_RESP, &mut answer);
    if let Path::Ioctl = cmd.execute_or_legacy(file, Method::QueryPort)? {
        fill_port_attr(attr, &answer.legacy_resp);
        attr.port_cap_flags2 = answer.port_cap_flags2;
        attr.active_speed_ex = answer.active_speed_ex;
    } else {
        let request = ib_uverbs_query_port { port_num, ..Pod::zeroed() };
        let mut answer = ib_uverbs_query_port_resp::default();
        execute_write(file, IB_USER_VERBS_CMD_QUERY_PORT, &request, &mut answer, udata)?;
        fill_port_attr(attr, &answer);
    }
    Ok(())
}

/// Speed of a port (100 Mb/s).
///
/// Path: ioctl QUERY_PORT_SPEED only.
pub fn query_port_speed(file: &DeviceFile, port_num: u32) -> Result<u64> {
    let mut speed = 0_u64;
    let mut cmd = Command::<2>::new(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT_SPEED);
    cmd.number(UVERBS_ATTR_QUERY_PORT_SPEED_PORT_NUM, u64::from(port_num));
    cmd.value_out(UVERBS_ATTR_QUERY_PORT_SPEED_RESP, &mut speed);
    cmd.execute(file)?;
    Ok(speed)
}

fn fill_port_attr(attr: &mut ibv_port_attr, answer: &ib_uverbs_query_port_resp) {
    attr.state = answer.state.into();
    attr.max_mtu = answer.max_mtu.into();
    attr.active_mtu = answer.active_mtu.into();
    attr.gid_tbl_len = answer.gid_tbl_len as i32;
    attr.port_cap_flags = answer.port_cap_flags;
    attr.max_msg_sz = answer.max_msg_sz;
    attr.bad_pkey_cntr = answer.bad_pkey_cntr;
    attr.qkey_viol_cntr = answer.qkey_viol_cntr;
    attr.pkey_tbl_len = answer.pkey_tbl_len;
    attr.lid = answer.lid;
    attr.sm_lid = answer.sm_lid;
    attr.lmc = answer.lmc;
    attr.max_vl_num = answer.max_vl_num;
    attr.sm_sl = answer.sm_sl;
    attr.subnet_timeout = answer.subnet_timeout;
    attr.init_type_reply = answer.init_type_reply;
    attr.active_width = answer.active_width;
    attr.active_speed = answer.active_speed;
    attr.phys_state = answer.phys_state;
    attr.link_layer = answer.link_layer;
    attr.flags = answer.flags;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blank() -> ibv_device_attr_ex {
        // SAFETY: plain C data; all zeros is a value.
        unsafe { core::mem::zeroed() }
    }

    fn full_answer() -> ib_uverbs_ex_query_device_resp {
        let mut answer = ib_uverbs_ex_query_device_resp::default();
        answer.base.max_qp = 17;
        answer.base.phys_port_cnt = 2;
        answer.timestamp_mask = 0xff;
        answer.xrc_odp_caps = 5;
        answer.response_length = size_of::<ib_uverbs_ex_query_device_resp>() as u32;
        answer
    }

    #[test]
    fn the_ends_of_fields_are_those_of_c() {
        assert_eq!(end_of!(ib_uverbs_ex_query_device_resp, odp_caps), 208);
        assert_eq!(end_of!(ib_uverbs_ex_query_device_resp, xrc_odp_caps), 300);
        assert_eq!(end_of!(ibv_device_attr_ex, orig_attr), size_of::<ibv_device_attr>());
    }

    #[test]
    fn everything_is_filled_when_there_is_room_and_knowledge() {
        let mut attr = blank();
        fill_device_attr(&mut attr, size_of::<ibv_device_attr_ex>(), &full_answer(), 0);
        assert_eq!((attr.orig_attr.max_qp, attr.phys_port_cnt_ex), (17, 2));
        assert_eq!((attr.completion_timestamp_mask, attr.xrc_odp_caps), (0xff, 5));
        fill_device_attr(&mut attr, size_of::<ibv_device_attr_ex>(), &full_answer(), 300);
        assert_eq!(attr.phys_port_cnt_ex, 300);
    }

    #[test]
    fn a_small_structure_and_an_old_kernel_fill_less() {
        let mut attr = blank();
        fill_device_attr(&mut attr, size_of::<ibv_device_attr>(), &full_answer(), 4);
        assert_eq!((attr.orig_attr.max_qp, attr.completion_timestamp_mask), (17, 0));
        assert_eq!((attr.xrc_odp_caps, attr.phys_port_cnt_ex), (0, 0));

        let mut answer = full_answer();
        answer.response_length = end_of!(ib_uverbs_ex_query_device_resp, timestamp_mask) as u32;
        attr = blank();
        fill_device_attr(&mut attr, size_of::<ibv_device_attr_ex>(), &answer, 0);
        assert_eq!((attr.completion_timestamp_mask, attr.xrc_odp_caps), (0xff, 0));
    }
}
