"""Data frames and Arrow tables, in both directions."""

import datetime as dt
import decimal
from concurrent.futures import ThreadPoolExecutor

import pytest

import thalweg


@pytest.fixture
def everything(connection):
    """A table with a column of each type, one row of values and one of NULLs."""
    connection.sql(
        """CREATE TABLE everything (id integer PRIMARY KEY, b boolean, i2 smallint, i8 bigint,
        f4 real, f8 double precision, n numeric(20, 3), t text, y bytea, d date, c time,
        s timestamp, z timestamptz, u uuid, j jsonb, a integer[], x text[], v interval)"""
    )
    connection.sql(
        """INSERT INTO everything VALUES (1, true, -5, 5000000000, 0.5, 'NaN', 12.345, 'snow ☃',
        '\\x00ff', '2026-01-02', '03:04:05.000006', '2026-01-02 03:04:05', '2026-01-02 03:04:05+00',
        '01234567-89ab-cdef-0123-456789abcdef', '{"a": 1}', '{1,NULL,3}', '{a,b}',
        '1 day 02:00:00')"""
    )
    connection.sql("INSERT INTO everything (id) VALUES (2)")
    return connection


def test_arrow_and_back(everything):
    pyarrow = pytest.importorskip("pyarrow")
    before = everything.sql("SELECT * FROM everything ORDER BY id").fetchall()
    table = everything.sql("SELECT * FROM everything ORDER BY id").arrow()
    assert table.num_rows == 2
    assert table.schema.field("t").type == pyarrow.string()
    assert table.schema.field("n").type == pyarrow.decimal128(20, 3)
    assert table.schema.field("a").type == pyarrow.list_(pyarrow.int32())
    for column in table.column_names[1:]:
        assert table[column][1].as_py() is None, column
    everything.sql("DELETE FROM everything")
    with everything.appender("everything") as appender:
        appender.append(table)
    after = everything.sql("SELECT * FROM everything ORDER BY id").fetchall()
    # NaN equals nothing, so that the rows are compared as they are written.
    assert repr(after) == repr(before)
    everything.upsert("everything", table)
    assert repr(everything.sql("SELECT * FROM everything ORDER BY id").fetchall()) == repr(before)


def test_batches_are_streamed(connection):
    pytest.importorskip("pyarrow")
    endless = connection.sql("SELECT g FROM generate_series(1, 1000000000) s(g)")
    reader = endless.fetch_record_batch()
    first = reader.read_next_batch()
    assert first.num_rows > 0 and first.column(0)[0].as_py() == 1
    del reader
    table = connection.sql("SELECT g FROM generate_series(1, 200000) s(g)").fetch_record_batch()
    assert sum(batch.num_rows for batch in table) == 200_000


def test_an_error_in_the_middle_is_ours(connection):
    pytest.importorskip("pyarrow")
    rows = connection.sql("SELECT 1 / (500000 - g) FROM generate_series(1, 1000000) s(g)")
    with pytest.raises(thalweg.DataError):
        rows.arrow()
    rows = connection.sql("SELECT 1 / (500000 - g) FROM generate_series(1, 1000000) s(g)")
    with pytest.raises(Exception, match="division by zero"):
        rows.fetch_record_batch().read_all()


def test_pandas(everything):
    pandas = pytest.importorskip("pandas")
    frame = everything.sql("SELECT * FROM everything ORDER BY id").df()
    assert list(frame["t"])[0] == "snow ☃" and pandas.isna(frame["t"][1])
    assert frame["z"][0] == pandas.Timestamp("2026-01-02 03:04:05", tz="UTC")
    assert pandas.isna(frame["s"][1])


def test_pandas_without_pyarrow(prices, monkeypatch):
    pandas = pytest.importorskip("pandas")
    import builtins

    original = builtins.__import__

    def without(name, *arguments, **options):
        if name == "pyarrow":
            raise ModuleNotFoundError("No module named 'pyarrow'", name="pyarrow")
        return original(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    frame = prices.sql("SELECT symbol, n FROM prices ORDER BY n").df()
    assert list(frame["n"]) == [1, 2, 3]
    with pytest.raises(thalweg.InterfaceError, match="pip install pyarrow"):
        prices.register("frame", pandas.DataFrame({"a": [1]}))


def test_frames_of_pandas_are_tables(connection):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame(
        {
            "Key": ["a", "b", None],
            "n": [1.5, float("nan"), 3.0],
            "at": pandas.to_datetime(["2026-01-02", None, "2026-01-04"]),
            "kind": pandas.Categorical(["x", "y", "x"]),
            "big": [2**62, 0, 1],
        },
        index=[10, 20, 30],
    )
    connection.register("frame", frame)
    rows = connection.sql('SELECT "Key", at, kind, big FROM frame ORDER BY big').fetchall()
    assert rows == [
        ("b", None, "y", 0),
        (None, dt.datetime(2026, 1, 4), "x", 1),
        ("a", dt.datetime(2026, 1, 2), "x", 2**62),
    ]
    assert len(connection.sql("SELECT * FROM frame").columns) == 5


def test_polars(everything):
    polars = pytest.importorskip("polars")
    frame = everything.sql("SELECT * FROM everything ORDER BY id").pl()
    assert frame["t"].to_list() == ["snow ☃", None]
    assert frame["a"].to_list() == [[1, None, 3], None]
    assert frame["n"].to_list() == [decimal.Decimal("12.345"), None]
    assert frame["v"].to_list() == ["1 day 02:00:00", None]
    small = polars.DataFrame({"k": [1, 2, 3], "w": ["a", "b", "c"], "u": [1, 2, 3]}).with_columns(
        polars.col("u").cast(polars.UInt8)
    )
    rows = everything.sql("SELECT sum(k), max(w), sum(u) FROM small").fetchone()
    assert rows == (6, "c", 6)


def test_variables_are_found_by_name(prices):
    pyarrow = pytest.importorskip("pyarrow")
    mine = pyarrow.table({"symbol": ["AAPL", "Z"], "extra": [7, 8]})
    Mixed = mine  # noqa: N806 - the name has a capital letter
    sql = "SELECT p.n, m.extra FROM prices p JOIN mine m USING (symbol)"
    assert prices.sql(sql).fetchall() == [(1, 7)]
    assert prices.execute(sql).fetchall() == [(1, 7)]
    assert prices.cursor().execute(sql).fetchall() == [(1, 7)]
    assert prices.sql("SELECT sum(extra) FROM Mixed").fetchone() == (15,)
    assert prices.sql('SELECT sum(extra) FROM "Mixed"').fetchone() == (15,)
    assert prices.sql("SELECT sum(extra) FROM global_table").fetchone() == (10,)
    prices.sql("INSERT INTO prices (symbol, n) SELECT symbol || '2', extra FROM mine")
    assert prices.sql("SELECT count(*) FROM prices").fetchone() == (5,)
    mine = pyarrow.table({"symbol": ["AAPL"], "extra": [9]})
    assert prices.sql(sql).fetchall() == [(1, 9)]
    # A table comes before a variable, and a common table expression before both.
    kept = prices
    prices = pyarrow.table({"symbol": ["other"]})
    assert kept.sql("SELECT count(*) FROM prices").fetchone() == (5,)
    assert kept.sql("WITH mine AS (SELECT 1 AS one) SELECT * FROM mine").fetchall() == [(1,)]
    kept.replacement_scans = False
    with pytest.raises(thalweg.ProgrammingError):
        kept.sql("SELECT * FROM mine")


try:
    import pyarrow as _pyarrow

    global_table = _pyarrow.table({"extra": [10]})
except ModuleNotFoundError:
    pass


def test_registered_tables_belong_to_their_connection(connection):
    pyarrow = pytest.importorskip("pyarrow")
    connection.register("Frame", pyarrow.table({"a": [1, 2, 3]}))
    other = connection.duplicate()
    with pytest.raises(thalweg.ProgrammingError):
        other.sql("SELECT * FROM frame")
    for sql in ("SELECT sum(a) FROM Frame", 'SELECT sum(a) FROM "Frame"'):
        assert connection.sql(sql).fetchone() == (6,)
    connection.register("Frame", pyarrow.table({"a": [10]}))
    assert connection.sql("SELECT sum(a) FROM Frame").fetchone() == (10,)
    connection.unregister("Frame")
    with pytest.raises(thalweg.ProgrammingError):
        connection.sql("SELECT * FROM Frame")
    with pytest.raises(thalweg.InterfaceError, match="__arrow_c_stream__"):
        connection.register("frame", [1, 2])


def test_a_registered_name_comes_before_a_variable(connection):
    pyarrow = pytest.importorskip("pyarrow")
    connection.register("frame", pyarrow.table({"a": [1]}))
    frame = pyarrow.table({"a": [2]})
    for _ in range(2):
        assert connection.sql("SELECT a FROM frame").fetchone() == (1,)
    connection.unregister("frame")
    assert connection.sql("SELECT a FROM frame").fetchone() == (2,)
    del frame


def test_a_relation_with_the_name_of_a_table_keeps_its_rows(connection):
    connection.sql("CREATE TABLE t (a integer)")
    connection.sql("INSERT INTO t VALUES (1), (2)")
    t = connection.sql("SELECT a FROM t ORDER BY a")
    assert connection.sql("SELECT count(*) FROM t").fetchone() == (2,)
    assert t.fetchall() == [(1,), (2,)]


def test_variables_of_other_kinds_are_not_touched(connection):
    class Unbound:
        """An object like a proxy of a web framework, which fails outside of a request."""

        def __getattr__(self, name):
            raise RuntimeError(name)

    request = Unbound()
    assert connection.sql("SELECT 1").fetchone() == (1,)
    with pytest.raises(thalweg.ProgrammingError):
        connection.sql("SELECT * FROM request")
    del request


def test_variables_end_with_a_statement_that_cannot_read_all_of_them(connection):
    pyarrow = pytest.importorskip("pyarrow")
    first = pyarrow.table({"a": [1]})
    second = connection.sql("SELECT 1 / (g - 2) AS b FROM generate_series(1, 3) s(g)")
    with pytest.raises(thalweg.DataError):
        connection.sql("SELECT * FROM first, second")
    del first, second
    with pytest.raises(thalweg.ProgrammingError, match="first"):
        connection.sql("SELECT * FROM first")


def test_threads_that_share_a_connection_have_their_own_variables(connection):
    pyarrow = pytest.importorskip("pyarrow")

    def work(number):
        mine = pyarrow.table({"a": [number]})
        for _ in range(50):
            assert connection.sql("SELECT a FROM mine").fetchall() == [(number,)]
        return mine.num_rows

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(work, range(4))) == [1, 1, 1, 1]


def test_a_relation_is_a_table_of_another_connection(prices):
    with thalweg.connect() as other:
        other.register("theirs", prices.sql("SELECT symbol, n FROM prices"))
        assert other.sql("SELECT sum(n) FROM theirs").fetchone() == (6,)
        # An error of the query is of the same class as elsewhere.
        with pytest.raises(thalweg.DataError, match="division by zero"):
            other.register("theirs", prices.sql("SELECT 1 / (n - 2) FROM prices"))


def test_readers_and_every_type_of_arrow(connection):
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table(
        {
            "i8": pyarrow.array([1, None], pyarrow.int8()),
            "u64": pyarrow.array([2**64 - 1, None], pyarrow.uint64()),
            "f2": pyarrow.array([0.5, None], pyarrow.float16()),
            "big": pyarrow.array(["a", None], pyarrow.large_string()),
            "view": pyarrow.array(["a", None], pyarrow.string_view()),
            "fixed": pyarrow.array([b"ab", None], pyarrow.binary(2)),
            "ms": pyarrow.array([dt.datetime(2026, 1, 2), None], pyarrow.timestamp("ms")),
            "ns": pyarrow.array([dt.datetime(2026, 1, 2), None], pyarrow.timestamp("ns", "UTC")),
            "dict": pyarrow.array(["x", None]).dictionary_encode(),
            "list": pyarrow.array([[1, None], None], pyarrow.large_list(pyarrow.int64())),
            "duration": pyarrow.array([dt.timedelta(hours=1), None], pyarrow.duration("s")),
        }
    )
    connection.register("every", table.to_reader())
    first, second = connection.sql("SELECT * FROM every").fetchall()
    assert first == (
        1,
        decimal.Decimal(2**64 - 1),
        0.5,
        "a",
        "a",
        b"ab",
        dt.datetime(2026, 1, 2),
        dt.datetime(2026, 1, 2, tzinfo=dt.timezone.utc),
        "x",
        [1, None],
        dt.timedelta(hours=1),
    )
    assert second == (None,) * 11


def test_an_upsert_of_a_frame_writes_the_columns_that_are_named(prices):
    pyarrow = pytest.importorskip("pyarrow")
    frame = pyarrow.table({"symbol": ["X"], "price": [1.0], "n": [9]})
    assert prices.upsert("prices", frame, columns=["symbol", "n"]) == 1
    assert prices.sql("SELECT price, n FROM prices WHERE symbol = 'X'").fetchall() == [(None, 9)]


def test_limits_of_texts_hold_for_frames(connection):
    pyarrow = pytest.importorskip("pyarrow")
    connection.sql("CREATE TABLE short (id integer PRIMARY KEY, name varchar(3))")
    frame = pyarrow.table({"id": [1], "name": ["abcd"]})
    with pytest.raises(thalweg.DataError, match="too long"):
        connection.upsert("short", frame)
    with pytest.raises(thalweg.DataError, match="too long"):
        connection.appender("short").append(frame)


def test_a_stream_that_fails_is_an_error_of_data(connection):
    pyarrow = pytest.importorskip("pyarrow")

    def batches():
        yield pyarrow.record_batch({"a": [1]})
        raise ZeroDivisionError("in the middle")

    schema = pyarrow.schema({"a": pyarrow.int64()})
    with pytest.raises(thalweg.DataError, match="in the middle"):
        connection.register("rows", pyarrow.RecordBatchReader.from_batches(schema, batches()))
    with pytest.raises(thalweg.ProgrammingError):
        connection.sql("SELECT * FROM rows")


def test_duckdb_reads_our_stream(prices):
    duckdb = pytest.importorskip("duckdb")
    pytest.importorskip("pyarrow")
    rows = prices.sql("SELECT symbol, n FROM prices")
    theirs = duckdb.connect()
    ours = rows.arrow()
    assert theirs.sql("SELECT sum(n) FROM ours").fetchall() == [(6,)]
    back = theirs.sql("SELECT 'a' AS k, 5 AS n").arrow()
    assert prices.sql("SELECT n FROM back WHERE k = 'a'").fetchone() == (5,)
    del ours, back
