//! What users may hold the crate to: one binary, one module for each group of promises.
#![cfg(not(watertight_loom))]

mod cases;
mod smoke;
mod support;
