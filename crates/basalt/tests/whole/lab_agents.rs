//! `basalt lab agent`: several clients put one load on the volumes of a daemon, and what becomes of a run when one of them dies.

use crate::harness::{BASALT, Daemon, USUAL, until};
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// An agent in a process of its own.
struct Agent {
    process: Child,
    address: String,
}

impl Agent {
    fn start(d: &Daemon, listen: &str) -> Agent {
        let mut command = Command::new(BASALT);
        command.args(["lab", "agent", "--listen", listen, "--key", &d.at("key")]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = command.stderr(Stdio::null()).spawn().expect("an agent starts");
        let mut line = String::new();
        BufReader::new(process.stdout.take().expect("a pipe")).read_line(&mut line).expect("it says where it listens");
        let address = line.trim().strip_prefix("listening on ").expect("its address").to_owned();
        Agent { process, address }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A daemon with two volumes of 32 MiB, and their addresses.
fn with_volumes() -> (Daemon, String) {
    let d = Daemon::started(&USUAL);
    d.group_on_files(2, "512MiB", "1GiB");
    d.ok("volume create v --size 32MiB");
    d.ok("volume create w --size 32MiB");
    let subsystem = &d.json("subsystem list")[0];
    let nqn = subsystem["nqn"].as_str().expect("the subsystem").to_owned();
    let disks = [1, 2].map(|nsid| format!("nvme-tcp://{}/{nqn}?nsid={nsid}", d.addr()));
    let disks = disks.join(" ");
    (d, disks)
}

#[test]
fn two_clients_give_one_result_with_the_figures_of_each() {
    let (d, disks) = with_volumes();
    let agents = [Agent::start(&d, "127.0.0.1:0"), Agent::start(&d, "127.0.0.1:0")];
    let names = agents.iter().map(|a| a.address.as_str()).collect::<Vec<_>>().join(",");
    let common = format!("--agents {names} --agent-key {} --time 1s --warm-up 100ms --results {}", d.at("key"), d.at("results"));
    let line = format!("lab run four-corners:4k-random-write {disks} {common} --rate 200 --flush-every 4 --prepare random --verify");
    let shown = d.json(&line);
    let case = &shown["cases"][0];
    assert!(case["iops"].as_f64() > Some(0.0) && case["errors"] == 0 && case["flushes"].as_u64() > Some(0), "{case}");
    let run = fs::read_dir(d.path("results")).unwrap().next().unwrap().unwrap().path();
    let kept: serde_json::Value = serde_json::from_slice(&fs::read(run.join("case-000.json")).unwrap()).unwrap();
    let clients = kept["clients"].as_array().unwrap();
    assert_eq!(clients.iter().map(|c| c["name"].as_str().unwrap()).collect::<Vec<_>>().join(","), names);
    let sum: u64 = clients.iter().map(|c| c["figures"]["operations"].as_u64().unwrap()).sum();
    assert_eq!(Some(sum), kept["writes"]["operations"].as_u64());
    assert_eq!((kept["engine"].as_str(), clients[0]["disks"].as_u64()), (Some("nvme-tcp"), Some(1)));
    let page = fs::read_to_string(run.join("report.html")).unwrap();
    assert!(agents.iter().all(|a| page.contains(&format!("The machine of {}", a.address))), "each client has its row and its noise");
    // The daemon reports its machine, and each agent its own.
    let noise = &kept["target_noise"];
    assert!(noise["processors"].as_u64() > Some(0) && noise["seconds"].as_f64() > Some(0.9) && noise["others"].is_number(), "{noise}");
    let names = noise["processes"].as_array().unwrap().iter().map(|p| p[0].as_str().unwrap().to_owned()).collect::<Vec<_>>();
    assert!(page.contains("The machine of the target meanwhile: Others used "), "{names:?}");
    // The key is no part of what is kept.
    let key = fs::read_to_string(d.path("key")).unwrap();
    assert!(!fs::read_to_string(run.join("run.json")).unwrap().contains(key.trim()));
    let few = d.fails(&format!("lab run easy-run {} {common}", disks.split(' ').next().unwrap()), 2);
    assert!(few.contains("more agents than disks"), "{few}");
    let nobody = d.fails(&format!("lab run easy-run {disks} --agents 127.0.0.1:1 --agent-key {} --time 1s", d.at("key")), 1);
    assert!(nobody.contains("127.0.0.1:1: no agent answers") && nobody.contains("start 'basalt lab agent' there"), "{nobody}");
}

#[test]
fn an_agent_that_dies_costs_the_case_and_the_run_can_go_on() {
    let (d, disks) = with_volumes();
    let (stays, dies) = (Agent::start(&d, "127.0.0.1:0"), Agent::start(&d, "127.0.0.1:0"));
    let (names, address) = (format!("{},{}", stays.address, dies.address), dies.address.clone());
    let line = format!(
        "lab run easy-run {disks} --agents {names} --agent-key {} --unwritten --time 2s --warm-up 0s --results {}",
        d.at("key"),
        d.at("results")
    );
    let mut command = Command::new(BASALT);
    command.args(line.split(' ')).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let lab = command.spawn().expect("the lab starts");
    let run = until("the first case is kept", || {
        let run = fs::read_dir(d.path("results")).ok()?.next()?.ok()?.path();
        run.join("case-000.json").exists().then_some(run)
    });
    drop(dies);
    let ended = lab.wait_with_output().expect("it ends");
    let reported = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(1), "{reported}");
    assert!(reported.contains(&address) && reported.contains("go on with: basalt lab resume"), "{reported}");
    let again = Agent::start(&d, &address);
    assert_eq!(again.address, address);
    // The other agent may need a moment to see that its lab has gone.
    until("the run goes on to its end", || d.cli(&format!("lab resume {} --destroy", run.display())).status.success().then_some(()));
    assert!(run.join("case-003.json").exists() && run.join("report.html").exists());
}
