//! MIGRATE: an id goes to another channel, with its unread events.

use crate::errno::Errno;
use crate::file::File;
use crate::id::State;
use crate::manager::Manager;
use crate::world::Action;

impl Manager {
    /// Moves an id of `from` to `to`; the answer is how many of its events were delivered.
    pub(crate) fn migrate(&mut self, to: File, number: u32, from: File) -> Result<u32, Errno> {
        let reported = self.id(from, number)?.events_reported;
        if from == to {
            return Ok(reported);
        }
        // Requests that nobody fetched belong to their listener's channel.
        let mut moved = vec![number];
        if let Some(channel) = self.files.get_mut(&from) {
            let (mine, others) =
                std::mem::take(&mut channel.unread).into_iter().partition(|u| u.owner == number);
            channel.unread = others;
            let mut mine: std::collections::VecDeque<_> = mine;
            moved.extend(mine.iter().filter_map(|u| u.request));
            if let Some(channel) = self.files.get_mut(&to) {
                channel.arrivals += mine.len() as u64;
                channel.unread.append(&mut mine);
            }
        }
        for number in moved {
            self.move_id(number, from, to);
        }
        Ok(reported)
    }

    fn move_id(&mut self, number: u32, from: File, to: File) {
        let coming = self.next_coming();
        let Some(id) = self.ids.get_mut(&number) else { return };
        id.file = to;
        id.joined_file = coming;
        let (alarm, listens) = (id.alarm, id.state == State::Listen);
        let links: Vec<_> =
            id.connection.link.into_iter().chain(id.waiting.iter().map(|(link, _)| *link)).collect();
        if let Some((at, _)) = alarm {
            self.alarms.remove(&(from, at, number));
            self.alarms.insert((to, at, number));
            self.changed_alarms.extend([from, to]);
        }
        if listens {
            self.act(Action::MoveListener { id: number, file: to });
        }
        for link in links {
            self.act(Action::Move { link, file: to });
        }
    }
}
