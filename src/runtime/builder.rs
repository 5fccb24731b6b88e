//! [`RuntimeBuilder`]: the whole plan is checked before one thread is started.

use std::collections::HashSet;
use std::fmt;
use std::io;
use std::time::Duration;

use super::plan::labels;
use super::shutdown::{Threads, close_now, wait_for_threads};
use super::system::SystemLimits;
use super::{BulkheadPlan, Plan, Runtime, cores};
use crate::bulkhead::{Bulkhead, BulkheadBuilder, Settings};
use crate::compartment::{Compartment, Parts, allowed_cores, thread_name};
use crate::error::{BuildError, BuildErrorKind};
use crate::event::Observer;
use crate::sync::{Arc, Mutex, OwnerArc, ThreadSpec, next_id};
use crate::time::{Clock, MonotonicClock};

/// Describes a runtime. Made by [`Runtime::builder`].
#[must_use = "a description does nothing until it is built"]
pub struct RuntimeBuilder {
    bulkheads: Vec<BulkheadBuilder>,
    home: Option<String>,
    clock: Arc<dyn Clock>,
    observer: Option<Arc<dyn Observer>>,
    drop_wait: Duration,
}

impl RuntimeBuilder {
    pub(super) fn new() -> Self {
        Self {
            bulkheads: Vec::new(),
            home: None,
            clock: Arc::new(MonotonicClock),
            observer: None,
            drop_wait: Duration::from_secs(1),
        }
    }

    /// Adds a bulkhead. Two of the same name are an error.
    pub fn bulkhead(mut self, bulkhead: BulkheadBuilder) -> Self {
        self.bulkheads.push(bulkhead);
        self
    }

    /// Declares one bulkhead the home of work that has no name of its own:
    /// [`Runtime::home`] returns it. It is never an overflow for the others. Defaults to none.
    pub fn home(mut self, bulkhead: impl Into<String>) -> Self {
        self.home = Some(bulkhead.into());
        self
    }

    /// Replaces the clock. Defaults to [`MonotonicClock`].
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Sets who is told what happens. Defaults to nobody.
    pub fn observer(mut self, observer: impl Observer) -> Self {
        self.observer = Some(Arc::new(observer));
        self
    }

    /// How long dropping the runtime waits for running jobs, before it detaches their threads.
    ///
    /// Zero does not wait, [`Duration::MAX`] waits until they are done. Defaults to one second: long enough for well-behaved jobs, and short
    /// enough that a hung dependency does not keep the process.
    pub fn drop_wait(mut self, limit: Duration) -> Self {
        self.drop_wait = limit;
        self
    }

    /// Checks everything, then starts every thread.
    ///
    /// # Errors
    ///
    /// [`BuildError`] with the first thing that is wrong: a setting, two bulkheads of one name, cores,
    /// more threads than the system allows, or a thread that it did not start. Then nothing is left
    /// behind: if a thread cannot be started, those that were are gone when this returns.
    pub fn build(self) -> Result<Runtime, BuildError> {
        let Self { bulkheads, home, clock, observer, drop_wait } = self;
        let settings: Vec<Settings> =
            bulkheads.into_iter().map(BulkheadBuilder::check).collect::<Result<_, _>>()?;
        refuse_duplicates(&settings)?;
        let home = home.map(|name| find_home(&settings, &name)).transpose()?;
        let mut plan = plan(&settings)?;

        let id = next_id();
        let descriptors = Arc::default();
        let labels: Vec<_> =
            settings.iter().map(|one| (one.name.as_str(), one.rules.threads)).collect();
        let labels = self::labels(&labels);
        let mut bulkheads = Vec::with_capacity(settings.len());
        let mut stack_sizes = Vec::with_capacity(settings.len());
        for ((one, label), planned) in settings.into_iter().zip(labels).zip(&plan.bulkheads) {
            stack_sizes.push(one.stack_size);
            bulkheads.push(Bulkhead::new(OwnerArc::new(Compartment::new(Parts {
                runtime: id,
                facts: one.rules.facts(one.name, one.call_limit).keep(),
                label,
                rules: one.rules,
                clock: Arc::clone(&clock),
                observer: observer.clone(),
                hooks: one.hooks,
                cores: planned.cores.as_deref().map(Arc::from),
                precedence: one.precedence,
                descriptors: Arc::clone(&descriptors),
            }))));
        }

        let watcher = watch(&*clock, &bulkheads);
        let threads = start(&bulkheads, &stack_sizes)?;
        for (bulkhead, planned) in bulkheads.iter().zip(&mut plan.bulkheads) {
            (planned.pinning, planned.scheduling) =
                bulkhead.compartment().wait_until_all_are_here();
        }
        for bulkhead in &bulkheads {
            bulkhead.compartment().open(true);
        }
        Ok(Runtime {
            id,
            bulkheads: bulkheads.into(),
            home,
            plan,
            drop_wait,
            threads: Mutex::new(threads),
            _watcher: watcher,
        })
    }
}

fn refuse_duplicates(settings: &[Settings]) -> Result<(), BuildError> {
    let mut seen = HashSet::new();
    match settings.iter().find(|one| !seen.insert(&one.name)) {
        None => Ok(()),
        Some(twin) => Err(BuildError::new(
            BuildErrorKind::DuplicateName,
            Some(twin.name.as_str()),
            "name",
            "is used twice; each bulkhead needs a name of its own",
        )),
    }
}

fn find_home(settings: &[Settings], name: &str) -> Result<usize, BuildError> {
    settings.iter().position(|one| one.name.as_str() == name).ok_or_else(|| {
        let known: Vec<_> = settings.iter().map(|one| one.name.as_str()).collect();
        let problem = format!("names {name:?}, which is none of the bulkheads {known:?}");
        BuildError::new(BuildErrorKind::InvalidSetting, None, "home", problem)
    })
}

fn plan(settings: &[Settings]) -> Result<Plan, BuildError> {
    let limits = SystemLimits::read();
    // One timekeeper each. The sum cannot overflow: each number has been checked to be small.
    let threads: usize = settings.iter().map(|one| one.rules.threads + 1).sum();
    if let Some((limit, source)) = limits.threads {
        if threads as u64 > limit {
            let largest = settings.iter().max_by_key(|one| one.rules.threads);
            return Err(BuildError::new(
                BuildErrorKind::ThreadLimit,
                largest.map(|one| one.name.as_str()),
                "threads",
                format!(
                    "has the largest part of {threads} threads in all, but {source} leaves this \
                     process {limit}; lower it, or raise the limit"
                ),
            ));
        }
    }
    let requests: Vec<_> =
        settings.iter().map(|one| (one.name.as_str(), one.cores.as_ref())).collect();
    let wants_cores = requests.iter().any(|(_, request)| request.is_some());
    // An unknown mask matters only to those who want to be pinned.
    let allowed = match allowed_cores() {
        Ok(allowed) => allowed,
        Err(error) if wants_cores => {
            return Err(BuildError::new(
                BuildErrorKind::Cores,
                None,
                "cores",
                "cannot be planned, since the system does not say which cores there are",
            )
            .caused_by(error));
        }
        Err(_) => None,
    };
    let assigned = cores::assign(&requests, allowed.as_deref().unwrap_or_default())?;
    let mut warnings = Vec::new();
    let pinned: usize = assigned.iter().flatten().map(Vec::len).sum();
    if let Some(quota) = limits.cpu_quota {
        #[expect(clippy::cast_precision_loss, reason = "there are at most 1024 cores")]
        let more_than_quota = pinned as f64 > quota;
        if more_than_quota {
            warnings.push(format!(
                "bulkheads are pinned to {pinned} cores, but the container's CPU quota is {quota} \
                 cores: they will be throttled together"
            ));
        }
    }
    let names: Vec<_> = settings.iter().map(|one| (one.name.as_str(), one.rules.threads)).collect();
    let bulkheads =
        settings.iter().zip(labels(&names)).zip(assigned).map(|((one, label), cores)| {
            let workers = (0..one.rules.threads).map(|worker| thread_name(&label, Some(worker)));
            BulkheadPlan {
                bulkhead: one.name.as_str().to_owned(),
                threads: workers.chain([thread_name(&label, None)]).collect(),
                cores,
                pinning: Vec::new(),
                scheduling: Vec::new(),
            }
        });
    Ok(Plan {
        bulkheads: bulkheads.collect(),
        allowed_cores: allowed,
        cpu_quota: limits.cpu_quota,
        thread_limit: limits.threads.map(|(limit, _)| limit),
        threads,
        warnings,
    })
}

/// Has the clock tell the timekeepers when it jumps, if it is one that does.
fn watch(clock: &dyn Clock, bulkheads: &[Bulkhead]) -> Arc<dyn Fn() + Send + Sync> {
    let those = bulkheads.to_vec();
    let watcher: Arc<dyn Fn() + Send + Sync> = Arc::new(move || {
        for bulkhead in &those {
            bulkhead.compartment().clock_moved();
        }
    });
    if clock.watch(Arc::downgrade(&watcher)) {
        for bulkhead in bulkheads {
            bulkhead.compartment().follow_driven_clock();
        }
    }
    watcher
}

/// Starts every thread, or none: they run no user code before all of them are there.
fn start(bulkheads: &[Bulkhead], stack_sizes: &[Option<usize>]) -> Result<Threads, BuildError> {
    let mut building = Building { bulkheads, threads: Mutex::new(Vec::new()), complete: false };
    let mut started = 0;
    for (bulkhead, stack_size) in bulkheads.iter().zip(stack_sizes) {
        let compartment = bulkhead.compartment();
        building.threads.lock().push(Vec::new());
        // A bulkhead that asks for a large stack asks for it for its jobs; its timekeeper has none.
        let workers = (0..compartment.rules.threads).map(|worker| (Some(worker), *stack_size));
        for (worker, stack_size) in workers.chain([(None, None)]) {
            let spec = ThreadSpec { name: compartment.thread_name_of(worker), stack_size };
            let thread = Compartment::start_thread(compartment, spec, worker)
                .map_err(|error| spawn_error(compartment, started, stack_size, error))?;
            started += 1;
            // PANIC: this bulkhead's list was pushed before its first thread.
            building.threads.lock().last_mut().expect("pushed above").push(thread);
        }
    }
    building.complete = true;
    Ok(std::mem::take(&mut *building.threads.lock()))
}

fn spawn_error(
    compartment: &Compartment,
    started: usize,
    stack_size: Option<usize>,
    error: io::Error,
) -> BuildError {
    let wanted = compartment.rules.threads;
    let of_size =
        stack_size.map(|bytes| format!(", each with a stack of {bytes} bytes")).unwrap_or_default();
    let problem = format!(
        "asks for {wanted}{of_size}, but the system refused to start one after {started} threads of \
         the runtime; those have been stopped again; ask for fewer, or raise the system's limits on threads and memory"
    );
    BuildError::new(BuildErrorKind::Spawn, Some(compartment.name()), "threads", problem)
        .caused_by(error)
}

/// A runtime whose threads are being started; if it goes before it is complete, so do they.
struct Building<'a> {
    bulkheads: &'a [Bulkhead],
    threads: Mutex<Threads>,
    complete: bool,
}

impl Drop for Building<'_> {
    fn drop(&mut self) {
        if self.complete {
            return;
        }
        for bulkhead in self.bulkheads {
            bulkhead.compartment().open(false);
        }
        close_now(self.bulkheads);
        // No user code has run on them, so they go at once.
        wait_for_threads(self.bulkheads, &self.threads, Duration::MAX);
    }
}

impl fmt::Debug for RuntimeBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bulkheads, home, clock: _, observer, drop_wait } = self;
        f.debug_struct("RuntimeBuilder")
            .field("bulkheads", bulkheads)
            .field("home", home)
            .field("observer", &observer.is_some())
            .field("drop_wait", drop_wait)
            .finish_non_exhaustive()
    }
}
