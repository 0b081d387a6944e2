//! `pg_type`: PostgreSQL's types that columns here can have, and those of whole rows.

use std::collections::HashMap;
use std::sync::LazyLock;

use arrow::array::RecordBatch;
use arrow::error::ArrowError;

use super::relations;
use super::roles::OWNER;
use super::rows::Rows;
use crate::catalog::objects::{Objects, PG_CATALOG_OID, ROW_ARRAYS, ROW_TYPES};

/// A type a line, with the columns of PostgreSQL's `pg_type` in this order: number, name, length,
/// kind, category, preferred, by value, item, array, alignment, storage, collation, and the numbers
/// of its functions for input, output, receive, send, modifier in and out, subscripts.
const TYPES: &str = include_str!("types.txt");

/// A type that every database has.
pub(in crate::catalog) struct BaseType {
    pub(in crate::catalog) oid: i64,
    pub(in crate::catalog) name: &'static str,
    pub(in crate::catalog) item: i64,
    pub(in crate::catalog) category: &'static str,
    kind: &'static str,
    pub(in crate::catalog) preferred: bool,
    pub(in crate::catalog) array: i64,
    layout: Layout,
    functions: [i64; 7],
}

/// Memory layout of a type's values in PostgreSQL. Clients use only the length.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    pub(super) length: i64,
    pub(super) by_value: bool,
    pub(super) alignment: &'static str,
    pub(super) storage: &'static str,
    pub(super) collation: i64,
}

pub(in crate::catalog) static BASE: LazyLock<Vec<BaseType>> =
    LazyLock::new(|| TYPES.lines().map(base_type).collect());

static LAYOUTS: LazyLock<HashMap<i64, Layout>> =
    LazyLock::new(|| BASE.iter().map(|base| (base.oid, base.layout)).collect());

fn base_type(line: &'static str) -> BaseType {
    let fields: Vec<&str> = line.split(' ').collect();
    let number = |index: usize| -> i64 {
        fields[index].parse().expect("numbers of types.txt are written in digits")
    };
    BaseType {
        oid: number(0),
        name: fields[1],
        item: number(7),
        category: fields[4],
        kind: fields[3],
        preferred: fields[5] == "t",
        array: number(8),
        layout: Layout {
            length: number(2),
            by_value: fields[6] == "t",
            alignment: fields[9],
            storage: fields[10],
            collation: number(11),
        },
        functions: std::array::from_fn(|index| number(12 + index)),
    }
}

/// The layout of a type that columns have.
pub(super) fn layout(oid: u32) -> Layout {
    let missing =
        Layout { length: -1, by_value: false, alignment: "i", storage: "x", collation: 0 };
    LAYOUTS.get(&i64::from(oid)).copied().unwrap_or(missing)
}

/// The types that every database has.
pub(super) fn base() -> Result<RecordBatch, ArrowError> {
    static ROWS: LazyLock<RecordBatch> = LazyLock::new(|| {
        let mut rows = Rows::new(&relations::ALL["pg_type"].schema);
        for base in BASE.iter() {
            push_base(base, &mut rows);
        }
        rows.finish().expect("the types of types.txt fit pg_type")
    });
    Ok(ROWS.clone())
}

fn push_base(base: &BaseType, rows: &mut Rows) {
    let [input, output, receive, send, modifier_in, modifier_out, subscript] = base.functions;
    rows.push([
        ("oid", base.oid.into()),
        ("typname", base.name.into()),
        ("typnamespace", PG_CATALOG_OID.into()),
        ("typowner", OWNER.into()),
        ("typlen", base.layout.length.into()),
        ("typbyval", base.layout.by_value.into()),
        ("typtype", base.kind.into()),
        ("typcategory", base.category.into()),
        ("typispreferred", base.preferred.into()),
        ("typisdefined", true.into()),
        ("typdelim", ",".into()),
        ("typsubscript", subscript.into()),
        ("typelem", base.item.into()),
        ("typarray", base.array.into()),
        ("typinput", input.into()),
        ("typoutput", output.into()),
        ("typreceive", receive.into()),
        ("typsend", send.into()),
        ("typmodin", modifier_in.into()),
        ("typmodout", modifier_out.into()),
        ("typalign", base.layout.alignment.into()),
        ("typstorage", base.layout.storage.into()),
        ("typtypmod", (-1).into()),
        ("typcollation", base.layout.collation.into()),
    ]);
}

/// The functions that read and write rows, and arrays.
const RECORD_FUNCTIONS: [i64; 4] = [2_290, 2_291, 2_402, 2_403];
const ARRAY_FUNCTIONS: [i64; 4] = [750, 751, 2_400, 2_401];
const ARRAY_SUBSCRIPT: i64 = 6_179;

/// The types of the rows of tables and views, and of arrays of them.
pub(super) fn of_rows(objects: &Objects, rows: &mut Rows) {
    for relation in objects.relations.iter().filter(|relation| relation.has_row_type()) {
        let row = RowType {
            oid: ROW_TYPES + relation.oid,
            name: relation.name.clone(),
            namespace: relation.namespace_oid,
            owner: relation.access.owner,
            kind: "c",
            category: "C",
            relation: relation.oid,
            item: 0,
            array: ROW_ARRAYS + relation.oid,
            functions: RECORD_FUNCTIONS,
        };
        let array = RowType {
            oid: ROW_ARRAYS + relation.oid,
            name: format!("_{}", relation.name),
            kind: "b",
            category: "A",
            relation: 0,
            item: ROW_TYPES + relation.oid,
            array: 0,
            namespace: relation.namespace_oid,
            owner: relation.access.owner,
            functions: ARRAY_FUNCTIONS,
        };
        row.push(rows);
        array.push(rows);
    }
}

struct RowType {
    oid: i64,
    name: String,
    namespace: i64,
    owner: i64,
    kind: &'static str,
    category: &'static str,
    relation: i64,
    item: i64,
    array: i64,
    functions: [i64; 4],
}

impl RowType {
    fn push(self, rows: &mut Rows) {
        let [input, output, receive, send] = self.functions;
        let subscript = if self.item == 0 { 0 } else { ARRAY_SUBSCRIPT };
        rows.push([
            ("oid", self.oid.into()),
            ("typname", self.name.into()),
            ("typnamespace", self.namespace.into()),
            ("typowner", self.owner.into()),
            ("typlen", (-1).into()),
            ("typtype", self.kind.into()),
            ("typcategory", self.category.into()),
            ("typisdefined", true.into()),
            ("typdelim", ",".into()),
            ("typrelid", self.relation.into()),
            ("typsubscript", subscript.into()),
            ("typelem", self.item.into()),
            ("typarray", self.array.into()),
            ("typinput", input.into()),
            ("typoutput", output.into()),
            ("typreceive", receive.into()),
            ("typsend", send.into()),
            ("typalign", "d".into()),
            ("typstorage", "x".into()),
            ("typtypmod", (-1).into()),
        ]);
    }
}
