//! The model against a perfect volume (never an alarm, whatever the overlap) and against one that lies (always an alarm).

use super::model::{Before, Change, Model, Outcome, ReadToken, Span};
use super::pattern::Found;
use initiator::rng::Rng;
use proptest::prelude::*;

const UNITS: u64 = 6;

/// A volume that does everything right: each operation takes effect at one instant between its begin and its end.
struct Perfect {
    held: Vec<Found>,
}

enum Flight {
    Change { span: Span, change: Change, version: u64, applied: bool },
    Read { span: Span, token: ReadToken, found: Option<Vec<Found>> },
}

impl Perfect {
    fn apply(&mut self, flight: &mut Flight) {
        match flight {
            Flight::Change { span, change, version, applied } => {
                for unit in span.first..span.first + span.count {
                    self.held[unit as usize] = match change {
                        Change::Data => Found::Version(*version),
                        Change::Zero => Found::Zero,
                        Change::Any => Found::Foreign { sector: 0, start: [9; 8] },
                    };
                }
                *applied = true;
            }
            Flight::Read { span, found, .. } => {
                found.get_or_insert_with(|| self.held[span.first as usize..(span.first + span.count) as usize].to_vec());
            }
        }
    }
}

fn span(rng: &mut Rng) -> Span {
    let first = rng.below(UNITS);
    Span { first, count: 1 + rng.below(UNITS - first) }
}

/// Ends an operation; `dead`: its connection died, so it may or may not have been applied.
fn end(model: &mut Model, volume: &mut Perfect, mut flight: Flight, dead: bool) {
    if !dead {
        let done = matches!(&flight, Flight::Change { applied: true, .. });
        if !done {
            volume.apply(&mut flight);
        }
    }
    match flight {
        Flight::Change { span, version, .. } => {
            model.end_change(span, version, if dead { Outcome::Unknown } else { Outcome::Applied });
        }
        Flight::Read { token, .. } if dead => model.abandon_read(token),
        Flight::Read { span, token, found } => {
            let bad = model.end_read(token, span, &found.expect("it took place"));
            assert!(bad.is_empty(), "false alarm: {bad:?}");
        }
    }
}

fn perfect_run(seed: u64, steps: u32) {
    let mut rng = Rng::new(seed);
    let mut model = Model::new(UNITS, Before::Zero);
    let mut volume = Perfect { held: vec![Found::Zero; UNITS as usize] };
    let mut flights: Vec<Flight> = Vec::new();
    for _ in 0..steps {
        match rng.below(100) {
            0..30 if flights.len() < 8 => {
                let (span, change) = (span(&mut rng), if rng.percent(25) { Change::Zero } else { Change::Data });
                flights.push(Flight::Change { span, change, version: model.begin_change(span, change), applied: false });
            }
            30..55 if flights.len() < 8 => {
                let span = span(&mut rng);
                flights.push(Flight::Read { span, token: model.begin_read(), found: None });
            }
            55..75 if !flights.is_empty() => {
                let at = rng.below(flights.len() as u64) as usize;
                if !matches!(flights[at], Flight::Change { applied: true, .. }) {
                    volume.apply(&mut flights[at]);
                }
            }
            75..77 => {
                // kill -9: what is in flight is cut off, applied or not
                for flight in flights.drain(..) {
                    end(&mut model, &mut volume, flight, true);
                }
            }
            _ if !flights.is_empty() => {
                let at = rng.below(flights.len() as u64) as usize;
                end(&mut model, &mut volume, flights.swap_remove(at), false);
            }
            _ => {}
        }
    }
    for flight in flights.drain(..) {
        end(&mut model, &mut volume, flight, false);
    }
    let all = Span { first: 0, count: UNITS };
    let token = model.begin_read();
    assert_eq!(model.end_read(token, all, &volume.held), [], "seed {seed}");
    for unit in 0..UNITS {
        write(&mut model, unit);
    }
    assert_eq!(model.open_units(), 0, "a quiet model has one content for each written unit, seed {seed}");
}

proptest! {
    #[test]
    fn a_perfect_volume_never_raises_an_alarm(seed: u64) {
        perfect_run(seed, 400);
    }
}

fn one(unit: u64) -> Span {
    Span { first: unit, count: 1 }
}
fn write(model: &mut Model, unit: u64) -> u64 {
    let v = model.begin_change(one(unit), Change::Data);
    model.end_change(one(unit), v, Outcome::Applied);
    v
}
fn read(model: &mut Model, unit: u64, found: Found) -> bool {
    let t = model.begin_read();
    model.end_read(t, one(unit), &[found]).is_empty()
}
fn maybe(model: &mut Model, unit: u64) -> u64 {
    let v = model.begin_change(one(unit), Change::Data);
    model.end_change(one(unit), v, Outcome::Unknown);
    v
}
fn model() -> Model {
    Model::new(4, Before::Zero)
}

#[test]
fn a_lost_write_is_seen() {
    let mut m = model();
    let old = write(&mut m, 1);
    let new = write(&mut m, 1);
    assert!(!read(&mut m, 1, Found::Version(old)));
    assert!(!read(&mut m, 1, Found::Zero));
    assert!(read(&mut m, 1, Found::Version(new)));
}

#[test]
fn torn_misplaced_corrupt_and_foreign_units_are_seen() {
    let mut m = model();
    let v = write(&mut m, 0);
    let w = m.begin_change(one(0), Change::Data);
    assert!(!read(&mut m, 0, Found::Torn(vec![v, w])), "not even while the write is in flight");
    assert!(!read(&mut m, 0, Found::Misplaced { tag: 1, offset: 4096, version: v }));
    assert!(!read(&mut m, 0, Found::Corrupt { sector: 0, version: v }));
    assert!(!read(&mut m, 0, Found::Foreign { sector: 0, start: [1; 8] }));
}

#[test]
fn a_version_from_the_future_or_of_another_unit_is_seen() {
    let mut m = model();
    write(&mut m, 0);
    let other = write(&mut m, 1);
    assert!(!read(&mut m, 0, Found::Version(other)));
    assert!(!read(&mut m, 0, Found::Version(other + 100)));
}

#[test]
fn a_maybe_is_either_until_a_read_decides() {
    for applied in [false, true] {
        let mut m = model();
        let old = write(&mut m, 2);
        let new = maybe(&mut m, 2);
        let (is, is_not) = if applied { (new, old) } else { (old, new) };
        assert!(read(&mut m, 2, Found::Version(is)));
        assert!(!read(&mut m, 2, Found::Version(is_not)), "what a read has returned never goes back");
        assert!(read(&mut m, 2, Found::Version(is)));
    }
}

#[test]
fn what_was_acknowledged_before_a_maybe_is_not_lost_to_anything_older() {
    let mut m = model();
    let older = write(&mut m, 0);
    let acked = write(&mut m, 0);
    let unsure = maybe(&mut m, 0);
    assert!(!read(&mut m, 0, Found::Version(older)));
    assert!(read(&mut m, 0, Found::Version(unsure)));
    assert!(!read(&mut m, 0, Found::Version(acked)));
}

#[test]
fn a_read_that_showed_a_write_in_flight_binds_later_reads_and_crashes() {
    let mut m = model();
    let old = write(&mut m, 0);
    let v = m.begin_change(one(0), Change::Data);
    assert!(read(&mut m, 0, Found::Version(old)), "not there yet");
    assert!(read(&mut m, 0, Found::Version(v)));
    assert!(!read(&mut m, 0, Found::Version(old)), "a step back while it is in flight");
    m.end_change(one(0), v, Outcome::Unknown);
    assert!(!read(&mut m, 0, Found::Version(old)), "a step back after a crash");
    assert!(read(&mut m, 0, Found::Version(v)));
}

#[test]
fn overlapping_writes_may_end_either_way_but_only_once() {
    let mut m = model();
    let a = m.begin_change(one(0), Change::Data);
    let b = m.begin_change(one(0), Change::Data);
    m.end_change(one(0), b, Outcome::Applied);
    m.end_change(one(0), a, Outcome::Applied);
    assert!(read(&mut m, 0, Found::Version(a)));
    assert!(!read(&mut m, 0, Found::Version(b)));
}

#[test]
fn a_long_read_may_show_anything_that_was_there_during_it() {
    let mut m = model();
    let before = write(&mut m, 0);
    let first = write(&mut m, 0);
    let tokens: Vec<_> = (0..4).map(|_| m.begin_read()).collect();
    let second = write(&mut m, 0);
    let third = write(&mut m, 0);
    for (token, (found, legal)) in tokens.into_iter().zip([(first, true), (second, true), (third, true), (before, false)]) {
        let clone = &mut m.clone();
        assert_eq!(clone.end_read(token, one(0), &[Found::Version(found)]).is_empty(), legal, "{found}");
    }
}

#[test]
fn an_unknown_past_is_not_judged_until_written() {
    let mut m = Model::new(2, Before::Unknown);
    assert!(read(&mut m, 0, Found::Foreign { sector: 0, start: [1; 8] }));
    let v = write(&mut m, 0);
    assert!(!read(&mut m, 0, Found::Foreign { sector: 0, start: [1; 8] }));
    assert!(read(&mut m, 0, Found::Version(v)));
}

#[test]
fn a_zeroed_unit_must_be_zero_and_a_trim_that_is_advice_may_leave_it() {
    let mut m = model();
    let v = write(&mut m, 0);
    let z = m.begin_change(one(0), Change::Zero);
    m.end_change(one(0), z, Outcome::Applied);
    assert!(!read(&mut m, 0, Found::Version(v)));
    assert!(read(&mut m, 0, Found::Zero));
    let v = write(&mut m, 0);
    let z = m.begin_change(one(0), Change::Zero);
    m.end_change(one(0), z, Outcome::Unknown);
    assert!(read(&mut m, 0, Found::Version(v)));
}

#[test]
fn giving_up_leaves_maybes_only() {
    let mut m = model();
    let old = write(&mut m, 3);
    let new = m.begin_change(one(3), Change::Data);
    let _lost = m.begin_read();
    m.give_up_all();
    assert!(m.clone().open_units() == 1);
    assert!(read(&mut m.clone(), 3, Found::Version(old)));
    assert!(read(&mut m, 3, Found::Version(new)));
}

#[test]
fn a_unit_left_to_the_device_is_not_judged_until_written() {
    let mut m = model();
    write(&mut m, 0);
    let any = m.begin_change(one(0), Change::Any);
    m.end_change(one(0), any, Outcome::Applied);
    let t = m.begin_read();
    assert_eq!((m.unjudged(t, one(0)), m.unjudged(t, one(1))), (1, 0));
    m.abandon_read(t);
    assert!(read(&mut m, 0, Found::Foreign { sector: 0, start: [1; 8] }));
    write(&mut m, 0);
    assert!(!read(&mut m, 0, Found::Zero));
}

#[test]
fn a_larger_model_keeps_what_it_knows_and_does_not_judge_the_rest() {
    let mut m = Model::new(1, Before::Zero);
    let v = write(&mut m, 0);
    m.grow(3);
    m.grow(2);
    assert_eq!(m.units(), 3);
    assert!(read(&mut m, 0, Found::Version(v)) && !read(&mut m, 0, Found::Zero));
    let t = m.begin_read();
    assert_eq!(m.unjudged(t, Span { first: 0, count: 3 }), 2);
}

#[test]
fn a_torn_unit_is_legal_only_where_it_may_be_and_changes_overlap() {
    for (tolerant, legal) in [(false, false), (true, true)] {
        let mut m = if tolerant { model().with_torn_units() } else { model() };
        let old = write(&mut m, 0);
        assert!(!read(&mut m, 0, Found::Torn(vec![old, 0])), "nothing overlaps: the write tore");
        let (a, b) = (m.begin_change(one(0), Change::Data), m.begin_change(one(0), Change::Data));
        for mix in [vec![old, a], vec![a, b]] {
            assert_eq!(read(&mut m, 0, Found::Torn(mix)), legal);
        }
        m.end_change(one(0), a, Outcome::Applied);
        m.end_change(one(0), b, Outcome::Applied);
        assert_eq!(read(&mut m, 0, Found::Torn(vec![a, b])), legal, "they overlapped, so their mix may stay");
        assert!(!read(&mut m, 0, Found::Torn(vec![old, b])), "the old one cannot be there any more");
        let last = write(&mut m, 0);
        assert!(!read(&mut m, 0, Found::Torn(vec![a, last])));
    }
}
