//! The arguments of commands and their answers, by the names of librdmacm's manual pages.

use core::ffi::c_int;
use core::fmt::Write;
use core::mem::size_of;

use ironverbs_cm::Address;
use ironverbs_trace::line::Line;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use super::Seen;
use super::words::{self, Names};
use crate::abi::{addresses, layout};
use crate::memory;

/// The librdmacm function that writes a command; of QUERY, for what it is asked.
pub fn name(seen: &Seen) -> &'static str {
    match seen.header.command {
        _ if seen.header == layout::Header::new_zeroed() => "write",
        0 => "rdma_create_id",
        1 => "rdma_destroy_id",
        2 | 20 => "rdma_bind_addr",
        3 | 21 => "rdma_resolve_addr",
        4 => "rdma_resolve_route",
        5 => "rdma_query_route",
        6 => "rdma_connect",
        7 => "rdma_listen",
        8 => "rdma_accept",
        9 => "rdma_reject",
        10 => "rdma_disconnect",
        11 => "rdma_init_qp_attr",
        12 => "rdma_get_cm_event",
        14 => "rdma_set_option",
        15 => "rdma_notify",
        16 | 22 => "rdma_join_multicast",
        17 => "rdma_leave_multicast",
        18 => "rdma_migrate_id",
        19 => match part::<layout::Query>(seen).option {
            0 => "rdma_query_addr",
            1 => "rdma_query_path",
            2 => "rdma_query_gid",
            _ => "rdma_query_service",
        },
        23 => "rdma_resolve_addrinfo",
        24 => "rdma_write_cm_event",
        _ => "write",
    }
}

/// Whether a command makes an end of its first argument.
pub fn ends(seen: &Seen) -> bool {
    matches!(seen.header.command, 1 | 17)
}

/// The struct at the beginning of a command's body.
fn part<T: FromBytes>(seen: &Seen) -> T {
    T::read_from_prefix(&seen.body).map_or_else(|_| T::new_zeroed(), |(found, _)| found)
}

/// What was stored as the answer, as far as there was room for it; behind it are zeros.
fn stored<T: FromBytes + IntoBytes>(seen: &Seen, place: u64) -> T {
    let mut answer = T::new_zeroed();
    let room = size_of::<T>().min(seen.header.output.into());
    if memory::read(place, &mut answer.as_mut_bytes()[..room]).is_err() {
        return T::new_zeroed();
    }
    answer
}

/// A channel, as the struct that a program has of it.
pub fn channel(line: &mut Line, fd: c_int) {
    let _ = write!(line, "{{fd={fd}}}");
}

/// A number of an id or a join. An object's address is never 0, which is NULL, so numbers count from 1.
fn object(line: &mut Line, kind: &str, number: u32) {
    line.object(kind, number as usize + 1);
}

fn bracketed(line: &mut Line, inner: impl FnOnce(&mut Line)) {
    line.put("[");
    inner(line);
    line.put("]");
}

fn address(line: &mut Line, address: &Address) {
    let _ = match address {
        Address::Unspecified => line.write_str("NULL"),
        Address::V4(v4) => write!(line, "{v4}"),
        Address::V6(v6) => write!(line, "{v6}"),
        Address::Ib(ib) => {
            let gid = core::net::Ipv6Addr::from(ib.gid);
            write!(line, "{{sib_addr={gid}, sib_pkey={:#x}, sib_sid={:#x}}}", ib.pkey, ib.service)
        }
    };
}

/// Arguments, one after the other.
struct Arguments<'a> {
    line: &'a mut Line,
}

impl Arguments<'_> {
    fn shown(&mut self, name: &'static str, show: impl FnOnce(&mut Line)) -> &mut Self {
        self.line.argument(name, || 0, show);
        self
    }

    fn number(&mut self, name: &'static str, number: impl core::fmt::Display) -> &mut Self {
        self.shown(name, |line| {
            let _ = write!(line, "{number}");
        })
    }

    fn hex(&mut self, name: &'static str, number: u64) -> &mut Self {
        self.shown(name, |line| {
            let _ = write!(line, "{number:#x}");
        })
    }

    fn named(&mut self, name: &'static str, names: &Names, number: u32) -> &mut Self {
        self.shown(name, |line| names.put(line, number))
    }

    fn id(&mut self, number: u32) -> &mut Self {
        self.shown("id", |line| object(line, "id", number))
    }

    fn channel(&mut self, fd: c_int) -> &mut Self {
        self.shown("channel", |line| channel(line, fd))
    }

    fn address(&mut self, name: &'static str, bytes: &[u8]) -> &mut Self {
        self.shown(name, |line| address(line, &addresses::read(bytes).0))
    }

    fn made(&mut self, kind: &'static str, seen: &Seen, failed: bool, place: u64) -> &mut Self {
        self.shown(kind, |line| {
            if failed {
                return line.address(place as usize);
            }
            bracketed(line, |line| object(line, kind, stored::<layout::Created>(seen, place).id));
        })
    }
}

fn connection(line: &mut Line, from: &layout::ConnParam) {
    let _ = write!(
        line,
        "{{private_data_len={}, responder_resources={}, initiator_depth={}, flow_control={}, retry_count={}, \
         rnr_retry_count={}, srq={}, qp_num={:#x}}}",
        from.private_data_len,
        from.responder_resources,
        from.initiator_depth,
        from.flow_control,
        from.retry_count,
        from.rnr_retry_count,
        from.srq,
        from.qp_num
    );
}

/// The arguments; once the command is over, with what it has set.
pub fn show(seen: &Seen, failed: Option<i32>, line: &mut Line) {
    let failed = failed.is_some();
    let mut to = Arguments { line };
    match seen.header.command {
        _ if seen.header == layout::Header::new_zeroed() => unknown(seen, &mut to),
        0 => {
            let from = part::<layout::CreateId>(seen);
            to.channel(seen.channel).made("id", seen, failed, from.response).hex("uid", from.uid);
            to.shown("ps", |line| words::port_space(line, from.ps));
            to.named("qp_type", &words::QP_TYPE, from.qp_type.into());
        }
        1 => _ = to.id(part::<layout::DestroyId>(seen).id),
        2 => {
            let from = part::<layout::BindIp>(seen);
            to.id(from.id).address("addr", from.address.as_bytes());
        }
        20 => {
            let from = part::<layout::Bind>(seen);
            to.id(from.id).address("addr", from.address.as_bytes());
        }
        3 => {
            let from = part::<layout::ResolveIp>(seen);
            to.id(from.id).address("src_addr", from.source.as_bytes());
            to.address("dst_addr", from.destination.as_bytes()).number("timeout_ms", from.timeout_ms);
        }
        21 => {
            let from = part::<layout::ResolveAddr>(seen);
            to.id(from.id).address("src_addr", from.source.as_bytes());
            to.address("dst_addr", from.destination.as_bytes()).number("timeout_ms", from.timeout_ms);
        }
        4 => {
            let from = part::<layout::ResolveRoute>(seen);
            to.id(from.id).number("timeout_ms", from.timeout_ms);
        }
        5 | 19 => _ = to.id(part::<layout::Query>(seen).id),
        6 => {
            let from = part::<layout::Connect>(seen);
            to.id(from.id).shown("conn_param", |line| connection(line, &from.param));
        }
        7 => {
            let from = part::<layout::Listen>(seen);
            to.id(from.id).number("backlog", from.backlog.cast_signed());
        }
        8 => {
            let from = part::<layout::Accept>(seen);
            to.id(from.id).shown("conn_param", |line| match from.param.valid {
                0 => line.put("NULL"),
                _ => connection(line, &from.param),
            });
        }
        9 => {
            let from = part::<layout::Reject>(seen);
            to.id(from.id).number("private_data_len", from.private_data_len).number("reason", from.reason);
        }
        10 => _ = to.id(part::<layout::Disconnect>(seen).id),
        _ => others(seen, failed, &mut to),
    }
}

fn others(seen: &Seen, failed: bool, to: &mut Arguments<'_>) {
    match seen.header.command {
        11 => {
            let from = part::<layout::InitQpAttr>(seen);
            to.id(from.id).named("qp_state", &words::QP_STATE, from.qp_state);
        }
        12 => {
            let place = part::<layout::GetEvent>(seen).response;
            to.channel(seen.channel).shown("event", |line| match failed {
                true => line.address(place as usize),
                false => bracketed(line, |line| event(line, &stored(seen, place))),
            });
        }
        14 => {
            let from = part::<layout::SetOption>(seen);
            to.id(from.id).named("level", &words::LEVEL, from.level);
            match from.level {
                0 => to.named("optname", &words::OPTION_ID, from.optname),
                1 => to.named("optname", &words::OPTION_IB, from.optname),
                _ => to.number("optname", from.optname),
            };
            to.shown("optval", |line| option(line, from.optval, from.optlen));
            to.number("optlen", from.optlen);
        }
        15 => {
            let from = part::<layout::Notify>(seen);
            to.id(from.id).named("event", &words::ASYNC, from.event);
        }
        16 => {
            let from = part::<layout::JoinIp>(seen);
            to.id(from.id).address("addr", from.address.as_bytes());
            to.made("mc", seen, failed, from.response);
        }
        22 => {
            let from = part::<layout::Join>(seen);
            to.id(from.id).address("addr", from.address.as_bytes());
            to.named("join_flags", &words::JOIN, from.join_flags.into());
            to.made("mc", seen, failed, from.response);
        }
        17 => _ = to.shown("mc", |line| object(line, "mc", part::<layout::DestroyId>(seen).id)),
        18 => {
            let from = part::<layout::Migrate>(seen);
            to.id(from.id).channel(seen.channel);
            to.shown("from", |line| channel(line, from.fd.cast_signed()));
        }
        23 => {
            let from = part::<layout::ResolveIbService>(seen);
            to.id(from.id).hex("service_id", from.service_id);
            to.shown("name", |line| line.foreign(&from.name)).hex("flags", from.flags.into());
        }
        24 => {
            let from = part::<layout::WriteEvent>(seen);
            to.id(from.id).named("event", &words::EVENT, from.event);
            to.shown("status", |line| words::status(line, from.event, from.status));
            to.hex("arg", from.argument);
        }
        _ => unknown(seen, to),
    }
}

/// What is no command.
fn unknown(seen: &Seen, to: &mut Arguments<'_>) {
    let layout::Header { command, input, output } = seen.header;
    to.channel(seen.channel).number("command", command).number("in", input).number("out", output);
    to.number("length", seen.length);
}

/// The value of an option that is a number.
fn option(line: &mut Line, place: u64, length: u32) {
    let mut bytes = [0; 4];
    let number = match length {
        1 | 4 if memory::read(place, &mut bytes[..length as usize]).is_ok() => u32::from_ne_bytes(bytes),
        _ => return line.address(place as usize),
    };
    let _ = write!(line, "[{number}]");
}

fn event(line: &mut Line, from: &layout::Event) {
    // Of multicast groups the number is the join's.
    let kind = if matches!(from.event, 12 | 13) { "mc" } else { "id" };
    line.put("{event=");
    words::EVENT.put(line, from.event);
    let _ = write!(line, ", {kind}=");
    object(line, kind, from.id);
    line.put(", status=");
    words::status(line, from.event, from.status);
    let Ok((param, _)) = layout::ConnParam::read_from_prefix(&from.param) else { return line.put("}") };
    if param.qkey != 0 {
        let _ = write!(line, ", param={{qp_num={:#x}, qkey={:#x}}}", param.qp_num, param.qkey);
    } else if param.qp_num != 0 {
        // Events of connections have no queue key, those of datagrams with a queue pair have one.
        let _ = write!(
            line,
            ", param={{responder_resources={}, initiator_depth={}, retry_count={}, rnr_retry_count={}, srq={}, \
             qp_num={:#x}}}",
            param.responder_resources,
            param.initiator_depth,
            param.retry_count,
            param.rnr_retry_count,
            param.srq,
            param.qp_num
        );
    }
    line.put("}");
}

/// What stands behind the 0 of a command that succeeded.
pub fn answer(seen: &Seen, line: &mut Line) {
    match seen.header.command {
        5 => {
            let route: layout::QueryRoute = stored(seen, part::<layout::Query>(seen).response);
            line.put(" {src_addr=");
            address(line, &addresses::read(route.source.as_bytes()).0);
            line.put(", dst_addr=");
            address(line, &addresses::read(route.destination.as_bytes()).0);
            let _ = write!(line, ", num_paths={}, port_num={}}}", route.num_paths, route.port_num);
        }
        11 => {
            let attr: layout::QpAttr = stored(seen, part::<layout::InitQpAttr>(seen).response);
            let _ = write!(line, " {{qp_attr_mask={:#x}", attr.qp_attr_mask);
            if attr.dest_qp_num != 0 {
                let _ = write!(line, ", dest_qp_num={:#x}", attr.dest_qp_num);
            }
            line.put("}");
        }
        19 => query(seen, line),
        1 | 17 | 18 => {
            // All of them begin with the answer's place.
            let place = part::<layout::DestroyId>(seen).response;
            let reported: layout::Reported = stored(seen, place);
            let _ = write!(line, " {{events_reported={}}}", reported.events_reported);
        }
        _ => {}
    }
}

fn query(seen: &Seen, line: &mut Line) {
    let from = part::<layout::Query>(seen);
    if matches!(from.option, 1 | 3) {
        let records: layout::Records = stored(seen, from.response);
        let _ = write!(line, " {{count={}}}", records.count);
        return;
    }
    let found: layout::QueryAddr = stored(seen, from.response);
    line.put(" {src_addr=");
    address(line, &addresses::read(found.source.as_bytes()).0);
    line.put(", dst_addr=");
    address(line, &addresses::read(found.destination.as_bytes()).0);
    let _ = write!(line, ", port_num={}, pkey={:#x}}}", found.port_num, found.pkey.get());
}

#[cfg(test)]
pub mod tests;
