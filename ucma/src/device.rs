//! The device of a process: its manager, its channels, and what goes to and fro between them.

use std::collections::HashMap;
use std::os::fd::{AsRawFd, IntoRawFd, RawFd};
use std::time::Duration;

use ironverbs_cm::wire::MAD_SIZE;
use ironverbs_cm::world::Action;
use ironverbs_cm::{Address, Answer, Command, Errno, File, Manager};
use softrdma::device::Management;

use crate::abi::decode::{self, Decoded, Form, Scratch, Surroundings};
use crate::abi::encode;
use crate::channel::{Channel, Member};
use crate::kernel::Kernel;
use crate::net::{Connected, Net, Role, Waiting, is_lost};
use crate::sides::{OWN, Rule, Sides};
use crate::sockets::Received;
use crate::{memory, sys};

mod both;
mod lost;
mod network;

pub use both::Errand;

/// When a connect whose listener has a full queue is tried again.
const AGAIN: Duration = Duration::from_millis(20);
/// How long a connect waits for somebody to listen, where there is another process that may be about to:
/// servers tell their clients the port before they listen, and on a network the way takes that long.
const UNTIL_LISTENING: Duration = Duration::from_millis(250);
/// When it looks again.
const LISTENS_SOON: Duration = Duration::from_millis(2);
/// When descriptors are looked for again where there are none.
const WITHOUT_DESCRIPTORS: Duration = Duration::from_millis(100);
/// Connections of one listener that have said nothing yet; the oldest goes when one more comes.
const UNBORN_MAX: usize = 64;
/// Members of a channel that one call looks at, so that peers who send on and on hold up nobody.
const AT_ONCE: usize = 256;

/// What a command has to wait for.
#[derive(Debug)]
pub enum Outcome {
    /// The command was executed.
    Done,
    /// There is no event: to be asked again when the channel is readable.
    Wait,
    /// It is to be given to the kernel, and what that answers to [`Device::returned`].
    Kernel(Box<Errand>),
}

/// What is left of a channel: the kernel's file, which may sleep while it is closed.
pub struct Closed {
    _kernel: Option<Kernel>,
}

/// All channels of a process.
pub struct Device {
    manager: Manager,
    net: Net,
    files: HashMap<RawFd, File>,
    /// What the manager asked for.
    alarms: HashMap<File, Duration>,
    /// Listeners that found no descriptor for a connection, and are to be looked at again.
    starved: HashMap<File, Vec<u32>>,
    scratch: Scratch,
    /// What is left to the kernel.
    rule: Option<Rule>,
    sides: Sides,
}

struct Program<'a> {
    files: &'a HashMap<RawFd, File>,
    channels: &'a HashMap<File, Channel>,
    manager: &'a Manager,
    file: File,
}

impl Surroundings for Program<'_> {
    fn read(&self, from: u64, to: &mut [u8]) -> Result<(), i32> {
        memory::read(from, to)
    }

    fn knows(&self, id: u32) -> Result<(), i32> {
        self.manager.knows(self.file, id).map_err(|errno| errno.0)
    }

    fn channel(&self, fd: u32) -> Result<File, i32> {
        let fd = RawFd::try_from(fd).map_err(|_| libc::ENOENT)?;
        match self.files.get(&fd) {
            Some(file) if self.channels.get(file).is_some_and(|channel| channel.is(fd)) => Ok(*file),
            _ if sys::is_open(fd) => Err(libc::EINVAL),
            _ => Err(libc::ENOENT),
        }
    }
}

impl Device {
    /// Whether the way to other hosts is to be opened, for which others may be waited for.
    pub fn wants_network(&self) -> bool {
        self.net.wants_network()
    }

    /// It was, or not.
    pub fn open_network(&mut self, port: Option<Management>) {
        self.net.open_network(port);
    }

    /// A device without channels, that leaves some addresses to the kernel or none.
    pub fn new(rule: Option<Rule>) -> Device {
        // What is wrong with the words for them, the library of verbs says.
        let _mistake = softrdma::faults::try_begin();
        softrdma::capture::begin_quietly();
        // Where no number is the kernel's, they are as the kernel's are.
        let first = if rule.is_some() { OWN } else { 0 };
        Device {
            manager: Manager::numbered_from(first),
            net: Net::default(),
            files: HashMap::new(),
            alarms: HashMap::new(),
            starved: HashMap::new(),
            scratch: Scratch::default(),
            rule,
            sides: Sides::default(),
        }
    }

    /// The device is opened: the program's descriptor, and that of a member which only this set has
    /// ([`Channel::own_member`]).
    ///
    /// # Errors
    /// EMFILE, ENFILE, ENOMEM; those of the kernel's file, where addresses are left to it.
    pub fn open(&mut self, flags: i32) -> Result<(RawFd, RawFd), i32> {
        let (cloexec, nonblocking) = (flags & libc::O_CLOEXEC != 0, flags & libc::O_NONBLOCK != 0);
        let (mut channel, shown) = Channel::new(cloexec, nonblocking)?;
        if let Some(kernel) = self.rule.as_ref().map(Rule::open).transpose()?.flatten() {
            channel = channel.with_kernel(kernel)?;
        }
        self.was_closed(shown.as_raw_fd());
        let (file, member) = (self.manager.open(), channel.own_member());
        self.net.channels.insert(file, channel);
        self.files.insert(shown.as_raw_fd(), file);
        Ok((shown.into_raw_fd(), member))
    }

    /// The kernel has just given out a number: what had it before was closed past the shim, if it is known
    /// still.
    fn was_closed(&mut self, fd: RawFd) {
        drop(self.close(fd));
    }

    /// The program has another descriptor of a channel.
    pub fn copied(&mut self, fd: RawFd, copy: RawFd) {
        self.was_closed(copy);
        if let Some(file) = self.files.get(&fd).copied()
            && let Some(channel) = self.net.channels.get_mut(&file)
        {
            channel.copied(copy);
            self.files.insert(copy, file);
        }
    }

    /// The program is about to close a descriptor of a channel. What is left of the channel, where it was the
    /// last one.
    pub fn close(&mut self, fd: RawFd) -> Option<Closed> {
        let file = self.files.remove(&fd)?;
        if !self.net.channels.get_mut(&file).is_some_and(|channel| channel.closed(fd)) {
            return None;
        }
        // Of numbers that were closed past the shim.
        self.files.retain(|_, known| *known != file);
        self.manager.close(file);
        self.sides.close(file);
        self.act(file);
        self.alarms.remove(&file);
        self.starved.remove(&file);
        self.net.waiting.retain(|waiting| waiting.file != file);
        let channel = self.net.channels.remove(&file);
        self.net.rest();
        channel.map(|channel| Closed { _kernel: channel.kernel().cloned() })
    }

    /// The process ends.
    pub fn end(&mut self) {
        self.net.end();
    }

    /// A command, as a program writes it to a channel.
    ///
    /// # Errors
    /// What `write` fails with on Linux.
    pub fn write(&mut self, fd: RawFd, from: u64, length: usize) -> Result<Outcome, i32> {
        let Some(file) = self.files.get(&fd).copied() else {
            // It was a channel when the program called: who asks for events waits on in a closed one.
            return if asks_for_event(from) { Ok(Outcome::Wait) } else { Err(libc::EBADF) };
        };
        self.used(file, fd);
        if let Some(outcome) = self.kernels(file, from, length)? {
            return Ok(outcome);
        }
        // Decoding reads this memory while the manager changes.
        let mut scratch = std::mem::take(&mut self.scratch);
        let program = self.program(file);
        let done = decode::decode(from, length, &program, &mut scratch).and_then(|decoded| {
            match self.both(file, &decoded, from, length)? {
                Some(outcome) => Ok(outcome),
                None => self.execute(file, &decoded),
            }
        });
        self.scratch = scratch;
        done
    }

    fn used(&mut self, file: File, fd: RawFd) {
        if let Some(channel) = self.net.channels.get_mut(&file) {
            channel.used(fd);
        }
    }

    fn program(&self, file: File) -> Program<'_> {
        Program { files: &self.files, channels: &self.net.channels, manager: &self.manager, file }
    }

    fn execute(&mut self, file: File, decoded: &Decoded<'_>) -> Result<Outcome, i32> {
        // What came before the command counts before it, as with a manager that works all the time.
        let asks = decoded.command == Command::GetEvent;
        if !asks || !self.manager.ready(file) {
            self.feed(file, asks);
        }
        if asks {
            let (here, there) = (self.manager.ready(file), self.kernel_has_event(file));
            if !here && !there {
                self.show(file);
                return Ok(Outcome::Wait);
            }
            // An event that cannot be stored stays.
            let room = decoded.room.min(size_of::<crate::abi::layout::Event>());
            probe(decoded.response, room).inspect_err(|_| self.show(file))?;
            let first = self.net.channels.get(&file).is_some_and(|channel| channel.kernel_first);
            let kernels = there && (first || !here) && self.kernel_event(file, decoded)?;
            if let Some(channel) = self.net.channels.get_mut(&file) {
                channel.kernel_first = !kernels;
            }
            if kernels {
                self.show(file);
                return Ok(Outcome::Done);
            }
        }
        let answer = self.manager.command(file, &decoded.command, &mut self.net);
        self.act(file);
        self.show(file);
        let answer = match answer {
            Ok(answer) => answer,
            Err(Errno::EAGAIN) if decoded.command == Command::GetEvent => return Ok(Outcome::Wait),
            Err(errno) => return Err(errno.0),
        };
        let bytes = encode::encode(&answer, decoded.form, decoded.room)?;
        if decoded.form == Form::None {
            return Ok(Outcome::Done);
        }
        // SAFETY: the program named the place for the answer.
        let stored = unsafe { memory::write(decoded.response, &bytes) };
        // Nobody would know its number.
        let undo = match (&stored, &answer, &decoded.command) {
            (Err(_), Answer::Created(id), Command::CreateId { .. }) => Some(Command::DestroyId { id: *id }),
            (Err(_), Answer::Created(id), Command::JoinMulticast { .. }) => {
                Some(Command::LeaveMulticast { id: *id })
            }
            _ => None,
        };
        if let Some(undo) = undo {
            let _ = self.manager.command(file, &undo, &mut self.net);
            self.act(file);
            self.show(file);
        }
        if let (Ok(()), Answer::Created(id), Command::CreateId { uid, space, qp_type }) =
            (&stored, &answer, &decoded.command)
        {
            self.may_go(file, *id, (*uid, *space, *qp_type));
        }
        stored.map(|()| Outcome::Done)
    }

    /// Whether a channel has an event, after what peers and the clock have brought.
    pub fn has_event(&mut self, fd: RawFd) -> bool {
        let Some(file) = self.files.get(&fd).copied() else { return false };
        self.used(file, fd);
        self.feed(file, true);
        self.show(file);
        self.manager.ready(file) || self.kernel_has_event(file)
    }

    /// Takes what peers and the clock have brought: all of it, or until there is an event. Does not yet show
    /// that there is one, which who takes it at once spares everybody.
    fn feed(&mut self, file: File, until_event: bool) {
        for _ in 0..AT_ONCE {
            let Some(channel) = self.net.channels.get_mut(&file) else { return };
            match channel.next() {
                None | Some(Member::Events | Member::Kernel) => return,
                Some(Member::Timer) => {
                    channel.woken();
                    self.expire(file);
                }
                Some(Member::Socket(number)) => self.read(number),
            }
            self.act(file);
            self.wake(file);
            if until_event && self.manager.ready(file) {
                return;
            }
        }
    }

    fn expire(&mut self, file: File) {
        let now = sys::now();
        if self.alarms.get(&file).is_some_and(|at| *at <= now) {
            self.alarms.remove(&file);
            self.manager.expired(file, &mut self.net);
        }
        for listener in self.starved.remove(&file).unwrap_or_default() {
            self.net.accepting(listener, self.manager.accepting(listener));
        }
        let all = std::mem::take(&mut self.net.waiting);
        let (due, later) = all.into_iter().partition(|waiting| waiting.file == file && waiting.at <= now);
        self.net.waiting = later;
        for Waiting { link, file, to, message, until, lost, .. } in due {
            match lost {
                None => self.connect(link, file, None, to, message, until),
                Some(lost) => self.connect_again(link, file, to, message, lost),
            }
        }
    }

    /// Something happened at a socket.
    fn read(&mut self, number: u64) {
        let Some(connection) = self.net.sockets.get(&number) else { return };
        let (role, file) = (connection.role, connection.file);
        let mut message = [0; MAD_SIZE];
        let received = match role {
            Role::Listens(listener) => return self.accept(number, listener, file),
            _ => connection.socket.receive(&mut message),
        };
        match (role, received) {
            (_, Received::Nothing) => {}
            (Role::Unborn(listener), Received::Message(length)) => {
                // Actions on the link follow, so it must be known by its number when they are executed.
                let message = &message[..length];
                let link = self.manager.accepted(listener, message, &mut self.net);
                self.net.born(number, link, message);
            }
            (Role::Linked(link), Received::Message(length)) => {
                self.manager.message(link, &message[..length], &mut self.net);
            }
            (Role::Linked(link), Received::End) => {
                self.manager.ended(link, &mut self.net);
                // What this side still says is written to the capture.
                self.act(file);
                self.net.leave(number);
            }
            (_, Received::End) | (Role::Listens(_), _) => self.net.leave(number),
        }
    }

    fn accept(&mut self, number: u64, listener: u32, file: File) {
        match self.net.accept(number) {
            Ok(Some(socket)) => {
                if let (UNBORN_MAX.., Some(oldest)) = self.net.unborn(listener) {
                    self.net.leave(oldest);
                }
                let _ = self.net.join(socket, Role::Unborn(listener), file);
            }
            Ok(None) => {}
            Err(_) => {
                // The connection waits in the socket, which must not wake the channel again and again.
                self.net.accepting(listener, false);
                self.starved.entry(file).or_default().push(listener);
            }
        }
    }

    fn connect(
        &mut self,
        link: ironverbs_cm::Link,
        file: File,
        from: Option<&Address>,
        to: ironverbs_cm::world::Destination,
        message: ironverbs_cm::world::Message,
        until: Duration,
    ) {
        let now = sys::now();
        if let Some(from) = from {
            match self.net.connect_afar(link, from, &to.address, &message) {
                Some(true) => return,
                Some(false) => return self.manager.unreachable(link),
                None => {}
            }
            if is_lost(&message) {
                return self.lose_request(link, file, to, message);
            }
        }
        match self.net.connect(link, file, to, message) {
            Connected::Yes => {}
            Connected::Later(message) => {
                let at = now + AGAIN;
                self.net.waiting.push(Waiting { link, file, to, message, at, until, lost: None });
            }
            Connected::Soon(message) if now < until => {
                let at = now + LISTENS_SOON;
                self.net.waiting.push(Waiting { link, file, to, message, at, until, lost: None });
            }
            Connected::Soon(_) => self.manager.refused(link, false, &mut self.net),
            Connected::Refused(known) => self.manager.refused(link, known, &mut self.net),
            Connected::Unreachable => self.manager.unreachable(link),
        }
    }

    /// Does what the manager wants done, and what that brings from other hosts, and shows what other channels
    /// than `own` have by it.
    fn act(&mut self, own: impl Into<Option<File>>) {
        if let Some((process, secret)) = self.net.take_name() {
            self.manager.name_connections(process, secret);
        }
        let (own, mut changed) = (own.into(), Vec::new());
        loop {
            let Some(action) = self.manager.next_action() else {
                match self.net.next_output() {
                    Some(output) => changed.extend(self.brought(output)),
                    None => break,
                }
                continue;
            };
            match action {
                Action::Connect { link, file, from, to, message } => {
                    self.connect(link, file, Some(&from), to, message, sys::now() + UNTIL_LISTENING);
                    changed.push(file);
                }
                Action::Send { link, message } => self.net.send(link, message),
                Action::Close { link } => self.net.close(link),
                Action::Move { link, file } => {
                    self.net.give(link, file);
                    changed.push(file);
                }
                Action::MoveListener { id, file } => self.net.give_listener(id, file),
                Action::Accepting { id, room } => self.net.accepting(id, room),
                Action::Update { id, binding } => self.net.update(id, &binding),
                Action::Release { id } => self.net.release(id),
                Action::Timer { file, at } => {
                    match at {
                        Some(at) => self.alarms.insert(file, at),
                        None => self.alarms.remove(&file),
                    };
                    changed.push(file);
                }
            }
        }
        for file in changed {
            self.wake(file);
            if own != Some(file) {
                self.show(file);
            }
        }
    }

    /// Has a channel become readable when something is to be done for it.
    fn wake(&mut self, file: File) {
        let waiting =
            self.net.waiting.iter().filter(|waiting| waiting.file == file).map(|waiting| waiting.at);
        let starved = self.starved.contains_key(&file).then(|| sys::now() + WITHOUT_DESCRIPTORS);
        let at = waiting.chain(self.alarms.get(&file).copied()).chain(starved).min();
        if let Some(channel) = self.net.channels.get_mut(&file) {
            channel.wake_at(at);
        }
    }

    fn show(&mut self, file: File) {
        let (ready, arrivals) = (self.manager.ready(file), self.manager.arrivals(file));
        if let Some(channel) = self.net.channels.get_mut(&file) {
            channel.show(ready, arrivals);
        }
    }
}

/// Whether a command is GET_EVENT.
fn asks_for_event(from: u64) -> bool {
    let mut number = [0; 4];
    memory::read(from, &mut number).is_ok() && u32::from_ne_bytes(number) == decode::GET_EVENT
}

/// Whether an answer can be stored, which stays as it is.
fn probe(place: u64, size: usize) -> Result<(), i32> {
    let mut bytes = [0; size_of::<crate::abi::layout::Event>()];
    let bytes = &mut bytes[..size];
    memory::read(place, bytes)?;
    // SAFETY: the program named the place for the answer, and the bytes are those that it has.
    unsafe { memory::write(place, bytes) }
}
