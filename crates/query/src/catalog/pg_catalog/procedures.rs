//! `pg_proc`: PostgreSQL's functions that Thalweg has, under PostgreSQL's numbers.

use std::collections::HashMap;
use std::sync::LazyLock;

use arrow::array::RecordBatch;
use arrow::error::ArrowError;

use super::relations;
use super::roles::OWNER;
use super::rows::Rows;
use crate::catalog::objects::PG_CATALOG_OID;

/// A function a line: number, name, kind, volatility, strict, returns a set, result, variadic
/// type, number of defaults, types of the arguments.
const PROCEDURES: &str = include_str!("procedures.txt");

const INTERNAL_LANGUAGE: i64 = 12;

pub(in crate::catalog) struct Procedure {
    pub(in crate::catalog) oid: i64,
    pub(in crate::catalog) name: &'static str,
    pub(in crate::catalog) returns_set: bool,
    pub(in crate::catalog) result: i64,
    pub(in crate::catalog) arguments: Vec<i64>,
    pub(in crate::catalog) variadic: i64,
    kind: &'static str,
    volatility: &'static str,
    pub(in crate::catalog) strict: bool,
    defaults: i64,
}

/// All functions, with indexes by number and name.
pub(in crate::catalog) struct Procedures {
    all: Vec<Procedure>,
    by_oid: HashMap<i64, usize>,
    by_name: HashMap<&'static str, Vec<usize>>,
}

static ALL: LazyLock<Procedures> = LazyLock::new(|| {
    let all: Vec<Procedure> = PROCEDURES.lines().map(procedure).collect();
    let mut by_name: HashMap<&'static str, Vec<usize>> = HashMap::new();
    for (index, procedure) in all.iter().enumerate() {
        by_name.entry(procedure.name).or_default().push(index);
    }
    let by_oid = all.iter().enumerate().map(|(index, procedure)| (procedure.oid, index));
    Procedures { by_oid: by_oid.collect(), by_name, all }
});

impl Procedures {
    pub(in crate::catalog) fn get() -> &'static Procedures {
        &ALL
    }

    pub(in crate::catalog) fn every(&self) -> impl Iterator<Item = &Procedure> {
        self.all.iter()
    }

    pub(in crate::catalog) fn numbered(&self, oid: i64) -> Option<&Procedure> {
        self.by_oid.get(&oid).map(|index| &self.all[*index])
    }

    /// All functions of this name.
    pub(in crate::catalog) fn named(&self, name: &str) -> impl Iterator<Item = &Procedure> {
        self.by_name.get(name).into_iter().flatten().map(|index| &self.all[*index])
    }
}

impl Procedure {
    pub(in crate::catalog) fn is_immutable(&self) -> bool {
        self.volatility == "i"
    }
}

fn procedure(line: &'static str) -> Procedure {
    let fields: Vec<&str> = line.split(' ').collect();
    let number = |text: &str| -> i64 {
        text.parse().expect("numbers of procedures.txt are written in digits")
    };
    let arguments = fields[9].split(',').filter(|number| !number.is_empty());
    Procedure {
        oid: number(fields[0]),
        name: fields[1],
        kind: fields[2],
        volatility: fields[3],
        strict: fields[4] == "t",
        returns_set: fields[5] == "t",
        result: number(fields[6]),
        variadic: number(fields[7]),
        defaults: number(fields[8]),
        arguments: arguments.map(number).collect(),
    }
}

pub(super) fn all() -> Result<RecordBatch, ArrowError> {
    static ROWS: LazyLock<RecordBatch> = LazyLock::new(|| {
        let mut rows = Rows::new(&relations::ALL["pg_proc"].schema);
        for procedure in &ALL.all {
            push(procedure, &mut rows);
        }
        rows.finish().expect("the functions of procedures.txt fit pg_proc")
    });
    Ok(ROWS.clone())
}

fn push(procedure: &Procedure, rows: &mut Rows) {
    rows.push([
        ("oid", procedure.oid.into()),
        ("proname", procedure.name.into()),
        ("pronamespace", PG_CATALOG_OID.into()),
        ("proowner", OWNER.into()),
        ("prolang", INTERNAL_LANGUAGE.into()),
        ("procost", 1.into()),
        ("prorows", if procedure.returns_set { 1_000 } else { 0 }.into()),
        ("provariadic", procedure.variadic.into()),
        ("prokind", procedure.kind.into()),
        ("proisstrict", procedure.strict.into()),
        ("proretset", procedure.returns_set.into()),
        ("provolatile", procedure.volatility.into()),
        ("proparallel", "s".into()),
        ("pronargs", procedure.arguments.len().into()),
        ("pronargdefaults", procedure.defaults.into()),
        ("prorettype", procedure.result.into()),
        ("proargtypes", procedure.arguments.clone().into()),
        ("prosrc", procedure.name.into()),
    ]);
}
