//! The folder of a group: its members are other users, who write what they like into each other's segments.

use std::sync::Arc;
use std::time::Duration;

use softrdma::device::{Attributes, Data, QpInit, QueuePair, SharedReceiveQueue, SrqInit, SrqType, Wr};
use softrdma::queues::completion::Stage;
use softrdma::queues::deliver::{Deliver, Delivered};
use softrdma::queues::shared::{Memory as _, Object, Word};
use softrdma::queues::transport::run;
use softrdma::rules::completion::Completion;
use softrdma::rules::request::Operands;
use softrdma::rules::verbs::{Access, Attr, Opcode, QpState, QpType, Status, WcFlags, WcOpcode};
use softrdma::shm::atomics::Operation;
use softrdma::shm::bounce::{Failure, Local, Origin, Piece, Purpose, atomic, transfer};
use softrdma::shm::copy::Span;
use softrdma::shm::objects::Host;
use softrdma::shm::segment::{Peer, Segment};
use softrdma_testing::device::*;

const LIMIT: Duration = Duration::from_secs(20);
/// Local rights alone.
const LOCAL: Access = Access::LOCAL_WRITE;

/// A victim with a connection to an honest peer, and a member of the group who is neither.
struct Scene {
    victim: Node,
    end: End,
    peer: Node,
    other: End,
    member: (Arc<Segment>, Arc<Peer>),
    _folder: Folder,
}

fn scene(qp_type: QpType) -> Scene {
    let folder = Folder::new();
    let victim = Node::of(folder.open_for_group());
    let peer = Node::of(folder.open_for_group());
    let member = folder.member();
    let (mut end, mut other) = (victim.end(qp_type), peer.end(qp_type));
    for (node, end) in [(&victim, &mut end), (&peer, &mut other)] {
        let (addr, length) = (end.memory.addr(0), end.memory.len() as u64);
        end.region = node.device.register(node.pd, addr, length, addr, LOCAL).unwrap();
    }
    connect(&end.qp, &other.qp);
    Scene { victim, end, peer, other, member, _folder: folder }
}

impl Scene {
    /// What an honest peer would say of itself.
    fn origin(&self) -> Origin {
        Origin { qp_num: self.end.qp.qp_num(), src_qp: self.other.qp.qp_num(), ..Origin::NONE }
    }

    /// A job of the member's, on so many bytes of the victim's memory.
    fn job(
        &self,
        origin: Origin,
        purpose: Purpose,
        (key, at, len): (u32, usize, usize),
    ) -> Result<(), Failure> {
        let mut bytes = vec![0xee_u8; len];
        let here = [Span { addr: bytes.as_mut_ptr() as u64, len: len as u64 }];
        let there = [Piece { key, addr: self.end.memory.addr(at), len: len as u64 }];
        let (me, victim) = &self.member;
        // SAFETY: what is overwritten here is `bytes`.
        unsafe { transfer(me, victim, origin, purpose, &there, Local::Memory(&here), LIMIT) }
    }

    /// The victim's memory is as it was.
    fn is_untouched(&self) -> bool {
        self.is_zero(0, self.end.memory.len())
    }

    /// Whether these bytes of the victim's memory are as they were.
    fn is_zero(&self, at: usize, len: usize) -> bool {
        self.end.memory.bytes(at, len).iter().all(|byte| *byte == 0)
    }

    /// The victim's segment, as the member writes to it.
    fn segment(&self) -> Host {
        Host::of_peer(self.member.0.clone(), self.member.1.clone())
    }

    /// The number of the request in this place of the victim's ring.
    fn number(&self, slot: u32) -> u64 {
        self.segment().load(Word::Receive { queue: Object::Qp(0), slot, word: 0 })
    }
}

const REFUSED: Result<(), Failure> = Err(Failure::Refused);

#[test]
fn a_job_that_says_it_is_a_send_writes_only_where_one_is_waited_for() {
    let stage = scene(QpType::Rc);
    let (key, origin) = (stage.end.region.lkey, stage.origin());
    for origin in [Origin::NONE, origin, Origin { wr_id: 1 << 32, ..origin }] {
        assert_eq!(stage.job(origin, Purpose::Receive, (key, 0, 8)), REFUSED);
    }
    stage.end.receive(77, 1000, 5000);
    let posted = Origin { wr_id: stage.number(0), ..origin };
    assert_ne!(posted.wr_id, 77, "what the program calls its request is nobody's business");
    let receive = |origin, range| stage.job(origin, Purpose::Receive, range);
    // Beside the buffer, over its ends, by another number, with another key of the same memory.
    let (addr, length) = (stage.end.memory.addr(0), stage.end.memory.len() as u64);
    let twin = stage.victim.device.register(stage.victim.pd, addr, length, addr, LOCAL).unwrap().lkey;
    for range in [(key, 0, 8), (key, 999, 8), (key, 5993, 8), (key, 1000, 5001), (twin, 1000, 8)] {
        assert_eq!(receive(posted, range), REFUSED, "{range:?}");
    }
    for wr_id in [77, posted.wr_id + 1, posted.wr_id + (1 << 32), posted.wr_id ^ 1 << 63] {
        assert_eq!(receive(Origin { wr_id, ..posted }, (key, 1000, 8)), REFUSED);
    }
    // For a queue pair that there is not, that is another one, or whose peer is another.
    let lonely = stage.victim.end(QpType::Rc);
    for qp_num in [0, 40, u32::MAX, stage.other.qp.qp_num(), lonely.qp.qp_num()] {
        assert_eq!(receive(Origin { qp_num, ..posted }, (key, 1000, 8)), REFUSED);
    }
    let src_qp = lonely.qp.qp_num();
    assert_eq!(receive(Origin { src_qp, ..posted }, (key, 1000, 8)), REFUSED);
    assert!(stage.is_untouched());
    // Who says all of it right is the peer, as far as anybody can tell.
    assert_eq!(receive(posted, (key, 1000, 5000)), Ok(()));
    assert!(stage.end.memory.bytes(1000, 5000).iter().all(|byte| *byte == 0xee));
    // The honest one uses the request up: nothing is posted any more.
    stage.other.memory.fill(0, &[7; 5000]);
    stage.other.send(1, 0, 5000);
    assert_eq!(stage.end.done(77).byte_len, 5000);
    assert_eq!(stage.end.memory.bytes(1000, 5000), [7; 5000]);
    assert_eq!(receive(posted, (key, 1000, 8)), REFUSED);
    // Nor is it after a reset.
    stage.end.receive(78, 0, 100);
    let posted = Origin { wr_id: stage.number(1), ..origin };
    assert_eq!(receive(posted, (key, 0, 8)), Ok(()));
    set_state(&stage.end.qp, QpState::Reset);
    assert_eq!(receive(posted, (key, 0, 8)), REFUSED);
    assert!(stage.is_zero(8, 900));
}

#[test]
fn remote_access_needs_a_queue_pair_that_allows_it() {
    let stage = scene(QpType::Rc);
    let (device, memory) = (&stage.victim.device, &stage.end.memory);
    let (addr, length) = (memory.addr(0), memory.len() as u64);
    let open = device.register(stage.victim.pd, addr, length, addr, ALL).unwrap().rkey;
    let elsewhere = device.register(device.alloc_pd().unwrap(), addr, length, addr, ALL).unwrap().rkey;
    let origin = stage.origin();
    let all = |origin: Origin, key: u32| {
        let word = Piece { key, addr, len: 8 };
        let add = atomic(&stage.member.0, &stage.member.1, origin, word, Operation::FetchAdd(0), LIMIT);
        let write = atomic(&stage.member.0, &stage.member.1, origin, word, Operation::Write(0), LIMIT);
        let job = |purpose| stage.job(origin, purpose, (key, 64, 8));
        [job(Purpose::Read), add.map(drop), write.map(drop), job(Purpose::Write)]
    };
    let refused = [REFUSED; 4];
    let allowed = [Ok(()); 4];
    assert_eq!(all(Origin::NONE, open), refused, "no queue pair");
    assert_eq!(all(Origin { src_qp: 2, ..origin }, open), refused, "somebody who is not the peer");
    assert_eq!(all(origin, elsewhere), refused, "another protection domain");
    assert_eq!(all(origin, stage.end.region.rkey), refused, "a key without remote rights");
    let access = |access| {
        let attributes = Attributes { access, ..Attributes::default() };
        stage.end.qp.modify(Attr::ACCESS_FLAGS, &attributes).unwrap();
    };
    access(Access::NONE);
    assert_eq!(all(origin, open), refused, "a queue pair without remote rights");
    access(Access::REMOTE_READ);
    assert_eq!(all(origin, open), [Ok(()), REFUSED, REFUSED, REFUSED]);
    assert!(stage.is_untouched());
    // A member writes into the segment that the queue pair allows more.
    let segment = stage.segment();
    for word in 0..5 {
        let at = |qp| Word::Attribute { object: Object::Qp(qp), word };
        let lie = if word == 0 { segment.load(at(0)) | 0x1f << 32 } else { segment.load(at(0)) };
        segment.store(at(0), lie);
    }
    assert_eq!(all(origin, open), [Ok(()), REFUSED, REFUSED, REFUSED]);
    assert!(stage.is_untouched());
    access(ALL);
    assert_eq!(all(origin, open), allowed);
    assert_eq!(memory.bytes(64, 8), [0xee; 8]);
    set_state(&stage.end.qp, QpState::Err);
    assert_eq!(all(origin, open), refused, "in ERR");
    set_state(&stage.end.qp, QpState::Reset);
    assert_eq!(all(origin, open), refused, "in RESET");
    bring_up(&stage.end.qp, &attributes(stage.other.qp.qp_num()), QpState::Init);
    assert_eq!(all(origin, open), refused, "in INIT");
    stage.end.qp.destroy().unwrap();
    assert_eq!(all(origin, open), refused, "destroyed");
    let datagrams = stage.victim.end(QpType::Ud);
    bring_up(&datagrams.qp, &attributes(0), QpState::Rts);
    let origin = Origin { qp_num: datagrams.qp.qp_num(), ..origin };
    assert_eq!(all(origin, open), refused, "datagrams");
}

/// Jobs of all kinds, more or less as an honest one would be, at a victim that posts, polls, resets and
/// registers meanwhile.
#[test]
fn whatever_jobs_say_they_reach_what_is_open_and_nothing_else() {
    let scene = scene(QpType::Rc);
    let honest = scene.origin();
    let addr = scene.end.memory.addr(0);
    // Open: bytes from 1024 on by a request, from 4096 on by RDMA. Everything else is local.
    let open =
        scene.victim.device.register(scene.victim.pd, addr + 4096, 4096, addr + 4096, ALL).unwrap().rkey;
    let keys = [0, scene.end.region.lkey, open, open ^ 1, u32::MAX];
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut below = move |n: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % n
    };
    let mut allowed = [0; 2];
    for round in 0..3000u32 {
        if round % 500 == 0 {
            set_state(&scene.end.qp, QpState::Reset);
            bring_up(&scene.end.qp, &attributes(scene.other.qp.qp_num()), QpState::Rts);
            scene.end.receive(1, 1024, 1024);
        }
        let number = scene.number(round / 500);
        let origin = Origin {
            qp_num: [honest.qp_num, honest.qp_num, honest.src_qp, honest.qp_num + 1, 0][below(5) as usize],
            src_qp: [honest.src_qp, honest.src_qp, 0][below(3) as usize],
            srq_num: [0, honest.qp_num, u32::MAX][below(3) as usize],
            wr_id: [number, number, number + 1, number ^ 1 << 32, u64::MAX][below(5) as usize],
        };
        let at = [below(10_000), 1024 + below(1024), 4096 + below(4096)][below(3) as usize] as usize;
        let key = keys[below(5) as usize];
        let len = [8, 64, 1024, 4096][below(4) as usize].min(1 + below(2000) as usize * 4);
        let purpose = [Purpose::Receive, Purpose::Write][below(2) as usize];
        if scene.job(origin, purpose, (key, at, len)) == Ok(()) {
            let end = at + len;
            match purpose {
                Purpose::Receive => assert!(1024 <= at && end <= 2048, "{origin:?} {at} {len}"),
                _ => assert!(key == open && 4096 <= at && end <= 8192, "{origin:?} {at} {len}"),
            }
            allowed[usize::from(purpose == Purpose::Write)] += 1;
        }
    }
    assert!(allowed.iter().all(|count| *count > 0), "{allowed:?}");
    let memory = scene.end.memory.bytes(0, scene.end.memory.len());
    let touched = memory.iter().enumerate().filter(|(_, byte)| **byte != 0).map(|(at, _)| at);
    assert!(touched.into_iter().all(|at| (1024..2048).contains(&at) || (4096..8192).contains(&at)));
}

/// What the member publishes for the victim to poll.
fn forge(stage: &Scene, completion: &Completion, payload: Option<(u64, u32, &[u8])>) {
    let segment = stage.segment();
    let payload = payload.map(|(addr, lkey, bytes)| Stage { addr, lkey, bytes });
    let deliver = Deliver::append(0, completion).with(payload);
    assert_eq!(run(&segment, deliver), Ok(Delivered::Published));
}

fn received(stage: &Scene, wr_id: u64, byte_len: u32) -> Completion {
    Completion {
        status: Status::Success,
        byte_len,
        ..Completion::flushed(wr_id, WcOpcode::Recv, stage.end.qp.qp_num())
    }
}

#[test]
fn a_forged_completion_names_no_request_of_the_program_s_and_writes_beside_no_buffer() {
    let stage = scene(QpType::Rc);
    let (lkey, addr) = (stage.end.region.lkey, stage.end.memory.addr(0));
    let qp_num = stage.end.qp.qp_num();
    // Nothing is posted and nothing was sent: whatever it says, nobody sees it.
    for wr_id in [0, 1, 1 << 32, 0xdead_beef_dead_beef, u64::MAX] {
        forge(&stage, &received(&stage, wr_id, 8), Some((addr, lkey, &[0xee; 8])));
        forge(
            &stage,
            &Completion { status: Status::Success, ..Completion::flushed(wr_id, WcOpcode::Send, qp_num) },
            None,
        );
    }
    assert_eq!(stage.end.try_poll(), None);
    assert!(stage.is_untouched());
    // One for a posted request: the payload goes to its buffer, not where the entry says.
    stage.end.receive(5, 4096, 64);
    forge(&stage, &received(&stage, stage.number(0), 8), Some((addr, lkey, &[0xee; 8])));
    assert_eq!(stage.end.done(5).byte_len, 8);
    assert_eq!(stage.end.memory.bytes(4096, 8), [0xee; 8]);
    assert!(stage.is_zero(0, 4096));
    // Not twice, and none that says more bytes than the buffer has.
    forge(&stage, &received(&stage, stage.number(0), 8), Some((addr, lkey, &[0xee; 8])));
    assert_eq!(stage.end.try_poll(), None);
    stage.end.receive(6, 4096, 64);
    forge(&stage, &received(&stage, stage.number(1), 65), None);
    let completion = stage.end.poll();
    assert_eq!((completion.wr_id, completion.status, completion.byte_len), (6, Status::LocLenErr, 0));
    stage.end.receive(7, 4096, 4);
    forge(&stage, &received(&stage, stage.number(2), 4), Some((addr, lkey, &[0xee; 64])));
    let completion = stage.end.poll();
    assert_eq!((completion.wr_id, completion.status), (7, Status::LocProtErr));
    assert!(stage.is_zero(4104, 1000));
}

/// A member changes the victim's ring: honest senders' payload goes where the program wanted it, or nowhere.
#[test]
fn a_ring_that_a_member_changed_leads_to_no_other_memory() {
    for length in [16, 5000] {
        let stage = scene(QpType::Rc);
        stage.end.receive(5, 8192, 6000);
        let segment = stage.segment();
        let word = |word| Word::Receive { queue: Object::Qp(0), slot: 0, word };
        assert_eq!(segment.load(word(2)), stage.end.memory.addr(8192));
        segment.store(word(2), stage.end.memory.addr(0));
        stage.other.memory.fill(0, &vec![7; length]);
        stage.other.send(1, 0, length);
        let completion = stage.end.poll();
        assert_eq!(completion.wr_id, 5);
        assert!(stage.is_zero(0, 8192), "{length} bytes");
        if length == 16 {
            assert_eq!(stage.end.memory.bytes(8192, length), vec![7; length]);
        } else {
            assert_ne!((completion.status, stage.other.poll().status), (Status::Success, Status::Success));
        }
    }
}

/// The same within the process, whose own rings and attributes others can change, too.
#[test]
fn a_message_to_oneself_goes_by_private_books() {
    let stage = scene(QpType::Rc);
    let (one, two) = (stage.victim.end(QpType::Rc), stage.victim.end(QpType::Rc));
    connect(&one.qp, &two.qp);
    let secret = Buffer::new(8192);
    let (addr, length) = (secret.addr(0), secret.len() as u64);
    let key = stage.victim.device.register(stage.victim.pd, addr, length, addr, LOCAL).unwrap().lkey;
    two.receive(5, 0, 6000);
    let index = (two.qp.qp_num() & 0x3fff) - 2;
    let (segment, queue) = (stage.segment(), Object::Qp(index));
    segment.store(Word::Receive { queue, slot: 0, word: 2 }, addr);
    segment.store(Word::Receive { queue, slot: 0, word: 3 }, 6000 | u64::from(key) << 32);
    one.memory.fill(0, &[7; 6000]);
    one.send(1, 0, 6000);
    assert_eq!(two.poll().wr_id, 5);
    assert_ne!(one.poll().status, Status::Success);
    assert!(secret.bytes(0, 8192).iter().all(|byte| *byte == 0));
}

/// Requests of a shared receive queue complete in any order, and are put back by queue pairs that end.
#[test]
fn shared_receive_queues_keep_their_requests_apart() {
    let stage = scene(QpType::Rc);
    let init = SrqInit {
        pd: stage.victim.pd,
        srq_type: SrqType::Basic,
        max_wr: 16,
        max_sge: 6,
        xrcd: None,
        cq: None,
        events: stage.victim.events.clone(),
        cookie: 3,
    };
    let srq = SharedReceiveQueue::new(&stage.victim.device, &init).unwrap();
    let cqs = [0, 1].map(|_| stage.victim.cq(64, None, 1));
    let ends = cqs.map(|cq| {
        let init = QpInit { srq: Some(srq.clone()), ..stage.victim.init(QpType::Rc, &cq) };
        stage.victim.end_of(QueuePair::new(&stage.victim.device, &init).unwrap(), cq)
    });
    let senders = [0, 1].map(|_| stage.peer.end(QpType::Rc));
    for (end, sender) in ends.iter().zip(&senders) {
        connect(&end.qp, &sender.qp);
    }
    let memory = &stage.end;
    for round in 0..50u64 {
        for n in 0..4 {
            let sges: Vec<_> = (0..6).map(|i| memory.sge(n * 6000 + i * 1000, 1000)).collect();
            // The program may call all of them the same.
            srq.post(9, &sges).unwrap();
        }
        for (n, length) in [(1usize, 5500usize), (0, 20), (1, 20), (0, 5500)] {
            let bytes = vec![(round * 4 + n as u64) as u8; length];
            senders[n].memory.fill(0, &bytes);
            senders[n].send(round, 0, length);
            senders[n].done(round);
        }
        // Polled in another order than they were received in.
        for end in &ends {
            for _ in 0..2 {
                end.done(9);
            }
        }
    }
    // What a queue pair has when it ends is gone with it, what it never took is still there.
    post_shared(&srq, 10, memory, 0, 64);
    post_shared(&srq, 11, memory, 64, 64);
    senders[0].send(1, 0, 8);
    senders[0].done(1);
    ends[0].qp.destroy().unwrap();
    senders[1].send(1, 0, 8);
    assert_eq!(ends[1].done(11).byte_len, 8);
}

/// RDMA and atomics between members that are honest.
#[test]
fn honest_members_have_everything() {
    let stage = scene(QpType::Rc);
    let (addr, length) = (stage.end.memory.addr(0), stage.end.memory.len() as u64);
    let key = stage.victim.device.register(stage.victim.pd, addr, length, addr, ALL).unwrap().rkey;
    stage.other.memory.fill(0, &[5; 20_000]);
    stage.other.remote(1, Opcode::RdmaWrite, 0, 20_000, (addr, key));
    stage.other.done(1);
    assert_eq!(stage.end.memory.bytes(0, 20_000), [5; 20_000]);
    stage.other.remote(2, Opcode::RdmaRead, 30_000, 20_000, (addr, key));
    stage.other.done(2);
    assert_eq!(stage.other.memory.bytes(30_000, 20_000), [5; 20_000]);
    let sges = [stage.other.sge(60_000, 8)];
    let operands = Operands::Atomic { addr, rkey: key, compare_add: 1, swap: 0 };
    stage.other.qp.post_send(&Wr { operands, ..wr(3, Opcode::FetchAndAdd, &sges) }).unwrap();
    stage.other.done(3);
    assert_eq!(stage.end.memory.word(0), u64::from_ne_bytes([5; 8]) + 1);
    let inline = Wr { data: Data::Inline(&[1, 2, 3]), ..wr(4, Opcode::Send, &[]) };
    stage.end.receive(8, 0, 100);
    stage.other.qp.post_send(&inline).unwrap();
    stage.other.done(4);
    let completion = stage.end.done(8);
    assert_eq!((completion.byte_len, completion.flags), (3, WcFlags::NONE));
    assert_eq!(stage.end.memory.bytes(0, 3), [1, 2, 3]);
}
