//! The rules of reservations once more, from the tables of the NVMe base specification (2.0, section 8.19), so that those of the code under
//! test are not judged by themselves.
//!
//! Owns: [`Rules`].
//! Invariant: shares nothing with `cluster::reservation` but the names of commands and types.

use base::HostId;
use cluster::reservation::{Command, Refusal, ReservationType, State};
use std::collections::{BTreeMap, BTreeSet};

/// What a host is to a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It holds it.
    Holder,
    /// It is registered.
    Registrant,
    /// Neither.
    Other,
}

/// What a role may do: read, write. Base figure 529.
pub const fn may(rtype: u8, role: Role) -> (bool, bool) {
    match (rtype, role) {
        // No reservation, or the host holds it.
        (0, _) | (_, Role::Holder) => (true, true),
        (1, _) => (true, false),                   // Write Exclusive
        (2, _) => (false, false),                  // Exclusive Access
        (3 | 5, Role::Registrant) => (true, true), // Write Exclusive, Registrants Only and All Registrants
        (3 | 5, Role::Other) => (true, false),
        (4 | 6, Role::Registrant) => (true, true), // Exclusive Access, Registrants Only and All Registrants
        _ => (false, false),
    }
}

/// The registrants and the reservation of a volume, as the specification has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    keys: BTreeMap<HostId, u64>,
    /// RTYPE, 0 for none.
    rtype: u8,
    /// Of types 1 to 4.
    holder: Option<HostId>,
    generation: u32,
    ptpl: bool,
    /// Who has taken the unit whole, by which port, in which session.
    taken: Option<(HostId, u16, u16)>,
}

impl Rules {
    fn all_hold(&self) -> bool {
        self.rtype >= 5
    }
    /// What a host is.
    pub fn role(&self, host: HostId) -> Role {
        let registered = self.keys.contains_key(&host);
        match self.rtype {
            1..=4 if self.holder == Some(host) => Role::Holder,
            5 | 6 if registered => Role::Holder,
            _ if registered => Role::Registrant,
            _ => Role::Other,
        }
    }
    /// What a host may do: read, write.
    pub fn allows(&self, host: HostId) -> (bool, bool) {
        // SPC-2 5.5.1: of such a unit others get nothing.
        if self.taken.is_some_and(|(by, ..)| by != host) {
            return (false, false);
        }
        may(self.rtype, self.role(host))
    }
    fn end(&mut self) {
        (self.rtype, self.holder) = (0, None);
    }
    fn begin(&mut self, rtype: ReservationType, host: HostId) {
        self.rtype = rtype.byte();
        self.holder = Some(host).filter(|_| self.rtype < 5);
    }
    /// A host is not registered any more.
    fn forget(&mut self, host: HostId) {
        self.keys.remove(&host);
        if self.rtype > 0 && (self.holder == Some(host) || self.all_hold() && self.keys.is_empty()) {
            self.end();
        }
    }

    /// Who of others was registered and is not any more.
    pub fn driven_out(&self, before: &Rules, by: HostId) -> BTreeSet<HostId> {
        before.keys.keys().copied().filter(|host| *host != by && !self.keys.contains_key(host)).collect()
    }
    /// Whether some of these hosts may do less than before.
    pub fn takes_away(&self, before: &Rules, mut hosts: impl Iterator<Item = HostId>) -> bool {
        hosts.any(|host| {
            let ((read, write), (could_read, could_write)) = (self.allows(host), before.allows(host));
            could_read && !read || could_write && !write
        })
    }
    /// Power was lost. 8.19: without Persist Through Power Loss all is released.
    pub fn power_lost(&mut self) {
        self.taken = None;
        if !self.ptpl {
            *self = Rules::default();
        }
    }
    /// An administrator takes everything away.
    pub fn clear_all(&mut self) {
        self.keys.clear();
        self.end();
        self.taken = None;
        self.generation += 1;
    }

    /// A host's command; what it is refused with.
    pub fn execute(&mut self, by: HostId, command: &Command) -> Result<(), Refusal> {
        let mine = self.keys.get(&by).copied();
        let knows = |key: Option<u64>| if mine.is_some() && key.is_none_or(|k| mine == Some(k)) { Ok(()) } else { Err(Refusal::Conflict) };
        match *command {
            // SPC-2 5.5.1 and SPC-3 5.6.3: who is registered keeps RESERVE and RELEASE out, and the other way round.
            Command::TakeUnit(_) | Command::GiveUnit(_) if !self.keys.is_empty() => return Err(Refusal::Conflict),
            Command::TakeUnit(session) => match self.taken {
                Some((other, ..)) if other != by => return Err(Refusal::Conflict),
                _ => self.taken = Some((by, session.port, session.session)),
            },
            Command::GiveUnit(session) => {
                if self.taken == Some((by, session.port, session.session)) {
                    self.taken = None;
                }
            }
            Command::ResetUnit => self.taken = None,
            Command::Persist { ptpl } => self.ptpl = ptpl,
            _ if self.taken.is_some() => return Err(Refusal::Conflict),
            Command::Register { nrkey, ptpl } => {
                // A registrant that registers again: with its own key that is no error.
                if mine.is_some_and(|key| key != nrkey) {
                    return Err(Refusal::Conflict);
                }
                self.keys.insert(by, nrkey);
                self.set_ptpl(ptpl);
            }
            Command::Unregister { crkey, ptpl } => {
                knows(crkey)?;
                self.forget(by);
                self.set_ptpl(ptpl);
            }
            Command::Replace { crkey, nrkey, ptpl } => {
                // IEKEY: also one that was not registered is then.
                if crkey.is_some() {
                    knows(crkey)?;
                }
                self.keys.insert(by, nrkey);
                self.set_ptpl(ptpl);
            }
            Command::Acquire { crkey, rtype } => {
                knows(Some(crkey))?;
                if self.rtype == 0 {
                    self.begin(rtype, by);
                } else if self.role(by) != Role::Holder || self.rtype != rtype.byte() {
                    return Err(Refusal::Conflict);
                }
            }
            Command::Preempt { crkey, prkey, rtype, .. } => {
                knows(Some(crkey))?;
                self.preempt(by, prkey, rtype)?;
                self.generation += 1;
            }
            Command::Release { crkey, rtype } => {
                knows(Some(crkey))?;
                if self.role(by) == Role::Holder {
                    if rtype.map(ReservationType::byte) != Some(self.rtype) {
                        return Err(Refusal::InvalidField);
                    }
                    self.end();
                }
            }
            Command::Clear { crkey } => {
                knows(Some(crkey))?;
                self.clear_all();
            }
            // SPC-4 5.12.8.
            Command::Move { crkey, to, nrkey, unregister, ptpl } => {
                knows(Some(crkey))?;
                if self.rtype > 0 && self.holder != Some(by) {
                    return Err(Refusal::Conflict);
                }
                if self.rtype == 0 || to == by || nrkey == 0 {
                    return Err(Refusal::InvalidField);
                }
                self.keys.insert(to, nrkey);
                self.holder = Some(to);
                if unregister {
                    self.keys.remove(&by);
                }
                self.ptpl = ptpl;
                self.generation += 1;
            }
        }
        Ok(())
    }

    /// Of every Register action that succeeds.
    fn set_ptpl(&mut self, ptpl: Option<bool>) {
        self.ptpl = ptpl.unwrap_or(self.ptpl);
        self.generation += 1;
    }

    /// 8.19.7: who has the key goes; whose reservation is meant, it passes to the host that preempts.
    fn preempt(&mut self, by: HostId, prkey: u64, rtype: ReservationType) -> Result<(), Refusal> {
        let having: Vec<HostId> = self.keys.iter().filter(|(_, key)| **key == prkey).map(|(host, _)| *host).collect();
        let holder_has = self.holder.is_some_and(|h| having.contains(&h));
        if self.rtype > 0 && self.all_hold() && prkey == 0 {
            self.keys.retain(|host, _| *host == by);
            self.begin(rtype, by);
        } else if self.rtype > 0 && !self.all_hold() && holder_has {
            self.keys.retain(|host, key| *key != prkey || *host == by);
            self.begin(rtype, by);
        } else if self.rtype > 0 && prkey == 0 {
            return Err(Refusal::InvalidField);
        } else if having.is_empty() {
            return Err(Refusal::Conflict);
        } else {
            having.into_iter().for_each(|host| self.forget(host));
        }
        Ok(())
    }

    /// Whether the code under test has come to the same.
    pub fn agrees(&self, state: &State) -> bool {
        *state.registrants() == self.keys
            && state.rtype().map_or(0, ReservationType::byte) == self.rtype
            && state.generation() == self.generation
            && state.ptpl() == self.ptpl
            && state.taken().map(|(by, s)| (by, s.port, s.session)) == self.taken
            && self.keys.keys().all(|host| state.is_holder(*host) == (self.role(*host) == Role::Holder))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::reservation::TakenBy;
    use rt::sim::Rng;

    fn draw(rng: &mut Rng) -> Command {
        // Few keys, so that they meet; zero among them.
        let [mut key, other] = [rng.below(4), rng.below(4)];
        let rtype = ReservationType::ALL[rng.below(6) as usize];
        let ptpl = [None, Some(false), Some(true)][rng.below(3) as usize];
        key = if rng.one_in(4) { 1 } else { key };
        let session = TakenBy { port: 1, session: rng.below(2) as u16 };
        match rng.below(13) {
            10 => Command::TakeUnit(session),
            11 => Command::GiveUnit(session),
            12 => Command::ResetUnit,
            8 => {
                let to = HostId::from_bytes([rng.below(3) as u8 + 1; 16]);
                Command::Move { crkey: key, to, nrkey: other, unregister: rng.one_in(2), ptpl: rng.one_in(2) }
            }
            0 | 1 => Command::Register { nrkey: key, ptpl },
            2 => Command::Unregister { crkey: (!rng.one_in(3)).then_some(key), ptpl },
            3 => Command::Replace { crkey: (!rng.one_in(3)).then_some(key), nrkey: other, ptpl },
            4 => Command::Acquire { crkey: key, rtype },
            5 | 6 => Command::Preempt { crkey: key, prkey: other, rtype, abort: rng.one_in(2) },
            7 => Command::Release { crkey: key, rtype: Some(rtype) },
            _ => Command::Clear { crkey: key },
        }
    }

    #[test]
    fn the_code_and_the_specification_come_to_the_same_over_long_disputes() {
        let mut refused = 0;
        for seed in 0..400 {
            let rng = &mut Rng::new(seed);
            let (mut state, mut rules) = (State::default(), Rules::default());
            for step in 0..60 {
                let (by, command) = (HostId::from_bytes([rng.below(3) as u8 + 1; 16]), draw(rng));
                if rng.one_in(40) {
                    state.power_lost();
                    rules.power_lost();
                }
                let (code, specification) = (state.execute(by, &command).map(|_| ()), rules.execute(by, &command));
                assert_eq!(code, specification, "seed {seed}, step {step}: {command:?} on {rules:?}");
                assert!(rules.agrees(&state), "seed {seed}, step {step}, after {command:?}: {rules:?}, {state:?}");
                for n in 1..=4 {
                    let (host, access) = (HostId::from_bytes([n; 16]), state.access(HostId::from_bytes([n; 16])));
                    assert_eq!((access.read, access.write), rules.allows(host), "seed {seed}, host {n}: {rules:?}");
                }
                refused += u32::from(code.is_err());
            }
        }
        assert!((2_000..22_000).contains(&refused), "both kinds happen: {refused} refused");
    }
}
