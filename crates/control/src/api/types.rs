//! What goes over the API: requests and answers. The command-line tool speaks these too.
//!
//! Invariants: sizes are bytes, times are seconds since 1970, fields are only added; unknown fields of requests are refused.

pub use super::copy_types::*;
pub use super::drive_types::*;
pub use super::formation_types::*;
pub use super::group_types::*;
pub use super::statistics_types::*;
use cluster::record::{CheckReport, ReportHealth};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A storage policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Policy {
    /// Its name.
    pub name: String,
    /// Node failures to survive.
    pub failures_to_tolerate: u8,
    /// Capacity devices that each copy is striped over, at least.
    pub stripe_width: u8,
    /// Part of a volume's size set aside at once, in percent.
    pub space_reservation_percent: u8,
    /// Part of a volume's size set aside in a read cache, in percent.
    pub read_cache_reservation_percent: u8,
    /// I/Os a second, each started 32 KiB counting as one; none: no limit.
    pub iops_limit: Option<u64>,
    /// Bytes a second; none: no limit.
    pub bandwidth_limit: Option<u64>,
    /// Whether each block keeps a checksum.
    pub checksum: bool,
    /// Create volumes with what is possible.
    pub force_provisioning: bool,
    /// A copy that takes much longer for changes than the others leaves. Else it stays, and is reported.
    #[serde(default)]
    pub slow_copies_leave: bool,
    /// After so many seconds a copy that is away is made anew on another node; none: it is waited for.
    #[serde(default)]
    pub repair_after_s: Option<u64>,
    /// Volumes that have it.
    pub volumes: u32,
    /// What this cluster cannot give now. A volume with this policy is refused, except under force provisioning.
    pub not_possible: Vec<String>,
    /// When it was made.
    pub created_unix_s: u64,
}

/// A new policy, or changes of one: what is not given stays as it is (new: as in the policy `default` when that was made).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PolicyChange {
    /// Its name. Needed for a new one; a policy keeps its name.
    pub name: Option<String>,
    /// 0 to 3.
    pub failures_to_tolerate: Option<u8>,
    /// 1 to 12.
    pub stripe_width: Option<u8>,
    /// 0 to 100.
    pub space_reservation_percent: Option<u8>,
    /// 0 to 100.
    pub read_cache_reservation_percent: Option<u8>,
    /// At least 10; 0: no limit.
    pub iops_limit: Option<u64>,
    /// At least 1 MiB; 0: no limit.
    pub bandwidth_limit: Option<u64>,
    /// Whether each block keeps a checksum.
    pub checksum: Option<bool>,
    /// Create volumes with what is possible.
    pub force_provisioning: Option<bool>,
    /// A copy that takes much longer for changes than the others leaves.
    pub slow_copies_leave: Option<bool>,
    /// After so many seconds a copy that is away is made anew on another node; 0: never.
    pub repair_after_s: Option<u64>,
}

/// How a volume is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum VolumeState {
    /// Served.
    Online,
    /// Not served: see the reason.
    Offline,
    /// Being made.
    Creating,
    /// Being removed.
    Deleting,
}

/// Where hosts see a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Attachment {
    /// The subsystem.
    pub nqn: String,
    /// Its name.
    pub subsystem: String,
    /// The namespace id there.
    pub nsid: u32,
}

/// A volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Volume {
    /// Its id; NGUID and UUID of its namespaces are this.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its size as hosts see it.
    pub bytes: u64,
    /// What is allocated on capacity devices.
    pub used_bytes: Option<u64>,
    /// What is set aside.
    pub reserved_bytes: u64,
    /// How far it can grow in place.
    pub grow_bytes_max: u64,
    /// Bytes of a logical block.
    pub lba_bytes: u32,
    /// Its policy.
    pub policy: String,
    /// Whether it is what the policy asks.
    pub compliant: bool,
    /// What the policy asks that it is not.
    pub shortfalls: Vec<String>,
    /// Copies that its policy asks for.
    #[serde(default)]
    pub copies: u32,
    /// Copies that are in sync.
    #[serde(default)]
    pub copies_in_sync: u32,
    /// How it is.
    pub state: VolumeState,
    /// Why it is not online.
    pub reason: Option<String>,
    /// Whether hosts may only read.
    pub read_only: bool,
    /// Where hosts see it.
    pub attachments: Vec<Attachment>,
    /// Who is registered and who holds a reservation, if anybody is.
    #[serde(default)]
    pub reservation: Option<Reservation>,
    /// The id of its layout.
    #[serde(default)]
    pub object: String,
    /// Counts the changes of its owner and of which copies are in sync.
    #[serde(default)]
    pub epoch: u32,
    /// The node that owns it: paths through that one are optimized. `None`: it has no data yet.
    #[serde(default)]
    pub owner: Option<String>,
    /// The node that is to own it whenever it can; `None`: whichever.
    #[serde(default)]
    pub preferred_owner: Option<String>,
    /// How fast copies that come back into sync get what they miss.
    #[serde(default)]
    pub resync: ResyncPace,
    /// It is laid out anew, with the stripes that its policy asks for; `None`: it is not.
    #[serde(default)]
    pub moving: Option<Moving>,
    /// The disk groups that it is to lie on; none: whichever.
    #[serde(default)]
    pub groups: Vec<String>,
    /// Where its data lies.
    pub components: Vec<Component>,
    /// When it was made.
    pub created_unix_s: u64,
}

/// How far the new layout of a volume is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Moving {
    /// How much of the volume is there, in percent; `None`: it has not begun, or its owner has not said it.
    pub percent: Option<u8>,
    /// Seconds until all is there, at the speed so far.
    pub seconds_left: Option<u64>,
    /// Why it does not go on.
    pub reason: Option<String>,
}

/// The reservation of a volume, and its registrants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Reservation {
    /// The type of the reservation that is held, as the standard names it.
    pub kind: Option<String>,
    /// Counts the changes of registrants.
    pub generation: u32,
    /// Whether it survives the end of the daemon (Persist Through Power Loss).
    pub persistent: bool,
    /// The hosts that are registered.
    pub registrants: Vec<Registrant>,
    /// The host that has taken the whole volume with RESERVE of SCSI, until it releases it or its session ends: its iSCSI name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_by: Option<String>,
}

/// A host that is registered with a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Registrant {
    /// Its host identifier.
    pub host_id: String,
    /// Its key, hexadecimal.
    pub key: String,
    /// Whether it holds the reservation.
    pub holder: bool,
}

/// A new volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewVolume {
    /// Its name.
    pub name: String,
    /// Its size: a multiple of 1 MiB is made of it by rounding up.
    pub bytes: u64,
    /// Lay it out so that it can grow to this in place. Default: four times its size.
    pub grow_bytes_max: Option<u64>,
    /// Its policy. Default: `default`.
    pub policy: Option<String>,
    /// 512 or 4096. Default: 4096.
    pub lba_bytes: Option<u32>,
    /// The subsystem (name or NQN) to attach it to. Default: `default`.
    pub subsystem: Option<String>,
    /// Attach it to no subsystem.
    #[serde(default)]
    pub detached: bool,
    /// Put it on a node of this fault domain. Default: the one with the most room.
    pub fault_domain: Option<String>,
    /// Put it on these disk groups, and nowhere else. Default: those with the most room.
    #[serde(default)]
    pub groups: Vec<String>,
}

/// Changes of a volume: what is not given stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct VolumeChange {
    /// A new name.
    pub name: Option<String>,
    /// Another policy.
    pub policy: Option<String>,
    /// Whether hosts may only read.
    pub read_only: Option<bool>,
    /// The node that is to own it whenever it can; `any`: whichever.
    pub preferred_owner: Option<String>,
    /// How fast copies that come back into sync get what they miss.
    pub resync: Option<ResyncPace>,
    /// The disk groups that it is to lie on, and nowhere else; `any` alone: whichever. Its data goes there while hosts use it.
    pub groups: Option<Vec<String>>,
}

/// As [`VolumeChange::preferred_owner`]: whichever node.
pub const ANY_OWNER: &str = "any";
/// Alone in [`VolumeChange::groups`]: whichever.
pub const ANY_GROUP: &str = "any";

/// A new size of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Resize {
    /// The new size.
    pub bytes: u64,
    /// Make it smaller although what lies behind the new end is lost.
    #[serde(default)]
    pub force: bool,
}

/// What going on with a volume would do whose copies in sync are gone, or of which it is not known which are in sync.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Recovery {
    /// The volume's name.
    pub volume: String,
    /// Whether it waits because the directory was restored from a backup.
    pub restored: bool,
    /// Its copies.
    pub copies: Vec<RecoveryCopy>,
    /// What is, or may be, lost, in words.
    pub losses: Vec<String>,
    /// Names all of this: to be given with the request, so that nothing else is done.
    pub plan: String,
}

/// What becomes of a copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RecoveryCopy {
    /// The node that has it.
    pub node: String,
    /// The mirror that it is a copy of, from 0.
    pub mirror: u32,
    /// How it is now.
    pub state: String,
    /// What it becomes.
    pub becomes: RecoveredCopy,
}

/// What a copy becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RecoveredCopy {
    /// What the volume holds from then on.
    Kept,
    /// It is brought into sync with those.
    Follows,
    /// It is given up, and deleted if its node comes back.
    GivenUp,
}

/// To go on with what is left of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Recover {
    /// With the copies of this node; the newest of those that can be reached otherwise.
    #[serde(default)]
    pub from: Option<String>,
    /// The plan that was shown; another one is refused. `null`: whatever it is.
    #[serde(default)]
    pub plan: Option<String>,
}

/// A volume in a subsystem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Namespace {
    /// Its namespace id.
    pub nsid: u32,
    /// The volume's name.
    pub volume: String,
    /// The volume's id.
    pub volume_id: String,
    /// Its size.
    pub bytes: u64,
    /// The hosts that see it, by NQN; none given: every host that may use the subsystem.
    pub hosts: Option<Vec<String>>,
}

/// A subsystem: what hosts connect to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Subsystem {
    /// Its NQN.
    pub nqn: String,
    /// Its iSCSI name: over iSCSI it is the target with this name, and its namespace ids are LUNs. None: it is not served over iSCSI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iqn: Option<String>,
    /// Its name.
    pub name: String,
    /// Its serial number.
    pub serial: String,
    /// Whether every host may connect.
    pub allow_any_host: bool,
    /// Otherwise: which, by NQN.
    pub hosts: Vec<String>,
    /// What they see.
    pub namespaces: Vec<Namespace>,
    /// Hosts connected now.
    pub sessions: u32,
    /// When it was made.
    pub created_unix_s: u64,
    /// What connections must at least have.
    pub security: Security,
    /// What its hosts may do with its namespaces; none: nothing.
    pub namespace_grant: Option<NamespaceGrant>,
}

/// What a connection must at least have before it may be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Security {
    /// Nothing.
    #[default]
    Plain,
    /// The host has proved who it is (DH-HMAC-CHAP; CHAP over iSCSI).
    Authenticated,
    /// TLS 1.3 with a pre-shared key.
    Encrypted,
}

impl From<Security> for base::Security {
    fn from(security: Security) -> Self {
        match security {
            Security::Plain => Self::Plain,
            Security::Authenticated => Self::Authenticated,
            Security::Encrypted => Self::Encrypted,
        }
    }
}

impl From<base::Security> for Security {
    fn from(security: base::Security) -> Self {
        match security {
            base::Security::Plain => Self::Plain,
            base::Security::Authenticated => Self::Authenticated,
            base::Security::Encrypted => Self::Encrypted,
        }
    }
}

/// What the hosts of a subsystem may do with its namespaces by NVMe commands: make, delete, attach, detach and format them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NamespaceGrant {
    /// The storage policy of the volumes that they make.
    pub policy: String,
    /// The most namespaces that the subsystem may have.
    pub namespaces_max: u32,
    /// The most bytes that its volumes may have together.
    pub bytes_max: u64,
}

/// A new subsystem.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewSubsystem {
    /// Its name.
    pub name: String,
    /// Its NQN. Default: `nqn.2026-11.io.basalt:NAME`.
    pub nqn: Option<String>,
    /// Serve it over iSCSI too.
    #[serde(default)]
    pub iscsi: bool,
    /// Its iSCSI name; it is served over iSCSI then. Default: `iqn.2026-11.io.basalt:NAME`.
    #[serde(default)]
    pub iqn: Option<String>,
    /// Let every host connect.
    #[serde(default)]
    pub allow_any_host: bool,
    /// Hosts that may connect, by NQN, iSCSI name or name.
    #[serde(default)]
    pub hosts: Vec<String>,
}

/// Changes of a subsystem.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SubsystemChange {
    /// Let every host connect, or only those that are allowed.
    pub allow_any_host: Option<bool>,
    /// What connections must at least have.
    pub security: Option<Security>,
    /// Let hosts manage namespaces, within this.
    pub namespace_grant: Option<NamespaceGrant>,
    /// Let hosts manage namespaces no longer.
    pub no_namespace_grant: bool,
    /// Serve it over iSCSI too, or no longer.
    pub iscsi: Option<bool>,
    /// Its iSCSI name; it is served over iSCSI then. Default: the one that it has, or `iqn.2026-11.io.basalt:NAME`.
    pub iqn: Option<String>,
}

/// How to attach a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Attach {
    /// The namespace id. Default: the lowest that is free.
    pub nsid: Option<u32>,
    /// The hosts that see it, by name or NQN, of those that may use the subsystem. Default: all.
    pub hosts: Vec<String>,
}

/// By what hosts connect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// NVMe/TCP.
    #[default]
    NvmeTcp,
    /// iSCSI.
    Iscsi,
}

/// A connected host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Session {
    /// The node through which it is connected.
    pub node: String,
    /// What it speaks.
    #[serde(default)]
    pub protocol: Protocol,
    /// The host's NQN, or its iSCSI name.
    pub host_nqn: String,
    /// Its name, if it has one here.
    pub host: Option<String>,
    /// The subsystem's NQN.
    pub subsystem_nqn: String,
    /// Where the host comes from.
    pub address: String,
    /// Its controller id; over iSCSI its session's number (TSIH).
    pub controller: u16,
    /// I/O queues; over iSCSI connections.
    pub io_queues: u16,
    /// Its admin queue goes over TLS.
    pub encrypted: bool,
    /// Since when, in seconds.
    pub connected_s: u64,
}

/// A host that is known or connected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Host {
    /// Its NQN, or its iSCSI name.
    pub nqn: String,
    /// Its name, if it has one here.
    pub name: Option<String>,
    /// Subsystems that name it in their list.
    pub allowed: Vec<String>,
    /// What it authenticates with, if it has a secret. Secrets themselves are never shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dhchap: Option<Dhchap>,
    /// What it authenticates with over iSCSI, if it has a secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chap: Option<Chap>,
    /// The keys by which it may connect over TLS. Keys themselves are never shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tls_psks: Vec<TlsPsk>,
    /// Its connections now.
    pub sessions: Vec<Session>,
}

/// What is shown of a pre-shared key for TLS.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TlsPsk {
    /// NQN of the one subsystem that it is for; none: for all.
    pub subsystem: Option<String>,
    /// Where it is kept.
    pub psk: String,
}

/// A key by which a host may connect over TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TlsPskChange {
    /// The key, NVMeTLSkey-1:hh:base64:. It is stored encrypted.
    pub psk: Option<SecretText>,
    /// Or the absolute path of a file of the daemon's node that holds it and that only its owner may read.
    pub psk_path: Option<String>,
    /// Name or NQN of the one subsystem that it is for; none: for all.
    pub subsystem: Option<String>,
}

/// What is shown of a host's authentication (DH-HMAC-CHAP).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Dhchap {
    /// Where the host's secret is kept.
    pub host_secret: String,
    /// Where the controllers' secret is kept; without one they cannot prove themselves.
    pub controller_secret: Option<String>,
    /// Hash functions that are allowed, the most wanted first; none: all, sha384 first.
    pub hashes: Vec<String>,
    /// DH groups that are allowed, the most wanted first; none: all, ffdhe3072 first.
    pub groups: Vec<String>,
}

/// The text of a secret: goes in, never out.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
pub struct SecretText(String);

impl SecretText {
    /// From text.
    pub fn new(text: String) -> Self {
        Self(text)
    }
    /// The text.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for SecretText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SecretText(not shown)")
    }
}

impl Drop for SecretText {
    fn drop(&mut self) {
        zeroize::Zeroize::zeroize(&mut self.0);
    }
}

/// A change of what a host authenticates with; what is left out stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DhchapChange {
    /// The host's secret, DHHC-1:hh:base64:. It is stored encrypted.
    pub secret: Option<SecretText>,
    /// Or the absolute path of a file of the daemon's node that holds it and that only its owner may read.
    pub secret_path: Option<String>,
    /// The controllers' secret, for hosts that ask for it.
    pub controller_secret: Option<SecretText>,
    /// Or the path of a file with it.
    pub controller_secret_path: Option<String>,
    /// Takes the controllers' secret away.
    pub no_controller_secret: bool,
    /// Hash functions to allow, the most wanted first: sha256, sha384, sha512. An empty list: the usual ones.
    pub hashes: Option<Vec<String>>,
    /// DH groups to allow, the most wanted first: null, ffdhe2048, ffdhe3072, ffdhe4096, ffdhe6144, ffdhe8192. An empty list: the usual ones.
    pub groups: Option<Vec<String>>,
}

/// What is shown of a host's authentication over iSCSI (CHAP).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Chap {
    /// Its user name.
    pub user: String,
    /// Where its secret is kept.
    pub secret: String,
    /// The user name that targets prove themselves with to it (mutual CHAP); none: they cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_user: Option<String>,
    /// Where the targets' secret is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_secret: Option<String>,
}

/// A change of what a host authenticates with over iSCSI; what is left out stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ChapChange {
    /// Its user name. Default: its iSCSI name.
    pub user: Option<String>,
    /// Its secret: 12 to 255 printable characters. It is stored encrypted.
    pub secret: Option<SecretText>,
    /// Or the absolute path of a file of the daemon's node that holds it and that only its owner may read.
    pub secret_path: Option<String>,
    /// The user name that targets prove themselves with to the host, where it asks for mutual CHAP. Default: `basalt`.
    pub target_user: Option<String>,
    /// The secret that they prove themselves with: another one than the host's. It is stored encrypted.
    pub target_secret: Option<SecretText>,
    /// Or the absolute path of a file with it, as above.
    pub target_secret_path: Option<String>,
    /// Targets prove nothing to the host any more.
    pub no_target_secret: bool,
}

/// A name for a host's NQN, or for its iSCSI name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewHost {
    /// Its NQN, as /etc/nvme/hostnqn has it there; or its iSCSI name, as /etc/iscsi/initiatorname.iscsi has it.
    pub nqn: String,
    /// Its name.
    pub name: String,
}

/// How good or bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// Nothing to do.
    Ok,
    /// Look at it soon.
    Warning,
    /// Look at it now.
    Error,
}

/// One thing that was looked at and is not well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Check {
    /// Which check. Stable.
    pub id: String,
    /// How bad.
    pub health: Health,
    /// What it is about: `group g1`, `volume v1`.
    pub subject: String,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub action: String,
}

impl Check {
    /// As it is reported to other nodes.
    pub(crate) fn report(self) -> CheckReport {
        let health = if self.health == Health::Error { ReportHealth::Error } else { ReportHealth::Warning };
        CheckReport { id: self.id, health, subject: self.subject, message: self.message, action: self.action }
    }
    /// As another node has said it.
    pub(crate) fn reported(report: CheckReport) -> Self {
        let health = match report.health {
            ReportHealth::Warning => Health::Warning,
            ReportHealth::Error => Health::Error,
        };
        Self { id: report.id, health, subject: report.subject, message: report.message, action: report.action }
    }
}

/// An address that is listened on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ListenerStatus {
    /// `io`, `discovery` or `iscsi`.
    pub kind: String,
    /// The address.
    pub address: String,
    /// What discovery tells hosts, where it is another.
    pub advertise: Option<String>,
}

/// How the node is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Status {
    /// The worst of the checks.
    pub health: Health,
    /// What is not well.
    pub checks: Vec<Check>,
    /// The release.
    pub version: String,
    /// The cluster.
    pub cluster: String,
    /// The node that answers.
    pub node: String,
    /// Since when it runs.
    pub started_unix_s: u64,
    /// Where hosts connect.
    pub listeners: Vec<ListenerStatus>,
    /// Cores of the data plane.
    pub cores: u32,
    /// Disk groups.
    pub groups: u32,
    /// Volumes.
    pub volumes: u32,
    /// Subsystems.
    pub subsystems: u32,
    /// Connected hosts (controllers).
    pub sessions: u32,
    /// What all capacity devices can hold.
    pub capacity_bytes: u64,
    /// What is used of that.
    pub used_bytes: u64,
    /// What is reserved beyond that.
    pub reserved_bytes: u64,
    /// The sizes of all volumes together.
    pub provisioned_bytes: u64,
}

/// A server of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its id, which stays when its name changes.
    pub id: Option<String>,
    /// What it does: `data` or `witness`.
    pub role: String,
    /// Where the other nodes reach it.
    pub address: Option<String>,
    /// It was removed from the cluster.
    pub removed: bool,
    /// Nodes of one fault domain fail together.
    pub fault_domain: String,
    /// It is the one that answers.
    pub answers: bool,
    /// It is up, as far as the directory knows. One that has died without a word counts as up for some seconds more.
    pub up: bool,
    /// It leads: it decides what administrators ask for.
    pub leads: bool,
    /// Its release, as far as it is known.
    pub version: Option<String>,
    /// Cores of its data plane, as far as they are known.
    pub cores: Option<u32>,
    /// Its disk groups, by name.
    pub groups: Vec<String>,
    /// What it has to do with etcd: `member`, it runs one; `client`, it runs none; `external`, somebody else does. `None`: it is alone.
    #[serde(default)]
    pub etcd: Option<String>,
    /// Since when it runs, as far as that is known.
    pub started_unix_s: Option<u64>,
    /// When it joined.
    pub created_unix_s: u64,
}

/// Something that could not be finished yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Task {
    /// Its id.
    pub id: String,
    /// In words.
    pub what: String,
    /// Why it did not work the last time.
    pub error: String,
    /// How often it was tried.
    pub attempts: u32,
    /// When it was tried last.
    pub last_unix_s: u64,
}

/// An entry of the audit log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditEntry {
    /// When, in milliseconds since 1970.
    pub unix_ms: u64,
    /// What happened: `connected`, `refused`, `disconnected`, `authenticated`, `authentication-failed`, `reservation`, `namespace`,
    /// `administrator`.
    pub event: String,
    /// Where the host came from; an administrator, over TCP.
    pub peer: Option<String>,
    /// The host's NQN, as far as it was given.
    pub host_nqn: String,
    /// The subsystem's NQN, as far as it was given.
    pub subsystem: String,
    /// The controller id, if there is a controller.
    pub controller: Option<u16>,
    /// More, in words.
    pub detail: String,
    /// Which administrator: user and process behind the socket, or the token; or that the token was wrong or missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// What the administrator asked for, without anything secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// What came of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
}
