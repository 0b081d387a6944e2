"""ADBC over Flight SQL: Arrow tables, pandas and polars, parameters, ingestion, metadata."""

import contextlib
import datetime
import os

import adbc_driver_flightsql
import adbc_driver_flightsql.dbapi as flightsql
import adbc_driver_manager
import pandas
import polars
import pyarrow
from tap import check, equal, run

ADDRESS = f"grpc://127.0.0.1:{os.environ['THALWEG_GRPC_PORT']}"
LOGIN = {
    adbc_driver_manager.DatabaseOptions.USERNAME.value: "thalweg",
    adbc_driver_manager.DatabaseOptions.PASSWORD.value: "",
}


@contextlib.contextmanager
def connected():
    with flightsql.connect(ADDRESS, db_kwargs=LOGIN, autocommit=True) as connection:
        with connection.cursor() as cursor:
            yield cursor


def fresh(cursor, name, columns):
    cursor.execute(f"DROP TABLE IF EXISTS {name}")
    cursor.execute(f"CREATE TABLE {name} ({columns})")


@check
def rows_come_as_tuples(cursor):
    cursor.execute("SELECT 1::bigint AS a, 'ü' AS b, NULL::date AS c")
    equal([column[0] for column in cursor.description], ["a", "b", "c"])
    equal(cursor.fetchall(), [(1, "ü", None)])


@check
def rows_come_as_an_arrow_table(cursor):
    cursor.execute("SELECT i, i * 0.5::float8 AS half FROM generate_series(1, 100000) AS s(i)")
    table = cursor.fetch_arrow_table()
    equal(table.num_rows, 100_000)
    equal(table.schema.field("half").type, pyarrow.float64())


@check
def values_of_every_type(cursor):
    cursor.execute(
        "SELECT true AS a, 1::smallint AS b, 2::integer AS c, 1.5::real AS d, 1.25::numeric(6, 2)"
        " AS e, 'x'::varchar(4) AS f, date '2026-02-28' AS g, timestamp '2026-02-28 12:00' AS h,"
        " timestamptz '2026-02-28 12:00+00' AS i, '\\x00ff'::bytea AS j, ARRAY[1, 2] AS k"
    )
    (row,) = cursor.fetchall()
    moment = datetime.datetime(2026, 2, 28, 12)
    equal(row[:4], (True, 1, 2, 1.5))
    equal((str(row[4]), row[5], row[6], row[7]), ("1.25", "x", moment.date(), moment))
    equal((row[8], row[9]), (moment.replace(tzinfo=datetime.timezone.utc), b"\x00\xff"))
    equal(list(row[10]), [1, 2])


@check
def pandas_reads(cursor):
    cursor.execute("SELECT i AS n, i::text AS name FROM generate_series(1, 10) AS s(i)")
    frame = cursor.fetch_df()
    equal((len(frame), int(frame.n.sum()), frame.name.iloc[0]), (10, 55, "1"))


@check
def polars_reads(cursor):
    connection = cursor.connection
    query = "SELECT i AS n FROM generate_series(1, 10) AS s(i)"
    equal(polars.read_database(query, connection)["n"].sum(), 55)


@check
def changes_tell_how_many_rows_they_touched(cursor):
    fresh(cursor, "counted", "id integer PRIMARY KEY, name text")
    cursor.execute("INSERT INTO counted VALUES (1, 'a'), (2, 'b')")
    equal(cursor.rowcount, 2)


@check
def parameters_are_bound(cursor):
    fresh(cursor, "bound", "id integer PRIMARY KEY, name text")
    cursor.executemany("INSERT INTO bound VALUES ($1, $2)", [(1, "a"), (2, None)])
    cursor.execute("SELECT name FROM bound WHERE id = $1", (1,))
    equal(cursor.fetchall(), [("a",)])


@check
def a_table_is_ingested(cursor):
    cursor.execute("DROP TABLE IF EXISTS ingested")
    table = pyarrow.table({"id": list(range(1000)), "name": [f"n{i}" for i in range(1000)]})
    equal(cursor.adbc_ingest("ingested", table, mode="create"), 1000)
    cursor.adbc_ingest("ingested", table, mode="append")
    cursor.execute("SELECT count(*), sum(id)::bigint FROM ingested")
    equal(cursor.fetchall(), [(2000, 999_000)])


@check
def a_frame_is_ingested(cursor):
    cursor.execute("DROP TABLE IF EXISTS frames")
    frame = pandas.DataFrame({"id": [1, 2], "at": pandas.to_datetime(["2026-01-01", None])})
    cursor.adbc_ingest("frames", pyarrow.Table.from_pandas(frame), mode="create")
    cursor.execute("SELECT id FROM frames WHERE at IS NULL")
    equal(cursor.fetchall(), [(2,)])


@check
def a_transaction_is_undone(cursor):
    fresh(cursor, "kept", "id integer PRIMARY KEY")
    with flightsql.connect(ADDRESS, db_kwargs=LOGIN) as connection:
        with connection.cursor() as within:
            within.execute("INSERT INTO kept VALUES (1)")
        connection.rollback()
    cursor.execute("SELECT count(*) FROM kept")
    equal(cursor.fetchall(), [(0,)])


@check
def tables_are_listed(cursor):
    fresh(cursor, "listed", "id integer PRIMARY KEY, name text")
    connection = cursor.connection
    equal(connection.adbc_get_table_schema("listed").names, ["id", "name"])
    objects = connection.adbc_get_objects(depth="tables", table_name_filter="listed")
    schemas = objects.read_all().to_pylist()[0]["catalog_db_schemas"]
    tables = [table["table_name"] for schema in schemas for table in schema["db_schema_tables"]]
    equal(tables, ["listed"])


@check
def errors_have_a_state(cursor):
    try:
        cursor.execute("SELECT * FROM nowhere")
        cursor.fetchall()
        raise AssertionError("no error")
    except adbc_driver_manager.Error as error:
        assert "nowhere" in str(error), error


run(
    f"adbc_driver_flightsql {adbc_driver_flightsql.__version__}, pyarrow {pyarrow.__version__},"
    f" pandas {pandas.__version__}, polars {polars.__version__}",
    connected,
)
