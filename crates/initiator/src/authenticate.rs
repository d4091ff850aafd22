//! In-band authentication of one queue (DH-HMAC-CHAP), step by step over commands.
//!
//! Never: shows a secret.

use crate::error::Error;
use crate::queue::{Completed, Payload};
use auth::{Credentials, HostAuth, HostFailure, Secret};
use format::nvme::Sqe;
use format::nvme::auth::AuthCommand;
use std::io::Read;
use std::path::Path;

/// Bytes that we have room for in an answer.
const ROOM: u32 = 4096;
/// Bytes of a file with a secret, at most.
const FILE_BYTES_MAX: u64 = 4096;

/// Random bytes of the operating system.
pub(crate) fn random(out: &mut [u8]) {
    let filled = std::fs::File::open("/dev/urandom").and_then(|mut f| f.read_exact(out));
    filled.expect("/dev/urandom is there on every Linux");
}

/// A secret from a file that holds its text.
pub fn secret_file(path: &Path) -> Result<Secret, Error> {
    let mut text = zeroize::Zeroizing::new(String::new());
    let read = std::fs::File::open(path).and_then(|f| f.take(FILE_BYTES_MAX).read_to_string(&mut text));
    read.map_err(|cause| Error::SecretFile { path: path.to_owned(), cause })?;
    Ok(Secret::parse(&text)?)
}

/// Authenticates a queue. `call` carries out a command on it and gives an error when the command fails.
pub(crate) fn authenticate(
    credentials: &Credentials,
    host_nqn: &str,
    subsystem_nqn: &str,
    mut call: impl FnMut(Sqe, Payload, &'static str) -> Result<Completed, Error>,
) -> Result<(), Error> {
    let mut t_id = [0; 2];
    random(&mut t_id);
    let mut host = HostAuth::new(credentials.clone(), host_nqn, subsystem_nqn, u16::from_le_bytes(t_id));
    let mut step = |message: Vec<u8>| {
        let sqe = AuthCommand::new(message.len() as u32).send_sqe(0);
        call(sqe, Payload::Out(message), "Authentication Send")?;
        let sqe = AuthCommand::new(ROOM).receive_sqe(0);
        call(sqe, Payload::In(vec![0; ROOM as usize]), "Authentication Receive").map(|done| done.payload.into_bytes())
    };
    let challenge = step(host.negotiate())?;
    let answer = match host.on_challenge(&challenge, &mut random) {
        Ok(reply) => host.on_success1(&step(reply)?),
        Err(failure) => Err(failure),
    };
    let (last, outcome) = match answer {
        Ok(None) => return Ok(()),
        Ok(Some(success2)) => (success2, Ok(())),
        Err(HostFailure::Wrong { reason, message }) => (message.clone(), Err(HostFailure::Wrong { reason, message })),
        Err(refused) => return Err(refused.into()),
    };
    let sent = call(AuthCommand::new(last.len() as u32).send_sqe(0), Payload::Out(last), "Authentication Send");
    outcome?;
    sent.map(drop)
}
