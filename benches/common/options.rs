//! The arguments that every bench takes.

use super::Failure;

pub(crate) const USAGE: &str = "\
options:
  --quick       the named subset that is done within three minutes; the rest is `skipped`
  --json        one JSON document on standard output instead of the tables
  --only WORD   the workloads whose name contains WORD; may be given several times";

#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) quick: bool,
    pub(crate) json: bool,
    pub(crate) only: Vec<String>,
}

impl Options {
    /// Reads the arguments after the program's name.
    ///
    /// # Errors
    ///
    /// An argument that no bench knows.
    pub(crate) fn read(arguments: impl IntoIterator<Item = String>) -> Result<Self, Failure> {
        let mut options = Self::default();
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--quick" => options.quick = true,
                "--json" => options.json = true,
                "--only" => {
                    let word = arguments.next().ok_or("`--only` needs a word after it")?;
                    options.only.push(word);
                }
                // `cargo bench` adds it to the arguments of every bench.
                "--bench" => {}
                other => return Err(format!("unknown argument `{other}`\n\n{USAGE}").into()),
            }
        }
        Ok(options)
    }

    /// Whether a workload is run: named by `--only`, or else in the subset of `--quick`.
    pub(crate) fn wants(&self, workload: &str, in_quick: bool) -> bool {
        if self.only.is_empty() {
            return in_quick || !self.quick;
        }
        self.only.iter().any(|word| workload.contains(word.as_str()))
    }

    /// One number for a quick run and one for a full one.
    pub(crate) fn pick<T>(&self, quick: T, full: T) -> T {
        if self.quick { quick } else { full }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Options, Failure> {
        Options::read(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn the_arguments_that_cargo_adds_are_ignored() {
        assert_eq!(read("--bench").unwrap(), Options::default());
        let options = read("--quick --json --bench").unwrap();
        assert!(options.quick && options.json);
    }

    #[test]
    fn an_unknown_argument_is_an_error_that_shows_the_known_ones() {
        let error = read("--fast").unwrap_err().to_string();
        assert!(error.contains("`--fast`") && error.contains("--quick"), "{error}");
        assert!(read("--only").is_err());
    }

    #[test]
    fn only_outweighs_the_quick_subset() {
        let quick = read("--quick").unwrap();
        assert!(quick.wants("burst", true) && !quick.wants("burst", false));
        let only = read("--quick --only throughput --only burst").unwrap();
        assert!(only.wants("throughput 1x1", false) && only.wants("burst", false));
        assert!(!only.wants("round trip", true));
        assert!(read("").unwrap().wants("anything", false));
    }
}
