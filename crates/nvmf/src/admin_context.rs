//! What admin commands and the pages that controllers show of themselves look at: the time, what is served, what the cores share. And what of
//! it a controller's host may see.
//!
//! Never: changes anything.

use crate::controller::Controller;
use crate::shared::TargetShared;
use crate::view::{Namespace, SubsystemView, View};
use base::Instant;

/// What a command may look at.
pub struct AdminCx<'a> {
    /// The time.
    pub now: Instant,
    /// What is served.
    pub view: &'a View,
    /// Listeners, and the controllers of all cores.
    pub shared: &'a TargetShared,
}

impl<'a> AdminCx<'a> {
    /// The subsystem of a controller, while it is served.
    pub(crate) fn subsystem_of(&self, c: &Controller) -> Option<&'a SubsystemView> {
        self.view.subsystem(&c.shared.subsystem)
    }
    /// The namespaces that are attached to a controller: those that its host sees.
    pub(crate) fn attached(&self, c: &Controller) -> Vec<Namespace> {
        self.subsystem_of(c).map_or(Vec::new(), |s| self.view.namespaces(s, &c.shared.host_nqn))
    }
    /// The namespaces that exist, as far as the host may know: all, where hosts may manage them; otherwise those that it sees.
    pub(crate) fn allocated(&self, c: &Controller) -> Vec<Namespace> {
        match self.subsystem_of(c) {
            Some(s) if s.manage_namespaces => self.view.allocated_namespaces(s),
            _ => self.attached(c),
        }
    }
    /// Whether hosts of the controller's subsystem may make, delete, attach, detach and format namespaces.
    pub(crate) fn may_manage(&self, c: &Controller) -> bool {
        self.subsystem_of(c).is_some_and(|s| s.manage_namespaces)
    }
}
