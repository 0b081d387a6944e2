//! `pg_namespace`, `pg_database` and `pg_tablespace`.

use super::roles::OWNER;
use super::rows::Rows;
use crate::catalog::DATABASE;
use crate::catalog::objects::{DATABASE_OID, Objects};

const TABLESPACE: i64 = 1_663;
const UTF8: i64 = 6;

pub(super) fn namespaces(objects: &Objects, rows: &mut Rows) {
    for namespace in &objects.namespaces {
        rows.push([
            ("oid", namespace.oid.into()),
            ("nspname", (&namespace.name).into()),
            ("nspowner", namespace.access.owner.into()),
            ("nspacl", namespace.access.grants.clone().into()),
        ]);
    }
}

pub(super) fn databases(rows: &mut Rows) {
    rows.push([
        ("oid", DATABASE_OID.into()),
        ("datname", DATABASE.into()),
        ("datdba", OWNER.into()),
        ("encoding", UTF8.into()),
        ("datlocprovider", "c".into()),
        ("datallowconn", true.into()),
        ("datconnlimit", (-1).into()),
        ("dattablespace", TABLESPACE.into()),
        ("datcollate", "C.UTF-8".into()),
        ("datctype", "C.UTF-8".into()),
    ]);
}

pub(super) fn tablespaces(rows: &mut Rows) {
    rows.push([
        ("oid", TABLESPACE.into()),
        ("spcname", "pg_default".into()),
        ("spcowner", OWNER.into()),
    ]);
}
