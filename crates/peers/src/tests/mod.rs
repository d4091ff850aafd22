//! Whole halves on sockets: two nodes, and others who are none.

mod control_tests;
mod loopback_tests;
mod open_tests;
mod promise_tests;
mod rig;
mod trust_tests;
