//! The first message of a handshake, looked at before anything else is done for it: is it a ClientHello of TLS 1.3 that offers a key of
//! ours and proves by its binder that it holds it?
//!
//! ```text
//! record: 22, version, length │ handshake: 1, length of 3 bytes │ ClientHello (RFC 8446, 4.1.2)
//! ```
//!
//! Invariants: lengths are checked before they are used; nothing is kept but the bytes of the message.

use crate::alert;
use crate::fault::Fault;
use crate::identity::Hash;

/// Bytes of a ClientHello at most, its records' headers included: beyond, nobody means it well.
pub const HELLO_BYTES_MAX: usize = 16 << 10;

const CONTENT_HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const RECORD_HEADER: usize = 5;
const EXT_PSK: u16 = 41;
const EXT_VERSIONS: u16 = 43;
const EXT_PSK_MODES: u16 = 45;
const PSK_DHE_KE: u8 = 1;
const TLS1_3: [u8; 2] = [3, 4];
/// Offers of one ClientHello that are looked at.
const OFFERS_MAX: usize = 8;

/// A PSK that the client offers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Offer<'a> {
    pub(crate) identity: &'a [u8],
    pub(crate) binder: &'a [u8],
}

/// What of a ClientHello matters.
#[derive(Debug)]
pub(crate) struct Hello<'a> {
    /// At most [`OFFERS_MAX`].
    pub(crate) offers: Vec<Offer<'a>>,
    /// The message up to the binders, which they sign.
    pub(crate) truncated: &'a [u8],
    suites: &'a [u8],
}

impl Hello<'_> {
    /// Whether the client takes the cipher suite of a hash.
    pub(crate) fn takes(&self, hash: Hash) -> bool {
        self.suites.chunks_exact(2).any(|s| s == hash.suite())
    }
}

fn unreadable() -> Fault {
    Fault::refused(alert::DECODE_ERROR, "the ClientHello cannot be read")
}

/// Reads on in the bytes of a message.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8], Fault> {
        let (now, later) = self.0.split_at_checked(n).ok_or(unreadable())?;
        self.0 = later;
        Ok(now)
    }
    fn number(&mut self, bytes: usize) -> Result<usize, Fault> {
        Ok(self.take(bytes)?.iter().fold(0, |n, b| n << 8 | usize::from(*b)))
    }
    /// A vector with a length of `bytes` bytes before it.
    fn vector(&mut self, bytes: usize) -> Result<&'a [u8], Fault> {
        let n = self.number(bytes)?;
        self.take(n)
    }
    fn end(&self) -> Result<(), Fault> {
        if self.0.is_empty() { Ok(()) } else { Err(unreadable()) }
    }
}

/// The handshake message that the records begin with, once it is whole. Fails as soon as they cannot become a ClientHello.
/// How the bytes were cut on their way makes no difference.
pub(crate) fn message(records: &[u8]) -> Result<Option<Vec<u8>>, Fault> {
    match first_message(&records[..records.len().min(HELLO_BYTES_MAX)])? {
        None if records.len() > HELLO_BYTES_MAX => Err(Fault::refused(alert::RECORD_OVERFLOW, "the ClientHello is too long")),
        found => Ok(found),
    }
}

fn first_message(records: &[u8]) -> Result<Option<Vec<u8>>, Fault> {
    let mut out = Vec::new();
    let mut rest = records;
    loop {
        if rest.first().is_some_and(|kind| *kind != CONTENT_HANDSHAKE) || rest.get(1).is_some_and(|major| *major != 3) {
            return Err(Fault::NotTls);
        }
        let Some((header, body)) = rest.split_at_checked(RECORD_HEADER) else { return Ok(None) };
        let len = usize::from(u16::from_be_bytes([header[3], header[4]]));
        if len == 0 {
            return Err(Fault::refused(alert::UNEXPECTED_MESSAGE, "an empty handshake record"));
        }
        if len > HELLO_BYTES_MAX {
            return Err(Fault::refused(alert::RECORD_OVERFLOW, "a record is too long"));
        }
        let whole = body.len() >= len;
        let promised = out.len() + len;
        out.extend_from_slice(&body[..len.min(body.len())]);
        if out.first().is_some_and(|kind| *kind != CLIENT_HELLO) {
            return Err(Fault::refused(alert::UNEXPECTED_MESSAGE, "the first message is not a ClientHello"));
        }
        if let Some(size) = out.get(1..4) {
            let total = 4 + (usize::from(size[0]) << 16 | usize::from(size[1]) << 8 | usize::from(size[2]));
            if total > HELLO_BYTES_MAX {
                return Err(Fault::refused(alert::RECORD_OVERFLOW, "the ClientHello is too long"));
            }
            if promised > total {
                return Err(Fault::refused(alert::UNEXPECTED_MESSAGE, "more than a ClientHello in its record"));
            }
            if out.len() == total {
                return Ok(Some(out));
            }
        }
        if !whole {
            return Ok(None);
        }
        rest = &body[len..];
    }
}

/// Reads a ClientHello.
pub(crate) fn parse(message: &[u8]) -> Result<Hello<'_>, Fault> {
    let mut r = Reader(message);
    r.take(4 + 2 + 32)?;
    r.vector(1)?;
    let suites = r.vector(2)?;
    r.vector(1)?;
    let mut extensions = Reader(r.vector(2)?);
    r.end()?;
    let [mut versions, mut modes, mut psk]: [Option<&[u8]>; 3] = [None; 3];
    while !extensions.0.is_empty() {
        let kind = extensions.number(2)? as u16;
        let data = extensions.vector(2)?;
        if psk.is_some() {
            return Err(Fault::refused(47, "pre_shared_key is not the last extension")); // illegal_parameter
        }
        match kind {
            EXT_PSK => psk = Some(data),
            EXT_VERSIONS => versions = Some(Reader(data).vector(1)?),
            EXT_PSK_MODES => modes = Some(Reader(data).vector(1)?),
            _ => {}
        }
    }
    if !versions.is_some_and(|v| v.chunks_exact(2).any(|v| v == TLS1_3)) {
        return Err(Fault::refused(alert::PROTOCOL_VERSION, "the client does not offer TLS 1.3"));
    }
    let psk = psk.ok_or(Fault::refused(alert::HANDSHAKE_FAILURE, "the client offers no pre-shared key"))?;
    if !modes.ok_or(Fault::refused(alert::MISSING_EXTENSION, "no psk_key_exchange_modes"))?.contains(&PSK_DHE_KE) {
        return Err(Fault::refused(alert::HANDSHAKE_FAILURE, "the client does not offer psk_dhe_ke"));
    }
    let mut r = Reader(psk);
    let mut identities = Reader(r.vector(2)?);
    // `psk` is the end of the message: what follows the identities in it are the binders.
    let truncated = &message[..message.len() - r.0.len()];
    let mut binders = Reader(r.vector(2)?);
    r.end()?;
    let mut offers = Vec::new();
    while !identities.0.is_empty() {
        let identity = identities.vector(2)?;
        identities.take(4)?;
        let binder = binders.vector(1)?;
        if offers.len() < OFFERS_MAX {
            offers.push(Offer { identity, binder });
        }
    }
    binders.end()?;
    Ok(Hello { offers, truncated, suites })
}

#[cfg(test)]
#[path = "hello_tests.rs"]
mod tests;
