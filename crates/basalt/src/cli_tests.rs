use super::*;
use clap::CommandFactory;

fn parse(line: &str) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(line.split_whitespace())
}

fn walk(command: &clap::Command, path: &str, visit: &mut impl FnMut(&clap::Command, &str)) {
    let path = format!("{path} {}", command.get_name());
    visit(command, path.trim());
    command.get_subcommands().for_each(|c| walk(c, &path, visit));
}

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn every_command_says_what_it_does_with_examples_that_parse() {
    let mut examples = 0;
    walk(&Cli::command(), "", &mut |command, path| {
        assert!(command.get_about().is_some(), "{path} says what it does");
        if command.has_subcommands() {
            return;
        }
        let help = command.get_after_help().unwrap_or_else(|| panic!("{path} has examples")).to_string();
        let lines = help.lines().filter_map(|l| l.strip_prefix("  "));
        for line in lines {
            let line = line.split(['#', '|', '>']).next().unwrap().replace("$(ssh kvm1 cat /etc/nvme/hostnqn)", "nqn.x");
            assert!(line.starts_with(path), "{path}: {line}");
            parse(&line).unwrap_or_else(|e| panic!("{line}: {e}"));
            examples += 1;
        }
    });
    assert!(examples > 40, "{examples}");
}

#[test]
fn help_fits_into_a_terminal_of_100_columns() {
    walk(&Cli::command().term_width(100), "", &mut |command, path| {
        let help = command.clone().term_width(100).render_long_help().to_string();
        let examples = help.find("Examples:").unwrap_or(help.len());
        for line in help[..examples].lines() {
            assert!(line.chars().count() <= 100, "{path}: {line}");
        }
    });
}

#[test]
fn sizes_and_limits_read_as_people_write_them() {
    let Command::Volume(VolumeCommand::Create { size, lba, .. }) = parse("basalt volume create v --size 1.5TiB").unwrap().command else {
        panic!()
    };
    assert_eq!((size, lba), (3 << 39, 4096));
    let Command::Policy(PolicyCommand::Set { change, .. }) =
        parse("basalt policy set p --iops-limit none --bandwidth-limit 10MiB --checksum off --force-provisioning").unwrap().command
    else {
        panic!()
    };
    assert_eq!((change.iops_limit, change.bandwidth_limit), (Some(0), Some(10 << 20)));
    assert_eq!((change.checksum, change.force_provisioning), (Some(Switch::Off), Some(Switch::On)));
}

#[test]
fn devices_are_paths_files_to_be_made_or_memory() {
    let device = |text: &str| device(text).map(|d| (d.path, d.bytes));
    assert_eq!(device("/dev/nvme0n1"), Ok(("/dev/nvme0n1".into(), None)));
    assert_eq!(device("/srv/c.img:10GiB"), Ok(("/srv/c.img".into(), Some(10 << 30))));
    assert_eq!(device("memory:1GiB"), Ok(("memory:1GiB".into(), None)));
    assert_eq!(device("/dev/disk/by-path/pci-0000:01:00.0-nvme-1"), Ok(("/dev/disk/by-path/pci-0000:01:00.0-nvme-1".into(), None)));
    assert!(device("memory:lots").is_err());
    let (relative, _) = device("c.img:1GiB").unwrap();
    assert!(relative.starts_with('/') && relative.ends_with("/c.img"));
}

#[test]
fn wrong_usage_is_reported() {
    for line in [
        "basalt volume create v",
        "basalt cluster set",
        "basalt cluster set --etcd-cert a.crt",
        "basalt cluster set --etcd-endpoints https://a:1 --this-node --offline",
        "basalt cluster restore --external --from 10.0.0.1:7421",
        "basalt volume create v --size many",
        "basalt volume create v --size 1GiB --subsystem s --detached",
        "basalt group create g --cache memory:1GiB",
        "basalt volume set v",
        "basalt subsystem allow s",
        "basalt subsystem allow s h --any",
        "basalt frobnicate",
        "basalt iostat a b c d",
        "basalt subsystem set s",
        "basalt host set h",
        "basalt host set h --hash 384",
        "basalt audit --limit 0",
        "basalt audit --limit 10001",
        "basalt policy create p --iops-limit 0",
        "basalt policy create p --bandwidth-limit 0",
        "basalt group create g --cache memory:1GiB --capacity memory:1GiB --shards 3",
        "basalt subsystem attach s v --nsid x",
    ] {
        assert_eq!(parse(line).unwrap_err().exit_code(), 2, "{line}");
    }
}

#[test]
fn usage_shows_no_option_as_if_it_had_to_be_given() {
    walk(&Cli::command(), "", &mut |command, path| {
        assert!(command.get_arguments().all(|argument| argument.get_env().is_none()), "{path}: with the variable set, usage would show it");
    });
    let said = parse("basalt volume set v").unwrap_err().to_string();
    assert!(["--policy", "--owner", "--read-only"].iter().all(|option| said.contains(option)), "any of them will do: {said}");
}

#[test]
fn whatever_destroys_or_cuts_off_can_be_confirmed_on_the_command_line() {
    for line in [
        "basalt policy delete p --yes",
        "basalt subsystem delete s --yes",
        "basalt subsystem detach s v --yes",
        "basalt host remove h -y",
        "basalt volume delete v --yes",
        "basalt host set h --no-chap-target --yes",
        "basalt host set h --chap-target-user x",
        "basalt volume shrink v --size 1GiB --force --yes",
        "basalt volume clear-reservation v --yes",
        "basalt group remove g --yes",
        "basalt group create g --cache memory:1GiB --capacity memory:1GiB --force --yes",
        "basalt subsystem deny s h --yes",
        "basalt subsystem deny s --any -y",
        "basalt subsystem set s --security encrypted --yes",
        "basalt subsystem set s --no-iscsi --yes",
        "basalt host set h --no-dhchap --yes",
        "basalt host set h --no-tls-psk --yes",
        "basalt host set h --no-chap --yes",
        "basalt node remove n --yes",
        "basalt cluster join t --address 10.0.0.2 --destroy --yes",
        "basalt cluster restore /b --yes",
    ] {
        assert!(parse(line).is_ok(), "{line}");
    }
}
