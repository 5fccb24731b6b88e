//! [`Audit`]: which threads and connections of the process belong to which bulkhead, and which to
//! none.

mod connections;
mod display;
mod process;
mod threads;

use std::fmt;
use std::net::SocketAddr;

use self::process::Process;
use super::Runtime;
use crate::bulkhead::Bulkhead;
use crate::compartment::{Connections, Thread, ThreadKind};

/// Every thread and every connection of the process by bulkhead: the answer to "which pools do I
/// still share?". Made by [`Runtime::audit`], or without a runtime by [`Audit::of_process`].
///
/// What belongs to no bulkhead is *foreign*: the service's own threads, and whatever a library has
/// started behind its back. Its `Display` is a report for people; `{:#}` also lists each thread.
///
/// ```
/// use watertight::{Audit, Bulkhead, Runtime};
///
/// // On a service that is only considering bulkheads: who runs here, and where do connections go?
/// println!("{}", Audit::of_process());
///
/// let runtime = Runtime::builder().bulkhead(Bulkhead::builder("pricing").threads(4)).build()?;
/// let audit = runtime.audit();
/// assert_eq!(audit.threads_of("pricing").count(), 5, "four workers and the timekeeper");
/// println!("{audit}");
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
///
/// # What it sees
///
/// On Linux, everything that `/proc/self` shows. Connections are told apart by their remote address:
/// a `Client` (feature `http`) and a `Database` (feature `postgres`) know how many they have to which
/// address, and what is left over is foreign. A name with several addresses is one
/// service to a bulkhead: which of them a connection has is found by elimination.
///
/// On other systems it sees watertight's own threads, and the connections of clients and databases.
///
/// What it does not see, it names in [`unseen`](Audit::unseen), or cannot know:
///
/// - A `Pool` (feature `r2d2`) whose `remote_address` was not set: only its manager knows where it
///   connects to. Its connections are counted as [`RemoteAddress::Unknown`], and again among the
///   foreign ones, where their sockets are.
/// - Whose a name look-up of the system is: its sockets, to the name server, are foreign.
/// - The other end of a Unix socket; they are only [counted](Audit::unix_sockets).
///
/// # What it costs
///
/// Some 35 µs for each thread and its connection, and 4 µs for each connection of the network
/// namespace, of which other processes may have many: 12 ms with 3,000 of them. So it is for people and
/// for a look now and then, not for each request. It takes none of the locks that calls take.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Audit {
    /// Every thread: by bulkhead in the order of the builder, then the foreign ones by name.
    pub threads: Vec<AuditedThread>,
    /// Every connection that the process has opened, in the same order, by remote address.
    pub connections: Vec<AuditedConnections>,
    /// The addresses that the process listens on; their connections are not among the others.
    pub listeners: Vec<AuditedListener>,
    /// How many Unix sockets are open. `None` where that could not be seen.
    pub unix_sockets: Option<usize>,
    /// How many file descriptors are open. `None` where that could not be seen.
    pub descriptors: Option<usize>,
    /// How many may be, the soft `RLIMIT_NOFILE`. `None` where there is no limit or none could be
    /// seen.
    pub descriptor_limit: Option<u64>,
    /// What could not be seen, and why: one line each. Empty if all was.
    pub unseen: Vec<String>,
}

/// One thread in an [`Audit`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditedThread {
    /// The bulkhead's name; `None` if it is foreign.
    pub bulkhead: Option<String>,
    /// What it is there for; `None` if it is foreign.
    pub kind: Option<ThreadKind>,
    /// Its name as the system shows it.
    pub name: String,
    /// Its number as the system shows it; `None` where that is not known.
    pub tid: Option<u32>,
    /// The bulkhead one of whose threads has started it, most likely: it is foreign, and has one of
    /// the bulkhead's threads' names. On Linux a thread that is given no name has its starter's.
    pub started_by: Option<String>,
}

/// Connections from one bulkhead to one remote address in an [`Audit`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditedConnections {
    /// The bulkhead's name; `None` if they are foreign.
    pub bulkhead: Option<String>,
    /// Where they go.
    pub remote: RemoteAddress,
    /// How many there are.
    pub count: usize,
    /// Another bulkhead, or foreign code, has connections to the same address: a proxy, a database,
    /// a server through which the slowness of one can reach the other.
    pub shared: bool,
}

/// Where a connection goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum RemoteAddress {
    /// To a TCP address.
    Tcp(SocketAddr),
    /// To a UDP address, such as a name server's.
    Udp(SocketAddr),
    /// Only the manager of the bulkhead's pool knows. Its sockets are also among the foreign ones.
    Unknown,
}

/// An address that the process listens on, in an [`Audit`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditedListener {
    /// The address.
    pub local: SocketAddr,
    /// How many connections to it are open.
    pub accepted: usize,
}

impl Audit {
    /// The audit of a process without a runtime: everything is foreign.
    #[must_use]
    pub fn of_process() -> Self {
        Self::of([])
    }

    /// The audit of a process with these runtimes. For the usual one there is [`Runtime::audit`], to
    /// which the threads of any other runtime are foreign.
    #[must_use]
    pub fn of<'a>(runtimes: impl IntoIterator<Item = &'a Runtime>) -> Self {
        let bulkheads: Vec<&Bulkhead> = runtimes.into_iter().flat_map(Runtime::bulkheads).collect();
        // What is ours is asked for before and after: a thread or a connection that comes or goes
        // meanwhile is not taken for a stranger's.
        let before = Own::of(&bulkheads);
        let process = process::read();
        let after = Own::of(&bulkheads);
        let names: Vec<&str> = bulkheads.iter().map(|bulkhead| bulkhead.name()).collect();
        let threads = threads::sort(&names, before.threads, after.threads, process.threads);
        let connections = connections::sort(
            &names,
            before.connections,
            after.connections,
            process.sockets.as_deref(),
        );
        let listeners = process.sockets.as_deref().map(connections::listeners).unwrap_or_default();
        let Process { unix_sockets, descriptors, descriptor_limit, unseen, .. } = process;
        Self {
            threads,
            connections,
            listeners,
            unix_sockets,
            descriptors,
            descriptor_limit,
            unseen,
        }
    }

    /// The threads of this bulkhead: workers, timekeeper, helpers.
    pub fn threads_of(&self, bulkhead: &str) -> impl Iterator<Item = &AuditedThread> {
        self.threads.iter().filter(move |one| one.bulkhead.as_deref() == Some(bulkhead))
    }

    /// The threads of no bulkhead, by name.
    pub fn foreign_threads(&self) -> impl Iterator<Item = &AuditedThread> {
        self.threads.iter().filter(|one| one.bulkhead.is_none())
    }

    /// The connections of this bulkhead.
    pub fn connections_of(&self, bulkhead: &str) -> impl Iterator<Item = &AuditedConnections> {
        self.connections.iter().filter(move |one| one.bulkhead.as_deref() == Some(bulkhead))
    }

    /// The connections of no bulkhead.
    pub fn foreign_connections(&self) -> impl Iterator<Item = &AuditedConnections> {
        self.connections.iter().filter(|one| one.bulkhead.is_none())
    }

    /// The connections to an address that more than one bulkhead, or one and foreign code, have
    /// connections to.
    pub fn shared_connections(&self) -> impl Iterator<Item = &AuditedConnections> {
        self.connections.iter().filter(|one| one.shared)
    }
}

/// What the bulkheads say of themselves, each by its index.
struct Own {
    threads: Vec<(usize, Thread)>,
    connections: Vec<(usize, Connections)>,
}

impl Own {
    fn of(bulkheads: &[&Bulkhead]) -> Self {
        let compartments = || bulkheads.iter().map(|one| one.compartment()).enumerate();
        let threads = compartments().flat_map(|(index, compartment)| {
            compartment.threads().into_iter().map(move |thread| (index, thread))
        });
        let connections =
            compartments().map(|(index, compartment)| (index, compartment.connections()));
        Self { threads: threads.collect(), connections: connections.collect() }
    }
}

impl fmt::Display for RemoteAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "tcp {address}"),
            Self::Udp(address) => write!(f, "udp {address}"),
            Self::Unknown => f.write_str("known to its pool's manager only"),
        }
    }
}
