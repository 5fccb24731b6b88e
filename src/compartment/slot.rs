//! [`Slot`]: where a worker leaves the answer and one caller finds it.

use std::task::{Poll, Waker};
use std::time::Instant;

use crate::contain::{contain, drop_contained};
use crate::error::{CallError, Rejection};
use crate::sync::{Condvar, Flag, Mutex, MutexGuard, spin_until};

/// What a caller gets for a job.
pub(crate) type Answer<T> = Result<T, CallError>;

/// A meeting point for one worker and one caller, who may be a blocked thread or a future.
///
/// | phase | the worker side | the caller side |
/// |---|---|---|
/// | `Pending` | nothing decided | waits, or leaves → `Left` |
/// | `Settled` | has an answer, still holds its slot | can no longer leave: the answer is coming |
/// | `Done` | has published the answer | takes it → `Spent` |
/// | `Refused` | the job was sent away from the door | takes the closure back |
/// | `Left` | keeps the answer, and drops it | gone |
/// | `Spent` | nothing to do | has the answer |
///
/// `Settled` is what makes the order at a job's end hold: an answer that nobody wants is dropped
/// while the job still counts as running, and one that somebody gets is seen only after the slot is
/// free. The time in it is a few instructions of ours.
#[derive(Debug)]
pub(crate) struct Slot<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
    /// There has been something to tell. Only for a caller that looks before it sleeps: what there
    /// is, it finds in the state.
    news: Flag,
}

#[derive(Debug)]
struct State<T> {
    phase: Phase<T>,
    /// The job has been given a place; only somebody at the door looks at it.
    granted: bool,
    /// A thread sleeps on `changed`. Only one ever does: there is one caller.
    blocked: bool,
    waker: Option<Waker>,
}

#[derive(Debug)]
enum Phase<T> {
    Pending,
    Settled(Answer<T>),
    Done(Answer<T>),
    Refused(Rejection),
    Left,
    Spent,
}

/// Why a blocked caller woke up.
#[derive(Debug)]
pub(crate) enum Woken<T> {
    Answer(Answer<T>),
    /// The job has a place now, so another limit applies. Said once.
    Granted,
    Refused(Rejection),
    TimedOut,
}

/// What somebody at the door learns.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AtDoor {
    Granted,
    Refused(Rejection),
    TimedOut,
}

/// What a caller that goes leaves behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detached {
    /// A job that has not ended.
    Pending,
    /// A closure that was sent away and is still in its cell.
    Refused,
    Ended,
}

impl<T> Slot<T> {
    pub(crate) fn new() -> Self {
        let state = State { phase: Phase::Pending, granted: false, blocked: false, waker: None };
        Self { state: Mutex::new(state), changed: Condvar::new(), news: Flag::new() }
    }

    // ===== the worker side =====

    /// Commits to an answer; hands it back if the caller has left.
    pub(crate) fn settle(&self, answer: Answer<T>) -> Option<Answer<T>> {
        let mut state = self.state.lock();
        if matches!(state.phase, Phase::Pending) {
            state.phase = Phase::Settled(answer);
            None
        } else {
            Some(answer)
        }
    }

    /// Lets the caller see the answer that was settled on, if it is still there. A future's waker is for
    /// the worker to wake, who may have to see to something before it runs code of the user's.
    pub(crate) fn publish(&self) -> Option<Waker> {
        let mut state = self.state.lock();
        state.phase = match std::mem::replace(&mut state.phase, Phase::Spent) {
            Phase::Settled(answer) => Phase::Done(answer),
            other => other,
        };
        self.notify_thread(state)
    }

    /// Settles and publishes at once: for an end that no slot hangs on. Hands the answer back if the
    /// caller has one already, or has left.
    pub(crate) fn finish(&self, answer: Answer<T>) -> Option<Answer<T>> {
        let mut state = self.state.lock();
        if !matches!(state.phase, Phase::Pending) {
            return Some(answer);
        }
        state.phase = Phase::Done(answer);
        self.notify(state);
        None
    }

    pub(crate) fn grant(&self) {
        let mut state = self.state.lock();
        state.granted = true;
        self.notify(state);
    }

    /// Says whether anybody is there to hear it.
    pub(crate) fn refuse(&self, why: Rejection) -> bool {
        let mut state = self.state.lock();
        let heard = matches!(state.phase, Phase::Pending);
        if heard {
            state.phase = Phase::Refused(why);
        }
        self.notify(state);
        heard
    }

    /// WAKE: one is enough, since at most one thread or future waits for a job. Whoever is not
    /// waiting yet will look at the phase before it does.
    fn notify(&self, state: MutexGuard<'_, State<T>>) {
        if let Some(waker) = self.notify_thread(state) {
            contain(|| waker.wake());
        }
    }

    /// The same, with the waker left to whoever asks.
    fn notify_thread(&self, mut state: MutexGuard<'_, State<T>>) -> Option<Waker> {
        let blocked = state.blocked;
        let waker = state.waker.take();
        // LOCK: free from here, the waker is user code.
        drop(state);
        self.news.raise();
        if blocked {
            self.changed.notify_one();
        }
        waker
    }

    // ===== the caller side =====

    /// Looks for news for about as long as it takes to be put to sleep and woken. For jobs that end
    /// sooner than that; after any other it is time wasted, if little.
    pub(crate) fn look_briefly(&self) {
        spin_until(|| self.news.is_up());
    }

    /// Blocks until there is an answer, a refusal, a place, or `until` has come.
    pub(crate) fn wait(&self, until: Option<Instant>) -> Woken<T> {
        let mut state = self.state.lock();
        let mut timed_out = false;
        loop {
            match std::mem::replace(&mut state.phase, Phase::Spent) {
                Phase::Done(answer) => return Woken::Answer(answer),
                Phase::Refused(why) => return Woken::Refused(why),
                other => state.phase = other,
            }
            if std::mem::take(&mut state.granted) {
                return Woken::Granted;
            }
            if timed_out {
                return Woken::TimedOut;
            }
            (state, timed_out) = self.sleep(state, until);
        }
    }

    /// Blocks until the job has a place, is refused, or `until` has come.
    pub(crate) fn wait_at_door(&self, until: Option<Instant>) -> AtDoor {
        let mut state = self.state.lock();
        let mut timed_out = false;
        loop {
            match state.phase {
                Phase::Refused(why) => return AtDoor::Refused(why),
                Phase::Pending if state.granted => return AtDoor::Granted,
                Phase::Pending => {}
                // It has run before we were told that it may: it has had a place.
                _ => return AtDoor::Granted,
            }
            if timed_out {
                return AtDoor::TimedOut;
            }
            (state, timed_out) = self.sleep(state, until);
        }
    }

    fn sleep<'a>(
        &'a self,
        mut state: MutexGuard<'a, State<T>>,
        until: Option<Instant>,
    ) -> (MutexGuard<'a, State<T>>, bool) {
        state.blocked = true;
        let (mut state, timed_out) = match until {
            Some(until) => self.changed.wait_until(&self.state, state, until),
            None => (self.changed.wait(state), false),
        };
        state.blocked = false;
        (state, timed_out)
    }

    /// The caller goes, unless an answer has been settled: then it waits for that, which is short.
    pub(crate) fn leave(&self) -> Option<Answer<T>> {
        let mut state = self.state.lock();
        loop {
            match std::mem::replace(&mut state.phase, Phase::Spent) {
                Phase::Pending => {
                    state.phase = Phase::Left;
                    return None;
                }
                Phase::Done(answer) => return Some(answer),
                other => state.phase = other,
            }
            if !matches!(state.phase, Phase::Settled(_)) {
                return None;
            }
            (state, _) = self.sleep(state, None);
        }
    }

    /// The caller goes and wants nothing. Says what it leaves behind.
    pub(crate) fn detach(&self) -> Detached {
        let mut state = self.state.lock();
        let (found, after) = match state.phase {
            Phase::Pending => (Detached::Pending, Phase::Left),
            Phase::Refused(_) => (Detached::Refused, Phase::Spent),
            _ => (Detached::Ended, Phase::Spent),
        };
        let unwanted = std::mem::replace(&mut state.phase, after);
        let waker = state.waker.take();
        // LOCK: free from here, both are user data. The caller's own: it is on this thread.
        drop(state);
        drop_contained(waker);
        drop(unwanted);
        found
    }

    /// Takes an answer that has been published, without waiting.
    pub(crate) fn take(&self) -> Option<Answer<T>> {
        let mut state = self.state.lock();
        match std::mem::replace(&mut state.phase, Phase::Spent) {
            Phase::Done(answer) => Some(answer),
            other => {
                state.phase = other;
                None
            }
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        matches!(self.state.lock().phase, Phase::Done(_) | Phase::Spent)
    }

    /// Takes the answer, or leaves `waker` to be woken when there is one.
    pub(crate) fn poll(&self, waker: &Waker) -> Poll<Answer<T>> {
        let mine = waker.clone();
        let mut state = self.state.lock();
        match std::mem::replace(&mut state.phase, Phase::Spent) {
            Phase::Done(answer) => {
                drop(state);
                drop_contained(mine);
                Poll::Ready(answer)
            }
            other => {
                state.phase = other;
                Self::register(state, mine);
                Poll::Pending
            }
        }
    }

    /// Says what happened at the door, or leaves `waker` to be woken when something does.
    pub(crate) fn poll_at_door(&self, waker: &Waker) -> Poll<AtDoor> {
        let mine = waker.clone();
        let state = self.state.lock();
        let news = match state.phase {
            Phase::Refused(why) => AtDoor::Refused(why),
            Phase::Pending if !state.granted => {
                Self::register(state, mine);
                return Poll::Pending;
            }
            _ => AtDoor::Granted,
        };
        drop(state);
        drop_contained(mine);
        Poll::Ready(news)
    }

    fn register(mut state: MutexGuard<'_, State<T>>, waker: Waker) {
        let old = state.waker.replace(waker);
        // LOCK: free from here, dropping a waker is user code.
        drop(state);
        drop_contained(old);
    }
}
