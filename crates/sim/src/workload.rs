//! What the clients do, and what their answers prove.
//!
//! Owns: the workload that all clients of a run play together: the model of every volume, the commands in flight, what is drawn next.
//! Invariants: each command is in flight once and ends once, by its answer or with its connection; values are never used twice.
//! Never: touches the world; clients carry the commands.

mod atomic;
mod dispute;
pub mod figures;
mod had;
mod kept;
mod operated;
mod order;
mod paths;
mod several;

pub use kept::{Counts, Damage, Volume, Workload};
pub use order::{Answer, COPY_FAILED, Order, Reported, What};
pub use paths::{HANDED_OVER_NS, Paths};

use crate::content::{LOST, bits_apart, fill, value_of};
use crate::faults::aimed::Hit;
use crate::faults::{Class, Fault};
use crate::model::{Cell, Wrong};
use crate::plan::{OpKind, Plan};
use crate::rights::{Hosts, Need};
use crate::served::State;
use crate::trace::{Event, Place, Trace};
use dataplane::VolumeLimits;
use format::nvme::{Status, StatusCode};
use had::Moved;
use initiator::io::Io;
use kept::Flight;
use rt::sim::Rng;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// How long a command whose connection is gone may still take effect, in nanoseconds of the world.
const INDETERMINATE_NS: u64 = 20_000_000_000;
/// Replaced versions of a block that are kept for messages.
const HISTORY: usize = 6;
/// A command without faults is answered within this, in nanoseconds.
pub const LATENCY_MAX_NS: u64 = 10_000_000_000;

impl Workload {
    /// A workload at its beginning: all volumes are zeroes.
    pub fn new(plan: Rc<Plan>) -> Workload {
        let hosts: Hosts = plan.clients.iter().enumerate().map(|(id, c)| crate::client::host_of(id, c)).collect();
        let volume = |(at, v): (usize, &crate::plan::VolumePlan)| {
            let bytes = ((v.first_block + v.blocks) * u64::from(v.lba_bytes)).next_multiple_of(4096);
            let (nsid, blocks) = (Some(at as u32 + 1), bytes / u64::from(v.lba_bytes));
            Volume::new(
                v,
                State {
                    nsid,
                    blocks,
                    read_only: false,
                    formatting: false,
                    offline: false,
                    limits: VolumeLimits { iops_max: v.iops_max, bytes_per_s_max: None },
                },
                &hosts,
            )
        };
        let volumes = plan.volumes.iter().enumerate().map(volume).collect();
        Workload {
            rng: Rng::new(plan.seed ^ 0x0057_0BE5),
            stale_allowed: plan.class == Class::Lies,
            moved: Moved::default(),
            quiet_since: None,
            undisturbed_since: None,
            undisturbed: false,
            closed: false,
            operated: plan.has_acts(),
            several: None,
            plan,
            hosts,
            asked: Vec::new(),
            units_given: Vec::new(),
            volumes,
            flights: BTreeMap::new(),
            indeterminate: BTreeMap::new(),
            tied: BTreeMap::new(),
            next_op: 1,
            next_value: 1,
            ops_left: 0,
            to_verify: VecDeque::new(),
            to_trim: VecDeque::new(),
            to_probe: VecDeque::new(),
            unsteady: true,
            errors_allowed: false,
            damage: Damage::default(),
            calm: false,
            trace: Trace::default(),
            counts: Counts::default(),
            wrong: None,
        }
    }

    /// Commands in flight.
    pub fn in_flight(&self) -> usize {
        self.flights.len()
    }
    /// Whether there is nothing more to begin.
    pub fn nothing_left(&self) -> bool {
        self.wrong.is_some() || self.closed || self.ops_left == 0 && self.to_verify.is_empty() && self.to_trim.is_empty()
    }
    /// A client that was served lost its connections, or gave its commands up.
    pub fn lost_service(&mut self, client: usize, why: &str) {
        if self.calm && !self.unsteady {
            self.fail(format!("client {client} lost its service without a fault: {why}"), None);
        }
    }
    /// An event that concerns the whole host.
    pub fn note(&mut self, now: u64, text: impl Into<String>) {
        self.trace.push(now, Event::Note(text.into()));
    }
    /// What a fault does to blocks without checksum, and to those that copy them.
    pub fn strike(&mut self, fault: &Fault) {
        match *fault {
            Fault::FlipReads { times, .. } => self.damage.bits += times,
            Fault::Flip { sectors, .. } => self.damage.bits += sectors,
            Fault::LoseWrites { .. } | Fault::Misdirect { .. } | Fault::ComeBackOld { .. } | Fault::LieAboutDurability { .. } => {
                self.damage.places = true;
            }
            _ => {}
        }
        self.errors_allowed |= fault.may_fail_commands();
        self.stale_allowed |= fault.may_lose_acknowledged();
    }
    /// A fault that was aimed has hit: from now on commands may fail, if the write did.
    pub fn hit(&mut self, hit: &Hit, now: u64) {
        self.errors_allowed |= hit.failed;
        self.note(now, format!("hit: {hit:?}"));
    }
    /// Everything is to be read.
    pub fn verify_all(&mut self) {
        for volume in self.all_live() {
            let blocks = self.volumes[volume].end;
            let step = (64 << 10) / u64::from(self.volumes[volume].namespace.lba_bytes);
            for block in (0..blocks).step_by(step as usize) {
                self.to_verify.push_back(Place { volume, block, blocks: step.min(blocks - block) });
            }
        }
    }
    /// Everything is to be deallocated.
    pub fn trim_all(&mut self) {
        for volume in self.all_live() {
            let blocks = self.volumes[volume].end;
            self.to_trim.push_back(Place { volume, block: 0, blocks });
        }
    }
    /// More blocks of a volume may be used: they are zeroes.
    pub fn grown(&mut self, volume: usize, blocks: u64) {
        let cells = &mut self.volumes[volume].cells;
        cells.resize(cells.len() + blocks as usize, Cell::default());
    }
    /// The host is gone: nothing that it was given and did not answer can take effect from now on.
    pub fn node_died(&mut self, now: u64) {
        for cell in self.volumes.iter_mut().flat_map(|v| &mut v.cells) {
            cell.cut_off(now);
        }
        self.indeterminate.clear();
        self.asked.clear();
        self.to_probe.clear();
        self.volumes.iter_mut().for_each(|v| v.withheld.clear());
    }
    /// Something was wrong. The first time counts.
    pub fn fail(&mut self, what: String, about: Option<(usize, u64)>) {
        if self.wrong.is_none() {
            let mut text = what;
            if let Some((volume, block)) = about {
                let v = &self.volumes[volume];
                text += &format!("\nvolume {volume}, block {block} (LBA {}), candidates:", v.first_block + block);
                for c in v.cells[block as usize].candidates() {
                    text += &format!("\n  {c:?}");
                }
            }
            self.wrong = Some(format!("{text}\nthe last events:\n{}", self.trace.tell(about)));
        }
    }

    /// What a client with room for `room` commands on a queue sends next.
    pub fn next(&mut self, client: usize, room: usize, now: u64) -> Option<Order> {
        if self.wrong.is_some() || self.closed {
            return None;
        }
        if let Some(place) = self.to_verify.pop_front() {
            return self.begin(client, OpKind::Read, place, now);
        }
        if let Some(place) = self.to_trim.pop_front() {
            return self.begin(client, OpKind::Trim, place, now);
        }
        if self.ops_left == 0 {
            return None;
        }
        self.ops_left -= 1;
        if let Some(at) = self.to_probe.iter().position(|(c, _)| *c == client) {
            let place = self.to_probe.remove(at).expect("it was found").1;
            return self.begin(client, OpKind::Read, place, now);
        }
        let kind = self.draw_kind();
        let cannot = self.is_over_iscsi(client) && OpKind::NVME_ONLY.contains(&kind);
        if kind == OpKind::Swap && room < 2 || kind == OpKind::Abort || cannot {
            return None;
        }
        if matches!(kind, OpKind::Reserve | OpKind::Report) {
            return self.begin_reservation(client, kind, now);
        }
        let place = self.draw_place(client, kind);
        self.begin(client, kind, place, now)
    }

    /// Whether a client should abort one of its commands now.
    pub fn draw_abort(&mut self) -> bool {
        let share = self.plan.mix.iter().find(|(k, _)| *k == OpKind::Abort).map_or(0, |(_, n)| *n);
        share > 0 && self.rng.below(100) < share
    }
    /// A number below `n`, for the clients.
    pub fn below(&mut self, n: u64) -> u64 {
        self.rng.below(n)
    }
    /// An abort was sent for a command.
    pub fn aborting(&mut self, op: u64) {
        if let Some(flight) = self.flights.get_mut(&op) {
            flight.aborted = true;
            *self.counts.ops.entry(OpKind::Abort).or_default() += 1;
        }
    }

    fn is_over_iscsi(&self, client: usize) -> bool {
        self.plan.clients.get(client).is_some_and(|c| c.iscsi)
    }

    fn draw_kind(&mut self) -> OpKind {
        let all: u64 = self.plan.mix.iter().map(|(_, n)| n).sum();
        let mut at = self.rng.below(all.max(1));
        for (kind, n) in &self.plan.mix {
            if at < *n {
                return *kind;
            }
            at -= n;
        }
        OpKind::Read
    }

    fn draw_place(&mut self, client: usize, kind: OpKind) -> Place {
        let volume = self.plan.clients.get(client).and_then(|client| client.volume).unwrap_or_else(|| self.draw_volume());
        // Where volumes get smaller, some commands go behind the end all the same.
        let beyond = self.operated && (self.rng.one_in(8) || self.volumes[volume].end == 0);
        let v = &self.volumes[volume];
        let (cells, lba) = (if beyond { v.cells.len() as u64 } else { v.end }, u64::from(v.namespace.lba_bytes));
        let most = (self.plan.op_blocks_max * 4096 / lba).min(cells);
        let blocks = match self.rng.below(4) {
            0 => 1 + self.rng.below(most),
            1 => 1 + self.rng.below(most.min(8)),
            _ => 1,
        };
        let hot = self.plan.hot > 0 && self.rng.one_in(self.plan.hot);
        let block = if hot { self.rng.below(cells.min(8)) } else { self.rng.below(cells) };
        let place = Place { volume, block, blocks: blocks.min(cells - block) };
        match kind {
            // Whole blocks of 4 KiB only: that is what can be declared uncorrectable.
            OpKind::Lose => {
                let per = 4096 / lba;
                let first = (v.first_block + place.block).next_multiple_of(per) - v.first_block;
                let blocks = (place.blocks / per).max(1) * per;
                Place { block: first, blocks: if first + blocks <= cells { blocks } else { 0 }, ..place }
            }
            // COMPARE AND WRITE takes one block.
            OpKind::Swap if self.is_over_iscsi(client) => Place { blocks: place.blocks.min(1), ..place },
            OpKind::Compare | OpKind::Swap => Place { blocks: place.blocks.min(4), ..place },
            _ => place,
        }
    }

    fn new_values(&mut self, n: u64) -> Vec<u64> {
        let first = self.next_value;
        self.next_value += n;
        (first..first + n).collect()
    }

    fn data(&self, volume: usize, values: &[u64]) -> Vec<u8> {
        let lba = self.volumes[volume].namespace.lba_bytes as usize;
        let mut data = vec![0; values.len() * lba];
        for (block, value) in data.chunks_exact_mut(lba).zip(values) {
            fill(block, *value);
        }
        data
    }

    /// A value of each block to compare with: legal ones, or now and then some that are nowhere; `None` when one may be uncorrectable.
    fn guess(&mut self, place: Place, now: u64) -> Option<Vec<u64>> {
        let wrong = self.rng.one_in(8).then(|| self.new_values(place.blocks));
        let (v, rng) = (&self.volumes[place.volume], &mut self.rng);
        let cells = &v.cells[place.block as usize..][..place.blocks as usize];
        cells
            .iter()
            .map(|cell| {
                let legal: Vec<u64> = cell.legal(now).collect();
                let value = legal[rng.below(legal.len() as u64) as usize];
                (value != LOST).then_some(value)
            })
            .collect::<Option<Vec<u64>>>()
            .map(|legal| wrong.unwrap_or(legal))
    }

    /// The values of blocks that certainly have one and are not under way; `None` when one is not so.
    fn certain(&self, place: Place, now: u64) -> Option<Vec<u64>> {
        let v = &self.volumes[place.volume];
        let cells = &v.cells[place.block as usize..][..place.blocks as usize];
        if v.withheld.iter().any(|(_, block, _)| place.touches(place.volume, *block)) || v.is_undecided(place) {
            return None;
        }
        cells.iter().map(|cell| cell.certain(now).filter(|v| *v != LOST)).collect()
    }

    fn begin(&mut self, client: usize, kind: OpKind, place: Place, now: u64) -> Option<Order> {
        if place.blocks == 0 {
            return None;
        }
        let v = &self.volumes[place.volume];
        let (ns, lba) = (v.namespace, u64::from(v.namespace.lba_bytes));
        let (offset, len) = ((v.first_block + place.block) * lba, place.blocks * lba);
        let changes = !matches!(kind, OpKind::Read | OpKind::Flush | OpKind::Compare | OpKind::Verify | OpKind::Abort);
        if changes && v.pins.range(place.block..place.block + place.blocks).next().is_some() {
            return None;
        }
        let zeroes = || vec![0; place.blocks as usize];
        let (mut more, mut expected) = (Vec::new(), Vec::new());
        let (what, values) = match kind {
            OpKind::Read => (What::Io(Io::Read { offset, len: len as u32 }), Vec::new()),
            OpKind::Write | OpKind::WriteFua => {
                let values = self.new_values(place.blocks);
                (What::Io(Io::Write { offset, data: self.data(place.volume, &values), fua: kind == OpKind::WriteFua }), values)
            }
            OpKind::Trim => {
                let other = Place { blocks: 1, ..self.draw_place(client, OpKind::Trim) };
                let free = !self.volumes[place.volume].pins.contains_key(&other.block);
                let mut ranges = vec![(offset, len)];
                if place.blocks == self.volumes[place.volume].end {
                    // All of it: to the ends of its first and last block of 4 KiB, so that no space is needed any more.
                    let (first, end) = (offset & !4095, (offset + len).next_multiple_of(4096));
                    ranges[0] = (first, end - first);
                } else if other.volume == place.volume && !place.touches(other.volume, other.block) && free {
                    ranges.push(((self.volumes[place.volume].first_block + other.block) * lba, lba));
                    more.push(other);
                }
                (What::Io(Io::Deallocate(ranges)), zeroes())
            }
            OpKind::Zero => (What::Io(Io::WriteZeroes { offset, len, deallocate: self.rng.one_in(2) }), zeroes()),
            OpKind::Flush => (What::Io(Io::Flush), Vec::new()),
            OpKind::Compare => {
                let values = self.guess(place, now)?;
                (What::Io(Io::Compare { offset, data: self.data(place.volume, &values) }), values)
            }
            OpKind::Swap => {
                expected = self.guess(place, now)?;
                let values = self.new_values(place.blocks);
                let (compared, data) = (self.data(place.volume, &expected), self.data(place.volume, &values));
                (What::Swap { offset, expected: compared, data }, values)
            }
            OpKind::Lose => (What::Io(Io::WriteUncorrectable { offset, len }), vec![LOST; place.blocks as usize]),
            OpKind::Verify => (What::Io(Io::Verify { offset, len }), Vec::new()),
            OpKind::Copy => {
                let cells = self.volumes[place.volume].cells.len() as u64;
                let from = Place { block: self.rng.below(cells - place.blocks + 1), ..place };
                let apart = from.block + from.blocks <= place.block || place.block + place.blocks <= from.block;
                let values = self.certain(from, now).filter(|_| apart)?;
                for block in from.block..from.block + from.blocks {
                    *self.volumes[place.volume].pins.entry(block).or_default() += 1;
                }
                more.push(from);
                let from_offset = (self.volumes[place.volume].first_block + from.block) * lba;
                (What::Io(Io::Copy { to: offset, ranges: vec![(from_offset, len)] }), values)
            }
            OpKind::Abort | OpKind::Reserve | OpKind::Report => return None,
        };
        let op = self.next_op;
        self.next_op += 1;
        let cells = &mut self.volumes[place.volume].cells;
        if kind == OpKind::Copy && self.stale_allowed {
            for at in 0..place.blocks {
                let source = cells[(more[0].block + at) as usize].clone();
                cells[(place.block + at) as usize].adopted(&source);
            }
        }
        if changes {
            for (at, value) in values.iter().enumerate() {
                cells[place.block as usize + at].sent(op, *value, now);
            }
        }
        self.tie(op, kind, place);
        let cells = &mut self.volumes[place.volume].cells;
        if kind == OpKind::Trim {
            more.iter().for_each(|p| cells[p.block as usize].sent(op, 0, now));
        }
        let value = values.first().copied().unwrap_or(0);
        self.trace.push(now, Event::Sent { op, client, kind, place, value });
        let open = if kind == OpKind::Swap && !self.is_over_iscsi(client) { 2 } else { 1 };
        self.count_sent(kind, place);
        let (nsid, statuses) = (ns.nsid, [None; 2]);
        let flight = Flight { client, nsid, kind, place, sent: now, values, more, expected, open, statuses, aborted: false };
        self.flights.insert(op, flight);
        self.count_ahead(place.volume);
        *self.counts.ops.entry(kind).or_default() += 1;
        Some(Order { op, volume: place.volume, ns, what })
    }

    /// A command was answered.
    pub fn done(&mut self, done: Answer, now: u64) {
        let op = done.op;
        let Some(flight) = self.flights.get_mut(&op) else {
            return self.fail(format!("command #{op} was answered twice"), None);
        };
        flight.statuses[done.part] = Some(done.status);
        flight.open -= 1;
        if flight.open > 0 {
            return;
        }
        let flight = self.flights.remove(&op).expect("it is there");
        let status = flight.statuses[0].expect("all are answered");
        self.trace.push(now, Event::Done { op, status });
        let latency = now - flight.sent;
        self.counts.latency_max_ns = self.counts.latency_max_ns.max(latency);
        if latency > LATENCY_MAX_NS && self.plan.faults() == 0 && (self.calm || self.several.is_none()) {
            self.fail(format!("#{op} was answered after {} ms, without any fault", latency / 1_000_000), None);
        }
        for s in flight.statuses.iter().flatten().filter(|s| !s.is_success()) {
            let name = s.code.name().map_or_else(|| format!("{:#x}", s.code.0), str::to_owned);
            *self.counts.statuses.entry(name).or_default() += 1;
        }
        self.unpin(&flight);
        let ok = flight.statuses.iter().flatten().all(|s| s.is_success());
        self.volumes[flight.place.volume].withheld.retain(|(_, _, c)| c.change != op);
        self.answered_while_frozen(op, &flight);
        if ok && !self.may_be_served(&flight, now) {
            let text = format!("#{op} {:?} was done, though its volume was at no time served so", flight.kind);
            return self.fail(text, Some((flight.place.volume, flight.place.block)));
        }
        self.check_wait(op, &flight, now);
        self.check_path(op, &flight, now);
        if ok {
            self.count_done(op, &flight, now);
            self.session_goes_on(flight.client, flight.sent);
        }
        let need = flight.need();
        if ok && need.is_some_and(|need| !self.volumes[flight.place.volume].rights.may_pass(flight.client, need, flight.sent, now)) {
            let text =
                format!("#{op} {:?} of client {} was done, though a reservation stood against it all the time", flight.kind, flight.client);
            return self.fail(text, Some((flight.place.volume, flight.place.block)));
        }
        match flight.kind {
            OpKind::Reserve => self.reserve_done(op, &flight, status, now),
            OpKind::Report => self.report_done(op, &flight, status, done.report.as_ref(), now),
            OpKind::Read if ok => self.read_done(op, &flight, &done.data, now),
            OpKind::Swap => self.swap_done(op, &flight, now),
            _ if ok => self.succeeded(op, &flight, now),
            _ => self.failed(op, &flight, status, now),
        }
        self.forget(flight.place);
    }

    /// A connection is gone, and with it its commands.
    pub fn given_up(&mut self, ops: impl Iterator<Item = u64>, now: u64) {
        for op in ops {
            let Some(flight) = self.flights.remove(&op) else { continue };
            self.counts.given_up += 1;
            self.trace.push(now, Event::GivenUp { op });
            self.unpin(&flight);
            // A half of a pair may have been answered: what it said is not needed.
            self.each_change(op, &flight, |cell| cell.unsure(op, now + INDETERMINATE_NS));
            if flight.need() == Some(Need::Write) {
                self.indeterminate.insert(op, (flight.client, now + INDETERMINATE_NS));
            }
            self.frozen_given_up(op, &flight, now + INDETERMINATE_NS);
            for (_, _, c) in self.volumes[flight.place.volume].withheld.iter_mut().filter(|(_, _, c)| c.change == op) {
                c.settled = c.settled.min(now + INDETERMINATE_NS);
            }
            if flight.kind == OpKind::Read && self.ops_left == 0 {
                self.to_verify.push_back(flight.place);
            }
        }
    }

    fn unpin(&mut self, flight: &Flight) {
        if flight.kind != OpKind::Copy {
            return;
        }
        let (from, pins) = (flight.more[0], &mut self.volumes[flight.place.volume].pins);
        for block in from.block..from.block + from.blocks {
            let n = pins.get_mut(&block).expect("pinned once for each copy");
            *n -= 1;
            if *n == 0 {
                pins.remove(&block);
            }
        }
    }

    fn each_change(&mut self, _op: u64, flight: &Flight, mut f: impl FnMut(&mut Cell)) {
        let cells = &mut self.volumes[flight.place.volume].cells;
        for block in flight.place.block..flight.place.block + flight.place.blocks {
            f(&mut cells[block as usize]);
        }
        if flight.kind == OpKind::Trim {
            flight.more.iter().for_each(|p| f(&mut cells[p.block as usize]));
        }
    }

    fn forget(&mut self, place: Place) {
        let oldest = self.flights.values().map(|f| f.sent).min().unwrap_or(u64::MAX);
        let history = if self.stale_allowed { usize::MAX } else { HISTORY };
        let cells = &mut self.volumes[place.volume].cells;
        for cell in &mut cells[place.block as usize..][..place.blocks as usize] {
            cell.forget(oldest, history);
        }
    }

    fn succeeded(&mut self, op: u64, flight: &Flight, now: u64) {
        match flight.kind {
            OpKind::Compare => self.all_seen(op, flight, &flight.values, now),
            OpKind::Flush | OpKind::Verify => {}
            _ => {
                self.each_change(op, flight, |cell| cell.done(op, now));
                self.untie(op);
            }
        }
    }

    fn all_seen(&mut self, op: u64, flight: &Flight, values: &[u64], now: u64) {
        for (at, value) in values.iter().enumerate() {
            self.saw(op, flight, flight.place.block + at as u64, Some(*value), now);
        }
    }

    fn read_done(&mut self, op: u64, flight: &Flight, data: &[u8], now: u64) {
        let lba = self.volumes[flight.place.volume].namespace.lba_bytes as usize;
        if data.len() as u64 != flight.place.blocks * lba as u64 {
            return self.fail(format!("#{op} read {} bytes", data.len()), None);
        }
        let first = flight.place.block;
        let values = data.chunks_exact(lba).zip(first..).map(|(block, number)| self.undamaged(flight, number, block));
        let values: Vec<Option<Option<u64>>> = values.collect();
        if let Some(all) = values.iter().copied().collect::<Option<Vec<_>>>() {
            self.check_whole(op, flight, &all);
        }
        for (value, number) in values.into_iter().zip(first..) {
            match value {
                Some(value) => self.saw(op, flight, number, value, now),
                None => self.counts.damaged += 1,
            }
        }
    }

    /// The value that a block was read as; where it has no checksum, what it was before bits of it flipped. `None` when nothing can be said.
    fn undamaged(&self, flight: &Flight, number: u64, block: &[u8]) -> Option<Option<u64>> {
        let value = value_of(block);
        let v = &self.volumes[flight.place.volume];
        let mut legal = v.cells[number as usize].legal(flight.sent);
        if v.checksum || !self.damage.any() || value.is_some_and(|value| legal.any(|l| l == value)) {
            return Some(value);
        }
        let near = v.cells[number as usize].legal(flight.sent).find(|l| bits_apart(block, *l) <= self.damage.bits);
        if near.is_none() && self.damage.places { None } else { Some(near.or(value)) }
    }

    /// Whether what is compared may differ from what was written, because nothing shows that it was damaged.
    fn may_be_damaged(&self, volume: usize) -> bool {
        !self.volumes[volume].checksum && self.damage.any()
    }

    fn saw(&mut self, op: u64, flight: &Flight, block: u64, value: Option<u64>, now: u64) {
        self.counts.blocks_read += 1;
        let result = self.volumes[flight.place.volume].cells[block as usize].seen(value, flight.sent, now);
        match result {
            Ok(()) => self.tell_the_tied(flight.place.volume, block, value.unwrap_or(0), flight.sent, now),
            Err(Wrong { stale: true, .. }) if self.stale_allowed => {
                self.counts.stale += 1;
            }
            Err(wrong) => {
                let what = match wrong.seen {
                    None => "bytes that are no content at all".to_owned(),
                    Some(v) if wrong.stale => format!("the old value {v}"),
                    Some(v) => format!("the value {v}, which was never written there"),
                };
                self.fail(format!("#{op} found {what}; legal are {:?}", wrong.legal), Some((flight.place.volume, block)));
            }
        }
    }

    fn swap_done(&mut self, op: u64, flight: &Flight, now: u64) {
        // Where it is one command, one answer is for both.
        let write = flight.statuses[0].expect("all are answered");
        let compare = flight.statuses[1].unwrap_or(write);
        if write.is_success() != compare.is_success() && !self.errors_allowed {
            // The compare may succeed and the write fail for its own reason, but never the other way round.
            if write.is_success() {
                return self.fail(format!("#{op}: the compare failed ({compare:?}) and the write was done"), None);
            }
        }
        if write.is_success() {
            self.all_seen(op, flight, &flight.expected.clone(), now);
            self.each_change(op, flight, |cell| cell.done(op, now));
            self.untie(op);
        } else if compare.code == StatusCode::COMPARE_FAILURE {
            self.check_difference(op, flight, &flight.expected.clone());
            self.each_change(op, flight, |cell| cell.refused(op));
            self.untie(op);
        } else {
            // Which half says why both were not done.
            let telling = |s: &Status| {
                matches!(s.code, StatusCode::RESERVATION_CONFLICT | StatusCode::ABORTED_PREEMPT) || self.may_be_unserved(flight, *s, now)
            };
            let only_other = compare.is_success() || compare.code == StatusCode::ABORTED_FAILED_FUSED;
            let why = if only_other { write } else { compare };
            let status = [compare, write].into_iter().find(telling).unwrap_or(why);
            self.failed(op, flight, status, now);
        }
    }

    fn check_difference(&mut self, op: u64, flight: &Flight, values: &[u64]) {
        let place = flight.place;
        let cells = &self.volumes[place.volume].cells[place.block as usize..];
        if self.may_be_damaged(place.volume) {
            return;
        }
        if !cells.iter().zip(values).any(|(cell, value)| cell.differed(*value, flight.sent)) && !self.stale_allowed {
            self.fail(format!("#{op} found a difference where there is none"), Some((place.volume, place.block)));
        }
    }

    /// What a copy may have failed with, of all that its volumes can say.
    fn reason_of_copy(&self, flight: &Flight, now: u64) -> Option<Status> {
        let reasons = [
            Status::dnr(StatusCode::LBA_OUT_OF_RANGE),
            Status::dnr(StatusCode::NAMESPACE_WRITE_PROTECTED),
            Status::dnr(StatusCode::INVALID_NAMESPACE_OR_FORMAT),
            Status::retry(StatusCode::FORMAT_IN_PROGRESS),
            Status::retry(StatusCode::NAMESPACE_NOT_READY),
        ];
        let of_volume = reasons.into_iter().find(|status| self.may_be_unserved(flight, *status, now));
        let v = &self.volumes[flight.place.volume];
        let mut blocks = core::iter::once(&flight.place).chain(&flight.more).flat_map(|p| p.block..p.block + p.blocks);
        let lost = blocks.any(|b| v.cells[b as usize].may_be_lost(flight.sent)).then_some(Status::dnr(StatusCode::UNRECOVERED_READ_ERROR));
        let full = !self.plan.volumes.get(flight.place.volume).is_some_and(|v| v.promised);
        of_volume.or(lost).or(self.unsteady.then_some(reasons[4])).or(full.then_some(Status::dnr(StatusCode::CAPACITY_EXCEEDED)))
    }

    /// A command failed: may it, and what is known of its blocks now?
    fn failed(&mut self, op: u64, flight: &Flight, status: Status, now: u64) {
        let status = if status.code == COPY_FAILED { self.reason_of_copy(flight, now).unwrap_or(status) } else { status };
        if self.may_be_unserved(flight, status, now) {
            return self.unserved(op, flight, status, now);
        }
        let may_be_later = self.may_be_later(flight, status, now);
        let place = flight.place;
        let per = 4096 / u64::from(self.volumes[place.volume].namespace.lba_bytes);
        let changes = !matches!(flight.kind, OpKind::Read | OpKind::Compare | OpKind::Verify | OpKind::Flush);
        // A block of 4 KiB that is changed in part is read before.
        let around = if changes { per - 1 } else { 0 };
        let v = &self.volumes[place.volume];
        let (first, end) = (place.block.saturating_sub(around), (place.block + place.blocks + around).min(v.cells.len() as u64));
        let near = |b: u64| b.saturating_sub(around)..(b + 1 + around).min(v.cells.len() as u64);
        let mut touched = (first..end).chain(flight.more.iter().flat_map(|p| near(p.block)));
        let lost = touched.any(|b| v.cells[b as usize].may_be_lost(flight.sent));
        let piece = (1 << 20) / u64::from(v.namespace.lba_bytes);
        let (at, last) = (v.first_block + place.block, v.first_block + place.block + place.blocks - 1);
        let (rights, need) = (&v.rights, flight.need());
        let legal = match status.code {
            StatusCode::RESERVATION_CONFLICT if need.is_some_and(|need| rights.may_conflict(flight.client, need, flight.sent, now)) => {
                // A command of several steps is judged at each: those before the one that was refused have taken effect.
                let begun =
                    matches!(flight.kind, OpKind::Trim | OpKind::Copy) && rights.may_pass(flight.client, Need::Write, flight.sent, now);
                self.each_change(op, flight, |cell| if begun { cell.unsure(op, now) } else { cell.refused(op) });
                return;
            }
            StatusCode::ABORTED_PREEMPT => rights.may_be_aborted(flight.client, flight.sent, INDETERMINATE_NS),
            StatusCode::COMPARE_FAILURE if flight.kind == OpKind::Compare => {
                self.check_difference(op, flight, &flight.values);
                return;
            }
            StatusCode::UNRECOVERED_READ_ERROR if lost => true,
            // A part of a block that cannot be read: the rest of it would be lost in silence.
            StatusCode::MEDIA_WRITE_FAULT => lost && changes && per > 1,
            StatusCode::CAPACITY_EXCEEDED => changes && !self.plan.volumes.get(place.volume).is_some_and(|v| v.promised),
            // Compare and Write within one piece only (NABO, NABSPF).
            StatusCode::ATOMIC_WRITE_UNIT_EXCEEDED => flight.kind == OpKind::Swap && at / piece != last / piece,
            StatusCode::ABORT_REQUESTED | StatusCode::ABORTED_FAILED_FUSED => flight.aborted,
            _ => may_be_later,
        };
        let settled = self.settled_after(place.volume, status, now);
        self.each_change(op, flight, |cell| {
            if changes {
                cell.unsure(op, settled)
            }
        });
        if changes && settled > now {
            self.indeterminate.insert(op, (flight.client, settled));
        }
        if !legal && !self.errors_allowed {
            return self.fail(format!("#{op} {:?} failed with {status:?}", flight.kind), Some((place.volume, place.block)));
        }
        // With several nodes all is read in the calm: until then what cannot be reached would be asked for again and again.
        let later = self.several.is_some() && self.unsteady;
        if flight.kind == OpKind::Read
            && self.ops_left == 0
            && !later
            && !(status.code == StatusCode::UNRECOVERED_READ_ERROR && place.blocks == 1)
        {
            // Part of a verification: what can be read is found block by block, and what could not be answered is tried again.
            let again = status.code != StatusCode::UNRECOVERED_READ_ERROR && !self.errors_allowed;
            let blocks = if again { place.blocks } else { 1 };
            if again || place.blocks > 1 {
                for block in (place.block..place.block + place.blocks).step_by(blocks as usize) {
                    self.to_verify.push_back(Place { block, blocks, ..place });
                }
            }
        }
        if flight.kind == OpKind::Read
            && place.blocks == 1
            && status.code == StatusCode::UNRECOVERED_READ_ERROR
            && lost
            && !self.errors_allowed
        {
            self.saw(op, flight, place.block, Some(LOST), now);
        }
    }
}

impl Workload {
    /// When the oldest command in flight of a client was sent.
    pub fn oldest_of(&self, client: usize) -> Option<u64> {
        self.flights.values().filter(|f| f.client == client).map(|f| f.sent).min()
    }
    /// A client that asked at `since` got the size of a namespace, in logical blocks; 0 when there is none.
    pub fn identified(&mut self, volume: usize, nsid: u32, blocks: u64, lba_bytes: Option<u32>, since: u64, now: u64) {
        let v = &self.volumes[volume];
        let sane = blocks == 0 || lba_bytes == Some(v.namespace.lba_bytes);
        if !sane || !v.served.may_be_identified(nsid, blocks, since, now) {
            let newest = v.served.newest();
            self.fail(
                format!("volume {volume}, namespace {nsid}, is reported to have {blocks} blocks of {lba_bytes:?}; it is {newest:?}"),
                None,
            );
        }
    }
}
