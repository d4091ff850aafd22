//! One connection: bytes of the network in, bytes of the user out, and back.
//!
//! ```text
//!            ClientHello whole, binder right          Finished              close_notify, fault
//!  Hello ────────────────────────────────► Shaking ──────────────► Open ────────────────────────► Ended
//!    └── fault: an alert ─────────────────────┴──────────────────────────────────────────────────►
//! ```
//! A client begins in `Shaking`.
//!
//! Owns: what came and was not decrypted, what was encrypted and not taken.
//! Invariants: memory is bounded by what the caller feeds (it reads all plaintext after each feed, so less than two records stay) and
//! leaves untaken; after a fault nothing is decrypted or encrypted any more, and the alert is in what goes out.
//! Never: does I/O; takes new keys by itself where the other end may not follow ([`PskIdentity::REKEYS`]). It follows the other end's.

use crate::alert;
use crate::fault::{Alert, Fault};
use crate::ffi;
use crate::hello;
use crate::identity::{Hash, HostIdentity, PskIdentity};
use crate::kdf;
use crate::psk::TlsPsk;
use openssl::error::ErrorStack;
use openssl::ssl::{
    ErrorCode, Ssl, SslContext, SslContextBuilder, SslMethod, SslMode, SslOptions, SslSessionCacheMode, SslStream, SslVersion,
};
use std::io::{self, ErrorKind, Read, Write};
use std::sync::{Arc, OnceLock};

/// Plaintext of one record at most, in bytes (RFC 8446, 5.1).
pub const RECORD_BYTES_MAX: usize = 16 << 10;
/// The header of a record: its type, a version, its length.
const RECORD_HEADER_BYTES: usize = 5;
/// Records that are encrypted with one key, at most, where new ones can be taken: a third of what RFC 8446 (5.5) allows AES-GCM.
const KEY_RECORDS_MAX: u64 = 1 << 23;
/// Key exchange groups, the quickest first; the standard wants ffdhe3072 and secp384r1 too.
const GROUPS: &str = "X25519:P-256:P-384:ffdhe3072:ffdhe4096";

/// What connections share; one for both sides.
pub struct Context {
    contexts: [SslContext; 2],
}

fn context(hash: Hash) -> Result<SslContext, ErrorStack> {
    let mut b: SslContextBuilder = SslContext::builder(SslMethod::tls())?;
    b.set_min_proto_version(Some(SslVersion::TLS1_3))?;
    b.set_max_proto_version(Some(SslVersion::TLS1_3))?;
    b.set_ciphersuites(hash.suite_name())?;
    b.set_groups_list(GROUPS)?;
    b.set_num_tickets(0)?;
    b.set_session_cache_mode(SslSessionCacheMode::OFF);
    b.set_options(SslOptions::NO_TICKET | SslOptions::CIPHER_SERVER_PREFERENCE);
    b.clear_options(SslOptions::ENABLE_MIDDLEBOX_COMPAT);
    b.set_mode(SslMode::RELEASE_BUFFERS | SslMode::ACCEPT_MOVING_WRITE_BUFFER);
    ffi::use_psks(&mut b);
    Ok(b.build())
}

impl Context {
    /// The one of this process; made for the first who wants it. `None`: the cryptographic library cannot do TLS 1.3 with these settings.
    pub fn shared() -> Option<Arc<Context>> {
        static SHARED: OnceLock<Option<Arc<Context>>> = OnceLock::new();
        SHARED.get_or_init(|| Context::new().ok().map(Arc::new)).clone()
    }
    /// One of its own.
    pub fn new() -> Result<Context, ErrorStack> {
        Ok(Context { contexts: [context(Hash::Sha256)?, context(Hash::Sha384)?] })
    }
    fn of(&self, hash: Hash) -> &SslContext {
        match hash {
            Hash::Sha256 => &self.contexts[0],
            Hash::Sha384 => &self.contexts[1],
        }
    }
    fn stream(&self, identity: Vec<u8>, psk: TlsPsk) -> Result<SslStream<Pipe>, ErrorStack> {
        let mut ssl = Ssl::new(self.of(psk.hash))?;
        ffi::install(&mut ssl, identity, psk)?;
        SslStream::new(ssl, Pipe::default())
    }
}

/// The network, as the library sees it.
#[derive(Default)]
struct Pipe {
    come: Vec<u8>,
    at: usize,
    out: Vec<u8>,
}

impl Pipe {
    fn feed(&mut self, bytes: &[u8]) {
        if self.at == self.come.len() {
            self.come.clear();
            self.at = 0;
        } else if self.at > RECORD_BYTES_MAX {
            self.come.drain(..self.at);
            self.at = 0;
        }
        self.come.extend_from_slice(bytes);
    }
}

impl Read for Pipe {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let rest = &self.come[self.at..];
        if rest.is_empty() {
            return Err(ErrorKind::WouldBlock.into());
        }
        let n = to.len().min(rest.len());
        to[..n].copy_from_slice(&rest[..n]);
        self.at += n;
        Ok(n)
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Where records end in what comes, by their headers (RFC 8446, 5.1). Judges nothing.
#[derive(Default)]
struct Records {
    whole: u64,
    /// Bytes of the record that comes in, and the length that its header says.
    have: usize,
    length: [u8; 2],
}

impl Records {
    fn count(&mut self, mut bytes: &[u8]) {
        while let Some(byte) = bytes.first() {
            if self.have < RECORD_HEADER_BYTES {
                if self.have >= 3 {
                    self.length[self.have - 3] = *byte;
                }
                self.have += 1;
                bytes = &bytes[1..];
            }
            if self.have >= RECORD_HEADER_BYTES {
                let n = bytes.len().min(RECORD_HEADER_BYTES + usize::from(u16::from_be_bytes(self.length)) - self.have);
                self.have += n;
                bytes = &bytes[n..];
                if self.have == RECORD_HEADER_BYTES + usize::from(u16::from_be_bytes(self.length)) {
                    self.whole += 1;
                    self.have = 0;
                }
            }
        }
    }
}

enum State {
    /// Bytes that came, up to a whole ClientHello.
    Hello(Arc<Context>, Vec<u8>),
    Shaking(Box<SslStream<Pipe>>),
    Open(Box<SslStream<Pipe>>),
    Ended,
}

/// See the module. `I`: which identities it takes.
pub struct Engine<I = HostIdentity> {
    state: State,
    server: bool,
    peer: Option<I>,
    /// Small pieces of plaintext on their way into one record.
    staged: Vec<u8>,
    /// Encrypted, when there is no stream (any more) that holds it.
    out: Vec<u8>,
    records: Records,
    /// Records that may be encrypted before new keys are taken.
    key_left: u64,
}

impl<I: PskIdentity> Engine<I> {
    fn new(state: State, server: bool, peer: Option<I>) -> Engine<I> {
        Engine { state, server, peer, staged: Vec::new(), out: Vec::new(), records: Records::default(), key_left: KEY_RECORDS_MAX }
    }
    /// The side that waits for a ClientHello.
    pub fn server(context: Arc<Context>) -> Engine<I> {
        Engine::new(State::Hello(context, Vec::new()), true, None)
    }
    /// The side that begins; its first message is in [`Engine::out`].
    pub fn client(context: &Context, identity: &I, psk: TlsPsk) -> Result<Engine<I>, Fault> {
        let stream = context.stream(identity.to_string().into_bytes(), psk)?;
        let mut engine = Engine::new(State::Shaking(Box::new(stream)), false, Some(identity.clone()));
        engine.shake()?;
        Ok(engine)
    }
    /// One that has ended: it says to who came with TLS that there is none here.
    pub fn none_here() -> Engine<I> {
        let mut engine = Engine::new(State::Ended, true, None);
        engine.say(alert::PROTOCOL_VERSION);
        engine
    }

    /// So many records may be encrypted before new keys are taken, for tests.
    #[cfg(test)]
    pub(crate) fn wear_keys(&mut self, left: u64) {
        self.key_left = left;
    }

    /// Whether the handshake is done and the connection has not ended.
    pub fn is_open(&self) -> bool {
        matches!(self.state, State::Open(_))
    }
    /// Whether keys are being exchanged: what costs most.
    pub fn is_shaking(&self) -> bool {
        matches!(self.state, State::Shaking(_))
    }
    /// Whether the handshake is not done, and has not failed.
    pub fn is_beginning(&self) -> bool {
        matches!(self.state, State::Hello(..) | State::Shaking(_))
    }
    /// Whose key is used; of a server once the handshake is done.
    pub fn identity(&self) -> Option<&I> {
        self.peer.as_ref().filter(|_| self.is_open())
    }

    /// Records that have come whole, and whether a part of another has: who feeds it can see to it that a record comes in time.
    pub fn records(&self) -> (u64, bool) {
        (self.records.whole, self.records.have > 0)
    }

    /// Takes bytes that came. `keys` gives the keys that an identity may mean; it is asked when the ClientHello is whole.
    /// After it, take what goes out and [`Engine::read`] until there is no more.
    pub fn receive(&mut self, bytes: &[u8], keys: impl FnMut(&I) -> Vec<TlsPsk>) -> Result<(), Fault> {
        self.records.count(bytes);
        let done = match &mut self.state {
            State::Ended => Ok(()),
            State::Hello(_, have) => {
                have.extend_from_slice(bytes);
                self.greet(keys)
            }
            State::Shaking(s) | State::Open(s) => {
                s.get_mut().feed(bytes);
                self.shake()
            }
        };
        done.inspect_err(|fault| self.fail(fault))
    }

    /// Looks at the ClientHello and, when it proves a key of ours, begins the handshake.
    fn greet(&mut self, mut keys: impl FnMut(&I) -> Vec<TlsPsk>) -> Result<(), Fault> {
        let State::Hello(context, have) = &self.state else { return Ok(()) };
        let Some(message) = hello::message(have)? else { return Ok(()) };
        let hello = hello::parse(&message)?;
        let (mut known, mut wrong) = (None, false);
        for offer in &hello.offers {
            let Some(identity) = I::parse(offer.identity) else { continue };
            for psk in keys(&identity) {
                let binder = kdf::binder(psk.hash, &psk.key, hello.truncated)?;
                if binder.is(offer.binder) {
                    known = Some((identity, offer.identity.to_vec(), psk));
                    break;
                }
                wrong = true;
            }
            if known.is_some() {
                break;
            }
        }
        let (identity, name, psk) = match known {
            Some(known) => known,
            None if wrong => return Err(Fault::refused(alert::DECRYPT_ERROR, "the key that the client proves is not the one known here")),
            None => return Err(Fault::refused(alert::UNKNOWN_PSK_IDENTITY, "no key is known for the identity that the client offers")),
        };
        if !hello.takes(psk.hash) {
            return Err(Fault::refused(alert::HANDSHAKE_FAILURE, "the client does not offer the cipher suite of its key"));
        }
        let mut stream = Box::new(context.stream(name, psk)?);
        stream.get_mut().feed(have);
        self.peer = Some(identity);
        self.state = State::Shaking(stream);
        self.shake()
    }

    fn shake(&mut self) -> Result<(), Fault> {
        let State::Shaking(stream) = &mut self.state else { return Ok(()) };
        match if self.server { stream.accept() } else { stream.connect() } {
            Ok(()) => {
                if let State::Shaking(stream) = std::mem::replace(&mut self.state, State::Ended) {
                    self.state = State::Open(stream);
                }
                Ok(())
            }
            Err(e) if matches!(e.code(), ErrorCode::WANT_READ | ErrorCode::WANT_WRITE) => Ok(()),
            Err(e) => Err(protocol(&e)),
        }
    }

    /// Decrypts into `to`: how many bytes; 0 when there is no more for now. `None`: the peer closed (close_notify).
    pub fn read(&mut self, to: &mut [u8]) -> Result<Option<usize>, Fault> {
        let State::Open(stream) = &mut self.state else { return Ok(Some(0)) };
        match stream.ssl_read(to) {
            Ok(n) => Ok(Some(n)),
            Err(e) if matches!(e.code(), ErrorCode::WANT_READ | ErrorCode::WANT_WRITE) => Ok(Some(0)),
            Err(e) if e.code() == ErrorCode::ZERO_RETURN => Ok(None),
            Err(e) => {
                let fault = protocol(&e);
                self.fail(&fault);
                Err(fault)
            }
        }
    }

    /// Encrypts; small pieces are gathered into one record until [`Engine::flush`]. Nothing happens unless it is open.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<(), Fault> {
        let State::Open(stream) = &mut self.state else { return Ok(()) };
        let key_left = &mut self.key_left;
        let written = loop {
            if self.staged.is_empty() && bytes.len() >= RECORD_BYTES_MAX {
                let whole = bytes.len() / RECORD_BYTES_MAX * RECORD_BYTES_MAX;
                if let Err(e) = write_all::<I>(stream, &bytes[..whole], key_left) {
                    break Err(e);
                }
                bytes = &bytes[whole..];
            }
            let n = bytes.len().min(RECORD_BYTES_MAX - self.staged.len());
            self.staged.extend_from_slice(&bytes[..n]);
            bytes = &bytes[n..];
            if self.staged.len() < RECORD_BYTES_MAX {
                break Ok(());
            }
            if let Err(e) = write_all::<I>(stream, &self.staged, key_left) {
                break Err(e);
            }
            self.staged.clear();
        };
        written.inspect_err(|fault| self.fail(fault))
    }

    /// Encrypts what was gathered.
    pub fn flush(&mut self) -> Result<(), Fault> {
        let State::Open(stream) = &mut self.state else { return Ok(()) };
        if self.staged.is_empty() {
            return Ok(());
        }
        let written = write_all::<I>(stream, &self.staged, &mut self.key_left);
        self.staged.clear();
        written.inspect_err(|fault| self.fail(fault))
    }

    /// What is to be sent. Say with [`Engine::taken`] how much of it was.
    pub fn out(&self) -> &[u8] {
        match &self.state {
            State::Shaking(s) | State::Open(s) => &s.get_ref().out,
            State::Hello(..) | State::Ended => &self.out,
        }
    }
    /// `n` bytes of [`Engine::out`] were taken.
    pub fn taken(&mut self, n: usize) {
        let out = match &mut self.state {
            State::Shaking(s) | State::Open(s) => &mut s.get_mut().out,
            State::Hello(..) | State::Ended => &mut self.out,
        };
        out.drain(..n);
    }

    /// Says goodbye: a close_notify goes out behind what was written.
    pub fn close(&mut self) {
        // What was gathered goes first; a fault here ends the connection all the same.
        let _ = self.flush();
        self.end(|stream| {
            let _ = stream.shutdown();
        });
    }

    fn end(&mut self, last: impl FnOnce(&mut SslStream<Pipe>)) {
        match std::mem::replace(&mut self.state, State::Ended) {
            State::Open(mut s) | State::Shaking(mut s) => {
                last(&mut s);
                self.out = std::mem::take(&mut s.get_mut().out);
            }
            State::Hello(..) | State::Ended => {}
        }
    }

    /// Ends it; an alert of our own goes out when the library has not made one.
    fn fail(&mut self, fault: &Fault) {
        self.end(|_| {});
        let description = match fault {
            Fault::Refused { alert, .. } => *alert,
            Fault::Library => alert::INTERNAL_ERROR,
            Fault::NotPlain => alert::PROTOCOL_VERSION,
            Fault::NotTls | Fault::Alert(_) | Fault::Protocol(_) => return,
        };
        self.say(description);
    }
    /// A fatal alert goes out, not encrypted.
    fn say(&mut self, description: u8) {
        self.out.extend_from_slice(&[21, 3, 3, 0, 2, 2, description]);
    }
}

fn write_all<I: PskIdentity>(stream: &mut SslStream<Pipe>, bytes: &[u8], key_left: &mut u64) -> Result<(), Fault> {
    for mut record in bytes.chunks(RECORD_BYTES_MAX) {
        if I::REKEYS && *key_left == 0 {
            ffi::update_key(stream.ssl())?;
            *key_left = KEY_RECORDS_MAX;
        }
        *key_left = key_left.saturating_sub(1);
        while !record.is_empty() {
            let n = stream.ssl_write(record).map_err(|e| protocol(&e))?;
            record = &record[n..];
        }
    }
    Ok(())
}

/// OpenSSL's reasons from there on are alerts of the other end (SSL_AD_REASON_OFFSET of openssl/ssl.h).
const REASON_ALERT: i32 = 1000;

fn protocol(e: &openssl::ssl::Error) -> Fault {
    let first = e.ssl_error().and_then(|stack| stack.errors().first());
    if let Some(Ok(description)) = first.map(|e| u8::try_from(e.reason_code() - REASON_ALERT)) {
        return Fault::Alert(Alert::of(description));
    }
    Fault::Protocol(first.and_then(|e| e.reason()).unwrap_or("the connection ended").to_owned())
}

#[cfg(test)]
#[path = "engine_tests.rs"]
mod tests;
