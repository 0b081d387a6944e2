//! Defaults of settings for roles and for the database: `ALTER ROLE … SET`, `ALTER DATABASE …
//! SET`, and what they mean for a session that begins.

use datafusion::sql::sqlparser::ast::{
    AlterRoleOperation, Expr, Ident, ObjectName, ResetConfig, SetConfigValue,
};
use thalweg_dialect::parse::SettingOwner;
use thalweg_txn::{
    Catalog, CatalogChange, RoleId, Securable, SettingDefaultChange, SettingTarget, no_role,
};
use thalweg_types::{Error, Result, SqlState};

use super::role::{denied, may_set_defaults, role_named};
use super::settings::{assigned, dotted, may_change, reset_name, unrecognized};
use super::{Definition, Execution, Setter, Settings, changed_identity, grant, role_setting};
use crate::outcome::{Notice, Outcome};

/// Targets from the weakest to the strongest: for all roles, for the database, for a role, and for
/// a role in the database. Each has PostgreSQL's word for it.
const LEVELS: [(bool, bool, &str); 4] = [
    (false, false, "global"),
    (false, true, "database"),
    (true, false, "user"),
    (true, true, "database user"),
];

/// `ALTER ROLE … SET`, `ALTER DATABASE … SET`, and the same with `RESET`.
pub(super) fn alter(
    execution: &Execution<'_>,
    name: &Ident,
    operation: &AlterRoleOperation,
) -> Result<Outcome> {
    let owner = SettingOwner::of(name);
    let mut outcome = Outcome::command(match owner {
        SettingOwner::Database => "ALTER DATABASE",
        SettingOwner::Role(_) | SettingOwner::AllRoles => "ALTER ROLE",
    });
    let (AlterRoleOperation::Set { in_database, .. }
    | AlterRoleOperation::Reset { in_database, .. }) = operation
    else {
        return Err(Error::unsupported(format!("ALTER ROLE ... {operation}")));
    };
    let target = target(execution, owner, in_database.as_ref())?;
    let default = |name: String, value| SettingDefaultChange { target, name, value };
    let changes = match operation {
        AlterRoleOperation::Set { config_name, config_value, .. } => {
            let (name, value) = assignment(execution, config_name, config_value)?;
            let name = checked(execution, &name, value.as_deref())?;
            outcome.notices.extend(missing_role(execution, &name, value.as_deref()));
            vec![default(name, value)]
        }
        AlterRoleOperation::Reset { config_name: ResetConfig::ConfigName(name), .. } => {
            vec![default(checked(execution, &reset_name(name), None)?, None)]
        }
        _ => {
            let catalog = execution.names.catalog();
            let known = catalog.setting_defaults_of(target).iter().map(|(name, _)| name);
            let removed = known.filter(|name| checked(execution, name, None).is_ok());
            removed.map(|name| default(name.clone(), None)).collect()
        }
    };
    for change in changes {
        execution.names.with(|t| t.change_catalog(CatalogChange::SettingDefault(change)))?;
    }
    Ok(outcome)
}

/// Checks that the current role may set defaults for the target.
fn target(
    execution: &Execution<'_>,
    owner: SettingOwner<'_>,
    database: Option<&ObjectName>,
) -> Result<SettingTarget> {
    let mut role = None;
    if let SettingOwner::Role(name) = owner {
        let found = role_named(execution, name)?;
        may_set_defaults(execution, &found)?;
        role = Some(found.id);
    }
    if let Some(database) = database {
        grant::database(database)?;
        if role.is_none() && !execution.names.rights().is_owner(&Securable::Database) {
            let name = crate::catalog::DATABASE;
            return Err(denied(&format!("must be owner of database {name}")));
        }
    } else if role.is_none() && !execution.is_superuser() {
        return Err(denied("must be superuser to alter settings globally"));
    }
    Ok(SettingTarget { role, in_database: database.is_some() })
}

/// The name and the value of `SET`; no value for `DEFAULT`.
fn assignment(
    execution: &Execution<'_>,
    name: &ObjectName,
    value: &SetConfigValue,
) -> Result<(String, Option<String>)> {
    let name = dotted(name);
    let value = match value {
        SetConfigValue::Default => None,
        SetConfigValue::Value(Expr::Tuple(values)) => {
            let value = assigned(&name, values)?;
            let is_local = |value: &String| {
                name.eq_ignore_ascii_case("timezone") && value.eq_ignore_ascii_case("local")
            };
            value.filter(|value| !is_local(value))
        }
        SetConfigValue::Value(value) => assigned(&name, std::slice::from_ref(value))?,
        SetConfigValue::FromCurrent => {
            let catalog = execution.names.catalog();
            let identity = execution.settings.identity;
            let of_role = || role_setting(&catalog, identity, &name);
            let value = execution.settings.get(&name).or_else(of_role);
            Some(value.ok_or_else(|| unrecognized(&name))?)
        }
    };
    Ok((name, value))
}

/// Checks that the current role may set a default of a setting to a value, or remove the default.
/// Returns the setting's name as it is stored.
///
/// # Errors
/// 42704 if there is no such setting, 42501 if only superusers may change it, 22023 if it cannot
/// have the value, 55P02 or 25001 if it cannot have a default.
fn checked(execution: &Execution<'_>, given: &str, value: Option<&str>) -> Result<String> {
    let setter = Setter::role(execution.is_superuser());
    let Some(definition) = Definition::named(given) else {
        let name = given.to_lowercase();
        if !execution.settings.clone().set(&name, value, setter)? {
            return Err(unrecognized(given));
        }
        if !setter.is_superuser {
            return Err(denied(&format!("permission denied to set parameter \"{name}\"")));
        }
        return Ok(name);
    };
    may_change(definition, setter)?;
    if let Some(value) = value {
        match definition.key.as_str() {
            "role" => {}
            "transaction_isolation" => {
                return Err(too_late("SET TRANSACTION ISOLATION LEVEL"));
            }
            "transaction_deferrable" => {
                return Err(too_late("SET TRANSACTION [NOT] DEFERRABLE"));
            }
            _ => {
                execution.settings.clone().set(definition.name, Some(value), setter)?;
            }
        }
    }
    Ok(definition.name.to_owned())
}

fn too_late(command: &str) -> Error {
    let message = format!("{command} must be called before any query");
    Error::new(SqlState::ACTIVE_TRANSACTION, message)
}

/// The notice about a default role that does not exist.
fn missing_role(execution: &Execution<'_>, name: &str, value: Option<&str>) -> Option<Notice> {
    let role = value.filter(|value| name == "role" && !value.eq_ignore_ascii_case("none"))?;
    let catalog = execution.names.catalog();
    catalog.roles().named(role).is_none().then(|| no_role(role).message().to_owned().into())
}

/// Applies the defaults for the role and the database to the settings of a session that begins.
/// Returns warnings about those that cannot be applied any more.
pub(crate) fn set_defaults(settings: &mut Settings, catalog: &Catalog) -> Vec<Notice> {
    let role: RoleId = settings.identity.session;
    let mut warnings = Vec::new();
    for (of_role, in_database, source) in LEVELS {
        let target = SettingTarget { role: of_role.then_some(role), in_database };
        for (name, value) in catalog.setting_defaults_of(target) {
            // The right to set the default was checked when it was set.
            let setter = Setter { is_superuser: true, opening: Some(source) };
            if let Err(error) = set_default(settings, catalog, name, value, setter) {
                warnings.push(Notice {
                    state: error.state(),
                    message: error.message().to_owned(),
                    detail: error.detail().map(str::to_owned),
                });
            }
        }
    }
    warnings
}

fn set_default(
    settings: &mut Settings,
    catalog: &Catalog,
    name: &str,
    value: &str,
    setter: Setter,
) -> Result<()> {
    if name == "role" {
        if let Some(identity) = changed_identity(catalog, settings.identity, name, Some(value))? {
            settings.open_in_role(identity);
        }
        return Ok(());
    }
    match settings.set(name, Some(value), setter)? {
        true => Ok(()),
        false => Err(unrecognized(name)),
    }
}

#[cfg(test)]
mod tests {
    use thalweg_types::SqlState;

    use crate::Database;

    #[tokio::test]
    async fn the_first_statement_reports_defaults_that_cannot_be_applied() {
        let database = Database::in_memory().unwrap();
        let mut session = database.session();
        let answer = session.execute("CREATE ROLE ann LOGIN").await.unwrap();
        assert!(answer.notices.is_empty());
        let answer = session.execute("ALTER ROLE ann SET role = absent").await.unwrap();
        let notices: Vec<_> = answer.notices.iter().map(|notice| notice.severity()).collect();
        assert_eq!(notices, ["NOTICE"]);
        let mut of_ann = database.session_as("ann").unwrap();
        let first = of_ann.execute("SET work_mem = '1MB'").await.unwrap();
        let [warning] = first.notices.as_slice() else { panic!("one warning is expected") };
        assert_eq!(warning.severity(), "WARNING");
        assert_eq!(warning.message, "role \"absent\" does not exist");
        assert!(of_ann.execute("SET work_mem = '2MB'").await.unwrap().notices.is_empty());
    }

    #[tokio::test]
    async fn work_of_the_program_has_no_defaults() {
        let database = Database::in_memory().unwrap();
        let default = "ALTER ROLE ALL SET default_transaction_read_only = on";
        database.session().execute(default).await.unwrap();
        let refused = database.session().execute("CREATE TABLE t (a int)").await.err().unwrap();
        assert_eq!(refused.state(), SqlState::READ_ONLY_TRANSACTION);
        database.keep_journal().await.unwrap();
    }
}
