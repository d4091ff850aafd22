//! Commands: from the header to the answer.

use super::judge;
use super::outcome::{Outcome, of_error};
use super::task::{Job, Phase, Task};
use super::{Cx, Session};
use crate::limits::{DATA_HELD_MAX, DATA_NEAR_MAX, IMMEDIATE_MAX, UNMAP_BLOCKS_MAX, UNMAP_RANGES_MAX};
use crate::unit::{self, illegal, in_range};
use crate::view::Unit;
use base::hooks::{self, SeededFault};
use base::unit::{BLOCK_BYTES, PIECE_BYTES, is_zero};
use base::{Instant, crc32c};
use format::iscsi::{DataIn, DataOut, Header, HostPdu, NO_TAG, Parts, ReadyToTransfer, ScsiCommand, ScsiResponse, reject};
use format::scsi::capacity::parse_unmap;
use format::scsi::{Command, Invalid, Lun, ScsiStatus, Sense, SenseCode, SenseKey};
use frontend::{ByteRange, HostPlace, RangeTrim};
use object::{CompareWrite, Data, DataVec, IoDone, IoError, IoOp, IoRequest, VolumeRef, extents};
use rt::Buf;
use std::collections::VecDeque;

impl Session {
    /// A command. Its CmdSN was taken.
    pub(super) fn on_command(&mut self, cx: &mut Cx<'_>, wire: usize, c: &ScsiCommand, header: &Header, data: &[u8]) {
        let immediate = Parts::parse(header).immediate;
        let early_max = self.params.first_burst.min(c.expected_bytes) as usize;
        let no_data = data.is_empty() || c.write && self.params.immediate_data && data.len() <= early_max;
        if !no_data || !c.last && (!c.write || self.params.initial_r2t) {
            return self.end(cx, "data that nobody asked for");
        }
        if self.by_tag.contains_key(&c.tag) || c.tag == NO_TAG {
            return self.reject(wire, reject::PROTOCOL, header);
        }
        if c.read && c.write {
            return self.reject(wire, reject::NOT_SUPPORTED, header);
        }
        if immediate && self.tasks.iter().filter(|(_, t)| t.immediate).count() >= IMMEDIATE_MAX {
            return self.reject(wire, reject::TOO_MANY_IMMEDIATE, header);
        }
        cx.stats.commands += 1;
        let (unit, transfer_out, verdict) = if cx.draining { (None, 0, Err(Outcome::Status(ScsiStatus::Busy))) } else { self.judge(cx, c) };
        let expected = |flag: bool| if flag { c.expected_bytes } else { 0 };
        let job = verdict.unwrap_or_else(Job::Answer);
        let mut task = Task {
            wire,
            tag: c.tag,
            lun: c.lun,
            unit,
            immediate,
            expected_in: expected(c.read),
            expected_out: expected(c.write),
            transfer_out,
            wanted: 0,
            class: job.class(),
            since: cx.now,
            job,
            phase: Phase::Early,
            early: Vec::new(),
            early_bytes: 0,
            incomplete: false,
            parts: Vec::new(),
            received: 0,
            asked: VecDeque::new(),
            r2t_sn: 0,
            data_sn: 0,
            held: 0,
            granted: cx.now,
            counted: false,
            aborted: false,
        };
        task.bound();
        task.early_bytes = data.len() as u32;
        if c.last && !data.is_empty() && data.len() == task.wanted as usize && matches!(task.job, Job::Write { .. }) {
            // It has all that it wants: in its place at once.
            task.make_room();
            task.put(data);
        } else {
            task.add_early(data);
        }
        let slot = self.tasks.insert(task) as u16;
        self.by_tag.insert(c.tag, slot);
        if c.last {
            self.go_on(cx, slot);
        }
    }

    /// The unit that a command is for, the bytes that it takes, and what it is to do.
    fn judge(&mut self, cx: &Cx<'_>, c: &ScsiCommand) -> (Option<Unit>, u64, Result<Job, Outcome>) {
        let unit = match Lun::parse(&c.lun) {
            Some(Lun::Unit(n)) => u32::try_from(n).ok().and_then(|n| cx.view.unit(&self.who.target, n, &self.who.host, self.host_id)),
            _ => None,
        };
        let command = match Command::parse(&c.cdb) {
            Ok(command) => command,
            Err(_) if unit.is_none() => return (None, 0, Err(illegal(SenseCode::LOGICAL_UNIT_NOT_SUPPORTED).into())),
            Err(invalid) => return (unit, 0, Err(invalid.into())),
        };
        if let Command::ReportLuns { select, allocation } = command {
            let luns = cx.view.luns(&self.who.target, &self.who.host);
            self.forget_attention(SenseCode::REPORTED_LUNS_CHANGED);
            let data = format::scsi::cut(unit::report_luns(&luns, select), allocation);
            return (unit, 0, Err(Outcome::Good(data)));
        }
        let Some(of) = unit else {
            let answer = match command {
                Command::Inquiry { page, allocation } => {
                    unit::inquiry(None, "", page).map_or_else(Outcome::from, |d| Outcome::Good(format::scsi::cut(d, allocation.into())))
                }
                Command::RequestSense { descriptor, .. } => {
                    Outcome::Good(illegal(SenseCode::LOGICAL_UNIT_NOT_SUPPORTED).to_bytes(descriptor))
                }
                _ => illegal(SenseCode::LOGICAL_UNIT_NOT_SUPPORTED).into(),
            };
            return (None, 0, Err(answer));
        };
        if !matches!(command, Command::Inquiry { .. } | Command::RequestSense { .. })
            && let Some(code) = self.pop_attention(of.lun)
        {
            return (unit, 0, Err(Sense::new(SenseKey::UnitAttention, code).into()));
        }
        if !crate::alua::may_pass(of.path.state, &command) {
            let code = if self.is_moving(of.lun) { SenseCode::PORT_IN_TRANSITION } else { SenseCode::PORT_UNAVAILABLE };
            return (unit, 0, Err(Sense::new(SenseKey::NotReady, code).into()));
        }
        if of.taken && !judge::passes_taken(&command) {
            return (unit, 0, Err(Outcome::Status(ScsiStatus::ReservationConflict)));
        }
        if let Command::LogSense(l) = &command {
            let used = cx.view.volumes.get(of.volume.0 as usize).and_then(|v| v.as_ref()?.used_bytes());
            let answer = crate::log::sense(&of, used, l).map_err(Invalid::sense);
            let cut = |data| Outcome::Good(format::scsi::cut(data, l.allocation.into()));
            return (unit, 0, Err(answer.map_or_else(Outcome::from, cut)));
        }
        if let Command::ReceiveCopyResults { what, list_id, allocation } = command {
            let results = self.copy_results(what, list_id).map(|data| Outcome::Good(format::scsi::cut(data, allocation)));
            return (unit, 0, Err(results.unwrap_or_else(Outcome::from)));
        }
        if let Command::ReportPortGroups { extended, allocation } = command {
            let data = crate::alua::report(cx.view, &of, self.is_moving(of.lun), extended);
            return (unit, 0, Err(Outcome::Good(format::scsi::cut(data, allocation))));
        }
        if let Command::PersistentReserveIn { action, allocation } = command {
            let report = super::reserve::report_of(cx, &of, action);
            let answer = report.map_or_else(Outcome::from, |data| Outcome::Good(format::scsi::cut(data, allocation.into())));
            return (unit, 0, Err(answer));
        }
        (unit, judge::bytes_out(&of, &command), judge::job(&of, &self.who.target, &command))
    }

    /// Data of a command.
    pub(super) fn on_data_out(&mut self, cx: &mut Cx<'_>, wire: usize, d: &DataOut, data: &[u8]) {
        // Of a command that is gone it is thrown away.
        let Some(slot) = self.by_tag.get(&d.tag).copied() else { return };
        let task = &mut self.tasks[slot.into()];
        // Sequences come in the order in which they were asked for (DataSequenceInOrder).
        let asked = task.asked.front().copied().filter(|a| a.transfer_tag == d.transfer_tag && task.phase == Phase::Solicited);
        if task.wire != wire || !(asked.is_some() || d.transfer_tag == NO_TAG && task.phase == Phase::Early) {
            return self.end(cx, "data that nobody asked for");
        }
        if task.incomplete || d.data_sn != task.data_sn {
            // A PDU before it was lost: the command ends when the host has sent what it was to send (RFC 7143 7.9 and 7.8).
            task.incomplete = true;
            if d.last {
                task.asked.pop_front();
            }
            if d.last && task.asked.is_empty() {
                let lost = Sense::new(SenseKey::AbortedCommand, SenseCode::PROTOCOL_CRC_ERROR);
                self.finish(cx, slot, lost.into());
            }
            return;
        }
        task.data_sn = task.data_sn.wrapping_add(1);
        let len = data.len() as u32;
        let Some(asked) = asked else {
            let fits = self.params.first_burst.min(task.expected_out).checked_sub(task.early_bytes).is_some_and(|room| len <= room);
            if d.offset != task.early_bytes || !fits {
                return self.end(cx, "data that nobody asked for");
            }
            task.early_bytes += len;
            task.add_early(data);
            if d.last {
                self.go_on(cx, slot);
            }
            return;
        };
        let end = d.offset.checked_add(len);
        if d.offset != task.received || end.is_none_or(|end| end > asked.end || d.last != (end == asked.end)) {
            return self.end(cx, "data of another length or place than was asked for");
        }
        if task.aborted {
            return;
        }
        task.put(data);
        if d.last {
            self.sequence_ends(cx, slot);
        }
    }

    /// All data of an R2T has come.
    fn sequence_ends(&mut self, cx: &mut Cx<'_>, slot: u16) {
        let task = &mut self.tasks[slot.into()];
        task.asked.pop_front();
        task.data_sn = 0;
        if task.received == task.wanted { self.begin(cx, slot) } else { self.ask(slot) }
    }

    /// The task that data is for that was asked for and is as it should be. What is not is looked at when it is whole: see [`Session::on_data_out`].
    fn flowing(&self, d: &DataOut) -> Option<u16> {
        let slot = *self.by_tag.get(&d.tag)?;
        let task = &self.tasks[slot.into()];
        let asked = task.asked.front()?;
        let fits = task.phase == Phase::Solicited && !task.incomplete && !task.aborted && asked.transfer_tag == d.transfer_tag;
        fits.then_some(slot)
    }
    /// Whether the data of a PDU goes to its task as it comes.
    pub(super) fn flows(&self, wire: usize, header: &Header) -> bool {
        let (Ok(HostPdu::DataOut(d)), super::Phase::Full) = (HostPdu::parse(header), &self.phase) else { return false };
        let Some(task) = self.flowing(&d).map(|slot| &self.tasks[slot.into()]) else { return false };
        let end = d.offset.checked_add(Parts::parse(header).data_bytes as u32);
        let fits = |end: u32| task.asked.front().is_some_and(|a| end <= a.end && d.last == (end == a.end));
        task.wire == wire && d.data_sn == task.data_sn && d.offset == task.received && end.is_some_and(fits)
    }
    /// A part of it.
    pub(super) fn on_flowing(&mut self, header: &Header, part: &[u8]) {
        let Ok(HostPdu::DataOut(d)) = HostPdu::parse(header) else { return };
        // One that was aborted meanwhile has no use for it.
        if let Some(slot) = self.flowing(&d) {
            self.tasks[slot.into()].put(part);
        }
    }
    /// All of it has come, and is right.
    pub(super) fn on_flowed(&mut self, cx: &mut Cx<'_>, header: &Header) {
        let Ok(HostPdu::DataOut(d)) = HostPdu::parse(header) else { return };
        let Some(slot) = self.flowing(&d) else { return };
        let task = &mut self.tasks[slot.into()];
        task.data_sn = task.data_sn.wrapping_add(1);
        if d.last {
            self.sequence_ends(cx, slot);
        }
    }

    /// All unsolicited data of a task has come.
    fn go_on(&mut self, cx: &mut Cx<'_>, slot: u16) {
        let task = &mut self.tasks[slot.into()];
        if task.aborted {
            return self.drop_task(cx, slot);
        }
        if let Job::Answer(outcome) = &mut task.job {
            let outcome = core::mem::replace(outcome, Outcome::GOOD);
            return self.finish(cx, slot, outcome);
        }
        let needs_memory = matches!(task.job, Job::Read { .. }) || task.wants_more();
        if !needs_memory {
            return self.begin(cx, slot);
        }
        let (Some(unit), len) = (task.unit, task.memory()) else { return };
        if unit.limited
            && let Job::Read { offset, .. } | Job::Write { offset, .. } | Job::CompareWrite { offset, .. } | Job::Compare { offset, .. } =
                task.job
        {
            task.phase = Phase::Turn;
            let op = IoOp::Turn { offset, len, requests: 1 };
            return cx.ios.push(IoRequest::new(self.token | u64::from(slot), unit.volume, op));
        }
        self.want_memory(cx, slot);
    }

    pub(super) fn want_memory(&mut self, cx: &mut Cx<'_>, slot: u16) {
        self.tasks[slot.into()].phase = Phase::Memory;
        self.waiting.push_back(slot);
        self.grant_memory(cx);
    }

    /// Memory that commands may hold now, by how long the oldest has.
    fn room(&self, now: Instant) -> u64 {
        let oldest = self.tasks.iter().filter(|(_, t)| t.held > 0).map(|(_, t)| now.since(t.granted).as_nanos()).max();
        oldest.map_or(DATA_NEAR_MAX, |ns| u64::try_from(ns).unwrap_or(u64::MAX).clamp(DATA_NEAR_MAX, DATA_HELD_MAX))
    }

    /// Gives memory to those that wait for it, in their order, as far as there is some. One goes on even without the host's quota.
    pub(super) fn grant_memory(&mut self, cx: &mut Cx<'_>) {
        while let Some(slot) = self.waiting.front().copied() {
            let Some(memory) = self.tasks.get(slot.into()).map(Task::memory) else {
                self.waiting.pop_front();
                continue;
            };
            let sum = self.held + memory;
            let fits = sum <= DATA_NEAR_MAX || sum <= self.room(cx.now);
            let covered = fits && self.place.as_mut().is_none_or(|p| p.covers(sum));
            if !covered && self.held > 0 {
                break;
            }
            self.waiting.pop_front();
            let task = &mut self.tasks[slot.into()];
            (task.held, task.granted) = (memory, cx.now);
            self.held = sum;
            if matches!(task.job, Job::Read { .. } | Job::Copy(_)) {
                self.begin(cx, slot);
            } else {
                task.phase = Phase::Solicited;
                task.make_room();
                self.ask(slot);
            }
        }
    }

    /// Asks for the next data of a task, as far as it may be asked for at once.
    fn ask(&mut self, slot: u16) {
        let task = &mut self.tasks[slot.into()];
        let Some(w) = self.wires.get_mut(task.wire) else { return };
        let mut offset = task.asked.back().map_or(task.received, |a| a.end);
        if task.asked.is_empty() {
            task.data_sn = 0;
        }
        while offset < task.wanted && task.asked.len() < self.params.r2ts as usize {
            self.r2ts = self.r2ts.wrapping_add(1);
            // Never NO_TAG: the slot is not as high.
            let transfer_tag = u32::from(slot) << 16 | self.r2ts & 0xFFFF;
            let bytes = (task.wanted - offset).min(self.params.max_burst);
            task.asked.push_back(super::task::Asked { transfer_tag, end: offset + bytes });
            let r2t = ReadyToTransfer {
                lun: task.lun,
                tag: task.tag,
                transfer_tag,
                stat_sn: w.out.stat_sn(),
                r2t_sn: task.r2t_sn,
                offset,
                bytes,
                ..ReadyToTransfer::default()
            };
            task.r2t_sn += 1;
            w.out.push(r2t.to_header(0));
            offset += bytes;
        }
    }

    /// All data of a task is there: its first request goes to the volume, if it may now.
    fn begin(&mut self, cx: &mut Cx<'_>, slot: u16) {
        let task = &mut self.tasks[slot.into()];
        task.phase = Phase::Io;
        if let Err(outcome) = Self::may_task(&self.who, self.host_id, cx, task) {
            return if matches!(task.job, Job::Copy(_)) { self.end_copy(cx, slot, outcome) } else { self.finish(cx, slot, outcome) };
        }
        match task.job {
            Job::Reserve(p) => return self.reserve(cx, slot, &p),
            Job::Unit { take } => return self.take_unit(cx, slot, take),
            Job::CopyList => return self.begin_copy(cx, slot),
            Job::Copy(_) => return self.copy_read(cx, slot),
            _ => {}
        }
        match task.first_op() {
            Ok(Some(op)) => self.submit(cx, slot, op),
            Ok(None) => self.finish(cx, slot, Outcome::GOOD),
            Err(outcome) => self.finish(cx, slot, outcome),
        }
    }

    fn submit(&mut self, cx: &mut Cx<'_>, slot: u16, op: IoOp) {
        let task = &self.tasks[slot.into()];
        let Some(unit) = &task.unit else { return };
        let request = IoRequest::new(self.token | u64::from(slot), unit.volume, op);
        cx.ios.push(IoRequest { counted: task.counted, ..request });
    }

    pub(super) fn may_task(who: &crate::login::Who, id: base::HostId, cx: &Cx<'_>, task: &Task) -> Result<(), Outcome> {
        let Some(then) = &task.unit else { return Ok(()) };
        if let Job::Copy(run) = &task.job {
            return run.may(|lun| cx.view.unit(&who.target, lun, &who.host, id));
        }
        let now = cx.view.unit(&who.target, then.lun, &who.host, id).filter(|u| u.volume == then.volume && u.shift == then.shift);
        let now = now.ok_or_else(|| Outcome::from(illegal(SenseCode::LOGICAL_UNIT_NOT_SUPPORTED)))?;
        judge::may(&now, &task.job)
    }

    /// Whether a request that a limit has held back may begin.
    pub fn may_begin(&self, cx: &Cx<'_>, request: u64) -> bool {
        let task = self.tasks.get((request & 0xFFFF) as usize).filter(|t| !t.aborted);
        task.is_some_and(|t| Self::may_task(&self.who, self.host_id, cx, t).is_ok())
    }

    /// Its requests that are with their volumes.
    pub fn with_volumes(&self) -> impl Iterator<Item = (u64, VolumeRef)> + '_ {
        let of = |(slot, t): (usize, &Task)| Some((self.token | slot as u64, t.volume().filter(|_| t.is_with_volume())?));
        self.tasks.iter().filter_map(of)
    }
    /// Those of them that may not be there by what is served now.
    pub fn fenced(&self, cx: &Cx<'_>) -> Vec<(u64, VolumeRef)> {
        let may = |t: &Task| Self::may_task(&self.who, self.host_id, cx, t).is_ok();
        self.with_volumes().filter(|(request, _)| !may(&self.tasks[(request & 0xFFFF) as usize])).collect()
    }

    /// The volume's answer.
    pub fn on_io_done(&mut self, cx: &mut Cx<'_>, done: IoDone) {
        let slot = (done.token & 0xFFFF) as u16;
        let over = self.is_over();
        let Some(task) = self.tasks.get_mut(slot.into()) else { return };
        if task.aborted || over {
            return self.drop_task(cx, slot);
        }
        if matches!(task.job, Job::Copy(_)) {
            return self.copy_done(cx, slot, done);
        }
        if let Err(error) = done.result {
            let mut outcome = of_error(error, task.unit.as_ref());
            if error == IoError::Withdrawn
                && let Err(why) = Self::may_task(&self.who, self.host_id, cx, task)
            {
                outcome = why;
            }
            return self.finish(cx, slot, outcome);
        }
        if task.phase == Phase::Turn {
            task.counted = true;
            return self.want_memory(cx, slot);
        }
        if let Job::Read { .. } = task.job {
            return self.finish_read(cx, slot, done.data);
        }
        if hooks::seeded(SeededFault::DoneJudgedAgain)
            && let Err(outcome) = Self::may_task(&self.who, self.host_id, cx, task)
        {
            return self.finish(cx, slot, outcome);
        }
        // What was carried out is answered so, though it might not be any more.
        match task.next_op(done.data) {
            Ok(None) => self.finish(cx, slot, Outcome::GOOD),
            // So is a write that is to be verified: that it may be read is not the host's affair.
            Ok(Some(op @ IoOp::Verify { .. })) => self.submit(cx, slot, op),
            Ok(Some(op)) => match Self::may_task(&self.who, self.host_id, cx, task) {
                Ok(()) => self.submit(cx, slot, op),
                Err(outcome) => self.finish(cx, slot, outcome),
            },
            Err(outcome) => self.finish(cx, slot, outcome),
        }
    }

    /// Takes a task out; its memory is free when `free`.
    fn take_task(&mut self, slot: u16, free: bool) -> Option<Task> {
        let task = self.tasks.try_remove(slot.into())?;
        self.by_tag.remove(&task.tag);
        self.waiting.retain(|s| *s != slot);
        if free {
            self.held -= task.held;
        }
        Some(task)
    }

    /// An aborted task has nothing under way any more.
    pub(super) fn drop_task(&mut self, cx: &mut Cx<'_>, slot: u16) {
        self.take_task(slot, true);
        self.answer_managements();
        self.grant_memory(cx);
    }

    /// Answers a command.
    pub(super) fn finish(&mut self, cx: &mut Cx<'_>, slot: u16, outcome: Outcome) {
        let Some(task) = self.take_task(slot, true) else { return };
        let good = matches!(outcome, Outcome::Good(_)).then_some(task.wanted.into());
        self.count(cx, &task, good);
        match outcome {
            Outcome::Good(data) if !data.is_empty() => {
                let parts = vec![Buf::copy_of(&data)];
                self.send_data(&task, parts, data.len() as u64, 0);
            }
            Outcome::Good(_) => self.respond(&task, ScsiStatus::Good, &[], 0),
            Outcome::Status(status) => self.respond(&task, status, &[], 0),
            Outcome::Sense(sense) => {
                cx.stats.check_conditions += 1;
                self.respond(&task, ScsiStatus::CheckCondition, &sense.to_bytes(false), 0);
            }
        }
        self.grant_memory(cx);
    }

    /// Counts a command that is answered, with its host. `good`: with so many bytes of data.
    fn count(&self, cx: &mut Cx<'_>, task: &Task, good: Option<u64>) {
        let figures = cx.stats.hosts.class(self.counted.unwrap_or(HostPlace::NONE), task.class);
        figures.commands += 1;
        figures.latency.record(cx.now.since(task.since).as_nanos() as u64);
        match good {
            Some(bytes) => figures.bytes += bytes,
            None => figures.errors += 1,
        }
    }

    fn finish_read(&mut self, cx: &mut Cx<'_>, slot: u16, data: DataVec) {
        let Some(task) = self.take_task(slot, false) else { return };
        let bytes = data.iter().map(|d| d.buf.len() as u64).sum();
        cx.stats.read_bytes += bytes;
        self.count(cx, &task, Some(bytes));
        self.send_data(&task, data.into_iter().map(|d| d.buf).collect(), bytes, task.held);
        self.grant_memory(cx);
    }

    /// A response without data but sense data; `bytes_in`: data that there was for the host.
    fn respond(&mut self, task: &Task, status: ScsiStatus, sense: &[u8], bytes_in: u64) {
        let Some(w) = self.wires.get_mut(task.wire) else { return };
        let good = status == ScsiStatus::Good;
        let (overflow, underflow, residual) = if task.expected_out > 0 || task.transfer_out > 0 {
            residual(if good { task.transfer_out } else { task.expected_out.into() }, task.expected_out)
        } else {
            residual(if good { bytes_in } else { 0 }, task.expected_in)
        };
        let response = ScsiResponse {
            overflow,
            underflow,
            residual,
            status: status.byte(),
            tag: task.tag,
            stat_sn: w.out.take_stat_sn(),
            exp_data_sn: task.r2t_sn,
            ..ScsiResponse::default()
        };
        if sense.is_empty() {
            return w.out.push(response.to_header(0));
        }
        let data = [&(sense.len() as u16).to_be_bytes()[..], sense].concat();
        w.out.push_bytes(response.to_header(data.len()), &data);
    }

    /// Sends data, as much as the host expects, and the status with the last of it. `held` is free when it is sent.
    fn send_data(&mut self, task: &Task, parts: Vec<Buf>, bytes: u64, held: u64) {
        let send = bytes.min(task.expected_in.into()) as u32;
        if send == 0 {
            self.held -= held;
            return self.respond(task, ScsiStatus::Good, &[], bytes);
        }
        let Some(w) = self.wires.get_mut(task.wire) else { return };
        let (overflow, underflow, residual) = residual(bytes, task.expected_in);
        let (mut at, mut sn, mut burst) = (0u32, 0u32, 0u32);
        for mut part in parts {
            let (mut from, len) = (0, part.len());
            while from < len && at < send {
                let room = (self.params.max_burst - burst).min(w.host_segment).min(send - at) as usize;
                let n = room.min(len - from);
                // Parts of a sequence but its last are whole words, as nothing pads in between: pieces and segments are.
                let end = at + n as u32;
                let last = end == send;
                burst += n as u32;
                let mut data = DataIn { tag: task.tag, transfer_tag: NO_TAG, data_sn: sn, offset: at, ..DataIn::default() };
                data.last = last || burst == self.params.max_burst;
                if last {
                    data.has_status = true;
                    data.stat_sn = w.out.take_stat_sn();
                    (data.overflow, data.underflow, data.residual) = (overflow, underflow, residual);
                }
                let buf = part.share();
                w.out.push_data(data.to_header(n), Some((buf, from..from + n)), if last { held } else { 0 });
                (at, sn, from) = (end, sn + 1, from + n);
                burst = if burst == self.params.max_burst { 0 } else { burst };
            }
        }
    }
}

/// Overflow, underflow and the residual count of so many bytes where others were expected.
fn residual(bytes: u64, expected: u32) -> (bool, bool, u32) {
    let expected = u64::from(expected);
    let differ = u32::try_from(bytes.abs_diff(expected)).unwrap_or(u32::MAX);
    (bytes > expected, bytes < expected, differ)
}

/// Data of a request, with its checksums where it is made of whole blocks.
fn data_of(buf: Buf, offset: u64) -> Data {
    let whole = offset.is_multiple_of(BLOCK_BYTES as u64) && buf.len().is_multiple_of(BLOCK_BYTES);
    let crcs = if whole { buf.chunks(BLOCK_BYTES).map(crc32c).collect() } else { Default::default() };
    Data { buf, crcs }
}

impl Task {
    /// How much of what the host sends is taken: whole blocks.
    fn bound(&mut self) {
        let most = self.transfer_out.min(self.expected_out.into()) as u32;
        let block = self.unit.map_or(512, |u| u.block_bytes());
        match &mut self.job {
            Job::Write { len, atomic: false, .. } => {
                *len = most / block * block;
                self.wanted = *len;
                if *len == 0 {
                    self.job = Job::Answer(Outcome::GOOD);
                }
            }
            Job::Answer(_) | Job::Read { .. } | Job::Verify { .. } | Job::Flush | Job::Trim(_) | Job::Unit { .. } => {}
            Job::CompareWrite { .. }
            | Job::Write { .. }
            | Job::Compare { .. }
            | Job::Same { .. }
            | Job::Unmap
            | Job::ModeSelect { .. }
            | Job::CopyList
            | Job::Copy(_)
            | Job::Reserve(_) => self.wanted = most,
        }
        // Of these a part cannot be carried out, and what is more makes no sense.
        let differs = self.transfer_out != u64::from(self.expected_out);
        let short = self.transfer_out > u64::from(most);
        let refused = match self.job {
            Job::CompareWrite { .. } | Job::Same { .. } | Job::Write { atomic: true, .. } => differs,
            Job::Compare { .. } => short,
            _ => false,
        };
        if refused {
            (self.job, self.wanted) = (Job::Answer(illegal(SenseCode::INVALID_FIELD_IN_CDB).into()), 0);
        } else if matches!(self.job, Job::CompareWrite { len: 0, .. }) {
            self.job = Job::Answer(Outcome::GOOD);
        }
    }

    /// What it asks of its volume first; `None`: there is nothing to ask.
    fn first_op(&mut self) -> Result<Option<IoOp>, Outcome> {
        let unit = self.unit.ok_or_else(|| Outcome::from(illegal(SenseCode::LOGICAL_UNIT_NOT_SUPPORTED)))?;
        Ok(Some(match self.job {
            Job::Read { offset, len } => IoOp::Read { offset, len },
            Job::Write { offset, len, .. } => self.write(offset, len),
            Job::Verify { offset, len } => IoOp::Verify { offset, len },
            Job::Flush => IoOp::Flush,
            Job::Compare { offset, len } => IoOp::Read { offset, len },
            Job::CompareWrite { offset, len } => {
                let all = self.gathered();
                let (compare, data) = all.split_at(len as usize);
                let compare = Data { buf: Buf::copy_of(compare), crcs: Default::default() };
                IoOp::CompareWrite { offset, both: Box::new(CompareWrite { compare, data: data_of(Buf::copy_of(data), offset) }) }
            }
            Job::Same { .. } => {
                let block = self.gathered();
                if let Job::Same { pattern, .. } = &mut self.job {
                    *pattern = (!is_zero(&block)).then_some(block);
                }
                return Ok(self.same());
            }
            Job::Unmap => {
                let list = self.gathered();
                let mut ranges = parse_unmap(&list, UNMAP_RANGES_MAX)?;
                if hooks::seeded(SeededFault::UnmapRangeForgotten) {
                    ranges.pop();
                }
                if ranges.iter().map(|r| u64::from(r.blocks)).sum::<u64>() > UNMAP_BLOCKS_MAX {
                    return Err(Invalid::parameter(8).into());
                }
                for r in &ranges {
                    in_range(&unit, r.lba, r.blocks.into())?;
                }
                let bytes = |lba: u64, blocks: u32| ByteRange { offset: lba << unit.shift, len: u64::from(blocks) << unit.shift };
                self.job = Job::Trim(RangeTrim::new(ranges.iter().map(|r| bytes(r.lba, r.blocks))));
                return self.next_op(DataVec::new());
            }
            Job::ModeSelect { long } => {
                let list = self.gathered();
                unit::mode_select(&unit, long, &list)?;
                return Ok(None);
            }
            Job::Trim(_) | Job::Answer(_) | Job::Reserve(_) | Job::Unit { .. } | Job::CopyList | Job::Copy(_) => return Ok(None),
        }))
    }

    /// What it asks of its volume after an answer with this data; `None`: it is done.
    fn next_op(&mut self, data: DataVec) -> Result<Option<IoOp>, Outcome> {
        Ok(match &mut self.job {
            Job::Write { offset, len, verify: true, .. } => {
                let op = IoOp::Verify { offset: *offset, len: (*len).into() };
                self.job = Job::Flush;
                Some(op)
            }
            Job::Compare { .. } => {
                let sent = self.gathered();
                let there = data.iter().flat_map(|d| d.buf.iter());
                if hooks::seeded(SeededFault::VerifyUncompared) {
                    return Ok(None);
                }
                if let Some(at) = there.zip(sent.iter().cycle()).position(|(a, b)| a != b) {
                    let sense = Sense::new(SenseKey::Miscompare, SenseCode::MISCOMPARE_DURING_VERIFY);
                    return Err(sense.with_information(at as u64).into());
                }
                None
            }
            Job::Same { .. } => self.same(),
            Job::Trim(trim) => trim.next(),
            _ => None,
        })
    }

    fn write(&mut self, offset: u64, len: u32) -> IoOp {
        let list = extents(offset, len);
        if self.parts.is_empty() {
            let mut at = 0;
            for e in &list {
                self.parts.push(Buf::copy_of(&self.early[at..at + e.len as usize]));
                at += e.len as usize;
            }
        }
        let data = self.parts.drain(..).zip(&list).map(|(buf, e)| data_of(buf, e.offset)).collect();
        IoOp::Write { offset, data }
    }

    /// The next step of WRITE SAME: up to the end of a piece, or all of it when the block is zero.
    fn same(&mut self) -> Option<IoOp> {
        let Job::Same { at, end, unmap, pattern } = &mut self.job else { return None };
        let (offset, left) = (*at, *end - *at);
        if left == 0 {
            return None;
        }
        let Some(block) = pattern else {
            *at = *end;
            let len = left;
            return Some(if *unmap { IoOp::Trim { offset, len } } else { IoOp::Zero { offset, len } });
        };
        let len = left.min(PIECE_BYTES - offset % PIECE_BYTES);
        *at += len;
        let mut buf = Buf::alloc(len as usize);
        buf.chunks_mut(block.len()).for_each(|c| c.copy_from_slice(block));
        Some(IoOp::Write { offset, data: [data_of(buf, offset)].into_iter().collect() })
    }
}
