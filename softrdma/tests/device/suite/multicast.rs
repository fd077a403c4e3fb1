//! Datagrams to groups.

use softrdma::device::{Datagram, QpInit, QueuePair, Wr};
use softrdma::rules::verbs::{Event, Opcode, QpState, QpType, Status};
use softrdma_testing::device::*;
use softrdma_testing::fabric::{Carrier, between, pair, pattern};

super::suite! {
    multicast:
    groups_reach_their_members,
    who_sends_to_his_own_group_is_a_member_as_any,
    datagrams_and_groups_between_processes,
}

/// The address of the group.
const GROUP: [u8; 16] = [0xff, 0x0e, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0xff, 0xfe, 0, 0, 1];
/// What makes a request a datagram to the group.
const TO_GROUP: Option<Datagram<'static>> =
    Some(Datagram { qp_num: 0xff_ffff, qkey: QKEY, grh: &[1; 40], dgid: GROUP, route: None });

pub fn groups_reach_their_members(carrier: Carrier) {
    let (fabric, [here, there], one, other) = pair(carrier, QpType::Ud);
    let third = there.end(QpType::Ud);
    bring_up(&third.qp, &attributes(0), QpState::Rts);
    assert!(here.device.attach_multicast(&one.qp, &here.gid).is_err());
    for (node, end) in [(&here, &one), (&there, &other), (&there, &third)] {
        assert_eq!(node.device.attach_multicast(&end.qp, &GROUP), Ok(()));
        assert_eq!(node.device.attach_multicast(&end.qp, &GROUP), Ok(()));
        end.receive(1, 0, 100);
    }
    let send = || {
        one.memory.fill(200, &pattern(20));
        let sges = [one.sge(200, 20)];
        one.qp.post_send(&Wr { datagram: TO_GROUP, ..wr(2, Opcode::Send, &sges) }).unwrap();
    };
    send();
    let mut done = [one.poll(), one.poll()].map(|completion| (completion.wr_id, completion.status));
    done.sort_by_key(|completion| completion.0);
    assert_eq!(done, [1, 2].map(|wr_id| (wr_id, Status::Success)));
    for end in [&other, &third] {
        assert_eq!(end.done(1).byte_len, 60);
        assert_eq!(end.memory.bytes(40, 20), pattern(20));
        end.receive(1, 0, 100);
    }
    assert_eq!(one.try_poll(), None);
    assert!(other.qp.destroy().is_err());
    assert_eq!(there.device.detach_multicast(&other.qp, &GROUP), Ok(()));
    assert!(there.device.detach_multicast(&other.qp, &GROUP).is_err());
    send();
    one.done(2);
    third.done(1);
    fabric.settle();
    assert_eq!(other.try_poll(), None);
    assert_eq!(other.qp.destroy(), Ok(()));
}

/// A sender that is in the group gets what it would get of a datagram to its own number, whatever its queues
/// are like.
pub fn who_sends_to_his_own_group_is_a_member_as_any(carrier: Carrier) {
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Queues {
        Own,
        Empty,
        Shared,
        Full,
        Blocked,
    }
    let run = |queues: Queues, to_group: bool| {
        let fabric = carrier();
        let node = fabric.open(0);
        let (sends, receives) = (node.cq(8, None, 1), node.cq(1, None, 2));
        let srq = node.shared_queue(4);
        let init = QpInit {
            recv_cq: Some(receives.clone()),
            srq: (queues == Queues::Shared).then(|| srq.clone()),
            blocks_own_multicast: queues == Queues::Blocked,
            ..node.init(QpType::Ud, &sends)
        };
        let end = node.end_of(QueuePair::new(&node.device, &init).unwrap(), receives);
        bring_up(&end.qp, &attributes(0), QpState::Rts);
        node.device.attach_multicast(&end.qp, &GROUP).unwrap();
        match queues {
            Queues::Empty => {}
            Queues::Shared => (0..3).for_each(|n| post_shared(&srq, n, &end, 512 * n as usize, 512)),
            _ => (0..8).for_each(|n| end.receive(n, 512 * n as usize, 512)),
        }
        end.memory.fill(8192, &pattern(300));
        let datagram = if to_group { TO_GROUP } else { end.datagrams() };
        // Small ones are copied before the target is held, others behind its lock.
        let mut seen = Vec::new();
        let lengths =
            if queues == Queues::Full { vec![20; 1 + end.cq.cqe() as usize] } else { vec![20, 300] };
        for (n, length) in lengths.into_iter().enumerate() {
            let sges = [end.sge(8192, length)];
            end.qp.post_send(&Wr { datagram, ..wr(9, Opcode::Send, &sges) }).unwrap();
            assert_eq!(poll_soon(&sends).wr_id, 9);
            if queues == Queues::Full {
                continue;
            }
            // What comes back has done so before the request completes, if it is not under way still.
            fabric.settle();
            let received = end.try_poll();
            if let Some(completion) = &received {
                assert_eq!((completion.status, completion.src_qp), (Status::Success, end.qp.qp_num()));
                assert_eq!(end.memory.bytes(512 * n + 40, length), pattern(length));
            }
            seen.push(received.map(|completion| (completion.wr_id, completion.byte_len)));
        }
        let event = (queues == Queues::Full).then(|| node.event());
        (seen, end.qp.state(), event)
    };
    for queues in [Queues::Own, Queues::Empty, Queues::Shared, Queues::Full] {
        let (by_group, by_number) = (run(queues, true), run(queues, false));
        assert_eq!(by_group, by_number, "{queues:?}");
        let expected = match queues {
            Queues::Own | Queues::Shared => vec![Some((0, 60)), Some((1, 340))],
            Queues::Empty => vec![None, None],
            _ => vec![],
        };
        assert_eq!(by_group.2, (queues == Queues::Full).then_some(Event::CqErr), "{queues:?}");
        assert_eq!(by_group.0, expected, "{queues:?}");
    }
    assert_eq!(run(Queues::Blocked, true), (vec![None, None], QpState::Rts, None));
    assert_eq!(run(Queues::Blocked, false).0, [Some((0, 60)), Some((1, 340))]);
}

pub fn datagrams_and_groups_between_processes(carrier: Carrier) {
    between(
        carrier,
        QpType::Ud,
        |node, end, words| {
            node.device.attach_multicast(&end.qp, &GROUP).unwrap();
            end.receive(1, 0, 100);
            end.receive(2, 0, 100);
            words.exchange(1, end);
            assert_eq!(end.done(1).byte_len, 48);
            end.done(2);
            words.put(1, &[1]);
            words.get::<1>(1);
        },
        |_, end, words, _| {
            let to = words.exchange(0, end);
            let to = Datagram {
                qp_num: to.dest_qp_num,
                qkey: QKEY,
                grh: &[0; 40],
                dgid: to.path.dgid,
                route: None,
            };
            for (wr_id, datagram) in [(1, Some(to)), (2, TO_GROUP)] {
                end.qp.post_send(&Wr { datagram, ..wr(wr_id, Opcode::Send, &[end.sge(0, 8)]) }).unwrap();
                end.done(wr_id);
            }
            assert_eq!(words.get(0), [1]);
        },
    );
}
