//! The dependencies: HTTP servers on loopback that answer after a while, and a server that accepts
//! connections and never says a word.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A server on a loopback port of its own, with a thread for every connection: it refuses and queues
/// nothing, so whatever limit the figures show is the client's.
#[derive(Debug)]
pub(crate) struct Origin {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    /// `None` never answers.
    latency: Option<Duration>,
    closing: AtomicBool,
    /// Connections that are held open and silent.
    held: Mutex<Vec<TcpStream>>,
}

impl Origin {
    pub(crate) fn answering_after(latency: Duration) -> io::Result<Self> {
        Self::start(Some(latency))
    }

    pub(crate) fn silent() -> io::Result<Self> {
        Self::start(None)
    }

    fn start(latency: Option<Duration>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let held = Mutex::new(Vec::new());
        let shared = Arc::new(Shared { latency, closing: AtomicBool::new(false), held });
        let theirs = Arc::clone(&shared);
        let accepting =
            thread::Builder::new().name("origin".into()).spawn(move || theirs.accept(&listener))?;
        Ok(Self { address, shared, accepting: Some(accepting) })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Hangs up on everybody who waits for a word.
    pub(crate) fn hang_up(&self) {
        self.shared.held.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::Release);
        // `accept` has no time limit, so one last connection wakes it.
        if TcpStream::connect(self.address).is_ok() {
            if let Some(accepting) = self.accepting.take() {
                let _ = accepting.join();
            }
        }
    }
}

impl Shared {
    fn accept(&self, listener: &TcpListener) {
        for stream in listener.incoming() {
            if self.closing.load(Ordering::Acquire) {
                return;
            }
            let Ok(stream) = stream else { continue };
            match self.latency {
                Some(latency) => drop(thread::spawn(move || answer(stream, latency))),
                None => self.held.lock().unwrap_or_else(PoisonError::into_inner).push(stream),
            }
        }
    }
}

/// Answers requests without a body until the client hangs up.
fn answer(stream: TcpStream, latency: Duration) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut requests = BufReader::new(stream.try_clone()?);
    let mut answers = stream;
    loop {
        loop {
            let mut line = String::new();
            if requests.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if line == "\r\n" {
                break;
            }
        }
        thread::sleep(latency);
        answers.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")?;
    }
}
