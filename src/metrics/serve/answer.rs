//! [`Answer`]: what a client gets.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame, SizeHint};
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};

/// A status and a whole body.
#[derive(Debug)]
pub(super) struct Answer {
    status: u16,
    content_type: &'static str,
    body: String,
}

impl Answer {
    pub(super) fn new(content_type: &'static str, body: String) -> Self {
        Self { status: 200, content_type, body }
    }

    pub(super) fn plain(status: u16, body: impl Into<String>) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", body: body.into() }
    }

    pub(super) fn into_response(self) -> Response<Whole> {
        let mut response = Response::new(Whole(Some(self.body.into())));
        // Every status here is one of ours, and valid.
        *response.status_mut() =
            StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut set = |name: HeaderName, value| {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        };
        set(CONTENT_TYPE, self.content_type);
        // A number of a minute ago is worse than none.
        set(CACHE_CONTROL, "no-store");
        if self.status == 405 {
            set(ALLOW, "GET, HEAD");
        }
        response
    }
}

/// A body that is there as a whole.
#[derive(Debug)]
pub(super) struct Whole(Option<Bytes>);

impl Body for Whole {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.get_mut().0.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}
