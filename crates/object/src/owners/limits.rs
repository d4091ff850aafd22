//! Limits of the host of owners.
//!
//! Invariant: each queue and each time has one.

use base::Duration;

/// Changes of one transaction: what `directory` takes.
pub const CHANGES_MAX: usize = 120;
/// Records of one read.
pub const READS_MAX: usize = 120;
/// Transactions, and reads, under way at once.
pub const BATCHES_MAX: usize = 4;
/// Objects that a node has machines of.
pub const HOSTED_MAX: usize = crate::grant::OBJECTS_MAX;
/// Fences that wait.
pub const WAITING_MAX: usize = crate::grant::OBJECTS_MAX;
/// Copies that come back at once.
pub const RESYNCS_MAX: usize = 8;
/// Ranges of a resync under way where it is to go as fast as it can.
pub const RANGES_HIGH: usize = 16;
/// How long the directory is left alone after it has not answered.
pub const TRY_AGAIN: Duration = Duration::from_millis(100);
/// What each of the nodes that may take over leaves to those before it.
pub const TURN: Duration = Duration::from_millis(400);
/// How often all objects are looked at.
pub const LOOK: Duration = Duration::from_millis(500);
/// A node that has given an object up, and is still the owner in the record, takes it over again after this.
pub const REST: Duration = Duration::from_secs(3);
/// An owner whose eviction the directory has not answered for so long lets the object go: with what is noticed late before (0.7 s) and what a
/// takeover takes after, that is below the 5 s that a node may cost.
pub const LETS_GO: Duration = Duration::from_secs(2);
/// An owner that has not drained after this stays: what it waits for may take as long as a device holds a read back, and all that hosts ask of the
/// volume waits with it.
pub const DRAINS: Duration = Duration::from_secs(1);
/// It is handed over again after this.
pub const DRAINS_AGAIN: Duration = Duration::from_secs(10);
/// The owner by the record, which does not serve, says so to hosts after this: what takes its object over at once is not worth it.
pub const AWAY: Duration = Duration::from_millis(300);
/// How long a fence is kept for a copy that is not known here.
pub const EARLY: Duration = Duration::from_secs(10);
/// A copy that could not make an epoch durable is asked again after this.
pub const ACCEPT_AGAIN: Duration = Duration::from_millis(200);
/// A copy that fails though its node answers comes back after this, each further time after twice as long, up to [`FAILED_MAX`].
pub const FAILED: Duration = Duration::from_secs(10);
/// That is the longest, and after so long without failing it counts anew.
pub const FAILED_MAX: Duration = Duration::from_secs(3600);
/// How often it is counted what hosts ask, and by which nodes.
pub const COUNT: Duration = Duration::from_secs(5);
/// An object goes to the node that its hosts come by when they have done so in each count for so long.
pub const FOLLOWS: Duration = Duration::from_secs(10);
/// Fewer requests a second say nothing of where hosts are.
pub const FOLLOWS_RATE: u64 = 10;
/// An object that has come to a node does not go on of itself before.
pub const STAYS: Duration = Duration::from_secs(60);
/// A node that an object has followed its hosts to keeps it so long after, whatever there is to do.
pub const HOSTS_STAY: Duration = Duration::from_secs(3600);
/// Objects that go of themselves at once.
pub const SPREADS: usize = 4;
/// Objects go for the load again after this: by then other nodes have said what they have to do with those that went before.
pub const SPREADS_APART: Duration = Duration::from_secs(15);
/// So many requests a second weigh as much as an object without any.
pub const WEIGHT_UNITS: u64 = 100;
/// A copy that was asked to come back and has not answered fails after this.
pub const JOINS: Duration = Duration::from_secs(10);
