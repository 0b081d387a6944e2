//! `GRANT` and `REVOKE`: of privileges on objects, and of roles.

mod named;

use datafusion::sql::sqlparser::ast::{
    CascadeOption, Grant, Grantee, Ident, Privileges as Written, Revoke,
};
use thalweg_txn::{
    Access, AccessChange, CatalogChange, Grant as OperatorMetrics, Privileges, RoleId, Securable,
};
use thalweg_types::{Error, Result, SqlState};

use super::Execution;
use super::role::{join, leave, role_named};
use crate::outcome::{Notice, Outcome};

pub(super) use named::database;
use named::{grantees_of, objects_of, privileges_of, roles_of};

pub(super) fn grant(execution: &mut Execution<'_>, grant: &Grant) -> Result<Outcome> {
    if grant.as_grantor.is_some() || grant.current_grants.is_some() {
        return Err(Error::unsupported(grant));
    }
    is_by_oneself(execution, grant.granted_by.as_ref())?;
    let Some(objects) = &grant.objects else { return membership(execution, grant) };
    let grantees = grantees_of(execution, &grant.grantees)?;
    if grant.with_grant_option && grantees.contains(&None) {
        let message = "grant options can only be granted to roles";
        return Err(Error::new(SqlState::INVALID_GRANT_OPERATION, message));
    }
    let mut outcome = Outcome::command("GRANT");
    for object in objects_of(execution, objects)? {
        let wanted = privileges_of(&execution.names.catalog(), &grant.privileges, &object)?;
        let words = ["granted", "were"];
        let Some(by) = Grantor::of(execution, &object, wanted, &grant.privileges, words)? else {
            outcome.notices.push(nothing(&object, words).into());
            continue;
        };
        outcome.notices.extend(by.remark.map(Notice::from));
        for grantee in &grantees {
            let grantable = if grant.with_grant_option { by.privileges } else { Privileges::NONE };
            let given = OperatorMetrics {
                grantee: *grantee,
                grantor: by.role,
                privileges: by.privileges,
                grantable,
            };
            change(execution, AccessChange::Grant { object: object.clone(), grant: given })?;
        }
    }
    Ok(outcome)
}

pub(super) fn revoke(execution: &mut Execution<'_>, revoke: &Revoke) -> Result<Outcome> {
    is_by_oneself(execution, revoke.granted_by.as_ref())?;
    let Some(objects) = &revoke.objects else { return end_membership(execution, revoke) };
    let grantees = grantees_of(execution, &revoke.grantees)?;
    let cascade = matches!(revoke.cascade, Some(CascadeOption::Cascade));
    let mut outcome = Outcome::command("REVOKE");
    for object in objects_of(execution, objects)? {
        let wanted = privileges_of(&execution.names.catalog(), &revoke.privileges, &object)?;
        let words = ["revoked", "could be"];
        let Some(by) = Grantor::of(execution, &object, wanted, &revoke.privileges, words)? else {
            outcome.notices.push(nothing(&object, words).into());
            continue;
        };
        outcome.notices.extend(by.remark.map(Notice::from));
        for grantee in &grantees {
            let revoked = AccessChange::Revoke {
                object: object.clone(),
                grantee: *grantee,
                grantor: by.role,
                privileges: by.privileges,
                cascade,
            };
            change(execution, revoked)?;
        }
    }
    Ok(outcome)
}

fn membership(execution: &Execution<'_>, grant: &Grant) -> Result<Outcome> {
    let mut outcome = Outcome::command("GRANT ROLE");
    for role in roles_of(execution, &grant.privileges)? {
        for member in members_of(execution, &grant.grantees)? {
            let remark = join(execution, role, member, grant.with_grant_option)?;
            outcome.notices.extend(remark.map(Notice::from));
        }
    }
    Ok(outcome)
}

fn end_membership(execution: &Execution<'_>, revoke: &Revoke) -> Result<Outcome> {
    let mut outcome = Outcome::command("REVOKE ROLE");
    for role in roles_of(execution, &revoke.privileges)? {
        for member in members_of(execution, &revoke.grantees)? {
            outcome.notices.extend(leave(execution, role, member)?.map(Notice::from));
        }
    }
    Ok(outcome)
}

/// `PUBLIC` is not a role, so it cannot be a member of one.
fn members_of(execution: &Execution<'_>, grantees: &[Grantee]) -> Result<Vec<RoleId>> {
    let members = grantees_of(execution, grantees)?.into_iter();
    members.map(|member| member.ok_or_else(|| thalweg_txn::no_role("public"))).collect()
}

/// The grantor, and the privileges that it may grant.
struct Grantor {
    role: RoleId,
    privileges: Privileges,
    /// The notice if these are fewer than were asked for.
    remark: Option<String>,
}

impl Grantor {
    /// A role with the owner's privileges acts as the owner. Others act as the role among theirs
    /// that may grant most. `None` if nothing can be granted.
    fn of(
        execution: &Execution<'_>,
        object: &Securable,
        wanted: Privileges,
        written: &Written,
        words: [&str; 2],
    ) -> Result<Option<Grantor>> {
        let rights = execution.names.rights();
        let catalog = execution.names.catalog();
        let access = catalog.access(object);
        if rights.is_owner(object) {
            let whole = Grantor { role: access.owner, privileges: wanted, remark: None };
            return Ok(Some(whole));
        }
        let current = execution.names.identity().current;
        let (role, privileges) = best(execution, access, current, wanted);
        if privileges.is_empty() {
            let held = catalog.privileges(current, object);
            return if held.is_empty() { Err(rights.denied(object)) } else { Ok(None) };
        }
        let partly = privileges != wanted && matches!(written, Written::Actions(_));
        let [done, verb] = words;
        let remark =
            partly.then(|| format!("not all privileges {verb} {done} for \"{}\"", name_of(object)));
        Ok(Some(Grantor { role, privileges, remark }))
    }
}

/// The role with the most grant options; the current role if it has as many.
fn best(
    execution: &Execution<'_>,
    access: &Access,
    current: RoleId,
    wanted: Privileges,
) -> (RoleId, Privileges) {
    let catalog = execution.names.catalog();
    let roles = catalog.roles();
    let others = roles.iter().map(|role| role.id);
    let usable = others.filter(|role| *role != current && roles.has_privileges_of(current, *role));
    let mut found = (current, access.grantable_by(current).common(wanted));
    for role in usable {
        let privileges = access.grantable_by(role).common(wanted);
        if privileges.iter().count() > found.1.iter().count() {
            found = (role, privileges);
        }
    }
    found
}

fn nothing(object: &Securable, [done, verb]: [&str; 2]) -> String {
    format!("no privileges {verb} {done} for \"{}\"", name_of(object))
}

fn name_of(object: &Securable) -> &str {
    match object {
        Securable::Database => crate::catalog::DATABASE,
        Securable::Namespace(name) | Securable::Relation { name, .. } => name,
    }
}

fn is_by_oneself(execution: &Execution<'_>, by: Option<&Ident>) -> Result<()> {
    let Some(by) = by else { return Ok(()) };
    if role_named(execution, by)?.id == execution.names.identity().current {
        return Ok(());
    }
    let message = "grantor must be current user";
    Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message))
}

pub(super) fn change(execution: &Execution<'_>, change: AccessChange) -> Result<()> {
    execution.names.with(|t| t.change_catalog(CatalogChange::Access(change)))
}
