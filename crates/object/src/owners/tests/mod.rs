//! The host of owners, with real machines of owners and grants, among modelled copies, links and a modelled directory.

mod balance;
mod host;
mod many;
mod random;
mod world;
