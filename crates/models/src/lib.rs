//! Models of Basalt's protocols, explored in every order of events within small bounds.
//!
//! Owns: the explorer ([`explore`]); the model of the replica protocol ([`replica`]), which `docs/replication.md` describes; the judges of what hosts did with
//! one volume at the same time ([`history`]).
//! Invariant: a model is a function of its state: no clock, chance or input.
//! Never: part of a production binary.

#![forbid(unsafe_code)]

pub mod explore;
pub mod history;
pub mod replica;
