//! `basalt-client`: a user-space NVMe/TCP client for tests and measurements: discover, identify, verified load, hold.
//!
//! Prints JSON on standard output and progress on standard error. Exit code 0: all went well; 1: a lost or wrong byte, a
//! failed command or no connection; 2: wrong arguments.
#![forbid(unsafe_code)]
// A command line tool on the tool side: it sleeps and reads the clock.
#![allow(clippy::disallowed_methods)]

use anyhow::{Context, bail};
use auth::{Credentials, Secret};
use base::ByteSize;
use clap::{Args, Parser, Subcommand, ValueEnum};
use format::nvme::identify::NamespaceDescriptor;
use format::nvme::text::trimmed;
use format::nvme_tcp::Digests;
use initiator::authenticate::secret_file;
use initiator::discovery::discover;
use initiator::{Controller, ControllerOptions, HostIdentity, Io, TlsOptions};
use lab::verified::{self, Before, LoadSpec, Mix, file};
use serde_json::{Value, json};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tls::{ConfiguredPsk, Derivation};

#[derive(Parser)]
#[command(version, about = "A user-space NVMe/TCP client for tests and measurements")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List what a discovery service offers.
    Discover {
        /// Address and port.
        addr: String,
        #[command(flatten)]
        host: HostArgs,
    },
    /// Show a subsystem's controller and namespaces.
    Identify {
        #[command(flatten)]
        target: TargetArgs,
    },
    /// Verified load: every read is checked, the end is a full read-back.
    Load(LoadArgs),
    /// One I/O command that hosts rarely send.
    Io {
        #[command(flatten)]
        target: TargetArgs,
        #[command(subcommand)]
        command: IoCommand,
    },
    /// Keep connections of several hosts open, idle, with keep-alives.
    Hold {
        #[command(flatten)]
        target: TargetArgs,
        /// How many hosts.
        #[arg(long, default_value_t = 10)]
        hosts: u64,
        /// I/O queues of each.
        #[arg(long, default_value_t = 2)]
        queues: u16,
        /// How long.
        #[arg(long, default_value_t = 60)]
        seconds: u64,
    },
}

#[derive(Subcommand)]
enum IoCommand {
    /// Read and check blocks on the server.
    Verify {
        #[command(flatten)]
        range: RangeArgs,
    },
    /// Let reads of blocks fail until they are written.
    WriteUncorrectable {
        #[command(flatten)]
        range: RangeArgs,
    },
    /// Make blocks read as zeroes.
    WriteZeroes {
        #[command(flatten)]
        range: RangeArgs,
    },
    /// Copy blocks within the namespace.
    Copy {
        #[command(flatten)]
        range: RangeArgs,
        /// Where to, in bytes.
        #[arg(long)]
        to: ByteSize,
    },
    /// Write a block only if it holds what is expected, in one step: a lock, say.
    CompareAndWrite {
        /// Where, in bytes.
        #[arg(long, default_value = "0")]
        offset: ByteSize,
        /// Text that the block must hold, followed by zeroes.
        #[arg(long, default_value = "")]
        expect: String,
        /// Text that it holds afterwards, followed by zeroes.
        #[arg(long)]
        write: String,
    },
}

#[derive(Args)]
struct RangeArgs {
    /// Where, in bytes.
    #[arg(long, default_value = "0")]
    offset: ByteSize,
    /// How much, in bytes.
    #[arg(long)]
    size: ByteSize,
}

#[derive(Args)]
struct HostArgs {
    /// Host NQN; else one made from --host-number.
    #[arg(long)]
    hostnqn: Option<String>,
    /// Number of the host, for its identifier.
    #[arg(long, default_value_t = 1)]
    host_number: u64,
    /// Connect over TLS 1.3 with the pre-shared key in this file (NVMeTLSkey-1:...).
    #[arg(long, value_name = "FILE")]
    tls_psk_file: Option<PathBuf>,
    /// Version of the PSK identity: 1 names the key by a digest, 0 does not.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=1))]
    tls_identity: u8,
    /// How the key of TLS is derived: as the standard says, as libnvme before 1.15 did, or as that did with an OpenSSL before 3.3.1.
    #[arg(long, value_enum, default_value_t = DerivationArg::Standard)]
    tls_derivation: DerivationArg,
}

#[derive(Args)]
struct TargetArgs {
    /// Address and port of the subsystem.
    #[arg(long)]
    addr: String,
    /// NQN of the subsystem; else the first that discovery at --addr shows.
    #[arg(long)]
    nqn: Option<String>,
    /// Namespace.
    #[arg(long, default_value_t = 1)]
    nsid: u32,
    /// Digests.
    #[arg(long, value_enum, default_value_t = DigestArg::None)]
    digests: DigestArg,
    /// Keep Alive Timeout in seconds; 0 none.
    #[arg(long, default_value_t = 15)]
    kato: u64,
    /// Largest write that goes in the capsule; 0 sends every write by R2T.
    #[arg(long)]
    in_capsule: Option<ByteSize>,
    /// File with the secret to authenticate with (DHHC-1:hh:base64:); else the environment's BASALT_DHCHAP_SECRET.
    #[arg(long)]
    dhchap_secret_file: Option<PathBuf>,
    /// File with the secret with which the controller must prove itself; else the environment's BASALT_DHCHAP_CONTROLLER_SECRET.
    #[arg(long)]
    dhchap_controller_secret_file: Option<PathBuf>,
    #[command(flatten)]
    host: HostArgs,
}

#[derive(Clone, Copy, ValueEnum)]
enum DigestArg {
    None,
    Header,
    Data,
    Both,
}

#[derive(Args)]
struct LoadArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// How long to load.
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// End after so many operations.
    #[arg(long)]
    ops: Option<u64>,
    /// Commands in flight on each queue.
    #[arg(long, default_value_t = 16)]
    depth: u16,
    /// I/O queues.
    #[arg(long, default_value_t = 2)]
    queues: u16,
    /// Seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where the working set begins.
    #[arg(long, default_value = "0")]
    offset: ByteSize,
    /// Size of the working set; else all of the namespace.
    #[arg(long)]
    size: Option<ByteSize>,
    /// Unit that is written whole; at least the logical block.
    #[arg(long)]
    unit: Option<ByteSize>,
    /// Reads in a hundred operations.
    #[arg(long, default_value_t = 45)]
    read_percent: u8,
    /// Write Zeroes in a hundred operations.
    #[arg(long, default_value_t = 3)]
    zero_percent: u8,
    /// Deallocates in a hundred operations.
    #[arg(long, default_value_t = 3)]
    trim_percent: u8,
    /// Sizes and weights, such as 4KiB:60,64KiB:30,256KiB:10.
    #[arg(long, value_delimiter = ',')]
    block: Vec<String>,
    /// How long to try to reconnect after a loss, in seconds (a trailing `s` is fine).
    #[arg(long, default_value = "0")]
    reconnect_for: String,
    /// A deallocated block may keep its old data.
    #[arg(long)]
    lenient_trim: bool,
    /// The working set holds unknown data, not zeroes.
    #[arg(long)]
    dirty: bool,
    /// Save the model here at the end.
    #[arg(long)]
    save: Option<PathBuf>,
    /// Go on from a saved model; with --seconds 0 only check.
    #[arg(long)]
    resume: Option<PathBuf>,
    /// Leave out the read-back.
    #[arg(long)]
    no_read_back: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum DerivationArg {
    Standard,
    Libnvme,
    LibnvmeContextOnly,
}

impl HostArgs {
    fn identity(&self) -> HostIdentity {
        let made = HostIdentity::numbered(self.host_number);
        HostIdentity { nqn: self.hostnqn.clone().unwrap_or(made.nqn), ..made }
    }
}

impl HostArgs {
    fn tls(&self) -> anyhow::Result<Option<TlsOptions>> {
        let Some(path) = &self.tls_psk_file else { return Ok(None) };
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut tls = TlsOptions::new(ConfiguredPsk::parse(&text)?);
        tls.version = self.tls_identity;
        tls.derivation = match self.tls_derivation {
            DerivationArg::Standard => Derivation::Standard,
            DerivationArg::Libnvme => Derivation::Libnvme,
            DerivationArg::LibnvmeContextOnly => Derivation::LibnvmeContextOnly,
        };
        Ok(Some(tls))
    }
}

fn resolve(addr: &str) -> anyhow::Result<SocketAddr> {
    let found = addr.to_socket_addrs().with_context(|| format!("'{addr}' is not an address and port, such as 127.0.0.1:4420"))?.next();
    found.with_context(|| format!("'{addr}' has no address"))
}

impl TargetArgs {
    fn options(&self) -> anyhow::Result<ControllerOptions> {
        let addr = resolve(&self.addr)?;
        let mut options = ControllerOptions::new(addr, "");
        options.host = self.host.identity();
        options.tls = self.host.tls()?;
        options.digests = match self.digests {
            DigestArg::None => Digests::default(),
            DigestArg::Header => Digests { header: true, data: false },
            DigestArg::Data => Digests { header: false, data: true },
            DigestArg::Both => Digests { header: true, data: true },
        };
        options.kato = Duration::from_secs(self.kato);
        let secret = secret_of(self.dhchap_secret_file.as_deref(), "BASALT_DHCHAP_SECRET")?;
        let controller = secret_of(self.dhchap_controller_secret_file.as_deref(), "BASALT_DHCHAP_CONTROLLER_SECRET")?;
        options.credentials = secret.map(|secret| Credentials::new(secret, controller));
        options.in_capsule_bytes = self.in_capsule.map(|s| s.0.try_into().unwrap_or(u32::MAX));
        options.subnqn = match &self.nqn {
            Some(nqn) => nqn.clone(),
            None => {
                let all = discover(&options).context("no --nqn given, and discovery at --addr failed")?;
                all.into_iter().find(|r| r.is_nvm).context("discovery shows no subsystem; give --nqn")?.nqn
            }
        };
        Ok(options)
    }
}

fn secret_of(file: Option<&Path>, variable: &str) -> anyhow::Result<Option<Secret>> {
    match (file, std::env::var(variable)) {
        (Some(file), _) => Ok(Some(secret_file(file)?)),
        (None, Ok(text)) => Secret::parse(&text).with_context(|| variable.to_owned()).map(Some),
        (None, Err(_)) => Ok(None),
    }
}

fn seconds(text: &str) -> anyhow::Result<Duration> {
    let number: f64 = text.trim_end_matches('s').parse().with_context(|| format!("'{text}' is not a number of seconds"))?;
    Duration::try_from_secs_f64(number).with_context(|| format!("'{text}' is out of range"))
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Discover { addr, host } => run_discover(&addr, &host),
        Command::Identify { target } => run_identify(&target),
        Command::Load(args) => run_load(&args),
        Command::Io { target, command } => run_io(&target, &command),
        Command::Hold { target, hosts, queues, seconds } => run_hold(&target, hosts, queues, seconds),
    };
    match done {
        Ok((value, good)) => {
            println!("{value:#}");
            if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(e) => {
            eprintln!("basalt-client: {e:#}");
            ExitCode::FAILURE
        }
    }
}

type Done = anyhow::Result<(Value, bool)>;

fn run_discover(addr: &str, host: &HostArgs) -> Done {
    let mut options = ControllerOptions::new(resolve(addr)?, "");
    options.host = host.identity();
    options.tls = host.tls()?;
    let records: Vec<Value> = discover(&options)?
        .iter()
        .map(|r| {
            json!({
                "nqn": r.nqn, "nvm": r.is_nvm, "subtype": r.subtype, "trtype": r.trtype, "traddr": r.address, "trsvcid": r.service,
                "portid": r.portid, "eflags": r.eflags, "tls": r.tls_required,
            })
        })
        .collect();
    Ok((json!(records), true))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn run_identify(target: &TargetArgs) -> Done {
    let controller = Controller::connect(target.options()?)?;
    let id = controller.identify();
    let mut namespaces = Vec::new();
    for nsid in controller.namespaces()? {
        let (ns, data) = (controller.namespace(nsid)?, controller.identify_namespace(nsid)?);
        let ids: Vec<String> = controller
            .descriptors(nsid)?
            .iter()
            .map(|d| match d {
                NamespaceDescriptor::Eui64(b) => format!("eui64:{}", hex(b)),
                NamespaceDescriptor::Nguid(b) => format!("nguid:{}", hex(b)),
                NamespaceDescriptor::Uuid(b) => format!("uuid:{}", hex(b)),
                NamespaceDescriptor::Csi(csi) => format!("csi:{csi}"),
            })
            .collect();
        namespaces.push(json!({
            "nsid": nsid, "bytes": ns.bytes(), "lba_bytes": ns.lba_bytes, "blocks": ns.blocks, "used_blocks": data.nuse,
            "nsfeat": data.nsfeat, "dlfeat": data.dlfeat, "read_only": data.nsattr & 1 != 0, "ids": ids,
        }));
    }
    let value = json!({
        "nqn": controller.options().subnqn, "cntlid": controller.cntlid(), "model": trimmed(&id.mn), "serial": trimmed(&id.sn),
        "firmware": trimmed(&id.fr), "version": format!("{:#x}", id.ver), "transfer_bytes_max": controller.transfer_bytes_max(),
        "in_capsule_bytes": (id.ioccsz * 16).saturating_sub(64), "kas": id.kas, "oncs": id.oncs, "vwc": id.vwc, "ofcs": id.ofcs,
        "namespaces": namespaces,
    });
    controller.shutdown()?;
    Ok((value, true))
}

fn load_spec(args: &LoadArgs) -> anyhow::Result<LoadSpec> {
    let mut spec = LoadSpec::new(args.target.options()?, args.target.nsid);
    (spec.queues, spec.depth, spec.seed, spec.ops) = (args.queues, args.depth, args.seed, args.ops);
    spec.time = Duration::from_secs(args.seconds);
    (spec.offset, spec.bytes) = (args.offset.0, args.size.map(|s| s.0));
    spec.unit_bytes = args.unit.map(|u| u.0.try_into()).transpose().context("--unit is too large")?;
    spec.mix = Mix { read: args.read_percent, zero: args.zero_percent, trim: args.trim_percent, ..Mix::default() };
    for text in &args.block {
        let (size, weight) = text.split_once(':').unwrap_or((text, "1"));
        spec.sizes.push((size.parse::<ByteSize>()?.0, weight.parse().with_context(|| format!("weight in '{text}'"))?));
    }
    spec.reconnect_for = seconds(&args.reconnect_for)?;
    spec.strict_trim = !args.lenient_trim;
    spec.before = if args.dirty { Before::Unknown } else { Before::Zero };
    spec.read_back = !args.no_read_back;
    spec.resume = args.resume.as_deref().map(file::load).transpose()?;
    Ok(spec)
}

fn run_load(args: &LoadArgs) -> Done {
    let spec = load_spec(args)?;
    let begun = Instant::now();
    let (summary, model) = verified::run(spec, |p| {
        use std::sync::atomic::Ordering::Relaxed;
        let (ops, reconnects, wrong) = (p.ops.load(Relaxed), p.reconnects.load(Relaxed), p.mismatches.load(Relaxed));
        eprintln!("{:>5.0} s  {ops} operations, {reconnects} reconnects, {wrong} wrong units", begun.elapsed().as_secs_f64());
    })?;
    if let Some(path) = &args.save {
        file::save(path, &model)?;
    }
    for report in &summary.reports {
        eprintln!("WRONG: {report}");
    }
    let total: u64 = summary.ops.values().sum();
    let [p50, p99, p999, max] = summary.latency_us;
    let value = json!({
        "clean": summary.is_clean(), "ops": summary.ops, "ops_total": total, "iops": total as f64 / summary.elapsed.as_secs_f64().max(1e-9),
        "bytes_read": summary.bytes_read, "bytes_written": summary.bytes_written, "seconds": summary.elapsed.as_secs_f64(),
        "reconnects": summary.reconnects, "outage_max_ms": summary.outage_max.as_millis() as u64, "maybes": summary.maybes,
        "errors": summary.errors, "mismatches": summary.mismatches, "units_checked": summary.units_checked,
        "latency_us": {"p50": p50, "p99": p99, "p999": p999, "max": max},
        "reports": summary.reports.iter().map(ToString::to_string).collect::<Vec<_>>(),
    });
    Ok((value, summary.is_clean()))
}

fn run_io(target: &TargetArgs, command: &IoCommand) -> Done {
    let controller = Controller::connect(target.options()?)?;
    controller.set_queues(1)?;
    let mut queue = controller.open_queue(1, 4, controller.namespace(target.nsid)?)?;
    let lba = u64::from(queue.namespace().lba_bytes);
    let whole = |r: &RangeArgs| {
        if (r.offset.0 | r.size.0).is_multiple_of(lba) && (lba..=lba << 16).contains(&r.size.0) {
            return Ok((r.offset.0, r.size.0));
        }
        bail!("a range is made of 1 to 65536 logical blocks of {lba} bytes")
    };
    let io = match command {
        IoCommand::Verify { range } => whole(range).map(|(offset, len)| Io::Verify { offset, len })?,
        IoCommand::WriteUncorrectable { range } => whole(range).map(|(offset, len)| Io::WriteUncorrectable { offset, len })?,
        IoCommand::WriteZeroes { range } => whole(range).map(|(offset, len)| Io::WriteZeroes { offset, len, deallocate: false })?,
        IoCommand::Copy { range, to } => whole(range).map(|range| Io::Copy { to: to.0, ranges: vec![range] })?,
        IoCommand::CompareAndWrite { offset, expect, write } => {
            let block = |text: &str| {
                let mut block = text.as_bytes().to_vec();
                if block.len() > lba as usize {
                    bail!("a logical block has {lba} bytes");
                }
                block.resize(lba as usize, 0);
                Ok(block)
            };
            let written = queue.compare_and_write(offset.0, block(expect)?, block(write)?)?;
            return Ok((json!({"written": written}), written));
        }
    };
    let done = queue.execute(io)?;
    let value = json!({"status": done.status.code.to_string(), "result": done.result});
    queue.disconnect()?;
    controller.shutdown()?;
    Ok((value, done.status.is_success()))
}

fn run_hold(target: &TargetArgs, hosts: u64, queues: u16, seconds: u64) -> Done {
    let mut held = Vec::new();
    for n in 0..hosts {
        let mut options = target.options()?;
        options.host =
            HostIdentity { nqn: target.host.hostnqn.clone().unwrap_or(HostIdentity::numbered(n + 1).nqn), ..HostIdentity::numbered(n + 1) };
        let controller = Controller::connect(options).with_context(|| format!("host {n}"))?;
        let granted = controller.set_queues(queues)?;
        let namespace = controller.namespace(target.nsid)?;
        let open = (1..=granted).map(|qid| controller.open_queue(qid, 32, namespace)).collect::<Result<Vec<_>, _>>()?;
        held.push((controller, open));
    }
    eprintln!("holding {} hosts with {queues} I/O queues each for {seconds} s", held.len());
    let end = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < end {
        std::thread::sleep(Duration::from_millis(200).min(end.saturating_duration_since(Instant::now())));
        if let Some(n) = held.iter().position(|(c, _)| c.failed()) {
            bail!("host {n} lost its controller");
        }
    }
    for (_, open) in &mut held {
        for queue in open {
            queue.read(0, queue.namespace().lba_bytes).context("a held queue no longer serves")?;
        }
    }
    let count = held.len();
    for (controller, open) in held {
        drop(open);
        controller.shutdown()?;
    }
    Ok((json!({"hosts": count, "queues": queues, "seconds": seconds}), true))
}
