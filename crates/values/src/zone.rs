//! Time zones, and the zone of the session that a thread works for.

use thalweg_types::{Error, SqlState};

pub use thalweg_formats::text::style::{current_zone, is_utc};
pub use thalweg_formats::text::zone::Zone;

/// The zone of the current session, as its clocks show moments. The zone may be UTC.
#[must_use]
pub fn session_zone() -> Zone {
    current_zone().unwrap_or(Zone::UTC)
}

/// The time that the clocks of a zone show at a moment. Both in microseconds since 1970.
///
/// # Errors
/// 22008 if that is out of range.
pub fn local(zone: &Zone, utc: i64) -> Result<i64, Error> {
    zone.local(utc).ok_or_else(out_of_range)
}

/// The moment at which the clocks of a zone show a time. Both in microseconds since 1970.
///
/// # Errors
/// 22008 if that is out of range.
pub fn utc(zone: &Zone, local: i64) -> Result<i64, Error> {
    zone.utc(local).ok_or_else(out_of_range)
}

fn out_of_range() -> Error {
    Error::new(SqlState::DATETIME_OVERFLOW, "timestamp out of range")
}
