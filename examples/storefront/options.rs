//! What was asked for on the command line.

use std::env;
use std::path::PathBuf;

use crate::database::Kind;
use crate::page::Failure;
use crate::run::{Mode, Setup};

pub(crate) const USAGE: &str = "\
Usage: storefront [--database NAME] [--mode NAME] [--quick] [--json] [--picture PATH]
       storefront --serve [--port PORT] [--database NAME]

  --database NAME  where reviews are: sqlite (the default), or postgres: the server of DATABASE_URL,
                   or a throwaway one; needs `--features postgres`
  --mode NAME      slow (the default): reviews takes 3 s; hung: its database accepts and does not
                   answer, and returns
  --quick          one healthy and one degraded window of 2 s per build
  --json           print one JSON object instead of the table
  --picture PATH   where the picture goes (default: beside the program; none with --quick)
  --serve          keep the service with bulkheads up
  --port PORT      where it listens (default: 8080); its metrics are at the next port, if it is built
                   with `--features prometheus-serve`";

#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) setup: Setup,
    pub(crate) quick: bool,
    pub(crate) json: bool,
    pub(crate) picture: Option<PathBuf>,
    pub(crate) serve: bool,
    pub(crate) port: u16,
}

/// `None` when only the usage is wanted.
pub(crate) fn options(words: &[String]) -> Result<Option<Options>, Failure> {
    let mut options = Options {
        setup: Setup { database: Kind::Sqlite, mode: Mode::Slow },
        quick: false,
        json: false,
        picture: None,
        serve: false,
        port: 8080,
    };
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let mut value = |what: &str| rest.next().ok_or_else(|| format!("{word} needs {what}"));
        match word.as_str() {
            "--database" => {
                let name = value("a name")?;
                options.setup.database = Kind::named(name)
                    .ok_or_else(|| format!("--database {name}: it is sqlite or postgres"))?;
            }
            "--mode" => {
                let name = value("a name")?;
                options.setup.mode = Mode::named(name)
                    .ok_or_else(|| format!("--mode {name}: it is slow or hung"))?;
            }
            "--quick" => options.quick = true,
            "--json" => options.json = true,
            "--serve" => options.serve = true,
            "--picture" => options.picture = Some(value("a path")?.into()),
            "--port" => {
                let port = value("a number")?;
                options.port = port.parse().map_err(|error| format!("--port {port}: {error}"))?;
            }
            "--help" | "-h" => return Ok(None),
            other => return Err(format!("unknown option {other}").into()),
        }
    }
    if cfg!(not(feature = "postgres")) && options.setup.database == Kind::Postgres {
        let command = "cargo run --release --features postgres --example storefront --";
        let words = words.join(" ");
        return Err(format!(
            "--database postgres needs the feature `postgres`, which this program was built \
             without. Run\n\n  {command} {words}"
        )
        .into());
    }
    if options.picture.is_none() && !options.quick {
        // Among what is built, so that a clone stays as it was.
        options.picture = Some(env::current_exe()?.with_extension("svg"));
    }
    Ok(Some(options))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Options, String> {
        let words: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
        options(&words).map(|options| options.expect("not the usage")).map_err(|e| e.to_string())
    }

    #[test]
    fn sqlite_that_is_slow_is_the_default() {
        let options = parsed("").expect("no option is needed");
        assert_eq!(options.setup, Setup { database: Kind::Sqlite, mode: Mode::Slow });
    }

    #[test]
    fn a_picture_is_drawn_in_the_clone_only_if_it_is_asked_for() {
        let target = env::current_exe().expect("it runs");
        let default = parsed("").expect("valid").picture.expect("a picture by default");
        assert_eq!(default.parent(), target.parent());
        assert_eq!(parsed("--quick").expect("valid").picture, None);
        let named = parsed("--quick --picture docs/here.svg").expect("valid").picture;
        assert_eq!(named, Some("docs/here.svg".into()));
    }

    #[test]
    fn what_is_not_understood_is_named_with_what_would_be() {
        for (line, said) in [
            ("--mode", "--mode needs a name"),
            ("--mode dead", "--mode dead: it is slow or hung"),
            ("--database oracle", "--database oracle: it is sqlite or postgres"),
            ("--port x", "--port x: invalid digit found in string"),
            ("--sloow", "unknown option --sloow"),
        ] {
            assert_eq!(parsed(line).expect_err(line), said);
        }
    }

    #[cfg(not(feature = "postgres"))]
    #[test]
    fn without_the_feature_the_command_that_works_is_told() {
        let error = parsed("--quick --database postgres --mode hung").expect_err("no feature");
        let command = "cargo run --release --features postgres --example storefront -- --quick \
                       --database postgres --mode hung";
        assert!(error.ends_with(command), "{error}");
    }

    #[cfg(feature = "postgres")]
    #[test]
    fn with_the_feature_postgres_is_a_database() {
        let options = parsed("--database postgres --mode hung").expect("valid");
        assert_eq!(options.setup, Setup { database: Kind::Postgres, mode: Mode::Hung });
    }
}
