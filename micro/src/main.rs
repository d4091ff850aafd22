//! `micro list`, or `micro CASE TIMES`: does one case so often and prints the nanoseconds of one operation.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["list"] => {
            micro::cases().iter().for_each(|c| println!("{}\t{}\t{}\t{}", c.name, c.times, c.counted.name(), c.what));
            ExitCode::SUCCESS
        }
        [name, times] => match (micro::cases().iter().find(|c| c.name == name), times.parse::<u64>()) {
            (Some(case), Ok(times)) if times > 0 => {
                println!("{:.1}", case.run(times).as_nanos() as f64 / times as f64);
                ExitCode::SUCCESS
            }
            _ => usage(),
        },
        _ => usage(),
    }
}

fn usage() -> ExitCode {
    eprintln!("usage: micro list | micro CASE TIMES   (what cases there are: micro list; counting: scripts/micro)");
    ExitCode::from(2)
}
