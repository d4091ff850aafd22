//! One case under way: its connections, what went over them, and whether the answers are right.

use crate::pdu::case::{Answer, At, CaseState, Echo, Fei, failure1_text, status_text, term_text};
use crate::pdu::target::{Env, KEYED_HOST, MANAGED_NQN, OTHER_HOST};
use format::nvme::admin::GetLogPage;
use format::nvme::auth::{MessageId, failure_code, transaction_of};
use format::nvme::fabrics::{CNTLID_DYNAMIC, Connect, ConnectData, DISCOVERY_NQN, PropertyAccess};
use format::nvme::io::BlockRange;
use format::nvme::log::{ErrorEntry, LID_ERROR};
use format::nvme::property::{CC, Config, VS};
use format::nvme::{Cqe, IoOpcode, NSID_ALL, Sgl, Sqe, StatusCode};
use format::nvme_tcp::{
    COMMON_BYTES, DIGEST_BYTES, DataPdu, Digests, HeaderRules, IcReq, IcResp, PduType, R2t, TERM_BYTES, check_header, digest,
};
use initiator::raw::{RawClient, RawPdu, Received};
use initiator::{Error, HostIdentity};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// Bound on an answer of our own target: it has to come, the machine may be slow.
const ANSWER_MAX: Duration = Duration::from_secs(20);
/// Bound on an answer of another target, which may have none.
const OBSERVE_MAX: Duration = Duration::from_millis(1500);
/// How long nothing is nothing.
const NOTHING: Duration = Duration::from_millis(250);
/// Bytes of a PDU that the log shows.
const SHOWN_MAX: usize = 160;
/// Entries of the queues that cases connect, unless they say otherwise.
pub const ENTRIES: u16 = 32;
/// Number of the first case's host; each has another, but where it says otherwise.
const FIRST_HOST: u64 = 1000;
/// Identifier of the command that shows that a queue serves on.
const PING_CID: u16 = 0xFFF0;

/// Why a case ends early.
#[derive(Debug)]
pub enum Stop {
    /// Another answer than the expected one: what came.
    Differs(String),
    /// It could not be tried.
    Failed(String),
}

impl From<Error> for Stop {
    fn from(e: Error) -> Self {
        Stop::Failed(e.to_string())
    }
}

type Log = Rc<RefCell<Vec<String>>>;

/// What came, as far as cases tell it apart.
enum Seen {
    Term { fes: u16, fei: u32, echo: Vec<u8> },
    Completion(Cqe),
    R2t(R2t),
    Data { cid: u16, bytes: Vec<u8> },
    IcResp(IcResp),
    Closed,
    Nothing,
}

impl Seen {
    fn text(&self) -> String {
        match self {
            Seen::Term { fes, fei, .. } => term_text(*fes, *fei, false),
            Seen::Completion(c) => status_text(c.status.code, c.status.dnr, c.result),
            Seen::R2t(r) => format!("R2T {}+{}", r.offset, r.bytes),
            Seen::Data { bytes, .. } if is_failure1(bytes) => failure1_text(failure_code(bytes).unwrap_or(0)),
            Seen::Data { bytes, .. } => format!("{} bytes", bytes.len()),
            Seen::IcResp(r) => format!("ICResp, DGST {}", r.digests.bits()),
            Seen::Closed => "closes".into(),
            Seen::Nothing => "nothing".into(),
        }
    }
}

fn is_failure1(bytes: &[u8]) -> bool {
    MessageId::of(bytes) == Some(MessageId::Failure1)
}

/// What is known of a queue that was connected.
#[derive(Clone, Copy)]
struct QueueState {
    entries: u16,
    head: u16,
    flow_control: bool,
}

/// A connection.
pub struct Conn {
    raw: RawClient,
    log: Log,
    name: &'static str,
    strict: bool,
    hpda: u8,
    queue: Option<QueueState>,
    /// The queue is an admin queue.
    admin: bool,
    /// It has to authenticate, and does not.
    locked: bool,
    /// Answer to ICReq.
    pub ic: Option<IcResp>,
    /// The PDU that a termination request has to show.
    culprit: Vec<u8>,
    /// The last completion that said that the Error Information log has more.
    logged: Option<Cqe>,
    /// Identifier of the last command.
    pub cid: u16,
    /// Data of the last [`Answer::Data`].
    pub data: Vec<u8>,
}

fn hex(bytes: &[u8]) -> String {
    let shown: Vec<String> = bytes.iter().take(SHOWN_MAX).map(|b| format!("{b:02x}")).collect();
    let more = if bytes.len() > SHOWN_MAX { format!(" … {} bytes", bytes.len()) } else { String::new() };
    shown.chunks(8).map(|c| c.join("")).collect::<Vec<_>>().join(" ") + &more
}

/// The fields of the common header, for people.
fn decoded(b: &[u8]) -> String {
    if b.len() < COMMON_BYTES {
        return format!("{} bytes", b.len());
    }
    let plen = u32::from_le_bytes([b[4], b[5], b[6], b[7]]);
    let kind = PduType::parse(b[0]).map_or(format!("type {:#x}", b[0]), |k| format!("{k:?}"));
    format!("{kind} flags {:#x} hlen {} pdo {} plen {plen}", b[1], b[2], b[3])
}

impl Conn {
    /// A TCP connection.
    pub fn open(env: &Env, log: &Log, name: &'static str) -> Result<Self, Stop> {
        Self::open_at(env, env.addr, log, name)
    }
    fn open_at(env: &Env, addr: std::net::SocketAddr, log: &Log, name: &'static str) -> Result<Self, Stop> {
        Ok(Self {
            raw: RawClient::connect(addr)?,
            log: log.clone(),
            name,
            strict: env.strict,
            hpda: 0,
            queue: None,
            admin: false,
            locked: false,
            ic: None,
            culprit: Vec::new(),
            logged: None,
            cid: 0,
            data: Vec::new(),
        })
    }
    fn note(&self, text: String) {
        self.log.borrow_mut().push(format!("{:>6} {text}", self.name));
    }
    /// Sends bytes. A termination request that they cause has to show them.
    pub fn send(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        self.note(format!("─► {}\n         {}", decoded(bytes), hex(bytes)));
        self.culprit = bytes.to_vec();
        Ok(self.raw.send(bytes)?)
    }
    /// Sends bytes in pieces of `n`.
    pub fn send_in_pieces(&mut self, bytes: &[u8], n: usize) -> Result<(), Stop> {
        self.note(format!("─► in pieces of {n}: {}\n         {}", decoded(bytes), hex(bytes)));
        self.culprit = bytes.to_vec();
        Ok(self.raw.send_in_pieces(bytes, n)?)
    }
    /// Sends several PDUs at once; the one that is at fault is `culprit`.
    pub fn send_together(&mut self, pdus: &[Vec<u8>], culprit: usize) -> Result<(), Stop> {
        self.send(&pdus.concat())?;
        self.culprit = pdus.get(culprit).cloned().unwrap_or_default();
        Ok(())
    }
    /// Says that no more bytes come.
    pub fn half_close(&mut self) -> Result<(), Stop> {
        self.note("─► end of the stream".into());
        Ok(self.raw.half_close()?)
    }

    /// Reads one PDU and checks what every PDU of a controller must be.
    fn read(&mut self, patience: Duration) -> Result<Received, Stop> {
        let got = self.raw.read_pdu(patience).map_err(|e| Stop::Differs(format!("malformed: {e}")))?;
        match &got {
            Received::Pdu(RawPdu(b)) => {
                self.note(format!("◄─ {}\n         {}", decoded(b), hex(b)));
                if let Err(why) = self.check(b)
                    && self.strict
                {
                    return Err(Stop::Differs(format!("malformed {}: {why}", decoded(b))));
                }
            }
            Received::Closed => self.note("◄─ closed".into()),
            Received::Nothing => self.note(format!("◄─ nothing in {patience:?}")),
        }
        Ok(got)
    }
    fn check(&self, b: &[u8]) -> Result<(), String> {
        let rules = HeaderRules { from_host: false, digests: self.raw.digests, pda: self.hpda, capsule_data_max: 0, data_max: 16 << 20 };
        let head: [u8; COMMON_BYTES] = b[..COMMON_BYTES].try_into().expect("a PDU has a common header");
        let common = check_header(&head, &rules).map_err(|f| f.to_string())?;
        let hlen = usize::from(common.hlen);
        if common.header_digest() && digest(&b[..hlen])[..] != b[hlen..hlen + DIGEST_BYTES] {
            return Err("wrong header digest".into());
        }
        let (from, bytes) = (common.lead_bytes(), common.data_bytes() as usize);
        if common.data_digest_bytes() > 0 && digest(&b[from..from + bytes])[..] != b[from + bytes..] {
            return Err("wrong data digest".into());
        }
        let reserved = match common.kind {
            PduType::IcResp => &b[16..128],
            PduType::C2hTermReq => &b[14..24],
            PduType::C2hData | PduType::R2t => &b[20..24],
            _ => &[],
        };
        if reserved.iter().any(|b| *b != 0) { Err("reserved bytes are not zero".into()) } else { Ok(()) }
    }

    /// The next thing that comes.
    fn next(&mut self, patience: Duration) -> Result<Seen, Stop> {
        let pdu = match self.read(patience)? {
            Received::Closed => return Ok(Seen::Closed),
            Received::Nothing => return Ok(Seen::Nothing),
            Received::Pdu(pdu) => pdu,
        };
        if pdu.kind().is_none_or(|k| pdu.0.len() < k.header_bytes()) {
            return Err(Stop::Differs(format!("malformed {}", decoded(&pdu.0))));
        }
        Ok(match pdu.kind() {
            Some(PduType::C2hTermReq) => {
                let term = pdu.termination().expect("its length was checked");
                Seen::Term { fes: term.fes, fei: term.fei, echo: pdu.0[TERM_BYTES..].to_vec() }
            }
            Some(PduType::CapsuleResp) => Seen::Completion(self.completion(&pdu)?),
            Some(PduType::R2t) => Seen::R2t(R2t::parse(&pdu.0[..24].try_into().expect("checked"))),
            Some(PduType::C2hData) => self.all_data(pdu, patience)?,
            Some(PduType::IcResp) => {
                let resp = IcResp::parse(&pdu.0[..128].try_into().expect("checked"));
                let resp = resp.map_err(|f| Stop::Differs(format!("malformed ICResp: {f}")))?;
                self.raw.digests = resp.digests;
                self.ic = Some(resp);
                Seen::IcResp(resp)
            }
            _ => return Err(Stop::Differs(format!("unexpected {}", decoded(&pdu.0)))),
        })
    }
    /// Takes a completion: its reserved fields, and the head of the queue, which moves by one each time.
    fn completion(&mut self, pdu: &RawPdu) -> Result<Cqe, Stop> {
        let cqe = pdu.cqe().expect("its length was checked");
        let wrong = |what: &str| Stop::Differs(format!("a completion with a wrong {what}: {cqe:?}"));
        if let Some(q) = &mut self.queue {
            q.head = (q.head + 1) % q.entries;
            let expected = if q.flow_control { q.head } else { 0xFFFF };
            if self.strict && cqe.sqhd != expected {
                return Err(wrong("SQHD"));
            }
        }
        if self.strict && cqe.sqid != 0 {
            return Err(wrong("SQID"));
        }
        if self.strict && (cqe.status.crd != 0 || cqe.status.more && cqe.status.is_success()) {
            return Err(wrong("status"));
        }
        if cqe.status.more {
            self.logged = Some(cqe);
        }
        Ok(cqe)
    }
    /// Reads the rest of the data of a command and its completion.
    fn all_data(&mut self, first: RawPdu, patience: Duration) -> Result<Seen, Stop> {
        let (mut pdu, mut bytes, mut cid) = (first, Vec::new(), None);
        loop {
            let rules =
                HeaderRules { from_host: false, digests: self.raw.digests, pda: self.hpda, capsule_data_max: 0, data_max: 16 << 20 };
            let common = check_header(&pdu.0[..8].try_into().expect("8 bytes"), &rules);
            let common = common.map_err(|f| Stop::Differs(format!("malformed {}: {f}", decoded(&pdu.0))))?;
            let data = DataPdu::parse(&common, &pdu.0[..24].try_into().expect("checked"));
            let in_order = data.offset as usize == bytes.len() && data.bytes == common.data_bytes() && data.ttag == 0;
            if !in_order || cid.is_some_and(|c| c != data.cccid) {
                return Err(Stop::Differs(format!("data out of order: {data:?} after {} bytes", bytes.len())));
            }
            cid = Some(data.cccid);
            let from = common.lead_bytes();
            bytes.extend_from_slice(&pdu.0[from..from + data.bytes as usize]);
            if data.success {
                return Ok(Seen::Data { cid: data.cccid, bytes });
            }
            match self.read(patience)? {
                Received::Pdu(next) if next.kind() == Some(PduType::C2hData) && !data.last => pdu = next,
                Received::Pdu(next) if next.kind() == Some(PduType::CapsuleResp) && data.last => {
                    let cqe = self.completion(&next)?;
                    if !cqe.status.is_success() || cqe.cid != data.cccid || cqe.result != 0 {
                        return Err(Stop::Differs(format!("data, then {cqe:?}")));
                    }
                    return Ok(Seen::Data { cid: data.cccid, bytes });
                }
                other => return Err(Stop::Differs(format!("data, then {other:?}"))),
            }
        }
    }

    /// Takes the next answer; it has to be this one.
    pub fn expect(&mut self, answer: &Answer) -> Result<(), Stop> {
        let patience = match (answer, self.strict) {
            (Answer::Nothing, _) => NOTHING,
            (_, true) => ANSWER_MAX * 3,
            (Answer::Closes, false) => OBSERVE_MAX * 2,
            (_, false) => OBSERVE_MAX,
        };
        let seen = self.next(patience)?;
        let id = self.cid;
        let same = match (answer, &seen) {
            (Answer::Ends(fes, fei, echo), Seen::Term { fes: f, fei: i, echo: e }) => {
                let (hlen, digest) = self.culprit_header();
                let fei = match fei {
                    Fei::Is(fei) => *fei,
                    Fei::Digest => digest,
                };
                let shown = if *echo == Echo::Common { COMMON_BYTES } else { hlen };
                if self.strict && *e != self.culprit[..shown.min(self.culprit.len())] {
                    return Err(Stop::Differs(format!("{}, but it shows {}", seen.text(), hex(e))));
                }
                *fes as u16 == *f && fei == *i
            }
            (Answer::Closes, Seen::Closed) | (Answer::Nothing, Seen::Nothing) => true,
            (Answer::Status { cid, code, dnr, result }, Seen::Completion(c)) => {
                c.cid == cid.unwrap_or(id) && c.status.code == *code && c.status.dnr == *dnr && result.is_none_or(|r| r == c.result)
            }
            (Answer::R2t { offset, bytes }, Seen::R2t(r)) => r.cccid == id && r.offset == *offset && r.bytes == *bytes,
            (Answer::Data(n), Seen::Data { cid, bytes }) => *cid == id && bytes.len() == *n as usize,
            (Answer::Failure1 { reason, t_id }, Seen::Data { cid, bytes }) => {
                *cid == id && is_failure1(bytes) && failure_code(bytes) == Some(*reason as u8) && transaction_of(bytes) == *t_id
            }
            (Answer::IcResp(d), Seen::IcResp(r)) => *d == r.digests,
            _ => false,
        };
        if let Seen::Data { bytes, .. } = &seen {
            self.data.clone_from(bytes);
        }
        if same { Ok(()) } else { Err(Stop::Differs(seen.text())) }
    }
    /// Bytes of the culprit's header by its type, and the digest behind it.
    fn culprit_header(&self) -> (usize, u32) {
        let hlen = self.culprit.first().and_then(|b| PduType::parse(*b)).map_or(COMMON_BYTES, PduType::header_bytes);
        let digest = self.culprit.get(hlen..hlen + DIGEST_BYTES).map_or(0, |d| u32::from_le_bytes(d.try_into().expect("4 bytes")));
        (hlen, digest)
    }

    /// The next R2T, which has to be for the last command.
    pub fn r2t(&mut self) -> Result<R2t, Stop> {
        match self.next(if self.strict { ANSWER_MAX } else { OBSERVE_MAX })? {
            Seen::R2t(r) if r.cccid == self.cid => Ok(r),
            other => Err(Stop::Differs(other.text())),
        }
    }
    /// A command as bytes, with an identifier of its own.
    pub fn capsule(&mut self, sqe: Sqe, data: &[u8]) -> Vec<u8> {
        self.cid += 1;
        self.raw.capsule(&Sqe { cid: self.cid, ..sqe }, data)
    }
    /// A command as bytes with the identifier that is in it.
    pub fn capsule_as_is(&mut self, sqe: Sqe, data: &[u8]) -> Vec<u8> {
        self.cid = sqe.cid;
        self.raw.capsule(&sqe, data)
    }
    /// Sends a command.
    pub fn command(&mut self, sqe: Sqe, data: &[u8]) -> Result<(), Stop> {
        let bytes = self.capsule(sqe, data);
        self.send(&bytes)
    }
    /// Sends a command that has to succeed; its result.
    pub fn must(&mut self, sqe: Sqe, data: &[u8]) -> Result<u64, Stop> {
        self.command(sqe, data)?;
        match self.next(ANSWER_MAX)? {
            Seen::Completion(c) if c.cid == self.cid && c.status.is_success() => Ok(c.result),
            other => Err(Stop::Differs(format!("before: {}", other.text()))),
        }
    }
    /// ICReq and ICResp.
    pub fn greet(&mut self, req: IcReq) -> Result<IcResp, Stop> {
        self.hpda = req.hpda;
        self.send(&req.to_bytes())?;
        match self.next(ANSWER_MAX)? {
            Seen::IcResp(resp) => Ok(resp),
            other if req.hpda > 0 => Err(Stop::Differs(other.text())),
            other => Err(Stop::Failed(format!("no ICResp: {}", other.text()))),
        }
    }
    /// Connect of a queue, which has to succeed; the controller's ID.
    pub fn join(&mut self, connect: Connect, data: &ConnectData) -> Result<u16, Stop> {
        self.admin = connect.qid == 0;
        let id = self.must(connect.sqe(0), &data.to_bytes())?;
        let flow_control = connect.cattr & Connect::CATTR_NO_FLOW_CONTROL == 0;
        self.queue = Some(QueueState { entries: connect.sqsize + 1, head: 1, flow_control });
        Ok(id as u16)
    }
    /// CC.EN 1, as every host sets it.
    pub fn enable(&mut self) -> Result<(), Stop> {
        self.must(PropertyAccess::set_sqe(0, CC, false, enabled().bits().into()), &[])?;
        for _ in 0..100 {
            if self.must(PropertyAccess::get_sqe(0, format::nvme::property::CSTS, false), &[])? & 1 != 0 {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Err(Stop::Failed("the controller does not become ready".into()))
    }
    /// Bytes of an H2CData.
    pub fn h2c(&self, r2t: &R2t, offset: u32, data: &[u8], last: bool) -> Vec<u8> {
        let pdu = DataPdu { cccid: r2t.cccid, ttag: r2t.ttag, offset, bytes: data.len() as u32, last, success: false };
        self.h2c_pdu(pdu, data)
    }
    /// The same with every field by hand.
    pub fn h2c_pdu(&self, pdu: DataPdu, data: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        pdu.append(PduType::H2cData, data, self.raw.digests, 0, &mut bytes);
        bytes
    }
    /// Whether the connection still does what it is for.
    fn ping(&mut self, run: (&Env, &HostIdentity)) -> Result<(), Stop> {
        let (env, host) = run;
        let Some(_) = self.ic else {
            self.send(&IcReq { hpda: 0, digests: Digests::default(), maxr2t: 0 }.to_bytes())?;
            return self.expect(&Answer::IcResp(Digests::default()));
        };
        let sqe = match (self.queue.is_some(), self.admin) {
            (false, _) => {
                let connect = Connect { recfmt: 0, qid: 0, sqsize: ENTRIES - 1, cattr: 0, kato_ms: 0 };
                let data = ConnectData::new(host.id, CNTLID_DYNAMIC, &env.nqn, &host.nqn).to_bytes();
                let bytes = self.capsule_as_is(Sqe { cid: PING_CID, ..connect.sqe(0) }, &data);
                self.send(&bytes)?;
                return self.expect(&crate::pdu::case::good_any());
            }
            (true, true) => PropertyAccess::get_sqe(PING_CID, VS, false),
            (true, false) => format::nvme::io::flush_sqe(PING_CID, env.nsid),
        };
        let bytes = self.capsule_as_is(sqe, &[]);
        self.send(&bytes)?;
        self.expect(&if self.locked { crate::pdu::case::fails(StatusCode::AUTHENTICATION_REQUIRED) } else { crate::pdu::case::good_any() })
    }
}

/// CC as every host sets it.
pub fn enabled() -> Config {
    Config { en: true, iosqes: 6, iocqes: 4, ..Config::default() }
}

/// See the module.
pub struct Run<'a> {
    /// The target.
    pub env: &'a Env,
    /// The connection that the case is about.
    pub conn: Conn,
    /// The admin queue, when the case is about an I/O queue.
    pub admin: Option<Conn>,
    /// Who we are; another in each case.
    pub host: HostIdentity,
    /// Our controller.
    pub cntlid: u16,
    /// First block of an area that no other case writes to.
    pub area: u64,
    log: Log,
}

impl<'a> Run<'a> {
    /// Reaches the state.
    pub fn begin(env: &'a Env, state: CaseState, log: &Log) -> Result<Self, Stop> {
        let number = env.next_number();
        let host = if state.at == At::Keyed { KEYED_HOST } else { FIRST_HOST + number };
        let host = HostIdentity::numbered(host);
        let addr = if state.at == At::Discovery { env.discovery } else { env.addr };
        let conn = Conn::open_at(env, addr, log, "conn")?;
        let area = number * env.area_blocks() % (env.blocks / 2);
        let mut run = Self { env, conn, admin: None, host, cntlid: 0, area, log: log.clone() };
        let ic = IcReq { hpda: 0, digests: state.digests, maxr2t: 0 };
        if state.at == At::Connected {
            return Ok(run);
        }
        if state.at == At::Io {
            let mut admin = Conn::open(env, log, "admin")?;
            admin.greet(ic)?;
            run.cntlid = admin.join(connect(0, ENTRIES), &run.connect_data(CNTLID_DYNAMIC))?;
            admin.enable()?;
            run.admin = Some(admin);
            run.conn.greet(ic)?;
            run.conn.join(connect(1, ENTRIES), &run.connect_data(run.cntlid))?;
            return Ok(run);
        }
        run.conn.greet(ic)?;
        match state.at {
            At::Disabled | At::Admin | At::Keyed => {
                run.cntlid = run.conn.join(connect(0, ENTRIES), &run.connect_data(CNTLID_DYNAMIC))?;
                run.conn.locked = state.at == At::Keyed;
                if state.at == At::Admin {
                    run.conn.enable()?;
                }
            }
            At::Discovery | At::Managed => {
                let nqn = if state.at == At::Discovery { DISCOVERY_NQN } else { MANAGED_NQN };
                let data = ConnectData::new(run.host.id, CNTLID_DYNAMIC, nqn, &run.host.nqn);
                run.cntlid = run.conn.join(connect(0, ENTRIES), &data)?;
                run.conn.enable()?;
            }
            _ => {}
        }
        Ok(run)
    }
    /// After the last answer: the connection serves on, or closes after a termination request.
    pub fn finish(&mut self, last: Option<&Answer>) -> Result<(), Stop> {
        match last {
            Some(Answer::Ends(..)) if self.env.strict => self.conn.expect(&Answer::Closes),
            Some(answer) if answer.is_end() => Ok(()),
            Some(Answer::Nothing) => Ok(()),
            _ => {
                let (env, host) = (self.env, self.host.clone());
                self.conn.ping((env, &host)).map_err(|stop| match stop {
                    Stop::Differs(what) => Stop::Differs(format!("as expected, but then it serves no more: {what}")),
                    other => other,
                })?;
                self.check_log()
            }
        }
    }
    /// Where a completion said "more", the newest entry of the Error Information log is its own (base 3.3.3.2.1, 5.16.1.2).
    fn check_log(&mut self) -> Result<(), Stop> {
        let Some(cqe) = self.conn.logged.take().filter(|_| self.env.strict) else { return Ok(()) };
        let qid = u16::from(!self.conn.admin);
        let Some(admin) = (if self.conn.admin { Some(&mut self.conn) } else { self.admin.as_mut() }) else { return Ok(()) };
        let log = GetLogPage { lid: LID_ERROR, lsp: 0, rae: false, lsi: 0, numd: 15, offset: 0, index: false, csi: 0, nsid: NSID_ALL };
        admin.command(Sqe { sgl: Sgl::transport(64), ..log.sqe(0) }, &[])?;
        admin.expect(&Answer::Data(64))?;
        let entry = ErrorEntry::parse(&admin.data).expect("64 bytes");
        let same = entry.cid == cqe.cid && entry.sqid == qid && entry.status >> 1 == cqe.status.bits() >> 1 && entry.error_count > 0;
        if same { Ok(()) } else { Err(Stop::Differs(format!("as expected, but the error log says {entry:?} of {cqe:?}"))) }
    }

    /// Data of a Connect of ours.
    pub fn connect_data(&self, cntlid: u16) -> ConnectData {
        ConnectData::new(self.host.id, cntlid, &self.env.nqn, &self.host.nqn)
    }
    /// Another connection.
    pub fn another(&self, name: &'static str) -> Result<Conn, Stop> {
        Conn::open(self.env, &self.log, name)
    }
    /// Another connection to the discovery controllers.
    pub fn at_discovery(&self, name: &'static str) -> Result<Conn, Stop> {
        Conn::open_at(self.env, self.env.discovery, &self.log, name)
    }
    /// Another connection that has exchanged ICReq and ICResp.
    pub fn greeted(&self, name: &'static str) -> Result<Conn, Stop> {
        let mut conn = self.another(name)?;
        conn.greet(IcReq { hpda: 0, digests: Digests::default(), maxr2t: 0 })?;
        Ok(conn)
    }
    /// Another controller, ready.
    pub fn ready(&self, name: &'static str) -> Result<(Conn, u16), Stop> {
        let mut conn = self.greeted(name)?;
        let id = conn.join(connect(0, ENTRIES), &self.connect_data(CNTLID_DYNAMIC))?;
        conn.enable()?;
        Ok((conn, id))
    }
    /// Does something on an I/O queue of the other host, which is the same in all cases.
    pub fn as_another_host(&mut self, act: impl FnOnce(&mut Self) -> Result<(), Stop>) -> Result<(), Stop> {
        let host = std::mem::replace(&mut self.host, HostIdentity::numbered(OTHER_HOST));
        let (_admin, id) = self.ready("other")?;
        let mut conn = self.greeted("other")?;
        conn.join(connect(1, ENTRIES), &self.connect_data(id))?;
        std::mem::swap(&mut self.conn, &mut conn);
        let done = act(self);
        std::mem::swap(&mut self.conn, &mut conn);
        self.host = host;
        done
    }
    /// The admin queue beside the I/O queue.
    pub fn admin(&mut self) -> &mut Conn {
        self.admin.as_mut().expect("the case is about an I/O queue")
    }
    /// The admin queue is from now on what the case is about.
    pub fn swap(&mut self) {
        let admin = self.admin.as_mut().expect("the case is about an I/O queue");
        std::mem::swap(admin, &mut self.conn);
    }
    /// Bytes of so many blocks.
    pub fn bytes(&self, blocks: u32) -> u32 {
        blocks << self.env.shift
    }
    /// A command on blocks of our area, its data moved by data PDUs.
    pub fn io(&self, op: IoOpcode, blocks: u32) -> Sqe {
        let sqe = BlockRange::new(self.area, (blocks - 1) as u16).sqe(op, 0, self.env.nsid);
        Sqe { sgl: Sgl::transport(self.bytes(blocks)), ..sqe }
    }
    /// Blocks of our area have to read as `fill`.
    pub fn reads(&mut self, blocks: u32, fill: u8) -> Result<(), Stop> {
        self.reads_at(self.area, blocks, fill)
    }
    /// Blocks have to read as `fill`.
    pub fn reads_at(&mut self, block: u64, blocks: u32, fill: u8) -> Result<(), Stop> {
        let n = self.bytes(blocks);
        let sqe = BlockRange::new(block, (blocks - 1) as u16).sqe(IoOpcode::Read, 0, self.env.nsid);
        self.conn.command(Sqe { sgl: Sgl::transport(n), ..sqe }, &[])?;
        self.conn.expect(&Answer::Data(n))?;
        if self.conn.data.iter().all(|b| *b == fill) { Ok(()) } else { Err(Stop::Differs("other data".into())) }
    }
    /// Sends a write of so many blocks by R2T; the R2T.
    pub fn asked(&mut self, blocks: u32) -> Result<R2t, Stop> {
        let sqe = self.io(IoOpcode::Write, blocks);
        self.conn.command(sqe, &[])?;
        self.conn.r2t()
    }
}

/// A Connect of queue `qid`.
pub fn connect(qid: u16, entries: u16) -> Connect {
    Connect { recfmt: 0, qid, sqsize: entries - 1, cattr: 0, kato_ms: 0 }
}
