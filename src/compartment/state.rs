//! [`State`]: what a compartment decides, as a pure state machine.
//!
//! It knows no lock, no clock, no thread: every operation takes `now`, changes the numbers, and
//! writes into an [`Outbox`] whom to tell. The locked wrapper around it delivers the outbox once
//! the lock is free. So the decisions are tested against a reference in a table of operations, and
//! loom tests the wrapper.
//!
//! Where a job can be, and what moves it on:
//!
//! ```text
//!            admit                    fill                  fill                take
//! (offered) ───────► waiting ─────────────────► queued ───────────────► ready ────────► running
//!     │                 │ a caller without       │ has a place,           │ has a slot,    │
//!     │                 │ a place                │ no slot                │ no thread yet  │ release
//!     ▼                 ▼                        ▼                        ▼                ▼
//!  refused           refused                  not started             not started    returned, panicked
//! ```
//!
//! A job skips the stations that it need not stop at: from rest, `admit` goes straight to `ready`.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use smallvec::SmallVec;

use super::alarms::Alarms;
use super::fifo::Fifo;
use super::totals::Totals;
use crate::error::Rejection;
use crate::event::Outcome;
use crate::time::Deadline;

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
}

impl Rules {
    pub(crate) fn submitters(&self) -> usize {
        match self.policy {
            RejectionPolicy::Wait { submitters, .. } => submitters,
            _ => 0,
        }
    }
}

/// One job at the door.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "four independent facts about one submission")]
pub(crate) struct Offer<J> {
    pub(crate) job: J,
    /// The whole call's.
    pub(crate) deadline: Deadline,
    /// How long the caller can wait for a place; never later than `deadline`.
    pub(crate) patience: Deadline,
    /// A blocked caller watches this job's limits itself.
    pub(crate) covered: bool,
    /// Whether it may wait for a place, where the policy allows it.
    pub(crate) may_wait: bool,
    /// Whether it comes from a job that a worker of this compartment waits for, or runs: so its
    /// submitter must not wait for a place here.
    pub(crate) in_chain: bool,
    /// Whether that job is going to wait for it too, so that it must not even queue.
    pub(crate) awaited: bool,
    /// How long it would take this job to be started, if that is known and matters.
    pub(crate) estimate: Option<Duration>,
}

/// What became of an offer.
#[derive(Debug)]
pub(crate) enum Admission<J> {
    /// It has a slot or a place. It may have ended already, by a limit of zero.
    Accepted(u64),
    /// It stands in line for a place.
    Waiting(u64),
    Refused(J, Rejection),
}

/// What a withdrawal found.
#[derive(Debug)]
pub(crate) enum Withdrawn<J> {
    /// It had no place yet; it has left the line.
    Waiting(J),
    /// It was accepted and is ended unstarted. Its end is in the outbox.
    Unstarted,
    /// It is running, or over.
    Gone,
}

/// Whom to tell, once the lock is free. In the order in which it is delivered.
#[derive(Debug)]
pub(crate) struct Outbox<J> {
    /// How many sleeping workers to wake.
    pub(crate) wake_workers: usize,
    /// The timekeeper sleeps too long, or has something to do.
    pub(crate) wake_timekeeper: bool,
    /// Waiting submitters whose job has a place now.
    pub(crate) granted: SmallVec<[J; 1]>,
    /// Waiting submitters sent away; their closures go back to them.
    pub(crate) refused: SmallVec<[(J, Rejection); 1]>,
    /// Accepted jobs that ended unstarted, and how long they had waited.
    pub(crate) ended: SmallVec<[(J, Rejection, Duration); 1]>,
    /// Running jobs whose call's time has passed.
    pub(crate) overdue: SmallVec<[J; 1]>,
    pub(crate) saturation: Option<Saturation>,
}

impl<J> Outbox<J> {
    pub(crate) fn new() -> Self {
        Self {
            wake_workers: 0,
            wake_timekeeper: false,
            granted: SmallVec::new(),
            refused: SmallVec::new(),
            ended: SmallVec::new(),
            overdue: SmallVec::new(),
            saturation: None,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.wake_workers == 0
            && !self.wake_timekeeper
            && self.granted.is_empty()
            && self.refused.is_empty()
            && self.ended.is_empty()
            && self.overdue.is_empty()
            && self.saturation.is_none()
    }
}

/// The bulkhead became full, or stopped being full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Saturation {
    Begun,
    Over(Duration),
}

/// A job with its terms, wherever it stands.
#[derive(Debug)]
pub(crate) struct Entry<J> {
    seq: u64,
    job: J,
    deadline: Deadline,
    /// How long its caller can wait for a place. Without meaning once it has one.
    patience: Deadline,
    covered: bool,
    /// When it came to where "waited" is counted from: the door, then acceptance.
    since: Instant,
    /// The limit that is set in the alarms for it.
    alarm: Option<Instant>,
}

/// A job that a worker has taken.
#[derive(Debug, Clone)]
pub(crate) struct Taken<J> {
    pub(crate) job: J,
    pub(crate) waited: Duration,
}

#[derive(Debug)]
struct Running<J> {
    entry: Entry<J>,
    started: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    /// Nothing new; what has been accepted still runs.
    Draining,
}

/// One class of work in a compartment: its queue, and its callers waiting for a place.
#[derive(Debug)]
struct Lane<J> {
    queue: Fifo<Entry<J>>,
    capacity: usize,
    waiters: Fifo<Entry<J>>,
}

/// The numbers at one instant. See the public `Snapshot`, which is made from it.
#[derive(Debug, Clone)]
pub(crate) struct Numbers {
    pub(crate) limit: usize,
    pub(crate) running: usize,
    pub(crate) ready: usize,
    pub(crate) queued: usize,
    pub(crate) waiting: usize,
    pub(crate) oldest_running: Option<Duration>,
    pub(crate) oldest_queued: Option<Duration>,
    pub(crate) saturated_for: Option<Duration>,
    pub(crate) totals: Totals,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct State<J> {
    rules: Rules,
    phase: Phase,
    /// The next arrival's place in the order of arrival. Taken at the first lock, so that a waiter
    /// stays ahead of whoever came later.
    next_seq: u64,
    /// INVARIANT: while anyone waits, the lane is full, and while anything is queued, every slot is
    /// taken. `fill` restores it at the end of each operation that frees something.
    lane: Lane<J>,
    /// Jobs with a slot whose thread has not come for them yet.
    ready: VecDeque<Entry<J>>,
    /// By worker.
    running: Vec<Option<Running<J>>>,
    /// INVARIANT: `taken` = jobs ready + jobs running, and it never exceeds `limit` by admission.
    taken: usize,
    /// How many may run at once: as many as there are threads, until something adapts it.
    limit: usize,
    alarms: Alarms,
    /// The instant that the timekeeper sleeps until; `None` while it sleeps for good.
    timekeeper_until: Option<Instant>,
    /// INVARIANT: `ready.len() <= searching`, or nobody sleeps. A worker that searches is awake and
    /// looks under the lock before it sleeps, so a job needs no wake-up while one does.
    searching: usize,
    sleeping: usize,
    full_since: Option<Instant>,
    totals: Totals,
}

impl<J: Clone> State<J> {
    pub(crate) fn new(rules: Rules) -> Self {
        let (threads, capacity) = (rules.threads, rules.queue);
        Self {
            rules,
            phase: Phase::Open,
            next_seq: 0,
            lane: Lane { queue: Fifo::new(), capacity, waiters: Fifo::new() },
            ready: VecDeque::new(),
            running: std::iter::repeat_with(|| None).take(threads).collect(),
            taken: 0,
            limit: threads,
            alarms: Alarms::default(),
            timekeeper_until: None,
            searching: 0,
            sleeping: 0,
            full_since: None,
            totals: Totals::default(),
        }
    }

    // ===== at the door =====

    pub(crate) fn admit(
        &mut self,
        offer: Offer<J>,
        now: Instant,
        out: &mut Outbox<J>,
    ) -> Admission<J> {
        self.expire(now, out);
        let admission = self.decide(offer, now, out);
        // A queue limit of zero means not to wait: what just queued is due already.
        self.expire(now, out);
        self.note_saturation(now, out);
        admission
    }

    fn decide(&mut self, offer: Offer<J>, now: Instant, out: &mut Outbox<J>) -> Admission<J> {
        if self.phase != Phase::Open {
            return Admission::Refused(offer.job, Rejection::ShuttingDown);
        }
        if offer.deadline.is_past(now) {
            return Admission::Refused(offer.job, Rejection::DeadlinePast);
        }
        let slot_free = self.taken < self.limit;
        if !slot_free && offer.awaited {
            return Admission::Refused(offer.job, Rejection::WouldDeadlock);
        }
        if !slot_free && self.would_be_late(&offer, now) {
            return Admission::Refused(offer.job, Rejection::WouldBeLate);
        }
        if self.has_vacancy() {
            let seq = self.accept_new(offer, now, out);
            return Admission::Accepted(seq);
        }
        match self.rules.policy {
            RejectionPolicy::DropOldest => {
                if let Some(oldest) = self.lane.queue.pop_front() {
                    self.end(oldest, Rejection::Displaced, now, out);
                    return Admission::Accepted(self.accept_new(offer, now, out));
                }
                Admission::Refused(offer.job, Rejection::QueueFull)
            }
            RejectionPolicy::Wait { at_most, submitters } if offer.may_wait => {
                let until = Deadline::from_now(now, at_most).earlier(offer.patience);
                if offer.in_chain {
                    Admission::Refused(offer.job, Rejection::WouldDeadlock)
                } else if self.lane.waiters.len() >= submitters {
                    Admission::Refused(offer.job, Rejection::TooManyWaiting)
                } else if until.is_past(now) {
                    Admission::Refused(offer.job, Rejection::QueueFull)
                } else {
                    let mut entry = self.entry(offer, now);
                    self.set_alarm(&mut entry, until.instant(), out);
                    let seq = entry.seq;
                    self.lane.waiters.push_back(seq, entry);
                    self.totals.peak_waiting =
                        self.totals.peak_waiting.max(self.lane.waiters.len());
                    Admission::Waiting(seq)
                }
            }
            _ => Admission::Refused(offer.job, Rejection::QueueFull),
        }
    }

    /// Room for one more. Nobody waits while there is, so a newcomer that takes it overtakes nobody.
    fn has_vacancy(&self) -> bool {
        let room = self.taken < self.limit || self.lane.queue.len() < self.lane.capacity;
        debug_assert!(!room || self.lane.waiters.is_empty(), "room, and somebody waits for it");
        room
    }

    fn would_be_late(&self, offer: &Offer<J>, now: Instant) -> bool {
        let Some(wait) = offer.estimate.filter(|_| self.rules.refuse_late) else {
            return false;
        };
        let queue_limit = self.rules.queue_limit.unwrap_or(Duration::MAX);
        let start_by = Deadline::from_now(now, queue_limit).earlier(offer.deadline);
        start_by.remaining(now).is_some_and(|left| left < wait)
    }

    fn entry(&mut self, offer: Offer<J>, now: Instant) -> Entry<J> {
        let seq = self.next_seq;
        self.next_seq += 1;
        let Offer { job, deadline, patience, covered, .. } = offer;
        Entry { seq, job, deadline, patience, covered, since: now, alarm: None }
    }

    fn accept_new(&mut self, offer: Offer<J>, now: Instant, out: &mut Outbox<J>) -> u64 {
        let entry = self.entry(offer, now);
        let seq = entry.seq;
        self.accept(entry, now, out);
        seq
    }

    fn accept(&mut self, mut entry: Entry<J>, now: Instant, out: &mut Outbox<J>) {
        self.totals.accepted += 1;
        entry.since = now;
        if self.taken < self.limit {
            self.give_slot(entry, out);
        } else {
            let queue_limit = self.rules.queue_limit.unwrap_or(Duration::MAX);
            let due = Deadline::from_now(now, queue_limit).earlier(entry.deadline);
            self.set_alarm(&mut entry, due.instant(), out);
            self.lane.queue.push_back(entry.seq, entry);
            self.totals.peak_queued = self.totals.peak_queued.max(self.lane.queue.len());
        }
    }

    fn give_slot(&mut self, mut entry: Entry<J>, out: &mut Outbox<J>) {
        self.taken += 1;
        debug_assert!(self.taken <= self.limit, "more slots given than there are");
        // From here on only the whole call's limit counts, and only if no blocked caller watches.
        let due = entry.deadline.instant().filter(|_| !entry.covered);
        self.set_alarm(&mut entry, due, out);
        self.ready.push_back(entry);
        if self.ready.len() > self.searching && self.sleeping > 0 {
            self.sleeping -= 1;
            self.searching += 1;
            out.wake_workers += 1;
        }
    }

    /// Hands what has come free to whoever is next. Ends when nothing is free or nobody is next.
    fn fill(&mut self, now: Instant, out: &mut Outbox<J>) {
        loop {
            if self.taken < self.limit {
                if let Some(entry) = self.lane.queue.pop_front() {
                    self.give_slot(entry, out);
                    continue;
                }
            }
            let room = self.taken < self.limit || self.lane.queue.len() < self.lane.capacity;
            if !room {
                return;
            }
            let Some(waiter) = self.lane.waiters.pop_front() else {
                return;
            };
            out.granted.push(waiter.job.clone());
            self.accept(waiter, now, out);
        }
    }

    // ===== on the worker =====

    /// Gives `worker` the next job that has a slot.
    ///
    /// `searching` says that it was counted as looking: it stops looking either way.
    pub(crate) fn take(
        &mut self,
        worker: usize,
        searching: bool,
        now: Instant,
        out: &mut Outbox<J>,
    ) -> Option<Taken<J>> {
        if searching {
            self.searching -= 1;
        }
        self.expire(now, out);
        while let Some(entry) = self.ready.pop_front() {
            if entry.deadline.is_past(now) {
                self.taken -= 1;
                self.end(entry, Rejection::DeadlinePast, now, out);
                self.fill(now, out);
                continue;
            }
            self.note_saturation(now, out);
            let waited = now.saturating_duration_since(entry.since);
            let taken = Taken { job: entry.job.clone(), waited };
            debug_assert!(self.running[worker].is_none(), "a worker took a second job");
            self.running[worker] = Some(Running { entry, started: now });
            let running = self.taken - self.ready.len();
            self.totals.peak_running = self.totals.peak_running.max(running);
            return Some(taken);
        }
        self.note_saturation(now, out);
        None
    }

    /// The closure of `worker`'s job has returned and its captures are dropped. Says how long it ran.
    pub(crate) fn release(
        &mut self,
        worker: usize,
        outcome: Outcome,
        now: Instant,
        out: &mut Outbox<J>,
    ) -> Duration {
        // PANIC: a worker releases what `take` gave it, once; the wrapper's loop has no other order.
        let Running { mut entry, started } =
            self.running[worker].take().expect("a worker releases the job that it took");
        self.set_alarm(&mut entry, None, out);
        self.taken -= 1;
        let ran = now.saturating_duration_since(started);
        self.totals.busy = self.totals.busy.saturating_add(ran);
        self.totals.count(outcome);
        self.expire(now, out);
        self.fill(now, out);
        self.note_saturation(now, out);
        self.note_end(out);
        ran
    }

    /// The worker found nothing and stays awake to look again.
    pub(crate) fn start_search(&mut self) {
        self.searching += 1;
    }

    /// The worker found nothing and goes to sleep. Whoever wakes it counts it as searching.
    pub(crate) fn fall_asleep(&mut self) {
        debug_assert!(self.ready.is_empty(), "a worker sleeps while a job waits for a thread");
        self.sleeping += 1;
    }

    /// Whether one worker that looks already is enough, so that another may sleep at once.
    pub(crate) fn is_searched(&self) -> bool {
        self.searching > 0
    }

    /// Whether a worker that finds nothing is not needed any more. If anything is queued, every slot
    /// is taken, and the workers that hold them come back for it.
    pub(crate) fn may_leave(&self) -> bool {
        self.phase == Phase::Draining && self.ready.is_empty()
    }

    /// Whether every accepted job has ended and no more will come.
    pub(crate) fn is_drained(&self) -> bool {
        self.phase == Phase::Draining && self.taken == 0 && self.lane.queue.is_empty()
    }

    // ===== leaving early =====

    /// Takes a job out of the line or the queue. `why` counts only if it had been accepted.
    pub(crate) fn withdraw(
        &mut self,
        seq: u64,
        why: Rejection,
        now: Instant,
        out: &mut Outbox<J>,
    ) -> Withdrawn<J> {
        let withdrawn = if let Some(mut waiter) = self.lane.waiters.remove(seq) {
            self.set_alarm(&mut waiter, None, out);
            Withdrawn::Waiting(waiter.job)
        } else if self.remove_unstarted(seq, why, now, out) {
            Withdrawn::Unstarted
        } else {
            Withdrawn::Gone
        };
        self.fill(now, out);
        self.note_saturation(now, out);
        self.note_end(out);
        withdrawn
    }

    fn remove_unstarted(
        &mut self,
        seq: u64,
        why: Rejection,
        now: Instant,
        out: &mut Outbox<J>,
    ) -> bool {
        if let Some(entry) = self.lane.queue.remove(seq) {
            self.end(entry, why, now, out);
            return true;
        }
        let Some(index) = self.ready.iter().position(|entry| entry.seq == seq) else {
            return false;
        };
        // PANIC: `index` was found in the same deque just above.
        let entry = self.ready.remove(index).expect("the index was found just now");
        self.taken -= 1;
        self.end(entry, why, now, out);
        true
    }

    /// Ends a job that must not queue because the worker that would have to serve it waits for it.
    /// One that has a slot may stay: a thread is coming for it.
    pub(crate) fn break_ring(&mut self, seq: u64, now: Instant, out: &mut Outbox<J>) {
        if self.lane.queue.get(seq).is_some() {
            self.withdraw(seq, Rejection::WouldDeadlock, now, out);
        }
    }

    /// Acts on every limit that has come by `now`, as an operation of its own.
    pub(crate) fn sweep(&mut self, now: Instant, out: &mut Outbox<J>) {
        self.expire(now, out);
        self.note_saturation(now, out);
    }

    fn expire(&mut self, now: Instant, out: &mut Outbox<J>) {
        let mut freed = false;
        // Waiting callers go first of all: a place freed by this very sweep must not go to one whose
        // time has passed. So nothing is handed on before the last limit has been acted on.
        while let Some(seq) = self.alarms.due(now) {
            if let Some(mut waiter) = self.lane.waiters.remove(seq) {
                let why = late_reason(waiter.patience, waiter.alarm, Rejection::WaitLimit);
                self.set_alarm(&mut waiter, None, out);
                out.refused.push((waiter.job, why));
            } else if let Some(entry) = self.lane.queue.get(seq) {
                let why = late_reason(entry.deadline, entry.alarm, Rejection::QueueLimit);
                self.remove_unstarted(seq, why, now, out);
                freed = true;
            } else if self.remove_unstarted(seq, Rejection::DeadlinePast, now, out) {
                freed = true;
            } else {
                self.mark_overdue(seq, out);
            }
        }
        if freed {
            self.fill(now, out);
            self.note_end(out);
        }
    }

    fn mark_overdue(&mut self, seq: u64, out: &mut Outbox<J>) {
        let running = self.running.iter_mut().flatten().find(|running| running.entry.seq == seq);
        // PANIC: an alarm is cleared when its job ends, so whose alarm rings is in one of the places.
        let running = running.expect("an alarm belongs to a job that has not ended");
        if let Some(at) = running.entry.alarm.take() {
            self.alarms.clear(at, seq, running.entry.covered);
        }
        self.totals.call_limit_running += 1;
        out.overdue.push(running.entry.job.clone());
    }

    /// The limit that job `seq` has while it waits or is queued, for the caller that watches it.
    pub(crate) fn alarm_of(&self, seq: u64) -> Option<Instant> {
        let entry = self.lane.waiters.get(seq).or_else(|| self.lane.queue.get(seq))?;
        entry.alarm
    }

    /// The caller of a running job has left at its deadline, by itself.
    pub(crate) fn count_call_limit(&mut self) {
        self.totals.call_limit_running += 1;
    }

    // ===== closing =====

    /// Lets nobody in any more. Waiting callers are sent away; accepted jobs still run.
    pub(crate) fn drain(&mut self, out: &mut Outbox<J>) {
        self.phase = Phase::Draining;
        while let Some(mut waiter) = self.lane.waiters.pop_front() {
            self.set_alarm(&mut waiter, None, out);
            out.refused.push((waiter.job, Rejection::ShuttingDown));
        }
        // Every sleeper looks once more, and leaves or stays.
        out.wake_workers += self.sleeping;
        self.searching += self.sleeping;
        self.sleeping = 0;
        out.wake_timekeeper = true;
    }

    /// Ends every accepted job that has not started.
    pub(crate) fn end_unstarted(&mut self, why: Rejection, now: Instant, out: &mut Outbox<J>) {
        while let Some(entry) = self.ready.pop_front() {
            self.taken -= 1;
            self.end(entry, why, now, out);
        }
        while let Some(entry) = self.lane.queue.pop_front() {
            self.end(entry, why, now, out);
        }
        self.fill(now, out);
        self.note_saturation(now, out);
        self.note_end(out);
    }

    fn end(&mut self, mut entry: Entry<J>, why: Rejection, now: Instant, out: &mut Outbox<J>) {
        self.set_alarm(&mut entry, None, out);
        self.totals.count(Outcome::NotStarted(why));
        let waited = now.saturating_duration_since(entry.since);
        out.ended.push((entry.job, why, waited));
    }

    /// The timekeeper stays until the last job of a closing compartment has ended.
    fn note_end(&self, out: &mut Outbox<J>) {
        out.wake_timekeeper |= self.is_drained();
    }

    // ===== time and numbers =====

    fn set_alarm(&mut self, entry: &mut Entry<J>, at: Option<Instant>, out: &mut Outbox<J>) {
        if entry.alarm == at {
            return;
        }
        if let Some(old) = entry.alarm {
            self.alarms.clear(old, entry.seq, entry.covered);
        }
        if let Some(new) = at {
            self.alarms.set(new, entry.seq, entry.covered);
            if !entry.covered && self.timekeeper_until.is_none_or(|until| new < until) {
                // Its own note of it, so that the next alarm does not wake it again for nothing.
                self.timekeeper_until = Some(new);
                out.wake_timekeeper = true;
            }
        }
        entry.alarm = at;
    }

    /// The instant until which the timekeeper may sleep, noted as the one that it sleeps until.
    pub(crate) fn timekeeper_sleeps(&mut self) -> Option<Instant> {
        self.timekeeper_until = self.alarms.next_uncovered();
        self.timekeeper_until
    }

    fn is_full(&self) -> bool {
        self.taken >= self.limit && self.lane.queue.len() >= self.lane.capacity
    }

    fn note_saturation(&mut self, now: Instant, out: &mut Outbox<J>) {
        match (self.full_since, self.is_full()) {
            (None, true) => {
                self.full_since = Some(now);
                out.saturation = Some(Saturation::Begun);
            }
            (Some(since), false) => {
                self.full_since = None;
                let lasted = now.saturating_duration_since(since);
                self.totals.full = self.totals.full.saturating_add(lasted);
                // Begun and over within one operation is nothing to report.
                out.saturation = match out.saturation {
                    Some(Saturation::Begun) => None,
                    _ => Some(Saturation::Over(lasted)),
                };
            }
            _ => {}
        }
    }

    /// Whether a newcomer that will not wait is refused, one that will is too, and nobody is let in.
    pub(crate) fn door(&self) -> Door {
        Door {
            full: !self.has_vacancy() && self.rules.policy != RejectionPolicy::DropOldest,
            crowded: self.lane.waiters.len() >= self.rules.submitters(),
            closed: self.phase != Phase::Open,
            queued: self.lane.queue.len(),
            waiting: self.lane.waiters.len(),
            ready: self.ready.len(),
        }
    }

    pub(crate) fn numbers(&self, now: Instant) -> Numbers {
        let age = |since: Instant| now.saturating_duration_since(since);
        let running_ages = self.running.iter().flatten().map(|running| age(running.started));
        let running_now: Duration = running_ages.clone().sum();
        let oldest_ready = self.ready.front().map(|entry| entry.since);
        let oldest_queued = self.lane.queue.front().map(|entry| entry.since);
        let mut totals = self.totals.clone();
        totals.busy = totals.busy.saturating_add(running_now);
        let saturated_for = self.full_since.map(age);
        totals.full = totals.full.saturating_add(saturated_for.unwrap_or_default());
        Numbers {
            limit: self.limit,
            running: self.taken - self.ready.len(),
            ready: self.ready.len(),
            queued: self.lane.queue.len(),
            waiting: self.lane.waiters.len(),
            oldest_running: running_ages.max(),
            oldest_queued: oldest_ready.into_iter().chain(oldest_queued).min().map(age),
            saturated_for,
            totals,
        }
    }

    /// The jobs that run now: worker, job, and for how long.
    pub(crate) fn running(&self, now: Instant) -> impl Iterator<Item = (usize, &J, Duration)> {
        self.running.iter().enumerate().filter_map(move |(worker, running)| {
            let running = running.as_ref()?;
            Some((worker, &running.entry.job, now.saturating_duration_since(running.started)))
        })
    }

    #[cfg(all(test, not(watertight_loom)))]
    pub(crate) fn has_alarms(&self) -> bool {
        !self.alarms.is_empty()
    }
}

/// Which of two limits rang. Equal limits report the whole call: it is the caller's own.
fn late_reason(call: Deadline, alarm: Option<Instant>, other: Rejection) -> Rejection {
    let by_call = call.instant().is_some_and(|call| alarm.is_none_or(|alarm| call <= alarm));
    if by_call { Rejection::DeadlinePast } else { other }
}

/// What a newcomer can know without the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Door {
    pub(crate) full: bool,
    pub(crate) crowded: bool,
    pub(crate) closed: bool,
    pub(crate) queued: usize,
    pub(crate) waiting: usize,
    pub(crate) ready: usize,
}
