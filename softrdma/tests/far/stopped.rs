//! Processes that are stopped while packets come.

use std::time::Duration;

use softrdma::device::Attributes;
use softrdma::rules::verbs::{QpState, QpType};
use softrdma_testing::child::begin;
use softrdma_testing::device::*;

use crate::hosts::*;
use crate::peer::{ACKNOWLEDGED, RawPeer};

/// Longer than the time-out of 67 ms after which an answer counts as missing, and no other try is made.
const LONG: Duration = Duration::from_millis(100);

#[test]
fn an_answer_that_came_in_time_counts() {
    with_hosts(|hosts| {
        let (peer, words) = (RawPeer::new(hosts, 1), Words::new());
        let child = begin(|| {
            let node = hosts[0].node();
            for _ in 0..3 {
                let end = node.end(QpType::Rc);
                let attributes = hosts[0].attributes(0x4001);
                bring_up(&end.qp, &Attributes { timeout: 14, retry_cnt: 0, ..attributes }, QpState::Rts);
                words.put(1, &[u64::from(end.qp.qp_num())]);
                end.send(1, 0, 8);
                end.done(1);
            }
            0
        });
        for _ in 0..3 {
            let [number] = words.get(0);
            peer.next();
            // SAFETY: plain system calls on an own child.
            unsafe {
                libc::kill(child, libc::SIGSTOP);
                libc::waitpid(child, std::ptr::null_mut(), libc::WUNTRACED);
            }
            peer.answer(number as u32, 1, ACKNOWLEDGED);
            std::thread::sleep(LONG);
            // SAFETY: as above.
            unsafe { libc::kill(child, libc::SIGCONT) };
        }
        let mut status = 0;
        // SAFETY: as above; `status` is writable.
        unsafe { libc::waitpid(child, &mut status, 0) };
        assert_eq!(status, 0);
    });
}
