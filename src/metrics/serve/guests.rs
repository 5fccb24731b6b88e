//! [`Guests`]: who is connected, and who has to go.

use std::future::{Future, poll_fn};
use std::net::TcpListener;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::http::respond;
use super::reader::Reader;
use crate::sync::{Arc, Flag};

/// The most bytes that the head of a request may have. Prometheus sends some 500.
const HEAD: usize = 8 * 1024;

/// How long no connection is accepted after the system refused one: it has run out of something, most
/// likely of file descriptors, and will not have found some at once.
const PAUSE: Duration = Duration::from_millis(50);

/// The rules of the house.
pub(super) struct Guests {
    pub(super) most: usize,
    /// How long one may stay.
    pub(super) limit: Duration,
    pub(super) reader: Reader,
}

/// A client, in the order of arrival.
struct Guest {
    task: JoinHandle<()>,
    /// Its whole request has come.
    has_asked: Arc<Flag>,
}

/// Serves whoever comes, until `stopped`. Whoever is there then is sent away.
pub(super) async fn welcome(listener: TcpListener, guests: Guests, stopped: oneshot::Receiver<()>) {
    let (mut accepting, mut stopped) = (pin!(accept(listener, guests)), pin!(stopped));
    poll_fn(|context| {
        let is_over = stopped.as_mut().poll(context).is_ready()
            || accepting.as_mut().poll(context).is_ready();
        if is_over { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

async fn accept(listener: TcpListener, guests: Guests) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    let mut here: Vec<Guest> = Vec::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                here.retain(|guest| !guest.task.is_finished());
                if here.len() >= guests.most {
                    send_one_away(&mut here);
                }
                here.push(guests.seat(stream));
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
        // However many are at the door, those inside get their turn, and so what they have asked is
        // seen before it is decided who has to go.
        tokio::task::yield_now().await;
    }
}

/// The one that has not finished its request for the longest time; if all have, the one that has been
/// here for the longest.
fn send_one_away(here: &mut Vec<Guest>) {
    let slowest = here.iter().position(|guest| !guest.has_asked.is_up()).unwrap_or(0);
    here.remove(slowest).task.abort();
}

impl Guests {
    fn seat(&self, stream: TcpStream) -> Guest {
        let has_asked = Arc::new(Flag::new());
        let (reader, asked) = (self.reader.clone(), Arc::clone(&has_asked));
        let service = service_fn(move |request| {
            asked.raise();
            respond(request, reader.clone())
        });
        let connection = http1::Builder::new()
            .keep_alive(false)
            // Who has asked may close its half of the connection and is answered all the same.
            .half_close(true)
            .max_buf_size(HEAD)
            // `limit` is for all of it.
            .header_read_timeout(None)
            .serve_connection(TokioIo::new(stream), service);
        let limit = self.limit;
        let task = tokio::spawn(async move {
            // What goes wrong here is the client's.
            let _ = tokio::time::timeout(limit, connection).await;
        });
        Guest { task, has_asked }
    }
}
