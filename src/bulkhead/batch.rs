//! [`Batch`]: many jobs, one receiver, in the order in which they end.

use std::fmt;

use crossbeam_channel::{Receiver, Sender, unbounded};

use super::Bulkhead;
use super::submission::Manner;
use crate::compartment::{Answer, Context, Route, Slot};
use crate::contain::drop_contained;
use crate::error::{CallError, Rejected};
use crate::sync::{Arc, Flag, Mutex};
use crate::time::Deadline;

/// Gathers the answers of many jobs, of one bulkhead or several, in the order in which they end.
///
/// Every accepted job yields exactly one `(key, answer)`, however it ends; a refused one yields its
/// [`Rejected`] at once and nothing later. The receiver is crossbeam's, so it can stand in a
/// `select!` beside others. Delivery never blocks a worker: the channel takes whatever comes, and
/// what can come is bounded by the jobs that were accepted.
///
/// Dropping the batch leaves its jobs running, with nobody to look at their values: those that have
/// come are dropped with it, the others on their workers, and panics in their destructors are caught.
///
/// ```
/// use watertight::{Batch, Bulkhead, Runtime};
///
/// let runtime = Runtime::builder()
///     .bulkhead(Bulkhead::builder("reviews").threads(2))
///     .bulkhead(Bulkhead::builder("pricing").threads(2))
///     .build()?;
///
/// let batch = Batch::new();
/// batch.submit(&runtime.bulkhead("reviews")?, "stars", |_| 4)?;
/// batch.submit(&runtime.bulkhead("pricing")?, "cents", |_| 990)?;
///
/// let mut page = Vec::new();
/// while batch.pending() > 0 {
///     let (part, answer) = batch.receiver().recv()?;
///     page.push((part, answer?));
/// }
/// page.sort();
/// assert_eq!(page, [("cents", 990), ("stars", 4)]);
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
pub struct Batch<K, T> {
    sender: Sender<(K, Result<T, CallError>)>,
    receiver: Receiver<(K, Result<T, CallError>)>,
    shared: Arc<Shared>,
}

/// What the batch and its jobs share.
#[derive(Debug, Default)]
struct Shared {
    abandoned: Flag,
    /// Jobs that have been accepted and have not delivered yet.
    outstanding: Mutex<usize>,
}

impl<K: Send + 'static, T: Send + 'static> Batch<K, T> {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Self {
        let (sender, receiver) = unbounded();
        Self { sender, receiver, shared: Arc::default() }
    }

    /// Hands `job` over as [`Bulkhead::submit`] does; its answer will come with `key`.
    ///
    /// # Errors
    ///
    /// [`Rejected`] with the closure inside.
    pub fn submit<F>(&self, bulkhead: &Bulkhead, key: K, job: F) -> Result<(), Rejected<F>>
    where
        F: FnOnce(&Context<'_>) -> T + Send + 'static,
    {
        self.bring_in(bulkhead, Manner::MayWait, Deadline::never(), key, job)
    }

    /// Hands `job` over as [`Bulkhead::submit_until`] does: at `deadline` it yields an answer.
    ///
    /// # Errors
    ///
    /// [`Rejected`] with the closure inside.
    pub fn submit_until<F>(
        &self,
        bulkhead: &Bulkhead,
        deadline: Deadline,
        key: K,
        job: F,
    ) -> Result<(), Rejected<F>>
    where
        F: FnOnce(&Context<'_>) -> T + Send + 'static,
    {
        self.bring_in(bulkhead, Manner::MayWait, deadline, key, job)
    }

    /// Hands `job` over as [`Bulkhead::try_submit`] does, never waiting.
    ///
    /// # Errors
    ///
    /// [`Rejected`] with the closure inside.
    pub fn try_submit<F>(&self, bulkhead: &Bulkhead, key: K, job: F) -> Result<(), Rejected<F>>
    where
        F: FnOnce(&Context<'_>) -> T + Send + 'static,
    {
        self.bring_in(bulkhead, Manner::Never, Deadline::never(), key, job)
    }

    fn bring_in<F>(
        &self,
        bulkhead: &Bulkhead,
        manner: Manner,
        deadline: Deadline,
        key: K,
        job: F,
    ) -> Result<(), Rejected<F>>
    where
        F: FnOnce(&Context<'_>) -> T + Send + 'static,
    {
        // Counted before, since the job may deliver before we are told that it was accepted.
        *self.shared.outstanding.lock() += 1;
        let route = ToBatch {
            onward: Mutex::new(Some((key, self.sender.clone()))),
            shared: Arc::clone(&self.shared),
        };
        match bulkhead.bring_in(manner, deadline, job, route) {
            Ok(_) => Ok(()),
            Err(rejected) => {
                *self.shared.outstanding.lock() -= 1;
                Err(rejected)
            }
        }
    }
}

impl<K, T> Batch<K, T> {
    /// Where the answers come out.
    #[must_use]
    pub const fn receiver(&self) -> &Receiver<(K, Result<T, CallError>)> {
        &self.receiver
    }

    /// How many answers are still to be received: accepted jobs, less those taken from the receiver.
    #[must_use]
    pub fn pending(&self) -> usize {
        // A job sends before it stops being outstanding, both under this lock: read under it too,
        // no answer is missed or counted twice.
        let outstanding = self.shared.outstanding.lock();
        *outstanding + self.receiver.len()
    }
}

impl<K: Send + 'static, T: Send + 'static> Default for Batch<K, T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K, T> Drop for Batch<K, T> {
    fn drop(&mut self) {
        {
            // Under the lock that every answer is sent under, so that none comes after this.
            let _outstanding = self.shared.outstanding.lock();
            self.shared.abandoned.raise();
        }
        // One by one, since a destructor that panics must not cost the others theirs.
        while let Ok(unwanted) = self.receiver.try_recv() {
            drop_contained(unwanted);
        }
    }
}

impl<K, T> fmt::Debug for Batch<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("pending", &self.pending()).finish_non_exhaustive()
    }
}

type Onward<K, T> = (K, Sender<(K, Answer<T>)>);

/// Sends a job's answer on as soon as it is there.
struct ToBatch<K, T> {
    /// Until it has been used.
    onward: Mutex<Option<Onward<K, T>>>,
    shared: Arc<Shared>,
}

impl<K: Send, T: Send> Route<T> for ToBatch<K, T> {
    fn is_abandoned(&self) -> bool {
        self.shared.abandoned.is_up()
    }

    fn recall(&self) {
        let onward = self.onward.lock().take();
        // Contained, so that the closure gets back to the caller and the count stays true.
        drop_contained(onward);
    }

    fn deliver(&self, slot: &Slot<T>) {
        let onward = self.onward.lock().take();
        let Some(answer) = slot.take() else {
            // The batch is gone, and so is the answer. The key goes after them.
            drop_contained(onward);
            return;
        };
        let Some((key, sender)) = onward else { return };
        let refused = {
            // The channel has no bound, so sending does not wait for anybody, and it runs no user
            // code: the value is moved.
            let mut outstanding = self.shared.outstanding.lock();
            *outstanding -= 1;
            if self.shared.abandoned.is_up() {
                Some((key, answer))
            } else {
                sender.send((key, answer)).err().map(|unsent| unsent.0)
            }
        };
        // Nobody receives any more: key and value are the user's, and this is a stranger's thread.
        drop_contained(refused);
        drop_contained(sender);
    }
}
