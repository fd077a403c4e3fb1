//! Giving commands to the kernel: attributes for the uverbs ioctl, and the legacy commands as their fallback.

use core::marker::PhantomData;
use std::os::fd::{AsRawFd, RawFd};

use super::device_file::{DeviceFile, Method};
use super::{Udata, memcheck};
use crate::abi::uapi::Pod;
use crate::abi::uapi::ib_user_ioctl_cmds::*;
use crate::abi::uapi::ib_user_verbs::{
    IB_USER_VERBS_CMD_FLAG_EXTENDED, ib_uverbs_cmd_hdr, ib_uverbs_ex_cmd_hdr,
};
use crate::abi::uapi::rdma_user_ioctl_cmds::*;
use crate::errno::{Errno, Result};

/// Which way a command went, or has to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// The ioctl method has done it.
    Ioctl,
    /// The kernel has no such method: the caller must give the legacy command.
    Write,
    /// As `Write`, and only the extended legacy command can say what was asked.
    WriteEx,
}

/// The place of an attribute whose value the kernel fills in: an object number or a file descriptor.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Slot(usize);

/// A command for the uverbs ioctl with room for `N` attributes, built on the stack.
///
/// It borrows what its attributes point to for `'a`; outputs are filled when [`Command::execute`] succeeds.
pub struct Command<'a, const N: usize> {
    frame: Frame<N>,
    count: usize,
    /// Attributes that follow our own.
    prepared: Prepared<'a>,
    /// Something was asked that cannot be expressed; executing gives EINVAL.
    invalid: bool,
    needs_ex: bool,
    needs_ioctl: bool,
    /// The attributes that point to room for an answer, one bit each: what a played kernel may write.
    #[cfg(test)]
    outputs: u64,
    memory: PhantomData<&'a mut [u8]>,
}

/// Attributes that somebody else prepared for the same command, in pieces: what a driver's provider adds to a
/// command of the core. They stay where they are, and get the kernel's answers (numbers of new objects, flags)
/// when it succeeds.
#[derive(Default)]
pub struct Prepared<'a> {
    pieces: Vec<&'a mut [ib_uverbs_attr]>,
    needs_ex: bool,
    needs_ioctl: bool,
}

impl<'a> Prepared<'a> {
    /// No attributes.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Adds the next piece.
    ///
    /// # Safety
    /// What the attributes point to is as long as they say, valid for `'a`, and may be written where it is
    /// output.
    pub unsafe fn push(&mut self, attrs: &'a mut [ib_uverbs_attr]) {
        if !attrs.is_empty() {
            self.pieces.push(attrs);
        }
    }

    /// Says of the pieces so far that only the extended legacy command, or none at all, can express them.
    pub fn restrict(&mut self, needs_ex: bool, needs_ioctl: bool) {
        self.needs_ex |= needs_ex;
        self.needs_ioctl |= needs_ioctl;
    }

    /// Whether a legacy command can leave these attributes out: all are optional, or the driver's part that
    /// goes with that command.
    fn can_be_left_out(&self) -> bool {
        let mut attrs = self.pieces.iter().flat_map(|attrs| attrs.iter());
        attrs.all(|attr| {
            matches!(attr.attr_id, UVERBS_ATTR_UHW_IN | UVERBS_ATTR_UHW_OUT)
                || attr.flags & UVERBS_ATTR_F_MANDATORY == 0
        })
    }
}

const HEADER_SIZE: usize = size_of::<ib_uverbs_ioctl_hdr>();
const ATTR_SIZE: usize = size_of::<ib_uverbs_attr>();

#[repr(C)]
struct Frame<const N: usize> {
    header: ib_uverbs_ioctl_hdr,
    attrs: [ib_uverbs_attr; N],
}

impl<'a, const N: usize> Command<'a, N> {
    /// A command without attributes.
    pub fn new(object_id: u16, method_id: u16) -> Self {
        let header = ib_uverbs_ioctl_hdr { object_id, method_id, ..Pod::zeroed() };
        Self {
            frame: Frame { header, attrs: [ib_uverbs_attr::zeroed(); N] },
            count: 0,
            prepared: Prepared::none(),
            invalid: false,
            needs_ex: false,
            needs_ioctl: false,
            #[cfg(test)]
            outputs: 0,
            memory: PhantomData,
        }
    }

    /// Appends an attribute; mandatory, as all are but those of [`Command::optional_file`].
    fn push(&mut self, attr_id: u16, len: usize, data: u64) -> Slot {
        debug_assert!(self.count < N, "room for the attributes of every command is counted");
        let Some(attr) = self.frame.attrs.get_mut(self.count) else {
            self.invalid = true;
            return Slot(0);
        };
        let Ok(len) = u16::try_from(len) else {
            self.invalid = true;
            return Slot(0);
        };
        *attr = ib_uverbs_attr { attr_id, len, flags: UVERBS_ATTR_F_MANDATORY, data, ..Pod::zeroed() };
        self.count += 1;
        Slot(self.count - 1)
    }

    /// Names an existing object.
    pub fn object(&mut self, attr_id: u16, handle: u32) {
        let _ = self.push(attr_id, 0, u64::from(handle));
    }

    /// Asks for the number of the object to be created.
    pub fn object_out(&mut self, attr_id: u16) -> Slot {
        self.push(attr_id, 0, 0)
    }

    /// A 64-bit number; also what enumerations and constants are.
    pub fn number(&mut self, attr_id: u16, value: u64) {
        let _ = self.push(attr_id, 8, value);
    }

    /// A 32-bit number.
    pub fn number32(&mut self, attr_id: u16, value: u32) {
        let mut data = [0; 8];
        data[..4].copy_from_slice(&value.to_ne_bytes());
        let _ = self.push(attr_id, 4, u64::from_ne_bytes(data));
    }

    /// Bytes for the kernel: inside the attribute if they fit, else by address.
    pub fn bytes(&mut self, attr_id: u16, bytes: &'a [u8]) -> Slot {
        let mut data = [0; 8];
        if bytes.len() <= data.len() {
            data[..bytes.len()].copy_from_slice(bytes);
            self.push(attr_id, bytes.len(), u64::from_ne_bytes(data))
        } else {
            self.push(attr_id, bytes.len(), bytes.as_ptr().expose_provenance() as u64)
        }
    }

    /// One of several alternatives, with the bytes that belong to it.
    pub fn choice(&mut self, attr_id: u16, elem_id: u8, bytes: &'a [u8]) {
        let slot = self.bytes(attr_id, bytes);
        if let Some(attr) = self.frame.attrs.get_mut(slot.0) {
            attr.elem_id = elem_id;
        }
    }

    /// A structure for the kernel.
    pub fn value<T: Pod>(&mut self, attr_id: u16, value: &'a T) {
        let _ = self.bytes(attr_id, value.as_bytes());
    }

    /// Room for bytes from the kernel.
    pub fn bytes_out(&mut self, attr_id: u16, bytes: &'a mut [u8]) {
        let _slot = self.push(attr_id, bytes.len(), bytes.as_mut_ptr().expose_provenance() as u64);
        #[cfg(test)]
        if !self.invalid {
            self.outputs |= 1 << _slot.0;
        }
    }

    /// Room for a structure from the kernel.
    pub fn value_out<T: Pod>(&mut self, attr_id: u16, value: &'a mut T) {
        self.bytes_out(attr_id, value.as_bytes_mut());
    }

    /// An open file; -1 leaves the attribute out.
    pub fn file(&mut self, attr_id: u16, fd: RawFd) {
        if fd != -1 {
            let _ = self.push(attr_id, 0, fd as i64 as u64);
        }
    }

    /// An open file that older kernels may ignore; -1 leaves the attribute out.
    pub fn optional_file(&mut self, attr_id: u16, fd: RawFd) {
        if fd != -1 {
            let slot = self.push(attr_id, 0, fd as i64 as u64);
            if let Some(attr) = self.frame.attrs.get_mut(slot.0) {
                attr.flags &= !UVERBS_ATTR_F_MANDATORY;
            }
        }
    }

    /// Asks for a new file.
    pub fn file_out(&mut self, attr_id: u16) -> Slot {
        self.push(attr_id, 0, 0)
    }

    /// Driver data; an empty half is left out. Needs room for two attributes.
    pub fn driver(&mut self, input: &'a [u8], output: &'a mut [u8]) {
        if !input.is_empty() {
            let _ = self.bytes(UVERBS_ATTR_UHW_IN, input);
        }
        if !output.is_empty() {
            self.bytes_out(UVERBS_ATTR_UHW_OUT, output);
        }
    }

    /// Appends attributes that somebody else prepared. A legacy command cannot express those that are
    /// mandatory.
    pub fn append(&mut self, prepared: Prepared<'a>) {
        self.prepared = prepared;
    }

    /// Says that only the extended legacy command can express this, should the method be missing.
    pub fn require_ex(&mut self) {
        self.needs_ex = true;
    }

    /// Says that no legacy command can express this.
    pub fn require_ioctl(&mut self) {
        self.needs_ioctl = true;
    }

    /// Gives the command. An error is the one that the ioctl left in `errno`; EINVAL (set as well) when the
    /// attributes cannot be expressed.
    pub fn execute(&mut self, file: &DeviceFile) -> Result<()> {
        if self.invalid {
            return Err(Errno::EINVAL.also_set());
        }
        if !self.prepared.pieces.is_empty() {
            return self.execute_with_prepared(file);
        }
        #[cfg(test)]
        if let Some(done) = super::played::execute(&mut self.frame.attrs[..self.count], self.outputs) {
            return done;
        }
        self.frame.header.num_attrs = self.count as u16;
        // SAFETY: the frame is header and attributes in one block, of which `count` are filled. Every attribute
        // that holds an address was made from a slice of the stated length that this command borrows, mutably
        // where the kernel writes, and its provenance is exposed.
        unsafe { execute_frame(file, (&raw mut self.frame).cast()) }
    }

    /// As [`Command::execute`], with the prepared attributes behind our own in one block.
    #[cold]
    fn execute_with_prepared(&mut self, file: &DeviceFile) -> Result<()> {
        let mut message = self.join()?;
        // SAFETY: as in `execute`, and for the prepared attributes by the contract of `Prepared`. The message
        // is aligned to 8 bytes and holds the header with as many attributes as it says.
        unsafe { execute_frame(file, message.bytes().as_mut_ptr().cast()) }?;
        self.split(message.bytes());
        Ok(())
    }

    /// The header with all attributes.
    fn join(&mut self) -> Result<Message> {
        let count = self.count + self.prepared.pieces.iter().map(|attrs| attrs.len()).sum::<usize>();
        let length = HEADER_SIZE + count * ATTR_SIZE;
        if u16::try_from(length).is_err() {
            return Err(Errno::EINVAL.also_set());
        }
        self.frame.header.num_attrs = count as u16;
        let mut message = Message::new(length);
        let (header, attrs) = message.bytes()[..length].split_at_mut(HEADER_SIZE);
        header.copy_from_slice(self.frame.header.as_bytes());
        let own = core::iter::once(&self.frame.attrs[..self.count]);
        let pieces = own.chain(self.prepared.pieces.iter().map(|attrs| &**attrs));
        for (place, attr) in attrs.chunks_exact_mut(ATTR_SIZE).zip(pieces.flatten()) {
            place.copy_from_slice(attr.as_bytes());
        }
        Ok(message)
    }

    /// Gives the attributes back to where they came from.
    fn split(&mut self, message: &[u8]) {
        let own = core::iter::once(&mut self.frame.attrs[..self.count]);
        let pieces = own.chain(self.prepared.pieces.iter_mut().map(|attrs| &mut **attrs));
        for (place, attr) in message[HEADER_SIZE..].chunks_exact(ATTR_SIZE).zip(pieces.flatten()) {
            attr.as_bytes_mut().copy_from_slice(place);
        }
    }

    /// Gives the command if the kernel has its method; says which legacy command is due if not.
    ///
    /// ENOTTY means that the kernel has no uverbs ioctl at all, EPROTONOSUPPORT that it lacks the method or a
    /// mandatory attribute; both are remembered in the file. EOPNOTSUPP (set as well) when the legacy command
    /// would not do.
    pub fn execute_or_legacy(&mut self, file: &DeviceFile, method: Method) -> Result<Path> {
        if !file.refuses(method) {
            match self.execute(file) {
                Ok(()) => return Ok(Path::Ioctl),
                Err(Errno::ENOTTY) => file.note_no_ioctl(),
                Err(Errno::EPROTONOSUPPORT) => file.note_refused(method),
                Err(errno) => return Err(errno),
            }
        }
        if self.needs_ioctl || self.prepared.needs_ioctl || !self.prepared.can_be_left_out() {
            return Err(Errno::EOPNOTSUPP.also_set());
        }
        Ok(if self.needs_ex || self.prepared.needs_ex { Path::WriteEx } else { Path::Write })
    }

    /// The number of the object that the command created.
    #[must_use]
    pub fn created(&self, slot: Slot) -> u32 {
        self.frame.attrs[slot.0].data as u32
    }

    /// The file that the command opened.
    #[must_use]
    pub fn opened(&self, slot: Slot) -> RawFd {
        self.frame.attrs[slot.0].data as RawFd
    }
}

/// Gives a command that is complete in memory but for what belongs to the file: header, then `num_attrs`
/// attributes. The error is the one that the ioctl left in `errno`.
///
/// # Safety
/// The header can be written and `num_attrs` attributes follow it; what they point to is as long as they say,
/// and may be written where it is output.
pub unsafe fn execute_frame(file: &DeviceFile, header: *mut ib_uverbs_ioctl_hdr) -> Result<()> {
    // SAFETY: by the contract; `length` covers the attributes that the caller vouches for.
    let done = unsafe {
        (*header).length = (HEADER_SIZE + usize::from((*header).num_attrs) * ATTR_SIZE) as u16;
        (*header).reserved1 = 0;
        (*header).driver_id = file.driver_id();
        (*header).reserved2 = 0;
        libc::ioctl(file.as_raw_fd(), RDMA_VERBS_IOCTL, header)
    };
    if done != 0 {
        return Err(Errno::last());
    }
    // SAFETY: by the contract; no reference to attributes is alive elsewhere.
    let attrs = unsafe {
        core::slice::from_raw_parts(header.add(1).cast::<ib_uverbs_attr>(), (*header).num_attrs.into())
    };
    for attr in attrs.iter().filter(|attr| attr.flags & UVERBS_ATTR_F_VALID_OUTPUT != 0 && attr.len != 0) {
        memcheck::defined(attr.data as usize, attr.len.into());
    }
    Ok(())
}

/// Gives a legacy command whose core structures have fixed size. A command with an answer must start with the
/// 64-bit `response` field, as they all do; it is filled in where needed. Commands without answer use `()`.
///
/// Path: INVOKE_WRITE inside the ioctl, else `write`. The error is the one that the system call left in
/// `errno`.
pub fn execute_write<Q: Pod, R: Pod>(
    file: &DeviceFile,
    command: u32,
    request: &Q,
    answer: &mut R,
    udata: Udata<'_>,
) -> Result<()> {
    execute_legacy(file, command, request.as_bytes(), answer.as_bytes_mut(), udata)
}

/// As [`execute_write`], for the extended commands: multiples of 8 bytes, and no `response` field in the
/// request.
pub fn execute_write_ex<Q: Pod, R: Pod>(
    file: &DeviceFile,
    command: u32,
    request: &Q,
    answer: &mut R,
    udata: Udata<'_>,
) -> Result<()> {
    let command = command | IB_USER_VERBS_CMD_FLAG_EXTENDED;
    execute_legacy(file, command, request.as_bytes(), answer.as_bytes_mut(), udata)
}

// SAFETY: a type without bytes has no padding and one value.
unsafe impl Pod for () {}

/// As [`execute_write`], for core structures whose size is known at run time only;
/// [`IB_USER_VERBS_CMD_FLAG_EXTENDED`] in `command` selects the extended protocol.
pub fn execute_legacy(
    file: &DeviceFile,
    command: u32,
    request: &[u8],
    answer: &mut [u8],
    udata: Udata<'_>,
) -> Result<()> {
    if file.may_invoke_write() {
        let mut cmd = Command::<5>::new(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE);
        cmd.number(UVERBS_ATTR_WRITE_CMD, u64::from(command));
        if !request.is_empty() {
            let _ = cmd.bytes(UVERBS_ATTR_CORE_IN, request);
        }
        if !answer.is_empty() {
            cmd.bytes_out(UVERBS_ATTR_CORE_OUT, answer);
        }
        cmd.driver(udata.input, udata.output);
        match cmd.execute(file) {
            Err(failed @ (Errno::EPROTONOSUPPORT | Errno::ENOTTY)) => {
                if file.has_invoke_write() {
                    return Err(failed.also_set());
                }
            }
            done => return done,
        }
    }
    write_command(file, command, request, answer, udata)
}

/// Bytes of a command, or of its answer, that need no allocation.
const ON_STACK: usize = 512;

/// A command or an answer in one piece, aligned for the kernel's structures.
#[allow(clippy::large_enum_variant, reason = "lives on the stack for one call")]
enum Message {
    Stack([u64; ON_STACK / 8]),
    Heap(Vec<u64>),
}

impl Message {
    fn new(len: usize) -> Self {
        if len <= ON_STACK { Self::Stack([0; ON_STACK / 8]) } else { Self::Heap(vec![0; len.div_ceil(8)]) }
    }

    fn bytes(&mut self) -> &mut [u8] {
        let words = match self {
            Self::Stack(words) => &mut words[..],
            Self::Heap(words) => &mut words[..],
        };
        let len = size_of_val(words);
        // SAFETY: the words are `len` initialised bytes, and any bytes make words.
        unsafe { core::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), len) }
    }
}

/// The `write` protocol: headers, core request and driver request in one piece; the answer likewise.
fn write_command(
    file: &DeviceFile,
    command: u32,
    request: &[u8],
    answer: &mut [u8],
    udata: Udata<'_>,
) -> Result<()> {
    let extended = command & IB_USER_VERBS_CMD_FLAG_EXTENDED != 0;
    let headers =
        size_of::<ib_uverbs_cmd_hdr>() + if extended { size_of::<ib_uverbs_ex_cmd_hdr>() } else { 0 };
    let total = headers + request.len() + udata.input.len();
    let answer_len = answer.len() + udata.output.len();

    let mut answer_message = Message::new(answer_len);
    let answer_bytes = &mut answer_message.bytes()[..answer_len];
    if !extended {
        // What the kernel does not fill stays as it is; an extended command's answer starts as zeros.
        answer_bytes[..answer.len()].copy_from_slice(answer);
        answer_bytes[answer.len()..].copy_from_slice(udata.output);
    }
    let response = answer_bytes.as_mut_ptr().expose_provenance() as u64;

    let mut message = Message::new(total);
    let bytes = &mut message.bytes()[..total];
    bytes[headers..headers + request.len()].copy_from_slice(request);
    bytes[headers + request.len()..].copy_from_slice(udata.input);
    let header = if extended {
        let second = ib_uverbs_ex_cmd_hdr {
            response,
            provider_in_words: words(udata.input.len(), 8)?,
            provider_out_words: words(udata.output.len(), 8)?,
            cmd_hdr_reserved: 0,
        };
        bytes[8..headers].copy_from_slice(second.as_bytes());
        ib_uverbs_cmd_hdr { command, in_words: words(request.len(), 8)?, out_words: words(answer.len(), 8)? }
    } else {
        if !answer.is_empty() {
            let field = bytes.get_mut(headers..headers + 8).ok_or_else(|| Errno::EINVAL.also_set())?;
            field.copy_from_slice(&response.to_ne_bytes());
        }
        ib_uverbs_cmd_hdr { command, in_words: words(total, 4)?, out_words: words(answer_len, 4)? }
    };
    bytes[..8].copy_from_slice(header.as_bytes());

    // SAFETY: the message is `total` initialised bytes; the kernel writes no more answer than the headers
    // announce, which is the length of the exclusively held `answer_bytes`.
    let written = unsafe { libc::write(file.as_raw_fd(), bytes.as_ptr().cast(), total) };
    let done = if written == total as isize { Ok(()) } else { Err(Errno::last()) };
    // Some commands answer when they fail, too.
    let (core, driver) = answer_message.bytes()[..answer_len].split_at(answer.len());
    answer.copy_from_slice(core);
    udata.output.copy_from_slice(driver);
    done
}

/// A length in the units of a command header; EINVAL (set as well) for one that it cannot express.
fn words(len: usize, unit: usize) -> Result<u16> {
    if !len.is_multiple_of(unit) {
        return Err(Errno::EINVAL.also_set());
    }
    u16::try_from(len / unit).map_err(|_| Errno::EINVAL.also_set())
}

#[cfg(test)]
mod tests;
