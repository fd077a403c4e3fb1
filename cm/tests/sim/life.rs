//! What a program may see of one id, in which order.

use ironverbs_cm::event::EventKind;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Not connected.
    Idle,
    /// CONNECT was sent: exactly one outcome follows.
    Connecting,
    /// CONNECT_RESPONSE came.
    Answered,
    /// A request that was not accepted yet: no event at all.
    New,
    /// ACCEPT was sent: exactly one outcome follows.
    Accepted,
    Established,
    Disconnected,
    /// No event follows, except one that the program wrote itself.
    Over,
    /// A command ended it, or found it ended by what the program had not heard of yet. Between hosts alone:
    /// there messages are taken whether the program asks or not.
    Unclear,
}

/// An id, as the program that uses it knows it.
#[derive(Clone, Debug)]
pub struct Life {
    pub file: usize,
    pub stage: Stage,
    pub datagrams: bool,
    pub uid: u64,
    /// Answers to RESOLVE_ADDR that must still come.
    pub resolving: u32,
    /// Answers to RESOLVE_ROUTE that must still come.
    pub routing: u32,
    /// Events that were delivered and count for this id.
    pub delivered: u32,
    pub joins: Vec<(u32, u32)>,
}

impl Life {
    pub fn new(file: usize, uid: u64, datagrams: bool, stage: Stage) -> Life {
        Life { file, stage, datagrams, uid, resolving: 0, routing: 0, delivered: 0, joins: Vec::new() }
    }

    /// Takes an event; panics where it must not come. Between hosts the message that a connection is there may
    /// be lost, and that of its end come.
    pub fn see(&mut self, kind: EventKind, status: i32, between_hosts: bool) {
        use EventKind as E;
        use Stage as S;
        self.stage = match (self.stage, kind) {
            (stage, E::User | E::Internal) => stage,
            (stage, E::AddrResolved | E::AddrError) if self.resolving > 0 => {
                self.resolving -= 1;
                stage
            }
            (stage, E::RouteResolved) if self.routing > 0 => {
                self.routing -= 1;
                stage
            }
            (S::Unclear, E::AddrResolved | E::AddrError | E::RouteResolved | E::ConnectRequest) => {
                panic!("{kind:?} ({status}) after the end")
            }
            (S::Unclear, _) => S::Unclear,
            (S::Connecting, E::Established) if self.datagrams => S::Over,
            (S::Connecting, E::AddrError) if self.datagrams => S::Over,
            (S::Connecting, E::ConnectResponse) if !self.datagrams => S::Answered,
            (S::Connecting, E::Unreachable) => S::Over,
            (S::Connecting | S::Answered | S::Accepted, E::Rejected) if !self.datagrams => S::Over,
            // The other side, which has not heard yet that it is ready, gave up while this one asked for the
            // end.
            (S::Established, E::Rejected) => S::Over,
            (S::Accepted, E::Unreachable) => S::Over,
            (S::Accepted, E::Established) => S::Established,
            (S::Accepted, E::Disconnected) if between_hosts => S::Disconnected,
            (S::Established, E::Disconnected) => S::Disconnected,
            (S::Disconnected, E::TimewaitExit) => S::Over,
            (stage, kind) => panic!("{kind:?} ({status}) in {stage:?}"),
        };
    }

    /// Whether something must still come.
    pub fn waits(&self) -> bool {
        matches!(self.stage, Stage::Connecting | Stage::Accepted) || self.resolving + self.routing > 0
    }
}
