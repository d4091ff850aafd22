use super::*;
use lab::measure::TargetSecond;
use ratatui::backend::TestBackend;

fn second(at_s: f64, reads: u64, target: bool) -> Second {
    let target = target.then(|| TargetSecond {
        buffer_fill: 0.47,
        destaged_bytes: 210.0 * f64::from(1 << 20),
        device_read_bytes: 0.0,
        device_written_bytes: 420.0 * f64::from(1 << 20),
        cores: 1.3,
    });
    Second { at_s, reads, read_bytes: reads * 4096, p99_us: 900.0 + at_s, target, ..Second::default() }
}

/// Ten seconds of warm-up and `measured` seconds.
fn state(measured: i32, target: bool) -> LiveState {
    let mut s = LiveState::new("easy-run");
    s.case_begins("2 of 4: 8k-50-50".into(), (10.0, 30.0));
    for at in -10..measured {
        let mut latency = Latency::default();
        // What the warm-up has must not be seen in the figures of the case.
        latency.record_n(if at < 0 { 9_000_000 } else { 100_000 }, 50_000);
        s.latencies(&latency);
        s.second(&second(f64::from(at), 50_000 + 100 * at.unsigned_abs() as u64, target));
    }
    s
}

fn drawn(s: &LiveState, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    draw_on(&mut terminal, s);
    let buffer = terminal.backend().buffer();
    let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>() + "\n";
    (0..height).map(line).collect()
}

#[test]
fn a_run_is_seen_with_its_rates_latencies_target_and_progress() {
    let mut s = state(5, true);
    s.say("4k-read: 52,000 IOPS".into());
    let text = drawn(&s, 120, 30);
    for words in [
        "easy-run   case 2 of 4: 8k-50-50",
        "measuring: 15 of 40 s",
        "IOPS 50,400, mean 50,200",
        "MiB/s 197",
        "p99.99",
        "longest",
        "write buffer 47 % full",
        "destages 210 MiB/s",
        "write 420 MiB/s",
        "1.3 cores",
        "4k-read: 52,000 IOPS",
        "q or Ctrl-C ends the run",
        "no errors",
    ] {
        assert!(text.contains(words), "{words}:\n{text}");
    }
    let case = text.lines().find(|l| l.contains("this case")).unwrap();
    assert!(case.contains("100 µs") && !case.contains("9.0"), "the warm-up does not count: {case}");
    assert!(text.contains('█') || text.contains('▇'), "a graph is drawn:\n{text}");
}

#[test]
fn warm_up_preparing_ending_and_errors_are_reported() {
    let mut s = state(0, false);
    let text = drawn(&s, 100, 24);
    assert!(text.contains("warm-up: 10 of 40 s") || text.contains("measuring: 10 of 40 s"), "{text}");
    assert!(!text.contains("target"), "{text}");
    s.preparing = Some(("writing the working set".into(), 1 << 30, 4 << 30));
    s.stopping = true;
    s.second(&Second { errors: 3, ..Second::default() });
    let text = drawn(&s, 100, 24);
    assert!(text.contains("writing the working set: 1.0 of 4.0 GiB") && text.contains("once more to end at once"), "{text}");
    assert!(text.contains("3 ERRORS"), "{text}");
}

#[test]
fn any_size_of_terminal_can_be_drawn_on() {
    let s = state(700, true);
    assert_eq!(s.seconds.len(), HISTORY_S);
    for (width, height) in [(1, 1), (10, 3), (49, 40), (50, 16), (80, 24), (300, 100)] {
        drawn(&s, width, height);
    }
    assert!(drawn(&s, 40, 5).contains("8k-50-50"), "a small one shows what it can");
    assert!(drawn(&LiveState::default(), 80, 24).contains("before the first case"));
}

#[test]
fn what_was_said_is_kept_up_to_a_limit() {
    let mut s = LiveState::default();
    (0..LINES_MAX + 5).for_each(|n| s.say(format!("line {n}")));
    let lines = s.take_lines();
    assert_eq!((lines.len(), lines[0].as_str()), (LINES_MAX, "line 5"));
}

#[test]
fn q_and_ctrl_c_end_a_run_and_other_keys_do_not() {
    let none = KeyModifiers::NONE;
    assert!(ends(KeyCode::Char('q'), none) && ends(KeyCode::Char('c'), KeyModifiers::CONTROL));
    assert!(!ends(KeyCode::Char('c'), none) && !ends(KeyCode::Enter, none));
}
