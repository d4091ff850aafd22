//! A small NVMe/TCP target in this process, with faults to order: what the client's tests run against.
//!
//! Never: a model of how a target should be built; it is one thread a connection over one lock.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, dead_code, unused_imports)]

mod disk;

pub use disk::{Disk, Fault};

use format::nvme::admin::{GetLogPage, Identify};
use format::nvme::fabrics::{CONNECT_DATA_BYTES, Connect, ConnectData, DISCOVERY_NQN, PropertyAccess, connect_result};
use format::nvme::identify::*;
use format::nvme::log::*;
use format::nvme::property::*;
use format::nvme::text::{nqn_field, padded};
use format::nvme::{AdminOpcode, Cqe, FabricsType, SglKind, Sqe, Status, StatusCode};
use format::nvme_tcp::*;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;

pub const NQN: &str = "nqn.2026-01.io.example:fake";

/// What the target is like.
#[derive(Clone, Copy)]
pub struct Nature {
    pub in_capsule: u32,
    pub maxh2cdata: u32,
    pub r2t_bytes: usize,
    pub cpda: u8,
    /// Reads end with SUCCESS in the last data PDU.
    pub c2h_success: bool,
    pub c2h_bytes: usize,
    /// Records of the discovery log; the first is its own.
    pub records: u64,
}

impl Default for Nature {
    fn default() -> Self {
        Self { in_capsule: 8192, maxh2cdata: 16384, r2t_bytes: 65536, cpda: 0, c2h_success: true, c2h_bytes: 40_000, records: 1 }
    }
}

pub struct Fake {
    pub addr: SocketAddr,
    pub disk: Arc<Mutex<Disk>>,
    inner: Arc<Inner>,
}

struct Inner {
    nature: Nature,
    disk: Arc<Mutex<Disk>>,
    streams: Mutex<Vec<TcpStream>>,
    down: AtomicBool,
    stop: AtomicBool,
    next_cntlid: AtomicU64,
    keep_alives: AtomicU64,
    /// Ends the next completion's data digest wrongly.
    bad_data_digest: AtomicBool,
    events: Mutex<Vec<u32>>,
    addr: SocketAddr,
}

impl Fake {
    pub fn start(lba_bytes: u32, blocks: u64, nature: Nature) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let disk = Arc::new(Mutex::new(Disk::new(lba_bytes, blocks)));
        let inner = Arc::new(Inner {
            nature,
            disk: disk.clone(),
            streams: Mutex::default(),
            down: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            next_cntlid: AtomicU64::new(1),
            keep_alives: AtomicU64::new(0),
            bad_data_digest: AtomicBool::new(false),
            events: Mutex::default(),
            addr,
        });
        let accepting = inner.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                if accepting.stop.load(SeqCst) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                if accepting.down.load(SeqCst) {
                    continue;
                }
                accepting.streams.lock().unwrap().push(stream.try_clone().unwrap());
                let inner = accepting.clone();
                thread::spawn(move || {
                    Session { inner, stream, digests: Digests::default(), qid: 0, enabled: false, discovery: false, aers: Vec::new() }
                        .serve()
                });
            }
        });
        Self { addr, disk, inner }
    }
    /// Cuts every connection at once and takes no new ones: what is not applied by now never is.
    pub fn kill(&self) {
        self.inner.down.store(true, SeqCst);
        let mut disk = self.disk.lock().unwrap();
        disk.alive = false;
        for stream in self.inner.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
    pub fn revive(&self) {
        // The threads of the dead connections must be past the disk first: they see `life` has moved on.
        let mut disk = self.disk.lock().unwrap();
        disk.life += 1;
        disk.alive = true;
        self.inner.down.store(false, SeqCst);
    }
    pub fn keep_alives(&self) -> u64 {
        self.inner.keep_alives.load(SeqCst)
    }
    pub fn spoil_next_data_digest(&self) {
        self.inner.bad_data_digest.store(true, SeqCst);
    }
    /// The next admin command also completes an event request with this dword.
    pub fn raise(&self, event: AsyncEvent) {
        self.inner.events.lock().unwrap().push(event.bits());
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.inner.stop.store(true, SeqCst);
        self.kill();
        let _ = TcpStream::connect(self.addr);
    }
}

struct Session {
    inner: Arc<Inner>,
    stream: TcpStream,
    digests: Digests,
    qid: u16,
    enabled: bool,
    discovery: bool,
    aers: Vec<u16>,
}

type Io<T> = std::io::Result<T>;

impl Session {
    fn serve(mut self) {
        let _ = self.stream.set_nodelay(true);
        if self.greet().is_ok() {
            while self.one().is_ok() {}
        }
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    fn greet(&mut self) -> Io<()> {
        let mut b = [0; IC_BYTES];
        self.stream.read_exact(&mut b)?;
        let req = IcReq::parse(&b).expect("the client greets well");
        let resp = IcResp { cpda: self.inner.nature.cpda, digests: req.digests, maxh2cdata: self.inner.nature.maxh2cdata };
        self.stream.write_all(&resp.to_bytes())?;
        self.digests = req.digests;
        Ok(())
    }

    /// A PDU: its checked header, all header bytes, its data.
    fn pdu(&mut self) -> Io<(CommonHeader, Vec<u8>, Vec<u8>)> {
        let mut head = vec![0; 8];
        self.stream.read_exact(&mut head)?;
        let n = &self.inner.nature;
        let rules = HeaderRules {
            from_host: true,
            digests: self.digests,
            pda: n.cpda,
            capsule_data_max: n.in_capsule.max(8192),
            data_max: n.maxh2cdata,
        };
        let common = check_header(head[..8].try_into().unwrap(), &rules).expect("the client's headers are sound");
        head.resize(common.lead_bytes(), 0);
        self.stream.read_exact(&mut head[8..])?;
        let hlen = usize::from(common.hlen);
        if common.header_digest() {
            assert_eq!(digest(&head[..hlen]), head[hlen..hlen + 4], "header digest");
        }
        let mut data = vec![0; common.data_bytes() as usize];
        self.stream.read_exact(&mut data)?;
        if common.data_digest_bytes() > 0 {
            let mut sum = [0; 4];
            self.stream.read_exact(&mut sum)?;
            assert_eq!(digest(&data), sum, "data digest");
        }
        Ok((common, head, data))
    }

    fn one(&mut self) -> Io<()> {
        let (common, head, data) = self.pdu()?;
        assert_eq!(common.kind, PduType::CapsuleCmd, "commands only come between transfers");
        let sqe = CapsuleCmd::sqe_of(head[..72].try_into().unwrap());
        let life = self.inner.disk.lock().unwrap().life;
        let data = match sqe.sgl.kind() {
            SglKind::Transport { len } if self.takes_data(&sqe) => self.transfer(sqe.cid, len as usize)?,
            _ => data,
        };
        if self.qid != 0 { self.io(&sqe, data, life) } else { self.admin(&sqe, &data) }
    }

    fn takes_data(&self, sqe: &Sqe) -> bool {
        self.qid != 0 && matches!(sqe.opcode, 1 | 5 | 9)
    }

    /// R2Ts one after the other; the client's other commands wait in the socket, so take only data PDUs here.
    fn transfer(&mut self, cid: u16, len: usize) -> Io<Vec<u8>> {
        let mut all = Vec::with_capacity(len);
        let mut waiting = Vec::new();
        while all.len() < len {
            let bytes = (len - all.len()).min(self.inner.nature.r2t_bytes);
            let mut out = [0; R2t::BYTES_MAX];
            let n = R2t { cccid: cid, ttag: cid ^ 0x55, offset: all.len() as u32, bytes: bytes as u32 }.write(self.digests, &mut out);
            self.stream.write_all(&out[..n])?;
            let end = all.len() + bytes;
            while all.len() < end {
                let (common, head, data) = self.pdu()?;
                if common.kind == PduType::CapsuleCmd {
                    waiting.push((CapsuleCmd::sqe_of(head[..72].try_into().unwrap()), data));
                    continue;
                }
                let pdu = DataPdu::parse(&common, head[..24].try_into().unwrap());
                assert_eq!((pdu.cccid, pdu.ttag, pdu.offset as usize, pdu.bytes as usize), (cid, cid ^ 0x55, all.len(), data.len()));
                all.extend(data);
                assert_eq!(pdu.last, all.len() == end, "LAST marks the end of each transfer");
            }
        }
        for (sqe, data) in waiting {
            let life = self.inner.disk.lock().unwrap().life;
            let data = match sqe.sgl.kind() {
                SglKind::Transport { len } if self.takes_data(&sqe) => self.transfer(sqe.cid, len as usize)?,
                _ => data,
            };
            self.io(&sqe, data, life)?;
        }
        Ok(all)
    }

    fn respond(&mut self, cid: u16, result: u64, status: Status) -> Io<()> {
        let mut out = [0; CapsuleResp::BYTES_MAX];
        let n = CapsuleResp { cqe: Cqe { result, sqhd: 0, sqid: 0, cid, status } }.write(self.digests, &mut out);
        self.stream.write_all(&out[..n])
    }

    fn send_data(&mut self, cid: u16, data: &[u8]) -> Io<()> {
        let success = self.inner.nature.c2h_success;
        let mut at = 0;
        while at < data.len() {
            let part = &data[at..(at + self.inner.nature.c2h_bytes).min(data.len())];
            let last = at + part.len() == data.len();
            let mut out = [0; HEADER_BYTES_MAX];
            let pdu = DataPdu { cccid: cid, ttag: 0, offset: at as u32, bytes: part.len() as u32, last, success: last && success };
            let n = pdu.write(PduType::C2hData, self.digests, 0, &mut out);
            let mut bytes = out[..n].to_vec();
            bytes.extend_from_slice(part);
            if self.digests.data {
                let mut sum = digest(part);
                sum[0] ^= u8::from(self.inner.bad_data_digest.swap(false, SeqCst));
                bytes.extend_from_slice(&sum);
            }
            self.stream.write_all(&bytes)?;
            at += part.len();
        }
        if success { Ok(()) } else { self.respond(cid, 0, Status::SUCCESS) }
    }

    fn io(&mut self, sqe: &Sqe, data: Vec<u8>, life: u64) -> Io<()> {
        if sqe.opcode == AdminOpcode::Fabrics.byte() {
            return self.admin(sqe, &data);
        }
        let done = {
            let mut disk = self.inner.disk.lock().unwrap();
            if !disk.alive || disk.life != life {
                return Err(std::io::ErrorKind::ConnectionAborted.into());
            }
            disk.execute(sqe, &data)
        };
        match done {
            Ok(out) if out.is_empty() => self.respond(sqe.cid, 0, Status::SUCCESS),
            Ok(out) => self.send_data(sqe.cid, &out),
            Err(code) => self.respond(sqe.cid, 0, Status::dnr(code)),
        }
    }

    fn admin(&mut self, sqe: &Sqe, data: &[u8]) -> Io<()> {
        let raised = if self.aers.is_empty() { None } else { self.inner.events.lock().unwrap().pop() };
        if let Some(event) = raised {
            let cid = self.aers.remove(0);
            self.respond(cid, event.into(), Status::SUCCESS)?;
        }
        match AdminOpcode::parse(sqe.opcode) {
            Some(AdminOpcode::Fabrics) => self.fabrics(sqe, data),
            Some(AdminOpcode::Identify) => {
                let out = self.identify(&Identify::of(sqe));
                self.send_data(sqe.cid, &out)
            }
            Some(AdminOpcode::GetLogPage) => {
                let out = self.log(&GetLogPage::of(sqe));
                self.send_data(sqe.cid, &out)
            }
            Some(AdminOpcode::SetFeatures) => self.respond(sqe.cid, sqe.cdw11.into(), Status::SUCCESS),
            Some(AdminOpcode::KeepAlive) => {
                self.inner.keep_alives.fetch_add(1, SeqCst);
                self.respond(sqe.cid, 0, Status::SUCCESS)
            }
            Some(AdminOpcode::AsyncEventRequest) => {
                self.aers.push(sqe.cid);
                Ok(())
            }
            _ => self.respond(sqe.cid, 0, Status::dnr(StatusCode::INVALID_OPCODE)),
        }
    }

    fn fabrics(&mut self, sqe: &Sqe, data: &[u8]) -> Io<()> {
        match FabricsType::parse(sqe.fctype()) {
            Some(FabricsType::Connect) => {
                assert_eq!(data.len(), CONNECT_DATA_BYTES);
                let connect = ConnectData::parse(data).unwrap();
                self.qid = Connect::of(sqe).qid;
                self.discovery = connect.subsystem() == Some(DISCOVERY_NQN);
                if !self.discovery && connect.subsystem() != Some(NQN) {
                    return self.respond(sqe.cid, 0, Status::dnr(StatusCode::CONNECT_INVALID_PARAMETERS));
                }
                let cntlid = if self.qid == 0 { self.inner.next_cntlid.fetch_add(1, SeqCst) as u16 } else { connect.cntlid };
                self.respond(sqe.cid, connect_result(cntlid, 0), Status::SUCCESS)
            }
            Some(FabricsType::PropertyGet) => {
                let value = match PropertyAccess::of(sqe).offset {
                    CAP => Capabilities { mqes: 127, to: 10, css: 1, ..Default::default() }.bits(),
                    CSTS => ControllerStatus { rdy: self.enabled, shst: if self.enabled { 0 } else { 2 }, cfs: false }.bits().into(),
                    _ => VERSION_1_4.into(),
                };
                self.respond(sqe.cid, value, Status::SUCCESS)
            }
            Some(FabricsType::PropertySet) => {
                let config = Config::parse(PropertyAccess::of(sqe).value as u32);
                self.enabled = config.en && config.shn == 0;
                self.respond(sqe.cid, 0, Status::SUCCESS)
            }
            Some(FabricsType::Disconnect) => self.respond(sqe.cid, 0, Status::SUCCESS),
            _ => self.respond(sqe.cid, 0, Status::dnr(StatusCode::INVALID_FIELD)),
        }
    }

    fn identify(&self, id: &Identify) -> Vec<u8> {
        let mut out = vec![0; 4096];
        let disk = self.inner.disk.lock().unwrap();
        match id.cns {
            CNS_CONTROLLER => IdentifyController {
                sn: padded("1"),
                mn: padded("Fake"),
                mdts: 5,
                cntlid: 1,
                kas: 1,
                aerl: 3,
                oaes: 1 << 8,
                ioccsz: (64 + self.inner.nature.in_capsule) / 16,
                iorcsz: 1,
                ofcs: 1,
                nn: 1,
                subnqn: nqn_field(NQN),
                ..Default::default()
            }
            .write(&mut out),
            CNS_NAMESPACE if id.nsid == 1 => IdentifyNamespace {
                nsze: disk.blocks,
                ncap: disk.blocks,
                nuse: disk.blocks,
                dlfeat: 9,
                lbaf0: LbaFormat { ms: 0, lbads: disk.lba_bytes.trailing_zeros() as u8, rp: 0 }.to_bytes(),
                ..Default::default()
            }
            .write(&mut out),
            CNS_ACTIVE_NAMESPACES => write_namespace_list([1].into_iter(), id.nsid, &mut out),
            CNS_NAMESPACE_DESCRIPTORS => write_descriptors(&[NamespaceDescriptor::Uuid([7; 16])], &mut out),
            _ => {}
        }
        out
    }

    fn log(&self, page: &GetLogPage) -> Vec<u8> {
        let records = self.inner.nature.records;
        let mut all = vec![0; 4096];
        if page.lid == LID_DISCOVERY && self.discovery {
            // What cannot be asked for need not be there.
            let there = records.min(10_000);
            all.resize(4096.max(1024 * (1 + there as usize)), 0);
            DiscoveryHeader { genctr: 3, numrec: records, recfmt: 0 }.write(&mut all);
            let of_others = |n: u64| DiscoveryEntry {
                trtype: TRTYPE_TCP,
                adrfam: ADRFAM_IPV4,
                subtype: [2, 1, 3][n as usize % 3],
                treq: (n % 2) as u8 | 4,
                portid: n as u16,
                eflags: (n % 4) as u16,
                trsvcid: padded("4420"),
                traddr: padded(&format!("192.0.2.{}", n % 250)),
                subnqn: nqn_field(NQN),
                ..Default::default()
            };
            (1..there).for_each(|n| of_others(n).write(&mut all[1024 * (1 + n as usize)..]));
            DiscoveryEntry {
                trtype: TRTYPE_TCP,
                adrfam: ADRFAM_IPV4,
                subtype: SUBTYPE_NVM,
                cntlid: 0xFFFF,
                asqsz: 32,
                trsvcid: padded(&self.inner.addr.port().to_string()),
                traddr: padded(&self.inner.addr.ip().to_string()),
                subnqn: nqn_field(NQN),
                ..Default::default()
            }
            .write(&mut all[1024..]);
        }
        all[page.offset as usize..][..page.bytes() as usize].to_vec()
    }
}
