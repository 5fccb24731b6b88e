//! [`Remotes`]: where the connections of a bulkhead go that are open now.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::sync::{Arc, Mutex, next_id};

/// The open connections of one client or pool.
#[derive(Debug, Default)]
pub(crate) struct Remotes(Mutex<BTreeMap<u64, Arc<[SocketAddr]>>>);

/// One connection, from the attempt to open it until this is dropped.
#[derive(Debug)]
pub(crate) struct Remote {
    id: u64,
    addresses: Arc<[SocketAddr]>,
    all: Arc<Remotes>,
}

impl Remotes {
    /// Notes a connection that is about to be opened, to one of these addresses.
    pub(crate) fn note(
        self: &Arc<Self>,
        addresses: impl IntoIterator<Item = SocketAddr>,
    ) -> Remote {
        let remote = Remote {
            id: next_id(),
            addresses: addresses.into_iter().collect(),
            all: Arc::clone(self),
        };
        self.0.lock().insert(remote.id, Arc::clone(&remote.addresses));
        remote
    }

    /// For each connection that is open now, the addresses of which it has one.
    pub(crate) fn list(&self) -> Vec<Arc<[SocketAddr]>> {
        self.0.lock().values().cloned().collect()
    }
}

impl Clone for Remote {
    /// One more connection to the same addresses.
    fn clone(&self) -> Self {
        self.all.note(self.addresses.iter().copied())
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.all.0.lock().remove(&self.id);
    }
}
