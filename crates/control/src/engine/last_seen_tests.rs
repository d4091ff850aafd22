use super::*;
use directory::modelled::{Faults, Modelled};

#[test]
fn once_it_is_closed_nobody_waits_for_the_directory() {
    let directory = Modelled::new(1, base::ClusterId::from_bytes([1; 16]), Faults::NONE);
    let seen = LastSeen::new(Arc::new(directory), Arc::default());
    let ask = || {
        [
            seen.get(&Key::new(Kind::Node, "a")).err(),
            seen.list(Kind::Node).err(),
            seen.snapshot().err(),
            seen.watch(Revision(0)).err(),
            seen.commit(&Transaction::new()).err(),
            seen.outcome(Nonce([1; 16])).err(),
            seen.revision().err(),
            seen.open_session(Duration::from_secs(1)).err(),
        ]
    };
    assert!(ask().iter().all(Option::is_none), "it answers");
    seen.close();
    assert!(ask().iter().all(|error| matches!(error, Some(DirectoryError::Unavailable))));
}
