//! Every command of `basalt` on every page of the documentation is one that there is.
use crate::cli::Cli;
use clap::{CommandFactory, Parser};
use page::{Shown, commands};
use std::fs;
use std::path::PathBuf;

#[path = "../tests/whole/guide/page.rs"]
mod page;

/// Every page that says what to type, by its path.
fn pages() -> Vec<(String, String)> {
    let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let mut paths: Vec<PathBuf> = fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "md"));
    paths.push(root.join("README.md"));
    paths.sort();
    let read = |path: PathBuf| (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read_to_string(path).unwrap());
    paths.into_iter().map(read).collect()
}

/// Whether names and options of a command are there, whatever its values are and what it leaves out.
fn names_exist(shown: &Shown) -> Result<(), String> {
    let mut command = Cli::command();
    command.build();
    let mut within = &command;
    for word in &shown.words[1..] {
        let name = word.split(['=', '|']).next().unwrap().trim_end_matches([',', '.', ']']);
        if let Some(long) = name.strip_prefix("--").filter(|long| !long.is_empty()) {
            let known = |argument: &clap::Arg| argument.get_long_and_visible_aliases().is_some_and(|all| all.contains(&long));
            if !(within.get_arguments().any(known) || matches!(long, "help" | "version")) {
                return Err(format!("'{}' has no option --{long}", within.get_name()));
            }
        } else if let Some(next) = within.find_subcommand(name) {
            within = next;
        } else if within.has_subcommands() && name.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-') && !name.is_empty() {
            return Err(format!("'{}' has no command '{name}'", within.get_name()));
        }
    }
    Ok(())
}

/// Words that stand for something else: `TOKEN`, `...`, `..`.
fn has_placeholders(shown: &Shown) -> bool {
    shown
        .words
        .iter()
        .any(|word| word.contains("..") || word.contains('…') || word.starts_with('[') || word.chars().all(|c| c.is_ascii_uppercase()))
}

#[test]
fn every_command_on_every_page_is_one_that_there_is() {
    let (mut wrong, mut names, mut whole) = (Vec::new(), 0, 0);
    for (name, text) in pages() {
        // A label of the protocol between nodes begins with the same word.
        for shown in commands(&text).into_iter().filter(|shown| shown.text() != "basalt peer link 1") {
            names += 1;
            if let Err(why) = names_exist(&shown) {
                wrong.push(format!("{name}:{}: {}: {why}", shown.line, shown.text()));
            } else if shown.block && !has_placeholders(&shown) {
                whole += 1;
                if let Err(e) = Cli::try_parse_from(&shown.words)
                    && e.use_stderr()
                {
                    wrong.push(format!("{name}:{}: {}: {e}", shown.line, shown.text()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(names > 150 && whole > 80, "pages were read: {names} commands, {whole} of them whole");
}

#[test]
fn a_command_that_there_is_not_is_found() {
    for (line, wrong) in [
        ("basalt volume create v --size 1GiB", false),
        ("basalt volume", false),
        ("basalt volume make v", true),
        ("basalt volume create v --sise 1GiB", true),
        ("basalt frobnicate", true),
    ] {
        let shown = &commands(&format!("Type `{line}`."))[0];
        assert_eq!(names_exist(shown).is_err(), wrong, "{line}");
    }
}

#[test]
fn pages_are_read_as_shells_read_them() {
    let page = "Text with `basalt status` and `cargo run`.\n\n    basalt config check && systemctl restart basalt   # not: basalt x\n    \
                basalt group create g --cache a \\\n        --capacity 'b c'\n    curl | basalt audit --json | jq .\n    \
                basalt host set h --tls-psk-generate > h.psk\n\n```toml\nbasalt no\n```\n```sh\nbasalt lab run x\n```\n";
    let texts: Vec<(bool, String)> = commands(page).iter().map(|shown| (shown.block, shown.text())).collect();
    let expected = [
        (false, "basalt status"),
        (true, "basalt config check"),
        (true, "basalt group create g --cache a --capacity b c"),
        (true, "basalt audit --json"),
        (true, "basalt host set h --tls-psk-generate"),
        (true, "basalt lab run x"),
    ];
    assert_eq!(texts, expected.map(|(block, text)| (block, text.to_owned())));
}
