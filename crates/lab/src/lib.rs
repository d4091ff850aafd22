//! The lab: load on storage, measured the way its people do, and reports that explain what was measured. See `docs/lab.md`.
//!
//! Owns: what a load is ([`workload`]), what puts it on storage ([`engine`]), also from several machines ([`agent`]), what is measured ([`measure`]), how measurements make a
//! run ([`run`]), the folder that keeps them ([`results`]), what is shown of them ([`report`]), loads of other tools ([`import`]),
//! and verified load on an NVMe/TCP namespace, for tests ([`verified`]).
//! Invariants: a result is a file before it is a report; percentiles come from merged histograms, never from averages of
//! percentiles; nothing that holds data is written unless that was said in so many words.
//! Never: part of the data plane; knows how Basalt works inside. Models and the published studies are in `studies`, which brings them in
//! through [`engine::open::Models`].
#![forbid(unsafe_code)]
// A tool: threads, files and clocks of the standard library are what it is made of.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod agent;
pub mod engine;
pub mod error;
pub mod import;
mod lock;
pub mod measure;
pub mod report;
pub mod results;
pub mod run;
pub mod verified;
pub mod workload;

pub use error::LabError;
