//! The answer to `GetXdbcTypeInfo`: the types of columns.

use arrow_flight::sql::metadata::{XdbcTypeInfo, XdbcTypeInfoData, XdbcTypeInfoDataBuilder};
use arrow_flight::sql::{Nullable, Searchable, XdbcDataType, XdbcDatetimeSubcode};

/// Maximum size in digits, bits or characters; `None` if unlimited.
type Size = Option<i32>;

pub(crate) fn xdbc_types() -> XdbcTypeInfoData {
    let mut types = XdbcTypeInfoDataBuilder::new();
    for info in integers().into_iter().chain(other_numbers()).chain(texts()).chain(times()) {
        types.append(info);
    }
    types.build().expect("the facts are of the types that the schema knows")
}

fn base(name: &str, data_type: XdbcDataType, size: Size) -> XdbcTypeInfo {
    XdbcTypeInfo {
        type_name: name.to_owned(),
        data_type,
        column_size: size,
        nullable: Nullable::NullabilityNullable,
        searchable: Searchable::Full,
        local_type_name: Some(name.to_owned()),
        sql_data_type: data_type,
        ..XdbcTypeInfo::default()
    }
}

fn quoted(info: XdbcTypeInfo) -> XdbcTypeInfo {
    XdbcTypeInfo {
        literal_prefix: Some("'".to_owned()),
        literal_suffix: Some("'".to_owned()),
        ..info
    }
}

fn integers() -> [XdbcTypeInfo; 3] {
    let integer = |name, data_type, size| XdbcTypeInfo {
        unsigned_attribute: Some(false),
        fixed_prec_scale: true,
        auto_increment: Some(false),
        minimum_scale: Some(0),
        maximum_scale: Some(0),
        num_prec_radix: Some(10),
        ..base(name, data_type, Some(size))
    };
    [
        integer("smallint", XdbcDataType::XdbcSmallint, 5),
        integer("integer", XdbcDataType::XdbcInteger, 10),
        // Flight SQL's list of types has no 64-bit integer.
        integer("bigint", XdbcDataType::XdbcInteger, 19),
    ]
}

fn other_numbers() -> [XdbcTypeInfo; 4] {
    let float = |name, data_type, bits| XdbcTypeInfo {
        unsigned_attribute: Some(false),
        auto_increment: Some(false),
        num_prec_radix: Some(2),
        ..base(name, data_type, Some(bits))
    };
    let numeric = XdbcTypeInfo {
        create_params: Some(vec!["precision".to_owned(), "scale".to_owned()]),
        unsigned_attribute: Some(false),
        auto_increment: Some(false),
        minimum_scale: Some(0),
        maximum_scale: Some(76),
        num_prec_radix: Some(10),
        ..base("numeric", XdbcDataType::XdbcNumeric, Some(76))
    };
    let boolean = base("boolean", XdbcDataType::XdbcUnknownType, Some(1));
    [
        float("real", XdbcDataType::XdbcReal, 24),
        float("double precision", XdbcDataType::XdbcDouble, 53),
        numeric,
        boolean,
    ]
}

fn texts() -> [XdbcTypeInfo; 5] {
    let text = |name, data_type, size| XdbcTypeInfo {
        case_sensitive: true,
        ..quoted(base(name, data_type, size))
    };
    let varchar = XdbcTypeInfo {
        create_params: Some(vec!["length".to_owned()]),
        ..text("character varying", XdbcDataType::XdbcVarchar, Some(10_485_760))
    };
    [
        varchar,
        text("text", XdbcDataType::XdbcVarchar, None),
        text("json", XdbcDataType::XdbcVarchar, None),
        quoted(base("uuid", XdbcDataType::XdbcChar, Some(36))),
        quoted(base("bytea", XdbcDataType::XdbcUnknownType, None)),
    ]
}

fn times() -> [XdbcTypeInfo; 5] {
    let time = |name, data_type, size, subcode| XdbcTypeInfo {
        datetime_subcode: Some(subcode),
        sql_data_type: XdbcDataType::XdbcDatetime,
        ..quoted(base(name, data_type, Some(size)))
    };
    let timestamp = |name, size, subcode| XdbcTypeInfo {
        minimum_scale: Some(6),
        maximum_scale: Some(6),
        ..time(name, XdbcDataType::XdbcTimestamp, size, subcode)
    };
    let interval = XdbcTypeInfo {
        sql_data_type: XdbcDataType::XdbcInterval,
        interval_precision: Some(6),
        ..quoted(base("interval", XdbcDataType::XdbcInterval, Some(49)))
    };
    [
        time("date", XdbcDataType::XdbcDate, 10, XdbcDatetimeSubcode::XdbcSubcodeYear),
        time("time", XdbcDataType::XdbcTime, 15, XdbcDatetimeSubcode::XdbcSubcodeTime),
        timestamp("timestamp", 26, XdbcDatetimeSubcode::XdbcSubcodeTimestamp),
        timestamp(
            "timestamp with time zone",
            32,
            XdbcDatetimeSubcode::XdbcSubcodeTimestampWithTimezone,
        ),
        interval,
    ]
}
