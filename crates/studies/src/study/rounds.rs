//! Rounds of a case that were measured in alternation with others, as one.

use lab::results::Measured;

/// Operations, histograms and seconds of all rounds. The labels and the workload are those of the first.
///
/// # Panics
/// Without a round.
pub(super) fn as_one(rounds: &[Measured]) -> Measured {
    let (first, rest) = rounds.split_first().expect("a case has a round");
    let mut all = first.clone();
    for m in rest {
        all.seconds.extend(m.seconds.iter().filter(|s| s.at_s >= 0.0).map(|s| {
            let mut second = s.clone();
            second.at_s += all.measured_s;
            second
        }));
        for (sum, part) in [(&mut all.reads, &m.reads), (&mut all.writes, &m.writes), (&mut all.trims, &m.trims)] {
            sum.merge(part);
        }
        all.measured_s += m.measured_s;
        all.client_cpu_s += m.client_cpu_s;
        all.cut_short |= m.cut_short;
        all.notes.extend(m.notes.iter().filter(|n| !first.notes.contains(n)).cloned().collect::<Vec<_>>());
    }
    all
}
