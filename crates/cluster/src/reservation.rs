//! Reservations of a volume: who is registered, who holds it, what each host may do (NVMe base 2.0 section 8.19).
//!
//! ```text
//!              register                acquire, preempt
//!  (no host) ───────────► Registrant ───────────────────► Holder of a reservation of one of six types
//!      ▲                   │    ▲  release                  │
//!      └── unregister, ────┘    └───────────────────────────┘
//!          clear, preempted         (its own, or with all registrants)
//! ```
//!
//! A volume without registrants can be taken whole instead, by RESERVE of SCSI's older way (SPC-2 5.5.1): it is then its holder's alone.
//!
//! Owns: the rules. [`State::execute`] is the one transition; [`State::access`] is what a host may do, for the data path.
//! Invariants: a reservation has a holder, or it is of an "all registrants" type and there is a registrant; a holder is a
//! registrant; a volume that is taken whole has no registrants; the generation counter grows with each Register, Preempt and Clear that
//! succeeds; a command that is refused changes nothing.
//! Never: does I/O; knows controllers or connections (a host is its Host Identifier, however many queues it has).

use base::HostId;
use base::hooks::{self, SeededFault};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Most registrants of one volume.
pub const REGISTRANTS_MAX: usize = 256;
/// Notices that a volume's state remembers, for cores that see several changes at once.
pub const NOTICES_MAX: usize = 32;

/// Reservation types (base figure 530, RTYPE).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum ReservationType {
    /// Only the holder writes; all read.
    WriteExclusive = 1,
    /// Only the holder reads and writes.
    ExclusiveAccess = 2,
    /// Registrants write; all read.
    WriteExclusiveRegistrantsOnly = 3,
    /// Registrants read and write.
    ExclusiveAccessRegistrantsOnly = 4,
    /// Registrants write and are all holders; all read.
    WriteExclusiveAllRegistrants = 5,
    /// Registrants read and write and are all holders.
    ExclusiveAccessAllRegistrants = 6,
}

impl ReservationType {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::WriteExclusive,
        Self::ExclusiveAccess,
        Self::WriteExclusiveRegistrantsOnly,
        Self::ExclusiveAccessRegistrantsOnly,
        Self::WriteExclusiveAllRegistrants,
        Self::ExclusiveAccessAllRegistrants,
    ];
    /// From RTYPE; `None` for 0 and reserved values.
    pub const fn parse(byte: u8) -> Option<Self> {
        match byte {
            1..=6 => Some(Self::ALL[byte as usize - 1]),
            _ => None,
        }
    }
    /// As RTYPE.
    pub const fn byte(self) -> u8 {
        self as u8
    }
    /// As people write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::WriteExclusive => "Write Exclusive",
            Self::ExclusiveAccess => "Exclusive Access",
            Self::WriteExclusiveRegistrantsOnly => "Write Exclusive - Registrants Only",
            Self::ExclusiveAccessRegistrantsOnly => "Exclusive Access - Registrants Only",
            Self::WriteExclusiveAllRegistrants => "Write Exclusive - All Registrants",
            Self::ExclusiveAccessAllRegistrants => "Exclusive Access - All Registrants",
        }
    }
    /// Whether every registrant is a holder.
    pub const fn is_all_registrants(self) -> bool {
        matches!(self, Self::WriteExclusiveAllRegistrants | Self::ExclusiveAccessAllRegistrants)
    }
    const fn is_registrants_only(self) -> bool {
        matches!(self, Self::WriteExclusiveRegistrantsOnly | Self::ExclusiveAccessRegistrantsOnly)
    }
    const fn excludes_reads(self) -> bool {
        matches!(self, Self::ExclusiveAccess | Self::ExclusiveAccessRegistrantsOnly | Self::ExclusiveAccessAllRegistrants)
    }
}

/// What a reservation command asks for. A key that is `None` was sent with "ignore existing key" (IEKEY).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Reservation Register, register.
    Register {
        /// New key.
        nrkey: u64,
        /// New value of Persist Through Power Loss.
        ptpl: Option<bool>,
    },
    /// Reservation Register, unregister.
    Unregister {
        /// The host's key.
        crkey: Option<u64>,
        /// New value of Persist Through Power Loss.
        ptpl: Option<bool>,
    },
    /// Reservation Register, replace the key.
    Replace {
        /// The host's key.
        crkey: Option<u64>,
        /// New key.
        nrkey: u64,
        /// New value of Persist Through Power Loss.
        ptpl: Option<bool>,
    },
    /// Reservation Acquire, acquire.
    Acquire {
        /// The host's key.
        crkey: u64,
        /// Type of the reservation.
        rtype: ReservationType,
    },
    /// Reservation Acquire, preempt or preempt and abort.
    Preempt {
        /// The host's key.
        crkey: u64,
        /// Key to be preempted.
        prkey: u64,
        /// Type of the new reservation.
        rtype: ReservationType,
        /// What the preempted hosts have under way is aborted.
        abort: bool,
    },
    /// Reservation Release, release.
    Release {
        /// The host's key.
        crkey: u64,
        /// Type of the reservation as the host knows it; `None` for a reserved value.
        rtype: Option<ReservationType>,
    },
    /// Reservation Release, clear.
    Clear {
        /// The host's key.
        crkey: u64,
    },
    /// REGISTER AND MOVE of SCSI (SPC-4 5.12.8): the holder passes the reservation on. NVM Express has no such command.
    Move {
        /// The host's key.
        crkey: u64,
        /// Who becomes the holder; it is registered with `nrkey`.
        to: HostId,
        /// The new holder's key.
        nrkey: u64,
        /// The host is no registrant any more.
        unregister: bool,
        /// New value of Persist Through Power Loss.
        ptpl: bool,
    },
    /// RESERVE of SCSI (SPC-2 7.21), of the whole unit, in a session that came by this target port.
    TakeUnit(TakenBy),
    /// RELEASE of SCSI (SPC-2 7.17), or the end of the session that sent RESERVE.
    GiveUnit(TakenBy),
    /// A reset of the unit: who has taken it whole has it no longer (SPC-2 5.5.1). From anyone.
    ResetUnit,
    /// Set Features, Reservation Persistence: from anyone.
    Persist {
        /// New value of Persist Through Power Loss.
        ptpl: bool,
    },
}

/// Which of a host port's sessions has taken a volume whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakenBy {
    /// The target port that it came by, which is a node's.
    pub port: u16,
    /// Its number on that node.
    pub session: u16,
}

/// Why a command is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Status Reservation Conflict.
    Conflict,
    /// Status Invalid Field in Command.
    InvalidField,
    /// There are [`REGISTRANTS_MAX`] registrants.
    TooManyRegistrants,
}

/// Kinds of reservation notifications (base 8.19.1; the type in log page 80h).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum NoticeKind {
    /// Registration preempted.
    RegistrationPreempted = 1,
    /// Reservation released.
    ReservationReleased = 2,
    /// Reservation preempted.
    ReservationPreempted = 3,
}

/// A notification, for every controller of some hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// Ascends by one with each notice of a volume, from 1.
    pub seq: u64,
    /// Kind.
    pub kind: NoticeKind,
    /// The hosts that get it.
    pub hosts: BTreeSet<HostId>,
}

/// What a host may do with a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Commands of the read group: Read, Compare, Verify, the source of Copy, Security Receive.
    pub read: bool,
    /// Commands of the write group: Write, Write Zeroes, Write Uncorrectable, Dataset Management, the destination of Copy, Flush,
    /// Format NVM, Namespace Management and Attachment, Security Send.
    pub write: bool,
}

impl Access {
    /// Everything: there is no reservation, or the host is on its right side.
    pub const FULL: Access = Access { read: true, write: true };
    /// Nothing.
    pub const NONE: Access = Access { read: false, write: false };
}

/// What a command changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Some host may do less than before: what it has under way must end before the command is answered.
    pub narrowed: bool,
    /// Hosts that were unregistered by another host's command.
    pub preempted: BTreeSet<HostId>,
    /// What those have under way is to be aborted.
    pub abort: bool,
}

impl Outcome {
    /// Whether the command may be answered only when what other hosts have under way has ended.
    pub fn fences(&self) -> bool {
        self.narrowed || self.abort
    }
}

/// A host's port, where the identity of a registrant is a digest of it: an iSCSI initiator port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostPort {
    /// The host's name.
    pub name: String,
    /// Which port of the host: the ISID.
    pub number: [u8; 6],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Held {
    rtype: ReservationType,
    /// `None` for the types where every registrant is a holder.
    holder: Option<HostId>,
}

/// The registrants and the reservation of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    generation: u32,
    /// Persist Through Power Loss.
    ptpl: bool,
    registrants: BTreeMap<HostId, u64>,
    /// What registrants are called, where their protocol tells.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    ports: BTreeMap<HostId, HostPort>,
    held: Option<Held>,
    /// Who has taken the volume whole, in which session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    taken: Option<(HostId, TakenBy)>,
    #[serde(default)]
    notices: VecDeque<Notice>,
    #[serde(default)]
    notice_seq: u64,
}

impl State {
    /// Generation counter (GEN).
    pub fn generation(&self) -> u32 {
        self.generation
    }
    /// Persist Through Power Loss.
    pub fn ptpl(&self) -> bool {
        self.ptpl
    }
    /// Registrants with their keys, by Host Identifier.
    pub fn registrants(&self) -> &BTreeMap<HostId, u64> {
        &self.registrants
    }
    /// Who has taken the volume whole, in which session.
    pub fn taken(&self) -> Option<(HostId, TakenBy)> {
        self.taken
    }
    /// Whether another host has taken the volume whole.
    pub fn is_taken_from(&self, host: HostId) -> bool {
        self.taken.is_some_and(|(by, _)| by != host)
    }
    /// What a registrant, or who has taken the volume whole, is called, where that is known: a host of NVMe is its identifier.
    pub fn port(&self, host: HostId) -> Option<&HostPort> {
        self.ports.get(&host)
    }
    /// Keeps what hosts are called, of those that stand here.
    pub fn name_ports(&mut self, ports: &BTreeMap<HostId, HostPort>) {
        let known = ports.iter().filter(|(host, _)| self.stands(**host));
        let known: Vec<_> = known.map(|(host, port)| (*host, port.clone())).collect();
        self.ports.extend(known);
    }
    /// Whether a host is a registrant, or has taken the volume whole.
    fn stands(&self, host: HostId) -> bool {
        self.registrants.contains_key(&host) || self.taken.is_some_and(|(by, _)| by == host)
    }
    /// The type of the reservation that is held.
    pub fn rtype(&self) -> Option<ReservationType> {
        self.held.map(|h| h.rtype)
    }
    /// Whether a host holds the reservation.
    pub fn is_holder(&self, host: HostId) -> bool {
        self.held.is_some_and(|h| match h.holder {
            Some(holder) => holder == host,
            None => self.registrants.contains_key(&host),
        })
    }
    /// The notices that came after number `seen`, oldest first; older ones than the last [`NOTICES_MAX`] are forgotten.
    pub fn notices_after(&self, seen: u64) -> impl Iterator<Item = &Notice> {
        self.notices.iter().filter(move |n| n.seq > seen)
    }
    /// The number of the last notice; 0 before the first.
    pub fn last_notice(&self) -> u64 {
        self.notice_seq
    }

    /// What a host may do: the table of base figure 529 for reads and writes.
    pub fn access(&self, host: HostId) -> Access {
        if self.is_taken_from(host) && !hooks::seeded(SeededFault::TakenUnitOpen) {
            return Access::NONE;
        }
        let Some(held) = self.held else { return Access::FULL };
        let registrants_may = held.rtype.is_registrants_only() || held.rtype.is_all_registrants();
        if self.is_holder(host) || registrants_may && self.registrants.contains_key(&host) {
            return Access::FULL;
        }
        let slips = held.rtype == ReservationType::ExclusiveAccessAllRegistrants && hooks::seeded(SeededFault::TypeSlips);
        Access { read: !held.rtype.excludes_reads() || slips, write: false }
    }

    /// Carries out a command of a host. Refused, it changes nothing.
    pub fn execute(&mut self, by: HostId, command: &Command) -> Result<Outcome, Refusal> {
        let before = self.clone();
        // The two ways do not meet (SPC-2 5.5.1, SPC-3 5.6.3).
        let other_way = match command {
            Command::TakeUnit(_) | Command::GiveUnit(_) => !self.registrants.is_empty(),
            Command::ResetUnit | Command::Persist { .. } => false,
            _ => self.taken.is_some(),
        };
        if other_way {
            return Err(Refusal::Conflict);
        }
        let mut outcome = match *command {
            Command::Register { nrkey, ptpl } => self.register(by, nrkey, ptpl)?,
            Command::Unregister { crkey, ptpl } => self.unregister(by, crkey, ptpl)?,
            Command::Replace { crkey, nrkey, ptpl } => self.replace(by, crkey, nrkey, ptpl)?,
            Command::Acquire { crkey, rtype } => self.acquire(by, crkey, rtype)?,
            Command::Preempt { crkey, prkey, rtype, abort } => self.preempt(by, crkey, prkey, rtype, abort)?,
            Command::Release { crkey, rtype } => self.release(by, crkey, rtype)?,
            Command::Clear { crkey } => self.clear(by, crkey)?,
            Command::Move { crkey, to, nrkey, unregister, ptpl } => {
                self.pass_on(by, crkey, (to, nrkey), unregister)?;
                self.ptpl = ptpl;
                Outcome::default()
            }
            Command::TakeUnit(session) => self.take_unit(by, session)?,
            Command::GiveUnit(session) => {
                self.taken = self.taken.filter(|of| *of != (by, session));
                Outcome::default()
            }
            Command::ResetUnit => {
                self.taken = None;
                Outcome::default()
            }
            Command::Persist { ptpl } => {
                self.ptpl = ptpl;
                Outcome::default()
            }
        };
        let mut ports = core::mem::take(&mut self.ports);
        ports.retain(|host, _| self.stands(*host));
        self.ports = ports;
        outcome.narrowed = self.narrows(&before);
        Ok(outcome)
    }

    /// An administrator takes everything away: all registrants, and the reservation. They are informed as by Clear.
    pub fn clear_all(&mut self) {
        let hosts: BTreeSet<HostId> = core::mem::take(&mut self.registrants).into_keys().collect();
        self.ports.clear();
        (self.held, self.taken) = (None, None);
        self.grow();
        self.note(NoticeKind::ReservationPreempted, hosts);
    }

    /// Power was lost: what does not persist is gone, the generation counter starts again. Says whether anything changed. Sessions are gone in any case.
    pub fn power_lost(&mut self) -> bool {
        if hooks::seeded(SeededFault::PowerLossKeepsAll) {
            return false;
        }
        if self.ptpl {
            self.ports.retain(|host, _| self.registrants.contains_key(host));
            return self.taken.take().is_some();
        }
        core::mem::take(self) != Self::default()
    }

    /// Whether some host may do less than at `before`.
    fn narrows(&self, before: &State) -> bool {
        let less = |now: Access, then: Access| !now.read && then.read || !now.write && then.write;
        // Every host that is no registrant, before and now, is like any other.
        let unregistered = |s: &State| match s.held {
            _ if s.taken.is_some() => Access::NONE,
            Some(h) => Access { read: !h.rtype.excludes_reads(), write: false },
            None => Access::FULL,
        };
        let taken = self.taken.iter().chain(&before.taken).map(|(host, _)| host);
        less(unregistered(self), unregistered(before))
            || self.registrants.keys().chain(before.registrants.keys()).chain(taken).any(|h| less(self.access(*h), before.access(*h)))
    }

    fn grow(&mut self) {
        self.generation = self.generation.wrapping_add(1);
    }
    fn note(&mut self, kind: NoticeKind, hosts: BTreeSet<HostId>) {
        if hosts.is_empty() {
            return;
        }
        self.notice_seq += 1;
        self.notices.push_back(Notice { seq: self.notice_seq, kind, hosts });
        while self.notices.len() > NOTICES_MAX {
            self.notices.pop_front();
        }
    }
    fn others(&self, by: HostId) -> BTreeSet<HostId> {
        self.registrants.keys().copied().filter(|h| *h != by).collect()
    }
    /// The host is a registrant and knows its key.
    fn check_key(&self, by: HostId, crkey: Option<u64>) -> Result<(), Refusal> {
        match self.registrants.get(&by) {
            Some(key) if crkey.is_none_or(|c| c == *key) => Ok(()),
            _ => Err(Refusal::Conflict),
        }
    }

    fn register(&mut self, by: HostId, nrkey: u64, ptpl: Option<bool>) -> Result<Outcome, Refusal> {
        match self.registrants.get(&by) {
            Some(key) if *key != nrkey => return Err(Refusal::Conflict),
            None if self.registrants.len() >= REGISTRANTS_MAX => return Err(Refusal::TooManyRegistrants),
            _ => {}
        }
        self.registrants.insert(by, nrkey);
        self.ptpl = ptpl.unwrap_or(self.ptpl);
        self.grow();
        Ok(Outcome::default())
    }

    fn replace(&mut self, by: HostId, crkey: Option<u64>, nrkey: u64, ptpl: Option<bool>) -> Result<Outcome, Refusal> {
        // With "ignore existing key" a host may do this whether it is a registrant or not (base 8.19.3).
        match crkey {
            Some(_) => self.check_key(by, crkey)?,
            None if !self.registrants.contains_key(&by) => return self.register(by, nrkey, ptpl),
            None => {}
        }
        self.registrants.insert(by, nrkey);
        self.ptpl = ptpl.unwrap_or(self.ptpl);
        self.grow();
        Ok(Outcome::default())
    }

    fn unregister(&mut self, by: HostId, crkey: Option<u64>, ptpl: Option<bool>) -> Result<Outcome, Refusal> {
        self.check_key(by, crkey)?;
        self.registrants.remove(&by);
        if let Some(rtype) = self.drop_reservation_of(by)
            && rtype.is_registrants_only()
        {
            self.note(NoticeKind::ReservationReleased, self.others(by));
        }
        self.ptpl = ptpl.unwrap_or(self.ptpl);
        self.grow();
        Ok(Outcome::default())
    }

    /// A host is no registrant any more: the reservation ends when it was its only or last holder.
    fn drop_reservation_of(&mut self, host: HostId) -> Option<ReservationType> {
        let held = self.held?;
        let ends = match held.holder {
            Some(holder) => holder == host && !hooks::seeded(SeededFault::UnregisteredHolds),
            None => self.registrants.is_empty(),
        };
        if !ends {
            return None;
        }
        self.held = None;
        Some(held.rtype)
    }

    fn take(&mut self, by: HostId, rtype: ReservationType) {
        self.held = Some(Held { rtype, holder: (!rtype.is_all_registrants()).then_some(by) });
    }

    fn take_unit(&mut self, by: HostId, session: TakenBy) -> Result<Outcome, Refusal> {
        if self.is_taken_from(by) {
            return Err(Refusal::Conflict);
        }
        self.taken = Some((by, session));
        Ok(Outcome::default())
    }

    fn acquire(&mut self, by: HostId, crkey: u64, rtype: ReservationType) -> Result<Outcome, Refusal> {
        self.check_key(by, Some(crkey))?;
        match self.held {
            None => self.take(by, rtype),
            Some(held) if self.is_holder(by) && held.rtype == rtype => {}
            Some(_) => return Err(Refusal::Conflict),
        }
        Ok(Outcome::default())
    }

    fn preempt(&mut self, by: HostId, crkey: u64, prkey: u64, rtype: ReservationType, abort: bool) -> Result<Outcome, Refusal> {
        self.check_key(by, Some(crkey))?;
        let with_key = |s: &State| s.registrants.iter().filter(|(_, k)| **k == prkey).map(|(h, _)| *h).collect::<BTreeSet<HostId>>();
        let taken_over = match self.held {
            Some(Held { holder: Some(holder), .. }) => self.registrants.get(&holder) == Some(&prkey),
            Some(Held { holder: None, .. }) => prkey == 0,
            None => false,
        };
        let everybody = matches!(self.held, Some(Held { holder: None, .. })) && prkey == 0;
        let mut gone = if everybody { self.others(by) } else { with_key(self) };
        if taken_over {
            gone.remove(&by);
        } else if self.held.is_some() && prkey == 0 {
            return Err(Refusal::InvalidField); // Key zero stands for all registrants, or for the holder's key.
        } else if gone.is_empty() {
            return Err(Refusal::Conflict);
        }
        self.registrants.retain(|h, _| !gone.contains(h));
        let old = self.held;
        if taken_over {
            self.take(by, old.filter(|_| hooks::seeded(SeededFault::PreemptKeepsType)).map_or(rtype, |old| old.rtype));
        } else {
            for host in &gone {
                self.drop_reservation_of(*host);
            }
        }
        gone.remove(&by);
        self.note(NoticeKind::RegistrationPreempted, gone.clone());
        if taken_over && old.is_some_and(|o| o.rtype != rtype) {
            self.note(NoticeKind::ReservationReleased, self.others(by));
        }
        self.grow();
        Ok(Outcome { abort, preempted: gone, ..Outcome::default() })
    }

    fn release(&mut self, by: HostId, crkey: u64, rtype: Option<ReservationType>) -> Result<Outcome, Refusal> {
        self.check_key(by, Some(crkey))?;
        let Some(held) = self.held.filter(|_| self.is_holder(by) || hooks::seeded(SeededFault::ReleaseByAnyone)) else {
            return Ok(Outcome::default());
        };
        if rtype != Some(held.rtype) {
            return Err(Refusal::InvalidField);
        }
        self.held = None;
        let unreported = held.rtype.is_all_registrants() && hooks::seeded(SeededFault::ReleaseUnreported);
        if !unreported && !matches!(held.rtype, ReservationType::WriteExclusive | ReservationType::ExclusiveAccess) {
            self.note(NoticeKind::ReservationReleased, self.others(by));
        }
        Ok(Outcome::default())
    }

    /// The reservation goes to a host and the key that it gets (SPC-4 table 67). Where every registrant is a holder there is nothing to pass on.
    fn pass_on(&mut self, by: HostId, crkey: u64, (to, nrkey): (HostId, u64), unregister: bool) -> Result<(), Refusal> {
        self.check_key(by, Some(crkey))?;
        let Some(held) = self.held else { return Err(Refusal::InvalidField) };
        if held.holder != Some(by) {
            return Err(Refusal::Conflict);
        }
        if to == by || nrkey == 0 {
            return Err(Refusal::InvalidField);
        }
        let left = self.registrants.len() - usize::from(unregister);
        if !self.registrants.contains_key(&to) && left >= REGISTRANTS_MAX {
            return Err(Refusal::TooManyRegistrants);
        }
        self.registrants.insert(to, nrkey);
        self.held = Some(Held { holder: Some(to), ..held });
        if unregister {
            self.registrants.remove(&by);
        }
        self.grow();
        Ok(())
    }

    fn clear(&mut self, by: HostId, crkey: u64) -> Result<Outcome, Refusal> {
        self.check_key(by, Some(crkey))?;
        let others = self.others(by);
        self.registrants.clear();
        self.held = None;
        self.grow();
        self.note(NoticeKind::ReservationPreempted, others.clone());
        Ok(Outcome { preempted: others, ..Outcome::default() })
    }
}
