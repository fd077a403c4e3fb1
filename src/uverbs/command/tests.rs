use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use proptest::prelude::*;

use super::*;
use crate::abi::uapi::ib_user_verbs::{
    IB_USER_VERBS_CMD_ALLOC_PD, IB_USER_VERBS_CMD_DEALLOC_PD, ib_uverbs_alloc_pd, ib_uverbs_alloc_pd_resp,
    ib_uverbs_dealloc_pd, ib_uverbs_ex_modify_cq,
};

fn attr<const N: usize>(cmd: &Command<'_, N>, at: usize) -> (u16, u16, u16, u64) {
    let attr = &cmd.frame.attrs[at];
    (attr.attr_id, attr.len, attr.flags, attr.data)
}

#[test]
fn attributes_carry_what_they_were_given() {
    let mut room = 0_u32;
    let address = (&raw const room).addr() as u64;
    let mut cmd = Command::<8>::new(3, 4);
    cmd.object(1, 7);
    cmd.number(2, u64::MAX);
    cmd.number32(3, 0x0102_0304);
    cmd.value_out(4, &mut room);
    cmd.file(5, 9);
    cmd.file(6, -1);
    cmd.optional_file(7, 10);
    assert_eq!(cmd.count, 6, "a file that is not there has no attribute");
    assert_eq!(attr(&cmd, 0), (1, 0, 1, 7));
    assert_eq!(attr(&cmd, 1), (2, 8, 1, u64::MAX));
    assert_eq!((attr(&cmd, 2).1, attr(&cmd, 2).3.to_ne_bytes()[..4].to_vec()), (4, vec![4, 3, 2, 1]));
    assert_eq!(attr(&cmd, 3), (4, 4, 1, address));
    assert_eq!(attr(&cmd, 4), (5, 0, 1, 9));
    assert_eq!(attr(&cmd, 5), (7, 0, 0, 10));
}

#[test]
fn driver_data_is_left_out_when_there_is_none() {
    let mut cmd = Command::<2>::new(0, 0);
    cmd.driver(&[], &mut []);
    assert_eq!(cmd.count, 0);
    let mut answer = [0; 16];
    cmd.driver(&[1, 2, 3, 4], &mut answer);
    assert_eq!((attr(&cmd, 0).0, attr(&cmd, 0).1), (UVERBS_ATTR_UHW_IN, 4));
    assert_eq!((attr(&cmd, 1).0, attr(&cmd, 1).1), (UVERBS_ATTR_UHW_OUT, 16));
}

#[test]
fn prepared_attributes_follow_our_own_and_come_back_with_the_answers() {
    let attr_of = |attr_id, data| ib_uverbs_attr { attr_id, data, ..Pod::zeroed() };
    let mut near = [attr_of(0x1000, 1), attr_of(0x1001, 2)];
    let mut far = [attr_of(0x1002, 3)];
    let mut prepared = Prepared::none();
    // SAFETY: no attribute has an address, and no kernel sees them.
    unsafe {
        prepared.push(&mut near);
        prepared.push(&mut []);
        prepared.push(&mut far);
    }
    let mut cmd = Command::<2>::new(14, 0);
    let handle = cmd.object_out(7);
    cmd.append(prepared);
    let mut message = cmd.join().expect("it fits");
    let bytes = message.bytes();
    assert_eq!(ib_uverbs_ioctl_hdr::read_from(bytes).map(|header| header.num_attrs), Some(4));
    let ids: Vec<_> = bytes[HEADER_SIZE..HEADER_SIZE + 4 * ATTR_SIZE]
        .chunks_exact(ATTR_SIZE)
        .filter_map(ib_uverbs_attr::read_from)
        .map(|attr| (attr.attr_id, attr.data))
        .collect();
    assert_eq!(ids, [(7, 0), (0x1000, 1), (0x1001, 2), (0x1002, 3)]);
    for (at, answer) in [(0, 40_u64), (3, 43)] {
        let data = HEADER_SIZE + at * ATTR_SIZE + 8;
        bytes[data..data + 8].copy_from_slice(&answer.to_ne_bytes());
    }
    cmd.split(message.bytes());
    assert_eq!(cmd.created(handle), 40);
    assert_eq!((near[0].data, near[1].data, far[0].data), (1, 2, 43));
}

/// What becomes of a command with these attributes of a driver on a kernel without the ioctl.
fn legacy_of(attr: ib_uverbs_attr, needs_ex: bool, needs_ioctl: bool) -> Result<Path> {
    let (file, _other) = socket_file();
    let mut piece = [attr];
    let mut prepared = Prepared::none();
    // SAFETY: the attribute has no address.
    unsafe { prepared.push(&mut piece) };
    prepared.restrict(needs_ex, needs_ioctl);
    let mut cmd = Command::<1>::new(3, 0);
    cmd.append(prepared);
    cmd.execute_or_legacy(&file, Method::CreateCq)
}

#[test]
fn only_mandatory_attributes_of_a_driver_have_no_legacy_command() {
    let own = ib_uverbs_attr { attr_id: UVERBS_ATTR_UHW_OUT + 1, ..Pod::zeroed() };
    let mandatory = ib_uverbs_attr { flags: UVERBS_ATTR_F_MANDATORY, ..own };
    assert_eq!(legacy_of(mandatory, false, false), Err(Errno::EOPNOTSUPP));
    assert_eq!(legacy_of(own, false, false), Ok(Path::Write));
    for attr_id in [UVERBS_ATTR_UHW_IN, UVERBS_ATTR_UHW_OUT] {
        assert_eq!(legacy_of(ib_uverbs_attr { attr_id, ..mandatory }, false, false), Ok(Path::Write));
    }
    assert_eq!(legacy_of(own, true, false), Ok(Path::WriteEx));
    assert_eq!(legacy_of(own, true, true), Err(Errno::EOPNOTSUPP));
}

/// A file that is no device: its ioctl is ENOTTY, and what is written to it can be read at the other end.
fn socket_file() -> (DeviceFile, UnixStream) {
    let (ours, other) = UnixStream::pair().expect("socket pair");
    (DeviceFile::from_fd(OwnedFd::from(ours)), other)
}

#[test]
fn what_an_attribute_cannot_say_is_invalid() {
    let (file, _other) = socket_file();
    let long = vec![0; 0x1_0000];
    let mut cmd = Command::<1>::new(0, 0);
    let _ = cmd.bytes(1, &long);
    assert_eq!(cmd.execute(&file), Err(Errno::EINVAL));
    assert_eq!(Errno::last(), Errno::EINVAL);
}

#[test]
fn a_kernel_without_the_ioctl_gets_legacy_commands() {
    let (file, _other) = socket_file();
    let mut cmd = Command::<1>::new(0, 0);
    assert_eq!(cmd.execute_or_legacy(&file, Method::CreateCq), Ok(Path::Write));
    assert!(file.refuses(Method::DestroyCq) && !file.may_invoke_write());
    cmd.require_ex();
    assert_eq!(cmd.execute_or_legacy(&file, Method::CreateCq), Ok(Path::WriteEx));
    cmd.require_ioctl();
    assert_eq!(cmd.execute_or_legacy(&file, Method::CreateCq), Err(Errno::EOPNOTSUPP));
}

fn sent(other: &mut UnixStream, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    other.read_exact(&mut bytes).expect("the command");
    bytes
}

#[test]
fn a_written_command_is_header_request_and_driver_data() {
    let (file, mut other) = socket_file();
    let request = ib_uverbs_dealloc_pd { pd_handle: 0x0a0b_0c0d };
    execute_write(&file, IB_USER_VERBS_CMD_DEALLOC_PD, &request, &mut (), Udata::none())
        .expect("the socket takes it");
    let bytes = sent(&mut other, 12);
    let header = ib_uverbs_cmd_hdr::read_from(&bytes).expect("a header");
    assert_eq!((header.command, header.in_words, header.out_words), (IB_USER_VERBS_CMD_DEALLOC_PD, 3, 0));
    assert_eq!(u32::read_from(&bytes[8..]), Some(0x0a0b_0c0d));

    let mut answer = ib_uverbs_alloc_pd_resp::default();
    let mut driver_answer = [0; 12];
    let udata = Udata { input: &[5; 8], output: &mut driver_answer };
    let request = ib_uverbs_alloc_pd::default();
    execute_write(&file, IB_USER_VERBS_CMD_ALLOC_PD, &request, &mut answer, udata)
        .expect("the socket takes it");
    let bytes = sent(&mut other, 24);
    let header = ib_uverbs_cmd_hdr::read_from(&bytes).expect("a header");
    assert_eq!((header.in_words, header.out_words), (6, 4));
    assert_ne!(u64::read_from(&bytes[8..]), Some(0), "the address of the answer");
    assert_eq!(bytes[16..], [5; 8]);
}

#[test]
fn an_extended_command_has_a_second_header() {
    let (file, mut other) = socket_file();
    let request = ib_uverbs_ex_modify_cq { cq_handle: 6, ..Pod::zeroed() };
    execute_write_ex(&file, 57, &request, &mut (), Udata::none()).expect("the socket takes it");
    let bytes = sent(&mut other, 40);
    let first = ib_uverbs_cmd_hdr::read_from(&bytes).expect("a header");
    assert_eq!((first.command, first.in_words, first.out_words), (0x8000_0039, 2, 0));
    let second = ib_uverbs_ex_cmd_hdr::read_from(&bytes[8..]).expect("a second header");
    assert_eq!((second.provider_in_words, second.provider_out_words), (0, 0));
    assert_eq!(u32::read_from(&bytes[24..]), Some(6));
}

#[test]
fn odd_lengths_cannot_be_written() {
    let (file, _other) = socket_file();
    let udata = Udata { input: &[0; 3], output: &mut [] };
    let request = ib_uverbs_alloc_pd::default();
    let done = execute_write(&file, IB_USER_VERBS_CMD_ALLOC_PD, &request, &mut (), udata);
    assert_eq!(done, Err(Errno::EINVAL));
}

proptest! {
    #[test]
    fn short_input_is_inside_the_attribute_and_long_input_behind_its_address(
        input in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        let mut cmd = Command::<1>::new(0, 0);
        let _ = cmd.bytes(1, &input);
        let (_, len, _, data) = attr(&cmd, 0);
        prop_assert_eq!(usize::from(len), input.len());
        if input.len() <= 8 {
            prop_assert_eq!(&data.to_ne_bytes()[..input.len()], &input[..]);
        } else {
            prop_assert_eq!(data, input.as_ptr().addr() as u64);
        }
    }

    #[test]
    fn commands_of_any_size_arrive_whole(words in 2_usize..400, driver_words in 0_usize..100) {
        let (file, mut other) = socket_file();
        let request: Vec<u8> = (0..words * 8).map(|at| at as u8).collect();
        let driver = vec![0xee; driver_words * 8];
        let udata = Udata { input: &driver, output: &mut [] };
        execute_legacy(&file, 1, &request, &mut [], udata).expect("the socket takes it");
        let bytes = sent(&mut other, 8 + request.len() + driver.len());
        prop_assert_eq!(&bytes[8..8 + request.len()], &request[..]);
        prop_assert_eq!(&bytes[8 + request.len()..], &driver[..]);
    }
}
