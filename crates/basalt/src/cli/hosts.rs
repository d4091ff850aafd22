//! The command line of what hosts connect to, and of hosts: their names, and what they prove themselves with.
//!
//! Invariant: as all commands, each has an example in its help.

use super::size;
use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Subcommand, Debug)]
pub enum SubsystemCommand {
    /// Make a subsystem
    #[command(after_help = "Examples:
  basalt subsystem create vms --host nqn.2014-08.org.nvmexpress:uuid:4c4c4544-0042-3510-8054-b2c04f595331
  basalt subsystem create open --allow-any-host
  basalt subsystem create prod --nqn nqn.2026-11.com.example:prod --host kvm1 --host kvm2
  basalt subsystem create esx --iscsi --host iqn.1998-01.com.vmware:esx1      # over iSCSI too")]
    Create {
        /// Its name
        name: String,
        /// Its NQN [default: nqn.2026-11.io.basalt:NAME]
        #[arg(long)]
        nqn: Option<String>,
        /// Serve it over iSCSI too, as a target
        #[arg(long)]
        iscsi: bool,
        /// Its iSCSI name, with which it is served over iSCSI too [default: iqn.2026-11.io.basalt:NAME]
        #[arg(long)]
        iqn: Option<String>,
        /// A host that may connect: its NQN or iSCSI name, or its name here; several times
        #[arg(long, value_name = "HOST")]
        host: Vec<String>,
        /// Let every host connect
        #[arg(long)]
        allow_any_host: bool,
    },
    /// List subsystems
    #[command(visible_alias = "ls", after_help = "Examples:\n  basalt subsystem list")]
    List,
    /// Show a subsystem: its volumes and who may connect
    #[command(after_help = "Examples:\n  basalt subsystem show default")]
    Show {
        /// Name, NQN or iSCSI name
        subsystem: String,
    },
    /// Change what connections must have, over what it is served, and what hosts may do with namespaces
    #[command(group = clap::ArgGroup::new("settings").required(true).multiple(true).args(["security", "iscsi", "iqn", "no_iscsi", "manage_namespaces", "no_manage_namespaces"]), override_usage = "basalt subsystem set <SUBSYSTEM> [OPTIONS]", after_help = "Examples:
  basalt subsystem set prod --security authenticated
  basalt subsystem set prod --iscsi                       # over iSCSI too: its LUNs are the namespace ids
  basalt subsystem set lab --manage-namespaces --policy default --namespaces-max 16 --bytes-max 2TiB
  basalt subsystem set lab --no-manage-namespaces

Hosts that are connected with less than --security asks for are disconnected.")]
    Set {
        /// Name, NQN or iSCSI name
        subsystem: String,
        /// What connections must at least have: plain, authenticated (DH-HMAC-CHAP; CHAP over iSCSI) or encrypted (TLS)
        #[arg(long, value_parser = security, value_name = "LEVEL")]
        security: Option<control::api::types::Security>,
        /// Serve it over iSCSI too, as a target
        #[arg(long, conflicts_with = "no_iscsi")]
        iscsi: bool,
        /// Its iSCSI name, with which it is served over iSCSI too [default: iqn.2026-11.io.basalt:NAME]
        #[arg(long, conflicts_with = "no_iscsi")]
        iqn: Option<String>,
        /// No longer serve it over iSCSI: hosts that are connected so are disconnected
        #[arg(long)]
        no_iscsi: bool,
        /// Let its hosts make, delete, attach, detach and format namespaces (nvme create-ns and so on)
        #[arg(long, conflicts_with = "no_manage_namespaces")]
        manage_namespaces: bool,
        /// The storage policy of the volumes that they make
        #[arg(long, requires = "manage_namespaces", default_value = "default", value_name = "POLICY")]
        policy: String,
        /// The most namespaces that the subsystem may have
        #[arg(long, requires = "manage_namespaces", default_value_t = 64, value_name = "COUNT")]
        namespaces_max: u32,
        /// The most that its volumes may have together
        #[arg(long, requires = "manage_namespaces", required_if_eq("manage_namespaces", "true"), value_parser = size, value_name = "SIZE")]
        bytes_max: Option<u64>,
        /// No longer let them
        #[arg(long)]
        no_manage_namespaces: bool,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
    /// Let a host connect
    #[command(after_help = "Examples:
  basalt subsystem allow vms nqn.2014-08.org.nvmexpress:uuid:4c4c4544-0042-3510-8054-b2c04f595331
  basalt subsystem allow vms kvm1
  basalt subsystem allow vms iqn.1993-08.org.debian:01:4a5b6c7d8e9f       # over iSCSI
  basalt subsystem allow default --any")]
    Allow {
        /// Name, NQN or iSCSI name
        subsystem: String,
        /// NQN, iSCSI name or name of the host
        #[arg(required_unless_present = "any", conflicts_with = "any")]
        host: Option<String>,
        /// Every host
        #[arg(long)]
        any: bool,
    },
    /// No longer let a host connect
    #[command(after_help = "Examples:
  basalt subsystem deny vms kvm1
  basalt subsystem deny default --any     # only hosts that are allowed one by one")]
    Deny {
        /// Name, NQN or iSCSI name
        subsystem: String,
        /// NQN, iSCSI name or name of the host
        #[arg(required_unless_present = "any", conflicts_with = "any")]
        host: Option<String>,
        /// Not every host
        #[arg(long)]
        any: bool,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
    /// Show a volume to the hosts of a subsystem
    #[command(
        after_help = "Examples:\n  basalt subsystem attach vms db\n  basalt subsystem attach vms db --nsid 7\n  basalt subsystem attach vms db --host kvm1 --host kvm2"
    )]
    Attach {
        /// Name, NQN or iSCSI name
        subsystem: String,
        /// Name or id of the volume
        volume: String,
        /// Its namespace id there, which is its LUN over iSCSI [default: the lowest that is free]
        #[arg(long, value_parser = nsid)]
        nsid: Option<u32>,
        /// A host that sees it, of those that may use the subsystem: its NQN or iSCSI name, or its name here; several times [default: all]
        #[arg(long, value_name = "HOST")]
        host: Vec<String>,
    },
    /// No longer show a volume to the hosts of a subsystem
    #[command(after_help = "Examples:\n  basalt subsystem detach vms db")]
    Detach {
        /// Name, NQN or iSCSI name
        subsystem: String,
        /// Name or id of the volume
        volume: String,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
    /// Delete a subsystem; its volumes stay
    #[command(visible_alias = "rm", after_help = "Examples:\n  basalt subsystem delete vms")]
    Delete {
        /// Name, NQN or iSCSI name
        subsystem: String,
        /// Although hosts are connected to it
        #[arg(long)]
        force: bool,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
}

/// What can be set of a host: one of them at least.
const SETTINGS: [&str; 24] = [
    "dhchap_secret_file",
    "dhchap_generate",
    "dhchap_secret_path",
    "dhchap_controller_secret_file",
    "dhchap_controller_generate",
    "dhchap_controller_secret_path",
    "no_dhchap_controller",
    "dhchap_hash",
    "dhchap_group",
    "no_dhchap",
    "tls_psk_file",
    "tls_psk_generate",
    "tls_psk_path",
    "no_tls_psk",
    "chap_secret_file",
    "chap_generate",
    "chap_secret_path",
    "chap_user",
    "chap_target_secret_file",
    "chap_target_generate",
    "chap_target_secret_path",
    "chap_target_user",
    "no_chap_target",
    "no_chap",
];

#[derive(Subcommand, Debug)]
#[expect(clippy::large_enum_variant, reason = "a process has one")]
pub enum HostCommand {
    /// List hosts that are known or connected
    #[command(visible_alias = "ls", after_help = "Examples:\n  basalt host list")]
    List,
    /// Show a host and its connections
    #[command(after_help = "Examples:\n  basalt host show kvm1")]
    Show {
        /// NQN, iSCSI name or name
        host: String,
    },
    /// Give the NQN of a host, or its iSCSI name, a name
    #[command(after_help = "Examples:
  basalt host add kvm1 $(ssh kvm1 cat /etc/nvme/hostnqn)
  basalt host add esx1 iqn.1998-01.com.vmware:esx1

A machine that connects over both has two names here, one for each.")]
    Add {
        /// Its name
        name: String,
        /// Its NQN, as /etc/nvme/hostnqn has it there; or its iSCSI name, as /etc/iscsi/initiatorname.iscsi has it
        nqn: String,
    },
    /// Set what a host proves itself with: DH-HMAC-CHAP secrets, a key for TLS, or a CHAP secret for iSCSI
    #[command(group = clap::ArgGroup::new("settings").required(true).multiple(true).args(SETTINGS), override_usage = "basalt host set <HOST> [OPTIONS]", after_help = "Examples:
  basalt host set kvm1 --dhchap-generate > kvm1.key      # keep it like a password
  basalt host set kvm1 --dhchap-secret-file kvm1.key --dhchap-controller-generate
  basalt host set kvm1 --dhchap-group ffdhe4096,ffdhe8192 --dhchap-hash sha512
  basalt host set kvm1 --no-dhchap
  basalt host set kvm1 --tls-psk-generate > kvm1.psk     # for connections over TLS 1.3
  basalt host set kvm1 --tls-psk-file kvm1.psk --tls-subsystem db
  basalt host set esx1 --chap-generate > esx1.chap       # for connections over iSCSI
  basalt host set esx1 --chap-secret-file esx1.chap --chap-user esx1
  basalt host set esx1 --chap-target-generate > esx1.target   # with which targets prove themselves to it
  basalt host set esx1 --no-chap")]
    Set {
        /// NQN, iSCSI name or name
        host: String,
        #[command(flatten)]
        dhchap: Box<DhchapArgs>,
        #[command(flatten)]
        tls: TlsArgs,
        #[command(flatten)]
        chap: ChapArgs,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
    /// Check this machine, which connects to volumes: settings, paths, kernel, and what to change
    #[command(after_help = "Examples:
  basalt host check                                      # on the machine that connects; it needs no daemon
  basalt host check --json | jq -r '.findings[] | select(.level == \"change\") | .advice'

It reads /sys and /proc and changes nothing. Exit status 7: something is to be changed.")]
    Check {
        /// Read sys and proc below this folder
        #[arg(long, default_value = "/", value_name = "DIR")]
        root: PathBuf,
    },
    /// Take the name from a host, and its secrets; what it may do stays
    #[command(after_help = "Examples:\n  basalt host remove kvm1")]
    Remove {
        /// NQN, iSCSI name or name
        host: String,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
}

/// The key of a host for TLS.
#[derive(Args, Debug)]
pub struct TlsArgs {
    /// The host's key for TLS, from a file with NVMeTLSkey-1:hh:base64: ('-': standard input); stored encrypted
    #[arg(long, value_name = "FILE", group = "tls_psk", conflicts_with_all = ["host_secret", "controller_secret"])]
    pub tls_psk_file: Option<PathBuf>,
    /// A new key for TLS; it is printed, once (--hash 256 or 384 says which)
    #[arg(long, group = "tls_psk", conflicts_with_all = ["host_secret", "controller_secret"])]
    pub tls_psk_generate: bool,
    /// The key stays in this file, which the daemon reads; only its owner may be able to read it
    #[arg(long, value_name = "PATH", group = "tls_psk", conflicts_with_all = ["host_secret", "controller_secret"])]
    pub tls_psk_path: Option<String>,
    /// The key is for this subsystem only (name or NQN); else for all, discovery included
    #[arg(long, value_name = "SUBSYSTEM", requires = "tls_psk")]
    pub tls_subsystem: Option<String>,
    /// Take all TLS keys of the host away
    #[arg(long, conflicts_with_all = ["tls_psk", "host_secret", "controller_secret"])]
    pub no_tls_psk: bool,
}

impl TlsArgs {
    /// Whether any of them is given.
    pub fn is_given(&self) -> bool {
        self.tls_psk_file.is_some() || self.tls_psk_generate || self.tls_psk_path.is_some() || self.no_tls_psk
    }
}

/// The secret of a host for iSCSI.
#[derive(Args, Debug)]
pub struct ChapArgs {
    /// The host's secret for iSCSI, from a file with 12 to 255 characters ('-': standard input); stored encrypted
    #[arg(long, value_name = "FILE", group = "chap_secret", conflicts_with_all = ["host_secret", "controller_secret", "tls_psk"])]
    pub chap_secret_file: Option<PathBuf>,
    /// A new secret for iSCSI, of 16 characters; it is printed, once
    #[arg(long, group = "chap_secret", conflicts_with_all = ["host_secret", "controller_secret", "tls_psk"])]
    pub chap_generate: bool,
    /// The secret stays in this file, which the daemon reads; only its owner may be able to read it
    #[arg(long, value_name = "PATH", group = "chap_secret", conflicts_with_all = ["host_secret", "controller_secret", "tls_psk"])]
    pub chap_secret_path: Option<String>,
    /// The user name that goes with the secret [default: the host's iSCSI name]
    #[arg(long, value_name = "NAME", conflicts_with_all = ["host_secret", "controller_secret", "tls_psk"])]
    pub chap_user: Option<String>,
    /// The secret with which targets prove themselves to the host when it asks (mutual CHAP), from a file; stored encrypted
    #[arg(long, value_name = "FILE", group = "chap_target_secret", conflicts_with_all = ["host_secret", "controller_secret", "tls_psk"])]
    pub chap_target_secret_file: Option<PathBuf>,
    /// A new secret for targets, of 16 characters; it is printed, once
    #[arg(long, group = "chap_target_secret", conflicts_with_all = ["chap_generate", "host_secret", "controller_secret", "tls_psk"])]
    pub chap_target_generate: bool,
    /// The targets' secret stays in this file
    #[arg(long, value_name = "PATH", group = "chap_target_secret", conflicts_with_all = ["host_secret", "controller_secret", "tls_psk"])]
    pub chap_target_secret_path: Option<String>,
    /// The user name of targets [default: basalt]
    #[arg(long, value_name = "NAME", conflicts_with_all = ["host_secret", "controller_secret", "tls_psk"])]
    pub chap_target_user: Option<String>,
    /// Take the targets' secret away
    #[arg(long, group = "chap_target_secret", conflicts_with_all = ["chap_target_user", "host_secret", "controller_secret", "tls_psk"])]
    pub no_chap_target: bool,
    /// Take the secrets for iSCSI away: the host's name is believed
    #[arg(long, conflicts_with_all = ["chap_secret", "chap_user", "chap_target_secret", "chap_target_user", "host_secret", "controller_secret", "tls_psk"])]
    pub no_chap: bool,
}

impl ChapArgs {
    /// Whether any of them is given.
    pub fn is_given(&self) -> bool {
        let secret = self.chap_secret_file.is_some() || self.chap_generate || self.chap_secret_path.is_some();
        let target = self.chap_target_secret_file.is_some() || self.chap_target_generate || self.chap_target_secret_path.is_some();
        secret || target || self.chap_user.is_some() || self.chap_target_user.is_some() || self.no_chap_target || self.no_chap
    }
}

/// What a host authenticates with.
#[derive(Args, Debug)]
pub struct DhchapArgs {
    /// The host's secret, from a file with DHHC-1:hh:base64: ('-': standard input); stored encrypted
    #[arg(long, value_name = "FILE", group = "host_secret")]
    pub dhchap_secret_file: Option<PathBuf>,
    /// A new secret for the host; it is printed, once
    #[arg(long, group = "host_secret")]
    pub dhchap_generate: bool,
    /// The host's secret stays in this file, which the daemon reads; only its owner may be able to read it
    #[arg(long, value_name = "PATH", group = "host_secret")]
    pub dhchap_secret_path: Option<String>,
    /// The controller's secret, with which it proves itself to hosts that ask
    #[arg(long, value_name = "FILE", group = "controller_secret")]
    pub dhchap_controller_secret_file: Option<PathBuf>,
    /// A new secret for the controller; it is printed, once
    #[arg(long, group = "controller_secret", conflicts_with = "dhchap_generate")]
    pub dhchap_controller_generate: bool,
    /// The controller's secret stays in this file
    #[arg(long, value_name = "PATH", group = "controller_secret")]
    pub dhchap_controller_secret_path: Option<String>,
    /// Take the controller's secret away
    #[arg(long, group = "controller_secret")]
    pub no_dhchap_controller: bool,
    /// Length and transformation of a new secret: 256, 384 or 512
    #[arg(long, value_name = "BITS", default_value = "256", value_parser = ["256", "384", "512"])]
    pub hash: String,
    /// Hash functions to allow, the most wanted first ('usual': sha384, sha512, sha256)
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub dhchap_hash: Option<Vec<String>>,
    /// DH groups to allow, the most wanted first ('usual': ffdhe3072, 4096, 6144, 8192, 2048, null)
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub dhchap_group: Option<Vec<String>>,
    /// Take all secrets of the host away: it need not authenticate any more
    #[arg(long, conflicts_with_all = ["host_secret", "controller_secret", "dhchap_hash", "dhchap_group"])]
    pub no_dhchap: bool,
}

fn nsid(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("'{text}' is not a namespace id: write a number, from 1"))
}

fn security(text: &str) -> Result<control::api::types::Security, String> {
    use control::api::types::Security;
    match text {
        "plain" => Ok(Security::Plain),
        "authenticated" => Ok(Security::Authenticated),
        "encrypted" => Ok(Security::Encrypted),
        _ => Err("write plain, authenticated or encrypted".into()),
    }
}
