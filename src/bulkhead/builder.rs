//! [`BulkheadBuilder`]: the description of one bulkhead.

use std::fmt;
use std::time::Duration;

use crate::compartment::{
    DEFAULT_BOUNDS, Hooks, MOST_BOUNDS, NICENESS, Precedence, RejectionPolicy, Rules, ThreadInfo,
};
use crate::error::{BuildError, BuildErrorKind};
use crate::name::Name;
use crate::sync::Arc;

/// Describes one bulkhead. Made by [`Bulkhead::builder`](crate::Bulkhead::builder), checked by
/// [`RuntimeBuilder::build`](crate::RuntimeBuilder::build).
#[must_use = "a description does nothing until a runtime is built from it"]
#[derive(Clone)]
pub struct BulkheadBuilder {
    name: String,
    threads: usize,
    queue: Option<usize>,
    policy: RejectionPolicy,
    queue_limit: Option<Duration>,
    call_limit: Option<Duration>,
    refuse_late: bool,
    wait_bounds: Vec<Duration>,
    run_bounds: Vec<Duration>,
    cores: Option<CoreRequest>,
    niceness: Option<i32>,
    #[cfg(feature = "background")]
    background: bool,
    stack_size: Option<usize>,
    hooks: Hooks,
}

/// Which cores a bulkhead asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CoreRequest {
    These(Vec<usize>),
    Any(usize),
}

/// The most places and waiting callers that one bulkhead may have: two orders of magnitude
/// beyond what has been measured to be useful, and small enough that no sum overflows.
const MOST: usize = 1 << 30;

/// The most threads: what Linux can have in all. Something is kept for each, started or not.
const MOST_THREADS: usize = 1 << 22;

/// A description that has been checked.
pub(crate) struct Settings {
    pub(crate) name: Name,
    pub(crate) rules: Rules,
    pub(crate) call_limit: Option<Duration>,
    pub(crate) cores: Option<CoreRequest>,
    pub(crate) precedence: Option<Precedence>,
    pub(crate) stack_size: Option<usize>,
    pub(crate) hooks: Hooks,
}

impl BulkheadBuilder {
    pub(super) fn new(name: String) -> Self {
        Self {
            name,
            threads: 0,
            queue: None,
            policy: RejectionPolicy::Reject,
            queue_limit: None,
            call_limit: Some(Duration::from_secs(1)),
            refuse_late: false,
            wait_bounds: DEFAULT_BOUNDS.to_vec(),
            run_bounds: DEFAULT_BOUNDS.to_vec(),
            cores: None,
            niceness: None,
            #[cfg(feature = "background")]
            background: false,
            stack_size: None,
            hooks: Hooks::default(),
        }
    }

    /// How many threads the bulkhead has, and so how many of its jobs run at once.
    ///
    /// The setting has no default. By Little's law it is the calls per second times the seconds that
    /// one takes, with room to spare: 150 calls/s of 15 ms keep 2.25 threads busy. Zero is an error, and
    /// so are more than 4,194,304, or more than the system allows.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// How many jobs may be queued while every thread is taken. Zero hands jobs directly to threads.
    ///
    /// Defaults to the number of threads: enough for a burst, and no more waiting than one job's
    /// run time. More than 1,073,741,824 is an error.
    pub fn queue(mut self, places: usize) -> Self {
        self.queue = Some(places);
        self
    }

    /// What a full queue does with one more job. Defaults to [`RejectionPolicy::Reject`].
    pub fn rejection(mut self, policy: RejectionPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// The longest that a job may be queued; then it ends unstarted.
    ///
    /// Zero means that a job starts at once or not at all; [`Duration::MAX`] means no limit, as does
    /// the default.
    pub fn queue_limit(mut self, limit: Duration) -> Self {
        self.queue_limit = (limit != Duration::MAX).then_some(limit);
        self
    }

    /// The longest that [`call`](crate::Bulkhead::call) and
    /// [`call_async`](crate::Bulkhead::call_async) may take as a whole.
    ///
    /// Defaults to one second, as in most systems of this kind: a caller that waits without limit is
    /// how one slow dependency takes every thread. [`Duration::MAX`] means no limit. Zero is an
    /// error: no call could be made.
    pub fn call_limit(mut self, limit: Duration) -> Self {
        self.call_limit = (limit != Duration::MAX).then_some(limit);
        self
    }

    /// Lets calls take as long as they take, as a [`call_limit`](BulkheadBuilder::call_limit) of
    /// [`Duration::MAX`] does. For work that has a limit of its own.
    pub fn no_deadline(mut self) -> Self {
        self.call_limit = None;
        self
    }

    /// Refuses a job at once if, by the bulkhead's recent pace, it would be started after its
    /// deadline or its queue limit. Defaults to `false`: the pace is an estimate, and a job that is
    /// tried may still make it.
    pub fn refuse_late(mut self, refuse: bool) -> Self {
        self.refuse_late = refuse;
        self
    }

    /// The bounds of the buckets that waits before a start are counted in: ascending, above zero, at
    /// most 64, each included in its bucket. What exceeds the last is counted by itself.
    ///
    /// Defaults to 17 bounds from 100 microseconds to 30 seconds. Others make sense if the queue limit
    /// lies between two of them. With none at all, waits are only counted and added up.
    pub fn wait_buckets(mut self, bounds: impl IntoIterator<Item = Duration>) -> Self {
        self.wait_bounds = bounds.into_iter().take(MOST_BOUNDS + 1).collect();
        self
    }

    /// The bounds of the buckets that run times are counted in, as for
    /// [`wait_buckets`](BulkheadBuilder::wait_buckets), and with the same default. Others make sense if
    /// the call limit lies between two of them.
    pub fn run_buckets(mut self, bounds: impl IntoIterator<Item = Duration>) -> Self {
        self.run_bounds = bounds.into_iter().take(MOST_BOUNDS + 1).collect();
        self
    }

    /// Pins the bulkhead's threads to these cores, which no other bulkhead may have.
    ///
    /// On Linux each thread may run on any of them; elsewhere it gets one of them. Overlaps, cores
    /// that the process may not use, and ids above 1023 are errors. Defaults to no pinning.
    pub fn cores(mut self, cores: impl IntoIterator<Item = usize>) -> Self {
        self.cores = Some(CoreRequest::These(cores.into_iter().collect()));
        self
    }

    /// Pins the bulkhead's threads to this many cores, chosen from those that no bulkhead names, in
    /// ascending order. More than there are is an error. Defaults to no pinning.
    pub fn core_count(mut self, cores: usize) -> Self {
        self.cores = Some(CoreRequest::Any(cores));
        self
    }

    /// How nice the bulkhead's workers are to other threads that want the processor, from -20 to 19:
    /// with 19 they get about a seventieth of what a thread of niceness 0 gets beside them. What nobody
    /// else wants they get all the same. Other numbers are errors.
    ///
    /// For work that may be late, beside work that may not, where [`cores`](BulkheadBuilder::cores)
    /// cannot be divided. It works on Linux; what became of it is in the
    /// [plan](crate::BulkheadPlan::scheduling), and a refusal of the system costs no thread. Defaults
    /// to the niceness of the thread that builds the runtime.
    ///
    /// **There is no way back.** A process without privileges (`CAP_SYS_NICE`, or `RLIMIT_NICE`) may
    /// raise a thread's niceness, and not lower it again; so it is set once, when the thread starts,
    /// and a negative one is likely to be denied. Threads that a job starts inherit it.
    ///
    /// Only workers have it. The timekeeper stays as it is, so that callers have their errors in time
    /// while the workers starve. A nice thread that holds a lock is still nice: a job should share no
    /// lock with work that is in a hurry. The bulkhead's own lock, held for some microseconds at each
    /// start and end of a job, is one that only its own callers share.
    pub fn niceness(mut self, niceness: i32) -> Self {
        self.niceness = Some(niceness);
        self
    }

    /// Puts the bulkhead's workers into the system's idle class (`SCHED_IDLE`):
    /// whenever any other thread wants their processor, they are pushed aside at once. For work that
    /// may starve, such as thumbnails, reports and clean-up; together with
    /// [`cores`](BulkheadBuilder::cores) it is the strongest wall that a process can build between two
    /// kinds of CPU-heavy work.
    ///
    /// Everything that [`niceness`](BulkheadBuilder::niceness) says holds here too, above all that
    /// there is no way back. Both together are an error. Defaults to the ordinary class.
    #[cfg(feature = "background")]
    #[cfg_attr(docsrs, doc(cfg(feature = "background")))]
    pub fn background(mut self) -> Self {
        self.background = true;
        self
    }

    /// The stack of each worker in bytes. Defaults to the platform's, usually 2 MiB; memory is used
    /// as it is touched, so a larger one costs address space only. Zero is an error.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = Some(bytes);
        self
    }

    /// Runs on each worker thread before its first job. A panic in it is caught and counted, and the
    /// thread serves all the same.
    pub fn on_thread_start(
        mut self,
        hook: impl Fn(&ThreadInfo<'_>) + Send + Sync + 'static,
    ) -> Self {
        self.hooks.start = Some(Arc::new(hook));
        self
    }

    /// Runs on each worker thread after its last job. A panic in it is caught and counted.
    pub fn on_thread_stop(
        mut self,
        hook: impl Fn(&ThreadInfo<'_>) + Send + Sync + 'static,
    ) -> Self {
        self.hooks.stop = Some(Arc::new(hook));
        self
    }

    pub(crate) fn check(self) -> Result<Settings, BuildError> {
        let label = self.name.clone();
        let wrong = |setting, problem: String| {
            BuildError::new(BuildErrorKind::InvalidSetting, Some(&label), setting, problem)
        };
        let name = Name::new(&self.name).map_err(|problem| wrong("name", problem))?;
        if self.threads == 0 {
            return Err(wrong(
                "threads",
                "is 0 or was not set; state how many jobs may run at once, at least 1".into(),
            ));
        }
        let queue = self.queue.unwrap_or(self.threads);
        let submitters = match self.policy {
            RejectionPolicy::Wait { submitters, .. } => submitters,
            _ => 0,
        };
        for (setting, value, most) in [
            ("threads", self.threads, MOST_THREADS),
            ("queue", queue, MOST),
            ("submitters", submitters, MOST),
        ] {
            if value > most {
                return Err(wrong(setting, format!("is {value}; at most {most} is allowed")));
            }
        }
        match self.policy {
            RejectionPolicy::DropOldest if queue == 0 => {
                return Err(wrong(
                    "queue",
                    "is 0, which leaves `DropOldest` nothing to drop; give it at least 1, or choose \
                     `Reject`"
                        .into(),
                ));
            }
            RejectionPolicy::Wait { submitters: 0, .. } => {
                return Err(wrong(
                    "submitters",
                    "is 0, so that no caller may wait; allow at least 1, or choose `Reject`".into(),
                ));
            }
            _ => {}
        }
        if self.call_limit.is_some_and(|limit| limit.is_zero()) {
            return Err(wrong(
                "call_limit",
                "is zero, so that every call would be too late; use `no_deadline()` for no limit"
                    .into(),
            ));
        }
        if self.stack_size == Some(0) {
            return Err(wrong("stack_size", "is 0 bytes; leave it unset for the default".into()));
        }
        for (setting, bounds) in
            [("wait_buckets", &self.wait_bounds), ("run_buckets", &self.run_bounds)]
        {
            check_bounds(bounds).map_err(|problem| wrong(setting, problem))?;
        }
        let precedence = self.precedence().map_err(|problem| wrong("niceness", problem))?;
        let rules = Rules {
            threads: self.threads,
            queue,
            policy: self.policy,
            queue_limit: self.queue_limit,
            refuse_late: self.refuse_late,
            wait_bounds: self.wait_bounds.into(),
            run_bounds: self.run_bounds.into(),
        };
        let (call_limit, cores) = (self.call_limit, self.cores);
        Ok(Settings {
            name,
            rules,
            call_limit,
            cores,
            precedence,
            stack_size: self.stack_size,
            hooks: self.hooks,
        })
    }
}

fn check_bounds(bounds: &[Duration]) -> Result<(), String> {
    if bounds.len() > MOST_BOUNDS {
        return Err(format!("has more than {MOST_BOUNDS} bounds, which is the most; choose fewer"));
    }
    if bounds.first().is_some_and(Duration::is_zero) {
        return Err("begins with zero, which nothing is below; begin above it".into());
    }
    match bounds.windows(2).find(|two| two[0] >= two[1]) {
        Some(two) => {
            Err(format!("has {:?} before {:?}; sort the bounds, each once", two[0], two[1]))
        }
        None => Ok(()),
    }
}

impl BulkheadBuilder {
    fn precedence(&self) -> Result<Option<Precedence>, String> {
        #[cfg(feature = "background")]
        if self.background {
            return match self.niceness {
                None => Ok(Some(Precedence::Background)),
                Some(niceness) => Err(format!(
                    "is {niceness}, but the bulkhead is in the background, where niceness means \
                     nothing; choose one of them"
                )),
            };
        }
        let (least, most) = (NICENESS.start(), NICENESS.end());
        match self.niceness {
            Some(niceness) if !NICENESS.contains(&niceness) => {
                Err(format!("is {niceness}; it goes from {least} to {most}, the nicest"))
            }
            niceness => Ok(niceness.map(Precedence::Niceness)),
        }
    }
}

impl fmt::Debug for BulkheadBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Taken apart in full, so that a new setting cannot be forgotten here.
        let Self {
            name,
            threads,
            queue,
            policy,
            queue_limit,
            call_limit,
            refuse_late,
            wait_bounds,
            run_bounds,
            cores,
            niceness,
            #[cfg(feature = "background")]
            background,
            stack_size,
            hooks,
        } = self;
        let mut text = f.debug_struct("BulkheadBuilder");
        #[cfg(feature = "background")]
        text.field("background", background);
        text.field("name", name)
            .field("threads", threads)
            .field("queue", queue)
            .field("rejection", policy)
            .field("queue_limit", queue_limit)
            .field("call_limit", call_limit)
            .field("refuse_late", refuse_late)
            .field("wait_buckets", wait_bounds)
            .field("run_buckets", run_bounds)
            .field("cores", cores)
            .field("niceness", niceness)
            .field("stack_size", stack_size)
            .field("hooks", hooks)
            .finish()
    }
}
