//! Closing a runtime within a bounded time, and the report of it.

use std::fmt;
use std::time::{Duration, Instant};

use crate::bulkhead::Bulkhead;
use crate::sync::{Mutex, ThreadHandle};
use crate::time::Age;

/// The threads of a runtime that have not been joined. By bulkhead, in the builder's order.
pub(super) type Threads = Vec<Vec<ThreadHandle>>;

/// How long after its limit a shutdown waits for threads that only have to go.
const GRACE: Duration = Duration::from_millis(50);

/// What a [shutdown](crate::Runtime::shutdown) found and did.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// Jobs that came to their end, by returning or by a panic, while it waited.
    pub finished: u64,
    /// Accepted jobs that it ended unstarted, in the order of their bulkheads' queues.
    pub unstarted: Vec<UnstartedJob>,
    /// Threads that it could not wait for. They are detached, and end when their jobs return.
    pub stuck: Vec<StuckThread>,
    /// Helper threads of connection pools and resolvers that the system has not let go yet. They end
    /// when it does.
    pub helpers: Vec<HelperThread>,
}

/// A job that a shutdown ended before it started. Its caller has been told.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnstartedJob {
    /// The bulkhead's name.
    pub bulkhead: String,
    /// How long it had been queued.
    pub waited: Duration,
}

/// A thread whose job had not returned when a shutdown's time was up.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StuckThread {
    /// The bulkhead's name.
    pub bulkhead: String,
    /// The thread's name, as the system shows it.
    pub thread: String,
    /// How long its job has been running.
    pub age: Duration,
}

/// A thread that connects, closes connections or resolves names for a bulkhead, and was still at it
/// when a shutdown's time was up.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HelperThread {
    /// The bulkhead's name.
    pub bulkhead: String,
    /// The thread's name, as the system shows it.
    pub thread: String,
}

impl ShutdownReport {
    /// Whether everything that had been accepted came to its end, and every thread is gone.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.unstarted.is_empty() && self.stuck.is_empty() && self.helpers.is_empty()
    }
}

impl fmt::Display for ShutdownReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (finished, unstarted) = (self.finished, self.unstarted.len());
        write!(f, "{finished} jobs finished, {unstarted} ended unstarted")?;
        match self.stuck.len() {
            0 if self.helpers.is_empty() => f.write_str(", every thread is gone")?,
            0 => f.write_str(", every job is over")?,
            1 => f.write_str(", 1 thread is stuck:")?,
            n => write!(f, ", {n} threads are stuck:")?,
        }
        for StuckThread { bulkhead, thread, age } in &self.stuck {
            let age = Age(*age);
            write!(f, "\n  {thread} of bulkhead `{bulkhead}`: its job has been running for {age}")?;
        }
        for HelperThread { bulkhead, thread } in &self.helpers {
            write!(
                f,
                "\n  {thread} of bulkhead `{bulkhead}`: connecting, closing or resolving a name"
            )?;
        }
        // They stand in the order of the bulkheads, so each makes one line.
        for jobs in self.unstarted.chunk_by(|one, next| one.bulkhead == next.bulkhead) {
            let longest = jobs.iter().map(|job| job.waited).max().unwrap_or_default();
            let (number, name, longest) = (jobs.len(), &jobs[0].bulkhead, Age(longest));
            write!(
                f,
                "\n  unstarted in bulkhead `{name}`: {number}, which had waited up to {longest}"
            )?;
        }
        Ok(())
    }
}

pub(super) fn drain(bulkheads: &[Bulkhead]) {
    // All of them first: a job that waits for another bulkhead is refused there, instead of being
    // let into one whose turn has not come.
    for bulkhead in bulkheads {
        bulkhead.compartment().drain();
    }
}

/// Lets nobody in, and ends whatever is queued.
pub(super) fn close_now(bulkheads: &[Bulkhead]) {
    drain(bulkheads);
    for bulkhead in bulkheads {
        bulkhead.compartment().end_unstarted();
    }
}

pub(super) fn shut_down(
    bulkheads: &[Bulkhead],
    threads: &Mutex<Threads>,
    limit: Duration,
) -> ShutdownReport {
    let until = Instant::now().checked_add(limit);
    let finished_before = finished(bulkheads);
    drain(bulkheads);
    if !limit.is_zero() {
        for bulkhead in bulkheads {
            bulkhead.compartment().wait_until_gone(until);
        }
    }
    let mut report = ShutdownReport::default();
    for bulkhead in bulkheads {
        let ended = bulkhead.compartment().end_unstarted();
        report.unstarted.extend(
            ended
                .into_iter()
                .map(|waited| UnstartedJob { bulkhead: bulkhead.name().to_owned(), waited }),
        );
    }
    for bulkhead in bulkheads {
        bulkhead.compartment().abort_running();
    }
    // What is left has to come out of user code, or only has to go; that is not waited for longer
    // than it takes to go.
    let remaining = until.map_or(GRACE, |until| until.saturating_duration_since(Instant::now()));
    let joined = wait_for_threads(bulkheads, threads, remaining.saturating_add(GRACE));
    if !joined {
        let no_longer = Some(Instant::now());
        for bulkhead in bulkheads {
            let helpers = bulkhead.compartment().wait_for_resources(no_longer);
            report.helpers.extend(
                helpers
                    .into_iter()
                    .map(|thread| HelperThread { bulkhead: bulkhead.name().to_owned(), thread }),
            );
            report.stuck.extend(bulkhead.compartment().stuck().into_iter().map(|stuck| {
                StuckThread {
                    bulkhead: bulkhead.name().to_owned(),
                    thread: bulkhead.compartment().thread_name_of(Some(stuck.worker)),
                    age: stuck.age,
                }
            }));
        }
    }
    report.finished = finished(bulkheads).saturating_sub(finished_before);
    report
}

fn finished(bulkheads: &[Bulkhead]) -> u64 {
    let totals = bulkheads.iter().map(|bulkhead| bulkhead.compartment().numbers().0.totals);
    totals.map(|totals| totals.returned + totals.panicked).sum()
}

/// Joins the threads of every bulkhead whose threads have all gone within `limit`. Says whether that
/// is every one.
pub(super) fn wait_for_threads(
    bulkheads: &[Bulkhead],
    threads: &Mutex<Threads>,
    limit: Duration,
) -> bool {
    let until = Instant::now().checked_add(limit);
    let mut all_gone = true;
    for (index, bulkhead) in bulkheads.iter().enumerate() {
        if bulkhead.compartment().wait_until_gone(until) > 0 {
            all_gone = false;
            continue;
        }
        all_gone &= bulkhead.compartment().wait_for_resources(until).is_empty();
        let gone = threads.lock().get_mut(index).map(std::mem::take).unwrap_or_default();
        for thread in gone {
            // They have run their last line, so this takes the moment that the system needs. Their
            // panics are caught where they happen, so there is none to pass on.
            let _ = thread.join();
        }
    }
    all_gone
}
