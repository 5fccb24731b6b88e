//! A schema on the user's own server, which is gone when this process is, however it ends.

use std::io::{self, Read};
use std::process::{Child, Command, ExitCode, Stdio};
use std::{env, process};

use watertight::postgres::Config;
use watertight::postgres::client::NoTls;

use crate::page::Failure;

pub(super) const URL: &str = "DATABASE_URL";

const PREFIX: &str = "watertight_storefront_";

/// The hidden option of the process that cleans up.
const CLEAN_UP: &str = "--clean-up";

/// A name that no other process or database of this one uses.
pub(super) fn name(number: u64) -> String {
    format!("{PREFIX}{}_{number}", process::id())
}

/// A second process of this program. It drops the schema when its standard input ends, and that ends
/// with us.
pub(super) struct Cleaner(Child);

impl Cleaner {
    pub(super) fn start(schema: &str) -> io::Result<Self> {
        let mut command = Command::new(env::current_exe()?);
        command.args([CLEAN_UP, schema]).stdin(Stdio::piped()).stdout(Stdio::null());
        #[cfg(unix)]
        {
            // Ctrl-C goes to a whole group, and this one has work to do then.
            std::os::unix::process::CommandExt::process_group(&mut command, 0);
        }
        command.spawn().map(Self)
    }
}

impl Drop for Cleaner {
    fn drop(&mut self) {
        // `wait` closes its input first.
        let _ = self.0.wait();
    }
}

/// What the second process does; `None` in every other one.
pub(crate) fn clean_up() -> Option<ExitCode> {
    let mut words = env::args().skip(1);
    let (option, schema) = (words.next()?, words.next()?);
    // No other schema is ever dropped, whoever calls this.
    if option != CLEAN_UP || !schema.starts_with(PREFIX) {
        return None;
    }
    Some(match wait_and_drop(&schema) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("storefront: the schema {schema} is still there: {error}");
            ExitCode::FAILURE
        }
    })
}

fn wait_and_drop(schema: &str) -> Result<(), Failure> {
    let _ = io::stdin().read_to_end(&mut Vec::new());
    let mut client = env::var(URL)?.parse::<Config>()?.connect(NoTls)?;
    client.batch_execute(&format!("DROP SCHEMA IF EXISTS \"{schema}\" CASCADE"))?;
    Ok(())
}
