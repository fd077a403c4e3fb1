//! Time of ids, and what happens when it is over.

use std::time::Duration;

use crate::errno::Errno;
use crate::event::EventKind;
use crate::file::File;
use crate::id::{Cm, State, Wait};
use crate::manager::Manager;
use crate::world::{Action, NoRoute, World};

impl Manager {
    /// Sets what an id waits for, in place of what it waited for before.
    pub(crate) fn set_alarm(&mut self, number: u32, alarm: Option<(Duration, Wait)>) {
        let Some(id) = self.ids.get_mut(&number) else { return };
        let (file, before) = (id.file, std::mem::replace(&mut id.alarm, alarm));
        if let Some((at, _)) = before {
            self.alarms.remove(&(file, at, number));
        }
        if let Some((at, _)) = alarm {
            self.alarms.insert((file, at, number));
        }
        if before.is_some() || alarm.is_some() {
            self.changed_alarms.insert(file);
        }
    }

    /// Asks for the times that changed.
    pub(crate) fn set_timers(&mut self) {
        while let Some(file) = self.changed_alarms.pop_first() {
            let first = (file, Duration::ZERO, 0);
            let at = self.alarms.range(first..).next().filter(|(f, ..)| *f == file).map(|&(_, at, _)| at);
            let Some(channel) = self.files.get_mut(&file) else { continue };
            if channel.alarm != at {
                channel.alarm = at;
                self.act(Action::Timer { file, at });
            }
        }
    }

    /// The time of [`Action::Timer`] has come for this channel (or not yet: then nothing happens).
    pub fn expired(&mut self, file: File, world: &mut dyn World) {
        self.now = world.now();
        loop {
            let first = self.alarms.range((file, Duration::ZERO, 0)..).next().copied();
            match first {
                Some((f, at, number)) if f == file && at <= self.now => self.time_is_over(number),
                _ => break,
            }
        }
        // Whoever calls before the time is asked for it again, since his timer may have been the one that is
        // used up.
        if let Some(channel) = self.files.get_mut(&file) {
            channel.alarm = None;
            self.changed_alarms.insert(file);
        }
    }

    fn time_is_over(&mut self, number: u32) {
        let Some(id) = self.ids.get(&number) else { return };
        let (wait, state, cm) = (id.alarm.map(|(_, wait)| wait), id.state, id.connection.cm);
        self.set_alarm(number, None);
        let lost = Errno::ETIMEDOUT.status();
        match wait {
            Some(Wait::Neighbour) => self.resolve_failed(number, NoRoute::NoNeighbour.into()),
            Some(Wait::Answer) if cm == Cm::DreqSent => {
                self.enter_timewait(number);
                self.disconnected(number, lost);
            }
            Some(Wait::Answer) => {
                self.reset(number);
                if state == State::Connect {
                    self.queue_plain(number, EventKind::Unreachable, lost);
                }
            }
            Some(Wait::Timewait) => {
                self.reset(number);
                if state == State::Disconnect {
                    self.queue_plain(number, EventKind::TimewaitExit, 0);
                }
            }
            None => {}
        }
    }
}
