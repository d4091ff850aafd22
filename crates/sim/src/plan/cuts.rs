//! The cuts that make a plan smaller.
//!
//! Invariant: a cut changes nothing else of the plan.

use super::parts::{OpKind, Plan};
use std::fmt;
use std::str::FromStr;

/// What is left out of a plan, to find what a failure needs: `lives=2,ops=40,no=trim+copy,nofaults,clients=1`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cuts {
    /// So many lives only.
    pub lives: Option<usize>,
    /// So many operations in each life only.
    pub ops: Option<u64>,
    /// So many clients only.
    pub clients: Option<usize>,
    /// All clients speak NVMe/TCP.
    pub nvme: bool,
    /// So many commands in flight on a queue only.
    pub depth: Option<u16>,
    /// Kinds of operations that do not come.
    pub without: Vec<String>,
    /// Faults that do not come, by their number in the order of the plan.
    pub without_faults: Vec<usize>,
    /// So many of the operator's acts in each life only.
    pub acts: Option<usize>,
}

impl Plan {
    /// The plan without what is cut.
    pub fn cut(mut self, cuts: &Cuts) -> Plan {
        self.lives.truncate(cuts.lives.unwrap_or(usize::MAX));
        self.clients.truncate(cuts.clients.unwrap_or(usize::MAX).max(1));
        for client in &mut self.clients {
            client.iscsi &= !cuts.nvme;
            client.depth = client.depth.min(cuts.depth.unwrap_or(u16::MAX)).max(1);
        }
        self.mix.retain(|(kind, _)| !cuts.without.contains(&kind.name()));
        let mut number = 0;
        for life in &mut self.lives {
            life.ops = life.ops.min(cuts.ops.unwrap_or(u64::MAX));
            life.acts.truncate(cuts.acts.unwrap_or(usize::MAX));
            life.faults.retain(|_| {
                number += 1;
                !cuts.without_faults.contains(&(number - 1))
            });
        }
        self
    }
}

impl fmt::Display for Cuts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        parts.extend(self.lives.map(|n| format!("lives={n}")));
        parts.extend(self.ops.map(|n| format!("ops={n}")));
        parts.extend(self.clients.map(|n| format!("clients={n}")));
        parts.extend(self.depth.map(|n| format!("depth={n}")));
        parts.extend(self.nvme.then(|| "iscsi=0".to_owned()));
        parts.extend((!self.without.is_empty()).then(|| format!("no={}", self.without.join("+"))));
        parts.extend(self.acts.map(|n| format!("acts={n}")));
        let faults: Vec<String> = self.without_faults.iter().map(usize::to_string).collect();
        parts.extend((!faults.is_empty()).then(|| format!("nofaults={}", faults.join("+"))));
        f.write_str(&parts.join(","))
    }
}

impl FromStr for Cuts {
    type Err = String;
    fn from_str(text: &str) -> Result<Cuts, String> {
        let mut cuts = Cuts::default();
        for part in text.split(',').filter(|p| !p.is_empty()) {
            let (name, value) = part.split_once('=').ok_or_else(|| format!("'{part}' is not NAME=VALUE"))?;
            let number = || value.parse::<u64>().map_err(|_| format!("'{value}' of '{name}' is not a number"));
            match name {
                "lives" => cuts.lives = Some(number()? as usize),
                "ops" => cuts.ops = Some(number()?),
                "acts" => cuts.acts = Some(number()? as usize),
                "clients" => cuts.clients = Some(number()? as usize),
                "depth" => cuts.depth = Some(number()? as u16),
                "iscsi" if value == "0" => cuts.nvme = true,
                "no" => {
                    cuts.without = value.split('+').map(str::to_owned).collect();
                    if let Some(unknown) = cuts.without.iter().find(|w| !OpKind::all().any(|k| k.name() == **w)) {
                        return Err(format!("there is no operation '{unknown}'"));
                    }
                }
                "nofaults" => {
                    let all: Result<_, _> =
                        value.split('+').map(|n| n.parse().map_err(|_| format!("'{n}' is not the number of a fault"))).collect();
                    cuts.without_faults = all?;
                }
                _ => return Err(format!("there is no cut '{part}': lives, ops, acts, clients, depth, no, nofaults, iscsi=0")),
            }
        }
        Ok(cuts)
    }
}
