//! What the present thread is doing for a runtime: whose thread it is, and which job it runs.
//!
//! A job that waits for another is found by walking from the present job to the one that waits for
//! it, and so on. That is how a job which would queue behind the very worker that waits for it is
//! refused instead of hanging.

use std::cell::RefCell;

use super::job::{Header, Job};
use crate::sync::{Arc, thread_local};
use crate::time::Deadline;

#[derive(Default)]
struct Here {
    runtime: Option<u64>,
    job: Option<Arc<dyn Job>>,
}

thread_local! {
    static HERE: RefCell<Here> = RefCell::new(Here::default());
}

/// Runs `f` on this thread's note. A thread that is being torn down has none: it runs no job.
fn with<T: Default>(f: impl FnOnce(&mut Here) -> T) -> T {
    HERE.try_with(|here| f(&mut here.borrow_mut())).unwrap_or_default()
}

/// Marks this thread as one of `runtime`'s own, for good.
pub(crate) fn belongs_to(runtime: u64) {
    with(|here| here.runtime = Some(runtime));
}

/// Whether this thread is one of `runtime`'s own.
pub(crate) fn is_own_thread_of(runtime: u64) -> bool {
    with(|here| here.runtime == Some(runtime))
}

/// Marks the job that this thread runs until the guard goes, on every way out.
pub(crate) fn enter(job: Arc<dyn Job>) -> Running {
    with(|here| here.job = Some(job));
    Running(())
}

#[derive(Debug)]
pub(crate) struct Running(());

impl Drop for Running {
    fn drop(&mut self) {
        // Taken out first: no borrow is held while a job's last reference goes.
        let job = with(|here| here.job.take());
        drop(job);
    }
}

pub(crate) fn current_job() -> Option<Arc<dyn Job>> {
    with(|here| here.job.clone())
}

/// The deadline of the job that runs here: whatever it waits for has at most that long.
pub(crate) fn deadline() -> Deadline {
    with(|here| here.job.as_ref().map(|job| job.header().deadline)).unwrap_or(Deadline::never())
}

/// How long a chain of jobs waiting for each other is followed. Far beyond any that makes sense; it
/// ends the walk if two jobs wait for each other's handles.
const LONGEST_CHAIN: usize = 64;

/// Whether a worker of compartment `home` waits for `job`, itself or through other jobs.
pub(crate) fn is_waited_for_by(job: &Arc<dyn Job>, home: u64) -> bool {
    let mut link = Some(Arc::clone(job));
    for _ in 0..LONGEST_CHAIN {
        let Some(job) = link else { return false };
        if job.header().home == home {
            return true;
        }
        let next = job.header().waited_by.lock().clone();
        link = next;
    }
    false
}

/// Notes that `waiting` waits for the job of `target`, until the guard goes.
pub(crate) fn wait_for(target: &Header, waiting: Arc<dyn Job>) -> Waiting<'_> {
    *target.waited_by.lock() = Some(waiting);
    Waiting(target)
}

#[derive(Debug)]
pub(crate) struct Waiting<'a>(&'a Header);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        // LOCK: the link is dropped after the lock is free; it may be the last reference to a job.
        let link = self.0.waited_by.lock().take();
        drop(link);
    }
}
