//! One session on one socket: non-blocking, driven by whoever calls, waiting in poll(2).
//!
//! Invariants: every wait ends at a deadline; after an error the connection is of no more use.
//! Never: hides a command's completion; those that a blocking call passes over are kept for [`Connection::pop`].

use super::login::LoginOptions;
use super::session::{Command, Completed, Session};
use crate::authenticate::random;
use crate::connection::wait_for;
use crate::error::Error;
use rustix::event::{PollFd, PollFlags};
use std::collections::VecDeque;
use std::io::{ErrorKind, IoSliceMut, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Bytes taken from the socket at once, beside what goes straight into its place.
const RECEIVE_BYTES: usize = 256 << 10;
/// Receives in a row before sending gets its turn.
const RECEIVES_MAX: usize = 8;
/// Bound on the answer to a logout.
const LOGOUT_TIMEOUT: Duration = Duration::from_secs(5);

/// See the module.
pub struct Connection {
    stream: TcpStream,
    session: Session,
    buffer: Box<[u8]>,
    passed_over: VecDeque<Completed>,
}

impl Connection {
    /// Connects and logs in, within `timeout`. `commands`: how many may be under way.
    pub fn open(addr: SocketAddr, options: LoginOptions, commands: usize, timeout: Duration) -> Result<Self, Error> {
        let deadline = Instant::now() + timeout;
        let stream = TcpStream::connect_timeout(&addr, timeout).map_err(|source| Error::Connect { addr, source })?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let session = Session::new(options, commands, random);
        let mut connection = Self { stream, session, buffer: vec![0; RECEIVE_BYTES].into(), passed_over: VecDeque::new() };
        while !connection.session.is_open() {
            connection.wait_until(deadline, "login")?;
        }
        Ok(connection)
    }

    /// The session.
    pub fn session(&self) -> &Session {
        &self.session
    }
    /// Queues a command; it goes out with the next [`Self::drive`].
    pub fn submit(&mut self, command: Command) -> Result<(), Error> {
        self.session.submit(command).map_err(|_| Error::QueueFull)
    }
    /// The next completion.
    pub fn pop(&mut self) -> Option<Completed> {
        self.passed_over.pop_front().or_else(|| self.session.pop())
    }

    /// Sends and receives what can be at once. Whether anything moved.
    pub fn drive(&mut self) -> Result<bool, Error> {
        let sent = self.send()?;
        let received = self.receive()?;
        // What was received may have given more to send (R2T).
        let more = !self.session.outgoing().is_empty() && self.send()?;
        Ok(sent || received || more)
    }

    fn send(&mut self) -> Result<bool, Error> {
        let mut moved = false;
        while !self.session.outgoing().is_empty() {
            match self.stream.write(self.session.outgoing()) {
                Ok(0) => return Err(Error::Closed),
                Ok(n) => {
                    self.session.sent(n);
                    moved = true;
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                // The target may have said why before it closed.
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
            let landing = self.session.landing();
            let lands = landing.as_ref().map_or(0, |l| l.len());
            let room = self.buffer.len();
            let mut places = [IoSliceMut::new(landing.unwrap_or_default()), IoSliceMut::new(&mut self.buffer)];
            match self.stream.read_vectored(&mut places) {
                Ok(0) => return Err(Error::Closed),
                Ok(n) => {
                    if lands > 0 {
                        self.session.landed(n.min(lands))?;
                    }
                    if n > lands {
                        self.session.receive(&self.buffer[..n - lands])?;
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

    /// Sends and receives; when nothing moves, waits up to `wait` for the socket.
    pub fn wait(&mut self, wait: Duration) -> Result<bool, Error> {
        if self.drive()? {
            return Ok(true);
        }
        wait_for(&mut [self.interest()], wait)?;
        self.drive()
    }

    fn interest(&self) -> PollFd<'_> {
        let flags = if self.session.outgoing().is_empty() { PollFlags::IN } else { PollFlags::IN | PollFlags::OUT };
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
        self.wait(left).map(drop)
    }

    /// Sends one command and waits for its completion, however it ends.
    pub fn call(&mut self, command: Command, timeout: Duration, what: &'static str) -> Result<Completed, Error> {
        let deadline = Instant::now() + timeout;
        let tag = command.tag;
        self.submit(command)?;
        loop {
            while let Some(done) = self.session.pop() {
                if done.command.tag == tag {
                    return Ok(done);
                }
                self.passed_over.push_back(done);
            }
            self.wait_until(deadline, what)?;
        }
    }

    /// Logs out.
    pub fn log_out(mut self) -> Result<(), Error> {
        let deadline = Instant::now() + LOGOUT_TIMEOUT;
        self.session.log_out();
        while !self.session.is_logged_out() {
            match self.wait_until(deadline, "Logout") {
                // A target may close right after its answer.
                Err(Error::Closed) if self.session.is_logged_out() => break,
                other => other?,
            }
        }
        Ok(())
    }
}
