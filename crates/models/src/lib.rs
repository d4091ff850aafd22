//! Models of Basalt's protocols, explored in every order of events within small bounds.
//!
//! Owns: the explorer ([`explore`]); the model of the replica protocol ([`replica`]), which `docs/replication.md` describes.
//! Invariant: a model is a function of its state: no clock, chance or input.
//! Never: part of a production binary.

#![forbid(unsafe_code)]

pub mod explore;
pub mod replica;
