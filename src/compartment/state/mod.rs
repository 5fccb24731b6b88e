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

mod admission;
mod departure;
mod numbers;
mod outbox;
mod service;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

pub(crate) use self::admission::{Admission, Offer};
pub(crate) use self::departure::Withdrawn;
pub(crate) use self::numbers::Numbers;
pub(crate) use self::outbox::{News, Outbox, Saturation};
pub(crate) use self::service::Taken;

use super::alarms::Alarms;
use super::fifo::Fifo;
use super::histogram::Histogram;
use super::peaks::RecentPeaks;
use super::policy::Rules;
use super::totals::Totals;
use crate::error::Rejection;
use crate::event::Outcome;
use crate::sync::Arc;
use crate::time::Deadline;

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
    /// INVARIANT: nothing is ready, or somebody searches, or nobody sleeps. A worker that searches is
    /// awake and looks under the lock before it sleeps; if it leaves something behind, it wakes the
    /// next (`take`).
    searching: usize,
    sleeping: usize,
    /// Jobs usually end sooner than a sleeper wakes.
    quick: bool,
    full_since: Option<Instant>,
    /// The latest `now` that limits were checked against.
    latest: Option<Instant>,
    totals: Totals,
    recent: RecentPeaks,
    /// INVARIANT: one entry for each job that has started.
    wait_times: Histogram,
    /// INVARIANT: one entry for each job that has returned or panicked.
    run_times: Histogram,
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

impl<J: Clone> State<J> {
    pub(crate) fn new(rules: Rules) -> Self {
        let (threads, capacity) = (rules.threads, rules.queue);
        let wait_times = Histogram::new(Arc::clone(&rules.wait_bounds));
        let run_times = Histogram::new(Arc::clone(&rules.run_bounds));
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
            quick: false,
            full_since: None,
            latest: None,
            totals: Totals::default(),
            recent: RecentPeaks::default(),
            wait_times,
            run_times,
        }
    }

    // ===== from one station to the next =====

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
        }
    }

    fn give_slot(&mut self, mut entry: Entry<J>, out: &mut Outbox<J>) {
        self.taken += 1;
        debug_assert!(self.taken <= self.limit, "more slots given than there are");
        // From here on only the whole call's limit counts, and only if no blocked caller watches.
        let due = entry.deadline.instant().filter(|_| !entry.covered);
        self.set_alarm(&mut entry, due, out);
        self.ready.push_back(entry);
        self.staff(out);
    }

    /// Wakes one more worker if the jobs that are ready need it.
    fn staff(&mut self, out: &mut Outbox<J>) {
        // Each job its own at once; but quick ones are done before a second worker is awake.
        let needed = if self.quick { self.ready.len().min(1) } else { self.ready.len() };
        if self.searching < needed && self.sleeping > 0 {
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
            out.news.push(News::Granted(waiter.job.clone()));
            self.accept(waiter, now, out);
        }
    }

    fn end(&mut self, mut entry: Entry<J>, why: Rejection, now: Instant, out: &mut Outbox<J>) {
        self.set_alarm(&mut entry, None, out);
        self.totals.count(Outcome::NotStarted(why));
        let waited = now.saturating_duration_since(entry.since);
        out.news.push(News::Ended(entry.job, why, waited));
    }

    /// The timekeeper stays until the last job of a closing compartment has ended.
    fn note_end(&self, out: &mut Outbox<J>) {
        out.wake_timekeeper |= self.is_drained();
    }

    // ===== time =====

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

    /// The latest instant that this has been told of.
    pub(crate) fn latest(&self) -> Option<Instant> {
        self.latest
    }

    fn is_full(&self) -> bool {
        self.taken >= self.limit && self.lane.queue.len() >= self.lane.capacity
    }

    /// `now`, unless somebody has looked at a later instant already: a thread may read the clock and
    /// then wait for the lock. Times that are added up are measured with it, or a sum that somebody has
    /// seen with the later one would fall.
    fn not_before_latest(&self, now: Instant) -> Instant {
        self.latest.map_or(now, |latest| latest.max(now))
    }

    /// Ends every operation: takes note of what has changed, for those who look later.
    fn note_levels(&mut self, now: Instant, out: &mut Outbox<J>) {
        let now = self.not_before_latest(now);
        self.recent.note(self.levels(), now);
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
}
