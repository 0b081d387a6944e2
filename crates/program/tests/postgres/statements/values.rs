//! Values: operators, casts, patterns, time, JSON and arrays.

use super::super::expressions::Scope;
use super::super::marks::{list, optional};
use super::super::peers::Statement;
use super::super::random::Random;
use super::super::tables::{SCALARS, Tables, Type};
use super::{aliased, unordered};

/// Columns of a table, each an expression.
fn listed(scope_of: (&str, &[String])) -> Statement {
    let (table, values) = scope_of;
    unordered(format!("SELECT q.id, {} FROM {table} q", list(values)))
}

fn alone(values: &[String]) -> Statement {
    unordered(format!("SELECT {}", list(values)))
}

/// Operators without brackets.
fn chain(random: &mut Random, scope: &Scope, operators: &[&str], of: Type, most: usize) -> String {
    let operand = |random: &mut Random| {
        let prefix = random.pick(&["", "", "", "-", "+", "@ ", "~ "]);
        let prefix = if of == Type::Int4 { prefix } else { "" };
        let prefix = prefix.replace("~ ", if operators.contains(&"/") { "- " } else { "~ " });
        format!("{prefix}{}", scope.leaf(random, of))
    };
    let mut text = operand(random);
    for _ in 0..1 + random.below(most) {
        text += &optional(&format!(" {} {}", random.pick(operators), operand(random)));
    }
    text
}

pub fn operators(random: &mut Random, tables: &Tables) -> Statement {
    let (table, scope) = aliased(random, tables, "q");
    let mut value = || match random.below(9) {
        0 => chain(random, &scope, &["+", "-", "*"], Type::Int4, 4),
        1 => chain(random, &scope, &["+", "-", "*", "&", "|", "#"], Type::Int4, 4),
        2 => {
            let one = chain(random, &scope, &["+", "-", "*"], Type::Int4, 2);
            format!("{one} {} {}", random.pick(&["/", "%"]), random.pick(&["3", "-2", "7"]))
        }
        3 => {
            let (one, other) = (
                chain(random, &scope, &["+", "*"], Type::Int4, 2),
                chain(random, &scope, &["-", "*"], Type::Int4, 2),
            );
            let operator = random.pick(&["=", "<", ">=", "<>", "IS DISTINCT FROM"]);
            format!("{}{one} {operator} {other}", random.pick(&["", "NOT "]))
        }
        4 => {
            let condition = |random: &mut Random| {
                let not = random.pick(&["", "", "NOT "]);
                format!("{not}{}", scope.condition(random, 0))
            };
            let mut text = condition(random);
            for _ in 0..1 + random.below(3) {
                let operator = random.pick(&["AND", "OR"]);
                text += &optional(&format!(" {operator} {}", condition(random)));
            }
            text
        }
        5 => {
            let text = scope.leaf(random, Type::Text);
            let number = chain(random, &scope, &["+", "-", "*"], Type::Int4, 2);
            format!("{text} || {number}{}", optional(" || 'x'"))
        }
        6 => {
            let one = scope.leaf(random, Type::Int4);
            format!("{one} + 1 BETWEEN - 2 AND 3 * 2{}", optional(" IS NOT TRUE"))
        }
        7 => format!("- {} ^ 2{}", random.pick(&["2", "3.0::float8", "q.a"]), optional(" * 2 = 8")),
        _ => format!(
            "{} << {} + 1{}",
            random.pick(&["1", "q.id", "2"]),
            random.pick(&["1", "2"]),
            optional(random.pick(&[" | 1 # 3", " & 7", " >> 1 - 0"]))
        ),
    };
    let values = [value(), value()];
    listed((table.name, &values))
}

pub fn expressions(random: &mut Random, tables: &Tables) -> Statement {
    let (table, scope) = aliased(random, tables, "q");
    let mut value = || {
        let of = random.of(&SCALARS);
        let of = if random.one_in(4) { random.of(&[Type::Ints, Type::Texts]) } else { of };
        scope.value(random, of, 3)
    };
    let values = [value(), value(), value()];
    listed((table.name, &values))
}

const TARGETS: [&str; 17] = [
    "integer",
    "bigint",
    "smallint",
    "numeric(6,1)",
    "numeric",
    "double precision",
    "real",
    "text",
    "varchar(2)",
    "boolean",
    "date",
    "timestamp",
    "timestamptz",
    "interval",
    "integer[]",
    "text[]",
    "numeric(4,1)[]",
];
const SOURCES: [&str; 39] = [
    "'12'",
    "' 12 '",
    "'1.5'",
    "'-0'",
    "''",
    "'1e3'",
    "'infinity'",
    "'abc'",
    "'t'",
    "'no'",
    "'2024-02-30'",
    "'2024-02-29'",
    "'2024-11-03 01:30'",
    "'2024-11-03 01:30-04'",
    "'{1,2,NULL}'",
    "'{1.4,2.5}'",
    "'{a,\"b c\"}'",
    "'{}'",
    "'1 day 02:03'",
    "'P1DT2H'",
    "'-1 mon'",
    "1",
    "-1",
    "1.5",
    "2.5",
    "-2.5",
    "1.5::float8",
    "2.5::float8",
    "'NaN'::float8",
    "3000000000",
    "true",
    "ARRAY[1,2]",
    "ARRAY[1.4,2.5,-3.5]",
    "ARRAY['1','2']",
    "date '2024-03-10'",
    "timestamp '2024-03-10 02:30'",
    "interval '36 hours'",
    "'foobar'::text",
    "NULL",
];

/// A cast of a literal: most fail, all the same way.
pub fn casts(random: &mut Random, tables: &Tables) -> Statement {
    let (table, scope) = aliased(random, tables, "q");
    let target = random.pick(&TARGETS);
    if random.one_in(3) {
        let of = random.of(&SCALARS);
        let text = scope.leaf(random, of);
        return listed((table.name, &[format!("({text})::{target}")]));
    }
    let source = random.pick(&SOURCES);
    let mut value = format!("({source})::{target}");
    if random.one_in(3) {
        value = format!("({value})::{}", random.pick(&TARGETS));
    }
    match random.below(4) {
        0 => unordered(format!("SELECT {value} FROM (VALUES (1)) v(x)")),
        1 => unordered(format!("SELECT v.x::{target} FROM (VALUES ({source})) v(x)")),
        2 => unordered(format!("SELECT {value}, pg_typeof({value})::text")),
        _ => alone(&[value]),
    }
}

const SUBJECTS: [&str; 12] = [
    "'foobarbequebaz'",
    "'abc'",
    "'aXbXc'",
    "''",
    "E'a\\nb'",
    "'Abc ABC'",
    "'12-34'",
    "'aaa'",
    "'héllo'",
    "'a.b'",
    "'ab12'",
    "NULL::text",
];
const PATTERNS: [&str; 24] = [
    "'b'",
    "'(a)(x)?'",
    "'^a'",
    "'c$'",
    "'a.b'",
    "'[0-9]+'",
    "'\\d+'",
    "'(ba)(r|z)'",
    "'x*'",
    "'a{2}'",
    "'a+?'",
    "'(?i)ABC'",
    "'[[:alpha:]]+'",
    "'\\mABC\\M'",
    "''",
    "'(?:a|b)c'",
    "'a|'",
    "'(a)|(b)'",
    "'[^a]'",
    "'\\w+'",
    "'\\s'",
    "'(a*)*'",
    "'('",
    "'a**'",
];

pub fn regular_expressions(random: &mut Random, tables: &Tables) -> Statement {
    let (table, scope) = aliased(random, tables, "q");
    let is_column = random.one_in(3);
    let subject = match is_column {
        true => scope.leaf(random, Type::Text),
        false => random.pick(&SUBJECTS).to_owned(),
    };
    let pattern = random.pick(&PATTERNS);
    let flags = random.pick(&["", "", ", 'i'", ", 'g'", ", 'n'", ", 'gi'"]);
    let without_g = flags.replace('g', "");
    let without_g = if without_g == ", ''" { "" } else { &without_g };
    let operator = random.pick(&["~", "~*", "!~", "!~*"]);
    let replacement = random.pick(&["'X'", "'<\\1>'", "'[\\&]'", "''", "'\\\\'"]);
    let value = match random.below(13) {
        0 => format!("{subject} {operator} {pattern}"),
        1 => format!("regexp_match({subject}, {pattern}{without_g})"),
        2 | 3 => format!("regexp_replace({subject}, {pattern}, {replacement}{flags})"),
        4 => format!("regexp_split_to_array({subject}, {pattern}{without_g})"),
        5 => format!("substring({subject} from {pattern})"),
        6 => {
            let pattern = random.pick(&["'a%'", "'%(b|c)%'", "'_b_'", "'[a-f]+'", "'a|abc'"]);
            format!("{subject} SIMILAR TO {pattern}")
        }
        7 => format!("regexp_count({subject}, {pattern})"),
        8 => format!("regexp_like({subject}, {pattern}{without_g})"),
        9 => format!("regexp_substr({subject}, {pattern})"),
        10 => format!("regexp_instr({subject}, {pattern})"),
        11 => {
            let pattern = random.pick(&["'a%'", "'%b'", "'a_c'", "'a\\_b'", "'%'"]);
            let like = random.pick(&["LIKE", "ILIKE", "NOT LIKE", "~~"]);
            format!("{subject} {like} {pattern}")
        }
        _ => format!("array(SELECT regexp_matches({subject}, {pattern}{flags})::text)"),
    };
    match is_column {
        true => listed((table.name, &[value])),
        false => alone(&[value]),
    }
}

const ZONES: [&str; 5] =
    ["'America/New_York'", "'Europe/Berlin'", "'UTC'", "'+02'", "'Asia/Kolkata'"];
const FIELDS: [&str; 14] = [
    "hour", "day", "week", "month", "quarter", "year", "minute", "dow", "isodow", "doy", "epoch",
    "second", "isoyear", "century",
];
const MOMENTS: [&str; 7] = [
    "timestamptz '2024-03-10 06:59:59+00'",
    "timestamptz '2024-03-10 07:00+00'",
    "timestamptz '2024-11-03 05:30+00'",
    "timestamptz '2024-11-03 06:30+00'",
    "timestamptz '2024-10-27 00:30+00'",
    "timestamptz '2024-10-27 01:30+00'",
    "q.ts",
];
const LOCALS: [&str; 6] = [
    "timestamp '2024-03-10 02:30'",
    "timestamp '2024-11-03 01:30'",
    "timestamp '2024-10-27 02:30'",
    "timestamp '2024-03-31 02:30'",
    "timestamp '2000-01-01 00:00'",
    "q.ts AT TIME ZONE 'UTC'",
];

pub fn time(random: &mut Random, _: &Tables) -> Statement {
    let mut value = || {
        let (zone, moment, local) =
            (random.pick(&ZONES), random.pick(&MOMENTS), random.pick(&LOCALS));
        let field = random.pick(&FIELDS);
        let unit = random.pick(&["hour", "day", "week", "month", "quarter", "year", "minute"]);
        let interval =
            random.pick(&["1 day", "24 hours", "1 mon", "-1 day", "1 year 1 day", "1 hour"]);
        match random.below(13) {
            0 => format!("{moment} AT TIME ZONE {zone}"),
            1 => format!("{local} AT TIME ZONE {zone}"),
            2 => format!("date_trunc('{unit}', {moment}, {zone})"),
            3 => format!("date_trunc('{unit}', {moment} AT TIME ZONE {zone})"),
            4 => format!("extract({field} FROM {moment} AT TIME ZONE {zone})"),
            5 => format!("date_part('{field}', {local})"),
            6 => format!("({local} + interval '{interval}') AT TIME ZONE {zone}"),
            7 => format!("{moment} - {}", random.pick(&MOMENTS)),
            8 => format!("age({local}, {})", random.pick(&LOCALS)),
            9 => {
                let format =
                    random.pick(&["YYYY-MM-DD HH24:MI", "IYYY-IW", "Dy, DD Mon", "HH12:MI AM"]);
                format!("to_char({local}, '{format}')")
            }
            10 => format!("({moment})::date - date '2024-01-01'"),
            11 => format!("extract({field} FROM interval '{interval}')"),
            _ => format!("timezone({zone}, {moment}) = {local}"),
        }
    };
    let values = [value(), value()];
    let rows =
        "(VALUES (timestamptz '2024-11-03 05:59+00'), ('2024-03-31 01:00+00'), (NULL)) q(ts)";
    unordered(format!("SELECT {} FROM {rows}", list(&values)))
}

pub fn json(random: &mut Random, tables: &Tables) -> Statement {
    let (table, scope) = aliased(random, tables, "q");
    let mut value = || {
        let json = scope.leaf(random, Type::Json);
        let scalar = random.of(&[Type::Int4, Type::Text, Type::Bool, Type::Numeric, Type::Date]);
        let one = scope.leaf(random, scalar);
        match random.below(14) {
            0 => format!("{json} -> 'a'"),
            1 => format!("('[1, \"a\"]'::jsonb || {json}) ->> 1"),
            2 => format!("{json} #>> '{{a,b}}'"),
            3 => format!("{json} #> '{{a,b,0}}'"),
            4 => format!("jsonb_typeof({json})"),
            5 => format!("to_jsonb({one})"),
            6 => format!("jsonb_build_object('k', {one}, 'j', {json})"),
            7 => format!("jsonb_build_array({one}, {json}, NULL)"),
            8 => format!("{json} ? 'a'"),
            9 => format!("{json} @> '{{\"a\": 1}}'"),
            10 => format!("row_to_json(row({one}, {json}))"),
            11 => format!("to_json(ARRAY[{one}, {one}])"),
            12 => format!("{json} || '[3]'::jsonb"),
            _ => format!("jsonb_set({json}, '{{a}}', to_jsonb({one}))"),
        }
    };
    let values = [value(), value()];
    match random.below(5) {
        0 => unordered(format!(
            "SELECT array_to_json(array_agg(row_to_json(x) ORDER BY x.id)) \
             FROM (SELECT q.id, {} AS v FROM {} q) x",
            values[0], table.name
        )),
        1 => unordered(format!(
            "SELECT jsonb_agg({} ORDER BY q.id), json_object_agg(q.id, q.a ORDER BY q.id) \
             FROM {} q",
            values[0], table.name
        )),
        2 => unordered(
            "SELECT q.id, j.key, j.value FROM r q, \
             jsonb_each_text(jsonb_build_object('a', q.a, 'c', q.c)) j"
                .to_owned(),
        ),
        _ => listed((table.name, &values)),
    }
}

pub fn arrays(random: &mut Random, tables: &Tables) -> Statement {
    let (table, scope) = aliased(random, tables, "q");
    let mut value = || {
        let (ints, texts) = (scope.leaf(random, Type::Ints), scope.leaf(random, Type::Texts));
        let int = scope.leaf(random, Type::Int4);
        let text = scope.leaf(random, Type::Text);
        match random.below(20) {
            0 => format!("({ints})[{int}]"),
            1 => format!("({ints})[1:{}]", random.below(4)),
            2 => format!("{ints} || {int}"),
            3 => format!("{int} || {ints}"),
            4 => format!("{ints} || NULL"),
            5 => format!("{ints} @> ARRAY[{int}]"),
            6 => format!("{ints} && {}", scope.leaf(random, Type::Ints)),
            7 => format!("array_position({ints}, {int})"),
            8 => format!("cardinality({ints}) + coalesce(array_length({texts}, 1), 0)"),
            9 => format!("array_to_string({texts}, ','{})", optional(", '*'")),
            10 => format!("string_to_array({text}, {})", random.pick(&["'b'", "NULL", "''"])),
            11 => format!(
                "{ints} {} {}",
                random.pick(&["=", "<", ">="]),
                scope.leaf(random, Type::Ints)
            ),
            12 => format!("{int} = ANY ({ints})"),
            13 => format!("{text} <> ALL ({texts})"),
            14 => format!("array_replace({texts}, {text}, NULL)"),
            15 => format!("ARRAY[{int}, {int} + 1] || {ints}"),
            16 => format!("{ints}::text[] || {texts}"),
            17 => format!("{texts}::varchar(1)[]"),
            18 => format!("array_positions({ints}, {int})"),
            _ => format!("array_cat({ints}, ARRAY[{int}, NULL])"),
        }
    };
    let values = [value(), value()];
    listed((table.name, &values))
}
