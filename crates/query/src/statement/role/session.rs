//! `SET ROLE`, `SET SESSION AUTHORIZATION`, and back.

use datafusion::sql::sqlparser::ast::{
    Ident, SetSessionAuthorizationParam, SetSessionAuthorizationParamKind,
};
use thalweg_txn::{Catalog, Role};
use thalweg_types::{Error, Result, SqlState};

use super::denied;
use crate::privileges::Identity;
use crate::statement::{Execution, Scope, folded};

/// The value of the setting `role` for the session's own role.
const NO_ROLE: &str = "none";

/// `SET ROLE name`; without a name, `SET ROLE NONE`.
pub(in crate::statement) fn set_role(
    execution: &mut Execution<'_>,
    scope: Scope,
    name: Option<&Ident>,
) -> Result<()> {
    let name = name.map_or_else(|| NO_ROLE.to_owned(), text_of);
    assign(execution, scope, "role", Some(&name)).map(drop)
}

pub(in crate::statement) fn set_authorization(
    execution: &mut Execution<'_>,
    scope: Scope,
    to: &SetSessionAuthorizationParam,
) -> Result<()> {
    let name = match &to.kind {
        SetSessionAuthorizationParamKind::Default => None,
        SetSessionAuthorizationParamKind::User(name) => Some(text_of(name)),
    };
    assign(execution, scope, "session_authorization", name.as_deref()).map(drop)
}

/// Sets `role` or `session_authorization`; without a value, to the initial one. Returns false for
/// other settings.
pub(in crate::statement) fn assign(
    execution: &mut Execution<'_>,
    scope: Scope,
    setting: &str,
    value: Option<&str>,
) -> Result<bool> {
    let catalog = execution.names.catalog();
    let changed = changed(&catalog, execution.settings.identity, setting, value)?;
    let Some(mut identity) = changed else { return Ok(false) };
    if value.is_none() {
        identity = execution.settings.in_opening_role(identity);
    }
    execution.settings.set_identity(scope, identity);
    Ok(true)
}

/// The identity after `role` or `session_authorization` has a new value; `None` for other
/// settings.
///
/// # Errors
/// 22023 if there is no such role, 42501 if the session may not become it.
pub(crate) fn changed(
    catalog: &Catalog,
    identity: Identity,
    setting: &str,
    value: Option<&str>,
) -> Result<Option<Identity>> {
    let Identity { authenticated, session, .. } = identity;
    let value = value.filter(|value| setting != "role" || !value.eq_ignore_ascii_case(NO_ROLE));
    Ok(Some(match (setting, value) {
        ("role", None) => Identity { current: session, ..identity },
        ("role", Some(name)) => {
            let role = named(catalog, name)?;
            if !catalog.roles().is_member_of(session, role.id) {
                return Err(denied(&format!("permission denied to set role \"{}\"", role.name)));
            }
            Identity { current: role.id, ..identity }
        }
        ("session_authorization", None) => Identity::of(authenticated),
        ("session_authorization", Some(name)) => {
            let role = named(catalog, name)?;
            if role.id != authenticated && !catalog.roles().is_superuser(authenticated) {
                return Err(denied("permission denied to set session authorization"));
            }
            Identity { authenticated, session: role.id, current: role.id }
        }
        _ => return Ok(None),
    }))
}

/// The settings that are roles, or depend on one.
pub(crate) fn setting(catalog: &Catalog, identity: Identity, name: &str) -> Option<String> {
    let roles = catalog.roles();
    let name_of = |id| roles.get(id).map_or_else(String::new, |role| role.name.clone());
    Some(match name {
        "role" if identity.current == identity.session => NO_ROLE.to_owned(),
        "role" => name_of(identity.current),
        "session_authorization" => name_of(identity.session),
        "is_superuser" if roles.is_superuser(identity.current) => "on".to_owned(),
        "is_superuser" => "off".to_owned(),
        _ => return None,
    })
}

fn named(catalog: &Catalog, name: &str) -> Result<Role> {
    catalog.roles().named(name).cloned().ok_or_else(|| {
        let message = format!("role \"{name}\" does not exist");
        Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
    })
}

/// The name that an identifier or a literal spells.
fn text_of(name: &Ident) -> String {
    if name.quote_style == Some('\'') { name.value.clone() } else { folded(name) }
}
