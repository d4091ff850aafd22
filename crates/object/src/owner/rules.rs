//! The rules of `docs/replication.md` that the owner keeps. A test may leave one out; production keeps all.
//!
//! Owns: [`Rule`], [`Rules`].
//! Invariant: without `cfg(test)` every rule is kept, at no cost.
//! Never: says how a rule is kept.

/// A rule of the owner, named as in the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    AnswerAfterCas,
    UnknownIsNoFailure,
    NonceCompared,
    EpochHeardBeforeAnswer,
    OwnerIsOneIncarnation,
    Agree,
    DoubtIsUnion,
    FenceAllThatStay,
    MarkWaitsForAgreement,
    GrantsOfAll,
    GrantsOfJoining,
    ReleaseNamesEpoch,
    ReleaseEndsService,
    ActiveAfterResync,
    ResyncingGetsChanges,
    ListHasUnderWay,
    ResyncOwnDoubt,
    ResyncFrees,
    DropRaisesEpoch,
    ProgressHasEpoch,
    PeriodStartsOnce,
    PeriodStarts,
    TakeOverInSync,
    RestoredHearsAll,
}

#[cfg(test)]
impl Rule {
    /// All of them.
    pub const ALL: [Rule; 24] = [
        Rule::AnswerAfterCas,
        Rule::UnknownIsNoFailure,
        Rule::NonceCompared,
        Rule::EpochHeardBeforeAnswer,
        Rule::OwnerIsOneIncarnation,
        Rule::Agree,
        Rule::DoubtIsUnion,
        Rule::FenceAllThatStay,
        Rule::MarkWaitsForAgreement,
        Rule::GrantsOfAll,
        Rule::GrantsOfJoining,
        Rule::ReleaseNamesEpoch,
        Rule::ReleaseEndsService,
        Rule::ActiveAfterResync,
        Rule::ResyncingGetsChanges,
        Rule::ListHasUnderWay,
        Rule::ResyncOwnDoubt,
        Rule::ResyncFrees,
        Rule::DropRaisesEpoch,
        Rule::ProgressHasEpoch,
        Rule::PeriodStartsOnce,
        Rule::PeriodStarts,
        Rule::TakeOverInSync,
        Rule::RestoredHearsAll,
    ];
}

/// Which rules are kept.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rules {
    #[cfg(test)]
    pub without: Option<Rule>,
}

impl Rules {
    /// Whether a rule is kept.
    #[cfg(test)]
    pub fn has(&self, rule: Rule) -> bool {
        self.without != Some(rule)
    }
    /// Whether a rule is kept: all are.
    #[cfg(not(test))]
    pub const fn has(&self, _: Rule) -> bool {
        true
    }
}
