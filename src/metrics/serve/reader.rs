//! [`Reader`]: the thread that reads the bulkheads.

use std::io;
use std::time::Duration;

use crossbeam_channel::{Sender, bounded};
use prometheus_client::registry::Registry;
use tokio::sync::oneshot;

use super::answer::Answer;
use super::json;
use super::ready::Requirements;
use crate::contain::contain;
use crate::metrics::collector::encode;
use crate::metrics::{Format, Metrics};
use crate::sync::{ThreadSpec, spawn};

/// How many questions may wait for the reader. Each is a few kilobytes of an answer, and a scraper
/// asks every few seconds; more than a handful means that the reader hangs.
const QUEUE: usize = 16;

/// The longest that a client waits for the reader. Shorter than scrapers wait, so that they are told.
const PATIENCE: Duration = Duration::from_secs(5);

/// What only the reader can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Question {
    Metrics(Format),
    Snapshot,
    Ready,
}

/// From what the answers are made.
pub(super) struct Sources {
    pub(super) metrics: Metrics,
    /// With the bulkheads' metrics registered.
    pub(super) registry: Registry,
    pub(super) requirements: Requirements,
}

/// The way to the reader. The thread ends when it is gone.
#[derive(Debug, Clone)]
pub(super) struct Reader(Sender<(Question, oneshot::Sender<Answer>)>);

/// Starts the thread.
pub(super) fn start(sources: Sources) -> io::Result<Reader> {
    let (ask, asked) = bounded::<(Question, oneshot::Sender<Answer>)>(QUEUE);
    let spec = ThreadSpec { name: "watertight-read".into(), stack_size: None };
    let body = move || {
        for (question, reply) in asked {
            // Nobody waits for it any more.
            if reply.is_closed() {
                continue;
            }
            let mut answer = Answer::plain(500, "a collector of the registry panicked\n");
            contain(|| answer = sources.answer(question));
            let _ = reply.send(answer);
        }
    };
    // Nobody joins it: the user's code may hang there.
    spawn(spec, || (), body).map(|_| Reader(ask))
}

impl Sources {
    fn answer(&self, question: Question) -> Answer {
        match question {
            Question::Metrics(format) => {
                let body = encode(&self.registry, format);
                if body.is_empty() {
                    return Answer::plain(500, "a collector of the registry failed\n");
                }
                Answer::new(format.content_type(), body)
            }
            Question::Snapshot => Answer::new("application/json", json::of(&self.metrics.read())),
            Question::Ready => self.requirements.check(&self.metrics),
        }
    }
}

impl Reader {
    /// The reader's answer, or that there is none in time.
    pub(super) async fn ask(&self, question: Question) -> Answer {
        let (reply, answer) = oneshot::channel();
        let hangs = |why| Answer::plain(503, format!("the bulkheads cannot be read: {why}\n"));
        if self.0.try_send((question, reply)).is_err() {
            return hangs("too many wait for that already");
        }
        match tokio::time::timeout(PATIENCE, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => hangs("the server is stopping"),
            Err(_) => hangs("that takes too long; does the runtime's clock hang?"),
        }
    }
}
