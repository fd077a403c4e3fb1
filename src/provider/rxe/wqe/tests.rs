//! Entries are compared byte by byte, at the offsets of the kernel's header.

use super::*;
use core::cell::UnsafeCell;

const SLOT: usize = 512;

/// A slot full of what was there before.
#[repr(align(8))]
struct Slot(UnsafeCell<[u8; SLOT]>);

impl Slot {
    fn dirty() -> Self {
        Self(UnsafeCell::new([0xEE; SLOT]))
    }

    fn at(&self) -> NonNull<u8> {
        NonNull::new(self.0.get().cast()).unwrap()
    }

    fn bytes(&self) -> [u8; SLOT] {
        // SAFETY: no reference to the bytes is alive, and one thread uses the slot.
        unsafe { *self.0.get() }
    }
}

/// An entry as it should be: zeros in the head, what was there before behind it.
struct Expected([u8; SLOT]);

impl Expected {
    fn head(len: usize) -> Self {
        let mut bytes = [0xEE; SLOT];
        bytes[..len].fill(0);
        Self(bytes)
    }

    fn u16(mut self, offset: usize, value: u16) -> Self {
        self.0[offset..offset + 2].copy_from_slice(&value.to_ne_bytes());
        self
    }

    fn u32(mut self, offset: usize, value: u32) -> Self {
        self.0[offset..offset + 4].copy_from_slice(&value.to_ne_bytes());
        self
    }

    fn u64(mut self, offset: usize, value: u64) -> Self {
        self.0[offset..offset + 8].copy_from_slice(&value.to_ne_bytes());
        self
    }

    fn bytes(mut self, offset: usize, value: &[u8]) -> Self {
        self.0[offset..offset + value.len()].copy_from_slice(value);
        self
    }

    fn sge(self, offset: usize, sge: &ibv_sge) -> Self {
        self.u64(offset, sge.addr).u32(offset + 8, sge.length).u32(offset + 12, sge.lkey)
    }

    /// Length, rest, current entry, entries, offset in the entry, reserved.
    fn dma(self, offset: usize, length: u32, num_sge: u32) -> Self {
        self.u32(offset, length).u32(offset + 4, length).u32(offset + 12, num_sge)
    }
}

fn shape(qp_type: ibv_qp_type) -> SendShape {
    SendShape { max_sge: 4, max_inline: 64, qp_type: qp_type as u32 }
}

fn request(opcode: ibv_wr_opcode, flags: u32, list: &mut [ibv_sge]) -> ibv_send_wr {
    // SAFETY: plain C data; all zeros is its empty value.
    let mut wr: ibv_send_wr = unsafe { core::mem::zeroed() };
    wr.wr_id = 0x1122_3344_5566_7788;
    wr.opcode = opcode as u32;
    wr.send_flags = flags;
    wr.sg_list = list.as_mut_ptr();
    wr.num_sge = list.len() as i32;
    wr
}

const LIST: [ibv_sge; 2] =
    [ibv_sge { addr: 0x1000, length: 8, lkey: 0x11 }, ibv_sge { addr: 0x2000, length: 24, lkey: 0x22 }];

fn build(shape: &SendShape, wr: &ibv_send_wr, ssn: u32) -> Result<[u8; SLOT]> {
    let slot = Slot::dirty();
    // SAFETY: the lists of these tests are valid, and the slot is larger than any shape of them asks for.
    unsafe {
        let length = check_send(shape, wr)?;
        write_send(slot.at(), shape, wr, length, ssn)?;
    }
    Ok(slot.bytes())
}

fn send_head(opcode: ibv_wr_opcode, flags: u32, ssn: u32) -> Expected {
    Expected::head(208).u64(0, 0x1122_3344_5566_7788).u32(12, opcode as u32).u32(16, flags).u32(176, ssn)
}

#[test]
fn a_write_with_a_list() {
    let mut list = LIST;
    let mut wr = request(IBV_WR_RDMA_WRITE_WITH_IMM, IBV_SEND_SIGNALED as u32, &mut list);
    wr.anon1.imm_data = 0xAABB_CCDD;
    wr.wr.rdma = ibv_send_wr_wr_rdma { remote_addr: 0xDEAD_0000_BEEF, rkey: 0x77 };
    let expected = send_head(IBV_WR_RDMA_WRITE_WITH_IMM, 2, 41)
        .u32(20, 0xAABB_CCDD)
        .u64(24, 0xDEAD_0000_BEEF)
        .u32(32, 0x77)
        .u64(152, 0xDEAD_0000_BEEF)
        .dma(184, 32, 2)
        .sge(208, &LIST[0])
        .sge(224, &LIST[1]);
    assert_eq!(build(&shape(IBV_QPT_RC), &wr, 41).unwrap(), expected.0);
}

#[test]
fn inline_data_is_copied_from_all_pieces() {
    let (first, second) = (*b"soft", *b"-RoCE inline");
    let mut list = [
        ibv_sge { addr: first.as_ptr().expose_provenance() as u64, length: 4, lkey: 1 },
        ibv_sge { addr: 0, length: 0, lkey: 2 },
        ibv_sge { addr: second.as_ptr().expose_provenance() as u64, length: 12, lkey: 3 },
    ];
    let wr = request(IBV_WR_SEND, IBV_SEND_INLINE as u32, &mut list);
    let expected = send_head(IBV_WR_SEND, 8, 0).dma(184, 16, 3).bytes(208, b"soft-RoCE inline");
    assert_eq!(build(&shape(IBV_QPT_RC), &wr, 0).unwrap(), expected.0);
}

#[test]
fn atomics_carry_both_operands() {
    let mut list = [LIST[0]];
    let mut wr = request(IBV_WR_ATOMIC_CMP_AND_SWP, 0, &mut list);
    wr.wr.atomic = ibv_send_wr_wr_atomic {
        remote_addr: 0x8000,
        compare_add: 0x0101_0101,
        swap: 0x0202_0202,
        rkey: 0x99,
    };
    let expected = send_head(IBV_WR_ATOMIC_CMP_AND_SWP, 0, 7)
        .u64(24, 0x8000)
        .u64(32, 0x0101_0101)
        .u64(40, 0x0202_0202)
        .u32(48, 0x99)
        .u64(152, 0x8000)
        .dma(184, 8, 1)
        .sge(208, &LIST[0]);
    assert_eq!(build(&shape(IBV_QPT_RC), &wr, 7).unwrap(), expected.0);

    wr.wr.atomic.remote_addr = 0x8004;
    assert_eq!(build(&shape(IBV_QPT_RC), &wr, 7).unwrap_err(), Errno::EINVAL);
    wr.wr.atomic.remote_addr = 0x8000;
    wr.num_sge = 0;
    assert_eq!(build(&shape(IBV_QPT_RC), &wr, 7).unwrap_err(), Errno::EINVAL);
}

fn datagram(destination: Destination) -> [u8; SLOT] {
    let ah = Handle::publish(Box::new(Ah::new(ptr::null_mut(), 5, destination)));
    let mut list = [LIST[0]];
    let mut wr = request(IBV_WR_SEND, 0, &mut list);
    wr.wr.ud = ibv_send_wr_wr_ud { ah: ah.as_ptr(), remote_qpn: 0x123, remote_qkey: 0x456 };
    let bytes = build(&shape(IBV_QPT_UD), &wr, 1).unwrap();
    // SAFETY: published above as an Ah, and no borrow of it is alive.
    drop(unsafe { ah.reclaim::<Ah>() });
    bytes
}

#[test]
fn datagrams_name_the_address_that_the_kernel_keeps() {
    let expected = send_head(IBV_WR_SEND, 0, 1)
        .u32(24, 0x123)
        .u32(28, 0x456)
        .u32(36, 0xA5)
        .dma(184, 8, 1)
        .sge(208, &LIST[0]);
    assert_eq!(datagram(Destination { ah_num: 0xA5, av: None }), expected.0);
}

#[test]
fn datagrams_carry_the_address_that_an_older_kernel_does_not_keep() {
    let av = rxe_av { port_num: 1, network_type: RXE_NETWORK_TYPE_IPV6, dmac: [9; 6], ..Pod::zeroed() };
    let expected = send_head(IBV_WR_SEND, 0, 1)
        .u32(24, 0x123)
        .u32(28, 0x456)
        .bytes(56, &[1, 2, 9, 9, 9, 9, 9, 9])
        .dma(184, 8, 1)
        .sge(208, &LIST[0]);
    assert_eq!(datagram(Destination { ah_num: 0, av: Some(av) }), expected.0);
}

#[test]
fn a_datagram_without_address_is_refused() {
    let wr = request(IBV_WR_SEND, 0, &mut []);
    assert_eq!(build(&shape(IBV_QPT_UD), &wr, 0).unwrap_err(), Errno::EINVAL);
    assert!(build(&shape(IBV_QPT_RC), &wr, 0).is_ok());
}

#[test]
fn a_binding_names_window_region_and_rights() {
    // SAFETY: plain C data; all zeros is its empty value.
    let (mut mw, mut mr): (ibv_mw, ibv_mr) = unsafe { (core::mem::zeroed(), core::mem::zeroed()) };
    mw.rkey = 0x500;
    mr.lkey = 0x600;
    let bind_info = ibv_mw_bind_info { mr: &raw mut mr, addr: 0x4000, length: 0x80, mw_access_flags: 3 };
    let mut wr = request(IBV_WR_BIND_MW, 0, &mut []);
    wr.anon2.bind_mw = ibv_send_wr_anon2_bind_mw { mw: &raw mut mw, rkey: 0x501, bind_info };
    let expected = send_head(IBV_WR_BIND_MW, 0, 3)
        .u64(24, 0x4000)
        .u64(32, 0x80)
        .u32(40, 0x600)
        .u32(44, 0x500)
        .u32(48, 0x501)
        .u32(52, 3);
    assert_eq!(build(&shape(IBV_QPT_UC), &wr, 3).unwrap(), expected.0);

    assert_eq!(build(&shape(IBV_QPT_UD), &wr, 3).unwrap_err(), Errno::EINVAL);
    wr.anon1.imm_data = 1;
    assert_eq!(build(&shape(IBV_QPT_RC), &wr, 3).unwrap_err(), Errno::EINVAL);
    wr.anon1.imm_data = 0;
    wr.anon2.bind_mw.bind_info.mr = ptr::null_mut();
    assert_eq!(build(&shape(IBV_QPT_RC), &wr, 3).unwrap_err(), Errno::EINVAL);
}

#[test]
fn a_request_that_does_not_fit_is_refused() {
    let shape = shape(IBV_QPT_RC);
    let mut list = [LIST[0]; 5];
    let mut wr = request(IBV_WR_SEND, 0, &mut list);
    assert_eq!(build(&shape, &wr, 0).unwrap_err(), Errno::EINVAL);
    wr.num_sge = 4;
    assert!(build(&shape, &wr, 0).is_ok());
    wr.num_sge = -1;
    assert_eq!(build(&shape, &wr, 0).unwrap_err(), Errno::EINVAL);
}

#[test]
fn inline_data_beyond_the_limit_is_refused_even_if_the_length_wraps() {
    let shape = shape(IBV_QPT_RC);
    let data = [7u8; 65];
    let addr = data.as_ptr().expose_provenance() as u64;
    let mut list = [ibv_sge { addr, length: 65, lkey: 0 }, ibv_sge { addr, length: u32::MAX - 63, lkey: 0 }];
    let mut wr = request(IBV_WR_SEND, IBV_SEND_INLINE as u32, &mut list[..1]);
    assert_eq!(build(&shape, &wr, 0).unwrap_err(), Errno::EINVAL);
    wr.num_sge = 2;
    wr.sg_list = list.as_mut_ptr();
    assert_eq!(build(&shape, &wr, 0).unwrap_err(), Errno::EINVAL);
    list[0].length = 64;
    wr.num_sge = 1;
    wr.sg_list = list.as_mut_ptr();
    assert_eq!(build(&shape, &wr, 0).unwrap()[208..272], [7; 64]);
}

#[test]
fn a_receive_request() {
    let mut list = LIST;
    let wr = ibv_recv_wr { wr_id: 99, next: ptr::null_mut(), sg_list: list.as_mut_ptr(), num_sge: 2 };
    let slot = Slot::dirty();
    // SAFETY: the list is valid, and the slot larger than head and list.
    unsafe { write_recv(slot.at(), &wr) };
    let expected = Expected::head(40).u64(0, 99).dma(16, 32, 2).sge(40, &LIST[0]).sge(56, &LIST[1]);
    assert_eq!(slot.bytes(), expected.0);
}

#[test]
fn shapes_are_cut_to_the_slot() {
    let cap = ibv_qp_cap {
        max_send_wr: 1,
        max_recv_wr: 1,
        max_send_sge: 100,
        max_recv_sge: 100,
        max_inline_data: 1000,
    };
    let shape = SendShape::new(&cap, 2, 256);
    assert_eq!((shape.max_sge, shape.max_inline), (3, 48));
    let shape = SendShape::new(&cap, 2, 4096);
    assert_eq!((shape.max_sge, shape.max_inline), (100, 1000));
    let shape = SendShape::new(&cap, 2, 64);
    assert_eq!((shape.max_sge, shape.max_inline), (0, 0));
    assert_eq!(max_recv_sge(100, 64), 1);
    assert_eq!(max_recv_sge(100, 8), 0);
    assert_eq!(max_recv_sge(2, 4096), 2);
}

#[test]
fn setters_complete_the_entry_of_a_builder() {
    let slot = Slot::dirty();
    let (front, back) = (*b"front", *b"back");
    // SAFETY: the slot is larger than head and payload; pieces and lists are readable.
    unsafe {
        let entry = Entry::begin(slot.at(), 0x1122_3344_5566_7788, IBV_WR_SEND as u32, 2, 0, 6);
        let pieces = [
            ibv_data_buf { addr: front.as_ptr().cast_mut().cast(), length: 5 },
            ibv_data_buf { addr: ptr::null_mut(), length: 0 },
            ibv_data_buf { addr: back.as_ptr().cast_mut().cast(), length: 4 },
        ];
        assert_eq!(entry.set_inline(8, &pieces).unwrap_err(), Errno::ENOSPC);
        let wraps = [
            ibv_data_buf { addr: ptr::null_mut(), length: 2 },
            ibv_data_buf { addr: ptr::null_mut(), length: usize::MAX },
        ];
        assert_eq!(entry.set_inline(8, &wraps).unwrap_err(), Errno::ENOSPC);
        assert_eq!(slot.bytes(), send_head(IBV_WR_SEND, 2, 6).0, "an error leaves the entry alone");
        entry.set_inline(9, &pieces).unwrap();
    }
    let inline = send_head(IBV_WR_SEND, 2 | 8, 6).dma(184, 9, 0).bytes(208, b"frontback");
    assert_eq!(slot.bytes(), inline.0);

    let slot = Slot::dirty();
    // SAFETY: as above.
    unsafe {
        let entry = Entry::begin(slot.at(), 0x1122_3344_5566_7788, IBV_WR_SEND as u32, 0, 0, 6);
        entry.set_sge(ibv_sge { length: 0, ..LIST[0] });
        assert_eq!(slot.bytes(), send_head(IBV_WR_SEND, 0, 6).0, "an empty entry is no payload");
        entry.set_sge(LIST[0]);
        assert_eq!(slot.bytes(), send_head(IBV_WR_SEND, 0, 6).dma(184, 8, 1).sge(208, &LIST[0]).0);
        assert_eq!(entry.set_sge_list(1, 2, LIST.as_ptr()).unwrap_err(), Errno::ENOSPC);
        entry.set_sge_list(2, 2, LIST.as_ptr()).unwrap();
    }
    let both = send_head(IBV_WR_SEND, 0, 6).dma(184, 32, 2).sge(208, &LIST[0]).sge(224, &LIST[1]);
    assert_eq!(slot.bytes(), both.0);

    let slot = Slot::dirty();
    // SAFETY: as above; the operand is 8 bytes.
    unsafe {
        let entry = Entry::begin(slot.at(), 0x1122_3344_5566_7788, IBV_WR_ATOMIC_WRITE as u32, 0, 0, 6);
        entry.set_remote(0x77, 0x9000);
        entry.set_atomic_write(0x0102_0304_0506_0708u64.to_ne_bytes().as_ptr());
    }
    let atomic = send_head(IBV_WR_ATOMIC_WRITE, 0, 6)
        .u64(24, 0x9000)
        .u32(32, 0x77)
        .u64(152, 0x9000)
        .dma(184, 8, 0)
        .u64(208, 0x0102_0304_0506_0708);
    assert_eq!(slot.bytes(), atomic.0);

    let slot = Slot::dirty();
    // SAFETY: as above.
    unsafe {
        let entry = Entry::begin(slot.at(), 0x1122_3344_5566_7788, IBV_WR_FLUSH as u32, 0, 0, 6);
        entry.set_flush(0x77, 0x9000, 0x1_0000_4000, 2, 1);
    }
    let flush = send_head(IBV_WR_FLUSH, 0, 6)
        .u64(24, 0x9000)
        .u32(36, 0x77)
        .u16(40, 0x0102)
        .u64(152, 0x9000)
        .dma(184, 0x4000, 0);
    assert_eq!(slot.bytes(), flush.0);

    let slot = Slot::dirty();
    // SAFETY: as above.
    unsafe {
        let entry = Entry::begin(slot.at(), 0x1122_3344_5566_7788, IBV_WR_SEND_WITH_INV as u32, 0, 0x42, 6);
        entry.set_destination(&Destination { ah_num: 3, av: None }, 1, 2);
    }
    let datagram =
        send_head(IBV_WR_SEND_WITH_INV, 0, 6).u32(20, 0x42).u32(24, 1).u32(28, 2).u16(32, 0).u32(36, 3);
    assert_eq!(slot.bytes(), datagram.0);
}
