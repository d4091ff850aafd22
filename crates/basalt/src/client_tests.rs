use super::*;

/// A listener that takes connections and says nothing: what a daemon looks like that was stopped with SIGSTOP.
fn mute() -> (tempfile::TempDir, String, std::os::unix::net::UnixListener) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("api.sock");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    (dir, path.display().to_string(), listener)
}

#[test]
fn a_daemon_that_does_not_answer_is_given_up_and_the_user_reads_what_to_look_at() {
    let (_dir, path, _listener) = mute();
    let client = Client::new(&path, Some(Duration::from_millis(50))).unwrap();
    let failure = client.get::<serde_json::Value>("/status").unwrap_err();
    assert_eq!(failure.status(), 3);
    assert!(failure.to_string().ends_with("did not answer within 0.05 s"), "{failure}");
    let Failure::Unreachable { action, .. } = failure else { panic!("{failure}") };
    assert!(action.starts_with("see whether it runs"), "{action}");
    let failure = client.delete::<serde_json::Value>("/volumes/a").unwrap_err();
    let Failure::Unreachable { action, .. } = failure else { panic!("{failure}") };
    assert!(action.starts_with("what was asked may still be done"), "{action}");
}

#[test]
fn failed_operations_of_the_lab_have_a_status_of_their_own() {
    let failed = Failure::from(lab::LabError::Failed { failed: 1109, ended: 5 });
    assert_eq!(failed.status(), 8);
    assert!(failed.to_string().starts_with("1109 operations failed"), "{failed}");
}

#[test]
fn who_has_no_token_or_a_wrong_one_hears_of_the_variable() {
    assert!(token_advice(false).starts_with("put the token into BASALT_TOKEN"));
    assert!(token_advice(true).contains("BASALT_TOKEN is not that"));
}

#[test]
fn an_address_that_is_none_is_a_wrong_value_and_not_a_daemon_that_does_not_run() {
    for api in ["https://127.0.0.1:7780", "http://", "http://127.0.0.1", "http://:7780", "http://a:b", "http://127.0.0.1:99999"] {
        let failure = Client::new(api, None).err().unwrap_or_else(|| panic!("{api} is an address"));
        assert_eq!(failure.status(), 2, "{api}: {failure}");
    }
    for api in ["http://127.0.0.1:7780", "http://storage1:7780/", "http://[::1]:7780", "/var/lib/basalt/api.sock", "unix:/x"] {
        assert!(Client::new(api, None).is_ok(), "{api}");
    }
}
