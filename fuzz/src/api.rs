//! The REST API: requests made from the document that it serves, in sequences that make state, against the real engine and the real data plane
//! on devices in memory and in files.
//!
//! What is asserted: no request ends the process or is answered with a fault of Basalt's own; every answer is as the document says; a request that
//! makes no sense changes nothing; at the end all lists can be read, and after an ordered end and a new start the same things are there.
//! Files are made in a folder of its own only, which is removed.

use crate::input::Choices;
use axum::{
    Router,
    body::Body,
    http::{Method, Request},
};
use control::{
    Code, Control, Identity,
    api::{document::fits, router},
    config::Config,
    data_plane::LocalDataPlane,
};
use directory::{Directory, Embedded};
use http_body_util::BodyExt;
use serde_json::{Map, Value, json};
use std::{fmt::Write, os::unix::fs::PermissionsExt, path::Path, sync::Arc};
use tower::ServiceExt;

/// Requests of one input.
const REQUESTS_MAX: u32 = 24;
/// How deep a made-up value nests.
const DEPTH_MAX: u32 = 4;
const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:6e3a8f0e-6d2c-4b8f-9d4e-1a2b3c4d5e6f";
const SECRET: &str = "DHHC-1:01:ERERERERERERERERERERERERERERERERERERERERERHYIEm8:";
/// Few, so that requests meet what others have made.
const NAMES: [&str; 8] = ["default", "a", "b", "g", "A", "h1", HOST, "nqn.2026-11.io.basalt:a"];
const STRINGS: [&str; 12] = [
    "",
    ".",
    "..",
    "../../x",
    "a b",
    "%00",
    "\0",
    "é\u{202e}",
    "nqn.2026-11.io.basalt:\n",
    "6e3a8f0e-6d2c-4b8f-9d4e-1a2b3c4d5e6f",
    "-1",
    "null",
];
const NUMBERS: [u64; 12] = [0, 1, 2, 9, 10, 101, 255, 512, 4096, u32::MAX as u64 + 1, i64::MAX as u64 + 1, u64::MAX];
const SIZES: [u64; 12] = [
    1,
    1 << 20,
    (1 << 20) + 1,
    256 << 20,
    257 << 20,
    300 << 20,
    1 << 40,
    255 << 30,
    (64 << 40) + 1,
    (256 << 40) + 1,
    u64::MAX - (1 << 20),
    u64::MAX,
];
/// Of files that are made: what is taken for real is small, what is large is more than any disk has.
const FILE_SIZES: [u64; 8] = [0, 4095, 256 << 20, (256 << 20) + 1, 4 << 40, 1 << 50, u64::MAX - 4095, u64::MAX];
const MEMORY: [&str; 10] = [
    "memory:256MiB",
    "memory:257MiB",
    "memory:300MiB",
    "memory:",
    "memory:1",
    "memory:999TiB",
    "memory:16383PiB",
    "memory:18446744073709551615",
    "memory:256TiB:populated",
    "memory:256MiB:crowded",
];

/// A daemon without its sockets.
struct Fixture {
    dir: tempfile::TempDir,
    runtime: tokio::runtime::Runtime,
    directory: Arc<Embedded>,
    control: Arc<Control>,
    router: Router,
    document: Value,
}

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::create_dir_all(dir.path().join("root/sys/block")).expect("a folder");
        private(&dir.path().join("secret"), SECRET);
        private(&dir.path().join("key"), crate::text::PSK);
        private(&dir.path().join("small"), "");
        let large = std::fs::File::create(dir.path().join("there")).expect("a file");
        large.set_len(256 << 20).expect("a sparse file");
        std::os::unix::fs::symlink("loop", dir.path().join("loop")).expect("a link");
        Self::on(dir)
    }

    fn on(dir: tempfile::TempDir) -> Self {
        let config = Config::parse("data_dir = \"x\"\n[cores]\ncount = 1\npin = false\n", "x").expect("a configuration");
        let directory = Arc::new(Embedded::open(dir.path(), base::ClusterId::from_bytes([7; 16])).expect("the directory opens"));
        let plane = Arc::new(LocalDataPlane::start(1, false, &config, base::NodeSlot::FIRST).expect("the data plane starts"));
        let identity = Identity { node: "h1".into(), fault_domain: "h1".into(), version: "0".into(), cores: 1 };
        let control = Arc::new(Control::new(directory.clone(), plane, identity, drive::Scanner::new(dir.path().join("root"))));
        control.start().expect("the engine starts");
        let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(2).build().expect("a runtime");
        let (router, document) = router(control.clone());
        Self { dir, runtime, directory, control, router, document: serde_json::to_value(document).expect("JSON") }
    }

    /// An ordered end, and a start from what is there.
    fn restart(self) -> Self {
        let Self { dir, runtime, directory, control, router, .. } = self;
        control.shutdown().expect("an ordered end");
        drop((runtime, router, control, directory));
        Self::on(dir)
    }

    fn call(&self, method: &str, url: &str, body: Option<Vec<u8>>, json: bool) -> (u16, Value) {
        let mut request = Request::builder().method(Method::from_bytes(method.as_bytes()).expect("a method")).uri(url);
        if json {
            request = request.header("content-type", "application/json");
        }
        let request = request.body(body.map_or(Body::empty(), Body::from)).expect("a request");
        self.runtime.block_on(async {
            let response = self.router.clone().oneshot(request).await.expect("never fails");
            let status = response.status().as_u16();
            let bytes = response.into_body().collect().await.expect("a body").to_bytes();
            (status, serde_json::from_slice(&bytes).unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned())))
        })
    }

    /// One request of the document's, and what must hold of its answer.
    fn request(&self, c: &mut Choices<'_>) {
        let paths = self.document["paths"].as_object().expect("paths");
        let operations: Vec<(&String, &String, &Value)> =
            paths.iter().flat_map(|(path, all)| all.as_object().into_iter().flatten().map(move |(m, o)| (path, m, o))).collect();
        // What makes something comes up as often as all else.
        let making: Vec<_> =
            operations.iter().filter(|(_, method, _)| matches!(method.as_str(), "post" | "put" | "patch")).copied().collect();
        let (path, method, operation) = if c.once_in(2) { c.of(&operations) } else { c.of(&making) };
        let url = self.url(path, operation, c);
        let schema = operation.pointer("/requestBody/content/application~1json/schema");
        let body =
            schema.map(|schema| if c.once_in(32) { c.bytes(64).to_vec() } else { self.value(schema, "", 0, c).to_string().into_bytes() });
        let json = body.is_some() && !c.once_in(64);
        let before = self.directory.revision().expect("a revision");
        let shown = body.as_ref().map(|b| String::from_utf8_lossy(b).into_owned()).unwrap_or_default();
        let (status, answer) = self.call(&method.to_uppercase(), &url, body, json);
        let what = format!("{method} {url} {shown}: {status} {answer}");
        self.check(operation, status, &answer, &what);
        if matches!(status, 400 | 404 | 405) {
            assert_eq!(self.directory.revision().expect("a revision"), before, "refused, and something changed: {what}");
        }
    }

    fn check(&self, operation: &Value, status: u16, answer: &Value, what: &str) {
        assert!(status != 500, "a fault of its own: {what}");
        let responses = &operation["responses"];
        let response = responses.get(status.to_string()).unwrap_or(&responses["default"]);
        if let Some(schema) = response.pointer("/content/application~1json/schema") {
            fits(answer, schema, &self.document).unwrap_or_else(|e| panic!("not as the document says: {e}\n{what}"));
        }
        if status >= 400 {
            let words = |key: &str| answer[key].as_str().is_some_and(|text| !text.is_empty());
            assert!(words("message") && words("action"), "no words: {what}");
            let code: Code = serde_json::from_value(answer["code"].clone()).unwrap_or_else(|e| panic!("{e}: {what}"));
            assert!(code != Code::Internal, "a fault of its own: {what}");
        }
    }

    fn url(&self, path: &str, operation: &Value, c: &mut Choices<'_>) -> String {
        let mut url = String::new();
        for part in path.split('/').skip(1) {
            url.push('/');
            if part.starts_with('{') { escape(&mut url, &text("name", self.dir.path(), c)) } else { url.push_str(part) }
        }
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        for (n, p) in parameters.filter(|p| p["in"] == "query").enumerate() {
            if c.once_in(2) {
                let value = match self.value(&p["schema"], p["name"].as_str().unwrap_or_default(), 0, c) {
                    Value::String(text) => text,
                    other => other.to_string(),
                };
                url.push(if n == 0 { '?' } else { '&' });
                escape(&mut url, p["name"].as_str().unwrap_or_default());
                url.push('=');
                escape(&mut url, &value);
            }
        }
        url
    }

    /// A value that fits a schema, or nearly.
    fn value(&self, schema: &Value, key: &str, depth: u32, c: &mut Choices<'_>) -> Value {
        if c.once_in(24) || depth > DEPTH_MAX {
            return anything(c);
        }
        if let Some(reference) = schema["$ref"].as_str() {
            let target = self.document.pointer(reference.trim_start_matches('#')).expect("a reference leads somewhere");
            return self.value(target, key, depth, c);
        }
        if let Some(choices) = schema["oneOf"].as_array().or(schema["allOf"].as_array()) {
            let choice = &choices[c.below(choices.len() as u32) as usize];
            return self.value(choice, key, depth, c);
        }
        if let Some(words) = schema["enum"].as_array() {
            return words[c.below(words.len() as u32) as usize].clone();
        }
        let kind = match &schema["type"] {
            Value::String(one) => one.as_str(),
            Value::Array(many) => many[c.below(many.len() as u32) as usize].as_str().unwrap_or_default(),
            _ => "null",
        };
        match kind {
            "object" => self.object(schema, depth, c),
            "array" => (0..c.below(4)).map(|_| self.value(&schema["items"], key, depth + 1, c)).collect(),
            "boolean" => json!(if key == "sparse" { !c.once_in(8) } else { c.once_in(2) }),
            "integer" => json!(number(key, c)),
            "string" => json!(text(key, self.dir.path(), c)),
            _ => Value::Null,
        }
    }

    fn object(&self, schema: &Value, depth: u32, c: &mut Choices<'_>) -> Value {
        let mut members = Map::new();
        let required = |name: &str| schema["required"].as_array().is_some_and(|all| all.iter().any(|r| r == name));
        let device = schema["properties"].get("path").is_some() && schema["properties"].get("bytes").is_some();
        for (name, member) in schema["properties"].as_object().into_iter().flatten() {
            if if required(name) { !c.once_in(24) } else { c.once_in(2) } {
                let key = if device && name == "bytes" { "file_bytes" } else { name };
                members.insert(name.clone(), self.value(member, key, depth + 1, c));
            }
        }
        if c.once_in(32) {
            members.insert("unheard_of".into(), anything(c));
        }
        Value::Object(members)
    }

    /// What is there, by list: the ids and names.
    fn lists(&self) -> Vec<(String, Vec<String>)> {
        let lists = ["groups", "policies", "volumes", "subsystems", "hosts", "tasks", "sessions", "drives"];
        let mut all = Vec::new();
        for list in lists {
            let (status, answer) = self.call("GET", &format!("/api/v1/{list}"), None, false);
            assert_eq!(status, 200, "{list}: {answer}");
            let name = |v: &Value| v["name"].as_str().or(v["nqn"].as_str()).unwrap_or_default().to_owned();
            all.push((list.to_owned(), answer.as_array().expect("a list").iter().map(name).collect()));
        }
        for page in ["/api/v1/status", "/metrics"] {
            assert_eq!(self.call("GET", page, None, false).0, 200, "{page}");
        }
        all
    }
}

fn private(path: &Path, text: &str) {
    std::fs::write(path, text).expect("a file");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).expect("its mode");
}

/// With every byte that could mean something in a URL written as %XX.
fn escape(url: &mut String, text: &str) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() { url.push(char::from(byte)) } else { write!(url, "%{byte:02X}").expect("a string takes all") }
    }
}

fn number(key: &str, c: &mut Choices<'_>) -> u64 {
    match key {
        "file_bytes" => c.of(&FILE_SIZES),
        key if key.contains("bytes") || key.contains("bandwidth") => c.of(&SIZES),
        "shards" => c.of(&[1, 2, 4, 16, 0, 3, 32, 255]),
        _ => c.of(&NUMBERS),
    }
}

fn text(key: &str, dir: &Path, c: &mut Choices<'_>) -> String {
    let below = |names: &[&str], c: &mut Choices<'_>| dir.join(c.of(names)).display().to_string();
    match key {
        // Never a path outside: what is there would be written.
        "path" if c.once_in(2) => below(&["c0", "c1", "c2", "root/../c0", "there", "small", "root", "loop", "no/c", "c0/", "x\0y", ""], c),
        "path" => if c.once_in(8) { c.of(&["", "c0", "/dev/null", "/dev/basalt-none"]) } else { c.of(&MEMORY) }.to_owned(),
        "secret_path" | "controller_secret_path" | "psk_path" => match c.below(8) {
            0 => c.of(&["", "secret", "/dev/zero", "/dev/null", "/proc/self/maps"]).to_owned(),
            _ => below(&["secret", "key", "small", "there", "root", "loop", "none"], c),
        },
        "secret" | "controller_secret" if !c.once_in(4) => SECRET.to_owned(),
        "psk" if !c.once_in(4) => crate::text::PSK.to_owned(),
        "hashes" => c.of(&["sha256", "sha384", "sha512", "md5"]).to_owned(),
        "groups" => c.of(&["null", "ffdhe2048", "ffdhe3072", "dh1"]).to_owned(),
        "nqn" if !c.once_in(4) => c.of(&[HOST, "nqn.2026-11.io.basalt:a", "nqn.2026-11.io.basalt:default"]).to_owned(),
        _ if c.once_in(6) => c.of(&STRINGS).to_owned(),
        _ if c.once_in(24) => "x".repeat(c.of(&[63, 64, 223, 224, 5000])),
        _ => c.of(&NAMES).to_owned(),
    }
}

/// What no schema asks for.
fn anything(c: &mut Choices<'_>) -> Value {
    match c.below(9) {
        0 => Value::Null,
        1 => json!(-1),
        2 => json!(1e300),
        3 => json!(u64::MAX),
        4 => json!([]),
        5 => json!({}),
        6 => json!("9".repeat(40)),
        7 => (0..200).fold(json!(0), |inner, _| json!([inner])),
        _ => json!(true),
    }
}

/// A sequence of requests.
pub fn api(data: &[u8]) {
    let mut c = Choices::new(data);
    let restart = c.once_in(4);
    let mut fixture = Fixture::new();
    for _ in 0..REQUESTS_MAX {
        if c.is_empty() {
            break;
        }
        fixture.request(&mut c);
    }
    let before = fixture.lists();
    if restart {
        let memory = fixture.call("GET", "/api/v1/groups", None, false).1;
        let memory = memory.as_array().is_some_and(|all| all.iter().any(|g| g["volatile"] == true));
        fixture = fixture.restart();
        // A disk group in memory is empty after a start, and what lay on it is reported, not gone.
        let after = fixture.lists();
        assert!(memory || after == before, "before: {before:?}\nafter: {after:?}");
    }
    fixture.control.shutdown().expect("an ordered end");
}
