//! The bounds within which the model is explored, and those in which each rule is missed.
//!
//! Owns: [`WHOLE`], [`NEEDED`].
//! Invariant: each rule is in [`NEEDED`] once.
//! Never: holds what a test cannot finish within seconds; [`DEEP`] is for an evening.

use super::monitor::{DIFFER, INEXACT, LOST, NOT_LINEAR, TWO_OWNERS};
use super::{Bounds, Rule, Takeovers};
use crate::explore::Broken;

const QUIET: Bounds = Bounds::QUIET;

/// Eviction and takeover, two copies.
pub const PAIR: Bounds =
    Bounds { name: "pair", writes: &[1, 1], epochs: 3, evicts: true, crashes: 1, lost_answers: 1, resends: 1, ..QUIET };
/// The same with three.
pub const THREE: Bounds = Bounds { name: "three", nodes: 3, writes: &[1], epochs: 3, evicts: true, crashes: 1, ..QUIET };
/// Two blocks, so that changes pass each other.
pub const BLOCKS: Bounds = Bounds { name: "blocks", blocks: 2, writes: &[1, 2], epochs: 3, crashes: 2, ..QUIET };
/// Reads by grants.
pub const GRANTS: Bounds = Bounds { name: "grants", writes: &[1], epochs: 2, reads: 2, grants: 3, crashes: 1, evicts: true, ..QUIET };
/// The same with three nodes.
pub const GRANTS_THREE: Bounds = Bounds { name: "grants of three", nodes: 3, writes: &[1], epochs: 2, reads: 1, grants: 3, ..QUIET };
/// The object is given up for another node.
pub const HANDOVER: Bounds = Bounds { name: "handover", writes: &[1], epochs: 4, reads: 2, grants: 3, handovers: 2, ..QUIET };
/// A copy leaves and comes back, in every order of messages.
pub const RETURN: Bounds = Bounds { name: "return", writes: &[1, 1], epochs: 4, evicts: true, resyncs: true, takeovers: Takeovers::OwnerOnly, ..QUIET };
/// The same, and the owner may change.
pub const RETURN_ANY: Bounds =
    Bounds { name: "return, takeovers", writes: &[1], epochs: 5, evicts: true, resyncs: true, crashes: 1, lost_answers: 1, ..QUIET };
/// A copy comes back, and the reads of its return.
pub const RETURN_READ: Bounds =
    Bounds { name: "return, reads", writes: &[1], epochs: 5, evicts: true, resyncs: true, reads: 1, grants: 2, lost_answers: 1, ..QUIET };
/// Long stories of two copies: two blocks of one chunk.
pub const STORY: Bounds = Bounds {
    name: "story of two",
    blocks: 2,
    chunk: 2,
    writes: &[1, 2, 1],
    epochs: 8,
    evicts: true,
    resyncs: true,
    cuts: 3,
    crashes: 1,
    direct: true,
    ..QUIET
};
/// A chunk that is freed.
pub const TRIM: Bounds = Bounds { name: "trim", writes: &[3, 1], trims: 2, epochs: 6, ..STORY };
/// Two chunks, for progress.
pub const PROGRESS: Bounds = Bounds { name: "progress", chunk: 1, writes: &[1, 2, 1], epochs: 8, ..STORY };
/// Three copies that leave and come back.
pub const STORY_THREE: Bounds = Bounds { name: "story of three", nodes: 3, writes: &[1, 2], epochs: 8, cuts: 2, ..STORY };
/// The directory comes back from a backup.
pub const RESTORED: Bounds =
    Bounds { name: "restored", writes: &[1, 1], epochs: 5, evicts: true, crashes: 1, restores: 1, ..QUIET };

/// The whole protocol: nothing breaks.
pub const WHOLE: &[Bounds] = &[
    PAIR,
    THREE,
    BLOCKS,
    GRANTS,
    GRANTS_THREE,
    HANDOVER,
    RETURN,
    RETURN_ANY,
    RETURN_READ,
    STORY,
    TRIM,
    PROGRESS,
    STORY_THREE,
    RESTORED,
];
/// The same, for an evening.
pub const DEEP: &[Bounds] = &[];

/// Each rule, bounds in which it is missed, and what breaks.
pub const NEEDED: &[(Rule, Bounds, Broken)] = &[
    (Rule::AnswerWhenAllDurable, PAIR, LOST),
    (Rule::AnswerAfterCas, PAIR, LOST),
    (Rule::UnknownIsNoFailure, RETURN_READ, NOT_LINEAR),
    (Rule::NonceCompared, PAIR, LOST),
    (Rule::RefuseLowerEpoch, PAIR, LOST),
    (Rule::EpochDurable, PAIR, LOST),
    (Rule::SeqIsPair, RETURN_ANY, LOST),
    (Rule::IdempotentByPair, PAIR, LOST),
    (Rule::ResyncIsOrdered, Bounds { resends: 1, ..RETURN }, LOST),
    (Rule::RangeLock, PAIR, DIFFER),
    (Rule::ReadsWait, Bounds { reads: 1, ..PAIR }, LOST),
    (Rule::OwnerIsOneIncarnation, PAIR, LOST),
    (Rule::Agree, PAIR, DIFFER),
    (Rule::DoubtIsUnion, PAIR, DIFFER),
    (Rule::FenceAllThatStay, PAIR, LOST),
    (Rule::MarkWaitsForAgreement, BLOCKS, DIFFER),
    (Rule::MarkIsContiguous, BLOCKS, DIFFER),
    (Rule::Restamp, STORY_THREE, LOST),
    (Rule::RestampBeforeMark, STORY_THREE, LOST),
    (Rule::RestampSetsMask, STORY_THREE, LOST),
    (Rule::GrantsAfterData, GRANTS, NOT_LINEAR),
    (Rule::GrantCountedShorter, GRANTS, NOT_LINEAR),
    (Rule::GrantFromSending, GRANTS, NOT_LINEAR),
    (Rule::AcceptAfterGrants, GRANTS, NOT_LINEAR),
    (Rule::WaitAfterRestart, GRANTS, NOT_LINEAR),
    (Rule::GrantNamesEpoch, GRANTS, NOT_LINEAR),
    (Rule::GrantsOfAll, GRANTS_THREE, NOT_LINEAR),
    (Rule::GrantsOfJoining, RETURN_READ, NOT_LINEAR),
    (Rule::ReleaseNamesEpoch, HANDOVER, NOT_LINEAR),
    (Rule::ReleaseEndsService, HANDOVER, NOT_LINEAR),
    (Rule::ActiveAfterResync, RETURN, LOST),
    (Rule::ResyncingGetsChanges, RETURN, LOST),
    (Rule::ListHasUnderWay, RETURN, LOST),
    (Rule::ResyncUnderLock, RETURN, LOST),
    (Rule::ResyncOwnDoubt, RETURN_ANY, DIFFER),
    (Rule::DoubtKeptWhileResyncing, PROGRESS, DIFFER),
    (Rule::ResyncFrees, TRIM, LOST),
    (Rule::NewChunkAllChanged, TRIM, LOST),
    (Rule::ResyncTakesEpoch, STORY_THREE, LOST),
    (Rule::ResyncTakesMask, STORY_THREE, LOST),
    (Rule::DropRaisesEpoch, PROGRESS, LOST),
    (Rule::ProgressHasEpoch, PROGRESS, LOST),
    (Rule::PeriodStartsOnce, STORY_THREE, LOST),
    (Rule::PeriodStarts, STORY, INEXACT),
    (Rule::PeriodClearsMask, STORY, INEXACT),
    (Rule::TakeOverInSync, PAIR, LOST),
    (Rule::RestoredHearsAll, RESTORED, LOST),
];
