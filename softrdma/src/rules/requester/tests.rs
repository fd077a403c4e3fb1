use super::super::request::Operands;
use super::*;

fn request(wr_id: u64, flags: SendFlags) -> Request {
    Request {
        wr_id,
        opcode: Opcode::Send,
        flags,
        sges: Vec::new(),
        inline: Vec::new(),
        operands: Operands::None,
        imm_or_key: 0,
        srq_num: 0,
        datagram: None,
    }
}

fn queue(qp_type: QpType, retry: Retry) -> SendQueue {
    let mut queue = SendQueue::new(9, qp_type, false);
    queue.set_state(QpState::Rts);
    queue.set_retry(retry);
    for wr_id in 0..3 {
        queue.push(request(wr_id, if wr_id == 0 { SendFlags::NONE } else { SendFlags::SIGNALED }));
    }
    queue
}

#[test]
// rule: wc-signaled
fn signalled_requests_complete_and_others_do_not() {
    let mut queue = queue(QpType::Rc, Retry::default());
    assert_eq!(queue.work(0), Work::Execute);
    assert_eq!(queue.outcome(Outcome::Done(4), 0), Some(Action::Complete(None)));
    let Some(Action::Complete(Some(completion))) = queue.outcome(Outcome::Done(4), 0) else { panic!() };
    assert_eq!((completion.wr_id, completion.byte_len, completion.qp_num), (1, 4, 9));
    assert_eq!(queue.len(), 1);
}

/// Drives a queue whose peer always answers the same; returns attempts, the end's time and status.
// rule: qp-send-error, wc-error-always, flush-order
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
            Some(Action::Later) => {}
            Some(Action::Fail(completion, state)) => {
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
        assert_eq!(queue.outcome(Outcome::ReceiverNotReady(1), round * 10_000), Some(Action::Later));
    }
}

#[test]
fn answers_that_alternate_before_their_time_use_up_no_retry() {
    let mut queue = queue(QpType::Rc, Retry { timeout: 1, retry_cnt: 7, rnr_retry: 2 });
    let (mut now, mut failed) = (0, None);
    for round in 0.. {
        let answer = if round % 2 == 0 { Outcome::ReceiverNotReady(1) } else { Outcome::NoAnswer };
        match queue.outcome(answer, now) {
            Some(Action::Later) => now += 100,
            other => {
                failed = other;
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
            Some(Action::Later) => now += HELD,
            other => {
                failed = other;
                break;
            }
        }
    }
    assert!(matches!(failed, Some(Action::Fail(Completion { status: Status::RetryExcErr, .. }, _))));
    assert!(now >= 3 * timeout && now < 3 * (timeout + 2 * HELD), "given up after {now} ns");

    let mut not_ready = queue(QpType::Rc, Retry { timeout: 14, retry_cnt: 0, rnr_retry: 1 });
    let wait = rnr_timer(0);
    assert_eq!(not_ready.outcome(Outcome::ReceiverNotReady(0), 0), Some(Action::Later));
    assert_eq!(not_ready.outcome(Outcome::Held, 1000), Some(Action::Later));
    assert!(HELD < wait);
    assert_eq!(not_ready.outcome(Outcome::ReceiverNotReady(0), HELD + 1000), Some(Action::Later));
    assert_eq!(not_ready.work(HELD + 1000), Work::Wait(Some(wait)));
    let failed = not_ready.outcome(Outcome::ReceiverNotReady(0), wait);
    assert!(matches!(failed, Some(Action::Fail(Completion { status: Status::RnrRetryExcErr, .. }, _))));
}

#[test]
// rule: ack-timeout
fn without_timeout_the_wait_has_no_end() {
    let mut queue = queue(QpType::Rc, Retry { timeout: 0, retry_cnt: 1, rnr_retry: 0 });
    assert_eq!(queue.outcome(Outcome::NoAnswer, 5), Some(Action::Later));
    assert_eq!(queue.work(u64::MAX), Work::Wait(None));
    queue.peer_changed();
    assert_eq!(queue.work(6), Work::Execute);
}

#[test]
// rule: qp-send-error, loss-unheard
fn unreliable_queues_do_not_notice_a_loss_and_stop_alone() {
    for qp_type in [QpType::Uc, QpType::Ud] {
        let mut queue = queue(qp_type, Retry::default());
        assert_eq!(queue.outcome(Outcome::NoAnswer, 0), Some(Action::Complete(None)));
        let failed = queue.outcome(Outcome::Local(Status::LocProtErr), 0);
        assert!(matches!(failed, Some(Action::Fail(_, QpState::Sqe))));
        assert_eq!(queue.flush().map(|flushed| flushed.wr_id), Some(2));
    }
}

#[test]
// rule: qp-drains
fn a_draining_queue_finishes_what_it_started() {
    let mut queue = queue(QpType::Rc, Retry { timeout: 1, retry_cnt: 7, rnr_retry: 7 });
    assert_eq!(queue.outcome(Outcome::ReceiverNotReady(1), 0), Some(Action::Later));
    queue.set_state(QpState::Sqd);
    assert!(!queue.is_drained());
    assert_eq!(queue.work(10_000), Work::Execute);
    assert_eq!(queue.outcome(Outcome::Done(0), 10_000), Some(Action::Complete(None)));
    assert!(queue.is_drained());
    assert_eq!(queue.work(10_000), Work::Nothing);
    queue.set_state(QpState::Rts);
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
        let Some(Action::Fail(completion, QpState::Err)) = queue.outcome(Outcome::Refused(syndrome), 0)
        else {
            panic!()
        };
        assert_eq!((completion.status, completion.vendor_err), (status, vendor));
    }
}
