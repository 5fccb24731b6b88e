//! The metrics: exact, valid in both formats, and bounded.
#![allow(clippy::float_cmp, reason = "the numbers are whole, or the same number read twice")]

mod cases;
#[cfg(all(feature = "http", feature = "r2d2"))]
mod connections;
mod exposition;
mod rendering;
#[cfg(feature = "prometheus-serve")]
mod server;
mod storm;
