//! Whose fault it is that a request did not go well.

use std::time::Duration;

use ureq::http::Response;
use ureq::{Body, Error};

use crate::integrations::Fault;

/// Whose fault it is, or `None` if the request went well.
///
/// ```
/// use watertight::http::{Fault, fault};
///
/// assert_eq!(fault(&Err(ureq::Error::StatusCode(404))), Some(Fault::Caller));
/// assert_eq!(fault(&Err(ureq::Error::StatusCode(502))), Some(Fault::Failure));
/// ```
#[must_use]
pub fn fault(answer: &Result<Response<Body>, Error>) -> Option<Fault> {
    match answer {
        Ok(response) => of_status(response.status().as_u16(), retry_after(response)),
        Err(Error::StatusCode(status)) => of_status(*status, None),
        Err(Error::Timeout(_)) => Some(Fault::Overload { retry_after: None }),
        Err(
            Error::Http(_)
            | Error::BadUri(_)
            | Error::BodyExceedsLimit(_)
            | Error::TooManyRedirects
            | Error::RequireHttpsOnly(_)
            | Error::TlsRequired
            | Error::InvalidProxyUrl,
        ) => Some(Fault::Caller),
        Err(_) => Some(Fault::Failure),
    }
}

fn of_status(status: u16, retry_after: Option<Duration>) -> Option<Fault> {
    match status {
        429 | 503 => Some(Fault::Overload { retry_after }),
        500.. => Some(Fault::Failure),
        // 408: it was the server that waited in vain.
        400.. => Some(Fault::Caller),
        _ => None,
    }
}

fn retry_after(response: &Response<Body>) -> Option<Duration> {
    let text = response.headers().get("retry-after")?.to_str().ok()?;
    text.trim().parse().ok().map(Duration::from_secs)
}
