use super::*;
use serde_json::json;

fn output(format: Format, names_only: bool) -> Output {
    let style = Style { headers: true, wide: format == Format::Wide, colour: false, width: None };
    Output { format, names_only, style }
}

#[derive(Serialize)]
struct Thing {
    name: &'static str,
    bytes: u64,
}

const THINGS: [Thing; 2] = [Thing { name: "db", bytes: 7 }, Thing { name: "logs", bytes: 9 }];

fn page(things: &[Thing; 2]) -> Page {
    let rows = Rows::of(things, "none").left("name", |t| t.name.into()).right("bytes", |t| t.bytes.to_string()).wide();
    Page::new().line("all:").rows(rows).line("that is all")
}

#[test]
fn one_answer_is_printed_in_every_format() {
    let text = |format, names_only| output(format, names_only).text(&THINGS, page, false);
    assert_eq!(text(Format::Table, false), "all:\n\nNAME\ndb\nlogs\nthat is all\n");
    assert_eq!(text(Format::Wide, false), "all:\n\nNAME  BYTES\ndb        7\nlogs      9\nthat is all\n");
    assert_eq!(text(Format::Table, true), "db\nlogs\n");
    assert_eq!(text(Format::Yaml, false), "- bytes: 7\n  name: db\n- bytes: 9\n  name: logs\n");
    assert!(text(Format::Json, false).starts_with("[\n  {\n    \"name\": \"db\","));
    assert_eq!(output(Format::Json, false).text(&7, |_| Page::new(), true), "7\n");
    assert_eq!(output(Format::Yaml, false).text(&7, |_| Page::new(), true), "---\n7\n");
}

#[test]
fn names_are_those_of_the_first_thing_unless_others_are_given() {
    let facts = Page::new().line("x").facts([("name", "db".to_owned()), ("id", "7".to_owned())]);
    assert_eq!(facts.names(), ["db"]);
    assert_eq!(facts.name("other").names(), ["other"]);
    assert!(Page::new().line("done").names().is_empty());
}

#[test]
fn yaml_says_what_json_says() {
    let value = json!({
        "empty": {}, "list": [], "none": null, "on": "on", "text": "a: b # c", "version": "1.0", "path": "/dev/nvme0n1", "lines": "a\nb",
        "nested": {"deep": [[1, 2], {"x": true, "y": ["z"]}]}, "": "", "-": "- x", "nqn": "nqn.2014-08.org:x"
    });
    let text = "\"\": \"\"\n\"-\": \"- x\"\nempty: {}\nlines: \"a\\nb\"\nlist: []\nnested:\n  deep:\n    - - 1\n      - 2\n    - x: true\n      \"y\":\n        - z\n\
                none: null\nnqn: \"nqn.2014-08.org:x\"\n\"on\": \"on\"\npath: /dev/nvme0n1\ntext: \"a: b # c\"\nversion: \"1.0\"\n";
    assert_eq!(yaml(&value), text);
    assert_eq!((yaml(&json!([])).as_str(), yaml(&json!("x")).as_str()), ("[]\n", "x\n"));
}

#[test]
fn colours_are_for_terminals_that_want_them() {
    let of = |terminal, no_color: Option<&str>, term: &str| wants_colour(terminal, no_color.map(OsStr::new), Some(OsStr::new(term)));
    assert!(of(true, None, "xterm") && of(true, Some(""), "xterm"));
    assert!(!of(false, None, "xterm") && !of(true, Some("1"), "xterm") && !of(true, None, "dumb"));
}
