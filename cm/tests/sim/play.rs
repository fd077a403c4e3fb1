//! Random programs.

use std::collections::BTreeMap;

use ironverbs_cm::command::{Command, ConnParam, Ece};
use ironverbs_cm::event::{Event, EventKind, Param};
use ironverbs_cm::{Answer, File};
use ironverbs_cm_testing::{Cable, Net, Random, param, v4};

use crate::life::{Life, Stage};

/// How often what was seen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    pub commands: u64,
    pub refused: u64,
    pub events: u64,
    pub established: u64,
    pub rejected: u64,
    pub unreachable: u64,
    pub disconnected: u64,
    pub timewaits: u64,
    /// Queue pairs that were named for datagrams.
    pub named: u64,
    pub killed: u64,
    /// Messages that the network lost.
    pub lost: u64,
    /// Arrivals that made a channel readable.
    pub arrivals: u64,
    /// Those of them after which there was no event.
    pub for_nothing: u64,
}

impl Seen {
    pub fn add(&mut self, other: &Seen) {
        self.commands += other.commands;
        self.refused += other.refused;
        self.events += other.events;
        self.established += other.established;
        self.rejected += other.rejected;
        self.unreachable += other.unreachable;
        self.disconnected += other.disconnected;
        self.timewaits += other.timewaits;
        self.named += other.named;
        self.killed += other.killed;
        self.lost += other.lost;
        self.arrivals += other.arrivals;
        self.for_nothing += other.for_nothing;
    }
}

struct Process {
    files: Vec<File>,
    ids: BTreeMap<u32, Life>,
}

struct Play {
    net: Net,
    processes: Vec<Option<Process>>,
    random: Random,
    seen: Seen,
    uids: u64,
}

const TCP: u16 = 0x0106;
const UDP: u16 = 0x0111;
const HOSTS: [&str; 5] = ["10.0.0.1", "10.0.0.2", "127.0.0.1", "0.0.0.0", "10.0.0.99"];

/// Plays one program.
pub fn run(seed: u64) -> Seen {
    let mut random = Random::new(seed ^ 0x5eed);
    let count = 2 + random.below(2);
    let is_apart = random.one_in(2);
    let (count, mut net) = if is_apart {
        let mut rare = || if random.one_in(3) { 0 } else { 2 + random.below(8) };
        let cable = Cable { lose: rare(), double: rare(), late: rare() };
        (2, Net::between_hosts(2, seed, cable))
    } else {
        (count, Net::new(count, seed))
    };
    net.shared.repeats = !is_apart && random.one_in(4);
    let processes = (0..count)
        .map(|pid| {
            let files = (0..1 + random.below(2)).map(|_| net.open(pid)).collect();
            Some(Process { files, ids: BTreeMap::new() })
        })
        .collect();
    let mut play = Play { net, processes, random, seen: Seen::default(), uids: 0 };
    for pid in 0..count {
        play.listener(pid);
        play.listener(pid);
    }
    let steps = 20 + play.random.below(200);
    for _ in 0..steps {
        play.step();
    }
    play.finish();
    play.seen
}

impl Play {
    fn any_process(&mut self) -> Option<usize> {
        let pid = self.random.below(self.processes.len());
        self.processes[pid].is_some().then_some(pid)
    }

    fn any_id(&mut self, pid: usize) -> Option<u32> {
        let ids = &self.processes[pid].as_ref()?.ids;
        if ids.is_empty() {
            return None;
        }
        ids.keys().nth(self.random.below(ids.len())).copied()
    }

    fn life(&mut self, pid: usize, id: u32) -> &mut Life {
        self.processes[pid].as_mut().unwrap().ids.get_mut(&id).unwrap()
    }

    fn file(&self, pid: usize, id: u32) -> File {
        let process = self.processes[pid].as_ref().unwrap();
        process.files[process.ids[&id].file]
    }

    fn run(&mut self, pid: usize, file: File, command: &Command<'_>) -> Option<Answer> {
        self.seen.commands += 1;
        let answer = self.net.command(pid, file, command);
        self.seen.refused += u64::from(answer.is_err());
        answer.ok()
    }

    fn step(&mut self) {
        let Some(pid) = self.any_process() else { return };
        match self.random.below(40) {
            0..2 => drop(self.create(pid)),
            2..16 => self.use_id(pid),
            16..34 => {
                let files = self.processes[pid].as_ref().unwrap().files.len();
                let file = self.random.below(files);
                self.fetch(pid, file);
            }
            34 => drop(self.sleep()),
            35 if self.random.one_in(8) => {
                self.net.kill(pid);
                self.processes[pid] = None;
                self.seen.killed += 1;
            }
            36 if self.random.one_in(8) => self.close_one(pid),
            37 => self.listener(pid),
            _ => self.client(pid),
        }
    }

    /// A listener in one go.
    fn listener(&mut self, pid: usize) {
        let Some(id) = self.create(pid) else { return };
        let file = self.file(pid, id);
        let (mut host, port) = self.place();
        if self.random.one_in(2) {
            host = "0.0.0.0";
        }
        let _bound = self.run(pid, file, &Command::Bind { id, address: v4(host, port) });
        let backlog = self.random.below(4) as i32;
        let _listens = self.run(pid, file, &Command::Listen { id, backlog });
    }

    /// A client in one go.
    fn client(&mut self, pid: usize) {
        let Some(id) = self.create(pid) else { return };
        let (host, port) = self.place();
        self.resolve(pid, id, host, port);
        self.route(pid, id);
        self.connect(pid, id);
    }

    fn place(&mut self) -> (&'static str, u16) {
        (HOSTS[self.random.below(HOSTS.len())], 4000 + self.random.below(3) as u16)
    }

    fn resolve(&mut self, pid: usize, id: u32, host: &str, port: u16) {
        let (file, stage) = (self.file(pid, id), self.life(pid, id).stage);
        let destination = v4(host, port);
        let resolve = Command::ResolveAddr { id, source: None, destination, timeout_ms: 100 };
        if self.run(pid, file, &resolve).is_some() {
            assert_eq!(stage, Stage::Idle, "resolves in no other stage");
            self.life(pid, id).resolving += 1;
        }
    }

    fn route(&mut self, pid: usize, id: u32) {
        let file = self.file(pid, id);
        if self.run(pid, file, &Command::ResolveRoute { id, timeout_ms: 1 }).is_some() {
            self.life(pid, id).routing += 1;
        }
    }

    fn connect(&mut self, pid: usize, id: u32) {
        let (file, stage) = (self.file(pid, id), self.life(pid, id).stage);
        let size = self.random.below(80);
        let param = param(&vec![7; size]);
        if self.run(pid, file, &Command::Connect { id, param: &param, ece: Ece::default() }).is_some() {
            assert_eq!(stage, Stage::Idle, "connects in no other stage");
            self.life(pid, id).stage = Stage::Connecting;
        }
    }

    /// What programs mostly do when they get an event.
    fn react(&mut self, pid: usize, event: &Event) {
        if self.random.one_in(4) || !self.processes[pid].as_ref().unwrap().ids.contains_key(&event.id) {
            return;
        }
        let file = self.file(pid, event.id);
        match event.kind {
            EventKind::ConnectRequest | EventKind::ConnectResponse => self.accept(pid, event.id, file),
            EventKind::Disconnected => drop(self.run(pid, file, &Command::Disconnect { id: event.id })),
            _ => {}
        }
    }

    fn new_uid(&mut self) -> u64 {
        self.uids += 1;
        self.uids
    }

    fn create(&mut self, pid: usize) -> Option<u32> {
        let process = self.processes[pid].as_ref()?;
        let index = self.random.below(process.files.len());
        let file = process.files[index];
        let space = if self.random.one_in(4) { UDP } else { TCP };
        let uid = self.new_uid();
        let create = Command::CreateId { uid, space, qp_type: 2 };
        let Some(Answer::Created(id)) = self.run(pid, file, &create) else { panic!("CREATE_ID") };
        let life = Life::new(index, uid, space == UDP, Stage::Idle);
        let before = self.processes[pid].as_mut().unwrap().ids.insert(id, life);
        assert!(before.is_none(), "a number is used twice");
        Some(id)
    }

    fn use_id(&mut self, pid: usize) {
        let Some(id) = self.any_id(pid) else { return };
        let file = self.file(pid, id);
        let (host, port) = self.place();
        match self.random.below(30) {
            0..3 => {
                let _bound = self.run(pid, file, &Command::Bind { id, address: v4(host, port) });
            }
            3..6 => {
                let backlog = self.random.below(3) as i32;
                let _listens = self.run(pid, file, &Command::Listen { id, backlog });
            }
            6..11 => self.resolve(pid, id, host, port),
            11..15 => self.route(pid, id),
            15..20 => self.connect(pid, id),
            20..23 => self.accept(pid, id, file),
            23 => {
                if self.run(pid, file, &Command::Reject { id, reason: 28, data: b"no" }).is_some() {
                    self.life(pid, id).stage = self.ended();
                }
            }
            24 | 25 => drop(self.run(pid, file, &Command::Disconnect { id })),
            26 => self.join_or_leave(pid, id, file),
            27 => self.migrate(pid, id, file),
            28 => {
                let event = 18 + self.random.below(2) as u32;
                self.run(pid, file, &Command::WriteEvent { id, event, status: 1, argument: 2 })
                    .expect("writes");
            }
            _ => self.destroy(pid, id, file),
        }
    }

    fn accept(&mut self, pid: usize, id: u32, file: File) {
        let stage = self.life(pid, id).stage;
        let datagrams = self.life(pid, id).datagrams;
        let passive = stage == Stage::New;
        let param = if passive || self.random.one_in(9) { param(b"yes") } else { ConnParam::default() };
        let uid = if passive { self.new_uid() } else { self.life(pid, id).uid };
        let accept = Command::Accept { uid, id, param: &param, ece: Ece::default() };
        let done = self.run(pid, file, &accept).is_some();
        if done {
            self.life(pid, id).uid = uid;
        }
        self.life(pid, id).stage = match (stage, done) {
            (Stage::New, true) if datagrams => Stage::Over,
            (Stage::New, true) => Stage::Accepted,
            (Stage::Answered, true) => Stage::Established,
            (stage, true) => panic!("accepts in {stage:?}"),
            // The kernel rejects where it cannot accept.
            (Stage::New | Stage::Connecting | Stage::Answered | Stage::Accepted, false) => {
                if datagrams && stage == Stage::Connecting { stage } else { self.ended() }
            }
            (stage, false) => stage,
        };
    }

    /// The stage of an id whose connection a command has ended.
    fn ended(&self) -> Stage {
        if self.net.hosts.is_some() { Stage::Unclear } else { Stage::Over }
    }

    fn join_or_leave(&mut self, pid: usize, id: u32, file: File) {
        if let Some((join, delivered)) = self.life(pid, id).joins.pop() {
            let answer = self.run(pid, file, &Command::LeaveMulticast { id: join });
            assert_eq!(answer, Some(Answer::Reported(delivered)));
            return;
        }
        let join = Command::JoinMulticast { id, uid: 5, address: v4("239.0.0.1", 0), flags: 0 };
        if let Some(Answer::Created(join)) = self.run(pid, file, &join) {
            self.life(pid, id).joins.push((join, 0));
        }
    }

    fn migrate(&mut self, pid: usize, id: u32, from: File) {
        let files = self.processes[pid].as_ref().unwrap().files.len();
        let index = self.random.below(files);
        let to = self.processes[pid].as_ref().unwrap().files[index];
        let answer = self.run(pid, to, &Command::Migrate { id, from });
        assert_eq!(answer, Some(Answer::Reported(self.life(pid, id).delivered)));
        self.life(pid, id).file = index;
    }

    fn destroy(&mut self, pid: usize, id: u32, file: File) {
        let answer = self.run(pid, file, &Command::DestroyId { id });
        let life = self.processes[pid].as_mut().unwrap().ids.remove(&id).unwrap();
        assert_eq!(answer, Some(Answer::Reported(life.delivered)), "{life:?}");
    }

    fn close_one(&mut self, pid: usize) {
        let process = self.processes[pid].as_mut().unwrap();
        let index = process.files.len() - 1;
        let file = process.files[index];
        process.ids.retain(|_, life| life.file != index);
        self.net.close(pid, file);
        let new = self.net.open(pid);
        self.processes[pid].as_mut().unwrap().files[index] = new;
    }

    /// Fetches one event of a channel; false where there is none.
    fn fetch(&mut self, pid: usize, index: usize) -> bool {
        let file = self.processes[pid].as_ref().unwrap().files[index];
        while !self.net.managers[pid].as_ref().unwrap().ready(file) {
            if !self.net.feed(pid, file) {
                return false;
            }
            self.seen.arrivals += 1;
            let came = self.net.managers[pid].as_ref().unwrap().ready(file);
            self.seen.for_nothing += u64::from(!came);
        }
        let event = self.net.event(pid, file).expect("a channel that is ready has an event");
        self.see(pid, index, &event);
        self.react(pid, &event);
        true
    }

    fn see(&mut self, pid: usize, index: usize, event: &Event) {
        self.seen.events += 1;
        let process = self.processes[pid].as_mut().unwrap();
        match event.kind {
            EventKind::ConnectRequest => {
                let listener = process.ids.values_mut().find(|life| life.uid == event.uid);
                let listener = listener.expect("a listener that was destroyed has no events");
                assert_eq!(listener.file, index, "events come where the id is");
                listener.delivered += 1;
                let datagrams = matches!(event.param, Param::Ud(_));
                let before = process.ids.insert(event.id, Life::new(index, 0, datagrams, Stage::New));
                assert!(before.is_none(), "a number is used twice");
            }
            EventKind::MulticastJoin => {
                let owner = process.ids.values_mut().find(|life| life.joins.iter().any(|j| j.0 == event.id));
                let owner = owner.expect("a join that was left has no events");
                owner.delivered += 1;
                owner.joins.iter_mut().find(|j| j.0 == event.id).unwrap().1 += 1;
            }
            _ => {
                let life = process.ids.get_mut(&event.id).expect("an id that was destroyed has no events");
                assert_eq!(life.file, index, "events come where the id is");
                let own = matches!(event.kind, EventKind::User | EventKind::Internal);
                assert!(own || life.uid == event.uid, "{life:?} {event:?}");
                life.delivered += 1;
                match event.kind {
                    EventKind::Established if life.stage == Stage::Connecting => self.seen.named += 1,
                    EventKind::Established => self.seen.established += 1,
                    EventKind::Rejected => self.seen.rejected += 1,
                    EventKind::Unreachable => self.seen.unreachable += 1,
                    EventKind::Disconnected => self.seen.disconnected += 1,
                    EventKind::TimewaitExit => self.seen.timewaits += 1,
                    _ => {}
                }
                life.see(event.kind, event.status, self.net.hosts.is_some());
            }
        }
    }

    /// Lets time go on, and fetches what it brought, so that the program knows where its ids are.
    fn sleep(&mut self) -> bool {
        let slept = self.net.sleep();
        for pid in 0..self.processes.len() {
            let files = self.processes[pid].as_ref().map_or(0, |process| process.files.len());
            for index in 0..files {
                let file = self.processes[pid].as_ref().unwrap().files[index];
                while self.net.managers[pid].as_ref().unwrap().ready(file) {
                    self.fetch(pid, index);
                }
            }
        }
        slept
    }

    /// Waits for all that must come, then ends everything and looks at what is left.
    fn finish(&mut self) {
        let mut rounds = 0;
        loop {
            let mut progress = false;
            for pid in 0..self.processes.len() {
                let files = self.processes[pid].as_ref().map_or(0, |process| process.files.len());
                for index in 0..files {
                    while self.fetch(pid, index) {
                        progress = true;
                    }
                }
            }
            rounds += 1;
            assert!(rounds < 100_000, "it never comes to rest");
            if !progress && !self.sleep() {
                break;
            }
        }
        for pid in 0..self.processes.len() {
            let Some(process) = &self.processes[pid] else { continue };
            for (id, life) in &process.ids {
                assert!(!life.waits(), "nothing comes of {pid}/{id}: {life:?}");
            }
            while let Some(id) = self.any_id(pid) {
                let file = self.file(pid, id);
                self.destroy(pid, id, file);
            }
            assert!(self.net.shared.ports.iter().all(|port| port.pid != pid), "a port is left");
            assert!(self.net.shared.ends.iter().all(|end| end.pid != pid || !end.open), "a link is left");
            assert!(self.net.timers.keys().all(|key| key.0 != pid), "a timer is left");
            let files = self.processes[pid].as_ref().unwrap().files.clone();
            for file in &files {
                assert!(!self.net.managers[pid].as_ref().unwrap().ready(*file), "an event is left");
            }
            let create = Command::CreateId { uid: 1, space: TCP, qp_type: 2 };
            assert_eq!(self.run(pid, files[0], &create), Some(Answer::Created(0)), "an id is left");
            for file in files {
                self.net.close(pid, file);
            }
        }
        while self.net.sleep() {}
        if let Some(hosts) = &self.net.hosts {
            self.seen.lost += hosts.lost;
            assert!((0..self.processes.len()).all(|pid| hosts.is_empty(pid)), "a connection is remembered");
        }
    }
}
