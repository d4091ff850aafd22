//! What hosts and administrators ask a node of a simulated cluster for: decided on the directory, durable, served, confirmed by the owner, answered.
//!
//! Invariants: a change is answered as done when the owner of its volume serves it; as not done only when it can never happen.
//! Never: decides what a reservation command means (`cluster::reservation` does).

use super::node::{Node, VolumeChange};
use super::records::name_of;
use super::truth::Asked;
use crate::node_types::volume_id;
use base::{HostId, VolumeId, WriteProtect};
use cluster::record::{ReservationRecord, VolumeRecord};
use cluster::reservation::{Command, State};
use directory::commit::CONFLICT_ATTEMPTS_MAX;
use directory::{DirectoryError, Nonce, Revision, Transaction, Typed};
use frontend::{ControlRequest, ControlVerb, Refused, Reply};
use std::rc::Rc;

/// A host takes "not now" for a promise that nothing has changed.
fn refusal(error: &DirectoryError) -> Refused {
    if matches!(error, DirectoryError::Unknown { .. }) { Refused::Unserved } else { Refused::Busy }
}

impl Node {
    /// What hosts ask for, one after the other.
    pub(super) async fn requests(self: Rc<Self>) {
        self.moment.until(|| self.is_serving()).await;
        loop {
            self.moment.until(|| !self.live.borrow().requests.is_empty()).await;
            let request = {
                let live = &mut *self.live.borrow_mut();
                live.at_work[0] = true;
                live.requests.pop_front().expect("looked at above")
            };
            let answer = self.decide(&request).await;
            let _ = self.answer(self.commands().answer(request.id, answer)).await;
            self.live.borrow_mut().at_work[0] = false;
        }
    }

    /// Reservation commands are carried out; nothing else that hosts may request is granted here.
    async fn decide(&self, request: &ControlRequest) -> Result<Reply, Refused> {
        let ControlVerb::Reservation { volume, command } = &request.what else { return Err(Refused::Invalid) };
        let (reply, at) = self.reserve(HostId::from_bytes(request.by.host_id), *volume, command).await?;
        self.serve(at).await.map_err(|_| Refused::Unserved)?;
        self.confirm(*volume, at).await.map_err(|()| Refused::Unserved)?;
        Ok(reply)
    }

    async fn reserve(&self, by: HostId, volume: VolumeId, command: &Command) -> Result<(Reply, Revision), Refused> {
        for tried in 1.. {
            let (transaction, reply, nonce) = self.decided(by, volume, command)?;
            let nothing = transaction.changes.is_empty();
            match self.commit_as(transaction, nonce).await {
                Ok(at) => return Ok((reply, at)),
                Err(DirectoryError::Conflict { .. }) if tried < CONFLICT_ATTEMPTS_MAX => {}
                Err(error) => {
                    let refused = refusal(&error);
                    if refused == Refused::Busy && !nothing {
                        let (truth, workload) = (&mut *self.truth.borrow_mut(), &mut *self.workload.borrow_mut());
                        truth.catch_up(workload, self.moment.now());
                        truth.denied(nonce, workload);
                    }
                    return Err(refused);
                }
            }
        }
        unreachable!("the last attempt gives its error")
    }

    /// What a reservation command comes to by what the directory says now.
    fn decided(&self, by: HostId, volume: VolumeId, command: &Command) -> Result<(Transaction, Reply, Nonce), Refused> {
        let id = volume.to_string();
        let record = self.way.find::<VolumeRecord>(&id).map_err(|e| refusal(&e))?.ok_or(Refused::NoUnit)?;
        let old = self.way.find::<ReservationRecord>(&id).map_err(|e| refusal(&e))?;
        let mut state = old.as_ref().map(|r| r.state.clone()).unwrap_or_default();
        let (truth, workload) = (&mut *self.truth.borrow_mut(), &mut *self.workload.borrow_mut());
        truth.catch_up(workload, self.moment.now());
        let outcome = match state.execute(by, command) {
            Ok(outcome) => outcome,
            Err(refusal) => {
                truth.refused(volume, by, command, refusal, workload, self.moment.now());
                return Err(refusal.into());
            }
        };
        let nonce = self.nonce();
        let (there, reply) = (Transaction::new().expect(&record), Reply::reserved(volume, outcome.clone()));
        let same = |old: &State| *old == state;
        let transaction = match old {
            _ if same(old.as_ref().map_or(&State::default(), |old| &old.state)) => {
                truth.executed(volume, state, &Asked { by, command: *command, outcome }, workload, self.moment.now());
                return Ok((Transaction::new(), reply, nonce));
            }
            Some(mut old) => {
                old.value.state = state;
                there.update(&old)
            }
            None => there.create(&ReservationRecord { volume, state }),
        };
        truth.asks(nonce, Asked { by, command: *command, outcome });
        Ok((transaction, reply, nonce))
    }

    /// Waits until the owner of a volume serves it as it was at a revision.
    async fn confirm(&self, volume: VolumeId, at: Revision) -> Result<(), ()> {
        self.answer(self.commands().confirm(volume)).await.map_err(drop)?;
        let (truth, workload) = (&mut *self.truth.borrow_mut(), &mut *self.workload.borrow_mut());
        truth.catch_up(workload, self.moment.now());
        truth.confirmed(volume, at, workload, self.moment.now());
        Ok(())
    }

    /// What administrators ask for, one after the other.
    pub(super) async fn administrators(self: Rc<Self>) {
        self.moment.until(|| self.is_serving()).await;
        loop {
            self.moment.until(|| !self.live.borrow().volume_changes.is_empty()).await;
            let (volume, what) = {
                let live = &mut *self.live.borrow_mut();
                live.at_work[1] = true;
                live.volume_changes.pop_front().expect("looked at above")
            };
            match what {
                VolumeChange::Protected(on) => self.protect(volume_id(volume), on).await,
                VolumeChange::Owner(node) => self.set(volume_id(volume), |v| v.preferred_owner = node.map(name_of)).await,
                VolumeChange::Resync(pace) => self.set(volume_id(volume), |v| v.resync = pace).await,
                VolumeChange::Copies(copies) => self.has_copies(volume_id(volume), copies).await,
                VolumeChange::Layout(Some(mirrors)) => self.lays_out(volume_id(volume), mirrors).await,
                VolumeChange::Layout(None) => self.stays(volume_id(volume)).await,
            }
            self.live.borrow_mut().at_work[1] = false;
        }
    }

    async fn protect(&self, id: VolumeId, on: bool) {
        let decide = || {
            let Some(mut record) = self.way.find::<VolumeRecord>(&id.to_string())? else { return Ok(Transaction::new()) };
            record.value.write_protect = if on { WriteProtect::Protected } else { WriteProtect::None };
            Ok(Transaction::new().update(&record))
        };
        if let Ok(at) = self.change(decide).await
            && self.serve(at).await.is_ok()
        {
            let _ = self.confirm(id, at).await;
        }
    }
    pub(super) async fn set(&self, id: VolumeId, set: impl Fn(&mut VolumeRecord)) {
        let decide = || {
            let Some(mut record) = self.way.find::<VolumeRecord>(&id.to_string())? else { return Ok(Transaction::new()) };
            set(&mut record.value);
            Ok(Transaction::new().update(&record))
        };
        if let Ok(at) = self.change(decide).await {
            let _ = self.serve(at).await;
        }
    }
}
