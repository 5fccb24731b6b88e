//! [`Context`]: what a running job may know about itself.

use std::fmt;
use std::time::Duration;

use super::job::Header;
use crate::sync::Arc;
use crate::time::{Clock, Deadline};
use crate::vitals::Vitals;

/// Given to a job's closure: how much time is left, whether it should stop, and where it runs.
///
/// Nobody can stop a running closure from outside. One that takes long should look at
/// [`is_cancelled`](Context::is_cancelled) and [`remaining`](Context::remaining) now and then, and
/// pass the remaining time on to whatever it calls.
pub struct Context<'a> {
    job: &'a Header,
    about: &'a Arc<Vitals>,
    clock: &'a dyn Clock,
    worker: usize,
}

impl<'a> Context<'a> {
    pub(crate) fn new(
        job: &'a Header,
        about: &'a Arc<Vitals>,
        clock: &'a dyn Clock,
        worker: usize,
    ) -> Self {
        Self { job, about, clock, worker }
    }

    pub(crate) fn vitals(&self) -> &Arc<Vitals> {
        self.about
    }

    /// The time left to the whole call: zero when it has passed, `None` when there is no limit.
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        // Without a limit the clock need not be read.
        self.job.deadline.instant()?;
        self.job.deadline.remaining(self.clock.now())
    }

    /// The whole call's deadline.
    #[must_use]
    pub fn deadline(&self) -> Deadline {
        self.job.deadline
    }

    /// Whether the job was cancelled, or its deadline has passed: nobody wants the result.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.job.cancelled.is_up()
            || self.job.deadline.instant().is_some_and(|at| at <= self.clock.now())
    }

    /// The name of the bulkhead that it runs in.
    #[must_use]
    pub fn bulkhead(&self) -> &str {
        self.about.name.as_str()
    }

    /// The index of the thread that it runs on, from 0.
    #[must_use]
    pub const fn worker(&self) -> usize {
        self.worker
    }
}

impl fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("bulkhead", &self.bulkhead())
            .field("worker", &self.worker)
            .field("deadline", &self.job.deadline)
            .field("cancelled", &self.is_cancelled())
            .finish()
    }
}
