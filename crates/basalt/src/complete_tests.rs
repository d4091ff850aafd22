use super::*;
use std::ffi::OsString;

/// What a shell is offered after these words, the last of which is being typed.
fn offered(line: &str) -> Vec<String> {
    let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
    let at = words.len() - 1;
    let found = clap_complete::engine::complete(&mut command(), words, at, None).unwrap();
    found.into_iter().map(|c| c.get_value().to_string_lossy().into_owned()).collect()
}

#[test]
fn commands_options_and_words_are_completed() {
    assert!(offered("basalt vol").contains(&"volume".to_owned()));
    assert!(offered("basalt volume cr").contains(&"create".to_owned()));
    assert!(offered("basalt volume list --no-h").contains(&"--no-headers".to_owned()));
    assert!(offered("basalt volume list -o ").contains(&"yaml".to_owned()));
    assert_eq!(offered("basalt iostat h"), ["host"]);
    assert!(offered("basalt lab run easy").contains(&"easy-run".to_owned()));
}

/// Whatever names something that is there is completed, and the table has no name that no argument has.
#[test]
fn every_argument_that_is_a_name_is_completed() {
    let mut used = std::collections::BTreeSet::new();
    let mut open = vec![("basalt".to_owned(), command())];
    while let Some((path, command)) = open.pop() {
        for argument in command.get_arguments() {
            let completed = argument.get::<ArgValueCandidates>().is_some();
            let id = argument.get_id().as_str();
            if completed {
                used.insert(id.to_owned());
            }
            let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
            let names = ["Name or id", "NQN, iSCSI name or name", "Name, NQN or iSCSI name", "Its name, or its id"]
                .iter()
                .any(|h| help.starts_with(h));
            assert!(completed || !names, "{path} {id}: '{help}' is not completed");
        }
        open.extend(command.get_subcommands().map(|c| (format!("{path} {}", c.get_name()), c.clone())));
    }
    assert_eq!(used, NAMES.iter().map(|(name, _)| (*name).to_owned()).collect());
}

#[test]
fn names_come_from_the_api_that_the_line_names() {
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(api_of(&words("basalt -- basalt --api /a volume show")), "/a");
    assert_eq!(api_of(&words("basalt -- basalt volume --socket=/b show")), "/b");
}

#[test]
fn each_command_has_its_manual_page() {
    let folder = tempfile::tempdir().unwrap();
    manual(folder.path()).unwrap();
    let page = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    assert!(page("basalt.1").contains("volumes on NVMe drives"));
    let create = page("basalt-volume-create.1");
    assert!(create.contains("grow\\-max") && create.contains("basalt volume create db \\-\\-size 200GiB"), "{create}");
    assert!(manual(&folder.path().join("none")).unwrap_err().to_string().contains("cannot be written there"));
}
