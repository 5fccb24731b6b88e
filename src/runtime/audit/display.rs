//! [`Audit`] as a report for people.

use std::fmt;

use super::{Audit, AuditedConnections, AuditedThread, RemoteAddress};
use crate::compartment::ThreadKind;

const FOREIGN: &str = "(foreign)";

impl fmt::Display for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_head(f)?;
        write_table(f, "THREADS", &self.thread_rows())?;
        write_table(f, "CONNECTIONS", &self.connection_rows())?;
        let listeners = self
            .listeners
            .iter()
            .map(|one| [format!("tcp {}", one.local), format!("{} accepted", one.accepted)]);
        write_table(f, "LISTENING", &listeners.collect::<Vec<_>>())?;
        let unseen = self.unseen.iter().map(|line| [line.clone()]);
        write_table(f, "NOT SEEN", &unseen.collect::<Vec<_>>())?;
        if f.alternate() {
            write_table(
                f,
                "EACH THREAD",
                &self.threads.iter().map(thread_row).collect::<Vec<_>>(),
            )?;
        }
        Ok(())
    }
}

impl Audit {
    fn write_head(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let foreign = self.foreign_threads().count();
        write!(f, "process {}", std::process::id())?;
        write!(f, "\n  {} threads, {foreign} of them foreign", self.threads.len())?;
        // Those of unknown address are counted where their sockets are, among the foreign.
        let known = self.connections.iter().filter(|one| one.remote != RemoteAddress::Unknown);
        let connections: usize = known.map(|one| one.count).sum();
        let foreign: usize = self.foreign_connections().map(|one| one.count).sum();
        write!(f, "\n  {connections} connections, {foreign} of them foreign")?;
        match self.shared_addresses() {
            0 => f.write_str(", no address SHARED")?,
            1 => f.write_str(", 1 address SHARED")?,
            n => write!(f, ", {n} addresses SHARED")?,
        }
        match self.unix_sockets {
            None | Some(0) => {}
            Some(n) => write!(f, "\n  {n} Unix sockets, wherever they lead")?,
        }
        match (self.descriptors, self.descriptor_limit) {
            (Some(open), Some(limit)) => write!(f, "\n  {open} of {limit} file descriptors"),
            (Some(open), None) => write!(f, "\n  {open} file descriptors"),
            (None, Some(limit)) => write!(f, "\n  at most {limit} file descriptors"),
            (None, None) => Ok(()),
        }
    }

    fn shared_addresses(&self) -> usize {
        let mut addresses: Vec<_> = self.shared_connections().map(|one| one.remote).collect();
        addresses.sort_unstable();
        addresses.dedup();
        addresses.len()
    }

    /// One row for each bulkhead's workers, timekeeper and helpers; the foreign ones by the beginning
    /// of their names.
    fn thread_rows(&self) -> Vec<[String; 5]> {
        let mut rows = Vec::new();
        let mut last = "";
        for group in self.threads.chunk_by(belongs_with) {
            let one = &group[0];
            let mut names: Vec<_> = group.iter().map(|one| printable(&one.name)).collect();
            names.dedup();
            let names = match names.as_slice() {
                [first, .., last] if names.len() > 4 => format!("{first} … {last}"),
                _ => names.join(", "),
            };
            let note = one.started_by.as_ref().map_or_else(String::new, |bulkhead| {
                format!("not its own: started by a thread of {bulkhead}")
            });
            let whose = heading(&mut last, one.bulkhead.as_deref());
            rows.push([whose, group.len().to_string(), sort_of(one.kind).to_owned(), names, note]);
        }
        rows
    }

    fn connection_rows(&self) -> Vec<[String; 4]> {
        let mut last = "";
        let mut rows = Vec::new();
        for one in &self.connections {
            let whose = heading(&mut last, one.bulkhead.as_deref());
            let mark = if one.shared { self.shared_with(one) } else { String::new() };
            rows.push([whose, one.count.to_string(), one.remote.to_string(), mark]);
        }
        rows
    }

    fn shared_with(&self, one: &AuditedConnections) -> String {
        let others = self
            .connections
            .iter()
            .filter(|other| other.remote == one.remote && other.bulkhead != one.bulkhead);
        let others: Vec<_> =
            others.map(|other| other.bulkhead.as_deref().unwrap_or(FOREIGN)).collect();
        format!("SHARED with {}", others.join(", "))
    }
}

/// Whether two threads, next to each other, are one row.
fn belongs_with(one: &AuditedThread, other: &AuditedThread) -> bool {
    let beginning = |one: &AuditedThread| -> String {
        // Numbered threads of one library are one row; those of a bulkhead are by kind alone.
        let own = one.kind.is_some();
        if own {
            String::new()
        } else {
            one.name.trim_end_matches(|c: char| c.is_ascii_digit()).into()
        }
    };
    one.bulkhead == other.bulkhead
        && one.started_by == other.started_by
        && sort_of(one.kind) == sort_of(other.kind)
        && beginning(one) == beginning(other)
}

fn sort_of(kind: Option<ThreadKind>) -> &'static str {
    match kind {
        Some(ThreadKind::Worker(_)) => "worker",
        Some(ThreadKind::Timekeeper) => "timekeeper",
        Some(ThreadKind::Helper) => "helper",
        None => "",
    }
}

fn thread_row(one: &AuditedThread) -> [String; 4] {
    let tid = one.tid.map_or_else(|| "?".to_owned(), |tid| tid.to_string());
    let whose = one.bulkhead.as_deref().unwrap_or(FOREIGN).to_owned();
    [tid, printable(&one.name), whose, sort_of(one.kind).to_owned()]
}

/// The name of a row's owner, where it is another one than that of the row before.
fn heading<'a>(last: &mut &'a str, bulkhead: Option<&'a str>) -> String {
    let whose = bulkhead.unwrap_or(FOREIGN);
    if std::mem::replace(last, whose) == whose { String::new() } else { whose.to_owned() }
}

/// A thread's name is whatever its owner has made it, and this may be a terminal.
fn printable(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// Numbers to the right, all else to the left, each column as wide as it must be.
fn write_table<const N: usize>(
    f: &mut fmt::Formatter<'_>,
    title: &str,
    rows: &[[String; N]],
) -> fmt::Result {
    if rows.is_empty() {
        return Ok(());
    }
    write!(f, "\n{title}")?;
    let width_of = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: [usize; N] = std::array::from_fn(|column| width_of(column).unwrap_or(0));
    let is_number = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    for row in rows {
        let cells = row.iter().zip(widths).map(|(text, width)| {
            if is_number(text) { format!("  {text:>width$}") } else { format!("  {text:<width$}") }
        });
        let line: String = cells.collect();
        write!(f, "\n{}", line.trim_end())?;
    }
    Ok(())
}

#[cfg(all(test, not(any(watertight_loom, watertight_shuttle))))]
mod tests {
    use super::*;
    use crate::runtime::audit::AuditedListener;

    fn thread(bulkhead: Option<&str>, kind: Option<ThreadKind>, name: &str) -> AuditedThread {
        let bulkhead = bulkhead.map(str::to_owned);
        AuditedThread { bulkhead, kind, name: name.to_owned(), tid: Some(7), started_by: None }
    }

    fn connections(bulkhead: Option<&str>, count: usize, port: u16) -> AuditedConnections {
        let remote = RemoteAddress::Tcp(([10, 0, 0, 2], port).into());
        let bulkhead = bulkhead.map(str::to_owned);
        AuditedConnections { bulkhead, remote, count, shared: port == 80 }
    }

    #[test]
    fn a_report_is_aligned_and_says_who_shares_with_whom() {
        let (db, api) = (Some("db"), Some("checkout-api"));
        let workers = (0..5)
            .map(|worker| thread(db, Some(ThreadKind::Worker(worker)), &format!("wt-db-{worker}")));
        let started =
            AuditedThread { started_by: Some("db".into()), ..thread(None, None, "wt-db-4") };
        let audit = Audit {
            threads: workers
                .chain([
                    thread(db, Some(ThreadKind::Timekeeper), "wt-db-t"),
                    thread(api, Some(ThreadKind::Helper), "wt-checkout-d"),
                    thread(api, Some(ThreadKind::Helper), "wt-checkout-e"),
                    thread(None, None, "io\u{1b}[2J"),
                    thread(None, None, "r2d2-worker-0"),
                    thread(None, None, "r2d2-worker-1"),
                    started,
                ])
                .collect(),
            connections: vec![
                connections(db, 12, 5432),
                connections(api, 3, 80),
                connections(None, 1, 80),
                connections(None, 1, 81),
            ],
            listeners: vec![AuditedListener { local: ([0, 0, 0, 0], 8080).into(), accepted: 9 }],
            unix_sockets: Some(2),
            descriptors: Some(40),
            descriptor_limit: Some(1024),
            unseen: vec!["something: why".to_owned()],
        };
        let text = audit.to_string();
        let (head, rest) = text.split_once('\n').unwrap();
        assert_eq!(head, format!("process {}", std::process::id()));
        let wanted = "  12 threads, 4 of them foreign
  17 connections, 2 of them foreign, 1 address SHARED
  2 Unix sockets, wherever they lead
  40 of 1024 file descriptors
THREADS
  db            5  worker      wt-db-0 … wt-db-4
                1  timekeeper  wt-db-t
  checkout-api  2  helper      wt-checkout-d, wt-checkout-e
  (foreign)     1              io\u{fffd}[2J
                2              r2d2-worker-0, r2d2-worker-1
                1              wt-db-4                       not its own: started by a thread of db
CONNECTIONS
  db            12  tcp 10.0.0.2:5432
  checkout-api   3  tcp 10.0.0.2:80    SHARED with (foreign)
  (foreign)      1  tcp 10.0.0.2:80    SHARED with checkout-api
                 1  tcp 10.0.0.2:81
LISTENING
  tcp 0.0.0.0:8080  9 accepted
NOT SEEN
  something: why";
        assert_eq!(rest, wanted);
        let each = format!("{audit:#}");
        assert!(each.ends_with("\n  7  wt-db-4        (foreign)"), "{each}");
        assert_eq!(each.lines().filter(|line| line.starts_with("  7  ")).count(), 12);
    }
}
