//! `basalt host check`: what the machine that connects says of its connections, and what to change.
//!
//! Never: judges; that is `hostcheck`'s.

use crate::client::Failure;
use crate::output::{Output, Page};
use crate::table::Rows;
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
pub fn check(root: &Path, out: &Output) -> Result<(), Failure> {
    let host = Host::read(root).map_err(|e| Failure::Local(e.to_string()))?;
    let findings: Vec<Advice> = judge(&host).iter().map(|f| f.words(&host)).collect();
    let changes = findings.iter().filter(|f| f.level == Level::Change).count();
    let report = Report { good: changes == 0, host: &host, findings: &findings };
    out.print(&report, |report| page(report.host, report.findings));
    if changes > 0 { Err(Failure::HostSettings { changes }) } else { Ok(()) }
}

fn page(host: &Host, findings: &[Advice]) -> Page {
    let multipath = match host.multipath {
        Multipath::On => "on",
        Multipath::Off => "off",
        Multipath::Missing => "not in this kernel",
        Multipath::NotLoaded => "nvme_core is not loaded",
    };
    let mut page = Page::new().facts([
        ("kernel", host.kernel.clone()),
        ("native multipathing", multipath.to_owned()),
        ("discovery connections", host.discovery.join(", ")),
    ]);
    for s in &host.subsystems {
        page = paths(page, s);
    }
    if !host.sessions.is_empty() {
        page = page.rows(sessions(&host.sessions));
    }
    for f in findings {
        let word = match f.level {
            Level::Change => "change",
            Level::Note => "note",
        };
        page = page.name(&f.about).line(format!("\n{word}: {}: {}\n  to do: {}", f.about, f.what, f.advice));
    }
    if findings.iter().all(|f| f.level == Level::Note) {
        page = page.line("\nnothing is to be changed");
    }
    page
}

fn paths(page: Page, s: &Subsystem) -> Page {
    let timeout = |t: Option<Timeout>| t.map_or_else(|| "?".to_owned(), |t| t.to_string());
    let namespaces = |c: &hostcheck::Controller| {
        let ana = |p: &hostcheck::Path| format!("{} {}", p.namespace, p.ana_state.as_deref().unwrap_or("?"));
        c.paths.iter().map(ana).collect::<Vec<_>>().join(", ")
    };
    let rows = Rows::of(&s.controllers, "no path")
        .left("path", |c| c.name.clone())
        .left("address", |c| c.address.clone())
        .left("state", |c| c.state.clone())
        .right("keep-alive", |c| c.keep_alive_tmo_s.map_or_else(|| "?".to_owned(), |s| format!("{s} s")))
        .right("ctrl-loss", |c| timeout(c.ctrl_loss_tmo))
        .right("reconnect", |c| timeout(c.reconnect_delay))
        .right("fast-io-fail", |c| timeout(c.fast_io_fail_tmo))
        .left("namespaces", namespaces);
    let facts = [
        ("subsystem", s.nqn.clone()),
        ("device", s.name.clone()),
        ("I/O policy", s.iopolicy.clone().unwrap_or_else(|| "unknown".into())),
        ("paths", s.controllers.len().to_string()),
    ];
    page.facts(facts).rows(rows)
}

fn sessions(all: &[IscsiSession]) -> Rows<'_, IscsiSession> {
    let seconds = |s: Option<u32>| s.map_or_else(|| "?".to_owned(), |s| format!("{s} s"));
    let disk = |d: &hostcheck::IscsiDisk| {
        let state = d.access_state.as_deref().unwrap_or("?");
        format!("{} {} {state}", d.map.as_deref().unwrap_or("no multipath"), d.name)
    };
    Rows::of(all, "no session")
        .left("session", |s| s.name.clone())
        .left("target", |s| s.target.clone())
        .left("portal", |s| s.portal.clone())
        .left("state", |s| s.state.clone())
        .right("noop every", |s| seconds(s.noop_interval_s))
        .right("noop limit", |s| seconds(s.noop_timeout_s))
        .right("replacement", |s| seconds(s.replacement_timeout_s))
        .left("disks", |s| s.disks.iter().map(disk).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Format;
    use std::fs;

    #[test]
    fn the_exit_status_says_whether_something_is_to_be_changed() {
        let dir = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let at = dir.path().join(path);
            fs::create_dir_all(at.parent().unwrap()).unwrap();
            fs::write(at, text).unwrap();
        };
        let out = |format| Output::new(format, true, false);
        let status = || check(dir.path(), &out(Format::Json)).map_err(|failure| failure.status());
        assert_eq!(status(), Err(1), "no Linux");
        put("proc/sys/kernel/osrelease", "6.12.0\n");
        put("sys/module/nvme_core/parameters/multipath", "Y\n");
        assert_eq!(status(), Ok(()), "nothing is connected, and that is no fault");
        for (name, text) in [("transport", "tcp"), ("model", "Basalt"), ("state", "live"), ("kato", "2"), ("ctrl_loss_tmo", "off")] {
            put(&format!("sys/class/nvme/nvme0/{name}"), text);
        }
        assert_eq!(status(), Ok(()));
        put("sys/class/nvme/nvme0/ctrl_loss_tmo", "600\n");
        assert_eq!((status(), check(dir.path(), &out(Format::Table)).map_err(|f| f.status())), (Err(7), Err(7)));
    }
}
