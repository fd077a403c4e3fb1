//! The manager: all channels and ids of a process.
//!
//! # How a program's caller uses it
//!
//! 1. Every open of the device is [`Manager::open`], every command [`Manager::command`], the last close
//!    [`Manager::close`].
//! 2. After each call of any method that may change something, the caller executes what
//!    [`Manager::next_action`] gives until that is empty, and sets the channel's descriptor readable exactly
//!    while [`Manager::ready`], and anew where [`Manager::arrivals`] rose.
//! 3. What links and listening places report goes to [`Manager::accepted`], [`Manager::message`],
//!    [`Manager::refused`], [`Manager::unreachable`], [`Manager::ended`]; time to [`Manager::expired`].
//!
//! A link or a listening place that becomes readable makes its channel readable before the event is in the
//! list. The caller feeds what is there when the program asks (GET_EVENT), one thing at a time until the list
//! is not empty.
//!
//! # Where something arrives and no event follows
//!
//! - Anything about a new id before ACCEPT gave it a uid, such as the other side's death: a later ACCEPT
//!   fails. An id that the program created with uid 0 has no events either.
//! - A request that is refused: the listener's program asked for other addresses or another kind of queue pair.
//! - A request beyond the backlog, and the end of one that waited there.
//! - The end of a link whose DREQ was reported already; a second DREQ, or DREP after it, where both sides
//!   asked at once.
//! - RTU after NOTIFY said so; DREQ before the program said RTU, which is reported once it did.
//! - MRA, and bytes that are no message of this connection.
//! - The time of a connection that ended meanwhile.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hasher};
use std::time::Duration;

use crate::answer::Answer;
use crate::command::Command;
use crate::errno::Errno;
use crate::event::Event;
use crate::file::File;
use crate::id::Id;
use crate::world::{Action, Device, Link, World};

fn done((): ()) -> Answer {
    Answer::Done
}

/// What a channel has.
#[derive(Default)]
pub(crate) struct Channel {
    /// Events that GET_EVENT has not delivered yet, in their order.
    pub unread: VecDeque<Unread>,
    /// How many events have come to it.
    pub arrivals: u64,
    /// What the caller was last asked for by [`Action::Timer`].
    pub alarm: Option<Duration>,
}

/// An event that waits for GET_EVENT.
pub(crate) struct Unread {
    /// For which id it counts: of a request the listener.
    pub owner: u32,
    /// For which join it counts, too.
    pub join: Option<u32>,
    /// The new id of a request.
    pub request: Option<u32>,
    pub event: Event,
}

/// A join of a multicast group.
pub(crate) struct Join {
    pub owner: u32,
    pub events_reported: u32,
}

/// All channels and ids of a process. See the module.
#[derive(Default)]
pub struct Manager {
    pub(crate) files: BTreeMap<File, Channel>,
    pub(crate) ids: BTreeMap<u32, Id>,
    pub(crate) joins: BTreeMap<u32, Join>,
    /// Whose a link is; of one whose request waits for room, the listener.
    pub(crate) links: BTreeMap<Link, u32>,
    pub(crate) actions: VecDeque<Action>,
    /// What ids wait for, by channel and time.
    pub(crate) alarms: BTreeSet<(File, Duration, u32)>,
    /// Channels whose first time may have changed.
    pub(crate) changed_alarms: BTreeSet<File>,
    pub(crate) id_numbers: Numbers,
    pub(crate) join_numbers: Numbers,
    files_opened: u64,
    links_made: u64,
    comings: u64,
    pub(crate) comm_ids: u32,
    /// How numbers of connections are made that other hosts learn.
    pub(crate) names: Option<Names>,
    /// When the call came that is served, or the last one that got the world.
    pub(crate) now: Duration,
}

/// Numbers of connections by which other hosts name this process.
#[derive(Clone, Copy)]
pub(crate) struct Names {
    process: u16,
    secret: u128,
}

/// As many as make a permutation of two bytes that nobody can tell from a random one, by functions that nobody
/// can tell from random ones.
const ROUNDS: u8 = 8;

impl Names {
    /// The number of the connection that is counted so: the process's, and another number for each of 2^16 in
    /// an order that others do not know, however many of them they were told.
    pub fn of(self, count: u32) -> u32 {
        let [_, _, mut left, mut right] = count.to_be_bytes();
        // A Feistel network: each count gives another number, whatever is added.
        for round in 0..ROUNDS {
            (left, right) = (right, left ^ self.mixed(round, right));
        }
        u32::from_be_bytes([0, 0, left, right]) | u32::from(self.process) << 16
    }

    /// SipHash, of which the secret is a part of what is hashed, as the standard library takes no key.
    fn mixed(self, round: u8, half: u8) -> u8 {
        let mut hasher = DefaultHasher::new();
        hasher.write_u128(self.secret);
        hasher.write(&[round, half]);
        hasher.finish() as u8
    }

    /// The next one after so many, which once all were used is one that is none of those `in_use`. `None` where
    /// all are.
    pub fn next(self, count: &mut u32, in_use: impl FnOnce() -> BTreeSet<u32>) -> Option<u32> {
        const ALL: u32 = 1 << 16;
        *count = count.checked_add(1).unwrap_or(ALL);
        if *count < ALL {
            return Some(self.of(*count));
        }
        let in_use = in_use();
        for _ in 0..ALL {
            let name = self.of(*count);
            if !in_use.contains(&name) {
                return Some(name);
            }
            // What was used once comes again from now on.
            *count = count.checked_add(1).unwrap_or(ALL);
        }
        None
    }
}

/// Numbers that are given out lowest first, as the kernel does.
#[derive(Default)]
pub(crate) struct Numbers {
    free: BTreeSet<u32>,
    next: u32,
}

impl Numbers {
    pub fn take(&mut self) -> u32 {
        self.free.pop_first().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        })
    }

    pub fn give_back(&mut self, number: u32) {
        self.free.insert(number);
    }
}

impl Manager {
    /// A manager without channels.
    pub fn new() -> Manager {
        Manager::default()
    }

    /// A manager without channels, whose ids and joins have numbers from `first` on.
    pub fn numbered_from(first: u32) -> Manager {
        let numbers = || Numbers { next: first, ..Numbers::default() };
        Manager { id_numbers: numbers(), join_numbers: numbers(), ..Manager::default() }
    }

    /// Connections have numbers from now on that begin with these 16 bits, so that what names them finds the
    /// process; the rest nobody can guess who does not know the secret.
    pub fn name_connections(&mut self, process: u16, secret: u128) {
        self.names = Some(Names { process, secret });
    }

    /// The number by which the other side of a link names its connection here. `None` of a link that is closed,
    /// or whose request still waits for room.
    pub fn comm_id(&self, link: Link) -> Option<u32> {
        let id = self.ids.get(self.links.get(&link)?)?;
        (id.connection.link == Some(link)).then_some(id.connection.local_comm_id)
    }

    /// The channel of an id.
    pub fn file(&self, number: u32) -> Option<File> {
        self.ids.get(&number).map(|id| id.file)
    }

    /// The channel that a link belongs to.
    pub fn channel(&self, link: Link) -> Option<File> {
        Some(self.ids.get(self.links.get(&link)?)?.file)
    }

    /// The device is opened.
    pub fn open(&mut self) -> File {
        self.files_opened += 1;
        let file = File(self.files_opened);
        self.files.insert(file, Channel::default());
        file
    }

    /// The last descriptor of a channel is closed: its ids are destroyed in the order in which they came to it.
    /// A file that is not open is ignored. The caller forgets the channel's timer.
    pub fn close(&mut self, file: File) {
        let mut ids: Vec<(u64, u32)> =
            self.ids.values().filter(|id| id.file == file).map(|id| (id.joined_file, id.number)).collect();
        ids.sort_unstable();
        for (_, id) in ids {
            self.destroy(id);
        }
        self.files.remove(&file);
    }

    /// Executes a command that was written to `file`.
    ///
    /// # Errors
    ///
    /// As the kernel's. EAGAIN of GET_EVENT: there is no event.
    pub fn command(
        &mut self,
        file: File,
        command: &Command<'_>,
        world: &mut dyn World,
    ) -> Result<Answer, Errno> {
        if !self.files.contains_key(&file) {
            return Err(Errno::EINVAL);
        }
        self.now = world.now();
        match *command {
            Command::CreateId { uid, space, qp_type } => {
                self.create_id(file, uid, space, qp_type, world).map(Answer::Created)
            }
            Command::DestroyId { id } => self.destroy_id(file, id).map(Answer::Reported),
            Command::Bind { id, address } => self.bind(file, id, address, world).map(done),
            Command::ResolveAddr { id, source, destination, timeout_ms } => {
                self.resolve_addr(file, id, source, destination, timeout_ms, world).map(done)
            }
            Command::ResolveRoute { id, timeout_ms } => self.resolve_route(file, id, timeout_ms).map(done),
            Command::QueryRoute { id } => self.query_route(file, id),
            Command::Connect { id, param, ece } => self.connect(file, id, param, ece).map(done),
            Command::Listen { id, backlog } => self.listen(file, id, backlog, world).map(done),
            Command::Accept { uid, id, param, ece } => self.accept(file, id, uid, param, ece).map(done),
            Command::Reject { id, reason, data } => self.reject(file, id, reason, data).map(done),
            Command::Disconnect { id } => self.disconnect(file, id).map(done),
            Command::InitQpAttr { id, state } => {
                self.init_qp_attr(file, id, state).map(|attr| Answer::QpAttr(Box::new(attr)))
            }
            Command::GetEvent => self.get_event(file, world).map(Answer::Event),
            Command::SetOption { id, level, name, value } => {
                self.set_option(file, id, level, name, value).map(done)
            }
            Command::Notify { id, event } => self.notify(file, id, event).map(done),
            Command::JoinMulticast { id, uid, address, flags } => {
                self.join(file, id, uid, address, flags).map(Answer::Created)
            }
            Command::LeaveMulticast { id } => self.leave(file, id).map(Answer::Reported),
            Command::Migrate { id, from } => self.migrate(file, id, from).map(Answer::Reported),
            Command::Query { id, option } => self.query(file, id, option),
            Command::ResolveIbService { id, .. } => self.resolve_ib_service(file, id).map(done),
            Command::WriteEvent { id, event, status, argument } => {
                self.write_event(file, id, event, status, argument).map(done)
            }
        }
    }

    /// Whether the channel's descriptor is to be readable: an event waits. Of a file that is not open false.
    pub fn ready(&self, file: File) -> bool {
        self.files.get(&file).is_some_and(|c| !c.unread.is_empty())
    }

    /// How many events have come to a channel since it was opened, those of ids that migrated to it among them:
    /// each wakes who waits for edges, whether others are unread or not. Of a file that is not open 0.
    pub fn arrivals(&self, file: File) -> u64 {
        self.files.get(&file).map_or(0, |c| c.arrivals)
    }

    /// The next thing to be done outside, until there is none.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front().or_else(|| {
            self.set_timers();
            self.actions.pop_front()
        })
    }

    /// Whether requests should be accepted for this listener now, see [`Action::Accepting`].
    pub fn accepting(&self, listener: u32) -> bool {
        self.ids.get(&listener).is_some_and(|id| id.backlog > 0 && id.waiting.is_empty())
    }

    /// Whether a command written to `file` may name this id: where there is something to check behind it.
    ///
    /// # Errors
    ///
    /// ENOENT where there is none, EINVAL where it is another file's.
    pub fn knows(&self, file: File, number: u32) -> Result<(), Errno> {
        let id = self.ids.get(&number).ok_or(Errno::ENOENT)?;
        if id.file == file { Ok(()) } else { Err(Errno::EINVAL) }
    }

    /// The id of this number, for a command written to `file`.
    pub(crate) fn id(&mut self, file: File, number: u32) -> Result<&mut Id, Errno> {
        self.knows(file, number)?;
        self.ids.get_mut(&number).ok_or(Errno::ENOENT)
    }

    /// The same for commands that need a device.
    pub(crate) fn id_with_device(&mut self, file: File, number: u32) -> Result<(&mut Id, Device), Errno> {
        let id = self.id(file, number)?;
        let device = id.device.ok_or(Errno::EINVAL)?;
        Ok((id, device))
    }

    pub(crate) fn new_link(&mut self) -> Link {
        self.links_made += 1;
        Link(self.links_made)
    }

    /// Orders the ids of a file.
    pub(crate) fn next_coming(&mut self) -> u64 {
        self.comings += 1;
        self.comings
    }

    pub(crate) fn act(&mut self, action: Action) {
        self.actions.push_back(action);
    }

    pub(crate) fn close_link(&mut self, link: Link) {
        if self.links.remove(&link).is_some() {
            self.act(Action::Close { link });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_connections_have_one_name() {
        for secret in [0, 1, 0xdead_beef] {
            let names = Names { process: 0xabcd, secret };
            let all: BTreeSet<u32> = (0..=0xffff).map(|count| names.of(count)).collect();
            assert_eq!(all.len(), 0x1_0000);
            assert!(all.iter().all(|name| name >> 16 == 0xabcd));
        }
    }

    #[test]
    fn every_bit_of_the_secret_counts_for_every_name() {
        let names = |secret| Names { process: 0xabcd, secret };
        for bit in 0..u128::BITS {
            let is_same = |count: &u32| names(7).of(*count) == names(7 ^ 1 << bit).of(*count);
            // Of two random ones one in 2^16 is the same.
            let same = (1..=256).filter(is_same).count();
            assert!(same <= 2, "bit {bit}: {same}");
        }
    }

    #[test]
    fn names_come_again_where_they_are_free_and_run_out() {
        let names = Names { process: 0xabcd, secret: 7 };
        let mut count = 0;
        let mut all = BTreeSet::from([names.of(0)]);
        while all.len() < 0x1_0000 {
            assert!(all.insert(names.next(&mut count, || unreachable!("they are new")).unwrap()));
        }
        for mut count in [count, u32::MAX - 5, u32::MAX] {
            assert_eq!(names.next(&mut count, || all.clone()), None);
            let free = names.of(99);
            let others = all.iter().copied().filter(|name| *name != free).collect();
            assert_eq!(names.next(&mut count, || others), Some(free));
        }
    }
}
