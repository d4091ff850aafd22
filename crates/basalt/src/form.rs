//! The commands that form and change a cluster.

use crate::output::{Output, Page};
use crate::table::size;
use crate::{
    cli::{ClusterCommand, EtcdArgs, JoinArgs, NodeCommand, RestoreFrom},
    client::{Client, Failure, part},
    commands::{Done, Session},
    questions::confirm,
    show,
};
use control::{
    Code, Problem,
    api::types::*,
    config::Config,
    formation::{self, Home, MembershipFile},
};
use std::io::Read;
use std::{
    fs::File,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// How long the daemon may take to start itself anew.
const RESTART_MAX: Duration = Duration::from_secs(120);
/// It is looked for that often.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The largest file of certificates that is read, in bytes.
const PEM_BYTES_MAX: u64 = 256 << 10;

/// What the command line says of an external etcd, with its files read here; `None`: nothing.
fn etcd(args: &EtcdArgs) -> Result<Option<EtcdSettings>, Failure> {
    let read = |path: &PathBuf| {
        let mut text = String::new();
        let done = File::open(path).and_then(|f| f.take(PEM_BYTES_MAX).read_to_string(&mut text));
        done.map(|_| text).map_err(|e| Failure::Local(format!("{}: {e}", path.display())))
    };
    let settings = EtcdSettings {
        endpoints: args.etcd_endpoints.clone(),
        authority: args.etcd_ca.as_ref().map(read).transpose()?,
        certificate: args.etcd_cert.as_ref().map(read).transpose()?,
        key: args.etcd_key.as_ref().map(read).transpose()?.map(SecretText::new),
    };
    Ok((settings != EtcdSettings::default()).then_some(settings))
}

/// `basalt cluster ..`.
pub fn cluster(session: &Session, command: ClusterCommand) -> Done {
    match command {
        ClusterCommand::Create { address, name, etcd: args } => {
            let new = NewCluster { address, name, etcd: etcd(&args)? };
            let formed: ClusterFormed = session.client.post("/cluster", &new)?;
            wait_formed(&session.client)?;
            session.print(&formed, |f| {
                let made = format!("cluster {} is made; its first node is {}, for other nodes at {}", f.cluster, f.node, f.address);
                Page::new().name(&f.cluster).line(made).line("next: 'basalt node invite' prints a token with which another server joins")
            });
            Ok(())
        }
        ClusterCommand::Set { etcd: args, this_node, .. } => {
            let change = ClusterChange { etcd: etcd(&args)?.unwrap_or_default(), this_node };
            let () = session.client.patch("/cluster", &change)?;
            let who = if this_node { "this node goes" } else { "this node goes, and the others go within seconds," };
            session.done(format!("{who} by the new settings of the external etcd ('basalt cluster status')"));
            Ok(())
        }
        ClusterCommand::Join(args) => join(session, args, false),
        ClusterCommand::Status => session.one("/cluster", |c: &Cluster| show::cluster(c, &session.out)),
        ClusterCommand::Backup { path } => {
            let backup: Backup = session.client.post("/cluster/backup", &NewBackup { path: path.display().to_string() })?;
            session.print(&backup, |b| Page::new().name(&b.path).line(format!("{}: {} of records, whole", b.path, size(b.bytes))));
            Ok(())
        }
        ClusterCommand::RenewMember => {
            let () = session.client.post("/cluster/member", &())?;
            session.done("this node has a new member of etcd; it votes when it has caught up ('basalt cluster status')".into());
            Ok(())
        }
        ClusterCommand::Restore { .. } => unreachable!("done without the daemon"),
    }
}

/// `basalt cluster restore`: without a daemon, whose data directory it locks.
pub fn restore(from: &RestoreFrom, config: &Path, out: &Output) -> Done {
    let RestoreFrom { path, own, from, external } = from;
    let fail = |e: &dyn std::fmt::Display| Failure::Local(e.to_string());
    let (config, _lock, home, file) = stopped(config)?;
    if *external {
        formation::accept_restored(&home, &file).map_err(Failure::Problem)?;
        out.done("this node takes the external etcd as it is now; do the same on each other node, then start the daemons");
    } else if *own || path.is_some() {
        let at = formation::restore(&home, &config.cluster.etcd_programs, file, path.as_deref()).map_err(|e| fail(&e))?;
        out.done(format!("the directory is restored; on each other node: basalt cluster restore --from {}", at.authority()));
    } else if let Some(from) = from {
        formation::follow_restored(&home, file, &format!("https://{from}")).map_err(|e| fail(&e))?;
        out.done(format!("this node goes to the restored directory at {from}; start its daemon, then: basalt cluster renew-member"));
    }
    Ok(())
}

/// `basalt cluster set --offline`: the same.
pub fn set_offline(args: &EtcdArgs, config: &Path, out: &Output) -> Done {
    let (_config, _lock, home, file) = stopped(config)?;
    formation::set_stopped(&home, file, &etcd(args)?.unwrap_or_default()).map_err(Failure::Problem)?;
    out.done("this node goes by the new settings of the external etcd; start its daemon");
    Ok(())
}

/// A node of a cluster whose daemon is stopped, with its data directory locked.
fn stopped(config: &Path) -> Result<(Config, File, Home, MembershipFile), Failure> {
    let fail = |e: &dyn std::fmt::Display| Failure::Local(e.to_string());
    let config = Config::load(config).map_err(|e| fail(&e))?;
    let lock = crate::serve::lock(&config.data_dir)?;
    let home = Home::new(&config.data_dir);
    let none = || Failure::Local(format!("the node with the data directory {} is in no cluster", config.data_dir.display()));
    let file = home.membership().map_err(|e| fail(&e))?.ok_or_else(none)?;
    Ok((config, lock, home, file))
}

/// `basalt cluster join`, and `basalt witness join`.
pub fn join(session: &Session, args: JoinArgs, witness: bool) -> Done {
    let JoinArgs { token, address, name, fault_domain, destroy, yes, etcd: args } = args;
    confirm(yes || !destroy, "Destroy the disk groups and volumes that this server has, with all their data, and join?")?;
    let join = Join { token, address, name, fault_domain, witness, destroy, etcd: etcd(&args)? };
    let formed: ClusterFormed = session.client.post("/cluster/join", &join)?;
    wait_formed(&session.client)?;
    session.print(&formed, |f| {
        let joined = format!("this server is {} of cluster {} now, for other nodes at {}", f.node, f.cluster, f.address);
        let next = "next: 'basalt node list' shows all nodes, 'basalt cluster status' the members of the directory";
        Page::new().name(&f.node).line(joined).line(next)
    });
    Ok(())
}

/// Until the daemon answers as a node of a cluster.
fn wait_formed(client: &Client) -> Done {
    let began = Instant::now();
    loop {
        std::thread::sleep(LOOK_EVERY);
        match client.get::<Cluster>("/cluster") {
            Ok(cluster) if cluster.formed => return Ok(()),
            result if began.elapsed() > RESTART_MAX => {
                let why = result.err().map_or("it is alone still".to_owned(), |e| e.to_string());
                let message = format!("the daemon has not come back after {} s: {why}", RESTART_MAX.as_secs());
                return Err(Failure::Problem(Problem::new(Code::Unavailable, message, "see its log (journalctl -u basalt)")));
            }
            _ => {}
        }
    }
}

/// `basalt node ..`.
pub fn node(session: &Session, command: NodeCommand) -> Done {
    let at = |node: &str| format!("/nodes/{}", part(node));
    match command {
        NodeCommand::List => session.list("/nodes", show::nodes),
        NodeCommand::Show { node } => session.one(&at(&node), show::node),
        NodeCommand::Invite { witness, hours } => {
            let invite: Invite = session.client.post("/cluster/invites", &NewInvite { witness, valid_s: Some(hours * 3600) })?;
            session.print(&invite, |i| {
                let what = if i.witness { "basalt witness join" } else { "basalt cluster join" };
                eprintln!("good for {hours} h and one server; there: {what} TOKEN --address ITS-ADDRESS");
                Page::new().name(&i.token).line(&i.token)
            });
            Ok(())
        }
        NodeCommand::Rename { node, new_name } => {
            let changed: Node = session.client.patch(&at(&node), &NodeChange { name: Some(new_name), fault_domain: None })?;
            session.print(&changed, |n| Page::new().name(&n.name).line(format!("node {node} is now called {}", n.name)));
            Ok(())
        }
        NodeCommand::Set { node, fault_domain } => {
            let changed: Node = session.client.patch(&at(&node), &NodeChange { name: None, fault_domain: Some(fault_domain) })?;
            session.print(&changed, show::node);
            Ok(())
        }
        NodeCommand::RenewCertificate => {
            let renewed: NodeCertificate = session.client.post("/cluster/certificate", &())?;
            session.print(&renewed, |c| {
                let until = show::until(c.until_unix_s);
                Page::new().line(format!("the certificate of this node is renewed; it is valid for {until}"))
            });
            Ok(())
        }
        NodeCommand::Remove { node, force, yes } => {
            let what = if force { ", with its disk groups and every volume with data there" } else { "" };
            confirm(yes, &format!("Remove node {node} from the cluster{what}?"))?;
            let () = session.client.delete(&format!("{}?force={force}", at(&node)))?;
            session.done(format!("node {node} is removed"));
            Ok(())
        }
    }
}
