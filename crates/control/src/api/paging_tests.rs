use super::*;

impl Keyed for u32 {
    fn key(&self) -> String {
        format!("{self:03} of")
    }
}

fn part(limit: Option<usize>, after: Option<&str>) -> Part {
    Part { limit, after: after.map(str::to_owned) }
}

#[test]
fn parts_put_together_are_the_whole_whatever_changes_meanwhile() {
    let whole = List::of("things", vec![3, 1, 2_u32], part(None, None)).unwrap();
    assert_eq!((whole.items, whole.next), (vec![3, 1, 2], None), "as it comes");
    let first = List::of("things", vec![5, 3, 1, 2, 4_u32], part(Some(2), None)).unwrap();
    assert_eq!(first.items, [1, 2]);
    assert_eq!(first.next.as_deref(), Some("</api/v1/things?limit=2&after=002%20of>; rel=\"next\""));
    // 2 is gone, 6 is new.
    let second = List::of("things", vec![5, 6, 3, 1, 4_u32], part(Some(2), Some("002 of"))).unwrap();
    assert_eq!(second.items, [3, 4]);
    let last = List::of("things", vec![5, 6, 3, 1, 4_u32], part(Some(2), Some("004 of"))).unwrap();
    assert_eq!((last.items, last.next), (vec![5, 6], None));
}

#[test]
fn a_part_of_nothing_or_of_too_much_is_refused() {
    for limit in [0, 10_001] {
        assert!(List::of("things", vec![1_u32], part(Some(limit), None)).is_err_and(|e| e.action.contains("limit")), "{limit}");
    }
}
