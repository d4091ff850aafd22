//! Where a member listens. Invariant: its text is read back as it was written.

use std::{fmt, str::FromStr};

/// `https://HOST:PORT`, or `http://` without TLS. A host is a name, an IPv4 address, or an IPv6 address in brackets.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint {
    /// Whether connections are encrypted, and both sides prove who they are.
    pub tls: bool,
    /// A name or an address, without brackets.
    pub host: String,
    /// TCP.
    pub port: u16,
}

/// Not an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no endpoint of etcd; write https://HOST:PORT")]
pub struct BadEndpoint(pub String);

impl FromStr for Endpoint {
    type Err = BadEndpoint;
    fn from_str(text: &str) -> Result<Self, BadEndpoint> {
        let bad = || BadEndpoint(text.to_owned());
        let (tls, rest) = match (text.strip_prefix("https://"), text.strip_prefix("http://")) {
            (Some(rest), _) => (true, rest),
            (_, Some(rest)) => (false, rest),
            _ => return Err(bad()),
        };
        let (host, port) = rest.trim_end_matches('/').rsplit_once(':').ok_or_else(bad)?;
        let host = match host.strip_prefix('[').map(|h| h.strip_suffix(']')) {
            Some(Some(v6)) if v6.parse::<std::net::Ipv6Addr>().is_ok() => v6,
            None if !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_".contains(&b)) => host,
            _ => return Err(bad()),
        };
        let port = port.parse().ok().filter(|p| *p > 0).ok_or_else(bad)?;
        Ok(Self { tls, host: host.to_owned(), port })
    }
}

impl Endpoint {
    /// As in a URL: `HOST:PORT`.
    pub fn authority(&self) -> String {
        if self.host.contains(':') { format!("[{}]:{}", self.host, self.port) } else { format!("{}:{}", self.host, self.port) }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.tls { "https" } else { "http" }, self.authority())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_read_as_it_was_written() {
        for text in ["https://10.0.0.1:2379", "http://localhost:1", "https://[::1]:2379", "https://node-1.storage:65535"] {
            assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), text);
        }
        assert_eq!("https://n1:2379/".parse::<Endpoint>().unwrap().to_string(), "https://n1:2379");
    }

    #[test]
    fn what_is_no_endpoint_is_refused() {
        for text in [
            "",
            "n1:2379",
            "https://n1",
            "https://n1:0",
            "https://n1:65536",
            "https://:1",
            "https://::1:5",
            "https://[::1:5",
            "https://a b:1",
            "ftp://a:1",
            "https://a/b:1",
        ] {
            assert_eq!(text.parse::<Endpoint>(), Err(BadEndpoint(text.into())), "{text}");
        }
    }
}
