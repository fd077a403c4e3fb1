//! Commands as a program writes them, with the checks that Linux makes before it looks for the id.

use ironverbs_cm::File;
use ironverbs_cm::address::Address;
use ironverbs_cm::command::{Command, ConnParam, Ece};
use zerocopy::{FromBytes, IntoBytes};

use super::addresses;
use super::layout::{self, Header};

/// How an answer is stored, and what room it needs at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The command has no answer.
    None,
    /// A number: of an id, or of events.
    Number,
    /// A struct of this size, of which 0, 1, 2 or 3 words may be missing at the end: the least size.
    AtLeast(usize),
    /// QUERY: by the option, once the id is known.
    Query(u32),
}

/// A command, and where its answer goes.
#[derive(Debug)]
pub struct Decoded<'a> {
    /// What is asked.
    pub command: Command<'a>,
    /// Address of the answer's place in the program's memory.
    pub response: u64,
    /// Bytes of room there.
    pub room: usize,
    /// What is stored.
    pub form: Form,
}

/// What commands refer to: the program's memory and descriptors.
pub trait Surroundings {
    /// Copies from the program's memory.
    ///
    /// # Errors
    /// EFAULT.
    fn read(&self, from: u64, to: &mut [u8]) -> Result<(), i32>;

    /// Whether a command may name this id.
    ///
    /// # Errors
    /// ENOENT where there is none, EINVAL where it is another channel's.
    fn knows(&self, id: u32) -> Result<(), i32>;

    /// The channel behind a descriptor.
    ///
    /// # Errors
    /// ENOENT where there is no such descriptor, EINVAL where it is no channel.
    fn channel(&self, fd: u32) -> Result<File, i32>;
}

/// Memory that a decoded command refers to.
#[derive(Default)]
pub struct Scratch {
    body: Vec<u8>,
    param: ConnParam,
    value: Vec<u8>,
}

/// Number of MIGRATE_ID.
const MIGRATE_ID: u32 = 18;
/// Number of GET_EVENT.
pub const GET_EVENT: u32 = 12;
/// Commands that there are: their numbers are below.
const COMMANDS: u32 = 25;
/// The longest value of an option that is taken; the longest known is a few paths.
const OPTION_MAX: u32 = 1 << 16;
/// Bytes of a command that are read at once: CONNECT and ACCEPT are not longer.
const FRONT: usize = 304;
/// What GET_EVENT answered before a field was added.
const EVENT_LEAST: usize = 324;
/// What QUERY_ROUTE answered before fields were added.
const ROUTE_LEAST: usize = 200;
/// Size of the field behind CONNECT and ACCEPT that was added later.
const ECE_SIZE: usize = size_of::<layout::Ece>();

/// Size of a command's body, and how its answer is stored.
fn shape(number: u32) -> Result<(usize, Form), i32> {
    Ok(match number {
        0 => (size_of::<layout::CreateId>(), Form::Number),
        1 | 17 => (size_of::<layout::DestroyId>(), Form::Number),
        2 => (size_of::<layout::BindIp>(), Form::None),
        3 => (size_of::<layout::ResolveIp>(), Form::None),
        4 => (size_of::<layout::ResolveRoute>(), Form::None),
        5 => (size_of::<layout::Query>(), Form::AtLeast(ROUTE_LEAST)),
        6 => (size_of::<layout::Connect>() + ECE_SIZE, Form::None),
        7 => (size_of::<layout::Listen>(), Form::None),
        8 => (size_of::<layout::Accept>() + ECE_SIZE, Form::None),
        9 => (size_of::<layout::Reject>(), Form::None),
        10 => (size_of::<layout::Disconnect>(), Form::None),
        11 => (size_of::<layout::InitQpAttr>(), Form::AtLeast(size_of::<layout::QpAttr>())),
        12 => (size_of::<layout::GetEvent>(), Form::AtLeast(EVENT_LEAST)),
        13 => return Err(libc::ENOSYS),
        14 => (size_of::<layout::SetOption>(), Form::None),
        15 => (size_of::<layout::Notify>(), Form::None),
        16 => (size_of::<layout::JoinIp>(), Form::Number),
        18 => (size_of::<layout::Migrate>(), Form::Number),
        19 => (size_of::<layout::Query>(), Form::Query(0)),
        20 => (size_of::<layout::Bind>(), Form::None),
        21 => (size_of::<layout::ResolveAddr>(), Form::None),
        22 => (size_of::<layout::Join>(), Form::Number),
        23 => (size_of::<layout::ResolveIbService>(), Form::None),
        24 => (size_of::<layout::WriteEvent>(), Form::None),
        _ => return Err(libc::EINVAL),
    })
}

/// Bytes of a command's body that Linux reads: the whole struct whatever `in` says, except where the struct has
/// grown.
///
/// # Errors
/// EINVAL for a number that is not known, and for less than the struct had at first; ENOSYS.
pub fn size_read(number: u32, input: usize) -> Result<usize, i32> {
    let (size, _) = shape(number)?;
    let grown = matches!(number, 6 | 8);
    let given = if grown { input.min(size) } else { size };
    if grown && given < size - ECE_SIZE { Err(libc::EINVAL) } else { Ok(given) }
}

/// Reads the command of `length` bytes that a program writes from the address `from`.
///
/// # Errors
/// In this order: EINVAL for less than a header, a number that is not known, and a body longer than what was
/// written; ENOSYS for a command that Linux does not have; ENOSPC for too little room; EFAULT; EINVAL for what
/// the command itself must not say.
pub fn decode<'a>(
    from: u64,
    length: usize,
    surroundings: &dyn Surroundings,
    scratch: &'a mut Scratch,
) -> Result<Decoded<'a>, i32> {
    if length < size_of::<Header>() {
        return Err(libc::EINVAL);
    }
    // At once what most commands are. What was written may end before what is read of it, and be all that is
    // there.
    let mut front = [0; FRONT];
    let mut had = length.min(FRONT);
    if surroundings.read(from, &mut front[..had]).is_err() {
        had = size_of::<Header>();
        surroundings.read(from, &mut front[..had])?;
    }
    let header = part::<Header>(&front)?;
    let (number, room) = (header.command, usize::from(header.output));
    if number >= COMMANDS || usize::from(header.input) + size_of::<Header>() > length {
        return Err(libc::EINVAL);
    }
    let (size, mut form) = shape(number)?;
    let least = match form {
        Form::None | Form::Query(_) => 0,
        // Linux looks for the id first.
        Form::Number if number == MIGRATE_ID => 0,
        Form::Number => size_of::<u32>(),
        Form::AtLeast(least) => least,
    };
    if room < least {
        return Err(libc::ENOSPC);
    }
    let given = size_read(number, header.input.into())?;
    let Scratch { body, param, value } = scratch;
    body.clear();
    body.resize(size, 0);
    match front[..had].get(size_of::<Header>()..size_of::<Header>() + given) {
        Some(whole) => body[..given].copy_from_slice(whole),
        None => surroundings.read(from.wrapping_add(size_of::<Header>() as u64), &mut body[..given])?,
    }
    let with_ece = given == size;
    let (command, response) = command(number, body, with_ece, surroundings, param, value)?;
    if let Command::Query { option, .. } = command {
        form = Form::Query(option);
    }
    Ok(Decoded { command, response, room, form })
}

fn command<'a>(
    number: u32,
    body: &'a [u8],
    with_ece: bool,
    surroundings: &dyn Surroundings,
    param: &'a mut ConnParam,
    value: &'a mut Vec<u8>,
) -> Result<(Command<'a>, u64), i32> {
    Ok(match number {
        0 => {
            let from = part::<layout::CreateId>(body)?;
            (Command::CreateId { uid: from.uid, space: from.ps, qp_type: from.qp_type }, from.response)
        }
        1 => {
            let from = part::<layout::DestroyId>(body)?;
            (Command::DestroyId { id: from.id }, from.response)
        }
        2 => {
            let from = part::<layout::BindIp>(body)?;
            (Command::Bind { id: from.id, address: known(from.address.as_bytes())? }, 0)
        }
        3 => {
            let from = part::<layout::ResolveIp>(body)?;
            let source = from.source.as_bytes();
            let source = if from.source.family == 0 { None } else { Some(known(source)?) };
            let destination = known(from.destination.as_bytes())?;
            (Command::ResolveAddr { id: from.id, source, destination, timeout_ms: from.timeout_ms }, 0)
        }
        4 => {
            let from = part::<layout::ResolveRoute>(body)?;
            (Command::ResolveRoute { id: from.id, timeout_ms: from.timeout_ms }, 0)
        }
        5 => {
            let from = part::<layout::Query>(body)?;
            (Command::QueryRoute { id: from.id }, from.response)
        }
        6 => {
            let from = part::<layout::Connect>(body)?;
            if from.param.valid == 0 {
                return Err(libc::EINVAL);
            }
            *param = conn_param(&from.param);
            let ece = ece(body, size_of::<layout::Connect>(), with_ece)?;
            (Command::Connect { id: from.id, param, ece }, 0)
        }
        7 => {
            let from = part::<layout::Listen>(body)?;
            (Command::Listen { id: from.id, backlog: from.backlog.cast_signed() }, 0)
        }
        8 => {
            let from = part::<layout::Accept>(body)?;
            *param = conn_param(&from.param);
            let ece = ece(body, size_of::<layout::Accept>(), with_ece)?;
            (Command::Accept { uid: from.uid, id: from.id, param, ece }, 0)
        }
        9 => {
            let from = part::<layout::Reject>(body)?;
            if !matches!(from.reason, 0 | 28 | 35) {
                return Err(libc::EINVAL);
            }
            let data = core::mem::offset_of!(layout::Reject, private_data);
            let data = &body[data..][..usize::from(from.private_data_len)];
            (Command::Reject { id: from.id, reason: from.reason, data }, 0)
        }
        10 => (Command::Disconnect { id: part::<layout::Disconnect>(body)?.id }, 0),
        11 => {
            let from = part::<layout::InitQpAttr>(body)?;
            // IBV_QPS_ERR is the last one.
            if from.qp_state > 6 {
                return Err(libc::EINVAL);
            }
            (Command::InitQpAttr { id: from.id, state: from.qp_state }, from.response)
        }
        12 => (Command::GetEvent, part::<layout::GetEvent>(body)?.response),
        14 => {
            let from = part::<layout::SetOption>(body)?;
            if from.optlen > OPTION_MAX {
                return Err(libc::EINVAL);
            }
            value.clear();
            value.resize(from.optlen as usize, 0);
            // Linux looks for the id first.
            surroundings.knows(from.id)?;
            surroundings.read(from.optval, value)?;
            (Command::SetOption { id: from.id, level: from.level, name: from.optname, value }, 0)
        }
        15 => {
            let from = part::<layout::Notify>(body)?;
            (Command::Notify { id: from.id, event: from.event }, 0)
        }
        16 => {
            let from = part::<layout::JoinIp>(body)?;
            let address = known(from.address.as_bytes())?;
            (Command::JoinMulticast { id: from.id, uid: from.uid, address, flags: 0 }, from.response)
        }
        17 => {
            let from = part::<layout::DestroyId>(body)?;
            (Command::LeaveMulticast { id: from.id }, from.response)
        }
        18 => {
            let from = part::<layout::Migrate>(body)?;
            (Command::Migrate { id: from.id, from: surroundings.channel(from.fd)? }, from.response)
        }
        19 => {
            let from = part::<layout::Query>(body)?;
            (Command::Query { id: from.id, option: from.option }, from.response)
        }
        20 => {
            let from = part::<layout::Bind>(body)?;
            let address = sized(from.address.as_bytes(), from.addr_size)?;
            if from.reserved != 0 {
                return Err(libc::EINVAL);
            }
            (Command::Bind { id: from.id, address }, 0)
        }
        21 => {
            let from = part::<layout::ResolveAddr>(body)?;
            let source = from.source.as_bytes();
            let source = if from.src_size == 0 { None } else { Some(sized(source, from.src_size)?) };
            let destination = sized(from.destination.as_bytes(), from.dst_size)?;
            if from.reserved != 0 {
                return Err(libc::EINVAL);
            }
            (Command::ResolveAddr { id: from.id, source, destination, timeout_ms: from.timeout_ms }, 0)
        }
        22 => {
            let from = part::<layout::Join>(body)?;
            let address = sized(from.address.as_bytes(), from.addr_size)?;
            (
                Command::JoinMulticast { id: from.id, uid: from.uid, address, flags: from.join_flags },
                from.response,
            )
        }
        23 => {
            let from = part::<layout::ResolveIbService>(body)?;
            let (service, name, flags) = (from.service_id, from.name, from.flags);
            (Command::ResolveIbService { id: from.id, service, name, flags }, 0)
        }
        24 => {
            let from = part::<layout::WriteEvent>(body)?;
            let (event, status, argument) = (from.event, from.status, from.argument);
            (Command::WriteEvent { id: from.id, event, status, argument }, 0)
        }
        _ => return Err(libc::EINVAL),
    })
}

/// The struct at the beginning of a body.
fn part<T: FromBytes>(body: &[u8]) -> Result<T, i32> {
    T::read_from_prefix(body).map(|(found, _)| found).map_err(|_| libc::EINVAL)
}

/// An address of a family that is known.
fn known(bytes: &[u8]) -> Result<Address, i32> {
    match addresses::read(bytes) {
        (_, 0) => Err(libc::EINVAL),
        (address, _) => Ok(address),
    }
}

/// An address whose size is told, which must be that of its family.
fn sized(bytes: &[u8], size: u16) -> Result<Address, i32> {
    match addresses::read(bytes) {
        (address, found) if size != 0 && found == usize::from(size) => Ok(address),
        _ => Err(libc::EINVAL),
    }
}

fn ece(body: &[u8], at: usize, given: bool) -> Result<Ece, i32> {
    if !given {
        return Ok(Ece::default());
    }
    let found = part::<layout::Ece>(&body[at..])?;
    Ok(Ece { vendor: found.vendor_id, options: found.attr_mod })
}

fn conn_param(from: &layout::ConnParam) -> ConnParam {
    ConnParam {
        qp_num: from.qp_num,
        qkey: from.qkey,
        private_data: from.private_data,
        private_data_len: from.private_data_len,
        srq: from.srq,
        responder_resources: from.responder_resources,
        initiator_depth: from.initiator_depth,
        flow_control: from.flow_control,
        retry_count: from.retry_count,
        rnr_retry_count: from.rnr_retry_count,
        valid: from.valid,
    }
}
