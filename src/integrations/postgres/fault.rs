//! Whose fault it is that a query did not go well.

use std::error::Error as _;
use std::io;

use ::postgres::Error;

use crate::integrations::Fault;

/// Whose fault it is: by the server's SQLSTATE, or by what became of the connection.
///
/// | SQLSTATE | is |
/// |---|---|
/// | 53 (out of connections, memory, disk), 57014 (ended by a limit), 57P03 (starting up), 55P03, 40001, 40P01 (contention) | [`Fault::Overload`] |
/// | 08, 57, 58, XX (connections, shutdown, system, internal) | [`Fault::Failure`] |
/// | any other, such as 23505 or 42P01 | [`Fault::Caller`] |
#[must_use]
pub fn fault(error: &Error) -> Fault {
    match error.code() {
        Some(code) => of_sqlstate(code.code()),
        None if error.is_closed() => Fault::Failure,
        None => match error.source().and_then(|cause| cause.downcast_ref::<io::Error>()) {
            Some(io) if io.kind() == io::ErrorKind::TimedOut => OVERLOAD,
            Some(_) => Fault::Failure,
            // A parameter of the wrong type, a row that is not there.
            None => Fault::Caller,
        },
    }
}

const OVERLOAD: Fault = Fault::Overload { retry_after: None };

fn of_sqlstate(code: &str) -> Fault {
    match (code, code.get(..2)) {
        ("57014" | "57P03" | "55P03" | "40001" | "40P01", _) | (_, Some("53")) => OVERLOAD,
        (_, Some("08" | "57" | "58" | "XX")) => Fault::Failure,
        _ => Fault::Caller,
    }
}

#[cfg(all(test, not(any(watertight_loom, watertight_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn overload_failure_and_the_caller_s_mistake_are_told_apart() {
        for code in ["53300", "53100", "57014", "57P03", "40001"] {
            assert_eq!(of_sqlstate(code), OVERLOAD, "{code}");
        }
        for code in ["08006", "57P01", "58030", "XX000"] {
            assert_eq!(of_sqlstate(code), Fault::Failure, "{code}");
        }
        for code in ["23505", "42P01", "22012", "25P02", "", "é"] {
            assert_eq!(of_sqlstate(code), Fault::Caller, "{code}");
        }
    }
}
