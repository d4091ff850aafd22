//! Every kind of report in Chromium, at the width of a screen and of a phone, light, dark, on paper and without scripts: what is really drawn, and what
//! pointer, zoom and legend do.
//!
//! Without Chromium (`CHROMIUM` names another program than `chromium`) nothing is looked at, which fails where `CI` is set.
//! `BASALT_LAB_EXAMPLES=FOLDER` keeps pictures there; with `BASALT_LAB_PAGES=FOLDER` the reports of the runs in it are made anew and looked at instead.

use super::{example, text, write_all};
use crate::results::{Measured, Record};
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

/// A browser, where there is one.
fn browser() -> Option<Browser> {
    let name = std::env::var_os("CHROMIUM").map_or_else(|| PathBuf::from("chromium"), PathBuf::from);
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&paths).map(|dir| dir.join(&name)).find(|path| path.is_file());
    if found.is_none() {
        assert!(std::env::var_os("CI").is_none_or(|v| v.is_empty()), "no {}: CI needs it (scripts/setup test)", name.display());
        eprintln!("skipped: there is no {} here; no report is looked at in a browser (scripts/setup test installs it)", name.display());
    }
    found.map(|program| Browser::start(&program))
}

/// The page of a run, in a folder that goes with the first of the two.
fn page((record, cases): (Record, Vec<Measured>)) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    example::write(dir.path(), &record, &cases);
    write_all(dir.path()).unwrap();
    let path = dir.path().join("report.html");
    (dir, path)
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

    /// Waits until what was changed is drawn.
    fn frames(&mut self) {
        self.ask("new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(() => requestAnimationFrame(r))))");
    }

    /// `what` the pointer does at a place of the window, which counts as the `click`th of a row.
    fn pointer(&mut self, what: &str, (x, y): (f64, f64), click: u32) {
        let down = what != "mouseMoved" || click > 0;
        let button = if down { "left" } else { "none" };
        let event = json!({"type": what, "x": x, "y": y, "button": button, "buttons": u32::from(down), "clickCount": click});
        self.call("Input.dispatchMouseEvent", event);
    }
    fn hover(&mut self, at: (f64, f64)) {
        self.pointer("mouseMoved", at, 0);
        self.frames();
    }
    fn click(&mut self, at: (f64, f64), times: u32) {
        self.pointer("mouseMoved", at, 0);
        for n in 1..=times {
            self.pointer("mousePressed", at, n);
            self.pointer("mouseReleased", at, n);
        }
        self.frames();
    }
    fn drag(&mut self, from: (f64, f64), to: (f64, f64)) {
        self.pointer("mouseMoved", from, 0);
        self.pointer("mousePressed", from, 1);
        for n in 1..=8 {
            let part = f64::from(n) / 8.0;
            self.pointer("mouseMoved", (from.0 + (to.0 - from.0) * part, from.1 + (to.1 - from.1) * part), 1);
        }
        self.pointer("mouseReleased", to, 1);
        self.frames();
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

/// Waits for the charts, then says what is wrong with what is drawn: nothing is wider than the window or its figure; a chart has a canvas for each
/// panel and no static picture; no text is cut at an edge of its canvas; each series has pixels of its colour, unless another lies on it.
const LIVE: &str = r#"(async () => {
  const figures = Array.from(document.querySelectorAll("figure"));
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
  const near = (a, b) => Math.abs(a - b) <= 0.01 * Math.max(Math.abs(a), Math.abs(b));
  // Of a series, what is to be seen of it: its points, or the ends of its bars.
  const ends = (s) => s.points || s.values.map((v, i) => [i, v ? v.at : null]);
  const same = (s, t) => ends(s).length === ends(t).length && ends(s).every((p, i) => near(p[0], ends(t)[i][0]) && near(p[1], ends(t)[i][1]));
  for (const f of figures) {
    const title = f.querySelector("h3").textContent;
    const chart = JSON.parse(f.querySelector("script").textContent);
    const panels = chart.panels || [chart];
    const all = f.querySelectorAll("canvas");
    if (all.length !== panels.length) { wrong.push(title + ": " + all.length + " of " + panels.length + " panels are drawn"); continue; }
    if (Array.from(f.querySelectorAll(":scope > svg, .legend")).some((s) => s.getBoundingClientRect().width > 0)) wrong.push(title + ": a static picture beside the live one");
    const edge = f.getBoundingClientRect().right;
    if (Array.from(f.querySelectorAll(".live, .live *")).some((e) => e.getBoundingClientRect().right > edge + 0.5)) wrong.push(title + ": wider than its frame");
    all.forEach((c, n) => {
      const w = c.width, h = c.height, d = c.getContext("2d").getImageData(0, 0, w, h).data;
      const ink = (x, y) => d[(y * w + x) * 4 + 3] > 60;
      let cut = false;
      for (let y = 0; y < h; y++) cut = cut || ink(0, y) || ink(w - 1, y);
      for (let x = 0; x < w; x++) cut = cut || ink(x, 0) || ink(x, h - 1);
      if (cut) wrong.push(title + ", panel " + n + ": something is cut at an edge");
      for (const [k, s] of panels[n].series.entries()) {
        // A line that lies below another, and a bar of no length, are not seen.
        if (chart.panels ? panels[n].series.slice(k + 1).some((t) => same(s, t)) : ends(s).every((e) => e[1] === null || near(e[1], chart.from))) continue;
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

/// Of paper, and of a page without scripts: each chart has its static picture with all of its texts, and nothing live.
const STILL: &str = r#"(() => {
  document.querySelectorAll("details").forEach((d) => { d.open = true; });
  const wrong = [], wide = document.documentElement.scrollWidth;
  // Paper is as wide as what is printed, up to a factor.
  if (matchMedia("screen").matches && wide > innerWidth) wrong.push("the page is " + wide + " pixels wide in a window of " + innerWidth);
  for (const f of document.querySelectorAll("figure")) {
    const seen = (e) => e.getBoundingClientRect().width > 0;
    const title = f.querySelector("h3").textContent, still = Array.from(f.querySelectorAll(":scope > svg")).filter(seen);
    if (still.length !== 1 || Array.from(f.querySelectorAll("canvas")).some(seen)) { wrong.push(title + ": " + still.length + " static pictures"); continue; }
    const frame = still[0].getBoundingClientRect();
    for (const t of still[0].querySelectorAll("text")) {
      const b = t.getBoundingClientRect();
      if (b.left < frame.left - 1 || b.right > frame.right + 1 || b.top < frame.top - 2 || b.bottom > frame.bottom + 2) wrong.push(title + ": cut: " + t.textContent);
    }
  }
  return wrong;
})()"#;

/// What a chart shows at this moment: where its data lie in the window, the range of the axis that can be zoomed, the texts of its legend, pixels of
/// the colour of each series, and where a click switches it off. `TITLE` is its headline.
const STATE: &str = r#"(() => {
  const f = Array.from(document.querySelectorAll("figure")).find((f) => f.querySelector("h3").textContent === TITLE), u = f.plots[0];
  f.scrollIntoView({ block: "center", behavior: "instant" });
  const chart = JSON.parse(f.querySelector("script").textContent), c = f.querySelector("canvas"), d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
  const over = f.querySelector(".u-over").getBoundingClientRect(), s = u.scales[chart.panels ? "x" : "y"];
  const probe = document.createElement("canvas").getContext("2d");
  const pixels = (chart.panels ? chart.panels[0] : chart).series.map((one) => {
    probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--s" + one.look).trim();
    probe.fillRect(0, 0, 1, 1);
    const [r, g, b] = probe.getImageData(0, 0, 1, 1).data;
    let seen = 0;
    for (let i = 0; i < d.length; i += 4) if (d[i + 3] > 150 && Math.abs(d[i] - r) + Math.abs(d[i + 1] - g) + Math.abs(d[i + 2] - b) < 40) seen++;
    return seen;
  });
  const rows = Array.from(f.querySelectorAll(".u-legend .u-series"));
  return {
    over: [over.left, over.top, over.width, over.height],
    range: [s.min, s.max],
    across: u.data[0].map((v) => u.valToPos(v, "x")),
    legend: rows.map((r) => [r.querySelector(".u-label").textContent, r.querySelector(".u-value").textContent]),
    ticks: u.axes[chart.panels ? 0 : 1]._values,
    labels: rows.map((r) => { const b = r.querySelector("th").getBoundingClientRect(); return [b.left + b.width / 2, b.top + b.height / 2]; }),
    pixels, chart,
  };
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
    for (width, place) in [(1280, "screen"), (390, "phone")] {
        browser.open(page, width);
        let still = browser.ask(STILL);
        say(&format!("{place}, without scripts"), &still);
        if let Some(folder) = keep {
            browser.picture(&folder.join(format!("{name}-{place}-still.png")));
        }
    }
    browser.call("Emulation.setScriptExecutionDisabled", json!({"value": false}));
    wrong
}

#[test]
fn every_kind_of_report_is_drawn_whole_in_a_browser() {
    let Some(mut browser) = browser() else { return };
    let keep = std::env::var_os("BASALT_LAB_EXAMPLES").map(PathBuf::from);
    if let Some(folder) = &keep {
        std::fs::create_dir_all(folder).unwrap();
    }
    let mut wrong = Vec::new();
    if let Some(folder) = std::env::var_os("BASALT_LAB_PAGES") {
        for run in std::fs::read_dir(folder).unwrap().flatten() {
            let name = run.file_name().to_string_lossy().into_owned();
            write_all(&run.path()).unwrap();
            wrong.extend(look(&mut browser, &run.path().join("report.html"), &name, keep.as_deref()));
        }
    } else {
        for (name, run) in example::all() {
            let (_dir, page) = page(run);
            wrong.extend(look(&mut browser, &page, name, keep.as_deref()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What a chart shows now.
fn state(browser: &mut Browser, title: &str) -> Value {
    browser.frames();
    browser.ask(&STATE.replace("TITLE", &json!(title).to_string()))
}

fn floats(list: &Value) -> Vec<f64> {
    list.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
}

/// Drags over a third of a chart, then double-clicks: the axis narrows to what was dragged over, and is whole again.
fn zoom(browser: &mut Browser, title: &str, axis: &Value) {
    let before = state(browser, title);
    let (over, whole) = (floats(&before["over"]), floats(&before["range"]));
    assert_eq!(whole, [axis["lo"].as_f64().unwrap(), axis["hi"].as_f64().unwrap()]);
    let at = |part: f64| (over[0] + over[2] * part, over[1] + over[3] / 2.0);
    browser.drag(at(0.3), at(0.6));
    let near = state(browser, title);
    for (end, part) in floats(&near["range"]).into_iter().zip([0.3, 0.6]) {
        let (asked, a_pixel) = (whole[0] + (whole[1] - whole[0]) * part, (whole[1] - whole[0]) / over[2]);
        assert!((end - asked).abs() < 2.0 * a_pixel, "{title}: {asked} was asked for: {}", near["range"]);
    }
    assert_ne!(near["ticks"], before["ticks"], "{title}: a part of an axis has ticks of its own");
    assert!(near["ticks"].as_array().unwrap().iter().filter(|t| t.as_str().is_some_and(|t| !t.is_empty())).count() >= 2, "{near}");
    browser.click(at(0.5), 2);
    let after = state(browser, title);
    assert_eq!((&after["range"], &after["ticks"]), (&before["range"], &before["ticks"]), "{title}: a double click");
}

/// Clicks on a series in the legend: it vanishes, the others stay; once more, and it is back.
fn switch(browser: &mut Browser, title: &str, series: usize) {
    // Off the chart: values in the legend move what stands behind them.
    browser.hover((1.0, 1.0));
    let before = floats(&state(browser, title)["pixels"]);
    let mut press = || {
        let label = floats(&state(browser, title)["labels"][series + 1]);
        browser.click((label[0], label[1]), 1);
        // Away from the legend: it sets off the series under the pointer.
        browser.hover((1.0, 1.0));
        floats(&state(browser, title)["pixels"])
    };
    let off = press();
    for (n, (before, off)) in before.iter().zip(&off).enumerate() {
        assert!(*before > 4.0, "{title}: series {n} is not there");
        assert_eq!(n == series, *off < 4.0, "{title}: series {series} was switched off, {n} has {off} pixels");
    }
    assert!(press().iter().all(|n| *n > 4.0), "{title}: all are back");
}

#[test]
fn a_line_chart_has_values_under_the_pointer_zoom_and_series_to_switch_off() {
    let Some(mut browser) = browser() else { return };
    let (_dir, page) = page(example::curve());
    browser.open(&page, 1280);
    browser.ask(LIVE);
    let title = "Latency against throughput";
    let first = state(&mut browser, title);
    let (over, across, chart) = (floats(&first["over"]), floats(&first["across"]), &first["chart"]);
    let series = chart["panels"][0]["series"].as_array().unwrap();
    assert_eq!((across.len(), series.len()), (10, 4));
    let mut points: Vec<Vec<f64>> = series[0]["points"].as_array().unwrap().iter().map(floats).collect();
    points.sort_by(|a, b| a[0].total_cmp(&b[0]));
    for (x, point) in across.iter().zip(&points) {
        browser.hover((over[0] + x, over[1] + over[3] / 3.0));
        let legend = state(&mut browser, title)["legend"].clone();
        assert_eq!(legend[0], json!([chart["x"]["title"], text::number(point[0])]));
        for (n, s) in series.iter().enumerate() {
            // As the tables write them.
            let of = s["points"].as_array().unwrap().iter().map(floats).find(|p| p[0] == point[0]).unwrap();
            assert_eq!(legend[n + 1], json!([s["name"], text::number(of[1])]));
        }
    }
    browser.hover((1.0, 1.0));
    assert_eq!(state(&mut browser, title)["legend"][1][1], "–");
    zoom(&mut browser, title, &chart["x"]);
    switch(&mut browser, title, 2);
}

#[test]
fn bars_have_values_under_the_pointer_zoom_and_series_to_switch_off() {
    let Some(mut browser) = browser() else { return };
    let (_dir, page) = page(example::compare());
    browser.open(&page, 1280);
    browser.ask(LIVE);
    let title = "Operations a second of both systems";
    let first = state(&mut browser, title);
    let (over, across, chart) = (floats(&first["over"]), floats(&first["across"]), &first["chart"]);
    assert_eq!((across.len(), chart["names"].as_array().unwrap().len()), (2, 2));
    for (n, y) in across.iter().enumerate() {
        browser.hover((over[0] + over[2] / 4.0, over[1] + y));
        let legend = state(&mut browser, title)["legend"].clone();
        let value = |s: usize| json!([chart["series"][s]["name"], chart["series"][s]["values"][n]["text"]]);
        assert_eq!(legend, json!([["case", chart["names"][n]], value(0), value(1)]));
    }
    browser.hover((1.0, 1.0));
    assert_eq!(state(&mut browser, title)["legend"][1][1], "–");
    zoom(&mut browser, title, &chart["x"]);
    switch(&mut browser, title, 1);
}
