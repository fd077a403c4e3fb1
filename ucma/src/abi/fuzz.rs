//! Commands of any content, from memory that ends anywhere.

use ironverbs_cm::answer::{Addresses, Path};
use ironverbs_cm::event::{Event, EventKind, Param};
use ironverbs_cm::{Answer, Command, File};

use super::decode::{Form, Scratch, Surroundings, decode};
use super::encode::encode;
use super::layout;

/// Memory whose first byte has the address 0x1000, and descriptors below 8.
struct Memory<'a>(&'a [u8]);

const START: u64 = 0x1000;

impl Surroundings for Memory<'_> {
    fn read(&self, from: u64, to: &mut [u8]) -> Result<(), i32> {
        let start = from.checked_sub(START).and_then(|at| usize::try_from(at).ok()).ok_or(libc::EFAULT)?;
        let end = start.checked_add(to.len()).ok_or(libc::EFAULT)?;
        to.copy_from_slice(self.0.get(start..end).ok_or(libc::EFAULT)?);
        Ok(())
    }

    fn knows(&self, id: u32) -> Result<(), i32> {
        if id < 8 { Ok(()) } else { Err(libc::ENOENT) }
    }

    fn channel(&self, fd: u32) -> Result<File, i32> {
        if fd < 8 { Ok(File(fd.into())) } else { Err(libc::ENOENT) }
    }
}

/// A command with this header, and `body` behind it.
fn written(number: u32, input: u16, output: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.extend(input.to_le_bytes());
    bytes.extend(output.to_le_bytes());
    bytes.extend(body);
    bytes
}

fn decoded(bytes: &[u8]) -> Result<String, i32> {
    let mut scratch = Scratch::default();
    decode(START, bytes.len(), &Memory(bytes), &mut scratch).map(|found| format!("{:?}", found.command))
}

#[test]
fn an_id_is_looked_for_before_the_value_of_its_option() {
    let mut option = [0_u8; 24];
    option[20] = 4;
    assert_eq!(decoded(&written(14, 24, 0, &option)), Err(libc::EFAULT));
    option[8] = 9;
    assert_eq!(decoded(&written(14, 24, 0, &option)), Err(libc::ENOENT));
}

#[test]
fn commands_are_what_was_written() {
    let mut bind = [0_u8; 136];
    bind[..4].copy_from_slice(&7_u32.to_le_bytes());
    bind[4] = 16;
    bind[8..16].copy_from_slice(&[2, 0, 0x1d, 0x2f, 192, 0, 2, 2]);
    assert_eq!(decoded(&written(20, 136, 0, &bind)).unwrap(), "Bind { id: 7, address: V4(192.0.2.2:7471) }");
    bind[4] = 28;
    assert_eq!(decoded(&written(20, 136, 0, &bind)), Err(libc::EINVAL));
    bind[4] = 16;
    bind[6] = 1;
    assert_eq!(decoded(&written(20, 136, 0, &bind)), Err(libc::EINVAL));

    let mut reject = [0_u8; 264];
    (reject[0], reject[4], reject[5]) = (3, 2, 28);
    reject[8..10].copy_from_slice(b"no");
    let said = decoded(&written(9, 264, 0, &reject)).unwrap();
    assert_eq!(said, "Reject { id: 3, reason: 28, data: [110, 111] }");
    reject[5] = 4;
    assert_eq!(decoded(&written(9, 264, 0, &reject)), Err(libc::EINVAL));
    assert_eq!(decoded(&written(15, 8, 0, &[5, 0, 0, 0, 8, 0, 0, 0])).unwrap(), "Notify { id: 5, event: 8 }");
}

#[test]
fn old_programs_connect_without_ece() {
    let mut body = [0_u8; 288];
    body[271] = 1;
    body[280..].copy_from_slice(&[0xaa; 8]);
    for (given, ece) in [(280, "vendor: 0"), (284, "vendor: 0"), (288, "vendor: 2863311530")] {
        let said = decoded(&written(6, given, 0, &body[..given.into()])).unwrap();
        assert!(said.contains(ece), "{given}: {said}");
    }
    assert_eq!(decoded(&written(6, 279, 0, &body[..279])), Err(libc::EINVAL));
}

#[test]
fn checks_come_in_linux_order() {
    let short = |number, input, output, body: &[u8]| decoded(&written(number, input, output, body));
    let mut scratch = Scratch::default();
    assert_eq!(decode(START, 7, &Memory(&[0; 8]), &mut scratch).unwrap_err(), libc::EINVAL);
    assert_eq!(decode(1, 8, &Memory(&[0; 8]), &mut scratch).unwrap_err(), libc::EFAULT);
    assert_eq!(short(25, 0, 0, &[]), Err(libc::EINVAL));
    assert_eq!(short(13, 1, 0, &[]), Err(libc::EINVAL));
    assert_eq!(short(13, 0, 0, &[]), Err(libc::ENOSYS));
    assert_eq!(short(12, 0, 323, &[]), Err(libc::ENOSPC));
    assert_eq!(short(12, 0, 324, &[]), Err(libc::EFAULT));
    // Linux reads a whole struct even where less was written.
    assert!(short(12, 0, 324, &[0; 8]).is_ok());
}

#[test]
fn answers_are_cut_at_the_room() {
    let path = Path { pkey: 0xffff, ..Path::default() };
    let event = Event {
        uid: 1,
        id: 2,
        kind: EventKind::User,
        status: -3,
        param: Param::Argument([4, 5]),
        ece: Default::default(),
    };
    let addresses = Answer::Addresses(Addresses::default());
    let answers = [
        (Answer::Created(9), Form::Number, 4, 4),
        (addresses.clone(), Form::Query(0), 280, 280),
        (addresses, Form::Query(2), 272, 272),
        (Answer::Paths(vec![path, path]), Form::Query(1), 440, 8 + 2 * 72),
        (Answer::Paths(vec![path, path]), Form::Query(1), 151, 8 + 72),
        (Answer::IbServices, Form::Query(3), 8, 8),
        (Answer::Route(Box::default()), Form::AtLeast(200), 200, 200),
        (Answer::QpAttr(Box::default()), Form::AtLeast(144), 144, 144),
        (Answer::Event(Box::new(event)), Form::AtLeast(324), 65535, size_of::<layout::Event>()),
    ];
    for (answer, form, room, length) in answers {
        assert_eq!(encode(&answer, form, room).map(|bytes| bytes.len()), Ok(length), "{answer:?}");
    }
    let few = encode(&Answer::Addresses(Addresses::default()), Form::Query(0), 271);
    assert_eq!(few, Err(libc::ENOSPC));
}

#[test]
fn fuzz_cm_commands() {
    corpus::check!().for_each(|bytes: &[u8]| {
        let mut scratch = Scratch::default();
        let Ok(found) = decode(START, bytes.len(), &Memory(bytes), &mut scratch) else { return };
        match (&found.command, found.form) {
            (Command::Reject { data, .. }, _) => assert!(data.len() <= 255),
            (Command::SetOption { value, .. }, _) => assert!(value.len() <= bytes.len()),
            (Command::GetEvent, form) => assert_eq!(form, Form::AtLeast(324)),
            (Command::CreateId { .. }, form) => assert!(form == Form::Number && found.room >= 4),
            _ => {}
        }
    });
}
