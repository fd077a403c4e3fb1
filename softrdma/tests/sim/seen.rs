//! What a simulated program sees of its completions, and whether it is true.

use softrdma::protocol::completion::{Completion, Staged};
use softrdma::protocol::responder::GRH_BYTES;
use softrdma::protocol::verbs::{Status, WcFlags, WcOpcode};

use crate::ledger::{Ledger, word};
use crate::process::{GOOD_KEY, RECEIVE_ID, post_receive, qp_num};
use crate::world::World;

/// Moves a payload that came in a completion entry to its buffer.
pub fn land(world: &World, staged: &Staged) {
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

/// Books a completion, checks what it says, and reposts.
pub fn seen(world: &World, process: usize, completion: &Completion) {
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

fn check_content(world: &World, ledger: &mut Ledger, process: usize, index: usize, completion: &Completion) {
    let written = completion.opcode == WcOpcode::RecvRdmaWithImm;
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
