use super::super::control_requests::tests::bench;
use super::*;

fn volume(control: &Control) -> Versioned<VolumeRecord> {
    control.directory.all::<VolumeRecord>().unwrap().remove(0)
}

fn note(control: &Control, asked: &Versioned<VolumeRecord>, why: TaskError, tried: u64) {
    let id = task_id(asked.id, Finish::Resize);
    let old = control.directory.find::<TaskRecord>(&id).unwrap();
    let task = TaskRecord { id, what: String::new(), error: "no".into(), why, node: "h2".into(), tried, attempts: 1, last_unix_s: 0 };
    let noted = match old {
        None => Transaction::new().create(&task),
        Some(old) => Transaction::new().update(&Versioned { revision: old.revision, value: task }),
    };
    control.commit(noted).unwrap();
}

#[test]
fn an_error_counts_when_it_is_one_of_what_was_asked_for_now() {
    let b = bench();
    let c = &b.control;
    let mut v = volume(c);
    v.value.resize_to = Some(2 << 30);
    c.commit(Transaction::new().update(&v)).unwrap();
    let asked = volume(c);
    let outcome = || c.outcome(&asked, Finish::Resize).unwrap();
    assert!(outcome().is_none(), "it is under way");
    note(c, &asked, TaskError::NoSpace, asked.revision.0 - 1);
    assert!(outcome().is_none(), "an error of what was asked for before");
    for (why, code) in [
        (TaskError::NoSpace, crate::Code::NoSpace),
        (TaskError::NotNow, crate::Code::Unavailable),
        (TaskError::Failed, crate::Code::Internal),
    ] {
        note(c, &asked, why, asked.revision.0);
        let problem = outcome().unwrap().unwrap_err();
        assert!(problem.code == code && problem.message.contains("h2"), "{problem:?}");
    }
    let mut v = volume(c);
    v.value.resize_to = None;
    c.commit(Transaction::new().update(&v)).unwrap();
    assert!(outcome().unwrap().is_ok(), "it is done, whatever went wrong before");
}

#[test]
fn what_was_asked_of_a_volume_that_is_gone_was_not_done_unless_it_was_to_go() {
    let b = bench();
    let c = &b.control;
    let asked = volume(c);
    let is_ok = |what| c.outcome(&asked, what).unwrap().map(|outcome| outcome.is_ok());
    assert_eq!((is_ok(Finish::Create), is_ok(Finish::Resize), is_ok(Finish::Format)), (Some(true), Some(true), Some(true)));
    let mut v = volume(c);
    v.value.stage = Stage::Deleting;
    c.commit(Transaction::new().update(&v)).unwrap();
    assert_eq!((is_ok(Finish::Create), is_ok(Finish::Resize), is_ok(Finish::Delete)), (Some(false), Some(false), None));
    c.finish_delete(volume(c)).unwrap();
    assert_eq!((is_ok(Finish::Create), is_ok(Finish::Format), is_ok(Finish::Delete)), (Some(false), Some(false), Some(true)));
}

#[cfg(feature = "hooks")]
#[test]
fn seeded_faults_are_noticed() {
    base::hooks::notices(SeededFault::OldErrorTaken, an_error_counts_when_it_is_one_of_what_was_asked_for_now);
}
