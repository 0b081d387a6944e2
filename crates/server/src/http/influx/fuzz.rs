//! Fuzz target for the line protocol; see [`crate::fuzzing`].

use thalweg_formats::line_protocol::{LineSplitter, Point};

use super::definitions::Needed;
use super::shapes::append_key;

/// Splits the bytes into lines, whole and in two pieces, and reads each as a point.
pub(crate) fn lines(bytes: &[u8]) -> usize {
    let (mut splitter, mut rest) = (LineSplitter::default(), bytes);
    let (mut read, mut needed, mut key) = (0, Needed::default(), String::new());
    let mut lines = Vec::new();
    while let Some(line) = splitter.next(&mut rest, true) {
        lines.push((line.number, line.bytes.to_vec()));
        if let Ok(Some(point)) = Point::read(line.bytes) {
            assert!(!point.measurement.is_empty() && !point.fields.is_empty());
            let _ = needed.add(&point, read % 2 == 1);
            append_key(&point, read % 2 == 1, &mut key);
            read += 1;
        }
    }
    assert!(rest.is_empty(), "the last line needs no newline");
    needed.create("t");
    check_pieces(bytes, &lines);
    read
}

/// Lines are the same if the bytes arrive in two pieces, except for strings that are not closed,
/// which are only known as such at the end.
fn check_pieces(bytes: &[u8], whole: &[(u64, Vec<u8>)]) {
    let half = bytes.len() / 2;
    let (mut splitter, mut rest) = (LineSplitter::default(), &bytes[..half]);
    let mut lines = Vec::new();
    while let Some(line) = splitter.next(&mut rest, false) {
        lines.push((line.number, line.bytes.to_vec()));
    }
    let mut rest = &bytes[half - rest.len()..];
    while let Some(line) = splitter.next(&mut rest, true) {
        lines.push((line.number, line.bytes.to_vec()));
    }
    assert_eq!(lines, whole, "lines depend on the pieces in which they arrive");
}

pub(crate) fn line_seeds() -> Vec<Vec<u8>> {
    let seeds: [&[u8]; 5] = [
        b"weather,city=Oslo temperature=3.5,clouds=7i 1465839830100400200",
        b"m,a\\ b=c\\,d\\=e f=t,g=\"a \\\"b\\\" \\\\ \n c\",h=-1.5e-3\n# comment\n\nn x=F 1\r\n",
        b"m s=\"open\nm v=1\n",
        b"disk.used,host=a,path=/ free=1i,total=2i,used_percent=50 1700000000000000000\n",
        "météo,ville=Orléans température=3\n".as_bytes(),
    ];
    seeds.map(<[u8]>::to_vec).to_vec()
}
