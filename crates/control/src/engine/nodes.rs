//! Nodes: the servers of the cluster, and what this one says of itself.
//!
//! Never: calls a server a host; that is who connects.

use super::*;
use crate::api::types as api;

impl Control {
    /// All nodes, by name.
    pub fn nodes(&self) -> Result<Vec<api::Node>, Problem> {
        let groups = self.directory.all::<GroupRecord>()?;
        let show = |n: Versioned<NodeRecord>| self.show_node(&n, &groups);
        Ok(self.directory.all::<NodeRecord>()?.into_iter().map(show).collect())
    }

    /// One node.
    pub fn node(&self, name: &str) -> Result<api::Node, Problem> {
        let record = self.directory.find::<NodeRecord>(name)?.ok_or_else(|| Problem::not_found("node", name, "node list"))?;
        Ok(self.show_node(&record, &self.directory.all::<GroupRecord>()?))
    }

    fn show_node(&self, node: &NodeRecord, groups: &[Versioned<GroupRecord>]) -> api::Node {
        let here = node.name == self.identity.node;
        let mut names: Vec<String> = groups.iter().filter(|g| g.node == node.name).map(|g| g.name.clone()).collect();
        names.sort();
        api::Node {
            name: node.name.clone(),
            fault_domain: node.fault_domain.clone(),
            answers: here,
            version: here.then(|| self.identity.version.clone()),
            cores: here.then_some(self.identity.cores as u32),
            groups: names,
            started_unix_s: here.then_some(self.started_unix_s),
            created_unix_s: node.created_unix_s,
        }
    }
}
