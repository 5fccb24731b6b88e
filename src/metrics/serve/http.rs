//! What is asked for, and what is answered.

use std::convert::Infallible;

use hyper::header::ACCEPT;
use hyper::{Method, Request, Response};

use super::answer::{Answer, Whole};
use super::reader::{Question, Reader};
use crate::metrics::Format;

const PATHS: &str = "/metrics\n/snapshot.json\n/livez\n/readyz\n";

/// Answers one request. Its body, if it has one, is not read.
pub(super) async fn respond<B>(
    request: Request<B>,
    reader: Reader,
) -> Result<Response<Whole>, Infallible> {
    let answer = if matches!(*request.method(), Method::GET | Method::HEAD) {
        answer(&request, &reader).await
    } else {
        Answer::plain(405, "only GET and HEAD are answered here\n")
    };
    Ok(answer.into_response())
}

async fn answer<B>(request: &Request<B>, reader: &Reader) -> Answer {
    match request.uri().path() {
        "/livez" => Answer::plain(200, "alive\n"),
        "/readyz" => reader.ask(Question::Ready).await,
        "/metrics" => {
            // A header that comes more than once is one list.
            let ranges = request.headers().get_all(ACCEPT);
            let ranges: Vec<_> = ranges.iter().filter_map(|value| value.to_str().ok()).collect();
            reader.ask(Question::Metrics(Format::negotiate(&ranges.join(",")))).await
        }
        "/snapshot.json" => reader.ask(Question::Snapshot).await,
        "/" => Answer::plain(200, PATHS),
        _ => Answer::plain(404, format!("there is nothing here; there is\n{PATHS}")),
    }
}
