//! [`Keeper`]: the thread that tests and closes the connections of a pool.
//!
//! Both are calls into the user's manager that may hang for as long as a network can. Here they hang
//! a thread that serves nobody: a worker that waits for a test gives up in time, and nobody waits
//! for a close. It is one thread, so one that hangs keeps the others waiting in turn; how many
//! may wait is bounded by not connecting any more.

use std::collections::VecDeque;
use std::time::Instant;

use ::r2d2::ManageConnection;

use crate::contain::{contain, drop_contained};
use crate::sync::{Arc, Condvar, Mutex};

pub(super) struct Keeper<M: ManageConnection> {
    state: Mutex<State<M>>,
    /// The thread sleeps here.
    work: Condvar,
    /// How many connections may be here before no more are opened.
    room: usize,
}

struct State<M: ManageConnection> {
    tasks: VecDeque<Task<M>>,
    /// It is at a task now.
    busy: bool,
    /// A worker has given up waiting for a test since it last finished something.
    stuck: bool,
    /// Nothing comes after what it has; it ends when that is done.
    closing: bool,
    /// It takes nothing any more.
    over: bool,
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
    /// The worker has gone on without it.
    Abandoned,
    Good(C),
    Bad,
}

impl<M: ManageConnection> Keeper<M> {
    /// A keeper for a pool of that many connections. One more than all of them may be waiting here:
    /// after an outage all are tested or closed at once, and that must not stop new ones.
    pub(super) fn new(connections: usize) -> Self {
        let state = State {
            tasks: VecDeque::new(),
            busy: false,
            stuck: false,
            closing: false,
            over: false,
        };
        Self { state: Mutex::new(state), work: Condvar::new(), room: connections.saturating_add(1) }
    }

    /// The body of the thread.
    pub(super) fn run(&self) {
        while let Some(task) = self.next() {
            if let Task::Test(test) = task {
                test.run();
            } else {
                drop_contained(task);
            }
        }
    }

    fn next(&self) -> Option<Task<M>> {
        let mut state = self.state.lock();
        state.busy = false;
        state.stuck = false;
        loop {
            if let Some(task) = state.tasks.pop_front() {
                state.busy = true;
                return Some(task);
            }
            if state.closing {
                state.over = true;
                return None;
            }
            state = self.work.wait(state);
        }
    }

    /// Closes `connection` some time soon, elsewhere.
    pub(super) fn close(&self, connection: M::Connection) {
        if let Some(left) = self.put(Task::Close(connection)) {
            // It is over. Whoever comes so late is a thread that ends with the pool.
            drop_contained(left);
        }
    }

    /// Ends the thread once it has done what it has, and has dropped `rest`.
    pub(super) fn finish(&self, rest: Box<dyn Send>) {
        self.state.lock().closing = true;
        if let Some(left) = self.put(Task::Drop(rest)) {
            drop_contained(left);
        }
    }

    /// Hands a task over, or back if there is nobody to do it.
    fn put(&self, task: Task<M>) -> Option<Task<M>> {
        let mut state = self.state.lock();
        if state.over {
            return Some(task);
        }
        state.tasks.push_back(task);
        // WAKE: there is one thread.
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
        if self.state.lock().stuck {
            // It hangs. What it hangs on most likely goes for this connection too.
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
            Verdict::Good(connection) => Some(connection),
            Verdict::Bad => None,
            Verdict::Pending | Verdict::Abandoned => {
                let mut state = self.state.lock();
                state.stuck = state.busy;
                None
            }
        }
    }

    /// How many connections are here.
    pub(super) fn backlog(&self) -> usize {
        let state = self.state.lock();
        state.tasks.len() + usize::from(state.busy)
    }

    /// Whether more are here than may be before new ones are opened.
    pub(super) fn is_full(&self) -> bool {
        self.backlog() >= self.room
    }
}

impl<M: ManageConnection> Test<M> {
    fn run(self) {
        let Self { manager, mut connection, reply } = self;
        let mut valid = false;
        if reply.is_awaited() {
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

    fn is_awaited(&self) -> bool {
        matches!(*self.verdict.lock(), Verdict::Pending)
    }

    /// Tells the worker. Returns the connection if it is to be closed.
    fn give(&self, tested: Result<C, C>) -> Option<C> {
        let mut verdict = self.verdict.lock();
        if !matches!(*verdict, Verdict::Pending) {
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

    /// Waits for the verdict. When `until` comes first it is abandoned.
    fn wait(&self, until: Instant) -> Verdict<C> {
        let mut verdict = self.verdict.lock();
        let mut timed_out = false;
        while matches!(*verdict, Verdict::Pending) && !timed_out {
            (verdict, timed_out) = self.given.wait_until(&self.verdict, verdict, until);
        }
        std::mem::replace(&mut *verdict, Verdict::Abandoned)
    }
}
