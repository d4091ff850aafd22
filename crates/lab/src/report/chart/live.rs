//! The data of a chart for the library that draws it in a browser (uPlot), and that library with what hands the data over.
//!
//! Owns: `live.js`, the pinned files in `uplot/`, the JSON between them.
//! Invariants: what is handed over is what the static picture shows; no text of it can end its element; the scripts are constant, so a page can allow
//! just these by their hash.
//! Never: loads anything.

use super::Drawing;

/// uPlot 1.6.32, as its package has it (`docs/dependencies.md`).
pub const LIBRARY: &str = include_str!("../uplot/uPlot.iife.min.js");
/// Its style sheet.
pub const STYLE: &str = include_str!("../uplot/uPlot.min.css");
/// Its licence, which goes with each copy.
pub const LICENCE: &str = include_str!("../uplot/LICENSE");
/// What hands the data to it.
pub const GLUE: &str = include_str!("live.js");

impl Drawing<'_> {
    /// The JSON that `live.js` reads; safe within a `<script>` element.
    pub fn data(&self) -> String {
        let json = serde_json::to_string(self).expect("plain structures become JSON");
        json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
    }
}

#[cfg(test)]
#[path = "live_tests.rs"]
mod tests;
