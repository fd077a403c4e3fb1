//! The device's part of messages that are lost on request, within the host: requests that find nobody at first,
//! and what follows where a message is lost each time.

use ironverbs_cm::network::Repeated;
use ironverbs_cm::world::{Destination, Message};
use ironverbs_cm::{File, Link};

use super::{Device, UNTIL_LISTENING};
use crate::net::{Waiting, is_lost, repeated};
use crate::network::Waits;
use crate::sys;

impl Device {
    /// A request was lost: it is sent again when it would be between hosts.
    pub(super) fn lose_request(&mut self, link: Link, file: File, to: Destination, message: Message) {
        let lost = repeated(message.clone());
        self.wait_lost(link, file, to, message, lost);
    }

    fn wait_lost(&mut self, link: Link, file: File, to: Destination, message: Message, lost: Repeated) {
        let at = lost.due;
        self.net.waiting.push(Waiting { link, file, to, message, at, until: at, lost: Some(lost) });
    }

    /// A request is sent again that was lost.
    pub(super) fn connect_again(
        &mut self,
        link: Link,
        file: File,
        to: Destination,
        message: Message,
        mut lost: Repeated,
    ) {
        let now = sys::now();
        if !is_lost(&message) {
            self.connect(link, file, None, to, message, now + UNTIL_LISTENING);
        } else if lost.again(now) {
            self.wait_lost(link, file, to, message, lost);
        } else {
            self.manager.unreachable(link);
        }
    }

    /// Sends again what was lost; what to wait for then.
    pub fn repeat_lost(&mut self) -> Option<Waits> {
        for given_up in self.net.repeat_lost() {
            let link = given_up.link;
            let file = self.manager.channel(link);
            if given_up.is_offer {
                self.manager.unreachable(link);
            } else {
                self.manager.ended(link, &mut self.net);
            }
            self.act(None);
            self.changed(file);
        }
        self.net.next_lost().map(|until| Waits { fds: [-1; 4], until: Some(until) })
    }
}
