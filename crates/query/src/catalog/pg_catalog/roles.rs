//! `pg_authid`, `pg_roles`, memberships, and older views of them.

use thalweg_txn::{Role, RoleId, SettingTarget};

use super::rows::{Rows, Value};
use crate::catalog::CatalogLookup;
use crate::catalog::objects::DATABASE_OID;

/// The number of the role that owns the database's own objects.
pub(in crate::catalog) const OWNER: i64 = RoleId::BOOTSTRAP.0 as i64;

const PASSWORD_HIDDEN: &str = "********";

fn oid(id: RoleId) -> Value {
    id.0.into()
}

fn connection_limit(role: &Role) -> Value {
    role.connection_limit.map_or(Value::Number(-1), Value::from)
}

fn valid_until(role: &Role) -> Value {
    role.valid_until.map_or(Value::Null, Value::Instant)
}

/// A role's own defaults of settings in every database.
fn defaults_of(lookup: &CatalogLookup, role: &Role) -> Value {
    let target = SettingTarget { role: Some(role.id), in_database: false };
    assignments(lookup.catalog.setting_defaults_of(target))
}

/// A list of `name=value`; NULL without any.
fn assignments(defaults: &[(String, String)]) -> Value {
    if defaults.is_empty() {
        return Value::Null;
    }
    Value::List(defaults.iter().map(|(name, value)| format!("{name}={value}").into()).collect())
}

/// `pg_db_role_setting`: the defaults of settings.
pub(super) fn setting_defaults(lookup: &CatalogLookup, rows: &mut Rows) {
    for (target, defaults) in lookup.catalog.setting_defaults() {
        rows.push([
            ("setdatabase", if target.in_database { DATABASE_OID } else { 0 }.into()),
            ("setrole", target.role.map_or(Value::from(0_u32), oid)),
            ("setconfig", assignments(defaults)),
        ]);
    }
}

/// `pg_roles`, which masks passwords and has defaults of settings, and `pg_authid`, which has no
/// passwords.
pub(super) fn roles(lookup: &CatalogLookup, rows: &mut Rows, is_view: bool) {
    for role in lookup.catalog.roles().iter() {
        let defaults = is_view.then(|| ("rolconfig", defaults_of(lookup, role)));
        let values = [
            ("oid", oid(role.id)),
            ("rolname", (&role.name).into()),
            ("rolsuper", role.superuser.into()),
            ("rolinherit", role.inherit.into()),
            ("rolcreaterole", role.create_role.into()),
            ("rolcreatedb", role.create_database.into()),
            ("rolcanlogin", role.login.into()),
            ("rolreplication", false.into()),
            ("rolbypassrls", role.superuser.into()),
            ("rolconnlimit", connection_limit(role)),
            ("rolpassword", is_view.then_some(PASSWORD_HIDDEN).into()),
            ("rolvaliduntil", valid_until(role)),
        ];
        rows.push(values.into_iter().chain(defaults));
    }
}

pub(super) fn members(lookup: &CatalogLookup, rows: &mut Rows) {
    for member in lookup.catalog.roles().iter() {
        for (role, membership) in &member.member_of {
            rows.push([
                ("roleid", oid(*role)),
                ("member", oid(member.id)),
                ("grantor", oid(membership.grantor)),
                ("admin_option", membership.admin.into()),
            ]);
        }
    }
}

/// `pg_user` and `pg_shadow`: the roles that may log in.
pub(super) fn users(lookup: &CatalogLookup, rows: &mut Rows) {
    for role in lookup.catalog.roles().iter().filter(|role| role.login) {
        rows.push([
            ("usename", (&role.name).into()),
            ("usesysid", oid(role.id)),
            ("usecreatedb", role.create_database.into()),
            ("usesuper", role.superuser.into()),
            ("userepl", false.into()),
            ("usebypassrls", role.superuser.into()),
            ("passwd", PASSWORD_HIDDEN.into()),
            ("valuntil", valid_until(role)),
            ("useconfig", defaults_of(lookup, role)),
        ]);
    }
}

/// `pg_group`: the roles that may not log in.
pub(super) fn groups(lookup: &CatalogLookup, rows: &mut Rows) {
    let roles = lookup.catalog.roles();
    for group in roles.iter().filter(|role| !role.login) {
        let members = roles.iter().filter(|member| member.member_of.contains_key(&group.id));
        let members: Vec<Value> = members.map(|member| oid(member.id)).collect();
        rows.push([
            ("groname", (&group.name).into()),
            ("grosysid", oid(group.id)),
            ("grolist", Value::List(members)),
        ]);
    }
}
