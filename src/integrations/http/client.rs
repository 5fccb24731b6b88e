//! [`Client`]: a bulkhead whose jobs make HTTP requests.

use std::fmt;
use std::time::Instant;

use ureq::Agent;

use super::builder::ClientBuilder;
use super::resolver::Names;
use super::seat::{Lines, Seat};
use crate::bulkhead::{Bulkhead, JobHandle};
use crate::compartment::{Connections, Context, Holdings, PlannedDescriptors, Resource, Thread};
use crate::error::{CallError, Rejected};
use crate::integrations::around::submit_around;
use crate::integrations::helpers::Helpers;
use crate::integrations::remotes::Remotes;
use crate::sync::{Arc, Mutex};
use crate::time::Deadline;

/// A bulkhead with an HTTP agent of its own. Cheap to clone, safe to keep.
///
/// It is closed with its runtime; or before, when the last handle and the last job that came through
/// one are gone.
///
/// The closure gets a plain [`ureq::Agent`]. Every wait of its requests, from the name's look-up to
/// the last byte of a body, ends with the job: when its deadline passes, when it is cancelled, and
/// when a shutdown's limit does. The thread is free then, which nothing else gets from a server that
/// accepts and stays silent.
///
/// The agent works inside the job alone: a response that is taken out of the closure cannot be read
/// any more. Read its body inside, and return what was read.
#[derive(Clone)]
pub struct Client {
    bulkhead: Bulkhead,
    owner: Arc<Owner>,
}

/// What the handles and jobs own together: the last of them closes the client.
struct Owner(Arc<Wires>);

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Client {
    /// Starts the description of a client.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::new()
    }

    pub(super) fn new(bulkhead: Bulkhead, wires: Arc<Wires>) -> Self {
        Self { bulkhead, owner: Arc::new(Owner(wires)) }
    }

    /// The bulkhead that the jobs run in.
    #[must_use]
    pub const fn bulkhead(&self) -> &Bulkhead {
        &self.bulkhead
    }

    /// Runs `job` with the agent and waits for its value, as [`Bulkhead::call`] does.
    ///
    /// # Errors
    ///
    /// See [`CallError`]. What ureq says is the closure's own; [`Flatten`](crate::Flatten) brings it
    /// next to the call's.
    pub fn call<F, T>(&self, job: F) -> Result<T, CallError>
    where
        F: FnOnce(&Agent, &Context<'_>) -> T + Send + 'static,
        T: Send + 'static,
    {
        self.bulkhead.call(self.wrap(job))
    }

    /// Runs `job` and waits for its value until `deadline`, as [`Bulkhead::call_until`] does.
    ///
    /// # Errors
    ///
    /// As for [`call`](Client::call).
    pub fn call_until<F, T>(&self, deadline: Deadline, job: F) -> Result<T, CallError>
    where
        F: FnOnce(&Agent, &Context<'_>) -> T + Send + 'static,
        T: Send + 'static,
    {
        self.bulkhead.call_until(deadline, self.wrap(job))
    }

    /// Hands `job` over and returns a handle to it, as [`Bulkhead::submit`] does.
    ///
    /// # Errors
    ///
    /// [`Rejected`], with the closure inside.
    pub fn submit<F, T>(&self, job: F) -> Result<JobHandle<T>, Rejected<F>>
    where
        F: FnOnce(&Agent, &Context<'_>) -> T + Send + 'static,
        T: Send + 'static,
    {
        self.submit_until(Deadline::never(), job)
    }

    /// Hands `job` over with a deadline, as [`Bulkhead::submit_until`] does.
    ///
    /// # Errors
    ///
    /// As for [`submit`](Client::submit).
    pub fn submit_until<F, T>(
        &self,
        deadline: Deadline,
        job: F,
    ) -> Result<JobHandle<T>, Rejected<F>>
    where
        F: FnOnce(&Agent, &Context<'_>) -> T + Send + 'static,
        T: Send + 'static,
    {
        let owner = Arc::clone(&self.owner);
        submit_around(&self.bulkhead, deadline, job, move |job, context| owner.run(job, context))
    }

    fn wrap<F, T>(&self, job: F) -> impl FnOnce(&Context<'_>) -> T + Send + 'static + use<F, T>
    where
        F: FnOnce(&Agent, &Context<'_>) -> T + Send + 'static,
    {
        let owner = Arc::clone(&self.owner);
        move |context| owner.run(job, context)
    }
}

impl Owner {
    /// On the worker: lends the agent to a job, seated, and with an abort that reaches it.
    fn run<F, T>(&self, job: F, context: &Context<'_>) -> T
    where
        F: FnOnce(&Agent, &Context<'_>) -> T,
    {
        let seat = Seat::new(context.remaining());
        let reached = Arc::clone(&seat);
        let _abort = context.on_abort(move || reached.abort());
        let _seated = seat.take();
        job(&self.0.agent, context)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("bulkhead", &self.bulkhead.name()).finish_non_exhaustive()
    }
}

/// What a client holds besides its bulkhead's threads.
pub(super) struct Wires {
    pub(super) agent: Agent,
    pub(super) lines: Arc<Lines>,
    pub(super) names: Arc<Names>,
    pub(super) helpers: Arc<Helpers>,
    pub(super) remotes: Arc<Remotes>,
    /// `None` from the close on.
    pub(super) planned: Mutex<Option<PlannedDescriptors>>,
}

impl Resource for Wires {
    fn close(&self) {
        // Closes the idle connections. No request is under way: the last job has ended.
        self.agent.clone().shutdown();
        self.names.close();
        // LOCK: free when they are given back, which takes another.
        let planned = self.planned.lock().take();
        drop(planned);
    }

    fn threads(&self) -> Vec<Thread> {
        self.helpers.threads()
    }

    fn holdings(&self) -> Holdings {
        Holdings { look_ups: Some(self.names.look_ups()), ..self.lines.holdings() }
    }

    fn connections(&self) -> Connections {
        Connections { known: self.remotes.list(), unknown: 0 }
    }

    fn is_over(&self) -> bool {
        self.helpers.are_gone()
    }

    fn wait_until_gone(&self, until: Option<Instant>) -> Vec<String> {
        self.helpers.wait_until_gone(until)
    }
}
