use super::*;

fn style() -> Style {
    Style {
        lines: Lines::Ascii,
        null: "NULL".to_owned(),
        expanded: Expanded::Off,
        columns_max: None,
        color: false,
        footer: true,
    }
}

fn header(name: &str, align_right: bool) -> Header {
    Header { name: name.to_owned(), align_right }
}

fn print(headers: Vec<Header>, rows: &[&[Option<&str>]], style: Style) -> String {
    let mut out = Vec::new();
    let mut printer = TablePrinter::new(headers, style);
    for row in rows {
        printer.push_row(row.iter().map(|value| value.map(str::to_owned)), &mut out).unwrap();
    }
    assert_eq!(printer.finish(&mut out).unwrap(), rows.len() as u64);
    String::from_utf8(out).unwrap()
}

#[test]
fn columns_are_aligned_and_nulls_visible() {
    let headers = vec![header("id", true), header("name", false)];
    let rows: &[&[_]] =
        &[&[Some("1"), Some("Ångström")], &[Some("10"), None], &[None, Some("日本")]];
    assert_eq!(
        print(headers, rows, style()),
        "   id | name\n\
         ------+----------\n    \
             1 | Ångström\n   \
            10 | NULL\n \
          NULL | 日本\n\
         (3 rows)\n\n"
    );
}

#[test]
fn unicode_lines_and_values_of_several_lines() {
    let headers = vec![header("plan", false), header("n", true)];
    let rows: &[&[_]] = &[&[Some("Sort\n  Scan"), Some("1")]];
    assert_eq!(
        print(headers, rows, Style { lines: Lines::Unicode, ..style() }),
        " plan   │ n\n────────┼───\n Sort  +│ 1\n   Scan │\n(1 row)\n\n"
    );
}

#[test]
fn no_rows_and_no_columns() {
    assert_eq!(print(vec![header("a", false)], &[], style()), " a\n---\n(0 rows)\n\n");
    assert_eq!(print(Vec::new(), &[&[]], style()), "\n--\n(1 row)\n\n");
    let bare = Style { footer: false, ..style() };
    assert_eq!(print(vec![header("a", false)], &[&[Some("x")]], bare), " a\n---\n x\n\n");
}

#[test]
fn wide_tables_are_cut_to_the_terminal() {
    let long = "x".repeat(100);
    let headers = || vec![header("id", true), header("text", false)];
    let narrow = Style { columns_max: Some(20), ..style() };
    let printed = print(headers(), &[&[Some("1"), Some(&long)]], narrow);
    assert_eq!(printed, " id | text\n----+---------------\n  1 | xxxxxxxxxxxx…\n(1 row)\n\n");
    assert!(printed.lines().all(|line| text::width(line) <= 20));

    let many: Vec<Header> = (0..10).map(|n| header(&format!("column_{n}"), false)).collect();
    let narrow = Style { columns_max: Some(25), ..style() };
    let row = vec![Some("value value"); 10];
    assert_eq!(
        print(many, &[&row], narrow),
        " column_0 | column_1\n----------+----------\n value v… | value v…\n\
         (1 row; 2 of 10 columns, \\x shows all)\n\n"
    );
}

#[test]
fn expanded_rows_have_a_line_for_each_value() {
    let headers = || vec![header("id", true), header("comment", false)];
    let rows: &[&[_]] = &[&[Some("1"), Some("two\nlines")], &[Some("2"), None]];
    let expected = "-[ RECORD 1 ]\nid      | 1\ncomment | two\n        | lines\n\
                    -[ RECORD 2 ]\nid      | 2\ncomment | NULL\n(2 rows)\n\n";
    assert_eq!(print(headers(), rows, Style { expanded: Expanded::On, ..style() }), expected);
    let auto = |columns| Style { expanded: Expanded::Auto, columns_max: Some(columns), ..style() };
    assert_eq!(print(headers(), rows, auto(10)), expected);
    assert!(print(headers(), rows, auto(80)).starts_with(" id | comment\n"));
}

#[test]
fn later_pages_print_a_header_when_columns_grow() {
    let mut out = Vec::new();
    let mut printer = TablePrinter::new(vec![header("n", false)], style());
    for number in 0..PAGE_ROWS * 2 + 1 {
        let value = if number == PAGE_ROWS { "wider" } else { "1" };
        printer.push_row([Some(value.to_owned())].into_iter(), &mut out).unwrap();
        assert!(printer.page.values.len() < PAGE_ROWS, "a full page does not stay in memory");
    }
    printer.finish(&mut out).unwrap();
    let printed = String::from_utf8(out).unwrap();
    assert_eq!(printed.matches(" n\n").count(), 2);
    assert_eq!(printed.matches("-------\n").count(), 1);
    assert!(printed.ends_with(" 1\n(2001 rows)\n\n"));
}
