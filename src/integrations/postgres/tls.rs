//! [`Tls`]: whether a connection is encrypted, and how that is agreed on with the server.
//!
//! The client would do it by itself, but on the bare socket, where a server that accepts and stays
//! silent holds the thread for ever. So it happens inside the [guard](super::guard).

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use ::postgres::Socket;
use ::postgres::config::{Config, SslMode, SslNegotiation};
use ::postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};

use crate::sync::Arc;

/// What the messages of client and server pass through.
pub(super) type Stream = Box<dyn TlsStream + Send + Unpin>;

type Opening = Pin<Box<dyn Future<Output = io::Result<Stream>> + Send>>;

type Handshake = dyn Fn(&str, Socket) -> Opening + Send + Sync;

/// The user's connector, of whatever type.
#[derive(Clone)]
pub(super) struct Connector(Arc<Handshake>);

impl Connector {
    pub(super) fn new<T>(connector: T) -> Self
    where
        T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
        T::TlsConnect: Send + 'static,
        T::Stream: Send + 'static,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        Self(Arc::new(move |host, socket| {
            let made = connector.clone().make_tls_connect(host).map_err(io::Error::other);
            Box::pin(async move {
                let stream = made?.connect(socket).await.map_err(io::Error::other)?;
                Ok(Box::new(stream) as Stream)
            })
        }))
    }
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connector").finish_non_exhaustive()
    }
}

/// What the user has decided, by `sslmode`, `sslnegotiation` and the connector.
#[derive(Debug, Clone)]
pub(super) enum Tls {
    Off,
    /// If the server does it.
    Preferred(Connector),
    /// Or there is no connection.
    Required(Connector),
    /// Required, and without asking the server first.
    Direct(Connector),
}

/// Asks the server whether it does TLS: a length of eight, and a code.
const REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

impl Tls {
    /// What `config` and `connector` come to; or the setting that does not fit, and why.
    pub(super) fn of(
        config: &Config,
        connector: Option<Connector>,
    ) -> Result<Self, (&'static str, &'static str)> {
        let direct = config.get_ssl_negotiation() == SslNegotiation::Direct;
        match (config.get_ssl_mode(), connector) {
            (SslMode::Require, Some(connector)) if direct => Ok(Self::Direct(connector)),
            (SslMode::Require, Some(connector)) => Ok(Self::Required(connector)),
            (SslMode::Require, None) => Err((
                "sslmode",
                "is `require`, but there is no connector for TLS; give one to \
                 `DatabaseBuilder::tls`, such as that of tokio-postgres-rustls",
            )),
            (SslMode::Prefer, _) if direct => Err((
                "sslnegotiation",
                "is `direct`, which leaves no way back to a plain connection; it needs \
                 `sslmode=require`",
            )),
            (SslMode::Prefer, Some(connector)) => Ok(Self::Preferred(connector)),
            (SslMode::Disable, _) | (SslMode::Prefer, None) => Ok(Self::Off),
            (_, _) => Err(("sslmode", "is none of `disable`, `prefer` and `require`")),
        }
    }

    /// Agrees with the server at the other end of `socket`, whose name is `host`.
    pub(super) async fn open(self, mut socket: Socket, host: String) -> io::Result<Stream> {
        let (connector, required) = match self {
            Self::Off => return Ok(Box::new(Plain(socket))),
            Self::Direct(connector) => return connector.0(&host, socket).await,
            Self::Preferred(connector) => (connector, false),
            Self::Required(connector) => (connector, true),
        };
        socket.write_all(&REQUEST).await?;
        // One byte and no more: what follows must come through TLS, or somebody else may have sent it.
        match socket.read_u8().await? {
            b'S' => connector.0(&host, socket).await,
            b'N' if required => Err(io::Error::other(
                "the server does not do TLS, and `sslmode` is `require`: switch `ssl` on at the \
                 server, or set `sslmode=disable` if the network is safe",
            )),
            b'N' => Ok(Box::new(Plain(socket))),
            other => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!(
                    "asked for TLS, the server answered with byte {other:#04x} instead of yes or no: \
                     it is overloaded, or no PostgreSQL server"
                ),
            )),
        }
    }
}

/// A connection without TLS.
struct Plain(Socket);

impl AsyncRead for Plain {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Plain {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

impl TlsStream for Plain {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}
