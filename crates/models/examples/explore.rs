//! Explores the models: `explore whole [NAME [STATES]]`, `explore rules [RULE [STATES]]`, `explore deep`.

use models::explore::explore;
use models::replica::{Replicas, bounds};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let arg = |n: usize| args.get(n).map(String::as_str);
    let only = arg(1).unwrap_or("all");
    let states_max = arg(2).and_then(|n| n.parse().ok()).unwrap_or(1_000_000);
    let wanted = |name: &str| only == "all" || only == name;
    match arg(0) {
        Some("rules") => {
            for (rule, bounds, broken) in bounds::NEEDED.iter().filter(|(rule, ..)| wanted(&format!("{rule:?}"))) {
                let found = explore(&Replicas(bounds.without(*rule)), states_max, Some(broken));
                let steps = found.broken.as_ref().map(|(what, trace)| (*what, trace.len()));
                println!("{rule:?} | {} | {steps:?} | expected {broken:?} | {} states, depth {}", bounds.name, found.states, found.depth);
                if only != "all" {
                    println!("{found}");
                }
            }
        }
        Some(which) => {
            let all = if which == "deep" { bounds::DEEP } else { bounds::WHOLE };
            for bounds in all.iter().filter(|b| wanted(b.name)) {
                println!("{} | {}", bounds.name, explore(&Replicas(*bounds), states_max, None));
            }
        }
        None => println!("explore whole | rules | deep [NAME [STATES]]"),
    }
}
