//! Trouble: the log cannot be written for a while, a checkpoint is in its middle then; bits flip on the way of a scrub; a connection is gone with a
//! write under way when others take the rights; a disk group does not open at first. What must be right in the end, and what must not be held back.

use super::*;
use crate::faults::Fault;
use crate::faults::aimed::Target;
use crate::operator::settings;
use dataplane::{Settings, ShardStats};
use initiator::reservation::Reservation;

const BLOCK: u64 = 4096;
const CHUNK: u64 = 64 << 10;
const PIECE: u64 = 1 << 20;
/// How long the log's device does not answer.
const STALL: Duration = Duration::from_millis(400);

fn shards(stats: &NodeStats) -> impl Iterator<Item = &ShardStats> {
    stats.cores.iter().flat_map(|c| &c.shards).map(|s| &s.stats)
}

impl Exam<'_> {
    /// The log gives up: changes fail and have no effect, reads go on; afterwards nothing is kept by what failed, and the log is emptied.
    pub(super) fn outage(&mut self) -> Held {
        let of = self.subject();
        let port = self.port(1, 0, 0)?;
        let link = port.io[0];
        if of.ns.bytes() < 4 * CHUNK {
            return Err(Stop::Cannot);
        }
        self.drains_at_once(true)?;
        let value = self.value();
        let data = bytes_of(BLOCK as u32, &[value]);
        self.good(link, &of, Io::Write { offset: 0, data: data.clone(), fua: false })?;
        self.lab.fail_all(0, true);
        let other = vec![1; BLOCK as usize];
        let changes = [
            Io::WriteUncorrectable { offset: CHUNK, len: BLOCK },
            Io::Write { offset: 2 * CHUNK, data: other.clone(), fua: false },
            Io::WriteUncorrectable { offset: 3 * CHUNK, len: BLOCK },
            Io::Deallocate(vec![(0, BLOCK)]),
            Io::WriteZeroes { offset: 0, len: BLOCK, deallocate: true },
        ];
        let mut tags = Vec::new();
        for io in changes {
            let what = Self::words(&io);
            tags.push((self.send(link, io.request(&of.ns, 0))?, what));
        }
        for (tag, what) in tags {
            let status = self.answer(link, tag, &what)?.0.cqe.status;
            self.is(status, StatusCode::NAMESPACE_NOT_READY, &format!("{what}, while the log cannot be written,"))?;
        }
        let found = self.good(link, &of, Io::Read { offset: 0, len: BLOCK as u32 })?.payload.into_bytes();
        self.must(found == data, || "what was refused has changed what is there".into())?;
        self.lab.fail_all(0, false);
        self.writes_again(link, &of)?;
        for at in 1..4 {
            let found = self.good(link, &of, Io::Read { offset: at * CHUNK, len: BLOCK as u32 })?.payload.into_bytes();
            self.must(found.iter().all(|b| *b == 0), || "what was refused has happened".into())?;
        }
        // A checkpoint waits for the batch that carries its tail.
        let aim = Fault::Aim { device: 0, target: Target::Tail, nth: 1, fails: u32::MAX, alike: false, full: false, death: None };
        self.lab.strike(&aim);
        for at in 0..40 {
            let io = Io::Write { offset: at % 4 * CHUNK, data: other.clone(), fua: false };
            if !self.io(link, &of, io)?.cqe.status.is_success() {
                break;
            }
            self.pause(Duration::from_millis(20));
        }
        self.lab.fail_all(0, false);
        self.writes_again(link, &of)?;
        self.empty(link, &of)?;
        // The checkpoint that the outage ended is not tried again before the next is due, which is after ten seconds.
        self.pause(Duration::from_secs(10));
        let segment = u64::from(self.stats()?.groups[0].info.geometry.log.segment_bytes);
        self.until("a log is not emptied though nothing is to be done", |stats| shards(stats).all(|s| s.log_used_bytes <= segment))?;
        self.drains_at_once(false)
    }
    /// Within seconds changes are taken again.
    fn writes_again(&mut self, link: usize, of: &Subject) -> Held {
        // One in the lane of each shard.
        for at in 0..of.ns.bytes().min(16 << 20).div_ceil(PIECE) {
            let mut last = Status::SUCCESS;
            for _ in 0..100 {
                last = self.io(link, of, Io::Deallocate(vec![(at * PIECE, BLOCK)]))?.cqe.status;
                if last.is_success() {
                    break;
                }
                self.pause(Duration::from_millis(100));
            }
            self.must(last.is_success(), || format!("the log can be written again, and changes fail: {last:?}"))?;
        }
        let io = Io::Write { offset: 0, data: vec![1; BLOCK as usize], fua: false };
        self.good(link, of, io).map(drop)
    }
    /// The log is emptied as soon as nothing comes, or as the plan has it.
    fn drains_at_once(&mut self, at_once: bool) -> Held {
        let usual = settings(&self.lab.workload.borrow().plan);
        let quick = Settings { idle_drain: Duration::from_millis(1), ..usual };
        let set = self.lab.command(|o| o.set_settings(if at_once { quick } else { usual }));
        self.must(matches!(set, Some(Ok(()))), || "settings were refused".into())
    }

    /// A bit that flips on the way of a scrub is no damage.
    pub(super) fn flips(&mut self) -> Held {
        let of = self.subject();
        let port = self.port(1, 0, 0)?;
        self.drains_at_once(true)?;
        for at in (0..of.ns.bytes().min(4 << 20) / CHUNK).step_by(3) {
            let value = self.value();
            self.good(port.io[0], &of, Io::Write { offset: at * CHUNK, data: bytes_of(BLOCK as u32, &[value; 16]), fua: false })?;
        }
        self.until("what was written does not come to capacity", |stats| shards(stats).all(|s| s.log_live_bytes == 0))?;
        let figures =
            |stats: &NodeStats| shards(stats).map(|s| (s.scrub_passes, s.checksum_errors, s.bad_blocks.len())).collect::<Vec<_>>();
        let stats = self.stats()?;
        let (before, group) = (figures(&stats), stats.groups[0].info.group);
        let devices = self.lab.devices();
        for device in 0..devices {
            self.lab.strike(&Fault::FlipReads { device, times: 1 });
        }
        let begun = self.lab.command(|o| o.scrub(group));
        self.must(matches!(begun, Some(Ok(()))), || "a scrub was refused".into())?;
        self.until("a scrub comes to no end", |stats| figures(stats).iter().zip(&before).all(|(now, then)| now.0 > then.0))?;
        for device in 0..devices {
            self.lab.fail_all(device, false);
        }
        let after = figures(&self.stats()?);
        let same = after.iter().zip(&before).all(|(now, then)| (now.1, now.2) == (then.1, then.2));
        self.must(same, || format!("a bit flipped on the way, once, and a scrub counts bad blocks: {before:?}, then {after:?}"))?;
        self.drains_at_once(false)?;
        self.empty(port.io[0], &of)
    }

    /// A reservation is answered when what a connection that is gone had under way has ended.
    pub(super) fn left(&mut self) -> Held {
        let of = self.subject();
        let (mine, other) = (self.port(2, 0, 0)?, self.port(1, 0, 0)?);
        let key = 7;
        self.reserve_as(&other, &of, Reservation::Register { key, cptpl: 0 })?;
        let value = self.value();
        let data = bytes_of(of.ns.lba_bytes, &[value]);
        let end = self.now() + STALL.as_nanos() as u64;
        self.lab.strike(&Fault::Stall { device: 0, for_ns: STALL.as_nanos() as u64 });
        let tag = self.send(mine.io[0], Io::Write { offset: 0, data: data.clone(), fua: false }.request(&of.ns, 0))?;
        self.pause(Duration::from_millis(20));
        let early = self.examiner.borrow().has(mine.io[0], tag);
        self.must(!early, || "a write was answered while the log's device stood still".into())?;
        self.examiner.borrow_mut().close(mine.io[0]);
        self.pause(Duration::from_millis(20));
        let (sqe, payload) = Reservation::Acquire { key, rtype: 1 }.request(of.ns.nsid);
        let tag = self.send(other.io[0], plain(sqe, payload))?;
        let (done, at) = self.answer(other.io[0], tag, "a reservation")?;
        self.must(done.cqe.status.is_success(), || format!("a reservation failed with {:?}", done.cqe.status))?;
        self.must(at >= end, || {
            "a reservation was answered while a write of another host, whose connection is gone, was under way".into()
        })?;
        let found = self.good(other.io[0], &of, Io::Read { offset: 0, len: of.ns.lba_bytes })?.payload.into_bytes();
        self.must(found == data, || "a write that was under way has not come".into())?;
        self.reserve_as(&other, &of, Reservation::Clear { key })?;
        self.empty(other.io[0], &of)
    }

    /// A disk group that cannot be opened leaves nothing behind, and opens when its devices are well. The last thing that is tried.
    pub(super) fn opening(&mut self) -> Held {
        let info = self.stats()?.groups[0].info.clone();
        let closed = self.lab.command(|o| o.close_group(info.group));
        self.must(matches!(closed, Some(Ok(()))), || format!("the disk group could not be closed: {closed:?}"))?;
        self.is_closed("was closed")?;
        let shard = self.rng.below(u64::from(info.shards)) as u8;
        let log = info.geometry.log;
        let first = log.segment_offset(shard, 0);
        self.lab.fail_reads(0, first..first + log.slice_bytes());
        let opened = self.lab.open_group();
        self.must(matches!(opened, Some(Err(_))), || "a disk group opens though the log of a shard cannot be read".into())?;
        self.is_closed("could not be opened")?;
        self.lab.fail_all(0, false);
        let opened = self.lab.open_group();
        self.must(matches!(opened, Some(Ok(_))), || format!("the disk group does not open: {:?}", opened.map(|o| o.err())))
    }
    fn is_closed(&mut self, what: &str) -> Held {
        let stats = self.stats()?;
        let left = stats.cores.iter().map(|c| c.shards.len()).sum::<usize>();
        self.must(left == 0 && stats.groups.is_empty(), || format!("the disk group {what}, and {left} of its shards are there"))
    }
}
