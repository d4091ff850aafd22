//! The API over TCP: nothing is shown or done without the token, and who has none hears where it goes.

use crate::harness::{BASALT, Daemon, Setup, USUAL, exchanged};
use std::fs::{self, Permissions};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};

const TOKEN: &str = "6b1f0a6c7d0e4f5a9b8c7d6e5f4a3b2c";

/// A daemon that serves its API over TCP too, with [`TOKEN`] in its file `token`.
pub fn over_tcp(setup: &Setup<'_>) -> Daemon {
    let mut daemon = Daemon::prepared(setup);
    let file = daemon.path("token");
    fs::write(&file, format!("{TOKEN}\n")).expect("it is written");
    fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("it is private");
    let more = format!("{}\n[api]\nlisten = \"127.0.0.1:0\"\ntoken_file = {file:?}\n", setup.more);
    daemon.configure(&Setup { more: &more, ..*setup });
    daemon.start();
    daemon
}

fn cli(daemon: &Daemon, line: &str, token: Option<&str>) -> Output {
    let mut command = Command::new(BASALT);
    command.arg("--api").arg(format!("http://{}", daemon.api_addr())).args(line.split(' ')).stdin(Stdio::null());
    match token {
        Some(token) => command.env("BASALT_TOKEN", token),
        None => command.env_remove("BASALT_TOKEN"),
    };
    command.output().expect("it runs")
}

#[test]
fn who_has_no_token_hears_of_basalt_token_and_nothing_is_shown_or_done() {
    let mut daemon = over_tcp(&USUAL);
    for (token, advice) in [(None, "put the token into BASALT_TOKEN"), (Some("wrong-wrong-wrong"), "the token in BASALT_TOKEN is not that")]
    {
        for line in ["status", "volume list", "policy create p", "audit"] {
            let output = cli(&daemon, line, token);
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{line}: {said}");
            assert!(said.contains("shows no token, or a wrong one") && said.contains(advice), "{line}: {said}");
            assert!(output.stdout.is_empty(), "{line}: {output:?}");
        }
    }
    assert!(daemon.json("policy list").as_array().is_some_and(|all| all.len() == 1), "nothing was made");
    let output = cli(&daemon, "policy create p -q", Some(TOKEN));
    assert!(output.status.success() && output.stdout == b"p\n", "{output:?}");

    // Who tried is noted, without what was shown.
    let noted = daemon.json("audit");
    let refused: Vec<_> = noted.as_array().expect("a list").iter().filter(|one| one["event"] == "authentication-failed").collect();
    assert_eq!(refused.len(), 8, "{noted}");
    assert!(refused[0]["peer"].as_str().is_some_and(|peer| peer.starts_with("127.0.0.1:")), "{noted}");
    assert!(daemon.ok("audit").contains("GET /api/v1/status: refused (401)") && !noted.to_string().contains("wrong-wrong"), "{noted}");
    daemon.stop();
}

#[test]
fn the_metrics_are_there_for_who_has_the_token() {
    let mut daemon = over_tcp(&USUAL);
    let page = |head: &str| exchanged(&mut TcpStream::connect(daemon.api_addr()).expect("it listens"), "GET", "/metrics", head, b"");
    for head in ["", "Authorization: Bearer wrong-wrong-wrong\r\n", "Authorization: Basic YTpi\r\n"] {
        let (status, answer) = page(head);
        assert!(status == 401 && !answer.contains("basalt_build_info"), "{head}: {answer}");
    }
    let (status, answer) = page(&format!("Authorization: Bearer {TOKEN}\r\n"));
    assert!(status == 200 && answer.contains("basalt_build_info"), "{answer}");
    daemon.stop();
}
