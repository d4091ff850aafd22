//! Turns: what a controller keeps over a reset and what not, a fused operation of which one half is aborted, and space that is promised and then not.

use super::*;
use dataplane::ComponentSpec;
use format::nvme::Fuse;

const BLOCK: u64 = 4096;

impl Exam<'_> {
    /// A reset forgets events, and which were sent; the next change is one again.
    pub(super) fn resets(&mut self) -> Held {
        let of = self.subject();
        let port = self.port(1, 0, feature::AEC_NAMESPACE)?;
        self.changed(&port, false)?;
        for _ in 0..2 {
            // One event is sent and its log not read; of another request nothing comes.
            let sent = self.request_event(&port)?;
            self.request_event(&port)?;
            self.protect(&of, true)?;
            self.comes(&port, sent, true, "a change")?;
            let cc = |en| Config { en, iosqes: 6, iocqes: 4, ..Config::default() }.bits();
            for en in [false, true] {
                self.admin(port.admin, PropertyAccess::set_sqe(0, property::CC, false, cc(en).into()), Payload::None)?;
            }
            let read = self.changed(&port, true)?;
            self.must(read.is_empty(), || format!("after a reset the log names {read:?}"))?;
            let next = self.request_event(&port)?;
            self.protect(&of, false)?;
            self.comes(&port, next, false, "after a reset no events are wanted")?;
            let sqe = SetFeatures { fid: feature::FID_ASYNC_EVENTS, save: false, cdw11: feature::AEC_NAMESPACE, nsid: 0 }.sqe(0);
            self.admin(port.admin, sqe, Payload::None)?;
            self.comes(&port, next, true, "a change that was not read of, after a reset")?;
            let read = self.changed(&port, false)?;
            self.must(read.iter().eq([&of.ns.nsid]), || format!("the log names {read:?}"))?;
            let next = self.request_event(&port)?;
            self.protect(&of, true)?;
            self.comes(&port, next, true, "a change, after a reset and a log that was read")?;
            self.protect(&of, false)?;
            self.changed(&port, false)?;
        }
        Ok(())
    }
    fn protect(&mut self, of: &Subject, on: bool) -> Held {
        self.act(|volume| Act::Protect { volume, on }, of.at)
    }

    /// A first half that is aborted takes the second with it, and nothing else.
    pub(super) fn halves(&mut self) -> Held {
        let of = self.subject();
        let (port, lba) = (self.port(1, 0, 0)?, of.ns.lba_bytes);
        let link = port.io[0];
        let (old, new) = (self.value(), self.value());
        let (old, new) = (bytes_of(lba, &[old]), bytes_of(lba, &[new]));
        self.good(link, &of, Io::Write { offset: 0, data: old.clone(), fua: false })?;
        let half = |io: Io, fuse| {
            let request = io.request(&of.ns, 0);
            Request { sqe: Sqe { fuse, ..request.sqe }, ..request }
        };
        let compare = |data: &Vec<u8>| half(Io::Compare { offset: 0, data: data.clone() }, Fuse::First);
        let write = |data: &Vec<u8>| half(Io::Write { offset: 0, data: data.clone(), fua: false }, Fuse::Second);
        for in_capsule in [true, false] {
            self.examiner.borrow_mut().in_capsule(link, if in_capsule { 4096 } else { 0 });
            let (first, cid) = self.send_known(link, compare(&old))?;
            self.pause(Duration::from_millis(100));
            self.abort(&port, 1, cid, Some(true))?;
            let status = self.answer(link, first, "a half that was aborted")?.0.cqe.status;
            self.is(status, StatusCode::ABORT_REQUESTED, "a half that was aborted")?;
            // Other commands fill the place that it had.
            let other = if self.rng.one_in(2) { 0 } else { 3 };
            let second = self.send(link, write(&new))?;
            let mut reads = Vec::new();
            for _ in 0..other {
                reads.push(self.send(link, Io::Read { offset: 0, len: lba }.request(&of.ns, 0))?);
            }
            let status = self.answer(link, second, "the half of one that was aborted")?.0.cqe.status;
            self.is(status, StatusCode::ABORTED_FAILED_FUSED, "the half of one that was aborted")?;
            for tag in reads {
                let status = self.answer(link, tag, "a read behind it")?.0.cqe.status;
                self.must(status.is_success(), || format!("a read behind it failed with {status:?}"))?;
            }
            let found = self.good(link, &of, Io::Read { offset: 0, len: lba })?.payload.into_bytes();
            self.must(found == old, || "half of a fused operation was carried out".into())?;
        }
        // A first half whose second does not come, and whole ones: one that fails and one that does not.
        let alone = self.send(link, compare(&old))?;
        self.good(link, &of, Io::Read { offset: 0, len: lba })?;
        let status = self.answer(link, alone, "a half alone")?.0.cqe.status;
        self.is(status, StatusCode::ABORTED_MISSING_FUSED, "a half alone")?;
        for (expected, codes) in
            [(&new, [StatusCode::COMPARE_FAILURE, StatusCode::ABORTED_FAILED_FUSED]), (&old, [StatusCode::SUCCESS, StatusCode::SUCCESS])]
        {
            let tags = [self.send(link, compare(expected))?, self.send(link, write(&new))?];
            for (tag, code) in tags.into_iter().zip(codes) {
                let status = self.answer(link, tag, "a half of a whole")?.0.cqe.status;
                self.is(status, code, "a half of a whole")?;
            }
        }
        let found = self.good(link, &of, Io::Read { offset: 0, len: lba })?.payload.into_bytes();
        self.must(found == new, || "a fused operation that succeeded has not come".into())?;
        self.examiner.borrow_mut().in_capsule(link, 4096);
        self.empty(link, &of)
    }

    /// What is promised to one is refused to others, to the last chunk, as soon as it is promised, and not any more when it is not.
    pub(super) fn promises(&mut self) -> Held {
        let live = self.lab.workload.borrow().all_live();
        let of = live.into_iter().map(|at| self.subject_at(at)).find(|of| !self.lab.operator.place_of(of.at).1);
        let Some(of) = of else { return Err(Stop::Cannot) };
        let port = self.port(1, 0, 0)?;
        let link = port.io[0];
        self.until("space is not free", |stats| stats.cores.iter().flat_map(|c| &c.shards).all(|s| s.stats.chunks_allocated == 0))?;
        let device = self.lab.operator.place_of(of.at).0;
        let stats = self.stats()?;
        let group = &stats.groups[0].info;
        let (shards, id) = (u64::from(group.shards), group.group);
        let free = |stats: &NodeStats| {
            let space = |s: &dataplane::ShardSnapshot| s.stats.space[usize::from(device)];
            stats.cores.iter().flat_map(|c| &c.shards).map(|s| space(s).free - space(s).promised).collect::<Vec<_>>()
        };
        let before = free(&stats);
        let Some(&least) = before.iter().min().filter(|n| **n > 2 && before.iter().max() == Some(*n)) else { return Err(Stop::Cannot) };
        let spec = ComponentSpec {
            id: base::ComponentId::from_bytes([250; 16]),
            object: base::ObjectId::from_bytes([250; 16]),
            capacity_index: device,
            bytes: 1 << 30,
            reserve_chunks: 0,
            descriptor: vec![250],
        };
        let made = self.lab.command(|o| o.create_component(id, spec));
        let Some(Ok(no)) = made else { return Err(Stop::Wrong(format!("a component could not be made: {made:?}"))) };
        let write = || Io::Write { offset: 0, data: vec![7; BLOCK as usize], fua: false };
        for (promised, left) in [(least, 0), (least - 1, 1), (least, 0), (0, least)] {
            let set = self.lab.command(|o| o.update_component(id, no, 1 << 30, promised * shards, vec![250]));
            self.must(matches!(set, Some(Ok(()))), || format!("{promised} chunks of a shard could not be promised: {set:?}"))?;
            let now = free(&self.stats()?);
            self.must(now.iter().all(|n| *n == left), || {
                format!("of {least} free chunks of each shard {promised} were promised, and {now:?} are free for others")
            })?;
            if left == 0 {
                self.refused(link, &of, write(), StatusCode::CAPACITY_EXCEEDED)?;
                continue;
            }
            self.good(link, &of, write())?;
            self.empty(link, &of)?;
            self.until("space is not free", |stats| free(stats).iter().all(|n| *n == left))?;
        }
        let deleted = self.lab.command(|o| o.delete_component(id, no));
        self.must(matches!(deleted, Some(Ok(()))), || format!("a component could not be deleted: {deleted:?}"))
    }
}
