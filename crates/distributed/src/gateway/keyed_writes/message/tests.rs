use arrow::array::{ArrayRef, Int32Array, RecordBatch};
use thalweg_query::Put;
use thalweg_types::{Lsn, TableId};

use super::*;

/// A part whose rows have these offsets in their group, and ten times the offsets as values.
fn part(number: u64, table: u32, put: Put, places: &[u32], which: Option<&[u32]>) -> Part {
    Part {
        number,
        failing: Failing::LeaveOut,
        durability: Durability::Fsync,
        shares: vec![share(table, put, places, which)],
    }
}

fn share(table: u32, put: Put, places: &[u32], which: Option<&[u32]>) -> Share {
    let values: Int32Array = places.iter().map(|place| *place as i32 * 10).collect();
    let rows = KeyedRows {
        table: TableId(table),
        version: Lsn(0),
        change: KeyedChange::Put(put),
        rows: RecordBatch::try_from_iter([("a", Arc::new(values) as ArrayRef)]).unwrap(),
        places: places.to_vec(),
        expected: None,
    };
    Share { run: Arc::new(Run { rows, fingerprint: 5 }), which: which.map(<[u32]>::to_vec) }
}

fn values(rows: &wire::KeyedRows) -> Vec<i32> {
    let schema = share(1, Put::Create, &[], None).run.rows.rows.schema();
    let rows = plain::decode(&schema, &rows.rows).unwrap();
    rows.column(0).as_any().downcast_ref::<Int32Array>().unwrap().values().to_vec()
}

fn failures(places: &[u32]) -> Vec<RowFailure> {
    let failure = |place: &u32| RowFailure { place: *place, error: Error::internal("x") };
    places.iter().map(failure).collect()
}

/// For each part: its number, the number of written rows, and the offsets of the failed ones.
fn outcomes(asked: Asked, written: Result<(u64, Vec<RowFailure>)>) -> Vec<(u64, u64, Vec<u32>)> {
    let outcomes = asked.outcomes(written).into_iter();
    let places = |failures: Vec<RowFailure>| failures.iter().map(|failure| failure.place).collect();
    outcomes.map(|(number, rows, failures)| (number, rows, places(failures))).collect()
}

#[test]
fn rows_that_change_alike_are_one_group_and_are_told_of_by_their_parts() {
    let parts = [
        part(7, 1, Put::Upsert, &[0, 1, 2, 4], Some(&[1, 3])),
        part(8, 1, Put::Upsert, &[3, 5], None),
        part(9, 1, Put::Upsert, &[0, 1, 2], Some(&[0, 1])),
    ];
    let mut made = groups(&parts);
    let (group, asked) = made.pop().unwrap();
    assert!(made.is_empty());
    let group = group.unwrap();
    assert_eq!(values(&group.rows[0]), [10, 40, 30, 50, 0, 10]);
    assert!(group.rows.len() == 1 && group.rows[0].places.is_empty());
    let acknowledgements = outcomes(asked, Ok((3, failures(&[5, 1, 2]))));
    assert_eq!(acknowledgements, [(7, 1, vec![4]), (8, 1, vec![3]), (9, 1, vec![1])]);
    let (_, asked) = groups(&parts).pop().unwrap();
    let acknowledgements = outcomes(asked, Err(Error::internal("x")));
    assert_eq!(acknowledgements, [(7, 0, vec![1, 4]), (8, 0, vec![3, 5]), (9, 0, vec![0, 1])]);
    let (_, asked) = groups(&parts).pop().unwrap();
    let acknowledgements = outcomes(asked, Ok((5, failures(&[6]))));
    assert_eq!(
        acknowledgements.iter().map(|(_, rows, _)| rows).sum::<u64>(),
        0,
        "there is no such row"
    );
}

#[test]
fn what_changes_otherwise_or_stops_others_is_a_group_of_its_own() {
    let alike = || part(1, 1, Put::Upsert, &[0], None);
    let stops = || Part { failing: Failing::Stop, ..alike() };
    let weaker = Part { durability: Durability::None, ..alike() };
    let others = [
        part(2, 2, Put::Upsert, &[0], None),
        part(2, 1, Put::Create, &[0], None),
        Part { failing: Failing::Undo, ..alike() },
        stops(),
        weaker,
    ];
    for other in others {
        assert_eq!(groups(&[alike(), other, alike()]).len(), 3);
    }
    assert_eq!(groups(&[stops(), stops()]).len(), 2);
    assert_eq!(groups(&[alike(), alike()]).len(), 1);
}

#[test]
fn rows_of_several_runs_keep_their_places() {
    let mut several = part(3, 1, Put::Upsert, &[0, 2, 4], Some(&[0, 2]));
    several.shares.push(share(2, Put::Upsert, &[1, 3], None));
    let parts = [several, part(4, 1, Put::Upsert, &[6], None)];
    let mut made = groups(&parts).into_iter();
    let (group, asked) = made.next().unwrap();
    let rows = group.unwrap().rows;
    assert_eq!((&rows[0].places[..], &rows[1].places[..]), (&[0, 4][..], &[1, 3][..]));
    assert_eq!((values(&rows[0]), values(&rows[1])), (vec![0, 40], vec![10, 30]));
    assert_eq!(outcomes(asked, Ok((3, failures(&[3])))), [(3, 3, vec![3])]);
    let (group, asked) = made.next().unwrap();
    assert!(group.unwrap().rows[0].places.is_empty());
    assert_eq!(outcomes(asked, Ok((0, failures(&[0])))), [(4, 0, vec![6])]);
}
