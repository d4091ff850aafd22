//! A small host of iSCSI, for these tests: one connection, one command at a time, no digests.
//!
//! Invariants: every wait has a bound; what a target sends against the standard fails the test.
//! Never: puts load on anything.

use crate::harness::PATIENCE;
use format::iscsi::{
    DataOut, HEADER_BYTES, HostPdu, LoginRequest, NO_TAG, NopOut, Parts, ReadyToTransfer, ScsiCommand, TargetPdu, TextRequest, pad_bytes,
    parse_pairs, push_pair,
};
use format::scsi::alua::{AccessState, parse_port_groups};
use format::scsi::reservation::{parse_keys, parse_reservation};
use format::scsi::{Lun, ScsiStatus, Sense, SenseCode, SenseKey};
use openssl::hash::{MessageDigest, hash};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

/// Stages of a login (RFC 7143 11.12.3).
const SECURITY: u8 = 0;
const OPERATIONAL: u8 = 1;
const FULL: u8 = 3;
/// Bytes of one data PDU, below what a target takes at least.
const STEP: usize = 8192;

/// Who logs in, and to what.
#[derive(Clone, Debug)]
pub struct Login {
    pub at: SocketAddr,
    pub host: String,
    /// `None`: discovery.
    pub target: Option<String>,
    /// User and secret.
    pub chap: Option<(String, String)>,
    /// User and secret that the target has to prove itself with.
    pub mutual: Option<(String, String)>,
    /// The last byte of the ISID: another one is another session.
    pub session: u8,
}

/// A session.
pub struct Host {
    socket: TcpStream,
    cmd_sn: u32,
    tag: u32,
}

/// How a command ended: its status, sense key and code if there are any, and its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    pub status: ScsiStatus,
    pub sense: Option<(SenseKey, SenseCode)>,
    pub data: Vec<u8>,
}

impl Ended {
    #[track_caller]
    pub fn good(self) -> Vec<u8> {
        assert_eq!((self.status, self.sense), (ScsiStatus::Good, None));
        self.data
    }
}

impl Host {
    /// Logs in; the status of the refusal otherwise (RFC 7143 11.13.5).
    pub fn log_in(login: &Login) -> Result<Host, u16> {
        let socket = TcpStream::connect_timeout(&login.at, PATIENCE).expect("a connection");
        socket.set_read_timeout(Some(PATIENCE)).expect("a bound");
        socket.set_nodelay(true).expect("no delay");
        let mut host = Host { socket, cmd_sn: 1, tag: 1 };
        let mut names = vec![("InitiatorName", login.host.clone())];
        match &login.target {
            Some(target) => names.push(("TargetName", target.clone())),
            None => names.push(("SessionType", "Discovery".into())),
        }
        if let Some((user, secret)) = &login.chap {
            names.push(("AuthMethod", "CHAP,None".into()));
            let answer = host.step(login, (SECURITY, None), &names)?;
            if answer.get("AuthMethod").map(String::as_str) == Some("CHAP") {
                let challenge = host.step(login, (SECURITY, None), &[("CHAP_A", "5".into())])?;
                let mut answer = vec![("CHAP_N", user.clone()), ("CHAP_R", respond(&challenge, secret))];
                let own =
                    BTreeMap::from([("CHAP_I".to_owned(), "77".to_owned()), ("CHAP_C".to_owned(), "0x00112233445566778899".to_owned())]);
                if login.mutual.is_some() {
                    answer.extend([("CHAP_I", own["CHAP_I"].clone()), ("CHAP_C", own["CHAP_C"].clone())]);
                }
                let proof = host.step(login, (SECURITY, Some(OPERATIONAL)), &answer)?;
                match &login.mutual {
                    Some((user, secret)) => assert_eq!((&proof["CHAP_N"], &proof["CHAP_R"]), (user, &respond(&own, secret))),
                    None => assert!(!proof.contains_key("CHAP_N"), "nobody asked for it"),
                }
            } else {
                host.step(login, (SECURITY, Some(OPERATIONAL)), &[])?;
            }
            names.clear();
        }
        names.push(("InitialR2T", "Yes".into()));
        host.step(login, (OPERATIONAL, Some(FULL)), &names)?;
        Ok(host)
    }

    /// One request of a login: the keys of the answer.
    fn step(&mut self, login: &Login, stages: (u8, Option<u8>), keys: &[(&str, String)]) -> Result<BTreeMap<String, String>, u16> {
        let mut text = Vec::new();
        keys.iter().for_each(|(key, value)| push_pair(&mut text, key, value));
        let (stage, next) = stages;
        let isid = [0x80, 0, 0, 0, 0, login.session];
        let request =
            LoginRequest { transit: next.is_some(), stage, next: next.unwrap_or(0), isid, cmd_sn: self.cmd_sn, ..Default::default() };
        self.send(HostPdu::Login(request), true, &text);
        match self.receive() {
            (TargetPdu::Login(r), _) if r.status != 0 => Err(r.status),
            (TargetPdu::Login(r), text) => {
                assert_eq!((r.transit, if r.transit { r.next } else { stage }), (next.is_some(), next.unwrap_or(stage)));
                let pairs = parse_pairs(&text).expect("text");
                Ok(pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
            }
            other => panic!("no answer to a login: {other:?}"),
        }
    }

    fn send(&mut self, pdu: HostPdu, immediate: bool, data: &[u8]) {
        let mut wire = pdu.to_header(data.len()).to_vec();
        wire[0] |= if immediate { 0x40 } else { 0 };
        wire.extend_from_slice(data);
        wire.resize(wire.len() + pad_bytes(data.len()), 0);
        self.socket.write_all(&wire).expect("sent");
    }
    fn receive(&mut self) -> (TargetPdu, Vec<u8>) {
        self.try_receive().expect("a PDU")
    }
    fn try_receive(&mut self) -> std::io::Result<(TargetPdu, Vec<u8>)> {
        loop {
            let mut header = [0; HEADER_BYTES];
            self.socket.read_exact(&mut header)?;
            let parts = Parts::parse(&header);
            let mut body = vec![0; parts.data_bytes + pad_bytes(parts.data_bytes)];
            self.socket.read_exact(&mut body)?;
            body.truncate(parts.data_bytes);
            match TargetPdu::parse(&header).expect("a PDU of a target") {
                TargetPdu::NopIn(ping) if ping.transfer_tag != NO_TAG => {
                    let pong =
                        NopOut { lun: ping.lun, tag: NO_TAG, transfer_tag: ping.transfer_tag, cmd_sn: self.cmd_sn, ..Default::default() };
                    self.send(HostPdu::NopOut(pong), true, &[]);
                }
                pdu => return Ok((pdu, body)),
            }
        }
    }

    /// A command: `bytes` that it reads at most, or data that it writes, which is sent as it is asked for.
    pub fn command(&mut self, lun: u64, cdb: &[u8], bytes: u32, out: &[u8]) -> Ended {
        let tag = self.tag;
        let mut command = ScsiCommand {
            last: true,
            read: bytes > 0,
            write: !out.is_empty(),
            lun: Lun::Unit(lun).to_bytes(),
            tag,
            expected_bytes: bytes.max(out.len() as u32),
            cmd_sn: self.cmd_sn,
            ..Default::default()
        };
        command.cdb[..cdb.len()].copy_from_slice(cdb);
        (self.cmd_sn, self.tag) = (self.cmd_sn + 1, tag + 1);
        self.send(HostPdu::Command(command), false, &[]);
        let mut data = Vec::new();
        loop {
            match self.receive() {
                (TargetPdu::DataIn(d), part) => {
                    assert_eq!((d.tag, d.offset as usize), (tag, data.len()), "in order");
                    data.extend_from_slice(&part);
                    if d.has_status {
                        return Ended { status: ScsiStatus::parse(d.status).expect("a status"), sense: None, data };
                    }
                }
                (TargetPdu::ReadyToTransfer(r2t), _) => self.give(&r2t, out),
                (TargetPdu::Response(r), sense) => {
                    let sense = sense.get(2..).and_then(Sense::parse).map(|s| (s.key, s.code));
                    return Ended { status: ScsiStatus::parse(r.status).expect("a status"), sense, data };
                }
                other => panic!("{other:?}"),
            }
        }
    }
    fn give(&mut self, r2t: &ReadyToTransfer, out: &[u8]) {
        let part = &out[r2t.offset as usize..][..r2t.bytes as usize];
        let count = part.chunks(STEP).count();
        for (n, data) in part.chunks(STEP).enumerate() {
            let pdu = DataOut {
                last: n + 1 == count,
                lun: r2t.lun,
                tag: r2t.tag,
                transfer_tag: r2t.transfer_tag,
                data_sn: n as u32,
                offset: r2t.offset + (n * STEP) as u32,
                ..Default::default()
            };
            self.send(HostPdu::DataOut(pdu), false, data);
        }
    }

    /// SendTargets: names with their addresses.
    pub fn targets(&mut self) -> BTreeMap<String, Vec<String>> {
        let request = TextRequest { last: true, tag: self.tag, transfer_tag: NO_TAG, cmd_sn: self.cmd_sn, ..Default::default() };
        self.send(HostPdu::Text(request), true, b"SendTargets=All\0");
        let (TargetPdu::Text(answer), text) = self.receive() else { panic!("no text") };
        assert!(answer.last && !answer.more);
        let (mut all, mut last): (BTreeMap<String, Vec<String>>, _) = Default::default();
        for (key, value) in parse_pairs(&text).expect("text") {
            if key == "TargetName" {
                last = value.to_owned();
                all.insert(last.clone(), Vec::new());
            } else {
                assert_eq!(key, "TargetAddress");
                all.entry(last.clone()).or_default().push(value.to_owned());
            }
        }
        all
    }

    /// Whether the target has ended the session: nothing comes any more.
    pub fn is_over(&mut self) -> bool {
        loop {
            match self.try_receive() {
                Ok(_) => {}
                Err(e) => return e.kind() != std::io::ErrorKind::WouldBlock,
            }
        }
    }

    /// Blocks and bytes of a block, by READ CAPACITY (16).
    pub fn capacity(&mut self, lun: u64) -> (u64, u32) {
        let cdb = [0x9E, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0];
        let data = self.command(lun, &cdb, 32, &[]).good();
        let last = u64::from_be_bytes(data[..8].try_into().expect("8 bytes"));
        (last + 1, u32::from_be_bytes(data[8..12].try_into().expect("4 bytes")))
    }
    pub fn ready(&mut self, lun: u64) -> Ended {
        self.command(lun, &[0; 6], 0, &[])
    }
    /// READ (16).
    pub fn read(&mut self, lun: u64, lba: u64, blocks: u32, block_bytes: u32) -> Ended {
        self.command(lun, &cdb16(0x88, lba, blocks), blocks * block_bytes, &[])
    }
    /// WRITE (16).
    pub fn write(&mut self, lun: u64, lba: u64, data: &[u8], block_bytes: u32) -> Ended {
        self.command(lun, &cdb16(0x8A, lba, data.len() as u32 / block_bytes), 0, data)
    }
    /// PERSISTENT RESERVE OUT: a service action with a type, the host's key and the other key.
    pub fn reserve(&mut self, action: u8, kind: u8, key: u64, other: u64, persist: bool) -> Ended {
        let list = [&key.to_be_bytes()[..], &other.to_be_bytes(), &[0; 4], &[u8::from(persist), 0, 0, 0]].concat();
        self.command(1, &[0x5F, action, kind, 0, 0, 0, 0, 0, 24, 0], 0, &list)
    }
    /// The keys of all registrants, and the holder's key with the type.
    pub fn reservation(&mut self) -> (Vec<u64>, Option<(u64, u8)>) {
        let mut ask = |action| self.command(1, &[0x5E, action, 0, 0, 0, 0, 0, 1, 0, 0], 256, &[]).good();
        let (_, mut keys) = parse_keys(&ask(0)).expect("keys");
        keys.sort_unstable();
        let (_, held) = parse_reservation(&ask(1)).expect("a reservation, or none");
        (keys, held.map(|(key, kind)| (key, kind.code())))
    }
    /// The target port groups, with their states for a LUN.
    pub fn port_groups(&mut self, lun: u64) -> Vec<(u16, AccessState)> {
        let data = self.command(lun, &[0xA3, 0x0A, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0], 256, &[]).good();
        parse_port_groups(&data).into_iter().map(|g| (g.id, g.state)).collect()
    }
    /// The LUNs that it sees.
    pub fn luns(&mut self) -> Vec<Lun> {
        let cdb = [0xA0, 0, 0, 0, 0, 0, 0, 0, 0x20, 0, 0, 0];
        let data = self.command(0, &cdb, 8192, &[]).good();
        data[8..].chunks(8).map(|lun| Lun::parse(lun.try_into().expect("8 bytes")).expect("a LUN")).collect()
    }
}

fn cdb16(opcode: u8, lba: u64, blocks: u32) -> Vec<u8> {
    [&[opcode, 0][..], &lba.to_be_bytes(), &blocks.to_be_bytes(), &[0, 0]].concat()
}

/// CHAP_R for CHAP_I and CHAP_C, with MD5.
fn respond(challenge: &BTreeMap<String, String>, secret: &str) -> String {
    let id: u8 = challenge["CHAP_I"].parse().expect("a number");
    let hex = challenge["CHAP_C"].strip_prefix("0x").expect("hexadecimal");
    let byte = |n: usize| u8::from_str_radix(&hex[n..n + 2], 16).expect("digits");
    let challenge: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
    let digest = hash(MessageDigest::md5(), &[&[id], secret.as_bytes(), &challenge].concat()).expect("MD5");
    digest.iter().fold("0x".to_owned(), |text, b| text + &format!("{b:02x}"))
}
