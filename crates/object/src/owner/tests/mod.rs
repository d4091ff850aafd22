//! The owner's machine in a modelled world, and each of its transitions.

mod copies;
mod fan;
mod judge;
mod lockstep;
mod machine;
mod random;
mod world;
