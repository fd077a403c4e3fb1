//! Rings in which small datagrams wait, without a lock of their target, until it polls.

use std::sync::Arc;

use softrdma::device::{Channel, CompletionQueue, Datagram, QueuePair, Wr};
use softrdma::queues::shared::{CqWord, Memory as _, Object, Word};
use softrdma::queues::transaction::Locked;
use softrdma::queues::transport::Transport as _;
use softrdma::rules::receive::Sge;
use softrdma::rules::verbs::{Attr, Opcode, QpState, QpType, SendFlags, Status, WcFlags};
use softrdma::shm::objects::Host;
use softrdma_testing::device::*;

const GRH: usize = 40;
/// Bytes of a datagram that is too long for a ring.
const LONG: usize = 1000;

/// Whether there are rings: not in the folder of a group.
fn have_rings() -> bool {
    std::env::var_os("IRONVERBS_SOFT_GROUP").is_none()
}

/// A receiver, and how others see its device.
struct There {
    folder: Folder,
    _node: Node,
    other: End,
    view: Host,
}

impl There {
    fn new() -> Self {
        Self::with(64, |node| node.cq(256, None, 1))
    }

    fn with(max_recv_wr: u32, cq: impl FnOnce(&Node) -> Arc<CompletionQueue>) -> Self {
        let folder = Folder::new();
        let node = Node::new(&folder);
        let cq = cq(&node);
        let mut init = node.init(QpType::Ud, &cq);
        init.cap.max_recv_wr = max_recv_wr;
        init.cap.max_recv_sge = 3;
        let other = node.end_of(QueuePair::new(&node.device, &init).unwrap(), cq);
        bring_up(&other.qp, &attributes(0), QpState::Rts);
        let view = folder.view();
        Self { folder, _node: node, other, view }
    }

    fn sender(&self) -> (Node, End) {
        let node = Node::new(&self.folder);
        let one = node.end(QpType::Ud);
        bring_up(&one.qp, &attributes(0), QpState::Rts);
        (node, one)
    }

    /// A sender whose datagrams go by a ring.
    fn known_sender(&self) -> (Node, End) {
        let (node, one) = self.sender();
        self.make_known(&one);
        (node, one)
    }

    fn make_known(&self, one: &End) {
        for n in 0..8 {
            self.post(n);
            send(one, &self.other, 8, n as u8);
            self.took(n, 8, n as u8);
        }
        self.post(8);
        assert_eq!(self.waits(|| send(one, &self.other, 8, 8)), have_rings());
        self.took(8, 8, 8);
    }

    /// Completions that came another way.
    fn came(&self) -> u64 {
        self.view.load(Word::Cq(0, CqWord::Tail))
    }

    /// Whether nothing stands in the completion queue after that which was not there before.
    fn waits(&self, act: impl FnOnce()) -> bool {
        let before = self.came();
        act();
        self.came() == before
    }

    fn post(&self, n: u64) {
        self.other.receive(n, 2048 * (n as usize % 16), 2048);
    }

    /// The next completion is of this request, and so many bytes are there, all alike.
    fn took(&self, n: u64, bytes: usize, fill: u8) {
        let completion = self.other.done(n);
        assert_eq!(completion.byte_len as usize, GRH + bytes);
        let place = 2048 * (n as usize % 16);
        assert_eq!(self.other.memory.bytes(place, GRH), [0x60; GRH]);
        assert_eq!(self.other.memory.bytes(place + GRH, bytes), vec![fill; bytes], "{n}");
    }
}

fn request<'a>(to: &End, sges: &'a [Sge]) -> Wr<'a> {
    Wr { datagram: to.datagrams(), flags: SendFlags::NONE, ..wr(1, Opcode::Send, sges) }
}

fn send(one: &End, to: &End, bytes: usize, fill: u8) {
    one.memory.fill(0, &vec![fill; bytes]);
    one.qp.post_send(&request(to, &[one.sge(0, bytes)])).unwrap();
    if one.qp.send_room() < 8 {
        one.datagram_to(99, one, 0, 0);
        one.poll();
    }
}

#[test]
fn datagrams_of_one_sender_stay_in_order_between_both_ways() {
    let there = There::new();
    let (_node, one) = there.known_sender();
    let lengths = [8, 0, 150, LONG, 8, 64, LONG, LONG, 9, 1, 160, 161, 8];
    (0..lengths.len()).for_each(|n| there.post(n as u64));
    for (n, bytes) in lengths.into_iter().enumerate() {
        send(&one, &there.other, bytes, n as u8 + 1);
    }
    for (n, bytes) in lengths.into_iter().enumerate() {
        there.took(n as u64, bytes, n as u8 + 1);
    }
    assert_eq!(there.other.try_poll(), None);
}

#[test]
fn a_full_ring_goes_on_another_way_and_in_order() {
    let there = There::with(256, |node| node.cq(512, None, 1));
    let (_node, one) = there.known_sender();
    (0..200).for_each(|n| there.post(n));
    for n in 0..200u64 {
        send(&one, &there.other, 8, n as u8);
    }
    for n in 0..200u64 {
        let completion = there.other.try_poll().unwrap_or_else(|| panic!("{n} is not there"));
        assert_eq!((completion.wr_id, completion.byte_len), (n, 48));
        assert_eq!(there.other.memory.bytes(2048 * (n as usize % 16) + GRH, 8), [n as u8; 8]);
    }
    assert_eq!(there.other.try_poll(), None);
    there.post(7);
    assert_eq!(there.waits(|| send(&one, &there.other, 8, 7)), have_rings());
    there.took(7, 8, 7);
}

#[test]
fn what_finds_no_request_is_lost_and_the_next_is_not() {
    let there = There::new();
    let (_node, one) = there.known_sender();
    (0..2).for_each(|n| there.post(n));
    (0..5).for_each(|n| send(&one, &there.other, 8, n));
    there.took(0, 8, 0);
    there.took(1, 8, 1);
    (2..4).for_each(|n| there.post(n));
    assert_eq!(there.other.try_poll(), None);
    send(&one, &there.other, 8, 9);
    there.took(2, 8, 9);
}

#[test]
fn several_senders_share_the_requests() {
    let there = There::new();
    let senders = [0; 3].map(|_| there.known_sender());
    (0..12).for_each(|n| there.post(n));
    for n in 0..12 {
        send(&senders[n % 3].1, &there.other, 8, n as u8);
    }
    let mut next = [0, 1, 2];
    for n in 0..12 {
        let completion = there.other.done(n);
        let place = senders.iter().position(|(_, one)| one.qp.qp_num() == completion.src_qp).unwrap();
        let fill = there.other.memory.bytes(2048 * n as usize + GRH, 1)[0];
        assert_eq!(usize::from(fill), next[place]);
        next[place] += 3;
    }
    assert_eq!(there.other.try_poll(), None);
}

#[test]
fn completions_say_what_came() {
    let there = There::new();
    let (_node, one) = there.known_sender();
    there.post(1);
    there.post(2);
    let grh = &[0x45; 40];
    let to = Datagram { grh, ..there.other.datagrams().unwrap() };
    let sges = [one.sge(0, 3)];
    let imm = Wr { imm_or_key: 77, opcode: Opcode::SendWithImm, ..request(&there.other, &sges) };
    let is_waiting = there.waits(|| {
        one.qp.post_send(&Wr { datagram: Some(to), ..imm }).unwrap();
        one.qp.post_send(&imm).unwrap();
    });
    assert_eq!(is_waiting, have_rings());
    let ipv4 = there.other.done(1);
    assert_eq!((ipv4.imm_or_key, ipv4.src_qp, ipv4.byte_len), (77, one.qp.qp_num(), 43));
    assert_eq!(ipv4.flags, WcFlags::GRH.union(WcFlags::IPV4).union(WcFlags::WITH_IMM));
    assert_eq!(ipv4.qp_num, there.other.qp.qp_num());
    let ipv6 = there.other.done(2);
    assert_eq!(ipv6.flags, WcFlags::GRH.union(WcFlags::WITH_IMM));
}

#[test]
fn a_wrong_key_is_lost_and_what_came_before_another_key_is_not() {
    let there = There::new();
    let (_node, one) = there.known_sender();
    (0..4).for_each(|n| there.post(n));
    let sges = [one.sge(0, 8)];
    let to = Datagram { qkey: 5, ..there.other.datagrams().unwrap() };
    let other_key = Wr { datagram: Some(to), ..request(&there.other, &sges) };
    assert!(there.waits(|| one.qp.post_send(&other_key).unwrap()));
    send(&one, &there.other, 8, 1);
    // The key changes while one waits.
    let modify = |qkey| {
        let attributes = softrdma::device::Attributes { qkey, ..Default::default() };
        there.other.qp.modify(Attr::QKEY, &attributes).unwrap();
    };
    modify(5);
    send(&one, &there.other, 8, 2);
    one.memory.fill(0, &[3; 8]);
    one.qp.post_send(&other_key).unwrap();
    there.took(0, 8, 1);
    there.took(1, 8, 3);
    assert_eq!(there.other.try_poll(), None);
}

#[test]
fn the_own_key_goes_where_the_controlled_one_is_named() {
    let there = There::new();
    let (_node, one) = there.known_sender();
    there.post(0);
    let to = Datagram { qkey: 1 << 31 | 5, ..there.other.datagrams().unwrap() };
    let sges = [one.sge(0, 8)];
    one.memory.fill(0, &[4; 8]);
    one.qp.post_send(&Wr { datagram: Some(to), ..request(&there.other, &sges) }).unwrap();
    there.took(0, 8, 4);
}

#[test]
fn requests_of_several_pieces_and_short_ones_and_wrong_keys_are_as_ever() {
    let there = There::new();
    let (_node, one) = there.known_sender();
    let (other, sge) = (&there.other, |offset, length| there.other.sge(offset, length));
    other.qp.post_receive(1, &[sge(0, 40), sge(100, 3), sge(200, 5)]).unwrap();
    assert_eq!(there.waits(|| send(&one, other, 8, 7)), have_rings());
    assert_eq!(other.done(1).byte_len, 48);
    assert_eq!(other.memory.bytes(100, 3), [7; 3]);
    assert_eq!(other.memory.bytes(200, 5), [7; 5]);
    // One that is too short stays, and the datagram is lost.
    other.qp.post_receive(2, &[sge(0, 47)]).unwrap();
    send(&one, other, 8, 8);
    assert_eq!(other.try_poll(), None);
    send(&one, other, 7, 9);
    assert_eq!(other.done(2).byte_len, 47);
    assert_eq!(other.memory.bytes(40, 7), [9; 7]);
    other.qp.post_receive(3, &[Sge { lkey: 12345, ..sge(0, 64) }]).unwrap();
    send(&one, other, 8, 8);
    let failed = other.poll();
    assert_eq!((failed.wr_id, failed.status), (3, Status::LocProtErr));
    assert_eq!(other.qp.state(), QpState::Err);
    send(&one, other, 8, 8);
    assert_eq!(other.try_poll(), None);
}

#[test]
fn what_waited_when_its_target_was_reset_is_lost_and_the_next_arrives() {
    let there = There::new();
    let (_node, one) = there.known_sender();
    for _ in 0..3 {
        there.post(0);
        send(&one, &there.other, 8, 1);
        set_state(&there.other.qp, QpState::Reset);
        bring_up(&there.other.qp, &attributes(0), QpState::Rts);
        there.post(1);
        send(&one, &there.other, 8, 2);
        there.took(1, 8, 2);
        assert_eq!(there.other.try_poll(), None);
        there.make_known(&one);
    }
}

#[test]
fn what_waits_comes_before_what_an_error_flushes() {
    let there = There::new();
    let (_node, one) = there.known_sender();
    (0..3).for_each(|n| there.post(n));
    send(&one, &there.other, 8, 1);
    set_state(&there.other.qp, QpState::Err);
    there.took(0, 8, 1);
    for n in 1..3 {
        let flushed = there.other.poll();
        assert_eq!((flushed.wr_id, flushed.status), (n, Status::WrFlushErr));
    }
    assert_eq!(there.other.try_poll(), None);
}

#[test]
fn who_sleeps_is_woken() {
    let mut channel = None;
    let there = There::with(64, |node| {
        let made = channel.insert(Channel::new(&node.device).unwrap());
        node.cq(256, Some(made), 1)
    });
    let channel = channel.unwrap();
    let (_node, one) = there.known_sender();
    for n in 0..4 {
        there.post(n);
        there.other.cq.arm(n % 2 == 1).unwrap();
        assert_eq!(there.other.try_poll(), None);
        let flags = if n % 2 == 1 { SendFlags::SOLICITED } else { SendFlags::NONE };
        let sges = [one.sge(0, 8)];
        one.qp.post_send(&Wr { flags, ..request(&there.other, &sges) }).unwrap();
        assert!(readable(channel.fd(), 0), "{n}");
        channel.next().unwrap();
        there.other.done(n);
    }
}

#[test]
fn receive_requests_are_taken_though_nobody_polls() {
    let there = There::with(4, |node| node.cq(256, None, 1));
    let (_node, one) = there.known_sender();
    let mut posted = 0;
    for n in 0..12 {
        while there.other.try_receive(posted, 2048 * (posted as usize % 16), 2048).is_ok() {
            posted += 1;
        }
        assert!(posted >= n, "{n}");
        send(&one, &there.other, 8, n as u8);
    }
    (0..12).for_each(|n| there.took(n, 8, n as u8));
}

#[test]
fn rings_go_to_other_senders_when_theirs_have_gone() {
    let there = There::new();
    for _ in 0..3 {
        let senders: Vec<_> = (0..8).map(|_| there.known_sender()).collect();
        // There is none for one more, whose datagrams arrive all the same.
        let (_node, one) = there.sender();
        for n in 0..8 {
            there.post(n);
            assert!(!there.waits(|| send(&one, &there.other, 8, n as u8)));
            there.took(n, 8, n as u8);
        }
        drop(senders);
    }
}

#[test]
fn what_waits_while_another_has_the_lock_comes_afterwards() {
    let there = There::new();
    let (_node, one) = there.known_sender();
    there.post(0);
    send(&one, &there.other, 8, 3);
    assert_eq!(there.view.lock(Object::Qp(0)), Ok(Locked::Clean));
    assert_eq!(there.other.try_poll().is_none(), have_rings());
    assert!(there.view.unlock(Object::Qp(0)));
    if have_rings() {
        there.took(0, 8, 3);
    }
}

#[test]
fn who_sleeps_is_woken_for_what_waited_while_another_had_the_lock() {
    let mut channel = None;
    let there = There::with(64, |node| {
        let made = channel.insert(Channel::new(&node.device).unwrap());
        node.cq(256, Some(made), 1)
    });
    let channel = channel.unwrap();
    let (_node, one) = there.known_sender();
    there.post(0);
    assert_eq!(there.waits(|| send(&one, &there.other, 8, 3)), have_rings());
    // Whoever has it brings nothing, and tells nobody that he has let it go.
    assert_eq!(there.view.lock(Object::Qp(0)), Ok(Locked::Clean));
    there.other.cq.arm(false).unwrap();
    assert_eq!(there.other.try_poll().is_none(), have_rings());
    assert!(there.view.unlock(Object::Qp(0)));
    if have_rings() {
        assert!(readable(channel.fd(), 60_000));
        channel.next().unwrap();
        there.took(0, 8, 3);
    }
}

#[test]
fn what_waits_when_a_peer_breaks_the_queue_pair_takes_no_request() {
    let there = There::new();
    let (_node, one) = there.known_sender();
    let (_other_node, breaks) = there.sender();
    let other = &there.other;
    for _ in 0..2 {
        other.qp.post_receive(1, &[Sge { lkey: 12345, ..other.sge(0, 2048) }]).unwrap();
        (2..4).for_each(|n| there.post(n));
        assert_eq!(there.waits(|| send(&one, other, 8, 1)), have_rings());
        // By the general way.
        send(&breaks, other, LONG, 2);
        let failed = other.poll();
        assert_eq!((failed.wr_id, failed.status), (1, Status::LocProtErr));
        for n in 2..4 {
            let flushed = other.poll();
            assert_eq!((flushed.wr_id, flushed.status), (n, Status::WrFlushErr));
        }
        send(&one, other, 8, 4);
        assert_eq!(other.try_poll(), None);
        set_state(&other.qp, QpState::Reset);
        bring_up(&other.qp, &attributes(0), QpState::Rts);
        // Nothing of before is there.
        there.make_known(&one);
        assert_eq!(other.try_poll(), None);
    }
}

#[test]
fn several_that_are_polled_together_are_as_if_each_were_by_itself() {
    let there = There::new();
    let (_node, one) = there.known_sender();
    let other = &there.other;
    let poll = |most| {
        let mut all = Vec::new();
        assert_eq!(other.cq.poll(most, &mut |completion| all.push(*completion)) as usize, all.len());
        all
    };
    let fills = |n: u64| other.memory.bytes(2048 * (n as usize % 16) + GRH, 8);
    // One of another key, and of other lengths, among them.
    (0..16).for_each(|n| there.post(n));
    let sges = [one.sge(0, 8)];
    let to = Datagram { qkey: 5, ..other.datagrams().unwrap() };
    let is_waiting = there.waits(|| {
        for n in 0..14 {
            let bytes = if n == 6 { 160 } else { 8 };
            send(&one, other, bytes, n);
            if n == 3 {
                one.qp.post_send(&Wr { datagram: Some(to), ..request(other, &sges) }).unwrap();
            }
        }
    });
    assert_eq!(is_waiting, have_rings());
    let some = poll(3);
    let all: Vec<_> = some.into_iter().chain(poll(64)).collect();
    assert_eq!(
        all.iter().map(|completion| completion.wr_id).collect::<Vec<_>>(),
        (0..14).collect::<Vec<_>>()
    );
    for (n, completion) in (0..14).zip(&all) {
        let bytes = if n == 6 { 160 } else { 8 };
        assert_eq!((completion.byte_len, completion.src_qp), (GRH as u32 + bytes, one.qp.qp_num()));
        assert_eq!(fills(n), [n as u8; 8]);
    }
    assert_eq!(poll(64), []);
    send(&one, other, 8, 14);
    send(&one, other, 8, 15);
    assert_eq!(poll(2).iter().map(|completion| completion.wr_id).collect::<Vec<_>>(), [14, 15]);
    // Requests of other memory, and a short one.
    let elsewhere = there._node.end(QpType::Ud);
    for n in 0..12 {
        match n {
            2 => other.qp.post_receive(n, &[elsewhere.sge(0, 64)]).unwrap(),
            4 => other.qp.post_receive(n, &[other.sge(0, 47)]).unwrap(),
            _ => there.post(n),
        }
    }
    let is_waiting = there.waits(|| (0..8).for_each(|n| send(&one, other, if n == 5 { 7 } else { 8 }, n)));
    assert_eq!(is_waiting, have_rings());
    let ids: Vec<_> = poll(64).iter().map(|completion| (completion.wr_id, completion.byte_len)).collect();
    assert_eq!(ids, [(0, 48), (1, 48), (2, 48), (3, 48), (4, 47), (5, 48), (6, 48)]);
    assert_eq!(elsewhere.memory.bytes(GRH, 8), [2; 8]);
    assert_eq!((fills(3), fills(5), fills(6)), (vec![3; 8], vec![6; 8], vec![7; 8]));
    assert_eq!(poll(64), []);
}
