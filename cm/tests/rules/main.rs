//! Random commands against a small model of Linux' rules: who is refused, and with which error.
//!
//! `SEQUENCES` says how many sequences of commands are tried (default 5000), `SEED` tries one alone.
#![allow(missing_docs)] // A test.

mod model;

use ironverbs_cm::address::PortSpace;
use ironverbs_cm::command::{Command, ConnParam, Ece};
use ironverbs_cm::event::{Event, EventKind};
use ironverbs_cm::{Answer, Errno, File};
use ironverbs_cm_testing::{Net, Random, param, v4};
use model::{Cm, Model, Own, Phase};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn errors_are_linux() {
    if let Some(seed) = number("SEED") {
        return play(seed, true).print();
    }
    let sequences = number("SEQUENCES").unwrap_or(5000);
    let mut all = Counts::default();
    for seed in 0..sequences {
        match std::panic::catch_unwind(|| play(seed, false)) {
            Ok(counts) => all.add(&counts),
            Err(_) => panic!("SEED={seed} shows it alone"),
        }
    }
    print!("{sequences} sequences: ");
    all.print();
    assert!(all.refused * 10 > all.done && all.done * 10 > all.refused, "both are tried");
    assert!(all.connected > 0 && all.accepted > 0 && all.established > 0, "they get somewhere");
}

#[derive(Debug, Default)]
struct Counts {
    done: u64,
    refused: u64,
    connected: u64,
    accepted: u64,
    established: u64,
}

impl Counts {
    fn add(&mut self, other: &Counts) {
        self.done += other.done;
        self.refused += other.refused;
        self.connected += other.connected;
        self.accepted += other.accepted;
        self.established += other.established;
    }

    fn print(&self) {
        println!("{self:?}");
    }
}

const HOSTS: [(&str, Own); 6] = [
    ("0.0.0.0", Own::Any),
    ("127.0.0.1", Own::Any),
    ("10.0.0.1", Own::Host(1)),
    ("10.0.0.2", Own::Host(2)),
    ("::", Own::Any),
    ("10.0.0.77", Own::Foreign),
];

/// Destinations, and what comes of them.
const PLACES: [(&str, Result<Option<i32>, i32>); 6] = [
    ("10.0.0.1", Ok(None)),
    ("10.0.0.2", Ok(None)),
    ("127.0.0.1", Ok(None)),
    ("10.0.9.9", Err(101)),
    ("10.0.0.98", Ok(Some(-113))),
    ("::1", Ok(None)),
];

struct Play {
    net: Net,
    model: Model,
    files: [File; 2],
    random: Random,
    counts: Counts,
    last: Option<u32>,
    tell: bool,
}

fn play(seed: u64, tell: bool) -> Counts {
    let mut net = Net::new(1, seed);
    net.shared.low = seed.is_multiple_of(2);
    let files = [net.open(0), net.open(0)];
    let mut model = Model::default();
    model.low = seed.is_multiple_of(2);
    let mut play =
        Play { net, model, files, random: Random::new(seed), counts: Counts::default(), last: None, tell };
    if !seed.is_multiple_of(3) {
        play.listener();
        play.client();
    }
    for _ in 0..60 {
        play.step();
    }
    play.counts
}

impl Play {
    /// Runs a command and compares what comes of it; `None`: the model does not know.
    fn check(
        &mut self,
        file: usize,
        command: &Command<'_>,
        expected: Option<Result<(), i32>>,
    ) -> Option<Answer> {
        let answer = self.net.command(0, self.files[file], command);
        if self.tell {
            println!("{file} {command:.0?}: {:?}", answer.as_ref().map(drop));
        }
        match &answer {
            Ok(_) => self.counts.done += 1,
            Err(_) => self.counts.refused += 1,
        }
        if let Some(expected) = expected {
            let found = answer.as_ref().map(drop).map_err(|Errno(number)| *number);
            assert_eq!(found, expected, "{file} {command:?}");
        }
        answer.ok()
    }

    fn step(&mut self) {
        let some = self.random.number() as usize;
        let id = self.model.some_id(some).filter(|_| !self.random.one_in(16)).unwrap_or(some as u32 % 9);
        // Most that can be done with an id follows upon an event of it.
        let id = self.last.filter(|id| self.model.file(*id).is_some() && self.random.one_in(2)).unwrap_or(id);
        let wrong = self.random.one_in(12);
        let file = match self.model.file(id) {
            Some(file) if !wrong => file,
            _ => self.random.below(2),
        };
        let (host, own) = HOSTS[self.random.below(HOSTS.len())];
        let port = [0, 4000, 4000, 4001, 80][self.random.below(5)];
        let m = &self.model;
        let known = m.known(file, id);
        let choice = if m.file(id).is_none() && !wrong { 0 } else { self.random.below(40) };
        match choice {
            0 => {
                let (space, number) =
                    [(PortSpace::Tcp, 0x106), (PortSpace::Udp, 0x111)][self.random.below(2)];
                let create = Command::CreateId { uid: 5, space: number, qp_type: 0 };
                if let Some(Answer::Created(id)) = self.check(file, &create, Some(Ok(()))) {
                    self.model.create(id, file, space);
                }
            }
            1 | 2 => {
                let expected = known.and_then(|()| m.bind(id, host.contains(':'), own, port));
                self.check(file, &Command::Bind { id, address: v4(host, port) }, Some(expected));
                if expected.is_ok() {
                    let taken = self.taken(id);
                    self.model.bound(id, host.contains(':'), own, taken);
                }
            }
            3 => {
                let value = i32::from(self.random.one_in(2)).to_ne_bytes();
                let name = 1 + self.random.below(2) as u32;
                let expected = known.and_then(|()| m.may_set(id, name, value[0] != 0));
                self.check(file, &Command::SetOption { id, level: 0, name, value: &value }, Some(expected));
                if expected.is_ok() {
                    self.model.set(id, name, value[0] != 0);
                }
            }
            4 | 5 => {
                let expected = known.and_then(|()| m.listen(id));
                self.check(file, &Command::Listen { id, backlog: 3 }, Some(expected));
                if expected.is_ok() {
                    let taken = self.taken(id);
                    self.model.listens(id, taken);
                }
            }
            6..10 => self.resolve(file, id, known),
            10..13 => {
                let expected = known.and_then(|()| m.route(id));
                self.check(file, &Command::ResolveRoute { id, timeout_ms: 1 }, Some(expected));
                if expected.is_ok() {
                    self.model.get(id).phase = Phase::Routed;
                }
            }
            13..16 => {
                let size = if self.random.one_in(4) { 57 } else { 56 };
                let expected = known.and_then(|()| m.connect(id, size));
                let param = param(&vec![1; size]);
                self.check(
                    file,
                    &Command::Connect { id, param: &param, ece: Ece::default() },
                    Some(expected),
                );
                if expected.is_ok() {
                    self.model.connected(id);
                    self.counts.connected += 1;
                }
            }
            16..18 => {
                let valid = self.random.one_in(2);
                let expected = match known {
                    Ok(()) => self.model.accept(id, valid),
                    Err(errno) => Some(Err(errno)),
                };
                let param = if valid { param(b"") } else { ConnParam::default() };
                let accept = Command::Accept { uid: 6, id, param: &param, ece: Ece::default() };
                self.counts.accepted += u64::from(self.check(file, &accept, expected).is_some());
            }
            18 => {
                let expected = match known {
                    Ok(()) => self.model.reject(id),
                    Err(errno) => Some(Err(errno)),
                };
                self.check(file, &Command::Reject { id, reason: 0, data: b"" }, expected);
            }
            19 => {
                let expected = known.and_then(|()| m.disconnect(id));
                self.check(file, &Command::Disconnect { id }, Some(expected));
                if expected.is_ok() {
                    self.model.disconnected(id);
                }
            }
            20 => {
                let state = 1 + self.random.below(3) as u32;
                let expected = match known {
                    Ok(()) => m.attr(id, state),
                    Err(errno) => Some(Err(errno)),
                };
                self.check(file, &Command::InitQpAttr { id, state }, expected);
            }
            21 => {
                let expected = known.and_then(|()| m.join(id));
                let join = Command::JoinMulticast { id, uid: 1, address: v4("239.0.0.1", 0), flags: 0 };
                self.check(file, &join, Some(expected));
            }
            22 => {
                let expected = m.known(1 - file, id);
                let migrate = Command::Migrate { id, from: self.files[1 - file] };
                self.check(file, &migrate, Some(expected));
                if expected.is_ok() {
                    self.model.get(id).file = file;
                }
            }
            23 if self.random.one_in(2) => {
                self.check(file, &Command::DestroyId { id }, Some(known));
                if known.is_ok() {
                    self.model.destroy(id);
                }
            }
            _ => {
                if let Some(event) = self.net.event(0, self.files[file]) {
                    self.see(file, &event);
                }
            }
        }
    }

    /// One that most connections find.
    fn listener(&mut self) {
        let create = Command::CreateId { uid: 5, space: 0x106, qp_type: 0 };
        let Some(Answer::Created(id)) = self.check(0, &create, Some(Ok(()))) else { return };
        self.model.create(id, 0, PortSpace::Tcp);
        self.check(0, &Command::Bind { id, address: v4("0.0.0.0", 4000) }, Some(Ok(())));
        self.model.bound(id, false, Own::Any, 4000);
        self.check(0, &Command::Listen { id, backlog: 3 }, Some(Ok(())));
        self.model.listens(id, 4000);
    }

    /// One that finds it.
    fn client(&mut self) {
        let create = Command::CreateId { uid: 5, space: 0x106, qp_type: 0 };
        let Some(Answer::Created(id)) = self.check(1, &create, Some(Ok(()))) else { return };
        self.model.create(id, 1, PortSpace::Tcp);
        let to = ("10.0.0.1", 4000);
        let resolve = Command::ResolveAddr { id, source: None, destination: v4(to.0, to.1), timeout_ms: 1 };
        self.check(1, &resolve, Some(Ok(())));
        let taken = self.taken(id);
        self.model.bound(id, false, Own::Any, taken);
        self.model.resolved(id, true, to);
        self.check(1, &Command::ResolveRoute { id, timeout_ms: 1 }, Some(Ok(())));
        self.model.get(id).phase = Phase::Routed;
        self.check(1, &Command::Connect { id, param: &param(b""), ece: Ece::default() }, Some(Ok(())));
        self.model.connected(id);
    }

    /// The port that an id got.
    fn taken(&self, id: u32) -> u16 {
        self.net.shared.ports.iter().find(|p| p.id == id).expect("it is bound").binding.source.port()
    }

    fn resolve(&mut self, file: usize, id: u32, known: Result<(), i32>) {
        let (place, comes) = PLACES[self.random.below(PLACES.len())];
        let six = place.contains(':');
        let expected = known.and_then(|()| self.model.resolve(id, six)).and_then(|()| comes.map(drop));
        let destination = v4(place, 4000);
        let resolve = Command::ResolveAddr { id, source: None, destination, timeout_ms: 1 };
        let fresh = known.is_ok() && self.model.get(id).phase == Phase::Idle;
        self.check(file, &resolve, Some(expected));
        if fresh {
            let taken = self.taken(id);
            self.model.bound(id, six, Own::Any, taken);
        }
        if expected.is_ok() {
            self.model.resolved(id, comes == Ok(None), (place, 4000));
        }
    }

    fn see(&mut self, file: usize, event: &Event) {
        if self.tell {
            println!("{file} {:?} {} of {}", event.kind, event.status, event.id);
        }
        self.last = Some(event.id);
        match event.kind {
            EventKind::ConnectRequest => {
                let ud = matches!(event.param, ironverbs_cm::event::Param::Ud(_));
                self.model.requested(event.id, file, ud);
            }
            EventKind::ConnectResponse => self.model.get(event.id).cm = Some(Cm::RepRcvd),
            EventKind::Established => {
                self.counts.established += 1;
                let id = self.model.get(event.id);
                id.cm = Some(if id.ud { Cm::Over } else { Cm::Established });
            }
            EventKind::Rejected | EventKind::Unreachable => self.model.get(event.id).cm = Some(Cm::Over),
            EventKind::Disconnected => self.model.get(event.id).cm = None,
            _ => {}
        }
    }
}
