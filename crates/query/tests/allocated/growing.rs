//! Statements that make large values of small arguments, or that collect many of them.

pub const STATEMENTS: &[&str] = &[
    "SELECT array_length(array_fill('x'::text, ARRAY[50000000]), 1)",
    "SELECT array_length(array_fill(1, ARRAY[5000, 5000]), 1)",
    "SELECT array_length(array_fill(repeat('x', 1000), ARRAY[i]), 1) \
     FROM generate_series(10000, 18000) s(i)",
    "SELECT count(array_fill(i, ARRAY[2000])) FROM generate_series(1, 80000) s(i)",
    "SELECT cardinality(array_repeat(1, 90000000))",
    "SELECT cardinality(array_repeat('abc', 20000000))",
    "SELECT count(array_repeat(i, 3000)) FROM generate_series(1, 80000) s(i)",
    "SELECT count(array_repeat(ARRAY[i, i], 3000)) FROM generate_series(1, 80000) s(i)",
    "SELECT cardinality(string_to_array(repeat('x,', 5000000), ','))",
    "SELECT cardinality(string_to_array(repeat('x', 10000000), NULL))",
    "SELECT count(string_to_array(repeat('x,', i), ',')) FROM generate_series(3000, 11000) s(i)",
    "SELECT count(*) FROM (SELECT string_to_table(repeat('x,', 5000000), ',')) x",
    "SELECT cardinality(regexp_split_to_array(repeat('x,', 5000000), ','))",
    "SELECT count(*) FROM regexp_split_to_table(repeat('x,', 5000000), ',') x",
    "SELECT count(regexp_split_to_array(repeat('x,', i), ',')) \
     FROM generate_series(3000, 11000) s(i)",
    "SELECT count(*) FROM regexp_matches(repeat('x,', 5000000), '(.)(,)', 'g') x",
    "SELECT length(repeat('x', 100000000))",
    "SELECT length(lpad('x', 100000000, 'ab')), length(rpad('x', 100000000))",
    "SELECT max(length(lpad('x', 100000 + i))) FROM generate_series(1, 8000) s(i)",
    "SELECT cardinality(ARRAY(SELECT generate_series(1, 50000000)))",
    "SELECT cardinality(array_agg(i)) FROM generate_series(1, 50000000) s(i)",
    "SELECT length(string_agg(repeat('x', 1000), ',')) FROM generate_series(1, 200000) s(i)",
    "SELECT length(string_agg(repeat('x', 1000), ',' ORDER BY i DESC)) \
     FROM generate_series(1, 200000) s(i)",
    "SELECT length(string_agg(DISTINCT repeat('x', 1000) || i, ',')) \
     FROM generate_series(1, 200000) s(i)",
    "SELECT string_agg(DISTINCT v, ',') FROM m",
    "SELECT cardinality(array_agg(DISTINCT v)) FROM m WHERE g < 30000",
    "SELECT max(length(string_agg(repeat('x', 1000), ','))) OVER () \
     FROM generate_series(1, 200000) s(i) GROUP BY i % 100",
    "SELECT length(json_agg(repeat('x', 1000))::text) FROM generate_series(1, 200000) s(i)",
    "SELECT length(jsonb_agg(repeat('x', 1000))::text) FROM generate_series(1, 200000) s(i)",
    "SELECT length(jsonb_object_agg(i, repeat('x', 1000))::text) \
     FROM generate_series(1, 200000) s(i)",
    "SELECT max(length(x)) FROM (SELECT json_agg(v)::text AS x FROM m GROUP BY g % 10) s",
    "SELECT max(length(x)) FROM (SELECT string_agg(v, ',') AS x FROM m GROUP BY g % 10) s",
    "SELECT max(cardinality(x)) FROM (SELECT array_agg(v) AS x FROM m GROUP BY g) s",
    "SELECT g, median(n) FROM m GROUP BY g",
    "SELECT g, mode() WITHIN GROUP (ORDER BY v) FROM m GROUP BY g",
    "SELECT length(format('%s%s%s', t, t, t)) FROM (SELECT repeat('x', 9000000) AS t) x",
    "SELECT length(format('%1000000s', i)) FROM generate_series(1, 1000) s(i)",
    "SELECT length(concat(t, t, t, t)) FROM (SELECT repeat('x', 9000000) AS t) x",
    "SELECT length(t || t || t || t) FROM (SELECT repeat('x', 9000000) AS t) x",
    "SELECT length(concat_ws(t, t, t, t)) FROM (SELECT repeat('x', 9000000) AS t) x",
    "SELECT max(length(concat(t, i))) FROM (SELECT repeat('x', 100000) AS t) x, \
     generate_series(1, 8000) s(i)",
    "WITH RECURSIVE r(a) AS (SELECT ARRAY[1] UNION ALL SELECT array_cat(a, a) FROM r) \
     SELECT cardinality(a) FROM r",
    "WITH RECURSIVE r(a) AS (SELECT 'x'::text UNION ALL SELECT a || a FROM r) \
     SELECT length(a) FROM r",
    "WITH RECURSIVE r(a) AS (SELECT '[1]'::jsonb UNION ALL SELECT a || a FROM r) \
     SELECT length(a::text) FROM r",
    "WITH RECURSIVE r(a) AS (SELECT '[1]'::jsonb UNION ALL SELECT jsonb_build_array(a, a) FROM r) \
     SELECT length(a::text) FROM r",
    "SELECT length(jsonb_build_array(t, t, t, t)::text) FROM (SELECT repeat('x', 9000000) AS t) x",
    "SELECT length(json_build_array(array_fill(1, ARRAY[3000000]))::text)",
    "SELECT count(*) FROM unnest(array_fill(1, ARRAY[4000])) a, \
     unnest(array_fill(1, ARRAY[4000])) b",
    "SELECT count(*) FROM (SELECT unnest(string_to_array(repeat('abc,', 3000000), ','))) x",
    "SELECT length(replace(repeat('x', 10000), 'x', repeat('y', 100000)))",
    "SELECT length(regexp_replace(repeat('x', 10000), 'x', repeat('y', 100000), 'g'))",
    "SELECT length(encode(convert_to(t, 'UTF8'), 'hex')) FROM (SELECT repeat('x', 9000000) AS t) x",
    "SELECT length(encode(t::bytea, 'escape')) FROM (SELECT repeat('x', 9000000) AS t) x",
    "SELECT length(upper(t) || lower(t)) FROM (SELECT repeat('x', 9000000) AS t) x",
    "SELECT length(reverse(t)), length(initcap(t)) FROM (SELECT repeat('x', 9000000) AS t) x",
    "SELECT length(overlay(t placing t from 9000000)) FROM (SELECT repeat('x', 9000000) AS t) x",
    "SELECT length(array_to_string(array_fill(repeat('x', 1000), ARRAY[100000]), ','))",
    "SELECT cardinality(array_append(a, 1)), cardinality(array_prepend(1, a)), \
     cardinality(array_cat(a, a)) FROM (SELECT array_fill(1, ARRAY[2500000]) AS a) x",
    "SELECT cardinality(array_replace(a, 1, 2)), cardinality(array_remove(a, 2)) \
     FROM (SELECT array_fill(1, ARRAY[2500000]) AS a) x",
    "SELECT cardinality(array_positions(a, 1)) FROM (SELECT array_fill(1, ARRAY[2500000]) AS a) x",
    "SELECT length(a::text) FROM (SELECT array_fill(1, ARRAY[2500000]) AS a) x",
    "SELECT jsonb_array_length(('[' || repeat('1,', 3000000) || '1]')::jsonb)",
    "SELECT length(jsonb_pretty(('[' || repeat('1,', 3000000) || '1]')::jsonb))",
    "SELECT count(*) FROM jsonb_array_elements(('[' || repeat('1,', 3000000) || '1]')::jsonb) x",
    "SELECT length(jsonb_set(('[' || repeat('1,', 3000000) || '1]')::jsonb, '{0}', '2')::text)",
    "SELECT length((('[' || repeat('1,', 3000000) || '1]')::jsonb - 0)::text)",
    "SELECT jsonb_object(array_fill('a'::text, ARRAY[2000000])) IS NULL",
    "SELECT split_part(repeat('x,', 6000000), ',', 5000000)",
    "SELECT DISTINCT repeat(v, 100) FROM m",
    "SELECT repeat(v, 100) FROM m ORDER BY 1",
    "SELECT string_agg(v, ',') FILTER (WHERE g > 5) FROM m GROUP BY g % 7",
    "SELECT g, v || repeat('x', 20000) FROM m WHERE g < 60000",
    "SELECT count(*) FROM m a JOIN m b ON repeat(a.v, 20) = repeat(b.v, 20)",
    "SELECT CASE WHEN g > 5 THEN repeat(v, 5000) ELSE repeat('x', 100000) END FROM m",
    "SELECT coalesce(NULL, repeat(v, 5000)), greatest(repeat(v, 5000), 'x') FROM m",
    "SELECT max(length(s)) FROM (SELECT string_agg('abcdefghijklmnop', ',') OVER (ORDER BY i) \
     AS s FROM generate_series(1, 20000) s(i)) x",
    "SELECT max(cardinality(s)) FROM (SELECT array_agg(i) OVER (ORDER BY i) AS s \
     FROM generate_series(1, 20000) s(i)) x",
    "SELECT max(length(s)) FROM (SELECT string_agg(repeat('x', 2000) || i, ',') \
     OVER (ORDER BY i ROWS 3 PRECEDING) AS s FROM generate_series(1, 2000) s(i)) x",
    "SELECT max(cardinality(s)) FROM (SELECT array_agg(repeat('x', 2000) || i) \
     OVER (ORDER BY i ROWS 1 PRECEDING) AS s FROM generate_series(1, 2000) s(i)) x",
    "SELECT max(length(s::text)) FROM (SELECT jsonb_agg(repeat('x', 2000) || i) \
     OVER (ORDER BY i ROWS 1 PRECEDING) AS s FROM generate_series(1, 2000) s(i)) x",
    "SELECT length(json_build_object('a', t, 'b', t)::text) \
     FROM (SELECT repeat('\"', 9000000) AS t) x",
    "SELECT length(to_json(t)::text) FROM (SELECT repeat(chr(1), 9000000) AS t) x",
    "SELECT length(row_to_json(x)::text) FROM (SELECT repeat(chr(1), 9000000) AS t) x",
    "SELECT length(translate(t, 'x', 'ä')) FROM (SELECT repeat('x', 12000000) AS t) x",
    "SELECT length(quote_literal(repeat('''', 12000000)))",
    "SELECT cardinality(('{' || repeat('1,', 3000000) || '1}')::int[])",
    "SELECT cardinality(('{' || repeat('x,', 3000000) || '1}')::text[])",
    "SELECT count(*) FROM jsonb_path_query(('[' || repeat('1,', 3000000) || '1]')::jsonb, \
     '$[*]') x",
    "SELECT max(length(repeat(v, 3000))) FROM m",
    "SELECT to_char(1, repeat('9', 9000000)) IS NULL",
    "SELECT cardinality(array_distinct(array_agg(i))) FROM generate_series(1, 1000000) s(i)",
    "SELECT max(cardinality(x)) FROM (SELECT array_agg(DISTINCT v) AS x FROM m GROUP BY g) s",
    "SELECT count(DISTINCT v), approx_distinct(v) FROM m",
    "SELECT w FROM (SELECT CASE WHEN n < 9000 THEN v ELSE repeat(v, 1000) END AS w FROM m) x \
     WHERE length(w) > 4 LIMIT 30000",
    "SELECT length(format('%L', repeat('''', 9000000)))",
    "SELECT length(format('%I', repeat('\"', 9000000)))",
    "SELECT length(quote_literal(repeat('\\', 9000000)))",
    "SELECT length(upper(repeat('ΐ', 6000000)))",
    "SELECT length(translate(repeat('x', 9000000), 'x', '💚'))",
    "SELECT length(normalize(repeat('ﷺ', 1000000), NFKD))",
    "SELECT length(jsonb_object(ARRAY['a', repeat(chr(1), 9000000)])::text)",
    "SELECT length(repeat('x', 9000000)::bytea::text)",
    "SELECT length(to_char(timestamp '2020-01-01', repeat('Month', 2000000)))",
    "SELECT cardinality(array_intersect(a, a)) \
     FROM (SELECT array_agg(i) AS a FROM generate_series(1, 1000000) s(i)) x",
    "SELECT cardinality(('{' || repeat('\"a\\\"b\",', 1000000) || 'c}')::text[])",
];

/// Statements that exceed the limit, by a few times, before they end or are refused
/// (`docs/debts.md`, 65).
pub const EXCEEDING: &[&str] = &[
    "SELECT g, percentile_disc(0.3) WITHIN GROUP (ORDER BY v) FROM m GROUP BY g",
    "SELECT g, percentile_cont(0.3) WITHIN GROUP (ORDER BY n) FROM m GROUP BY g",
    "SELECT g, approx_median(n) FROM m GROUP BY g",
    "SELECT g, approx_percentile_cont(n, 0.3) FROM m GROUP BY g",
    "SELECT count(*) FROM (SELECT unnest(array_fill(1, ARRAY[3000])), \
     unnest(array_fill(2, ARRAY[3000])) FROM generate_series(1, 3000)) x",
    "SELECT count(*) \
     FROM json_each_text(('{' || repeat('\"a\":1,', 2000000) || '\"b\":1}')::json) x",
    "SELECT repeat(v, 100) FROM m UNION SELECT v FROM m",
    "SELECT max(repeat(v, 100)) FROM m GROUP BY g % 1000",
    "SELECT v FROM m WHERE repeat(v, 2000) LIKE '%zz%'",
];

/// The text of a form that is repeated so many times.
pub type Form = fn(usize) -> String;

fn deep(times: usize) -> String {
    format!("(repeat('[', {times}) || repeat(']', {times}))::jsonb")
}

/// Values that nest so many levels deep.
pub const DEEP: [Form; 16] = [
    |n| format!("SELECT {} IS NULL", deep(n)),
    |n| format!("SELECT '{}{}'::json IS NULL", "[".repeat(n), "]".repeat(n)),
    |n| format!("SELECT '{}1{}'::jsonb IS NULL", "{\"b\": 1, \"a\": ".repeat(n), "}".repeat(n)),
    |n| format!("SELECT jsonb_typeof({}), jsonb_array_length({})", deep(n), deep(n)),
    |n| format!("SELECT length(jsonb_pretty({}))", deep(n)),
    |n| format!("SELECT {} @> '[]', {} = {}", deep(n), deep(n), deep(n)),
    |n| format!("SELECT length(({} || '1')::text)", deep(n)),
    |n| format!("SELECT length(jsonb_build_array({})::text)", deep(n)),
    |n| format!("SELECT length(({} #- array_fill('0'::text, ARRAY[{n}]))::text)", deep(n)),
    |n| format!("SELECT length({} #>> array_fill('0'::text, ARRAY[{n}]))", deep(n)),
    |n| format!("SELECT count(*) FROM jsonb_path_query({}, '$.**') x", deep(n)),
    |n| format!("SELECT jsonb_path_exists({}, '$.**.size() ? (@ > 3)')", deep(n)),
    |n| format!("SELECT count(*) FROM jsonb_array_elements({}) x", deep(n)),
    |n| format!("SELECT jsonb_path_exists('1', '{}${}')", "(".repeat(n), ")".repeat(n)),
    |n| format!("SELECT '{}1{}'::int[]", "{".repeat(n), "}".repeat(n)),
    |n| format!("SELECT ('int' || repeat('[]', {n}))::regtype"),
];

/// Texts of statements with so many tokens, of which the parser makes trees.
pub const TEXTS: [(Form, usize); 8] = [
    (|times| ";".repeat(times), 3_000_000),
    (|times| format!("VALUES {} (1, 2)", "(1, 2), ".repeat(times)), 100_000),
    (|times| format!("SELECT {}1", "1,".repeat(times)), 300_000),
    (|times| format!("SELECT 1 WHERE 1 IN ({}1)", "1, ".repeat(times)), 300_000),
    (|times| "SELECT 1; ".repeat(times), 200_000),
    (|times| format!("SELECT 1 {}", " ".repeat(times)), 3_000_000),
    (|times| format!("SELECT {}'x'", "'it''s', ".repeat(times)), 200_000),
    (|times| format!("SELECT 1 -- {}", "; ".repeat(times)), 3_000_000),
];
