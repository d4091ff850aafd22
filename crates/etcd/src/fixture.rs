//! Members of the real server, for tests.
//!
//! Owns: their folder, certificates and processes. Invariants: members listen on a loopback address of their own; every process ends with the
//! fixture, also on a panic, and with the test's process, however that ends.
//! Never: uses a port or folder that somebody else may have, or a server of the system.

use crate::{Client, Endpoint, Options};
use authority::{Authority, Identity, Subject, UnixSeconds};
use std::{
    net::{IpAddr, Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        atomic::{AtomicU32, Ordering::SeqCst},
        mpsc,
    },
    time::{Duration, Instant, SystemTime},
};

/// Until members have a leader.
const START_MAX: Duration = Duration::from_secs(30);
/// Each fixture of this process has an address of its own.
static NEXT: AtomicU32 = AtomicU32::new(1);

/// One member.
pub struct Member {
    /// Its name.
    pub name: String,
    /// Where clients reach it.
    pub endpoint: Endpoint,
    peer_port: u16,
    /// What it stores is in here.
    pub data_dir: PathBuf,
    child: Option<Child>,
    paused: bool,
}

/// See the head of this file.
pub struct Members {
    dir: tempfile::TempDir,
    address: IpAddr,
    token: String,
    settings: Vec<String>,
    mounted: Vec<PathBuf>,
    /// Their authority.
    pub authority: Authority,
    /// They.
    pub all: Vec<Member>,
    /// Starts processes, and lives as long as they do: they are killed when the thread that started them ends.
    starter: mpsc::Sender<(Command, mpsc::Sender<std::io::Result<Child>>)>,
}

/// A loopback address that no other fixture, and no other test's process, has: of 127.64.0.0/10.
pub fn own_address() -> IpAddr {
    let (pid, serial) = (std::process::id(), NEXT.fetch_add(1, SeqCst));
    let [_, _, high, low] = pid.to_be_bytes();
    IpAddr::V4(Ipv4Addr::new(127, 64 + (serial % 64) as u8, high, low.max(1)))
}

/// Now, for certificates.
pub fn now() -> UnixSeconds {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("it is after 1970");
    UnixSeconds(since.as_secs() as i64)
}

/// The folder with etcd and etcdctl.
pub fn programs() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/etcd/usr/bin");
    let dir = std::env::var_os("ETCD_BIN").map_or(own, PathBuf::from);
    assert!(dir.join("etcd").exists(), "{} has no etcd: run scripts/programs-for-tests etcd", dir.display());
    dir
}

impl Members {
    /// Starts members, with more arguments for each, and waits until they have a leader.
    pub fn start(count: usize, settings: &[&str]) -> Self {
        let mut members = Self::prepare(count, settings);
        (0..count).for_each(|n| members.start_again(n));
        (0..count).for_each(|n| members.wait_for(n));
        members
    }

    /// Members with their certificates, not started yet.
    pub fn prepare(count: usize, settings: &[&str]) -> Self {
        let in_memory = Path::new("/dev/shm");
        let dir = if in_memory.is_dir() { tempfile::tempdir_in(in_memory) } else { tempfile::tempdir() };
        let dir = dir.expect("a folder for the test");
        let address = own_address();
        let authority = Authority::create("test", now()).expect("an authority");
        let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let all = (0..count).map(|n| Member::new(n, dir.path(), address)).collect::<Vec<_>>();
        for member in &all {
            // Connections to another loopback address come from 127.0.0.1.
            let identity = authority.issue(&Subject::new(&member.name, [address, local]), now()).expect("a certificate");
            std::fs::create_dir(&member.data_dir).expect("a folder for a member");
            identity.save(&member.data_dir).expect("its files");
        }
        let (starter, commands) = mpsc::channel::<(Command, mpsc::Sender<std::io::Result<Child>>)>();
        std::thread::spawn(move || {
            for (mut command, answer) in commands {
                let _ = answer.send(command.spawn());
            }
        });
        let token = format!("{}-{address}", std::process::id());
        Self {
            dir,
            address,
            token,
            settings: settings.iter().map(|s| (*s).to_owned()).collect(),
            mounted: Vec::new(),
            authority,
            all,
            starter,
        }
    }

    /// A folder that goes with the fixture.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }
    /// A node's certificate by the members' authority.
    pub fn identity(&self) -> Identity {
        self.authority.issue(&Subject::new("client", [IpAddr::V4(Ipv4Addr::LOCALHOST), self.address]), now()).expect("a certificate")
    }
    /// All endpoints, and who we are.
    pub fn options(&self) -> Options {
        Options { endpoints: self.all.iter().map(|m| m.endpoint.clone()).collect(), identity: Some(self.identity()) }
    }
    /// For `--initial-cluster`.
    pub fn initial_cluster(&self) -> String {
        self.all.iter().map(|m| format!("{}={}", m.name, self.peer_url(m))).collect::<Vec<_>>().join(",")
    }
    fn peer_url(&self, member: &Member) -> String {
        format!("https://{}:{}", self.address, member.peer_port)
    }
    /// From now on members that start belong to another cluster.
    pub fn set_token(&mut self, token: &str) {
        self.token = token.to_owned();
    }

    /// Starts a member as the only one of an etcd of its own, and waits until it serves.
    pub fn start_alone(&mut self, n: usize) {
        let member = &self.all[n];
        let cluster = format!("{}={}", member.name, self.peer_url(member));
        self.start_as(n, cluster);
        self.wait_for(n);
    }
    /// Starts a member, or starts it again with what it has stored.
    pub fn start_again(&mut self, n: usize) {
        self.start_as(n, self.initial_cluster());
    }
    fn start_as(&mut self, n: usize, cluster: String) {
        let member = &self.all[n];
        assert!(member.child.is_none(), "{} runs", member.name);
        let mut command = Command::new("setpriv");
        let certificates = &member.data_dir;
        let file = |name: &str| certificates.join(name).display().to_string();
        let (client_url, peer_url) = (member.endpoint.to_string(), self.peer_url(member));
        command.args(["--pdeathsig", "KILL", "--"]).arg(programs().join("etcd"));
        for (flag, value) in [
            ("name", member.name.clone()),
            ("data-dir", file("store")),
            ("listen-client-urls", client_url.clone()),
            ("advertise-client-urls", client_url),
            ("listen-peer-urls", peer_url.clone()),
            ("initial-advertise-peer-urls", peer_url),
            ("initial-cluster", cluster),
            ("initial-cluster-token", self.token.clone()),
            ("trusted-ca-file", file(authority::AUTHORITY_FILE)),
            ("cert-file", file(authority::CERTIFICATE_FILE)),
            ("key-file", file(authority::KEY_FILE)),
            ("client-cert-auth", "true".into()),
            ("peer-trusted-ca-file", file(authority::AUTHORITY_FILE)),
            ("peer-cert-file", file(authority::CERTIFICATE_FILE)),
            ("peer-key-file", file(authority::KEY_FILE)),
            ("peer-client-cert-auth", "true".into()),
            ("pre-vote", "true".into()),
            ("logger", "zap".into()),
            ("log-level", "warn".into()),
        ] {
            command.arg(format!("--{flag}={value}"));
        }
        command.args(&self.settings);
        let log = std::fs::File::options().create(true).append(true).open(member.data_dir.join("log")).expect("its log");
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("its log")).stderr(log);
        let (answer, child) = mpsc::channel();
        self.starter.send((command, answer)).expect("the starter lives");
        let child = child.recv().expect("the starter answers").expect("setpriv and etcd are there");
        self.all[n].child = Some(child);
    }

    /// Waits until a member serves.
    pub fn wait_for(&mut self, n: usize) {
        let client = Client::new(Options { endpoints: vec![self.all[n].endpoint.clone()], ..self.options() }).expect("a client");
        let until = Instant::now() + START_MAX;
        while let Err(error) = self.block(client.status(&self.all[n].endpoint)) {
            let member = &mut self.all[n];
            let ended = member.child.as_mut().and_then(|c| c.try_wait().ok().flatten());
            if ended.is_some() || Instant::now() > until {
                let log = std::fs::read_to_string(member.data_dir.join("log")).unwrap_or_default();
                panic!("{} does not serve ({ended:?}): {error}\n{}", member.name, &log[log.len().saturating_sub(4000)..]);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Runs a future to its end.
    pub fn block<F: Future>(&self, future: F) -> F::Output {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(future)
    }

    /// kill -9.
    pub fn kill(&mut self, n: usize) {
        if let Some(mut child) = self.all[n].child.take() {
            // Its own child: nobody else has this id before it is waited for.
            let _ = child.kill();
            let _ = child.wait();
        }
        self.all[n].paused = false;
    }
    /// Whether its process has ended by itself.
    pub fn has_ended(&mut self, n: usize) -> bool {
        self.all[n].child.as_mut().is_none_or(|c| c.try_wait().is_ok_and(|s| s.is_some()))
    }
    /// SIGSTOP: it hangs, and its sockets stay open. All of its threads have stopped then.
    pub fn pause(&mut self, n: usize) {
        self.signal(n, "-STOP");
        self.all[n].paused = true;
        let id = self.all[n].child.as_ref().expect("it runs").id();
        // pid (name) state ..., of each thread; the name may hold blanks
        let is_stopped = |stat: String| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'));
        let all_stopped = || {
            let tasks = std::fs::read_dir(format!("/proc/{id}/task")).expect("it runs");
            tasks.flatten().all(|t| std::fs::read_to_string(t.path().join("stat")).is_ok_and(is_stopped))
        };
        let until = Instant::now() + Duration::from_secs(10);
        while !all_stopped() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    /// SIGCONT.
    pub fn go_on(&mut self, n: usize) {
        self.signal(n, "-CONT");
        self.all[n].paused = false;
    }
    /// Whether it hangs by [`Members::pause`].
    pub fn is_paused(&self, n: usize) -> bool {
        self.all[n].paused
    }
    /// Lets a member that has not started yet store on a disk of so many MiB. Gives where it is mounted; `None`: mounting is not permitted here.
    pub fn give_small_disk(&mut self, n: usize, mib: u32) -> Option<PathBuf> {
        let at = self.all[n].data_dir.join("store");
        std::fs::create_dir(&at).expect("a folder to mount on");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &format!("size={mib}m,mode=700"), "basalt-test"]).arg(&at).output();
        if mounted.is_ok_and(|o| o.status.success()) {
            self.mounted.push(at.clone());
            return Some(at);
        }
        eprintln!("skipped: mount is not permitted here (it needs root)");
        None
    }
    fn signal(&self, n: usize, signal: &str) {
        let id = self.all[n].child.as_ref().expect("it runs").id();
        let status = Command::new("kill").args([signal, &id.to_string()]).status().expect("kill is there");
        assert!(status.success(), "kill {signal}");
    }
    /// The member that leads, if one does.
    pub fn leader(&self) -> Option<usize> {
        let client = Client::new(self.options()).expect("a client");
        let up = (0..self.all.len()).filter(|n| self.all[*n].child.is_some() && !self.all[*n].paused);
        let of = |n: usize| self.block(client.status(&self.all[n].endpoint)).ok();
        up.filter_map(|n| of(n).map(|s| (n, s))).find(|(_, s)| s.header.is_some_and(|h| h.member_id == s.leader)).map(|(n, _)| n)
    }
    /// etcdctl, for what Basalt's client does not do. Gives what it prints.
    pub fn ctl(&self, arguments: &[&str]) -> String {
        let home = &self.all[0].data_dir;
        let mut command = Command::new(programs().join("etcdctl"));
        command.env("ETCDCTL_API", "3").arg(format!("--endpoints={}", self.all[0].endpoint));
        for (flag, file) in [("cacert", authority::AUTHORITY_FILE), ("cert", authority::CERTIFICATE_FILE), ("key", authority::KEY_FILE)] {
            command.arg(format!("--{flag}={}", home.join(file).display()));
        }
        let output = command.args(arguments).output().expect("etcdctl is there");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Member {
    fn new(n: usize, dir: &Path, address: IpAddr) -> Self {
        let name = format!("m{n}");
        let [client, peer] = [(), ()].map(|()| free_port(address));
        let endpoint = Endpoint { tls: true, host: address.to_string(), port: client };
        Self { data_dir: dir.join(&name), name, endpoint, peer_port: peer, child: None, paused: false }
    }
}

/// On an address of the fixture's own, so nobody else takes it meanwhile. No port is given twice while the fixture lives.
pub fn free_port(address: IpAddr) -> u16 {
    static LAST: AtomicU32 = AtomicU32::new(20_000);
    loop {
        let port = u16::try_from(LAST.fetch_add(1, SeqCst)).expect("some port is free");
        if TcpListener::bind((address, port)).is_ok() {
            return port;
        }
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for member in &self.all {
                let log = std::fs::read_to_string(member.data_dir.join("log")).unwrap_or_default();
                eprintln!("--- {}\n{}", member.name, &log[log.len().saturating_sub(2000)..]);
            }
        }
        (0..self.all.len()).for_each(|n| self.kill(n));
        for at in &self.mounted {
            let _ = Command::new("umount").arg(at).status();
        }
    }
}
