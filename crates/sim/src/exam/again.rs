//! The ground moves: while a command is in the middle, or waits for its turn or its data, its volume becomes read-only, smaller, reserved by
//! another host, is taken away, formatted or out of reach. It is judged again, and what it has not done by then does not happen.

use super::*;
use crate::content::value_of;
use initiator::reservation::Reservation;

/// How the ground moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shift {
    Protect,
    Shrink,
    Detach,
    Offline,
    Reserve,
    Format,
    Delete,
}

/// What is in the middle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Middle {
    /// A Copy of several steps that a limit holds back.
    Copy,
    /// A write that a limit holds back.
    Held,
    /// A write whose data has not come.
    Data,
}

const RANGES: u64 = 4;

impl Exam<'_> {
    pub(super) fn ground(&mut self) -> Held {
        let (mine, other) = (self.port(3, 0, 0)?, self.port(1, 0, 0)?);
        let shifts = [Shift::Protect, Shift::Shrink, Shift::Detach, Shift::Offline, Shift::Reserve, Shift::Format];
        for middle in [Middle::Copy, Middle::Held, Middle::Data, Middle::Copy, Middle::Data, Middle::Held] {
            let shift = shifts[self.rng.below(if middle == Middle::Data { 5 } else { 6 }) as usize];
            let of = self.subject();
            self.shifted(&mine, &other, &of, middle, shift)?;
        }
        let of = self.subject();
        if self.lab.workload.borrow().volumes.len() < 23 {
            let middle = [Middle::Copy, Middle::Held, Middle::Data][self.rng.below(3) as usize];
            self.shifted(&mine, &other, &of, middle, Shift::Delete)?;
        }
        Ok(())
    }

    fn shifted(&mut self, mine: &Port, other: &Port, of: &Subject, middle: Middle, shift: Shift) -> Held {
        let text = format!("volume {}, {middle:?}, {shift:?}", of.at);
        self.shifted_so(mine, other, of, middle, shift).map_err(|stop| match stop {
            Stop::Wrong(what) => Stop::Wrong(format!("{text}: {what}")),
            Stop::Cannot => Stop::Cannot,
        })
    }

    fn shifted_so(&mut self, mine: &Port, other: &Port, of: &Subject, middle: Middle, shift: Shift) -> Held {
        let lba = u64::from(of.ns.lba_bytes);
        let blocks = of.ns.blocks;
        // The end of the volume is where it goes.
        let n = (blocks / (2 * RANGES)).min((32 << 10) / lba).max(1);
        let (to, len) = (blocks - RANGES * n, n * lba);
        let link = mine.io[self.rng.below(3) as usize];
        let value = self.value();
        let data = bytes_of(of.ns.lba_bytes, &vec![value; n as usize]);
        self.good(link, of, Io::Write { offset: 0, data, fua: false })?;
        // So that a step takes a fifth of a second.
        if middle != Middle::Data {
            self.limit(of.at, None, Some(5 * len))?;
        }
        let mut tags = Vec::new();
        match middle {
            Middle::Copy => {
                let io = Io::Copy { to: to * lba, ranges: vec![(0, len); RANGES as usize] };
                tags.push(self.send(link, io.request(&of.ns, 0))?);
            }
            Middle::Held => {
                for at in 0..RANGES {
                    let value = self.value();
                    let data = bytes_of(of.ns.lba_bytes, &vec![value; n as usize]);
                    tags.push(self.send(link, Io::Write { offset: (to + at * n) * lba, data, fua: false }.request(&of.ns, 0))?);
                }
            }
            Middle::Data => {
                self.examiner.borrow_mut().in_capsule(link, 0);
                let value = self.value();
                let data = bytes_of(of.ns.lba_bytes, &vec![value; n as usize]);
                tags.push(self.send(link, Io::Write { offset: (to + (RANGES - 1) * n) * lba, data, fua: false }.request(&of.ns, 0))?);
                // The command goes; what it is asked for does not.
                self.pause(Duration::from_nanos(1));
                let examiner = Rc::clone(&self.examiner);
                self.lab.run(Duration::from_nanos(2000), |_, _| examiner.borrow().gone(link).is_some());
                self.examiner.borrow_mut().hold(link, true);
            }
        }
        let millis = if middle == Middle::Data { 30 } else { 100 + self.rng.below(400) };
        self.pause(Duration::from_millis(millis));
        if middle == Middle::Data && self.examiner.borrow().has(link, tags[0]) {
            // Its data was faster.
            self.examiner.borrow_mut().hold(link, false);
            self.examiner.borrow_mut().in_capsule(link, 4096);
            return self.empty(link, of);
        }
        let key = 7;
        match shift {
            Shift::Protect => self.act(|volume| Act::Protect { volume, on: true }, of.at)?,
            Shift::Shrink => {
                // To nothing, or so that only the end of the last range is behind the new one.
                let percent = if self.rng.one_in(2) { 100 } else { 2 + self.rng.below(8) };
                self.act(|volume| Act::Shrink { volume, percent }, of.at)?;
            }
            Shift::Detach => self.act(|volume| Act::Detach { volume }, of.at)?,
            Shift::Offline => self.act(|volume| Act::Offline { volume, on: true }, of.at)?,
            Shift::Format => self.act(|volume| Act::Format { volume }, of.at)?,
            Shift::Delete => self.act(|volume| Act::Replace { volume }, of.at)?,
            Shift::Reserve => {
                self.reserve(other, of, Reservation::Register { key, cptpl: 0 })?;
                self.reserve(other, of, Reservation::Acquire { key, rtype: 1 })?;
            }
        }
        let shrunk = self.lab.workload.borrow().state_of(of.at).blocks;
        self.examiner.borrow_mut().hold(link, false);
        self.wake();
        let limited = middle != Middle::Data && shift != Shift::Delete;
        if shift == Shift::Shrink && shrunk == blocks {
            // It is too small for that.
            for tag in tags {
                self.answer(link, tag, "what was in the middle")?;
            }
            if limited {
                self.limit(of.at, None, None)?;
            }
            self.examiner.borrow_mut().in_capsule(link, 4096);
            return self.empty(link, of);
        }
        let code = match shift {
            Shift::Protect => &[StatusCode::NAMESPACE_WRITE_PROTECTED][..],
            Shift::Shrink => &[StatusCode::LBA_OUT_OF_RANGE],
            Shift::Detach | Shift::Delete => &[StatusCode::INVALID_FIELD, StatusCode::INVALID_NAMESPACE_OR_FORMAT],
            Shift::Offline => &[StatusCode::NAMESPACE_NOT_READY],
            Shift::Reserve => &[StatusCode::RESERVATION_CONFLICT],
            Shift::Format => &[StatusCode::FORMAT_IN_PROGRESS, StatusCode::LBA_OUT_OF_RANGE],
        };
        let mut statuses = Vec::new();
        for tag in &tags {
            let (done, _) = self.answer(link, *tag, "what was in the middle")?;
            statuses.push((done.cqe.status, done.cqe.result));
        }
        if limited {
            self.limit(of.at, None, None)?;
        }
        // The last of them was in the middle: it has met what is now.
        let (status, range) = *statuses.last().expect("something was sent");
        self.must(code.contains(&status.code), || format!("it was answered with {status:?} ({statuses:?})"))?;
        match shift {
            Shift::Protect => self.act(|volume| Act::Protect { volume, on: false }, of.at)?,
            Shift::Shrink => self.act(|volume| Act::Regrow { volume }, of.at)?,
            Shift::Detach => self.act(|volume| Act::Attach { volume, elsewhere: false }, of.at)?,
            Shift::Offline => self.act(|volume| Act::Offline { volume, on: false }, of.at)?,
            Shift::Reserve => self.reserve(other, of, Reservation::Clear { key })?,
            Shift::Format => {}
            Shift::Delete => return Ok(()),
        }
        self.examiner.borrow_mut().in_capsule(link, 4096);
        // A Copy says at which of its ranges it ended: those before it are there.
        let kept = matches!(shift, Shift::Protect | Shift::Detach | Shift::Offline | Shift::Reserve);
        if middle == Middle::Copy {
            self.must(range < RANGES, || format!("of a Copy with {RANGES} ranges number {range} failed"))?;
        }
        for at in (0..range).filter(|_| middle == Middle::Copy && kept) {
            let bytes = self.good(link, of, Io::Read { offset: (to + at * n) * lba, len: len as u32 })?.payload.into_bytes();
            let right = bytes.chunks_exact(lba as usize).all(|block| value_of(block) == Some(value));
            self.must(right, || format!("a Copy ended at range {range}, and range {at} is not there"))?;
        }
        // What was refused has not happened.
        let refused = match middle {
            Middle::Copy => range + 1..RANGES,
            _ => RANGES - 1..RANGES,
        };
        for at in refused {
            let first = to + at * n;
            let bytes = self.good(link, of, Io::Read { offset: first * lba, len: len as u32 })?.payload.into_bytes();
            let found: Vec<_> = bytes.chunks_exact(lba as usize).map(value_of).collect();
            self.must(found.iter().all(|v| *v == Some(0)), || {
                format!("it was refused, and has written {found:?} at {first} ({shrunk} blocks)")
            })?;
        }
        self.empty(link, of)
    }
    fn reserve(&mut self, port: &Port, of: &Subject, what: Reservation) -> Held {
        let (sqe, payload) = what.request(of.ns.nsid);
        let status = self.call(port.io[0], plain(sqe, payload), "a reservation command")?.cqe.status;
        self.must(status.is_success(), || format!("{what:?} failed with {status:?}"))
    }
}
