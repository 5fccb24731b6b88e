//! [`Observer`]: a user's view of what happens, as it happens.

use std::time::Duration;

use crate::error::Rejection;

/// Hooks for logging, tracing and metrics. Every method does nothing unless overridden.
///
/// No lock is held while a hook runs, so a hook may call back into the runtime. It runs on the
/// thread where the event happens: [`on_started`](Observer::on_started) and
/// [`on_finished`](Observer::on_finished) on the worker, around the job; the others on whichever
/// thread submits, ends a job, or keeps the time. So a slow hook delays that thread: hand slow work
/// to a thread of your own. A panic in a hook is caught and counted
/// ([`Snapshot::hook_panics`](crate::Snapshot)).
///
/// A hook must not wait for a job of the bulkhead on whose thread it runs: with every other thread
/// taken, that job would need the very thread that waits. Submitting without waiting is fine.
///
/// `on_finished` runs after the caller has its answer and before the worker takes another job, on
/// every way out: it is the place to clear thread-locals of your own.
pub trait Observer: Send + Sync + 'static {
    /// A job was accepted: it has a thread's slot or a place in the queue.
    fn on_accepted(&self, event: &AcceptedEvent<'_>) {
        let _ = event;
    }

    /// A submission was refused at the door.
    fn on_rejected(&self, event: &RejectedEvent<'_>) {
        let _ = event;
    }

    /// A worker is about to run a job's closure.
    fn on_started(&self, event: &StartedEvent<'_>) {
        let _ = event;
    }

    /// A job's closure has returned or panicked, and its caller has been told.
    fn on_finished(&self, event: &FinishedEvent<'_>) {
        let _ = event;
    }

    /// An accepted job ended before it started.
    fn on_not_started(&self, event: &NotStartedEvent<'_>) {
        let _ = event;
    }

    /// The bulkhead became full: every slot taken, every place in the queue too.
    fn on_saturated(&self, event: &SaturatedEvent<'_>) {
        let _ = event;
    }

    /// The bulkhead has room again.
    fn on_relieved(&self, event: &RelievedEvent<'_>) {
        let _ = event;
    }
}

/// How an accepted job ended. Exactly one of these happens to each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// The closure returned.
    Returned,
    /// The closure panicked.
    Panicked,
    /// The closure was never started.
    NotStarted(Rejection),
}

/// See [`Observer::on_accepted`].
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct AcceptedEvent<'a> {
    /// The bulkhead's name.
    pub bulkhead: &'a str,
}

/// See [`Observer::on_rejected`].
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct RejectedEvent<'a> {
    /// The bulkhead's name.
    pub bulkhead: &'a str,
    /// Why.
    pub reason: Rejection,
}

/// See [`Observer::on_started`].
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct StartedEvent<'a> {
    /// The bulkhead's name.
    pub bulkhead: &'a str,
    /// The worker's index, from 0.
    pub worker: usize,
    /// From acceptance to start.
    pub waited: Duration,
}

/// See [`Observer::on_finished`]. It knows all that [`StartedEvent`] knew.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct FinishedEvent<'a> {
    /// The bulkhead's name.
    pub bulkhead: &'a str,
    /// The worker's index, from 0.
    pub worker: usize,
    /// From acceptance to start.
    pub waited: Duration,
    /// From start to the release of the slot.
    pub ran: Duration,
    /// [`Outcome::Returned`] or [`Outcome::Panicked`].
    pub outcome: Outcome,
}

/// See [`Observer::on_not_started`].
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct NotStartedEvent<'a> {
    /// The bulkhead's name.
    pub bulkhead: &'a str,
    /// From acceptance to the end.
    pub waited: Duration,
    /// Why.
    pub reason: Rejection,
}

/// See [`Observer::on_saturated`].
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct SaturatedEvent<'a> {
    /// The bulkhead's name.
    pub bulkhead: &'a str,
}

/// See [`Observer::on_relieved`].
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct RelievedEvent<'a> {
    /// The bulkhead's name.
    pub bulkhead: &'a str,
    /// How long it had been full.
    pub after: Duration,
}
