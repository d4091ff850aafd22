//! One connection between a lab and an agent: messages over TLS 1.3, with a key that both have.
//!
//! Invariants: nothing is read before the other side proved the key; a message has at most [`MESSAGE_BYTES_MAX`]; a peer that is gone without
//! a word is noticed within a minute.
//! Never: knows what messages mean.

use super::key::{AgentIdentity, AgentKey};
use rustix::net::sockopt;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tls::{Context, Engine};

/// Bytes of one message.
pub const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// A connection and its handshake take so long at most.
const CONNECT: Duration = Duration::from_secs(10);
/// What was sent is acknowledged within this, or the peer is gone.
const GONE: Duration = Duration::from_secs(30);
/// Bytes read at once.
const READ_BYTES: usize = 64 << 10;

/// The sending side; it may be shared.
pub struct Link {
    socket: TcpStream,
    key: AgentKey,
    engine: Mutex<Engine<AgentIdentity>>,
}

/// The receiving side.
pub struct Reader {
    link: Arc<Link>,
    buffer: Vec<u8>,
    plain: Vec<u8>,
    closed: bool,
}

/// To the agent at `address`.
pub fn connect(address: &str, key: &AgentKey) -> Result<Reader, String> {
    let places: Vec<_> = address.to_socket_addrs().map_err(|e| format!("the address cannot be found: {e}; write HOST:PORT"))?.collect();
    let mut last = "the address cannot be found; write HOST:PORT".to_owned();
    for place in places {
        match TcpStream::connect_timeout(&place, CONNECT) {
            Ok(socket) => {
                let context = Context::shared().ok_or("the cryptographic library cannot do TLS 1.3")?;
                let engine = Engine::client(&context, &AgentIdentity, key.psk()).map_err(|e| e.to_string())?;
                return open(socket, engine, key);
            }
            Err(e) => last = format!("no agent answers: {e}; start 'basalt lab agent' there, and check the address"),
        }
    }
    Err(last)
}

/// Of a lab that has connected.
pub fn accept(socket: TcpStream, key: &AgentKey) -> Result<Reader, String> {
    let context = Context::shared().ok_or("the cryptographic library cannot do TLS 1.3")?;
    open(socket, Engine::server(context), key)
}

fn open(socket: TcpStream, engine: Engine<AgentIdentity>, key: &AgentKey) -> Result<Reader, String> {
    let failed = |e: std::io::Error| e.to_string();
    let _ = socket.set_nodelay(true);
    socket.set_read_timeout(Some(CONNECT)).and_then(|()| socket.set_write_timeout(Some(GONE))).map_err(failed)?;
    // What a kernel refuses of these makes the end of a peer noticed later.
    let _ = sockopt::set_socket_keepalive(&socket, true);
    let _ = sockopt::set_tcp_keepidle(&socket, Duration::from_secs(10));
    let _ = sockopt::set_tcp_keepintvl(&socket, Duration::from_secs(5));
    let _ = sockopt::set_tcp_keepcnt(&socket, 4);
    let _ = sockopt::set_tcp_user_timeout(&socket, GONE.as_millis() as u32);
    let link = Arc::new(Link { socket, key: key.clone(), engine: Mutex::new(engine) });
    let mut reader = Reader { link, buffer: vec![0; READ_BYTES], plain: Vec::new(), closed: false };
    reader.link.drain(&mut reader.link.lock())?;
    while !reader.link.lock().is_open() {
        reader.fill()?;
        if reader.closed {
            return Err("the connection ended while keys were exchanged".into());
        }
    }
    reader.link.socket.set_read_timeout(None).map_err(failed)?;
    Ok(reader)
}

impl Link {
    fn lock(&self) -> std::sync::MutexGuard<'_, Engine<AgentIdentity>> {
        self.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends what is encrypted.
    fn drain(&self, engine: &mut Engine<AgentIdentity>) -> Result<(), String> {
        while !engine.out().is_empty() {
            let n = (&self.socket).write(engine.out()).map_err(|e| format!("nothing can be sent: {e}"))?;
            engine.taken(n);
        }
        Ok(())
    }

    /// Sends a message.
    pub fn send(&self, message: &impl Serialize) -> Result<(), String> {
        let text = serde_json::to_vec(message).map_err(|e| e.to_string())?;
        if text.len() > MESSAGE_BYTES_MAX {
            return Err(format!("a message of {} bytes is too long", text.len()));
        }
        let mut engine = self.lock();
        let written = engine.write(&(text.len() as u32).to_le_bytes()).and_then(|()| engine.write(&text)).and_then(|()| engine.flush());
        written.map_err(|e| e.to_string())?;
        self.drain(&mut engine)
    }

    /// Ends it, for both sides.
    pub fn end(&self) {
        let mut engine = self.lock();
        engine.close();
        let _ = self.drain(&mut engine);
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

impl Reader {
    /// The sending side.
    pub fn link(&self) -> Arc<Link> {
        Arc::clone(&self.link)
    }

    /// The next message; `None`: the other side has ended the connection.
    pub fn message<T: DeserializeOwned>(&mut self) -> Result<Option<T>, String> {
        loop {
            if let Some(head) = self.plain.first_chunk::<4>() {
                let bytes = u32::from_le_bytes(*head) as usize;
                if bytes > MESSAGE_BYTES_MAX {
                    return Err(format!("a message of {bytes} bytes is too long"));
                }
                if self.plain.len() >= 4 + bytes {
                    let message = serde_json::from_slice(&self.plain[4..4 + bytes]).map_err(|e| format!("a message makes no sense: {e}"));
                    self.plain.drain(..4 + bytes);
                    return message.map(Some);
                }
            }
            if self.closed {
                return Ok(None);
            }
            self.fill()?;
        }
    }

    /// Takes what comes.
    fn fill(&mut self) -> Result<(), String> {
        let n = match (&self.link.socket).read(&mut self.buffer) {
            Ok(0) => {
                self.closed = true;
                return Ok(());
            }
            Ok(n) => n,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => return Ok(()),
            Err(e) => return Err(format!("the connection broke: {e}")),
        };
        let mut engine = self.link.lock();
        let taken = engine.receive(&self.buffer[..n], |_| vec![self.link.key.psk()]);
        // A fault has its alert in what goes out.
        let sent = self.link.drain(&mut engine);
        taken.map_err(|e| e.to_string())?;
        sent?;
        loop {
            match engine.read(&mut self.buffer).map_err(|e| e.to_string())? {
                Some(0) => return Ok(()),
                Some(n) => self.plain.extend_from_slice(&self.buffer[..n]),
                None => {
                    self.closed = true;
                    return Ok(());
                }
            }
        }
    }
}
