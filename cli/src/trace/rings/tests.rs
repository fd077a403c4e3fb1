use std::fs::OpenOptions;
use std::path::PathBuf;

use ironverbs_trace::record::data;

use super::super::event::{Objects, decode};
use super::*;

/// A ring without records in a file that goes with this.
struct Made {
    path: PathBuf,
    file: File,
}

impl Made {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("ironverbs-ring-{}-{name}", std::process::id()));
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
        file.set_len(RING as u64).unwrap();
        file.write_all_at(&MAGIC.to_ne_bytes(), 0).unwrap();
        let made = Self { path, file };
        made.say_written(0);
        made
    }

    fn open(&self) -> Option<Ring> {
        Ring::open(OpenOptions::new().read(true).write(true).open(&self.path).unwrap())
    }

    fn say_written(&self, position: u64) {
        self.file.write_all_at(&position.to_ne_bytes(), WRITTEN as u64).unwrap();
        self.file.write_all_at(&(!position).to_ne_bytes(), WRITTEN as u64 + 8).unwrap();
    }

    fn write(&self, at: usize, bytes: &[u8]) {
        self.file.write_all_at(bytes, (DATA + at) as u64).unwrap();
    }

    fn taken(&self) -> u64 {
        let mut word = [0; 8];
        self.file.read_exact_at(&mut word, TAKEN as u64).unwrap();
        u64::from_ne_bytes(word)
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// A record of a data call.
fn call(number: u16, words: &[u64]) -> Vec<u8> {
    let size = (size_of::<Header>() + words.len() * 8) as u32;
    let first = u64::from(size) | u64::from(kind::DATA) << 32 | u64::from(number) << 48;
    let head = [first, 5, 6, 0, 0];
    head.iter().chain(words).flat_map(|word| word.to_ne_bytes()).collect()
}

fn taken(ring: &mut Ring) -> Vec<Record> {
    let mut records = Vec::new();
    ring.take(&mut records);
    records
}

#[test]
fn records_are_taken_once() {
    let made = Made::new("once");
    let mut ring = made.open().unwrap();
    assert!(taken(&mut ring).is_empty() && !ring.is_spoiled());
    let record = call(data::POLL_CQ, &[1, 2, 0]);
    made.write(0, &[record.clone(), record.clone()].concat());
    made.say_written(2 * record.len() as u64);
    let records = taken(&mut ring);
    assert_eq!(records.len(), 2);
    assert_eq!(records[0].body, Body::Words(vec![1, 2, 0]));
    assert_eq!(made.taken(), 2 * record.len() as u64);
    assert!(taken(&mut ring).is_empty() && !ring.is_spoiled());
}

#[test]
fn a_record_never_passes_the_end_of_the_room() {
    let made = Made::new("end");
    let mut ring = made.open().unwrap();
    let record = call(data::END_POLL, &[7]);
    // All but the last 16 bytes are nothing.
    let pad = |size: usize| (size as u64 | u64::from(kind::PAD) << 32).to_ne_bytes();
    let full = LARGEST;
    for at in (0..ROOM).step_by(full) {
        let last = at + full == ROOM;
        let size = if last { full - 16 } else { full };
        let words = vec![0; size / 8 - size_of::<Header>() / 8];
        made.write(at, &call(data::END_POLL, &words));
    }
    made.say_written(ROOM as u64 - 16);
    assert_eq!(taken(&mut ring).len(), ROOM / full);
    made.write(ROOM - 16, &pad(16));
    made.write(0, &record);
    made.say_written((ROOM + record.len()) as u64);
    assert_eq!(taken(&mut ring)[0].body, Body::Words(vec![7]));
    assert!(!ring.is_spoiled());
}

#[test]
fn positions_that_cannot_be() {
    let made = Made::new("positions");
    for position in [1, 4, ROOM as u64 + 8, u64::MAX, u64::MAX - 7] {
        let mut ring = made.open().unwrap();
        made.say_written(position);
        assert!(taken(&mut ring).is_empty() && ring.is_spoiled(), "{position}");
    }
    // Being written: looked at again.
    let mut ring = made.open().unwrap();
    made.file.write_all_at(&8_u64.to_ne_bytes(), WRITTEN as u64).unwrap();
    assert!(taken(&mut ring).is_empty() && !ring.is_spoiled());
}

#[test]
fn records_that_are_none() {
    let made = Made::new("none");
    let header = |size: u32, kind: u16| u64::from(size) | u64::from(kind) << 32;
    let spoiled = |first: u64, length: u64| {
        made.write(0, &[first.to_ne_bytes().as_slice(), &[0; 64]].concat());
        made.say_written(length);
        let mut ring = made.open().unwrap();
        taken(&mut ring);
        ring.is_spoiled()
    };
    for (size, kind) in [
        (0, kind::DATA),
        (8, kind::DATA),
        (44, kind::DATA),
        (80, kind::DATA),
        (u32::MAX - 7, kind::DATA),
        (LARGEST as u32 + 8, kind::DATA),
        (48, 77),
        (48, kind::PAD),
        (40, kind::TEXT),
    ] {
        assert!(spoiled(header(size, kind), 72), "{size} {kind}");
    }
    // Lengths of text that go beyond the record.
    let text = [header(56, kind::TEXT), 0, 0, 0, 0, 0xffff, 0];
    made.write(0, &text.iter().flat_map(|word: &u64| word.to_ne_bytes()).collect::<Vec<_>>());
    made.say_written(56);
    let mut ring = made.open().unwrap();
    taken(&mut ring);
    assert!(ring.is_spoiled());
}

#[test]
fn a_file_that_is_shortened_or_no_ring() {
    let made = Made::new("short");
    let mut ring = made.open().unwrap();
    made.say_written(48);
    made.file.set_len(DATA as u64).unwrap();
    assert!(taken(&mut ring).is_empty() && ring.is_spoiled());
    assert!(ring.empties().is_empty());
    assert!(made.open().is_none());
    made.file.set_len(0).unwrap();
    assert!(made.open().is_none() && ring.has_ended());
    made.file.set_len(RING as u64).unwrap();
    assert!(made.open().is_none());
}

#[test]
fn any_words_of_any_call_are_shown() {
    let mut seed = 1_u64;
    let mut random = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        seed >> 16
    };
    let mut objects = Objects::default();
    for call in 0..60 {
        for length in 0..40 {
            let words: Vec<u64> = (0..length)
                .map(|_| match random() % 4 {
                    0 => u64::MAX,
                    1 => random() % 16,
                    2 => (random() % 16) | ((random() % 16) << 32),
                    _ => random() << 20,
                })
                .collect();
            let header = Header { call, answer: random() as i64, ..Header::default() };
            let earlier = if random().is_multiple_of(3) { words.clone() } else { Vec::new() };
            let event = decode(1, 1, Record { header, body: Body::Words(words) }, earlier, &mut objects);
            let line = super::super::print::line(&event, 0, true);
            assert!(line.ends_with(">\n") && line.matches('\n').count() == 1);
        }
    }
}

#[test]
fn any_bytes_of_text_move_no_terminal() {
    let text = |bytes: &[u8]| Body::Text {
        name: bytes.to_vec(),
        ends: true,
        arguments: bytes.to_vec(),
        answer: bytes.to_vec(),
    };
    let mut objects = Objects::default();
    let all: Vec<u8> = (0..=255).collect();
    for bytes in [&all[..], b"\x1f\x1f=\x02\x03=", b"\x02cq 1", "a=\u{1b}]0;x\u{7}\u{9b}2J".as_bytes()] {
        let record = Record { header: Header::default(), body: text(bytes) };
        let event = decode(1, 1, record, Vec::new(), &mut objects);
        for line in [super::super::print::line(&event, 0, true), super::super::print::json(&event, 0)] {
            assert!(!line.trim_end_matches('\n').chars().any(char::is_control), "{line:?}");
        }
    }
}
