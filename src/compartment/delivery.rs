//! What follows every decision: sealing it under the lock, then, with the lock free, telling whoever
//! has to be told.

use std::time::Duration;

use smallvec::SmallVec;

use super::state::{News, Outbox, Saturation, State};
use super::{Compartment, Job, Locked};
use crate::contain::contain;
use crate::error::{NotStarted, Rejection, TimeLimit, TimedOut};
use crate::event::{
    AcceptedEvent, NotStartedEvent, Observer, RejectedEvent, RelievedEvent, SaturatedEvent,
};
use crate::sync::{Arc, MutexGuard, Ordering};

pub(super) type Mail = Outbox<Arc<dyn Job>>;

impl Compartment {
    pub(super) fn change<T>(
        &self,
        act: impl FnOnce(&mut State<Arc<dyn Job>>, &mut Mail) -> T,
    ) -> T {
        let mut mail = Mail::new();
        let result = {
            let mut locked = self.locked.lock();
            let result = act(&mut locked.state, &mut mail);
            self.seal(&mut locked, &mail);
            result
        };
        self.deliver(&mail);
        result
    }

    /// Ends every critical section: publishes what is read without the lock, and counts the
    /// wake-ups that `deliver` will send.
    pub(super) fn seal(&self, locked: &mut MutexGuard<'_, Locked>, mail: &Mail) {
        locked.wake_ups += mail.wake_workers;
        locked.tick |= mail.wake_timekeeper;
        self.ready.set(locked.state.ready() as u64);
        let packed = locked.state.door().pack();
        if packed != locked.published {
            locked.published = packed;
            // ORDERING: Release, see `turns_away`.
            self.door.store(packed, Ordering::Release);
        }
    }

    pub(super) fn leave_to_timekeeper(&self, locked: &mut MutexGuard<'_, Locked>, mail: &Mail) {
        for (job, why, waited) in mail.ended() {
            locked.discards.push((Arc::clone(job), self.not_started(why, waited)));
            locked.tick = true;
        }
    }

    pub(super) fn not_started(&self, why: Rejection, waited: Duration) -> NotStarted {
        NotStarted::new(why, self.vitals.facts, waited)
    }

    /// LOCK: free. Wakes and tells everybody, then drops the closures of ended jobs on this thread,
    /// then speaks to the observer.
    pub(super) fn deliver(&self, mail: &Mail) {
        self.wake(mail);
        self.discard_ended(mail);
        self.report(mail);
    }

    /// The same, with the closures left to the timekeeper.
    pub(super) fn deliver_keeping(&self, mail: &Mail) {
        self.wake(mail);
        if mail.ended().next().is_some() {
            self.time.notify_one();
        }
        self.report(mail);
    }

    pub(super) fn wake(&self, mail: &Mail) {
        // WAKE: as many sleepers were taken off the count under the lock. Each finds its wake-up
        // counted in `wake_ups`, even if another worker was faster with the job: then it sleeps on.
        for _ in 0..mail.wake_workers {
            self.work.notify_one();
        }
        if mail.wake_timekeeper {
            // WAKE: there is one timekeeper, and `tick` is set: it looks before it sleeps.
            self.time.notify_one();
        }
        let mut overdue: SmallVec<[&Arc<dyn Job>; 1]> = SmallVec::new();
        for news in &mail.news {
            match news {
                News::Granted(job) => job.grant(),
                News::Refused(job, why) => {
                    self.counts.bump(why.index());
                    job.refuse(*why);
                }
                News::Ended(job, why, waited) => {
                    job.end_unstarted(self.not_started(*why, *waited));
                }
                News::Overdue(job) => overdue.push(job),
            }
        }
        if !overdue.is_empty() {
            self.tell_overdue(&overdue);
        }
    }

    /// Tells the callers of running jobs that their time has passed: decided, then counted, then
    /// told. So whoever has the error finds it in the count, and nothing is counted that nobody gets.
    fn tell_overdue(&self, overdue: &[&Arc<dyn Job>]) {
        let why = || TimedOut::new(TimeLimit::Call, self.vitals.facts);
        let told: SmallVec<[_; 1]> = overdue.iter().filter(|job| job.time_out(why())).collect();
        {
            let mut locked = self.locked.lock();
            locked.state.count_call_limits(told.len() as u64);
            // Their hooks are user code, and this may be anybody's thread.
            locked.aborts.extend(overdue.iter().copied().cloned());
            locked.tick = true;
        }
        // WAKE: there is one timekeeper, and `tick` is set under the lock.
        self.time.notify_one();
        for job in told {
            if let Some(waker) = job.publish() {
                contain(|| waker.wake());
            }
        }
    }

    pub(super) fn report(&self, mail: &Mail) {
        // The counts are exact without an observer; this is only about telling one.
        let Some(observer) = &self.observer else {
            return;
        };
        let bulkhead = self.name();
        for news in &mail.news {
            self.contain_hook(|| match *news {
                News::Granted(_) => observer.on_accepted(&AcceptedEvent { bulkhead }),
                News::Refused(_, reason) => {
                    observer.on_rejected(&RejectedEvent { bulkhead, reason });
                }
                News::Ended(_, reason, waited) => {
                    observer.on_not_started(&NotStartedEvent { bulkhead, waited, reason });
                }
                News::Overdue(_) => {}
            });
        }
        match mail.saturation {
            Some(Saturation::Begun) => {
                self.contain_hook(|| observer.on_saturated(&SaturatedEvent { bulkhead }));
            }
            Some(Saturation::Over(after)) => {
                self.contain_hook(|| observer.on_relieved(&RelievedEvent { bulkhead, after }));
            }
            None => {}
        }
    }

    pub(super) fn discard_ended(&self, mail: &Mail) {
        for (job, _, _) in mail.ended() {
            self.discard(job);
        }
    }

    pub(super) fn discard(&self, job: &Arc<dyn Job>) {
        if job.discard() {
            self.drop_panics.add(1);
        }
    }

    pub(super) fn observe(&self, tell: impl FnOnce(&dyn Observer)) {
        if let Some(observer) = &self.observer {
            self.contain_hook(|| tell(&**observer));
        }
    }

    pub(super) fn contain_hook(&self, hook: impl FnOnce()) {
        if contain(hook) {
            self.vitals.hook_panics.add(1);
        }
    }
}
