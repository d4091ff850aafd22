use super::*;
use proptest::prelude::*;

#[test]
fn what_may_have_happened_is_never_said_not_to_have() {
    for (code, message) in [
        (14, "etcdserver: request timed out"),
        (14, "etcdserver: request timed out, possibly due to previous leader failure"),
        (14, "etcdserver: request timed out, possibly due to connection lost"),
        (14, "etcdserver: leader changed"),
        (14, "etcdserver: server stopped"),
        (8, "etcdserver: mvcc: database space exceeded"),
        (4, "context deadline exceeded"),
        (1, "context canceled"),
        (13, "stream terminated by RST_STREAM"),
        (2, "anything"),
        (77, ""),
    ] {
        assert!(!of_status(code, message).did_not_happen(), "{message}");
    }
}

#[test]
fn what_was_refused_before_it_began_did_not_happen_and_says_why() {
    for (code, message, refusal) in [
        (14, "etcdserver: no leader", Refusal::NoLeader),
        (2, "etcdserver: too many requests", Refusal::TooManyRequests),
        (11, "etcdserver: mvcc: required revision has been compacted", Refusal::Compacted),
        (5, "etcdserver: requested lease not found", Refusal::LeaseNotFound),
        (3, "etcdserver: request is too large", Refusal::TooLarge),
        (3, "etcdserver: too many operations in txn request", Refusal::TooManyOperations),
        (8, "grpc: received message larger than max (3 vs. 2)", Refusal::TooLarge),
        (7, "etcdserver: permission denied", Refusal::PermissionDenied),
        (16, "etcdserver: invalid auth token", Refusal::NotAuthenticated),
        (12, "unknown method", Refusal::Other { code: 12, message: "unknown method".into() }),
    ] {
        let error = of_status(code, message);
        assert!(error.did_not_happen(), "{message}");
        assert_eq!(error, EtcdError::Refused(refusal));
    }
}

proptest! {
    #[test]
    fn a_text_from_elsewhere_is_bounded(text in ".{0,400}") {
        let kept = short(&text);
        prop_assert!(kept.len() <= crate::limits::TEXT_BYTES_MAX && text.starts_with(&kept));
    }
}
