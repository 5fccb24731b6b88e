//! The state machine against a reference that is too simple to be wrong: lists, and a loop.
//!
//! Random operations run on both; after each, both must have told the same jobs the same things and
//! show the same numbers. It reaches what loom's small models cannot: long histories, every policy,
//! every limit, in any order.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::test_runner::Config;
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest, prop_state_machine};

use super::peaks::Peaks;
use super::policy::{RejectionPolicy, Rules};
use super::state::{Admission, News, Offer, Outbox, State, Withdrawn};
use crate::error::Rejection;
use crate::event::Outcome;
use crate::sync::Arc;
use crate::time::Deadline;

type Id = u32;

/// What a job is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Told {
    Accepted,
    Waits,
    Granted,
    Refused(Rejection),
    Ended(Rejection),
    Overdue,
    Started,
}

#[derive(Debug, Clone)]
pub(super) enum Op {
    Submit { may_wait: bool, limit: Option<u64>, covered: bool },
    Take(usize),
    Finish(usize),
    Cancel(Id),
    Advance(u64),
    Drain,
    EndUnstarted,
}

#[derive(Debug, Clone)]
struct Item {
    id: Id,
    deadline: Option<u64>,
    covered: bool,
    /// When its wait for a place, then for a slot, is over.
    until: Option<u64>,
    overdue: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Reference {
    threads: usize,
    queue_cap: usize,
    policy: RejectionPolicy,
    queue_limit: Option<u64>,
    now: u64,
    next: Id,
    draining: bool,
    waiting: Vec<Item>,
    queue: Vec<Item>,
    ready: Vec<Item>,
    running: Vec<Option<Item>>,
    /// What the last operation told whom.
    told: Vec<(Id, Told)>,
}

impl Reference {
    pub(super) fn new(
        threads: usize,
        queue: usize,
        policy: RejectionPolicy,
        queue_limit: Option<u64>,
    ) -> Self {
        let drops = policy == RejectionPolicy::DropOldest;
        Self {
            threads,
            queue_cap: if drops { queue.max(1) } else { queue },
            policy,
            queue_limit,
            now: 0,
            next: 0,
            draining: false,
            waiting: Vec::new(),
            queue: Vec::new(),
            ready: Vec::new(),
            running: vec![None; threads],
            told: Vec::new(),
        }
    }

    pub(super) fn threads(&self) -> usize {
        self.threads
    }

    pub(super) fn jobs(&self) -> Id {
        self.next
    }

    fn taken(&self) -> usize {
        self.ready.len() + self.running.iter().flatten().count()
    }

    fn has_room(&self) -> bool {
        self.taken() < self.threads || self.queue.len() < self.queue_cap
    }

    fn accept(&mut self, mut item: Item) {
        if self.taken() < self.threads {
            item.until = None;
            self.ready.push(item);
        } else {
            item.until = self.queue_limit.map(|limit| self.now + limit);
            self.queue.push(item);
        }
    }

    fn fill(&mut self) {
        loop {
            if self.taken() < self.threads && !self.queue.is_empty() {
                let item = self.queue.remove(0);
                self.accept(item);
            } else if !self.waiting.is_empty() && self.has_room() {
                let item = self.waiting.remove(0);
                self.told.push((item.id, Told::Granted));
                self.accept(item);
            } else {
                return;
            }
        }
    }

    fn expire(&mut self) {
        let now = self.now;
        let past = |at: Option<u64>| at.is_some_and(|at| at <= now);
        // Equal limits report the call's.
        let why = |item: &Item, other: Rejection| {
            let by_call = match (item.deadline, item.until) {
                (Some(call), Some(until)) => call <= until,
                (call, _) => call.is_some(),
            };
            if by_call { Rejection::DeadlinePast } else { other }
        };
        let told = &mut self.told;
        self.waiting.retain(|item| {
            let over = past(item.deadline) || past(item.until);
            if over {
                told.push((item.id, Told::Refused(why(item, Rejection::WaitLimit))));
            }
            !over
        });
        self.queue.retain(|item| {
            let over = past(item.deadline) || past(item.until);
            if over {
                told.push((item.id, Told::Ended(why(item, Rejection::QueueLimit))));
            }
            !over
        });
        self.ready.retain(|item| {
            let over = past(item.deadline) && !item.covered;
            if over {
                told.push((item.id, Told::Ended(Rejection::DeadlinePast)));
            }
            !over
        });
        for item in self.running.iter_mut().flatten() {
            if past(item.deadline) && !item.covered && !item.overdue {
                item.overdue = true;
                told.push((item.id, Told::Overdue));
            }
        }
        self.fill();
        // A place freed here may go to a job whose time in the queue is zero.
        if self.queue.iter().any(|item| past(item.until)) {
            self.expire();
        }
    }

    fn submit(&mut self, may_wait: bool, limit: Option<u64>, covered: bool) {
        self.expire();
        let id = self.next;
        self.next += 1;
        let deadline = limit.map(|limit| self.now + limit);
        let mut item = Item { id, deadline, covered, until: None, overdue: false };
        let told = if self.draining {
            Told::Refused(Rejection::ShuttingDown)
        } else if deadline.is_some_and(|at| at <= self.now) {
            Told::Refused(Rejection::DeadlinePast)
        } else if self.waiting.is_empty() && self.has_room() {
            self.accept(item);
            Told::Accepted
        } else {
            match self.policy {
                RejectionPolicy::DropOldest => {
                    let oldest = self.queue.remove(0);
                    self.told.push((oldest.id, Told::Ended(Rejection::Displaced)));
                    self.accept(item);
                    Told::Accepted
                }
                RejectionPolicy::Wait { at_most, submitters } if may_wait => {
                    if self.waiting.len() >= submitters {
                        Told::Refused(Rejection::TooManyWaiting)
                    } else {
                        let at_most = u64::try_from(at_most.as_millis()).unwrap();
                        item.until = Some(self.now + at_most);
                        self.waiting.push(item);
                        Told::Waits
                    }
                }
                _ => Told::Refused(Rejection::QueueFull),
            }
        };
        self.told.push((id, told));
        self.expire();
    }
}

impl ReferenceStateMachine for Reference {
    type State = Self;
    type Transition = Op;

    fn init_state() -> BoxedStrategy<Self> {
        let policy = prop_oneof![
            Just(RejectionPolicy::Reject),
            Just(RejectionPolicy::DropOldest),
            (1..20u64, 1..4usize).prop_map(|(millis, submitters)| RejectionPolicy::Wait {
                at_most: Duration::from_millis(millis),
                submitters,
            }),
        ];
        (1..4usize, 0..4usize, policy, prop::option::of(0..20u64))
            .prop_map(|(threads, queue, policy, queue_limit)| {
                Self::new(threads, queue, policy, queue_limit)
            })
            .boxed()
    }

    fn transitions(state: &Self) -> BoxedStrategy<Op> {
        let submit = (any::<bool>(), prop::option::of(0..30u64), any::<bool>())
            .prop_map(|(may_wait, limit, covered)| Op::Submit { may_wait, limit, covered });
        prop_oneof![
            8 => submit,
            5 => (0..state.threads).prop_map(Op::Take),
            4 => (0..state.threads).prop_map(Op::Finish),
            2 => (0..state.next.max(1)).prop_map(Op::Cancel),
            3 => (0..15u64).prop_map(Op::Advance),
            1 => prop_oneof![9 => Just(Op::EndUnstarted), 1 => Just(Op::Drain)],
        ]
        .boxed()
    }

    fn preconditions(state: &Self, op: &Op) -> bool {
        match op {
            Op::Take(worker) => state.running[*worker].is_none(),
            Op::Finish(worker) => state.running[*worker].is_some(),
            _ => true,
        }
    }

    fn apply(mut state: Self, op: &Op) -> Self {
        state.told.clear();
        match *op {
            Op::Submit { may_wait, limit, covered } => state.submit(may_wait, limit, covered),
            Op::Take(worker) => {
                state.expire();
                while !state.ready.is_empty() {
                    let item = state.ready.remove(0);
                    if item.deadline.is_some_and(|at| at <= state.now) {
                        state.told.push((item.id, Told::Ended(Rejection::DeadlinePast)));
                        state.fill();
                        continue;
                    }
                    state.told.push((item.id, Told::Started));
                    state.running[worker] = Some(item);
                    break;
                }
            }
            Op::Finish(worker) => {
                state.running[worker] = None;
                state.expire();
            }
            Op::Cancel(id) => {
                state.waiting.retain(|item| item.id != id);
                let before = state.queue.len() + state.ready.len();
                state.queue.retain(|item| item.id != id);
                state.ready.retain(|item| item.id != id);
                if state.queue.len() + state.ready.len() < before {
                    state.told.push((id, Told::Ended(Rejection::Cancelled)));
                }
                state.fill();
            }
            Op::Advance(millis) => {
                state.now += millis;
                state.expire();
            }
            Op::Drain => {
                state.draining = true;
                for item in std::mem::take(&mut state.waiting) {
                    state.told.push((item.id, Told::Refused(Rejection::ShuttingDown)));
                }
            }
            Op::EndUnstarted => {
                let ready = std::mem::take(&mut state.ready);
                for item in ready.into_iter().chain(std::mem::take(&mut state.queue)) {
                    state.told.push((item.id, Told::Ended(Rejection::Displaced)));
                }
                state.fill();
            }
        }
        state
    }
}

/// The real one, with the clock and the numbers of its jobs.
pub(super) struct Real {
    state: State<Id>,
    start: Instant,
    now: u64,
    next: Id,
    /// By job; a refused one has no number.
    seqs: Vec<Option<u64>>,
}

impl Real {
    fn instant(&self) -> Instant {
        self.start + Duration::from_millis(self.now)
    }
}

impl StateMachineTest for Real {
    type SystemUnderTest = Self;
    type Reference = Reference;

    fn init_test(reference: &Reference) -> Self {
        let rules = Rules {
            threads: reference.threads,
            queue: reference.queue_cap,
            policy: reference.policy,
            queue_limit: reference.queue_limit.map(Duration::from_millis),
            refuse_late: false,
            wait_bounds: Arc::from([Duration::from_millis(5)]),
            run_bounds: Arc::from([Duration::from_millis(5)]),
        };
        let state = State::new(rules);
        Self { state, start: Instant::now(), now: 0, next: 0, seqs: Vec::new() }
    }

    fn apply(mut real: Self, reference: &Reference, op: Op) -> Self {
        let mut out = Outbox::new();
        let mut told = Vec::new();
        let now = real.instant();
        let was_drained = real.state.is_drained();
        match op {
            Op::Submit { may_wait, limit, covered } => {
                let id = real.next;
                real.next += 1;
                let deadline = limit.map_or(Deadline::never(), |ms| {
                    Deadline::from_now(now, Duration::from_millis(ms))
                });
                let offer = Offer {
                    job: id,
                    deadline,
                    patience: deadline,
                    covered,
                    may_wait,
                    in_chain: false,
                    awaited: false,
                    estimate: None,
                };
                let (what, seq) = match real.state.admit(offer, now, &mut out) {
                    Admission::Accepted(seq) => (Told::Accepted, Some(seq)),
                    Admission::Waiting(seq) => (Told::Waits, Some(seq)),
                    Admission::Refused(_, why) => (Told::Refused(why), None),
                };
                real.seqs.push(seq);
                told.push((id, what));
            }
            Op::Take(worker) => {
                if let Some(taken) = real.state.take(worker, false, now, &mut out) {
                    told.push((taken.job, Told::Started));
                }
            }
            Op::Finish(worker) => {
                real.state.release(worker, Outcome::Returned, now, &mut out);
                real.state.stop_search(&mut out);
            }
            Op::Cancel(id) => {
                let seq = real.seqs.get(id as usize).copied().flatten();
                if let Some(seq) = seq {
                    let found = real.state.withdraw(seq, Rejection::Cancelled, now, &mut out);
                    if let Withdrawn::Waiting(job) = found {
                        assert_eq!(job, id);
                    }
                }
            }
            Op::Advance(millis) => {
                real.now += millis;
                real.state.sweep(real.instant(), &mut out);
            }
            Op::Drain => real.state.drain(&mut out),
            Op::EndUnstarted => real.state.end_unstarted(Rejection::Displaced, now, &mut out),
        }
        told.extend(out.news.iter().map(|news| match news {
            News::Granted(id) => (*id, Told::Granted),
            News::Refused(id, why) => (*id, Told::Refused(*why)),
            News::Ended(id, why, _) => (*id, Told::Ended(*why)),
            News::Overdue(id) => (*id, Told::Overdue),
        }));
        let has_ended = !was_drained && real.state.is_drained();
        assert!(!has_ended || out.wake_timekeeper, "{op:?} was the end, and nobody tells");
        told.sort_unstable();
        let mut expected = reference.told.clone();
        expected.sort_unstable();
        assert_eq!(told, expected, "after {op:?}");
        real
    }

    fn check_invariants(real: &Self, reference: &Reference) {
        let numbers = real.state.numbers(real.instant());
        let shown = (numbers.running, numbers.ready, numbers.queued, numbers.waiting);
        let running = reference.running.iter().flatten().count();
        let expected =
            (running, reference.ready.len(), reference.queue.len(), reference.waiting.len());
        assert_eq!(shown, expected, "running, ready, queued, waiting");
        let totals = &numbers.totals;
        let inside = (numbers.running + numbers.ready + numbers.queued) as u64;
        assert_eq!(totals.accepted, totals.ended() + inside, "accepted jobs end or are inside");
        let over = totals.returned + totals.panicked;
        assert_eq!(numbers.run_times.count(), over, "whatever ran is in the run times");
        let started = over + numbers.running as u64;
        assert_eq!(numbers.wait_times.count(), started, "whatever started is in the waits");
        let levels = Peaks { running, queued: numbers.queued, waiting: numbers.waiting };
        for peaks in [totals.peaks, numbers.recent] {
            let above = levels.running > peaks.running
                || levels.queued > peaks.queued
                || levels.waiting > peaks.waiting;
            assert!(!above, "{levels:?} is above {peaks:?}");
        }
        let nobody = inside == 0 && numbers.waiting == 0;
        assert!(!nobody || !real.state.has_alarms(), "an alarm outlived its job");
    }
}

prop_state_machine! {
    #![proptest_config(Config { cases: 1_024, failure_persistence: None, ..Config::default() })]

    #[test]
    fn the_state_machine_does_what_the_reference_does(sequential 1..60 => Real);
}
