//! `basalt`: the daemon and the operator's commands, in one binary.
//!
//! Owns: the command line ([`cli`]), starting and ending the daemon ([`serve`]), printing ([`output`], [`table`], [`show`]), what a shell completes ([`complete`]), the lab's commands ([`lab`]).
//! Invariant: every command but `serve`, `lab`, `config`, `host check`, `completions` and `man` goes through the REST API.
//! Never: holds logic of storage; that is `control`'s and below.
// Control plane: clocks and hashed maps are fine here; the data plane's cores are `rt`'s.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]
#![forbid(unsafe_code)]

mod cli;
mod client;
mod commands;
mod complete;
mod form;
mod host_check;
mod iostat;
mod lab;
mod notify;
mod output;
#[cfg(test)]
mod pages_tests;
mod questions;
mod resources;
mod secrets;
mod serve;
mod show;
mod table;
mod usage;

use clap::Parser;
use std::process::ExitCode;

/// Whoever reads our output may stop reading (`basalt status | head`): that is no error, and nothing to say.
fn end_quietly_when_nobody_reads() {
    let otherwise = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if panic.payload_as_str().is_some_and(|text| text.contains("Broken pipe") || text.contains("BrokenPipe")) {
            std::process::exit(0);
        }
        otherwise(panic);
    }));
}

fn main() -> ExitCode {
    end_quietly_when_nobody_reads();
    // Ends here where a shell has asked what can be typed.
    complete::answer_shell();
    // Usage errors end here with status 2, --help and --version with 0: clap's own statuses are the documented ones.
    let cli = cli::Cli::try_parse().unwrap_or_else(|e| usage::without_odd_tips(e).exit());
    match commands::run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.print();
            ExitCode::from(failure.status())
        }
    }
}
