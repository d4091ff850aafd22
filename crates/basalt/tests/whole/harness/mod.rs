//! A daemon for a test: a folder, a configuration, the process, the command line, hosts.
//!
//! Owns: starting, waiting for, signalling and ending the process; where its files are; what it said.
//! Invariants: the process is ended by its id and the folder removed when the [`Daemon`] is dropped, also by a failing test; every wait has a bound.
//! Never: a port that was chosen before; see [`kept_port`] for the one exception.

pub mod clock;
pub mod load;
pub mod networks;
pub mod small_disk;
pub mod throttle;
pub mod turn;

use clock::OwnClock;
use format::nvme::StatusCode;
use initiator::discovery::discover;
use initiator::{Controller, ControllerOptions, Error};
use networks::Place;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use turn::{Subject, Turn};

pub const BASALT: &str = env!("CARGO_BIN_EXE_basalt");
/// The subsystem that volumes get into by default.
pub const NQN: &str = "nqn.2026-11.io.basalt:default";
/// Bound on every wait for something that has to come; the machine may be slow.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// More configuration: destaging begins at once, so that capacity is at work.
pub const DESTAGE_AT_ONCE: &str = "[store]\ndestage_low_percent = 1\ndestage_high_percent = 50\n";
/// Lines of the log that a failing test shows.
const LOG_TAIL_LINES: usize = 40;

/// What kind of daemon.
pub struct Setup<'a> {
    /// Which tests may run beside.
    pub subject: Subject,
    /// Threads of the data plane.
    pub cores: u32,
    /// Listeners, as a list of TOML's inline tables. Ports are chosen by the system.
    pub listeners: &'a str,
    /// The rest of the configuration.
    pub more: &'a str,
}

/// Two cores, one listener, nothing special.
pub const USUAL: Setup<'static> = Setup { subject: Subject::Light, cores: 2, listeners: "{ addr = \"127.0.0.1:0\" }", more: "" };

/// A folder with a configuration, and the daemon that runs there.
pub struct Daemon {
    child: Option<Child>,
    /// The line with which it said that it serves.
    said: String,
    /// The network that it is to run in; `None`: that of the test.
    place: Option<Place>,
    /// `None`: that of the machine.
    clock: Option<OwnClock>,
    dir: TempDir,
    // The last field: the turn ends when the process and the folder are gone.
    _turn: Turn,
}

impl Daemon {
    /// The folder and the configuration; nothing runs.
    pub fn prepared(setup: &Setup<'_>) -> Self {
        let turn = Turn::take(setup.subject);
        let dir = tempfile::tempdir().expect("a temporary folder");
        let daemon = Self { child: None, said: String::new(), place: None, clock: None, dir, _turn: turn };
        daemon.configure(setup);
        daemon
    }
    /// A daemon that serves.
    pub fn started(setup: &Setup<'_>) -> Self {
        let mut daemon = Self::prepared(setup);
        daemon.start();
        daemon
    }
    /// A daemon that comes back where it was, for hosts that connect again; destaging begins at once.
    pub fn kept(subject: Subject, more: &str) -> Self {
        Self::kept_at(None, subject, more)
    }
    /// The same, in a network of its own if it has one.
    pub fn kept_at(place: Option<Place>, subject: Subject, more: &str) -> Self {
        let mut daemon = Self::prepared_at(place, subject, more);
        daemon.start();
        daemon
    }
    /// The same, before it runs.
    pub fn prepared_at(place: Option<Place>, subject: Subject, more: &str) -> Self {
        let address = place.map_or(Ipv4Addr::LOCALHOST, |place| place.address);
        let listeners = format!("{{ addr = \"{address}:{}\", kind = \"io\" }}", kept_port());
        let more = format!("{more}\n{DESTAGE_AT_ONCE}");
        let mut daemon = Self::prepared(&Setup { subject, listeners: &listeners, more: &more, ..USUAL });
        daemon.place = place;
        daemon
    }
    /// From its next start on it has a clock of its own, where that is possible.
    pub fn gets_clock(&mut self) {
        self.clock = OwnClock::at(self.path("clock"));
    }
    /// That clock.
    pub fn clock(&self) -> Option<&OwnClock> {
        self.clock.as_ref()
    }
    /// Writes the configuration.
    pub fn configure(&self, setup: &Setup<'_>) {
        let Setup { cores, listeners, more, .. } = setup;
        let data = self.path("data");
        let text = format!("data_dir = {data:?}\ncores = {{ count = {cores}, pin = false }}\nlisteners = [{listeners}]\n{more}\n");
        fs::write(self.path("basalt.toml"), text).expect("the configuration is written");
    }
    /// Where other nodes reach it, if it has a network of its own.
    pub fn address(&self) -> Option<Ipv4Addr> {
        self.place.map(|place| place.address)
    }
    /// A file in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
    /// The same as text.
    pub fn at(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// The command that serves, to be started by [`Self::spawn`] or looked at.
    pub fn serve(&self) -> Command {
        let mut command = self.place.map_or_else(|| Command::new(BASALT), |place| place.command(BASALT));
        command.arg("serve").arg("--config").arg(self.path("basalt.toml"));
        if let Some(clock) = &self.clock {
            clock.give(&mut command);
        }
        command
    }
    /// The same under limits of the shell, like `ulimit -n 200`.
    pub fn serve_under(&self, limits: &str) -> Command {
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("{limits}; exec {BASALT} serve --config {}", self.at("basalt.toml")));
        command
    }
    /// Starts the process, no more. Its log grows over restarts.
    pub fn spawn(&mut self, mut command: Command) {
        assert!(self.child.is_none(), "one daemon at a time");
        let out = File::create(self.path("out")).expect("a file for what it says");
        let log = File::options().create(true).append(true).open(self.path("log")).expect("the log opens");
        self.child = Some(command.stdin(Stdio::null()).stdout(out).stderr(log).spawn().expect("the daemon starts"));
    }
    /// Waits until it serves.
    pub fn wait_ready(&mut self) {
        self.said = until("the daemon serves", || {
            let ended = self.child.as_mut().expect("it was started").try_wait().expect("its state is known");
            assert!(ended.is_none(), "the daemon ended by itself, with {ended:?}\n{}", self.log_tail());
            fs::read_to_string(self.path("out")).ok().filter(|text| text.ends_with('\n'))
        });
        assert!(self.said.contains("serves: "), "{:?}", self.said);
    }
    pub fn start(&mut self) {
        self.spawn(self.serve());
        self.wait_ready();
    }
    /// kill -9: until then it must not have ended by itself.
    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("it runs");
        child.kill().expect("kill -9");
        let status = child.wait().expect("it is reaped");
        assert!(status.code().is_none(), "the daemon had ended by itself before the kill, with {status}\n{}", self.log_tail());
    }
    /// kill -9, and again.
    pub fn kill_and_start(&mut self) {
        self.kill();
        self.start();
    }
    /// SIGTERM: it has to end by itself and well.
    pub fn stop(&mut self) {
        self.signal("-TERM");
        self.wait_end();
    }
    /// The same after another signal.
    pub fn wait_end(&mut self) {
        let status = ended(self.child.take().expect("it runs"));
        assert!(status.success(), "a clean stop ends with {status}\n{}", self.log_tail());
    }
    /// It has started itself anew in its process, and serves again: takes what it says now.
    pub fn began_anew(&mut self) {
        let last = || {
            let text = fs::read_to_string(self.path("out")).ok().filter(|text| text.ends_with('\n'))?;
            text.lines().nth(1).map(|_| format!("{}\n", text.lines().last().unwrap_or_default()))
        };
        self.said = until("the daemon serves anew", last);
    }
    /// It ends by itself.
    pub fn wait_exit(&mut self) -> ExitStatus {
        ended(self.child.take().expect("it runs"))
    }
    pub fn id(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }
    pub fn signal(&self, name: &str) {
        signal(self.id(), name);
    }
    /// What a daemon says that does not start, with exit code 1.
    pub fn refusal(&self, mut command: Command) -> String {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the daemon starts");
        let mut stderr = child.stderr.take().expect("a pipe");
        let status = ended(child);
        let mut text = String::new();
        stderr.read_to_string(&mut text).expect("text");
        assert_eq!(status.code(), Some(1), "{text}");
        text
    }

    /// Where it serves what (`io`, `discovery`), in the order of the configuration.
    pub fn addrs(&self, kind: &str) -> Vec<SocketAddr> {
        self.places(kind).map(|text| text.parse().expect("an address")).collect()
    }
    /// The same as it has said it: the API is at a path, too.
    fn places(&self, kind: &str) -> impl Iterator<Item = &str> {
        let all = self.said.split(kind).skip(1).filter_map(|rest| rest.strip_prefix(" on ")?.split([',', '\n']).next());
        all.map(str::trim)
    }
    /// Its I/O port.
    pub fn addr(&self) -> SocketAddr {
        self.addrs("io")[0]
    }
    /// All that it ever logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }
    /// The end of that, for messages.
    pub fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        format!("--- the daemon's log ends:\n{}", lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n"))
    }
    /// Where its API listens beside the socket.
    pub fn api_addr(&self) -> SocketAddr {
        self.places("API").find_map(|place| place.parse().ok()).expect("[api] has listen")
    }
    /// What its API answers on the socket: the status, and the answer with its head. `head`: lines of the request, each with its end.
    pub fn asked(&self, method: &str, path: &str, head: &str, body: &[u8]) -> (u16, String) {
        let mut api = UnixStream::connect(self.path("data/api.sock")).expect("the API answers");
        api.set_read_timeout(Some(PATIENCE)).expect("a bound");
        exchanged(&mut api, method, path, head, body)
    }
    /// The metrics page, with the head of the answer.
    pub fn metrics(&self) -> String {
        self.asked("GET", "/metrics", "", b"").1
    }
    /// A figure of it.
    pub fn metric(&self, name: &str) -> u64 {
        let page = self.metrics();
        let line = page.lines().find(|l| l.split(' ').next() == Some(name)).unwrap_or_else(|| panic!("no {name} in\n{page}"));
        line.rsplit(' ').next().and_then(|v| v.parse::<f64>().ok()).expect("a number") as u64
    }

    /// `basalt LINE` against its API.
    pub fn cli(&self, line: &str) -> Output {
        asked_at(&self.path("data/api.sock"), line).unwrap_or_else(|late| panic!("{late}\n{}", self.log_tail()))
    }
    /// The same, which has to succeed: what it says.
    pub fn ok(&self, line: &str) -> String {
        let output = self.cli(line);
        assert!(output.status.success(), "basalt {line}: {}\n{}", String::from_utf8_lossy(&output.stderr), self.log_tail());
        String::from_utf8(output.stdout).expect("text")
    }
    /// The same, which has to fail with this exit code: what it complains of.
    pub fn fails(&self, line: &str, code: i32) -> String {
        let output = self.cli(line);
        let reported = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "basalt {line}: {reported}");
        reported
    }
    /// What a command says with `--json`.
    pub fn json(&self, line: &str) -> serde_json::Value {
        serde_json::from_str(&self.ok(&format!("{line} --json"))).expect("JSON")
    }
    /// A disk group on the files `cache` and `capacity` in the folder, of these sizes (`512MiB`).
    pub fn group_on_files(&self, shards: u32, cache: &str, capacity: &str) {
        let (at_cache, at_capacity) = (self.at("cache"), self.at("capacity"));
        self.ok(&format!("group create g --shards {shards} --cache {at_cache}:{cache} --capacity {at_capacity}:{capacity}"));
    }

    /// How a host connects to the usual subsystem.
    pub fn options(&self) -> ControllerOptions {
        ControllerOptions::new(self.addr(), NQN)
    }
    /// The same, as a host finds it by discovery.
    pub fn discovered(&self) -> ControllerOptions {
        let mut options = ControllerOptions::new(self.addr(), "");
        let records = discover(&options).expect("discovery on the I/O port");
        options.subnqn = records.into_iter().find(|r| r.is_nvm).expect("discovery shows the subsystem").nqn;
        options
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if thread::panicking() && self.child.is_some() {
            eprintln!("{}", self.log_tail());
        }
        if let Some(mut child) = self.child.take() {
            // It may have ended; there is nobody to tell here.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// `basalt LINE` against an API. The error: there is no answer in time.
pub fn asked_at(api: &Path, line: &str) -> Result<Output, String> {
    let mut command = Command::new(BASALT);
    command.arg("--api").arg(api).args(line.split_whitespace()).stdin(Stdio::null());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command runs");
    let (id, (sender, output)) = (child.id(), mpsc::channel());
    thread::spawn(move || sender.send(child.wait_with_output()));
    output.recv_timeout(PATIENCE).map(|output| output.expect("its output")).map_err(|_| {
        signal(id, "-KILL");
        format!("basalt {line}: no answer after {PATIENCE:?}")
    })
}

/// An HTTP request by hand, which may be a wrong one: the status, and the answer with its head.
pub fn exchanged(api: &mut (impl Read + Write), method: &str, path: &str, head: &str, body: &[u8]) -> (u16, String) {
    let length = if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    let request = format!("{method} {path} HTTP/1.1\r\nHost: basalt\r\nConnection: close\r\n{length}{head}\r\n");
    // One that is refused early is not read to its end.
    let _ = api.write_all(request.as_bytes()).and_then(|()| api.write_all(body));
    let mut answer = Vec::new();
    let read = api.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.unwrap_or_else(|| panic!("{method} {path}: no answer ({read:?}): {answer:?}")), answer)
}

/// What an HTTP answer holds, put together again where it came in chunks.
pub fn body_of(answer: &str) -> String {
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    if !head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
        return body.to_owned();
    }
    let (mut rest, mut whole) = (body.as_bytes(), Vec::new());
    loop {
        let end = rest.windows(2).position(|two| two == b"\r\n").expect("the size of a chunk");
        let size = std::str::from_utf8(&rest[..end]).ok().and_then(|text| usize::from_str_radix(text, 16).ok()).expect("a size");
        if size == 0 {
            return String::from_utf8(whole).expect("text");
        }
        whole.extend_from_slice(&rest[end + 2..end + 2 + size]);
        rest = &rest[end + 2 + size + 2..];
    }
}

pub fn signal(process: u32, name: &str) {
    let sent = Command::new("kill").args([name, &process.to_string()]).status().expect("kill runs");
    assert!(sent.success(), "{name} is sent");
}

/// Waits for the end of a process; one that does not end is killed.
pub fn ended(mut child: Child) -> ExitStatus {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("its state is known") {
            return status;
        }
        if begun.elapsed() > PATIENCE {
            let _ = child.kill();
            let _ = child.wait();
            panic!("the daemon has not ended after {PATIENCE:?}");
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Asks again until there is an answer.
pub fn until<T>(what: &str, ask: impl FnMut() -> Option<T>) -> T {
    until_or(what, String::new, ask)
}

/// The same; `seen` is what to say where there is none in time.
pub fn until_or<T>(what: &str, seen: impl Fn() -> String, mut ask: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(begun.elapsed() < PATIENCE, "not after {PATIENCE:?}: {what}\n{}", seen());
        thread::sleep(Duration::from_millis(10));
    }
}

/// A port for a daemon whose hosts come back after a restart: below those that the kernel deals out to others, another each time.
fn kept_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = std::process::id() as u16;
    (0..1000)
        .map(|_| 20_000 + first.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % 12_000)
        .find(|&port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok())
        .expect("one port of 1000 is free")
}

/// A number from the environment.
pub fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is '{text}', which is no number")))
}

/// Connects, and opens an I/O queue, which is let in by itself.
pub fn let_in(options: ControllerOptions) -> Result<Controller, Error> {
    let controller = Controller::connect(options)?;
    let namespace = controller.namespace(1)?;
    controller.open_queue(1, 8, namespace)?;
    Ok(controller)
}

/// Why a host was not let in.
pub fn kept_out(options: ControllerOptions) -> String {
    match let_in(options) {
        Ok(_) => panic!("it was let in"),
        Err(e) => e.to_string(),
    }
}

/// The status that a command ended with.
pub fn status<T>(result: Result<T, Error>) -> StatusCode {
    match result {
        Ok(_) => StatusCode::SUCCESS,
        Err(Error::Status { status, .. }) => status.code,
        Err(other) => panic!("{other}"),
    }
}
