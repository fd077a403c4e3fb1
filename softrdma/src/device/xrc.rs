//! XRC domains, and queue pairs that others opened.
//!
//! Domains are those of one process. A transaction at a target reaches one process's segment, so a queue pair
//! of one process could not receive by a shared receive queue of another one, domain or not.

use std::collections::HashMap;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError};

use ironverbs_os::growth::{TryInsert, try_arc};

use crate::queues::shared::Object;
use crate::rules::verbs::QpType;

use super::{Device, Error, EventQueue, QueuePair, Result};
use crate::carrier::near::number::place_of;

/// The domains of a process.
#[derive(Debug, Default)]
pub(super) struct Domains {
    last: u32,
    /// By device and inode of the file: the number, and how many handles there are.
    files: HashMap<(u64, u64), (u32, u32)>,
}

/// An XRC domain (`struct ibv_xrcd`). Those that the process opened with a descriptor of the same file are one
/// domain.
#[derive(Debug)]
pub struct XrcDomain {
    device: Arc<Device>,
    number: u32,
    file: Option<(u64, u64)>,
    users: AtomicU32,
    closed: AtomicBool,
}

impl XrcDomain {
    /// Opens a domain: that of the file behind `fd`, or a private one without. `create` and `exclusive` are
    /// `O_CREAT` and `O_EXCL`.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the file has none and `create` is not given, [`Error::Exists`] when it has one
    /// and `exclusive` is, [`Error::Invalid`] without `fd` and `create`, or for a descriptor that is none.
    pub fn open(device: &Arc<Device>, fd: Option<RawFd>, create: bool, exclusive: bool) -> Result<Arc<Self>> {
        let file = fd.map(file_of).transpose()?;
        let mut domains = device.xrc_domains();
        let known = file.and_then(|file| domains.files.get(&file).copied());
        let number = match known {
            Some(_) if exclusive => return Err(Error::Exists),
            Some((number, _)) => number,
            None if !create && file.is_some() => return Err(Error::NotFound),
            None if !create => return Err(Error::Invalid("neither a file nor O_CREAT")),
            None => {
                domains.last += 1;
                domains.last
            }
        };
        if let Some(file) = file {
            domains.files.try_entry(file)?.or_insert((number, 0)).1 += 1;
        }
        drop(domains);
        // Where this fails, it is dropped, and closed by that.
        Ok(try_arc(Self { device: device.clone(), number, file, users: 0.into(), closed: false.into() })?)
    }

    /// The number of the domain in this process.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Closes it.
    ///
    /// # Errors
    /// [`Error::Busy`] while a queue pair or shared receive queue was made with this handle.
    pub fn close(&self) -> Result<()> {
        if self.users.load(Ordering::Acquire) > 0 {
            return Err(Error::Busy);
        }
        if !self.closed.swap(true, Ordering::AcqRel)
            && let Some(file) = self.file
        {
            let mut domains = self.device.xrc_domains();
            if let Some((_, handles)) = domains.files.get_mut(&file) {
                *handles -= 1;
                if *handles == 0 {
                    domains.files.remove(&file);
                }
            }
        }
        Ok(())
    }

    /// One more object in the domain.
    pub(super) fn hold(&self) {
        self.users.fetch_add(1, Ordering::AcqRel);
    }

    /// Takes back one [`XrcDomain::hold`].
    pub(super) fn release(&self) {
        self.users.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Drop for XrcDomain {
    fn drop(&mut self) {
        self.users.store(0, Ordering::Release);
        let _ = self.close();
    }
}

impl Device {
    fn xrc_domains(&self) -> MutexGuard<'_, Domains> {
        self.xrc_domains.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn file_of(fd: RawFd) -> Result<(u64, u64)> {
    let stat = ironverbs_os::sys::stat(fd)?;
    Ok((stat.st_dev, stat.st_ino))
}

/// An XRC target queue pair opened once more (`ibv_open_qp`), with events of its own.
#[derive(Debug)]
pub struct OpenedQp {
    qp: Arc<QueuePair>,
    domain: Arc<XrcDomain>,
    events: Arc<EventQueue>,
    cookie: usize,
    closed: AtomicBool,
}

impl OpenedQp {
    /// Opens the XRC target queue pair with this number in the domain.
    ///
    /// # Errors
    /// [`Error::Invalid`] when there is none.
    pub fn open(
        domain: &Arc<XrcDomain>,
        qp_num: u32,
        events: &Arc<EventQueue>,
        cookie: usize,
    ) -> Result<Arc<Self>> {
        let device = &domain.device;
        let none = Error::Invalid("no such queue pair");
        let (slot, index) = place_of(qp_num).ok_or(none)?;
        let qp = device
            .queue_pair(index)
            .filter(|_| slot == device.endpoint.segment.owner().slot())
            .ok_or(none)?;
        if qp.qp_type() != QpType::XrcRecv || qp.domain() != Some(domain.number) || !qp.open_once_more() {
            return Err(none);
        }
        if let Err(e) = device.subscribers.add(Object::Qp(index), events, cookie) {
            qp.close_once()?;
            return Err(e);
        }
        domain.hold();
        let (domain, events) = (domain.clone(), events.clone());
        // Where this fails, it is dropped, and closed by that.
        Ok(try_arc(Self { qp, domain, events, cookie, closed: false.into() })?)
    }

    /// The queue pair: modify and query go through it.
    #[must_use]
    pub fn queue_pair(&self) -> &Arc<QueuePair> {
        &self.qp
    }

    /// Closes this handle; the queue pair goes with the last one.
    ///
    /// # Errors
    /// As those of [`QueuePair::destroy`].
    pub fn close(&self) -> Result<()> {
        if !self.closed.swap(true, Ordering::AcqRel) {
            let device = &self.domain.device;
            device.unsubscribe(Object::Qp(self.qp.index()), &self.events, self.cookie);
            self.domain.release();
            self.qp.close_once()?;
        }
        Ok(())
    }
}

impl Drop for OpenedQp {
    fn drop(&mut self) {
        let _ = self.close();
    }
}
