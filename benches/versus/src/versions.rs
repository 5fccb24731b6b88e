//! Which versions are measured: those of the lock file that this was built from.

use crate::common::Failure;

const LOCK: &str = include_str!("../Cargo.lock");

const CONTENDERS: [&str; 9] = [
    "watertight",
    "crossbeam-channel",
    "oneshot",
    "threadpool",
    "rusty_pool",
    "rayon",
    "rayon-core",
    "tokio",
    "blocking",
];

pub(crate) fn of_contenders() -> Result<Vec<(String, String)>, Failure> {
    CONTENDERS
        .iter()
        .map(|name| {
            let version = version_in(LOCK, name).ok_or(format!("{name} is not in Cargo.lock"))?;
            Ok(((*name).to_owned(), version.to_owned()))
        })
        .collect()
}

fn version_in<'a>(lock: &'a str, name: &str) -> Option<&'a str> {
    let entry = format!("name = \"{name}\"");
    let mut lines = lock.lines().skip_while(|line| *line != entry);
    lines.nth(1)?.strip_prefix("version = \"")?.strip_suffix('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_that_of_the_whole_name() {
        let lock = "[[package]]\nname = \"rayon-core\"\nversion = \"1.13.0\"\n\n\
                    [[package]]\nname = \"rayon\"\nversion = \"1.12.0\"\n";
        assert_eq!(version_in(lock, "rayon"), Some("1.12.0"));
        assert_eq!(version_in(lock, "tokio"), None);
    }

    #[test]
    fn every_contender_is_in_the_lock_file() {
        assert_eq!(of_contenders().unwrap().len(), CONTENDERS.len());
    }
}
