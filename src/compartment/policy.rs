//! [`RejectionPolicy`], and the numbers that a compartment is built with.

use std::time::Duration;

use crate::name::Name;
use crate::sync::Arc;
use crate::vitals::Facts;

/// What a full queue does with one more job.
///
/// There is no policy that runs the job on the caller's thread: a refusal hands the closure back,
/// so that running it there is a choice which the caller makes visibly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum RejectionPolicy {
    /// Refuses it at once. The default: an overloaded dependency must cost its callers nothing.
    #[default]
    Reject,
    /// Lets the caller wait for a place, first come first served, bounded in time and in number.
    Wait {
        /// The longest wait. Zero does not wait; [`Duration::MAX`] waits without limit.
        at_most: Duration,
        /// The most callers that may wait at once; one more is refused. At least 1.
        submitters: usize,
    },
    /// Ends the oldest queued job, whose caller is told, and takes the new one. For work that
    /// newer work makes worthless, such as refreshing a cache. Needs a queue of at least 1.
    DropOldest,
}

/// The numbers that a compartment is built with.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    pub(crate) threads: usize,
    pub(crate) queue: usize,
    pub(crate) policy: RejectionPolicy,
    pub(crate) queue_limit: Option<Duration>,
    /// Refuse a job that by the recent pace would be answered too late.
    pub(crate) refuse_late: bool,
    /// The buckets of the times that jobs wait before they start, and that they run.
    pub(crate) wait_bounds: Arc<[Duration]>,
    pub(crate) run_bounds: Arc<[Duration]>,
}

impl Rules {
    /// What errors say of a bulkhead with these rules.
    pub(crate) fn facts(&self, name: Name, call_limit: Option<Duration>) -> Facts {
        let at_most = match self.policy {
            RejectionPolicy::Wait { at_most, .. } => at_most,
            _ => Duration::ZERO,
        };
        let Self { threads, queue, queue_limit, .. } = *self;
        let submitters = self.submitters();
        Facts { name, threads, queue, submitters, at_most, queue_limit, call_limit }
    }

    pub(crate) fn submitters(&self) -> usize {
        match self.policy {
            RejectionPolicy::Wait { submitters, .. } => submitters,
            _ => 0,
        }
    }
}
