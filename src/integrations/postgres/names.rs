//! [`Names`]: where the server is, asked on the pool's connecting thread.
//!
//! The client would start a thread for each look-up and wait for it without a limit. Here one that hangs
//! holds the connecting thread alone, until the system gives up: never a caller or a worker, and never a
//! second thread.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::time::{Duration, Instant};

use ::postgres::Config;
use ::postgres::config::Host;

use crate::sync::{Arc, Mutex};

/// What looks a name up: the system, or a function of the user's.
pub(super) type LookUp = Arc<dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync>;

/// How long an answer is believed: after a fail-over many connections are opened at once.
const AGE: Duration = Duration::from_secs(30);

/// Stands for a host whose name is unknown, since the client wants an address for each: no system
/// makes a TCP connection to it, and says so at once.
const NOWHERE: IpAddr = IpAddr::V4(Ipv4Addr::BROADCAST);

pub(super) fn system_look_up(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    Ok((host, port).to_socket_addrs()?.collect())
}

pub(super) struct Names {
    look_up: LookUp,
    /// There are as many as the configuration has hosts.
    known: Mutex<HashMap<String, (Instant, Vec<IpAddr>)>>,
}

impl Names {
    pub(super) fn new(look_up: LookUp) -> Self {
        Self { look_up, known: Mutex::default() }
    }

    /// `config` with an address for every name, and how much of `limit` each of them may take.
    pub(super) fn resolve(
        &self,
        config: &Config,
        limit: Duration,
    ) -> io::Result<(Config, Duration)> {
        let mut resolved = config.clone();
        let ports = config.get_ports();
        let mut addresses = config.get_hostaddrs().len();
        if addresses == 0 {
            let mut more = Vec::new();
            let mut unknown = None;
            let mut any = false;
            for (number, host) in config.get_hosts().iter().enumerate() {
                let Host::Tcp(host) = host else { continue };
                let port = ports.get(number).or(ports.first()).copied();
                let found = self.addresses(host, port.unwrap_or(5432)).and_then(|found| {
                    let has_any = !found.is_empty();
                    let missing = || io::Error::other(format!("{host:?} has no address"));
                    has_any.then_some(found).ok_or_else(missing)
                });
                match found {
                    Ok(found) => {
                        any = true;
                        let mut found = found.into_iter();
                        resolved.hostaddr(found.next().unwrap_or(NOWHERE));
                        more.extend(found.map(|address| (host, port, address)));
                    }
                    // The others are tried all the same.
                    Err(error) => {
                        resolved.hostaddr(NOWHERE);
                        unknown.get_or_insert(error);
                    }
                }
            }
            if let (false, Some(error)) = (any, unknown) {
                return Err(error);
            }
            // The client wants one address for each host; so a host with several is there several
            // times, behind all that come first.
            addresses = config.get_hosts().len() + more.len();
            for (host, port, address) in more {
                resolved.host(host).hostaddr(address);
                if let (Some(port), 2..) = (port, ports.len()) {
                    resolved.port(port);
                }
            }
        }
        let each = limit / u32::try_from(addresses.max(1)).unwrap_or(u32::MAX);
        resolved.connect_timeout(each);
        Ok((resolved, each))
    }

    fn addresses(&self, host: &str, port: u16) -> io::Result<Vec<IpAddr>> {
        if let Ok(literal) = host.parse() {
            return Ok(vec![literal]);
        }
        let known = self.known.lock().get(host).cloned();
        match known {
            Some((since, addresses)) if since.elapsed() < AGE => return Ok(addresses),
            _ => {}
        }
        // LOCK: free, it may hang, and it is the user's.
        match (self.look_up)(host, port) {
            Ok(found) => {
                let mut addresses: Vec<_> = found.iter().map(SocketAddr::ip).collect();
                addresses.dedup();
                self.known.lock().insert(host.to_owned(), (Instant::now(), addresses.clone()));
                Ok(addresses)
            }
            // A name server that is dead must not cost the addresses that worked before.
            Err(error) => known.map(|(_, addresses)| addresses).ok_or(error),
        }
    }
}

impl std::fmt::Debug for Names {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Names").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(any(watertight_loom, watertight_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_host_with_several_addresses_is_tried_at_each_within_the_one_limit() {
        let names = Names::new(Arc::new(|host, port| {
            let addresses: &[[u8; 4]] = if host == "two.internal" {
                &[[10, 0, 0, 1], [10, 0, 0, 2]]
            } else {
                &[[10, 0, 0, 3]]
            };
            Ok(addresses.iter().map(|address| SocketAddr::from((*address, port))).collect())
        }));
        let config: Config = "host=two.internal,one.internal port=5432,5433".parse().unwrap();
        let (resolved, each) = names.resolve(&config, Duration::from_secs(3)).unwrap();
        let expected: Config = "host=two.internal,one.internal,two.internal \
             hostaddr=10.0.0.1,10.0.0.3,10.0.0.2 port=5432,5433,5432"
            .parse()
            .unwrap();
        assert_eq!(resolved.get_hosts(), expected.get_hosts());
        assert_eq!(resolved.get_hostaddrs(), expected.get_hostaddrs());
        assert_eq!(resolved.get_ports(), expected.get_ports());
        assert_eq!(resolved.get_connect_timeout(), Some(&each));
        assert_eq!(each, Duration::from_secs(1));
    }
}
