//! Well-known functions of other databases, with what PostgreSQL has in their place.
//!
//! DataFusion suggests the known name with the most similar spelling, which is rarely the function
//! that a person from another database looks for.

/// Names in lower case, in ascending order, each with the hint for it.
const FOREIGN: [(&str, &str); 53] = [
    ("adddate", "Add an interval: date + interval '1 day'."),
    ("argmax", "Use array_agg(… ORDER BY … DESC) with [1]."),
    ("argmin", "Use array_agg(… ORDER BY …) with [1]."),
    ("arrayjoin", "Use unnest(…)."),
    ("avgif", "Use avg(…) FILTER (WHERE …)."),
    ("charindex", "Use strpos(text, part)."),
    ("count_if", "Use count(*) FILTER (WHERE …)."),
    ("countif", "Use count(*) FILTER (WHERE …)."),
    ("curdate", "Use current_date."),
    ("curtime", "Use current_time, or localtime."),
    ("date_add", "Add an interval: date + interval '1 day'."),
    ("date_diff", "Subtract: timestamps give an interval, dates a number of days."),
    ("date_format", "Use to_char(time, format)."),
    ("date_sub", "Subtract an interval: date - interval '1 day'."),
    ("dateadd", "Add an interval: date + interval '1 day'."),
    ("datediff", "Subtract: timestamps give an interval, dates a number of days."),
    ("datename", "Use to_char(time, format)."),
    ("first", "Use first_value(…) OVER (…), or array_agg(… ORDER BY …) with [1]."),
    ("formatdatetime", "Use to_char(time, format)."),
    ("getdate", "Use now()."),
    ("getutcdate", "Use now() AT TIME ZONE 'UTC'."),
    ("group_concat", "Use string_agg(text, ',')."),
    ("grouparray", "Use array_agg(…)."),
    ("hour", "Use extract(hour FROM …)."),
    ("iif", "Use CASE WHEN … THEN … ELSE … END."),
    ("isnull", "Use coalesce(…) for a default, or … IS NULL for a test."),
    ("json_extract", "Use json -> 'key', or json #> path."),
    ("last", "Use last_value(…) OVER (…), or array_agg(… ORDER BY … DESC) with [1]."),
    ("lcase", "Use lower(…)."),
    ("len", "Use length(…)."),
    ("listagg", "Use string_agg(text, ',' ORDER BY …)."),
    ("locate", "Use strpos(text, part)."),
    ("mid", "Use substr(text, from, count)."),
    ("minute", "Use extract(minute FROM …)."),
    ("month", "Use extract(month FROM …)."),
    ("newid", "Use gen_random_uuid()."),
    ("quantile", "Use percentile_cont(…) WITHIN GROUP (ORDER BY …)."),
    ("strftime", "Use to_char(time, format)."),
    ("sumif", "Use sum(…) FILTER (WHERE …)."),
    ("sysdate", "Use now()."),
    ("sysdatetime", "Use now()."),
    ("time_bucket", "Use date_bin(interval, time, origin)."),
    ("todate", "Use a cast: …::date."),
    ("todatetime", "Use a cast: …::timestamp."),
    ("tofloat64", "Use a cast: …::double precision."),
    ("toint64", "Use a cast: …::bigint."),
    ("tostartofhour", "Use date_trunc('hour', time)."),
    ("tostring", "Use a cast: …::text."),
    ("ucase", "Use upper(…)."),
    ("uniq", "Use count(DISTINCT …), or approx_distinct(…)."),
    ("uniqexact", "Use count(DISTINCT …)."),
    ("unix_timestamp", "Use extract(epoch FROM …)."),
    ("year", "Use extract(year FROM …)."),
];

/// The hint for a function of another database; `None` for other names.
pub(super) fn hint(name: &str) -> Option<&'static str> {
    let name = name.to_lowercase();
    let found = FOREIGN.binary_search_by_key(&name.as_str(), |(known, _)| known);
    found.ok().map(|place| FOREIGN[place].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_order_and_found() {
        assert!(FOREIGN.is_sorted_by(|(one, _), (other, _)| one < other));
        assert_eq!(hint("Time_Bucket"), Some("Use date_bin(interval, time, origin)."));
        assert_eq!(hint("lenght"), None);
    }
}
