//! An iSCSI target with volumes in memory, for measurements and for trying clients: `memory_iscsi [address] [cores] [MiB] [host user secret]`.
//!
//! It serves one target, `iqn.2026-11.io.basalt:memory`, to any host: LUN 0 with 4096-byte blocks, LUN 1 with 512-byte
//! blocks. Data is kept a piece (1 MiB) behind a lock each, so this is a tool to measure the front end with, not a store.
#![forbid(unsafe_code)]

use base::unit::{BLOCK_BYTES, PIECE_BYTES};
use base::{HostId, NodeSlot, SecretBytes, Visibility, VolumeId, WriteProtect, crc32c};
use cluster::Path;
use frontend::{ControlRequest, ControlVerb, Refused, Reply, ServedVolume, VolumeView};
use iscsi::{Credentials, HostView, Shared, Target, TargetMsg, TargetView, UnitView, View};
use object::{Backend, Data, DataVec, IoDone, IoError, IoOp, IoRequest, VolumeRef, extents};
use rt::{App, Buf, MeshEnd, Progress, Rt, UringOptions, launch};
use std::sync::{Arc, Mutex, PoisonError};

type Pieces = Arc<Vec<Mutex<Option<Buf>>>>;

struct Memory {
    volumes: [Pieces; 2],
    done: Vec<IoDone>,
}

impl Memory {
    fn answer(&self, op: IoOp, pieces: &Pieces) -> (Result<(), IoError>, DataVec) {
        let mut data = DataVec::new();
        let with = |offset: u64, f: &mut dyn FnMut(&mut Option<Buf>, usize)| {
            let mut piece = pieces[(offset / PIECE_BYTES) as usize].lock().unwrap_or_else(PoisonError::into_inner);
            f(&mut piece, (offset % PIECE_BYTES) as usize);
        };
        match op {
            IoOp::Read { offset, len } => {
                for e in extents(offset, len) {
                    let mut buf = Buf::alloc(e.len as usize);
                    with(e.offset, &mut |piece, at| match piece {
                        Some(p) => buf.copy_from_slice(&p[at..at + e.len as usize]),
                        None => buf.fill(0),
                    });
                    // As the store does: a block is verified on its way out.
                    let crcs = if e.is_aligned() { buf.chunks(BLOCK_BYTES).map(crc32c).collect() } else { Default::default() };
                    data.push(Data { buf, crcs });
                }
            }
            IoOp::Write { offset, data: list, .. } => {
                let mut at = offset;
                for d in &list {
                    with(at, &mut |piece, at| {
                        let p = piece.get_or_insert_with(|| Buf::zeroed(PIECE_BYTES as usize));
                        p[at..at + d.buf.len()].copy_from_slice(&d.buf);
                    });
                    at += d.buf.len() as u64;
                }
            }
            IoOp::Zero { offset, len, .. } | IoOp::Trim { offset, len } => {
                let (mut at, end) = (offset, offset + len);
                while at < end {
                    let n = (PIECE_BYTES - at % PIECE_BYTES).min(end - at);
                    with(at, &mut |piece, at| {
                        if n == PIECE_BYTES {
                            *piece = None;
                        } else if let Some(p) = piece {
                            p[at..at + n as usize].fill(0);
                        }
                    });
                    at += n;
                }
            }
            IoOp::CompareWrite { offset, both } => {
                let mut same = false;
                with(offset, &mut |piece, at| {
                    let p = piece.get_or_insert_with(|| Buf::zeroed(PIECE_BYTES as usize));
                    let here = &mut p[at..at + both.data.buf.len()];
                    same = *here == *both.compare.buf;
                    if same {
                        here.copy_from_slice(&both.data.buf);
                    }
                });
                if !same {
                    return (Err(IoError::Miscompare), data);
                }
            }
            // Memory does not go bad, and this tool does not pretend that it did.
            IoOp::Uncorrectable { .. } => return (Err(IoError::Unaligned), data),
            IoOp::Verify { .. } | IoOp::Flush | IoOp::Turn { .. } => {}
        }
        (Ok(()), data)
    }
}

impl Backend for Memory {
    fn submit(&mut self, _rt: &Rt, request: IoRequest) {
        let pieces = Arc::clone(&self.volumes[request.volume.0 as usize]);
        let (result, data) = self.answer(request.op, &pieces);
        self.done.push(IoDone { token: request.token, result, data });
    }
    fn pop(&mut self) -> Option<IoDone> {
        self.done.pop()
    }
}

struct Core {
    target: Target,
    memory: Memory,
    mesh: MeshEnd<TargetMsg>,
    view: Arc<View>,
}

impl Core {
    /// Reservations, as the control plane decides them; one core has what is served, so there are none with several.
    fn decide(&mut self, rt: &Rt, request: ControlRequest) {
        let ControlVerb::Reservation { volume: id, command } = &request.what else {
            return self.target.on_answer(rt, request.id, Err(Refused::Failed));
        };
        let mut view = View::clone(&self.view);
        let volume = view.volumes.iter_mut().flatten().find(|v| v.volume.id == *id);
        let Some(volume) = volume.filter(|_| rt.cores() == 1) else {
            return self.target.on_answer(rt, request.id, Err(Refused::Busy));
        };
        let mut state = volume.reservation.as_deref().cloned().unwrap_or_default();
        let result = state.execute(HostId::from_bytes(request.by.host_id), command);
        state.name_ports(&request.by.ports);
        volume.volume.reservation = Some(Arc::new(state));
        view.generation += 1;
        self.view = Arc::new(view);
        self.target.apply(rt, Arc::clone(&self.view));
        self.target.on_answer(rt, request.id, result.map(|outcome| Reply::reserved(*id, outcome)).map_err(Refused::from));
    }
}

impl App for Core {
    fn poll(&mut self, rt: &Rt) -> Progress {
        let mut busy = false;
        while let Some(msg) = self.mesh.recv() {
            busy = true;
            self.target.on_msg(rt, msg);
        }
        busy |= self.target.poll(rt, &mut self.memory);
        while let Some(request) = self.target.pop_control_request() {
            busy = true;
            self.decide(rt, request);
        }
        while let Some((to, msg)) = self.target.pop_msg() {
            if self.mesh.send(rt, to, msg).is_err() {
                return Progress::Stop;
            }
        }
        self.mesh.flush_wakes(rt);
        if busy { Progress::Busy } else { Progress::Idle }
    }
}

fn main() {
    let mut args = std::env::args().skip(1);
    let addr: std::net::SocketAddr = args.next().unwrap_or_else(|| "127.0.0.1:3260".into()).parse().expect("an address and port");
    let cores: usize = args.next().map_or(1, |v| v.parse().expect("a number of cores"));
    let mib: u64 = args.next().map_or(1024, |v| v.parse().expect("a size in MiB"));
    let hosts = match (args.next(), args.next(), args.next()) {
        (Some(host), Some(user), Some(secret)) => {
            let credentials = Credentials { user, secret: SecretBytes::new(secret.into_bytes()), target: None };
            [(host, HostView { credentials: Some(Arc::new(credentials)), ..HostView::default() })].into()
        }
        _ => Default::default(),
    };
    let volume = |n: u8, lba_bytes| {
        Some(VolumeView {
            volume: ServedVolume {
                id: VolumeId::from_bytes([n; 16]),
                name: format!("m{n}"),
                bytes: mib << 20,
                lba_bytes,
                write_protect: WriteProtect::None,
                formatting: false,
                reservation: None,
                thin: false,
            },
            used: vec![],
            limited: false,
            owner: None,
            revision: 0,
        })
    };
    let view = Arc::new(View {
        generation: 1,
        slot: NodeSlot::FIRST,
        nodes: vec![],
        targets: vec![TargetView {
            name: "iqn.2026-11.io.basalt:memory".into(),
            allow_any_host: true,
            authenticated: false,
            hosts: vec![],
            units: [0, 1].map(|lun| (lun, UnitView { volume: VolumeRef(lun), hosts: Visibility::All, path: Path::ALONE })).into(),
        }],
        hosts,
        volumes: vec![volume(1, 4096), volume(2, 512)],
    });
    let pieces = || -> Pieces { Arc::new((0..mib).map(|_| Mutex::new(None)).collect()) };
    let volumes = [pieces(), pieces()];
    let shared = Arc::new(Shared::default());
    let ends = Mutex::new(rt::mesh(cores, 1024).into_iter().map(Some).collect::<Vec<_>>());
    let opts = UringOptions { cores, ..UringOptions::default() };
    let running = launch(opts, move |rt| {
        let mesh = ends.lock().unwrap_or_else(PoisonError::into_inner)[rt.core()].take().expect("a core starts once");
        let mut target = Target::new(&rt, Arc::clone(&shared));
        target.apply(&rt, Arc::clone(&view));
        if rt.core() == 0 {
            let at = target.listen(&rt, addr.into());
            println!("listening at {}", at.expect("the address is free"));
        }
        let memory = Memory { volumes: volumes.clone(), done: vec![] };
        Box::new(Core { target, memory, mesh, view: Arc::clone(&view) })
    });
    running.expect("cores start").join().expect("cores end well");
}
