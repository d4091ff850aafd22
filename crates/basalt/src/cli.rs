//! The command line: nouns, verbs, their arguments and examples.
//!
//! Invariant: each command has an example in its help; sizes are read as people write them.

use crate::output::{Format, Output};
use base::ByteSize;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

mod groups;
mod hosts;

pub use groups::GroupCommand;
pub use hosts::{ChapArgs, DhchapArgs, HostCommand, SubsystemCommand, TlsArgs};

/// Where the daemon of the example configuration serves its API.
pub const DEFAULT_API: &str = "/var/lib/basalt/api.sock";

const EXIT_STATUS: &str = "Exit status:
  0  done
  1  failed
  2  wrong usage, or a value that makes no sense
  3  the daemon cannot be reached, or does not answer
  4  the named object does not exist
  5  refused: the name is taken, something uses it, or the policy or the space does not allow it
  6  'basalt lab' read data that is not what was written
  7  'basalt host check' found settings that are to be changed
  8  'basalt lab' measured, and operations failed";

#[derive(Parser, Debug)]
#[command(
    name = "basalt",
    version,
    about = "Storage for virtual machines: volumes on NVMe drives, served over NVMe/TCP and iSCSI",
    after_help = EXIT_STATUS,
    max_term_width = 100,
    propagate_version = true,
    arg_required_else_help = true
)]
pub struct Cli {
    /// The daemon's API: a Unix socket, or http://HOST:PORT, with a token in BASALT_TOKEN [default: BASALT_API, else /var/lib/basalt/api.sock]
    #[arg(long, visible_alias = "socket", global = true, value_name = "SOCKET", help_heading = "Global options")]
    pub api: Option<String>,
    /// Longest time for the daemon's answer [default: 30 to show something, 600 to change something]
    #[arg(long, global = true, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=86400), help_heading = "Global options")]
    pub timeout: Option<u32>,
    /// What to print
    #[arg(long, short, global = true, value_enum, value_name = "FORMAT", help_heading = "Global options")]
    pub output: Option<Format>,
    /// The same as -o json
    #[arg(long, global = true, conflicts_with = "output", help_heading = "Global options")]
    pub json: bool,
    /// Print tables without the line of column names
    #[arg(long, global = true, help_heading = "Global options")]
    pub no_headers: bool,
    /// Print names only, one a line
    #[arg(long, short, global = true, help_heading = "Global options")]
    pub quiet: bool,
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// Where the API is. The variable is read here: clap would show an option that has one as if it had to be given.
    pub fn api(&self) -> String {
        let variable = || std::env::var("BASALT_API").ok().filter(|api| !api.is_empty());
        self.api.clone().or_else(variable).unwrap_or_else(|| DEFAULT_API.into())
    }

    /// How to print.
    pub fn output(&self) -> Output {
        let format = if self.json { Format::Json } else { self.output.unwrap_or_default() };
        Output::new(format, !self.no_headers, self.quiet)
    }
}

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Run the daemon
    #[command(after_help = "Examples:
  basalt serve --config /etc/basalt/basalt.toml

SIGTERM and SIGINT end it in order: what is under way is answered, checkpoints are written.")]
    Serve {
        /// The configuration file
        #[arg(long, short, default_value = "/etc/basalt/basalt.toml", value_name = "FILE")]
        config: PathBuf,
    },
    /// Show health first: what is wrong, where, and what to do
    #[command(after_help = "Examples:
  basalt status
  basalt status --json | jq .health")]
    Status,
    /// The cluster: make one of this server, join one, see how it is
    #[command(subcommand, arg_required_else_help = true)]
    Cluster(ClusterCommand),
    /// Nodes: the servers of the cluster
    #[command(subcommand, arg_required_else_help = true)]
    Node(NodeCommand),
    /// Witnesses: servers that vote and hold no data
    #[command(subcommand, arg_required_else_help = true)]
    Witness(WitnessCommand),
    /// Drives of a node
    #[command(subcommand, arg_required_else_help = true)]
    Drive(DriveCommand),
    /// Disk groups: a cache device and one to seven capacity devices
    #[command(subcommand, arg_required_else_help = true)]
    Group(GroupCommand),
    /// Storage policies
    #[command(subcommand, arg_required_else_help = true)]
    Policy(PolicyCommand),
    /// Volumes
    #[command(subcommand, arg_required_else_help = true)]
    Volume(VolumeCommand),
    /// Subsystems: what hosts connect to
    #[command(subcommand, arg_required_else_help = true)]
    Subsystem(SubsystemCommand),
    /// Hosts that connect
    #[command(subcommand, arg_required_else_help = true)]
    Host(HostCommand),
    /// Show what each volume, host or device does: operations a second, bytes, latencies, queues
    #[command(after_help = "Examples:
  basalt iostat                      # volumes, since the daemon started
  basalt iostat volume 1             # second by second
  basalt iostat device 5 12          # twelve reports of 5 seconds
  basalt iostat host 1 --json | jq '.lines[] | [.name, .reads_per_s]'")]
    Iostat(IostatArgs),
    /// Show the busiest volumes, hosts or devices, again every second
    #[command(after_help = "Examples:
  basalt top
  basalt top host 2")]
    Top(IostatArgs),
    /// Show the audit log: what administrators did, who connected, who was refused, who changed a reservation
    #[command(after_help = "Examples:
  basalt audit
  basalt audit --since 2h
  basalt audit --node storage2
  basalt audit --since 1795301761 --until 1795305361 --limit 10000 --json > audit.json
  basalt audit --limit 1000 --json | jq '.[] | select(.event == \"refused\")'")]
    Audit {
        /// The most entries to show, the newest; up to 10000
        #[arg(long, short = 'n', default_value_t = 50, value_name = "COUNT", value_parser = entries)]
        limit: usize,
        /// Only what was noted since then: 30m, 2h, 7d ago, or seconds since 1970
        #[arg(long, value_name = "TIME", value_parser = when)]
        since: Option<u64>,
        /// Only what was noted before: the same
        #[arg(long, value_name = "TIME", value_parser = when)]
        until: Option<u64>,
        /// The node whose log it is [default: the one behind --api]
        #[arg(long, value_name = "NODE")]
        node: Option<String>,
    },
    /// Put load on storage, measure it, explain what was measured
    #[command(subcommand, arg_required_else_help = true)]
    Lab(crate::lab::args::LabCommand),
    /// The configuration file
    #[command(subcommand, arg_required_else_help = true)]
    Config(ConfigCommand),
    /// Print completions for a shell: of commands and options, and of names that the daemon knows
    #[command(after_help = "Examples:
  basalt completions bash > /etc/bash_completion.d/basalt
  basalt completions zsh  > /usr/share/zsh/site-functions/_basalt
  basalt completions fish > ~/.config/fish/completions/basalt.fish

They ask this program for what can be typed, so they stay right when it is replaced. Packages and 'make install' bring them.")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the manual pages, one for each command, into a folder
    #[command(after_help = "Examples:
  basalt man /usr/local/share/man/man1")]
    Man {
        /// The folder, which is there
        folder: PathBuf,
    },
}

#[derive(Args, Debug)]
pub struct IostatArgs {
    /// volume (if nothing is named), device or host; then seconds between two reports; then how many reports
    #[arg(value_name = "volume|device|host] [SECONDS] [COUNT", num_args = 0..=3)]
    pub what: Vec<String>,
    /// The node that is asked [default: the one behind --api]
    #[arg(long, value_name = "NODE")]
    pub node: Option<String>,
}

#[derive(Subcommand, Debug)]
pub enum NodeCommand {
    /// List the nodes of the cluster
    #[command(
        visible_alias = "ls",
        after_help = "Examples:
  basalt node list
  basalt node list --json | jq -r '.[].name'"
    )]
    List,
    /// Show a node: fault domain, release, cores, disk groups, how long it has been up
    #[command(after_help = "Examples:\n  basalt node show storage1")]
    Show {
        /// Its name, or its id
        node: String,
    },
    /// Make a token with which one server can join
    #[command(after_help = "Examples:
  basalt node invite
  basalt node invite --hours 24
  basalt node invite --witness

Whoever has the token can join, so treat it as a password. 'basalt cluster join TOKEN' uses it, on the server that joins.")]
    Invite {
        /// For a witness, which votes and holds no data
        #[arg(long)]
        witness: bool,
        /// How long it is good; at most 720
        #[arg(long, default_value_t = 1, value_name = "HOURS", value_parser = clap::value_parser!(u64).range(1..=720))]
        hours: u64,
    },
    /// Change what a node is called
    #[command(
        after_help = "Examples:\n  basalt node rename storage1 rack4-storage1\n\nIts volumes, groups and connections stay as they are."
    )]
    Rename {
        /// Its name, or its id
        node: String,
        /// The new name
        new_name: String,
    },
    /// Change the fault domain of a node: nodes of one domain fail together
    #[command(after_help = "Examples:\n  basalt node set storage1 --fault-domain rack4")]
    Set {
        /// Its name, or its id
        node: String,
        /// The fault domain
        #[arg(long, value_name = "DOMAIN")]
        fault_domain: String,
    },
    /// Renew the certificate of the node that is asked; it renews it by itself when half of its time is over
    #[command(
        after_help = "Examples:\n  basalt node renew-certificate\n\nNothing is restarted. 'basalt cluster status' shows until when it is valid."
    )]
    RenewCertificate,
    /// Remove a node from the cluster: it cannot come back with what it has
    #[command(
        visible_alias = "delete",
        after_help = "Examples:
  basalt node remove storage3
  basalt node remove storage3 --force     # it is lost: so are its disk groups, and the volumes with data there"
    )]
    Remove {
        /// Its name, or its id
        node: String,
        /// Also when it has disk groups: the volumes with data there are lost
        #[arg(long)]
        force: bool,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
}

#[derive(Args, Debug)]
pub struct JoinArgs {
    /// The token, as 'basalt node invite' has printed it
    #[arg(value_name = "TOKEN")]
    pub token: String,
    /// Where the other nodes reach this server: ADDRESS or ADDRESS:PORT. etcd takes the two ports after it
    #[arg(long, value_name = "ADDRESS")]
    pub address: String,
    /// What this node is called [default: its host name, or node.name of the configuration]
    #[arg(long)]
    pub name: Option<String>,
    /// Nodes of one fault domain fail together [default: it is one of its own]
    #[arg(long, value_name = "DOMAIN")]
    pub fault_domain: Option<String>,
    /// Destroy the disk groups and volumes that this server has of its own
    #[arg(long)]
    pub destroy: bool,
    /// Do not ask
    #[arg(long, short)]
    pub yes: bool,
    #[command(flatten)]
    pub etcd: EtcdArgs,
}

/// An etcd that somebody else runs.
#[derive(Args, Debug)]
#[command(next_help_heading = "An etcd that somebody else runs")]
pub struct EtcdArgs {
    /// Its endpoints: https://HOST:PORT,https://HOST:PORT,..
    #[arg(long, value_name = "URLS", value_delimiter = ',')]
    pub etcd_endpoints: Option<Vec<String>>,
    /// The authorities that its servers' certificates may be of, as PEM
    #[arg(long, value_name = "FILE")]
    pub etcd_ca: Option<PathBuf>,
    /// The certificate to show it, as PEM
    #[arg(long, value_name = "FILE", requires = "etcd_key")]
    pub etcd_cert: Option<PathBuf>,
    /// Its private key, as PEM, without a passphrase
    #[arg(long, value_name = "FILE", requires = "etcd_cert")]
    pub etcd_key: Option<PathBuf>,
}

#[derive(Subcommand, Debug)]
pub enum ClusterCommand {
    /// Make this server the first node of a cluster, with all that it has
    #[command(after_help = "Examples:
  basalt cluster create --address 10.0.0.1
  basalt cluster create --address 10.0.0.1:7500 --name storage1
  basalt cluster create --address 10.0.0.1 --etcd-endpoints https://10.0.0.5:2379,https://10.0.0.6:2379 --etcd-ca ca.crt --etcd-cert basalt.crt --etcd-key basalt.key

Volumes, hosts and identifiers stay. The daemon starts itself anew, so hosts wait for some seconds.
With --etcd-endpoints the directory goes into an etcd that somebody else runs, starts and backs up;
else the nodes run one.")]
    Create {
        /// Where the other nodes will reach this server: ADDRESS or ADDRESS:PORT. etcd takes the two ports after it
        #[arg(long, value_name = "ADDRESS")]
        address: String,
        /// What this node is called [default: as before]
        #[arg(long)]
        name: Option<String>,
        #[command(flatten)]
        etcd: EtcdArgs,
    },
    /// Change where the cluster's external etcd is, or with what it is used
    #[command(
        arg_required_else_help = true,
        after_help = "Examples:
  basalt cluster set --etcd-endpoints https://10.0.0.7:2379,https://10.0.0.8:2379
  basalt cluster set --etcd-cert basalt.crt --etcd-key basalt.key
  basalt cluster set --etcd-endpoints https://10.0.0.7:2379 --this-node
  basalt cluster set --etcd-endpoints https://10.0.0.7:2379 --offline        # its daemon is stopped

The other nodes go by it within seconds, each when it works from there. A node that cannot hear of it,
as no endpoint answers that it knows, is set by --offline."
    )]
    Set {
        /// Only on the node that is asked, until the cluster's settings change
        #[arg(long)]
        this_node: bool,
        /// Only on this server, whose daemon is stopped
        #[arg(long, conflicts_with = "this_node")]
        offline: bool,
        /// The daemon's configuration file, for --offline
        #[arg(long, short, default_value = "/etc/basalt/basalt.toml", value_name = "FILE")]
        config: PathBuf,
        #[command(flatten)]
        etcd: EtcdArgs,
    },
    /// Join a cluster, on the server that is to be a node of it
    #[command(after_help = "Examples:
  basalt cluster join basalt-join-1.AQEAAA... --address 10.0.0.2
  basalt cluster join basalt-join-1.AQEAAA... --address 10.0.0.2 --fault-domain rack2

'basalt node invite' on a node of the cluster prints the token.")]
    Join(JoinArgs),
    /// Show the cluster: its directory's members, and what is wrong
    #[command(after_help = "Examples:\n  basalt cluster status\n  basalt cluster status --json | jq .quorum")]
    Status,
    /// Write a backup of the directory into a file on this node
    #[command(
        after_help = "Examples:\n  basalt cluster backup /var/backups/basalt-directory.db\n\nIt holds records only, no data of volumes. The keys in cluster/ of the data directory are not in it."
    )]
    Backup {
        /// The file: an absolute path; one that is there is replaced
        #[arg(value_name = "FILE")]
        path: PathBuf,
    },
    /// Restore the directory from a backup, with all daemons of the cluster stopped
    #[command(after_help = "Examples:
  basalt cluster restore /var/backups/basalt-directory.db         # on one node
  basalt cluster restore --from 10.0.0.1:7421                     # on each other one: etcd's address of the first
  basalt cluster restore --own                                    # without a backup: from what this node's member of etcd has
  basalt cluster restore --external                               # on each one: who runs etcd has restored it

Then start the daemons, and let each other node that had a member of etcd have a new one, one after
the other: 'basalt cluster renew-member'. What was changed after the backup is lost. Volumes wait until all nodes
have said which copies they have; 'basalt volume recover' goes on without nodes that are lost.")]
    Restore {
        #[command(flatten)]
        from: RestoreFrom,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
        /// The daemon's configuration file
        #[arg(long, short, default_value = "/etc/basalt/basalt.toml", value_name = "FILE")]
        config: PathBuf,
    },
    /// Give this node a new member of etcd, in the place of one that is lost
    #[command(
        after_help = "Examples:\n  basalt cluster renew-member\n\nThe other members have to have a quorum. It votes when it has caught up: 'basalt cluster status'."
    )]
    RenewMember,
}

/// What a directory is restored from.
#[derive(Args, Debug)]
pub struct RestoreFrom {
    /// The backup
    #[arg(value_name = "FILE", required_unless_present_any = ["own", "from", "external"], conflicts_with_all = ["own", "from", "external"])]
    pub path: Option<PathBuf>,
    /// What this node's member of etcd has stored: where the others are lost and there is no newer backup
    #[arg(long, conflicts_with_all = ["from", "external"])]
    pub own: bool,
    /// Follow another node that was restored: where its etcd answers clients
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub from: Option<std::net::SocketAddr>,
    /// Accept that who runs the external etcd has restored it
    #[arg(long, conflicts_with = "from")]
    pub external: bool,
}

#[derive(Subcommand, Debug)]
pub enum WitnessCommand {
    /// Join a cluster as a witness, on the server that is to be it
    #[command(after_help = "Examples:
  basalt witness join basalt-join-1.AgEAAA... --address 10.0.0.9

'basalt node invite --witness' on a node of the cluster prints the token.")]
    Join(JoinArgs),
}

#[derive(Subcommand, Debug)]
pub enum DriveCommand {
    /// List drives, what they are and who uses them
    #[command(
        visible_alias = "ls",
        after_help = "Examples:
  basalt drive list
  basalt drive list --node storage2
  basalt drive list --json | jq -r '.[] | select(.use_state == \"free\") | .path'"
    )]
    List {
        /// The node that has them [default: the one behind --api]
        #[arg(long, value_name = "NODE")]
        node: Option<String>,
    },
    /// Show a drive: what it is, who uses it, and what it says of its health (SMART)
    #[command(after_help = "Examples:
  basalt drive show /dev/nvme0n1
  basalt drive show nvme0n1 --json | jq .smart.used_percent

NVMe drives are asked for log page 02h, through the kernel. Nothing is changed on them.")]
    Show {
        /// Its path, or the last part of that
        drive: String,
        /// The node that has it [default: the one behind --api]
        #[arg(long, value_name = "NODE")]
        node: Option<String>,
    },
}

/// All of [`PolicyArgs`]: who changes a policy says what.
const POLICY_ARGS: [&str; 10] = [
    "failures_to_tolerate",
    "stripe_width",
    "space_reservation",
    "read_cache_reservation",
    "iops_limit",
    "bandwidth_limit",
    "checksum",
    "force_provisioning",
    "slow_copies_leave",
    "repair_after",
];

#[derive(Args, Debug, Default)]
pub struct PolicyArgs {
    /// Node failures that a volume survives: 0 to 3
    #[arg(long, value_name = "N", visible_alias = "ftt", value_parser = number)]
    pub failures_to_tolerate: Option<u8>,
    /// Capacity devices that each copy is spread over, at least: 1 to 12
    #[arg(long, value_name = "N", value_parser = number)]
    pub stripe_width: Option<u8>,
    /// Part of the size set aside at once: 0 (thin) to 100 (thick)
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub space_reservation: Option<u8>,
    /// Part of the size set aside in a read cache: 0 to 100
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub read_cache_reservation: Option<u8>,
    /// I/Os a second of each volume, each started 32 KiB counting as one; or none
    #[arg(long, value_name = "N|none", value_parser = limit)]
    pub iops_limit: Option<u64>,
    /// Bytes a second of each volume, such as 200MiB; or none
    #[arg(long, value_name = "SIZE|none", value_parser = size_limit)]
    pub bandwidth_limit: Option<u64>,
    /// Keep and verify a checksum of each block
    #[arg(long, value_name = "on|off")]
    pub checksum: Option<Switch>,
    /// Make volumes with what is possible, and say what is missing
    #[arg(long, value_name = "on|off", num_args = 0..=1, default_missing_value = "on")]
    pub force_provisioning: Option<Switch>,
    /// Let a copy leave that takes ten times as long for changes as the others; off: it stays, and is reported
    #[arg(long, value_name = "on|off", num_args = 0..=1, default_missing_value = "on")]
    pub slow_copies_leave: Option<Switch>,
    /// Make a copy that is away for so long anew on another node: 90s, 60m, 2h or 1d; or never
    #[arg(long, value_name = "TIME|never", value_parser = wait)]
    pub repair_after: Option<u64>,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    On,
    Off,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Not at all, until another one is set
    Paused,
    /// A small part of the time
    Low,
    /// As fast as it goes without hosts, else so that they hardly notice
    Normal,
    /// As fast as it goes
    High,
}

impl From<Pace> for control::api::types::ResyncPace {
    fn from(pace: Pace) -> Self {
        match pace {
            Pace::Paused => Self::Paused,
            Pace::Low => Self::Low,
            Pace::Normal => Self::Normal,
            Pace::High => Self::High,
        }
    }
}

#[derive(Subcommand, Debug)]
pub enum PolicyCommand {
    /// Make a policy
    #[command(after_help = "Examples:
  basalt policy create bronze --iops-limit 2000 --bandwidth-limit 100MiB
  basalt policy create safe --space-reservation 100
  basalt policy create wide --stripe-width 4")]
    Create {
        /// Its name
        name: String,
        #[command(flatten)]
        policy: PolicyArgs,
    },
    /// List policies, and what this cluster cannot give
    #[command(visible_alias = "ls", after_help = "Examples:\n  basalt policy list")]
    List,
    /// Show a policy
    #[command(after_help = "Examples:\n  basalt policy show default")]
    Show {
        /// Its name
        policy: String,
    },
    /// Change a policy, and with it every volume that has it
    #[command(group = clap::ArgGroup::new("settings").required(true).multiple(true).args(POLICY_ARGS), override_usage = "basalt policy set [OPTIONS] <POLICY>", after_help = "Examples:
  basalt policy set bronze --iops-limit 5000
  basalt policy set bronze --bandwidth-limit none")]
    Set {
        /// Its name
        policy: String,
        #[command(flatten)]
        change: PolicyArgs,
    },
    /// Delete a policy that no volume has
    #[command(after_help = "Examples:\n  basalt policy delete bronze")]
    Delete {
        /// Its name
        policy: String,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
}

#[derive(Subcommand, Debug)]
pub enum VolumeCommand {
    /// Make a volume, thin unless its policy says otherwise
    #[command(after_help = "Examples:
  basalt volume create db --size 200GiB
  basalt volume create boot --size 20GiB --lba 512 --subsystem vms
  basalt volume create logs --size 50GiB --policy bronze --grow-max 2TiB
  basalt volume create vm7 --size 100GiB --fault-domain rack4     # its data lies there
  basalt volume create vm8 --size 100GiB --group fast")]
    Create {
        /// Its name
        name: String,
        /// Its size, such as 200GiB or 1.5TiB
        #[arg(long, short, value_parser = size)]
        size: u64,
        /// Its policy [default: the policy 'default']
        #[arg(long, short)]
        policy: Option<String>,
        /// Bytes of a logical block: 512 or 4096
        #[arg(long, default_value_t = 4096, value_name = "BYTES")]
        lba: u32,
        /// Lay it out so that it can grow to this in place [default: four times its size]
        #[arg(long, value_name = "SIZE", value_parser = size)]
        grow_max: Option<u64>,
        /// The subsystem (name or NQN) where hosts see it [default: the subsystem 'default']
        #[arg(long)]
        subsystem: Option<String>,
        /// Do not show it to hosts yet
        #[arg(long, conflicts_with = "subsystem")]
        detached: bool,
        /// Put its data on a node of this fault domain; a node is one of its own unless set otherwise [default: the one with the most room]
        #[arg(long, value_name = "NAME")]
        fault_domain: Option<String>,
        /// Put it on this disk group; several times: on these. Copies need one of each node [default: those with the most room]
        #[arg(long, value_name = "GROUP")]
        group: Vec<String>,
    },
    /// List volumes
    #[command(
        visible_alias = "ls",
        after_help = "Examples:
  basalt volume list
  basalt volume list --json | jq -r '.[] | [.name, .used_bytes] | @tsv'"
    )]
    List,
    /// Show a volume and where its data lies
    #[command(after_help = "Examples:\n  basalt volume show db")]
    Show {
        /// Name or id
        volume: String,
    },
    /// Make a volume larger; connected hosts see it at once
    #[command(after_help = "Examples:\n  basalt volume grow db --size 300GiB")]
    Grow {
        /// Name or id
        volume: String,
        /// Its new size
        #[arg(long, short, value_parser = size)]
        size: u64,
    },
    /// Make a volume smaller: what lies behind its new end is lost
    #[command(after_help = "Examples:\n  basalt volume shrink db --size 100GiB --force     # after the file system on it was shrunk")]
    Shrink {
        /// Name or id
        volume: String,
        /// Its new size
        #[arg(long, short, value_parser = size)]
        size: u64,
        /// Yes, cut off what lies behind
        #[arg(long)]
        force: bool,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
    /// Give a volume another name; its id, and what hosts see, stay
    #[command(after_help = "Examples:\n  basalt volume rename db db-old")]
    Rename {
        /// Name or id
        volume: String,
        /// The new name
        new_name: String,
    },
    /// Change a volume
    #[command(group = clap::ArgGroup::new("change").required(true).multiple(true).args(["policy", "owner", "resync", "read_only", "group"]), override_usage = "basalt volume set <VOLUME> [OPTIONS]", after_help = "Examples:
  basalt volume set db --policy bronze
  basalt volume set db --group fast        # its data goes there; --group any: wherever it is
  basalt volume set db --owner node-2      # whenever that one has a copy in sync; --owner any: whichever
  basalt volume set db --resync paused     # until '--resync normal'
  basalt volume set db --read-only on")]
    Set {
        /// Name or id
        volume: String,
        /// Another policy; the volume gets or loses copies and stripes while it is used
        #[arg(long, short)]
        policy: Option<String>,
        /// The node that is to own it whenever it can, or 'any'
        #[arg(long, value_name = "NODE")]
        owner: Option<String>,
        /// The disk group that it is to lie on; several times: these; 'any': whichever
        #[arg(long, value_name = "GROUP")]
        group: Vec<String>,
        /// How fast copies that come back into sync, and a new layout, get their data. normal: beside what hosts ask so that their latency hardly rises
        #[arg(long, value_name = "PACE", value_enum)]
        resync: Option<Pace>,
        /// Whether hosts may only read
        #[arg(long, value_name = "on|off")]
        read_only: Option<Switch>,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
    /// Make copies that are away anew on other nodes now, without the wait of the policy
    #[command(after_help = "Examples:\n  basalt volume repair db")]
    Repair {
        /// Name or id
        volume: String,
    },
    /// Go on with what is left of a volume whose copies in sync are gone for good; says first what that loses
    ///
    /// For a volume that waits for nodes that do not come back, or whose records were restored from a backup while nodes are missing. What only those
    /// have is lost, and they must stay off: hosts that still reach one of them go on with that one. Shows what would become of each copy; on a terminal
    /// it asks.
    #[command(after_help = "Examples:
  basalt volume recover db --dry-run      # what it would do, and lose
  basalt volume recover db
  basalt volume recover db --from node-b  # with the copy there, whatever others have")]
    Recover {
        /// Name or id
        volume: String,
        /// With the copies of this node; the newest of those that can be reached otherwise
        #[arg(long, value_name = "NODE")]
        from: Option<String>,
        /// Only show what it would do
        #[arg(long)]
        dry_run: bool,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
    /// Delete a volume and its data
    #[command(
        visible_alias = "rm",
        after_help = "Examples:
  basalt volume delete db-old
  basalt volume delete db-old --force     # although hosts are connected to it"
    )]
    Delete {
        /// Name or id
        volume: String,
        /// Although hosts are connected to it
        #[arg(long)]
        force: bool,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
    /// Remove all registrants and the reservation of a volume: the last resort when a cluster has left one behind
    #[command(after_help = "Examples:\n  basalt volume clear-reservation quorum")]
    ClearReservation {
        /// Name or id
        volume: String,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
}

#[derive(Subcommand, Debug)]
pub enum ConfigCommand {
    /// Check a configuration file without starting anything
    #[command(after_help = "Examples:\n  basalt config check /etc/basalt/basalt.toml")]
    Check {
        /// The file
        #[arg(default_value = "/etc/basalt/basalt.toml")]
        file: PathBuf,
    },
}

/// A time, in seconds since 1970: so many minutes, hours or days ago, or that number itself.
fn when(text: &str) -> Result<u64, String> {
    if let Ok(seconds) = text.parse() {
        return Ok(seconds);
    }
    let ago = seconds(text).ok_or_else(|| format!("'{text}' is not a time; write 30m, 2h or 7d (ago), or seconds since 1970"))?;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_secs());
    Ok(now.saturating_sub(ago))
}

/// How long, in seconds; 0: without end.
fn wait(text: &str) -> Result<u64, String> {
    if text == "never" {
        return Ok(0);
    }
    let long = seconds(text).filter(|seconds| *seconds > 0);
    long.ok_or_else(|| format!("'{text}' is not how long: write 90s, 60m, 2h or 1d, or never"))
}

/// So many seconds, minutes, hours or days.
fn seconds(text: &str) -> Option<u64> {
    let unit = match text.chars().last()? {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => return None,
    };
    text[..text.len() - 1].parse::<u64>().ok()?.checked_mul(unit)
}

fn size(text: &str) -> Result<u64, String> {
    text.parse::<ByteSize>().map(|s| s.0).map_err(|e| e.to_string())
}

fn size_limit(text: &str) -> Result<u64, String> {
    match text {
        "none" => Ok(0),
        _ => {
            size(text).and_then(|bytes| if bytes > 0 { Ok(bytes) } else { Err(format!("'{text}' is not a limit; write a size, or none")) })
        }
    }
}

fn shards(text: &str) -> Result<u8, String> {
    text.parse().ok().filter(|n| [1, 2, 4, 8, 16].contains(n)).ok_or_else(|| format!("'{text}' is none of 1, 2, 4, 8 and 16"))
}

fn entries(text: &str) -> Result<usize, String> {
    let most = control::audit::ENTRIES_MAX;
    text.parse().ok().filter(|n| (1..=most).contains(n)).ok_or_else(|| format!("'{text}' is not a number of entries: write 1 to {most}"))
}

fn number(text: &str) -> Result<u8, String> {
    text.parse().map_err(|_| format!("'{text}' is not a whole number, or is too large"))
}

fn percent(text: &str) -> Result<u8, String> {
    text.strip_suffix('%').unwrap_or(text).parse().map_err(|_| format!("'{text}' is not a percentage: write a whole number from 0 to 100"))
}

/// 0 is what the API has for none: who writes it may mean the opposite.
fn limit(text: &str) -> Result<u64, String> {
    let number = if text == "none" { Some(0) } else { text.parse().ok().filter(|n| *n > 0) };
    number.ok_or_else(|| format!("'{text}' is not a limit; write a number from 1, or none"))
}

/// `memory:SIZE`, `memory:SIZE:populated`, `PATH:SIZE` or `PATH`; a relative path is taken from where the command runs.
fn device(text: &str) -> Result<control::api::types::NewDevice, String> {
    if let Some(memory) = text.strip_prefix("memory:") {
        size(memory.strip_suffix(":populated").unwrap_or(memory))?;
        return Ok(control::api::types::NewDevice { path: text.into(), bytes: None });
    }
    let (path, bytes) = match text.rsplit_once(':') {
        // names below /dev/disk/by-path hold colons: only what reads as a size is one
        Some((path, tail)) if !path.is_empty() && tail.parse::<ByteSize>().is_ok() && !std::path::Path::new(text).exists() => {
            (path, Some(size(tail)?))
        }
        _ => (text, None),
    };
    let path = std::path::absolute(path).map_err(|e| format!("'{path}': {e}"))?;
    Ok(control::api::types::NewDevice { path: path.display().to_string(), bytes })
}

#[cfg(test)]
#[path = "cli_tests.rs"]
mod tests;
