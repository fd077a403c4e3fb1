//! The ledger of objects: what the program has made through this library and not destroyed, and where.
//!
//! What is not in it is never judged: objects of a parent process, of a provider's own interfaces, and those
//! that were made before.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use ironverbs_os::fork;
use ironverbs_os::growth::{TryInsert, TryPush};

use super::place::Place;
use super::queue_pair::QueuePair;
use super::report::About;
use super::rules::Id;
use super::sites::Sites;
use super::table::Objects;

/// A hash of addresses and numbers, which nobody chooses to collide.
#[derive(Default)]
pub struct Mixed(u64);

impl Hasher for Mixed {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64((*byte).into()));
    }
    fn write_u32(&mut self, word: u32) {
        self.write_u64(word.into());
    }
    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(29) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
}

/// A table.
pub type Map<K, V> = HashMap<K, V, BuildHasherDefault<Mixed>>;

/// What is known of a region's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The address by which requests name the first byte.
    pub first: u64,
    /// Bytes.
    pub length: u64,
    /// What must be added to that address for the one in this process; None where it has none.
    pub host: Option<u64>,
}

/// A memory region.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    /// Its key for local use.
    pub lkey: u32,
    /// The domain behind parent domains.
    pub domain: u64,
    /// Rights; None where they are not known.
    pub access: Option<u32>,
    /// None where only the device knows.
    pub range: Option<Range>,
    /// Whether a fork would take its pages from the device.
    pub is_at_risk: bool,
}

/// Events of an object: those that were taken and not acknowledged, and who took the last.
#[derive(Clone, Copy, Default)]
pub struct Events {
    /// How many.
    pub open: u64,
    /// The thread.
    pub taker: usize,
}

/// A completion queue.
#[derive(Default)]
pub struct Cq {
    /// Entries.
    pub entries: u32,
    /// Whether completions may be lost, as the program wants it.
    pub may_overrun: bool,
    /// Whether it was made for one thread.
    pub is_for_one: bool,
    /// The thread within a poll, and the one that polled last; 0: none.
    pub within: usize,
    /// See `within`.
    pub poller: usize,
    /// Signaled sends whose completions were not polled.
    pub sends: u64,
    /// Receives that are posted to queue pairs.
    pub receives: u64,
    /// Completion events.
    pub events: Events,
}

impl Cq {
    /// Whether more completions may come than it has entries.
    pub fn is_too_full(&self) -> bool {
        !self.may_overrun && self.sends + self.receives > u64::from(self.entries)
    }
}

/// What only some kinds of objects have.
pub enum Detail {
    /// Nothing.
    None,
    /// A protection domain: the one behind it, and whether it has a thread domain.
    Domain(u64, bool),
    Region(Region),
    Cq(Cq),
    Qp(Box<QueuePair>),
    /// A shared receive queue: the domain behind its own.
    Srq(u64),
}

/// An object.
pub struct Object {
    /// What it is.
    pub kind: &'static str,
    /// Its number: of a queue pair the device's, of a region its key, else its handle.
    pub number: u64,
    /// The context of its device.
    pub context: u64,
    /// The verb that made it, and where it was called.
    pub verb: &'static str,
    /// See `verb`.
    pub place: Place,
    /// Asynchronous events.
    pub events: Events,
    /// Rules whose breach was said of it, a bit each.
    told: u64,
    /// More.
    pub detail: Detail,
}

impl Object {
    /// An object just made.
    pub fn new(kind: &'static str, context: u64, verb: &'static str, place: Place) -> Self {
        let events = Events::default();
        Self { kind, number: 0, context, verb, place, events, told: 0, detail: Detail::None }
    }

    /// Whether this is the first time that the rule is broken for it.
    pub fn is_first(&mut self, id: Id) -> bool {
        let bit = 1 << id as u64;
        let first = self.told & bit == 0;
        self.told |= bit;
        first
    }

    /// How it is named in reports.
    pub fn about(&self) -> Option<About> {
        let number = self.number;
        let name = match self.kind {
            "qp" => format!("queue pair {number:#x}"),
            "mr" => format!("region with lkey {number:#x}"),
            "cq" => format!("completion queue {number}"),
            "srq" => format!("shared receive queue {number}"),
            "pd" => format!("protection domain {number}"),
            "context" => "the device".to_owned(),
            kind if number == 0 => words(kind).to_owned(),
            kind => format!("{} {number}", words(kind)),
        };
        Some(About { name, verb: self.verb, place: self.place })
    }
}

/// A kind in words.
pub fn words(kind: &str) -> &str {
    match kind {
        "qp" => "queue pair",
        "mr" => "region",
        "mw" => "memory window",
        "cq" => "completion queue",
        "srq" => "shared receive queue",
        "pd" => "protection domain",
        "td" => "thread domain",
        "xrcd" => "extended connection domain",
        "ah" => "address handle",
        "wq" => "work queue",
        "dm" => "device memory",
        "context" => "open device",
        "channel" => "completion channel",
        other => other,
    }
}

/// A region that has ended.
#[derive(Clone)]
pub struct Ended {
    /// What it was.
    pub about: Option<About>,
    /// Which of them, in turn.
    turn: u64,
}

/// How many ended regions are remembered.
const REMEMBERED: u64 = 4096;

/// All of it.
#[derive(Default)]
pub struct Ledger {
    process: u64,
    /// By address.
    pub objects: Objects,
    /// Regions by context and key; 0 where several have the same.
    keys: Map<(u64, u32), u64>,
    ended: Map<(u64, u32), Ended>,
    turn: u64,
    /// Queue pairs by context and number.
    numbers: Map<(u64, u32), u64>,
    /// Objects that are being destroyed.
    aside: Vec<(u64, Object)>,
    /// Where requests are posted.
    pub sites: Sites,
}

impl Ledger {
    /// Begins anew in a forked child, whose parent's objects are the parent's.
    pub fn own(&mut self) -> Option<()> {
        if !fork::same_process(self.process) {
            let process = fork::token().ok()?;
            *self = Self { process, ..Self::default() };
        }
        Some(())
    }

    fn link(&mut self, address: u64, object: &Object) {
        match &object.detail {
            Detail::Region(region) => {
                let key = (object.context, region.lkey);
                self.ended.remove(&key);
                let same = self.keys.get(&key).is_some_and(|other| *other != address);
                let _ = self.keys.try_set(key, if same { 0 } else { address });
            }
            Detail::Qp(qp) => {
                let _ = self.numbers.try_set((object.context, qp.number), address);
                self.sites.reserve();
            }
            _ => {}
        }
    }

    /// Takes up an object.
    pub fn add(&mut self, address: u64, object: Object) {
        if self.objects.reserve() {
            self.link(address, &object);
            self.objects.set_reserved(address, object);
        }
    }

    fn unlink(&mut self, address: u64, object: &Object) {
        match &object.detail {
            Detail::Region(region) => {
                let key = (object.context, region.lkey);
                if self.keys.get(&key) == Some(&address) {
                    self.keys.remove(&key);
                }
            }
            Detail::Qp(qp) => {
                let key = (object.context, qp.number);
                if self.numbers.get(&key) == Some(&address) {
                    self.numbers.remove(&key);
                }
            }
            _ => {}
        }
    }

    /// Puts an object aside that is about to be destroyed: when it is, its address is another's at once.
    pub fn put_aside(&mut self, address: u64) {
        if self.aside.try_reserve(1).is_ok()
            && let Some(object) = self.objects.remove(address)
        {
            self.unlink(address, &object);
            self.aside.push_reserved((address, object));
        }
    }

    /// The object is destroyed, or still there.
    pub fn settle(&mut self, address: u64, destroyed: bool) {
        let Some(at) = self.aside.iter().position(|(other, _)| *other == address) else { return };
        let (_, object) = self.aside.swap_remove(at);
        if !destroyed {
            if !self.objects.has(address) {
                self.add(address, object);
            }
            return;
        }
        match &object.detail {
            Detail::Region(region) if region.lkey != 0 => {
                self.turn += 1;
                let ended = Ended { about: object.about(), turn: self.turn };
                let key = (object.context, region.lkey);
                if !self.keys.contains_key(&key) {
                    let _ = self.ended.try_set(key, ended);
                }
                if self.ended.len() as u64 > 2 * REMEMBERED {
                    let old = self.turn.saturating_sub(REMEMBERED);
                    self.ended.retain(|_, ended| ended.turn > old);
                }
            }
            Detail::Qp(qp) => self.release(qp),
            _ => {}
        }
        if object.kind == "context" {
            self.objects.retain(|other| other.context != address);
            self.keys.retain(|(context, _), _| *context != address);
            self.ended.retain(|(context, _), _| *context != address);
            self.numbers.retain(|(context, _), _| *context != address);
        }
    }

    /// What is outstanding of a queue pair comes to no completion queue any more.
    pub fn release(&mut self, qp: &QueuePair) {
        if let Some(cq) = self.cq(qp.send_cq) {
            cq.sends = cq.sends.saturating_sub(qp.signaled);
        }
        if let Some(cq) = self.cq(qp.recv_cq) {
            cq.receives = cq.receives.saturating_sub(qp.receives.len() as u64);
        }
    }

    /// A completion queue.
    pub fn cq(&mut self, address: u64) -> Option<&mut Cq> {
        match &mut self.objects.get_mut(address)?.detail {
            Detail::Cq(cq) => Some(cq),
            _ => None,
        }
    }

    /// A queue pair.
    pub fn qp(&mut self, address: u64) -> Option<&mut QueuePair> {
        match &mut self.objects.get_mut(address)?.detail {
            Detail::Qp(qp) => Some(qp),
            _ => None,
        }
    }

    /// The address of the queue pair of that number.
    pub fn numbered(&self, context: u64, number: u32) -> Option<u64> {
        self.numbers.get(&(context, number)).copied()
    }

    /// The region of that key, where it is one.
    pub fn region(&self, context: u64, key: u32) -> Option<(&Object, Region)> {
        let object = self.objects.get(*self.keys.get(&(context, key))?)?;
        match &object.detail {
            Detail::Region(region) => Some((object, *region)),
            _ => None,
        }
    }

    /// What had that key, where nothing has it now.
    pub fn ended(&self, context: u64, key: u32) -> Option<&Ended> {
        if self.keys.contains_key(&(context, key)) { None } else { self.ended.get(&(context, key)) }
    }

    /// The domain behind a parent domain, and whether there is a thread domain.
    pub fn domain(&self, address: u64) -> (u64, bool) {
        match self.objects.get(address).map(|object| &object.detail) {
            Some(Detail::Domain(base, threads)) => (*base, *threads),
            _ => (address, false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(lkey: u32) -> Object {
        let detail = Detail::Region(Region { lkey, domain: 1, access: None, range: None, is_at_risk: false });
        Object { detail, ..Object::new("mr", 1, "ibv_reg_mr", Place::default()) }
    }

    #[test]
    fn a_key_is_of_the_region_that_is_there() {
        let mut ledger = Ledger::default();
        ledger.add(100, region(7));
        assert!(ledger.region(1, 7).is_some() && ledger.region(2, 7).is_none());
        ledger.put_aside(100);
        assert!(ledger.region(1, 7).is_none() && ledger.ended(1, 7).is_none());
        ledger.settle(100, false);
        assert!(ledger.region(1, 7).is_some());
        ledger.put_aside(100);
        // Its address and key are another's before the call returns.
        ledger.add(100, region(7));
        ledger.settle(100, true);
        assert!(ledger.region(1, 7).is_some() && ledger.ended(1, 7).is_none());
        ledger.put_aside(100);
        ledger.settle(100, true);
        assert!(ledger.region(1, 7).is_none() && ledger.ended(1, 7).is_some());
    }

    #[test]
    fn a_key_that_several_have_is_not_judged() {
        let mut ledger = Ledger::default();
        ledger.add(100, region(7));
        ledger.add(200, region(7));
        assert!(ledger.region(1, 7).is_none() && ledger.ended(1, 7).is_none());
    }
}
