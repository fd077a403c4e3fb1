//! Processes with the software device, from their folder.

use std::ffi::OsStr;
use std::fs;
use std::net::Ipv6Addr;
use std::os::unix::ffi::OsStrExt;

use softrdma::inventory::{self, CompletionQueue, Process, QueuePair, SharedReceiveQueue};
use softrdma::rules::keys::Kind as KeyKind;
use softrdma::rules::verbs::{Access, Event, QpState, QpType};
use softrdma::shm::folder::Folder;
use softrdma::shm::keys::Entry;
use softrdma::shm::named::Named;

use super::item::{Item, Kind, Value};
use super::ports;
use super::{COMPLETION_QUEUES, CONNECTION_IDS, MEMORY, QUEUE_PAIRS, SHARED_RECEIVE_QUEUES};
use crate::Result;

/// Processes.
pub const PROCESSES: Kind = Kind { word: "process", list: "processes" };

/// The processes of the folder; of one alone where `only` says so.
pub fn processes(folder: &Folder, only: Option<u32>) -> Result<Vec<Item>> {
    let found = inventory::processes(folder)
        .map_err(|why| format!("{} cannot be read: {why}", folder.path().display()))?;
    let pids: Vec<_> =
        found.iter().filter_map(|(slot, process)| Some((*slot, process.as_ref().ok()?.pid?))).collect();
    let mut ports = ports::Ports::of(folder, pids.iter().map(|(_, pid)| *pid));
    let is_wanted = |pid: Option<i32>| only.is_none_or(|only| pid.is_some_and(|pid| pid as u32 == only));
    let mut items = Vec::new();
    for (slot, process) in &found {
        match process {
            Ok(process) if is_wanted(process.pid) => items.push(of_process(process, &pids, &mut ports)),
            Ok(_) => {}
            Err(why) if only.is_none() => items.push(unknown(*slot, &why.to_string())),
            Err(_) => {}
        }
    }
    // Ids of processes without an open device: servers that wait for their first connection.
    items.extend(ports.rest(only).into_iter().map(|(pid, ids)| {
        let mut item = head(None, pid, None);
        item.lists = lists(vec![], vec![], vec![], vec![], ids);
        item
    }));
    Ok(items)
}

fn head(slot: Option<u16>, pid: Option<i32>, problem: Option<&str>) -> Item {
    let devices = pid.and_then(devices).unwrap_or_default();
    Item::plain(vec![
        ("pid", pid.map_or(Value::None, |pid| Value::Number(pid as u64))),
        ("command", pid.and_then(command).into()),
        ("slot", slot.map(u32::from).into()),
        ("devices", Value::Words(devices)),
        ("problem", problem.map_or(Value::None, Value::from)),
    ])
}

fn unknown(slot: u16, problem: &str) -> Item {
    let mut item = head(Some(slot), None, Some(problem));
    item.fields.push(("addresses", Value::Words(vec![])));
    item.lists = lists(vec![], vec![], vec![], vec![], vec![]);
    item
}

fn lists(
    queue_pairs: Vec<Item>,
    completion_queues: Vec<Item>,
    shared: Vec<Item>,
    memory: Vec<Item>,
    ids: Vec<Item>,
) -> Vec<(Kind, Vec<Item>)> {
    vec![
        (QUEUE_PAIRS, queue_pairs),
        (COMPLETION_QUEUES, completion_queues),
        (SHARED_RECEIVE_QUEUES, shared),
        (MEMORY, memory),
        (CONNECTION_IDS, ids),
    ]
}

/// The name of a process's program.
pub fn command(pid: i32) -> Option<String> {
    let text = fs::read(format!("/proc/{pid}/comm")).ok()?;
    Some(String::from_utf8_lossy(&text).trim_end_matches('\n').to_owned())
}

/// The devices that a process was started with; nothing where that cannot be seen.
fn devices(pid: i32) -> Option<Vec<String>> {
    let variables = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let value = variables.split(|byte| *byte == 0).find_map(|one| one.strip_prefix(b"IRONVERBS_SOFT="))?;
    let named = Named::all(OsStr::from_bytes(value))?;
    Some(named.into_iter().map(|one| one.name).collect())
}

/// An address as people write it.
pub fn address(gid: [u8; 16]) -> String {
    let address = Ipv6Addr::from(gid);
    address.to_ipv4_mapped().map_or_else(|| address.to_string(), |v4| v4.to_string())
}

fn of_process(process: &Process, pids: &[(u16, i32)], ports: &mut ports::Ports) -> Item {
    let mut item = head(Some(process.slot), process.pid, process.is_cut.then_some("more than is shown"));
    item.fields.push(("addresses", Value::Words(process.addresses.iter().map(|a| address(*a)).collect())));
    let queue_pairs = process.queue_pairs.iter().map(|qp| of_queue_pair(qp, pids)).collect();
    let completion_queues = process.completion_queues.iter().map(of_completion_queue).collect();
    let shared = process.shared_receive_queues.iter().map(of_shared).collect();
    let memory = process.keys.iter().map(|(key, entry)| of_key(*key, entry)).collect();
    let ids = process.pid.map_or_else(Vec::new, |pid| ports.take(pid));
    item.lists = lists(queue_pairs, completion_queues, shared, memory, ids);
    item
}

fn kind_name(kind: QpType) -> &'static str {
    match kind {
        QpType::Rc => "RC",
        QpType::Uc => "UC",
        QpType::Ud => "UD",
        QpType::XrcSend => "XRC_SEND",
        QpType::XrcRecv => "XRC_RECV",
    }
}

fn state_name(state: QpState) -> &'static str {
    match state {
        QpState::Reset => "RESET",
        QpState::Init => "INIT",
        QpState::Rtr => "RTR",
        QpState::Rts => "RTS",
        QpState::Sqd => "SQD",
        QpState::Sqe => "SQE",
        QpState::Err => "ERR",
    }
}

fn event_name(event: Event) -> String {
    let name = match event {
        Event::CqErr => "CQ_ERR",
        Event::QpFatal => "QP_FATAL",
        Event::QpReqErr => "QP_REQ_ERR",
        Event::QpAccessErr => "QP_ACCESS_ERR",
        Event::CommEst => "COMM_EST",
        Event::SqDrained => "SQ_DRAINED",
        Event::SrqErr => "SRQ_ERR",
        Event::SrqLimitReached => "SRQ_LIMIT_REACHED",
        Event::QpLastWqeReached => "QP_LAST_WQE_REACHED",
    };
    name.to_owned()
}

fn of_queue_pair(qp: &QueuePair, pids: &[(u16, i32)]) -> Item {
    let peer_pid = qp.peer.filter(|_| !qp.is_far).and_then(|peer| {
        let slot = inventory::slot_of(peer)?;
        pids.iter().find(|(one, _)| *one == slot).map(|(_, pid)| *pid)
    });
    let number = |number: Option<u32>| number.map_or(Value::None, |number| Value::Hex(number.into(), 6));
    let (waiting, room) = qp.receives.unzip();
    Item::plain(vec![
        ("number", Value::Hex(qp.number.into(), 6)),
        ("type", qp.kind.map(|kind| kind_name(kind).to_owned()).into()),
        ("state", qp.state.map(|state| state_name(state).to_owned()).into()),
        ("peer", number(qp.peer)),
        ("peer_address", qp.peer_address.map(address).into()),
        ("peer_pid", peer_pid.map(|pid| pid as u32).into()),
        ("far", Value::Flag(qp.is_far)),
        ("received", Value::Counter(qp.received.into())),
        ("receives_waiting", waiting.into()),
        ("receives_room", room.into()),
        ("pd", Value::Number(qp.pd.into())),
        ("send_cq", qp.send_cq.into()),
        ("receive_cq", qp.receive_cq.into()),
        ("srq", number(qp.srq)),
        ("events", Value::Words(qp.events.iter().map(|event| event_name(*event)).collect())),
    ])
}

fn of_completion_queue(cq: &CompletionQueue) -> Item {
    let armed = match cq.armed {
        0 => None,
        1 => Some("solicited".to_owned()),
        _ => Some("next".to_owned()),
    };
    Item::plain(vec![
        ("index", Value::Number(cq.index.into())),
        ("room", Value::Number(cq.capacity.into())),
        ("completed", Value::Counter(cq.completed.into())),
        ("waiting", cq.waiting.into()),
        ("armed", armed.into()),
        ("overrun", Value::Flag(cq.has_overrun)),
    ])
}

fn of_shared(srq: &SharedReceiveQueue) -> Item {
    Item::plain(vec![
        ("number", Value::Hex(srq.number.into(), 6)),
        ("type", if srq.is_xrc { "XRC" } else { "BASIC" }.into()),
        ("taken", Value::Counter(srq.taken.into())),
        ("waiting", srq.waiting.into()),
        ("room", Value::Number(srq.capacity.into())),
        ("limit", Value::Number(srq.limit.into())),
        ("pd", Value::Number(srq.pd.into())),
    ])
}

fn of_key(key: u32, entry: &Entry) -> Item {
    let kind = match entry.key.kind {
        KeyKind::Region => "region",
        KeyKind::Window1 => "window-1",
        KeyKind::Window2 { .. } => "window-2",
    };
    let names = [
        (Access::LOCAL_WRITE, "local_write"),
        (Access::REMOTE_WRITE, "remote_write"),
        (Access::REMOTE_READ, "remote_read"),
        (Access::REMOTE_ATOMIC, "remote_atomic"),
        (Access::MW_BIND, "mw_bind"),
        (Access::ZERO_BASED, "zero_based"),
        (Access::ON_DEMAND, "on_demand"),
        (Access::FLUSH_GLOBAL, "flush_global"),
        (Access::FLUSH_PERSISTENT, "flush_persistent"),
    ];
    let has = names.iter().filter(|(right, _)| entry.key.access.has(*right));
    Item::plain(vec![
        ("key", Value::Hex(key.into(), 8)),
        ("type", kind.into()),
        ("address", Value::Hex(entry.key.start, 1)),
        ("length", Value::Number(entry.key.length)),
        ("access", Value::Words(has.map(|(_, name)| (*name).to_owned()).collect())),
        ("invalid", Value::Flag(!entry.key.valid)),
        ("pd", Value::Number(entry.key.pd.into())),
    ])
}
