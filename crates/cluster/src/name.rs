//! Which names are allowed: of volumes, groups, policies, nodes and hosts, and NVMe qualified names.

/// The longest NQN, in bytes (NVMe base specification 2.1, section 4.7).
pub const NQN_BYTES_MAX: usize = 223;
/// The longest name that an administrator can give, in bytes.
pub const NAME_BYTES_MAX: usize = 63;
/// What NQNs of subsystems made here start with.
pub const NQN_PREFIX: &str = "nqn.2026-11.io.basalt:";
const DISCOVERY_NQN: &str = "nqn.2014-08.org.nvmexpress.discovery";

/// Why a name is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Empty, or longer than [`NAME_BYTES_MAX`].
    #[error("'{0}' has {len} characters; a name has 1 to {NAME_BYTES_MAX}", len = .0.len())]
    Length(String),
    /// A character that is not allowed, or not in front.
    #[error("'{0}' is not a name: use letters, digits, '.', '_' and '-', and begin with a letter or a digit")]
    Characters(String),
    /// It reads as an id, so a command could not tell which is meant.
    #[error("'{0}' looks like an id; choose a name that is not a UUID")]
    LooksLikeId(String),
    /// Not `nqn.YYYY-MM.domain:text`.
    #[error(
        "'{0}' is not an NQN: write nqn.YYYY-MM.reverse.domain:name, such as nqn.2026-11.io.basalt:db, or a host's own from /etc/nvme/hostnqn"
    )]
    NotAnNqn(String),
    /// Longer than [`NQN_BYTES_MAX`].
    #[error("the NQN has {0} bytes; at most {NQN_BYTES_MAX} are allowed")]
    NqnLength(usize),
    /// The name of the discovery service.
    #[error("{DISCOVERY_NQN} is the discovery service itself; choose another NQN")]
    Discovery,
}

/// Whether `name` can name a volume, a group, a policy, a node or a host.
pub fn check_name(name: &str) -> Result<(), NameError> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return Err(NameError::Length(name.into()));
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if !name.chars().all(allowed) || !name.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return Err(NameError::Characters(name.into()));
    }
    if name.parse::<uuid::Uuid>().is_ok() {
        return Err(NameError::LooksLikeId(name.into()));
    }
    Ok(())
}

/// Whether `nqn` can name a subsystem or a host (NVMe base specification 2.1, section 4.7). Stricter than the
/// specification in the characters after the colon: printable ASCII without spaces, quotes and slashes.
pub fn check_nqn(nqn: &str) -> Result<(), NameError> {
    if nqn.len() > NQN_BYTES_MAX {
        return Err(NameError::NqnLength(nqn.len()));
    }
    if nqn == DISCOVERY_NQN {
        return Err(NameError::Discovery);
    }
    let wrong = || NameError::NotAnNqn(nqn.into());
    let rest = nqn.strip_prefix("nqn.").ok_or_else(wrong)?;
    let (authority, text) = rest.split_once(':').ok_or_else(wrong)?;
    let (date, domain) = authority.split_once('.').ok_or_else(wrong)?;
    let (year, month) = date.split_once('-').ok_or_else(wrong)?;
    let digits = |s: &str, n: usize| s.len() == n && s.bytes().all(|b| b.is_ascii_digit());
    let month_ok = digits(month, 2) && (1..=12).contains(&month.parse::<u8>().unwrap_or(0));
    let domain_ok = domain.split('.').all(|l| !l.is_empty() && l.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'));
    let text_ok = !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b'"' | b'\'' | b'/' | b'\\' | b'?' | b'#'));
    if digits(year, 4) && month_ok && domain_ok && text_ok { Ok(()) } else { Err(wrong()) }
}

/// The NQN that a subsystem gets when none is given.
pub fn default_nqn(name: &str) -> String {
    format!("{NQN_PREFIX}{name}")
}
