//! A datagram that comes behind the next one, where faults on request ask for that. Its sender has it back: the
//! bytes are kept.

use std::time::{Duration, Instant};

use ironverbs_os::growth::{TryFill, try_box, try_room};

use crate::carrier::initiator::Initiator;
use crate::carrier::near::bytes;
use crate::carrier::near::completion_order::CompletionOrder;
use crate::carrier::near::endpoint::Endpoint;
use crate::carrier::outgoing::Outgoing;
use crate::carrier::wr::{Data, Datagram, Operands, Wr};
use crate::rules::verbs::{Opcode, SendFlags};

/// So long it waits for the next.
const ALONE: Duration = Duration::from_millis(2);

/// See the module.
#[derive(Debug)]
pub(super) struct Behind {
    until: Instant,
    opcode: Opcode,
    flags: SendFlags,
    imm_or_key: u32,
    qp_num: u32,
    qkey: u32,
    grh: [u8; 40],
    dgid: [u8; 16],
    bytes: Vec<u8>,
}

impl Behind {
    /// This one, from now on; `None` where there is no memory, or its own is not there.
    pub(super) fn new(out: &Outgoing<'_, '_>) -> Option<Box<Self>> {
        let (wr, to) = (out.wr, out.wr.datagram.as_ref()?);
        let length = usize::try_from(out.request.length).ok()?;
        let mut bytes: Vec<u8> = try_room(length).ok()?;
        bytes.fill_reserved(length, || 0);
        bytes::take_part(out.endpoint, wr, 0, &mut bytes).ok()?;
        try_box(Self {
            until: Instant::now() + ALONE,
            opcode: wr.opcode,
            flags: wr.flags,
            imm_or_key: wr.imm_or_key,
            qp_num: to.qp_num,
            qkey: to.qkey,
            grh: *to.grh,
            dgid: to.dgid,
            bytes,
        })
        .ok()
    }

    /// Whether it has waited for the next long enough.
    pub(super) fn is_due(&self) -> bool {
        Instant::now() >= self.until
    }

    /// Sends it by this, from this queue pair.
    pub(super) fn send(&self, endpoint: &Endpoint, from: &Initiator, send: impl FnOnce(&Outgoing<'_, '_>)) {
        let Self { opcode, flags, imm_or_key, qp_num, qkey, ref grh, dgid, ref bytes, .. } = *self;
        let datagram = Some(Datagram { qp_num, qkey, grh, dgid, route: None });
        let data = Data::Inline(bytes);
        let operands = Operands::None;
        let wr = Wr { wr_id: 0, opcode, flags, data, operands, imm_or_key, srq_num: 0, datagram };
        let (request, order) = (wr.posted(), CompletionOrder::new(None));
        send(&Outgoing { endpoint, from, wr: &wr, request: &request, order: &order });
    }
}
