//! Receive requests and their scatter/gather elements.

use std::collections::TryReserveError;

use ironverbs_os::growth::try_collect;

/// Most scatter/gather elements of a request.
pub const MAX_SGE: usize = 32;

/// A piece of local memory (`struct ibv_sge`, whose layout it has).
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sge {
    /// Address in the process that posted it.
    pub addr: u64,
    /// Bytes.
    pub length: u32,
    /// Its key.
    pub lkey: u32,
}

/// Elements that need no memory of their own.
const FEW: usize = 4;

/// Scatter/gather elements of a request, copied. Few of them cost no allocation.
#[derive(Clone, Default)]
pub struct Sges {
    few: [Sge; FEW],
    count: usize,
    /// All of them, when they are more than a few.
    many: Vec<Sge>,
}

impl core::ops::Deref for Sges {
    type Target = [Sge];

    fn deref(&self) -> &[Sge] {
        if self.many.is_empty() { &self.few[..self.count] } else { &self.many }
    }
}

impl Sges {
    /// A copy to be kept.
    ///
    /// # Errors
    /// There is no memory for many.
    pub fn try_of(elements: &[Sge]) -> Result<Self, TryReserveError> {
        let mut all = Self { count: elements.len(), ..Self::default() };
        match all.few.get_mut(..elements.len()) {
            Some(few) => few.copy_from_slice(elements),
            None => all.many = try_collect(elements.iter().copied())?,
        }
        Ok(all)
    }
}

impl FromIterator<Sge> for Sges {
    #[expect(clippy::disallowed_methods, reason = "at most MAX_SGE, for as long as a message takes")]
    fn from_iter<T: IntoIterator<Item = Sge>>(elements: T) -> Self {
        let mut all = Self::default();
        for sge in elements {
            if all.count < FEW {
                all.few[all.count] = sge;
            } else {
                if all.count == FEW {
                    all.many = all.few.to_vec();
                }
                all.many.push(sge);
            }
            all.count += 1;
        }
        all
    }
}

#[expect(clippy::disallowed_methods, reason = "as above")]
impl<const N: usize> From<[Sge; N]> for Sges {
    fn from(elements: [Sge; N]) -> Self {
        elements.into_iter().collect()
    }
}

impl PartialEq for Sges {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Sges {}

impl core::fmt::Debug for Sges {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        (**self).fmt(f)
    }
}

/// A receive request (`struct ibv_recv_wr`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReceiveRequest {
    /// The number that the program gave it.
    pub wr_id: u64,
    /// Where the message goes, at most [`MAX_SGE`] pieces.
    pub sges: Sges,
}

impl ReceiveRequest {
    /// Bytes that fit.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.sges.iter().map(|sge| u64::from(sge.length)).sum()
    }
}

/// What a queue pair would receive into next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Next {
    /// This request.
    Request(ReceiveRequest),
    /// None is posted: receiver not ready.
    Empty,
    /// The counts or the request cannot be true; its owner damaged them.
    Broken,
}
