//! Commands where ids are of the kernel's devices, too (see [`crate::sides`]).
//!
//! What is the kernel's alone goes to its file from the program's own memory, so that the kernel checks
//! pointers and rights itself; of an id that the program knows by another number, a copy with the kernel's
//! does. These commands may sleep in the kernel, so they are given to it without the device's lock
//! ([`Errand`]). What both sides take part in is short and done at once.

use core::mem::offset_of;

use ironverbs_cm::address::{Address, Family};
use ironverbs_cm::{Answer, Command, File};
use zerocopy::{FromBytes, IntoBytes};

use super::{Device, Outcome};
use crate::abi::decode::{self, Decoded, Surroundings};
use crate::abi::layout::{self, Header};
use crate::kernel::Kernel;
use crate::sides::{Id, OWN, Rule, There};
use crate::{memory, route};

/// Numbers of commands that are more than passed on.
const DESTROY_ID: u32 = 1;
const LEAVE: u32 = 17;
const MIGRATE: u32 = 18;
/// The event whose number is that of a request's new id.
const REQUEST: u32 = 4;
/// Events whose number is that of a join.
const JOINS: [u32; 2] = [12, 13];
/// The most bytes of a command that is copied, with its header: more than any command has.
const LONGEST: usize = 512;
/// How often a port that the kernel chose is asked for again, where it is taken at the software device.
const PORTS: u32 = 16;

/// A command for the kernel alone.
#[derive(Debug)]
pub struct Errand {
    kernel: Kernel,
    what: What,
}

#[derive(Debug)]
enum What {
    /// The program's bytes.
    Pass { from: u64, length: usize },
    /// The same with other numbers.
    Copy { copy: Copied },
    /// The same of an id that goes to this channel, with the file of the other one, which the command names.
    Migrate { copy: Copied, to: File, _from: Kernel },
    /// An id that is here, too, by its numbers here and there.
    Destroy { file: File, own: u32, was: There, there: u32, response: u64, answered: Option<u32> },
}

impl Errand {
    fn outcome(kernel: &Kernel, what: What) -> Outcome {
        Outcome::Kernel(Box::new(Errand { kernel: kernel.clone(), what }))
    }

    /// Gives the command to the kernel, which may sleep.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn run(&mut self) -> Result<(), i32> {
        match &mut self.what {
            What::Pass { from, length } => self.kernel.pass(*from, *length),
            What::Copy { copy } | What::Migrate { copy, .. } => copy.pass(&self.kernel),
            What::Destroy { there, answered, .. } => {
                *answered = Some(self.kernel.destroy(*there)?);
                Ok(())
            }
        }
    }
}

/// To whom an address leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Soft,
    Kernel,
    Both,
}

/// Where a command's body has the id.
fn place_of_id(number: u32) -> Option<usize> {
    Some(match number {
        1 | 17 => offset_of!(layout::DestroyId, id),
        2 => offset_of!(layout::BindIp, id),
        3 => offset_of!(layout::ResolveIp, id),
        4 => offset_of!(layout::ResolveRoute, id),
        5 | 19 => offset_of!(layout::Query, id),
        6 => offset_of!(layout::Connect, id),
        7 => offset_of!(layout::Listen, id),
        8 => offset_of!(layout::Accept, id),
        9 => offset_of!(layout::Reject, id),
        10 => offset_of!(layout::Disconnect, id),
        11 => offset_of!(layout::InitQpAttr, id),
        14 => offset_of!(layout::SetOption, id),
        15 => offset_of!(layout::Notify, id),
        16 => offset_of!(layout::JoinIp, id),
        18 => offset_of!(layout::Migrate, id),
        20 => offset_of!(layout::Bind, id),
        21 => offset_of!(layout::ResolveAddr, id),
        22 => offset_of!(layout::Join, id),
        23 => offset_of!(layout::ResolveIbService, id),
        24 => offset_of!(layout::WriteEvent, id),
        _ => return None,
    })
}

fn word(from: u64) -> Option<u32> {
    let mut bytes = [0; 4];
    memory::read(from, &mut bytes).ok()?;
    Some(u32::from_ne_bytes(bytes))
}

/// A copy of a command, which is there as far as any kernel reads.
#[derive(Debug)]
struct Copied {
    bytes: Box<[u8; LONGEST]>,
    /// What the program said that it writes.
    length: usize,
}

impl Copied {
    /// The program's command with another id. All of the command's struct is copied, which the kernel reads
    /// whatever the two lengths say; and what is behind it, which a later kernel may read, where that is there.
    fn with_id(from: u64, length: usize, id: u32) -> Result<Copied, i32> {
        const BODY: usize = size_of::<Header>();
        let mut bytes = Box::new([0; LONGEST]);
        memory::read(from, &mut bytes[..BODY])?;
        let header = Header::read_from_bytes(&bytes[..BODY]).map_err(|_| libc::EINVAL)?;
        let size = decode::size_read(header.command, header.input.into())?;
        let body = from.wrapping_add(BODY as u64);
        let more = size.max(header.input.into()).min(LONGEST - BODY);
        if memory::read(body, &mut bytes[BODY..BODY + more]).is_err() {
            memory::read(body, &mut bytes[BODY..BODY + size])?;
        }
        let mut copy = Copied { bytes, length: length.min(BODY + usize::from(u16::MAX)) };
        copy.place(place_of_id(header.command).ok_or(libc::EINVAL)?)?.copy_from_slice(&id.to_ne_bytes());
        Ok(copy)
    }

    /// A word of the body.
    fn place(&mut self, at: usize) -> Result<&mut [u8], i32> {
        let at = size_of::<Header>() + at;
        self.bytes.get_mut(at..at + 4).ok_or(libc::EINVAL)
    }

    fn pass(&self, kernel: &Kernel) -> Result<(), i32> {
        kernel.pass(self.bytes.as_ptr() as u64, self.length)
    }
}

impl Device {
    /// The kernel's file of a channel.
    fn kernel(&self, file: File) -> Option<Kernel> {
        self.net.channels.get(&file)?.kernel().cloned()
    }

    fn look_at_kernel(&self, file: File) {
        if let Some(channel) = self.net.channels.get(&file) {
            channel.look_at_kernel();
        }
    }

    /// A command that concerns the kernel alone; `None` of any other.
    pub(super) fn kernels(&mut self, file: File, from: u64, length: usize) -> Result<Option<Outcome>, i32> {
        let Some(kernel) = self.kernel(file).filter(|_| length >= size_of::<Header>()) else {
            return Ok(None);
        };
        let body = from.wrapping_add(size_of::<Header>() as u64);
        let Some(number) = word(from) else { return Ok(None) };
        let Some(id) = place_of_id(number).and_then(|at| word(body.wrapping_add(at as u64))) else {
            return Ok(None);
        };
        if id < OWN {
            if number != MIGRATE {
                return Ok(Some(Errand::outcome(&kernel, What::Pass { from, length })));
            }
            let mut copy = Copied::with_id(from, length, id)?;
            let fd = copy.place(offset_of!(layout::Migrate, fd))?;
            let named = u32::from_ne_bytes(fd.as_ref().try_into().map_err(|_| libc::EINVAL)?);
            let named = self.program(file).channel(named)?;
            let named = self.kernel(named).ok_or(libc::EINVAL)?;
            fd.copy_from_slice(&named.descriptor().to_ne_bytes());
            return Ok(Some(Errand::outcome(&kernel, What::Migrate { copy, to: file, _from: named })));
        }
        // A join is where its number is; the rest has something to do here, too.
        if matches!(number, DESTROY_ID | LEAVE | MIGRATE) || self.manager.knows(file, id).is_err() {
            return Ok(None);
        }
        match self.sides.get(id).map(|id| id.there) {
            Some(There::Alone(there)) => {
                let copy = Copied::with_id(from, length, there)?;
                Ok(Some(Errand::outcome(&kernel, What::Copy { copy })))
            }
            Some(There::Dying) => Err(libc::ENOENT),
            _ => Ok(None),
        }
    }

    /// The kernel has answered an errand.
    ///
    /// # Errors
    /// The kernel's; EFAULT where the answer cannot be stored.
    pub fn returned(&mut self, errand: &Errand, answer: Result<(), i32>) -> Result<(), i32> {
        if let (What::Migrate { to, .. }, Ok(())) = (&errand.what, &answer) {
            self.look_at_kernel(*to);
        }
        let What::Destroy { file, own, was, response, answered, .. } = &errand.what else { return answer };
        // Another thread may have closed the channel meanwhile, and the number be a new id's.
        let is_there = self.sides.get(*own).is_some_and(|id| id.file == *file && id.there == There::Dying);
        let Some(reported) = answered else {
            if is_there {
                self.sides.set(*own, *was);
            }
            return answer;
        };
        let mut unseen = 0;
        if is_there {
            unseen = self.sides.get(*own).map_or(0, |id| id.unseen);
            self.sides.forget(*own);
        }
        let command = Command::DestroyId { id: *own };
        let here = match self.settled(*file, &command) {
            Ok(Answer::Reported(here)) => here,
            _ => 0,
        };
        let events_reported = reported.wrapping_add(here).saturating_sub(unseen);
        // SAFETY: the program named the place for the answer.
        unsafe { memory::write(*response, layout::Reported { events_reported }.as_bytes()) }
    }

    /// Gives the manager a command, and does what follows of it.
    fn settled(&mut self, file: File, command: &Command<'_>) -> Result<Answer, i32> {
        let answer = self.manager.command(file, command, &mut self.net);
        self.act(file);
        self.show(file);
        answer.map_err(|errno| errno.0)
    }

    /// What both sides do, or the kernel does with more than the program's bytes; `None` where all of it is the
    /// software device's.
    pub(super) fn both(
        &mut self,
        file: File,
        decoded: &Decoded<'_>,
        from: u64,
        length: usize,
    ) -> Result<Option<Outcome>, i32> {
        let Some(kernel) = self.kernel(file) else { return Ok(None) };
        let (Command::Bind { id, .. }
        | Command::ResolveAddr { id, .. }
        | Command::Listen { id, .. }
        | Command::SetOption { id, .. }
        | Command::Migrate { id, .. }
        | Command::DestroyId { id }) = decoded.command
        else {
            return Ok(None);
        };
        let Some(there) = self.sides.get(id).map(|id| id.there) else { return Ok(None) };
        let owner = if let Command::Migrate { from, .. } = decoded.command { from } else { file };
        self.manager.knows(owner, id).map_err(|errno| errno.0)?;
        let done = |()| Some(Outcome::Done);
        match (&decoded.command, there) {
            (_, There::Dying) => Err(libc::ENOENT),
            (Command::DestroyId { .. }, There::Not) => {
                self.sides.forget(id);
                Ok(None)
            }
            (Command::DestroyId { .. }, was @ (There::Too(there) | There::Alone(there))) => {
                self.sides.set(id, There::Dying);
                let response = decoded.response;
                let what = What::Destroy { file, own: id, was, there, response, answered: None };
                Ok(Some(Errand::outcome(&kernel, what)))
            }
            (Command::Migrate { from, .. }, _) => self.migrate(file, id, *from, decoded).map(done),
            (Command::SetOption { level, name, value, .. }, There::Not | There::Too(_)) => {
                let setting = (*level, *name, value.to_vec());
                if let There::Too(there) = there {
                    kernel.set_option(there, &setting)?;
                }
                self.settled(file, &decoded.command)?;
                if let Some(id) = self.sides.get(id) {
                    id.settings.push(setting);
                }
                Ok(done(()))
            }
            (Command::Bind { address, .. }, There::Not) => match self.side(&kernel, address)? {
                Side::Soft => self.stays(file, &kernel, id, &decoded.command).map(done),
                Side::Kernel => self.goes(&kernel, id, |there| kernel.bind(there, address)).map(done),
                Side::Both => self.bind_both(file, &kernel, id, address).map(done),
            },
            (Command::ResolveAddr { source, destination, .. }, There::Not | There::Too(_)) => {
                let own = source.filter(|own| !own.is_zero()).map_or_else(
                    || (!destination.is_any()).then(|| route::source(None, destination).ok()).flatten(),
                    Some,
                );
                let side = own.map_or(Ok(Side::Soft), |own| self.side(&kernel, &own))?;
                if side == Side::Soft {
                    return self.stays(file, &kernel, id, &decoded.command).map(done);
                }
                let resolve = |there| Copied::with_id(from, length, there)?.pass(&kernel);
                match there {
                    There::Too(there) => {
                        resolve(there)?;
                        self.sides.set(id, There::Alone(there));
                        Ok(done(()))
                    }
                    _ => self.goes(&kernel, id, resolve).map(done),
                }
            }
            (Command::Listen { backlog, .. }, There::Not | There::Too(_)) => {
                if there == There::Not {
                    self.bind_both(file, &kernel, id, &Address::zero(Family::V4))?;
                }
                self.listen_both(file, &kernel, id, *backlog).map(done)
            }
            _ => Ok(None),
        }
    }

    /// To whom an address leads.
    ///
    /// Errors: those of [`Kernel::has`].
    fn side(&mut self, kernel: &Kernel, address: &Address) -> Result<Side, i32> {
        let is_kernels = match (&self.rule, address) {
            // Loopback is no address of a device of the kernel, and a native one is a GID, which both may have.
            (None, _) | (_, Address::Ib(_) | Address::Unspecified) => false,
            _ if address.is_zero() => return Ok(Side::Both),
            _ if address.is_loopback() => false,
            (Some(Rule::Devices), _) => kernel.has(address)?,
            (Some(Rule::Interfaces(names)), _) => {
                self.net.interface_of(address).is_some_and(|name| names.contains(&name))
            }
        };
        Ok(if is_kernels { Side::Kernel } else { Side::Soft })
    }

    /// An id at the kernel with what the program made and set.
    fn twin(&mut self, kernel: &Kernel, id: u32) -> Result<u32, i32> {
        let Some(Id { uid, space, qp_type, settings, .. }) = self.sides.get(id) else {
            return Err(libc::ENOENT);
        };
        let there = kernel.create(*uid, *space, *qp_type)?;
        for setting in settings {
            if let Err(errno) = kernel.set_option(there, setting) {
                let _ = kernel.destroy(there);
                return Err(errno);
            }
        }
        Ok(there)
    }

    /// An id without an address is the kernel's, where that does `first` with it.
    fn goes(
        &mut self,
        kernel: &Kernel,
        id: u32,
        first: impl FnOnce(u32) -> Result<(), i32>,
    ) -> Result<(), i32> {
        let there = self.twin(kernel, id)?;
        // Its events may come at once.
        self.sides.set(id, There::Alone(there));
        first(there).inspect_err(|_| {
            let _ = kernel.destroy(there);
            self.sides.set(id, There::Not);
        })
    }

    /// An id is the software device's alone from now on, where that executes this command; else all is as it
    /// was, as far as the kernel is concerned.
    fn stays(&mut self, file: File, kernel: &Kernel, id: u32, command: &Command<'_>) -> Result<(), i32> {
        // What came before the command counts before it.
        self.feed(file, false);
        self.settled(file, command)?;
        if let Some(There::Too(there)) = self.sides.get(id).map(|id| id.there) {
            let _ = kernel.destroy(there);
        }
        self.sides.forget(id);
        Ok(())
    }

    /// Binds an id to any address on both sides, with one port.
    fn bind_both(&mut self, file: File, kernel: &Kernel, id: u32, address: &Address) -> Result<(), i32> {
        for _ in 0..PORTS {
            let there = self.twin(kernel, id)?;
            let bound = kernel.bind(there, address).and_then(|()| match address.port() {
                0 => kernel.port(there),
                port => Ok(port),
            });
            let port = match bound {
                Ok(port) => port,
                Err(errno) => {
                    let _ = kernel.destroy(there);
                    return Err(errno);
                }
            };
            let bound = address.with_port(port);
            match self.settled(file, &Command::Bind { id, address: bound }) {
                Ok(_) => {
                    self.sides.set(id, There::Too(there));
                    if let Some(id) = self.sides.get(id) {
                        id.bound = bound;
                    }
                    return Ok(());
                }
                Err(errno) => {
                    let _ = kernel.destroy(there);
                    let taken = matches!(errno, libc::EADDRINUSE | libc::EADDRNOTAVAIL);
                    if !taken || address.port() != 0 {
                        return Err(errno);
                    }
                }
            }
        }
        Err(libc::EADDRNOTAVAIL)
    }

    /// Listens on both sides; on neither where one refuses.
    fn listen_both(&mut self, file: File, kernel: &Kernel, id: u32, backlog: i32) -> Result<(), i32> {
        let Some(There::Too(there)) = self.sides.get(id).map(|id| id.there) else { return Err(libc::EINVAL) };
        kernel.listen(there, backlog)?;
        let refused = match self.settled(file, &Command::Listen { id, backlog }) {
            Ok(_) => return Ok(()),
            Err(errno) => errno,
        };
        // There is no command that ends listening but the id's end.
        let bound = self.sides.get(id).map_or(Address::Unspecified, |id| id.bound);
        let _ = kernel.destroy(there);
        self.sides.set(id, There::Not);
        let twin = self.twin(kernel, id).and_then(|twin| {
            kernel.bind(twin, &bound).map(|()| twin).inspect_err(|_| {
                let _ = kernel.destroy(twin);
            })
        });
        match twin {
            Ok(twin) => self.sides.set(id, There::Too(twin)),
            Err(_) => self.sides.forget(id),
        }
        Err(refused)
    }

    /// Moves an id that is not the software device's alone. The second half cannot fail.
    fn migrate(&mut self, to: File, id: u32, from: File, decoded: &Decoded<'_>) -> Result<(), i32> {
        if decoded.room < size_of::<layout::Reported>() {
            return Err(libc::ENOSPC);
        }
        let mut events_reported = 0;
        if let Some(There::Too(there) | There::Alone(there)) = self.sides.get(id).map(|id| id.there) {
            let (old, new) = (self.kernel(from).ok_or(libc::EINVAL)?, self.kernel(to).ok_or(libc::EINVAL)?);
            events_reported = new.migrate(there, &old)?;
            self.look_at_kernel(to);
        }
        if let Ok(Answer::Reported(here)) = self.settled(to, &Command::Migrate { id, from }) {
            events_reported += here;
        }
        if let Some(id) = self.sides.get(id) {
            id.file = to;
            events_reported = events_reported.saturating_sub(id.unseen);
        }
        // SAFETY: the program named the place for the answer.
        unsafe { memory::write(decoded.response, layout::Reported { events_reported }.as_bytes()) }
    }

    /// The program made an id here, which may become one of the kernel, too.
    pub(super) fn may_go(&mut self, file: File, number: u32, (uid, space, qp_type): (u64, u16, u8)) {
        if self.kernel(file).is_some() {
            let (settings, bound, there) = (Vec::new(), Address::Unspecified, There::Not);
            self.sides.made(number, Id { file, uid, space, qp_type, settings, bound, there, unseen: 0 });
        }
    }

    /// Whether the kernel's side of a channel has an event.
    pub(super) fn kernel_has_event(&self, file: File) -> bool {
        self.net.channels.get(&file).and_then(|channel| channel.kernel()).is_some_and(Kernel::has_event)
    }

    /// Delivers an event of the kernel; false where there is none.
    pub(super) fn kernel_event(&mut self, file: File, decoded: &Decoded<'_>) -> Result<bool, i32> {
        let Some(kernel) = self.kernel(file) else { return Ok(false) };
        let mut event = match kernel.event() {
            Ok(event) => event,
            Err(libc::EAGAIN) => return Ok(false),
            Err(errno) => return Err(errno),
        };
        if event.event == REQUEST && event.id >= OWN {
            // So many ids has the machine that the program has no number for it: it is refused. The program
            // will wait for as many events as its listener's end says, and never sees this one.
            let _ = kernel.destroy(event.id);
            self.sides.unseen(file, event.uid);
            return Ok(false);
        }
        if event.event != REQUEST && !JOINS.contains(&event.event) {
            event.id = self.sides.own(event.id);
        }
        let room = decoded.room.min(size_of::<layout::Event>());
        // SAFETY: the program named the place for the answer.
        unsafe { memory::write(decoded.response, &event.as_bytes()[..room]) }.map(|()| true)
    }
}

#[cfg(test)]
mod tests;
