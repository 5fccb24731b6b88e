//! [`Context`]: what a running job may know about itself.

use std::fmt;
use std::time::Duration;

use super::abort::AbortGuard;
use super::here;
use super::job::Header;
use crate::error::Rejected;
use crate::time::{Clock, Deadline, MonotonicClock};
use crate::vitals::{Facts, Vitals};

/// Given to a job's closure: how much time is left, whether it should stop, and where it runs.
///
/// Nobody can stop a running closure from outside. One that takes long should look at
/// [`is_cancelled`](Context::is_cancelled) and [`remaining`](Context::remaining) now and then, and
/// pass the remaining time on to whatever it calls.
pub struct Context<'a> {
    job: &'a Header,
    vitals: &'a Vitals,
    clock: &'a dyn Clock,
    worker: usize,
}

impl<'a> Context<'a> {
    pub(crate) fn new(
        job: &'a Header,
        vitals: &'a Vitals,
        clock: &'a dyn Clock,
        worker: usize,
    ) -> Self {
        Self { job, vitals, clock, worker }
    }

    pub(crate) const fn facts(&self) -> &'static Facts {
        self.vitals.facts
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

    /// Whether nobody wants the result, or somebody has been told that it comes too late: from the
    /// moment that abort hooks may have acted. A coarse clock may see the deadline after its caller.
    #[cfg(all(feature = "r2d2", not(watertight_loom)))]
    pub(crate) fn is_unwanted(&self) -> bool {
        self.job.left.is_up() || self.is_cancelled()
    }

    /// Registers what frees this job when it is blocked and nobody wants its result any more.
    ///
    /// While the guard lives, `act` runs once if the job is cancelled, its call's deadline passes, or
    /// a shutdown's limit does; at once, if that has happened already. It is how a thread that waits
    /// on a silent server is got back: let it shut the socket down. It runs on the thread of whoever
    /// cancels, or whose own call's time has passed; otherwise on the bulkhead's timekeeper. So it must
    /// be quick, must not block, and must not wait for the job: while it blocks the timekeeper, limits of
    /// this bulkhead pass late. A panic in it is caught and counted.
    ///
    /// ```
    /// use std::io::Read;
    /// use std::net::{Shutdown, TcpListener, TcpStream};
    /// use watertight::{Bulkhead, Runtime};
    ///
    /// let silent = TcpListener::bind("127.0.0.1:0")?; // accepts, and never answers
    /// let address = silent.local_addr()?;
    /// let runtime = Runtime::builder().bulkhead(Bulkhead::builder("legacy").threads(1)).build()?;
    /// let legacy = runtime.bulkhead("legacy")?;
    ///
    /// let job = legacy.submit(move |ctx| -> std::io::Result<usize> {
    ///     let mut socket = TcpStream::connect(address)?;
    ///     let other_end = socket.try_clone()?;
    ///     let _guard = ctx.on_abort(move || drop(other_end.shutdown(Shutdown::Both)));
    ///     socket.read(&mut [0])
    /// })?;
    /// # let started = || legacy.snapshot().running == 1;
    /// # while !started() { std::thread::yield_now() }
    /// job.cancel();
    /// assert_eq!(job.join()??, 0); // the end of the stream, at once
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn on_abort(&self, act: impl Fn() + Send + Sync + 'static) -> AbortGuard<'_> {
        self.job.abort.on_abort(Box::new(act), || self.vitals.hook_panics.add(1))
    }

    /// The name of the bulkhead that it runs in.
    #[must_use]
    pub fn bulkhead(&self) -> &str {
        self.vitals.facts.name.as_str()
    }

    /// The index of the thread that it runs on, from 0.
    #[must_use]
    pub const fn worker(&self) -> usize {
        self.worker
    }
}

impl<F> Rejected<F> {
    /// Runs the refused closure on this thread, now, and returns its value.
    ///
    /// It is outside of the bulkhead: counted nowhere, bounded by nothing, and it takes this thread for
    /// as long as it likes. Its context has no deadline, or within a job that job's;
    /// [`worker`](Context::worker) is the number of the bulkhead's threads, which none of them has.
    ///
    /// ```
    /// use watertight::{Bulkhead, Runtime};
    ///
    /// let runtime = Runtime::builder().bulkhead(Bulkhead::builder("audit").threads(1)).build()?;
    /// let audit = runtime.bulkhead("audit")?;
    /// # runtime.shutdown(std::time::Duration::ZERO)?;
    ///
    /// let written = match audit.submit(|_| "written") {
    ///     Ok(handle) => handle.join()?,
    ///     Err(refused) => refused.run_here(),
    /// };
    /// assert_eq!(written, "written");
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Panics
    ///
    /// If the closure does.
    pub fn run_here<T>(self) -> T
    where
        F: FnOnce(&Context<'_>) -> T,
    {
        // It belongs to no compartment: nobody can withdraw it, wait for it, or abort it.
        let vitals = Vitals::new(self.facts());
        let header = Header::new(0, here::deadline());
        let job = self.into_job();
        job(&Context::new(&header, &vitals, &MonotonicClock, vitals.facts.threads))
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
