use super::*;
use crate::Identity;
use crate::cluster_client::{SendToNode, Sending};
use crate::fake::FakePlane;
use directory::modelled::{Faults, Modelled};
use directory::record::LeaderRecord;
use directory::{Directory, Transaction};
use http_body_util::BodyExt;
use std::collections::VecDeque;
use std::sync::Mutex;

/// A leader that gives answers that were set before.
#[derive(Default)]
struct Leader {
    answers: Mutex<VecDeque<Result<NodeAnswer, SendError>>>,
    asked: Mutex<Vec<NodeRequest>>,
}

impl SendToNode for Leader {
    fn send(&self, _: &str, request: NodeRequest) -> Sending {
        self.asked.lock().unwrap().push(request);
        let answer = self.answers.lock().unwrap().pop_front().expect("one answer for each request");
        Box::pin(async move { answer })
    }
}

fn answer(status: u16, body: &str) -> Result<NodeAnswer, SendError> {
    let location = (status == 201).then(|| "/api/v1/volumes/x".into());
    Ok(NodeAnswer { status, content_type: Some("application/json".into()), location, body: body.into() })
}

/// What a node that does not lead answers to a change, and what it has asked the leader.
fn passed_on(answers: Vec<Result<NodeAnswer, SendError>>, headers: &[(&str, &str)]) -> (u16, String, Vec<NodeRequest>) {
    let (parts, body, asked) = whole(answers, headers);
    (parts.status.as_u16(), body, asked)
}

/// The same, with the head of the answer.
fn whole(answers: Vec<Result<NodeAnswer, SendError>>, headers: &[(&str, &str)]) -> (axum::http::response::Parts, String, Vec<NodeRequest>) {
    let directory = Modelled::new(1, base::ClusterId::from_bytes([1; 16]), Faults::NONE);
    let leads = LeaderRecord { node: "h2".into(), incarnation: 1 };
    directory.commit(&Transaction::new().create(&leads)).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let leader = Arc::new(Leader::default());
    leader.answers.lock().unwrap().extend(answers);
    let identity = Identity { node: "h1".into(), fault_domain: "h1".into(), version: "1".into(), cores: 1 };
    let control = Control::new(Arc::new(directory), Arc::new(FakePlane::default()), identity, drive::Scanner::default());
    let control = Arc::new(control.with_cluster(leader.clone(), runtime.handle().clone()));
    control.start().unwrap();
    let mut request = Request::post("/api/v1/volumes?x=1").header("content-type", "application/json");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Body::from(r#"{"name":"v1"}"#)).unwrap();
    let (parts, body) = runtime.block_on(async {
        let (parts, body) = super::super::router(control).0.oneshot(request).await.unwrap().into_parts();
        (parts, body.collect().await.unwrap().to_bytes())
    });
    let asked = leader.asked.lock().unwrap().clone();
    (parts, String::from_utf8_lossy(&body).into_owned(), asked)
}

const NONCE: &str = "00112233445566778899aabbccddeeff";

#[test]
fn a_change_is_passed_on_as_it_is_and_its_answer_back() {
    let (status, body, asked) = passed_on(vec![answer(201, r#"{"id":"x"}"#)], &[(NONCE_HEADER, NONCE)]);
    assert_eq!((status, body.as_str()), (201, r#"{"id":"x"}"#));
    let NodeRequest { method, path, body, administrator, nonce, .. } = &asked[0];
    assert_eq!((method.as_str(), path.as_str(), body.as_deref()), ("POST", "/api/v1/volumes?x=1", Some(&br#"{"name":"v1"}"#[..])));
    assert_eq!(nonce.map(nonce_text).as_deref(), Some(NONCE));
    assert_eq!(administrator.as_deref(), Some("an administrator at h1"));
    let (status, body, _) = passed_on(vec![answer(409, r#"{"code":"exists","message":"m","action":"a"}"#)], &[]);
    assert!(status == 409 && body.contains("exists"), "{body}");
}

#[test]
fn where_what_was_made_is_and_why_something_was_refused_come_back_too() {
    let (made, _, _) = whole(vec![answer(201, r#"{"id":"x"}"#)], &[]);
    assert_eq!(made.headers["location"], "/api/v1/volumes/x");
    let (refused, _, _) = whole(vec![answer(409, r#"{"code":"exists","message":"it is there","action":"a"}"#)], &[]);
    assert_eq!(refused.extensions.get::<Why>().map(|why| why.0.as_str()), Some("it is there"), "for the audit log");
}

#[test]
fn an_answer_that_is_lost_is_no_failure() {
    let no_answer = || Err(SendError::NoAnswer { node: "h2".into(), why: "it died".into() });
    let not_leader = r#"{"code":"not_leader","message":"m","action":"a"}"#;
    let not_sent = Err(SendError::NotSent { node: "h2".into(), why: "down".into() });
    let (status, _, asked) = passed_on(vec![no_answer(), answer(503, not_leader), not_sent, no_answer(), answer(200, "{}")], &[]);
    assert_eq!((status, asked.len()), (200, 5));
    assert!(asked.iter().all(|a| a.nonce.is_some() && a.nonce == asked[0].nonce), "it is one request, and recognised as one");
}

#[test]
fn what_was_passed_on_goes_no_further_and_a_wrong_nonce_is_refused() {
    let (status, body, asked) = passed_on(vec![], &[(FORWARDED_HEADER, "1")]);
    assert!(status == 503 && body.contains("not_leader") && asked.is_empty(), "{body}");
    let (status, body, asked) = passed_on(vec![], &[(NONCE_HEADER, "123")]);
    assert!(status == 400 && asked.is_empty(), "{body}");
}

#[test]
fn what_a_change_is_about_is_read_from_its_path_and_its_new_name() {
    let about = |method: &str, path: &str, body: &str| {
        let (parts, _) = Request::builder().method(method).uri(path).body(()).unwrap().into_parts();
        let change = Change { parts, body: Bytes::from(body.to_owned()), nonce: Nonce([0; 16]), forwarded: false, in_doubt: false };
        change.about().map(|a| (a.kind, a.name, a.creates, a.removes))
    };
    let of = |kind: &str, name: &str, creates, removes| Some((kind.to_owned(), name.to_owned(), creates, removes));
    assert_eq!(about("POST", "/api/v1/volumes", r#"{"name":"v1"}"#), of("volumes", "v1", true, false));
    assert_eq!(about("PATCH", "/api/v1/volumes/v1", r#"{"name":"w1"}"#), of("volumes", "w1", false, false));
    assert_eq!(about("PATCH", "/api/v1/volumes/v1", r#"{"read_only":true}"#), of("volumes", "v1", false, false));
    assert_eq!(about("DELETE", "/api/v1/groups/g1?force=true", ""), of("groups", "g1", false, true));
    assert_eq!(about("DELETE", "/api/v1/subsystems/s1/volumes/v1", ""), of("subsystems", "s1", false, false));
    assert_eq!(about("POST", "/other", "{}"), None);
}

#[cfg(feature = "hooks")]
#[test]
fn seeded_faults_are_noticed() {
    base::hooks::notices(SeededFault::LostAnswerFails, an_answer_that_is_lost_is_no_failure);
}
