//! Every kind of report in Chromium, at the width of a screen and of a phone, light, dark, on paper and without scripts: what is really drawn.
//!
//! Without Chromium (`CHROMIUM` names another program than `chromium`) nothing is looked at. `BASALT_LAB_EXAMPLES=FOLDER` keeps pictures there;
//! `BASALT_LAB_PAGES=FOLDER` has the `report.html` of each folder in it looked at, too.

use super::{example, write_all};
use base64::Engine as _;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// A browser that says nothing for so long is hung.
const PATIENCE: Duration = Duration::from_secs(120);
/// A screen and a phone: their widths in CSS pixels, what they are called, and how they are set.
const LOOKS: [(u32, &str, &str); 3] = [(1280, "screen", "light"), (1280, "screen", "dark"), (390, "phone", "light")];

/// Chromium without a window, driven by its DevTools protocol over pipes.
struct Browser {
    process: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    id: u64,
    session: Option<String>,
    _profile: tempfile::TempDir,
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn chromium() -> Option<PathBuf> {
    let name = std::env::var_os("CHROMIUM").map_or_else(|| PathBuf::from("chromium"), PathBuf::from);
    let paths = std::env::var_os("PATH")?;
    std::env::split_paths(&paths).map(|dir| dir.join(&name)).find(|path| path.is_file())
}

impl Browser {
    fn start(program: &Path) -> Browser {
        let profile = tempfile::tempdir().unwrap();
        // It speaks on the descriptors 3 and 4.
        let mut command = Command::new("sh");
        command.args(["-c", r#"exec "$0" "$@" 3<&0 4>&1 0</dev/null 1>&2"#]).arg(program);
        command.args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--remote-debugging-pipe",
        ]);
        command.arg(format!("--user-data-dir={}", profile.path().display()));
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let (to, out) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let (sender, from) = channel();
        std::thread::spawn(move || {
            let mut out = BufReader::new(out);
            let mut message = Vec::new();
            while out.read_until(0, &mut message).is_ok_and(|n| n > 0) {
                message.pop();
                if sender.send(serde_json::from_slice(&message).unwrap_or_default()).is_err() {
                    break;
                }
                message.clear();
            }
        });
        let mut browser = Browser { process, to, from, id: 0, session: None, _profile: profile };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let session = browser.call("Target.attachToTarget", json!({"targetId": target["targetId"], "flatten": true}));
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        browser.call("Page.enable", json!({}));
        browser
    }

    fn next(&mut self) -> Value {
        self.from.recv_timeout(PATIENCE).expect("the browser answers")
    }

    fn call(&mut self, method: &str, params: Value) -> Value {
        self.id += 1;
        let mut message = json!({"id": self.id, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = session.clone().into();
        }
        self.to.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let answer = self.next();
            if answer["id"] == self.id {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].clone();
            }
        }
    }

    fn open(&mut self, page: &Path, width: u32) {
        let metrics = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", metrics);
        self.id += 1;
        let params = json!({"url": format!("file://{}", page.display())});
        let message = json!({"id": self.id, "method": "Page.navigate", "params": params, "sessionId": self.session});
        self.to.write_all(format!("{message}\0").as_bytes()).unwrap();
        while self.next()["method"] != "Page.loadEventFired" {}
    }

    fn media(&mut self, media: &str, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.call("Emulation.setEmulatedMedia", json!({"media": media, "features": features}));
    }

    /// What an expression comes to.
    fn ask(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let answer = self.call("Runtime.evaluate", params);
        assert!(answer["exceptionDetails"].is_null(), "{answer}");
        answer["result"]["value"].clone()
    }

    fn picture(&mut self, to: &Path) {
        let height = self.ask("Math.min(document.documentElement.scrollHeight, 6000)");
        let width = self.ask("innerWidth");
        let clip = json!({"x": 0, "y": 0, "width": width, "height": height, "scale": 1});
        let shot = self.call("Page.captureScreenshot", json!({"format": "png", "captureBeyondViewport": true, "clip": clip}));
        let bytes = base64::engine::general_purpose::STANDARD.decode(shot["data"].as_str().unwrap()).unwrap();
        std::fs::write(to, bytes).unwrap();
    }
}

/// Waits for the charts, then says what is wrong with what is drawn: nothing is wider than the window; a chart has a canvas for each panel and no
/// static picture; no text is cut at an edge of its canvas; each series has pixels of its colour, unless another lies on it.
const LIVE: &str = r#"(async () => {
  const figures = Array.from(document.querySelectorAll("figure")).filter((f) => f.querySelector("script"));
  document.querySelectorAll("details").forEach((d) => { d.open = true; });
  for (let n = 0; n < 400 && !figures.every((f) => f.classList.contains("drawn")); n++) await new Promise((r) => setTimeout(r, 25));
  await new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)));
  const wrong = [], probe = document.createElement("canvas").getContext("2d");
  const wide = document.documentElement.scrollWidth;
  if (wide > innerWidth) wrong.push("the page is " + wide + " pixels wide in a window of " + innerWidth);
  const colour = (look) => {
    probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--s" + look).trim();
    probe.fillRect(0, 0, 1, 1);
    return probe.getImageData(0, 0, 1, 1).data;
  };
  for (const f of figures) {
    const title = f.querySelector("h3").textContent;
    const chart = JSON.parse(f.querySelector("script").textContent);
    const all = f.querySelectorAll("canvas");
    if (all.length !== chart.panels.length) { wrong.push(title + ": " + all.length + " of " + chart.panels.length + " panels are drawn"); continue; }
    if (Array.from(f.querySelectorAll(":scope > svg")).some((s) => s.getBoundingClientRect().width > 0)) wrong.push(title + ": a static picture beside the live one");
    all.forEach((c, n) => {
      const w = c.width, h = c.height, d = c.getContext("2d").getImageData(0, 0, w, h).data;
      const ink = (x, y) => d[(y * w + x) * 4 + 3] > 60;
      let cut = false;
      for (let y = 0; y < h; y++) cut = cut || ink(0, y) || ink(w - 1, y);
      for (let x = 0; x < w; x++) cut = cut || ink(x, 0) || ink(x, h - 1);
      if (cut) wrong.push(title + ", panel " + n + ": something is cut at an edge");
      const near = (a, b) => Math.abs(a - b) <= 0.01 * Math.max(Math.abs(a), Math.abs(b));
      const same = (s, t) => s.points.length === t.points.length && s.points.every((p, i) => near(p[0], t.points[i][0]) && near(p[1], t.points[i][1]));
      for (const [k, s] of chart.panels[n].series.entries()) {
        // One that lies below another is not seen.
        if (chart.panels[n].series.slice(k + 1).some((t) => same(s, t))) continue;
        const [r, g, b] = colour(s.look);
        let seen = 0;
        for (let i = 0; i < d.length; i += 4)
          if (d[i + 3] > 150 && Math.abs(d[i] - r) + Math.abs(d[i + 1] - g) + Math.abs(d[i + 2] - b) < 40) seen++;
        if (seen < 4) wrong.push(title + ", panel " + n + ": nothing is drawn of " + s.name);
      }
    });
  }
  return [figures.length, wrong];
})()"#;

/// Of paper, and of a page without scripts: each chart has its static picture, and nothing live.
const STILL: &str = r#"(() => {
  document.querySelectorAll("details").forEach((d) => { d.open = true; });
  const wrong = [];
  for (const f of document.querySelectorAll("figure")) {
    const seen = (e) => e.getBoundingClientRect().width > 0;
    const still = Array.from(f.querySelectorAll(":scope > svg")).filter(seen).length;
    if (still !== 1 || Array.from(f.querySelectorAll("canvas")).some(seen)) wrong.push(f.querySelector("h3").textContent + ": " + still + " static pictures");
  }
  return wrong;
})()"#;

/// Brightness of the page, 0 to 255.
const BRIGHT: &str = "getComputedStyle(document.body).backgroundColor.match(/[0-9]+/g).slice(0, 3).reduce((a, b) => a + Number(b), 0) / 3";

/// All that is wrong with a page.
fn look(browser: &mut Browser, page: &Path, name: &str, keep: Option<&Path>) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut say = |what: &str, list: &Value| {
        wrong.extend(list.as_array().unwrap().iter().map(|w| format!("{name}, {what}: {}", w.as_str().unwrap_or_default())));
    };
    for (width, place, scheme) in LOOKS {
        browser.media("screen", scheme);
        browser.open(page, width);
        let live = browser.ask(LIVE);
        say(&format!("{place}, {scheme}"), &live[1]);
        let bright = browser.ask(BRIGHT).as_f64().unwrap();
        assert_eq!(scheme == "light", bright > 128.0, "{name}, {scheme}: {bright}");
        if let Some(folder) = keep {
            browser.picture(&folder.join(format!("{name}-{place}-{scheme}.png")));
        }
    }
    browser.media("print", "light");
    let paper = browser.ask(STILL);
    say("on paper", &paper);
    browser.media("screen", "light");
    browser.call("Emulation.setScriptExecutionDisabled", json!({"value": true}));
    browser.open(page, 1280);
    let still = browser.ask(STILL);
    say("without scripts", &still);
    browser.call("Emulation.setScriptExecutionDisabled", json!({"value": false}));
    wrong
}

#[test]
fn every_kind_of_report_is_drawn_whole_in_a_browser() {
    let Some(program) = chromium() else {
        eprintln!("not looked at: there is no chromium here");
        return;
    };
    let keep = std::env::var_os("BASALT_LAB_EXAMPLES").map(PathBuf::from);
    if let Some(folder) = &keep {
        std::fs::create_dir_all(folder).unwrap();
    }
    let mut browser = Browser::start(&program);
    let mut wrong = Vec::new();
    for (name, (record, cases)) in example::all() {
        let dir = tempfile::tempdir().unwrap();
        example::write(dir.path(), &record, &cases);
        write_all(dir.path()).unwrap();
        wrong.extend(look(&mut browser, &dir.path().join("report.html"), name, keep.as_deref()));
    }
    if let Some(folder) = std::env::var_os("BASALT_LAB_PAGES") {
        for run in std::fs::read_dir(folder).unwrap().flatten() {
            let name = run.file_name().to_string_lossy().into_owned();
            wrong.extend(look(&mut browser, &run.path().join("report.html"), &name, keep.as_deref()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
