//! The connector and the transport around ureq's: every wait ends with the job that waits.

use ureq::unversioned::transport::time::Duration as Time;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, DefaultConnector, NextTimeout, ShutdownHandle, Transport,
};
use ureq::{Error, Timeout};

use super::seat::{Line, Lines, Seat};
use crate::integrations::remotes::{Remote, Remotes};
use crate::sync::{Arc, Mutex, Weak};

/// Connects as ureq does, within the job's time, and keeps hold of the socket.
#[derive(Debug)]
pub(super) struct Watched {
    inner: DefaultConnector,
    /// The most bytes of one response, its head included.
    most: u64,
    lines: Arc<Lines>,
    remotes: Arc<Remotes>,
}

impl Watched {
    pub(super) fn new(most: u64, lines: Arc<Lines>, remotes: Arc<Remotes>) -> Self {
        Self { inner: DefaultConnector::new(), most, lines, remotes }
    }
}

impl Connector for Watched {
    type Out = WatchedTransport;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        chained: Option<()>,
    ) -> Result<Option<Self::Out>, Error> {
        let seat = Seat::here()?;
        seat.check()?;
        let socket: Arc<Mutex<Option<Weak<dyn ShutdownHandle>>>> = Arc::default();
        let register = {
            let (socket, onward) = (Arc::clone(&socket), Arc::clone(&details.register_shutdown));
            move |handle: Weak<dyn ShutdownHandle>| {
                *socket.lock() = Some(Weak::clone(&handle));
                onward(handle)
            }
        };
        let within = ConnectionDetails {
            uri: details.uri,
            addrs: details.addrs.clone(),
            config: details.config,
            request_level: details.request_level,
            resolver: details.resolver,
            now: details.now,
            timeout: within(&seat, details.timeout)?,
            current_time: Arc::clone(&details.current_time),
            run_connector: Arc::clone(&details.run_connector),
            register_shutdown: Arc::new(register),
        };
        // Behind a proxy there are no addresses here: the connection to the proxy is opened by a call
        // of its own, within this one, and counted there.
        let lines = (!details.addrs.is_empty()).then_some(&self.lines);
        let remote = self.remotes.note(details.addrs.iter().copied());
        let connected = self.inner.connect(&within, chained).inspect_err(|_| {
            if let Some(lines) = lines {
                lines.failed_to_open();
            }
        });
        let Some(inner) = connected? else { return Ok(None) };
        let Some(socket) = socket.lock().take() else {
            return Err(Error::ConnectionFailed);
        };
        let (line, most) = (Line::open(&seat, socket, lines), self.most);
        Ok(Some(WatchedTransport { inner, line, most, received: 0, _remote: remote }))
    }
}

/// A connection whose reads and writes end with the job that makes them.
#[derive(Debug)]
pub(super) struct WatchedTransport {
    inner: Box<dyn Transport>,
    line: Arc<Line>,
    most: u64,
    /// Bytes since the last request went out.
    received: u64,
    _remote: Remote,
}

impl Transport for WatchedTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.inner.buffers()
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        let seat = Seat::here()?;
        seat.claim(&self.line)?;
        self.received = 0;
        let outcome = self.inner.transmit_output(amount, within(&seat, timeout)?);
        seat.check()?;
        outcome
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        let seat = Seat::here()?;
        seat.claim(&self.line)?;
        let before = self.inner.buffers().input().len();
        let progress = self.inner.await_input(within(&seat, timeout)?);
        // First of all: a socket that was shut down reads as the end of a body that is complete.
        seat.check()?;
        let progress = progress?;
        let after = self.inner.buffers().input().len();
        self.received += after.saturating_sub(before) as u64;
        if self.received > self.most {
            return Err(Error::BodyExceedsLimit(self.most));
        }
        Ok(progress)
    }

    fn is_open(&mut self) -> bool {
        self.inner.is_open()
    }

    fn is_tls(&self) -> bool {
        self.inner.is_tls()
    }
}

/// `timeout`, but no more than the job has left.
pub(super) fn within(seat: &Seat, timeout: NextTimeout) -> Result<NextTimeout, Error> {
    match seat.left()? {
        Some(left) if left < *timeout.after => {
            Ok(NextTimeout { after: Time::Exact(left), reason: Timeout::Global, ..timeout })
        }
        _ => Ok(timeout),
    }
}
