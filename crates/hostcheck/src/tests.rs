//! Trees like those of real hosts: what is read of them, and what is said.

use super::*;
use std::fs;
use std::path::Path as FilePath;

const NQN: &str = "nqn.2026-11.io.basalt:default";

/// Writes a file below the folders that it needs.
pub(crate) fn put(root: &FilePath, path: &str, text: &str) {
    let at = root.join(path);
    fs::create_dir_all(at.parent().unwrap()).unwrap();
    fs::write(at, format!("{text}\n")).unwrap();
}

/// The attributes of a connection that is as it should be, and of its one path.
fn good_controller(root: &FilePath, n: u8, ana: &str) {
    let at = format!("sys/class/nvme/nvme{n}");
    let address = format!("traddr=192.0.2.{n},trsvcid=4420,src_addr=192.0.2.99");
    let cntlid = (1 + u32::from(n) * 1023).to_string();
    for (name, text) in [
        ("transport", "tcp"),
        ("model", "Basalt                                  "),
        ("subsysnqn", NQN),
        ("address", &address),
        ("state", "live"),
        ("cntlid", &cntlid),
        ("kato", "2"),
        ("ctrl_loss_tmo", "off"),
        ("reconnect_delay", "2"),
        ("fast_io_fail_tmo", "off"),
    ] {
        put(root, &format!("{at}/{name}"), text);
    }
    put(root, &format!("{at}/nvme0c{n}n1/ana_state"), ana);
    put(root, &format!("{at}/nvme0c{n}n1/ana_grpid"), "1");
}

/// A host of Debian 13 with two paths, of which one is optimized, and all settings as shipped.
fn good_host() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    put(root, "proc/sys/kernel/osrelease", "6.12.48+deb13-amd64");
    put(root, "sys/module/nvme_core/parameters/multipath", "Y");
    good_controller(root, 1, "optimized");
    good_controller(root, 2, "non-optimized");
    put(root, "sys/class/nvme/nvme1/nvme0c1n1/uevent", "");
    put(root, "sys/class/nvme-subsystem/nvme-subsys0/subsysnqn", NQN);
    put(root, "sys/class/nvme-subsystem/nvme-subsys0/iopolicy", "queue-depth");
    for (name, text) in [("transport", "tcp"), ("model", "Basalt discovery"), ("address", "traddr=2001:db8::1,trsvcid=8009")] {
        put(root, &format!("sys/class/nvme/nvme3/{name}"), text);
    }
    // Those of others, and drives, are nobody's business.
    for (name, text) in [("transport", "pcie"), ("model", "Basalt"), ("subsysnqn", "nqn.drive")] {
        put(root, &format!("sys/class/nvme/nvme0/{name}"), text);
    }
    for (name, text) in [("transport", "tcp"), ("model", "Linux"), ("subsysnqn", "nqn.other"), ("kato", "120")] {
        put(root, &format!("sys/class/nvme/nvme4/{name}"), text);
    }
    dir
}

fn words(root: &FilePath) -> Vec<Advice> {
    let host = Host::read(root).unwrap();
    judge(&host).iter().map(|f| f.words(&host)).collect()
}

#[test]
fn a_device_leads_where_its_paths_lead() {
    let dir = good_host();
    let host = Host::read(dir.path()).unwrap();
    assert_eq!(host.portals("nvme0n1"), ["192.0.2.1:4420", "192.0.2.2:4420"]);
    assert_eq!((host.portals("nvme9n1"), host.portals("sda")), (Vec::<&str>::new(), Vec::new()));
}

#[test]
fn a_host_with_the_shipped_settings_is_read_whole_and_nothing_is_said_of_it() {
    let dir = good_host();
    let host = Host::read(dir.path()).unwrap();
    assert_eq!((host.kernel.as_str(), host.kernel_version), ("6.12.48+deb13-amd64", Some(KernelVersion(6, 12))));
    assert_eq!((host.multipath, host.discovery.as_slice()), (Multipath::On, ["[2001:db8::1]:8009".to_owned()].as_slice()));
    let [s] = &host.subsystems[..] else { panic!("one subsystem: {host:?}") };
    assert_eq!((s.name.as_str(), s.nqn.as_str(), s.iopolicy.as_deref()), ("nvme-subsys0", NQN, Some("queue-depth")));
    let [a, b] = &s.controllers[..] else { panic!("two paths: {s:?}") };
    let path = |state: &str| Path { namespace: "nvme0n1".into(), ana_state: Some(state.into()), ana_group: Some(1) };
    let wanted = Controller {
        name: "nvme1".into(),
        address: "192.0.2.1:4420".into(),
        state: "live".into(),
        cntlid: Some(1024),
        keep_alive_tmo_s: Some(2),
        ctrl_loss_tmo: Some(Timeout::Off),
        reconnect_delay: Some(Timeout::Seconds(2)),
        fast_io_fail_tmo: Some(Timeout::Off),
        paths: vec![path("optimized")],
    };
    assert_eq!(a, &wanted);
    assert_eq!((b.name.as_str(), &b.paths), ("nvme2", &vec![path("non-optimized")]));
    assert_eq!(judge(&host), []);
    assert!(serde_json::to_string(&host).unwrap().contains(r#""ctrl_loss_tmo":"off","reconnect_delay":{"seconds":2}"#));
}

/// One thing at a time is made wrong: exactly that is found, and what to do names it.
#[test]
fn each_setting_that_is_wrong_is_found_and_nothing_else() {
    let class = "sys/class/nvme/nvme1";
    let cases: &[(&str, &str, Level, &str, &str)] = &[
        ("kato", "5", Level::Change, "keep_alive_tmo is 5 s: a dead path is noticed after up to 7 s", "--keep-alive-tmo=2"),
        ("kato", "0", Level::Change, "no keep-alive", "nvme disconnect -d nvme1"),
        ("ctrl_loss_tmo", "600", Level::Change, "ctrl_loss_tmo is 600 s", "echo -1 > /sys/class/nvme/nvme1/ctrl_loss_tmo"),
        ("reconnect_delay", "10", Level::Change, "reconnect_delay is 10 s", "echo 2 > /sys/class/nvme/nvme1/reconnect_delay"),
        ("reconnect_delay", "off", Level::Change, "reconnect_delay is off", "echo 2 > /sys/class/nvme/nvme1/reconnect_delay"),
        ("fast_io_fail_tmo", "5", Level::Change, "fast_io_fail_tmo is 5 s", "echo -1 > /sys/class/nvme/nvme1/fast_io_fail_tmo"),
        ("nvme0c1n1/ana_state", "inaccessible", Level::Note, "is optimized", "owns the volume"),
    ];
    for (name, text, level, what, advice) in cases {
        let dir = good_host();
        put(dir.path(), &format!("{class}/{name}"), text);
        let found = words(dir.path());
        let [one] = &found[..] else { panic!("{name} = {text}: {found:?}") };
        assert!(one.level == *level && one.what.contains(what) && one.advice.contains(advice), "{name} = {text}: {one:?}");
    }
}

/// Debian 12's kernel waits for a keep-alive twice.
#[test]
fn a_kernel_that_is_slow_to_leave_a_path_needs_a_shorter_keep_alive() {
    let dir = good_host();
    put(dir.path(), "proc/sys/kernel/osrelease", "6.1.0-57-amd64");
    put(dir.path(), "sys/class/nvme-subsystem/nvme-subsys0/iopolicy", "round-robin");
    put(dir.path(), "sys/class/nvme/nvme1/kato", "1");
    let found = words(dir.path());
    let [one] = &found[..] else { panic!("{found:?}") };
    assert!(
        one.level == Level::Change && one.what.contains("this kernel waits for it twice: a dead path is left after up to 7 s"),
        "{one:?}"
    );
    assert!(one.advice.contains("nvme disconnect -d nvme2") && one.advice.contains("--keep-alive-tmo=1"), "{one:?}");
}

#[test]
fn what_is_wrong_of_the_machine_is_found() {
    let cases: &[(&str, &str, Level, &str)] = &[
        ("sys/module/nvme_core/parameters/multipath", "N", Level::Change, "native multipathing is off"),
        ("sys/class/nvme-subsystem/nvme-subsys0/iopolicy", "numa", Level::Change, "the I/O policy numa uses one path only"),
        ("proc/sys/kernel/osrelease", "5.10.0-30-amd64", Level::Note, "keep_alive_tmo"),
    ];
    for (name, text, level, what) in cases {
        let dir = good_host();
        put(dir.path(), name, text);
        let found = words(dir.path());
        let [one] = &found[..] else { panic!("{name} = {text}: {found:?}") };
        assert!(one.level == *level && one.what.contains(what), "{one:?}");
    }
    let dir = good_host();
    fs::remove_file(dir.path().join("sys/module/nvme_core/parameters/multipath")).unwrap();
    assert!(words(dir.path())[0].what.contains("CONFIG_NVME_MULTIPATH"));
    fs::remove_dir_all(dir.path().join("sys/class/nvme/nvme3")).unwrap();
    assert!(words(dir.path()).iter().any(|f| f.level == Level::Note && f.about == "discovery"));
}

#[test]
fn the_best_policy_that_the_kernel_has_is_advised() {
    for (kernel, policy) in
        [("6.1.0-40-amd64", "round-robin"), ("6.10.3", "round-robin"), ("6.11.0", "queue-depth"), ("7.0", "queue-depth")]
    {
        let dir = good_host();
        put(dir.path(), "proc/sys/kernel/osrelease", kernel);
        put(dir.path(), "sys/class/nvme-subsystem/nvme-subsys0/iopolicy", "numa");
        assert!(words(dir.path())[0].advice.contains(&format!("echo {policy} >")), "{kernel}");
    }
}

#[test]
fn a_path_that_is_away_is_found_and_a_namespace_without_any() {
    let dir = good_host();
    put(dir.path(), "sys/class/nvme/nvme1/state", "connecting");
    let host = Host::read(dir.path()).unwrap();
    let [none_optimized, away] = &judge(&host)[..] else { panic!("two findings: {:?}", judge(&host)) };
    assert!(matches!(none_optimized, Finding::NoneOptimized(_, namespace) if namespace == "nvme0n1"));
    assert!(matches!(away, Finding::Path(c, PathFault::State(state)) if c.name == "nvme1" && state == "connecting"));

    put(dir.path(), "sys/class/nvme/nvme2/nvme0c2n1/ana_state", "inaccessible");
    let host = Host::read(dir.path()).unwrap();
    let found = judge(&host);
    assert!(matches!(&found[0], Finding::NoPath(_, namespace) if namespace == "nvme0n1") && found[0].level() == Level::Change);

    fs::remove_dir_all(dir.path().join("sys/class/nvme/nvme2")).unwrap();
    let host = Host::read(dir.path()).unwrap();
    assert!(judge(&host).iter().any(|f| matches!(f, Finding::OnePath(_)) && f.level() == Level::Note));
}

#[test]
fn a_machine_without_connections_or_without_linux_is_said_to_be_so() {
    let dir = tempfile::tempdir().unwrap();
    let error = Host::read(dir.path()).unwrap_err().to_string();
    assert!(error.contains("proc/sys/kernel/osrelease cannot be read") && error.contains("Linux"), "{error}");
    put(dir.path(), "proc/sys/kernel/osrelease", "6.12.0");
    let host = Host::read(dir.path()).unwrap();
    assert_eq!((host.multipath, judge(&host)), (Multipath::NotLoaded, vec![Finding::NothingConnected]));
}

#[test]
fn attributes_that_are_not_there_are_unknown_and_never_good_or_bad() {
    let dir = good_host();
    for name in ["kato", "ctrl_loss_tmo", "reconnect_delay", "fast_io_fail_tmo", "cntlid", "nvme0c1n1/ana_state"] {
        fs::remove_file(dir.path().join("sys/class/nvme/nvme1").join(name)).unwrap();
    }
    let host = Host::read(dir.path()).unwrap();
    let c = &host.subsystems[0].controllers[0];
    assert_eq!((c.keep_alive_tmo_s, c.ctrl_loss_tmo, c.reconnect_delay, c.fast_io_fail_tmo, c.cntlid), (None, None, None, None, None));
    assert_eq!((c.paths[0].ana_state.as_ref(), judge(&host)), (None, vec![]));
}

#[test]
fn kernel_versions_have_an_order() {
    let version = |text| KernelVersion::parse(text).unwrap();
    assert!(version("6.9.12") < version("6.10.0-rc1") && version("5.15.0-25-generic") < version("6.1"));
    assert_eq!((KernelVersion::parse("x"), KernelVersion::parse(""), KernelVersion::parse("6")), (None, None, None));
    assert!(KERNEL_ISSUES.windows(2).all(|w| w[0].fixed < w[1].fixed), "the oldest first");
}
