//! The API against a data plane in memory: what each request does, and that the document is true.

use super::*;
use crate::{
    Identity,
    engine::Control,
    fake::{self, FakePlane},
};
use axum::{Router, body::Body as HttpBody, extract::Request, http::Method};
use dataplane::ComponentSpec;
use directory::Embedded;
use format::disk::Descriptor;
use http_body_util::BodyExt;
use nvmf::{ListenerKind, ListenerSpec, SessionInfo};
use serde_json::{Value, json};
use std::sync::Arc;
use tower::ServiceExt;

const GIB: u64 = 1 << 30;
const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:6e3a8f0e-6d2c-4b8f-9d4e-1a2b3c4d5e6f";

pub(crate) struct Bench {
    dir: tempfile::TempDir,
    pub plane: Arc<FakePlane>,
    pub control: Arc<Control>,
    router: Router,
    document: Value,
}

impl Bench {
    pub fn new() -> Self {
        Self::on(tempfile::tempdir().unwrap(), Arc::default())
    }

    fn on(dir: tempfile::TempDir, plane: Arc<FakePlane>) -> Self {
        let directory = Arc::new(Embedded::open(dir.path(), base::ClusterId::from_bytes([7; 16])).unwrap());
        std::fs::create_dir_all(dir.path().join("root/sys/block")).unwrap();
        let identity = Identity { node: "h1".into(), fault_domain: "h1".into(), version: "0.1.0".into(), cores: 2 };
        let drives = drive::Scanner::new(dir.path().join("root"));
        let control = Arc::new(Control::new(directory, plane.clone(), identity, drives));
        control.start().unwrap();
        let addr = "192.0.2.1:4420".parse().unwrap();
        control.listen(ListenerSpec { addr, kind: ListenerKind::Io, advertise: None, security: base::Security::Plain }).unwrap();
        let (router, document) = router(control.clone());
        Self { dir, plane, control, router, document: serde_json::to_value(document).unwrap() }
    }

    /// The API's document.
    pub fn document(&self) -> &Value {
        &self.document
    }

    /// The daemon is killed and started again.
    fn restart(self) -> Self {
        let Self { dir, plane, control, router, .. } = self;
        drop((router, Arc::into_inner(control).map(drop)));
        plane.restart();
        Self::on(dir, plane)
    }

    async fn call(&self, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        let mut request = Request::builder().method(Method::from_bytes(method.as_bytes()).unwrap()).uri(path);
        if body.is_some() {
            request = request.header("content-type", "application/json");
        }
        let body = body.map_or(HttpBody::empty(), |b| HttpBody::from(b.to_string()));
        let response = self.router.clone().oneshot(request.body(body).unwrap()).await.unwrap();
        let status = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let value = serde_json::from_slice(&bytes).unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()));
        self.check_answer(method, path, status, &value);
        if method != "GET" {
            crate::engine::check_served(&self.control, &self.plane, &format!("{method} {path}"));
        }
        (status, value)
    }

    async fn ok(&self, method: &str, path: &str, body: Value) -> Value {
        let body = (!body.is_null()).then_some(body);
        let (status, value) = self.call(method, path, body).await;
        assert!((200..300).contains(&status), "{method} {path}: {status} {value}");
        value
    }

    async fn get(&self, path: &str) -> Value {
        self.ok("GET", path, Value::Null).await
    }

    /// A request that must fail; gives its code and message.
    async fn refused(&self, method: &str, path: &str, body: Value) -> (u16, String, String) {
        let body = (!body.is_null()).then_some(body);
        let (status, value) = self.call(method, path, body).await;
        assert!(status >= 400, "{method} {path}: {status} {value}");
        assert!(value["action"].as_str().is_some_and(|a| !a.is_empty()), "every problem says what to do: {value}");
        (status, value["code"].as_str().unwrap().into(), value["message"].as_str().unwrap().into())
    }

    pub async fn with_group(self) -> Self {
        let cache = self.dir.path().join("cache.img");
        let capacity: Vec<Value> = (0..2).map(|n| json!({"path": self.dir.path().join(format!("c{n}.img")), "bytes": 100 * GIB})).collect();
        let group = json!({"name": "g1", "cache": {"path": cache, "bytes": GIB}, "capacity": capacity, "sparse": true});
        self.ok("POST", "/api/v1/groups", group).await;
        self
    }

    pub async fn volume(&self, name: &str, bytes: u64) -> Value {
        self.ok("POST", "/api/v1/volumes", json!({"name": name, "bytes": bytes})).await
    }

    /// The answer is one that the document describes.
    fn check_answer(&self, method: &str, path: &str, status: u16, value: &Value) {
        let Some((_, operations)) = self.document["paths"].as_object().unwrap().iter().find(|(p, o)| {
            let template: Vec<&str> = p.split('/').collect();
            let parts: Vec<&str> = path.split('?').next().unwrap().split('/').collect();
            template.len() == parts.len()
                && template.iter().zip(&parts).all(|(t, p)| t.starts_with('{') || t == p)
                && o.get(method.to_lowercase()).is_some()
        }) else {
            return;
        };
        let responses = &operations[method.to_lowercase()]["responses"];
        let response = responses.get(status.to_string()).unwrap_or(&responses["default"]);
        let schema = response.pointer("/content/application~1json/schema");
        if let Some(schema) = schema {
            document::fits(value, schema, &self.document).unwrap_or_else(|e| panic!("{method} {path}: {e}"));
        }
    }

    fn session(&self, nqn: &str) {
        self.plane.connect(SessionInfo {
            cntlid: 1,
            subsystem: nqn.into(),
            host_nqn: HOST.into(),
            host_id: [7; 16],
            peer: "192.0.2.9:51000".parse().unwrap(),
            discovery: false,
            io_queues: 4,
            kato_ms: 15_000,
            header_digest: false,
            data_digest: false,
            encrypted: false,
            since: base::Instant(0),
        });
    }
}

#[tokio::test]
async fn a_volume_needs_nothing_but_a_group_to_be_served() {
    let bench = Bench::new().with_group().await;
    let volume = bench.volume("db", 10 * GIB).await;
    assert_eq!(volume["state"], "online");
    assert_eq!(volume["attachments"][0]["nqn"], "nqn.2026-11.io.basalt:default");
    assert_eq!(volume["components"][0]["group"], "g1");
    let desired = bench.plane.desired();
    assert_eq!((desired.volumes.len(), desired.volumes[0].bytes, desired.volumes[0].checksum), (1, 10 * GIB, true));
    let subsystem = &desired.exports.0.0.subsystems[0];
    assert!(subsystem.allow_any_host && subsystem.serial.len() <= 20);
    assert_eq!(subsystem.namespaces.get(&1).map(|n| n.volume), Some(desired.volumes[0].id));
}

#[tokio::test]
async fn what_was_made_is_served_again_after_a_restart() {
    let bench = Bench::new().with_group().await;
    let mut before = bench.volume("db", GIB).await;
    let mut served = bench.plane.desired().volumes;
    let bench = bench.restart();
    before["epoch"] = json!(2);
    assert_eq!(bench.get("/api/v1/volumes/db").await, before);
    let ownership = &mut served[0].object.ownership;
    *ownership = ownership.next_term().unwrap();
    assert_eq!(bench.plane.desired().volumes, served, "the same, in a new term");
}

#[tokio::test]
async fn without_a_group_a_volume_is_refused_with_what_to_do() {
    let (status, code, message) = Bench::new().refused("POST", "/api/v1/volumes", json!({"name": "db", "bytes": GIB})).await;
    assert_eq!((status, code.as_str()), (503, "unavailable"));
    assert!(message.contains("basalt group create"), "{message}");
}

#[tokio::test]
async fn wrong_requests_are_refused_with_their_own_words() {
    let bench = Bench::new().with_group().await;
    bench.volume("db", GIB).await;
    for (method, path, body, status, words) in [
        ("POST", "/api/v1/volumes", json!({"name": "db", "bytes": GIB}), 409, "already"),
        ("POST", "/api/v1/volumes", json!({"name": "DB", "bytes": GIB}), 409, "already"),
        ("POST", "/api/v1/volumes", json!({"name": "a b", "bytes": GIB}), 400, "not a name"),
        ("POST", "/api/v1/volumes", json!({"name": "x", "bytes": 0}), 400, "cannot have 0 B"),
        ("POST", "/api/v1/volumes", json!({"name": "x", "bytes": 1u64 << 60}), 400, "cannot have"),
        ("POST", "/api/v1/volumes", json!({"name": "x", "bytes": GIB, "lba_bytes": 520}), 400, "520"),
        ("POST", "/api/v1/volumes", json!({"name": "x", "bytes": GIB, "policy": "gold"}), 404, "no policy 'gold'"),
        ("POST", "/api/v1/volumes", json!({"name": "x", "bytes": GIB, "subsystem": "s"}), 404, "no subsystem 's'"),
        ("POST", "/api/v1/volumes", json!({"name": "x", "bytes": GIB, "sise": 3}), 400, "unknown field"),
        ("POST", "/api/v1/volumes", json!("x"), 400, "body"),
        ("GET", "/api/v1/volumes/x", Value::Null, 404, "no volume 'x'"),
        ("GET", "/api/v1/nothing", Value::Null, 404, "there is no GET /api/v1/nothing"),
        ("PUT", "/api/v1/volumes", Value::Null, 405, "cannot be done"),
        ("POST", "/api/v1/groups", json!({"name": "g1", "cache": {"path": "memory:1GiB"}, "capacity": []}), 409, "already"),
        ("POST", "/api/v1/groups", json!({"name": "g2", "cache": {"path": "memory:1GiB"}, "capacity": []}), 400, "one to 7"),
        (
            "POST",
            "/api/v1/groups",
            json!({"name": "g2", "cache": {"path": "memory:1"}, "capacity": [{"path": "memory:1GiB"}]}),
            400,
            "at least",
        ),
        ("POST", "/api/v1/groups", json!({"name": "g2", "cache": {"path": "x"}, "capacity": [{"path": "memory:1GiB"}]}), 400, "absolute"),
        (
            "POST",
            "/api/v1/groups",
            json!({"name": "g2", "cache": {"path": "/dev/nvme9n9"}, "capacity": [{"path": "memory:1GiB"}]}),
            404,
            "not there",
        ),
        (
            "POST",
            "/api/v1/groups",
            json!({"name": "g2", "cache": {"path": "/dev/null"}, "capacity": [{"path": "memory:1GiB"}]}),
            400,
            "neither",
        ),
        ("DELETE", "/api/v1/groups/g1", Value::Null, 409, "db"),
        ("POST", "/api/v1/policies", json!({"name": "p", "stripe_width": 0}), 400, "stripe width"),
        ("DELETE", "/api/v1/policies/default", Value::Null, 409, "1 volume"),
        ("POST", "/api/v1/subsystems", json!({"name": "s", "nqn": "iqn.x"}), 400, "not an NQN"),
        ("PUT", "/api/v1/subsystems/default/volumes/db", json!({}), 409, "already"),
        ("PUT", "/api/v1/subsystems/default/hosts/nobody", Value::Null, 404, "no host 'nobody'"),
        ("POST", "/api/v1/volumes/db/resize", json!({"bytes": GIB / 2}), 409, "cut off"),
        ("POST", "/api/v1/volumes/db/resize", json!({"bytes": 300 * GIB}), 409, "grow in place to 255 GiB"),
    ] {
        let (got, _, message) = bench.refused(method, path, body.clone()).await;
        assert_eq!(got, status, "{method} {path} {body}: {message}");
        assert!(message.contains(words), "{method} {path} {body}: {message}");
    }
    assert_eq!(bench.get("/api/v1/volumes").await.as_array().unwrap().len(), 1, "nothing was changed");
}

#[tokio::test]
async fn a_shrink_that_was_cut_frees_what_lay_behind_the_end_at_the_next_start() {
    let bench = Bench::new().with_group().await;
    bench.volume("db", 20 * GIB).await;
    bench.plane.fail_next("free_behind", fake::stopped());
    bench.refused("POST", "/api/v1/volumes/db/resize", json!({"bytes": GIB, "force": true})).await;
    let bench = bench.restart();
    assert_eq!(bench.get("/api/v1/volumes/db").await["bytes"], GIB);
    assert_eq!(bench.plane.freed().last().map(|(_, end)| *end), Some(20 * GIB));
}

#[tokio::test]
async fn a_volume_grows_shrinks_by_force_is_renamed_and_deleted() {
    let bench = Bench::new().with_group().await;
    let id = bench.volume("db", 10 * GIB).await["id"].clone();
    let grown = bench.ok("POST", "/api/v1/volumes/db/resize", json!({"bytes": 20 * GIB})).await;
    assert_eq!((&grown["bytes"], &grown["id"]), (&json!(20 * GIB), &id));
    assert_eq!(bench.plane.desired().volumes[0].bytes, 20 * GIB);
    assert_eq!(bench.plane.components()[0].bytes, 20 * GIB);
    let shrunk = bench.ok("POST", "/api/v1/volumes/db/resize", json!({"bytes": GIB, "force": true})).await;
    assert_eq!(shrunk["bytes"], GIB);
    assert_eq!(bench.plane.freed().last().map(|(_, end)| *end), Some(20 * GIB), "what lay behind the new end is freed");
    let renamed = bench.ok("PATCH", "/api/v1/volumes/db", json!({"name": "Data", "read_only": true})).await;
    assert_eq!((&renamed["id"], &renamed["read_only"]), (&id, &json!(true)));
    assert_eq!(bench.plane.desired().volumes[0].write_protect, base::WriteProtect::Protected);
    bench.refused("GET", "/api/v1/volumes/db", Value::Null).await;
    bench.volume("db", GIB).await;
    bench.ok("DELETE", "/api/v1/volumes/data", Value::Null).await;
    assert_eq!(bench.get("/api/v1/volumes").await.as_array().unwrap().len(), 1);
    assert_eq!(bench.plane.components().len(), 1);
}

#[tokio::test]
async fn a_volume_in_use_is_deleted_by_force_only() {
    let bench = Bench::new().with_group().await;
    bench.volume("db", GIB).await;
    bench.session("nqn.2026-11.io.basalt:default");
    let (status, _, message) = bench.refused("DELETE", "/api/v1/volumes/db", Value::Null).await;
    assert_eq!(status, 409);
    assert!(message.contains(HOST), "{message}");
    bench.ok("DELETE", "/api/v1/volumes/db?force=true", Value::Null).await;
    assert_eq!(bench.plane.components(), []);
    assert_eq!(bench.plane.desired().volumes, []);
}

#[tokio::test]
async fn policies_reach_the_data_plane_and_are_kept() {
    let bench = Bench::new().with_group().await;
    let limits = json!({"name": "Bronze", "iops_limit": 1000, "bandwidth_limit": 10 << 20, "space_reservation_percent": 50});
    bench.ok("POST", "/api/v1/policies", limits).await;
    let volume = bench.ok("POST", "/api/v1/volumes", json!({"name": "v", "bytes": GIB, "policy": "bronze"})).await;
    assert_eq!((&volume["reserved_bytes"], &volume["policy"]), (&json!(GIB / 2), &json!("Bronze")));
    let served = &bench.plane.desired().volumes[0];
    assert_eq!((served.limits.iops_max, served.limits.bytes_per_s_max), (Some(1000), Some(10 << 20)));
    bench.ok("PATCH", "/api/v1/policies/bronze", json!({"iops_limit": 0, "checksum": false, "space_reservation_percent": 100})).await;
    let served = &bench.plane.desired().volumes[0];
    assert_eq!((served.limits.iops_max, served.checksum), (None, false));
    assert_eq!(bench.plane.components()[0].reserve_chunks * base::unit::CHUNK_BYTES, GIB);
    bench.ok("PATCH", "/api/v1/volumes/v", json!({"policy": "default"})).await;
    assert_eq!(bench.plane.components()[0].reserve_chunks, 0);
    bench.ok("DELETE", "/api/v1/policies/bronze", Value::Null).await;
}

#[tokio::test]
async fn what_needs_several_nodes_is_refused_and_made_non_compliant_under_force() {
    let bench = Bench::new().with_group().await;
    let policy = bench.ok("POST", "/api/v1/policies", json!({"name": "mirror", "failures_to_tolerate": 1})).await;
    assert!(policy["not_possible"][0].as_str().unwrap().contains("needs 2 nodes"));
    let wanted = json!({"name": "v", "bytes": GIB, "policy": "mirror"});
    let (status, code, message) = bench.refused("POST", "/api/v1/volumes", wanted.clone()).await;
    assert_eq!((status, code.as_str()), (409, "policy_not_possible"));
    assert!(message.contains("this cluster has 1"), "{message}");
    bench.ok("PATCH", "/api/v1/policies/mirror", json!({"force_provisioning": true})).await;
    let volume = bench.ok("POST", "/api/v1/volumes", wanted).await;
    assert_eq!((&volume["compliant"], &volume["state"]), (&json!(false), &json!("online")));
    let status = bench.get("/api/v1/status").await;
    assert_eq!((&status["health"], &status["checks"][0]["id"]), (&json!("warning"), &json!("volume_non_compliant")));
}

#[tokio::test]
async fn a_reservation_that_does_not_fit_leaves_the_policy_as_it_was() {
    let bench = Bench::new().with_group().await;
    bench.ok("POST", "/api/v1/policies", json!({"name": "p"})).await;
    bench.ok("POST", "/api/v1/volumes", json!({"name": "v", "bytes": 150 * GIB, "grow_bytes_max": 150 * GIB, "policy": "p"})).await;
    let (status, ..) = bench.refused("PATCH", "/api/v1/policies/p", json!({"space_reservation_percent": 100})).await;
    assert_eq!(status, 507);
    assert_eq!(bench.get("/api/v1/policies/p").await["space_reservation_percent"], 0);
    assert_eq!(bench.get("/api/v1/volumes/v").await["compliant"], true);
}

#[tokio::test]
async fn a_volume_whose_new_policy_does_not_fit_is_changed_in_nothing() {
    let bench = Bench::new().with_group().await;
    bench.ok("POST", "/api/v1/policies", json!({"name": "full", "space_reservation_percent": 100})).await;
    let mut before = bench.ok("POST", "/api/v1/volumes", json!({"name": "v", "bytes": 150 * GIB, "grow_bytes_max": 150 * GIB})).await;
    let change = json!({"name": "w", "read_only": true, "policy": "full"});
    let (status, ..) = bench.refused("PATCH", "/api/v1/volumes/v", change.clone()).await;
    assert_eq!(status, 507);
    assert_eq!(bench.get("/api/v1/volumes/v").await, before);
    bench.volume("w", GIB).await;
    let bench = bench.restart();
    before["epoch"] = json!(2);
    assert_eq!(bench.get("/api/v1/volumes/v").await, before, "nothing of it was left to be finished");
    bench.refused("PATCH", "/api/v1/volumes/v", json!({"name": "w", "policy": "full"})).await;
    bench.ok("POST", "/api/v1/volumes/v/resize", json!({"bytes": 50 * GIB, "force": true})).await;
    let changed = bench.ok("PATCH", "/api/v1/volumes/v", json!({"name": "x", "read_only": true, "policy": "full"})).await;
    assert_eq!((&changed["name"], &changed["policy"], &changed["reserved_bytes"]), (&json!("x"), &json!("full"), &json!(50 * GIB)));
}

#[tokio::test]
async fn a_resize_that_could_not_be_served_is_served_when_it_is_asked_for_again() {
    let bench = Bench::new().with_group().await;
    bench.volume("db", GIB).await;
    bench.plane.fail_after("apply", 1, fake::stopped());
    bench.refused("POST", "/api/v1/volumes/db/resize", json!({"bytes": 2 * GIB})).await;
    assert_eq!(bench.plane.desired().volumes[0].bytes, GIB);
    bench.ok("POST", "/api/v1/volumes/db/resize", json!({"bytes": 2 * GIB})).await;
    assert_eq!(bench.plane.desired().volumes[0].bytes, 2 * GIB, "who hears that it is done finds it so");
}

#[tokio::test]
async fn a_creation_that_a_crash_has_cut_is_finished() {
    let bench = Bench::new().with_group().await;
    bench.ok("POST", "/api/v1/policies", json!({"name": "wide", "stripe_width": 2})).await;
    bench.plane.fail_next("create_component", fake::stopped());
    bench.plane.fail_next("create_component", fake::stopped());
    bench.refused("POST", "/api/v1/volumes", json!({"name": "v", "bytes": GIB, "policy": "wide"})).await;
    let status = bench.get("/api/v1/status").await;
    assert_eq!(status["checks"][0]["id"], "unfinished_task", "{status}");
    assert_eq!(bench.get("/api/v1/volumes/v").await["state"], "deleting");
    let bench = bench.restart();
    assert_eq!(bench.get("/api/v1/volumes").await, json!([]));
    assert_eq!(bench.get("/api/v1/tasks").await, json!([]));
    assert_eq!(bench.plane.components(), []);
}

#[tokio::test]
async fn a_deletion_that_failed_is_tried_again() {
    let bench = Bench::new().with_group().await;
    bench.volume("v", GIB).await;
    bench.plane.fail_next("delete_component", fake::stopped());
    bench.ok("DELETE", "/api/v1/volumes/v", Value::Null).await;
    assert_eq!(bench.get("/api/v1/tasks").await[0]["attempts"], 1);
    bench.control.retry();
    assert_eq!(bench.get("/api/v1/tasks").await, json!([]));
    assert_eq!(bench.plane.components(), []);
}

#[tokio::test]
async fn orphan_components_are_reported_and_kept_while_their_group_is_there() {
    let bench = Bench::new().with_group().await;
    bench.volume("v", GIB).await;
    let group = bench.plane.desired().volumes[0].object.mirrors[0].here().next().unwrap().group;
    let orphan = ComponentSpec {
        id: base::ComponentId::from_bytes([9; 16]),
        object: base::ObjectId::from_bytes([9; 16]),
        capacity_index: 0,
        bytes: GIB,
        reserve_chunks: 0,
        descriptor: vec![],
    };
    bench.plane.put_component(group, orphan.clone());
    // One of a volume that an older copy of the directory does not know.
    let mut known = bench.plane.components().into_iter().find(|c| c.id != orphan.id).unwrap();
    let said = Descriptor { name: "lost".into(), stripes: 2, stripe: 1, ..Descriptor::parse(&known.descriptor).unwrap() };
    (known.id, known.descriptor) = (base::ComponentId::from_bytes([10; 16]), said.build());
    bench.plane.put_component(group, known);
    let bench = bench.restart();
    let status = bench.get("/api/v1/status").await;
    let message = |n: usize| {
        assert_eq!(status["checks"][n]["id"], "orphan_component", "{status}");
        status["checks"][n]["message"].as_str().unwrap().to_owned()
    };
    assert!(message(0).ends_with("what it says of its volume cannot be read (too few bytes)"), "{status}");
    let volume = bench.get("/api/v1/volumes/v").await["id"].as_str().unwrap().to_owned();
    let was = format!("it was of volume 'lost' ({volume}, 1 GiB, policy default): copy 0 of stripe 1 of 2");
    assert!(message(1).ends_with(&was), "{status}");
    assert_eq!(bench.plane.components().len(), 3);
    bench.ok("DELETE", "/api/v1/groups/g1?force=true", Value::Null).await;
    let status = bench.get("/api/v1/status").await;
    let checks: Vec<&Value> = status["checks"].as_array().unwrap().iter().map(|c| &c["id"]).collect();
    assert_eq!(checks, ["no_groups"]);
}

#[tokio::test]
async fn a_group_that_cannot_be_opened_takes_its_volumes_offline_and_nothing_else() {
    let bench = Bench::new().with_group().await;
    bench.volume("v", GIB).await;
    bench.plane.fail_next("open_group", fake::missing("/dev/nvme1n1"));
    let bench = bench.restart();
    let volume = bench.get("/api/v1/volumes/v").await;
    assert_eq!((&volume["state"], &volume["reason"]), (&json!("offline"), &json!("disk group g1 is offline")));
    let status = bench.get("/api/v1/status").await;
    assert_eq!(status["health"], "error");
    assert!(status["checks"][0]["message"].as_str().unwrap().contains("/dev/nvme1n1: there is nothing at this path"), "{status}");
    let bench = bench.restart();
    assert_eq!(bench.get("/api/v1/volumes/v").await["state"], "online");
}

#[tokio::test]
async fn a_group_in_memory_comes_back_empty_with_its_volumes() {
    let bench = Bench::new();
    let memory = json!({"name": "m", "cache": {"path": "memory:1GiB"}, "capacity": [{"path": "memory:1GiB"}]});
    assert_eq!(bench.ok("POST", "/api/v1/groups", memory).await["volatile"], true);
    bench.volume("v", GIB).await;
    let bench = bench.restart();
    assert_eq!(bench.get("/api/v1/volumes/v").await["state"], "online");
    assert_eq!(bench.plane.components().len(), 1);
}

#[tokio::test]
async fn removing_a_group_by_force_deletes_its_volumes() {
    let bench = Bench::new().with_group().await;
    bench.volume("v", GIB).await;
    bench.ok("DELETE", "/api/v1/groups/g1?force=true", Value::Null).await;
    assert_eq!(bench.get("/api/v1/groups").await, json!([]));
    assert_eq!(bench.get("/api/v1/volumes").await, json!([]));
    assert_eq!(bench.plane.desired().exports.0.0.subsystems[0].namespaces.len(), 0);
}

#[tokio::test]
async fn a_group_that_cannot_be_formatted_leaves_nothing() {
    let bench = Bench::new();
    let cache = bench.dir.path().join("cache.img");
    let group = json!({"name": "g", "cache": {"path": cache, "bytes": GIB}, "capacity": [{"path": "memory:1GiB"}]});
    bench.plane.fail_next("format_group", fake::missing("/dev/none"));
    let (status, _, message) = bench.refused("POST", "/api/v1/groups", group.clone()).await;
    assert_eq!((status, message.as_str()), (409, fake::missing("/dev/none").to_string().as_str()));
    assert!(!cache.exists());
    bench.ok("POST", "/api/v1/groups", group).await;
    bench.ok("POST", "/api/v1/groups/g/scrub", Value::Null).await;
    assert_eq!(bench.plane.scrubs().len(), 1);
}

#[tokio::test]
async fn a_device_belongs_to_one_group() {
    let bench = Bench::new().with_group().await;
    let taken = bench.dir.path().join("c0.img");
    let group = json!({"name": "g2", "cache": {"path": "memory:1GiB"}, "capacity": [{"path": taken}]});
    let (status, _, message) = bench.refused("POST", "/api/v1/groups", group).await;
    assert_eq!(status, 409);
    assert!(message.contains("belongs to disk group g1"), "{message}");
}

#[tokio::test]
async fn subsystems_say_who_may_connect_and_what_they_see() {
    let bench = Bench::new().with_group().await;
    bench.ok("POST", "/api/v1/volumes", json!({"name": "v", "bytes": GIB, "detached": true})).await;
    bench.ok("POST", "/api/v1/hosts", json!({"nqn": HOST, "name": "kvm1"})).await;
    let made = bench.ok("POST", "/api/v1/subsystems", json!({"name": "vms", "hosts": ["kvm1"]})).await;
    assert_eq!((&made["nqn"], &made["hosts"][0]), (&json!("nqn.2026-11.io.basalt:vms"), &json!(HOST)));
    bench.ok("PUT", "/api/v1/subsystems/vms/volumes/v", json!({"nsid": 7})).await;
    let served = bench.plane.desired().exports.0.0.subsystems.into_iter().find(|s| s.nqn.ends_with(":vms")).unwrap();
    assert_eq!((served.allow_any_host, served.hosts, served.namespaces.len()), (false, vec![HOST.to_owned()], 1));
    assert!(served.namespaces.contains_key(&7));
    bench.session("nqn.2026-11.io.basalt:vms");
    let host = bench.get("/api/v1/hosts/kvm1").await;
    assert_eq!((&host["allowed"], &host["sessions"][0]["io_queues"]), (&json!(["vms"]), &json!(4)));
    assert_eq!(bench.get("/api/v1/sessions").await[0]["host"], "kvm1");
    bench.refused("DELETE", "/api/v1/subsystems/vms", Value::Null).await;
    bench.ok("DELETE", "/api/v1/subsystems/vms/hosts/kvm1", Value::Null).await;
    bench.ok("DELETE", "/api/v1/subsystems/vms/volumes/v", Value::Null).await;
    bench.ok("PATCH", "/api/v1/subsystems/vms", json!({"allow_any_host": true})).await;
    bench.ok("DELETE", "/api/v1/hosts/kvm1", Value::Null).await;
    bench.ok("DELETE", "/api/v1/subsystems/vms?force=true", Value::Null).await;
    assert_eq!(bench.get("/api/v1/subsystems").await.as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_deleted_default_subsystem_does_not_come_back() {
    let bench = Bench::new().with_group().await;
    bench.ok("DELETE", "/api/v1/subsystems/default", Value::Null).await;
    let bench = bench.restart();
    assert_eq!(bench.get("/api/v1/subsystems").await, json!([]));
    assert_eq!(bench.volume("v", GIB).await["attachments"], json!([]));
}

#[tokio::test]
async fn the_document_and_the_routes_are_the_same() {
    let bench = Bench::new();
    let document = bench.get(OPENAPI_PATH).await;
    assert_eq!(document, bench.document);
    let mut operations = 0;
    let mut ids = std::collections::BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in ["get", "put", "post", "delete", "patch"] {
            let real = path.replace("{", "x-").replace("}", "");
            let body = (method == "post" || method == "put" || method == "patch").then(|| json!({}));
            let (status, value) = bench.call(&method.to_uppercase(), &real, body).await;
            if let Some(operation) = methods.get(method) {
                operations += 1;
                assert!(status != 405 && !value["message"].as_str().is_some_and(|m| m.starts_with("there is no GET /")), "{method} {path}");
                assert!(ids.insert(operation["operationId"].as_str().unwrap().to_owned()), "operation ids are unique");
                assert!(operation["responses"]["default"].is_object(), "{method} {path} says how it fails");
                let said = operation["summary"].as_str().or(operation["description"].as_str());
                assert!(said.is_some_and(|s| !s.is_empty()), "{method} {path} says what it does");
            } else {
                assert_eq!(status, 405, "{method} {path} is served but not described");
            }
        }
    }
    // as many as the engine offers: a route that is added must be described, one that is described must be added
    let sources = [include_str!("routes.rs"), include_str!("formation_routes.rs")];
    let declared: usize = sources.iter().map(|s| s.matches("#[utoipa::path(").count()).sum();
    assert_eq!(operations, declared);
}

#[tokio::test]
async fn the_metrics_page_is_well_formed_and_covers_every_layer() {
    let bench = Bench::new().with_group().await;
    bench.volume("db", GIB).await;
    let page = bench.get("/metrics").await;
    let page = page.as_str().unwrap();
    let mut family = String::new();
    let mut seen = std::collections::BTreeSet::new();
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            family = rest.split(' ').next().unwrap().to_owned();
            assert!(seen.insert(family.clone()), "{family} is there twice");
        } else if !line.starts_with('#') {
            assert!(line.starts_with(&family), "{line} stands below {family}");
            let value = line.rsplit(' ').next().unwrap();
            assert!(value.parse::<f64>().is_ok(), "{line}");
        }
    }
    for name in [
        "frontend_commands_total",
        "object_latency_seconds",
        "store_destaged_bytes_total",
        "device_reads_total",
        "core_busy_seconds_total",
        "buffer_used_bytes",
        "capacity_used_bytes",
        "volume_size_bytes",
        "health",
    ] {
        assert!(seen.contains(&format!("basalt_{name}")), "{name}");
    }
    assert!(page.contains("basalt_object_latency_seconds_bucket{operation=\"read\",le=\"+Inf\"} 1"), "{page}");
}

/// Text for everybody, OpenMetrics for who asks for it.
#[tokio::test]
async fn the_metrics_page_comes_as_the_request_accepts_it() {
    let bench = Bench::new();
    for (accept, content_type, ends_so) in [
        (None, "text/plain; version=0.0.4; charset=utf-8", false),
        (Some("text/plain"), "text/plain; version=0.0.4; charset=utf-8", false),
        (Some("application/openmetrics-text;version=1.0.0,*/*;q=0.1"), "application/openmetrics-text; version=1.0.0; charset=utf-8", true),
    ] {
        let mut request = Request::get("/metrics");
        if let Some(accept) = accept {
            request = request.header("accept", accept);
        }
        let response = bench.router.clone().oneshot(request.body(HttpBody::empty()).unwrap()).await.unwrap();
        let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
        assert_eq!((&*header("content-type"), &*header("vary")), (content_type, "accept"));
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(bytes.ends_with(b"\n# EOF\n"), ends_so, "{accept:?}");
    }
}

#[tokio::test]
async fn the_statistics_of_the_machine_are_there_where_they_are_asked_for() {
    let bench = Bench::new();
    let all = bench.get("/api/v1/statistics").await;
    assert!(all.get("machine").is_none(), "not unasked: {all}");
    let ask = async || bench.get("/api/v1/statistics?of=machine").await["machine"].clone();
    let (a, b) = (ask().await, ask().await);
    assert_eq!((a["daemon"].as_u64(), a["processors"].as_u64() > Some(0)), (Some(u64::from(std::process::id())), true), "{a}");
    for counter in ["at_ms", "busy_ms", "stolen_ms"] {
        assert!(b[counter].as_u64().unwrap() >= a[counter].as_u64().unwrap(), "{counter}: {a} and {b}");
    }
    assert!(a["load_hundredths"].is_u64(), "{a}");
    // Who has used none yet is left out: each question takes some.
    let mut daemon = None;
    for _ in 0..10_000 {
        let now = ask().await;
        let processes = now["processes"].as_array().unwrap();
        assert!(processes.iter().all(|p| p["used_ms"].as_u64().unwrap() + p["children_ms"].as_u64().unwrap() > 0), "{now}");
        daemon = processes.iter().find(|p| p["id"] == now["daemon"]).cloned();
        if daemon.is_some() {
            break;
        }
    }
    assert_eq!(daemon.expect("the daemon is among them")["kernel"], false);
}

#[tokio::test]
async fn times_on_the_metrics_page_are_seconds_and_a_volume_that_is_not_served_is_not_online() {
    let bench = Bench::new().with_group().await;
    bench.volume("db", GIB).await;
    let has = |page: &Value, line: &str| assert!(page.as_str().unwrap().lines().any(|l| l == line), "{line}\n{page}");
    let page = bench.get("/metrics").await;
    for line in [
        "basalt_core_busy_seconds_total{core=\"0\"} 0.000000005",
        "basalt_core_loops_total{core=\"0\"} 9",
        "basalt_object_latency_seconds_sum{operation=\"read\"} 0.0001",
        "basalt_object_latency_seconds_bucket{operation=\"read\",le=\"0.0001\"} 0",
        "basalt_object_latency_seconds_bucket{operation=\"read\",le=\"0.0002\"} 1",
        "basalt_volume_online{volume=\"db\"} 1",
    ] {
        has(&page, line);
    }
    bench.plane.fail_next("open_group", fake::missing("/dev/none"));
    let bench = bench.restart();
    has(&bench.get("/metrics").await, "basalt_volume_online{volume=\"db\"} 0");
}

#[tokio::test]
async fn a_listener_on_any_port_is_shown_with_the_one_that_it_got() {
    let bench = Bench::new();
    let addr = "192.0.2.1:0".parse().unwrap();
    let spec = ListenerSpec { addr, kind: ListenerKind::Discovery, advertise: None, security: base::Security::Plain };
    let bound = bench.control.listen(spec).unwrap();
    assert_ne!(bound.port(), 0);
    let status = bench.get("/api/v1/status").await.to_string();
    assert!(status.contains(&bound.to_string()) && !status.contains(&addr.to_string()), "{status}");
}

#[tokio::test]
async fn on_tcp_the_token_is_asked_for_and_the_socket_has_its_mode() {
    use std::os::unix::fs::PermissionsExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let bench = Bench::new();
    let path = bench.dir.path().join("api.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap()); // a stale one is replaced
    let socket = bind_unix(&path, 0o660).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
    let token = Token::new("0123456789abcdef").unwrap();
    let served = serve(bench.control.clone(), socket, Some(("127.0.0.1:0".parse().unwrap(), token))).await.unwrap();
    assert!(matches!(bind_unix(&path, 0o600), Err(ServeError::SocketInUse(_))));
    let headers = [("", "401"), ("Authorization: Bearer wrong\r\n", "401"), ("Authorization: Bearer 0123456789abcdef\r\n", "200")];
    let paths = ["/api/v1/status", "/metrics", "/api/v1/openapi.json"];
    for (path, (header, status)) in paths.into_iter().flat_map(|path| headers.map(|with| (path, with))) {
        let mut stream = tokio::net::TcpStream::connect(served.tcp.unwrap()).await.unwrap();
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{header}\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{path}: {answer}");
        let shows_figures = answer.contains("basalt_build_info");
        assert_eq!(shows_figures, (path, status) == ("/metrics", "200"), "{path}: {answer}");
    }
    served.stop().await;
}

/// Hosts beyond those that are counted apart are one line, devices say what is under way, and disk groups what went to capacity.
#[tokio::test]
async fn statistics_show_the_other_hosts_together_what_devices_have_under_way_and_what_groups_moved() {
    let bench = Bench::new();
    let one = crate::plane::HostFigures { nqn: Some(HOST.into()), queues: 2, ..Default::default() };
    let others = crate::plane::HostFigures { nqn: None, queues: 7, requests: 3, ..Default::default() };
    // Before anything asks for figures: they may be half a second old.
    bench.plane.statistics(vec![], vec![one, others]);
    let bench = bench.with_group().await;
    let all = bench.get("/api/v1/statistics").await;
    let of = |n: usize, member: &str| all["hosts"][n][member].clone();
    assert_eq!((of(0, "nqn"), of(0, "queues")), (json!(HOST), json!(2)));
    assert_eq!((of(1, "nqn"), of(1, "name"), of(1, "queues"), of(1, "queue_depth")), (json!("(others)"), Value::Null, json!(7), json!(3)));
    let groups = &all["groups"];
    assert_eq!(
        (&groups[0]["group"], &groups[0]["destaged_bytes"], &groups[0]["buffer_used_bytes"]),
        (&json!("g1"), &json!(7), &json!(1 << 20))
    );
    let only = bench.get("/api/v1/statistics?of=groups").await;
    assert_eq!((&only["groups"], &only["devices"], &only["hosts"]), (groups, &json!([]), &json!([])));
    let devices = all["devices"].as_array().unwrap();
    assert!(!devices.is_empty() && devices.iter().all(|device| device["in_flight"].is_u64()), "{all}");
}

/// Who tries tokens is in the audit log, and does not fill it.
#[tokio::test]
async fn requests_without_the_token_are_noted_a_few_in_each_period_and_the_rest_is_counted() {
    use axum::{extract::ConnectInfo, middleware::from_fn_with_state};
    let dir = tempfile::tempdir().unwrap();
    let directory = Arc::new(Embedded::open(dir.path(), base::ClusterId::from_bytes([7; 16])).unwrap());
    let identity = Identity { node: "h1".into(), fault_domain: "h1".into(), version: "0.1.0".into(), cores: 2 };
    let log = crate::audit::AuditLog::open(dir.path()).unwrap();
    let control = Control::new(directory, Arc::new(FakePlane::default()), identity, drive::Scanner::default()).with_audit(log);
    let control = Arc::new(control);
    let period = std::time::Duration::from_secs(3);
    let mut guard = auth::Guard::new(Token::new("0123456789abcdef").unwrap(), control.clone());
    guard.period = period;
    let (router, _) = router(control.clone());
    let router = router.layer(from_fn_with_state(guard, auth::require));
    let peer = audited::Administrator::Remote("192.0.2.7:4000".parse().unwrap());
    let ask = async |path: &str, token: Option<&str>| {
        let mut request = Request::get(path).extension(ConnectInfo(peer.clone()));
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        router.clone().oneshot(request.body(HttpBody::empty()).unwrap()).await.unwrap().status().as_u16()
    };
    let noted = || control.audit_entries(1000).unwrap();
    assert_eq!(ask("/api/v1/openapi.json", Some("0123456789abcdef")).await, 200);
    assert_eq!(noted().len(), 0);
    assert_eq!(ask("/api/v1/volumes?token=0123456789abcdef", None).await, 401);
    let long = format!("/{}", "x".repeat(5000));
    for _ in 0..99 {
        assert_eq!(ask(&long, Some("wrong-wrong-wrong")).await, 401);
    }
    let first = noted();
    assert_eq!(first.len(), 8, "{first:?}");
    assert!(first.iter().all(|e| e.event == "authentication-failed" && e.peer.as_deref() == Some("192.0.2.7:4000")), "{first:?}");
    let text = |n: usize| (first[n].by.as_deref().unwrap(), first[n].action.as_deref().unwrap(), first[n].result.as_deref().unwrap());
    assert_eq!((text(0).0, text(0).1), ("who has no token", "GET /api/v1/volumes"));
    assert!(text(0).2.starts_with("refused (401)") && text(1).0 == "who has a wrong token" && text(1).1.len() == 200, "{first:?}");
    assert!(!format!("{first:?}").contains("wrong-wrong") && !format!("{first:?}").contains("0123456789abcdef"), "no token is noted");
    tokio::time::sleep(period + period / 2).await;
    let all = noted();
    assert!(all.len() == 9 && all[8].action.as_deref().is_some_and(|what| what.starts_with("92 more requests")), "{all:?}");
    assert_eq!(ask("/api/v1/status", None).await, 401);
    assert_eq!(noted().len(), 10, "another period has begun");
}

#[path = "input_tests.rs"]
mod input;

#[path = "changes_tests.rs"]
mod changes;
