//! Segments byte by byte, as the header of the device's formats has them.

use super::*;

fn written<const N: usize>(write: impl FnOnce(Segment)) -> [u8; N] {
    let mut bytes = [0xee; N];
    write(Segment(NonNull::from(&mut bytes).cast()));
    bytes
}

#[test]
fn control_says_place_operation_queue_pair_and_units() {
    // SAFETY: as many bytes as the segment has, as for all tests here.
    let bytes: [u8; 16] = written(|to| unsafe {
        to.control(0x5_4321, 0x0a, (0x12_3456, 5), SIGNALED | FENCE, Some(u32::from_ne_bytes([1, 2, 3, 4])));
    });
    assert_eq!(bytes, [0, 0x43, 0x21, 0x0a, 0x12, 0x34, 0x56, 5, 0, 0, 0, 0x88, 1, 2, 3, 4]);
    // SAFETY: the segment just written.
    assert_eq!(unsafe { Segment(NonNull::from(&bytes).cast()).read_control() }, (0x0a, 5));
}

#[test]
fn memory_comes_back_as_it_was_written() {
    // SAFETY: see above.
    let bytes: [u8; 16] = written(|to| unsafe { to.memory(0x1122_3344_5566_7788, 0x10, 0xabcd) });
    assert_eq!(bytes, [0, 0, 0, 0x10, 0, 0, 0xab, 0xcd, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88]);
    // SAFETY: the segment just written.
    let read = unsafe { Segment(NonNull::from(&bytes).cast()).read_memory() };
    assert_eq!(read, (0x1122_3344_5566_7788, 0x10, 0xabcd));
    // SAFETY: see above.
    let end: [u8; 16] = written(|to| unsafe { to.end_of_memory() });
    assert_eq!(end, [0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn other_segments_have_their_bytes_and_leave_the_rest() {
    // SAFETY: see above.
    unsafe {
        assert_eq!(written::<8>(|to| to.data_length(0x21)), [0x80, 0, 0, 0x21, 0xee, 0xee, 0xee, 0xee]);
        let remote: [u8; 16] = written(|to| to.remote(0x1122_3344_5566_7788, 0x99));
        assert_eq!(remote, [0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0, 0, 0, 0x99, 0, 0, 0, 0]);
        let swap: [u8; 16] = written(|to| to.atomic(1, Some(2)));
        assert_eq!(swap, [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2]);
        assert_eq!(written::<16>(|to| to.atomic(1, None))[8..], [0xee; 8]);
        let xrc: [u8; 16] = written(|to| to.xrc(0x0102_0304));
        assert_eq!((&xrc[..4], &xrc[4..]), (&[1, 2, 3, 4][..], &[0xee; 12][..]));
        let vector = [7_u8; 48];
        let datagram: [u8; 48] = written(|to| to.datagram(NonNull::from(&vector).cast(), 0x0a_bcde, 0x11));
        assert_eq!(datagram[..12], [0, 0, 0, 0x11, 7, 7, 7, 7, 0x80, 0x0a, 0xbc, 0xde]);
        assert_eq!(datagram[12..], [7; 36]);
    }
}

#[test]
fn a_binding_names_memory_rights_and_keys() {
    let memory = BoundMemory {
        address: 0x1000,
        length: 0x200,
        key: 0x55,
        access: IBV_ACCESS_REMOTE_WRITE as u32 | IBV_ACCESS_REMOTE_ATOMIC as u32,
    };
    let binding = Binding { second_type: true, key: 0x0102_0304, qp_num: 0x77, memory: Some(memory) };
    // SAFETY: see above.
    unsafe {
        let control: [u8; 48] = written(|to| binding.control(to));
        assert_eq!(control[..8], [0xb0, 0, 0, 0, 0, 4, 0, 0]);
        assert_eq!(control[8..16], 0x203c_6041_u64.to_be_bytes());
        assert_eq!(control[16..], [0; 32]);
        let context: [u8; 64] = written(|to| binding.context(to));
        assert_eq!(context[..8], [0, 0xee, 0x60, 0xee, 0, 0, 0x77, 4]);
        assert_eq!(
            (&context[16..24], &context[24..32]),
            (&0x1000_u64.to_be_bytes()[..], &[0, 0, 0, 0, 0, 0, 2, 0][..])
        );
        let part: [u8; 64] = written(|to| binding.memory(&memory, to));
        assert_eq!(part[..16], [0, 0, 2, 0, 0, 0, 0, 0x55, 0, 0, 0, 0, 0, 0, 0x10, 0]);
        assert_eq!(part[16..], [0; 48]);
        let none = Binding { memory: None, ..binding };
        assert_eq!(
            written::<48>(|to| none.control(to))[..16],
            [0x98, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x20, 0, 0x60, 0]
        );
        assert_eq!(written::<64>(|to| none.context(to))[..8], [0x40, 0xee, 0xee, 0xee, 0xff, 0xff, 0xff, 4]);
        let first = Binding { second_type: false, ..binding };
        assert_eq!(
            written::<48>(|to| first.control(to))[..16],
            [0x90, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0x20, 0x3c, 0x20, 0x41]
        );
        assert_eq!(written::<64>(|to| first.context(to))[4..8], [0xff, 0xff, 0xff, 4]);
    }
}
