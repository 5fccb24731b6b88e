//! watertight beside what a user could pick instead. See the library for what is measured.
//!
//! `cargo bench --manifest-path benches/versus/Cargo.toml -- --quick`

use std::process::ExitCode;

fn main() -> ExitCode {
    versus::main(std::env::args().skip(1).collect())
}
