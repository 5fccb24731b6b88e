//! At the door: who gets a slot, a place, a turn in line, or is refused.

use std::time::{Duration, Instant};

use super::outbox::Outbox;
use super::{Entry, Phase, State};
use crate::compartment::policy::RejectionPolicy;
use crate::error::Rejection;
use crate::time::Deadline;

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

impl<J: Clone> State<J> {
    pub(crate) fn admit(
        &mut self,
        offer: Offer<J>,
        now: Instant,
        out: &mut Outbox<J>,
    ) -> Admission<J> {
        self.expire(now, out);
        let admission = self.decide(offer, now, out);
        if self.rules.queue_limit == Some(Duration::ZERO) {
            // Not to wait: what just queued is due already.
            self.expire(now, out);
        }
        self.note_levels(now, out);
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
                    Admission::Waiting(seq)
                }
            }
            _ => Admission::Refused(offer.job, Rejection::QueueFull),
        }
    }

    /// Room for one more. Nobody waits while there is, so a newcomer that takes it overtakes nobody.
    pub(super) fn has_vacancy(&self) -> bool {
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
}
