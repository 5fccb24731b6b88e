//! [`PoolBuilder`]: the description of one pool.

use std::fmt;
use std::net::SocketAddr;
use std::panic::catch_unwind;
use std::time::Duration;

use ::r2d2::{ManageConnection, NopErrorHandler};
use scheduled_thread_pool::{OnPoolDropBehavior, ScheduledThreadPool};

use super::keeper::{self, Keeper};
use super::manager::{Attempts, Guarded};
use super::pool::Pool;
use super::shared::{OnReturn, Open, Shared};
use crate::bulkhead::Bulkhead;
use crate::compartment::{Compartment, Resource, here};
use crate::contain::drop_contained;
use crate::error::{BuildError, BuildErrorKind};
use crate::integrations::helpers::Helpers;
use crate::integrations::remotes::Remotes;
use crate::sync::{Arc, AtomicU64, Mutex, ThreadSpec, next_id, spawn, when_thread_ends};

/// The most that r2d2 waits between two attempts to connect: half of what it is told here.
const TWICE_THE_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The last letters of the keeper's threads' names. `t` is the timekeeper's.
const LETTERS: [char; keeper::THREADS] = ['k', 'l'];

/// r2d2 sets aside memory for as many as it is told.
const MOST: usize = 1 << 16;

/// Describes a connection pool. Made by [`Pool::builder`].
#[must_use = "a description does nothing until a pool is built from it"]
pub struct PoolBuilder<M: ManageConnection> {
    manager: M,
    connections: Option<usize>,
    connect_limit: Duration,
    test_after_idle: Duration,
    max_lifetime: Duration,
    idle_limit: Duration,
    on_return: Option<OnReturn<M::Connection>>,
    remote_address: Option<SocketAddr>,
    descriptors_each: u64,
    remotes: Option<Arc<Remotes>>,
}

impl<M: ManageConnection> PoolBuilder<M>
where
    M::Error: Send + Sync,
{
    pub(super) fn new(manager: M) -> Self {
        Self {
            manager,
            connections: None,
            connect_limit: Duration::from_millis(500),
            test_after_idle: Duration::from_secs(30),
            max_lifetime: Duration::from_secs(30 * 60),
            idle_limit: Duration::from_secs(10 * 60),
            on_return: None,
            remote_address: None,
            descriptors_each: 1,
            remotes: None,
        }
    }

    /// How many connections the pool has at most. They are opened when they are first needed.
    ///
    /// Defaults to the number of the bulkhead's threads. Fewer is an error: a running job would wait
    /// for a connection behind another job, which is what the bulkhead's queue is for. More is
    /// allowed up to 65,536, and of no use. While a hanging close keeps discarded connections open, there are at
    /// most as many of those again, and two.
    pub fn connections(mut self, connections: usize) -> Self {
        self.connections = Some(connections);
        self
    }

    /// The longest that a running job waits for its connection; it never waits longer than the time
    /// that the job has left.
    ///
    /// Defaults to 500 ms, half of the default call limit: so the caller learns that it was the
    /// connection, instead of running into its own limit at the same moment. An attempt that fails
    /// is repeated meanwhile. [`Duration::MAX`] means that only the job's own time counts. Zero is an
    /// error: no connection could ever be opened.
    pub fn connect_limit(mut self, limit: Duration) -> Self {
        self.connect_limit = limit;
        self
    }

    /// How long a connection may have been idle to be handed out without asking the manager whether
    /// it is valid, by the runtime's clock.
    ///
    /// Defaults to 30 seconds: firewalls drop idle connections after minutes, and a busy pool need
    /// not pay a round trip for each job. Zero asks every time, [`Duration::MAX`] never. The question
    /// is asked on a helper thread, and the job waits for the answer at most half of the time that
    /// it has for its connection, which is long enough to open another. A connection whose test hangs
    /// is not given out again.
    pub fn test_after_idle(mut self, idle: Duration) -> Self {
        self.test_after_idle = idle;
        self
    }

    /// How old a connection may become. It is closed when its job brings it back after three quarters of
    /// this time to all of it, by chance: so that those that were opened together are not replaced
    /// together. One that is idle is closed within 30 seconds after all of this time.
    ///
    /// Defaults to 30 minutes, so that connections move on after a fail-over or a change of the
    /// server's address. [`Duration::MAX`] means no limit. Zero is an error.
    pub fn max_lifetime(mut self, age: Duration) -> Self {
        self.max_lifetime = age;
        self
    }

    /// How long a connection that nobody uses is kept open. Looked at every 30 seconds.
    ///
    /// Defaults to 10 minutes, so that a quiet night gives the server its connections back.
    /// [`Duration::MAX`] means no limit. Zero is an error.
    pub fn idle_limit(mut self, idle: Duration) -> Self {
        self.idle_limit = idle;
        self
    }

    /// Makes a connection clean before anybody else sees it, for instance by a `ROLLBACK`.
    ///
    /// It runs on the worker when a job has returned, as part of the job, so its caller waits for
    /// it. If it fails or panics, the connection is closed, and the job's value is not affected.
    /// Defaults to nothing. A connection that is closed anyway is not given to it.
    pub fn on_return<E>(
        mut self,
        hook: impl Fn(&mut M::Connection) -> Result<(), E> + Send + Sync + 'static,
    ) -> Self {
        self.on_return = Some(Arc::new(move |connection| hook(connection).is_ok()));
        self
    }

    /// Where the manager's connections go, for [`Runtime::audit`](crate::Runtime::audit): with it the
    /// audit tells them from foreign ones, and marks the address if anybody else uses it too.
    ///
    /// It is believed, and opens no connection. Defaults to not known: only the manager knows where it
    /// connects to.
    pub fn remote_address(mut self, address: SocketAddr) -> Self {
        self.remote_address = Some(address);
        self
    }

    /// How many file descriptors one connection takes.
    #[cfg(feature = "postgres")]
    pub(crate) fn descriptors_each(mut self, number: u64) -> Self {
        self.descriptors_each = number;
        self
    }

    /// Where the manager notes its connections, for reports of the process.
    #[cfg(feature = "postgres")]
    pub(crate) fn remotes(mut self, remotes: Arc<Remotes>) -> Self {
        self.remotes = Some(remotes);
        self
    }

    /// Builds the pool into `bulkhead` and starts its helper threads. It opens no connection, so
    /// it does not wait for the server.
    ///
    /// # Errors
    ///
    /// [`BuildError`] with the bulkhead, the setting, its value and what is wrong with it; also if the
    /// connections of all the runtime's pools, and 32 file descriptors for the rest of the process, are
    /// more than `RLIMIT_NOFILE` allows. Then no thread is left behind.
    pub fn build(self, bulkhead: &Bulkhead) -> Result<Pool<M>, BuildError> {
        let compartment = bulkhead.compartment();
        let connections = self.check(bulkhead.name(), compartment.rules.threads)?;
        let planned =
            compartment.plan_descriptors("connections", connections, self.descriptors_each)?;
        let size = u32::try_from(connections).unwrap_or(u32::MAX);
        let Self { manager, connect_limit, test_after_idle, on_return, .. } = self;
        let (remote_address, remotes) = (self.remote_address, self.remotes);

        let helpers = Arc::new(Helpers::default());
        let keeper = Arc::new(Keeper::new(connections));
        let started = start_keeper(compartment, &helpers, &keeper)
            .and_then(|()| start_connector(compartment, &helpers));
        let scheduler = started.inspect_err(|_| {
            keeper.finish(Box::new(()));
            // They have run none of the user's code, so they go at once.
            helpers.wait_until_gone(None);
        })?;
        helpers.wait_until_all_are_here();
        let manager = Arc::new(manager);
        let attempts = Arc::new(Attempts::default());
        let guarded = Guarded {
            manager: Arc::clone(&manager),
            keeper: Arc::clone(&keeper),
            attempts: Arc::clone(&attempts),
        };
        let limit = |limit: Duration| (limit != Duration::MAX).then_some(limit);
        let pool = ::r2d2::Pool::builder()
            .max_size(size)
            .min_idle(Some(0))
            .test_on_check_out(false)
            .max_lifetime(limit(self.max_lifetime))
            .idle_timeout(limit(self.idle_limit))
            .connection_timeout(TWICE_THE_RETRY_INTERVAL)
            .error_handler(Box::new(NopErrorHandler))
            .thread_pool(Arc::new(scheduler))
            .build_unchecked(guarded);
        let shared = Arc::new(Shared {
            id: next_id(),
            about: compartment.vitals.facts,
            connect_limit,
            test_after_idle,
            max_lifetime: self.max_lifetime,
            open: Mutex::new(Some(Open { pool, manager, on_return })),
            keeper,
            attempts,
            helpers,
            planned: Mutex::new(Some(planned)),
            remote_address,
            remotes,
            waiting: AtomicU64::new(0),
        });
        let pool = Pool::new(bulkhead.clone(), Arc::clone(&shared));
        compartment.attach(&(shared as Arc<dyn Resource>));
        Ok(pool)
    }

    /// How many connections, if the settings are sound.
    fn check(&self, bulkhead: &str, threads: usize) -> Result<usize, BuildError> {
        let wrong = |setting, problem: String| {
            BuildError::new(BuildErrorKind::InvalidSetting, Some(bulkhead), setting, problem)
        };
        let connections = self.connections.unwrap_or(threads);
        if connections < threads {
            return Err(wrong(
                "connections",
                format!(
                    "is {connections}, fewer than its {threads} threads, so that a running job would \
                     wait for a connection behind another job; leave it unset, or give the bulkhead as \
                     few `threads`"
                ),
            ));
        }
        if connections > MOST {
            let problem = format!("is {connections}; at most {MOST} is allowed");
            return Err(wrong("connections", problem));
        }
        for (setting, value) in [
            ("connect_limit", self.connect_limit),
            ("max_lifetime", self.max_lifetime),
            ("idle_limit", self.idle_limit),
        ] {
            if value.is_zero() {
                let problem = "is zero, so that no connection could ever be used; give it a longer \
                               time, or `Duration::MAX` for no limit";
                return Err(wrong(setting, problem.into()));
            }
        }
        Ok(connections)
    }
}

fn start_keeper<M: ManageConnection>(
    compartment: &Compartment,
    helpers: &Arc<Helpers>,
    keeper: &Arc<Keeper<M>>,
) -> Result<(), BuildError> {
    for (thread, letter) in LETTERS.into_iter().enumerate() {
        let name = compartment.helper_name(letter);
        let gone = helpers.starting(&name);
        keeper.enter();
        let (body, runtime) = (Arc::clone(keeper), compartment.runtime);
        let spec = ThreadSpec { name: name.clone(), stack_size: None };
        let me = helpers.check_in(&name);
        let started = spawn(spec, gone, move || {
            me();
            here::belongs_to(runtime);
            body.run(thread);
        });
        // Nobody joins it: that it is gone is what `gone` says.
        started.map(drop).map_err(|error| {
            keeper.leave();
            helpers.gone(&name);
            refused(compartment, &error.to_string()).caused_by(error)
        })?;
    }
    Ok(())
}

/// r2d2's own thread. The crate that starts it answers a refusal of the system with a panic.
fn start_connector(
    compartment: &Compartment,
    helpers: &Arc<Helpers>,
) -> Result<ScheduledThreadPool, BuildError> {
    let name = compartment.helper_name('c');
    let started = catch_unwind(|| {
        ScheduledThreadPool::builder()
            .num_threads(1)
            .thread_name_pattern(&name)
            .on_drop_behavior(OnPoolDropBehavior::DiscardPendingScheduled)
            .build()
    });
    let scheduler = started.map_err(|payload| {
        let why = payload.downcast_ref::<String>().cloned().unwrap_or_default();
        drop_contained(payload);
        refused(compartment, &why)
    })?;
    let say_when_gone = when_thread_ends(helpers.starting(&name));
    let (me, runtime) = (helpers.check_in(&name), compartment.runtime);
    scheduler.execute(move || {
        say_when_gone();
        me();
        here::belongs_to(runtime);
    });
    Ok(scheduler)
}

fn refused(compartment: &Compartment, why: &str) -> BuildError {
    let problem = format!(
        "are asked for, but the system refused to start one of the pool's helper threads ({why}); \
         raise its limits on threads and memory"
    );
    BuildError::new(BuildErrorKind::Spawn, Some(compartment.name()), "connections", problem)
}

impl<M: ManageConnection> fmt::Debug for PoolBuilder<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Taken apart in full, so that a new setting cannot be forgotten here.
        let Self {
            manager: _,
            connections,
            connect_limit,
            test_after_idle,
            max_lifetime,
            idle_limit,
            on_return,
            remote_address,
            descriptors_each: _,
            remotes: _,
        } = self;
        f.debug_struct("PoolBuilder")
            .field("connections", connections)
            .field("connect_limit", connect_limit)
            .field("test_after_idle", test_after_idle)
            .field("max_lifetime", max_lifetime)
            .field("idle_limit", idle_limit)
            .field("on_return", &on_return.is_some())
            .field("remote_address", remote_address)
            .finish_non_exhaustive()
    }
}
