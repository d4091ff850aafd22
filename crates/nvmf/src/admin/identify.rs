//! Identify (base 5.17): which data structure, of what.
//!
//! Invariant: an NSID that is valid but names nothing here gives zeroes where a structure is asked for, and an invalid field where a list of
//! what belongs to it is (base 3.2.1.4, figure 274).
//! Never: holds the structures themselves; `pages` does.

use super::answer::{AT_DWORD_10, AT_DWORD_11, Answer, Fail, Outcome, existing, invalid, invalid_namespace, named};
use crate::admin_context::AdminCx;
use crate::controller::Controller;
use crate::pages;
use crate::view::Namespace;
use format::nvme::admin::Identify;
use format::nvme::identify::{self as cns, NamespaceDescriptor, write_controller_list, write_descriptors, write_namespace_list};
use format::nvme::{Field, IDENTIFY_BYTES, NSID_ALL, Sqe, StatusCode};
use rt::Buf;

/// Byte of a command where CSI is.
const AT_CSI: u8 = AT_DWORD_11 + 3;

pub(super) fn identify(c: &Controller, cx: &AdminCx<'_>, sqe: &Sqe) -> Outcome {
    let id = Identify::of(sqe);
    if sqe.sgl.len() as usize != IDENTIFY_BYTES {
        return Err(StatusCode::DATA_SGL_LENGTH_INVALID.into());
    }
    let mut out = Buf::zeroed(IDENTIFY_BYTES);
    if id.cns == cns::CNS_CONTROLLER {
        pages::identify_controller(c, cx.view, cx.subsystem_of(c)).write(&mut out);
        return Ok(Answer::Data(out));
    }
    if c.shared.discovery {
        return Err(invalid(AT_DWORD_10));
    }
    match id.cns {
        cns::CNS_CSI_NAMESPACE
        | cns::CNS_CSI_CONTROLLER
        | cns::CNS_CSI_ACTIVE_NAMESPACES
        | cns::CNS_CSI_ALLOCATED_NAMESPACES
        | cns::CNS_CSI_ALLOCATED_NAMESPACE
            if id.csi != 0 =>
        {
            return Err(invalid(AT_CSI));
        }
        cns::CNS_NAMESPACE
        | cns::CNS_ALLOCATED_NAMESPACE
        | cns::CNS_INDEPENDENT_NAMESPACE
        | cns::CNS_CSI_NAMESPACE
        | cns::CNS_CSI_ALLOCATED_NAMESPACE => of_namespace(c, cx, &id, &mut out)?,
        cns::CNS_NAMESPACE_DESCRIPTORS => {
            let ns = existing(&cx.attached(c), id.nsid)?;
            write_descriptors(&descriptors(&ns), &mut out);
        }
        cns::CNS_CSI_CONTROLLER => pages::nvm_controller().write(&mut out),
        cns::CNS_ACTIVE_NAMESPACES | cns::CNS_CSI_ACTIVE_NAMESPACES => list(&cx.attached(c), id.nsid, &mut out)?,
        cns::CNS_ALLOCATED_NAMESPACES | cns::CNS_CSI_ALLOCATED_NAMESPACES => list(&cx.allocated(c), id.nsid, &mut out)?,
        cns::CNS_NAMESPACE_CONTROLLERS => {
            let nsid = existing(&cx.allocated(c), id.nsid)?.nsid;
            controllers(c, cx, id.cntid, Some(nsid), &mut out);
        }
        cns::CNS_CONTROLLERS => controllers(c, cx, id.cntid, None, &mut out),
        cns::CNS_GRANULARITY => pages::granularity().write(&mut out),
        // One combination: the NVM command set. For this controller, or by the ID of one of the subsystem.
        cns::CNS_COMMAND_SETS => {
            let known = |id: u16| cx.shared.controllers_of(&c.shared.subsystem).iter().any(|x| x.cntlid == id);
            if id.cntid != 0xFFFF && id.cntid != c.shared.cntlid && !known(id.cntid) {
                return Err(invalid(AT_DWORD_10 + 2));
            }
            1u64.put(&mut out);
        }
        _ => return Err(invalid(AT_DWORD_10)),
    }
    Ok(Answer::Data(out))
}

/// A structure that describes a namespace.
fn of_namespace(c: &Controller, cx: &AdminCx<'_>, id: &Identify, out: &mut Buf) -> Result<(), Fail> {
    let of_allocated = matches!(id.cns, cns::CNS_ALLOCATED_NAMESPACE | cns::CNS_CSI_ALLOCATED_NAMESPACE);
    if id.nsid == NSID_ALL {
        // What is common to all namespaces, for hosts that are about to make one.
        if of_allocated || id.cns == cns::CNS_INDEPENDENT_NAMESPACE || !cx.may_manage(c) {
            return Err(invalid_namespace());
        }
        if id.cns == cns::CNS_NAMESPACE {
            pages::common_namespace().write(out);
        }
        return Ok(());
    }
    let list = if of_allocated { cx.allocated(c) } else { cx.attached(c) };
    let Some(ns) = named(&list, id.nsid)? else { return Ok(()) };
    match id.cns {
        cns::CNS_NAMESPACE | cns::CNS_ALLOCATED_NAMESPACE => pages::identify_namespace(&ns, cx.view.used_blocks(&ns)).write(out),
        cns::CNS_INDEPENDENT_NAMESPACE => pages::independent_namespace(&ns).write(out),
        // Of the NVM command set only protection information is reported here, and there is none.
        _ => {}
    }
    Ok(())
}

fn descriptors(ns: &Namespace) -> [NamespaceDescriptor; 4] {
    [
        NamespaceDescriptor::Eui64(ns.eui64()),
        NamespaceDescriptor::Nguid(ns.nguid()),
        NamespaceDescriptor::Uuid(*ns.id.as_bytes()),
        NamespaceDescriptor::Csi(0),
    ]
}

/// The NSIDs of `namespaces` above `after`.
fn list(namespaces: &[Namespace], after: u32, out: &mut Buf) -> Result<(), Fail> {
    if after >= 0xFFFF_FFFE {
        return Err(invalid_namespace());
    }
    write_namespace_list(namespaces.iter().map(|n| n.nsid), after, out);
    Ok(())
}

/// The I/O controllers of the subsystem on all cores with IDs of at least `from`: all, or those to which a namespace is attached.
fn controllers(c: &Controller, cx: &AdminCx<'_>, from: u16, nsid: Option<u32>, out: &mut Buf) {
    let namespace = nsid.and_then(|nsid| cx.subsystem_of(c)?.namespaces.get(&nsid));
    let all = cx.shared.controllers_of(&c.shared.subsystem);
    let sees = |host: &str| nsid.is_none() || namespace.is_some_and(|n| n.hosts.shows(host));
    write_controller_list(all.iter().filter(|x| sees(&x.host_nqn)).map(|x| x.cntlid), from, out);
}
