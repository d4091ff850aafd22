//! Space: what is written takes as many chunks as it touches; what is trimmed, cut off, formatted or deleted gives them back, in this life of
//! the host; and what comes back is zeroes, at once.

use super::*;
use std::collections::BTreeSet;

const BLOCK: u64 = 4096;
const CHUNK: u64 = 64 << 10;

impl Exam<'_> {
    pub(super) fn space(&mut self) -> Held {
        let of = self.subject();
        let port = self.port(2, 0, 0)?;
        let mut used = BTreeSet::new();
        for _ in 0..2 {
            self.scatter(&port, &of, &mut used)?;
            self.takes(&used, "written")?;
            self.thin_out(&port, &of, &mut used)?;
            self.takes(&used, "trimmed in part")?;
            match self.rng.below(3) {
                0 => {
                    // All goes but what lies before the new end.
                    let percent = 1 + self.rng.below(100);
                    let racing = if self.rng.one_in(2) { self.race(&port, &of)? } else { Vec::new() };
                    self.act(|volume| Act::Shrink { volume, percent }, of.at)?;
                    let left = self.subject_at(of.at).ns.bytes();
                    if !racing.is_empty() {
                        // What was on its way comes before the end is freed, or not at all.
                        for (link, tag) in racing {
                            self.answer(link, tag, "what was on its way when a volume got smaller")?;
                        }
                        self.act(|volume| Act::Regrow { volume }, of.at)?;
                        self.good(port.io[0], &of, Io::Deallocate(vec![(0, left)]))?;
                        used.clear();
                    }
                    used.retain(|block| block * BLOCK < left);
                    let settled = self.rng.one_in(2);
                    if settled {
                        self.takes(&used, "cut off")?;
                    }
                    self.act(|volume| Act::Regrow { volume }, of.at)?;
                    self.is_zeroes(&port, &of, &used)?;
                    self.takes(&used, "cut off")?;
                }
                1 => {
                    self.act(|volume| Act::Format { volume }, of.at)?;
                    used.clear();
                    self.is_zeroes(&port, &of, &used)?;
                    self.takes(&used, "formatted")?;
                }
                _ => {
                    // What was written just now is still on its way to capacity.
                    if self.rng.one_in(2) {
                        self.scatter(&port, &of, &mut used)?;
                    }
                    self.good(port.io[0], &of, Io::WriteZeroes { offset: 0, len: self.zeroes(&of), deallocate: true })?;
                    used.retain(|block| block * BLOCK >= self.zeroes(&of));
                    self.is_zeroes(&port, &of, &used)?;
                    self.takes(&used, "zeroed")?;
                }
            }
        }
        let records = self.lab.workload.borrow().volumes.len();
        self.scatter(&port, &of, &mut used)?;
        if records < 23 {
            if self.rng.one_in(2) {
                self.takes(&used, "written")?;
            }
            self.act(|volume| Act::Replace { volume }, of.at)?;
            used.clear();
            let at = *self.lab.workload.borrow().all_live().last().expect("it was made");
            let made = self.subject_at(at);
            self.must(at != of.at, || "no other volume was made".into())?;
            self.is_zeroes(&port, &made, &used)?;
            self.takes(&used, "deleted")?;
            self.scatter(&port, &made, &mut used)?;
            self.takes(&used, "written to another volume")?;
            return self.empty(port.io[0], &made);
        }
        self.empty(port.io[0], &of)
    }

    /// Bytes that one command can make zeroes, in whole chunks.
    fn zeroes(&self, of: &Subject) -> u64 {
        of.ns.bytes().min(65536 * u64::from(of.ns.lba_bytes))
    }
    /// Where a volume is looked at: its end, which is what clients use.
    fn window(of: &Subject) -> (u64, u64) {
        let end = of.ns.bytes() / BLOCK;
        (end.saturating_sub(300), end)
    }
    /// Writes here and there.
    fn scatter(&mut self, port: &Port, of: &Subject, used: &mut BTreeSet<u64>) -> Held {
        let (first, end) = Self::window(of);
        for _ in 0..5 {
            let at = first + self.rng.below(end - first);
            let n = (1 + self.rng.below(24)).min(end - at);
            let value = self.value();
            let data = bytes_of(4096, &vec![value; n as usize]);
            let link = port.io[self.rng.below(2) as usize];
            self.good(link, of, Io::Write { offset: at * BLOCK, data, fua: false })?;
            used.extend(at..at + n);
        }
        Ok(())
    }
    /// Sends what takes a while and goes to the end of a volume.
    fn race(&mut self, port: &Port, of: &Subject) -> Result<Vec<(usize, u64)>, Stop> {
        let (first, end) = Self::window(of);
        let mut sent = Vec::new();
        if of.ns.lba_bytes == 4096 {
            let io = Io::WriteUncorrectable { offset: first * BLOCK, len: (end - first) * BLOCK };
            sent.push((port.io[1], self.send(port.io[1], io.request(&of.ns, 0))?));
        }
        for n in 0..16u64 {
            let (at, link) = (end - 1 - self.rng.below((end - first).min(64)), port.io[n as usize % 2]);
            let io = Io::Write { offset: at * BLOCK, data: vec![9; BLOCK as usize], fua: false };
            sent.push((link, self.send(link, io.request(&of.ns, 0))?));
        }
        let nanos = self.rng.below(120_000);
        self.pause(Duration::from_nanos(nanos));
        Ok(sent)
    }
    /// Trims here and there.
    fn thin_out(&mut self, port: &Port, of: &Subject, used: &mut BTreeSet<u64>) -> Held {
        let (first, end) = Self::window(of);
        for _ in 0..4 {
            let at = first + self.rng.below(end - first);
            let n = (1 + self.rng.below(80)).min(end - at);
            let link = port.io[self.rng.below(2) as usize];
            self.good(link, of, Io::Deallocate(vec![(at * BLOCK, n * BLOCK)]))?;
            used.retain(|block| !(at..at + n).contains(block));
        }
        Ok(())
    }
    /// So many chunks are in use, and no others.
    fn takes(&mut self, used: &BTreeSet<u64>, what: &str) -> Held {
        let chunks: BTreeSet<u64> = used.iter().map(|block| block * BLOCK / CHUNK).collect();
        let n = chunks.len() as u64;
        self.until(&format!("{n} chunks must be in use after what was {what}"), |stats| {
            let shards = || stats.cores.iter().flat_map(|c| &c.shards).map(|s| &s.stats);
            let by_component: u64 = shards().flat_map(|s| &s.component_chunks).map(|(_, n)| n).sum();
            shards().map(|s| s.chunks_allocated).sum::<u64>() == n && by_component == n && shards().all(|s| s.log_live_bytes == 0)
        })
    }
    /// What is not in use is zeroes.
    fn is_zeroes(&mut self, port: &Port, of: &Subject, used: &BTreeSet<u64>) -> Held {
        let (first, end) = Self::window(of);
        for at in (first..end).step_by(64) {
            let n = 64.min(end - at);
            let link = port.io[(at / 64 % 2) as usize];
            let bytes = self.good(link, of, Io::Read { offset: at * BLOCK, len: (n * BLOCK) as u32 })?.payload.into_bytes();
            for (block, data) in (at..).zip(bytes.chunks_exact(BLOCK as usize)) {
                let empty = base::is_zero(data);
                self.must(empty != used.contains(&block), || {
                    format!("volume {}: block {block} of 4 KiB is {}", of.at, if empty { "zeroes" } else { "not zeroes" })
                })?;
            }
        }
        Ok(())
    }
}
