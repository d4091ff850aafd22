//! The daemon's configuration file.
//!
//! Owns: the keys, their defaults and ranges, and how an error in the file is reported.
//! Invariants: unknown keys are refused; an error names the file, line and column (or the key), what is wrong and what to do.
//! Never: touches anything but the file that it is given.

use base::{NodeSlot, Security};
use nvmf::Options as TargetOptions;
use nvmf::{ListenerKind, ListenerSpec};
use serde::{Deserialize, Deserializer, de};
use std::{
    io::Read,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use nvmf::{ControllerIds, Referral, limits::REFERRALS_MAX};

/// The port of NVMe/TCP I/O controllers (registered with IANA).
pub const IO_PORT: u16 = 4420;
/// The port of iSCSI (registered with IANA).
pub const ISCSI_PORT: u16 = 3260;
/// The port of the NVMe discovery service (registered with IANA).
pub const DISCOVERY_PORT: u16 = 8009;
/// The most cores of the data plane.
pub const CORES_MAX: usize = 64;
/// The most addresses to listen on.
pub const LISTENERS_MAX: usize = 64;
/// The largest configuration file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The whole file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Where the directory and the lock live. Made if missing.
    pub data_dir: PathBuf,
    /// This node's name and fault domain.
    #[serde(default, alias = "host")]
    pub node: NodeSection,
    /// Cores of the data plane.
    #[serde(default)]
    pub cores: CoresSection,
    /// The REST API.
    #[serde(default)]
    pub api: ApiSection,
    /// Where hosts connect.
    #[serde(default = "default_listeners")]
    pub listeners: Vec<Listener>,
    /// Logs.
    #[serde(default)]
    pub log: LogSection,
    /// The write buffer.
    #[serde(default)]
    pub store: StoreSection,
    /// The NVMe/TCP target.
    #[serde(default)]
    pub target: TargetSection,
    /// Forming a cluster.
    #[serde(default)]
    pub cluster: ClusterSection,
    /// Other discovery services that hosts hear of.
    #[serde(default)]
    pub referrals: Vec<ReferralSection>,
}

/// `[node]`, which was once called `[host]`
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NodeSection {
    /// Default: the machine's host name.
    #[serde(deserialize_with = "some_name")]
    pub name: Option<String>,
    /// Default: the node's name.
    #[serde(deserialize_with = "some_name")]
    pub fault_domain: Option<String>,
}

/// `[cluster]`
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClusterSection {
    /// The folder with the programs `etcd` and `etcdctl`.
    pub etcd_programs: PathBuf,
    /// The links between nodes are not protected by TLS: for a network where only nodes of the cluster are. All nodes have it set alike.
    pub plain_links: bool,
    /// Volumes go to other owners of themselves: to the node by which their hosts come, or to one that has less to do. All nodes have it set alike.
    pub balance: bool,
}

impl Default for ClusterSection {
    fn default() -> Self {
        Self { etcd_programs: PathBuf::from("/usr/bin"), plain_links: false, balance: true }
    }
}

/// `[cores]`
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CoresSection {
    /// Threads of the data plane. Default: one for each processor that the daemon may use, at most 16.
    #[serde(deserialize_with = "some_core_count")]
    pub count: Option<usize>,
    /// Whether each is bound to a processor of its own. Default: true.
    pub pin: Option<bool>,
}

/// `[api]`
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ApiSection {
    /// The Unix socket. Default: `api.sock` in the data directory.
    pub socket: Option<PathBuf>,
    /// Its permissions, in octal: `"0600"` (the daemon's user alone) or `"0660"` (its group too).
    #[serde(deserialize_with = "socket_mode")]
    pub socket_mode: u32,
    /// A TCP address to listen on as well. Needs `token_file`.
    #[serde(deserialize_with = "some_address")]
    pub listen: Option<SocketAddr>,
    /// A file that holds the bearer token which TCP clients must show.
    pub token_file: Option<PathBuf>,
}

impl Default for ApiSection {
    fn default() -> Self {
        Self { socket: None, socket_mode: 0o600, listen: None, token_file: None }
    }
}

/// What a listener serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serves {
    /// NVMe/TCP.
    Nvme(ListenerKind),
    /// iSCSI: targets, and discovery of them.
    Iscsi,
}

impl Default for Serves {
    fn default() -> Self {
        Self::Nvme(ListenerKind::default())
    }
}

impl Serves {
    /// All that there is.
    pub const ALL: [Self; 3] = [Self::Nvme(ListenerKind::Io), Self::Nvme(ListenerKind::Discovery), Self::Iscsi];
    /// As it is written in configurations.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Nvme(kind) => kind.word(),
            Self::Iscsi => "iscsi",
        }
    }
}

/// Where to listen, and for what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// For NVMe/TCP.
    Nvme(ListenerSpec),
    /// For iSCSI.
    Iscsi(iscsi::ListenerSpec),
}

/// One of `[[listeners]]`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listener {
    /// The address; without a port: 4420 for `io`, 8009 for `discovery`, 3260 for `iscsi`.
    #[serde(deserialize_with = "address_text")]
    pub addr: String,
    /// What is served there.
    #[serde(default, deserialize_with = "listener_kind")]
    pub kind: Serves,
    /// The address that discovery tells hosts, where it is not the one they reached (NAT, port forwarding).
    #[serde(default, deserialize_with = "some_address")]
    pub advertise: Option<SocketAddr>,
    /// What a connection must at least have here, whatever its subsystem asks for. `"encrypted"`: it serves TLS only; `"authenticated"`: a host
    /// proves itself with its secret or over TLS; `"plain"`: as each subsystem wants it.
    #[serde(default)]
    pub security: Security,
}

impl Listener {
    /// What the data plane is given.
    pub fn spec(&self) -> Listen {
        let (addr, advertise) = (self.address(), self.advertise);
        match self.kind {
            Serves::Nvme(kind) => Listen::Nvme(ListenerSpec { addr, kind, advertise, security: self.security }),
            Serves::Iscsi => Listen::Iscsi(iscsi::ListenerSpec { addr, advertise }),
        }
    }
    /// The address with its port.
    pub fn address(&self) -> SocketAddr {
        let port = match self.kind {
            Serves::Nvme(ListenerKind::Io) => IO_PORT,
            Serves::Nvme(ListenerKind::Discovery) => DISCOVERY_PORT,
            Serves::Iscsi => ISCSI_PORT,
        };
        parse_address(&self.addr, Some(port)).expect("checked when it was read")
    }
}

fn default_listeners() -> Vec<Listener> {
    let listener = |kind| Listener { addr: "0.0.0.0".into(), kind: Serves::Nvme(kind), advertise: None, security: Security::Plain };
    vec![listener(ListenerKind::Io), listener(ListenerKind::Discovery)]
}

/// How logs are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people and journald.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// `[log]`
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LogSection {
    /// `text` or `json`.
    pub format: LogFormat,
    /// `error`, `warn`, `info`, `debug`, `trace`; or by crate: `info,store=debug`.
    #[serde(deserialize_with = "log_level")]
    pub level: String,
}

impl Default for LogSection {
    fn default() -> Self {
        Self { format: LogFormat::Text, level: "info".into() }
    }
}

/// `[store]`
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StoreSection {
    /// Fill of the write buffer below which nothing is destaged, in percent.
    #[serde(deserialize_with = "percent")]
    pub destage_low_percent: u8,
    /// Fill of the write buffer above which destaging goes first, in percent.
    #[serde(deserialize_with = "percent")]
    pub destage_high_percent: u8,
}

impl Default for StoreSection {
    fn default() -> Self {
        Self { destage_low_percent: 30, destage_high_percent: 70 }
    }
}

/// `[target]`
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TargetSection {
    /// The first and the last controller ID that this node gives, as `"1-511"`, of those that its slot in the cluster has. Default: all of them.
    #[serde(deserialize_with = "id_range")]
    pub controller_ids: Option<(u16, u16)>,
    /// How many of them, the topmost, are for static controllers.
    pub static_controllers: u16,
    /// Connections of one host.
    #[serde(deserialize_with = "connections")]
    pub host_connections_max: u32,
    /// Memory for the data of one host's commands, in MiB.
    #[serde(deserialize_with = "mebibytes")]
    pub host_memory_mib: u32,
    /// Memory for the data of all hosts' commands, in MiB.
    #[serde(deserialize_with = "mebibytes")]
    pub memory_mib: u32,
    /// Connections of one address on one core that have not got through their Connect command.
    #[serde(deserialize_with = "connections")]
    pub address_handshakes_max: u32,
}

impl Default for TargetSection {
    fn default() -> Self {
        let options = TargetOptions::default();
        Self {
            controller_ids: None,
            static_controllers: options.controller_ids.statics,
            host_connections_max: options.host_connections_max,
            host_memory_mib: (options.host_memory_bytes_max >> 20) as u32,
            memory_mib: (options.memory_bytes_max >> 20) as u32,
            address_handshakes_max: options.address_handshakes_max,
        }
    }
}

impl TargetSection {
    /// Whether the controller IDs and the static ones among them make sense, whatever the slot.
    fn has_ids(&self) -> bool {
        let slice = ControllerIds::of_slot(NodeSlot::FIRST);
        let (first, last) = self.controller_ids.unwrap_or((slice.first, slice.last));
        ControllerIds::new(first, last, self.static_controllers).is_some()
    }
    /// The controller IDs of the node with this slot: those that are set, as far as the slot has them.
    fn ids(&self, slot: NodeSlot) -> ControllerIds {
        let slice = ControllerIds::of_slot(slot);
        let (first, last) = self.controller_ids.unwrap_or((slice.first, slice.last));
        let of = |first: u16, last: u16| {
            let statics = self.static_controllers.min(last.saturating_sub(first) / 2);
            ControllerIds::new(first, last, statics)
        };
        of(first.max(slice.first), last.min(slice.last)).or_else(|| of(slice.first, slice.last)).unwrap_or(slice)
    }
}

/// One of `[[referrals]]`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReferralSection {
    /// The address of the discovery service; without a port: 8009.
    #[serde(deserialize_with = "address_text")]
    pub addr: String,
    /// Its NQN, when it is not the well-known one.
    #[serde(default)]
    pub nqn: Option<String>,
}

/// Why a configuration is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The file is not there.
    #[error("there is no configuration file {path}; name one that is there, or start from packaging/basalt.toml")]
    Missing {
        /// Where it was looked for.
        path: String,
    },
    /// The file cannot be read.
    #[error("the configuration file {path} cannot be read: {cause}; make it readable for the user that runs basalt")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        cause: String,
    },
    /// What is there cannot be a configuration, whoever reads it.
    #[error("{path} is no configuration file: {cause}")]
    NoConfiguration {
        /// What was named.
        path: String,
        /// Why, and what to do.
        cause: String,
    },
    /// Something in the file is wrong.
    #[error("{path}:{line}:{column}: {message}")]
    At {
        /// The file.
        path: String,
        /// From 1.
        line: usize,
        /// From 1, in characters.
        column: usize,
        /// What is wrong and what to do.
        message: String,
    },
    /// Keys do not fit each other.
    #[error("{path}: {key}: {message}")]
    Keys {
        /// The file.
        path: String,
        /// Which key.
        key: &'static str,
        /// What is wrong and what to do.
        message: String,
    },
}

impl Config {
    /// Reads and checks a file.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let name = path.display().to_string();
        let unreadable = |cause: String| ConfigError::Unreadable { path: name.clone(), cause };
        let no_configuration = |cause: String| ConfigError::NoConfiguration { path: name.clone(), cause };
        match std::fs::metadata(path) {
            Ok(m) if m.is_dir() => return Err(no_configuration("it is a directory; name a file in it, such as basalt.toml".into())),
            Ok(m) if m.len() > FILE_BYTES_MAX => {
                return Err(no_configuration(format!("it has {} bytes, and none has more than 1 MiB; name another file", m.len())));
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Err(ConfigError::Missing { path: name }),
            _ => {}
        }
        let mut text = String::new();
        // What is no file has no size that could be looked at before.
        let read = std::fs::File::open(path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text));
        match read {
            Ok(bytes) if bytes as u64 > FILE_BYTES_MAX => return Err(no_configuration("it has more than 1 MiB; name another file".into())),
            Ok(_) => {}
            Err(e) if e.kind() == std::io::ErrorKind::InvalidData => {
                return Err(no_configuration("it is not text in UTF-8; save it as UTF-8, or name another file".into()));
            }
            Err(e) => return Err(unreadable(e.to_string())),
        }
        Self::parse(&text, &name)
    }

    /// Checks the text of a file called `path`.
    pub fn parse(text: &str, path: &str) -> Result<Self, ConfigError> {
        let config: Self = toml::from_str(text).map_err(|error| {
            let (line, column) = error.span().map_or((1, 1), |span| position(text, span.start));
            ConfigError::At { path: path.into(), line, column, message: advice(error.message()) }
        })?;
        config.check(path)?;
        Ok(config)
    }

    /// Where the API's socket is.
    pub fn api_socket(&self) -> PathBuf {
        self.api.socket.clone().unwrap_or_else(|| self.data_dir.join("api.sock"))
    }

    /// What the front end of the node with this slot is given.
    pub fn target_options(&self, slot: NodeSlot) -> TargetOptions {
        let t = &self.target;
        let referral = |r: &ReferralSection| Referral {
            addr: parse_address(&r.addr, Some(DISCOVERY_PORT)).expect("checked when it was read"),
            nqn: r.nqn.clone(),
        };
        TargetOptions {
            slot,
            controller_ids: t.ids(slot),
            host_connections_max: t.host_connections_max,
            host_memory_bytes_max: u64::from(t.host_memory_mib) << 20,
            memory_bytes_max: u64::from(t.memory_mib) << 20,
            address_handshakes_max: t.address_handshakes_max,
            referrals: self.referrals.iter().map(referral).collect(),
        }
    }

    fn check(&self, path: &str) -> Result<(), ConfigError> {
        let wrong = |key, message: &str| Err(ConfigError::Keys { path: path.into(), key, message: message.into() });
        if self.data_dir.as_os_str().is_empty() {
            return wrong("data_dir", "it is empty; name a directory, such as /var/lib/basalt");
        }
        if self.api.socket.as_ref().is_some_and(|s| s.as_os_str().is_empty()) {
            return wrong("api.socket", "it is empty; name a path, or leave it out for api.sock in the data directory");
        }
        match (self.api.listen, &self.api.token_file) {
            (Some(_), None) => {
                return wrong(
                    "api.listen",
                    "an API on TCP needs a token; set api.token_file to a file that holds one (openssl rand -hex 32)",
                );
            }
            (None, Some(_)) => return wrong("api.token_file", "it has no use without api.listen; set that too, or remove this"),
            _ => {}
        }
        if self.store.destage_low_percent >= self.store.destage_high_percent {
            return wrong("store.destage_low_percent", "it must be below store.destage_high_percent; the usual values are 30 and 70");
        }
        if !self.target.has_ids() {
            return wrong("target.controller_ids", "they must lie in 1-65519, be at least 128, and at most half of them may be static");
        }
        if self.referrals.len() > REFERRALS_MAX {
            return wrong("referrals", "there are more than 16; refer to one discovery service that knows the others");
        }
        let long = |r: &ReferralSection| r.nqn.as_ref().is_some_and(|n| !n.starts_with("nqn.") || n.len() > 223);
        if self.referrals.iter().any(long) {
            return wrong("referrals", "an nqn is not a name; it begins with nqn. and has at most 223 bytes");
        }
        if self.listeners.len() > LISTENERS_MAX {
            return wrong("listeners", "there are more than 64; listen on 0.0.0.0 or [::] instead");
        }
        for (n, listener) in self.listeners.iter().enumerate() {
            if self.listeners[..n].iter().any(|l| l.address() == listener.address() && l.address().port() != 0) {
                return wrong("listeners", &format!("{} is there twice; remove one", listener.address()));
            }
            if listener.kind == Serves::Nvme(ListenerKind::Discovery) && listener.security == Security::Authenticated {
                return wrong("listeners", "discovery authenticates nobody; a listener for it can have the security plain or encrypted");
            }
            if listener.kind == Serves::Iscsi && listener.security != Security::Plain {
                return wrong(
                    "listeners",
                    "a listener for iSCSI has no security of its own, and no TLS; 'basalt subsystem set NAME --security authenticated' asks for CHAP",
                );
            }
        }
        Ok(())
    }
}

/// Line and column (from 1) of a byte offset.
fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = &text[..text.floor_char_boundary(offset.min(text.len()))];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
    (line, column)
}

/// The parser's words, with what to do.
fn advice(message: &str) -> String {
    let message = message.trim().replace('\n', "; ");
    if let Some(rest) = message.strip_prefix("unknown field ") {
        let (field, known) = rest.split_once(", expected ").unwrap_or((rest, ""));
        let known = known.trim_start_matches("one of ");
        return format!("unknown key {field}; remove it or correct its spelling (known here: {known})").replace('`', "'");
    }
    if let Some(field) = message.strip_prefix("missing field ") {
        return format!("the key {field} is missing; add it").replace('`', "'");
    }
    message.replace('`', "'")
}

fn parse_address(text: &str, default_port: Option<u16>) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    match (bare.parse(), default_port) {
        (Ok(ip), Some(port)) => Ok(SocketAddr::new(ip, port)),
        _ => Err(format!("'{text}' is not an address; write an IP address and a port, such as 192.0.2.10:4420 or [::]:4420")),
    }
}

fn address_text<'de, D: Deserializer<'de>>(d: D) -> Result<String, D::Error> {
    let text = String::deserialize(d)?;
    parse_address(&text, Some(1)).map_err(de::Error::custom)?;
    Ok(text)
}

fn listener_kind<'de, D: Deserializer<'de>>(d: D) -> Result<Serves, D::Error> {
    const WORDS: &[&str] = &[Serves::ALL[0].word(), Serves::ALL[1].word(), Serves::ALL[2].word()];
    let text = String::deserialize(d)?;
    Serves::ALL.into_iter().find(|k| k.word() == text).ok_or_else(|| de::Error::unknown_variant(&text, WORDS))
}

fn some_address<'de, D: Deserializer<'de>>(d: D) -> Result<Option<SocketAddr>, D::Error> {
    let text = String::deserialize(d)?;
    parse_address(&text, None).map(Some).map_err(de::Error::custom)
}

fn some_name<'de, D: Deserializer<'de>>(d: D) -> Result<Option<String>, D::Error> {
    let text = String::deserialize(d)?;
    cluster::check_name(&text).map_err(de::Error::custom)?;
    Ok(Some(text))
}

fn some_core_count<'de, D: Deserializer<'de>>(d: D) -> Result<Option<usize>, D::Error> {
    let count = i64::deserialize(d)?;
    match usize::try_from(count) {
        Ok(n) if (1..=CORES_MAX).contains(&n) => Ok(Some(n)),
        _ => Err(de::Error::custom(format!("the number of cores is {count}; it can be 1 to {CORES_MAX}"))),
    }
}

fn socket_mode<'de, D: Deserializer<'de>>(d: D) -> Result<u32, D::Error> {
    match String::deserialize(d)?.as_str() {
        "0600" | "600" => Ok(0o600),
        "0660" | "660" => Ok(0o660),
        other => Err(de::Error::custom(format!("'{other}' cannot be the mode of the API socket; use \"0600\" or \"0660\""))),
    }
}

fn log_level<'de, D: Deserializer<'de>>(d: D) -> Result<String, D::Error> {
    let text = String::deserialize(d)?;
    let known = |level: &str| matches!(level, "off" | "error" | "warn" | "info" | "debug" | "trace");
    let fine = text.split(',').all(|part| part.trim().split_once('=').map_or(known(part.trim()), |(t, l)| !t.is_empty() && known(l)));
    if !fine {
        return Err(de::Error::custom(format!(
            "'{text}' is not a log level; use error, warn, info, debug or trace, or by crate: info,store=debug"
        )));
    }
    Ok(text)
}

fn percent<'de, D: Deserializer<'de>>(d: D) -> Result<u8, D::Error> {
    let n = i64::deserialize(d)?;
    match u8::try_from(n) {
        Ok(p) if (1..=99).contains(&p) => Ok(p),
        _ => Err(de::Error::custom(format!("{n} is not a fill level; it can be 1 to 99 (percent)"))),
    }
}

fn id_range<'de, D: Deserializer<'de>>(d: D) -> Result<Option<(u16, u16)>, D::Error> {
    let text = String::deserialize(d)?;
    let number = |part: &str| part.trim().parse().ok();
    let range = text.split_once('-').and_then(|(a, b)| Some((number(a)?, number(b)?)));
    range
        .map(Some)
        .ok_or_else(|| de::Error::custom(format!("'{text}' is no range of controller IDs; write the first and the last: \"1-1023\"")))
}

fn connections<'de, D: Deserializer<'de>>(d: D) -> Result<u32, D::Error> {
    let n = i64::deserialize(d)?;
    match u32::try_from(n) {
        Ok(n) if (4..=1 << 20).contains(&n) => Ok(n),
        _ => Err(de::Error::custom(format!("{n} is not a limit of connections; it can be 4 to 1048576"))),
    }
}

fn mebibytes<'de, D: Deserializer<'de>>(d: D) -> Result<u32, D::Error> {
    let n = i64::deserialize(d)?;
    match u32::try_from(n) {
        Ok(n) if (1..=1 << 20).contains(&n) => Ok(n),
        _ => Err(de::Error::custom(format!("{n} is not an amount of memory; it can be 1 to 1048576 (MiB)"))),
    }
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
