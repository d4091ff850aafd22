//! One queue on one socket: non-blocking, driven by whoever calls, waiting in poll(2).
//!
//! Invariants: every wait ends at a deadline; after an error the connection is of no more use.
//! Never: hides a command's completion; those that a blocking call passes over are kept for [`Connection::pop`].

use crate::error::Error;
use crate::queue::{ClientQueue, Completed, QueueOptions, Request};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::io::{ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use tls::Engine;

/// Bytes taken from the socket at once.
const RECEIVE_BYTES: usize = 256 << 10;
/// So much is taken without knowing where it belongs while large reads are under way: the headers, and little that must be copied.
const HEADERS_BYTES: usize = 512;
/// Writes of at least so many bytes are sent from where they lie.
const LEND_BYTES: u32 = 8 << 10;
/// Pieces of memory in one send.
const SLICES_MAX: usize = 64;
/// Receives in a row before sending gets its turn.
const RECEIVES_MAX: usize = 8;

/// Ciphertext that waits for the socket; beyond, nothing more is encrypted.
const SEALED_MAX: usize = 1 << 20;
/// Plaintext that is encrypted at once.
const SEAL_BYTES: usize = 256 << 10;

/// Waits in poll(2), up to `wait`.
pub(crate) fn wait_for(fds: &mut [PollFd<'_>], wait: Duration) -> Result<(), Error> {
    let timeout = Timespec { tv_sec: wait.as_secs().try_into().unwrap_or(i64::MAX), tv_nsec: wait.subsec_nanos().into() };
    match poll(fds, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(e) => Err(Error::Socket(e.into())),
    }
}

/// See the module.
pub struct Connection {
    stream: TcpStream,
    tls: Option<Box<Engine>>,
    plain: Box<[u8]>,
    queue: ClientQueue,
    buffer: Box<[u8]>,
    passed_over: VecDeque<Completed>,
}

impl Connection {
    /// Connects, shakes hands when it is to be TLS, and exchanges ICReq and ICResp, within `timeout`.
    pub fn open(addr: SocketAddr, options: QueueOptions, tls: Option<Engine>, timeout: Duration) -> Result<Self, Error> {
        let deadline = Instant::now() + timeout;
        let stream = TcpStream::connect_timeout(&addr, timeout).map_err(|source| Error::Connect { addr, source })?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        // TLS copies what it encrypts anyway.
        let lend_bytes = if tls.is_some() { u32::MAX } else { LEND_BYTES };
        let queue = ClientQueue::new(QueueOptions { lend_bytes, ..options });
        let plain = vec![0; if tls.is_some() { tls::RECORD_BYTES_MAX } else { 0 }].into();
        let (tls, buffer) = (tls.map(Box::new), vec![0; RECEIVE_BYTES].into());
        let mut connection = Self { stream, tls, plain, queue, buffer, passed_over: VecDeque::new() };
        while connection.queue.greeting().is_none() {
            connection.wait_until(deadline, "ICResp")?;
        }
        Ok(connection)
    }

    /// The queue.
    pub fn queue(&self) -> &ClientQueue {
        &self.queue
    }
    /// The queue.
    pub fn queue_mut(&mut self) -> &mut ClientQueue {
        &mut self.queue
    }
    /// Our end's address.
    pub fn local_addr(&self) -> Result<SocketAddr, Error> {
        Ok(self.stream.local_addr()?)
    }

    /// Queues a command; it goes out with the next [`Self::drive`].
    pub fn submit(&mut self, request: Request) -> Result<u16, Error> {
        self.queue.submit(request).map_err(|_| Error::QueueFull)
    }
    /// The next completion.
    pub fn pop(&mut self) -> Option<Completed> {
        self.passed_over.pop_front().or_else(|| self.queue.pop())
    }

    /// Sends and receives what can be at once. Whether anything moved.
    pub fn drive(&mut self) -> Result<bool, Error> {
        let sent = self.send()?;
        let received = self.receive()?;
        // What was received may have given more to send (R2T).
        let more = self.has_outgoing() && self.send()?;
        Ok(sent || received || more)
    }

    fn has_outgoing(&self) -> bool {
        match &self.tls {
            Some(tls) => !tls.out().is_empty() || tls.is_open() && !self.queue.outgoing().is_empty(),
            None => !self.queue.outgoing().is_empty(),
        }
    }

    /// Encrypts what is to go out.
    fn seal(&mut self) -> Result<(), Error> {
        let Some(tls) = &mut self.tls else { return Ok(()) };
        while tls.is_open() && tls.out().len() < SEALED_MAX && !self.queue.outgoing().is_empty() {
            let n = self.queue.outgoing().len().min(SEAL_BYTES);
            tls.write(&self.queue.outgoing()[..n])?;
            tls.flush()?;
            self.queue.sent(n);
        }
        Ok(())
    }

    fn send(&mut self) -> Result<bool, Error> {
        let mut moved = false;
        while self.has_outgoing() {
            self.seal()?;
            let wrote = match &self.tls {
                Some(tls) => self.stream.write(tls.out()),
                None => {
                    let mut slices = [IoSlice::new(&[]); SLICES_MAX];
                    let n = self.queue.outgoing_slices(&mut slices);
                    self.stream.write_vectored(&slices[..n])
                }
            };
            match wrote {
                Ok(0) => return Err(Error::Closed),
                Ok(n) => {
                    match &mut self.tls {
                        Some(tls) => tls.taken(n),
                        None => self.queue.sent(n),
                    }
                    moved = true;
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                // The peer may have said why before it closed: a termination request waits to be read.
                Err(e) => {
                    self.receive()?;
                    return Err(e.into());
                }
            }
        }
        Ok(moved)
    }

    fn receive(&mut self) -> Result<bool, Error> {
        let mut moved = false;
        for _ in 0..RECEIVES_MAX {
            let plain = self.tls.is_none();
            let room = if plain && self.queue.reads_large() { HEADERS_BYTES } else { self.buffer.len() };
            let landing = if plain { self.queue.landing() } else { None };
            let lands = landing.as_ref().map_or(0, |l| l.len());
            let mut places = [IoSliceMut::new(landing.unwrap_or_default()), IoSliceMut::new(&mut self.buffer[..room])];
            match self.stream.read_vectored(&mut places) {
                Ok(0) => return Err(Error::Closed),
                Ok(n) => {
                    if lands > 0 {
                        self.queue.landed(n.min(lands))?;
                    }
                    if n > lands {
                        self.take(n - lands)?;
                    }
                    moved = true;
                    if n < lands + room {
                        break;
                    }
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(moved)
    }

    /// Takes `n` bytes that were received.
    fn take(&mut self, n: usize) -> Result<(), Error> {
        let Some(tls) = &mut self.tls else { return Ok(self.queue.receive(&self.buffer[..n])?) };
        tls.receive(&self.buffer[..n], |_| Vec::new())?;
        loop {
            match tls.read(&mut self.plain)? {
                Some(0) => return Ok(()),
                Some(n) => self.queue.receive(&self.plain[..n])?,
                None => return Err(Error::Closed),
            }
        }
    }

    /// Sends and receives; when nothing moves, waits up to `wait` for the socket.
    pub fn wait(&mut self, wait: Duration) -> Result<bool, Error> {
        if self.drive()? {
            return Ok(true);
        }
        wait_for(&mut [self.interest()], wait)?;
        self.drive()
    }

    /// What poll(2) is to wait for.
    fn interest(&self) -> PollFd<'_> {
        let flags = if self.has_outgoing() { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        PollFd::new(&self.stream, flags)
    }

    /// Waits up to `wait` until one of several connections can send or receive.
    pub fn wait_any<'a>(connections: impl Iterator<Item = &'a Connection>, wait: Duration) -> Result<(), Error> {
        let mut all: Vec<PollFd<'_>> = connections.map(Connection::interest).collect();
        wait_for(&mut all, wait)
    }

    fn wait_until(&mut self, deadline: Instant, what: &'static str) -> Result<(), Error> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Error::Timeout(what));
        }
        self.wait(left)?;
        Ok(())
    }

    /// Sends one command and waits for its completion, whatever its status.
    pub fn call(&mut self, request: Request, timeout: Duration, what: &'static str) -> Result<Completed, Error> {
        let deadline = Instant::now() + timeout;
        let tag = request.tag;
        self.submit(request)?;
        loop {
            while let Some(done) = self.queue.pop() {
                if done.tag == tag {
                    return Ok(done);
                }
                self.passed_over.push_back(done);
            }
            self.wait_until(deadline, what)?;
        }
    }
}
