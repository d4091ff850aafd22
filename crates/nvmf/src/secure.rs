//! What lies between the bytes of a connection and its [`Session`]: nothing, or TLS.
//!
//! ```text
//!             first byte is not 22, listener takes plain
//!  Undecided ────────────────────────────────────────────► Plain
//!      │      first byte is 22 (a TLS handshake record; 0 is an ICReq)
//!      └─────────────────────────────────────────────────► Tls
//! ```
//! So one port serves both, as Linux's target does, and an `Encrypted` listener serves TLS only. What a subsystem asks for is judged at its
//! Connect command.
//!
//! Owns: the TLS engine of a connection, and the lists of the session whose ciphertext is on its way.
//! Invariants: a list goes back to the session when its ciphertext was sent, so the session's accounting of memory holds for TLS too, which
//! at most doubles it; a plain connection costs one comparison a call.
//! Never: does I/O, knows what the bytes mean.

use crate::session::Session;
use rt::{Buf, SendList};
use std::collections::VecDeque;
use std::sync::Arc;
use tls::{Context, Engine, Fault, Identity, TlsPsk};

/// The first byte of a TLS connection: a handshake record (RFC 8446, 5.1).
const HANDSHAKE_RECORD: u8 = 22;
/// Bytes of ciphertext in one buffer.
const CIPHER_BUF_BYTES: usize = 256 << 10;
/// Plaintext that one call decrypts: a record.
pub(crate) const PLAIN_BYTES: usize = tls::RECORD_BYTES_MAX;

/// See the module.
pub(crate) enum Layer {
    /// Nothing has come.
    Undecided { tls_only: bool },
    /// Bytes go through as they are.
    Plain,
    /// TLS.
    Tls(Box<Secured>),
}

/// A TLS connection.
pub(crate) struct Secured {
    engine: Engine,
    /// For each send under way: the list whose ciphertext it is; `None` for what TLS itself said.
    under_way: VecDeque<Option<SendList>>,
    free: Option<SendList>,
    said_goodbye: bool,
    failed: bool,
}

/// What came out of bytes that came in.
pub(crate) enum Came {
    /// They are for the session as they are.
    Plain,
    /// They are in the engine: [`Layer::read`] them. `shook`: the handshake is done with them.
    Sealed { shook: bool },
}

impl Layer {
    /// Of a connection that was just accepted.
    pub(crate) fn new(tls_only: bool) -> Self {
        Layer::Undecided { tls_only }
    }

    /// Takes bytes that came, at least one.
    pub(crate) fn receive(
        &mut self,
        bytes: &[u8],
        context: impl FnOnce() -> Option<Arc<Context>>,
        keys: impl FnMut(&Identity) -> Vec<TlsPsk>,
    ) -> Result<Came, Fault> {
        if let Layer::Undecided { tls_only } = self {
            *self = match (bytes.first(), *tls_only) {
                (Some(&HANDSHAKE_RECORD), _) => {
                    let engine = Engine::server(context().ok_or(Fault::Library)?);
                    Layer::Tls(Box::new(Secured { engine, under_way: VecDeque::new(), free: None, said_goodbye: false, failed: false }))
                }
                (_, true) => return Err(Fault::NotTls),
                (_, false) => Layer::Plain,
            };
        }
        let Layer::Tls(s) = self else { return Ok(Came::Plain) };
        let before = s.engine.is_open();
        let taken = s.engine.receive(bytes, keys);
        s.failed |= taken.is_err();
        taken.map(|()| Came::Sealed { shook: !before && s.engine.is_open() })
    }

    /// Decrypts up to a record into `to`: how many bytes, 0 when there is no more. `None`: the host said goodbye.
    pub(crate) fn read(&mut self, to: &mut [u8]) -> Result<Option<usize>, Fault> {
        let Layer::Tls(s) = self else { return Ok(Some(0)) };
        let read = s.engine.read(to);
        s.failed |= read.is_err();
        read
    }

    /// The next list to send: of TLS itself, or of the session, encrypted. When `last`, and there is nothing more, TLS says goodbye.
    #[inline]
    pub(crate) fn next_send(&mut self, session: &mut Session, last: bool) -> Option<SendList> {
        match self {
            Layer::Tls(s) => s.next_send(session, last),
            Layer::Plain | Layer::Undecided { .. } => session.take_send(),
        }
    }

    /// A list was sent: gives what is the session's.
    #[inline]
    pub(crate) fn sent(&mut self, list: SendList) -> Option<SendList> {
        match self {
            Layer::Tls(s) => s.sent(list),
            Layer::Plain | Layer::Undecided { .. } => Some(list),
        }
    }

    /// Whose key a TLS connection uses; `None` for a plain one and before the handshake is done.
    pub(crate) fn identity(&self) -> Option<&Identity> {
        match self {
            Layer::Tls(s) => s.engine.identity(),
            Layer::Plain | Layer::Undecided { .. } => None,
        }
    }
    /// Records that have come whole, and whether a part of another has; of a plain connection none.
    pub(crate) fn records(&self) -> (u64, bool) {
        match self {
            Layer::Tls(s) => s.engine.records(),
            Layer::Plain | Layer::Undecided { .. } => (0, false),
        }
    }
    /// Whether it is TLS and can neither send nor receive any more, without having said goodbye.
    pub(crate) fn has_failed(&self) -> bool {
        matches!(self, Layer::Tls(s) if s.failed)
    }
    /// Whether it is TLS and has still to say goodbye.
    pub(crate) fn owes_goodbye(&self) -> bool {
        matches!(self, Layer::Tls(s) if !s.failed && !s.said_goodbye && s.engine.is_open())
    }
}

impl Secured {
    fn next_send(&mut self, session: &mut Session, last: bool) -> Option<SendList> {
        let of = if self.engine.out().is_empty() { session.take_send() } else { None };
        if let Some(list) = &of {
            let sealed = list.slices(0).try_for_each(|piece| self.engine.write(piece)).and_then(|()| self.engine.flush());
            self.failed |= sealed.is_err();
        } else if last && !self.failed && !self.said_goodbye && !session.has_send() && self.engine.out().is_empty() {
            self.said_goodbye = true;
            self.engine.close();
        }
        let out = self.cipher_list();
        match (out, of) {
            (None, None) => None,
            (out, of) => {
                self.under_way.push_back(of);
                // A list of a connection that has failed: it goes out empty and comes back as usual.
                Some(out.unwrap_or_default())
            }
        }
    }

    /// What the engine has to send, as a list.
    fn cipher_list(&mut self) -> Option<SendList> {
        let bytes = self.engine.out();
        if bytes.is_empty() {
            return None;
        }
        let mut list = self.free.take().unwrap_or_default();
        if bytes.len() <= list.header_room() {
            list.push_header(bytes);
        } else {
            for part in bytes.chunks(CIPHER_BUF_BYTES) {
                list.push_data(Buf::copy_of(part), 0..part.len());
            }
        }
        let n = bytes.len();
        self.engine.taken(n);
        Some(list)
    }

    fn sent(&mut self, mut list: SendList) -> Option<SendList> {
        list.clear();
        self.free = Some(list);
        self.under_way.pop_front().flatten()
    }
}

const _: () = assert!(CIPHER_BUF_BYTES <= rt::BUF_BYTES_MAX);
