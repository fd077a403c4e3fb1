//! The table of objects by address, whose every call of the data path asks for some of the same few.

use ironverbs_os::growth::{TryInsert, TryPush};

use super::objects::{Map, Object};

/// Places that are found without a search: a power of two.
const RECENT: usize = 256;

/// Objects by address.
pub struct Objects {
    places: Vec<Option<(u64, Object)>>,
    /// Places that are empty: as much room as there are places.
    empty: Vec<u32>,
    index: Map<u64, u32>,
    /// Where the object was that was asked for last, of all addresses with the same hash.
    recent: [u32; RECENT],
}

impl Default for Objects {
    fn default() -> Self {
        Self { places: Vec::new(), empty: Vec::new(), index: Map::default(), recent: [0; RECENT] }
    }
}

impl Objects {
    fn hash(address: u64) -> usize {
        (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - RECENT.trailing_zeros())) as usize
    }

    #[inline]
    fn is_at(&self, place: u32, address: u64) -> bool {
        matches!(self.places.get(place as usize), Some(Some((there, _))) if *there == address)
    }

    #[inline]
    fn place(&self, address: u64) -> Option<u32> {
        let recent = self.recent[Self::hash(address)];
        if self.is_at(recent, address) { Some(recent) } else { self.index.get(&address).copied() }
    }

    /// The object at an address.
    #[inline]
    pub fn get(&self, address: u64) -> Option<&Object> {
        let place = self.place(address)?;
        self.places.get(place as usize)?.as_ref().map(|(_, object)| object)
    }

    /// The same, to be changed.
    #[inline]
    pub fn get_mut(&mut self, address: u64) -> Option<&mut Object> {
        let place = self.place(address)?;
        self.recent[Self::hash(address)] = place;
        self.places.get_mut(place as usize)?.as_mut().map(|(_, object)| object)
    }

    /// Whether there is one.
    pub fn has(&self, address: u64) -> bool {
        self.place(address).is_some()
    }

    /// Makes room for one more; whether there was memory for it.
    pub fn reserve(&mut self) -> bool {
        if self.empty.is_empty() {
            let Ok(place) = u32::try_from(self.places.len()) else { return false };
            let room = self.empty.try_reserve(self.places.len() + 1).is_ok();
            if !room || self.places.try_push(None).is_err() {
                return false;
            }
            self.empty.push_reserved(place);
        }
        self.index.try_reserve(1).is_ok()
    }

    /// Takes up an object, in the place of one with the same address, within room that was
    /// [reserved](Self::reserve).
    pub fn set_reserved(&mut self, address: u64, object: Object) {
        let Some(place) = self.place(address).or_else(|| self.empty.pop()) else { return };
        self.index.set_reserved(address, place);
        self.recent[Self::hash(address)] = place;
        if let Some(there) = self.places.get_mut(place as usize) {
            *there = Some((address, object));
        }
    }

    /// Takes an object out.
    pub fn remove(&mut self, address: u64) -> Option<Object> {
        let place = self.index.remove(&address)?;
        self.empty.push_reserved(place);
        self.places.get_mut(place as usize)?.take().map(|(_, object)| object)
    }

    /// Keeps those of which this is true.
    pub fn retain(&mut self, mut keeps: impl FnMut(&Object) -> bool) {
        for (place, there) in self.places.iter_mut().enumerate() {
            if let Some((address, object)) = there
                && !keeps(object)
            {
                self.index.remove(address);
                self.empty.push_reserved(place as u32);
                *there = None;
            }
        }
    }

    /// All, with their addresses.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Object)> {
        self.places.iter().flatten().map(|(address, object)| (*address, object))
    }

    /// All.
    pub fn values(&self) -> impl Iterator<Item = &Object> {
        self.iter().map(|(_, object)| object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::place::Place;

    fn object(number: u64) -> Object {
        let mut object = Object::new("pd", number % 3, "ibv_alloc_pd", Place::default());
        object.number = number;
        object
    }

    /// Beside a map that does the same.
    #[test]
    fn it_is_a_map() {
        let (mut table, mut map) = (Objects::default(), std::collections::HashMap::new());
        let mut state = 1_u64;
        for round in 0..20_000 {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            let address = (state >> 40) % 700 * 64;
            match state >> 33 & 7 {
                0..3 => {
                    assert!(table.reserve());
                    table.set_reserved(address, object(round));
                    map.insert(address, round);
                }
                3 => assert_eq!(table.remove(address).map(|object| object.number), map.remove(&address)),
                4 if round % 100 == 0 => {
                    table.retain(|object| object.context != 1);
                    map.retain(|_, number| *number % 3 != 1);
                }
                5 => {
                    assert_eq!(table.get_mut(address).map(|object| object.number), map.get(&address).copied())
                }
                _ => assert_eq!(table.get(address).map(|object| object.number), map.get(&address).copied()),
            }
            assert_eq!(table.has(address), map.contains_key(&address));
        }
        let mut all: Vec<_> = table.iter().map(|(address, object)| (address, object.number)).collect();
        let mut expected: Vec<_> = map.into_iter().collect();
        all.sort_unstable();
        expected.sort_unstable();
        assert_eq!(all, expected);
        assert_eq!(table.values().count(), all.len());
    }
}
