//! What PostgreSQL 15 answers, and what it is answered here.

use crate::testing::{expect_errors, expect_values};

#[test]
fn dates_and_times() {
    expect_values(&[
        ("select extract(year from date '2024-01-15')", "2024"),
        (
            "select extract(dow from date '2024-01-15'), extract(isodow from date '2024-01-15'), \
            extract(doy from date '2024-03-01'), extract(week from date '2024-12-30'), \
            extract(quarter from date '2024-05-01')",
            "1|1|61|1|2",
        ),
        (
            "select extract(day from interval '3 days 2 hours'), extract(hour from interval '3 \
            days 2 hours')",
            "3|2",
        ),
        ("select date_part('year', date '2024-01-15')", "2024"),
        ("select date_trunc('month', timestamp '2024-01-15 10:30:15')", "2024-01-01 00:00:00"),
        ("select date_trunc('week', timestamp '2024-01-17 10:30:15')", "2024-01-15 00:00:00"),
        ("select date_trunc('quarter', date '2024-05-15')::date", "2024-04-01"),
        ("select age(timestamp '2024-03-15', timestamp '2023-01-31')", "1 year 1 mon 15 days"),
    ]);
}

#[test]
fn patterns_of_dates_and_numbers() {
    expect_values(&[
        (
            "select to_char(timestamp '2024-01-05 15:07:09.123456', 'YYYY-MM-DD HH24:MI:SS.US')",
            "2024-01-05 15:07:09.123456",
        ),
        (
            "select to_char(timestamp '2024-01-05 15:07:09.123456', 'FMDay, DD FMMonth YYYY \
            HH12:MI:SS AM')",
            "Friday, 05 January 2024 03:07:09 PM",
        ),
        (
            "select to_char(timestamp '2024-01-05 15:07:09', 'Dy Mon DDth Q WW IW DDD J \"at\" \
            HH:MI pm')",
            "Fri Jan 05th 1 01 01 005 2460315 at 03:07 pm",
        ),
        (
            "select to_char(date '2024-12-30', 'IYYY-\"W\"IW-ID Day|Month|MON|mon')",
            "2025-W01-1 Monday   |December |DEC|dec",
        ),
        ("select to_char(1234567.891, '9,999,999.99')", " 1,234,567.89"),
        ("select to_char(1234.5, 'FM999,990.00')", "1,234.50"),
        ("select to_char(-12.5, '999.9')", " -12.5"),
        ("select to_char(0.5, '0.00')", " 0.50"),
        ("select to_char(0.5, '9.99')", "  .50"),
        ("select to_char(5, '000')", " 005"),
        ("select to_char(123456, '999')", " ###"),
        ("select to_char(12, 'S99'), to_char(-12, '99MI'), to_char(-12,'99PR')", "+12|12-|<12>"),
        ("select to_date('2024-01-05', 'YYYY-MM-DD')", "2024-01-05"),
        ("select to_date('05 Jan 2024', 'DD Mon YYYY')", "2024-01-05"),
        ("select to_date('20240105', 'YYYYMMDD')", "2024-01-05"),
        (
            "select to_timestamp('05 Jan 2024 03:04:05 PM', 'DD Mon YYYY HH12:MI:SS AM')",
            "2024-01-05 15:04:05+00",
        ),
        ("select to_timestamp(1705314615.5)", "2024-01-15 10:30:15.5+00"),
        ("select make_date(2024, 2, 29)", "2024-02-29"),
        ("select make_timestamp(2024, 2, 29, 10, 30, 15.5)", "2024-02-29 10:30:15.5"),
        (
            "select justify_days(interval '35 days'), justify_hours(interval '27 hours'), \
            justify_interval(interval '1 mon -1 hour')",
            "1 mon 5 days|1 day 03:00:00|29 days 23:00:00",
        ),
        ("select date '2024-01-01' + 7", "2024-01-08"),
        ("select date '2024-01-08' - date '2024-01-01'", "7"),
        ("select timestamp '2024-01-31' + interval '1 month'", "2024-02-29 00:00:00"),
        ("select interval '1 hour' + interval '30 minutes'", "01:30:00"),
        ("select time '10:00' + interval '30 minutes'", "10:30:00"),
        (
            "select 1::text, 1.50::text, true::text, 1.5::float8::text, 100000::float8::text, \
            date '2024-01-01'::text, timestamp '2024-01-01 10:00:00'::text",
            "1|1.50|true|1.5|100000|2024-01-01|2024-01-01 10:00:00",
        ),
        ("select interval '1 year 2 months 3 days 04:05:06.5'", "1 year 2 mons 3 days 04:05:06.5"),
        ("select '1 day'::interval + '2 hours'::interval", "1 day 02:00:00"),
        ("select timestamptz '2024-01-15 10:00:00+02'", "2024-01-15 08:00:00+00"),
    ]);
}

#[test]
fn text() {
    expect_values(&[
        ("select * from generate_series(1, 3)", "1\n2\n3"),
        ("select * from generate_series(1, 10, 4) g", "1\n5\n9"),
        (
            "select left('abcde', 2), left('abcde', -2), right('abcde', 2), right('abcde', -2)",
            "ab|abc|de|cde",
        ),
        ("select lpad('abc', 5), lpad('abc', 5, 'xy'), rpad('abc', 2)", "  abc|xyabc|ab"),
        (
            "select lpad('äbc', 2), rpad('äb', 4, 'ö-'), lpad('a', 3, ''), rpad('a', -1)",
            "äb|äbö-|a|",
        ),
        ("select lpad('a', null), rpad(null, 3), repeat(null, 2)", "||"),
        ("select repeat('ab', 0), repeat('ab', -1), repeat('é', 2)", "||éé"),
        ("select format('%s %I %L %%', 'a', 'B c', 'd''e')", "a \"B c\" 'd''e' %"),
        ("select format('%2$s %1$s', 'a', 'b')", "b a"),
        (
            "select quote_ident('Ab'), quote_ident('ab'), quote_literal('a''b'), \
            quote_nullable(null)",
            "\"Ab\"|ab|'a''b'|NULL",
        ),
        ("select regexp_match('foobarbequebaz', '(bar)(beque)')", "{bar,beque}"),
        (
            "select regexp_replace('foobar', 'o', 'x'), regexp_replace('foobar', 'o', 'x', 'g')",
            "fxobar|fxxbar",
        ),
        ("select regexp_replace('foobar', '(o+)', '[\\1]')", "f[oo]bar"),
        (
            "select split_part('a,b,c', ',', 2), split_part('a,b,c', ',', -1), split_part('a', \
            ',', 5)",
            "b|c|",
        ),
        ("select position('b' in 'abc'), strpos('abc', 'c')", "2|3"),
        (
            "select translate('12345', '143', 'ax'), initcap('hello WORLD foo-bar')",
            "a2x5|Hello World Foo-Bar",
        ),
        ("select md5('abc')", "900150983cd24fb0d6963f7d28e17f72"),
        ("select decode('616263', 'hex')", "\\x616263"),
        (
            "select btrim('xxabcxx', 'x'), trim('  a '), trim(both 'x' from 'xax'), ltrim('  \
            a'), rtrim('a  ')",
            "abc|a|a|a|a",
        ),
        (
            "select substring('abcdef' from 2 for 3), substr('abcdef', 0, 3), substr('abcdef', \
            -1, 4), substring('abcdef', 3)",
            "bcd|ab|ab|cdef",
        ),
        ("select overlay('Txxxxas' placing 'hom' from 2 for 4)", "Thomas"),
        (
            "select reverse('abc'), repeat('ab', 3), replace('aXbX', 'X', 'y'), ascii('A'), \
            chr(65), upper('a'), lower('A')",
            "cba|ababab|ayby|65|A|A|a",
        ),
        (
            "select length('äöü'), char_length('abc'), octet_length('äöü'), bit_length('abc')",
            "3|3|6|24",
        ),
        ("select 'a' || 1, 1 || 'a', 'a' || null", "a1|1a|"),
        ("select x from (values (1), (null), (2)) t(x) order by x desc", "\n2\n1"),
        ("select case when 1=1 then 'a' else 'b' end", "a"),
        ("select concat('a', 1.5::float8), concat_ws('-', 1, 2)", "a1.5|1-2"),
        ("select nullif('', ''), coalesce(null, 'x')", "|x"),
    ]);
}

#[test]
fn numbers() {
    expect_values(&[
        ("select div(7, 2), mod(7, 3), mod(-7, 3), mod(7.5, 2)", "3|1|-1|1.5"),
        ("select gcd(12, 18), lcm(4, 6)", "6|12"),
        ("select width_bucket(5.35, 0.024, 10.06, 5)", "3"),
        ("select factorial(5)", "120"),
        ("select abs(-5), abs(-5.5), sign(-5), sign(2.5)", "5|5.5|-1|1"),
        ("select greatest(1, 3, 2), least(1, null, 2), nullif(1, 1), coalesce(null, 2)", "3|1||2"),
        ("select 7/2, -7/2, 7%3", "3|-3|1"),
        ("select 0.1+0.2, 1.10*2, 1e3, 1.5e-3", "0.3|2.20|1000|0.0015"),
        (
            "select exp(1.0::float8), ln(2.718281828459045::float8), log(100::float8)",
            "2.718281828459045|1|2",
        ),
        ("select power(2, 10), 2 ^ 3, sqrt(16)", "1024|8|4"),
    ]);
}

#[test]
fn arrays() {
    expect_values(&[
        ("select array_agg(x order by x) from (values (2),(1)) t(x)", "{1,2}"),
        ("select unnest(array[1,2,3])", "1\n2\n3"),
        ("select * from unnest(array[1,2]) as u(x)", "1\n2"),
        (
            "select array_position(array['a','b'], 'b'), array_to_string(array[1,null,3], ','), \
            array_to_string(array[1,null,3], ',', '*')",
            "2|1,3|1,*,3",
        ),
        ("select string_to_array('a,b,c', ',')", "{a,b,c}"),
        ("select array[1,2] || array[3], array[1,2] || 3, 0 || array[1]", "{1,2,3}|{1,2,3}|{0,1}"),
        (
            "select array_append(array[1], 2), array_prepend(0, array[1]), array_cat(array[1], \
            array[2]), array_remove(array[1,2,1], 1)",
            "{1,2}|{0,1}|{1,2}|{2}",
        ),
        ("select (array[10,20,30])[2], (array[10,20,30])[1:2]", "20|{10,20}"),
        ("select array[1,2]::text, '{1,2}'::int[]", "{1,2}|{1,2}"),
    ]);
}

#[test]
fn aggregates() {
    expect_values(&[
        ("select string_agg(x, ',' order by x desc) from (values ('a'),('b')) t(x)", "b,a"),
        ("select mode() within group (order by x) from (values (1),(2),(2)) t(x)", "2"),
        (
            "select percentile_cont(0.5) within group (order by x) from (values (1),(2),(4)) t(x)",
            "2",
        ),
        (
            "select percentile_disc(0.5) within group (order by x) from (values (1),(2),(4)) t(x)",
            "2",
        ),
        ("select bit_and(x), bit_or(x), bit_xor(x) from (values (5),(6)) t(x)", "4|7|3"),
        ("select count(*) filter (where x > 1) from (values (1),(2)) t(x)", "1"),
        (
            "select row_number() over (order by x), rank() over (order by x), lag(x) over (order \
            by x) from (values (1),(1),(2)) t(x)",
            "1|1|\n2|1|1\n3|3|1",
        ),
        (
            "select ntile(2) over (order by x), first_value(x) over (order by x), nth_value(x,2) \
            over (order by x rows between unbounded preceding and unbounded following) from \
            (values (1),(2),(3)) t(x)",
            "1|1|2\n1|1|2\n2|1|2",
        ),
        ("select string_agg(distinct x, ',') from (values ('a'),('a')) t(x)", "a"),
        ("select min(x), max(x) from (values ('a'),('b')) t(x)", "a|b"),
        ("select sum(x) from (values (1.5),(2.5)) t(x)", "4.0"),
        (
            "select variance(x), stddev_pop(x) from (values (2.0::float8), (4.0::float8)) t (x)",
            "2|1",
        ),
    ]);
}

#[test]
fn json() {
    expect_values(&[
        (
            "select '{\"a\": {\"b\": [1,2]}}'::json -> 'a', '{\"a\": {\"b\": [1,2]}}'::json -> \
            'a' -> 'b' -> 1",
            "{\"b\": [1,2]}|2",
        ),
        (
            "select '{\"a\": \"x\"}'::json ->> 'a', '{\"a\": 1}'::json ->> 'a', '[1,2]'::json -> \
            0, '{\"a\": null}'::json ->> 'a'",
            "x|1|1|",
        ),
        (
            "select '{\"a\": {\"b\": [1,2]}}'::json #> '{a,b,1}', '{\"a\": {\"b\": \
            \"x\"}}'::json #>> '{a,b}'",
            "2|x",
        ),
        (
            "select json_extract_path('{\"a\": {\"b\": 1}}'::json, 'a', 'b'), \
            json_extract_path_text('{\"a\": {\"b\": \"c\"}}'::json, 'a', 'b')",
            "1|c",
        ),
        (
            "select json_array_length('[1,2,3]'::json), json_typeof('[1]'::json), \
            json_typeof('1'::json)",
            "3|array|number",
        ),
        (
            "select json_build_object('a', 1, 'b', 'x'), json_build_array(1, 'a', null, true)",
            "{\"a\" : 1, \"b\" : \"x\"}|[1, \"a\", null, true]",
        ),
        ("select to_json('a\"b'::text), to_json(1), to_json(true)", "\"a\\\"b\"|1|true"),
        ("select (('{\"a\": 5}'::json) ->> 'a')::int + 1", "6"),
    ]);
}

#[test]
fn casts() {
    expect_values(&[
        ("select 'abcdef'::varchar(3), 'abc'::char(5) || 'x'", "abc|abcx"),
        (
            "select 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'::uuid",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        ),
        ("select '\\xdead'::bytea", "\\xdead"),
        ("select x from (values ('NaN'::float8), (1), (-1)) t(x) order by x", "-1\n1\nNaN"),
    ]);
}

#[test]
fn wrong_arguments_are_told_as_postgres_tells_them() {
    expect_errors(&[
        ("select width_bucket(1, 0, 10, 0)", "2201G", "count must be greater than zero"),
        ("select format('%s')", "22023", "too few arguments for format()"),
        (
            "select to_date('2024-13-05', 'YYYY-MM-DD')",
            "22008",
            "date/time field value out of range: \"2024-13-05\"",
        ),
        ("select json_array_length('1'::json)", "22023", "cannot get array length of a scalar"),
        ("select '{a'::json", "22P02", "invalid input syntax for type json"),
        (
            "select percentile_disc(2) within group (order by x) from (values (1)) t (x)",
            "22003",
            "percentile value 2 is not between 0 and 1",
        ),
    ]);
}

#[test]
fn a_uuid_is_found_by_any_of_its_spellings() {
    expect_values(&[(
        "select count(*) from (select 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid as id) t \
         where id = 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11' \
         and id in ('A0EEBC999C0B4EF8BB6D6BB9BD380A11')",
        "1",
    )]);
}
