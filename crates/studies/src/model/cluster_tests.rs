//! Cluster files: what is accepted, and that nonsense is refused with its key.

use super::*;

const GOOD: &str = r#"
name = "one CM6"
[scale]
rate = 4
size = 50
[[nodes]]
cores = 4
drives = [{ name = "nvme0", model = "kioxia-cm6-7680" }]
[[nodes.groups]]
cache = { drive = "nvme0", gib = 600 }
capacity = [{ drive = "nvme0", gib = 925, count = 7 }]
[volumes]
count = 8
gib = 100
"#;

fn check(text: &str) -> Result<Cluster, String> {
    let cluster: Cluster = toml::from_str(text).map_err(|e| e.to_string())?;
    cluster.check("file").map_err(|e| e.to_string())?;
    Ok(cluster)
}

#[test]
fn the_example_is_accepted_and_what_is_written_is_read() {
    let cluster = check(GOOD).unwrap();
    assert_eq!(cluster.bytes(600.0), 3 << 30);
    assert_eq!(check(&cluster.to_toml()).unwrap(), cluster);
    assert_eq!(cluster.settings(8).rules, Rules::Smooth);
}

#[test]
fn nonsense_names_its_key() {
    for (from, to, words) in [
        ("cores = 4", "cores = 0", "nodes.cores"),
        ("kioxia-cm6-7680", "floppy", "no drive model is called floppy"),
        ("gib = 925", "gib = 1200", "the drive has"),
        ("count = 8", "count = 80", "takes nine tenths"),
        ("rate = 4", "rate = 0.5", "scale"),
        ("size = 50", "size = 5000", "scale less"),
        ("drive = \"nvme0\", gib = 600", "drive = \"nvme1\", gib = 600", "there is no drive nvme1"),
        ("name = \"one CM6\"", "name = \"one CM6\"\ncolour = 3", "colour"),
        ("[volumes]", "[destage]\nlow_percent = 80\n[volumes]", "low_percent"),
        ("[volumes]", "[network]\ngbit_per_s = -1\n[volumes]", "network"),
        ("[volumes]", "[clients]\ntransport = \"fc\"\n[volumes]", "fc"),
        ("[volumes]", "[clients]\ntransport = \"iscsi\"\nhosts = 9\n[volumes]", "clients.hosts: 9 hosts: there are 1 to 8"),
    ] {
        let text = GOOD.replace(from, to);
        assert_ne!(text, GOOD, "{from}");
        let error = check(&text).unwrap_err();
        assert!(error.contains(words), "{to}: {error}");
    }
}

#[test]
fn several_nodes_are_accepted_and_what_they_cannot_be_names_its_key() {
    let node = &GOOD[GOOD.find("[[nodes]]").unwrap()..GOOD.find("[volumes]").unwrap()];
    let nodes = |n: usize| GOOD.replace(node, &node.repeat(n));
    let mirrored = |n: usize, failures: usize| format!("{}failures_to_tolerate = {failures}\n", nodes(n));
    let two = check(&mirrored(2, 1)).unwrap();
    assert_eq!((two.nodes.len(), two.volumes.failures_to_tolerate), (2, 1));
    assert_eq!(check(&two.to_toml()).unwrap(), two);
    assert_eq!(check(&nodes(8)).unwrap().volumes.failures_to_tolerate, 0);
    for (text, words) in [
        (nodes(9), "file: nodes: 9 nodes: a model has 1 to 8"),
        (GOOD.replace(node, "").replace("name =", "nodes = []\nname ="), "file: nodes: 0 nodes"),
        (mirrored(2, 2), "volumes.failures_to_tolerate: 2: each copy is on a node of its own, so with 2 it is at most 1"),
        (mirrored(8, 9), "volumes.failures_to_tolerate: failures to tolerate is 9"),
        (mirrored(1, 1), "with 1 it is at most 0"),
        (mirrored(2, 1).replacen("cores = 4", "cores = 65", 1), "nodes[0].cores"),
        (mirrored(2, 1).replace("count = 8", "count = 60"), "group 0 of node 0 holds 60 volumes"),
        (mirrored(2, 1).replace("failures_to_tolerate = 1", "failures_to_tolerate = -1"), "failures_to_tolerate"),
    ] {
        let error = check(&text).unwrap_err();
        assert!(error.contains(words), "{words}: {error}");
    }
}

#[test]
fn the_stepped_rules_go_through_the_published_points() {
    let cluster = check(&GOOD.replace("[volumes]", "[destage]\nrules = \"stepped\"\n[volumes]")).unwrap();
    let Rules::Stepped { low_bytes_per_s, high_bytes_per_s } = cluster.settings(8).rules else { panic!("stepped was asked for") };
    let at = |percent: f64| low_bytes_per_s * (high_bytes_per_s / low_bytes_per_s).powf((percent - 30.0) / 40.0) * 8.0 * 4.0 / 1_048_576.0;
    assert!((at(40.0) - 8.0).abs() < 0.2 && (at(60.0) - 434.0).abs() < 5.0, "{} {}", at(40.0), at(60.0));
}

#[test]
fn a_file_that_says_hosts_is_read_and_written_with_nodes() {
    let old = GOOD.replace("[[nodes", "[[hosts");
    let cluster: Cluster = toml::from_str(&old).unwrap();
    assert_eq!(cluster, toml::from_str(GOOD).unwrap());
    assert!(cluster.to_toml().contains("[[nodes]]"));
}

#[test]
fn the_configuration_of_a_run_brings_a_cluster_back() {
    let cluster: Cluster = toml::from_str(GOOD).unwrap();
    let mut table = cluster.to_table();
    assert_eq!(Cluster::from_table("A", &table).unwrap(), cluster);
    table.insert("colour".into(), "red".into());
    let e = Cluster::from_table("A", &table).unwrap_err().to_string();
    assert!(e.starts_with("system A: simulate") && e.contains("colour"), "{e}");
}
