//! The types of `dataplane` as the simulated node has them: its front end is NVMe/TCP.

/// The door for commands.
pub type CommandSender = dataplane::CommandSender<nvmf::Target>;
/// What a core is made from.
pub type CoreSeed = dataplane::CoreSeed<nvmf::Target>;
/// What is to be served.
pub type Desired = dataplane::Desired<nvmf::Desired>;
/// Figures of one core.
pub type CoreSnapshot = dataplane::CoreSnapshot<nvmf::Figures>;
/// Figures of the node.
pub type NodeStats = dataplane::NodeStats<nvmf::Figures>;
