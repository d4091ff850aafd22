//! The rules of the protocol, each of which can be taken out.
//!
//! Owns: [`Rule`].
//! Invariant: each rule that is taken out breaks an invariant in some bounds (`rules_tests`).
//! Never: says how a rule is kept.

/// A rule. `docs/replication.md` has the table with the counterexample that each prevents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// A write is answered when every copy that gets changes has it durably.
    AnswerWhenAllDurable,
    /// What waits for a copy that is taken out is answered after the compare-and-swap only.
    AnswerAfterCas,
    /// A compare-and-swap whose answer was lost is read again, not taken for a failure.
    UnknownIsNoFailure,
    /// What is read again is recognised by its nonce, not by its epoch.
    NonceCompared,
    /// And after a copy that stays has accepted the new epoch: the owner's own does so in the same step.
    EpochHeardBeforeAnswer,
    /// A component refuses what is of a lower epoch than it has accepted.
    RefuseLowerEpoch,
    /// The accepted epoch is durable before the component answers.
    EpochDurable,
    /// A sequence number is a pair with the term, compared as a pair.
    SeqIsPair,
    /// A change that is there already, as its pair says, is acknowledged and not carried out again.
    IdempotentByPair,
    /// What resync copies is ordered like a write: under a number, and refused when it comes twice.
    ResyncIsOrdered,
    /// A record in doubt is found again after a restart: its segment is not given up before.
    DoubtDurable,
    /// Overlapping changes of an owner happen one after another.
    RangeLock,
    /// A read that overlaps a change under way waits for it.
    ReadsWait,
    /// An owner is one incarnation: after a restart it takes over like any other.
    OwnerIsOneIncarnation,
    /// After a takeover the ranges in doubt are brought to agreement before they are served.
    Agree,
    /// All copies that stay are asked for what is in doubt: the union, not that of one.
    DoubtIsUnion,
    /// All copies that stay have accepted the new epoch before the new owner serves.
    FenceAllThatStay,
    /// The mark stands still until all that was in doubt before the term has been agreed on.
    MarkWaitsForAgreement,
    /// The mark does not pass a change that has not ended.
    MarkIsContiguous,
    /// On accepting a higher epoch a component stamps its chunks in doubt anew with it.
    Restamp,
    /// A higher epoch is accepted, with the stamps, before the mark of the same message counts.
    RestampBeforeMark,
    /// Restamping is a change of its blocks: it clears what the mask has of an older period, and sets them.
    RestampSetsMask,
    /// Grants are looked at after the data is there, by a clock read afresh.
    GrantsAfterData,
    /// The owner counts a grant for less time than it is given.
    GrantCountedShorter,
    /// The owner counts a grant from when it sent the heartbeat that was answered.
    GrantFromSending,
    /// A component accepts a higher epoch of another owner only after the grants to the old owner's node ran out.
    AcceptAfterGrants,
    /// The new owner's own component waits for the grants of its node too.
    OwnCopyWaitsToo,
    /// After its own restart a granter waits before it accepts a higher epoch of another owner.
    WaitAfterRestart,
    /// A grant says which epoch of the object the granter has accepted. A higher one than the owner's does not count.
    GrantNamesEpoch,
    /// Each other in-sync node has to have granted, not just one of them.
    GrantsOfAll,
    /// Which nodes have to grant: those in sync in the record, and those that a compare-and-swap under way makes active.
    GrantsOfJoining,
    /// An owner that gives its object up says up to which epoch.
    ReleaseNamesEpoch,
    /// An owner that gives its object up answers nothing more.
    ReleaseEndsService,
    /// A copy that comes back is active after its resync has finished only.
    ActiveAfterResync,
    /// A copy under resync gets all new changes, and they wait for it.
    ResyncingGetsChanges,
    /// What a returning copy misses is what the source's chunks say when it joins, and the ranges that are under way without it.
    ListHasUnderWay,
    /// Resync copies a range under the range lock.
    ResyncUnderLock,
    /// Resync copies what is in doubt at the returning copy too.
    ResyncOwnDoubt,
    /// A copy that is out of sync keeps its ranges in doubt until each was copied, whatever marks come meanwhile.
    DoubtKeptWhileResyncing,
    /// Resync frees the chunks that the returning copy has and the source has not.
    ResyncFrees,
    /// A chunk that is made counts as changed in all of its blocks.
    NewChunkAllChanged,
    /// What resync copies takes the source's epoch along.
    ResyncTakesEpoch,
    /// What resync copies takes the source's mask along.
    ResyncTakesMask,
    /// Dropping a copy under resync raises the epoch.
    DropRaisesEpoch,
    /// Progress of an earlier resync counts up to the epoch in which it was made only.
    ProgressHasEpoch,
    /// A period starts when the object stops being in sync on all copies: not with each further copy that leaves.
    PeriodStartsOnce,
    /// A new period starts when a copy leaves an object that was in sync on all copies.
    PeriodStarts,
    /// The first change of a chunk in a new period clears its mask.
    PeriodClearsMask,
    /// A takeover is by a node whose copy is in sync.
    TakeOverInSync,
    /// After a directory was restored nothing is taken over before every copy was heard, and the highest accepted epoch counts.
    RestoredHearsAll,
    /// A copy that was heard takes nothing before the record is confirmed: its node goes by the restored directory, which has no owner for it.
    HeardCopyIsStill,
}
