//! The daemon: from a configuration file to a node that serves, and back.
//!
//! Owns: the order of starting and ending, the lock on the data directory, signals, readiness.
//! Invariants: ready is said only when every listener accepts and the API answers; whatever fails before leaves everything as it was.

use crate::{
    client::Failure,
    notify::notify,
    output::{Output, Page},
    resources,
};
use base::{ClusterId, NodeRole};
use control::{
    Control, Identity,
    api::{self, Token},
    audit::AuditLog,
    config::{Config, Listen, LogFormat},
    data_plane::LocalDataPlane,
    formation::{self, Ending, Formation, Home, MembershipFile},
};
use directory::{Directory, Embedded};
use serde::Serialize;
use std::{
    fs::{File, TryLockError},
    io::{Read, Write},
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::signal::unix::{SignalKind, signal};

/// Cores that are taken when the configuration does not say how many.
const CORES_DEFAULT_MAX: usize = 16;
/// Unfinished work is tried again this often.
const RETRY: Duration = Duration::from_secs(60);
/// How often the one that leads looks after copies that are away.
const COPIES: Duration = Duration::from_secs(5);
/// How often volumes are looked after that are laid out anew.
const MOVES: Duration = Duration::from_secs(2);
/// Threads for requests that wait for the data plane.
const BLOCKING_THREADS_MAX: usize = 16;
/// A daemon that ends waits that long for its cluster's directory, beside what requests under way may take.
const DIRECTORY_END_MAX: Duration = Duration::from_secs(3);
/// And that long for work that does not end by itself.
const RUNTIME_END_MAX: Duration = Duration::from_secs(1);

fn fail(error: impl std::fmt::Display) -> Failure {
    Failure::Local(error.to_string())
}

/// Runs the daemon until it is asked to end. What it is may change meanwhile: then it ends in order, and starts itself anew.
pub fn serve(config_path: &Path) -> Result<(), Failure> {
    match serve_once(config_path)? {
        Ending::Serves => Ok(()),
        Ending::Over(why) => Err(Failure::Local(why)),
        Ending::Again => Err(start_anew()),
    }
}

/// The same program with the same arguments in the same process. Comes back only when that fails.
fn start_anew() -> Failure {
    use std::os::unix::process::CommandExt;
    let program = std::env::current_exe().ok().filter(|p| p.exists()).unwrap_or_else(|| "/proc/self/exe".into());
    let error = std::process::Command::new(program).args(std::env::args_os().skip(1)).exec();
    fail(format!("the daemon cannot start itself anew: {error}; start it (systemctl start basalt)"))
}

fn serve_once(config_path: &Path) -> Result<Ending, Failure> {
    let config = Config::load(config_path).map_err(fail)?;
    log(&config);
    let _lock = lock(&config.data_dir)?;
    let cores = cores(&config);
    resources::check(cores).map_err(fail)?;
    let token = config.api.token_file.as_deref().map(Token::load).transpose().map_err(fail)?;
    let tcp = config.api.listen.zip(token);
    let unix = api::bind_unix(&config.api_socket(), config.api.socket_mode).map_err(fail)?;

    if let Some(membership) = Home::new(&config.data_dir).membership().map_err(fail)?.filter(|m| m.role == NodeRole::Witness) {
        return witness(&config, membership, unix);
    }
    let (directory, identity, formation) = directory(&config, cores)?;
    let slot = control::slot_of(&*directory, &identity.node).map_err(fail)?;
    let plane = Arc::new(LocalDataPlane::start(cores, config.cores.pin.unwrap_or(true), &config, slot).map_err(fail)?);
    let membership = formation.membership();
    let vault = formation::open_vault(&Home::new(&config.data_dir), membership.as_ref()).map_err(fail)?;
    let audit = AuditLog::open(&config.data_dir)
        .map_err(|e| fail(format!("the audit log in {} cannot be opened: {e}; make the directory writable", config.data_dir.display())))?;
    let runtime = runtime()?;
    let control = Control::new(directory, plane.clone(), identity, drive::Scanner::default()).with_formation(formation.clone());
    let mut control = control.with_slot(slot).with_audit(audit).with_vault(vault);
    if membership.is_some() {
        let security = formation.link_security(config.cluster.plain_links).map_err(fail)?;
        control = among_others(control, &formation, &runtime).with_links(security).with_lives(Home::new(&config.data_dir));
    }
    let control = Arc::new(control);
    let follower = std::thread::Builder::new().name("basalt-events".into()).spawn({
        let control = control.clone();
        move || control.follow_events()
    });
    let follower = follower.map_err(fail)?;
    let outcome = run(&config, &runtime, &control, &formation, unix, tcp);
    formation.end_directory_within(DIRECTORY_END_MAX);
    let ended = control.shutdown().map_err(fail);
    // It ends with the cores, which have ended when the shutdown went well.
    if ended.is_ok() {
        let _ = follower.join();
    }
    formation.stop();
    runtime.shutdown_timeout(RUNTIME_END_MAX);
    let _ = std::fs::remove_file(config.api_socket());
    let how = formation.ending().borrow().clone();
    outcome.and(ended).map(|()| how).inspect(|_| tracing::info!("ended in order"))
}

/// What a daemon begins with.
type Start = (Arc<dyn Directory>, Identity, Arc<Formation>);

/// The directory of the cluster that this node is of, or its own.
fn directory(config: &Config, cores: usize) -> Result<Start, Failure> {
    let (home, programs) = (Home::new(&config.data_dir), &config.cluster.etcd_programs);
    let identity = identity(config, cores);
    let Some(membership) = home.membership().map_err(fail)? else {
        let directory = Embedded::open(&config.data_dir, ClusterId::from_random(random()?)).map_err(fail)?;
        return Ok((Arc::new(directory), identity, Arc::new(Formation::alone(home, programs))));
    };
    let identity = Identity { node: membership.name.clone(), ..identity };
    let opened = formation::open(&home, programs, membership).map_err(fail)?;
    home.retire_embedded().map_err(fail)?;
    let directory = opened.directory.clone();
    Ok((directory, identity, Arc::new(Formation::of_cluster(home, programs, opened).map_err(fail)?)))
}

/// What a node of a cluster has beside: other nodes that it sends to, and a directory that is looked after.
fn among_others(control: Control, formation: &Arc<Formation>, runtime: &tokio::runtime::Runtime) -> Control {
    let looks = formation.clone();
    control.with_cluster(formation.clone(), runtime.handle().clone()).with_directory_health(Arc::new(move || looks.checks()))
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).max_blocking_threads(BLOCKING_THREADS_MAX).thread_name("basalt-control").enable_all();
    builder.build().map_err(fail)
}

fn run(
    config: &Config,
    runtime: &tokio::runtime::Runtime,
    control: &Arc<Control>,
    formation: &Arc<Formation>,
    unix: std::os::unix::net::UnixListener,
    tcp: Option<(SocketAddr, Token)>,
) -> Result<(), Failure> {
    control.start().map_err(fail)?;
    let followed = std::thread::Builder::new().name("basalt-directory".into()).spawn({
        let control = control.clone();
        move || control.follow_directory()
    });
    // They end by themselves when the engine does.
    drop(followed.map_err(fail)?);
    let present = std::thread::Builder::new().name("basalt-presence".into()).spawn({
        let control = control.clone();
        move || control.keep_presence()
    });
    drop(present.map_err(fail)?);
    let mut addresses = Vec::new();
    for listener in &config.listeners {
        let bound = match listener.spec() {
            Listen::Nvme(spec) => control.listen(spec),
            Listen::Iscsi(spec) => control.listen_iscsi(spec),
        };
        let bound = bound.map_err(|e| {
            fail(format!("{e} ('ss -ltnp' shows who listens; 'listeners' in the configuration says where this daemon does)"))
        })?;
        addresses.push(format!("{} on {bound}", listener.kind.word()));
    }
    if let Err(problem) = control.publish_portals(&control::portals::own_addresses()) {
        tracing::warn!(error = %problem.message, "other nodes cannot tell hosts where this one is");
    }
    if let Some(membership) = formation.membership() {
        let at = control.listen_for_links(membership.address).map_err(|problem| fail(problem.message))?;
        addresses.push(format!("links on {at}"));
    }
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).map_err(fail)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(fail)?;
        let mut ending = formation.ending();
        let served = api::serve(control.clone(), unix, tcp).await.map_err(fail)?;
        let for_nodes = formation::listener::serve(formation.clone(), control.clone()).await.map_err(fail)?;
        addresses.push(format!("API on {}", config.api_socket().display()));
        addresses.extend(served.tcp.map(|a| format!("API on {a}")));
        addresses.extend(for_nodes.as_ref().and_then(|s| s.tcp).map(|a| format!("cluster on {a}")));
        say(&format!("basalt {} serves: {}", env!("CARGO_PKG_VERSION"), addresses.join(", ")));
        notify("READY=1\nSTATUS=Serving");
        let retry = tokio::spawn(now_and_then(control.clone(), RETRY, Control::retry));
        let copies = tokio::spawn(now_and_then(control.clone(), COPIES, Control::look_after_copies));
        let moves = tokio::spawn(now_and_then(control.clone(), MOVES, Control::look_after_moves));
        let keep = tokio::spawn(keep(formation.clone()));
        tokio::select! {
            _ = terminate.recv() => tracing::info!("asked to end (SIGTERM)"),
            _ = interrupt.recv() => tracing::info!("asked to end (SIGINT)"),
            _ = ending.wait_for(|how| *how != Ending::Serves) => tracing::info!("the membership of this node has changed"),
        }
        notify("STOPPING=1\nSTATUS=Writing checkpoints");
        [retry, copies, moves, keep].iter().for_each(tokio::task::JoinHandle::abort);
        let nodes = async {
            if let Some(for_nodes) = for_nodes {
                for_nodes.stop().await;
            }
        };
        tokio::join!(served.stop(), nodes);
        Ok(())
    })
}

/// The daemon of a witness: a member of etcd, and an API that says how it is.
fn witness(config: &Config, membership: MembershipFile, unix: std::os::unix::net::UnixListener) -> Result<Ending, Failure> {
    let (home, programs) = (Home::new(&config.data_dir), &config.cluster.etcd_programs);
    let opened = formation::open(&home, programs, membership).map_err(fail)?;
    home.retire_embedded().map_err(fail)?;
    let formation = Arc::new(Formation::of_cluster(home, programs, opened).map_err(fail)?);
    if !formation.witness_starts(env!("CARGO_PKG_VERSION")).map_err(fail)? {
        return Err(fail("this witness was removed from its cluster; give it an empty data directory, and let it join anew"));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).thread_name("basalt-control").enable_all().build();
    let runtime = runtime.map_err(fail)?;
    let served = runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).map_err(fail)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(fail)?;
        let mut ending = formation.ending();
        let served = formation::witness::serve(formation.clone(), unix).map_err(fail)?;
        say(&format!("basalt {} serves: a witness, API on {}", env!("CARGO_PKG_VERSION"), config.api_socket().display()));
        notify("READY=1\nSTATUS=Serving");
        let keep = tokio::spawn(keep(formation.clone()));
        tokio::select! {
            _ = terminate.recv() => tracing::info!("asked to end (SIGTERM)"),
            _ = interrupt.recv() => tracing::info!("asked to end (SIGINT)"),
            _ = ending.wait_for(|how| *how != Ending::Serves) => tracing::info!("the membership of this node has changed"),
        }
        notify("STOPPING=1");
        keep.abort();
        served.stop().await;
        Ok(())
    });
    formation.end_directory_within(DIRECTORY_END_MAX);
    formation.stop();
    runtime.shutdown_timeout(RUNTIME_END_MAX);
    let _ = std::fs::remove_file(config.api_socket());
    let how = formation.ending().borrow().clone();
    served.map(|()| how)
}

async fn keep(formation: Arc<Formation>) {
    let mut every = tokio::time::interval(formation::KEEP_EVERY);
    let runtime = tokio::runtime::Handle::current();
    loop {
        every.tick().await;
        let (formation, runtime) = (formation.clone(), runtime.clone());
        let _ = tokio::task::spawn_blocking(move || formation.keep(&runtime)).await;
    }
}

/// Does something of the control plane now and then.
async fn now_and_then(control: Arc<Control>, how_often: Duration, what: fn(&Control)) {
    let mut every = tokio::time::interval(how_often);
    every.tick().await;
    loop {
        every.tick().await;
        let control = control.clone();
        let _ = tokio::task::spawn_blocking(move || what(&control)).await;
    }
}

/// One line on standard output; whoever started the daemon may have closed it.
fn say(line: &str) {
    let mut out = std::io::stdout();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

fn log(config: &Config) {
    let filter = tracing_subscriber::EnvFilter::try_new(&config.log.level).unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // another logger is there in tests only
    let _ = match config.log.format {
        LogFormat::Text => {
            use std::io::IsTerminal;
            builder.with_target(false).with_ansi(std::io::stderr().is_terminal()).try_init()
        }
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
}

/// Makes the data directory and locks it for this process. The lock ends with the process, however that ends.
pub fn lock(data_dir: &Path) -> Result<File, Failure> {
    let shown = data_dir.display();
    std::fs::create_dir_all(data_dir)
        .map_err(|e| fail(format!("the data directory {shown} cannot be made: {e}; make it, or set data_dir to another")))?;
    let path = data_dir.join("lock");
    let open = File::options().create(true).read(true).write(true).truncate(false).open(&path);
    let mut file = open
        .map_err(|e| fail(format!("the data directory {shown} cannot be written: {e}; make it writable for the user that runs basalt")))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut pid = String::new();
            let _ = file.read_to_string(&mut pid);
            let who = if pid.trim().is_empty() { String::new() } else { format!(" (process {})", pid.trim()) };
            return Err(fail(format!(
                "the data directory {shown} is in use by another daemon{who}; stop that one, or give this one its own data_dir"
            )));
        }
        Err(TryLockError::Error(e)) => {
            return Err(fail(format!("{} cannot be locked: {e}; use a file system that has locks", path.display())));
        }
    }
    let written = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
    written.map_err(|e| fail(format!("{} cannot be written: {e}; free some space there", path.display())))?;
    Ok(file)
}

fn cores(config: &Config) -> usize {
    let there = std::thread::available_parallelism().map_or(1, usize::from);
    config.cores.count.unwrap_or(there.min(CORES_DEFAULT_MAX))
}

fn identity(config: &Config, cores: usize) -> Identity {
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let machine = machine.trim().split('.').next().unwrap_or_default();
    let node = config.node.name.clone().unwrap_or_else(|| if machine.is_empty() { "localhost".into() } else { machine.to_owned() });
    let fault_domain = config.node.fault_domain.clone().unwrap_or_else(|| node.clone());
    Identity { node, fault_domain, version: env!("CARGO_PKG_VERSION").into(), cores }
}

fn random() -> Result<[u8; 16], Failure> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom").and_then(|mut f| f.read_exact(&mut bytes)).map_err(|e| fail(format!("/dev/urandom cannot be read: {e}")))?;
    Ok(bytes)
}

/// What `basalt config check` found.
#[derive(Serialize)]
struct Checked {
    file: PathBuf,
    data_dir: PathBuf,
    cores: usize,
    api_socket: PathBuf,
    api_listen: Option<String>,
    listeners: Vec<String>,
}

/// `basalt config check`.
pub fn check_config(path: &Path, out: &Output) -> Result<(), Failure> {
    let config = Config::load(path).map_err(fail)?;
    if let Some(file) = &config.api.token_file {
        Token::load(file).map_err(fail)?;
    }
    let checked = Checked {
        file: path.into(),
        data_dir: config.data_dir.clone(),
        cores: cores(&config),
        api_socket: config.api_socket().to_path_buf(),
        api_listen: config.api.listen.map(|a| a.to_string()),
        listeners: config.listeners.iter().map(|l| format!("{} on {}", l.kind.word(), l.address())).collect(),
    };
    out.print(&checked, |c| {
        let facts = [
            ("data directory", c.data_dir.display().to_string()),
            ("cores", c.cores.to_string()),
            ("API socket", c.api_socket.display().to_string()),
            ("API on TCP", c.api_listen.clone().unwrap_or_default()),
            ("listeners", c.listeners.join(", ")),
        ];
        Page::new().name(c.file.display().to_string()).line(format!("{}: good", c.file.display())).facts(facts)
    });
    Ok(())
}
