//! Small tables that are the same in every database.

use thalweg_types::DataType;
use thalweg_values::system_types::column_type_oid;
use thalweg_values::zone::Zone;

use super::roles::OWNER;
use super::rows::{Rows, Value};
use crate::catalog::objects::PG_CATALOG_OID;

/// Keys are shown as b-trees, the only unique indexes that clients know.
const BTREE: i64 = 403;

pub(super) fn access_methods(rows: &mut Rows) {
    for (oid, name, handler, kind) in [(2_i64, "heap", 3_i64, "t"), (BTREE, "btree", 330, "i")] {
        rows.push([
            ("oid", oid.into()),
            ("amname", name.into()),
            ("amhandler", handler.into()),
            ("amtype", kind.into()),
        ]);
    }
}

/// Lists the collations. All compare text byte by byte.
pub(super) fn collations(rows: &mut Rows) {
    let named = [(100_i64, "default", "d", None), (950, "C", "c", Some("C"))];
    for (oid, name, provider, locale) in named {
        rows.push([
            ("oid", oid.into()),
            ("collname", name.into()),
            ("collnamespace", PG_CATALOG_OID.into()),
            ("collowner", OWNER.into()),
            ("collprovider", provider.into()),
            ("collisdeterministic", true.into()),
            ("collencoding", (-1).into()),
            ("collcollate", locale.into()),
            ("collctype", locale.into()),
        ]);
    }
}

pub(super) fn languages(rows: &mut Rows) {
    for (oid, name, trusted) in [(12_i64, "internal", false), (14, "sql", true)] {
        rows.push([
            ("oid", oid.into()),
            ("lanname", name.into()),
            ("lanowner", OWNER.into()),
            ("lanpltrusted", trusted.into()),
        ]);
    }
}

/// Number, name, family and type of the operator classes of keys.
const OPERATOR_CLASSES: [(i64, &str, i64, i64); 17] = [
    (10_003, "bool_ops", 424, 16),
    (10_006, "bytea_ops", 428, 17),
    (3_124, "int8_ops", 1_976, 20),
    (1_979, "int2_ops", 1_976, 21),
    (1_978, "int4_ops", 1_976, 23),
    (3_126, "text_ops", 1_994, 25),
    (10_012, "float4_ops", 1_970, 700),
    (3_123, "float8_ops", 1_970, 701),
    (3_122, "date_ops", 434, 1_082),
    (10_038, "time_ops", 1_996, 1_083),
    (3_128, "timestamp_ops", 434, 1_114),
    (3_127, "timestamptz_ops", 434, 1_184),
    (10_022, "interval_ops", 1_982, 1_186),
    (3_125, "numeric_ops", 1_988, 1_700),
    (ARRAY_CLASS, "array_ops", 397, 2_277),
    (10_065, "uuid_ops", 2_968, 2_950),
    (1_981, "oid_ops", 1_989, 26),
];

const ARRAY_CLASS: i64 = 10_000;

/// The operator class of a key's column of this type.
pub(super) fn operator_class(data_type: &DataType) -> i64 {
    let type_oid = match data_type {
        DataType::Array(_) => return ARRAY_CLASS,
        DataType::Text { .. } | DataType::Json | DataType::Jsonb => {
            i64::from(column_type_oid(&DataType::Text { max_chars: None }))
        }
        other => i64::from(column_type_oid(other)),
    };
    OPERATOR_CLASSES.iter().find(|class| class.3 == type_oid).map_or(0, |class| class.0)
}

pub(super) fn operator_classes(rows: &mut Rows) {
    for (oid, name, family, input) in OPERATOR_CLASSES {
        rows.push([
            ("oid", oid.into()),
            ("opcmethod", BTREE.into()),
            ("opcname", name.into()),
            ("opcnamespace", PG_CATALOG_OID.into()),
            ("opcowner", OWNER.into()),
            ("opcfamily", family.into()),
            ("opcintype", input.into()),
            ("opcdefault", true.into()),
        ]);
    }
}

/// The zones that sessions can have, as they are at a moment.
pub(super) fn time_zones(now_micros: i64, rows: &mut Rows) {
    for (name, zone) in Zone::places() {
        let mut abbreviation = String::new();
        zone.push_abbreviation(now_micros, &mut abbreviation);
        rows.push([
            ("name", name.into()),
            ("abbrev", abbreviation.into()),
            ("utc_offset", Value::Seconds(zone.offset_at_utc(now_micros))),
            ("is_dst", zone.is_summer(now_micros).into()),
        ]);
    }
}

/// PostgreSQL's keywords, one a line: the word, its category, and whether it may name a column
/// without AS.
const KEYWORDS: &str = include_str!("keywords.txt");

pub(super) fn keywords(rows: &mut Rows) {
    for line in KEYWORDS.lines() {
        let mut words = line.split(' ');
        let [Some(word), Some(category), Some(bare)] = std::array::from_fn(|_| words.next()) else {
            unreachable!("{line:?} is no keyword")
        };
        let meaning = match category {
            "R" => "reserved",
            "T" => "reserved (can be function or type name)",
            "C" => "unreserved (cannot be function or type name)",
            _ => "unreserved",
        };
        rows.push([
            ("word", word.into()),
            ("catcode", category.into()),
            ("barelabel", (bare == "t").into()),
            ("catdesc", meaning.into()),
            ("baredesc", if bare == "t" { "can be bare label" } else { "requires AS" }.into()),
        ]);
    }
}
