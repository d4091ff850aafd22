//! temporary
use sim::history::{RunOptions, run};
fn main() {
    let a: u64 = std::env::args().nth(1).unwrap().parse().unwrap();
    let b: u64 = std::env::args().nth(2).unwrap().parse().unwrap();
    let mut bad = 0;
    let mut ops = 0; let mut crashes = 0; let mut v = 0; let mut stale = 0; let mut unav = 0;
    for seed in a..b {
        match run(seed, &RunOptions::default()) {
            Ok(r) => { ops += r.counts.ops.values().sum::<u64>(); crashes += r.crashes; v += r.virtual_ns; stale += r.counts.stale; unav += u64::from(r.unavailable); if b - a == 1 { println!("{r:#?}"); } }
            Err(f) => { bad += 1; println!("SEED {seed}: {}", f.what); if b - a == 1 { println!("{}", sim::plan::Plan::draw(seed)); } }
        }
    }
    println!("{bad} failed, ops {ops}, crashes {crashes}, virtual {} s, stale {stale}, unavailable {unav}", v / 1_000_000_000);
}
