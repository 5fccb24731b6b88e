//! [`Resource`]: what a bulkhead owns besides threads, and what must not outlive it.

use std::net::SocketAddr;
use std::time::Instant;

use super::{Compartment, Holdings, Thread};
use crate::contain::contain;
use crate::sync::Arc;

/// Connections and helper threads that belong to one compartment, such as a connection pool.
///
/// `close` is called once, on the compartment's own timekeeper thread, after its last job has ended;
/// or at once by `attach`, if the compartment is closing already.
pub(crate) trait Resource: Send + Sync {
    /// Gives everything up: no new connection, idle ones closed, helper threads told to go. It must
    /// not block on a network.
    fn close(&self);

    /// Blocks until the helper threads are gone or `until` has come. Names those that are left.
    fn wait_until_gone(&self, until: Option<Instant>) -> Vec<String>;

    /// Its helper threads that have checked in, those that are gone too.
    fn threads(&self) -> Vec<Thread>;

    /// What it has and had.
    fn holdings(&self) -> Holdings;

    /// Its connections that are open now.
    fn connections(&self) -> Connections;

    /// Whether it was closed before its compartment, and nothing of it is left to wait for.
    #[cfg(all(any(feature = "http", feature = "r2d2"), not(watertight_loom)))]
    fn is_over(&self) -> bool {
        false
    }
}

/// The connections of a resource, or of all of a compartment's.
#[derive(Debug, Clone, Default)]
pub(crate) struct Connections {
    /// For each, the addresses of which it has one.
    pub(crate) known: Vec<Arc<[SocketAddr]>>,
    /// How many more there are, whose addresses are known to the user's code only.
    pub(crate) unknown: usize,
}

/// The resources of a compartment, and whether new ones come too late.
#[derive(Default)]
pub(super) struct Resources {
    closed: bool,
    held: Vec<Arc<dyn Resource>>,
    /// What those had that are over, so that no count ever falls.
    past: Option<Holdings>,
}

impl Compartment {
    /// Ties `resource` to this compartment's life.
    #[cfg(all(any(feature = "http", feature = "r2d2"), not(watertight_loom)))]
    pub(crate) fn attach(&self, resource: &Arc<dyn Resource>) {
        self.forget_resources_that_are_over();
        let late = {
            let mut resources = self.resources.lock();
            resources.held.push(Arc::clone(resource));
            resources.closed
        };
        // LOCK: free, closing runs the user's connections' destructors.
        if late {
            contain(|| resource.close());
        }
    }

    /// So that a bulkhead which is given one pool after the other does not hold on to all of them.
    #[cfg(all(any(feature = "http", feature = "r2d2"), not(watertight_loom)))]
    fn forget_resources_that_are_over(&self) {
        let mut over = self.resources.lock().held.clone();
        // LOCK: free, since a resource looks under a lock of its own.
        over.retain(|resource| resource.is_over());
        let counts: Vec<Holdings> = over.iter().map(|resource| resource.holdings()).collect();
        let mut resources = self.resources.lock();
        for (resource, counts) in over.iter().zip(&counts) {
            // Another thread may have forgotten it meanwhile.
            if let Some(at) = resources.held.iter().position(|one| Arc::ptr_eq(one, resource)) {
                resources.held.swap_remove(at);
                resources.past.get_or_insert_with(Holdings::default).add(counts);
            }
        }
        drop(resources);
        // Their last references, if they are, go here, with `over`.
    }

    /// What its resources have and had; `None` if it has never had any.
    #[allow(dead_code, reason = "for metrics")]
    pub(crate) fn holdings(&self) -> Option<Holdings> {
        let (held, mut all) = {
            let resources = self.resources.lock();
            (resources.held.clone(), resources.past.clone())
        };
        // LOCK: free, since a resource looks under locks of its own.
        for resource in held {
            all.get_or_insert_with(Holdings::default).add(&resource.holdings());
        }
        all
    }

    /// Closes what is attached. On the timekeeper, when the last job has ended.
    pub(super) fn close_resources(&self) {
        let held = {
            let mut resources = self.resources.lock();
            resources.closed = true;
            resources.held.clone()
        };
        for resource in held {
            contain(|| resource.close());
        }
    }

    pub(super) fn resource_threads(&self) -> Vec<Thread> {
        let held = self.resources.lock().held.clone();
        // LOCK: free, since a resource looks under a lock of its own.
        held.iter().flat_map(|resource| resource.threads()).collect()
    }

    /// The connections of its clients and pools that are open now.
    pub(crate) fn connections(&self) -> Connections {
        let held = self.resources.lock().held.clone();
        let mut all = Connections::default();
        for Connections { known, unknown } in held.iter().map(|resource| resource.connections()) {
            all.known.extend(known);
            all.unknown += unknown;
        }
        all
    }

    /// Blocks until no helper thread is left or `until` has come. Names those that are left.
    pub(crate) fn wait_for_resources(&self, until: Option<Instant>) -> Vec<String> {
        let held = self.resources.lock().held.clone();
        held.iter().flat_map(|resource| resource.wait_until_gone(until)).collect()
    }
}
