//! Resolves the names in a `GRANT` or `REVOKE`.

use datafusion::sql::sqlparser::ast::{
    Action, GrantObjects, Grantee, GranteeName, GranteesType, ObjectName, Privileges as Written,
};
use thalweg_txn::{Catalog, Object, Privilege, Privileges, RoleId, Securable, no_namespace};
use thalweg_types::{Error, Result, SqlState};

use crate::catalog::DATABASE;
use crate::sequences::not_a_sequence;
use crate::statement::role::role_named;
use crate::statement::target::QualifiedName;
use crate::statement::{Execution, folded};

/// The roles that `GRANT role` names.
pub(super) fn roles_of(execution: &Execution<'_>, written: &Written) -> Result<Vec<RoleId>> {
    let Written::Actions(actions) = written else { return Err(no_roles(written)) };
    actions
        .iter()
        .map(|action| match action {
            Action::Role { role } => match role.0.first().and_then(|part| part.as_ident()) {
                Some(name) => Ok(role_named(execution, name)?.id),
                None => Err(no_roles(written)),
            },
            _ => Err(no_roles(written)),
        })
        .collect()
}

fn no_roles(written: &Written) -> Error {
    Error::new(SqlState::SYNTAX_ERROR, format!("{written} is no list of roles"))
}

/// The roles that receive the privileges; `None` for `PUBLIC`.
pub(super) fn grantees_of(
    execution: &Execution<'_>,
    written: &[Grantee],
) -> Result<Vec<Option<RoleId>>> {
    written
        .iter()
        .map(|grantee| match (&grantee.grantee_type, &grantee.name) {
            (GranteesType::Public, _) => Ok(None),
            (
                GranteesType::None | GranteesType::Group | GranteesType::Role | GranteesType::User,
                Some(GranteeName::ObjectName(name)),
            ) => match name.0.as_slice() {
                [part] => match part.as_ident() {
                    Some(name) if name.quote_style.is_none() && folded(name) == "public" => {
                        Ok(None)
                    }
                    Some(name) => Ok(Some(role_named(execution, name)?.id)),
                    None => Err(Error::unsupported(grantee)),
                },
                _ => Err(Error::unsupported(grantee)),
            },
            _ => Err(Error::unsupported(grantee)),
        })
        .collect()
}

/// The objects that are named. There are no user-defined functions, so `ALL` of them is none.
pub(super) fn objects_of(
    execution: &Execution<'_>,
    written: &GrantObjects,
) -> Result<Vec<Securable>> {
    let catalog = execution.names.catalog();
    match written {
        GrantObjects::Tables(names) | GrantObjects::Views(names) => {
            names.iter().map(|name| relation(&catalog, name)).collect()
        }
        GrantObjects::Schemas(names) => {
            let namespaces = names.iter().map(|name| namespace(&catalog, name));
            namespaces.map(|name| Ok(Securable::Namespace(name?))).collect()
        }
        GrantObjects::Databases(names) => names.iter().map(database).collect(),
        GrantObjects::AllTablesInSchema { schemas } => {
            let mut all = Vec::new();
            for schema in schemas {
                let schema = namespace(&catalog, schema)?;
                let objects = catalog.objects(&schema);
                let found = objects.filter(|(_, object)| !matches!(object, Object::Sequence(_)));
                all.extend(found.map(|(name, _)| Securable::relation(&schema, name)));
            }
            Ok(all)
        }
        GrantObjects::Sequences(names) => {
            names.iter().map(|name| sequence(&catalog, name)).collect()
        }
        GrantObjects::AllSequencesInSchema { schemas } => {
            let mut all = Vec::new();
            for schema in schemas {
                let schema = namespace(&catalog, schema)?;
                let objects = catalog.objects(&schema);
                let found = objects.filter(|(_, object)| matches!(object, Object::Sequence(_)));
                all.extend(found.map(|(name, _)| Securable::relation(&schema, name)));
            }
            Ok(all)
        }
        GrantObjects::AllFunctionsInSchema { schemas } => {
            schemas.iter().try_for_each(|schema| namespace(&catalog, schema).map(drop))?;
            Ok(Vec::new())
        }
        other => Err(Error::unsupported(format!("GRANT or REVOKE on {other}"))),
    }
}

fn relation(catalog: &Catalog, name: &ObjectName) -> Result<Securable> {
    let name = QualifiedName::existing(catalog, name)?;
    name.find(catalog)?;
    Ok(Securable::Relation { namespace: name.namespace, name: name.name })
}

fn sequence(catalog: &Catalog, name: &ObjectName) -> Result<Securable> {
    let name = QualifiedName::of(name)?;
    match name.find(catalog)? {
        Object::Sequence(_) => {
            Ok(Securable::Relation { namespace: name.namespace, name: name.name })
        }
        _ => Err(not_a_sequence(&name.name)),
    }
}

fn namespace(catalog: &Catalog, name: &ObjectName) -> Result<String> {
    let name = QualifiedName::of(name)?.name;
    if catalog.has_namespace(&name) { Ok(name) } else { Err(no_namespace(&name)) }
}

/// # Errors
/// 3D000 if there is no database of the name.
pub(in crate::statement) fn database(name: &ObjectName) -> Result<Securable> {
    let name = QualifiedName::of(name)?.name;
    if name == DATABASE {
        return Ok(Securable::Database);
    }
    let message = format!("database \"{name}\" does not exist");
    Err(Error::new(SqlState::INVALID_CATALOG_NAME, message))
}

/// The privileges that are named.
///
/// # Errors
/// If there is none of that name, or it does not apply to this kind of object.
pub(super) fn privileges_of(
    catalog: &Catalog,
    written: &Written,
    object: &Securable,
) -> Result<Privileges> {
    let all = catalog.all_privileges(object);
    let Written::Actions(actions) = written else { return Ok(all) };
    actions.iter().map(|action| privilege_of(action, object, all)).collect()
}

fn privilege_of(action: &Action, object: &Securable, all: Privileges) -> Result<Privilege> {
    let privilege = match action {
        Action::Select { columns: Some(_) }
        | Action::Insert { columns: Some(_) }
        | Action::Update { columns: Some(_) }
        | Action::References { columns: Some(_) } => {
            return Err(Error::unsupported("a privilege on single columns")
                .with_hint("Grant it on a view that shows these columns."));
        }
        Action::Select { .. } => Privilege::Select,
        Action::Insert { .. } => Privilege::Insert,
        Action::Update { .. } => Privilege::Update,
        Action::References { .. } => Privilege::References,
        Action::Delete => Privilege::Delete,
        Action::Truncate => Privilege::Truncate,
        Action::Trigger => Privilege::Trigger,
        Action::Usage => Privilege::Usage,
        Action::Create { obj_type: None } => Privilege::Create,
        Action::Connect => Privilege::Connect,
        Action::Temporary => Privilege::Temporary,
        other => {
            let name = other.to_string().to_lowercase();
            let message = format!("unrecognized privilege type \"{name}\"");
            return Err(Error::new(SqlState::SYNTAX_ERROR, message));
        }
    };
    if all.contains(privilege.into()) {
        return Ok(privilege);
    }
    let kind = match object {
        Securable::Database => "database",
        Securable::Namespace(_) => "schema",
        Securable::Relation { .. } if all == Privileges::SEQUENCE => "sequence",
        Securable::Relation { .. } => "table",
    };
    let message = format!("invalid privilege type {} for {kind}", privilege.name());
    Err(Error::new(SqlState::INVALID_GRANT_OPERATION, message))
}
