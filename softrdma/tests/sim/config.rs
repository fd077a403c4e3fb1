//! What a run is made of.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet, VecDeque};
use std::rc::Rc;

use softrdma::queues::shared::Object;
use softrdma::rules::completion::Completion;
use softrdma::rules::request::Request;
use softrdma::rules::requester::{Retry, SendQueue};
use softrdma::rules::verbs::{Access, QpType};
use softrdma_testing::segment::{Ring, Segment};

use crate::direct::{Inlet, Outlet, Promise};
use crate::ledger::End;

/// What a queue pair was set to; does not change.
#[derive(Clone)]
pub struct Config {
    pub qp_type: QpType,
    pub peer: End,
    pub access: Access,
    pub retry: Retry,
    pub min_rnr_timer: u8,
    pub send_cq: u32,
    pub recv_cq: u32,
    pub srq: Option<u32>,
    pub sq_sig_all: bool,
    /// No receive request is ever posted for it.
    pub starved: bool,
    /// The thread that works its send queue.
    pub thread: usize,
}

/// Something a program does.
#[derive(Clone)]
pub enum Act {
    Post(u32, Request),
    /// Moves a queue pair into ERR.
    Break(u32),
    /// Resets a queue pair and makes it ready again.
    Reset(u32),
    /// Ends a queue pair.
    Destroy(u32),
    /// Drains a send queue for a while.
    Drain(u32),
    /// Gives a shared receive queue or completion queue twice the room, or half.
    Resize(Object),
}

/// What belongs to a queue pair because of direct rings, and of resets.
#[derive(Default)]
pub struct Direct {
    /// The owner's side of its ring, while nobody has it.
    pub inlet: RefCell<Option<Inlet>>,
    /// A thread has the owner's side.
    pub is_had: Cell<bool>,
    /// It has said that it closes the ring, and not yet where.
    pub closes: Cell<bool>,
    pub promise: RefCell<Option<Promise>>,
    /// Receive requests that are completed.
    pub completed: Cell<u32>,
    /// The peer's ring that it writes.
    pub outlet: RefCell<Option<Outlet>>,
    /// How often its sender died and began anew.
    pub life: Cell<u32>,
    /// How often its send queue began anew: by a reset, or as its sender died.
    pub anew: Cell<u32>,
    /// Receive requests that the program had posted anywhere when it was reset last.
    pub receives: Cell<usize>,
    /// When it was reset last; the latest time there is: it was destroyed.
    pub reset: Cell<Option<u64>>,
}

/// One simulated process.
pub struct Process {
    pub segment: Segment,
    pub configs: Vec<Config>,
    pub sends: Vec<RefCell<SendQueue>>,
    pub direct: Vec<Direct>,
    /// Direct rings that no queue pair has.
    pub resting: RefCell<Vec<Rc<Ring>>>,
    /// The thread that polls each completion queue.
    pub pollers: Vec<usize>,
    pub acts: Vec<RefCell<VecDeque<(u64, Act)>>>,
    pub alive: Cell<bool>,
    /// It does nothing before that time.
    pub stopped_until: Cell<u64>,
    /// A peer asks it to look after locks that are kept.
    pub asked: Cell<bool>,
    /// One for each thread.
    pub bells: Vec<Cell<bool>>,
    pub alerts: RefCell<Vec<Object>>,
    pub polled: RefCell<Vec<Completion>>,
    /// Memory that peers write, by message.
    pub written: RefCell<HashMap<u64, Vec<u64>>>,
    /// Results of reads and atomics, by message.
    pub results: RefCell<HashMap<u64, Vec<u64>>>,
    /// Keys that peers invalidated, by message.
    pub invalidated: RefCell<HashSet<u64>>,
    /// The queues of targets as they were when they were looked up: completion queue and shared receive queue.
    pub routes: RefCell<HashMap<(u32, End), [u32; 2]>>,
    pub counter: Cell<u64>,
    pub swapped: Cell<u64>,
}
