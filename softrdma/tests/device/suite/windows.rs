//! Memory windows.

use softrdma::device::{WindowType, Wr};
use softrdma::rules::keys::Bind;
use softrdma::rules::request::{BindWindow, Operands};
use softrdma::rules::verbs::{Access, Opcode, QpType, Status, WcFlags, WcOpcode};
use softrdma_testing::device::*;
use softrdma_testing::fabric::{Carrier, pair, pattern};

super::suite! {
    windows:
    windows_open_and_close,
}

pub fn windows_open_and_close(carrier: Carrier) {
    let (_fabric, [_, there], one, other) = pair(carrier, QpType::Rc);
    let device = &there.device;
    let window = device.alloc_window(there.pd, WindowType::Two).unwrap();
    let bind = |wr_id, window: u32, key8: u8, offset, length| {
        let access = Access::REMOTE_WRITE.union(Access::REMOTE_READ);
        let bind = Bind { addr: other.memory.addr(offset), length, access };
        let operands = Operands::Bind(BindWindow { window, key8, region: other.region.lkey, bind });
        other.qp.post_send(&Wr { operands, ..wr(wr_id, Opcode::BindMw, &[]) }).unwrap();
    };
    bind(1, window, 0x42, 1000, 100);
    assert_eq!(other.done(1).opcode, WcOpcode::BindMw);
    assert!(device.deregister(other.region.lkey).is_err());
    let rkey = window & !0xff | 0x42;
    one.memory.fill(0, &pattern(100));
    one.remote(2, Opcode::RdmaWrite, 0, 100, (other.memory.addr(1000), rkey));
    one.done(2);
    assert_eq!(other.memory.bytes(1000, 100), pattern(100));
    // Closed by the peer's send.
    other.receive(3, 0, 100);
    one.qp.post_send(&Wr { imm_or_key: rkey, ..wr(4, Opcode::SendWithInv, &[one.sge(0, 8)]) }).unwrap();
    one.done(4);
    let completion = other.done(3);
    assert_eq!((completion.imm_or_key, completion.flags), (rkey, WcFlags::WITH_INV));
    // Opened anew, closed by its owner.
    bind(5, rkey, 0x43, 1000, 100);
    other.done(5);
    let rkey = window & !0xff | 0x43;
    let close = Wr { operands: Operands::Key(rkey), ..wr(6, Opcode::LocalInv, &[]) };
    other.qp.post_send(&close).unwrap();
    other.done(6);
    one.remote(7, Opcode::RdmaWrite, 0, 100, (other.memory.addr(1000), rkey));
    assert_eq!(one.poll().status, Status::RemAccessErr);
    assert_eq!(device.deregister(other.region.lkey), Ok(()));
    assert_eq!(device.free_window(rkey), Ok(()));
}
