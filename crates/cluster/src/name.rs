//! Which names are allowed: of volumes, groups, policies, nodes and hosts, NVMe qualified names and iSCSI names.

/// The longest NQN, in bytes (NVMe base specification 2.1, section 4.7).
pub const NQN_BYTES_MAX: usize = 223;
/// The longest name that an administrator can give, in bytes.
pub const NAME_BYTES_MAX: usize = 63;
/// What NQNs of subsystems made here start with.
pub const NQN_PREFIX: &str = "nqn.2026-11.io.basalt:";
/// The longest iSCSI name, in bytes (RFC 7143, section 4.2.7.2).
pub const ISCSI_NAME_BYTES_MAX: usize = 223;
/// What iSCSI names of subsystems made here start with.
pub const IQN_PREFIX: &str = "iqn.2026-11.io.basalt:";
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
    /// Not an iSCSI name.
    #[error(
        "'{0}' is not an iSCSI name: write iqn.YYYY-MM.reverse.domain:name in lower case, such as iqn.2026-11.io.basalt:db, or a host's own from /etc/iscsi/initiatorname.iscsi"
    )]
    NotIscsi(String),
    /// Longer than [`ISCSI_NAME_BYTES_MAX`].
    #[error("the iSCSI name has {0} bytes; at most {ISCSI_NAME_BYTES_MAX} are allowed")]
    IscsiLength(usize),
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
    let text_ok = !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b'"' | b'\'' | b'/' | b'\\' | b'?' | b'#'));
    if is_authority(authority) && text_ok { Ok(()) } else { Err(wrong()) }
}

/// Whether this is a date and a domain of it: `YYYY-MM.reverse.domain`.
fn is_authority(text: &str) -> bool {
    let Some(((year, month), domain)) = text.split_once('.').and_then(|(date, domain)| Some((date.split_once('-')?, domain))) else {
        return false;
    };
    let digits = |s: &str, n: usize| s.len() == n && s.bytes().all(|b| b.is_ascii_digit());
    let month_ok = digits(month, 2) && (1..=12).contains(&month.parse::<u8>().unwrap_or(0));
    let domain_ok = domain.split('.').all(|l| !l.is_empty() && l.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'));
    digits(year, 4) && month_ok && domain_ok
}

/// Whether `name` can name a host or a target of iSCSI (RFC 7143, section 4.2.7): `iqn.YYYY-MM.reverse.domain:text`, `eui.` and 16 hexadecimal
/// digits, or `naa.` and 16 or 32. As it is compared byte by byte, it has no upper case; what follows the domain may be left out.
pub fn check_iscsi_name(name: &str) -> Result<(), NameError> {
    if name.len() > ISCSI_NAME_BYTES_MAX {
        return Err(NameError::IscsiLength(name.len()));
    }
    let hex = |digits: &str, lengths: &[usize]| lengths.contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_hexdigit());
    let good = match name.split_at_checked(4) {
        Some(("iqn.", rest)) => {
            let (authority, text) = rest.split_once(':').map_or((rest, None), |(authority, text)| (authority, Some(text)));
            let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b':' | b'_');
            is_authority(authority) && text.is_none_or(|t| !t.is_empty() && t.bytes().all(allowed))
        }
        Some(("eui.", digits)) => hex(digits, &[16]),
        Some(("naa.", digits)) => hex(digits, &[16, 32]),
        _ => false,
    };
    // Host names of servers have '_' now and then, and hosts send it though the standard does not want it.
    if good && !name.bytes().any(|b| b.is_ascii_uppercase()) { Ok(()) } else { Err(NameError::NotIscsi(name.into())) }
}

/// Whether `name` is an iSCSI name by its beginning.
pub fn is_iscsi_name(name: &str) -> bool {
    ["iqn.", "eui.", "naa."].iter().any(|kind| name.starts_with(kind))
}

/// Whether `name` can be what a host connects as: an NQN, or an iSCSI name.
pub fn check_host(name: &str) -> Result<(), NameError> {
    if is_iscsi_name(name) { check_iscsi_name(name) } else { check_nqn(name) }
}

/// The iSCSI name that a subsystem gets when none is given.
pub fn default_iqn(name: &str) -> String {
    format!("{IQN_PREFIX}{}", name.to_ascii_lowercase())
}

/// The NQN that a subsystem gets when none is given.
pub fn default_nqn(name: &str) -> String {
    format!("{NQN_PREFIX}{name}")
}
