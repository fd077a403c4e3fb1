//! What does not go straight through in a burst: it changes nothing, and goes the other way as if there had
//! been none.

use softrdma::queues::burst::{Burst, MAX_BURST};
use softrdma::queues::completion::wants;
use softrdma::queues::deliver::Deliver;
use softrdma::queues::respond::Queues;
use softrdma::queues::shared::{ATTRIBUTES, CqWord, Events, Memory, Object, QpWord, Word};
use softrdma::rules::completion::Completion;
use softrdma::rules::receive::{ReceiveRequest, Sge};
use softrdma::rules::requester::Outcome;
use softrdma::rules::responder::{GRH_BYTES, Incoming, TargetQp};
use softrdma::rules::verbs::{Event, Opcode, QpState, QpType, WcOpcode};
use softrdma_testing::post::post;
use softrdma_testing::segment::{ENTRY_WORDS, RECEIVE};

use crate::burst::{QUEUES, SEND, Sender, TARGET, key, payload, post_long, quiet};
use crate::place::{CQ, Place, QP};

/// Every word of the queue pair and its completion queue, but for what was last seen of the owner's counts.
fn words(place: &Place) -> Vec<(Word, u64)> {
    let (qp, cq) = (Object::Qp(QP), Object::Cq(CQ));
    let own = [QpWord::State, QpWord::Journal, QpWord::Head, QpWord::Claim, QpWord::Events, QpWord::Tail]
        .map(|word| Word::Qp(QP, word));
    let its = [CqWord::Journal, CqWord::Tail, CqWord::Armed, CqWord::Events, CqWord::Head]
        .map(|word| Word::Cq(CQ, word));
    let slots = |object, words| {
        (0..place.segment.capacity(object)).flat_map(move |slot| (0..words).map(move |word| (slot, word)))
    };
    let requests = slots(qp, RECEIVE).map(|(slot, word)| Word::Receive { queue: qp, slot, word });
    let entries = slots(cq, ENTRY_WORDS).map(|(slot, word)| Word::Entry { cq: CQ, slot, word });
    let attributes = [qp, cq]
        .into_iter()
        .flat_map(|object| (0..ATTRIBUTES).map(move |word| Word::Attribute { object, word }));
    let all = own.into_iter().chain(its).chain(requests).chain(entries).chain(attributes);
    all.map(|word| (word, place.load(word))).collect()
}

/// A message that does not go straight through.
struct Refusal<'a> {
    what: &'static str,
    /// The requests posted after those for the messages before.
    posts: Vec<ReceiveRequest>,
    prepare: Box<dyn Fn(&Place) + 'a>,
    target: TargetQp,
    request: Incoming,
}

fn numbered(sges: impl IntoIterator<Item = Sge>) -> ReceiveRequest {
    ReceiveRequest { wr_id: 99, sges: sges.into_iter().collect() }
}

fn piece(length: u32, lkey: u32) -> Sge {
    Sge { addr: 0x1000, length, lkey }
}

impl<'a> Refusal<'a> {
    fn of(what: &'static str, posts: &[ReceiveRequest]) -> Self {
        let posts = posts.to_vec();
        Self { what, posts, prepare: Box::new(|_| {}), target: TARGET, request: SEND }
    }

    fn on(self, prepare: impl Fn(&Place) + 'a) -> Self {
        Self { prepare: Box::new(prepare), ..self }
    }

    /// A place where so many messages come before it.
    fn place(&self, before: u64) -> Place {
        let place = quiet(4, 4);
        place.next_process(u32::MAX);
        (0..before).for_each(|number| post_long(&place, 10 + number));
        for request in &self.posts {
            post(&place.segment, Object::Qp(QP), request).expect("there is room");
        }
        (self.prepare)(&place);
        place
    }

    fn bytes(&self) -> Vec<u8> {
        vec![7; self.request.length.min(200) as usize]
    }

    /// Offered after so many messages of a burst: the queues are as these leave them when each goes by itself.
    fn after(&self, before: u64) {
        let what = self.what;
        let (alone, burst) = (self.place(before), self.place(before));
        let untouched = words(&alone);
        let mut sender = Sender::open(&burst).expect("nobody dies");
        for number in 10..10 + before {
            let request = Incoming { imm_or_key: 1, ..SEND };
            let outcome = alone.single(&TARGET, &request, &payload(number));
            assert_eq!(outcome, Some(Outcome::Done(96)), "{what}");
            sender.send(number, 1).expect("nobody dies");
        }
        assert_eq!(sender.offer(&self.target, &self.request, &self.bytes()), Some(false), "{what} goes");
        assert_eq!(words(&burst), words(&alone), "{what} after {before}");
        assert!(before > 0 || words(&burst) == untouched, "{what}");
        let then = [&alone, &burst].map(|place| {
            assert!(place.locks.borrow().is_empty());
            let outcome = place.single(&self.target, &self.request, &self.bytes()).expect("nobody dies");
            (outcome, words(place), place.bells.get())
        });
        assert_eq!(then[0], then[1], "{what} after {before}");
    }
}

fn appended(count: u64) -> impl Fn(&Place) {
    move |place| {
        for _ in 0..count {
            let own = Completion::flushed(1, WcOpcode::Send, 3);
            place.carry(Deliver::append(CQ, &own)).expect("nobody dies");
        }
    }
}

#[test]
fn what_does_not_fit_its_request_leaves_a_burst_as_it_was() {
    let long = [numbered([piece(96, 1)])];
    for before in 0..4 {
        Refusal::of("a message without a request", &[]).after(before);
        for sges in [
            &[piece(95, 1)][..],
            &[piece(0, 1)],
            &[],
            // The second would take it, or both.
            &[piece(95, 1), piece(96, 1)],
            &[piece(0, 1), piece(96, 1)],
        ] {
            Refusal::of("a short first piece", &[numbered(sges.iter().copied())]).after(before);
        }
        // No key, another domain, no right to write, a window, not valid, too little memory.
        for lkey in [0, 2, 3, 4, 5, 6] {
            Refusal::of("a wrong key", &[numbered([piece(96, lkey)])]).after(before);
        }
        let wide = [numbered([piece(u32::MAX, 1)])];
        for length in [97, 200, 201, 1 << 31, 1 << 32, u64::MAX] {
            let request = Incoming { length, ..SEND };
            Refusal { request, ..Refusal::of("a long message", &wide) }.after(before);
        }
        let other = TargetQp { receive_pd: 2, ..TARGET };
        Refusal { target: other, ..Refusal::of("a request of another domain", &long) }.after(before);
        // The number of its pieces cannot be true.
        let damage = |place: &Place| {
            let slot = before as u32;
            place.segment.store(Word::Receive { queue: Object::Qp(QP), slot, word: 1 }, 99);
        };
        Refusal::of("a damaged request", &long).on(damage).after(before);
    }
    let damage = |place: &Place| place.segment.store(Word::Qp(QP, QpWord::Tail), 5);
    Refusal::of("a damaged ring", &long).on(damage).after(0);
}

#[test]
fn what_its_completion_queue_does_not_take_silently_leaves_a_burst_as_it_was() {
    let long = [numbered([piece(96, 1)])];
    let of = |what| Refusal::of(what, &long);
    let arm = |armed: u64| move |place: &Place| place.segment.store(Word::Cq(CQ, CqWord::Armed), armed);
    let solicited = Incoming { solicited: true, ..SEND };
    for before in 0..4 {
        of("a message for a full queue").on(appended(4 - before)).after(before);
        Refusal { request: solicited, ..of("a message that is waited for") }.on(arm(1)).after(before);
    }
    of("an armed queue").on(arm(2)).after(0);
    of("a queue armed by a liar").on(arm(3)).after(0);
    // Also once there is room again.
    let overrun = |place: &Place| {
        appended(5)(place);
        place.completions();
    };
    of("a queue that overran").on(overrun).after(0);
    for flag in [wants::TIMESTAMPS, wants::IGNORE_OVERRUN] {
        let want =
            |place: &Place| place.segment.store(Word::Attribute { object: Object::Cq(CQ), word: 0 }, flag);
        of("a queue with wishes").on(want).after(0);
    }
}

#[test]
fn what_the_responder_does_not_accept_leaves_a_burst_as_it_was() {
    let long = [numbered([piece(96, 1)])];
    let of = |what, target, request| Refusal { target, request, ..Refusal::of(what, &long) };
    for before in 0..4 {
        for state in [QpState::Reset, QpState::Init, QpState::Err] {
            let target = TargetQp { state, ..TARGET };
            of("a message to a queue pair in another state", target, SEND).after(before);
        }
        for request in [
            Incoming { src_qp: 3, ..SEND },
            Incoming { path_matches: false, ..SEND },
            Incoming { qp_type: QpType::Uc, ..SEND },
        ] {
            of("a stranger's message", TARGET, request).after(before);
        }
        for opcode in Opcode::ALL.iter().filter(|op| !matches!(op, Opcode::Send | Opcode::SendWithImm)) {
            of("another operation", TARGET, Incoming { opcode: *opcode, length: 8, ..SEND }).after(before);
        }
    }
}

#[test]
fn the_first_message_in_rtr_goes_the_other_way_and_the_second_in_a_burst() {
    let target = TargetQp { state: QpState::Rtr, ..TARGET };
    let long = [numbered([piece(96, 1)]), numbered([piece(96, 1)])];
    let first = Refusal { target, ..Refusal::of("the first message", &long) };
    first.after(0);
    let place = first.place(0);
    assert_eq!(place.single(&target, &SEND, &payload(1)), Some(Outcome::Done(96)));
    assert!(Events(place.load(Word::Qp(QP, QpWord::Events))).was_raised(Event::CommEst));
    let mut sender = Sender::open(&place).expect("nobody dies");
    assert_eq!(sender.offer(&target, &SEND, &payload(2)), Some(true));
    sender.close().expect("nobody dies");
    assert_eq!(place.load(Word::Qp(QP, QpWord::Head)), 2);
}

#[test]
fn nothing_goes_straight_through_a_shared_receive_queue() {
    let place = quiet(4, 4);
    post_long(&place, 10);
    let before = words(&place);
    let mut burst = Burst::default();
    burst.open(&place.segment, &Queues { srq: Some(0), ..QUEUES });
    assert!(!burst.is_open());
    assert!(!burst.offer(&place.segment, &TARGET, &SEND, key));
    burst.close();
    assert_eq!(place.carry(burst), Some(false));
    assert_eq!(words(&place), before);
}

#[test]
fn a_burst_without_messages_changes_nothing() {
    let place = quiet(4, 4);
    post_long(&place, 10);
    let before = words(&place);
    Sender::open(&place).and_then(|mut sender| sender.close()).expect("nobody dies");
    assert_eq!(words(&place), before);
}

#[test]
fn a_burst_ends_when_others_have_waited_for_long() {
    let place = quiet(128, 128);
    place.next_process(u32::MAX);
    (0..100).for_each(|number| post_long(&place, 10 + number));
    let mut sender = Sender::open(&place).expect("nobody dies");
    for number in 0..u64::from(MAX_BURST) {
        assert!(!sender.is_full());
        sender.send(10 + number, 1).expect("nobody dies");
    }
    assert!(sender.is_full());
    assert_eq!(sender.offer(&TARGET, &SEND, &payload(0)), Some(false));
    let [head, tail] = [Word::Qp(QP, QpWord::Head), Word::Cq(CQ, CqWord::Tail)].map(|word| place.load(word));
    assert_eq!((head, tail), (u64::from(MAX_BURST), u64::from(MAX_BURST)));
    assert!(place.locks.borrow().is_empty());
    // And the next goes on.
    place.burst(100 - u64::from(MAX_BURST), 2).expect("nobody dies");
    assert_eq!(place.completions().len(), 100);
}

#[test]
fn a_burst_leaves_what_single_messages_leave() {
    for qp_type in [QpType::Rc, QpType::Uc, QpType::Ud] {
        let header = if qp_type == QpType::Ud { GRH_BYTES as usize } else { 0 };
        for lengths in [[0, 1, 7, 8], [9, 55, 56, 0], [96 - header, 95 - header, 1, 96 - header]] {
            let [alone, burst] = [(); 2].map(|()| quiet(4, 4));
            let target = TargetQp { qp_type, ..TARGET };
            let mut sender = Sender::open(&burst).expect("nobody dies");
            for (number, length) in (10..).zip(lengths) {
                post_long(&alone, number);
                post_long(&burst, number);
                let bytes = &payload(number)[..header + length];
                let opcode = if number % 2 == 0 { Opcode::Send } else { Opcode::SendWithImm };
                let length = length as u64;
                let request = Incoming { qp_type, opcode, length, imm_or_key: 5, ipv4: length == 1, ..SEND };
                assert_eq!(alone.single(&target, &request, bytes), Some(Outcome::Done(length as u32)));
                assert_eq!(sender.offer(&target, &request, bytes), Some(true));
            }
            sender.close().expect("nobody dies");
            assert_eq!(words(&burst), words(&alone), "{qp_type:?} {lengths:?}");
        }
    }
}
