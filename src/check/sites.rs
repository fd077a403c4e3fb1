//! Where requests are posted, found again without an unwinder, and which posts have their buffers looked at.
//!
//! To walk a stack costs thousands of instructions. A program posts at few places, again and again with the
//! stack as it was: then the return addresses that a walk has found still stand where they stood, and that is
//! looked at instead. The innermost is in the frame that called this library, at the same distance from the
//! stack pointer whenever a function of this library is called in the same way; while it is the same address,
//! the function that it leads into has the next one where it had it, and so on.

use ironverbs_os::growth::TryFill;

use super::place::{NEAR, Place};

/// Places of stacks that are remembered.
const PLACES: usize = 256;
/// The first posts of each place, whose buffers are looked at,
const FIRST: u64 = 64;
/// as are the first posts of places that were not found again,
const FIRST_ELSEWHERE: u64 = 1024;
/// and later one of so many, in an order that is the same in each run.
const ONE_OF: u64 = 16;

/// How a thread has called this library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The function of this library, of which each has frames of its own.
    pub function: u32,
    /// The stack pointer in it.
    pub stack: usize,
}

impl Call {
    /// The call that is under way, of a function that is not inlined.
    #[inline(always)]
    pub fn here(function: u32) -> Self {
        let stack: usize;
        #[cfg(target_arch = "x86_64")]
        // SAFETY: copies a register.
        unsafe {
            core::arch::asm!("mov {}, rsp", out(reg) stack, options(nomem, nostack, preserves_flags));
        }
        // Elsewhere a return address is wherever the function has saved it.
        #[cfg(not(target_arch = "x86_64"))]
        {
            stack = 0;
        }
        Self { function, stack }
    }
}

/// A place, and where on the stack its return addresses were found.
#[derive(Clone, Copy, Debug)]
pub struct Walked {
    call: Call,
    /// Address of the stack and what stands there, innermost first, up to an address of 0.
    slots: [(usize, usize); NEAR],
    /// The place.
    pub place: Place,
}

impl Walked {
    /// Walks the stack. Not while a lock is held: the dynamic loader has one of its own.
    #[cold]
    pub fn of(call: Call) -> Self {
        let (place, slots) = Place::near(call.stack);
        Self { call, slots, place }
    }

    /// Whether the stack is the same.
    #[inline]
    fn is_again(&self, call: Call) -> bool {
        // SAFETY: each is read where those before it are the same, so that it lies in a frame of this thread's
        // stack (see the module). Functions whose frames differ in size from call to call are at a distance
        // that may lie in another frame then, above the stack pointer all the same.
        let stands = |slot: usize| unsafe { (slot as *const usize).read_volatile() };
        self.call == call
            && self.slots[0].0 != 0
            && self.slots.iter().take_while(|slot| slot.0 != 0).all(|slot| stands(slot.0) == slot.1)
    }
}

/// What becomes of a post.
#[derive(Clone, Copy, Debug)]
pub enum Look {
    /// Its buffer is not looked at.
    No,
    /// It is, and the post is here.
    At(Place),
    /// It is, once it is known where the post is.
    Where,
}

/// All that is remembered.
#[derive(Debug)]
pub struct Sites {
    /// Empty before the first queue pair.
    all: Vec<Option<(Walked, u64)>>,
    elsewhere: u64,
    state: u64,
}

impl Default for Sites {
    fn default() -> Self {
        Self { all: Vec::new(), elsewhere: 0, state: 1 }
    }
}

impl Sites {
    /// Makes room, so that posts need no memory.
    pub fn reserve(&mut self) {
        if self.all.is_empty() && self.all.try_reserve_exact(PLACES).is_ok() {
            self.all.fill_reserved(PLACES, || None);
        }
    }

    fn one_of(&mut self) -> bool {
        self.state = self.state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.state >> 33).is_multiple_of(ONE_OF)
    }

    fn index(call: Call) -> usize {
        let mixed = (call.stack ^ call.function as usize).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed >> (usize::BITS - PLACES.trailing_zeros())
    }

    /// Whether a post that begins now is looked at.
    pub fn look(&mut self, call: Call) -> Look {
        let is_one = self.one_of();
        if let Some(Some((walked, posts))) = self.all.get_mut(Self::index(call))
            && walked.is_again(call)
        {
            *posts += 1;
            return if is_one || *posts <= FIRST { Look::At(walked.place) } else { Look::No };
        }
        self.elsewhere += 1;
        if is_one || self.elsewhere <= FIRST_ELSEWHERE { Look::Where } else { Look::No }
    }

    /// Remembers a place.
    pub fn learn(&mut self, walked: &Walked) {
        if walked.slots[0].0 != 0
            && let Some(site) = self.all.get_mut(Self::index(walked.call))
        {
            *site = Some((*walked, 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stands for a function of the library that the program calls.
    #[inline(never)]
    fn called(sites: &mut Sites) -> Look {
        let call = Call::here(0);
        let look = sites.look(call);
        if matches!(look, Look::Where) {
            let walked = Walked::of(call);
            sites.learn(&walked);
            return Look::At(walked.place);
        }
        look
    }

    /// Two functions that call it with the same stack.
    #[inline(never)]
    fn outer<const WAY: u64>(sites: &mut Sites) -> Look {
        core::hint::black_box(WAY);
        called(sites)
    }

    fn place(look: Look) -> Option<Place> {
        match look {
            Look::At(place) => Some(place),
            _ => None,
        }
    }

    #[test]
    fn a_place_is_where_the_unwinder_finds_it() {
        let mut sites = Sites::default();
        sites.reserve();
        let mut all = [const { Vec::new() }; 2];
        for round in 0..FIRST as usize {
            let look = [outer::<0>, outer::<1>][round % 2](&mut sites);
            all[round % 2].push(place(look).expect("the first are looked at"));
        }
        // Each way has one place, also where the other one was remembered.
        for places in &all {
            assert!(places.iter().all(|place| *place == places[0]));
        }
        assert_ne!(all[0][0], all[1][0]);
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn the_first_of_each_place_are_looked_at_and_few_later() {
        let mut sites = Sites::default();
        sites.reserve();
        let mut looked = |posts: usize| (0..posts).filter(|_| place(called(&mut sites)).is_some()).count();
        assert_eq!(looked(FIRST as usize), FIRST as usize);
        let later = looked(16_000);
        assert!((800..1200).contains(&later), "{later}");
        // Another place.
        let mut others = 0;
        for _ in 0..FIRST {
            others += usize::from(place(outer::<0>(&mut sites)).is_some());
        }
        assert_eq!(others, FIRST as usize);
        assert!(sites.elsewhere < 10, "{}", sites.elsewhere);
    }

    #[test]
    fn without_room_the_first_are_looked_at() {
        let mut sites = Sites::default();
        let looked = (0..2048).filter(|_| place(called(&mut sites)).is_some()).count();
        assert!((1024..1200).contains(&looked), "{looked}");
    }
}
