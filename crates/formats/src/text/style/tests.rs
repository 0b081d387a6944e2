use arrow::array::{ArrayRef, TimestampMicrosecondArray};
use proptest::prelude::*;

use super::*;
use crate::text::{ValueFormatter, parse};

fn in_zone(name: &str) -> Option<Arc<SessionStyle>> {
    let zone = Zone::of_session(name).map(|(zone, _)| zone).unwrap();
    SessionStyle { zone, ..SessionStyle::default() }.shared()
}

/// A moment as a session writes it.
fn written(micros: i64) -> String {
    let moments = TimestampMicrosecondArray::from(vec![micros]).with_timezone("UTC");
    let mut text = String::new();
    let array = Arc::new(moments) as ArrayRef;
    ValueFormatter::new(&array).unwrap().format(0, &mut text);
    text
}

/// Fewer than the zone database has.
const PLACES: usize = 500;

/// The texts of PostgreSQL 15.
#[test]
fn moments_are_written_as_postgres_writes_them() {
    for (zone, text, expected) in [
        ("Europe/Berlin", "2024-07-01 00:00+00", "2024-07-01 02:00:00+02"),
        ("Europe/Berlin", "1800-01-01 00:00+00", "1800-01-01 00:53:28+00:53:28"),
        ("America/St_Johns", "2024-01-01 00:00+00", "2023-12-31 20:30:00-03:30"),
        ("Asia/Kolkata", "0001-01-01 00:00+00 BC", "0001-01-01 05:53:28+05:53:28 BC"),
        ("<-08>+08", "2024-01-01 00:00+00", "2023-12-31 16:00:00-08"),
        ("Asia/Tokyo", "infinity", "infinity"),
    ] {
        let micros = parse::timestamptz(text).unwrap();
        let found = within(in_zone(zone).as_ref(), || written(micros));
        assert_eq!(found, expected, "{zone}");
    }
}

#[test]
fn zones_that_show_utc_have_the_default_style() {
    for (zone, is_default) in
        [("UTC", true), ("Etc/GMT", true), ("<+00>-00", true), ("Europe/London", false)]
    {
        assert_eq!(in_zone(zone).is_none(), is_default, "{zone}");
    }
}

proptest! {
    #[test]
    fn moments_are_read_as_they_were_written(
        place in 0..PLACES,
        micros in prop_oneof![-4_000_000_000_000_000_i64..8_000_000_000_000_000, any::<i64>()],
    ) {
        let (name, _) = Zone::places().nth(place).unwrap();
        let micros = micros.clamp(-200_000_000_000_000_000, 9_000_000_000_000_000_000);
        let style = in_zone(name);
        within(style.as_ref(), || {
            let text = written(micros);
            prop_assert_eq!(parse::timestamptz(&text).unwrap(), micros, "{} {}", name, text);
            Ok(())
        })?;
    }

    #[test]
    fn times_without_an_offset_are_times_of_the_zone(
        place in 0..PLACES,
        seconds in -4_000_000_000_i64..8_000_000_000,
    ) {
        let (name, zone) = Zone::places().nth(place).unwrap();
        let micros = seconds * 1_000_000;
        let local = zone.local(micros).unwrap();
        let read = zone.utc(local).unwrap();
        // An hour that the clocks show twice is read as the later one.
        prop_assert!(read == micros || zone.local(read) == Some(local), "{} {}", name, micros);
    }
}
