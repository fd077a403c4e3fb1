//! Objects of the kernel's devices, by RDMA netlink (`NLDEV`), as `rdma resource show` asks for them.
//!
//! The kernel answers what belongs to processes of this PID namespace, whoever asks; remote keys are told to
//! who may configure networks (`CAP_NET_ADMIN`).

use ironverbs::abi::uapi::rdma_netlink::*;
use ironverbs::errno::{Errno, Result};
use ironverbs::uverbs::netlink::{Attrs, NETLINK_RDMA, Socket};

use super::item::{Item, Kind, Value};
use super::ports::socket_address;
use super::software::command;
use super::{COMPLETION_QUEUES, CONNECTION_IDS, MEMORY, QUEUE_PAIRS, SHARED_RECEIVE_QUEUES};

/// Devices.
pub const DEVICES: Kind = Kind { word: "device", list: "devices" };
const PROTECTION_DOMAINS: Kind = Kind { word: "pd", list: "protection_domains" };

/// How often a list is asked for that changes meanwhile.
const ATTEMPTS: u32 = 8;

/// How the objects of one kind are asked for.
struct Dump {
    kind: Kind,
    command: u16,
    table: u16,
    entry: u16,
    item: fn(&Attrs<'_>) -> Item,
}

const DUMPS: [Dump; 6] = [
    Dump {
        kind: QUEUE_PAIRS,
        command: RDMA_NLDEV_CMD_RES_QP_GET,
        table: RDMA_NLDEV_ATTR_RES_QP,
        entry: RDMA_NLDEV_ATTR_RES_QP_ENTRY,
        item: queue_pair,
    },
    Dump {
        kind: COMPLETION_QUEUES,
        command: RDMA_NLDEV_CMD_RES_CQ_GET,
        table: RDMA_NLDEV_ATTR_RES_CQ,
        entry: RDMA_NLDEV_ATTR_RES_CQ_ENTRY,
        item: completion_queue,
    },
    Dump {
        kind: SHARED_RECEIVE_QUEUES,
        command: RDMA_NLDEV_CMD_RES_SRQ_GET,
        table: RDMA_NLDEV_ATTR_RES_SRQ,
        entry: RDMA_NLDEV_ATTR_RES_SRQ_ENTRY,
        item: shared_receive_queue,
    },
    Dump {
        kind: MEMORY,
        command: RDMA_NLDEV_CMD_RES_MR_GET,
        table: RDMA_NLDEV_ATTR_RES_MR,
        entry: RDMA_NLDEV_ATTR_RES_MR_ENTRY,
        item: memory,
    },
    Dump {
        kind: PROTECTION_DOMAINS,
        command: RDMA_NLDEV_CMD_RES_PD_GET,
        table: RDMA_NLDEV_ATTR_RES_PD,
        entry: RDMA_NLDEV_ATTR_RES_PD_ENTRY,
        item: protection_domain,
    },
    Dump {
        kind: CONNECTION_IDS,
        command: RDMA_NLDEV_CMD_RES_CM_ID_GET,
        table: RDMA_NLDEV_ATTR_RES_CM_ID,
        entry: RDMA_NLDEV_ATTR_RES_CM_ID_ENTRY,
        item: connection_id,
    },
];

/// The devices with their objects, or why there is nothing to be asked.
///
/// # Errors
/// `EPROTONOSUPPORT` of a kernel without RDMA netlink; those of the system.
pub fn devices(only: Option<u32>) -> Result<Vec<Item>> {
    let mut socket = Socket::open(NETLINK_RDMA)?;
    let mut devices = Vec::new();
    dump(&mut socket, RDMA_NLDEV_CMD_GET, None, |attrs| {
        let name = text(&attrs, RDMA_NLDEV_ATTR_DEV_NAME);
        let index = number::<u32>(&attrs, RDMA_NLDEV_ATTR_DEV_INDEX);
        devices.extend(name.zip(index));
    })?;
    let of = |(name, index): (String, u32)| {
        let mut item = Item::plain(vec![("name", Value::Text(name))]);
        for one in &DUMPS {
            let mut items = Vec::new();
            let found = dump(&mut socket, one.command, Some(index), |attrs| {
                let tables = attrs.filter(|attr| attr.kind == one.table);
                let entries =
                    tables.flat_map(|table| Attrs::new(table.bytes)).filter(|e| e.kind == one.entry);
                for entry in entries {
                    let attrs = Attrs::new(entry.bytes);
                    let pid = number::<u32>(&attrs, RDMA_NLDEV_ATTR_RES_PID);
                    if only.is_none() || pid == only {
                        items.push((one.item)(&attrs));
                    }
                }
            });
            // A kernel before that kind was shown, or a device that is gone by now, has none to show.
            if found.is_ok() {
                item.lists.push((one.kind, items));
            }
        }
        item
    };
    Ok(devices.into_iter().map(of).collect())
}

/// Gives the attributes of each message of an answer to `each`.
fn dump(
    socket: &mut Socket,
    command: u16,
    device: Option<u32>,
    mut each: impl FnMut(Attrs<'_>),
) -> Result<()> {
    let mut attempts = 0;
    loop {
        let kind = rdma_nl_get_type(RDMA_NL_NLDEV, command);
        let mut request = socket.request(kind, libc::NLM_F_DUMP as u16);
        if let Some(index) = device {
            request.attr(RDMA_NLDEV_ATTR_DEV_INDEX, &index.to_ne_bytes());
        }
        let mut messages: Vec<Vec<u8>> = Vec::new();
        attempts += 1;
        match socket.dump(&request, |message| {
            messages.push(message.payload.to_vec());
            Ok(())
        }) {
            Err(Errno(libc::EINTR)) if attempts < ATTEMPTS => {}
            done => {
                messages.iter().for_each(|payload| each(Attrs::new(payload)));
                return done;
            }
        }
    }
}

fn number<T: ironverbs::abi::uapi::Pod>(attrs: &Attrs<'_>, kind: u16) -> Option<T> {
    attrs.clone().find_last(kind)?.number()
}

fn text(attrs: &Attrs<'_>, kind: u16) -> Option<String> {
    attrs.clone().find_last(kind)?.text().map(str::to_owned)
}

fn plain(attrs: &Attrs<'_>, kind: u16) -> Value {
    number::<u32>(attrs, kind).into()
}

fn hex(attrs: &Attrs<'_>, kind: u16, digits: usize) -> Value {
    number::<u32>(attrs, kind).map_or(Value::None, |number| Value::Hex(number.into(), digits))
}

fn wide(attrs: &Attrs<'_>, kind: u16) -> Value {
    number::<u64>(attrs, kind).map_or(Value::None, Value::Number)
}

/// A number that has a name.
fn named(attrs: &Attrs<'_>, kind: u16, names: &[&str]) -> Value {
    let Some(number) = number::<u8>(attrs, kind) else { return Value::None };
    match names.get(usize::from(number)).filter(|name| !name.is_empty()) {
        Some(name) => Value::from(*name),
        None => Value::Text(number.to_string()),
    }
}

/// Whose the object is, behind what it is.
fn owned(attrs: &Attrs<'_>, mut fields: Vec<(&'static str, Value)>) -> Item {
    let pid = number::<u32>(attrs, RDMA_NLDEV_ATTR_RES_PID);
    let name = match pid {
        Some(pid) => command(pid as i32),
        None => text(attrs, RDMA_NLDEV_ATTR_RES_KERN_NAME).map(|name| format!("[{name}]")),
    };
    fields.push(("pid", pid.into()));
    fields.push(("command", name.into()));
    Item::plain(fields)
}

/// `enum ib_qp_type`.
const QP_TYPES: [&str; 11] =
    ["SMI", "GSI", "RC", "UC", "UD", "RAW_IPV6", "RAW_ETHERTYPE", "", "RAW_PACKET", "XRC_INI", "XRC_TGT"];
/// `enum ib_qp_state`.
const QP_STATES: [&str; 7] = ["RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"];
/// `enum rdma_cm_state`.
const CM_STATES: [&str; 11] = [
    "IDLE",
    "ADDR_QUERY",
    "ADDR_RESOLVED",
    "ROUTE_QUERY",
    "ROUTE_RESOLVED",
    "CONNECT",
    "DISCONNECT",
    "ADDR_BOUND",
    "LISTEN",
    "DEVICE_REMOVAL",
    "DESTROYING",
];
/// `enum ib_srq_type`.
const SRQ_TYPES: [&str; 3] = ["BASIC", "XRC", "TM"];

fn queue_pair(attrs: &Attrs<'_>) -> Item {
    let fields = vec![
        ("number", hex(attrs, RDMA_NLDEV_ATTR_RES_LQPN, 6)),
        ("type", named(attrs, RDMA_NLDEV_ATTR_RES_TYPE, &QP_TYPES)),
        ("state", named(attrs, RDMA_NLDEV_ATTR_RES_STATE, &QP_STATES)),
        ("port", plain(attrs, RDMA_NLDEV_ATTR_PORT_INDEX)),
        ("peer", hex(attrs, RDMA_NLDEV_ATTR_RES_RQPN, 6)),
        ("receive_psn", plain(attrs, RDMA_NLDEV_ATTR_RES_RQ_PSN)),
        ("send_psn", plain(attrs, RDMA_NLDEV_ATTR_RES_SQ_PSN)),
        ("pd", plain(attrs, RDMA_NLDEV_ATTR_RES_PDN)),
    ];
    owned(attrs, fields)
}

fn completion_queue(attrs: &Attrs<'_>) -> Item {
    let fields = vec![
        ("index", plain(attrs, RDMA_NLDEV_ATTR_RES_CQN)),
        ("room", plain(attrs, RDMA_NLDEV_ATTR_RES_CQE)),
        ("users", wide(attrs, RDMA_NLDEV_ATTR_RES_USECNT)),
    ];
    owned(attrs, fields)
}

fn shared_receive_queue(attrs: &Attrs<'_>) -> Item {
    let fields = vec![
        ("number", hex(attrs, RDMA_NLDEV_ATTR_RES_SRQN, 6)),
        ("type", named(attrs, RDMA_NLDEV_ATTR_RES_TYPE, &SRQ_TYPES)),
        ("pd", plain(attrs, RDMA_NLDEV_ATTR_RES_PDN)),
    ];
    owned(attrs, fields)
}

fn memory(attrs: &Attrs<'_>) -> Item {
    let fields = vec![
        ("index", plain(attrs, RDMA_NLDEV_ATTR_RES_MRN)),
        ("length", wide(attrs, RDMA_NLDEV_ATTR_RES_MRLEN)),
        ("remote_key", hex(attrs, RDMA_NLDEV_ATTR_RES_RKEY, 8)),
        ("pd", plain(attrs, RDMA_NLDEV_ATTR_RES_PDN)),
    ];
    owned(attrs, fields)
}

fn protection_domain(attrs: &Attrs<'_>) -> Item {
    let fields = vec![
        ("index", plain(attrs, RDMA_NLDEV_ATTR_RES_PDN)),
        ("users", wide(attrs, RDMA_NLDEV_ATTR_RES_USECNT)),
    ];
    owned(attrs, fields)
}

fn connection_id(attrs: &Attrs<'_>) -> Item {
    let address = |kind| attrs.clone().find_last(kind).and_then(|attr| socket_address(attr.bytes));
    let space = match number::<u32>(attrs, RDMA_NLDEV_ATTR_RES_PS) {
        Some(0x0002) => Value::from("IPOIB"),
        Some(0x0106) => Value::from("TCP"),
        Some(0x0111) => Value::from("UDP"),
        Some(0x013f) => Value::from("IB"),
        _ => Value::None,
    };
    let fields = vec![
        ("source", address(RDMA_NLDEV_ATTR_RES_SRC_ADDR).into()),
        ("space", space),
        ("state", named(attrs, RDMA_NLDEV_ATTR_RES_STATE, &CM_STATES)),
        ("destination", address(RDMA_NLDEV_ATTR_RES_DST_ADDR).into()),
        ("queue_pair", hex(attrs, RDMA_NLDEV_ATTR_RES_LQPN, 6)),
    ];
    owned(attrs, fields)
}
