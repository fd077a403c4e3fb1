//! The calls of the data path: what the words of their records say.

use ironverbs::abi::verbs::*;
use ironverbs::api::strings::wc_status;
use ironverbs::observe::data::context::{OPS_WORDS, RECV_WORDS, SEND_WORDS, UNSEEN};
use ironverbs::observe::names::{self, Names};
use ironverbs_trace::record::data;

use super::event::{Event, Objects, Value};

/// Words of a completion, and of what stands before the first.
const COMPLETION: usize = 6;
const BEFORE_COMPLETIONS: usize = 3;
/// What stands before the first request.
const BEFORE_REQUESTS: usize = 1;
/// Of a list no more are kept, however many parts its records have.
const MOST_WORDS: usize = 1 << 20;

type Fields = Vec<(&'static str, Value)>;

fn low(word: u64) -> u64 {
    word & 0xffff_ffff
}

fn high(word: u64) -> u64 {
    word >> 32
}

fn hex(word: u64) -> Value {
    Value::Text(format!("{word:#x}"))
}

fn flags(names: &Names, word: u64) -> Value {
    let mut text = String::new();
    let _ = names.flags(&mut text, word);
    Value::Text(text)
}

fn named(names: &Names, value: u64) -> Value {
    let mut text = String::new();
    let _ = names.value(&mut text, value);
    Value::Text(text)
}

fn is_poll(call: u16) -> bool {
    [data::POLL_CQ, data::START_POLL, data::NEXT_POLL].contains(&call)
}

/// The words of a record whose earlier parts are there.
pub fn whole(call: u16, mut earlier: Vec<u64>, words: Vec<u64>) -> Vec<u64> {
    if earlier.is_empty() {
        return words;
    }
    let before = if is_poll(call) { BEFORE_COMPLETIONS } else { BEFORE_REQUESTS };
    let head = words.get(..before).unwrap_or_default();
    for (place, word) in earlier.iter_mut().zip(head) {
        *place = *word;
    }
    let room = MOST_WORDS.saturating_sub(earlier.len());
    earlier.extend(words.into_iter().skip(before).take(room));
    earlier
}

/// What a call answered.
pub fn answer(call: u16, answer: i64) -> String {
    let nothing = data::END_POLL == call
        || (data::WR_START..=data::WR_SET_SGE_LIST).contains(&call) && call != data::WR_COMPLETE;
    if nothing { "void".to_owned() } else { answer.to_string() }
}

/// Words one after another; 0 where there is none.
struct Words<'a>(std::slice::Iter<'a, u64>);

impl Words<'_> {
    fn next(&mut self) -> u64 {
        self.0.next().copied().unwrap_or(0)
    }

    fn left(&self) -> usize {
        self.0.len()
    }
}

/// The arguments of a data call.
pub fn arguments(call: u16, words: &[u64], objects: &mut Objects, event: &mut Event) {
    let mut words = Words(words.iter());
    let fields = match call {
        data::POLL_CQ | data::START_POLL | data::NEXT_POLL => poll(call, &mut words, objects, event),
        data::REQ_NOTIFY_CQ => vec![
            ("cq", Value::Text(objects.name("cq", words.next()))),
            ("solicited_only", Value::Number(low(words.next()))),
        ],
        data::END_POLL => vec![("cq", Value::Text(objects.name("cq", words.next())))],
        data::POST_SEND => sends(&mut words, objects, event),
        data::POST_RECV | data::POST_SRQ_RECV | data::POST_WQ_RECV => receives(call, &mut words, objects),
        data::POST_SRQ_OPS => operations(&mut words, objects),
        data::MEMCPY_TO_DM | data::MEMCPY_FROM_DM => vec![
            ("dm", Value::Text(objects.name("dm", words.next()))),
            ("dm_offset", Value::Number(words.next())),
            ("host_addr", hex(words.next())),
            ("length", Value::Number(words.next())),
        ],
        _ => build(call, &mut words, objects, event),
    };
    event.arguments.extend(fields.into_iter().map(|(name, value)| (name.to_owned(), value)));
}

fn poll(call: u16, words: &mut Words<'_>, objects: &mut Objects, event: &mut Event) -> Fields {
    let (cq, entries, empty) = (words.next(), words.next(), words.next());
    let mut fields = vec![("cq", Value::Text(objects.name("cq", cq)))];
    if empty > 0 {
        (event.count, event.is_empty_poll, event.failed) = (empty, true, None);
        return fields;
    }
    if call == data::POLL_CQ {
        fields.push(("num_entries", Value::Number(low(entries))));
    }
    let mut completions = Vec::new();
    while words.left() >= COMPLETION {
        completions.push(Value::Struct(completion(words)));
    }
    if !completions.is_empty() {
        fields.push(("wc", Value::List(completions)));
    }
    fields
}

fn completion(words: &mut Words<'_>) -> Fields {
    let wr_id = words.next();
    let (status, sizes, numbers, peer) = (words.next(), words.next(), words.next(), words.next());
    let rest = words.next();
    let mut fields = vec![
        ("wr_id", Value::Number(wr_id)),
        ("status", Value::Text(wc_status(low(status) as u32).to_string_lossy().into_owned())),
    ];
    if low(status) != IBV_WC_SUCCESS as u64 {
        // Nothing else is valid then.
        fields.extend([("vendor_err", hex(low(sizes))), ("qp_num", hex(high(numbers)))]);
        return fields;
    }
    let opcode = high(status);
    fields.push(("opcode", named(&names::WC_OPCODE, opcode)));
    if opcode & IBV_WC_RECV as u64 != 0 || opcode == IBV_WC_RDMA_READ as u64 {
        fields.push(("byte_len", Value::Number(high(sizes))));
    }
    let wc_flags = high(peer);
    if wc_flags & IBV_WC_WITH_IMM as u64 != 0 {
        fields.push(("imm_data", hex(u32::from_be(low(numbers) as u32).into())));
    } else if wc_flags & IBV_WC_WITH_INV as u64 != 0 {
        fields.push(("invalidated_rkey", hex(low(numbers))));
    }
    fields.push(("qp_num", hex(high(numbers))));
    if wc_flags & IBV_WC_GRH as u64 != 0 || low(peer) != 0 {
        fields.push(("src_qp", hex(low(peer))));
    }
    if wc_flags != 0 {
        fields.push(("wc_flags", flags(&names::WC_FLAGS, wc_flags)));
    }
    let slid = rest >> 16 & 0xffff;
    if slid != 0 {
        fields.push(("slid", Value::Number(slid)));
    }
    fields
}

/// The scatter/gather elements of a request, or how many it says that it has; and how many bytes they are.
fn request_elements(words: &mut Words<'_>, count: u64) -> ((&'static str, Value), u64) {
    if count & u64::from(UNSEEN) != 0 {
        let asked = (count as u32) << 1;
        return (("num_sge", Value::Text((asked as i32 >> 1).to_string())), 0);
    }
    let (list, bytes) = elements(words, count);
    (("sg_list", list), bytes)
}

/// A list of scatter/gather elements, and how many bytes they are.
fn elements(words: &mut Words<'_>, count: u64) -> (Value, u64) {
    let mut bytes = 0;
    let mut list = Vec::new();
    for _ in 0..count {
        if words.left() < 2 {
            break;
        }
        let (addr, rest) = (words.next(), words.next());
        bytes += low(rest);
        list.push(Value::Struct(vec![
            ("addr", hex(addr)),
            ("length", Value::Number(low(rest))),
            ("lkey", hex(high(rest))),
        ]));
    }
    (Value::List(list), bytes)
}

fn sends(words: &mut Words<'_>, objects: &mut Objects, event: &mut Event) -> Fields {
    let queue = words.next();
    let mut list = Vec::new();
    while words.left() >= SEND_WORDS {
        let (request, bytes) = send(words, high(queue), objects);
        list.push(Value::Struct(request));
        event.bytes += bytes;
    }
    vec![("qp", hex(low(queue))), ("wr", Value::List(list))]
}

fn send(words: &mut Words<'_>, qp_type: u64, objects: &mut Objects) -> (Fields, u64) {
    let (wr_id, operation, rest) = (words.next(), words.next(), words.next());
    let of: [u64; 4] = std::array::from_fn(|_| words.next());
    let (xrc, more) = (words.next(), words.next());
    let opcode = low(operation);
    let is = |operations: &[ibv_wr_opcode]| operations.iter().any(|known| *known as u64 == opcode);
    let mut fields = vec![("wr_id", Value::Number(wr_id)), ("opcode", named(&names::WR_OPCODE, opcode))];
    if high(operation) != 0 {
        fields.push(("send_flags", flags(&names::SEND_FLAGS, high(operation))));
    }
    if is(&[IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE_WITH_IMM]) {
        fields.push(("imm_data", hex(u32::from_be(low(rest) as u32).into())));
    }
    if is(&[IBV_WR_SEND_WITH_INV, IBV_WR_LOCAL_INV]) {
        fields.push(("invalidate_rkey", hex(low(rest))));
    }
    if is(&[
        IBV_WR_RDMA_WRITE,
        IBV_WR_RDMA_WRITE_WITH_IMM,
        IBV_WR_RDMA_READ,
        IBV_WR_ATOMIC_WRITE,
        IBV_WR_FLUSH,
    ]) {
        fields.extend([("remote_addr", hex(of[0])), ("rkey", hex(low(of[1])))]);
    } else if is(&[IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD]) {
        fields.extend([("remote_addr", hex(of[0])), ("rkey", hex(low(of[3]))), ("compare_add", hex(of[1]))]);
        if is(&[IBV_WR_ATOMIC_CMP_AND_SWP]) {
            fields.push(("swap", hex(of[2])));
        }
    } else if is(&[IBV_WR_BIND_MW]) {
        fields.extend([
            ("mw", Value::Text(objects.name("mw", of[0]))),
            ("rkey", hex(low(of[1]))),
            ("mr", Value::Text(objects.name("mr", more))),
            ("addr", hex(of[2])),
            ("length", Value::Number(of[3])),
            ("mw_access_flags", flags(&names::ACCESS, low(xrc))),
        ]);
    } else if qp_type == IBV_QPT_UD as u64 {
        fields.extend([
            ("ah", Value::Text(objects.name("ah", of[0]))),
            ("remote_qpn", hex(low(of[1]))),
            ("remote_qkey", hex(high(of[1]))),
        ]);
    }
    if qp_type == IBV_QPT_XRC_SEND as u64 && !is(&[IBV_WR_BIND_MW]) {
        fields.push(("remote_srqn", hex(low(xrc))));
    }
    if is(&[IBV_WR_TSO]) {
        fields
            .extend([("hdr_sz", Value::Number(more & 0xffff)), ("mss", Value::Number(more >> 16 & 0xffff))]);
    }
    let (list, bytes) = request_elements(words, high(rest));
    fields.push(list);
    (fields, bytes)
}

fn receives(call: u16, words: &mut Words<'_>, objects: &mut Objects) -> Fields {
    let queue = words.next();
    let mut list = Vec::new();
    while words.left() >= RECV_WORDS {
        let (wr_id, count) = (words.next(), low(words.next()));
        let (elements, _) = request_elements(words, count);
        list.push(Value::Struct(vec![("wr_id", Value::Number(wr_id)), elements]));
    }
    let named = match call {
        data::POST_RECV => ("qp", hex(queue)),
        data::POST_SRQ_RECV => ("srq", Value::Text(objects.name("srq", queue))),
        _ => ("wq", Value::Text(objects.name("wq", queue))),
    };
    vec![named, ("wr", Value::List(list))]
}

fn operations(words: &mut Words<'_>, objects: &mut Objects) -> Fields {
    let queue = words.next();
    let mut list = Vec::new();
    while words.left() >= OPS_WORDS {
        let (wr_id, operation, handle) = (words.next(), words.next(), words.next());
        let (recv_wr_id, tag, mask) = (words.next(), words.next(), words.next());
        let mut fields = vec![
            ("wr_id", Value::Number(wr_id)),
            ("opcode", named(&names::OPS_OPCODE, low(operation))),
            ("flags", flags(&names::OPS_FLAGS, high(operation))),
        ];
        if low(operation) == IBV_WR_TAG_ADD as u64 {
            fields.extend([
                ("recv_wr_id", Value::Number(recv_wr_id)),
                ("tag", hex(tag)),
                ("mask", hex(mask)),
            ]);
        } else if low(operation) == IBV_WR_TAG_DEL as u64 {
            fields.push(("handle", Value::Number(low(handle))));
        }
        list.push(Value::Struct(fields));
    }
    vec![("srq", Value::Text(objects.name("srq", queue))), ("op", Value::List(list))]
}

/// Calls that build a request: the queue pair, what the program has set for the request, and the arguments.
fn build(call: u16, words: &mut Words<'_>, objects: &mut Objects, event: &mut Event) -> Fields {
    let (queue, wr_id) = (words.next(), words.next());
    let mut fields = vec![("qp", hex(low(queue)))];
    if (data::WR_ATOMIC_CMP_SWP..=data::WR_FLUSH).contains(&call) {
        fields.push(("wr_id", Value::Number(wr_id)));
        if high(queue) != 0 {
            fields.push(("wr_flags", flags(&names::SEND_FLAGS, high(queue))));
        }
    }
    let mut remote = |words: &mut Words<'_>| {
        let rkey = words.next();
        fields.extend([("rkey", hex(rkey)), ("remote_addr", hex(words.next()))]);
    };
    match call {
        data::WR_ATOMIC_CMP_SWP => {
            remote(words);
            fields.extend([("compare", hex(words.next())), ("swap", hex(words.next()))]);
        }
        data::WR_ATOMIC_FETCH_ADD => {
            remote(words);
            fields.push(("add", hex(words.next())));
        }
        data::WR_RDMA_READ | data::WR_RDMA_WRITE => remote(words),
        data::WR_ATOMIC_WRITE => {
            remote(words);
            fields.push(("atomic_wr", hex(words.next())));
        }
        data::WR_RDMA_WRITE_IMM => {
            remote(words);
            fields.push(("imm_data", hex(u32::from_be(words.next() as u32).into())));
        }
        data::WR_FLUSH => {
            remote(words);
            fields.extend([
                ("len", Value::Number(words.next())),
                ("type", Value::Number(words.next())),
                ("level", Value::Number(words.next())),
            ]);
        }
        data::WR_BIND_MW => fields.extend([
            ("mw", Value::Text(objects.name("mw", words.next()))),
            ("rkey", hex(words.next())),
            ("bind_info", hex(words.next())),
        ]),
        data::WR_SEND_IMM => fields.push(("imm_data", hex(u32::from_be(words.next() as u32).into()))),
        data::WR_LOCAL_INV | data::WR_SEND_INV => fields.push(("invalidate_rkey", hex(words.next()))),
        data::WR_SEND_TSO => fields.extend([
            ("hdr", hex(words.next())),
            ("hdr_sz", Value::Number(words.next())),
            ("mss", Value::Number(words.next())),
        ]),
        data::WR_SET_UD_ADDR => fields.extend([
            ("ah", Value::Text(objects.name("ah", words.next()))),
            ("remote_qpn", hex(words.next())),
            ("remote_qkey", hex(words.next())),
        ]),
        data::WR_SET_XRC_SRQN => fields.push(("remote_srqn", hex(words.next()))),
        data::WR_SET_INLINE_DATA => {
            fields.push(("addr", hex(words.next())));
            event.bytes = words.next();
            fields.push(("length", Value::Number(event.bytes)));
        }
        data::WR_SET_SGE => {
            fields.extend([("lkey", hex(words.next())), ("addr", hex(words.next()))]);
            event.bytes = words.next();
            fields.push(("length", Value::Number(event.bytes)));
        }
        data::WR_SET_SGE_LIST | data::WR_SET_INLINE_DATA_LIST => {
            let (count, _) = (words.next(), words.next());
            let list = if call == data::WR_SET_SGE_LIST {
                let (list, bytes) = elements(words, count);
                event.bytes = bytes;
                list
            } else {
                buffers(words, event)
            };
            fields.push((if call == data::WR_SET_SGE_LIST { "sg_list" } else { "buf_list" }, list));
        }
        _ => {}
    }
    fields
}

fn buffers(words: &mut Words<'_>, event: &mut Event) -> Value {
    let mut list = Vec::new();
    while words.left() >= 2 {
        let (addr, length) = (words.next(), words.next());
        event.bytes = event.bytes.saturating_add(length);
        list.push(Value::Struct(vec![("addr", hex(addr)), ("length", Value::Number(length))]));
    }
    Value::List(list)
}
