//! The reference page, made of the API's document: `docs/api-reference.md` has to be what the document says.
//!
//! `API_WRITE=1 cargo test -p control reference` writes it anew.

use super::tests::Bench;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// The type of a schema, in words, with a link where it is one of ours.
fn kind(schema: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.rsplit('/').next().unwrap_or_default();
        return format!("[{name}](#{})", name.to_lowercase());
    }
    if let Some(choices) = schema["oneOf"].as_array().or(schema["allOf"].as_array()) {
        let some = choices.iter().filter(|c| c["type"] != "null").map(kind).collect::<Vec<_>>().join(" or ");
        return if choices.iter().any(|c| c["type"] == "null") { format!("{some} or null") } else { some };
    }
    if let Some(words) = schema["enum"].as_array() {
        return words.iter().map(|w| format!("`{}`", w.as_str().unwrap_or("null"))).collect::<Vec<_>>().join(", ");
    }
    let one = |name: &str| match name {
        "array" => format!("list of {}", kind(&schema["items"])),
        "integer" => "number".into(),
        other => other.to_owned(),
    };
    match &schema["type"] {
        Value::String(name) => one(name),
        Value::Array(names) => names.iter().filter_map(Value::as_str).map(one).collect::<Vec<_>>().join(" or "),
        _ => "any".into(),
    }
}

/// Text in a cell of a table.
fn cell(text: &str) -> String {
    text.replace('\n', " ").replace('|', "\\|")
}

fn described(value: &Value) -> String {
    cell(value["description"].as_str().unwrap_or_default())
}

fn operation(page: &mut String, path: &str, method: &str, operation: &Value) {
    let say = "writing to text";
    write!(page, "\n### {} {path}\n\n{}\n", method.to_uppercase(), operation["summary"].as_str().unwrap_or_default().trim()).expect(say);
    if let Some(more) = operation["description"].as_str() {
        write!(page, "\n{}\n", more.trim()).expect(say);
    }
    let parameters: Vec<&Value> = operation["parameters"].as_array().into_iter().flatten().collect();
    if !parameters.is_empty() {
        page.push_str("\n| parameter | in | type | meaning |\n| --- | --- | --- | --- |\n");
    }
    for p in parameters {
        let (name, within) = (p["name"].as_str().unwrap_or_default(), p["in"].as_str().unwrap_or_default());
        writeln!(page, "| `{name}` | {within} | {} | {} |", kind(&p["schema"]), described(p)).expect(say);
    }
    if let Some(body) = operation.pointer("/requestBody/content/application~1json/schema") {
        write!(page, "\nBody: {}.\n", kind(body)).expect(say);
    }
    for (status, answer) in operation["responses"].as_object().into_iter().flatten().filter(|(status, _)| *status != "default") {
        let content = answer["content"].as_object().and_then(|all| all.values().next());
        let body = content.map_or("nothing".into(), |content| kind(&content["schema"]));
        let headers: Vec<String> = answer["headers"].as_object().into_iter().flatten().map(|(name, _)| format!("`{name}`")).collect();
        let headers = if headers.is_empty() { String::new() } else { format!(", with the header {}", headers.join(", ")) };
        write!(page, "\nAnswer {status}: {body}{headers}.\n").expect(say);
    }
}

fn schema(page: &mut String, name: &str, schema: &Value) {
    let say = "writing to text";
    write!(page, "\n### {name}\n").expect(say);
    if let Some(text) = schema["description"].as_str() {
        write!(page, "\n{}\n", text.trim()).expect(say);
    }
    let Some(members) = schema["properties"].as_object() else {
        let choices: Vec<&Value> = schema["oneOf"].as_array().into_iter().flatten().filter(|c| c["enum"].is_array()).collect();
        if choices.is_empty() {
            write!(page, "\n{}.\n", kind(schema)).expect(say);
        } else {
            page.push_str("\n| value | meaning |\n| --- | --- |\n");
            choices.iter().for_each(|c| writeln!(page, "| {} | {} |", kind(c), described(c)).expect(say));
        }
        return;
    };
    page.push_str("\n| member | type | meaning |\n| --- | --- | --- |\n");
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (name, member) in members {
        let may_lack = if required.contains(&name.as_str()) { "" } else { "?" };
        writeln!(page, "| `{name}`{may_lack} | {} | {} |", kind(member), described(member)).expect(say);
    }
}

/// The page.
fn reference(document: &Value) -> String {
    let mut page = String::from(
        "# The REST API: reference\n\nEvery path, parameter and type, made of the document that the daemon serves (`/api/v1/openapi.json`).\n\
         [api.md](api.md) says how to use it, and how errors look: wherever something is not done, the answer is a [Problem](#problem).\n\
         A member with `?` may be left out.\n",
    );
    let mut by_tag: BTreeMap<&str, Vec<(&str, &str, &Value)>> = BTreeMap::new();
    for (path, operations) in document["paths"].as_object().into_iter().flatten() {
        for (method, operation) in operations.as_object().into_iter().flatten() {
            let tag = operation.pointer("/tags/0").and_then(Value::as_str).unwrap_or("other");
            by_tag.entry(tag).or_default().push((path, method, operation));
        }
    }
    for tag in document["tags"].as_array().into_iter().flatten() {
        let name = tag["name"].as_str().unwrap_or_default();
        write!(page, "\n## {}\n", described(tag)).expect("writing to text");
        for (path, method, what) in by_tag.remove(name).unwrap_or_default() {
            operation(&mut page, path, method, what);
        }
    }
    assert!(by_tag.is_empty(), "every tag is described: {:?}", by_tag.keys());
    page.push_str("\n## Types\n");
    for (name, what) in document.pointer("/components/schemas").and_then(Value::as_object).into_iter().flatten() {
        schema(&mut page, name, what);
    }
    page
}

#[tokio::test]
async fn the_reference_page_is_what_the_document_says() {
    let page = reference(Bench::new().document());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/api-reference.md");
    if std::env::var_os("API_WRITE").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = page.lines().zip(kept.lines()).position(|(new, old)| new != old);
    assert!(
        page == kept,
        "docs/api-reference.md differs, first in line {:?}: API_WRITE=1 cargo test -p control reference",
        differs.map(|n| n + 1)
    );
    for words in ["### GET /api/v1/volumes\n", "### Volume\n", "`limit`", "with the header `location`"] {
        assert!(page.contains(words), "{words}");
    }
}
