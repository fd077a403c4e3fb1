//! What somebody sees who looks at a folder from outside: what is there, and nothing worse than nonsense where
//! a process writes nonsense.

use std::sync::atomic::Ordering;

use softrdma::inventory::{MOST, Process, processes, slot_of};
use softrdma::rules::verbs::{QpState, QpType};
use softrdma::shm::folder::{Config, Folder as Meeting};
use softrdma_testing::device::*;

fn config(folder: &Folder) -> Config {
    let group = std::env::var_os("IRONVERBS_SOFT_GROUP");
    Config::from_values(Some(folder.path().into()), group).unwrap()
}

fn meeting(folder: &Folder) -> Meeting {
    Meeting::find(&config(folder)).unwrap().unwrap()
}

/// Two devices, and a connection between them.
fn two() -> (Folder, [Node; 2], [End; 2]) {
    let folder = Folder::new();
    let nodes = [Node::new(&folder), Node::new(&folder)];
    let ends = [nodes[0].end(QpType::Rc), nodes[1].end(QpType::Rc)];
    connect_ends(&ends[0], &ends[1]);
    (folder, nodes, ends)
}

fn seen(folder: &Folder) -> Vec<Process> {
    processes(&meeting(folder)).unwrap().into_iter().map(|(_, process)| process.unwrap()).collect()
}

#[test]
fn a_folder_that_is_not_there_is_not_made() {
    let folder = Folder::new();
    assert!(Meeting::find(&config(&folder)).unwrap().is_none());
    assert!(!folder.path().exists());
}

#[test]
fn objects_are_seen_as_they_are() {
    let (folder, [node, other_node], [one, other]) = two();
    let srq = node.shared_queue(8);
    post_shared(&srq, 1, &one, 0, 64);
    for n in 0..4 {
        other.receive(n, 0, 64);
    }
    // By the queue's lock, and by the ring.
    for n in 0..3 {
        one.send(n, 0, 8);
        one.done(n);
        if n < 2 {
            other.done(n);
        }
    }
    let all = seen(&folder);
    assert_eq!(all.len(), 2);
    let (mine, theirs) = (&all[0], &all[1]);
    assert_eq!((mine.slot, theirs.slot, mine.is_cut), (0, 1, false));
    assert_eq!(mine.pid, Some(std::process::id() as i32));
    assert_eq!((mine.addresses.clone(), theirs.addresses.clone()), (vec![node.gid], vec![other_node.gid]));
    let qp = |process: &Process, number: u32| {
        process.queue_pairs.iter().find(|qp| qp.number == number).unwrap().clone()
    };
    let (sender, receiver) = (qp(mine, one.qp.qp_num()), qp(theirs, other.qp.qp_num()));
    assert_eq!((sender.kind, sender.state), (Some(QpType::Rc), Some(QpState::Rts)));
    assert_eq!((sender.peer, sender.is_far), (Some(receiver.number), false));
    assert_eq!(sender.peer_address, Some(other_node.gid));
    assert_eq!(slot_of(receiver.number), Some(1));
    assert_eq!((sender.received, receiver.received), (0, 3));
    assert_eq!(receiver.receives.unwrap().0, 1);
    assert!(receiver.send_cq.is_some() && receiver.receive_cq.is_some());
    let shared = &mine.shared_receive_queues[0];
    assert_eq!(
        (shared.number, shared.waiting, shared.taken, shared.is_xrc),
        (srq.number(), Some(1), 0, false)
    );
    for process in [mine, theirs] {
        assert!(process.completion_queues.iter().all(|cq| cq.capacity > 0 && !cq.has_overrun));
        assert_eq!(process.keys.len(), 1);
    }
    let (key, entry) = mine.keys[0];
    assert_eq!((key, entry.key.start), (one.region.lkey, one.memory.addr(0)));
    set_state(&one.qp, QpState::Err);
    assert_eq!(qp(&seen(&folder)[0], one.qp.qp_num()).state, Some(QpState::Err));
    one.qp.destroy().unwrap();
    assert!(seen(&folder)[0].queue_pairs.iter().all(|qp| qp.number != one.qp.qp_num()));
}

#[test]
fn whatever_a_process_writes_is_read_to_an_end() {
    let (folder, _nodes, [one, other]) = two();
    other.receive(0, 0, 64);
    one.send(0, 0, 8);
    other.done(0);
    let (stranger, peer) = folder.stranger();
    let memory = peer.memory();
    let words = memory.len() / 8;
    let mut state = 1u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    // The header tells who it is: without it nobody looks further.
    for round in 0..200 {
        for _ in 0..64 {
            let at = 128 / 8 + random() as usize % (words - 128 / 8);
            let value = match random() % 4 {
                0 => random(),
                1 => u64::MAX,
                // An offset of the segment.
                2 => (random() % memory.len() as u64) & !7,
                _ => memory.u64((random() % memory.len() as u64) & !7).unwrap().load(Ordering::Relaxed),
            };
            memory.u64(8 * at as u64).unwrap().store(value, Ordering::Relaxed);
        }
        if round % 10 == 0 {
            for (_, process) in processes(&meeting(&folder)).unwrap() {
                let Ok(process) = process else { continue };
                assert!(process.queue_pairs.len() <= MOST && process.keys.len() <= MOST);
            }
        }
    }
    drop(stranger);
}
