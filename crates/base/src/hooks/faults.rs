//! The faults that can be seeded.

listed! {
    /// A fault that can be seeded.
    SeededFault {
        /// The tail of the log moves on without a checkpoint.
        EarlyTail,
        /// The checkpoint releases what became clean while it was written.
        LateTarget,
        /// The tail that a batch names is one segment too far.
        TailOffByOne,
        /// Batches are acknowledged while they are still in the volatile cache of the device.
        VolatileBatch,
        /// The place of data in the log is computed as if every batch header were one block.
        LongHeaderForgotten,
        /// A batch that is written again elsewhere names the places of the first attempt.
        RetryKeepsPlaces,
        /// Writes take the segments that the log needs to free others.
        ReserveForgotten,
        /// A batch that failed is written again in the last segment, which the log needs to free others.
        RetryTakesLast,
        /// Recovery takes the last batch without looking at its data.
        TornBatchTaken,
        /// Recovery leaves a torn batch where it is.
        TornBatchKept,
        /// Recovery does not replay trims.
        ForgottenTrim,
        /// Recovery does not replay what was declared uncorrectable.
        ForgottenMark,
        /// Recovery keeps a block uncorrectable that was written later.
        MarkOutlivesWrite,
        /// Recovery keeps the first version of a block in the log, not the last.
        FirstRecordWins,
        /// What a record takes out of the index is taken out before it is in it.
        RemovedBeforeFound,
        /// After recovery the first batch has the number of the last one before.
        NumberUsedTwice,
        /// A checkpoint does not flush data and pages before the tail moves on.
        PagesUnflushed,
        /// A checkpoint does not flush the head of a table that grew.
        HeadUnflushed,
        /// Pages by which a table grows a second time are not written.
        SecondGrowthUnwritten,
        /// The head of a table counts pages that came into use since the checkpoint began.
        HeadAheadOfPages,
        /// A page of a checkpoint that fails is noticed among the first that are written together only.
        LaterPagesUnchecked,
        /// The pages of a checkpoint that failed are not dirty any more.
        FailedPagesForgotten,
        /// The head of a table that grew is written before its pages are durable.
        HeadWithPages,
        /// A failed flush of a checkpoint is taken for a good one.
        FailedFlushIgnored,
        /// The second pool of leaves begins with the last leaf of the first.
        PoolsOverlap,
        /// A region of a chunk map is given back while it has a leaf.
        RegionFreedEarly,
        /// The last pages of a table are not read when it takes more than one read.
        LastPagesUnread,
        /// The first segment after those that are replayed together is left out.
        ReplayWindowSkips,
        /// Recovery looks at the headers of the first segments only.
        FirstHeadersOnly,
        /// Recovery takes the tail from the header of the newest segment, not from its batches.
        TailOfHeaderOnly,
        /// Recovery does not flush before it reads.
        RecoveryUnflushed,
        /// Promises of space are not known any more after a replay.
        PromisesForgotten,
        /// Segments are released while the batch that says so is on its way.
        ReleasedBeforeTail,
        /// Releasing a segment forgets blocks that were written again elsewhere.
        ReleaseForgetsNewer,
        /// A block whose write to capacity failed counts as destaged.
        FailedDestageCounts,
        /// A block whose write to capacity failed stays marked as under way.
        FailedBlockStaysMoving,
        /// Runs of two devices are written as one where their places follow on each other.
        RunsOverDevices,
        /// A segment with one live block is taken for empty.
        LastLiveSkipped,
        /// The room for the summary is not kept free.
        SummaryRoomForgotten,
        /// A segment is used again while a summary is on its way to it.
        SummaryUnpinned,
        /// A trim while a checkpoint is written does not make its page dirty.
        TrimUnderCheckpointClean,
        /// A block without checksum stays uncorrectable when it was written again.
        MarkOutlivesUnchecked,
        /// A damaged copy of a superblock is not written anew.
        DamagedCopyKept,
        /// Of the parts of a request the last one decides.
        LastPartDecides,
        /// An error while scrubbing the log leaves the segment pinned.
        ScrubKeepsPin,
        /// A segment is used again while it is read.
        PinsIgnored,
        /// A write that finds no space keeps the chunks that it had found.
        PlacesKeptOnRefusal,
        /// Writes that fail while they wait keep their chunks.
        WaitingKeepsPlaces,
        /// Writes may take one of the segments that are kept free.
        ReserveOffByOne,
        /// A job that fails counts as in flight for ever.
        FailedJobCounts,
        /// A page whose checkpoint failed goes to the other slot next time.
        SlotOfFailedPage,
        /// After a start the generations of pages begin anew.
        LoadedGenerationForgotten,
        /// A trim of a whole piece leaves out its last chunk.
        OneChunkTooFew,
        /// A batch that was written again elsewhere is not in the summary of its segment.
        RetriedBatchUnlisted,
        /// A batch makes durable the newest tail, not the one that it names.
        TailTakenAsNamed,
        /// What is written to a chunk ends all its uncorrectable blocks at a replay.
        UnmarksWholeChunk,
        /// A superblock is written over its newest copy.
        SuperblockOverNewest,
        /// The first change that ends in a chunk ends all.
        BusyEndsEarly,
        /// A page of a table is written over its committed version.
        SlotNotSwitched,
        /// A trim does not forget what lies in the log.
        TrimKeepsLog,
        /// A trim does not forget what lies on capacity.
        TrimKeepsCapacity,
        /// A chunk that a trim has emptied is not freed.
        ChunkLeaked,
        /// A chunk is freed while a write to it is under way.
        BusyChunkFreed,
        /// A block that was overwritten while it was destaged counts as destaged.
        NewerTakenForDestaged,
        /// A block is destaged while an older version of it is still on its way to capacity.
        OlderBlockOvertaken,
        /// What is read from the log is not verified.
        LogReadUnverified,
        /// What is read from capacity is not verified.
        CapacityReadUnverified,
        /// The holes of a read are left as the buffer came.
        HoleNotZeroed,
        /// Overlapping changes run together.
        ChangesTogether,
        /// A write of a part of a block loses the rest of it.
        RestOfBlockLost,
        /// The checksum of a block of which a part is written is that of the old block.
        SumBeforeMerge,
        /// Compare and Write does not look at what is there.
        CompareIgnored,
        /// The second part of a request goes to the mirror of the first.
        WrongMirror,
        /// A trim, or zeroes, over more than one piece ends with the first.
        SweepEndsEarly,
        /// Of the ranges of a Dataset Management command only the first takes effect.
        OneRangeTrimmed,
        /// Compare finds no difference.
        CompareAlwaysEqual,
        /// Each step of a Copy reads from the start of its range.
        CopyStartsOver,
        /// The checksum of a block that came in fragments is that of the last one.
        SumOfLastFragment,
        /// A write is carried out with the first of the PDUs that bring its data.
        FirstDataRuns,
        /// Buffers whose data was sent count as held for ever.
        SentStaysHeld,
        /// Commands that wait for buffers are not woken when data was sent.
        WaitingForgotten,
        /// A connection that holds as much as it may is not read, though what it holds waits for data of the host.
        AskedNotRead,
        /// A command that waits for buffers waits for the memory of its own capsule, and of others that wait, to come back.
        OwnCapsuleAwaited,
        /// When the last capsule that held memory has come whole, nobody of those who wait for memory is woken.
        LastCapsuleWakesNobody,
        /// A Copy that waits for buffers between two steps counts as one whose memory comes back: the connection is not read, whose bytes would free some.
        WaitingCopyAwaited,
        /// The second half of a pair waits for ever for the memory of the first, whose data was asked for.
        HalfWakesNobody,
        /// A command takes memory for its data before its turn within the limits of its volume has come.
        MemoryBeforeTurn,
        /// A request whose turn within a limit was waited for is counted once more when it begins.
        TurnNotKept,
        /// What came in capsules of commands on volumes with limits counts against what all others may hold.
        LimitedCapsulesFill,
        /// A command that was aborted and answered is answered again when its data comes.
        AbortedAnsweredTwice,
        /// The receive buffer of a connection that ends is never given back.
        BufferLeaked,
        /// The keep-alive timer runs out one interval too early.
        KeepAliveTooShort,
        /// The new size of a volume reaches the first core only.
        GrowthOnOneCore,
        /// A command is not judged again when its data has come, though a reservation was made meanwhile.
        JudgedOnce,
        /// A read of what was overwritten and destaged meanwhile counts as a failed attempt.
        MovedReadCounts,
        /// A block that was written again at the same place while it was read is taken for unchanged.
        SamePlaceTakenForSame,
        /// A segment of which nothing is durable gets a summary, and recovery believes it.
        SummaryOfNothing,
        /// A connection keeps what its host saw, and might do, when it came.
        RightsKept,
        /// A request that a limit has held back is not judged again when it begins.
        HeldNotJudged,
        /// A trim looks only at capacity for what there may be to trim, not at the log.
        LogNotLookedAt,
        /// The last piece of those that a trim or zeroes ask about counts as empty.
        LastPieceNotAskedFor,
        /// The first block behind the new end of a volume that was made smaller is not freed.
        ShrinkFreesLess,
        /// The last block of a volume that was made smaller is freed too.
        ShrinkFreesMore,
        /// What lies in the last piece is not freed when a volume is made smaller or formatted.
        FreeEndsEarly,
        /// A volume that is being formatted is closed to new commands only, and nothing of it is freed.
        FormatLeavesBlocks,
        /// The limits of all volumes begin anew with each change of any.
        LimitsBeginAnew,
        /// A volume may run at twice its IOPS limit.
        LimitDoubled,
        /// The bandwidth limit of a volume is not kept.
        BandwidthUnlimited,
        /// A large request counts as one against the IOPS limit.
        LargeCountsOnce,
        /// A view with a volume that is write protected reaches the first core only.
        ProtectedOnOneCore,
        /// A connection keeps the namespaces that were taken from its host.
        DetachedKept,
        /// A write of more than eight blocks is not one record of the log.
        WriteTorn,
        /// The figures of the first core are reported for every core.
        FiguresOfOneCore,
        /// Under Exclusive Access - All Registrants everybody may read.
        TypeSlips,
        /// A preempt that takes a reservation over keeps its old type.
        PreemptKeepsType,
        /// A registrant may release a reservation that it does not hold.
        ReleaseByAnyone,
        /// A holder that unregisters keeps its reservation.
        UnregisteredHolds,
        /// Reservations outlast a loss of power that they should not.
        PowerLossKeepsAll,
        /// An event whose log was read does not come again.
        EventMaskedForEver,
        /// A namespace that is attached is not announced.
        AttachUnreported,
        /// A namespace that has another size is taken for the same.
        ResizeUnreported,
        /// An event for which there is no request yet is lost.
        EventNeedsRequest,
        /// Changed namespaces reach the controllers of the first core only.
        ChangesToldOnOneCore,
        /// A Keep Alive command does not start the timer again.
        KeepAliveNotRearmed,
        /// Traffic does not count as a sign of life.
        TrafficForgotten,
        /// What a limit holds back keeps its time when the limit changes.
        HeldTimesKept,
        /// The timer of what is held back is not set anew when something else is due first.
        HeldTimerKept,
        /// Of the range of a request only its start is judged by the volume.
        HeldStartJudged,
        /// Of the range of a command only its start is judged by the front end.
        RangeStartJudged,
        /// A Copy that a limit holds back is not judged again.
        CopyJudgedOnce,
        /// The end of the destination of a Copy is not judged.
        CopyEndUnchecked,
        /// Of the ranges of a Dataset Management command only the first is judged.
        FirstRangeJudged,
        /// A Verify does not count against limits.
        VerifyUncounted,
        /// A request counts its whole units only against the IOPS limit.
        UnitsRoundedDown,
        /// A volume that was quiet may run ahead for a second.
        BurstTooLong,
        /// A request that a limit has held back is counted again when it begins.
        PaidTwice,
        /// The freeing of what lies behind the end of a volume is not waited for.
        FreeNotAwaited,
        /// A component that is deleted is dropped by the shards of the first core only.
        DroppedOnOneCore,
        /// A Verify is counted among the writes.
        VerifyCountsAsWrite,
        /// What lies outside of a volume is to be tried again.
        OutsideRetried,
        /// A Verify leaves out the last block.
        VerifyEndsEarly,
        /// The list of changed namespaces is not emptied when it was read.
        LogNotBegunAnew,
        /// A keep-alive time that is set anew counts from the next Keep Alive command only.
        KatoKept,
        /// An Abort says that it has aborted, whether it has or not.
        AbortSaysDone,
        /// An event goes to a request for events that was aborted.
        AbortedRequestKept,
        /// Every host is notified of what happens to a reservation.
        NoticeToAll,
        /// No notification of a reservation finds room to wait.
        NoticeLost,
        /// A trim is counted among the writes of the health log.
        TrimsHealth,
        /// Every Dataset Management command deallocates.
        DsmAlwaysTrims,
        /// Of the answers of the cores that were asked for pieces the last one counts.
        LastSurveyCounts,
        /// Of a Compare over two pieces only the first is compared.
        FirstPieceCompared,
        /// Another bandwidth with the same IOPS limit is taken for the same limits.
        BandwidthForgotten,
        /// The first block of a volume that is formatted is kept.
        FormatKeepsFirst,
        /// What an attempt at a read found bad is still bad in the next attempt.
        BadBlocksKept,
        /// A checkpoint that waits for its tail is not woken when the log gives up.
        TailWaiterForgotten,
        /// Blocks that could not be declared uncorrectable keep their chunks busy.
        FailedMarkKeepsPlace,
        /// The cursor of destaging stays in a segment that was released.
        CursorLeftBehind,
        /// Replay does not pass over the checksums of a component that is gone.
        SumsNotPassed,
        /// The older of two chunks with one content stays on the device.
        OlderPlaceLeft,
        /// The last chunk that is promised to others is given away.
        LastPromisedGiven,
        /// A scrub reads what is wrong only once.
        ScrubBelievesFirst,
        /// Neighbours on capacity with a gap between them in the log are moved as if there were none.
        GapForgotten,
        /// A dropped component loses its chunks while changes are under way in them.
        DropNotAwaited,
        /// A trim changes nothing when its first chunk is empty.
        FirstChunkLookedAt,
        /// A compare and write that fails keeps its place in the order.
        MiscompareKeepsPlace,
        /// The first block of a trim is zeroed to its end.
        EdgeTooLong,
        /// Compare and write does not count against limits.
        CompareWriteUncounted,
        /// A survey begins with the wrong piece of a mirror.
        SurveyOffMirror,
        /// Pieces that only another core has found beyond those of this one are forgotten.
        SurveyCutShort,
        /// A keep alive timeout of zero leaves the timer running.
        KatoZeroKept,
        /// Events that were sent stay masked over a reset.
        MaskOutlivesReset,
        /// A Copy command that fails names the number of its ranges.
        CopyNamesCount,
        /// What a closed connection left under way is forgotten by fences.
        LeftNotAdopted,
        /// The second half of a fused operation meets a first half that was aborted.
        AbortedHalfAwaited,
        /// Shards of a disk group that could not be opened stay.
        FailedOpenKept,
        /// A fence is answered before the shards of other cores than the first have accepted the epoch.
        FenceNotAwaited,
        /// A fence goes to shards that would accept it, though another one has accepted a later epoch.
        FenceGoesToSomeShards,
        /// The list of a copy goes on behind the furthest shard, and not behind the nearest.
        ListGoesOnTooFar,
        /// Shards do not learn of a changed component.
        UpdateNotReported,
        /// A unit that a host has taken whole is open to others.
        TakenUnitOpen,
        /// A unit that a session has taken whole is given back while the session goes on.
        TakenUnitGiven,
        /// No host hears of the end of a reservation of all registrants.
        ReleaseUnreported,
        /// A long trim, or zeroes, goes on when its volume has become read-only.
        RangeGoesOn,
        /// A change of an epoch that is over is taken.
        OlderEpochTaken,
        /// What changed before the period stays in the mask of a chunk.
        MaskOfOldPeriod,
        /// The mask of a chunk begins anew with each epoch, not with each period.
        MaskOfEachEpoch,
        /// A chunk whose mask has the block already keeps its epoch.
        EpochOfFirstChange,
        /// A change of the mask or the epoch does not make the page dirty.
        MaskNotDirty,
        /// A new chunk does not count as changed.
        NewChunkUnmarked,
        /// What a trim changed is not in the mask.
        MaskForgetsTrim,
        /// What was made uncorrectable is not in the mask.
        MaskForgetsMark,
        /// Replay does not set the mask of chunks that are in the table.
        MaskNotReplayed,
        /// Replay puts changes into a mask that began after them.
        OldRecordsInMask,
        /// A chunk that is made after the replay has the epoch of its oldest record.
        FirstEpochReplayed,
        /// A copy takes what has a lower epoch than it has accepted.
        ReplicaTakesLowerEpoch,
        /// A change of an epoch is taken, and its mark, before that epoch has stamped what is in doubt.
        ChangeBeforeRestamp,
        /// A change that comes again while it is under way is acknowledged at once.
        UnderWayAcknowledged,
        /// An epoch is accepted without a record of it.
        EpochNotLogged,
        /// Replay does not find what epoch was accepted.
        EpochNotReplayed,
        /// What is in doubt is not found again after a restart.
        DoubtNotReplayed,
        /// The log is given up without noting what copies know.
        NotesForgotten,
        /// A note leaves out what is in doubt.
        DoubtNotNoted,
        /// A copy is noted without its lanes, whose notes are before it then.
        LanesNotNotedAnew,
        /// A change that a copy has is carried out again.
        RepeatedCarriedOut,
        /// An epoch does not stamp what is in doubt.
        DoubtNotRestamped,
        /// A mark counts before the epoch that comes with it.
        MarkBeforeRestamp,
        /// Stamping what is in doubt leaves the masks as they are.
        RestampKeepsMask,
        /// What was in doubt at an earlier attempt of a resync is forgotten at the next.
        OwnDoubtForgotten,
        /// A chunk that another copy has not stays.
        RangeFreesNothing,
        /// Content of another copy leaves the epoch of its chunk.
        RangeKeepsEpoch,
        /// Content of another copy leaves the mask of its chunk.
        RangeKeepsMask,
        /// Content of another copy leaves what changed before the period in the mask of its chunk.
        PeriodOfRangeKept,
        /// Progress of a resync holds up to any epoch.
        ProgressWithoutEpoch,
        /// A lane goes on with the epoch of the first part that it got.
        EpochOfFirstPart,
        /// Now and then two changes of a lane have the same number.
        NumberGivenTwice,
        /// The mark passes a change that has not ended.
        MarkSkipsOpen,
        /// The mark of a lane begins anew with each life of the node.
        MarkBeginsAnew,
        /// Any number of changes of a lane may be above its mark.
        InDoubtUnbounded,
        /// Grants are looked at by the clock of the beginning of the turn, not by a fresh one.
        GrantsAfterData,
        /// An owner counts a grant for longer than it was given.
        GrantCountedShorter,
        /// A grant is counted from when it came, not from when it was asked for.
        GrantFromSending,
        /// A copy accepts another owner's epoch while grants to the last one run.
        AcceptAfterGrants,
        /// The own copy accepts the epoch of its node while grants to the last owner run.
        OwnCopyWaitsToo,
        /// A node accepts another owner's epoch at once after its restart.
        WaitAfterRestart,
        /// A grant does not name the objects for which it is none.
        GrantNamesEpoch,
        /// The grant of one node with an active copy lets reads be answered.
        GrantsOfAll,
        /// A released object is released in all epochs.
        ReleaseNamesEpoch,
        /// A node fences copies before its cores have the cell of the object's grants.
        FencedBeforeOwned,
        /// A change of a record is sent before reads need the grants that it asks for.
        ChangeBeforeNeeds,
        /// A copy accepts another owner's epoch while this node still serves the object.
        AcceptedBeforeStop,
        /// A node that takes an object over goes on granting it.
        BlockForgotten,
        /// A transaction of several records whose answer was lost is taken for made.
        LostBatchMade,
        /// Of a transaction that was refused only the first change is judged anew.
        RefusedBatchDropped,
        /// A fence that waits for grants is not asked again.
        WaitingFenceForgotten,
        /// An owner that has stopped because its copy has left stays the owner.
        KeptWithoutCopy,
        /// What a node had in mind for an object outlasts it.
        RemovedObjectKept,
        /// A copy on another node answers for one that is not its own.
        FencedByAnyone,
        /// Lanes move to other cores within a term, to where the copies of their mirror are now.
        LanesFollowCopies,
        /// Lanes are dealt to cores as if no mirror had a copy on the node.
        LanesOffShards,
        /// A group that is closed and opened again is on other cores than the lanes of what lies on it.
        GroupMovesCores,
        /// A mirror is served though changes do not reach its copy on another node.
        OtherCopyMisses,
        /// A change is answered though one copy has not answered.
        AnsweredWithOneMissing,
        /// A change is answered before an active copy has accepted the epoch of the record.
        AnsweredBeforeEpochHeard,
        /// A change that is sent once more has another number.
        ResentWithNewNumber,
        /// A read is answered without the grants of the other nodes.
        ReadWithoutGrants,
        /// A flush is answered without the grants of the other nodes.
        FlushWithoutGrants,
        /// A node says that it serves a view without the grants of the other nodes.
        ConfirmedWithoutGrants,
        /// A read is answered with what a change has brought to one copy that the others have not got.
        ReadUnsettled,
        /// A copy carries out what a node sends that does not own the object, or did in an earlier epoch.
        StaleOwnerCarriedOut,
        /// What is in doubt ends without going to the other copies.
        AgreementNotSent,
        /// The mark does not wait for the agreement.
        MarkNotHeld,
        /// Requests that came before the owner serves are before the agreement.
        RequestsBeforeAgreement,
        /// A copy that joins is said to miss nothing more while changes without it are under way.
        DrainedEarly,
        /// A range is copied without the range lock.
        RangeWithoutLock,
        /// A source says what it has before it has accepted the epoch.
        SourceNotStamped,
        /// What an owner wants before its node serves the picture is not done.
        UnplacedForgotten,
        /// An answer to a question of a part is taken for one to another.
        AnswerTakenForAnother,
        /// Chunks that only the returning copy has are not listed.
        ListForgetsCopy,
        /// A node takes an object over once in its life: what it has owned before is not served after a restart.
        TermBegunOnce,
        /// A node goes on in the term that it had before its restart.
        TermGoesOn,
        /// A restart of the node leaves all reservations as they were.
        RestartKeepsReservation,
        /// A resize that was cut short is not finished.
        ResizeForgotten,
        /// A format that was cut short is not finished.
        FormatForgotten,
        /// A deletion that was cut short is not finished.
        DeletionForgotten,
        /// A node sizes its components before the owner has freed what lies behind.
        SizedBeforeOwner,
        /// A forwarded request begins however old its stamp is.
        StampNotCompared,
        /// The age of a forwarded request is judged when it arrives, not when it begins.
        AgeJudgedOnArrival,
        /// A forwarded request whose link session is over begins.
        OldSessionBegins,
        /// A forwarded request begins though its requester has cancelled it.
        CancelledBegins,
        /// The owner does not compare by which view of the volume a forwarded request was judged.
        ViewRevisionNotCompared,
        /// An owner that cannot evict, since it does not reach the directory, keeps its hosts waiting.
        NeverLetsGo,
        /// A node has the incarnation of an earlier life again, after its directory was restored.
        LifeForgotten,
        /// A copy drops a fence that comes before its node hears which copies of a restored object are right.
        EarlyFenceDropped,
        /// Hosts do not hear that the owner by the record does not serve what it owns.
        AwayUnsaid,
        /// A node that an object has followed its hosts to gives it away for the load.
        HostsForgotten,
        /// An object goes for the load though the nodes are no nearer to each other then.
        SpreadTooFar,
        /// That a node is about to end is not heard: it counts as up until it is silent.
        EndUnheard,
        /// A node that is about to end counts as one that objects can go to.
        HandedToWhoEnds,
        /// What happens on control links before the host of owners takes events is dropped.
        EarlyEventsDropped,
        /// A directory that was made from a backup is taken for the one of before.
        RestoreUnnoticed,
        /// Copies that the records do not name say nothing about those that they name.
        OrphansIgnored,
        /// Copies that were not heard are kept by who goes on without them.
        UnheardKept,
        /// A component that always was the only copy does not say which epoch its changes came with.
        EpochOfChangesUnsaid,
        /// What was being brought into sync counts as in sync after a restore.
        HalfTakenForWhole,
        /// Of two nodes that end together the one that is left for a moment makes its copies the only ones in sync.
        LastCopiesPartAtTheEnd,
        /// A change that was under way when its owner stopped is taken for one that did not happen.
        StoppedTakenForUndone,
        /// A change whose link was lost is taken for one that did not happen, and is sent again.
        LostTakenForUndone,
        /// A change whose link was lost is answered at once, while it may still begin.
        LostAnsweredAtOnce,
        /// A request that another node has answered is answered once more.
        ForwardAnsweredTwice,
        /// The revision of a volume's view is that of its record alone, without its reservation.
        ReservationNotInRevision,
        /// A change of rights is answered without asking the owner.
        ConfirmNotAwaited,
        /// The owner confirms a view that it does not serve yet.
        ConfirmedTooEarly,
        /// A link that has opened is not reported.
        LinkUnreported,
        /// A forwarded request that was dropped before it began keeps its credit.
        LinkCreditKept,
        /// The answer of another node goes to the oldest request, not to the one that it names.
        AnswerToWrongRequest,
        /// Of a link that is lost, what the owner may have begun counts as never sent.
        SentTakenForUnsent,
        /// A link session takes the place of a newer one.
        OlderSessionReplaces,
        /// What an ended link session has left under way does not count against the window of the next.
        LeftForgotten,
        /// Data that comes over a plain link is not compared with its checksums.
        LinkDataUnverified,
        /// A volume is in the ANA group of the node through which it is seen, not in that of its owner.
        PathGroupByNode,
        /// Hosts still hear of a node that was removed.
        RemovedNodeAdvertised,
        /// A resize that is given up leaves the volume its new policy.
        GivenUpKeepsPolicy,
        /// A node that does not lead any more goes on with what it has begun as the leader.
        LeaderUnfenced,
        /// A request that is sent again is decided again.
        RequestDecidedAgain,
        /// The error of an earlier attempt is taken for that of what was asked for now.
        OldErrorTaken,
        /// A volume is placed on a disk group that is removed meanwhile.
        PlaceNotHeld,
        /// A request whose answer was lost is taken for one that failed.
        LostAnswerFails,
        /// A watch that has lost its place goes on from now.
        WatchGapMissed,
        /// The owner confirms a view when one of its cores goes by it.
        ConfirmAsksOneCore,
        /// The owner confirms a view while requests that were judged by an earlier one are under way.
        ConfirmedUnderWay,
        /// A link that stays closed is not reported.
        LinkLossUnreported,
        /// A request that waits to be sent to another node once more is not judged by its rights again.
        HeldRightsKept,
        /// A request that its owner does not carry out is sent again without end.
        ForwardTriedForEver,
        /// A transaction whose answer was lost is taken for one that did not happen.
        UnknownTakenForFailure,
        /// A directory that cannot be reached when a transaction is looked for again is taken for one in which it has not happened.
        DoubtForgotten,
        /// A transaction that is tried again cannot be recognised.
        NonceForgotten,
        /// A copy of the directory keeps what was removed.
        RemovalMissed,
        /// A node does not notice that its session has ended.
        SessionEndUnnoticed,
        /// The leader's record outlasts its session.
        LeaderOutlivesSession,
        /// A path counts as one that works though no link with the owner is open.
        PathWithoutLinks,
        /// The restart of a node ends reservations of volumes that others own.
        RestartEndsAll,
        /// A connection keeps the ANA states that its namespaces had when it came.
        AnaStatesKept,
        /// The slices of controller IDs of two nodes have an ID in common.
        SlicesOverlap,
        /// An ANA state that changes raises no event.
        AnaChangeUnreported,
        /// The identifiers of a namespace depend on how this node reaches it.
        NamespaceIdsByState,
        /// A change of a piece that is copied to another place is not noted.
        ChangeWhileCopiedForgotten,
        /// A change of a piece that is in the other place does not go there.
        ChangeNotFollowed,
        /// A change that did not come to the other place is taken for one that has.
        FailedFollowForgotten,
        /// A volume goes by another place of which a copy is out of sync.
        SwapOutOfSync,
        /// Changes go to another place in a later term of its owner.
        FollowInLaterTerm,
        /// A volume that is held is taken for quiet while requests to it are under way.
        HeldTakenForQuiet,
        /// Over iSCSI a command that was carried out is answered by what may be done afterwards.
        DoneJudgedAgain,
        /// A unit that is being formatted takes commands.
        FormattedUnitReady,
        /// UNMAP leaves out its last range.
        UnmapRangeForgotten,
        /// VERIFY does not look at the data that it is to compare.
        VerifyUncompared,
        /// ABORT TASK is answered while the command is with its volume.
        AbortUnawaited,
        /// Over iSCSI, REGISTER gives another key to a host that does not name the one that it has.
        KeyNotAsked,
        /// A capacity device leaves its group while components lie on it.
        DeviceLeavesInUse,
        /// With a capacity device goes what is known of the numbers that were given.
        NumbersLeaveWithDevice,
        /// The tables of a device that is added anew are not newer than those that it had.
        GenerationsBeginAnew,
        /// The cache device names a device that is added before that has a superblock.
        NamedBeforeWritten,
        /// Numbers of components that only the log names are given again.
        NumbersOfLogForgotten,
    }
}
