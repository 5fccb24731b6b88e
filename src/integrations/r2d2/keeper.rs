//! [`Keeper`]: the threads that test and close the connections of a pool.
//!
//! Both are calls into the user's manager that may hang for as long as a network can. Here they hang
//! a thread that serves no job: a worker that waits for a test gives up in time, and nobody waits
//! for a close. There are two threads, so that one call that hangs does not keep the others waiting.
//! If both hang the rest waits; how many may is bounded by not connecting any more.

use std::collections::VecDeque;
use std::time::Instant;

use ::r2d2::ManageConnection;

use crate::contain::{contain, drop_contained};
use crate::sync::{Arc, Condvar, Mutex};

/// How many threads there are.
pub(super) const THREADS: usize = 2;

pub(super) struct Keeper<M: ManageConnection> {
    state: Mutex<State<M>>,
    /// Idle threads sleep here. They are alike.
    work: Condvar,
    /// How many connections may be here before no more are opened.
    room: usize,
}

struct State<M: ManageConnection> {
    tasks: VecDeque<Task<M>>,
    /// By thread.
    at_work: [AtWork; THREADS],
    /// How many threads have been started and have not ended.
    alive: usize,
    /// The threads end when nothing is left to do.
    closing: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AtWork {
    No,
    Yes,
    /// And a worker has given up waiting for a test meanwhile.
    TooLong,
}

enum Task<M: ManageConnection> {
    Close(M::Connection),
    Test(Test<M>),
    /// What else of the user's is left when the pool ends.
    Drop(Box<dyn Send>),
}

struct Test<M: ManageConnection> {
    manager: Arc<M>,
    connection: M::Connection,
    reply: Arc<Reply<M::Connection>>,
}

/// What a worker waits for.
struct Reply<C> {
    verdict: Mutex<Verdict<C>>,
    /// The worker sleeps here.
    given: Condvar,
}

enum Verdict<C> {
    Pending,
    /// By the thread of that number.
    UnderWay(usize),
    /// The worker has gone on without it, or has it.
    Over,
    Good(C),
    Bad,
}

impl<M: ManageConnection> Keeper<M> {
    /// A keeper for a pool of that many connections. All of them may be waiting here: after an outage
    /// all are tested or closed at once, and that must not stop new ones. And one for each thread.
    pub(super) fn new(connections: usize) -> Self {
        let state = State {
            tasks: VecDeque::new(),
            at_work: [AtWork::No; THREADS],
            alive: 0,
            closing: false,
        };
        Self {
            state: Mutex::new(state),
            work: Condvar::new(),
            room: connections.saturating_add(THREADS),
        }
    }

    // ===== the threads =====

    /// Counts a thread that is about to be started.
    pub(super) fn enter(&self) {
        self.state.lock().alive += 1;
    }

    /// Takes back what `enter` counted, for a thread that could not be started.
    pub(super) fn leave(&self) {
        self.state.lock().alive -= 1;
    }

    /// The body of thread number `me`.
    pub(super) fn run(&self, me: usize) {
        while let Some(task) = self.next(me) {
            match task {
                Task::Test(test) => test.run(me),
                Task::Close(connection) => {
                    drop_contained(connection);
                }
                Task::Drop(rest) => {
                    drop_contained(rest);
                }
            }
        }
    }

    fn next(&self, me: usize) -> Option<Task<M>> {
        let mut state = self.state.lock();
        state.at_work[me] = AtWork::No;
        loop {
            if let Some(task) = state.tasks.pop_front() {
                state.at_work[me] = AtWork::Yes;
                return Some(task);
            }
            if state.closing {
                // Under the same lock as the look at the tasks: what comes later is handed back.
                state.alive -= 1;
                return None;
            }
            state = self.work.wait(state);
        }
    }

    // ===== their tasks =====

    /// Closes `connection` some time soon, elsewhere.
    pub(super) fn close(&self, connection: M::Connection) {
        if let Some(left) = self.put(Task::Close(connection)) {
            // No thread is left. Whoever comes so late is a thread that ends with the pool.
            drop_contained(left);
        }
    }

    /// Ends the threads once they have done what there is, and have dropped `rest`.
    pub(super) fn finish(&self, rest: Box<dyn Send>) {
        let left = self.put(Task::Drop(rest));
        self.state.lock().closing = true;
        // WAKE: all, since each has to see that it ends.
        self.work.notify_all();
        drop_contained(left);
    }

    /// Hands a task over, or back if there is nobody to do it.
    fn put(&self, task: Task<M>) -> Option<Task<M>> {
        let mut state = self.state.lock();
        if state.alive == 0 {
            return Some(task);
        }
        state.tasks.push_back(task);
        // WAKE: one, for one task.
        self.work.notify_one();
        None
    }

    /// The connection, if it turns out to be good by `until`. If not, it is closed some time.
    pub(super) fn test(
        &self,
        manager: &Arc<M>,
        connection: M::Connection,
        until: Instant,
    ) -> Option<M::Connection> {
        if self.is_stuck() {
            // What they hang on most likely goes for this connection too: a new one is the better
            // test. But if there could be no new one after that, a test must not bring the pool to
            // a halt.
            if self.backlog() + 1 >= self.room {
                return Some(connection);
            }
            self.close(connection);
            return None;
        }
        let reply = Arc::new(Reply::new());
        let (manager, theirs) = (Arc::clone(manager), Arc::clone(&reply));
        if let Some(left) = self.put(Task::Test(Test { manager, connection, reply: theirs })) {
            drop_contained(left);
            return None;
        }
        match reply.wait(until) {
            Verdict::Good(connection) => return Some(connection),
            Verdict::UnderWay(thread) => self.takes_too_long(|other| other == thread),
            // Every thread has been at something else all that time.
            Verdict::Pending => self.takes_too_long(|_| true),
            Verdict::Bad | Verdict::Over => {}
        }
        None
    }

    fn takes_too_long(&self, is_meant: impl Fn(usize) -> bool) {
        let mut state = self.state.lock();
        for (thread, at_work) in state.at_work.iter_mut().enumerate() {
            if *at_work == AtWork::Yes && is_meant(thread) {
                *at_work = AtWork::TooLong;
            }
        }
    }

    fn is_stuck(&self) -> bool {
        self.state.lock().at_work.iter().all(|at_work| *at_work == AtWork::TooLong)
    }

    /// How many connections are here.
    pub(super) fn backlog(&self) -> usize {
        let state = self.state.lock();
        let in_work = state.at_work.iter().filter(|at_work| **at_work != AtWork::No).count();
        state.tasks.len() + in_work
    }

    /// Whether more are here than may be before new ones are opened.
    pub(super) fn is_full(&self) -> bool {
        self.backlog() >= self.room
    }
}

impl<M: ManageConnection> Test<M> {
    fn run(self, thread: usize) {
        let Self { manager, mut connection, reply } = self;
        let mut valid = false;
        if reply.begin(thread) {
            // The manager's error is dropped in there as well.
            contain(|| valid = manager.is_valid(&mut connection).is_ok());
        }
        // Told first, then closed: closing may hang.
        let unwanted = reply.give(if valid { Ok(connection) } else { Err(connection) });
        drop_contained((unwanted, manager));
    }
}

impl<C> Reply<C> {
    fn new() -> Self {
        Self { verdict: Mutex::new(Verdict::Pending), given: Condvar::new() }
    }

    /// Whether anybody waits for the test that is about to begin.
    fn begin(&self, thread: usize) -> bool {
        let mut verdict = self.verdict.lock();
        let is_awaited = verdict.is_awaited();
        if is_awaited {
            *verdict = Verdict::UnderWay(thread);
        }
        is_awaited
    }

    /// Tells the worker. Returns the connection if it is to be closed.
    fn give(&self, tested: Result<C, C>) -> Option<C> {
        let mut verdict = self.verdict.lock();
        if !verdict.is_awaited() {
            return Some(tested.unwrap_or_else(|bad| bad));
        }
        let (told, unwanted) = match tested {
            Ok(good) => (Verdict::Good(good), None),
            Err(bad) => (Verdict::Bad, Some(bad)),
        };
        *verdict = told;
        // WAKE: one worker waits for one test.
        self.given.notify_one();
        unwanted
    }

    /// Waits for the verdict until `until`. What is returned then says how far it was.
    fn wait(&self, until: Instant) -> Verdict<C> {
        let mut verdict = self.verdict.lock();
        let mut timed_out = false;
        while verdict.is_awaited() && !timed_out {
            (verdict, timed_out) = self.given.wait_until(&self.verdict, verdict, until);
        }
        std::mem::replace(&mut *verdict, Verdict::Over)
    }
}

impl<C> Verdict<C> {
    const fn is_awaited(&self) -> bool {
        matches!(self, Self::Pending | Self::UnderWay(_))
    }
}
