//! What a person on a terminal is asked before a command destroys something or cuts hosts off.
//!
//! Invariant: a question names what would be lost; where nothing would be, nobody is asked. Scripts see no question.

use crate::{
    cli::{ChapArgs, DhchapArgs, RestoreFrom, TlsArgs},
    client::Failure,
    commands::Done,
};
use control::api::types::{Host, Protocol, RecoveredCopy, Recovery, Subsystem, SubsystemChange, Volume};
use std::io::{IsTerminal, Write};

/// What becomes of a host without its secrets, and of one that wants proof from this end.
const WITHOUT_PROOF: &str = "Subsystems that want proof refuse it then; others believe its name.";
const WITHOUT_OUR_PROOF: &str = "A host that wants proof from this end refuses to connect then.";
/// What becomes of a host whose secret is another one.
const WITH_THE_OLD: &str = "With the old one it cannot connect again.";
const WITH_OUR_OLD: &str = "A host that still wants proof of the old one refuses to connect then.";

/// Asks a person; scripts are taken at their word.
///
/// # Errors
///
/// They do not want it: nothing is to be done.
pub fn confirm(yes: bool, question: &str) -> Done {
    confirm_if(yes, || Ok(Some(question.to_owned())))
}

/// As [`confirm`], with a question that depends on how things are: it is looked for only where somebody can be asked.
/// `None`: nothing is lost.
///
/// # Errors
///
/// As there, and those of `question`.
pub fn confirm_if(yes: bool, question: impl FnOnce() -> Result<Option<String>, Failure>) -> Done {
    if yes || !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Ok(());
    }
    let Some(question) = question()? else { return Ok(()) };
    eprint!("{question} [y/N] ");
    let _ = std::io::stderr().flush();
    let mut answer = String::new();
    let _ = std::io::stdin().read_line(&mut answer);
    if matches!(answer.trim(), "y" | "Y" | "yes") { Ok(()) } else { Err(Failure::Local("nothing was done".into())) }
}

/// What to ask before a volume becomes read-only, if hosts may write to it now.
pub fn of_read_only(now: &Volume) -> Option<String> {
    let (name, names) = (&now.name, now.attachments.iter().map(|a| a.subsystem.as_str()).collect::<Vec<_>>().join(", "));
    (!now.read_only && !now.attachments.is_empty())
        .then(|| format!("Refuse all writes to volume {name} from now on, also of hosts that use it (subsystem {names})?"))
}

/// What to ask before the directory of a node becomes another one.
pub fn of_restore(from: &RestoreFrom) -> String {
    match from {
        RestoreFrom { own: true, .. } => {
            "Make a directory of what this node's member of etcd has stored? What the others had agreed on without it is lost, and they must not come back.".into()
        }
        RestoreFrom { from: Some(at), .. } => format!("Give up the directory that this node has, and take the restored one at {at}?"),
        RestoreFrom { external: true, .. } => {
            "Take the external etcd as it is now for the restored directory? What was changed after its backup is lost.".into()
        }
        _ => "Put what the backup says in the place of this node's directory? What was changed after it is lost.".into(),
    }
}

/// What to ask before a volume goes on with what is left of it.
pub fn of_recovery(plan: &Recovery) -> String {
    let of = |what: RecoveredCopy| {
        let nodes: std::collections::BTreeSet<&str> = plan.copies.iter().filter(|c| c.becomes == what).map(|c| c.node.as_str()).collect();
        nodes.into_iter().collect::<Vec<_>>().join(", ")
    };
    let losses: String = plan.losses.iter().map(|loss| format!("  {loss}\n")).collect();
    let gone = of(RecoveredCopy::GivenUp);
    let off = if gone.is_empty() { String::new() } else { format!(" What node {gone} has of it is given up.") };
    format!("{losses}Go on with what node {} has of volume {}?{off}", of(RecoveredCopy::Kept), plan.volume)
}

/// What to ask before a change of a subsystem, if it disconnects hosts.
pub fn of_subsystem(now: &Subsystem, change: &SubsystemChange) -> Option<String> {
    let name = &now.name;
    let (security, iqn) = (change.security.map(base::Security::from), change.iqn.as_ref());
    let less = match security.filter(|security| *security > now.security.into()) {
        None => None,
        Some(base::Security::Encrypted) => Some(format!("Disconnect the hosts of subsystem {name} that are not encrypted?")),
        Some(_) => Some(format!("Disconnect the hosts of subsystem {name} that have not proved who they are?")),
    };
    let served = now.iqn.as_ref();
    let iscsi = match served {
        Some(_) if change.iscsi == Some(false) => Some(format!("Disconnect the hosts of subsystem {name} that use it over iSCSI?")),
        Some(old) if iqn.is_some_and(|new| new != old) => {
            Some(format!("Disconnect the hosts of subsystem {name} that use it over iSCSI, and take the name {old} away?"))
        }
        _ => None,
    };
    let all: Vec<String> = less.into_iter().chain(iscsi).collect();
    (!all.is_empty()).then(|| all.join(" "))
}

/// What to ask before a change of what a host proves itself with, if it may be refused then. `name` is how it was called,
/// `key_for` the NQN of the subsystem that a key for TLS is for; `None`: for all.
pub fn of_host(name: &str, now: &Host, dhchap: &DhchapArgs, tls: &TlsArgs, key_for: Option<&str>, chap: &ChapArgs) -> Option<String> {
    let connected = |protocol| now.sessions.iter().any(|s| s.protocol == protocol);
    let mut all = Vec::new();
    let mut ask = |when: bool, question: String| all.extend(when.then_some(question));

    ask(dhchap.no_dhchap, format!("Take all DH-HMAC-CHAP secrets of host {name} away? {WITHOUT_PROOF}"));
    ask(dhchap.no_dhchap_controller, format!("Take the controller's secret for host {name} away? {WITHOUT_OUR_PROOF}"));
    if dhchap.dhchap_secret_file.is_some() || dhchap.dhchap_generate || dhchap.dhchap_secret_path.is_some() {
        ask(now.dhchap.is_some(), format!("Replace the DH-HMAC-CHAP secret of host {name}? {WITH_THE_OLD}"));
        let first = now.dhchap.is_none() && connected(Protocol::NvmeTcp);
        ask(first, format!("Let host {name}, which is connected, connect again only with a DH-HMAC-CHAP secret?"));
    }
    if dhchap.dhchap_controller_secret_file.is_some() || dhchap.dhchap_controller_generate || dhchap.dhchap_controller_secret_path.is_some()
    {
        let old = now.dhchap.as_ref().is_some_and(|d| d.controller_secret.is_some());
        ask(old, format!("Replace the controller's secret for host {name}? {WITH_OUR_OLD}"));
    }

    ask(tls.no_tls_psk, format!("Take all TLS keys of host {name} away? It gets no connection over TLS then."));
    if tls.tls_psk_file.is_some() || tls.tls_psk_generate || tls.tls_psk_path.is_some() {
        let old = now.tls_psks.iter().any(|key| key.subsystem.as_deref() == key_for);
        ask(old, format!("Replace the TLS key of host {name}? {WITH_THE_OLD}"));
    }

    let (user, target_user) = (now.chap.as_ref().map(|c| &c.user), now.chap.as_ref().and_then(|c| c.target_user.as_ref()));
    ask(chap.no_chap, format!("Take the CHAP secrets of host {name} away? {WITHOUT_PROOF}"));
    ask(chap.no_chap_target, format!("Take the targets' CHAP secret for host {name} away? {WITHOUT_OUR_PROOF}"));
    if chap.chap_secret_file.is_some() || chap.chap_generate || chap.chap_secret_path.is_some() {
        ask(now.chap.is_some(), format!("Replace the CHAP secret of host {name}? {WITH_THE_OLD}"));
        let first = now.chap.is_none() && connected(Protocol::Iscsi);
        ask(first, format!("Let host {name}, which is connected, connect again only with a CHAP secret?"));
    }
    if chap.chap_target_secret_file.is_some() || chap.chap_target_generate || chap.chap_target_secret_path.is_some() {
        let old = now.chap.as_ref().is_some_and(|c| c.target_secret.is_some());
        ask(old, format!("Replace the targets' CHAP secret for host {name}? {WITH_OUR_OLD}"));
    }
    let differs = |old: Option<&String>, new: &Option<String>| old.is_some_and(|old| new.as_ref().is_some_and(|new| new != old));
    ask(differs(user, &chap.chap_user), format!("Replace the CHAP user name of host {name}? {WITH_THE_OLD}"));
    ask(differs(target_user, &chap.chap_target_user), format!("Replace the targets' CHAP user name for host {name}? {WITH_OUR_OLD}"));
    (!all.is_empty()).then(|| all.join(" "))
}

#[cfg(test)]
#[path = "questions_tests.rs"]
mod tests;
