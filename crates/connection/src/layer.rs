//! What lies between the bytes of a connection and its protocol: nothing, or TLS.
//!
//! ```text
//!                first byte is not 22, plain is accepted
//!  Undecided ────────────────────────────────────────────► Plain ◄── made so
//!      │      first byte is 22 (a TLS handshake record), TLS is accepted
//!      └─────────────────────────────────────────────────► Tls  ◄── client
//! ```
//! So one port can serve both. No protocol may begin with 22: an ICReq of NVMe/TCP begins with 0, a link between nodes with `B`.
//!
//! Owns: the TLS engine of a connection, and the lists of the protocol whose ciphertext is on its way.
//! Invariants: a list goes back to the protocol when its ciphertext was sent, so its accounting of memory holds for TLS too, which at most doubles
//! it; nothing of the protocol is sent before the handshake is done; a plain connection costs one comparison a call.
//! Never: does I/O, knows what the bytes mean.

use rt::{Buf, SendList};
use std::collections::VecDeque;
use std::sync::Arc;
use tls::{Context, Engine, Fault, PskIdentity, TlsPsk};

/// The first byte of a TLS connection: a handshake record (RFC 8446, 5.1).
const HANDSHAKE_RECORD: u8 = 22;
/// Bytes of ciphertext in one buffer.
const CIPHER_BUF_BYTES: usize = 256 << 10;
/// Plaintext that is encrypted before its ciphertext is looked at.
const SEAL_BYTES: usize = 64 << 10;
/// Plaintext that one call decrypts: a record.
pub const PLAIN_BYTES: usize = tls::RECORD_BYTES_MAX;

/// What a listener takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepts {
    /// Plain connections only.
    Plain,
    /// Both.
    PlainOrTls,
    /// TLS only.
    Tls,
}

/// See the module.
pub enum Layer<I> {
    /// Nothing has come.
    Undecided(Accepts),
    /// Bytes go through as they are.
    Plain,
    /// TLS.
    Tls(Box<Secured<I>>),
}

/// A TLS connection.
pub struct Secured<I> {
    engine: Engine<I>,
    /// For each send under way: the list whose ciphertext it is; `None` for what TLS itself said.
    under_way: VecDeque<Option<SendList>>,
    free: Option<SendList>,
    said_goodbye: bool,
    failed: bool,
}

/// What came out of bytes that came in.
#[derive(Debug)]
pub enum Came {
    /// They are for the protocol as they are.
    Plain,
    /// They are in the engine: [`Layer::read`] them. `shook`: the handshake is done with them.
    Sealed {
        /// See there.
        shook: bool,
    },
}

impl<I: PskIdentity> Layer<I> {
    /// Of a connection that was accepted.
    pub fn accepted(accepts: Accepts) -> Self {
        Layer::Undecided(accepts)
    }
    /// Of a connection that was made from here: the side of TLS that begins.
    pub fn client(engine: Engine<I>) -> Self {
        Layer::Tls(Box::new(Secured::new(engine)))
    }

    /// Takes bytes that came, at least one. After a fault, what TLS has to say of it goes out still.
    pub fn receive(
        &mut self,
        bytes: &[u8],
        context: impl FnOnce() -> Option<Arc<Context>>,
        keys: impl FnMut(&I) -> Vec<TlsPsk>,
    ) -> Result<Came, Fault> {
        if let Layer::Undecided(accepts) = self {
            *self = match (bytes.first(), *accepts) {
                (Some(&HANDSHAKE_RECORD), Accepts::Plain) => {
                    *self = Layer::Tls(Box::new(Secured { failed: true, ..Secured::new(Engine::none_here()) }));
                    return Err(Fault::NotPlain);
                }
                (Some(&HANDSHAKE_RECORD), _) => Layer::Tls(Box::new(Secured::new(Engine::server(context().ok_or(Fault::Library)?)))),
                (_, Accepts::Tls) => return Err(Fault::NotTls),
                (_, Accepts::Plain | Accepts::PlainOrTls) => Layer::Plain,
            };
        }
        let Layer::Tls(s) = self else { return Ok(Came::Plain) };
        let before = s.engine.is_open();
        let taken = s.engine.receive(bytes, keys);
        s.failed |= taken.is_err();
        taken.map(|()| Came::Sealed { shook: !before && s.engine.is_open() })
    }

    /// Decrypts up to a record into `to`: how many bytes, 0 when there is no more. `None`: the other end said goodbye.
    pub fn read(&mut self, to: &mut [u8]) -> Result<Option<usize>, Fault> {
        let Layer::Tls(s) = self else { return Ok(Some(0)) };
        let read = s.engine.read(to);
        s.failed |= read.is_err();
        read
    }

    /// The next list to send: of TLS itself, or what `take` gives of the protocol, encrypted. When `last`, and there is nothing more, TLS says goodbye.
    #[inline]
    pub fn next_send(&mut self, take: impl FnOnce() -> Option<SendList>, last: bool) -> Option<SendList> {
        match self {
            Layer::Tls(s) => s.next_send(take, last),
            Layer::Plain | Layer::Undecided(_) => take(),
        }
    }

    /// A list was sent: gives what is the protocol's.
    #[inline]
    pub fn sent(&mut self, list: SendList) -> Option<SendList> {
        match self {
            Layer::Tls(s) => s.sent(list),
            Layer::Plain | Layer::Undecided(_) => Some(list),
        }
    }

    /// Whose key a TLS connection uses; `None` for a plain one and before the handshake is done.
    pub fn identity(&self) -> Option<&I> {
        match self {
            Layer::Tls(s) => s.engine.identity(),
            Layer::Plain | Layer::Undecided(_) => None,
        }
    }
    /// Records that have come whole, and whether a part of another has; of a plain connection none.
    pub fn records(&self) -> (u64, bool) {
        match self {
            Layer::Tls(s) => s.engine.records(),
            Layer::Plain | Layer::Undecided(_) => (0, false),
        }
    }
    /// Whether it is TLS and the handshake is under way.
    pub fn is_beginning(&self) -> bool {
        matches!(self, Layer::Tls(s) if s.engine.is_beginning())
    }
    /// Whether it is TLS and can neither send nor receive any more, without having said goodbye.
    pub fn has_failed(&self) -> bool {
        matches!(self, Layer::Tls(s) if s.failed)
    }
    /// Whether it is TLS and has something to say that is not sent.
    pub fn has_words(&self) -> bool {
        matches!(self, Layer::Tls(s) if !s.engine.out().is_empty())
    }
    /// Whether it is TLS and has still to say goodbye.
    pub fn owes_goodbye(&self) -> bool {
        matches!(self, Layer::Tls(s) if !s.failed && !s.said_goodbye && s.engine.is_open())
    }
}

impl<I: PskIdentity> Secured<I> {
    fn new(engine: Engine<I>) -> Self {
        Secured { engine, under_way: VecDeque::new(), free: None, said_goodbye: false, failed: false }
    }

    fn next_send(&mut self, take: impl FnOnce() -> Option<SendList>, last: bool) -> Option<SendList> {
        // What the protocol has to say waits for the handshake, and for what TLS has to say.
        let may_take = self.engine.out().is_empty() && !self.engine.is_beginning();
        let of = if may_take { take() } else { None };
        let mut out = None;
        if let Some(list) = &of {
            self.failed |= self.seal(list, &mut out).is_err();
        } else if may_take && last && !self.failed && !self.said_goodbye {
            self.said_goodbye = true;
            self.engine.close();
        }
        self.collect(&mut out);
        match (out, of) {
            (None, None) => None,
            (out, of) => {
                self.under_way.push_back(of);
                // A list of a connection that has failed: it goes out empty and comes back as usual.
                Some(out.unwrap_or_default())
            }
        }
    }

    /// Encrypts a list, a part at a time, so that the engine holds little of it.
    fn seal(&mut self, list: &SendList, out: &mut Option<SendList>) -> Result<(), Fault> {
        for part in list.slices(0).flat_map(|piece| piece.chunks(SEAL_BYTES)) {
            self.engine.write(part)?;
            if self.engine.out().len() > CIPHER_BUF_BYTES - 2 * SEAL_BYTES {
                self.collect(out);
            }
        }
        self.engine.flush()
    }

    /// What the engine has to send goes into a list.
    fn collect(&mut self, out: &mut Option<SendList>) {
        let bytes = self.engine.out();
        if bytes.is_empty() {
            return;
        }
        let list = out.get_or_insert_with(|| self.free.take().unwrap_or_default());
        if list.is_empty() && bytes.len() <= list.header_room() {
            list.push_header(bytes);
        } else {
            for part in bytes.chunks(CIPHER_BUF_BYTES) {
                list.push_data(Buf::copy_of(part), 0..part.len());
            }
        }
        let n = bytes.len();
        self.engine.taken(n);
    }

    fn sent(&mut self, mut list: SendList) -> Option<SendList> {
        list.clear();
        self.free = Some(list);
        self.under_way.pop_front().flatten()
    }
}

const _: () = assert!(CIPHER_BUF_BYTES <= rt::BUF_BYTES_MAX && CIPHER_BUF_BYTES >= 4 * SEAL_BYTES);

#[cfg(test)]
#[path = "layer_tests.rs"]
mod tests;
