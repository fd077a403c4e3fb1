//! Bursts that end with a death after any step, with a second death within what comes next.

use std::cell::{Cell, RefCell};

use softrdma::queues::deliver::{Deliver, Delivered};
use softrdma::queues::shared::{CqWord, Memory, Object, QpWord, Word, slot};
use softrdma::rules::completion::Completion;
use softrdma::rules::responder::Incoming;
use softrdma::rules::verbs::{Status, WcOpcode};

use crate::burst::{SEND, Sender, TARGET, arrived, payload, post_long, quiet};
use crate::place::{CQ, Place, QP};

/// What a process does after the death of a sender.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// Takes and gives back these locks.
    Visit([Object; 2]),
    /// Appends a completion of its own, to the completion queue of the burst.
    Append,
    /// Sends the rest in a burst.
    Burst,
}

const VISITS: [Act; 2] =
    [Act::Visit([Object::Qp(QP), Object::Cq(CQ)]), Act::Visit([Object::Cq(CQ), Object::Qp(QP)])];

/// Receive requests posted, and what became of them.
struct Course {
    place: Place,
    /// Counts of both rings at first.
    start: u32,
    posted: Cell<u64>,
    seen: RefCell<Vec<Completion>>,
}

impl Course {
    /// After so many messages, with counts that began there.
    fn new(completions: u32, start: u32, before: u64) -> Self {
        let place = quiet(4, completions);
        for word in [QpWord::Head, QpWord::Seen, QpWord::Tail] {
            place.segment.store(Word::Qp(QP, word), u64::from(start));
        }
        for word in [CqWord::Tail, CqWord::Seen, CqWord::Head] {
            place.segment.store(Word::Cq(CQ, word), u64::from(start));
        }
        let course = Self { place, start, posted: Cell::new(0), seen: RefCell::default() };
        course.place.next_process(u32::MAX);
        for _ in 0..before {
            course.post(1);
            course.place.burst(1, 0).expect("nobody dies");
            course.poll();
        }
        course
    }

    fn post(&self, count: u64) {
        let posted = self.posted.get();
        (posted..posted + count).for_each(|number| post_long(&self.place, 10 + number));
        self.posted.set(posted + count);
    }

    /// Takes what was published, which is in order.
    fn poll(&self) {
        let mut seen = self.seen.borrow_mut();
        seen.extend(self.place.completions().iter().filter(|entry| entry.status == Status::Success));
        for (number, entry) in (10..).zip(&*seen) {
            assert_eq!(*entry, arrived(number, entry.imm_or_key));
        }
        assert!(seen.is_sorted_by_key(|entry| entry.imm_or_key), "a dead sender sends");
    }

    /// Messages that were published so far, seen or not.
    fn published(&self) -> u64 {
        let head = self.place.load(Word::Cq(CQ, CqWord::Head)) as u32;
        let capacity = self.place.segment.capacity(Object::Cq(CQ));
        let entry = |count| {
            let first = self.place.load(Word::Entry { cq: CQ, slot: slot(count, capacity), word: 0 });
            (first as u32 == count.wrapping_add(1)).then_some(first)
        };
        let waiting = (0..capacity).map_while(|n| entry(head.wrapping_add(n)));
        let kind = |first: u64| first >> 32 & 0xff == Status::Success as u64;
        self.seen.borrow().len() as u64 + waiting.filter(|first| kind(*first)).count() as u64
    }

    /// Requests used up so far.
    fn used(&self) -> u64 {
        u64::from((self.place.load(Word::Qp(QP, QpWord::Head)) as u32).wrapping_sub(self.start))
    }

    /// What holds at any time.
    fn check(&self) {
        let (published, used) = (self.published(), self.used());
        assert!(used <= published, "{used} requests are used up by {published} messages");
    }

    /// What holds when all was visited.
    fn check_whole(&self) {
        assert_eq!(self.used(), self.published());
        assert_eq!(self.place.load(Word::Qp(QP, QpWord::Journal)), 0);
        assert_eq!(self.place.load(Word::Cq(CQ, CqWord::Journal)), 0);
        assert!(self.place.locks.borrow().is_empty());
        assert_eq!(self.place.bells.get(), 0);
    }

    fn act(&self, act: Act) -> Option<()> {
        match act {
            Act::Visit(objects) => objects.iter().try_for_each(|&object| {
                self.place.lock(object)?;
                self.place.unlock(object)
            }),
            Act::Append => {
                let own = Completion::flushed(1, WcOpcode::Send, 3);
                assert_eq!(self.place.carry(Deliver::append(CQ, &own))?, Delivered::Published);
                Some(())
            }
            Act::Burst => {
                // Behind the queue pair's lock, which repairs it, its head is true.
                let mut burst = Sender::open(&self.place)?;
                assert_eq!(self.used(), self.published());
                (10 + self.used()..10 + self.posted.get()).try_for_each(|number| burst.send(number, 2))?;
                burst.close()
            }
        }
    }

    /// After the first death: a second one, then visits, then the rest of the messages. Whether the second got
    /// to the end.
    fn go_on(self, second: (Act, u32), third: &[Act], polls: bool) -> bool {
        self.check();
        if polls {
            self.poll();
        }
        self.place.next_process(second.1);
        let finished = self.act(second.0).is_some();
        self.check();
        if polls {
            self.poll();
        }
        self.place.next_process(u32::MAX);
        third.iter().try_for_each(|act| self.act(*act)).expect("nobody dies");
        self.check_whole();
        let published = self.published();
        self.poll();
        assert_eq!(self.seen.borrow().len() as u64, published);

        // Whoever is next goes on with the next request.
        self.place.burst(self.posted.get() - published, 3).expect("nobody dies");
        self.poll();
        assert_eq!(self.seen.borrow().len() as u64, self.posted.get());
        self.check_whole();
        let tail = self.place.load(Word::Cq(CQ, CqWord::Tail));
        assert_eq!(tail, self.place.load(Word::Cq(CQ, CqWord::Head)));
        finished
    }
}

/// Deaths at every step of `first`, each with deaths at every step of `second`. Answers how many steps `first`
/// has.
fn every_death(
    start: impl Fn() -> Course,
    first: impl Fn(&Course) -> Option<()>,
    second: Act,
    third: &[Act],
) -> u32 {
    let mut finished = false;
    (0..)
        .find(|&life| {
            let ends = (0..).find(|&other| {
                let course = start();
                course.place.next_process(life);
                finished = first(&course).is_some();
                course.go_on((second, other), third, (life + other) % 2 == 0)
            });
            assert!(ends > Some(2));
            finished
        })
        .expect("it ends")
}

#[test]
fn bursts_that_die_anywhere_are_delivered_in_part_and_in_order() {
    // Rings that were not used yet, and counts that wrap.
    for (start, before) in [(0, 0), (6_u32.wrapping_neg(), 4)] {
        for messages in 1..=4 {
            let start = || {
                let course = Course::new(4, start, before);
                course.post(messages);
                course
            };
            let first = |course: &Course| course.place.burst(messages, 1);
            for second in [VISITS[0], VISITS[1], Act::Burst] {
                for third in VISITS {
                    let steps = every_death(start, first, second, &[third]);
                    assert!(steps > 10 + 4 * messages as u32, "only {steps} steps were tried");
                }
            }
        }
    }
}

#[test]
fn others_may_come_first_to_the_completion_queue_of_a_burst_that_died() {
    for messages in [1, 3, 4] {
        let start = || {
            let course = Course::new(8, 0, 0);
            course.post(messages);
            course
        };
        let first = |course: &Course| course.place.burst(messages, 1);
        for second in [Act::Append, VISITS[0], VISITS[1], Act::Burst] {
            for visit in VISITS {
                every_death(start, first, second, &[Act::Append, visit, Act::Append]);
            }
        }
    }
}

/// A sender's bursts of so many messages, each as long as the completion queue, while the owner takes what came
/// and posts more.
fn with_owner(course: &Course, completions: u32, messages: u64) -> Option<()> {
    let mut burst = Sender::open(&course.place)?;
    for number in 0..messages {
        if number > 0 && number % u64::from(completions) == 0 {
            // It would go round the ring, where a repair could not count it.
            let request = Incoming { imm_or_key: 1, ..SEND };
            course.post(1);
            assert!(!burst.offer(&TARGET, &request, &payload(10 + number))?);
            burst = Sender::open(&course.place)?;
        } else {
            course.post(1);
        }
        burst.send(10 + number, 1)?;
        course.poll();
    }
    burst.close()
}

#[test]
fn a_burst_goes_on_while_the_owner_takes_and_posts() {
    for (completions, messages) in [(4, 4), (4, 9), (16, 9)] {
        let start = || Course::new(completions, 0, 0);
        for second in [VISITS[0], VISITS[1], Act::Burst] {
            every_death(start, |course| with_owner(course, completions, messages), second, &VISITS);
        }
    }
}
