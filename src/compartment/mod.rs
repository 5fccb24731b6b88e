//! [`Compartment`]: one bulkhead's queue and threads behind one lock.
//!
//! Floor 2. The decisions are [`state`]'s. This file locks it, unlocks it, and only then tells
//! whoever has to be told: no user code, which is closures, destructors, wakers and hooks, runs
//! under a lock.
//!
//! The locks, none of which is ever taken while another is held:
//! - `locked`: the state machine.
//! - each job's slot and body (`job`, `slot`): its answer and its closure.
//! - each job's abort orders (`abort`): how to reach it while it is blocked.
//! - `life`, `resources`: which threads and connections are there.
//! - `descriptors`: how many the pools of the runtime have planned for.

mod abort;
mod affinity;
mod alarms;
mod closing;
mod context;
mod delivery;
mod descriptors;
mod door;
mod fifo;
#[cfg(all(test, not(any(watertight_loom, watertight_shuttle))))]
mod fuzz;
pub(crate) mod here;
mod histogram;
#[allow(dead_code, reason = "filled by the features `http` and `r2d2`, read by `prometheus`")]
mod holdings;
mod job;
mod leaving;
mod life;
mod peaks;
mod policy;
#[cfg(all(test, not(any(watertight_loom, watertight_shuttle))))]
mod reference;
mod resource;
mod scheduling;
mod slot;
mod state;
mod timekeeper;
mod totals;
mod worker;

use std::time::{Duration, Instant};

pub use self::abort::AbortGuard;
pub use self::affinity::Pinning;
pub(crate) use self::affinity::{HIGHEST_CORE, allowed_cores};
pub use self::context::Context;
use self::delivery::Mail;
pub(crate) use self::descriptors::Descriptors;
#[cfg(all(any(feature = "http", feature = "r2d2"), not(watertight_loom)))]
pub(crate) use self::descriptors::PlannedDescriptors;
use self::door::Door;
pub use self::histogram::Histogram;
pub(crate) use self::histogram::{DEFAULT_BOUNDS, MOST_BOUNDS};
#[allow(unused_imports, reason = "as for the module")]
pub(crate) use self::holdings::{Holdings, LookUpEnd, LookUps, Parting};
pub(crate) use self::job::{Header, Job, JobCell, Pending, Route, ToCaller};
pub(crate) use self::leaving::AfterWait;
use self::life::Life;
pub(crate) use self::life::Thread;
pub use self::life::ThreadKind;
pub use self::peaks::Peaks;
pub use self::policy::RejectionPolicy;
pub(crate) use self::policy::Rules;
pub(crate) use self::resource::Connections;
#[cfg(all(any(feature = "http", feature = "r2d2"), not(watertight_loom)))]
pub(crate) use self::resource::Resource;
use self::resource::Resources;
pub use self::scheduling::Scheduling;
pub(crate) use self::scheduling::{NICENESS, Precedence};
pub(crate) use self::slot::{Answer, AtDoor, Detached, Slot, Woken};
use self::state::State;
pub(crate) use self::state::{Admission, Numbers, Offer, Withdrawn};
pub use self::totals::Totals;
pub use self::worker::ThreadInfo;
pub(crate) use self::worker::{Hooks, ThreadHook};

use crate::error::{NotStarted, Rejection};
use crate::event::{AcceptedEvent, Observer, RejectedEvent};
use crate::sync::{Arc, AtomicU64, Condvar, Flag, Mutex, Ordering, Stripes, Tally, next_id};
use crate::time::{Clock, Deadline, MonotonicClock};
use crate::vitals::{Facts, Vitals};

/// What a compartment is made of.
pub(crate) struct Parts {
    pub(crate) runtime: u64,
    pub(crate) facts: &'static Facts,
    /// The bulkhead's name as far as a thread's name has room for it.
    pub(crate) label: String,
    pub(crate) rules: Rules,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) observer: Option<Arc<dyn Observer>>,
    pub(crate) hooks: Hooks,
    pub(crate) cores: Option<Arc<[usize]>>,
    pub(crate) precedence: Option<Precedence>,
    pub(crate) descriptors: Arc<Descriptors>,
}

/// See the module.
pub(crate) struct Compartment {
    pub(crate) id: u64,
    pub(crate) runtime: u64,
    pub(crate) vitals: Vitals,
    pub(crate) rules: Rules,
    label: String,
    clock: Arc<dyn Clock>,
    /// The clock only moves when told to, so that no timed wait can follow it.
    clock_is_driven: Flag,
    observer: Option<Arc<dyn Observer>>,
    hooks: Hooks,
    cores: Option<Arc<[usize]>>,
    precedence: Option<Precedence>,
    /// Of the whole runtime.
    #[cfg_attr(not(any(feature = "http", feature = "r2d2")), allow(dead_code))]
    descriptors: Arc<Descriptors>,

    locked: Mutex<Locked>,
    /// Idle workers sleep here. They are all alike, so waking any is as good as another.
    work: Condvar,
    /// The timekeeper sleeps here.
    time: Condvar,
    /// What a newcomer may know without the lock: the last `Door`, packed. Written under the lock.
    door: AtomicU64,
    /// Jobs that wait for a thread, for workers that look before they sleep.
    ready: Tally,

    /// By reason; the last is every arrival.
    counts: Stripes<{ Rejection::COUNT + 1 }>,
    drop_panics: Tally,

    resources: Mutex<Resources>,

    life: Mutex<Life>,
    life_changed: Condvar,
}

struct Locked {
    state: State<Arc<dyn Job>>,
    /// Wake-ups that have been sent and not yet received. A worker that wakes without one goes back
    /// to sleep, so that the counts of the state machine stay true.
    wake_ups: usize,
    /// The timekeeper has something to look at.
    tick: bool,
    /// Ended jobs whose closures the timekeeper drops, so that whoever shuts down or takes a
    /// snapshot runs no stranger's destructor.
    discards: Vec<(Arc<dyn Job>, NotStarted)>,
    /// Running jobs that are to stop, whose abort hooks the timekeeper runs for the same reason.
    aborts: Vec<Arc<dyn Job>>,
    published: u64,
}

impl Compartment {
    pub(crate) fn new(parts: Parts) -> Self {
        let threads = parts.rules.threads;
        Self {
            id: next_id(),
            runtime: parts.runtime,
            vitals: Vitals::new(parts.facts),
            rules: parts.rules.clone(),
            label: parts.label,
            clock: parts.clock,
            clock_is_driven: Flag::new(),
            observer: parts.observer,
            hooks: parts.hooks,
            cores: parts.cores,
            precedence: parts.precedence,
            descriptors: parts.descriptors,
            locked: Mutex::new(Locked {
                state: State::new(parts.rules),
                wake_ups: 0,
                tick: false,
                discards: Vec::new(),
                aborts: Vec::new(),
                published: 0,
            }),
            work: Condvar::new(),
            time: Condvar::new(),
            door: AtomicU64::new(0),
            ready: Tally::new(0),
            counts: Stripes::new(),
            drop_panics: Tally::new(0),
            resources: Mutex::new(Resources::default()),
            life: Mutex::new(Life::new(threads)),
            life_changed: Condvar::new(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        self.vitals.facts.name.as_str()
    }

    /// The name of worker number `worker`, or of the timekeeper.
    pub(crate) fn thread_name_of(&self, worker: Option<usize>) -> String {
        thread_name(&self.label, worker)
    }

    /// The name of a helper thread. One letter fits wherever a worker's number does.
    #[cfg(all(any(feature = "http", feature = "r2d2"), not(watertight_loom)))]
    pub(crate) fn helper_name(&self, letter: char) -> String {
        format!("wt-{}-{letter}", self.label)
    }

    /// The present instant by the user's clock. A clock that panics is counted as a hook that does,
    /// and its last reading stands in for the missing one: so no thread, no slot and no answer is
    /// lost with it.
    ///
    /// LOCK: free, since the clock is user code.
    pub(crate) fn now(&self) -> Instant {
        let mut now = None;
        self.contain_hook(|| now = Some(self.clock.now()));
        now.or_else(|| self.locked.lock().state.latest()).unwrap_or_else(|| MonotonicClock.now())
    }

    /// Says that limits are checked when the clock is moved, and not by waiting.
    pub(crate) fn follow_driven_clock(&self) {
        self.clock_is_driven.raise();
    }

    /// Whether a blocked caller can watch its own limits.
    pub(crate) fn callers_keep_time(&self) -> bool {
        !self.clock_is_driven.is_up()
    }

    // ===== at the door =====

    /// Counts a call that has come, whatever becomes of it.
    #[inline]
    pub(crate) fn count_arrival(&self) {
        self.counts.bump(Rejection::COUNT);
    }

    /// Whether a newcomer is refused for sure: without the lock, the clock, or an allocation.
    ///
    /// ORDERING: Acquire, against the Release in `seal`. The word is written under the lock that
    /// every release of a slot takes; so a newcomer whose caller has seen an answer sees a word at
    /// least as new as the slot that this answer freed.
    #[inline]
    pub(crate) fn turns_away(&self, may_wait: bool) -> Option<(Rejection, usize)> {
        let door = Door::unpack(self.door.load(Ordering::Acquire));
        if door.closed {
            return Some((Rejection::ShuttingDown, door.queued));
        }
        if !door.full {
            return None;
        }
        match self.rules.policy {
            RejectionPolicy::Wait { .. } if may_wait => {
                door.crowded.then_some((Rejection::TooManyWaiting, door.waiting))
            }
            _ => Some((Rejection::QueueFull, self.rules.queue)),
        }
    }

    /// Counts a refusal and tells the observer.
    #[inline]
    pub(crate) fn count_refusal(&self, why: Rejection) {
        self.counts.bump(why.index());
        if self.observer.is_some() {
            self.tell_of_refusal(why);
        }
    }

    #[cold]
    fn tell_of_refusal(&self, why: Rejection) {
        self.observe(|observer| {
            observer.on_rejected(&RejectedEvent { bulkhead: self.name(), reason: why });
        });
    }

    /// How long the line is that a refusal for this reason speaks of.
    pub(crate) fn depth_for(&self, why: Rejection) -> usize {
        let door = Door::unpack(self.door.load(Ordering::Acquire));
        if why == Rejection::TooManyWaiting { door.waiting } else { door.queued }
    }

    pub(crate) fn offer(
        &self,
        job: Arc<dyn Job>,
        patience: Deadline,
        covered: bool,
        may_wait: bool,
    ) -> Admission<Arc<dyn Job>> {
        let deadline = job.header().deadline;
        let in_chain =
            here::current_job().is_some_and(|current| here::is_waited_for_by(&current, self.id));
        let awaited = in_chain && job.header().waited_by.lock().is_some();
        let estimate = if self.rules.refuse_late {
            let queued = Door::unpack(self.door.load(Ordering::Acquire)).queued;
            let ahead = queued.saturating_add(1);
            self.vitals.facts.time_for(ahead, self.vitals.pace())
        } else {
            None
        };
        let offer =
            Offer { job, deadline, patience, covered, may_wait, in_chain, awaited, estimate };

        let now = self.now();
        let mut mail = Mail::new();
        let admission = {
            let mut locked = self.locked.lock();
            let admission = locked.state.admit(offer, now, &mut mail);
            self.seal(&mut locked, &mail);
            admission
        };
        self.deliver(&mail);
        if matches!(admission, Admission::Accepted(_)) {
            self.observe(|observer| {
                observer.on_accepted(&AcceptedEvent { bulkhead: self.name() });
            });
        }
        admission
    }

    // ===== numbers =====

    /// The numbers at this instant, how many running jobs are overdue.
    pub(crate) fn numbers(&self) -> (Numbers, usize) {
        let now = self.now();
        let mut mail = Mail::new();
        let numbers = {
            let mut locked = self.locked.lock();
            locked.state.sweep(now, &mut mail);
            self.seal(&mut locked, &mail);
            self.leave_to_timekeeper(&mut locked, &mail);
            let numbers = locked.state.numbers(now);
            let left = |(_, job, _): &(usize, &Arc<dyn Job>, Duration)| job.header().left.is_up();
            let overdue = locked.state.running(now).filter(left).count();
            (numbers, overdue)
        };
        self.deliver_keeping(&mail);
        numbers
    }

    /// Whether anybody is let in.
    #[cfg(all(feature = "prometheus", not(watertight_loom)))]
    pub(crate) fn is_open(&self) -> bool {
        !Door::unpack(self.door.load(Ordering::Acquire)).closed
    }

    pub(crate) fn refusals(&self, why: Rejection) -> u64 {
        self.counts.sum(why.index())
    }

    /// Read after the refusals, so that it is never less than what became of the arrivals.
    pub(crate) fn arrivals(&self) -> u64 {
        self.counts.sum(Rejection::COUNT)
    }

    pub(crate) fn hook_panics(&self) -> u64 {
        self.vitals.hook_panics.get()
    }

    pub(crate) fn drop_panics(&self) -> u64 {
        self.drop_panics.get()
    }
}

/// What the system shows of a thread: which bulkhead's, and which of its.
pub(crate) fn thread_name(label: &str, worker: Option<usize>) -> String {
    match worker {
        Some(worker) => format!("wt-{label}-{worker}"),
        None => format!("wt-{label}-t"),
    }
}

impl std::fmt::Debug for Compartment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compartment")
            .field("name", &self.name())
            .field("rules", &self.rules)
            .finish_non_exhaustive()
    }
}
