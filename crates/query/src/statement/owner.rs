//! `ALTER … OWNER TO`.

use datafusion::sql::sqlparser::ast::{ObjectName, Owner};
use thalweg_txn::{AccessChange, Privilege, Securable, no_namespace};
use thalweg_types::{Error, Result, SqlState};

use super::Execution;
use super::grant::change;
use super::identity::owned_sequences;
use super::role::role_of_owner;
use super::target::QualifiedName;
use crate::privileges::Rights;

/// Gives a table, a view or an external table to another role.
pub(super) fn of_relation(
    execution: &Execution<'_>,
    name: &QualifiedName,
    owner: &Owner,
) -> Result<()> {
    let catalog = execution.names.catalog();
    name.find(&catalog)?;
    let object = Securable::relation(&name.namespace, &name.name);
    give(execution, object, owner, |new| new.on_namespace(&name.namespace, Privilege::Create))?;
    let role = role_of_owner(execution, owner)?.id;
    // The sequences of its columns go with a table.
    for object in owned_sequences(&catalog, name) {
        change(execution, AccessChange::Own { object, owner: role })?;
    }
    Ok(())
}

/// Gives a schema to another role.
pub(super) fn of_namespace(
    execution: &Execution<'_>,
    name: &ObjectName,
    owner: &Owner,
) -> Result<()> {
    let name = QualifiedName::of(name)?.name;
    if !execution.names.catalog().has_namespace(&name) {
        return Err(no_namespace(&name));
    }
    let object = Securable::Namespace(name);
    give(execution, object, owner, |new| new.on_database(Privilege::Create))
}

/// An owner may give an object to a role that he is a member of, if that role could have created
/// the object.
fn give(
    execution: &Execution<'_>,
    object: Securable,
    owner: &Owner,
    may_create: impl FnOnce(&Rights) -> Result<()>,
) -> Result<()> {
    let rights = execution.names.rights();
    let owner = role_of_owner(execution, owner)?;
    rights.owns(&object)?;
    if !rights.superuser() {
        let catalog = execution.names.catalog();
        let current = execution.names.identity().current;
        if !catalog.roles().is_member_of(current, owner.id) {
            let message = format!("must be member of role \"{}\"", owner.name);
            return Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        may_create(&Rights::new(catalog, owner.id))?;
    }
    change(execution, AccessChange::Own { object, owner: owner.id })
}
