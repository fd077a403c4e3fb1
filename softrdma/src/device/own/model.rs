//! A thread sends, a peer answers, and another thread polls or sleeps. Every interleaving, on the shipped ring,
//! counts and bells: an answer that is polled first fails, and a wake-up that is lost ends the model as a
//! deadlock.

use loom::sync::Arc;
use loom::sync::atomic::AtomicU64;
use loom::thread;

use super::ring::{Writer, ring};
use super::sends::Frontier;
use super::*;
use crate::device::channel::State;
use crate::device::channel::model::{Process, Shared, consumer, settled, sleep};
use crate::protocol::verbs::WcOpcode;

const SENDER: u16 = 1;
const PEER: u16 = 2;
/// The request whose message is answered.
const SENT: u64 = 50;
const ANSWER: u64 = 7;

/// The side of who polls.
struct Poller {
    me: Process,
    state: State,
    own: Taker,
    frontier: Frontier,
    sends: Arc<Sends>,
}

impl Poller {
    /// As [`CompletionQueue::poll`] does.
    fn poll(&mut self) -> Option<u64> {
        let head = self.me.load(Word::Cq(0, CqWord::Head)) as u32;
        let published = |count: u32| {
            let slot = crate::protocol::shared::slot(count, self.me.capacity(Object::Cq(0)));
            self.me.load(Word::Entry { cq: 0, slot, word: 0 }) as u32 == count.wrapping_add(1)
        };
        match next(published(head), head, (&mut self.frontier, &self.sends, &self.own), published) {
            Next::Nothing => None,
            Next::Own => self.own.pop().map(|own| own.completion.wr_id),
            Next::Shared => self.me.poll(),
        }
    }
}

/// The side of who sends.
struct Sender {
    me: Process,
    own: Writer,
    sends: Arc<Sends>,
}

impl Sender {
    fn complete(&mut self, after: u32) {
        let completion =
            Completion { status: Status::Success, ..Completion::flushed(SENT, WcOpcode::Send, 5) };
        assert!(self.own.push(&Own { completion, after }));
    }

    fn tell(&self, untold: Option<bool>) {
        assert_eq!(rouse(&self.me, &self.sends, 0, untold), Ok(()));
    }
}

fn queue() -> (Arc<Shared>, Poller, Sender) {
    let shared = Shared::new();
    let (me, state) = consumer(&shared);
    let (writer, own) = ring(2).unwrap();
    let sends = Arc::new(Sends::new());
    let sender = Sender { me: Process::new(&shared, SENDER), own: writer, sends: sends.clone() };
    (shared, Poller { me, state, own, frontier: Frontier::default(), sends }, sender)
}

#[test]
fn an_answer_is_polled_after_the_own_completion() {
    loom::model(|| {
        let (shared, mut poller, mut sender) = queue();
        let message = Arc::new(AtomicU64::new(0));
        let arrived = message.clone();
        let sending = thread::spawn(move || {
            let share = sender.sends.begin();
            let after = sender.me.load(Word::Cq(0, CqWord::Tail)) as u32;
            message.store(1, Ordering::Release);
            sender.complete(after);
            sender.sends.end(share);
        });
        let peer = Process::new(&shared, PEER);
        let answering = thread::spawn(move || {
            if arrived.load(Ordering::Acquire) == 1 {
                peer.deliver(ANSWER);
            }
        });
        let mut found: Vec<u64> = (0..2).filter_map(|_| poller.poll()).collect();
        sending.join().unwrap();
        answering.join().unwrap();
        found.extend(std::iter::from_fn(|| poller.poll()));
        assert_eq!(found[0], SENT);
        assert!(found.len() == 1 || found[1..] == [ANSWER], "{found:?}");
    });
}

#[test]
fn who_sends_all_the_time_keeps_nothing_from_who_polls() {
    loom::model(|| {
        let (shared, mut poller, sender) = queue();
        // One request or the other is under way at any time.
        let first = poller.sends.begin();
        Process::new(&shared, PEER).deliver(ANSWER);
        assert_eq!(poller.poll(), None);
        let sends = sender.sends.clone();
        let sending = thread::spawn(move || {
            let second = sends.begin();
            sends.end(first);
            second
        });
        let second = sending.join().unwrap();
        assert_eq!(poller.poll(), Some(ANSWER));
        poller.sends.end(second);
    });
}

#[test]
fn who_arms_and_looks_again_sleeps_over_no_own_completion() {
    loom::model(|| {
        let (_shared, mut poller, mut sender) = queue();
        let sending = thread::spawn(move || {
            sender.complete(0);
            sender.tell(Some(false));
        });
        poller.state.arm(&poller.me, 0, false).unwrap();
        if let Some(found) = poller.poll() {
            assert_eq!(found, SENT);
            sending.join().unwrap();
            assert!(settled(&poller.me, &mut poller.state) <= 1);
        } else {
            sleep(&poller.me, &mut poller.state);
            assert_eq!(poller.poll(), Some(SENT), "woken for nothing");
            sending.join().unwrap();
            assert_eq!(settled(&poller.me, &mut poller.state), 0);
        }
        assert_eq!(poller.poll(), None);
    });
}

#[test]
fn an_answer_that_was_kept_back_wakes_who_sleeps_over_it() {
    loom::model(|| {
        let (shared, mut poller, mut sender) = queue();
        let share = sender.sends.begin();
        Process::new(&shared, PEER).deliver(ANSWER);
        let sending = thread::spawn(move || {
            sender.complete(0);
            sender.sends.end(share);
            sender.tell(Some(false));
        });
        // What it waits for the own completion is not, and the answer was before.
        poller.state.arm(&poller.me, 0, true).unwrap();
        let mut found = Vec::new();
        loop {
            found.extend(std::iter::from_fn(|| poller.poll()));
            if found.len() == 2 {
                break;
            }
            // The own one may be there before its request ends.
            sleep(&poller.me, &mut poller.state);
        }
        assert_eq!(found, [SENT, ANSWER]);
        sending.join().unwrap();
        settled(&poller.me, &mut poller.state);
    });
}
