use std::collections::VecDeque;

use super::*;

/// A send queue: requests, oldest first, and what is said of them.
struct Queue {
    requester: Requester,
    requests: VecDeque<Posted>,
}

impl Queue {
    fn work(&self, now: u64) -> Work {
        self.requester.work(self.requests.is_empty(), now)
    }

    /// What follows from an attempt of the oldest request.
    fn outcome(&mut self, outcome: Outcome, now: u64) -> Action {
        let request = self.requests.front().expect("a request");
        let action = self.requester.outcome(request, outcome, now);
        if action != Action::Later {
            self.requests.pop_front();
        }
        action
    }

    /// The completion of the oldest request, where it is to be flushed.
    fn flush(&mut self) -> Option<Completion> {
        assert!(self.requester.flushes());
        self.requests.pop_front().map(|request| self.requester.flushed(&request))
    }
}

/// Three requests, of which the first asks for no completion.
fn queue(qp_type: QpType, retry: Retry) -> Queue {
    let mut requester = Requester::new(9, qp_type, false);
    requester.set_state(QpState::Rts);
    requester.set_retry(retry);
    let request = |wr_id| Posted { wr_id, opcode: Opcode::Send, signaled: wr_id > 0, length: 0 };
    Queue { requester, requests: (0..3).map(request).collect() }
}

#[test]
// rule: wc-signaled
fn signalled_requests_complete_and_others_do_not() {
    let mut queue = queue(QpType::Rc, Retry::default());
    assert_eq!(queue.work(0), Work::Execute);
    assert_eq!(queue.outcome(Outcome::Done(4), 0), Action::Complete(None));
    let Action::Complete(Some(completion)) = queue.outcome(Outcome::Done(4), 0) else { panic!() };
    assert_eq!((completion.wr_id, completion.byte_len, completion.qp_num), (1, 4, 9));
    assert_eq!(queue.requests.len(), 1);
}

/// Drives a queue whose peer always answers the same; returns attempts, the end's time and status.
// rule: qp-send-error, wc-error-always
fn until_failure(qp_type: QpType, retry: Retry, outcome: Outcome) -> (u32, u64, Status) {
    let mut queue = queue(qp_type, retry);
    let (mut now, mut attempts) = (0, 0);
    loop {
        match queue.work(now) {
            Work::Execute => attempts += 1,
            Work::Wait(Some(until)) => {
                now = until;
                continue;
            }
            other => panic!("{other:?}"),
        }
        match queue.outcome(outcome, now) {
            Action::Later => {}
            Action::Fail(completion, state) => {
                assert_eq!(state, QpState::Err);
                assert_eq!(queue.flush().map(|flushed| flushed.wr_id), Some(1));
                assert_eq!(queue.flush().map(|flushed| flushed.status), Some(Status::WrFlushErr));
                assert_eq!(queue.flush(), None);
                return (attempts, now, completion.status);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
// rule: ack-retries
fn missing_answers_are_tried_again_for_as_long_as_the_attributes_say() {
    let timeout = ack_timeout(10).unwrap();
    for retry_cnt in 0..=7 {
        let retry = Retry { timeout: 10, retry_cnt, rnr_retry: 0 };
        let (_, end, status) = until_failure(QpType::Rc, retry, Outcome::NoAnswer);
        assert_eq!(status, Status::RetryExcErr);
        assert_eq!(end, timeout * (u64::from(retry_cnt) + 1));
    }
}

#[test]
// rule: rnr-retries, rnr-for-ever, rnr-wait
fn receivers_that_are_not_ready_are_tried_again_as_often_as_the_attributes_say() {
    for rnr_retry in 0..7 {
        let retry = Retry { timeout: 10, retry_cnt: 3, rnr_retry };
        let (attempts, end, status) = until_failure(QpType::Rc, retry, Outcome::ReceiverNotReady(1));
        assert_eq!(status, Status::RnrRetryExcErr);
        assert_eq!(attempts, u32::from(rnr_retry) + 1);
        assert_eq!(end, u64::from(rnr_retry) * rnr_timer(1));
    }
    let mut queue = queue(QpType::Rc, Retry { timeout: 0, retry_cnt: 0, rnr_retry: RNR_FOR_EVER });
    for round in 0..1000 {
        assert_eq!(queue.outcome(Outcome::ReceiverNotReady(1), round * 10_000), Action::Later);
    }
}

#[test]
fn answers_that_alternate_before_their_time_use_up_no_retry() {
    let mut queue = queue(QpType::Rc, Retry { timeout: 1, retry_cnt: 7, rnr_retry: 2 });
    let (mut now, mut failed) = (0, None);
    for round in 0.. {
        let answer = if round % 2 == 0 { Outcome::ReceiverNotReady(1) } else { Outcome::NoAnswer };
        match queue.outcome(answer, now) {
            Action::Later => now += 100,
            other => {
                failed = Some(other);
                break;
            }
        }
    }
    assert!(matches!(failed, Some(Action::Fail(Completion { status: Status::RnrRetryExcErr, .. }, _))));
    assert!(now >= 2 * rnr_timer(1), "given up after {now} ns");
}

#[test]
fn who_is_in_the_way_neither_prolongs_a_wait_nor_uses_up_its_retries() {
    let timeout = ack_timeout(14).unwrap();
    let mut lost = queue(QpType::Rc, Retry { timeout: 14, retry_cnt: 2, rnr_retry: 0 });
    // Tried early again and again, as by a program that polls, with somebody in the way each other time.
    let (mut now, mut failed) = (0, None);
    for round in 0..10_000 {
        let outcome = if round % 2 == 0 { Outcome::NoAnswer } else { Outcome::Held };
        match lost.outcome(outcome, now) {
            Action::Later => now += HELD,
            other => {
                failed = Some(other);
                break;
            }
        }
    }
    assert!(matches!(failed, Some(Action::Fail(Completion { status: Status::RetryExcErr, .. }, _))));
    assert!(now >= 3 * timeout && now < 3 * (timeout + 2 * HELD), "given up after {now} ns");

    let mut not_ready = queue(QpType::Rc, Retry { timeout: 14, retry_cnt: 0, rnr_retry: 1 });
    let wait = rnr_timer(0);
    assert_eq!(not_ready.outcome(Outcome::ReceiverNotReady(0), 0), Action::Later);
    assert_eq!(not_ready.outcome(Outcome::Held, 1000), Action::Later);
    assert!(HELD < wait);
    assert_eq!(not_ready.outcome(Outcome::ReceiverNotReady(0), HELD + 1000), Action::Later);
    assert_eq!(not_ready.work(HELD + 1000), Work::Wait(Some(wait)));
    let failed = not_ready.outcome(Outcome::ReceiverNotReady(0), wait);
    assert!(matches!(failed, Action::Fail(Completion { status: Status::RnrRetryExcErr, .. }, _)));
}

#[test]
// rule: ack-timeout
fn without_timeout_the_wait_has_no_end() {
    let mut queue = queue(QpType::Rc, Retry { timeout: 0, retry_cnt: 1, rnr_retry: 0 });
    assert_eq!(queue.outcome(Outcome::NoAnswer, 5), Action::Later);
    assert_eq!(queue.work(u64::MAX), Work::Wait(None));
    // Tried before: as often as the caller has the occasion.
    for now in 6..100 {
        assert_eq!(queue.outcome(Outcome::NoAnswer, now), Action::Later);
    }
    assert_eq!(queue.work(u64::MAX), Work::Wait(None));
    assert_eq!(queue.outcome(Outcome::Done(0), 100), Action::Complete(None));
    assert_eq!(queue.work(100), Work::Execute);
}

#[test]
// rule: qp-send-error, loss-unheard
fn unreliable_queues_do_not_notice_a_loss_and_stop_alone() {
    for qp_type in [QpType::Uc, QpType::Ud] {
        let mut queue = queue(qp_type, Retry::default());
        assert_eq!(queue.outcome(Outcome::NoAnswer, 0), Action::Complete(None));
        let failed = queue.outcome(Outcome::Local(Status::LocProtErr), 0);
        assert!(matches!(failed, Action::Fail(_, QpState::Sqe)));
        assert_eq!(queue.flush().map(|flushed| flushed.wr_id), Some(2));
    }
}

#[test]
// rule: qp-drains
fn a_draining_queue_finishes_what_it_started() {
    let mut queue = queue(QpType::Rc, Retry { timeout: 1, retry_cnt: 7, rnr_retry: 7 });
    assert_eq!(queue.outcome(Outcome::ReceiverNotReady(1), 0), Action::Later);
    queue.requester.set_state(QpState::Sqd);
    assert!(!queue.requester.is_drained());
    assert_eq!(queue.work(10_000), Work::Execute);
    assert_eq!(queue.outcome(Outcome::Done(0), 10_000), Action::Complete(None));
    assert!(queue.requester.is_drained());
    assert_eq!(queue.work(10_000), Work::Nothing);
    queue.requester.set_state(QpState::Rts);
    assert_eq!(queue.work(10_000), Work::Execute);
}

#[test]
// rule: status-of-nak, nak-codes
fn refusals_have_their_status() {
    for (syndrome, status, vendor) in [
        (Syndrome::InvalidRequest, Status::RemInvReqErr, 0x61),
        (Syndrome::Access, Status::RemAccessErr, 0x62),
        (Syndrome::Operational, Status::RemOpErr, 0x63),
    ] {
        let mut queue = queue(QpType::Rc, Retry::default());
        let Action::Fail(completion, QpState::Err) = queue.outcome(Outcome::Refused(syndrome), 0) else {
            panic!()
        };
        assert_eq!((completion.status, completion.vendor_err), (status, vendor));
    }
}
