//! The bearer token of the API on TCP.
//!
//! Invariants: a token is compared in a time that does not depend on where it differs; it is never logged. Of requests without it the audit log has
//! at most [`NOTED_MAX`] in each [`PERIOD`], and how many more there were: whoever tries again and again does not fill it.

use super::audited::Administrator;
use crate::{Code, Problem, audit::Action, engine::Control};
use axum::{
    extract::{ConnectInfo, Request, State},
    http::header,
    middleware::Next,
    response::Response,
};
use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// Requests without the token that are noted one by one in a period.
const NOTED_MAX: u64 = 8;
/// How long a period is, from the first of them.
const PERIOD: Duration = Duration::from_secs(10);
/// The longest text of what was wanted that is noted, in bytes. Of a path without its query: a token may be in there.
const TEXT_BYTES_MAX: usize = 200;

/// The shortest token, in bytes.
const TOKEN_BYTES_MIN: usize = 16;
const TOKEN_BYTES_MAX: usize = 4096;

/// What TCP clients must show.
#[derive(Clone)]
pub struct Token(Arc<[u8]>);

/// Why a token file cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// It cannot be read.
    #[error("the token file {path} cannot be read: {cause}; make one with: openssl rand -hex 32 > {path}; chmod 600 {path}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        cause: String,
    },
    /// It is not a token.
    #[error("the token in {path} must have 16 to 4096 printable characters without spaces; make one with: openssl rand -hex 32 > {path}")]
    Unfit {
        /// The file.
        path: String,
    },
    /// Others could read it.
    #[error("the token file {path} can be read by everyone; make it private: chmod 600 {path}")]
    Public {
        /// The file.
        path: String,
    },
}

impl Token {
    /// Reads a token from a file; white space around it does not count.
    pub fn load(path: &Path) -> Result<Self, TokenError> {
        use std::os::unix::fs::PermissionsExt;
        let name = path.display().to_string();
        let unreadable = |e: std::io::Error| TokenError::Unreadable { path: name.clone(), cause: e.to_string() };
        let mode = std::fs::metadata(path).map_err(unreadable)?.permissions().mode();
        if mode & 0o004 != 0 {
            return Err(TokenError::Public { path: name });
        }
        let text = std::fs::read_to_string(path).map_err(unreadable)?;
        Self::new(text.trim()).ok_or(TokenError::Unfit { path: name })
    }

    /// A token; `None` if it is too short, too long or not printable.
    pub fn new(text: &str) -> Option<Self> {
        let fit = (TOKEN_BYTES_MIN..=TOKEN_BYTES_MAX).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
        fit.then(|| Self(text.as_bytes().into()))
    }

    /// Whether `shown` is the token. Takes as long wherever they differ (the length may be learnt).
    fn is(&self, shown: &[u8]) -> bool {
        let mut differ = u8::from(shown.len() != self.0.len());
        for (n, expected) in self.0.iter().enumerate() {
            differ |= std::hint::black_box(expected ^ shown.get(n).copied().unwrap_or(0));
        }
        std::hint::black_box(differ) == 0
    }
}

/// What a request hears that shows no token of the API, or a wrong one.
pub const NO_TOKEN: &str = "the request shows no token, or a wrong one";

/// Who stands before the API on TCP.
#[derive(Clone)]
pub(super) struct Guard {
    token: Token,
    control: Arc<Control>,
    /// Requests without the token in the period that runs.
    refused: Arc<Mutex<u64>>,
    pub(super) period: Duration,
}

impl Guard {
    pub(super) fn new(token: Token, control: Arc<Control>) -> Self {
        Self { token, control, refused: Arc::default(), period: PERIOD }
    }

    /// Notes a request without the token, if it is one of the first of its period. When that is over, how many more there were is noted.
    fn note(&self, request: &Request, wrong: bool) {
        let so_far = {
            let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
            *refused += 1;
            *refused - 1
        };
        if so_far == 0 {
            let (refused, control, period) = (self.refused.clone(), Arc::downgrade(&self.control), self.period);
            tokio::spawn(async move {
                tokio::time::sleep(period).await;
                let all = std::mem::take(&mut *refused.lock().unwrap_or_else(PoisonError::into_inner));
                if let Some(control) = control.upgrade() {
                    note_the_rest(&control, all.saturating_sub(NOTED_MAX), period);
                }
            });
        }
        if so_far >= NOTED_MAX {
            return;
        }
        let peer = request.extensions().get::<ConnectInfo<Administrator>>().and_then(|who| who.0.names().1);
        let mut what = format!("{} {}", request.method(), request.uri().path());
        what.truncate(what.floor_char_boundary(TEXT_BYTES_MAX));
        tracing::warn!(peer, what, "a request without the token of api.token_file was refused");
        self.control.note_unauthenticated(Action {
            by: if wrong { "who has a wrong token" } else { "who has no token" }.into(),
            peer,
            action: what,
            result: format!("refused (401): {NO_TOKEN}"),
        });
    }
}

/// Notes how many requests without the token were not noted one by one in the period that is over.
fn note_the_rest(control: &Control, more: u64, period: Duration) {
    if more > 0 {
        tracing::warn!(more, "more requests without the token of api.token_file were refused");
        control.note_unauthenticated(Action {
            by: "who has no token, or a wrong one".into(),
            peer: None,
            action: format!("{more} more requests within {} s", period.as_secs()),
            result: format!("refused (401): {NO_TOKEN}"),
        });
    }
}

/// Lets a request through if it shows the token.
pub(super) async fn require(State(guard): State<Guard>, request: Request, next: Next) -> Result<Response, Problem> {
    let header = request.headers().get(header::AUTHORIZATION);
    let shown = header.and_then(|v| v.to_str().ok()).and_then(|v| v.strip_prefix("Bearer "));
    match shown {
        Some(shown) if guard.token.is(shown.trim().as_bytes()) => Ok(next.run(request).await),
        _ => {
            guard.note(&request, header.is_some());
            Err(Problem::new(
                Code::Unauthorized,
                NO_TOKEN,
                "send the header 'Authorization: Bearer TOKEN' with the token of api.token_file",
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn only_the_whole_token_passes() {
        let token = Token::new("0123456789abcdef").unwrap();
        assert!(token.is(b"0123456789abcdef"));
        for wrong in [&b""[..], b"0123456789abcde", b"0123456789abcdeg", b"0123456789abcdef0", b"1123456789abcdef"] {
            assert!(!token.is(wrong));
        }
    }

    #[test]
    fn a_token_file_must_be_there_private_and_long_enough() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        assert!(matches!(Token::load(&path), Err(TokenError::Unreadable { .. })));
        std::fs::write(&path, "short\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert!(matches!(Token::load(&path), Err(TokenError::Unfit { .. })));
        std::fs::write(&path, "0123456789abcdef\n").unwrap();
        assert!(Token::load(&path).is_ok());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(Token::load(&path), Err(TokenError::Public { .. })));
    }
}
