//! Carrying a request out at its target, as the process that posted it.

use softrdma::queues::respond::{MoveError, Payload, Queues, Respond, Want};
use softrdma::queues::shared::Object;
use softrdma::queues::transaction::LockError;
use softrdma::queues::transaction::Progress;
use softrdma::rules::keys::{Key, Kind};
use softrdma::rules::receive::ReceiveRequest;
use softrdma::rules::request::{self, Operands, Request, Sender};
use softrdma::rules::requester::Outcome;
use softrdma::rules::responder::{GRH_BYTES, Incoming, RemoteAccess, TargetQp};
use softrdma::rules::verbs::{Access, Opcode, QpType, Status};

use crate::direct;
use crate::ledger::{End, word};
use crate::process::{Me, key, qp_num, state};
use crate::world::World;

/// Whom a request is for.
pub fn end_of(world: &World, me: Me, qp: u32, request: &Request) -> End {
    match request.datagram {
        Some(_) => world.ledger.borrow().sent[request.wr_id as usize].to,
        None => world.processes[me.0].configs[qp as usize].peer,
    }
}

/// The checks before a request leaves.
pub fn start(world: &World, from: End, request: &Request) -> Result<(), Status> {
    let qp_type = world.processes[from.0].configs[from.1 as usize].qp_type;
    let sender = Sender { qp_type, pd: 1, max_rd_atomic: 1, mtu: 1024 };
    request::start(&request.outline(), &sender, key)
}

/// Notes that a request is tried.
pub fn begin(world: &World, request: &Request) {
    world.ledger.borrow_mut().sent[request.wr_id as usize].begun = world.now.get();
}

/// Carries a request out at its target.
pub async fn execute(world: &World, me: Me, qp: u32, request: &Request) -> Outcome {
    begin(world, request);
    if let Err(status) = start(world, (me.0, qp), request) {
        return Outcome::Local(status);
    }
    let end = end_of(world, me, qp, request);
    if !world.alive(end.0) || world.is_gone(end) {
        return Outcome::NoAnswer;
    }
    let mut outcome = Outcome::NoAnswer;
    for _ in 0..3 {
        let known = queues_now(world, end);
        let known = *world.processes[me.0].routes.borrow_mut().entry((qp, end)).or_insert(known);
        if world.is_kept(end.0, end.1) {
            break;
        }
        world.acquire(me, end.0, Object::Qp(end.1)).await;
        if world.is_gone(end) {
            world.release(me, end.0, Object::Qp(end.1));
            break;
        }
        let takes = incoming(world, (me.0, qp), request).needs_receive();
        let is_settled = direct::is_settled(world, (me.0, qp), end, takes);
        if !is_settled {
            direct::enter(world, (me.0, qp), end).await;
        }
        match respond(world, me, qp, end, request, known).await {
            Ok(done) => {
                world.release(me, end.0, Object::Qp(end.1));
                if !is_settled {
                    direct::left(world, (me.0, qp));
                }
                outcome = done;
                break;
            }
            Err(why) => {
                world.abandon(me, end.0, Object::Qp(end.1));
                if why == LockError::Busy {
                    break;
                }
                world.outdated.set(world.outdated.get() + 1);
                world.processes[me.0].routes.borrow_mut().remove(&(qp, end));
            }
        }
    }
    if !matches!(outcome, Outcome::Done(_)) {
        world.note(me.0, "is told", || format!("{} {outcome:?}", request.wr_id));
    }
    outcome
}

/// A target's completion queue and shared receive queue, by how often they were resized.
pub fn queues_now(world: &World, end: End) -> [u32; 2] {
    let process = &world.processes[end.0];
    let config = &process.configs[end.1 as usize];
    let srq = config.srq.map_or(0, |srq| process.segment.generation(Object::Srq(srq)));
    [process.segment.generation(Object::Cq(config.recv_cq)), srq]
}

/// The target's queue pair, as its owner's memory says.
pub fn target(world: &World, end: End) -> TargetQp {
    let config = &world.processes[end.0].configs[end.1 as usize];
    TargetQp {
        qp_num: qp_num(end),
        qp_type: config.qp_type,
        state: state(world, end),
        pd: 1,
        receive_pd: 1,
        access: config.access,
        dest_qp_num: qp_num(config.peer),
        qkey: 0x11,
        max_dest_rd_atomic: 1,
        min_rnr_timer: config.min_rnr_timer,
        srq: config.srq.is_some(),
    }
}

/// A request as it arrives.
pub fn incoming(world: &World, from: End, request: &Request) -> Incoming {
    let (addr, _, _) = remote(request);
    Incoming {
        qp_type: world.processes[from.0].configs[from.1 as usize].qp_type,
        opcode: request.opcode,
        src_qp: qp_num(from),
        path_matches: true,
        qkey: request.datagram.map_or(0, |datagram| datagram.qkey),
        ipv4: false,
        length: request.length(),
        addr,
        imm_or_key: request.imm_or_key,
        solicited: false,
        timestamp: 0,
    }
}

/// Its bytes. A datagram's header, of which nobody here reads anything, stands in front.
pub fn payload(qp_type: QpType, request: &Request) -> Vec<u8> {
    let header = if qp_type == QpType::Ud { GRH_BYTES / 8 } else { 0 };
    std::iter::repeat_n(0, header as usize)
        .chain((0..request.length() / 8).map(|index| word(request.wr_id, index)))
        .flat_map(u64::to_ne_bytes)
        .collect()
}

/// The responder's part, behind the target's lock. `known` is what the sender knows of its queues.
async fn respond(
    world: &World,
    me: Me,
    qp: u32,
    end: End,
    request: &Request,
    known: [u32; 2],
) -> Result<Outcome, LockError> {
    let config = &world.processes[end.0].configs[end.1 as usize];
    let segment = &world.processes[end.0].segment;
    let target = target(world, end);
    let (_, rkey, _) = remote(request);
    let incoming = incoming(world, (me.0, qp), request);
    let payload = payload(config.qp_type, request);
    let at_hand = request.opcode != Opcode::RdmaRead && world.random.once_in(2);
    let queues = Queues { qp: end.1, cq: config.recv_cq, srq: config.srq };
    let window = Key {
        kind: Kind::Window2 { qp_num: target.qp_num },
        valid: !world.processes[end.0].invalidated.borrow().contains(&request.wr_id),
        pd: 1,
        start: 0,
        length: 8,
        access: Access::NONE,
    };
    let window = (request.opcode == Opcode::SendWithInv).then_some(window);
    let named = key(rkey);
    let mut respond = Respond::new(target, queues, incoming, named.as_ref(), window.as_ref())
        .with_payload(at_hand.then_some(&payload));
    loop {
        let want = respond.step(&world.memory(me, end.0), key);
        match want {
            Want::Done(outcome) => return Ok(outcome),
            Want::Move(payload) => {
                match payload {
                    Payload::Receive(receive) => {
                        scatter(world, &receive, request, config.qp_type == QpType::Ud).await;
                    }
                    Payload::Remote(remote) => remote_memory(world, me, end, request, remote).await,
                }
                respond.moved(&world.memory(me, end.0), fate(world, end, request));
            }
            Want::Invalidate(key) => {
                if !world.processes[end.0].invalidated.borrow_mut().insert(u64::from(key)) {
                    world.violated("a key is invalidated twice");
                }
            }
            Want::Transport(Progress::Continue) => {}
            // A living process keeps it too long.
            Want::Transport(Progress::Lock(_)) if world.random.once_in(200) => return Err(LockError::Busy),
            Want::Transport(Progress::Lock(object)) => {
                world.acquire(me, end.0, object).await;
                let [cq, srq] = known;
                let held = if matches!(object, Object::Cq(_)) { cq } else { srq };
                if segment.generation(object) != held {
                    world.release(me, end.0, object);
                    return Err(LockError::Gone);
                }
            }
            Want::Transport(Progress::Unlock(object)) => {
                if !world.release(me, end.0, object) {
                    world.fenced(me, end.0, end.1, object).await.inspect_err(|_| {
                        if world.processes[end.0].invalidated.borrow().contains(&request.wr_id) {
                            world.undone.borrow_mut().insert(request.wr_id);
                        }
                    })?;
                }
            }
            Want::Transport(Progress::Bell(cq)) => world.bell(end.0, cq),
            Want::Transport(Progress::Alert(object)) => world.alert(end.0, object),
        }
        world.pause().await;
    }
}

/// What becomes of a payload: some find memory unmapped, on one side or the other.
fn fate(world: &World, end: End, request: &Request) -> Result<(), MoveError> {
    if !world.alive(end.0) {
        return Err(MoveError::Gone);
    }
    match request.operands {
        Operands::Atomic { .. } => Ok(()),
        _ if world.random.once_in(300) => Err(MoveError::Target),
        _ if world.random.once_in(300) => Err(MoveError::Sender),
        _ => Ok(()),
    }
}

fn remote(request: &Request) -> (u64, u32, u64) {
    match request.operands {
        Operands::Remote { addr, rkey, length } => (addr, rkey, length),
        Operands::Atomic { addr, rkey, .. } => (addr, rkey, 8),
        Operands::None | Operands::Key(_) | Operands::Bind(_) => (0, 0, 0),
    }
}

/// Moves the payload into a receive buffer, word by word.
async fn scatter(world: &World, receive: &ReceiveRequest, request: &Request, datagram: bool) {
    let mut places =
        receive.sges.iter().flat_map(|sge| (sge.addr..sge.addr + u64::from(sge.length)).step_by(8));
    let skipped = if datagram { GRH_BYTES / 8 } else { 0 };
    for _ in 0..skipped {
        places.next();
    }
    for index in 0..request.length() / 8 {
        let Some(place) = places.next() else { world.violated("a payload leaves its buffer") };
        let buffer = (place / 1024) as usize;
        world.ledger.borrow_mut().receives[buffer].buffer[(place % 1024 / 8) as usize] =
            word(request.wr_id, index);
        world.pause().await;
    }
}

async fn remote_memory(world: &World, me: Me, end: End, request: &Request, remote: RemoteAccess) {
    let target = &world.processes[end.0];
    let message = request.wr_id;
    match remote {
        RemoteAccess::None | RemoteAccess::Flush => {}
        RemoteAccess::Write | RemoteAccess::AtomicWrite => {
            target.written.borrow_mut().insert(message, Vec::new());
            for index in 0..request.length() / 8 {
                target.written.borrow_mut().entry(message).or_default().push(word(message, index));
                world.pause().await;
            }
        }
        RemoteAccess::Read => {
            world.processes[me.0].results.borrow_mut().insert(message, Vec::new());
            for index in 0..request.length() / 8 {
                // What stands there is a message of nobody, by the target's number.
                let value = word(end.0 as u64, index);
                world.processes[me.0].results.borrow_mut().entry(message).or_default().push(value);
                world.pause().await;
            }
        }
        RemoteAccess::Atomic => {
            let old = if request.opcode == Opcode::FetchAndAdd {
                target.counter.replace(target.counter.get() + 1)
            } else {
                let old = target.swapped.get();
                if let Operands::Atomic { compare_add, swap, .. } = request.operands
                    && old == compare_add
                {
                    target.swapped.set(swap);
                }
                old
            };
            world.processes[me.0].results.borrow_mut().insert(message, vec![old]);
        }
    }
}
