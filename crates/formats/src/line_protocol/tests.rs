use super::*;

type Parts<'a> = (&'a str, &'a [(&'a str, &'a str)], Vec<(&'a str, FieldValue<'a>)>, Option<i64>);

fn read(line: &str) -> Result<Option<Point<'_>>> {
    Point::read(line.as_bytes())
}

fn float(value: f64) -> FieldValue<'static> {
    FieldValue::Float(value)
}

fn text(value: &str) -> FieldValue<'_> {
    FieldValue::Text(Cow::Borrowed(value))
}

#[test]
fn points_have_the_parts_of_their_lines() {
    let cases: Vec<(&str, Parts<'_>)> = vec![
        ("m v=1", ("m", &[], vec![("v", float(1.0))], None)),
        ("  m   v=1   7  ", ("m", &[], vec![("v", float(1.0))], Some(7))),
        (
            "m,a=1,b=x y=2i -5",
            ("m", &[("a", "1"), ("b", "x")], vec![("y", FieldValue::Integer(2))], Some(-5)),
        ),
        (
            r"m\,\ x,a\=b=c\ d k\,=t",
            ("m, x", &[("a=b", "c d")], vec![("k,", FieldValue::Boolean(true))], None),
        ),
        (r"m\=1 v=f", (r"m\=1", &[], vec![("v", FieldValue::Boolean(false))], None)),
        (r"a\b v=-.5e3", (r"a\b", &[], vec![("v", float(-500.0))], None)),
        (r#"m s="a, b=c \"d\" \\ \n""#, ("m", &[], vec![("s", text(r#"a, b=c "d" \ \n"#))], None)),
        ("m s=\"two\nlines\" 1", ("m", &[], vec![("s", text("two\nlines"))], Some(1))),
        ("m s=\"\"", ("m", &[], vec![("s", text(""))], None)),
        ("m v=1,v=2u", ("m", &[], vec![("v", FieldValue::Integer(2))], None)),
        (
            "météo,ville=Orléans température=3",
            ("météo", &[("ville", "Orléans")], vec![("température", float(3.0))], None),
        ),
        ("m v=9223372036854775807i", ("m", &[], vec![("v", FieldValue::Integer(i64::MAX))], None)),
        ("m,t=\"q\" v=1", ("m", &[("t", "\"q\"")], vec![("v", float(1.0))], None)),
    ];
    for (line, (measurement, tags, fields, timestamp)) in cases {
        let point = read(line).unwrap().unwrap();
        assert_eq!(point.measurement, measurement, "{line}");
        let found: Vec<(&str, &str)> = point.tags.iter().map(|(k, v)| (&**k, &**v)).collect();
        assert_eq!(found, tags, "{line}");
        let found: Vec<(&str, FieldValue<'_>)> =
            point.fields.iter().map(|(k, v)| (&**k, v.clone())).collect();
        assert_eq!(found, fields, "{line}");
        assert_eq!(point.timestamp, timestamp, "{line}");
    }
    for nothing in ["", "   ", "# m v=1", "\t"] {
        assert_eq!(read(nothing).unwrap(), None, "{nothing:?}");
    }
}

#[test]
fn every_kind_of_malformed_line_is_an_error() {
    for (line, state) in [
        ("m", "22P02"),
        ("m ", "22P02"),
        (",a=b v=1", "22P02"),
        ("m, v=1", "22P02"),
        ("m,a v=1", "22P02"),
        ("m,a= v=1", "22P02"),
        ("m,=b v=1", "22P02"),
        ("m,a=b=c v=1", "22P02"),
        ("m,a=b,a=c v=1", "22P02"),
        ("m,a=b", "22P02"),
        ("m v", "22P02"),
        ("m v=", "22P02"),
        ("m =1", "22P02"),
        ("m v=1,", "22P02"),
        ("m v=1,,w=2", "22P02"),
        ("m v=abc", "22P02"),
        ("m v=1x", "22P02"),
        ("m v=nan", "22P02"),
        ("m v=inf", "22P02"),
        ("m v=+1", "22P02"),
        ("m v=1e", "22P02"),
        ("m v=--1", "22P02"),
        ("m v=1.5i", "22P02"),
        ("m v=-1u", "22P02"),
        ("m v=i", "22P02"),
        ("m v=tRue", "22P02"),
        ("m v=\"open", "22P02"),
        ("m v=\"a\"b", "22P02"),
        ("m v=\"a\"=1", "22P02"),
        ("m v=1 now", "22P02"),
        ("m v=1 1.5", "22P02"),
        ("m v=1 1 2", "22P02"),
        ("m v=1 9223372036854775808", "22P02"),
        ("m,a=b a=1", "22P02"),
        ("m v=9223372036854775808i", "22003"),
        ("m v=18446744073709551615u", "22003"),
        ("m v=99999999999999999999999999999999999999999999i", "22003"),
        ("m v=1e999", "22003"),
        ("m v=\"\0\"", "22021"),
    ] {
        assert_eq!(read(line).unwrap_err().state().0, state, "{line}");
    }
    assert_eq!(Point::read(b"m v=\xff").unwrap_err().state().0, "22021");
}

fn split(texts: &[&str]) -> Vec<(u64, String)> {
    let (mut splitter, mut pending, mut lines) = (LineSplitter::default(), Vec::new(), Vec::new());
    for (place, text) in texts.iter().enumerate() {
        pending.extend_from_slice(text.as_bytes());
        let is_last = place + 1 == texts.len();
        let mut rest = &pending[..];
        while let Some(line) = splitter.next(&mut rest, is_last) {
            lines.push((line.number, str::from_utf8(line.bytes).unwrap().to_owned()));
        }
        pending = rest.to_vec();
    }
    assert!(pending.is_empty());
    lines
}

#[test]
fn lines_are_the_same_wherever_a_text_is_cut() {
    let text = "a v=1\r\n\n# \" comment\n b s=\"x\ny\",t=\"\\\"\n\" 2\nc,t=\"q v=1\n\
        d\\ e s=\"\\\\\"\nlast s=\"é\"";
    let whole = split(&[text]);
    let numbers: Vec<u64> = whole.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 7, 8, 9], "{whole:?}");
    assert_eq!(whole[3].1, " b s=\"x\ny\",t=\"\\\"\n\" 2");
    for cut in (0..=text.len()).filter(|cut| text.is_char_boundary(*cut)) {
        assert_eq!(split(&[&text[..cut], &text[cut..]]), whole, "{cut}");
    }
}

#[test]
fn a_string_that_is_not_closed_spoils_its_own_line_only() {
    let lines = split(&["m s=\"open 1\nm v=1\nm v=2\n"]);
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(read(&lines[0].1).is_err() && read(&lines[1].1).is_ok());
}
