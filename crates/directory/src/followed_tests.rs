//! That nothing is passed over when a watch is cut, and nothing read on when an older copy was put back.

use super::*;
use crate::modelled::{Faults, Modelled};
use crate::record::NodeRecord;
use crate::{Transaction, Typed};

#[test]
fn what_a_watch_that_was_cut_has_not_shown_is_read_anew() {
    let directory = Modelled::new(1, base::ClusterId::from_bytes([1; 16]), Faults::NONE);
    let add = |name: &str| directory.commit(&Transaction::new().create(&NodeRecord::new(name.into(), "d".into(), 0))).unwrap();
    let mut followed = Followed::<Instant>::default();
    followed.catch_up(&directory, add("a")).unwrap();
    let upto = add("b");
    directory.set_faults(Faults { watch_cut_permille: 1000, ..Faults::NONE });
    followed.catch_up(&directory, upto).unwrap();
    let seen = followed.view.all::<NodeRecord>().unwrap();
    assert_eq!(seen, directory.all::<NodeRecord>().unwrap(), "nothing is passed over");
}

#[test]
fn a_directory_that_was_put_back_is_not_read_on() {
    let directory = Modelled::new(1, base::ClusterId::from_bytes([1; 16]), Faults::NONE);
    let backup = directory.backup();
    let mut followed = Followed::<Instant>::default();
    let at = directory.commit(&Transaction::new().create(&NodeRecord::new("a".into(), "d".into(), 0))).unwrap();
    followed.catch_up(&directory, at).unwrap();
    directory.restore(&backup);
    let error = followed.catch_up(&directory, crate::Revision(at.0 + 1)).unwrap_err();
    assert!(error.ends_everything(), "{error}");
}

#[cfg(feature = "hooks")]
#[test]
fn seeded_faults_are_noticed() {
    base::hooks::notices(SeededFault::WatchGapMissed, what_a_watch_that_was_cut_has_not_shown_is_read_anew);
}
