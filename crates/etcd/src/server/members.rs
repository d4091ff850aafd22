//! Who is a member: added as a learner, made a voter when it has caught up, removed, replaced.
//!
//! ```text
//!  (none) ──add──► learner, not started ──starts, catches up──► promote ──► voter ──remove──► (none)
//! ```
//!
//! Invariants: each step looks first whether it is done already, so that one whose answer was lost can be tried again; a member that does not vote
//! yet never counts for the quorum.
//! Never: removes a member that the quorum needs (etcd refuses that).

use crate::message::{Member, MemberAddRequest};
use crate::{Client, EtcdError, Lost, Refusal};
use std::{net::SocketAddr, time::Duration};
use tokio::time::{Instant, sleep};

/// Between two attempts to make a learner a voter.
const PROMOTE_PAUSE: Duration = Duration::from_millis(300);
/// A new member may have voted for so short a time that etcd refuses the next change, or a change is on its way.
const STEP_PAUSE: Duration = Duration::from_millis(500);

/// All members.
pub async fn list(client: &Client, until: Instant) -> Result<Vec<Member>, EtcdError> {
    Ok(client.member_list(until).await?.members)
}

/// A step whose answer may be lost: done, when `is_done` says so of the members.
async fn step<T, F: Future<Output = Result<(), EtcdError>>>(
    client: &Client,
    until: Instant,
    is_done: impl Fn(&[Member]) -> Option<T>,
    change: impl Fn() -> F,
) -> Result<T, EtcdError> {
    loop {
        if let Some(done) = is_done(&list(client, until).await?) {
            return Ok(done);
        }
        match change().await {
            // The member that is asked next may hear of it a little later.
            Ok(()) if Instant::now() + STEP_PAUSE < until => sleep(PROMOTE_PAUSE).await,
            Ok(()) => return Err(EtcdError::Unknown(Lost::TimedOut)),
            Err(error @ EtcdError::Refused(Refusal::NotEnoughStarted | Refusal::LearnerNotReady))
                if Instant::now() + STEP_PAUSE >= until =>
            {
                return Err(error);
            }
            Err(EtcdError::Refused(Refusal::NotEnoughStarted)) => sleep(STEP_PAUSE).await,
            Err(EtcdError::Refused(Refusal::LearnerNotReady)) => sleep(PROMOTE_PAUSE).await,
            Err(error @ EtcdError::Refused(Refusal::MemberNotFound | Refusal::MemberExists)) => {
                // Somebody was faster, or an answer was lost: the members say which.
                return is_done(&list(client, until).await?).ok_or(error);
            }
            Err(EtcdError::Unknown(_)) if Instant::now() + STEP_PAUSE < until => sleep(STEP_PAUSE).await,
            Err(error) => return Err(error),
        }
    }
}

fn url(peer: SocketAddr) -> String {
    format!("https://{peer}")
}

/// Adds a member as a learner, or finds it. It is to be started with [`super::Membership::Joins`] then. Gives its id.
pub async fn add(client: &Client, peer: SocketAddr, until: Instant) -> Result<u64, EtcdError> {
    let request = MemberAddRequest { peer_urls: vec![url(peer)], is_learner: true };
    let found = |members: &[Member]| members.iter().find(|m| m.peer_urls.contains(&url(peer))).map(|m| m.id);
    step(client, until, found, async || client.member_add(&request, until).await.map(drop)).await
}

/// Makes a learner a voter, when it has caught up.
pub async fn promote(client: &Client, id: u64, until: Instant) -> Result<(), EtcdError> {
    let votes = |members: &[Member]| members.iter().find(|m| m.id == id).filter(|m| !m.is_learner).map(|_| ());
    step(client, until, votes, async || client.member_promote(id, until).await.map(drop)).await
}

/// Removes a member, for ever: its id never comes back. One that is gone is no error.
pub async fn remove(client: &Client, id: u64, until: Instant) -> Result<(), EtcdError> {
    let gone = |members: &[Member]| (!members.iter().any(|m| m.id == id)).then_some(());
    step(client, until, gone, async || client.member_remove(id, until).await.map(drop)).await
}

/// Removes a member that is lost, and adds another as a learner. Gives its id.
pub async fn replace(client: &Client, lost: u64, peer: SocketAddr, until: Instant) -> Result<u64, EtcdError> {
    remove(client, lost, until).await?;
    add(client, peer, until).await
}
