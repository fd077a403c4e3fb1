//! What control verbs do to the ledger, and rules at them.

use core::ffi::c_int;

use super::objects::{Cq, Detail, Events, Ledger, Object, Range, Region};
use super::place::Place;
use super::queue_pair::{QueuePair, Seen};
use super::report::Findings;
use super::report::is_noted;
use super::rules::Id;
use super::{completions, forks, gids, paths, posts, thread};
use crate::abi::driver::mr_init_mask;
use crate::abi::verbs::*;
use crate::event_subject::{Subject, subject};

/// A call of a verb: its name, and its arguments as words.
pub struct Call<'a> {
    /// The verb.
    pub verb: &'static str,
    /// Name and word of each argument.
    pub arguments: &'a [(&'static str, u64)],
}

impl Call<'_> {
    /// The argument of that name.
    fn word(&self, name: &str) -> u64 {
        self.arguments.iter().find(|(other, _)| *other == name).map_or(0, |(_, word)| *word)
    }

    /// What an argument points to.
    ///
    /// # Safety
    /// It is null, or points to such a value.
    unsafe fn at<T>(&self, name: &str) -> Option<&T> {
        // SAFETY: by the contract.
        unsafe { (self.word(name) as *const T).as_ref() }
    }

    fn first(&self) -> u64 {
        self.arguments.first().map_or(0, |(_, word)| *word)
    }
}

/// What a verb makes.
fn made_by(verb: &str) -> Option<&'static str> {
    Some(match verb {
        "ibv_alloc_pd" | "ibv_alloc_parent_domain" | "ibv_import_pd" => "pd",
        "ibv_alloc_td" => "td",
        "ibv_open_xrcd" => "xrcd",
        "ibv_reg_mr" | "ibv_reg_mr_iova" | "ibv_reg_mr_iova2" | "ibv_reg_mr_ex" | "ibv_reg_buf_mr"
        | "ibv_reg_dmabuf_mr" | "ibv_reg_dm_mr" | "ibv_alloc_null_mr" | "ibv_import_mr" => "mr",
        "ibv_alloc_mw" => "mw",
        "ibv_alloc_dm" => "dm",
        "ibv_create_comp_channel" => "channel",
        "ibv_create_cq" | "ibv_create_cq_ex" => "cq",
        "ibv_create_srq" | "ibv_create_srq_ex" => "srq",
        "ibv_create_qp" | "ibv_create_qp_ex" | "ibv_open_qp" => "qp",
        "ibv_create_ah" | "ibv_create_ah_from_wc" => "ah",
        "ibv_create_wq" => "wq",
        "ibv_create_rwq_ind_table" => "indirection table",
        "ibv_create_flow" => "flow",
        "ibv_open_device" | "verbs_open_device" | "ibv_import_device" => "context",
        _ => return None,
    })
}

/// Whether a verb makes an end of its first argument.
fn ends_an_object(verb: &str) -> bool {
    const ENDS: [&str; 6] = ["destroy_", "dealloc_", "close_", "dereg_", "free_", "unimport_"];
    verb.strip_prefix("ibv_").is_some_and(|verb| ENDS.iter().any(|end| verb.starts_with(end)))
}

/// Before a verb.
pub fn begins(ledger: &mut Ledger, found: &mut Findings, call: &Call<'_>) {
    match call.verb {
        "ibv_modify_qp" => {
            let mask = call.word("attr_mask");
            if mask & IBV_QP_STATE as u64 != 0
                && let Some(qp) = ledger.qp(call.first())
            {
                // A peer may answer before the call returns.
                qp.state = None;
            }
        }
        verb if ends_an_object(verb) => {
            let address = call.first();
            match verb {
                "ibv_destroy_cq" | "ibv_destroy_srq" => unacknowledged(ledger, found, address),
                "ibv_destroy_qp" => {
                    unacknowledged(ledger, found, address);
                    unread(ledger, found, address);
                }
                "ibv_dereg_mr" => in_use(ledger, found, address),
                "ibv_close_device" => super::leaks::left_in(ledger, found, address),
                _ => {}
            }
            ledger.put_aside(address);
        }
        _ => {}
    }
}

/// The call that destroys an object waits until its events are acknowledged.
fn unacknowledged(ledger: &mut Ledger, found: &mut Findings, address: u64) {
    let Some(object) = ledger.objects.get(address) else { return };
    let completions = match &object.detail {
        Detail::Cq(cq) => cq.events,
        _ => Events::default(),
    };
    for (events, kind) in [(completions, "completion"), (object.events, "asynchronous")] {
        if events.open == 0 {
            continue;
        }
        let what = format!("{} {kind} events are not acknowledged", events.open);
        if events.taker == thread() {
            found.error(Id::EventUnacknowledged, what, object.about());
        } else {
            found.note(Id::EventUnacknowledged, || what, object.about());
        }
    }
}

/// Completions that nobody has polled.
fn unread(ledger: &mut Ledger, found: &mut Findings, address: u64) {
    let Some(object) = ledger.objects.get(address) else { return };
    if let Detail::Qp(qp) = &object.detail
        && qp.signaled > 0
    {
        let what = || format!("completions of {} signaled sends were not polled", qp.signaled);
        found.note(Id::CompletionsUnread, what, object.about());
    }
}

/// Requests that name a region whose registration ends.
fn in_use(ledger: &mut Ledger, found: &mut Findings, address: u64) {
    let Some(object) = ledger.objects.get(address) else { return };
    let Detail::Region(region) = &object.detail else { return };
    if !super::report::is_noted() || region.lkey == 0 {
        return;
    }
    let holder = ledger.objects.values().find_map(|other| match &other.detail {
        Detail::Qp(qp) if other.context == object.context && qp.state == Some(IBV_QPS_RTS as u32) => {
            let names = |request: &&super::queue_pair::Request| {
                request.is_signaled && request.keys.contains(&region.lkey)
            };
            qp.sends.iter().find(names).map(|request| (qp.number, request.wr_id))
        }
        _ => None,
    });
    if let Some((number, wr_id)) = holder {
        let what = || format!("request {wr_id} of queue pair {number:#x} names the region");
        found.note(Id::RegionInUse, what, object.about());
    }
}

/// What was looked up for a verb that has ended, before the lock was taken.
#[derive(Default)]
pub struct Facts {
    /// Where it was called, if it has made something.
    pub here: Place,
    /// The GIDs of the device, where it names one.
    pub gids: Vec<ibv_gid_entry>,
    /// Whether a fork would take what it has registered from the device.
    pub is_at_risk: bool,
}

impl Facts {
    /// Looks up what the rules need of a verb that has ended.
    ///
    /// # Safety
    /// As for [`ended`].
    pub unsafe fn of(call: &Call<'_>, made: u64) -> Self {
        let mut facts = Self::default();
        if made != 0 {
            facts.here = Place::here();
        }
        // SAFETY: by the contract; what was made, and what arguments name, has its context in front.
        unsafe {
            match made_by(call.verb) {
                Some("mr") if made != 0 => {
                    facts.is_at_risk = forks::is_at_risk((*(made as *const ibv_mr)).context);
                }
                Some("ah") if made != 0 && is_noted() => {
                    facts.gids = gids::of((*(made as *const ibv_ah)).context);
                }
                _ => {}
            }
            if call.verb == "ibv_modify_qp"
                && call.word("attr_mask") & IBV_QP_AV as u64 != 0
                && let Some(qp) = call.at::<ibv_qp>("qp")
            {
                facts.gids = gids::of(qp.context);
            }
        }
        facts
    }
}

/// After a verb. `made` is the address of what it made, or 0.
///
/// # Safety
/// Name and arguments of a verb that the program called, and its answer.
pub unsafe fn ended(
    ledger: &mut Ledger,
    found: &mut Findings,
    call: &Call<'_>,
    made: u64,
    failed: bool,
    facts: &Facts,
) {
    if ends_an_object(call.verb) {
        return ledger.settle(call.first(), !failed);
    }
    // SAFETY: by the contract arguments point to what their verb says, for these matches.
    unsafe {
        match call.verb {
            "ibv_modify_qp" => modified(ledger, found, call, failed, &facts.gids),
            _ if failed => {}
            "ibv_fork_init" => forks::protect(),
            "ibv_query_qp" => queried(ledger, call),
            "ibv_rereg_mr" => registered_again(ledger, call),
            "ibv_resize_cq" => {
                let entries = call.at::<ibv_cq>("cq").map_or(0, |cq| cq.cqe as u32);
                if let Some(cq) = ledger.cq(call.first()) {
                    cq.entries = entries;
                }
            }
            "ibv_bind_mw" => {
                if let Some(bind) = call.at::<ibv_mw_bind>("bind") {
                    posts::bind(ledger, found, bind.bind_info.mr as u64, bind.bind_info.length);
                    posts::bound(ledger, found, call.first(), bind.wr_id, bind.send_flags);
                }
            }
            "ibv_get_cq_event" => {
                let cq = call.at::<*mut ibv_cq>("cq").map_or(0, |cq| *cq as u64);
                if let Some(cq) = ledger.cq(cq) {
                    cq.events = Events { open: cq.events.open + 1, taker: thread() };
                }
            }
            "ibv_ack_cq_events" => {
                if let Some(cq) = ledger.cq(call.first()) {
                    cq.events.open = cq.events.open.saturating_sub(call.word("nevents"));
                }
            }
            "ibv_get_async_event" => {
                if let Some(event) = call.at::<ibv_async_event>("event") {
                    told(ledger, found, event);
                }
            }
            "ibv_ack_async_event" => {
                let object = call.at::<ibv_async_event>("event").map(|event| element(event));
                if let Some(object) = object.and_then(|address| ledger.objects.get_mut(address)) {
                    object.events.open = object.events.open.saturating_sub(1);
                }
            }
            verb => {
                if let Some(kind) = made_by(verb).filter(|_| made != 0) {
                    let object = of(ledger, call, kind, made, facts);
                    if let (Some(attr), "ah") = (call.at::<ibv_ah_attr>("attr"), kind) {
                        paths::judge_gid(found, &object, attr, &facts.gids);
                    }
                    ledger.add(made, object);
                }
            }
        }
    }
}

/// The object that an event names; 0 for none.
///
/// # Safety
/// An event that a verb has given.
unsafe fn element(event: &ibv_async_event) -> u64 {
    // SAFETY: by the contract its type says which member it has.
    unsafe {
        match subject(event.event_type) {
            Subject::Cq => event.element.cq as u64,
            Subject::Qp => event.element.qp as u64,
            Subject::Srq => event.element.srq as u64,
            Subject::Wq | Subject::Port => 0,
        }
    }
}

/// The program has taken an asynchronous event.
///
/// # Safety
/// As for [`element`].
unsafe fn told(ledger: &mut Ledger, found: &mut Findings, event: &ibv_async_event) {
    // SAFETY: by the contract.
    let address = unsafe { element(event) };
    let Some(object) = ledger.objects.get_mut(address) else { return };
    object.events = Events { open: object.events.open + 1, taker: thread() };
    let may_overrun = matches!(&object.detail, Detail::Cq(cq) if cq.may_overrun);
    if event.event_type == IBV_EVENT_CQ_ERR as u32 && !may_overrun {
        found.error(Id::CqOverrun, "the device reports IBV_EVENT_CQ_ERR".to_owned(), object.about());
    }
}

/// What a verb has made.
///
/// # Safety
/// As for [`ended`].
unsafe fn of(ledger: &Ledger, call: &Call<'_>, kind: &'static str, made: u64, facts: &Facts) -> Object {
    let parent = |name: &str| match call.word(name) {
        0 => 0,
        address => ledger.objects.get(address).map_or(0, |object| object.context),
    };
    let context = match call.word("context") {
        0 => [parent("pd"), parent("channel"), parent("qp")].into_iter().find(|it| *it != 0).unwrap_or(0),
        context => context,
    };
    let mut object = Object::new(kind, context, call.verb, facts.here);
    // SAFETY: by the contract.
    unsafe {
        match kind {
            "pd" => domain(ledger, call, made, &mut object),
            "mr" => region(ledger, call, made, facts.is_at_risk, &mut object),
            "cq" => cq(call, made, &mut object),
            "srq" => {
                if let Some(srq) = (made as *const ibv_srq).as_ref() {
                    object.number = srq.handle.into();
                    object.context = srq.context as u64;
                    let pd = match call.word("pd") {
                        0 => call.at::<ibv_srq_init_attr_ex>("attr").map_or(0, |attr| attr.pd as u64),
                        pd => pd,
                    };
                    object.detail = Detail::Srq(if pd == 0 { 0 } else { ledger.domain(pd).0 });
                }
            }
            "qp" => queue_pair(ledger, call, made, &mut object),
            "context" => object.context = made,
            _ => {}
        }
    }
    object
}

unsafe fn domain(ledger: &Ledger, call: &Call<'_>, made: u64, object: &mut Object) {
    // SAFETY: by the contract of `of`.
    unsafe {
        object.number = (made as *const ibv_pd).as_ref().map_or(0, |pd| pd.handle.into());
        object.detail = match call.at::<ibv_parent_domain_init_attr>("attr") {
            Some(attr) => Detail::Domain(ledger.domain(attr.pd as u64).0, !attr.td.is_null()),
            None => Detail::Domain(made, false),
        };
    }
}

unsafe fn cq(call: &Call<'_>, made: u64, object: &mut Object) {
    // SAFETY: by the contract of `of`; an extended queue begins as a plain one does.
    let (made, attr) = unsafe {
        let Some(made) = (made as *const ibv_cq).as_ref() else { return };
        (made, call.at::<ibv_cq_init_attr_ex>("init_attr"))
    };
    object.number = made.handle.into();
    object.context = made.context as u64;
    let flags = attr
        .filter(|attr| attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS as u32 != 0)
        .map_or(0, |attr| attr.flags);
    let is_for_one = flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED as u32 != 0;
    if is_for_one {
        completions::made_for_one();
    }
    object.detail = Detail::Cq(Cq {
        entries: made.cqe as u32,
        may_overrun: flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN as u32 != 0,
        is_for_one,
        ..Cq::default()
    });
}

unsafe fn queue_pair(ledger: &Ledger, call: &Call<'_>, made: u64, object: &mut Object) {
    // SAFETY: by the contract of `of`; both structs of attributes begin alike.
    let (qp, attr) = unsafe {
        let Some(qp) = (made as *const ibv_qp).as_ref() else { return };
        let attr = match call.verb {
            "ibv_create_qp" => call.at::<ibv_qp_init_attr>("qp_init_attr"),
            "ibv_create_qp_ex" => call.at::<ibv_qp_init_attr>("attr"),
            _ => None,
        };
        (qp, attr)
    };
    object.number = qp.qp_num.into();
    object.context = qp.context as u64;
    // Another process may have made it, in whatever state.
    let Some(attr) = attr else { return };
    let mut detail = QueuePair::new(qp, &attr.cap, attr.sq_sig_all != 0);
    let (send_cq, recv_cq) = (attr.send_cq as u64, attr.recv_cq as u64);
    (detail.send_cq, detail.recv_cq, detail.srq) = (send_cq, recv_cq, attr.srq as u64);
    let pd = match call.verb {
        "ibv_create_qp" => call.word("pd"),
        // SAFETY: by the contract.
        _ => unsafe { call.at::<ibv_qp_init_attr_ex>("attr") }
            .filter(|attr| attr.comp_mask & IBV_QP_INIT_ATTR_PD as u32 != 0)
            .map_or(0, |attr| attr.pd as u64),
    };
    if pd != 0 {
        (detail.domain, detail.is_for_one) = ledger.domain(pd);
    }
    if let Ok(detail) = ironverbs_os::growth::try_box(detail) {
        object.detail = Detail::Qp(detail);
    }
}

/// Bytes that begin at an address of the process, which requests name from `first` on.
fn bytes(first: u64, length: u64, host: Option<u64>) -> Option<Range> {
    // A whole address space, whose parts come and go.
    (length < u64::MAX >> 1).then_some(Range {
        first,
        length,
        host: host.map(|host| host.wrapping_sub(first)),
    })
}

unsafe fn region(ledger: &Ledger, call: &Call<'_>, made: u64, is_at_risk: bool, object: &mut Object) {
    // SAFETY: by the contract of `of`.
    let Some(mr) = (unsafe { (made as *const ibv_mr).as_ref() }) else { return };
    object.number = mr.lkey.into();
    object.context = mr.context as u64;
    let (addr, length) = (call.word("addr"), call.word("length"));
    let (access, range) = match call.verb {
        "ibv_reg_mr" => {
            let access = call.word("access") as u32;
            let based = access & IBV_ACCESS_ZERO_BASED as u32 != 0;
            (Some(access), bytes(if based { 0 } else { addr }, length, Some(addr)))
        }
        "ibv_reg_mr_iova" | "ibv_reg_mr_iova2" => {
            (Some(call.word("access") as u32), bytes(call.word("iova"), length, Some(addr)))
        }
        "ibv_reg_dmabuf_mr" => (Some(call.word("access") as u32), bytes(call.word("iova"), length, None)),
        "ibv_reg_dm_mr" => (Some(call.word("access") as u32), None),
        // SAFETY: by the contract.
        "ibv_reg_mr_ex" => match unsafe { call.at::<ibv_mr_init_attr>("mr_init_attr") } {
            Some(attr) => {
                let has = |bit: u64| attr.comp_mask & bit != 0;
                let plain = has(mr_init_mask::ADDR) && !has(mr_init_mask::FD) && !has(mr_init_mask::BUF);
                let addr = attr.addr as u64;
                let first = if has(mr_init_mask::IOVA) { attr.iova } else { addr };
                let range = if plain { bytes(first, attr.length as u64, Some(addr)) } else { None };
                (Some(attr.access as u32), range)
            }
            None => (None, None),
        },
        _ => (None, None),
    };
    let domain = ledger.domain(call.word("pd")).0;
    let on_demand = access.is_some_and(|access| access & IBV_ACCESS_ON_DEMAND as u32 != 0);
    let is_at_risk = is_at_risk && !on_demand && range.is_some_and(|range| range.host.is_some());
    object.detail = Detail::Region(Region { lkey: mr.lkey, domain, access, range, is_at_risk });
}

unsafe fn registered_again(ledger: &mut Ledger, call: &Call<'_>) {
    // SAFETY: by the contract of `ended`.
    let Some(mr) = (unsafe { call.at::<ibv_mr>("mr") }) else { return };
    let flags = call.word("flags") as c_int;
    let has = |bit: ibv_rereg_mr_flags| flags & bit as c_int != 0;
    let domain = ledger.domain(call.word("pd")).0;
    let Some(mut object) = ledger.objects.remove(call.first()) else { return };
    if let Detail::Region(region) = &mut object.detail {
        region.lkey = mr.lkey;
        if has(IBV_REREG_MR_CHANGE_PD) {
            region.domain = domain;
        }
        if has(IBV_REREG_MR_CHANGE_ACCESS) {
            region.access = Some(call.word("access") as u32);
        }
        if has(IBV_REREG_MR_CHANGE_TRANSLATION) {
            let addr = call.word("addr");
            region.range = bytes(addr, call.word("length"), Some(addr));
        }
    }
    object.number = mr.lkey.into();
    ledger.add(call.first(), object);
}

/// The state, and all that a new connection begins with.
fn set_state(ledger: &mut Ledger, address: u64, state: u32) {
    let Some(qp) = ledger.qp(address) else { return };
    qp.state = Some(state);
    qp.seen = Seen::Nothing;
    if state == IBV_QPS_RTS as u32 {
        qp.reserve();
    }
    if state != IBV_QPS_RESET as u32 {
        return;
    }
    let (signaled, send_cq, recv_cq) = (qp.clear_sends(), qp.send_cq, qp.recv_cq);
    let receives = qp.receives.len() as u64;
    qp.receives.clear();
    // What was posted before is gone, on every thread.
    (qp.follows_sends, qp.follows_receives) = (true, true);
    (qp.path, qp.depth, qp.peers_depth) = (None, None, None);
    if let Some(cq) = ledger.cq(send_cq) {
        cq.sends = cq.sends.saturating_sub(signaled);
    }
    if let Some(cq) = ledger.cq(recv_cq) {
        cq.receives = cq.receives.saturating_sub(receives);
    }
}

unsafe fn modified(
    ledger: &mut Ledger,
    found: &mut Findings,
    call: &Call<'_>,
    failed: bool,
    gids: &[ibv_gid_entry],
) {
    let (address, mask) = (call.first(), call.word("attr_mask") as u32);
    // SAFETY: by the contract of `ended`.
    let (qp, attr) = unsafe { (call.at::<ibv_qp>("qp"), call.at::<ibv_qp_attr>("attr")) };
    let (Some(qp), Some(attr)) = (qp, attr) else { return };
    let has = |bit: ibv_qp_attr_mask| mask & bit as u32 != 0;
    if has(IBV_QP_STATE) {
        // The library has it in step with what the device said.
        if failed {
            if let Some(entry) = ledger.qp(address) {
                entry.state = Some(qp.state);
            }
        } else {
            set_state(ledger, address, attr.qp_state);
        }
    }
    if failed {
        return;
    }
    if let Some(entry) = ledger.qp(address) {
        entry.seen = Seen::Nothing;
        if has(IBV_QP_MAX_QP_RD_ATOMIC) {
            entry.depth = Some(attr.max_rd_atomic);
        }
        if has(IBV_QP_MAX_DEST_RD_ATOMIC) {
            entry.peers_depth = Some(attr.max_dest_rd_atomic);
        }
        let mut path = entry.path.unwrap_or_default();
        if has(IBV_QP_DEST_QPN) {
            path.number = attr.dest_qp_num;
        }
        if has(IBV_QP_AV) {
            path.gid = gids::bytes(&attr.ah_attr.grh.dgid);
            let own = gids::at(gids, attr.ah_attr.port_num, attr.ah_attr.grh.sgid_index);
            path.own =
                own.filter(|_| attr.ah_attr.is_global != 0).map_or([0; 16], |own| gids::bytes(&own.gid));
        }
        if has(IBV_QP_DEST_QPN) || has(IBV_QP_AV) {
            entry.path = Some(path);
        }
    }
    paths::judge(ledger, found, address, mask);
    if has(IBV_QP_AV)
        && let Some(object) = ledger.objects.get(address)
    {
        paths::judge_gid(found, object, &attr.ah_attr, gids);
    }
}

unsafe fn queried(ledger: &mut Ledger, call: &Call<'_>) {
    let (address, mask) = (call.first(), call.word("attr_mask") as u32);
    // SAFETY: by the contract of `ended`.
    let Some(attr) = (unsafe { call.at::<ibv_qp_attr>("attr") }) else { return };
    if let Some(qp) = ledger.qp(address) {
        // The program looks after it.
        qp.seen = Seen::Nothing;
        if mask & IBV_QP_STATE as u32 != 0 && qp.state.is_some() {
            qp.state = Some(attr.qp_state);
        }
    }
}
