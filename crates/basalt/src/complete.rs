//! What a shell can complete: commands, options, and names of what the daemon has; and the manual pages.
//!
//! Invariants: which arguments are names of what stands in one place ([`NAMES`]), by their names in the command line; a daemon that does not answer
//! within [`WAIT`] has no names, and a shell hears of no error.
//! Never: changes anything.

use crate::cli::{Cli, DEFAULT_API};
use crate::client::{Client, Failure};
use clap::{Command, CommandFactory};
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::Shells;
use clap_complete::{CompleteEnv, Shell};
use control::api::types as api;
use serde::de::DeserializeOwned;
use std::path::Path;
use std::time::Duration;

/// Whoever presses a key waits no longer for names.
const WAIT: Duration = Duration::from_secs(2);
/// By this variable a shell asks.
const VARIABLE: &str = "COMPLETE";

/// A name, and what it is.
type Candidates = fn() -> Vec<CompletionCandidate>;

/// Which arguments are names of what, by their names; see `every_argument_that_is_a_name_is_completed`.
const NAMES: [(&str, Candidates); 14] = [
    ("volume", volumes),
    ("policy", policies),
    ("subsystem", subsystems),
    ("tls_subsystem", subsystems),
    ("group", groups),
    ("host", hosts),
    ("node", nodes),
    ("owner", nodes),
    ("fault_domain", fault_domains),
    ("drive", drives),
    ("cache", free_drives),
    ("capacity", free_drives),
    ("what", subjects),
    ("profile", profiles),
];

/// The command line, with what its arguments may be.
fn command() -> Command {
    with_names(Cli::command())
}

fn with_names(command: Command) -> Command {
    let command = command.mut_args(|argument| {
        let found = NAMES.iter().find(|(name, _)| *name == argument.get_id().as_str());
        // Files of fixed names (`--cache`) are names of drives, too: a shell adds the files by itself.
        match found {
            Some((_, names)) => argument.add(ArgValueCandidates::new(*names)),
            None => argument,
        }
    });
    command.mut_subcommands(with_names)
}

/// Answers a shell that asks, and ends then.
pub fn answer_shell() {
    CompleteEnv::with_factory(command).var(VARIABLE).complete();
}

/// `basalt completions`: what makes a shell ask.
pub fn script(shell: Shell) -> Result<(), Failure> {
    let failed = |e: std::io::Error| Failure::Local(format!("completions cannot be written: {e}"));
    let mut text = Vec::new();
    let shells = Shells::builtins();
    let completer = shells.completer(&shell.to_string()).ok_or_else(|| Failure::Local(format!("there are no completions for {shell}")))?;
    completer.write_registration(VARIABLE, "basalt", "basalt", "basalt", &mut text).map_err(failed)?;
    if shell == Shell::Zsh {
        // A file of functions that zsh loads when it needs it has to do its work at once.
        text.extend_from_slice(b"[[ ${funcstack[1]} != _basalt ]] || _clap_dynamic_completer_basalt \"$@\"\n");
    }
    // As every command prints: whoever reads may stop to.
    print!("{}", String::from_utf8_lossy(&text));
    Ok(())
}

/// `basalt man`: the manual pages.
pub fn manual(folder: &Path) -> Result<(), Failure> {
    let failed = |e: std::io::Error| Failure::Local(format!("{}: manual pages cannot be written there: {e}", folder.display()));
    clap_mangen::generate_to(Cli::command(), folder).map_err(failed)
}

/// The API that the words on the command line name, else the usual one.
fn api_of(words: &[String]) -> String {
    let named = |(at, word): (usize, &String)| match word.as_str() {
        "--api" | "--socket" => words.get(at + 1).cloned(),
        word => word.strip_prefix("--api=").or(word.strip_prefix("--socket=")).map(str::to_owned),
    };
    let variable = || std::env::var("BASALT_API").ok().filter(|api| !api.is_empty());
    words.iter().enumerate().find_map(named).or_else(variable).unwrap_or_else(|| DEFAULT_API.into())
}

fn ask<T: DeserializeOwned>(path: &str) -> Vec<T> {
    let words: Vec<String> = std::env::args().collect();
    Client::new(&api_of(&words), Some(WAIT)).and_then(|client| client.get(path)).unwrap_or_default()
}

fn candidate(name: impl Into<String>, is: impl Into<String>) -> CompletionCandidate {
    CompletionCandidate::new(name.into()).help(Some(is.into().into()))
}

fn volumes() -> Vec<CompletionCandidate> {
    ask::<api::Volume>("/volumes").into_iter().map(|v| candidate(v.name, crate::table::size(v.bytes))).collect()
}

fn policies() -> Vec<CompletionCandidate> {
    let is = |p: &api::Policy| format!("survives {} failures, {} volumes", p.failures_to_tolerate, p.volumes);
    ask::<api::Policy>("/policies").into_iter().map(|p| candidate(&p.name, is(&p))).collect()
}

fn subsystems() -> Vec<CompletionCandidate> {
    ask::<api::Subsystem>("/subsystems").into_iter().map(|s| candidate(s.name, s.nqn)).collect()
}

fn groups() -> Vec<CompletionCandidate> {
    ask::<api::Group>("/groups").into_iter().map(|g| candidate(g.name, format!("on {}", g.node))).collect()
}

fn hosts() -> Vec<CompletionCandidate> {
    ask::<api::Host>("/hosts").into_iter().map(|h| candidate(h.name.unwrap_or_else(|| h.nqn.clone()), h.nqn)).collect()
}

fn nodes() -> Vec<CompletionCandidate> {
    ask::<api::Node>("/nodes").into_iter().map(|n| candidate(n.name, n.role)).collect()
}

fn fault_domains() -> Vec<CompletionCandidate> {
    let mut all: Vec<String> = ask::<api::Node>("/nodes").into_iter().map(|n| n.fault_domain).collect();
    all.sort();
    all.dedup();
    all.into_iter().map(|domain| candidate(domain, "fault domain")).collect()
}

fn drives() -> Vec<CompletionCandidate> {
    ask::<api::Drive>("/drives").into_iter().map(|d| candidate(d.path, d.model.unwrap_or(d.kind))).collect()
}

/// By the name that stays.
fn free_drives() -> Vec<CompletionCandidate> {
    let free = ask::<api::Drive>("/drives").into_iter().filter(|d| d.use_state == "free");
    free.map(|d| candidate(d.stable_path.unwrap_or(d.path), d.model.unwrap_or(d.kind))).collect()
}

fn subjects() -> Vec<CompletionCandidate> {
    ["volume", "host", "device"].map(CompletionCandidate::new).into()
}

fn profiles() -> Vec<CompletionCandidate> {
    lab::workload::profiles::names().map(CompletionCandidate::new).collect()
}

#[cfg(test)]
#[path = "complete_tests.rs"]
mod tests;
