//! A message that is repeated until it is answered.

use std::time::Duration;

use crate::wire::Req;
use crate::world::Message;

/// How soon a message is sent again at first. A network loses packets, and programs answer within microseconds;
/// who needs longer says so (MRA), once it is asked twice.
const FIRST: Duration = Duration::from_millis(250);
/// The longest timer code that counts: 2^16 ms.
const LONGEST_CODE: u8 = 24;

/// How long answers are waited for, and how often they are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    wait: Duration,
    retries: u8,
}

/// Milliseconds of a timer code, as the kernel rounds them.
fn time(code: u8) -> Duration {
    Duration::from_millis(1 << code.min(LONGEST_CODE).saturating_sub(8))
}

impl Patience {
    /// Of the side that sends a request, as the kernel's: `remote_response_timeout` and twice the life time of
    /// a packet.
    pub fn of_sender(req: &Req) -> Patience {
        let wait = time(req.remote_response_timeout) + 2 * time(req.ack_timeout.saturating_sub(1));
        Patience { wait, retries: req.max_retries }
    }

    /// Of the side that gets it.
    pub fn of_receiver(req: &Req) -> Patience {
        Patience { wait: time(req.local_response_timeout), retries: req.max_retries }
    }

    /// Of who sends again what was lost on the way to a process of the host: while that is soon.
    pub fn while_soon() -> Patience {
        Patience { wait: 16 * FIRST, retries: 0 }
    }

    /// Of the side that asks for a queue pair.
    pub fn for_datagrams() -> Patience {
        Patience { wait: time(20), retries: 15 }
    }
}

/// See the module.
#[derive(Debug)]
pub struct Repeated {
    /// What is sent again.
    pub message: Message,
    /// When its time is over.
    pub due: Duration,
    wait: Duration,
    pause: Duration,
    retries: u8,
}

impl Repeated {
    /// One that was just sent.
    pub fn new(message: Message, patience: Patience, now: Duration) -> Repeated {
        let pause = FIRST.min(patience.wait);
        let Patience { wait, retries } = patience;
        Repeated { message, due: now + pause, wait, pause, retries }
    }

    /// Its time is over. Whether it is sent again: soon at first, then as often as the request says.
    pub fn again(&mut self, now: Duration) -> bool {
        if self.pause < self.wait {
            self.pause = (2 * self.pause).min(self.wait);
        } else if self.retries == 0 {
            return false;
        } else {
            self.retries -= 1;
        }
        self.due = now + self.pause;
        true
    }

    /// The other side asks for more time (a timer code).
    pub fn postpone(&mut self, code: u8, now: Duration) {
        self.pause = self.wait;
        self.due = self.due.max(now + time(code) + self.wait);
    }

    /// Nobody waits for the answer any more: it is repeated while that is soon.
    pub fn hurry(&mut self) {
        self.retries = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked() -> (Repeated, Duration) {
        let req = Req { remote_response_timeout: 20, ack_timeout: 19, max_retries: 15, ..Req::default() };
        let now = Duration::from_secs(9);
        (Repeated::new(Box::new([0; 256]), Patience::of_sender(&req), now), now)
    }

    fn last(mut repeated: Repeated, began: Duration) -> (u32, Duration) {
        let mut sent = 1;
        while repeated.again(repeated.due) {
            sent += 1;
        }
        (sent, repeated.due - began)
    }

    #[test]
    fn it_is_asked_soon_and_as_long_as_the_kernel_does() {
        let (repeated, began) = asked();
        assert_eq!(repeated.due - began, FIRST);
        let (sent, time) = last(repeated, began);
        // After 0.25, 0.5, 1, 2, 4 s; then 16 times the kernel's 6.144 s.
        assert_eq!((sent, time.as_millis()), (6 + 15, 7750 + 16 * 6144));
    }

    #[test]
    fn it_is_given_up_where_it_would_not_be_soon_any_more() {
        let now = Duration::from_secs(9);
        let (sent, time) = last(Repeated::new(Box::new([0; 256]), Patience::while_soon(), now), now);
        assert_eq!((sent, time.as_millis()), (5, 7750));
    }

    #[test]
    fn who_asks_for_time_gets_it() {
        let (mut repeated, began) = asked();
        repeated.postpone(24, began);
        assert_eq!((repeated.due - began).as_millis(), 65536 + 6144);
        repeated.postpone(0, began);
        assert_eq!((repeated.due - began).as_millis(), 65536 + 6144, "never less");
        repeated.postpone(255, began);
        assert_eq!((repeated.due - began).as_millis(), 65536 + 6144, "nor any longer");
        let (sent, _) = last(repeated, began);
        assert_eq!(sent, 16);
    }

    #[test]
    fn in_a_hurry_it_ends_soon() {
        let (mut repeated, began) = asked();
        repeated.hurry();
        let (sent, time) = last(repeated, began);
        assert_eq!((sent, time.as_millis()), (6, 7750 + 6144));
    }
}
