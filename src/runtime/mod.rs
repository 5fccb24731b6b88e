//! [`Runtime`]: owns the bulkheads and their threads.
//!
//! Floor 4.

mod audit;
mod builder;
mod cores;
mod plan;
mod shutdown;
mod system;

use std::fmt;
use std::time::Duration;

pub use self::audit::{Audit, AuditedConnections, AuditedListener, AuditedThread, RemoteAddress};
pub use self::builder::RuntimeBuilder;
pub use self::plan::{BulkheadPlan, Plan};
pub use self::shutdown::{HelperThread, ShutdownReport, StuckThread, UnstartedJob};

use self::shutdown::Threads;
#[cfg(all(feature = "prometheus", not(watertight_loom)))]
pub(crate) use self::system::cgroup_file;
use crate::bulkhead::{Bulkhead, Snapshot};
use crate::compartment::here;
use crate::error::{ShutdownError, UnknownBulkhead};
use crate::sync::{Arc, Mutex};

/// Owns a set of bulkheads and all their threads.
///
/// Keep it as long as the service runs, and hand out [`Bulkhead`] handles. When it is dropped it
/// closes, ends what is queued, waits for running jobs at most
/// [`drop_wait`](RuntimeBuilder::drop_wait), asks those that still run to stop
/// ([`Context::on_abort`](crate::Context::on_abort)), and detaches the threads that are stuck.
pub struct Runtime {
    id: u64,
    /// Shared with nobody who keeps it: metrics hold it weakly.
    bulkheads: Arc<[Bulkhead]>,
    home: Option<usize>,
    plan: Plan,
    drop_wait: Duration,
    threads: Mutex<Threads>,
    /// Keeps the clock's view of the compartments alive; the clock itself holds it weakly.
    _watcher: Arc<dyn Fn() + Send + Sync>,
}

impl Runtime {
    /// Starts the description of a runtime.
    pub fn builder() -> RuntimeBuilder {
        RuntimeBuilder::new()
    }

    #[cfg(all(feature = "prometheus", not(watertight_loom)))]
    pub(crate) const fn shared_bulkheads(&self) -> &Arc<[Bulkhead]> {
        &self.bulkheads
    }

    /// A handle to the bulkhead of that name.
    ///
    /// # Errors
    ///
    /// [`UnknownBulkhead`], which lists the names that exist. There is no fallback: work must not
    /// overflow from one bulkhead into another by a slip of the pen.
    pub fn bulkhead(&self, name: &str) -> Result<Bulkhead, UnknownBulkhead> {
        self.bulkheads.iter().find(|bulkhead| bulkhead.name() == name).cloned().ok_or_else(|| {
            UnknownBulkhead {
                asked: name.to_owned(),
                known: self.bulkheads.iter().map(|bulkhead| bulkhead.name().to_owned()).collect(),
            }
        })
    }

    /// All bulkheads, in the order of the builder.
    pub fn bulkheads(&self) -> impl Iterator<Item = &Bulkhead> {
        self.bulkheads.iter()
    }

    /// The bulkhead that was declared the [home](RuntimeBuilder::home) of unnamed work, if one was.
    #[must_use]
    pub fn home(&self) -> Option<Bulkhead> {
        self.home.map(|index| self.bulkheads[index].clone())
    }

    /// The numbers of every bulkhead, in the order of the builder.
    #[must_use]
    pub fn snapshots(&self) -> Vec<Snapshot> {
        self.bulkheads.iter().map(Bulkhead::snapshot).collect()
    }

    /// What was decided when the runtime was built: threads, their names, cores, and the limits of
    /// the system that it was checked against.
    #[must_use]
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Every thread and every connection of the process, by bulkhead, and the foreign ones: which
    /// pools are still shared. See [`Audit`], also for what it costs.
    #[must_use]
    pub fn audit(&self) -> Audit {
        Audit::of([self])
    }

    /// Closes the runtime: lets nobody in, runs what has been accepted for at most `limit`, then ends
    /// the rest unstarted, asks running jobs to stop ([`Context::on_abort`](crate::Context::on_abort),
    /// [`Context::is_cancelled`](crate::Context::is_cancelled)), and says what is stuck.
    ///
    /// It returns as soon as every thread is gone; a limit of zero ends what is queued at once. It
    /// never takes longer than `limit` and the moment that idle threads need to go, at most 50 ms.
    /// Jobs that running jobs submit meanwhile are refused. It may be called more than once, also at
    /// the same time.
    ///
    /// # Errors
    ///
    /// [`ShutdownError::OnOwnThread`] on one of the runtime's own threads, which would wait for
    /// itself. Nobody is let in any more, as after any shutdown; the queued jobs still run.
    pub fn shutdown(&self, limit: Duration) -> Result<ShutdownReport, ShutdownError> {
        if here::is_own_thread_of(self.id) {
            shutdown::drain(&self.bulkheads);
            return Err(ShutdownError::OnOwnThread);
        }
        Ok(shutdown::shut_down(&self.bulkheads, &self.threads, limit))
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        shutdown::close_now(&self.bulkheads);
        if !here::is_own_thread_of(self.id) {
            shutdown::wait_for_threads(&self.bulkheads, &self.threads, self.drop_wait);
            for bulkhead in self.bulkheads.iter() {
                bulkhead.compartment().abort_running();
            }
        }
        // What has not ended by now is detached: its thread ends when its job returns.
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").field("bulkheads", &self.bulkheads).finish_non_exhaustive()
    }
}
