//! The daemon: from a configuration file to a node that serves, and back.
//!
//! Owns: the order of starting and ending, the lock on the data directory, signals, readiness.
//! Invariants: ready is said only when every listener accepts and the API answers; whatever fails before leaves everything as it was.

use crate::{client::Failure, notify::notify, resources};
use base::ClusterId;
use control::{
    Control, Identity,
    api::{self, Token},
    audit::AuditLog,
    config::{Config, LogFormat},
    data_plane::LocalDataPlane,
    vault::Vault,
};
use directory::Embedded;
use std::{
    fs::{File, TryLockError},
    io::{Read, Write},
    net::SocketAddr,
    path::Path,
    sync::Arc,
    time::Duration,
};
use tokio::signal::unix::{SignalKind, signal};

/// Cores that are taken when the configuration does not say how many.
const CORES_DEFAULT_MAX: usize = 16;
/// Unfinished work is tried again this often.
const RETRY: Duration = Duration::from_secs(60);
/// Threads for requests that wait for the data plane.
const BLOCKING_THREADS_MAX: usize = 16;

fn fail(error: impl std::fmt::Display) -> Failure {
    Failure::Local(error.to_string())
}

/// Runs the daemon until it is asked to end.
pub fn serve(config_path: &Path) -> Result<(), Failure> {
    let config = Config::load(config_path).map_err(fail)?;
    log(&config);
    let _lock = lock(&config.data_dir)?;
    let cores = cores(&config);
    resources::check(cores).map_err(fail)?;
    let token = config.api.token_file.as_deref().map(Token::load).transpose().map_err(fail)?;
    let tcp = config.api.listen.zip(token);
    let unix = api::bind_unix(&config.api_socket(), config.api.socket_mode).map_err(fail)?;

    let directory = Arc::new(Embedded::open(&config.data_dir, ClusterId::from_random(random()?)).map_err(fail)?);
    let identity = identity(&config, cores);
    let slot = control::slot_of(&*directory, &identity.node).map_err(fail)?;
    let plane = Arc::new(LocalDataPlane::start(cores, config.cores.pin.unwrap_or(true), &config, slot).map_err(fail)?);
    let vault = Vault::open(&config.data_dir).map_err(fail)?;
    let audit = AuditLog::open(&config.data_dir)
        .map_err(|e| fail(format!("the audit log in {} cannot be opened: {e}; make the directory writable", config.data_dir.display())))?;
    let control = Arc::new(
        Control::new(directory, plane.clone(), identity, drive::Scanner::default()).with_slot(slot).with_audit(audit).with_vault(vault),
    );
    let follower = std::thread::Builder::new().name("basalt-events".into()).spawn({
        let control = control.clone();
        move || control.follow_events()
    });
    let follower = follower.map_err(fail)?;
    let outcome = run(&config, &control, unix, tcp);
    let ended = control.shutdown().map_err(fail);
    // It ends with the cores, which have ended when the shutdown went well.
    if ended.is_ok() {
        let _ = follower.join();
    }
    let _ = std::fs::remove_file(config.api_socket());
    outcome.and(ended).inspect(|()| tracing::info!("ended in order"))
}

fn run(
    config: &Config,
    control: &Arc<Control>,
    unix: std::os::unix::net::UnixListener,
    tcp: Option<(SocketAddr, Token)>,
) -> Result<(), Failure> {
    control.start().map_err(fail)?;
    let followed = std::thread::Builder::new().name("basalt-directory".into()).spawn({
        let control = control.clone();
        move || control.follow_directory()
    });
    // It ends by itself when the engine does.
    drop(followed.map_err(fail)?);
    let mut addresses = Vec::new();
    for listener in &config.listeners {
        let bound = control.listen(listener.spec()).map_err(|e| {
            fail(format!("{e} ('ss -ltnp' shows who listens; 'listeners' in the configuration says where this daemon does)"))
        })?;
        addresses.push(format!("{} on {bound}", listener.kind.word()));
    }
    if let Err(problem) = control.publish_portals(&control::portals::own_addresses()) {
        tracing::warn!(error = %problem.message, "other nodes cannot tell hosts where this one is");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .thread_name("basalt-control")
        .enable_all()
        .build()
        .map_err(fail)?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).map_err(fail)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(fail)?;
        let served = api::serve(control.clone(), unix, tcp).await.map_err(fail)?;
        addresses.push(format!("API on {}", config.api_socket().display()));
        addresses.extend(served.tcp.map(|a| format!("API on {a}")));
        say(&format!("basalt {} serves: {}", env!("CARGO_PKG_VERSION"), addresses.join(", ")));
        notify("READY=1\nSTATUS=Serving");
        let retry = tokio::spawn(retry(control.clone()));
        tokio::select! {
            _ = terminate.recv() => tracing::info!("asked to end (SIGTERM)"),
            _ = interrupt.recv() => tracing::info!("asked to end (SIGINT)"),
        }
        notify("STOPPING=1\nSTATUS=Writing checkpoints");
        retry.abort();
        served.stop().await;
        Ok(())
    })
}

async fn retry(control: Arc<Control>) {
    let mut every = tokio::time::interval(RETRY);
    every.tick().await;
    loop {
        every.tick().await;
        let control = control.clone();
        let _ = tokio::task::spawn_blocking(move || control.retry()).await;
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
fn lock(data_dir: &Path) -> Result<File, Failure> {
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

/// `basalt config check`.
pub fn check_config(path: &Path) -> Result<(), Failure> {
    let config = Config::load(path).map_err(fail)?;
    if let Some(file) = &config.api.token_file {
        Token::load(file).map_err(fail)?;
    }
    println!("{}: good", path.display());
    crate::table::facts(&[
        ("data directory", config.data_dir.display().to_string()),
        ("cores", cores(&config).to_string()),
        ("API socket", config.api_socket().display().to_string()),
        ("API on TCP", config.api.listen.map(|a| a.to_string()).unwrap_or_default()),
        ("listeners", config.listeners.iter().map(|l| format!("{} on {}", l.kind.word(), l.address())).collect::<Vec<_>>().join(", ")),
    ]);
    Ok(())
}
