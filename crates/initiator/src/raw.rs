//! A client driven by hand, for tests of bad input: sends any bytes, reads PDUs, and helps to reach any state.
//!
//! Never: checks what it sends; answers by itself.

use crate::controller::HostIdentity;
use crate::error::{Error, Unsupported};
use format::nvme::fabrics::{CNTLID_DYNAMIC, Connect, ConnectData, PropertyAccess};
use format::nvme::property::{CC, CSTS, Config, ControllerStatus};
use format::nvme::{Cqe, Sqe};
use format::nvme_tcp::{CapsuleCmd, CapsuleResp, Digests, IcReq, IcResp, PduType, TermReq};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Largest PDU that is read.
const PDU_BYTES_MAX: usize = 16 << 20;
/// Bound on each step.
const STEP_TIMEOUT: Duration = Duration::from_secs(5);

/// A received PDU: all its bytes, with digests and padding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawPdu(pub Vec<u8>);

impl RawPdu {
    /// Its type, when known.
    pub fn kind(&self) -> Option<PduType> {
        PduType::parse(self.0[0])
    }
    fn first<const N: usize>(&self) -> Option<[u8; N]> {
        self.0.get(..N)?.try_into().ok()
    }
    /// The completion of a CapsuleResp.
    pub fn cqe(&self) -> Option<Cqe> {
        (self.kind() == Some(PduType::CapsuleResp)).then_some(())?;
        Some(CapsuleResp::parse(&self.first()?).cqe)
    }
    /// The reason of a termination request by the controller.
    pub fn termination(&self) -> Option<TermReq> {
        (self.kind() == Some(PduType::C2hTermReq)).then_some(())?;
        Some(TermReq::parse(&self.first()?))
    }
}

/// What came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// A PDU.
    Pdu(RawPdu),
    /// The peer closed or reset the connection.
    Closed,
    /// Nothing in time.
    Nothing,
}

/// See the module.
pub struct RawClient {
    stream: TcpStream,
    /// Digests that are applied; set by [`Self::greet`].
    pub digests: Digests,
}

impl RawClient {
    /// A connection, no more.
    pub fn connect(addr: SocketAddr) -> Result<Self, Error> {
        let stream = TcpStream::connect_timeout(&addr, STEP_TIMEOUT).map_err(|source| Error::Connect { addr, source })?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(STEP_TIMEOUT))?;
        Ok(Self { stream, digests: Digests::default() })
    }

    /// Sends bytes as they are. A peer that closed is no error here: what it said is still to be read.
    pub fn send(&mut self, bytes: &[u8]) -> Result<(), Error> {
        match self.stream.write_all(bytes) {
            Err(e) if matches!(e.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => Ok(()),
            other => Ok(other?),
        }
    }
    /// Sends bytes in pieces of `n`, each in a segment of its own as far as we can tell.
    pub fn send_in_pieces(&mut self, bytes: &[u8], n: usize) -> Result<(), Error> {
        for piece in bytes.chunks(n.max(1)) {
            self.send(piece)?;
            std::thread::sleep(Duration::from_micros(200));
        }
        Ok(())
    }
    /// Says that no more bytes come; keeps reading.
    pub fn half_close(&mut self) -> Result<(), Error> {
        Ok(self.stream.shutdown(Shutdown::Write)?)
    }

    /// Reads one PDU by its PLEN.
    pub fn read_pdu(&mut self, timeout: Duration) -> Result<Received, Error> {
        let deadline = Instant::now() + timeout;
        let mut pdu = vec![0; 8];
        match self.fill(&mut pdu, deadline)? {
            Some(true) => {}
            Some(false) => return Ok(Received::Closed),
            None => return Ok(Received::Nothing),
        }
        let plen = u32::from_le_bytes([pdu[4], pdu[5], pdu[6], pdu[7]]) as usize;
        if !(8..=PDU_BYTES_MAX).contains(&plen) {
            return Err(Error::Unsupported(Unsupported::PduLength));
        }
        pdu.resize(plen, 0);
        match self.fill(&mut pdu[8..], deadline)? {
            Some(true) => Ok(Received::Pdu(RawPdu(pdu))),
            Some(false) => Ok(Received::Closed),
            None => Ok(Received::Nothing),
        }
    }

    /// Fills `out`: `Some(true)` done, `Some(false)` closed, `None` out of time.
    fn fill(&mut self, mut out: &mut [u8], deadline: Instant) -> Result<Option<bool>, Error> {
        while !out.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            self.stream.set_read_timeout(Some(left))?;
            match self.stream.read(out) {
                Ok(0) => return Ok(Some(false)),
                Ok(n) => out = &mut out[n..],
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => return Ok(None),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if matches!(e.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => return Ok(Some(false)),
                Err(e) => return Err(e.into()),
            }
        }
        Ok(Some(true))
    }

    /// Whether the peer closes within `timeout`; PDUs before that are passed over.
    pub fn closes_within(&mut self, timeout: Duration) -> Result<bool, Error> {
        let deadline = Instant::now() + timeout;
        loop {
            match self.read_pdu(deadline.saturating_duration_since(Instant::now()))? {
                Received::Closed => return Ok(true),
                Received::Nothing => return Ok(false),
                Received::Pdu(_) => {}
            }
        }
    }
    /// Reads until a termination request, a close (`None`) or the end of `timeout` (an error).
    pub fn termination(&mut self, timeout: Duration) -> Result<Option<TermReq>, Error> {
        let deadline = Instant::now() + timeout;
        loop {
            match self.read_pdu(deadline.saturating_duration_since(Instant::now()))? {
                Received::Pdu(pdu) => {
                    if let Some(term) = pdu.termination() {
                        return Ok(Some(term));
                    }
                }
                Received::Closed => return Ok(None),
                Received::Nothing => return Err(Error::Timeout("termination")),
            }
        }
    }

    /// ICReq and ICResp.
    pub fn greet(&mut self, digests: Digests) -> Result<IcResp, Error> {
        self.send(&IcReq { hpda: 0, digests, maxr2t: 0 }.to_bytes())?;
        let pdu = self.expect_pdu("ICResp")?;
        let bytes = pdu.first::<128>().filter(|_| pdu.kind() == Some(PduType::IcResp)).ok_or(Error::Unsupported(Unsupported::NoIcResp))?;
        let resp = IcResp::parse(&bytes).map_err(|fault| Error::Queue(crate::error::QueueError::Header(fault)))?;
        self.digests = resp.digests;
        Ok(resp)
    }

    /// The bytes of a command capsule with data in it.
    pub fn capsule(&self, sqe: &Sqe, data: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        CapsuleCmd::append(*sqe, data, self.digests, 0, &mut bytes);
        bytes
    }
    /// Sends a command and reads its completion; data PDUs before it are passed over.
    pub fn command(&mut self, sqe: &Sqe, data: &[u8]) -> Result<Cqe, Error> {
        let capsule = self.capsule(sqe, data);
        self.send(&capsule)?;
        loop {
            let pdu = self.expect_pdu("completion")?;
            if let Some(term) = pdu.termination() {
                return Err(Error::Queue(crate::error::QueueError::Terminated(term)));
            }
            if let Some(cqe) = pdu.cqe() {
                return Ok(cqe);
            }
        }
    }
    fn expect_pdu(&mut self, what: &'static str) -> Result<RawPdu, Error> {
        match self.read_pdu(STEP_TIMEOUT)? {
            Received::Pdu(pdu) => Ok(pdu),
            Received::Closed => Err(Error::Closed),
            Received::Nothing => Err(Error::Timeout(what)),
        }
    }

    /// Connect of queue `qid` to controller `cntlid`, with a keep-alive timeout of `kato_ms`.
    pub fn fabrics_connect(&mut self, subnqn: &str, host: &HostIdentity, qid: u16, cntlid: u16, kato_ms: u32) -> Result<Cqe, Error> {
        let sqe = Connect { recfmt: 0, qid, sqsize: 31, cattr: 0, kato_ms }.sqe(0);
        let data = ConnectData::new(host.id, cntlid, subnqn, &host.nqn).to_bytes();
        self.command(&sqe, &data)
    }

    /// An admin queue whose controller is ready: greeted, connected, enabled. Gives the controller ID.
    pub fn ready_admin(addr: SocketAddr, subnqn: &str, host: &HostIdentity, digests: Digests) -> Result<(Self, u16), Error> {
        let mut client = Self::connect(addr)?;
        client.greet(digests)?;
        let cqe = client.fabrics_connect(subnqn, host, 0, CNTLID_DYNAMIC, 0)?;
        let cntlid = good("Connect", cqe)?.result as u16;
        let config = Config { en: true, iosqes: 6, iocqes: 4, ..Config::default() };
        good("Property Set", client.command(&PropertyAccess::set_sqe(1, CC, false, config.bits().into()), &[])?)?;
        let deadline = Instant::now() + STEP_TIMEOUT;
        loop {
            let cqe = good("Property Get", client.command(&PropertyAccess::get_sqe(2, CSTS, false), &[])?)?;
            if ControllerStatus::parse(cqe.result as u32).rdy {
                return Ok((client, cntlid));
            }
            if Instant::now() > deadline {
                return Err(Error::Timeout("controller ready"));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    /// An I/O queue of the controller of `ready_admin`.
    pub fn ready_io(addr: SocketAddr, subnqn: &str, host: &HostIdentity, cntlid: u16, qid: u16, digests: Digests) -> Result<Self, Error> {
        let mut client = Self::connect(addr)?;
        client.greet(digests)?;
        good("Connect", client.fabrics_connect(subnqn, host, qid, cntlid, 0)?)?;
        Ok(client)
    }
}

fn good(what: &'static str, cqe: Cqe) -> Result<Cqe, Error> {
    if cqe.status.is_success() { Ok(cqe) } else { Err(Error::Status { what, status: cqe.status }) }
}
