//! `CREATE`, `ALTER` and `DROP` of roles and users.

mod options;
pub(crate) mod session;

use datafusion::sql::sqlparser::ast::{AlterRoleOperation, CreateRole, Ident, ObjectName, Owner};
use thalweg_txn::{
    CatalogChange, Membership, Role, RoleChange, RoleId, RoleOption, Roles, no_role,
};
use thalweg_types::{Error, Result, SqlState};

use super::{Execution, folded, setting_defaults};
use crate::outcome::{Notice, Outcome};

use options::Options;

pub(super) fn create(execution: &mut Execution<'_>, create: &CreateRole) -> Result<Outcome> {
    let mut outcome = Outcome::command("CREATE ROLE");
    let [name] = create.names.as_slice() else {
        return Err(Error::unsupported("creating several roles at once"));
    };
    let name = plain(name)?;
    let Options { options, notices } = Options::of_create(execution, create)?;
    let by = By::of(execution);
    if options.contains(&RoleOption::Superuser(true)) && !by.superuser {
        return Err(denied("must be superuser to create superusers"));
    }
    if !by.creates_roles {
        return Err(denied("permission denied to create role"));
    }
    let catalog = execution.names.catalog();
    if create.if_not_exists && catalog.roles().named(&name).is_some() {
        return Ok(outcome.with_notice(format!("role \"{name}\" already exists, skipping")));
    }
    is_allowed(&name)?;
    let id = execution.database.shared.engine.allocate_role_id();
    change(execution, RoleChange::Create { id, name, options })?;
    for role in create.in_role.iter().chain(&create.in_group) {
        let role = role_named(execution, role)?.id;
        join(execution, role, id, false)?;
    }
    for member in create.role.iter().chain(&create.user) {
        let member = role_named(execution, member)?.id;
        join(execution, id, member, false)?;
    }
    for member in &create.admin {
        let member = role_named(execution, member)?.id;
        join(execution, id, member, true)?;
    }
    outcome.notices = notices.into_iter().map(Notice::from).collect();
    Ok(outcome)
}

pub(super) fn alter(
    execution: &mut Execution<'_>,
    name: &Ident,
    operation: &AlterRoleOperation,
) -> Result<Outcome> {
    if matches!(operation, AlterRoleOperation::Set { .. } | AlterRoleOperation::Reset { .. }) {
        return setting_defaults::alter(execution, name, operation);
    }
    let role = role_named(execution, name)?;
    let mut outcome = Outcome::command("ALTER ROLE");
    let options = match operation {
        AlterRoleOperation::WithOptions { options } => {
            let Options { options, notices } = Options::of_alter(execution, options)?;
            outcome.notices = notices.into_iter().map(Notice::from).collect();
            may_alter(execution, &role, &options)?;
            options
        }
        AlterRoleOperation::RenameRole { role_name } => {
            let name = folded(role_name);
            may_rename(execution, &role)?;
            is_allowed(&name)?;
            vec![RoleOption::Name(name)]
        }
        other => return Err(Error::unsupported(format!("ALTER ROLE ... {other}"))),
    };
    change(execution, RoleChange::Alter { id: role.id, options })?;
    Ok(outcome)
}

pub(super) fn drop(
    execution: &mut Execution<'_>,
    names: &[ObjectName],
    if_exists: bool,
) -> Result<Outcome> {
    let by = By::of(execution);
    if !by.creates_roles {
        return Err(denied("permission denied to drop role"));
    }
    let mut outcome = Outcome::command("DROP ROLE");
    for name in names {
        let name = plain(name)?;
        let catalog = execution.names.catalog();
        let Some(role) = catalog.roles().named(&name) else {
            if !if_exists {
                return Err(no_role(&name));
            }
            let notice = format!("role \"{name}\" does not exist, skipping");
            outcome.notices.push(notice.into());
            continue;
        };
        let identity = execution.names.identity();
        for (id, whose) in [(identity.current, "current"), (identity.session, "session")] {
            if role.id == id {
                let message = format!("{whose} user cannot be dropped");
                return Err(Error::new(SqlState::OBJECT_IN_USE, message));
            }
        }
        if role.superuser && !by.superuser {
            return Err(denied("must be superuser to drop superusers"));
        }
        change(execution, RoleChange::Drop { id: role.id })?;
    }
    Ok(outcome)
}

/// Makes a role a member of another. Returns a notice if it was one already.
pub(super) fn join(
    execution: &Execution<'_>,
    role: RoleId,
    member: RoleId,
    admin: bool,
) -> Result<Option<String>> {
    let catalog = execution.names.catalog();
    may_admit(execution, role)?;
    let name = |id| catalog.roles().get(id).map_or_else(String::new, |role| role.name.clone());
    let held = catalog.roles().get(member).and_then(|member| member.member_of.get(&role));
    if held.is_some_and(|held| held.admin || !admin) {
        let (role, member) = (name(role), name(member));
        let notice = format!("role \"{member}\" is already a member of role \"{role}\"");
        return Ok(Some(notice));
    }
    let grantor = execution.names.identity().current;
    let membership = Membership { admin, grantor };
    change(execution, RoleChange::Join { role, member, membership })?;
    Ok(None)
}

pub(super) fn leave(
    execution: &Execution<'_>,
    role: RoleId,
    member: RoleId,
) -> Result<Option<String>> {
    let catalog = execution.names.catalog();
    may_admit(execution, role)?;
    let roles = catalog.roles();
    if let (Some(role), Some(member)) = (roles.get(role), roles.get(member))
        && !member.member_of.contains_key(&role.id)
    {
        let (role, member) = (&role.name, &member.name);
        return Ok(Some(format!("role \"{member}\" is not a member of role \"{role}\"")));
    }
    change(execution, RoleChange::Leave { role, member })?;
    Ok(None)
}

/// Checks that the current role may change the members of `role`: its administrators may, and for
/// user-defined roles also roles that may create roles.
fn may_admit(execution: &Execution<'_>, role: RoleId) -> Result<()> {
    let catalog = execution.names.catalog();
    let by = By::of(execution);
    let Some(role) = catalog.roles().get(role).filter(|_| !by.superuser) else { return Ok(()) };
    if role.superuser {
        return Err(denied("must be superuser to alter superusers"));
    }
    let creates = by.creates_roles && !role.id.is_built_in();
    let current = execution.names.identity().current;
    if creates || catalog.roles().is_admin_of(current, role.id) {
        return Ok(());
    }
    Err(denied(&format!("must have admin option on role \"{}\"", role.name)))
}

fn may_alter(execution: &Execution<'_>, role: &Role, options: &[RoleOption]) -> Result<()> {
    let by = By::of(execution);
    is_no_predefined(role)?;
    let sets_superuser = options.iter().any(|option| matches!(option, RoleOption::Superuser(_)));
    if !by.superuser && (role.superuser || sets_superuser) {
        return Err(denied(
            "must be superuser to alter superuser roles or change superuser attribute",
        ));
    }
    if role.id == RoleId::BOOTSTRAP && options.contains(&RoleOption::Superuser(false)) {
        return Err(denied("permission denied to alter role")
            .with_detail("The bootstrap superuser must have the SUPERUSER attribute."));
    }
    let own_password = role.id == execution.names.identity().current
        && options.iter().all(|option| matches!(option, RoleOption::Password(_)));
    if by.creates_roles || own_password { Ok(()) } else { Err(denied("permission denied")) }
}

fn may_rename(execution: &Execution<'_>, role: &Role) -> Result<()> {
    let (by, identity) = (By::of(execution), execution.names.identity());
    is_no_predefined(role)?;
    for (id, whose) in [(identity.session, "session"), (identity.current, "current")] {
        if role.id == id {
            let message = format!("{whose} user cannot be renamed");
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
    }
    if role.id == RoleId::BOOTSTRAP {
        return Err(Error::unsupported("renaming the role that embedded sessions act as"));
    }
    if role.superuser && !by.superuser {
        return Err(denied("must be superuser to rename superusers"));
    }
    if by.creates_roles { Ok(()) } else { Err(denied("permission denied to rename role")) }
}

/// Checks that the current role may set defaults of settings for a role: for itself, and with
/// CREATEROLE for all but superusers.
pub(super) fn may_set_defaults(execution: &Execution<'_>, role: &Role) -> Result<()> {
    let by = By::of(execution);
    is_no_predefined(role)?;
    if role.superuser && !by.superuser {
        return Err(denied("must be superuser to alter superusers"));
    }
    if by.creates_roles || role.id == execution.names.identity().current {
        return Ok(());
    }
    Err(denied("permission denied"))
}

/// The powers of the current role over other roles.
struct By {
    superuser: bool,
    creates_roles: bool,
}

impl By {
    fn of(execution: &Execution<'_>) -> By {
        let catalog = execution.names.catalog();
        let role = catalog.roles().get(execution.names.identity().current);
        let superuser = role.is_some_and(|role| role.superuser);
        By { superuser, creates_roles: superuser || role.is_some_and(|role| role.create_role) }
    }
}

fn change(execution: &Execution<'_>, change: RoleChange) -> Result<()> {
    execution.names.with(|t| t.change_catalog(CatalogChange::Role(change)))
}

/// The role of a name, including `CURRENT_USER` and the like.
pub(super) fn role_named(execution: &Execution<'_>, name: &Ident) -> Result<Role> {
    let catalog = execution.names.catalog();
    let identity = execution.names.identity();
    let special = match folded(name).as_str() {
        "current_user" | "current_role" => Some(identity.current),
        "session_user" => Some(identity.session),
        _ => None,
    };
    found(catalog.roles(), special.filter(|_| name.quote_style.is_none()), &folded(name))
}

pub(super) fn role_of_owner(execution: &Execution<'_>, owner: &Owner) -> Result<Role> {
    let catalog = execution.names.catalog();
    let identity = execution.names.identity();
    match owner {
        Owner::Ident(name) => role_named(execution, name),
        Owner::CurrentRole | Owner::CurrentUser => {
            found(catalog.roles(), Some(identity.current), "current_user")
        }
        Owner::SessionUser => found(catalog.roles(), Some(identity.session), "session_user"),
    }
}

fn found(roles: &Roles, id: Option<RoleId>, name: &str) -> Result<Role> {
    let role = match id {
        Some(id) => roles.get(id),
        None => roles.named(name),
    };
    role.cloned().ok_or_else(|| no_role(name))
}

/// The name in a statement that accepts no qualified names.
fn plain(name: &ObjectName) -> Result<String> {
    match name.0.as_slice() {
        [part] => part.as_ident().map(folded),
        _ => None,
    }
    .ok_or_else(|| Error::new(SqlState::SYNTAX_ERROR, format!("improper role name: {name}")))
}

/// Refuses names that are reserved, or belong to built-in roles.
fn is_allowed(name: &str) -> Result<()> {
    let reserved = |name: &str| {
        let message = format!("role name \"{name}\" is reserved");
        Error::new(SqlState::RESERVED_NAME, message)
    };
    match name {
        "public" | "none" | "current_user" | "current_role" | "session_user" => Err(reserved(name)),
        name if name.starts_with("pg_") => {
            Err(reserved(name).with_detail("Role names starting with \"pg_\" are reserved."))
        }
        _ => Ok(()),
    }
}

fn is_no_predefined(role: &Role) -> Result<()> {
    if !role.id.is_built_in() || role.id == RoleId::BOOTSTRAP {
        return Ok(());
    }
    let message = format!("role name \"{}\" is reserved", role.name);
    Err(Error::new(SqlState::RESERVED_NAME, message).with_detail("Cannot alter reserved roles."))
}

pub(super) fn denied(message: &str) -> Error {
    Error::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
}
