//! The device's part of connections to other hosts: each message to whom it is for.

use std::net::Ipv6Addr;

use ironverbs_cm::File;
use ironverbs_cm::address::Address;
use ironverbs_cm::network::{Addressee, Arrived, Output, addressee, agree, refuse};

use super::{Device, UNTIL_LISTENING};
use crate::mail::To;
use crate::net::Sought;
use crate::network::{Came, Waits};
use crate::sys;

impl Device {
    /// Takes what has come from other hosts, and does what is due: what to wait for then. `None` where the
    /// process is not on the network.
    pub fn look_at_network(&mut self) -> Option<Waits> {
        // Who has nothing to do with connections leaves those that come to others.
        let is_at_work = |device: &Device| {
            let network = device.net.network.as_ref();
            !device.net.channels.is_empty() || network.is_some_and(|network| !network.exchanges.is_empty())
        };
        let takes = is_at_work(self);
        let (came, more) = self.net.network.as_mut()?.take(takes);
        for came in came {
            self.arrived(&came);
            self.act(None);
        }
        for (came, service, to) in self.net.network.as_mut()?.held_requests() {
            self.requested(&came, service, &to);
            self.act(None);
        }
        if let Some(network) = &mut self.net.network {
            network.exchanges.expire(sys::now());
        }
        self.act(None);
        let takes = is_at_work(self);
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
                let process = (number >> 16) as u16;
                let is_others = number != 0 && process != network.process && !came.is_passed_on;
                if !is_others {
                    network.exchanges.arrived(came.peer, &came.mad[..], sys::now());
                } else if !network.pass_on(To::Connections(process), came, 0)
                    && let Some(message) = agree(&came.mad[..])
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
        let Some(network) = &mut self.net.network else { return };
        let refusal = match sought {
            Sought::Here(listener) => return self.take_request(came, listener),
            Sought::There(owner, name) if network.pass_on(To::Owner(owner), came, name) => return,
            Sought::Nobody(known) => refuse(&came.mad[..], known),
            // Who is there may be about to hear of requests, too.
            Sought::Soon | Sought::There(..) if network.hold(came, service, to, UNTIL_LISTENING) => return,
            Sought::Soon | Sought::There(..) => refuse(&came.mad[..], false),
            // It comes again.
            Sought::Unclear => return,
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

    fn changed(&mut self, file: Option<File>) {
        if let Some(file) = file {
            self.wake(file);
            self.show(file);
        }
    }
}
