//! What no administrator means: sizes that no machine has, paths that are none, bodies that are wrong. Refused in words, and nothing changed.

use super::*;

fn group(capacity: Value) -> Value {
    json!({"name": "big", "cache": {"path": "memory:1GiB"}, "capacity": [capacity]})
}

#[tokio::test]
async fn sizes_that_no_machine_has_are_refused() {
    let bench = Bench::new().with_group().await;
    let new = bench.dir.path().join("new.img");
    let there = bench.dir.path().join("there.img");
    std::fs::File::create(&there).unwrap().set_len(512 << 20).unwrap();
    for bytes in [u64::MAX, u64::MAX - 4095, 1 << 63, 1 << 50] {
        let (status, _, message) = bench.refused("POST", "/api/v1/groups", group(json!({"path": new, "bytes": bytes}))).await;
        assert_eq!(status, 400, "{bytes}: {message}");
        assert!(message.contains("at most 256 TiB"), "{bytes}: {message}");
        let (status, _, message) = bench.refused("POST", "/api/v1/groups", group(json!({"path": there, "bytes": bytes}))).await;
        assert_eq!(status, 409, "{bytes}: {message}");
    }
    for size in ["999TiB", "16383PiB", "18446744073709551615", "18446744073709551615B:populated"] {
        let (status, _, message) = bench.refused("POST", "/api/v1/groups", group(json!({"path": format!("memory:{size}")}))).await;
        assert_eq!(status, 400, "{size}: {message}");
    }
    for bytes in [u64::MAX, u64::MAX - (1 << 20), 1 << 63] {
        bench.refused("POST", "/api/v1/volumes", json!({"name": "v", "bytes": bytes})).await;
        let grow = json!({"name": format!("v{bytes}"), "bytes": GIB, "grow_bytes_max": bytes});
        bench.ok("POST", "/api/v1/volumes", grow).await;
        bench.refused("POST", &format!("/api/v1/volumes/v{bytes}/resize"), json!({"bytes": bytes, "force": true})).await;
    }
    bench.ok("PATCH", "/api/v1/policies/default", json!({"iops_limit": u64::MAX, "bandwidth_limit": u64::MAX})).await;
    bench.get("/api/v1/status").await;
    assert_eq!(bench.get("/api/v1/groups").await.as_array().unwrap().len(), 1);
    assert!(!new.exists());
}

/// A client that reads problems gets one whatever it has sent.
#[tokio::test]
async fn whatever_is_wrong_with_a_request_is_a_problem_with_words() {
    let bench = Bench::new().with_group().await;
    let long = "x".repeat(5000);
    for (method, path) in [
        ("DELETE", "/api/v1/groups/g1?force=perhaps"),
        ("DELETE", "/api/v1/groups/g1?force=true&force=false"),
        ("DELETE", "/api/v1/volumes/v?sparse=1"),
        ("DELETE", "/api/v1/subsystems/default?force"),
        ("GET", "/api/v1/audit?limit=-1"),
        ("GET", "/api/v1/audit?limit=abc"),
        ("GET", "/api/v1/volumes?name=db"),
        ("GET", "/api/v1/status?verbose"),
        ("GET", "/api/v1/openapi.json?pretty=1"),
        ("GET", "/openapi.json?pretty"),
        ("GET", "/metrics?of=volumes"),
        ("POST", "/api/v1/groups/g1/scrub?now=1"),
        ("GET", "/api/v1/statistics?of=disks"),
        ("GET", "/api/v1/statistics?node=none"),
        ("GET", "/api/v1/audit?limit=99999999999999999999999"),
        ("GET", "/api/v1/groups/%ff%fe"),
        ("GET", "/api/v1/groups/%00"),
        ("GET", &format!("/api/v1/volumes/{long}")),
        ("PUT", "/api/v1/subsystems/%ff/volumes/%ff"),
        ("PUT", "/api/v1/subsystems/default/hosts/%ff"),
    ] {
        let (status, ..) = bench.refused(method, path, Value::Null).await;
        assert!((400..500).contains(&status), "{method} {path}: {status}");
    }
    let mut deep = json!(1);
    (0..500).for_each(|_| deep = json!([deep]));
    for body in [deep, json!({"name": long, "bytes": 1e300}), json!({"name": "x", "bytes": -1}), json!(null)] {
        let (status, ..) = bench.refused("POST", "/api/v1/volumes", json!({"": body})).await;
        assert_eq!(status, 400);
        let (status, value) = bench.call("POST", "/api/v1/volumes", Some(body)).await;
        assert_eq!((status, value["code"].as_str()), (400, Some("invalid")), "{value}");
    }
}

/// The file of a secret is opened while nothing else can be changed: one that gives nothing must not hold that up.
#[tokio::test]
async fn the_file_of_a_secret_that_is_no_file_is_refused_at_once() {
    use std::os::unix::fs::PermissionsExt;
    let bench = Bench::new();
    bench.ok("POST", "/api/v1/hosts", json!({"nqn": HOST, "name": "h"})).await;
    let fifo = bench.dir.path().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    std::fs::set_permissions(&fifo, std::fs::Permissions::from_mode(0o600)).unwrap();
    let folder = bench.dir.path().join("folder");
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).unwrap();
    for path in [fifo, folder] {
        for (url, body) in [("dhchap", json!({"secret_path": path})), ("tls-psk", json!({"psk_path": path}))] {
            let url = format!("/api/v1/hosts/h/{url}");
            let refused = tokio::time::timeout(std::time::Duration::from_secs(20), bench.refused("PUT", &url, body));
            let (status, _, message) = refused.await.expect("an answer");
            assert_eq!(status, 400, "{message}");
            assert!(message.contains("is no file"), "{message}");
        }
    }
}

#[tokio::test]
async fn a_file_system_that_is_too_small_is_reported_before_anything_is_made() {
    let bench = Bench::new();
    const TOO_MUCH: u64 = 15 << 40;
    for (n, cache_bytes, capacity_bytes, words) in
        [(0, TOO_MUCH, GIB, "free, and 15 TiB are needed"), (1, GIB, TOO_MUCH, "in all, and 15.00 TiB are needed")]
    {
        let (cache, capacity) = (bench.dir.path().join(format!("cache{n}")), bench.dir.path().join(format!("capacity{n}")));
        let device = json!({"path": capacity, "bytes": capacity_bytes});
        let mut group = json!({"name": "g", "cache": {"path": cache, "bytes": cache_bytes}, "capacity": [device]});
        let (status, code, message) = bench.refused("POST", "/api/v1/groups", group.clone()).await;
        assert_eq!((status, code.as_str()), (507, "no_space"), "{message}");
        assert!(message.contains("is too small") && message.contains(words), "{message}");
        assert_eq!(bench.get("/api/v1/groups").await, json!([]));
        assert!(!cache.exists() && !capacity.exists());
        group["sparse"] = json!(true);
        bench.ok("POST", "/api/v1/groups", group).await;
        bench.ok("DELETE", "/api/v1/groups/g", Value::Null).await;
    }
}

/// A list of a request is not kept as it comes: what is used for each connection stays small.
#[tokio::test]
async fn lists_of_requests_have_their_limits() {
    let bench = Bench::new();
    bench.ok("POST", "/api/v1/hosts", json!({"nqn": HOST, "name": "h"})).await;
    let (status, _, message) = bench.refused("POST", "/api/v1/subsystems", json!({"name": "s", "hosts": vec!["h"; 1025]})).await;
    assert!(status == 400 && message.contains("more than 1024"), "{message}");
    let secret = json!({"secret": "DHHC-1:01:ERERERERERERERERERERERERERERERERERERERERERHYIEm8:", "hashes": vec!["sha256"; 5000]});
    let (status, _, message) = bench.refused("PUT", "/api/v1/hosts/h/dhchap", secret).await;
    assert!(status == 400 && message.contains("named twice"), "{message}");
}

/// Who makes something finds it where the answer says.
#[tokio::test]
async fn what_was_made_has_its_path_in_the_answer() {
    let bench = Bench::new().with_group().await;
    for (path, body) in [
        ("/api/v1/volumes", json!({"name": "db", "bytes": GIB})),
        ("/api/v1/policies", json!({"name": "wide"})),
        ("/api/v1/subsystems", json!({"name": "vms"})),
        ("/api/v1/hosts", json!({"name": "kvm1", "nqn": HOST})),
    ] {
        let request = Request::post(path).header("content-type", "application/json").body(HttpBody::from(body.to_string())).unwrap();
        let response = bench.router.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status().as_u16(), 201, "{path}");
        let at = response.headers()["location"].to_str().unwrap().to_owned();
        assert_eq!(bench.get(&at).await["name"], body["name"], "{at}");
    }
}

/// A size below the smallest is a slip.
#[tokio::test]
async fn a_volume_of_less_than_the_smallest_is_refused_not_made_larger() {
    let bench = Bench::new().with_group().await;
    let (status, _, message) = bench.refused("POST", "/api/v1/volumes", json!({"name": "x", "bytes": 1024})).await;
    assert!(status == 400 && message.contains("the smallest has 1 MiB"), "{message}");
}

/// HEAD is what GET is, without the body.
#[tokio::test]
async fn a_parameter_that_there_is_not_is_refused_for_head_too() {
    let bench = Bench::new();
    for (path, status) in [("/api/v1/volumes?limti=1", 400), ("/api/v1/openapi.json?a", 400), ("/api/v1/volumes?limit=1", 200)] {
        let request = Request::head(path).body(HttpBody::empty()).unwrap();
        assert_eq!(bench.router.clone().oneshot(request).await.unwrap().status().as_u16(), status, "{path}");
    }
}

#[tokio::test]
async fn the_document_says_who_may_use_the_api() {
    let bench = Bench::new();
    assert_eq!(bench.document["components"]["securitySchemes"]["token"]["scheme"], "bearer");
    assert_eq!(bench.document["security"], json!([{}, {"token": []}]));
}

/// Whoever reads a long list part by part follows the header, until there is none.
#[tokio::test]
async fn long_lists_are_read_part_by_part() {
    let bench = Bench::new().with_group().await;
    for n in 0..7 {
        bench.volume(&format!("v{n}"), GIB).await;
    }
    for (collection, all) in
        [("volumes", 7_usize), ("policies", 1), ("groups", 1), ("subsystems", 1), ("hosts", 0), ("sessions", 0), ("tasks", 0)]
    {
        let (mut at, mut seen, mut parts) = (Some(format!("/api/v1/{collection}?limit=3")), Vec::new(), 0);
        while let Some(path) = at {
            let response = bench.router.clone().oneshot(Request::get(&path).body(HttpBody::empty()).unwrap()).await.unwrap();
            assert_eq!(response.status().as_u16(), 200, "{path}");
            let link = response.headers().get("link").map(|l| l.to_str().unwrap().to_owned());
            at = link.map(|l| l.strip_prefix('<').unwrap().split_once('>').unwrap().0.to_owned());
            let bytes = response.into_body().collect().await.unwrap().to_bytes();
            seen.extend(serde_json::from_slice::<Vec<Value>>(&bytes).unwrap());
            parts += 1;
        }
        let whole = bench.get(&format!("/api/v1/{collection}")).await;
        assert_eq!((seen.len(), parts), (all, all.div_ceil(3).max(1)), "{collection}");
        assert!(whole.as_array().unwrap().iter().all(|one| seen.contains(one)), "{collection}");
    }
    for wrong in ["limit=0", "limit=99999", "limit=x", "page=2"] {
        assert_eq!(bench.refused("GET", &format!("/api/v1/volumes?{wrong}"), Value::Null).await.0, 400, "{wrong}");
    }
}

#[tokio::test]
async fn a_drive_is_shown_with_its_health_or_with_why_that_is_unknown() {
    let bench = Bench::new();
    let put = |path: &str, text: &str| {
        let path = bench.dir.path().join("root").join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    put("sys/block/sda/size", "2097152\n");
    put("dev/sda", "");
    for name in ["sda", "%2Fdev%2Fsda"] {
        let shown = bench.get(&format!("/api/v1/drives/{name}")).await;
        assert_eq!((&shown["drive"]["path"], &shown["smart"]), (&json!("/dev/sda"), &Value::Null));
        assert!(shown["unknown"].as_str().unwrap().contains("no NVMe drive"), "{shown}");
    }
    assert_eq!(bench.refused("GET", "/api/v1/drives/sdb", Value::Null).await.0, 404);
}
