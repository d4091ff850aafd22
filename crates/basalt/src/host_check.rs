//! `basalt host check`: what the machine that connects says of its connections, and what to change.
//!
//! Never: judges; that is `hostcheck`'s.

use crate::client::Failure;
use crate::table::{self, Left, Right};
use hostcheck::{Advice, Host, IscsiSession, Level, Multipath, Subsystem, Timeout, judge};
use serde::Serialize;
use std::path::Path;

/// What `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    /// Nothing is to be changed.
    good: bool,
    #[serde(flatten)]
    host: &'a Host,
    findings: &'a [Advice],
}

/// Reads the machine below `root`, prints, and fails when something is to be changed.
pub fn check(root: &Path, json: bool) -> Result<(), Failure> {
    let host = Host::read(root).map_err(|e| Failure::Local(e.to_string()))?;
    let findings: Vec<Advice> = judge(&host).iter().map(|f| f.words(&host)).collect();
    let changes = findings.iter().filter(|f| f.level == Level::Change).count();
    if json {
        let report = Report { good: changes == 0, host: &host, findings: &findings };
        println!("{}", serde_json::to_string_pretty(&report).expect("a report is plain data"));
    } else {
        show(&host, &findings);
    }
    if changes > 0 { Err(Failure::HostSettings { changes }) } else { Ok(()) }
}

fn show(host: &Host, findings: &[Advice]) {
    let multipath = match host.multipath {
        Multipath::On => "on",
        Multipath::Off => "off",
        Multipath::Missing => "not in this kernel",
        Multipath::NotLoaded => "nvme_core is not loaded",
    };
    table::facts(&[
        ("kernel", host.kernel.clone()),
        ("native multipathing", multipath.to_owned()),
        ("discovery connections", host.discovery.join(", ")),
    ]);
    for s in &host.subsystems {
        println!();
        table::facts(&[
            ("subsystem", s.nqn.clone()),
            ("device", s.name.clone()),
            ("I/O policy", s.iopolicy.clone().unwrap_or_else(|| "unknown".into())),
            ("paths", s.controllers.len().to_string()),
        ]);
        paths(s);
    }
    if !host.sessions.is_empty() {
        println!();
        sessions(&host.sessions);
    }
    for f in findings {
        let word = match f.level {
            Level::Change => "change",
            Level::Note => "note",
        };
        println!("\n{word}: {}: {}\n  to do: {}", f.about, f.what, f.advice);
    }
    if findings.iter().all(|f| f.level == Level::Note) {
        println!("\nnothing is to be changed");
    }
}

fn paths(s: &Subsystem) {
    let timeout = |t: Option<Timeout>| t.map_or_else(|| "?".to_owned(), |t| t.to_string());
    let row = |c: &hostcheck::Controller| {
        let ana = |p: &hostcheck::Path| format!("{} {}", p.namespace, p.ana_state.as_deref().unwrap_or("?"));
        vec![
            c.name.clone(),
            c.address.clone(),
            c.state.clone(),
            c.keep_alive_tmo_s.map_or_else(|| "?".to_owned(), |s| format!("{s} s")),
            timeout(c.ctrl_loss_tmo),
            timeout(c.reconnect_delay),
            timeout(c.fast_io_fail_tmo),
            c.paths.iter().map(ana).collect::<Vec<_>>().join(", "),
        ]
    };
    let columns = [
        ("path", Left),
        ("address", Left),
        ("state", Left),
        ("keep-alive", Right),
        ("ctrl-loss", Right),
        ("reconnect", Right),
        ("fast-io-fail", Right),
        ("namespaces", Left),
    ];
    table::print(&columns, s.controllers.iter().map(row).collect(), "no path");
}

fn sessions(all: &[IscsiSession]) {
    let seconds = |s: Option<u32>| s.map_or_else(|| "?".to_owned(), |s| format!("{s} s"));
    let disk = |d: &hostcheck::IscsiDisk| {
        let state = d.access_state.as_deref().unwrap_or("?");
        format!("{} {} {state}", d.map.as_deref().unwrap_or("no multipath"), d.name)
    };
    let row = |s: &IscsiSession| {
        vec![
            s.name.clone(),
            s.target.clone(),
            s.portal.clone(),
            s.state.clone(),
            seconds(s.noop_interval_s),
            seconds(s.noop_timeout_s),
            seconds(s.replacement_timeout_s),
            s.disks.iter().map(disk).collect::<Vec<_>>().join(", "),
        ]
    };
    let columns = [
        ("session", Left),
        ("target", Left),
        ("portal", Left),
        ("state", Left),
        ("noop every", Right),
        ("noop limit", Right),
        ("replacement", Right),
        ("disks", Left),
    ];
    table::print(&columns, all.iter().map(row).collect(), "no session");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_exit_status_says_whether_something_is_to_be_changed() {
        let dir = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let at = dir.path().join(path);
            fs::create_dir_all(at.parent().unwrap()).unwrap();
            fs::write(at, text).unwrap();
        };
        let status = || check(dir.path(), true).map_err(|failure| failure.status());
        assert_eq!(status(), Err(1), "no Linux");
        put("proc/sys/kernel/osrelease", "6.12.0\n");
        put("sys/module/nvme_core/parameters/multipath", "Y\n");
        assert_eq!(status(), Ok(()), "nothing is connected, and that is no fault");
        for (name, text) in [("transport", "tcp"), ("model", "Basalt"), ("state", "live"), ("kato", "2"), ("ctrl_loss_tmo", "off")] {
            put(&format!("sys/class/nvme/nvme0/{name}"), text);
        }
        assert_eq!(status(), Ok(()));
        put("sys/class/nvme/nvme0/ctrl_loss_tmo", "600\n");
        assert_eq!((status(), check(dir.path(), false).map_err(|f| f.status())), (Err(7), Err(7)));
    }
}
