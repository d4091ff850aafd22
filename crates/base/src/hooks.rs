//! Hooks for the simulator: deliberate (seeded) faults that it must find, and coverage marks on rare branches that it must reach.
//!
//! Owns: the two lists, and, with the feature `hooks`, which bug is seeded, which marks were passed on this thread, and whether limits are small there
//! ([`tiny`]: so that a small world meets what only a large one would); and what must hold at a place ([`must`]), looked at with the feature only.
//! Invariant: without the feature (production) nothing is ever seeded and every limit is the usual one; all calls compile to nothing.
//! Never: changes what the code does when no bug is seeded.

macro_rules! listed {
    ($(#[$meta:meta])* $name:ident { $( $(#[doc = $text:literal])+ $item:ident, )* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $( $(#[doc = $text])+ $item, )* }
        impl $name {
            /// All of them.
            pub const ALL: &'static [$name] = &[$( $name::$item, )*];
            /// Its name.
            pub const fn name(self) -> &'static str {
                match self { $( $name::$item => stringify!($item), )* }
            }
            /// What it is, in words.
            pub const fn text(self) -> &'static str {
                match self { $( $name::$item => concat!($($text),+).trim_ascii(), )* }
            }
            /// By its name.
            pub fn named(name: &str) -> Option<$name> {
                match name { $( stringify!($item) => Some($name::$item), )* _ => None }
            }
        }
    };
}

mod faults;

pub use faults::SeededFault;

listed! {
    /// A rare branch.
    CoverageMark {
        /// The batch that carries a new tail takes a reserve segment.
        ReserveSegmentTaken,
        /// A batch has a header of more than one block.
        LongBatchHeader,
        /// A batch that could not be written is written into another segment.
        BatchWrittenElsewhere,
        /// The log cannot be written: writes fail until it can.
        LogGivenUp,
        /// The log can be written again.
        LogTakenUp,
        /// The summary of a segment cannot be written.
        SummaryLost,
        /// A write is larger than a segment takes.
        WriteSplit,
        /// A write waits because destaging is behind.
        AdmissionWait,
        /// A write finds no space on capacity.
        NoPlace,
        /// The log of an idle shard is closed early, to be drained.
        IdleDrain,
        /// Destaging leaves out a block whose older version is still on its way to capacity.
        BlockLeftBehind,
        /// A block is overwritten or trimmed while it is destaged.
        OverwrittenUnderDestage,
        /// Capacity does not take what is destaged.
        DestageFailed,
        /// Destaging reads a block of the log again that was wrong or unreadable.
        DestageReadAgain,
        /// Destaging finds that a block of the log is lost.
        LostInLog,
        /// A checkpoint fails.
        CheckpointFailed,
        /// There is nothing where a trim, or zeroes, would take it away.
        NothingTrimmed,
        /// A trim, or zeroes, pass over pieces in which nothing is.
        PiecesPassedOver,
        /// A chunk is trimmed while a checkpoint is written.
        TrimUnderCheckpoint,
        /// A chunk that is empty is kept, because a change of it is under way.
        BusyChunkKept,
        /// Recovery drops the last batch: its data is not whole.
        TornBatchDropped,
        /// The rest of a range operation is not done: its volume has become read-only.
        RangeForbidden,
        /// Recovery wiped a batch that is not of the log.
        TornBatchWiped,
        /// Recovery finds a batch whose header is not whole.
        TornBatchHeader,
        /// Recovery finds a batch of an earlier use of the segment behind its end.
        StaleBatchBehindEnd,
        /// Recovery finds nothing in the newest segment.
        EmptyNewestSegment,
        /// Recovery finds a segment of which nothing can be read, though the log goes on behind it.
        SegmentWithoutTrace,
        /// Recovery reads an older segment batch by batch.
        SegmentWithoutSummary,
        /// Two readings of the end of the log differ.
        EndReadDifferently,
        /// Recovery finds more blocks than wait for the index at once.
        FoundBlocksBrought,
        /// Recovery replays that blocks were declared uncorrectable.
        UncorrectableReplayed,
        /// Recovery finds that such blocks were written later.
        UncorrectableOverwritten,
        /// One of the two versions of a page is damaged, so it is read again.
        DoubtfulPage,
        /// Two pages name the same chunk of a component.
        ChunkInTwoPages,
        /// A read meets a block that was declared uncorrectable.
        UncorrectableRead,
        /// A read is tried again.
        ReadAgain,
        /// A read fails for good.
        ReadLost,
        /// Blocks without checksum have moved while they were read.
        ReadMoved,
        /// Scrubbing does not judge a chunk that changes.
        ScrubPassedOver,
        /// A change waits for an overlapping one.
        ChangeWaits,
        /// A read waits for an overlapping change.
        ReadWaits,
        /// What was read is answered when the changes have ended that ran meanwhile.
        ReadSettles,
        /// A write of a part of a block is merged with the rest.
        PartOfBlockWritten,
        /// A write finds there what it brings.
        SameDataKept,
        /// Compare and Write finds a difference.
        Miscompare,
        /// A request has parts in two pieces.
        RequestOverPieces,
        /// A part of a request goes to another core.
        PartCrosses,
        /// A trim, or zeroes, has as many parts under way as it may.
        SweepWaits,
        /// A request is held back by the limit of its volume.
        LimitDelays,
        /// A request that the owner of its volume did not carry out is tried again.
        ForwardedAgain,
        /// A request that was held back may not begin any more.
        HeldRefused,
        /// A command brings its data in its capsule.
        DataInCapsule,
        /// The data of a command is asked for.
        DataAskedFor,
        /// The header of a PDU comes in fragments.
        HeaderInFragments,
        /// A block of data comes in fragments.
        BlockInFragments,
        /// Data is received where it belongs.
        DataInPlace,
        /// A command waits for buffers.
        WaitsForBuffers,
        /// A command waits for its turn within a limit before it has buffers.
        WaitsForTurn,
        /// A connection is not read, because too much of it is under way.
        ConnectionHeldBack,
        /// There is more to send than the network takes.
        SendQueueFull,
        /// A command that is to be aborted runs already.
        AbortTooLate,
        /// A command is aborted that waits for buffers.
        AbortOfWaiting,
        /// A command is aborted whose data was asked for.
        AbortOfAsked,
        /// Half of a fused operation is aborted, or a command whose capsule is not whole.
        AbortOfHalf,
        /// The second half of a fused operation has failed before it could run.
        PairHalfFailed,
        /// A range of a Copy takes more than one step.
        CopyInSteps,
        /// A connection ends while commands run.
        ConnectionLostBusy,
        /// A host was silent for too long.
        KeepAliveExpired,
        /// A shutdown waits for what is under way.
        DrainWaits,
        /// A command that takes rights away waits for what others have under way.
        FenceWaits,
        /// It waits for a command of a connection that is gone.
        FenceWaitsForLeft,
        /// A reservation was made while the data of a command was on its way.
        ConflictAfterData,
        /// A command of several steps was stopped between two of them by what is served by now.
        StoppedBetweenSteps,
        /// A command of a host that is preempted is aborted.
        PreemptAborts,
        /// As many changes of a lane are above its mark as may be, and the next one waits.
        TooManyInDoubt,
        /// An object goes to the node that its hosts come by.
        FollowsHosts,
        /// An object goes to a node that has less to do.
        SpreadsLoad,
    }
}

#[cfg(feature = "hooks")]
mod on {
    use super::{CoverageMark, SeededFault};
    use core::cell::Cell;

    thread_local! {
        static SEEDED: Cell<Option<SeededFault>> = const { Cell::new(None) };
        static PASSED: Cell<[u64; 2]> = const { Cell::new([0; 2]) };
        static TINY: Cell<bool> = const { Cell::new(false) };
    }
    const _: () = assert!(CoverageMark::ALL.len() <= 128);

    /// Seeds a fault on this thread, or none.
    pub fn seed_fault(bug: Option<SeededFault>) {
        SEEDED.set(bug);
    }
    /// Whether it is seeded.
    #[inline]
    pub fn seeded(bug: SeededFault) -> bool {
        SEEDED.get() == Some(bug)
    }
    /// This branch was taken.
    #[inline]
    pub fn reached(mark: CoverageMark) {
        let mut passed = PASSED.get();
        passed[mark as usize / 64] |= 1 << (mark as usize % 64);
        PASSED.set(passed);
    }
    /// Runs a test with a fault seeded on this thread: it must fail then.
    ///
    /// # Panics
    /// When it does not.
    pub fn notices(fault: SeededFault, test: fn()) {
        seed_fault(Some(fault));
        let result = std::panic::catch_unwind(test);
        seed_fault(None);
        assert!(result.is_err(), "{fault:?} is seeded, and its test does not notice");
    }
    /// Makes the limits of [`tiny`] small on this thread, or as they are. Never while anything lives that was made with the others.
    pub fn set_tiny(small: bool) {
        TINY.set(small);
    }
    /// A limit: `usual`, or `small` where limits are to be met.
    #[inline]
    pub fn tiny<T>(usual: T, small: T) -> T {
        if TINY.get() { small } else { usual }
    }
    /// What must hold here, whatever was done before.
    ///
    /// # Panics
    /// When it does not.
    #[track_caller]
    pub fn must(holds: impl FnOnce() -> bool, what: &str) {
        assert!(holds(), "{what}");
    }
    /// The coverage marks that were passed on this thread since the last call.
    pub fn take_coverage_marks() -> Vec<CoverageMark> {
        let passed = PASSED.replace([0; 2]);
        CoverageMark::ALL.iter().copied().filter(|m| passed[*m as usize / 64] >> (*m as usize % 64) & 1 != 0).collect()
    }
}
#[cfg(feature = "hooks")]
pub use on::{must, notices, reached, seed_fault, seeded, set_tiny, take_coverage_marks, tiny};

/// Never: nothing can be seeded in this build.
#[cfg(not(feature = "hooks"))]
#[inline(always)]
pub const fn seeded(_: SeededFault) -> bool {
    false
}
/// Does nothing in this build.
#[cfg(not(feature = "hooks"))]
#[inline(always)]
pub const fn reached(_: CoverageMark) {}
/// Is not looked at in this build.
#[cfg(not(feature = "hooks"))]
#[inline(always)]
pub fn must(_: impl FnOnce() -> bool, _: &str) {}
/// The usual limit: no other is in this build.
#[cfg(not(feature = "hooks"))]
#[inline(always)]
pub const fn tiny<T: Copy>(usual: T, _: T) -> T {
    usual
}
