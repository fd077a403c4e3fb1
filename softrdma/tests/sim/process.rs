//! What a simulated process runs: it posts, carries its requests out in others' segments, polls, sleeps.

use std::rc::Rc;

use softrdma::queues::breaks::{Break, collect};
use softrdma::queues::completion::{Arm, Staged, overran, poll};
use softrdma::queues::deliver::{Deliver, Delivered};
use softrdma::queues::flush::Flush;
use softrdma::queues::receive::claim_of;
use softrdma::queues::shared::{Events, Memory, Object, QpWord, Word};
use softrdma::rules::completion::Completion;
use softrdma::rules::keys::{Key, Kind};
use softrdma::rules::receive::{ReceiveRequest, Sge};
use softrdma::rules::request::{self, Limits, Request};
use softrdma::rules::requester::{Action, Outcome, Work};
use softrdma::rules::responder::GRH_BYTES;
use softrdma::rules::timers::ack_timeout;
use softrdma::rules::verbs::{Access, Event, QpState, Status, WcFlags};

use crate::burst::burst;
use crate::direct;
use crate::execute::execute;
use crate::ledger::{Posted, Receive, word};
use crate::reset;
use crate::world::{Act, World};

/// A key that every process knows.
pub const GOOD_KEY: u32 = 1;
/// A key that nobody knows.
pub const BAD_KEY: u32 = 666;
/// Marks the number of a receive request.
pub const RECEIVE_ID: u64 = 1 << 63;
/// Words that a receive buffer has.
pub const BUFFER_WORDS: u64 = 10;

/// How often a thread looks in vain before it sleeps, where that pays.
const SPINS: u32 = 8;

/// Limits of every send queue.
pub const LIMITS: Limits = Limits { max_send_wr: 4, max_send_sge: 2, max_inline: 16 };

/// Number of a queue pair.
pub fn qp_num(end: (usize, u32)) -> u32 {
    ((end.0 as u32) << 16) | (end.1 + 1)
}

/// The keys of every process.
pub fn key(number: u32) -> Option<Key> {
    let access = Access(0x30f);
    let length = u64::MAX;
    (number == GOOD_KEY).then_some(Key { kind: Kind::Region, valid: true, pd: 1, start: 0, length, access })
}

pub type Me = (usize, usize);

/// The state of a queue pair as everybody sees it.
pub fn state(world: &World, end: (usize, u32)) -> QpState {
    let word = world.processes[end.0].segment.load(Word::Qp(end.1, QpWord::State));
    QpState::from_number(word as u32).unwrap_or(QpState::Err)
}

/// One thread of a process.
pub async fn thread(world: Rc<World>, me: Me) {
    let world = &*world;
    let process = &world.processes[me.0];
    let mut spins = 0;
    loop {
        let mut busy = alerts(world, me).await;
        busy |= free_stuck(world, me).await;
        let mut deadline = None;
        let mut until = |time: Option<u64>| deadline = time.into_iter().chain(deadline).min();
        let next = process.acts[me.1].borrow().front().cloned();
        if let Some((time, act)) = next {
            if time > world.now.get() {
                until(Some(time));
            } else if perform(world, me, act.clone()).await {
                process.acts[me.1].borrow_mut().pop_front();
                busy = true;
                let following = process.acts[me.1].borrow().front().cloned();
                if let (Act::Post(one, _), Some((at, Act::Post(other, _)))) = (act, following)
                    && (one, time) == (other, at)
                {
                    // A list is posted before anything of it is carried out.
                    continue;
                }
            } else {
                until(Some(world.now.get() + 5_000));
            }
        }
        for qp in (0..process.configs.len() as u32).filter(|&qp| process.configs[qp as usize].thread == me.1)
        {
            match work(world, me, qp).await {
                Some(Work::Wait(time)) => until(time),
                Some(_) => busy = true,
                None => {}
            }
        }
        busy |= drain(world, me).await;
        if busy {
            spins = 0;
            continue;
        }
        // Who sends much looks for a while before it sleeps.
        if world.sends && spins < SPINS {
            spins += 1;
            world.sleep(Some(world.now.get() + 100 + world.random.below(900))).await;
            continue;
        }
        // As a program that sleeps: ask for a bell, look once more, sleep.
        for cq in my_cqs(world, me) {
            world.carry(me, me.0, Arm::new(cq, false)).await;
        }
        world.pause().await;
        if !drain(world, me).await {
            world.idle(me, deadline).await;
            // Who is woken takes each lock once before it looks.
            for cq in my_cqs(world, me) {
                world.acquire(me, me.0, Object::Cq(cq)).await;
                world.release(me, me.0, Object::Cq(cq));
            }
        }
    }
}

fn my_cqs(world: &World, me: Me) -> Vec<u32> {
    let pollers = &world.processes[me.0].pollers;
    (0..pollers.len() as u32).filter(|&cq| pollers[cq as usize] == me.1).collect()
}

/// Takes the locks of queues once that a peer keeps from others.
async fn free_stuck(world: &World, me: Me) -> bool {
    let process = &world.processes[me.0];
    if !process.asked.replace(false) {
        return false;
    }
    for object in process.segment.objects() {
        if !matches!(object, Object::Qp(_)) {
            world.acquire(me, me.0, object).await;
            world.release(me, me.0, object);
            world.pause().await;
        }
    }
    true
}

/// Looks after the objects that somebody rang for.
async fn alerts(world: &World, me: Me) -> bool {
    let mut any = false;
    loop {
        let Some(object) = world.processes[me.0].alerts.borrow_mut().pop() else { return any };
        any = true;
        world.acquire(me, me.0, object).await;
        collect(&world.processes[me.0].segment, object);
        if let Object::Qp(qp) = object
            && state(world, (me.0, qp)) == QpState::Err
        {
            flush_receives(world, me, (me.0, qp)).await;
            // Its send queue may wait for an answer without end.
            world.wake(me.0, Some(world.processes[me.0].configs[qp as usize].thread));
        }
        world.release(me, me.0, object);
    }
}

/// Does what the program wants; false when it has to be tried again later.
async fn perform(world: &World, me: Me, act: Act) -> bool {
    let process = &world.processes[me.0];
    match act {
        Act::Post(qp, request) if world.is_gone((me.0, qp)) => {
            world.ledger.borrow_mut().sent[request.wr_id as usize].dropped = true;
            true
        }
        Act::Break(qp) | Act::Drain(qp) | Act::Reset(qp) | Act::Destroy(qp) if world.is_gone((me.0, qp)) => {
            true
        }
        Act::Post(qp, request) => {
            let config = &process.configs[qp as usize];
            let queued = process.sends[qp as usize].borrow().len();
            match request::accept(&request, config.qp_type, state(world, (me.0, qp)), &LIMITS, queued) {
                Ok(()) => {
                    world.note(me.0, "posts", || format!("{} {:?} on {qp}", request.wr_id, request.opcode));
                    let life = process.direct[qp as usize].anew.get();
                    world.ledger.borrow_mut().sent[request.wr_id as usize].life = life;
                    process.sends[qp as usize].borrow_mut().push(request);
                    true
                }
                Err(request::Rejected::Full) => {
                    let waits = process.sends[qp as usize].borrow().work(world.now.get());
                    if waits == Work::Wait(None) {
                        // Full of requests that wait without end.
                        world.ledger.borrow_mut().sent[request.wr_id as usize].dropped = true;
                    }
                    waits == Work::Wait(None)
                }
                Err(other) => world.violated(&format!("a good request is rejected: {other:?}")),
            }
        }
        Act::Break(qp) => {
            break_whole(world, me, (me.0, qp), None).await;
            true
        }
        Act::Reset(qp) => {
            reset::reset(world, me, qp).await;
            true
        }
        Act::Destroy(qp) => {
            reset::destroy(world, me, qp).await;
            true
        }
        Act::Resize(object) => {
            world.acquire(me, me.0, object).await;
            let capacity = process.segment.capacity(object);
            // Between two sizes.
            let (small, large) = match object {
                Object::Cq(_) if world.small_queues => (2, 4),
                Object::Cq(_) => (256, 512),
                _ => (16, 32),
            };
            let next = if capacity == small { large } else { small };
            if process.segment.resize(object, next) {
                world.note(me.0, "resizes", || format!("{object:?}"));
                world.resized.set(world.resized.get() + 1);
            }
            world.pause().await;
            world.release(me, me.0, object);
            true
        }
        Act::Drain(qp) => {
            world.acquire(me, me.0, Object::Qp(qp)).await;
            let (next, resume) = match state(world, (me.0, qp)) {
                QpState::Rts => (QpState::Sqd, true),
                QpState::Sqd => (QpState::Rts, false),
                other => (other, false),
            };
            process.segment.store(Word::Qp(qp, QpWord::State), next as u64);
            world.release(me, me.0, Object::Qp(qp));
            if matches!(next, QpState::Rts | QpState::Sqd) {
                process.sends[qp as usize].borrow_mut().set_state(next);
            }
            if resume {
                let at = world.now.get() + world.random.below(20_000);
                let mut acts = process.acts[me.1].borrow_mut();
                // The act itself is taken off the front by the caller.
                acts.insert(1, (at, Act::Drain(qp)));
            }
            true
        }
    }
}

/// ERR, and everything that follows on the receive side. The caller holds no lock of the queue pair.
pub async fn break_whole(world: &World, me: Me, end: (usize, u32), event: Option<Event>) {
    world.acquire(me, end.0, Object::Qp(end.1)).await;
    world.carry(me, end.0, Break::new(end.1, event)).await;
    flush_receives(world, me, end).await;
    world.release(me, end.0, Object::Qp(end.1));
}

async fn flush_receives(world: &World, me: Me, end: (usize, u32)) {
    direct::close(world, end).await;
    let process = &world.processes[end.0];
    let config = &process.configs[end.1 as usize];
    let flush = Flush::new(&process.segment, end.1, qp_num(end), config.recv_cq, config.srq.is_some());
    world.carry(me, end.0, flush).await;
}

/// A completion of the own process.
pub async fn append(world: &World, me: Me, qp: u32, completion: &Completion) {
    let cq = world.processes[me.0].configs[qp as usize].send_cq;
    world.note(me.0, "completes", || format!("{:?}", (completion.wr_id, completion.status)));
    if world.carry(me, me.0, Deliver::append(cq, completion)).await == Delivered::Overrun {
        if !world.small_queues {
            world.violated("a large completion queue overran");
        }
        break_whole(world, me, (me.0, qp), Some(Event::QpFatal)).await;
    }
}

/// Works one send queue; what it waits for, or `None` when there was nothing to do.
async fn work(world: &World, me: Me, qp: u32) -> Option<Work> {
    let queue = &world.processes[me.0].sends[qp as usize];
    let now_state = state(world, (me.0, qp));
    if now_state == QpState::Err {
        queue.borrow_mut().set_state(QpState::Err);
        let segment = &world.processes[me.0].segment;
        let count = |word| segment.load(Word::Qp(qp, word)) as u32;
        let events = Events(segment.load(Word::Qp(qp, QpWord::Events)));
        let untold = world.processes[me.0].configs[qp as usize].srq.is_some()
            && !events.was_raised(Event::QpLastWqeReached);
        if count(QpWord::Head) != count(QpWord::Tail) || claim_of(segment, qp).is_some() || untold {
            // Whoever broke it may have died before everything was flushed.
            world.acquire(me, me.0, Object::Qp(qp)).await;
            if state(world, (me.0, qp)) == QpState::Err {
                flush_receives(world, me, (me.0, qp)).await;
            }
            world.release(me, me.0, Object::Qp(qp));
        }
    }
    if matches!(now_state, QpState::Err | QpState::Sqe) {
        loop {
            let flushed = queue.borrow_mut().flush();
            let Some(completion) = flushed else { break };
            append(world, me, qp, &completion).await;
        }
        if now_state == QpState::Sqe {
            // The program repairs an unreliable send queue at once.
            queue.borrow_mut().set_state(QpState::Rts);
            world.acquire(me, me.0, Object::Qp(qp)).await;
            if state(world, (me.0, qp)) == QpState::Sqe {
                world.processes[me.0].segment.store(Word::Qp(qp, QpWord::State), QpState::Rts as u64);
            }
            world.release(me, me.0, Object::Qp(qp));
        }
        return None;
    }
    let work = queue.borrow().work(world.now.get());
    // A program that polls tries what waits before its time; that must count as no retry.
    let time = match work {
        Work::Nothing => return None,
        Work::Wait(Some(until)) if world.random.once_in(4) => until,
        Work::Wait(_) => return Some(work),
        Work::Execute => 0,
    };
    let request = queue.borrow().request().cloned()?;
    let mut sent = None;
    if time == 0 && world.ledger.borrow().sent[request.wr_id as usize].waits.is_none() {
        let Some(outcome) = reset::mortal(world, me, qp, direct::send(world, me, qp, &request)).await else {
            return Some(Work::Execute);
        };
        sent = outcome;
    }
    if sent.is_none() && time == 0 && !world.random.once_in(3) && burst(world, me, qp).await {
        return Some(Work::Execute);
    }
    let outcome = match sent {
        Some(outcome) => outcome,
        None => match reset::mortal(world, me, qp, execute(world, me, qp, &request)).await {
            Some(outcome) => outcome,
            None => return Some(Work::Execute),
        },
    };
    let now = world.now.get();
    let early = now < time;
    record(world, &request, outcome, early);
    let action = queue.borrow_mut().outcome(outcome, now)?;
    match action {
        Action::Later if early => return Some(queue.borrow().work(now)),
        Action::Later => {}
        Action::Complete(None) => {}
        Action::Complete(Some(completion)) => append(world, me, qp, &completion).await,
        Action::Fail(completion, next) => {
            check_patience(world, me, qp, &completion);
            append(world, me, qp, &completion).await;
            if next == QpState::Err {
                break_whole(world, me, (me.0, qp), None).await;
            } else {
                world.acquire(me, me.0, Object::Qp(qp)).await;
                if state(world, (me.0, qp)) != QpState::Err {
                    world.processes[me.0].segment.store(Word::Qp(qp, QpWord::State), next as u64);
                }
                world.release(me, me.0, Object::Qp(qp));
            }
        }
    }
    Some(Work::Execute)
}

/// A request that gave up for want of an answer waited as long as its queue pair was told to.
fn check_patience(world: &World, me: Me, qp: u32, completion: &Completion) {
    let retry = world.processes[me.0].configs[qp as usize].retry;
    if completion.status == Status::RetryExcErr {
        let ledger = world.ledger.borrow();
        let sent = &ledger.sent[completion.wr_id as usize];
        let waited = world.now.get() - sent.unanswered_since.unwrap_or(u64::MAX);
        // The first try, the retries, and a last look when the last wait is over.
        if sent.unanswered != u32::from(retry.retry_cnt) + 2 {
            world
                .violated(&format!("message {} gave up after the wrong number of retries", completion.wr_id));
        }
        let patience = ack_timeout(retry.timeout).map(|timeout| timeout * (u64::from(retry.retry_cnt) + 1));
        if patience.is_none_or(|patience| waited < patience) {
            world.violated(&format!("message {} gave up too early", completion.wr_id));
        }
    }
}

/// Keeps count of answers, to compare with the attributes when a request fails.
/// Notes an answer, or that there was none.
pub fn record(world: &World, request: &Request, outcome: Outcome, early: bool) {
    let mut ledger = world.ledger.borrow_mut();
    let sent = &mut ledger.sent[request.wr_id as usize];
    // Only an answer ends the wait for one.
    let waits_on = match outcome {
        Outcome::ReceiverNotReady(_) => matches!(sent.waits, Some(Outcome::ReceiverNotReady(_))),
        Outcome::NoAnswer => true,
        _ => false,
    };
    if early && waits_on {
        world.early.set(world.early.get() + 1);
        return;
    }
    sent.waits = Some(outcome);
    match outcome {
        Outcome::ReceiverNotReady(_) => {
            sent.not_ready += 1;
            sent.unanswered_since = None;
            sent.unanswered = 0;
        }
        Outcome::NoAnswer => {
            sent.unanswered_since = sent.unanswered_since.or(Some(world.now.get()));
            sent.unanswered += 1;
        }
        _ => {}
    }
}

/// Polls every completion queue of a thread empty, and posts a new receive request for each that was used.
async fn drain(world: &World, me: Me) -> bool {
    let process = &world.processes[me.0];
    let mut any = false;
    let mut staged = Staged::default();
    for cq in my_cqs(world, me) {
        loop {
            if world.is_moving(me.0, Object::Cq(cq)) {
                any = true;
                world.pause().await;
                break;
            }
            if let Some(completion) = direct::poll(world, me, cq).await {
                any = true;
                seen(world, me.0, &completion);
                world.pause().await;
                continue;
            }
            match poll(&process.segment, cq, &mut staged) {
                Ok(Some(completion)) => {
                    any = true;
                    place(world, &staged);
                    if completion.wr_id & RECEIVE_ID != 0 {
                        direct::passed(world, &completion, me.0);
                    }
                    let told = !matches!(completion.status, Status::Success | Status::WrFlushErr);
                    if told && completion.wr_id & RECEIVE_ID != 0 {
                        // It broke the queue pair, or is about to.
                        let qp = (completion.qp_num & 0xffff) - 1;
                        world.acquire(me, me.0, Object::Qp(qp)).await;
                        if state(world, (me.0, qp)) == QpState::Err {
                            flush_receives(world, me, (me.0, qp)).await;
                        }
                        world.release(me, me.0, Object::Qp(qp));
                        // Its send queue may wait for an answer without end.
                        world.wake(me.0, Some(process.configs[qp as usize].thread));
                    }
                    seen(world, me.0, &completion);
                }
                Ok(None) => break,
                Err(_) => world.violated("a completion queue is broken"),
            }
            world.pause().await;
        }
        if overran(&process.segment, cq) && !world.small_queues {
            world.violated("a large completion queue overran");
        }
    }
    any
}

/// Moves a payload that came in a completion entry to its buffer.
fn place(world: &World, staged: &Staged) {
    if staged.is_empty() {
        return;
    }
    if staged.lkey != GOOD_KEY {
        world.violated("a payload is for a buffer without a key");
    }
    let (buffer, at) = ((staged.addr / 1024) as usize, (staged.addr % 1024 / 8) as usize);
    world.staged.set(world.staged.get() + 1);
    world.ledger.borrow_mut().receives[buffer].buffer[at..][..staged.words().len()]
        .copy_from_slice(staged.words());
}

/// Notes a completion, checks what it says, and reposts.
fn seen(world: &World, process: usize, completion: &Completion) {
    world.note(process, "polls", || format!("{:?}", (completion.wr_id & !RECEIVE_ID, completion.status)));
    world.processes[process].polled.borrow_mut().push(*completion);
    let mut ledger = world.ledger.borrow_mut();
    if completion.wr_id & RECEIVE_ID == 0 {
        let sent = &mut ledger.sent[completion.wr_id as usize];
        if sent.status.replace(completion.status).is_some() {
            world.violated("a send request completes twice");
        }
        return;
    }
    let index = (completion.wr_id & !RECEIVE_ID) as usize;
    if ledger.receives[index].status.replace(completion.status).is_some() {
        world.violated("a receive request completes twice");
    }
    let queue = ledger.receives[index].queue;
    if completion.status == Status::Success {
        check_content(world, &mut ledger, process, index, completion);
    }
    drop(ledger);
    post_receive(world, process, queue);
}

fn check_content(
    world: &World,
    ledger: &mut crate::ledger::Ledger,
    process: usize,
    index: usize,
    completion: &Completion,
) {
    let written = completion.opcode == softrdma::rules::verbs::WcOpcode::RecvRdmaWithImm;
    let skipped = if completion.flags.has(WcFlags::GRH) { GRH_BYTES / 8 } else { 0 };
    let message = if completion.flags.has(WcFlags::WITH_IMM) {
        u64::from(completion.imm_or_key)
    } else {
        ledger.receives[index].buffer[skipped as usize]
    };
    let words = u64::from(completion.byte_len) / 8 - skipped;
    let content: Vec<u64> = if written {
        world.processes[process].written.borrow().get(&message).cloned().unwrap_or_default()
    } else {
        ledger.receives[index].buffer[skipped as usize..][..words as usize].to_vec()
    };
    if content.len() as u64 != words || (0..words).any(|at| content[at as usize] != word(message, at)) {
        world.violated(&format!("message {message} arrives with other data"));
    }
    let sent = &mut ledger.sent[message as usize];
    if completion.flags.has(WcFlags::WITH_INV)
        && !world.processes[process].invalidated.borrow().contains(&message)
    {
        world.violated(&format!("message {message} arrives before it has invalidated its key"));
    }
    sent.received += 1;
    if sent.received > 1 {
        world.violated(&format!("message {message} arrives twice"));
    }
    if sent.to.0 != process || qp_num(sent.to) != completion.qp_num || qp_num(sent.from) != completion.src_qp
    {
        world.violated(&format!("message {message} arrives at the wrong queue pair"));
    }
}

/// Posts one receive request with a fresh buffer.
pub fn post_receive(world: &World, process: usize, queue: Posted) {
    let mut ledger = world.ledger.borrow_mut();
    let object = match queue {
        Posted::Ring((_, qp)) => Object::Qp(qp),
        Posted::Shared(_, srq) => Object::Srq(srq),
    };
    if let Posted::Ring(end) = queue
        && matches!(state(world, end), QpState::Err | QpState::Reset)
    {
        return;
    }
    let index = ledger.receives.len() as u64;
    let all = world.sends && !world.random.once_in(12);
    let split = if all { BUFFER_WORDS } else { world.random.below(BUFFER_WORDS) } as u32 * 8;
    let sge =
        |from: u32, to: u32| Sge { addr: index * 1024 + u64::from(from), length: to - from, lkey: GOOD_KEY };
    let end = BUFFER_WORDS as u32 * 8;
    let request = ReceiveRequest { wr_id: RECEIVE_ID | index, sges: [sge(0, split), sge(split, end)].into() };
    let segment = &world.processes[process].segment;
    let mut poster = softrdma_testing::post::Poster::new(segment, object);
    if let Posted::Ring(end) = queue {
        direct::completed(world, end).into_iter().for_each(|completed| poster.taken(completed));
    }
    match poster.post(segment, request.wr_id, &request.sges) {
        Ok(()) => {
            if let Posted::Ring(end) = queue {
                direct::posted(world, end, &request.sges[0]);
            }
            let buffer = vec![0; BUFFER_WORDS as usize];
            ledger.receives.push(Receive { queue, buffer, status: None, forgotten: false });
        }
        // Posted for one that was polled before the reset.
        Err(_) if matches!(queue, Posted::Ring(end) if world.was_reset(end)) => {}
        Err(error) => world.violated(&format!("a receive request cannot be posted: {error:?}")),
    }
}
