//! Edges: commands that end exactly at the border of a chunk, a piece or the volume, and one block before or behind it; commands that lie
//! outside of the volume, in part or far away; and that all others are as they were.

use super::*;
use crate::content::{LOST, value_of};
use format::nvme::{IoOpcode, io::BlockRange};
use std::collections::BTreeMap;

/// Blocks on each side of a border that are looked at.
const AROUND: u64 = 4;
/// Commands at borders.
const COMMANDS: usize = 26;

/// What each block holds that is not zeroes.
type Paper = BTreeMap<u64, u64>;

impl Exam<'_> {
    pub(super) fn edges(&mut self) -> Held {
        let of = self.subject();
        let queues = 1 + self.rng.below(3) as u16;
        let port = self.port(queues, 0, 0)?;
        let (lba, blocks) = (u64::from(of.ns.lba_bytes), of.ns.blocks);
        let (piece, chunk) = ((1 << 20) / lba, (64 << 10) / lba);
        // Borders: of the volume, of the last piece, and of a chunk.
        let last_piece = (blocks - 1) / piece * piece;
        let mut borders = vec![0, blocks, last_piece, last_piece.saturating_sub(piece), (last_piece + chunk).min(blocks)];
        borders.sort_unstable();
        borders.dedup();
        let windows: Vec<(u64, u64)> =
            borders.iter().map(|b| (b.saturating_sub(AROUND), (b + AROUND).min(blocks))).filter(|(a, b)| a < b).collect();
        let mut paper = Paper::new();
        for (from, to) in windows.clone() {
            self.put(&port, &of, &mut paper, from, to - from)?;
        }
        for round in 0..COMMANDS {
            self.at_an_edge(&port, &of, &windows, &mut paper)?;
            if round % 6 == 5 {
                self.look(&port, &of, &windows, &paper)?;
            }
        }
        self.look(&port, &of, &windows, &paper)?;
        self.outside(&port, &of)?;
        self.look(&port, &of, &windows, &paper)?;
        self.counted(&port, &of)?;
        let all = port.io[0];
        self.empty(all, &of)
    }

    fn any(&mut self, port: &Port) -> usize {
        port.io[self.rng.below(port.io.len() as u64) as usize]
    }
    /// Writes new values.
    fn put(&mut self, port: &Port, of: &Subject, paper: &mut Paper, at: u64, n: u64) -> Held {
        let values: Vec<u64> = (0..n).map(|_| self.value()).collect();
        let (link, lba) = (self.any(port), of.ns.lba_bytes);
        self.good(link, of, Io::Write { offset: at * u64::from(lba), data: bytes_of(lba, &values), fua: false })?;
        paper.extend((at..).zip(values));
        Ok(())
    }
    /// Reads all windows.
    fn look(&mut self, port: &Port, of: &Subject, windows: &[(u64, u64)], paper: &Paper) -> Held {
        for (from, to) in windows {
            self.read(port, of, paper, *from, to - from)?;
        }
        Ok(())
    }
    /// Reads blocks that must be as they are on paper.
    fn read(&mut self, port: &Port, of: &Subject, paper: &Paper, at: u64, n: u64) -> Held {
        let (link, lba) = (self.any(port), u64::from(of.ns.lba_bytes));
        let read = Io::Read { offset: at * lba, len: (n * lba) as u32 };
        let legal: Vec<u64> = (at..at + n).map(|b| paper.get(&b).copied().unwrap_or(0)).collect();
        if legal.contains(&LOST) {
            self.refused(link, of, read, StatusCode::UNRECOVERED_READ_ERROR)?;
            for block in (at..at + n).filter(|_| n > 1) {
                self.read(port, of, paper, block, 1)?;
            }
            return Ok(());
        }
        let bytes = self.good(link, of, read)?.payload.into_bytes();
        let found: Vec<Option<u64>> = bytes.chunks_exact(lba as usize).map(value_of).collect();
        self.must(found.iter().copied().eq(legal.iter().map(|v| Some(*v))), || {
            format!("volume {}: {n} blocks from {at} hold {found:?}, not {legal:?}", of.at)
        })
    }
    /// A command within a window, to its ends more often than not.
    fn at_an_edge(&mut self, port: &Port, of: &Subject, windows: &[(u64, u64)], paper: &mut Paper) -> Held {
        let (lba, link) = (u64::from(of.ns.lba_bytes), self.any(port));
        let (from, to) = windows[self.rng.below(windows.len() as u64) as usize];
        let first = from + self.rng.below(to - from);
        let n = if self.rng.one_in(3) { to - first } else { 1 + self.rng.below(to - first) };
        let (offset, len) = (first * lba, n * lba);
        let values: Vec<u64> = (first..first + n).map(|b| paper.get(&b).copied().unwrap_or(0)).collect();
        let is_lost = values.contains(&LOST);
        let whole = lba == 4096;
        match self.rng.below(9) {
            0 | 1 => self.put(port, of, paper, first, n)?,
            2 => {
                self.good(link, of, Io::WriteZeroes { offset, len, deallocate: n % 2 == 0 })?;
                paper.retain(|b, _| !(first..first + n).contains(b));
            }
            3 => {
                // Two ranges of which the second is one block.
                let (a, b) = windows[self.rng.below(windows.len() as u64) as usize];
                let other = a + self.rng.below(b - a);
                self.good(link, of, Io::Deallocate(vec![(offset, len), (other * lba, lba)]))?;
                paper.retain(|b, _| !(first..first + n).contains(b) && *b != other);
            }
            4 if whole => {
                self.good(link, of, Io::WriteUncorrectable { offset, len })?;
                paper.extend((first..first + n).map(|b| (b, LOST)));
            }
            5 => {
                let verify = Io::Verify { offset, len };
                match is_lost {
                    true => self.refused(link, of, verify, StatusCode::UNRECOVERED_READ_ERROR)?,
                    false => drop(self.good(link, of, verify)?),
                }
            }
            6 if !is_lost => {
                let mut data = bytes_of(of.ns.lba_bytes, &values);
                self.good(link, of, Io::Compare { offset, data: data.clone() })?;
                let at = if self.rng.one_in(2) { data.len() - 1 } else { self.rng.below(n) as usize * lba as usize };
                data[at] ^= 1;
                self.refused(link, of, Io::Compare { offset, data }, StatusCode::COMPARE_FAILURE)?;
            }
            7 if !is_lost => {
                let (a, b) = windows[self.rng.below(windows.len() as u64) as usize];
                if b - a >= n && (b - n >= first + n || b <= first) {
                    let to = b - n;
                    self.good(link, of, Io::Copy { to: to * lba, ranges: vec![(offset, len)] })?;
                    for (b, value) in (to..).zip(values) {
                        paper.insert(b, value);
                    }
                }
            }
            _ => self.read(port, of, paper, first, n)?,
        }
        Ok(())
    }

    /// What lies outside of the volume is refused, and nothing happens.
    fn outside(&mut self, port: &Port, of: &Subject) -> Held {
        let (n, shift) = (of.ns.blocks, of.ns.lba_bytes.trailing_zeros());
        let wraps = 1u64 << (64 - shift);
        let places =
            [(n, 1), (n - 1, 2), (n + 1000, 1), (u64::MAX, 1), (u64::MAX - 1, 2), (u64::MAX, 2), (wraps, 1), (wraps + 1, 2), (1 << 63, 8)];
        for (slba, blocks) in places {
            let link = self.any(port);
            let len = blocks as usize * of.ns.lba_bytes as usize;
            for op in
                [IoOpcode::Read, IoOpcode::Write, IoOpcode::Compare, IoOpcode::WriteZeroes, IoOpcode::Verify, IoOpcode::WriteUncorrectable]
            {
                let sqe = BlockRange::new(slba, (blocks - 1) as u16).sqe(op, 0, of.ns.nsid);
                let payload = match op {
                    IoOpcode::Read => Payload::In(vec![0; len]),
                    IoOpcode::Write | IoOpcode::Compare => Payload::Out(vec![0x55; len]),
                    _ => Payload::None,
                };
                self.is_outside(link, plain(sqe, payload), of, &format!("{op:?} of {blocks} blocks from {slba}"))?;
            }
            // Ranges: of a trim, whose other range is good; from where a Copy reads; where it writes to.
            let range = |slba: u64, blocks: u64| format::nvme::io::DsmRange { attributes: 0, blocks: blocks as u32, slba };
            let mut data = vec![0; 2 * format::nvme::io::DsmRange::LEN];
            range(0, 1).write(&mut data);
            range(slba, blocks).write(&mut data[format::nvme::io::DsmRange::LEN..]);
            let trim = Io::Deallocate(vec![(0, 1 << shift), (0, 1 << shift)]).request(&of.ns, 0);
            self.is_outside(link, Request { payload: Payload::Out(data), ..trim }, of, &format!("a trim of {blocks} blocks from {slba}"))?;
            let lba = u64::from(of.ns.lba_bytes);
            let copy = Io::Copy { to: 0, ranges: vec![(0, blocks * lba)] }.request(&of.ns, 0);
            let mut data = vec![0; format::nvme::io::CopyRange::LEN];
            format::nvme::io::CopyRange { slba, nlb: (blocks - 1) as u16 }.write(&mut data);
            self.is_outside(link, Request { payload: Payload::Out(data), ..copy }, of, &format!("a Copy of {blocks} blocks from {slba}"))?;
            let copy = Io::Copy { to: 0, ranges: vec![(0, blocks * lba)] }.request(&of.ns, 0);
            let command = format::nvme::io::CopyCommand { sdlba: slba, nr: 0, desfmt: 0, dtype: 0 };
            self.is_outside(
                link,
                Request { sqe: Sqe { sgl: copy.sqe.sgl, ..command.sqe(0, of.ns.nsid) }, ..copy },
                of,
                &format!("a Copy of {blocks} blocks to {slba}"),
            )?;
        }
        // As many blocks as a command can name, from the last one on.
        for op in [IoOpcode::WriteZeroes, IoOpcode::Verify] {
            let sqe = BlockRange::new(n - 1, u16::MAX).sqe(op, 0, of.ns.nsid);
            self.is_outside(port.io[0], plain(sqe, Payload::None), of, &format!("{op:?} of 65536 blocks"))?;
        }
        for (nsid, code) in [
            (0, StatusCode::INVALID_NAMESPACE_OR_FORMAT),
            (1025, StatusCode::INVALID_NAMESPACE_OR_FORMAT),
            (900, StatusCode::INVALID_FIELD),
        ] {
            let sqe = BlockRange::new(0, 0).sqe(IoOpcode::WriteZeroes, 0, nsid);
            let status = self.call(port.io[0], plain(sqe, Payload::None), "a command to another namespace")?.cqe.status;
            self.is(status, code, &format!("a command to namespace {nsid}"))?;
        }
        Ok(())
    }
    fn is_outside(&mut self, link: usize, request: Request, of: &Subject, what: &str) -> Held {
        let status = self.call(link, request, what)?.cqe.status;
        self.is(status, StatusCode::LBA_OUT_OF_RANGE, &format!("volume {} of {} blocks: {what}", of.at, of.ns.blocks))?;
        self.must(status.dnr, || format!("{what} is to be tried again"))
    }

    /// The figures count each command once, and its bytes, as what it is.
    fn counted(&mut self, port: &Port, of: &Subject) -> Held {
        let sum = |s: &NodeStats| {
            let planes = || s.cores.iter().map(|c| &c.router);
            let add = |all: [u64; 3], (a, b, c): (u64, u64, u64)| [all[0] + a, all[1] + b, all[2] + c];
            [
                planes().map(|p| (p.read.requests, p.read.bytes, p.read.errors)).fold([0; 3], add),
                planes().map(|p| (p.write.requests, p.write.bytes, p.write.errors)).fold([0; 3], add),
                planes().map(|p| (p.discard.requests, p.discard.bytes, p.discard.errors)).fold([0; 3], add),
            ]
        };
        let before = sum(&self.stats()?);
        let lba = u64::from(of.ns.lba_bytes);
        let n = of.ns.blocks.min(8);
        let sizes: Vec<u64> = (0..5).map(|_| 1 + self.rng.below(n)).collect();
        let mut bytes = 0;
        for blocks in &sizes {
            let (link, len) = (self.any(port), blocks * lba);
            bytes += len;
            self.good(link, of, Io::Write { offset: 0, data: vec![7; len as usize], fua: true })?;
            self.good(link, of, Io::Read { offset: 0, len: len as u32 })?;
            self.good(link, of, Io::Compare { offset: 0, data: vec![7; len as usize] })?;
            self.good(link, of, Io::WriteZeroes { offset: 0, len, deallocate: true })?;
            self.good(link, of, Io::Deallocate(vec![(0, len)]))?;
            self.good(link, of, Io::Flush)?;
        }
        let after = sum(&self.stats()?);
        let k = sizes.len() as u64;
        let legal = [[2 * k, 2 * bytes, 0], [k, bytes, 0], [2 * k, 2 * bytes, 0]];
        for ((name, legal), (before, after)) in ["reads", "writes", "discards"].into_iter().zip(legal).zip(before.into_iter().zip(after)) {
            let found: Vec<u64> = after.iter().zip(before).map(|(a, b)| a - b).collect();
            self.must(found == legal, || format!("{name}: requests, bytes and errors grew by {found:?}, not by {legal:?}"))?;
        }
        Ok(())
    }
}
