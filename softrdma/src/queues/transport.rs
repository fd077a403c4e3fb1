//! Running transactions: what a transport offers, and the loop that carries one through.

use super::fence::Resolve;
use super::repair::Repair;
use super::shared::{Fence, Memory, Object};
use super::transaction::{LockError, Locked, Machine, Progress};

/// Shared memory with locks and bells.
pub trait Transport: Memory {
    /// Takes the lock of an object. Locks do not nest within one object.
    ///
    /// # Errors
    /// When it could not be had. It is not held then, and must not be given back.
    fn lock(&self, object: Object) -> Result<Locked, LockError>;
    /// Gives it back; what it protects is whole. `false` when it was [taken away](super::fence) before: what
    /// was stored in the object since reached nobody.
    fn unlock(&self, object: Object) -> bool;
    /// Finds out what became of a transaction of a queue pair, whose lock the caller holds, when the lock of
    /// `object` turned out to be taken away, and sets the queue pair right. `None`: all of it happened.
    ///
    /// # Errors
    /// When that cannot be found out now. The next process to lock the queue pair [repairs](Repair) it.
    fn resolve(&self, qp: u32, object: Object) -> Result<Option<Fence>, LockError>
    where
        Self: Sized,
    {
        run(self, Resolve::new(qp, object))
    }
    /// Lets go of it as death would: the next process to lock it gets [`Locked::Recovered`].
    fn abandon(&self, object: Object);
    /// Makes an object whole whose lock was taken over. What is visited is visited as it is now, whatever was
    /// known of it before.
    ///
    /// # Errors
    /// As those of [`run`].
    fn repair(&self, object: Object) -> Result<(), LockError>
    where
        Self: Sized,
    {
        run(self, Repair::new(object))
    }
    /// Wakes the threads that sleep on the completion queue; `false` when that is not possible now.
    fn bell(&self, cq: u32) -> bool;
    /// Wakes the threads that wait for asynchronous events of the object.
    fn alert(&self, object: Object);
}

/// Takes the lock of an object, and repairs the object when the last owner died.
///
/// # Errors
/// When a lock could not be had, be it one that the repair needs. The object's lock is not held then.
#[inline]
pub fn acquire(transport: &impl Transport, object: Object) -> Result<(), LockError> {
    if transport.lock(object)? == Locked::Recovered { repair(transport, object) } else { Ok(()) }
}

/// Repairs an object whose lock was taken over.
#[cold]
fn repair(transport: &impl Transport, object: Object) -> Result<(), LockError> {
    // Not deep: repairing a queue pair visits a shared receive queue and a completion queue; those visit
    // nothing.
    transport.repair(object).inspect_err(|_| transport.abandon(object))
}

/// Carries a machine through.
///
/// # Errors
/// When a lock could not be had. The machine stopped before that step, and the locks that it took are
/// abandoned. Those that the caller holds for it are the caller's to abandon: an [`Operation`] does so.
#[inline]
pub fn run<M: Machine>(transport: &impl Transport, machine: M) -> Result<M::Outcome, LockError> {
    Operation::new(transport).run(machine)
}

/// Most locks that an operation holds: a queue pair's, then a shared receive queue's or a completion queue's.
const HELD: usize = 3;

/// The locks of one operation. Those that it still holds at its end, by an error or a panic, are abandoned, so
/// that the next process to lock them repairs what was left half done.
#[derive(Debug)]
pub struct Operation<'a, T: Transport> {
    transport: &'a T,
    held: [Option<Object>; HELD],
    /// The queue pair that the caller holds for it.
    behalf: Option<u32>,
}

impl<'a, T: Transport> Operation<'a, T> {
    /// One that holds nothing yet.
    pub fn new(transport: &'a T) -> Self {
        Self { transport, held: [None; HELD], behalf: None }
    }

    /// One for an object whose lock the caller holds.
    pub fn on_behalf(transport: &'a T, object: Object) -> Self {
        let behalf = if let Object::Qp(qp) = object { Some(qp) } else { None };
        Self { behalf, ..Self::new(transport) }
    }

    /// Takes over a lock that the caller holds, for a machine that does not take it.
    pub fn adopt(&mut self, object: Object) {
        if let Some(place) = self.held.iter_mut().find(|held| held.is_none()) {
            *place = Some(object);
        }
    }

    /// Takes a lock, and repairs the object when it must.
    ///
    /// # Errors
    /// When it could not be had: the operation is to end.
    #[inline]
    pub fn lock(&mut self, object: Object) -> Result<(), LockError> {
        // No machine holds so many.
        let place = self.held.iter_mut().find(|held| held.is_none()).ok_or(LockError::Busy)?;
        acquire(self.transport, object)?;
        *place = Some(object);
        Ok(())
    }

    /// Gives back a lock that this operation took, the last one.
    pub fn unlock(&mut self, object: Object) {
        let _ = self.give_back(object);
    }

    /// Gives back a lock that this operation took.
    ///
    /// # Errors
    /// It was taken away meanwhile, and what it was taken for has not happened ([`LockError::Gone`]) or is not
    /// known to have ([`LockError::Unclear`], always for a queue pair): the operation is to end.
    #[inline]
    pub fn give_back(&mut self, object: Object) -> Result<(), LockError> {
        if let Some(place) = self.held.iter_mut().find(|held| **held == Some(object)) {
            *place = None;
            if !self.transport.unlock(object) {
                return self.fenced(object);
            }
        }
        Ok(())
    }

    #[cold]
    fn fenced(&mut self, object: Object) -> Result<(), LockError> {
        if let Object::Qp(_) = object {
            return Err(LockError::Unclear);
        }
        let mut held = self.held.iter().flatten();
        let qp = held.find_map(|held| if let Object::Qp(qp) = held { Some(*qp) } else { None });
        let Some(qp) = qp.or(self.behalf) else { return Ok(()) };
        match self.transport.resolve(qp, object) {
            Ok(None) => Ok(()),
            Ok(Some(Fence::Delivery(delivery))) if delivery.published => Ok(()),
            // A request that was claimed is used by the next who tries.
            Ok(Some(_)) => Err(LockError::Gone),
            Err(_) => Err(LockError::Unclear),
        }
    }

    /// Does what a step machine asked for; [`Progress::Done`] asks for nothing. `Ok(false)`: a bell was not
    /// rung, which the machine is to learn ([`Machine::unheard`]).
    ///
    /// # Errors
    /// When a lock could not be had: the operation is to end.
    #[inline]
    pub fn proceed<U>(&mut self, progress: &Progress<U>) -> Result<bool, LockError> {
        match *progress {
            Progress::Continue | Progress::Done(_) => {}
            Progress::Lock(object) => self.lock(object)?,
            Progress::Unlock(object) => self.give_back(object)?,
            Progress::Bell(cq) => return Ok(self.transport.bell(cq)),
            Progress::Alert(object) => self.transport.alert(object),
        }
        Ok(true)
    }

    /// Carries a machine on, of which the last step asked for this.
    ///
    /// # Errors
    /// When a lock could not be had: the operation is to end.
    #[inline(never)]
    pub fn go_on<M: Machine>(
        &mut self,
        mut machine: M,
        progress: Progress<M::Outcome>,
    ) -> Result<M::Outcome, LockError> {
        if let Progress::Done(outcome) = progress {
            return Ok(outcome);
        }
        if !self.proceed(&progress)? {
            machine.unheard();
        }
        self.run(machine)
    }

    /// Carries a machine through.
    ///
    /// # Errors
    /// When a lock could not be had: the operation is to end.
    #[inline]
    pub fn run<M: Machine>(&mut self, mut machine: M) -> Result<M::Outcome, LockError> {
        loop {
            match machine.step(self.transport) {
                Progress::Done(outcome) => return Ok(outcome),
                progress => {
                    if !self.proceed(&progress)? {
                        machine.unheard();
                    }
                }
            }
        }
    }
}

impl<T: Transport> Drop for Operation<'_, T> {
    fn drop(&mut self) {
        for object in self.held.iter_mut().filter_map(Option::take) {
            self.transport.abandon(object);
        }
    }
}
