use super::*;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

fn blank() -> ibv_qp_attr {
    // SAFETY: plain C data; all zeros is a value.
    unsafe { core::mem::zeroed() }
}

#[test]
fn only_masked_attributes_go_to_the_kernel() {
    let mut attr = blank();
    attr.qp_state = 3;
    attr.path_mtu = 5;
    attr.ah_attr.grh.dgid = ibv_gid { raw: [7; 16] };
    attr.ah_attr.dlid = 9;
    attr.alt_timeout = 1;
    let mask = IBV_QP_STATE as c_int | IBV_QP_AV as c_int;
    let request = modify_request(11, &attr, mask);
    assert_eq!((request.qp_handle, request.attr_mask, request.qp_state), (11, mask as u32, 3));
    assert_eq!((request.path_mtu, request.alt_timeout), (0, 0));
    assert_eq!((request.dest.dgid, request.dest.dlid), ([7; 16], 9));
    assert_eq!(request.alt_dest.as_bytes(), [0; 32]);
}

#[test]
fn a_path_survives_the_way_to_the_kernel_and_back() {
    let mut there = blank().ah_attr;
    there.grh.dgid = ibv_gid { raw: core::array::from_fn(|i| i as u8) };
    (there.grh.flow_label, there.grh.sgid_index, there.grh.hop_limit) = (0xf_ffff, 2, 64);
    (there.dlid, there.sl, there.is_global, there.port_num) = (0x1234, 3, 1, 1);
    let mut back = blank().ah_attr;
    path_from_kernel(&mut back, &path_to_kernel(&there));
    assert_eq!(gid_bytes(&back.grh.dgid), gid_bytes(&there.grh.dgid));
    assert_eq!(path_to_kernel(&back).as_bytes(), path_to_kernel(&there).as_bytes());
}

#[test]
fn both_doorbells_are_the_same_command() {
    // A socket is no device: its ioctl is ENOTTY, so that the command is written.
    let (ours, mut kernel) = UnixStream::pair().expect("socket pair");
    let file = DeviceFile::from_fd(ours.into());
    let mut ring = |bell: &dyn Fn() -> Result<()>| {
        bell().expect("the socket takes it");
        let mut bytes = [0_u8; size_of::<ib_uverbs_cmd_hdr>() + size_of::<ib_uverbs_post_send>()];
        kernel.read_exact(&mut bytes).expect("a whole command");
        // Where the answer goes is another place each time.
        bytes[8..16].fill(0);
        bytes
    };
    let plain = ring(&|| post_send_doorbell(file.as_raw_fd(), 9));
    assert_eq!(plain, ring(&|| post_send_doorbell_imported(&file, 9)));
}

#[test]
fn the_legacy_requests_agree_where_they_overlap() {
    let request = CreateQp { user_handle: 1, qp_type: IB_UVERBS_QPT_RC, srq: Some(6), ..Default::default() };
    let parts = Parts { pd: 3, send_cq: Some(4), recv_cq: Some(5) };
    let cap = ib_uverbs_qp_cap { max_send_wr: 10, ..Default::default() };
    let basic = legacy_request(&request, &parts, &cap);
    let extended = legacy_request_ex(&request, &parts, &cap);
    assert_eq!(basic.as_bytes()[8..], extended.as_bytes()[..48]);
    assert_eq!((basic.is_srq, basic.srq_handle), (1, 6));
}
