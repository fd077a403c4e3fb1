use super::*;

fn completion(wr_id: u64, qp_num: u32) -> Completion {
    Completion {
        wr_id,
        status: Status::Success,
        opcode: WcOpcode::RdmaRead,
        vendor_err: 0,
        byte_len: u32::MAX,
        imm_or_key: 0,
        qp_num,
        src_qp: 0,
        flags: WcFlags::NONE,
        timestamp: 0,
        places: 3,
    }
}

/// A ring for so many completions, to which they go.
fn ring(room: u32) -> (Arc<OwnRing>, OwnReader) {
    let (ring, mut reader) = OwnRing::new(None).unwrap();
    assert!(!ring.append(&completion(0, 1), || 0), "without room, and closed");
    ring.open_if(|| Some(0));
    reader.make_room(room).unwrap();
    (ring, reader)
}

/// While all that went elsewhere was polled.
fn append(ring: &OwnRing, wr_id: u64) -> bool {
    ring.append(&completion(wr_id, 7), || 100)
}

fn take(reader: &mut OwnReader) -> Option<u64> {
    reader.take().map(|completion| completion.wr_id)
}

#[test]
fn completions_come_in_order_and_no_more_than_there_is_room_for() {
    let (ring, mut reader) = ring(4);
    for round in 0..3 {
        assert!((0..4).all(|n| append(&ring, 4 * round + n)));
        assert!(!append(&ring, 99) && reader.waits() && reader.waiting() == 4);
        assert!((0..4).all(|n| take(&mut reader) == Some(4 * round + n)));
        assert!(take(&mut reader).is_none() && !reader.waits());
    }
    assert!(ring.append(&completion(u64::MAX, 0xff_fffe), || 0));
    assert_eq!(reader.take(), Some(completion(u64::MAX, 0xff_fffe)));
}

#[test]
fn a_ring_that_grows_keeps_what_waits() {
    let (ring, mut reader) = ring(2);
    assert!(append(&ring, 0) && append(&ring, 1) && take(&mut reader) == Some(0));
    assert!(append(&ring, 2));
    reader.make_room(5).unwrap();
    reader.make_room(1).unwrap();
    assert!((3..9).all(|n| append(&ring, n)) && append(&ring, 9) == (reader.waiting() < 8));
    assert!((1..9).all(|n| take(&mut reader) == Some(n)));
}

#[test]
fn completions_of_a_queue_pair_are_forgotten() {
    let (ring, mut reader) = ring(4);
    for (wr_id, qp_num) in [(0, 7), (1, 8), (2, 7)] {
        assert!(ring.append(&completion(wr_id, qp_num), || 0));
    }
    reader.forget(7);
    assert_eq!((reader.waiting(), take(&mut reader), take(&mut reader)), (1, Some(1), None));
}

/// What was seen elsewhere comes after those that were there then, and before those that come later.
#[test]
fn neither_side_keeps_the_other_waiting() {
    let (ring, mut reader) = ring(4);
    let mut until = None;
    assert!(reader.lets_pass(&mut until), "nothing waits");
    assert!(append(&ring, 0) && append(&ring, 1));
    assert!(!reader.lets_pass(&mut until));
    assert!(append(&ring, 2) && take(&mut reader) == Some(0) && !reader.lets_pass(&mut until));
    assert!(take(&mut reader) == Some(1) && reader.lets_pass(&mut until));
    assert!(!reader.lets_pass(&mut until), "the next is seen for the first time");
    assert!(take(&mut reader) == Some(2) && reader.lets_pass(&mut until));
}

/// After a completion that went to the shared queue others go there, until it was polled.
#[test]
fn what_went_elsewhere_is_waited_for() {
    let (ring, mut reader) = ring(4);
    let failed = Completion { status: Status::WrFlushErr, ..completion(0, 7) };
    assert!(!ring.append(&failed, || 0));
    ring.passed_by(|| (5, false));
    for (polled, goes) in [(3, false), (4, false), (5, true)] {
        assert_eq!(ring.append(&completion(1, 7), || polled), goes);
    }
    assert!(ring.append(&completion(2, 7), || panic!("it is not asked again")));
    ring.passed_by(|| (6, false));
    // Others went that stood before it: it stands elsewhere.
    ring.shifted(9);
    assert!(!ring.append(&completion(1, 7), || 8) && ring.append(&completion(3, 7), || 9));
    assert!([1, 2, 3].into_iter().all(|n| take(&mut reader) == Some(n)));
}

/// While somebody may sleep, completions go where they ring.
#[test]
fn an_armed_queue_has_completions_elsewhere_until_it_rang() {
    let (ring, _reader) = ring(4);
    assert!(append(&ring, 0));
    ring.arm();
    assert!(!append(&ring, 1));
    ring.passed_by(|| (1, true));
    assert!(!ring.append(&completion(1, 7), || 1), "it is armed still");
    ring.passed_by(|| (2, false));
    assert!(!ring.append(&completion(1, 7), || 1) && ring.append(&completion(1, 7), || 2));
}

/// A ring that opens does not know what went elsewhere while it was closed.
#[test]
fn a_ring_that_opens_waits_for_all_that_is_elsewhere() {
    let (ring, _reader) = ring(4);
    ring.open_if(|| None);
    assert!(!append(&ring, 0));
    ring.passed_by(|| panic!("it is closed"));
    ring.open_if(|| Some(2));
    ring.open_if(|| Some(9));
    assert!(!ring.append(&completion(0, 7), || 1) && ring.append(&completion(0, 7), || 2));
}
