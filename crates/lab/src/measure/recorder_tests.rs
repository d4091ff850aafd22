use super::*;

const S: u64 = SECOND_NS;

#[test]
fn only_the_window_counts_and_seconds_add_up() {
    let window = Window { from_ns: 2 * S, to_ns: 5 * S };
    let mut recorders = [Recorder::new(window, 2), Recorder::new(window, 2)];
    let mut merger = Merger::new(2);
    let mut seconds = Vec::new();
    for n in 0..70u64 {
        let now = n * S / 10 + 1;
        for (i, r) in recorders.iter_mut().enumerate() {
            while let Some(part) = r.roll(now) {
                seconds.extend(merger.take(part));
            }
            if i == 0 || n % 2 == 0 {
                let kind = if i == 0 { IoClass::Read } else { IoClass::Write };
                r.record(now, kind, i, 4096, 1000 * (n + 1), n != 33);
            }
        }
    }
    recorders.iter_mut().filter_map(Recorder::last).for_each(|p| seconds.extend(merger.take(p)));
    seconds.extend(merger.rest().map(|(second, _)| second));
    assert_eq!(seconds.iter().map(|s| s.at_s).collect::<Vec<_>>(), [-2.0, -1.0, 0.0, 1.0, 2.0]);
    let measured: Vec<_> = seconds.iter().filter(|s| s.at_s >= 0.0).collect();
    assert_eq!(measured.iter().map(|s| s.reads).sum::<u64>(), 29);
    assert_eq!(recorders[0].kinds[IoClass::Read as usize].operations, 29);
    assert_eq!(recorders[0].kinds[IoClass::Read as usize].errors, 1);
    assert_eq!(measured.iter().map(|s| s.errors).sum::<u64>(), 1);
    assert_eq!(measured.iter().map(|s| s.writes).sum::<u64>(), recorders[1].kinds[IoClass::Write as usize].operations);
    assert_eq!(measured.iter().map(|s| s.written_bytes).sum::<u64>(), recorders[1].streams[1].bytes);
    assert_eq!(recorders[0].kinds[0].latency.count(), 29);
    assert!((seconds[2].max_us - 30.0).abs() < 0.1, "{}", seconds[2].max_us);
}

#[test]
fn a_warm_up_that_is_no_whole_second_and_silence_are_counted_right() {
    let window = Window { from_ns: S / 2, to_ns: S / 2 + 3 * S };
    let mut r = Recorder::new(window, 1);
    r.record(1, IoClass::Read, 0, 512, 5, true);
    let mut parts = Vec::new();
    while let Some(p) = r.roll(10 * S) {
        parts.push((p.index, p.reads));
    }
    assert_eq!(parts, [(-1, 1), (0, 0), (1, 0), (2, 0)]);
    assert!(r.last().is_none() && r.streams.is_empty());
}

#[test]
fn a_flush_that_fails_is_seen_in_its_second_and_one_that_ends_well_is_not() {
    let mut r = Recorder::new(Window { from_ns: S, to_ns: 3 * S }, 1);
    r.record_flush(1, 5, false);
    let warm_up = r.roll(S).unwrap();
    r.record_flush(S + 1, 5, true);
    r.record_flush(S + 2, 5, false);
    let measured = r.roll(2 * S).unwrap();
    assert_eq!((warm_up.errors, measured.errors, measured.writes), (1, 1, 0));
    assert_eq!((r.flushes.operations, r.flushes.errors), (1, 1), "the warm-up is not counted");
}
