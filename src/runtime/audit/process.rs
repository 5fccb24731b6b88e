//! What the system says of this process: its threads, sockets and file descriptors.
//!
//! Read from `/proc` line by line, so that a table of a whole machine's connections needs no memory:
//! only the lines that are this process's are kept. A line that cannot be read is passed over.

use std::net::SocketAddr;

/// `None` where the system did not say; `unseen` says why.
#[derive(Debug, Default)]
pub(super) struct Process {
    pub(super) threads: Option<Vec<Task>>,
    pub(super) sockets: Option<Vec<Socket>>,
    pub(super) unix_sockets: Option<usize>,
    pub(super) descriptors: Option<usize>,
    pub(super) descriptor_limit: Option<u64>,
    pub(super) unseen: Vec<String>,
}

#[derive(Debug, PartialEq, Eq)]
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
pub(super) struct Task {
    pub(super) tid: u32,
    pub(super) name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
pub(super) struct Socket {
    pub(super) is_udp: bool,
    pub(super) is_listening: bool,
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
}

#[cfg(not(target_os = "linux"))]
pub(super) fn read() -> Process {
    let unseen = [
        "threads that are not watertight's",
        "connections that are not watertight's, and so whether they share an address with it",
        "file descriptors",
    ];
    let why = "this is read on Linux only";
    Process { unseen: unseen.map(|what| format!("{what}: {why}")).into(), ..Process::default() }
}

#[cfg(target_os = "linux")]
pub(super) use self::linux::read;

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::HashSet;
    use std::fs::{self, File};
    use std::io::{self, BufRead, BufReader};
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

    use super::{Process, Socket, Task};

    pub(in super::super) fn read() -> Process {
        let mut process = Process::default();
        let mut unseen = Vec::new();
        let mut note = |what: &str, error: io::Error| unseen.push(format!("{what}: {error}"));
        match tasks() {
            Ok(tasks) => process.threads = Some(tasks),
            Err(error) => note("threads that are not watertight's", error),
        }
        match descriptors() {
            Ok((open, inodes)) => {
                process.descriptors = Some(open);
                match inet_sockets(&inodes) {
                    Ok(sockets) => process.sockets = Some(sockets),
                    Err(error) => note("connections that are not watertight's", error),
                }
                match unix_sockets(&inodes) {
                    Ok(sockets) => process.unix_sockets = Some(sockets),
                    Err(error) => note("Unix sockets", error),
                }
            }
            Err(error) => {
                note("file descriptors, and connections that are not watertight's", error);
            }
        }
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        process.descriptor_limit = limit.current;
        process.unseen = unseen;
        process
    }

    fn tasks() -> io::Result<Vec<Task>> {
        let mut tasks = Vec::new();
        for task in fs::read_dir("/proc/self/task")? {
            // One that has ended meanwhile cannot be read, and is passed over.
            let Ok(stat) = task.and_then(|task| fs::read(task.path().join("stat"))) else {
                continue;
            };
            tasks.extend(parse_task(&String::from_utf8_lossy(&stat)));
        }
        Ok(tasks)
    }

    /// One thread's `stat`, unless the thread is on its way out.
    pub(super) fn parse_task(stat: &str) -> Option<Task> {
        /// Set as soon as a thread has run its last line, and before whoever joins it goes on.
        const EXITING: u32 = 4;
        let (tid, rest) = stat.split_once(" (")?;
        // The name may itself have brackets, the rest has none.
        let (name, rest) = rest.rsplit_once(") ")?;
        let flags: u32 = rest.split_ascii_whitespace().nth(6)?.parse().ok()?;
        (flags & EXITING == 0).then_some(())?;
        Some(Task { tid: tid.parse().ok()?, name: name.to_owned() })
    }

    /// How many descriptors are open, and the inodes of those that are sockets.
    fn descriptors() -> io::Result<(usize, HashSet<u64>)> {
        let mut open = 0_usize;
        let mut inodes = HashSet::new();
        for entry in fs::read_dir("/proc/self/fd")? {
            let Ok(target) = entry.and_then(|entry| fs::read_link(entry.path())) else { continue };
            open += 1;
            let inode: Option<u64> = target.to_str().and_then(|target| {
                target.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
            });
            inodes.extend(inode);
        }
        // One of them is that of the reading itself.
        Ok((open.saturating_sub(1), inodes))
    }

    fn inet_sockets(inodes: &HashSet<u64>) -> io::Result<Vec<Socket>> {
        let mut sockets = Vec::new();
        for (table, is_udp) in [("tcp", false), ("tcp6", false), ("udp", true), ("udp6", true)] {
            let found = each_line(table, |line| {
                // Most lines are other processes': these are not looked at any further.
                inodes.contains(&inode_of(line, 9)?).then_some(())?;
                sockets.push(parse_socket(line, is_udp)?);
                Some(())
            });
            match found {
                // A kernel without IPv6 has no such tables.
                Err(error) if error.kind() == io::ErrorKind::NotFound && table.ends_with('6') => {}
                found => found?,
            }
        }
        Ok(sockets)
    }

    fn unix_sockets(inodes: &HashSet<u64>) -> io::Result<usize> {
        let mut sockets = 0;
        each_line("unix", |line| inodes.contains(&inode_of(line, 6)?).then(|| sockets += 1))?;
        Ok(sockets)
    }

    fn each_line(table: &str, mut act: impl FnMut(&str) -> Option<()>) -> io::Result<()> {
        let mut lines = BufReader::new(File::open(format!("/proc/self/net/{table}"))?);
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line)? > 0 {
            // The head line, and whatever else is none of ours, is `None` here.
            let _ = act(&String::from_utf8_lossy(&line));
            line.clear();
        }
        Ok(())
    }

    pub(super) fn inode_of(line: &str, field: usize) -> Option<u64> {
        line.split_ascii_whitespace().nth(field)?.parse().ok()
    }

    /// A line of `/proc/net/tcp` and its like.
    pub(super) fn parse_socket(line: &str, is_udp: bool) -> Option<Socket> {
        const LISTEN: &str = "0A";
        let mut fields = line.split_ascii_whitespace().skip(1);
        let (local, remote) = (parse_address(fields.next()?)?, parse_address(fields.next()?)?);
        let is_listening = fields.next()? == LISTEN && !is_udp;
        Some(Socket { is_udp, is_listening, local, remote })
    }

    /// "0100007F:1F90" is 127.0.0.1:8080. Each group of eight digits is four bytes in the network's
    /// order, written as the number that this machine takes them for.
    fn parse_address(text: &str) -> Option<SocketAddr> {
        let (ip, port) = text.split_once(':')?;
        let word = |at: usize| {
            let digits = ip.get(at * 8..at * 8 + 8)?;
            Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
        };
        let ip = if ip.len() == 8 {
            IpAddr::from(Ipv4Addr::from(word(0)?))
        } else {
            let words = [word(0)?, word(1)?, word(2)?, word(3)?];
            let bytes: [u8; 16] = words.concat().try_into().ok()?;
            IpAddr::from(Ipv6Addr::from(bytes)).to_canonical()
        };
        Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
    }
}

#[cfg(all(test, target_os = "linux", not(any(watertight_loom, watertight_shuttle))))]
mod tests {
    use super::linux::{inode_of, parse_socket, parse_task};
    use super::*;

    #[test]
    fn a_thread_is_read_whatever_its_name_and_one_that_ends_is_not() {
        let rest = "S 1 2 3 0 -1 1077936192 4 0 0 0";
        let task = |name: &str| Some(Task { tid: 71, name: name.to_owned() });
        assert_eq!(parse_task(&format!("71 (wt-db-0) {rest}")), task("wt-db-0"));
        assert_eq!(parse_task(&format!("71 (a) S (b c)) {rest}")), task("a) S (b c)"));
        assert_eq!(parse_task("71 (wt-db-0) R 1 2 3 0 -1 4 4 0 0 0"), None);
        assert_eq!(parse_task("71 (wt-db-0) R 1 2"), None);
        assert_eq!(parse_task(""), None);
    }

    #[cfg(target_endian = "little")]
    #[test]
    fn sockets_of_both_families_are_read_and_mapped_addresses_are_those_that_they_map() {
        let line = "   0: 0100007F:1F90 0200000A:1538 01 00000000:00000000 00:00000000 00000000  1000        0 4711 1 f 20";
        assert_eq!(inode_of(line, 9), Some(4711));
        let socket = parse_socket(line, false).unwrap();
        assert_eq!(socket.local, "127.0.0.1:8080".parse().unwrap());
        assert_eq!(socket.remote, "10.0.0.2:5432".parse().unwrap());
        assert!(!socket.is_listening);
        let mapped = "0000000000000000FFFF00000200000A:1538";
        let six = "B80D0120000000000000000001000000:01BB";
        let line = format!("  1: {six} {mapped} 0A 0:0 0:0 0  0 0 12 1");
        let socket = parse_socket(&line, false).unwrap();
        assert_eq!(socket.local, "[2001:db8::1]:443".parse().unwrap());
        assert_eq!(socket.remote, "10.0.0.2:5432".parse().unwrap());
        assert!(socket.is_listening);
    }

    #[test]
    fn lines_that_make_no_sense_are_passed_over() {
        for line in [
            "",
            "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid",
            "0: 0100007F:1F90",
            "0: 01:1 02:2 01 0 0 0 0 0 7",
            "0: 0100007F:XXXX 0100007F:0000 01 0 0 0 0 0 7",
            "0: éééé:1 0100007F:0000 01 0 0 0 0 0 7",
        ] {
            assert_eq!(parse_socket(line, false), None, "{line}");
        }
    }
}
