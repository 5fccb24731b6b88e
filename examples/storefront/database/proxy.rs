//! The road to a PostgreSQL server, which can be blocked: then it accepts and nothing comes back.
//!
//! What is under way when it is blocked is kept, in both directions, and delivered when the road is
//! free again, as TCP does it after an outage.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

/// A copier needs little more than its buffer, and there are two for each connection.
const STACK: usize = 128 * 1024;

/// A start of a session begins with its length and this, which is the version of the protocol; a
/// request to cancel has another code there.
const SESSION: [u8; 4] = [0, 3, 0, 0];

pub(super) struct Proxy {
    address: SocketAddr,
    road: Arc<Road>,
    accepting: Option<JoinHandle<()>>,
}

struct Road {
    server: (String, u16),
    blocked: Mutex<bool>,
    freed: Condvar,
    sessions: AtomicU64,
    closing: AtomicBool,
}

impl Proxy {
    pub(super) fn start(host: String, port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let road = Arc::new(Road {
            server: (host, port),
            blocked: Mutex::new(false),
            freed: Condvar::new(),
            sessions: AtomicU64::new(0),
            closing: AtomicBool::new(false),
        });
        let accepting = thread::Builder::new().name("proxy".to_owned()).spawn({
            let road = Arc::clone(&road);
            move || road.accept(&listener)
        })?;
        Ok(Self { address, road, accepting: Some(accepting) })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sessions that have been asked for so far and got through.
    pub(super) fn sessions(&self) -> u64 {
        self.road.sessions.load(Ordering::Relaxed)
    }

    pub(super) fn set_blocked(&self, blocked: bool) {
        *self.road.blocked.lock().unwrap_or_else(PoisonError::into_inner) = blocked;
        self.road.freed.notify_all();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.road.closing.store(true, Ordering::Release);
        self.set_blocked(false);
        // One last connection wakes `accept`. The copiers are not waited for: each pair ends when
        // its client hangs up.
        if TcpStream::connect(self.address).is_ok() {
            if let Some(accepting) = self.accepting.take() {
                let _ = accepting.join();
            }
        }
    }
}

impl Road {
    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        for client in listener.incoming() {
            if self.closing.load(Ordering::Acquire) {
                return;
            }
            let Ok(client) = client else { continue };
            let road = Arc::clone(self);
            // A connection that cannot be served is dropped; its client sees it closed.
            let _ = thread::Builder::new().stack_size(STACK).spawn(move || road.connect(&client));
        }
    }

    fn connect(self: Arc<Self>, client: &TcpStream) -> io::Result<()> {
        self.wait_until_free();
        let (host, port) = &self.server;
        let server = TcpStream::connect((host.as_str(), *port))?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let (from, to) = (server.try_clone()?, client.try_clone()?);
        let road = Arc::clone(&self);
        let back = move || road.copy(&from, &to, |_| ());
        thread::Builder::new().stack_size(STACK).spawn(back)?;
        let mut is_first = true;
        self.copy(client, &server, |bytes| {
            if std::mem::take(&mut is_first) && bytes.get(4..8) == Some(&SESSION) {
                self.sessions.fetch_add(1, Ordering::Relaxed);
            }
        });
        Ok(())
    }

    /// Carries bytes one way until there are no more.
    fn copy(&self, mut from: &TcpStream, mut to: &TcpStream, mut look: impl FnMut(&[u8])) {
        let mut buffer = [0; 8192];
        loop {
            let read = from.read(&mut buffer).unwrap_or(0);
            self.wait_until_free();
            if read == 0 {
                let _ = to.shutdown(Shutdown::Write);
                return;
            }
            look(&buffer[..read]);
            if to.write_all(&buffer[..read]).is_err() {
                // The other end is gone, so the other way is of no use either.
                let _ = from.shutdown(Shutdown::Both);
                return;
            }
        }
    }

    fn wait_until_free(&self) {
        let blocked = self.blocked.lock().unwrap_or_else(PoisonError::into_inner);
        let free = self.freed.wait_while(blocked, |blocked| *blocked);
        drop(free.unwrap_or_else(PoisonError::into_inner));
    }
}
