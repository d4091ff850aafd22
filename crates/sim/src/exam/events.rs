//! Events: a host learns of every change of its namespaces, once until it has read the log, again after that, and of none that was none; and
//! every queue goes by what is served then.

use super::*;
use format::nvme::admin::{GetLogPage, Identify};
use format::nvme::identify::{self, IdentifyNamespace};
use format::nvme::log::{self, AsyncEvent};
use std::collections::BTreeSet;

/// In this time nothing comes that was not to come.
const QUIET: Duration = Duration::from_millis(40);

impl Exam<'_> {
    pub(super) fn events(&mut self) -> Held {
        let eager = self.port(3, 0, feature::AEC_NAMESPACE | feature::AEC_ANA)?;
        let other = self.port(1, 0, feature::AEC_NAMESPACE)?;
        let deaf = self.port(1, 0, 0)?;
        for port in [&eager, &other, &deaf] {
            let heard = self.changed(port, false)?;
            self.must(heard.is_empty(), || format!("a host that just came hears of changes: {heard:?}"))?;
        }
        let mut unread = BTreeSet::new();
        let not_for_it = self.request_event(&deaf)?;
        let mut others = self.request_event(&other)?;
        for round in 0..2 {
            let asks_first = self.rng.one_in(2);
            let mut waiting = None;
            if asks_first {
                waiting = Some(self.request_event(&eager)?);
            }
            let of = self.subject();
            let (there, back) = self.draw_change(of.at)?;
            let heard = self.change(&there, of.at)?;
            self.serves(&eager, of.at)?;
            let tag = match waiting {
                Some(tag) => tag,
                None => self.request_event(&eager)?,
            };
            self.comes(&eager, tag, !heard.is_empty(), &format!("{there:?}"))?;
            // Nothing again before it has read the log.
            let next = if heard.is_empty() { tag } else { self.request_event(&eager)? };
            let mut heard = heard;
            for act in &back {
                let more = self.change(act, of.at)?;
                self.serves(&eager, of.at)?;
                if heard.is_empty() && !more.is_empty() {
                    return Err(Stop::Wrong("an act that changes nothing is undone by one that does".into()));
                }
                heard.extend(more);
            }
            self.comes(&eager, next, false, "what comes before the log was read")?;
            if round % 2 == 0 {
                // The list begins anew, but the event was not sent yet.
                let kept = self.changed(&eager, true)?;
                self.must(kept == heard, || format!("the log names {kept:?}; changed have {heard:?}"))?;
                self.comes(&eager, next, false, "a log that was read and kept")?;
                unread.extend(core::mem::take(&mut heard));
            }
            let read = self.changed(&eager, false)?;
            self.must(read == heard, || format!("the log names {read:?}; changed have {heard:?}"))?;
            let again = self.changed(&eager, false)?;
            self.must(again.is_empty(), || format!("the log was read and names {again:?} again"))?;
            // The next change is an event again: to the request that is left.
            let of = self.subject();
            let (there, back) = self.draw_change(of.at)?;
            let mut reported_now = self.change(&there, of.at)?;
            self.comes(&eager, next, !reported_now.is_empty(), &format!("{there:?}, after the log was read"))?;
            for act in &back {
                reported_now.extend(self.change(act, of.at)?);
            }
            let read = self.changed(&eager, false)?;
            self.must(read == reported_now, || format!("the log names {read:?}; changed have {reported_now:?}"))?;
            if reported_now.is_empty() {
                // The request is still there: it is used up.
                let set: BTreeSet<u32> = self.change(&Act::Detach { volume: 0 }, of.at)?;
                self.comes(&eager, next, !set.is_empty(), "a namespace that was taken away")?;
                let elsewhere = self.rng.one_in(2);
                reported_now.extend(set);
                reported_now.extend(self.change(&Act::Attach { volume: 0, elsewhere }, of.at)?);
                let read = self.changed(&eager, false)?;
                self.must(read == reported_now, || format!("the log names {read:?}; changed have {reported_now:?}"))?;
            }
            unread.extend(heard);
            unread.extend(reported_now);
            if !unread.is_empty() {
                self.comes(&other, others, true, "the changes, to another host")?;
                let read = self.changed(&other, false)?;
                let both: BTreeSet<u32> = unread.clone();
                self.must(round > 0 || read == both, || format!("the other host's log names {read:?}; changed have {both:?}"))?;
                others = self.request_event(&other)?;
            }
        }
        self.comes(&deaf, not_for_it, false, "a host that wants no events")?;
        let aec = SetFeatures { fid: feature::FID_ASYNC_EVENTS, save: false, cdw11: feature::AEC_NAMESPACE, nsid: 0 }.sqe(0);
        self.admin(deaf.admin, aec, Payload::None)?;
        self.comes(&deaf, not_for_it, !unread.is_empty(), "what it had not read of when it began to want events")?;
        let read = self.changed(&deaf, false)?;
        self.must(read == unread, || format!("the log of the host that wanted none names {read:?}; changed have {unread:?}"))
    }

    /// An act, and those that take it back.
    fn draw_change(&mut self, _of: usize) -> Result<(Act, Vec<Act>), Stop> {
        let volume = 0;
        let elsewhere = self.rng.one_in(2);
        Ok(match self.rng.below(6) {
            0 | 1 => (Act::Detach { volume }, vec![Act::Attach { volume, elsewhere }]),
            2 => (Act::Shrink { volume, percent: 1 + self.rng.below(99) }, vec![Act::Regrow { volume }]),
            3 => (Act::Protect { volume, on: true }, vec![Act::Protect { volume, on: false }]),
            4 => (Act::Format { volume }, vec![]),
            _ => (Act::Limit { volume, iops_max: None, bytes_per_s_max: None }, vec![]),
        })
    }
    /// The operator does it; the namespaces that hosts are to hear of.
    fn change(&mut self, act: &Act, of: usize) -> Result<BTreeSet<u32>, Stop> {
        let before = self.lab.workload.borrow().state_of(of);
        let act = *act;
        self.act(
            |volume| match act {
                Act::Shrink { percent, .. } => Act::Shrink { volume, percent },
                Act::Regrow { .. } => Act::Regrow { volume },
                Act::Format { .. } => Act::Format { volume },
                Act::Protect { on, .. } => Act::Protect { volume, on },
                Act::Detach { .. } => Act::Detach { volume },
                Act::Attach { elsewhere, .. } => Act::Attach { volume, elsewhere },
                _ => Act::Limit { volume, iops_max: None, bytes_per_s_max: None },
            },
            of,
        )?;
        let after = self.lab.workload.borrow().state_of(of);
        let heard = (before.nsid, before.blocks, before.read_only) != (after.nsid, after.blocks, after.read_only)
            || matches!(act, Act::Format { .. });
        Ok(before.nsid.into_iter().chain(after.nsid).filter(|_| heard).collect())
    }
    pub(super) fn request_event(&mut self, port: &Port) -> Result<u64, Stop> {
        self.send(port.admin, plain(plain_sqe(AdminOpcode::AsyncEventRequest, 0), Payload::None))
    }
    /// An event of namespaces comes, or does not.
    pub(super) fn comes(&mut self, port: &Port, tag: u64, comes: bool, why: &str) -> Held {
        let Some((done, _)) = self.wait(port.admin, tag, if comes { SOON } else { QUIET }) else {
            return self.must(!comes, || format!("no event came within {SOON:?}: {why}"));
        };
        let event = AsyncEvent::parse(done.cqe.result as u32);
        let meant = (log::AER_NOTICE, log::NOTICE_NAMESPACE_CHANGED, log::LID_CHANGED_NAMESPACES);
        self.must(comes && done.cqe.status.is_success() && (event.kind, event.info, event.log) == meant, || {
            format!("an event {event:?} ({:?}) came: {why}", done.cqe.status)
        })
    }
    /// The log of the namespaces that changed.
    pub(super) fn changed(&mut self, port: &Port, rae: bool) -> Result<BTreeSet<u32>, Stop> {
        let bytes = log::CHANGED_NAMESPACES_BYTES;
        let numd = bytes as u32 / 4 - 1;
        let page =
            GetLogPage { lid: log::LID_CHANGED_NAMESPACES, lsp: 0, rae, lsi: 0, numd, offset: 0, index: false, csi: 0, nsid: u32::MAX };
        let page = self.admin(port.admin, page.sqe(0), Payload::In(vec![0; bytes]))?.payload.into_bytes();
        let list = page.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
        Ok(list.take_while(|nsid| *nsid != 0).collect())
    }

    /// Every queue of a host meets a volume as it is served now, and Identify says it.
    fn serves(&mut self, port: &Port, at: usize) -> Held {
        let (of, state) = (self.subject_at(at), self.lab.workload.borrow().state_of(at));
        let sqe = Identify { cns: identify::CNS_NAMESPACE, cntid: 0, nsid: of.ns.nsid, csi: 0, cnssid: 0 }.sqe(0);
        let page = self.admin(port.admin, sqe, Payload::In(vec![0; 4096]))?.payload.into_bytes();
        let said = IdentifyNamespace::parse(&page).map(|id| id.nsze);
        let legal = state.nsid.map_or(0, |_| state.blocks);
        self.must(said == Some(legal), || format!("volume {at} is said to have {said:?} blocks, not {legal}"))?;
        let lba = u64::from(of.ns.lba_bytes);
        for link in port.io.clone() {
            let last = Io::Read { offset: (state.blocks - 1) * lba, len: lba as u32 };
            let write = Io::WriteZeroes { offset: 0, len: lba, deallocate: true };
            if state.nsid.is_none() {
                self.refused(link, &of, last, StatusCode::INVALID_FIELD)?;
                continue;
            }
            self.good(link, &of, last)?;
            self.refused(link, &of, Io::Read { offset: state.blocks * lba, len: lba as u32 }, StatusCode::LBA_OUT_OF_RANGE)?;
            match state.read_only {
                true => self.refused(link, &of, write, StatusCode::NAMESPACE_WRITE_PROTECTED)?,
                false => drop(self.good(link, &of, write)?),
            }
        }
        Ok(())
    }
}
