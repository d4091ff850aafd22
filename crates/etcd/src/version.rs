//! Which servers are used. Invariant: a version that is known to lose data is refused before anything depends on it.

use std::{fmt, str::FromStr};

/// A version of etcd's server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub [u16; 3]);

/// Why a server is not used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadVersion {
    /// It does not say which it is.
    #[error("the server's version {0:?} is none")]
    Unreadable(String),
    /// Before 3.4.
    #[error("the server's version {0} is too old; Basalt needs etcd 3.4 or later")]
    TooOld(Version),
    /// 3.5.0 to 3.5.2: may lose data after a crash.
    #[error("the server's version {0} can lose data after a crash; install etcd 3.5.3 or later, or 3.4")]
    LosesData(Version),
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.0;
        write!(f, "{major}.{minor}.{patch}")
    }
}

impl FromStr for Version {
    type Err = BadVersion;
    fn from_str(text: &str) -> Result<Self, BadVersion> {
        let bad = || BadVersion::Unreadable(text.chars().take(40).collect());
        // What follows, as in 3.6.0-rc.1, makes no difference here.
        let plain = text.split(['-', '+']).next().unwrap_or_default();
        let parts: Vec<u16> = plain.split('.').map(|p| p.parse().map_err(|_| bad())).collect::<Result<_, _>>()?;
        Ok(Self(parts.try_into().map_err(|_| bad())?))
    }
}

impl Version {
    /// Whether a server of this version is used.
    pub fn check(self) -> Result<(), BadVersion> {
        match self.0 {
            [major, minor, _] if (major, minor) < (3, 4) => Err(BadVersion::TooOld(self)),
            [3, 5, 0..=2] => Err(BadVersion::LosesData(self)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_that_lose_data_or_are_too_old_are_refused() {
        let check = |text: &str| text.parse::<Version>().and_then(Version::check);
        for good in ["3.4.0", "3.4.23", "3.5.3", "3.6.0-rc.1", "4.0.0+x"] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        assert!(matches!(check("3.3.27"), Err(BadVersion::TooOld(_))));
        assert!(matches!(check("3.5.2"), Err(BadVersion::LosesData(_))));
        for bad in ["", "3.4", "x.y.z", "3.4.23.1"] {
            assert!(matches!(check(bad), Err(BadVersion::Unreadable(_))), "{bad}");
        }
    }
}
