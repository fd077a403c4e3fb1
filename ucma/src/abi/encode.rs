//! Answers as a program reads them.

use ironverbs_cm::Answer;
use ironverbs_cm::answer::{Addresses, Path, QpAttr, Route};
use ironverbs_cm::event::{AhAttr, Event, Param};
use zerocopy::{FromZeros, IntoBytes};

use super::addresses;
use super::decode::Form;
use super::layout;

/// Flags of a path: GMP, primary, outbound, inbound and reverse.
const PATH_FLAGS: u32 = 43;
/// What QUERY answered for addresses before a field was added.
const ADDRESSES_LEAST: usize = 272;

/// The bytes of an answer that are stored where there is room for `room` of them.
///
/// # Errors
/// ENOSPC where Linux finds the room too little only now.
pub fn encode(answer: &Answer, form: Form, room: usize) -> Result<Vec<u8>, i32> {
    let mut bytes = match answer {
        Answer::Done => Vec::new(),
        Answer::Created(id) => layout::Created { id: *id }.as_bytes().to_vec(),
        Answer::Reported(events_reported) => {
            layout::Reported { events_reported: *events_reported }.as_bytes().to_vec()
        }
        Answer::Addresses(addresses) => query_addr(addresses).as_bytes().to_vec(),
        Answer::Paths(paths) => path_records(paths, room),
        Answer::IbServices => layout::Records { count: 0, reserved: 0 }.as_bytes().to_vec(),
        Answer::Route(route) => query_route(route).as_bytes().to_vec(),
        Answer::QpAttr(attr) => qp_attr(attr).as_bytes().to_vec(),
        Answer::Event(found) => event(found).as_bytes().to_vec(),
    };
    let least = match form {
        Form::Query(1 | 3) => size_of::<layout::Records>(),
        Form::Query(_) => ADDRESSES_LEAST,
        _ => 0,
    };
    if room < least {
        return Err(libc::ENOSPC);
    }
    bytes.truncate(room);
    Ok(bytes)
}

fn query_addr(from: &Addresses) -> layout::QueryAddr {
    let (source, src_size) = addresses::write(&from.source);
    let (destination, dst_size) = addresses::write(&from.destination);
    layout::QueryAddr {
        node_guid: from.node_guid,
        port_num: from.port,
        reserved: 0,
        pkey: from.pkey.into(),
        src_size,
        dst_size,
        source,
        destination,
        ibdev_index: from.index,
        reserved2: 0,
    }
}

/// The number of all paths, and as many of them as there is room for.
fn path_records(paths: &[Path], room: usize) -> Vec<u8> {
    let count = paths.len() as u32;
    let mut bytes = layout::Records { count, reserved: 0 }.as_bytes().to_vec();
    let places = room.saturating_sub(bytes.len()) / size_of::<layout::PathData>();
    for path in paths.iter().take(places) {
        let data = layout::PathData { flags: PATH_FLAGS, reserved: 0, record: path.pack() };
        bytes.extend_from_slice(data.as_bytes());
    }
    bytes
}

fn query_route(from: &Route) -> layout::QueryRoute {
    let mut to = layout::QueryRoute::new_zeroed();
    to.node_guid = from.addresses.node_guid;
    to.paths[0] = user_path(&from.path);
    to.source = addresses::write_ip(&from.addresses.source);
    to.destination = addresses::write_ip(&from.addresses.destination);
    to.num_paths = from.num_paths;
    to.port_num = from.addresses.port;
    to.ibdev_index = from.addresses.index;
    to
}

fn user_path(from: &Path) -> layout::UserPath {
    layout::UserPath {
        dgid: from.dgid,
        sgid: from.sgid,
        dlid: from.dlid.into(),
        slid: from.slid.into(),
        raw_traffic: from.raw_traffic.into(),
        flow_label: from.flow_label.into(),
        reversible: from.reversible.into(),
        mtu: from.mtu.into(),
        pkey: from.pkey.into(),
        hop_limit: from.hop_limit,
        traffic_class: from.traffic_class,
        numb_path: from.numb_path,
        sl: from.sl,
        mtu_selector: from.mtu_selector,
        rate_selector: from.rate_selector,
        rate: from.rate,
        packet_life_time_selector: from.packet_life_time_selector,
        packet_life_time: from.packet_life_time,
        preference: from.preference,
    }
}

fn ah_attr(from: &AhAttr) -> layout::AhAttr {
    layout::AhAttr {
        dgid: from.dgid,
        flow_label: from.flow_label,
        sgid_index: from.sgid_index,
        hop_limit: from.hop_limit,
        traffic_class: from.traffic_class,
        reserved: 0,
        dlid: 0,
        sl: from.sl,
        src_path_bits: 0,
        static_rate: from.static_rate,
        is_global: from.is_global,
        port_num: from.port,
        reserved2: 0,
    }
}

fn qp_attr(from: &QpAttr) -> layout::QpAttr {
    let mut to = layout::QpAttr::new_zeroed();
    to.qp_attr_mask = from.mask;
    to.qp_state = from.state;
    to.path_mtu = from.path_mtu;
    to.qkey = from.qkey;
    to.rq_psn = from.rq_psn;
    to.sq_psn = from.sq_psn;
    to.dest_qp_num = from.dest_qp_num;
    to.qp_access_flags = from.access;
    to.ah_attr = ah_attr(&from.ah);
    to.pkey_index = from.pkey_index;
    to.max_rd_atomic = from.max_rd_atomic;
    to.max_dest_rd_atomic = from.max_dest_rd_atomic;
    to.min_rnr_timer = from.min_rnr_timer;
    to.port_num = from.port;
    to.timeout = from.timeout;
    to.retry_cnt = from.retry;
    to.rnr_retry = from.rnr_retry;
    to
}

fn event(from: &Event) -> layout::Event {
    let mut to = layout::Event::new_zeroed();
    to.uid = from.uid;
    to.id = from.id;
    to.event = from.kind as u32;
    to.status = from.status;
    to.ece = layout::Ece { vendor_id: from.ece.vendor, attr_mod: from.ece.options };
    let mut put = |bytes: &[u8]| to.param[..bytes.len()].copy_from_slice(bytes);
    match &from.param {
        Param::None => {}
        Param::Conn(param) => put(layout::ConnParam {
            qp_num: param.qp_num,
            qkey: param.qkey,
            private_data: param.private_data,
            private_data_len: param.private_data_len,
            srq: param.srq,
            responder_resources: param.responder_resources,
            initiator_depth: param.initiator_depth,
            flow_control: param.flow_control,
            retry_count: param.retry_count,
            rnr_retry_count: param.rnr_retry_count,
            valid: param.valid,
        }
        .as_bytes()),
        Param::Ud(param) => put(layout::UdParam {
            qp_num: param.qp_num,
            qkey: param.qkey,
            ah_attr: ah_attr(&param.ah),
            private_data: param.private_data,
            private_data_len: param.private_data_len,
            reserved: [0; 7],
        }
        .as_bytes()),
        Param::Argument(words) => put(words.as_bytes()),
    }
    to
}
