//! The bounds within which the model is explored, and those in which each rule is missed.
//!
//! Owns: [`WHOLE`], [`NEEDED`].
//! Invariant: each rule is in [`NEEDED`] once.
//! Never: holds what a test cannot finish within seconds; [`DEEP`] is for an evening.

use super::monitor::{DIFFER, INEXACT, LOST, TWO_OWNERS};
use super::{Bounds, Rule, Takeovers};
use crate::explore::Broken;

const QUIET: Bounds = Bounds::QUIET;

/// Eviction and takeover, two copies, one block that is written twice.
pub const PAIR: Bounds = Bounds { name: "pair", writes: &[1, 1], epochs: 3, evicts: true, crashes: 1, resends: 1, ..QUIET };
/// The same with answers of the directory that are lost.
pub const LOST_ANSWERS: Bounds =
    Bounds { name: "lost answers", writes: &[1], epochs: 3, evicts: true, crashes: 1, lost_answers: 1, ..QUIET };
/// The same with three copies.
pub const THREE: Bounds = Bounds { name: "three", nodes: 3, writes: &[1, 1], epochs: 2, evicts: true, crashes: 2, ..QUIET };
/// And two takeovers.
pub const THREE_TERMS: Bounds = Bounds { name: "three, two takeovers", nodes: 3, writes: &[1], epochs: 3, ..QUIET };
/// Two blocks, so that changes pass each other; all nodes may lose their power.
pub const BLOCKS: Bounds = Bounds { name: "blocks", blocks: 2, writes: &[1, 2], epochs: 3, crashes: 2, ..QUIET };
/// What is agreed on is the content of the other copy.
pub const OTHER: Bounds = Bounds { name: "other chosen", chooses_other: true, ..BLOCKS };
/// Reads by grants.
pub const GRANTS: Bounds = Bounds { name: "grants", writes: &[1], epochs: 2, reads: 2, grants: 3, crashes: 1, evicts: true, ..QUIET };
/// The same with three nodes.
pub const GRANTS_THREE: Bounds = Bounds { name: "grants of three", nodes: 3, writes: &[1], epochs: 2, reads: 1, grants: 2, ..QUIET };
/// The object is given up for another node.
pub const HANDOVER: Bounds = Bounds { name: "handover", writes: &[], epochs: 3, reads: 1, grants: 3, handovers: 2, ..QUIET };
/// A copy leaves and comes back, in every order of messages.
pub const RETURN: Bounds = Bounds {
    name: "return",
    blocks: 2,
    writes: &[1, 2, 1],
    epochs: 6,
    evicts: true,
    resyncs: true,
    takeovers: Takeovers::OwnerOnly,
    ..QUIET
};
/// The same, and either node may become the owner.
pub const RETURN_ANY: Bounds = Bounds { name: "return, takeovers", writes: &[1], epochs: 5, evicts: true, resyncs: true, ..QUIET };
/// A copy comes back while hosts read, and the directory's answers are lost.
pub const RETURN_READ: Bounds = Bounds {
    name: "return, reads",
    writes: &[1],
    epochs: 5,
    evicts: true,
    resyncs: true,
    reads: 1,
    grants: 1,
    lost_answers: 1,
    direct: true,
    ..QUIET
};
/// Stories of many steps of two copies: two blocks of one chunk.
pub const STORY: Bounds = Bounds {
    name: "story",
    blocks: 2,
    chunk: 2,
    writes: &[1, 2, 1],
    epochs: 7,
    evicts: true,
    resyncs: true,
    cuts: 1,
    direct: true,
    takeovers: Takeovers::OwnerOnly,
    ..QUIET
};
/// A chunk that is freed.
pub const TRIM: Bounds = Bounds { name: "trim", writes: &[3, 1], trims: 2, epochs: 6, ..STORY };
/// A resync that is broken off and goes on: two chunks of one block.
pub const PROGRESS: Bounds = Bounds { name: "progress", chunk: 1, ..STORY };
/// The owner that returns has changes in doubt that nobody else has.
pub const TAKEN: Bounds = Bounds { name: "taken", chunk: 1, writes: &[1, 2], epochs: 6, takeovers: Takeovers::Any, ..STORY };
/// Two of three copies leave, one after the other, and return.
pub const TWO_OUT: Bounds = Bounds { name: "two out", nodes: 3, writes: &[1, 2], epochs: 6, cuts: 1, ..STORY };
/// A copy that was healed is the source for a third one.
pub const HEALED: Bounds =
    Bounds { name: "healed", nodes: 3, writes: &[1, 2], epochs: 8, cuts: 0, takeovers: Takeovers::OwnerDies, ..STORY };
/// The directory comes back from a backup.
pub const RESTORED: Bounds = Bounds { name: "restored", writes: &[1], epochs: 2, evicts: true, crashes: 1, restores: 1, ..QUIET };

/// The owner's node has no copy of the mirror.
pub const APART: Bounds = Bounds { name: "apart", nodes: 3, apart: true, writes: &[1], epochs: 3, evicts: true, crashes: 1, ..QUIET };
/// And reads from another node's copy.
pub const APART_READ: Bounds =
    Bounds { name: "apart, reads", nodes: 3, apart: true, writes: &[1], epochs: 2, reads: 1, grants: 2, ..QUIET };
/// And resync from another node's copy.
pub const APART_STORY: Bounds =
    Bounds { name: "apart, story", nodes: 3, apart: true, cuts: 1, writes: &[1, 2], epochs: 5, takeovers: Takeovers::Any, ..STORY };

/// And a copy that returns in every order of messages.
pub const APART_RETURN: Bounds = Bounds {
    name: "apart, return",
    nodes: 3,
    apart: true,
    writes: &[1],
    epochs: 5,
    evicts: true,
    resyncs: true,
    takeovers: Takeovers::OwnerOnly,
    ..QUIET
};
/// The owner's own copy leaves, and the owner goes on.
pub const OWN_LEAVES: Bounds =
    Bounds { name: "own leaves", own_leaves: true, writes: &[1], epochs: 3, evicts: true, reads: 1, grants: 2, ..QUIET };
/// And comes back.
pub const OWN_RETURNS: Bounds =
    Bounds { name: "own returns", own_leaves: true, writes: &[1, 2], epochs: 6, takeovers: Takeovers::Any, ..STORY };
/// And a directory from a backup.
pub const APART_RESTORED: Bounds = Bounds { name: "apart, restored", nodes: 3, apart: true, ..RESTORED };

/// The whole protocol: nothing breaks.
pub const WHOLE: &[Bounds] = &[
    PAIR,
    LOST_ANSWERS,
    THREE,
    THREE_TERMS,
    BLOCKS,
    OTHER,
    GRANTS,
    GRANTS_THREE,
    HANDOVER,
    RETURN,
    RETURN_ANY,
    RETURN_READ,
    STORY,
    TRIM,
    PROGRESS,
    TAKEN,
    TWO_OUT,
    HEALED,
    APART,
    APART_READ,
    APART_STORY,
    APART_RETURN,
    APART_RESTORED,
    OWN_LEAVES,
    OWN_RETURNS,
    RESTORED,
];
/// The same, for an evening.
pub const DEEP: &[Bounds] = &[
    Bounds { name: "pair, deep", writes: &[1, 1, 1], epochs: 4, crashes: 2, lost_answers: 1, ..PAIR },
    Bounds { name: "three, deep", writes: &[1], epochs: 3, crashes: 1, ..THREE },
    Bounds { name: "blocks, deep", writes: &[1, 2, 1], epochs: 4, crashes: 3, ..BLOCKS },
    Bounds { name: "grants, deep", writes: &[1, 1], epochs: 3, grants: 4, ..GRANTS },
    Bounds { name: "grants of three, deep", grants: 3, epochs: 3, crashes: 1, evicts: true, ..GRANTS_THREE },
    Bounds { name: "handover, deep", writes: &[1], epochs: 4, reads: 2, ..HANDOVER },
    Bounds { name: "return, deep", crashes: 1, lost_answers: 1, resends: 1, ..RETURN_ANY },
    Bounds { name: "return, reads, deep", reads: 2, grants: 3, crashes: 1, ..RETURN_READ },
    Bounds { name: "story, deep", cuts: 3, crashes: 2, epochs: 9, takeovers: Takeovers::Any, ..STORY },
    Bounds { name: "two out, deep", cuts: 3, epochs: 8, takeovers: Takeovers::Any, ..TWO_OUT },
    Bounds { name: "healed, deep", epochs: 10, cuts: 2, ..HEALED },
    Bounds { name: "apart, deep", writes: &[1, 1], crashes: 2, ..APART },
    Bounds { name: "apart, story, deep", epochs: 6, ..APART_STORY },
    Bounds { name: "restored, deep", writes: &[1, 1], epochs: 4, ..RESTORED },
];

/// Each rule, bounds in which it is missed, and what breaks.
pub const NEEDED: &[(Rule, Bounds, Broken)] = &[
    (Rule::AnswerWhenAllDurable, PAIR, LOST),
    (Rule::AnswerAfterCas, PAIR, LOST),
    (Rule::UnknownIsNoFailure, RETURN_READ, TWO_OWNERS),
    (Rule::NonceCompared, LOST_ANSWERS, LOST),
    (Rule::EpochHeardBeforeAnswer, APART_RESTORED, LOST),
    (Rule::RefuseLowerEpoch, PAIR, DIFFER),
    (Rule::EpochDurable, PAIR, LOST),
    (Rule::SeqIsPair, TAKEN, DIFFER),
    (Rule::IdempotentByPair, PAIR, LOST),
    (Rule::ResyncIsOrdered, Bounds { resends: 1, blocks: 1, writes: &[1, 1], epochs: 4, ..RETURN }, LOST),
    (Rule::DoubtDurable, PAIR, DIFFER),
    (Rule::RangeLock, PAIR, DIFFER),
    (Rule::ReadsWait, Bounds { reads: 1, ..PAIR }, LOST),
    (Rule::OwnerIsOneIncarnation, PAIR, LOST),
    (Rule::Agree, PAIR, DIFFER),
    (Rule::DoubtIsUnion, PAIR, DIFFER),
    (Rule::FenceAllThatStay, PAIR, DIFFER),
    (Rule::MarkWaitsForAgreement, BLOCKS, DIFFER),
    (Rule::MarkIsContiguous, BLOCKS, LOST),
    (Rule::Restamp, STORY, LOST),
    (Rule::RestampBeforeMark, Bounds { cuts: 1, epochs: 5, ..HEALED }, LOST),
    (Rule::RestampSetsMask, STORY, INEXACT),
    (Rule::GrantsAfterData, GRANTS, TWO_OWNERS),
    (Rule::GrantCountedShorter, GRANTS, TWO_OWNERS),
    (Rule::GrantFromSending, GRANTS, TWO_OWNERS),
    (Rule::AcceptAfterGrants, GRANTS, TWO_OWNERS),
    (Rule::OwnCopyWaitsToo, HANDOVER, TWO_OWNERS),
    (Rule::WaitAfterRestart, GRANTS, TWO_OWNERS),
    (Rule::GrantNamesEpoch, GRANTS, TWO_OWNERS),
    (Rule::GrantsOfAll, GRANTS_THREE, TWO_OWNERS),
    (Rule::GrantsOfJoining, RETURN_READ, TWO_OWNERS),
    (Rule::ReleaseNamesEpoch, HANDOVER, TWO_OWNERS),
    (Rule::ReleaseEndsService, HANDOVER, TWO_OWNERS),
    (Rule::ActiveAfterResync, RETURN, LOST),
    (Rule::ResyncingGetsChanges, RETURN, LOST),
    (Rule::ListHasUnderWay, RETURN, LOST),
    (Rule::ResyncUnderLock, RETURN, LOST),
    (Rule::ResyncOwnDoubt, TAKEN, DIFFER),
    (Rule::DoubtKeptWhileResyncing, TAKEN, DIFFER),
    (Rule::ResyncFrees, TRIM, LOST),
    (Rule::NewChunkAllChanged, TRIM, LOST),
    (Rule::ResyncTakesEpoch, HEALED, LOST),
    (Rule::ResyncTakesMask, HEALED, LOST),
    (Rule::DropRaisesEpoch, PROGRESS, LOST),
    (Rule::ProgressHasEpoch, PROGRESS, LOST),
    (Rule::PeriodStartsOnce, TWO_OUT, LOST),
    (Rule::PeriodStarts, STORY, INEXACT),
    (Rule::PeriodClearsMask, STORY, INEXACT),
    (Rule::TakeOverInSync, PAIR, LOST),
    (Rule::RestoredHearsAll, RESTORED, LOST),
    (Rule::HeardCopyIsStill, APART_RESTORED, LOST),
];
