//! The device's part of connections to other hosts: each message to whom it is for.

use std::net::Ipv6Addr;
use std::panic::{AssertUnwindSafe, catch_unwind};

use ironverbs_cm::File;
use ironverbs_cm::address::Address;
use ironverbs_cm::network::{Addressee, Arrived, Output, addressee, agree, refuse};

use super::{Device, UNTIL_LISTENING};
use crate::net::Sought;
use crate::network::{Came, Waits};
use crate::registry::letters::To;
use crate::sys;

/// Does something for each of several. A panic, which was reported when it happened, fails this one alone:
/// whatever a host sends ends no other's connections.
fn each<S, T>(state: &mut S, all: Vec<T>, mut act: impl FnMut(&mut S, T)) {
    for one in all {
        let _failed = catch_unwind(AssertUnwindSafe(|| act(state, one)));
    }
}

impl Device {
    /// Takes what has come from other hosts, and does what is due: what to wait for then. `None` where the
    /// process is not on the network.
    pub fn look_at_network(&mut self) -> Option<Waits> {
        let takes = self.net.takes_from_port();
        let (came, more) = self.net.network.as_mut()?.take(takes);
        each(self, came, |device, came| {
            device.arrived(&came);
            device.act(None);
        });
        let may_listen = self.net.network.as_ref()?.holds() && self.net.may_listen();
        let held = self.net.network.as_mut()?.held_requests(may_listen);
        each(self, held, |device, (came, service, to)| {
            device.requested(&came, service, &to);
            device.act(None);
        });
        if let Some(network) = &mut self.net.network {
            network.exchanges.expire(sys::now());
        }
        self.act(None);
        self.net.rest();
        let takes = self.net.takes_from_port();
        Some(self.net.network.as_mut()?.waits(takes, more))
    }

    /// A message came, for whomever.
    fn arrived(&mut self, came: &Came) {
        // What was passed on was looked at.
        if !came.is_passed_on && !self.net.is_on_network(&came.peer.own) {
            return;
        }
        let Some(network) = &mut self.net.network else { return };
        match addressee(&came.peer, &came.mad[..]) {
            Some(Addressee::Connection(number)) => {
                let is_others = number != 0 && !network.is_own(number) && !came.is_passed_on;
                if !is_others {
                    network.exchanges.arrived(came.peer, &came.mad[..], sys::now());
                } else if !self.net.pass_on(To::Connections((number >> 16) as u16), came, 0)
                    && let Some(message) = agree(&came.mad[..])
                    && let Some(network) = &mut self.net.network
                {
                    network.send(&came.peer, &message);
                }
            }
            Some(Addressee::Listener { service, header }) => {
                let arrived = network.exchanges.arrived(came.peer, &came.mad[..], sys::now());
                let ip = header.map_or(Ipv6Addr::from(came.peer.own).to_canonical(), |to| to.destination);
                let to = Address::ip(ip, service as u16).with_scope(came.peer.interface);
                if arrived == Arrived::Request {
                    self.requested(came, service, &to);
                }
            }
            None => {}
        }
    }

    /// A request came that is not known.
    fn requested(&mut self, came: &Came, service: u64, to: &Address) {
        let sought = match came.listener {
            0 => self.net.seek(service, to),
            name => self.net.listener(name).map_or(Sought::Unclear, Sought::Here),
        };
        match sought {
            Sought::Here(listener) => return self.take_request(came, listener),
            Sought::There(owner, name) if self.net.pass_on(To::Owner(owner), came, name) => return,
            _ => {}
        }
        let Some(network) = &mut self.net.network else { return };
        let refusal = match sought {
            Sought::Nobody(known) => refuse(&came.mad[..], known),
            // Who is there may be about to hear of requests, too.
            Sought::Soon | Sought::There(..) if network.hold(came, service, to, UNTIL_LISTENING) => return,
            Sought::Soon | Sought::There(..) => refuse(&came.mad[..], false),
            // It comes again.
            Sought::Unclear | Sought::Here(_) => return,
        };
        if let Some(message) = refusal {
            network.send(&came.peer, &message);
        }
    }

    fn take_request(&mut self, came: &Came, listener: u32) {
        if !self.manager.accepting(listener) {
            return;
        }
        let file = self.manager.file(listener);
        let link = self.manager.accepted(listener, &came.mad[..], &mut self.net);
        let own = self.manager.comm_id(link).unwrap_or(0);
        // Before the actions on it are executed.
        if let Some(network) = &mut self.net.network {
            network.exchanges.accepted(link, came.peer, &came.mad[..], own);
        }
        self.act(None);
        self.changed(file);
    }

    /// Does what a connection to another host brings; which channel that is for.
    pub(super) fn brought(&mut self, output: Output) -> Option<File> {
        match output {
            // Was sent.
            Output::Packet { .. } => None,
            Output::Message { link, message } => {
                let file = self.manager.channel(link);
                self.manager.message(link, &message[..], &mut self.net);
                file
            }
            Output::Unreachable { link } => {
                let file = self.manager.channel(link);
                self.manager.unreachable(link);
                file
            }
            Output::Ended { link } => {
                let file = self.manager.channel(link);
                self.manager.ended(link, &mut self.net);
                file
            }
        }
    }

    pub(super) fn changed(&mut self, file: Option<File>) {
        if let Some(file) = file {
            self.wake(file);
            self.show(file);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::each;

    #[test]
    fn a_panic_fails_one_alone() {
        let mut done = Vec::new();
        each(&mut done, vec![1, 2, 3], |done, number| {
            assert_ne!(number, 2);
            done.push(number);
        });
        assert_eq!(done, [1, 3]);
    }
}
