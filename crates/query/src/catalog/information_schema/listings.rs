//! Schemas, tables, views and other plain listings.

use super::role_visibility::RoleVisibility;
use super::yes_or_no;
use crate::catalog::objects::{Objects, PG_CATALOG, Relation, Source};
use crate::catalog::pg_catalog::rows::{Rows, Value};
use crate::catalog::view_definition;
use crate::catalog::{CatalogLookup, DATABASE};
use thalweg_txn::{Grant, Privilege, RoleId, Securable};
use thalweg_types::DataType;

pub(super) fn name(rows: &mut Rows) {
    rows.push([("catalog_name", DATABASE.into())]);
}

pub(super) fn schemata(lookup: &CatalogLookup, visibility: &RoleVisibility<'_>, rows: &mut Rows) {
    let namespaces = lookup.objects.namespaces.iter();
    for namespace in namespaces.filter(|namespace| visibility.namespace(&namespace.name)) {
        rows.push([
            ("catalog_name", DATABASE.into()),
            ("schema_name", (&namespace.name).into()),
            ("schema_owner", lookup.role_name(namespace.access.owner).into()),
        ]);
    }
}

/// The relations whose existence the role may see.
fn seen<'a>(
    objects: &'a Objects,
    visibility: &'a RoleVisibility<'_>,
) -> impl Iterator<Item = &'a Relation> {
    let relations = objects.relations.iter();
    relations.filter(|relation| visibility.relation(&relation.namespace, &relation.name))
}

pub(super) fn tables(objects: &Objects, visibility: &RoleVisibility<'_>, rows: &mut Rows) {
    for relation in seen(objects, visibility) {
        let kind = match relation.kind() {
            "r" | "v" if relation.is_temporary() => "LOCAL TEMPORARY",
            "r" => "BASE TABLE",
            "v" => "VIEW",
            "f" => "FOREIGN",
            _ => continue,
        };
        rows.push([
            ("table_catalog", DATABASE.into()),
            ("table_schema", (&relation.namespace).into()),
            ("table_name", (&relation.name).into()),
            ("table_type", kind.into()),
            ("is_insertable_into", yes_or_no(relation.table().is_some())),
            ("is_typed", yes_or_no(false)),
        ]);
    }
}

pub(super) fn views(objects: &Objects, visibility: &RoleVisibility<'_>, rows: &mut Rows) {
    for relation in seen(objects, visibility) {
        let Source::View(view) = &relation.source else { continue };
        let owned = visibility.owns(&relation.namespace, &relation.name);
        rows.push([
            ("table_catalog", DATABASE.into()),
            ("table_schema", (&relation.namespace).into()),
            ("table_name", (&relation.name).into()),
            (
                "view_definition",
                owned.then(|| view_definition::definition(view, visibility.catalog())).into(),
            ),
            ("check_option", "NONE".into()),
            ("is_updatable", yes_or_no(false)),
            ("is_insertable_into", yes_or_no(false)),
            ("is_trigger_updatable", yes_or_no(false)),
            ("is_trigger_deletable", yes_or_no(false)),
            ("is_trigger_insertable_into", yes_or_no(false)),
        ]);
    }
}

/// A sequence belongs to a column: a role with any privilege on the table sees it.
pub(super) fn sequences(objects: &Objects, visibility: &RoleVisibility<'_>, rows: &mut Rows) {
    for relation in &objects.relations {
        let Source::Sequence(source) = &relation.source else { continue };
        let seen = match (&source.sequence, &source.owner) {
            (None, Some((table, _))) => visibility.relation(&table.namespace, &table.name),
            _ => visibility.relation(&relation.namespace, &relation.name),
        };
        // The sequence of an identity column is part of the column.
        if !seen || source.is_of_identity() {
            continue;
        }
        let options = &source.options;
        let bits = match options.data_type {
            DataType::Int2 => 16,
            DataType::Int4 => 32,
            _ => 64,
        };
        rows.push([
            ("sequence_catalog", DATABASE.into()),
            ("sequence_schema", (&relation.namespace).into()),
            ("sequence_name", (&relation.name).into()),
            ("data_type", options.data_type.to_string().into()),
            ("numeric_precision", bits.into()),
            ("numeric_precision_radix", 2.into()),
            ("numeric_scale", 0.into()),
            ("start_value", options.start.to_string().into()),
            ("minimum_value", options.min.to_string().into()),
            ("maximum_value", options.max.to_string().into()),
            ("increment", options.increment.to_string().into()),
            ("cycle_option", yes_or_no(options.cycles)),
        ]);
    }
}

/// Privileges of owners and grantees that the role holds or granted. With `everybodys`, also those
/// granted to everybody.
pub(super) fn privileges(
    lookup: &CatalogLookup,
    visibility: &RoleVisibility<'_>,
    rows: &mut Rows,
    everybodys: bool,
) {
    let name = |id: RoleId| lookup.role_name(i64::from(id.0));
    for relation in lookup.objects.relations.iter().filter(|relation| relation.has_row_type()) {
        let object = Securable::relation(&relation.namespace, &relation.name);
        let access = lookup.catalog.access(&object);
        let mut push = |grantor: &str, grantee: &str, privilege: Privilege, grantable: bool| {
            rows.push([
                ("grantor", grantor.to_owned().into()),
                ("grantee", grantee.to_owned().into()),
                ("table_catalog", DATABASE.into()),
                ("table_schema", (&relation.namespace).into()),
                ("table_name", (&relation.name).into()),
                ("privilege_type", privilege.name().into()),
                ("is_grantable", yes_or_no(grantable)),
                ("with_hierarchy", yes_or_no(privilege == Privilege::Select)),
            ]);
        };
        let owner = name(access.owner);
        if visibility.acts_as(access.owner) {
            for privilege in object.all_privileges().iter() {
                push(&owner, &owner, privilege, true);
            }
        }
        let is_seen = |grant: &&Grant| {
            let has = grant.grantee.map_or(everybodys, |grantee| visibility.acts_as(grantee));
            has || visibility.acts_as(grant.grantor)
        };
        for grant in access.grants().iter().filter(is_seen) {
            let grantee = grant.grantee.map_or_else(|| "PUBLIC".to_owned(), name);
            for privilege in grant.privileges.iter() {
                let grantable = grant.grantable.contains(privilege.into());
                push(&name(grant.grantor), &grantee, privilege, grantable);
            }
        }
    }
}

/// The roles whose privileges the session has.
pub(super) fn enabled_roles(lookup: &CatalogLookup, rows: &mut Rows) {
    let roles = lookup.catalog.roles();
    let current = lookup.identity().current;
    for role in roles.iter().filter(|role| roles.has_privileges_of(current, role.id)) {
        rows.push([("role_name", (&role.name).into())]);
    }
}

/// The memberships of those roles.
pub(super) fn applicable_roles(lookup: &CatalogLookup, rows: &mut Rows) {
    let roles = lookup.catalog.roles();
    let current = lookup.identity().current;
    for member in roles.iter().filter(|role| roles.has_privileges_of(current, role.id)) {
        for (role, membership) in &member.member_of {
            rows.push([
                ("grantee", (&member.name).into()),
                ("role_name", lookup.role_name(i64::from(role.0)).into()),
                ("is_grantable", yes_or_no(membership.admin)),
            ]);
        }
    }
}

pub(super) fn character_sets(rows: &mut Rows) {
    rows.push([
        ("character_set_name", "UTF8".into()),
        ("character_repertoire", "UCS".into()),
        ("form_of_use", "UTF8".into()),
        ("default_collate_catalog", DATABASE.into()),
    ]);
}

pub(super) fn collations(rows: &mut Rows) {
    for name in ["default", "C"] {
        rows.push([
            ("collation_catalog", DATABASE.into()),
            ("collation_schema", PG_CATALOG.into()),
            ("collation_name", Value::from(name)),
            ("pad_attribute", "NO PAD".into()),
        ]);
    }
}
