//! Numbers of queue pairs and shared receive queues: whose they are.

use crate::shm::objects;

/// Bits of a queue pair's or shared receive queue's number that tell the object; those above tell the process.
const INDEX_BITS: u32 = 14;
/// Added to an index, so that no number is 0 or 1 (the special queue pairs).
const FIRST: u32 = 2;
/// Queue pairs, and shared receive queues, that a process can have: no number is 0xffffff, the multicast one.
pub const MAX_NUMBERED: u32 = objects::MAX_NUMBERED;
const _: () = assert!(MAX_NUMBERED == (1 << INDEX_BITS) - FIRST - 1);

/// The number of a queue pair or shared receive queue: 24 bits.
#[must_use]
pub fn number(slot: u16, index: u32) -> u32 {
    u32::from(slot) << INDEX_BITS | (index + FIRST)
}

/// The slot of the process and the index that a number means; `None` when it means none.
#[must_use]
pub fn place_of(number: u32) -> Option<(u16, u32)> {
    let index = (number & ((1 << INDEX_BITS) - 1)).checked_sub(FIRST)?;
    (number < 1 << 24 && index < MAX_NUMBERED).then_some(((number >> INDEX_BITS) as u16, index))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_none_is_special() {
        for slot in [0, 1, 1023] {
            for index in [0, 1, 77, MAX_NUMBERED - 1] {
                let number = number(slot, index);
                assert!(number > 1 && number < 0xff_ffff);
                assert_eq!(place_of(number), Some((slot, index)));
            }
        }
        for number in [0, 1, 0xff_ffff, 1 << 14, 1 << 24, u32::MAX] {
            assert_eq!(place_of(number), None);
        }
    }
}
