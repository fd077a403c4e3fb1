//! DISCONNECT, and what comes of it.

use crate::connection::disconnect_time;
use crate::errno::Errno;
use crate::event::EventKind;
use crate::file::File;
use crate::id::{Cm, State, Wait};
use crate::manager::Manager;

impl Manager {
    /// Asks for the end, or agrees to it; where neither is possible, nothing happens and that is no error.
    pub(crate) fn disconnect(&mut self, file: File, number: u32) -> Result<(), Errno> {
        let (id, _) = self.id_with_device(file, number)?;
        match id.connection.cm {
            Cm::None => return Err(Errno::EINVAL),
            Cm::Established => {
                let dreq = id.dreq();
                let time = disconnect_time(id.packet_life_time());
                id.connection.cm = Cm::DreqSent;
                id.connection.asked_end = true;
                self.say(number, dreq);
                self.set_alarm(number, Some((self.now + time, Wait::Answer)));
            }
            Cm::DreqRcvd => {
                let drep = id.drep();
                self.say(number, drep);
                self.enter_timewait(number);
            }
            _ => {}
        }
        Ok(())
    }

    pub(crate) fn dreq_came(&mut self, number: u32) {
        let Some(id) = self.ids.get_mut(&number) else { return };
        match id.connection.cm {
            Cm::RepSent | Cm::DreqSent | Cm::Established => {}
            // The program has not said yet that it is ready: it shall hear of both in their order.
            Cm::RepRcvd => {
                id.connection.early_dreq = true;
                return;
            }
            _ => return,
        }
        id.connection.cm = Cm::DreqRcvd;
        self.set_alarm(number, None);
        self.disconnected(number, 0);
    }

    pub(crate) fn drep_came(&mut self, number: u32) {
        let Some(id) = self.ids.get(&number) else { return };
        if matches!(id.connection.cm, Cm::DreqSent | Cm::DreqRcvd) {
            self.enter_timewait(number);
            self.disconnected(number, 0);
        }
    }

    /// Says once that the connection is over.
    pub(crate) fn disconnected(&mut self, number: u32, status: i32) {
        let Some(id) = self.ids.get_mut(&number) else { return };
        if id.state == State::Connect {
            id.state = State::Disconnect;
            self.queue_plain(number, EventKind::Disconnected, status);
        }
    }
}
