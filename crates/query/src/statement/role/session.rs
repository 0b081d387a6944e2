//! `SET ROLE`, `SET SESSION AUTHORIZATION`, and back.

use datafusion::sql::sqlparser::ast::{
    ContextModifier, Ident, SetSessionAuthorizationParam, SetSessionAuthorizationParamKind,
};
use thalweg_txn::{Catalog, Role};
use thalweg_types::{Error, Result, SqlState};

use super::denied;
use crate::outcome::Outcome;
use crate::privileges::Identity;
use crate::statement::{Execution, folded};

/// `SET ROLE name`; without a name, `SET ROLE NONE`.
pub(in crate::statement) fn set_role(
    execution: &mut Execution<'_>,
    modifier: Option<ContextModifier>,
    name: Option<&Ident>,
) -> Result<Outcome> {
    if modifier == Some(ContextModifier::Local) {
        return Err(Error::unsupported("SET LOCAL ROLE"));
    }
    let Some(name) = name else {
        reset_role(execution);
        return Ok(Outcome::command("SET"));
    };
    let role = named(execution, name)?;
    let identity = execution.names.identity();
    let catalog = execution.names.catalog();
    if !catalog.roles().is_member_of(identity.session, role.id) {
        return Err(denied(&format!("permission denied to set role \"{}\"", role.name)));
    }
    execution.settings.identity.current = role.id;
    Ok(Outcome::command("SET"))
}

fn reset_role(execution: &mut Execution<'_>) {
    execution.settings.identity.current = execution.settings.identity.session;
}

pub(in crate::statement) fn set_authorization(
    execution: &mut Execution<'_>,
    to: &SetSessionAuthorizationParam,
) -> Result<Outcome> {
    if to.scope == ContextModifier::Local {
        return Err(Error::unsupported("SET LOCAL SESSION AUTHORIZATION"));
    }
    let name = match &to.kind {
        SetSessionAuthorizationParamKind::Default => {
            reset_authorization(execution);
            return Ok(Outcome::command("SET"));
        }
        SetSessionAuthorizationParamKind::User(name) => name,
    };
    let role = named(execution, name)?;
    let authenticated = execution.settings.identity.authenticated;
    let catalog = execution.names.catalog();
    if role.id != authenticated && !catalog.roles().is_superuser(authenticated) {
        return Err(denied("permission denied to set session authorization"));
    }
    execution.settings.identity = Identity { authenticated, session: role.id, current: role.id };
    Ok(Outcome::command("SET"))
}

fn reset_authorization(execution: &mut Execution<'_>) {
    execution.settings.identity = Identity::of(execution.settings.identity.authenticated);
}

/// `SET role = …` and `SET session_authorization = …`; `None` for other settings.
pub(in crate::statement) fn assign(
    execution: &mut Execution<'_>,
    setting: &str,
    value: &str,
) -> Result<Option<Outcome>> {
    let name = Ident::with_quote('\'', value);
    match setting {
        "role" => {
            let name = (!value.eq_ignore_ascii_case("none")).then_some(&name);
            set_role(execution, None, name).map(Some)
        }
        "session_authorization" => {
            let kind = SetSessionAuthorizationParamKind::User(name);
            let to = SetSessionAuthorizationParam { scope: ContextModifier::Session, kind };
            set_authorization(execution, &to).map(Some)
        }
        _ => Ok(None),
    }
}

/// `RESET` of a setting that is a role. Returns false for other settings.
pub(in crate::statement) fn reset(execution: &mut Execution<'_>, setting: &str) -> bool {
    match setting {
        "role" => reset_role(execution),
        "session_authorization" | "session.authorization" => reset_authorization(execution),
        _ => return false,
    }
    true
}

/// The settings that are roles, or depend on one.
pub(crate) fn setting(catalog: &Catalog, identity: Identity, name: &str) -> Option<String> {
    let roles = catalog.roles();
    let name_of = |id| roles.get(id).map_or_else(String::new, |role| role.name.clone());
    Some(match name {
        "role" if identity.current == identity.session => "none".to_owned(),
        "role" => name_of(identity.current),
        "session_authorization" => name_of(identity.session),
        "is_superuser" if roles.is_superuser(identity.current) => "on".to_owned(),
        "is_superuser" => "off".to_owned(),
        _ => return None,
    })
}

fn named(execution: &Execution<'_>, name: &Ident) -> Result<Role> {
    let catalog = execution.names.catalog();
    let quoted = name.quote_style == Some('\'');
    let name = if quoted { name.value.clone() } else { folded(name) };
    catalog.roles().named(&name).cloned().ok_or_else(|| {
        let message = format!("role \"{name}\" does not exist");
        Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
    })
}
