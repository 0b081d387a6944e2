"""Every type, from Python into the database and back."""

import datetime as dt
import decimal
import enum
import math
import uuid

import pytest

import thalweg
from thalweg import Interval, Json

UTC = dt.timezone.utc
KEY = uuid.UUID("0123456789abcdef0123456789abcdef")

VALUES = [
    ("boolean", True),
    ("boolean", False),
    ("smallint", -(2**15)),
    ("integer", 2**31 - 1),
    ("bigint", -(2**63)),
    ("real", 0.25),
    ("double precision", 1e300),
    ("double precision", -0.1),
    ("double precision", math.inf),
    ("numeric(12, 4)", decimal.Decimal("-12345.6789")),
    ("text", ""),
    ("text", "plain"),
    ("text", "quote ' and \" and \\ and\nline, snow ☃, {braces}, NULL"),
    ("varchar(5)", "abcde"),
    ("bytea", b""),
    ("bytea", bytes(range(256))),
    ("date", dt.date(1, 1, 1)),
    ("date", dt.date(2026, 2, 28)),
    ("date", dt.date(9999, 12, 31)),
    ("time", dt.time(23, 59, 59, 999999)),
    ("timestamp", dt.datetime(1969, 12, 31, 23, 59, 59, 999999)),
    ("timestamp", dt.datetime(9999, 12, 31, 23, 59, 59, 999999)),
    ("timestamptz", dt.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)),
    ("interval", dt.timedelta(days=-3, seconds=5, microseconds=7)),
    ("interval", Interval(14, -3, 1_000_001)),
    ("uuid", KEY),
    ("jsonb", {"a": [1, 2.5, None, True, "ü"], "b": {}}),
    ("jsonb", [1, [2]]),
    ("json", {"a": 1}),
    ("integer[]", [1, None, 3]),
    ("integer[]", []),
    ("text[]", ["", "a,b", 'q"\\', "NULL", None, "{}"]),
    ("timestamp[]", [dt.datetime(2026, 1, 2, 3, 4, 5), None]),
    ("numeric(8, 2)[]", [decimal.Decimal("1.25"), None]),
    ("boolean[]", [True, False, None]),
    ("bytea[]", [b"\x00\\", None]),
    ("uuid[]", [KEY]),
]


def shown(value):
    return f"{type(value).__name__}"


@pytest.mark.parametrize(("kind", "value"), VALUES, ids=[f"{k}-{shown(v)}" for k, v in VALUES])
def test_a_value_comes_back_from_a_column(connection, kind, value):
    connection.sql(f"CREATE TABLE t (id integer PRIMARY KEY, v {kind})")
    connection.execute("INSERT INTO t VALUES (1, ?), (2, ?)", [value, None])
    with connection.appender("t") as appender:
        appender.append_row(3, value)
        appender.append_row(4, None)
    connection.upsert("t", [(2, value), (5, value)])
    rows = connection.sql("SELECT v FROM t ORDER BY id").fetchall()
    assert rows == [(value,), (value,), (value,), (None,), (value,)]
    assert type(rows[0][0]) is type(value)


@pytest.mark.parametrize(("kind", "value"), VALUES, ids=[f"{k}-{shown(v)}" for k, v in VALUES])
def test_a_value_comes_back_from_a_cast(connection, kind, value):
    (got,) = connection.sql(f"SELECT $1::{kind}", [value]).fetchone()
    assert got == value and type(got) is type(value)


@pytest.mark.parametrize(
    "value",
    [
        True,
        7,
        2**62,
        0.5,
        decimal.Decimal("1.25"),
        "text",
        b"bytes",
        dt.date(2026, 1, 2),
        dt.time(1, 2, 3),
        dt.datetime(2026, 1, 2, 3, 4, 5),
        dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        dt.timedelta(hours=5),
        KEY,
        {"a": 1},
        [1, 2],
        [None, 1, 2.5],
        [1, decimal.Decimal("0.5"), None],
        ["a", "b"],
        None,
    ],
    ids=shown,
)
def test_an_open_parameter_has_the_type_of_its_value(connection, value):
    (got,) = connection.sql("SELECT ?", [value]).fetchone()
    assert got == value and type(got) is type(value)


def test_nan_is_a_value_of_floats_and_null_elsewhere(connection):
    nan = math.nan
    row = connection.sql("SELECT $1::float8, $2::real, $3::integer", [nan, nan, nan]).fetchone()
    assert math.isnan(row[0]) and math.isnan(row[1])
    assert row[2] is None


def test_whole_floats_go_into_integers_and_others_are_refused(connection):
    assert connection.sql("SELECT $1::integer", [3.0]).fetchone() == (3,)
    connection.sql("CREATE TABLE t (v integer)")
    with pytest.raises(thalweg.DataError) as refused:
        connection.appender("t").append([(3.5,)])
    assert refused.value.sqlstate == "22P02"


def test_members_of_enumerations_are_their_values(connection):
    class Side(int, enum.Enum):
        BUY = 1

    class Level(enum.IntEnum):
        HIGH = 2

    class Symbol(str, enum.Enum):
        APPLE = "AAPL"

    values = [Side.BUY, Level.HIGH, Symbol.APPLE]
    row = connection.sql("SELECT $1::int, $2, $3::text", values).fetchone()
    assert row == (1, 2, "AAPL")


def test_numbers_of_more_than_38_digits(connection):
    wide = decimal.Decimal("9" * 48 + ".25")
    connection.sql("CREATE TABLE t (v numeric(50, 2))")
    with connection.appender("t") as appender:
        appender.append_row(wide)
    assert connection.sql("SELECT v FROM t").fetchone() == (wide,)


@pytest.mark.parametrize(
    "number",
    ["1.123456789012345", "0.00", "-1.50", "12345678901234567890123456789.5", "1E-30", "7"],
)
def test_parameters_keep_the_digits_of_decimals(connection, number):
    value = decimal.Decimal(number)
    connection.sql("CREATE TABLE t (v numeric(38, 20), s text)")
    row = connection.sql("SELECT $1::numeric, $1::numeric::text, $2", [value, value]).fetchone()
    assert [format(row[0], "f"), row[1], format(row[2], "f")] == [format(value, "f")] * 3
    connection.cursor().executemany("INSERT INTO t (s) VALUES (?::numeric)", [(value,), ("1.50",)])
    assert connection.sql("SELECT s FROM t").fetchall() == [(format(value, "f"),), ("1.50",)]
    assert connection.sql("SELECT $1::numeric[]", [[value, value]]).fetchone() == ([value] * 2,)


def test_numbers_of_too_many_digits_are_refused(connection):
    with pytest.raises(thalweg.DataError) as refused:
        connection.sql("SELECT $1::numeric", [decimal.Decimal("1E38")])
    assert refused.value.sqlstate == "22003"
    # Floating point numbers are inexact, and are rounded to the digits that there are.
    row = connection.sql("SELECT $1::numeric", [1.2345678901234567e-25]).fetchone()
    assert str(row[0]) == "1.2345678901235E-25"


def test_zones_are_converted_to_utc(connection):
    paris = dt.timezone(dt.timedelta(hours=2))
    there = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=paris)
    row = connection.sql("SELECT $1::timestamptz, $2::timestamp", [there, there]).fetchone()
    assert row == (there, dt.datetime(2026, 1, 2, 1, 4, 5))
    assert row[0].utcoffset() == dt.timedelta(0)


def test_a_marked_string_is_json(connection):
    assert connection.sql("SELECT $1::jsonb", [Json("text")]).fetchone() == ("text",)
    assert connection.sql("SELECT $1::jsonb", ['{"a": 1}']).fetchone() == ({"a": 1},)


def test_values_beyond_python_are_refused_by_name(connection):
    for value, what in [
        ("date '20000-01-01'", "a date"),
        ("timestamp '20000-01-01'", "a timestamp"),
        ("time '24:00'", "a time"),
    ]:
        with pytest.raises(thalweg.DataError, match=what):
            connection.sql(f"SELECT {value}").fetchall()


def test_objects_without_counterpart_are_refused(connection):
    with pytest.raises(TypeError, match="object"):
        connection.sql("SELECT ?", [object()])


def test_numpy_values(connection):
    numpy = pytest.importorskip("numpy")
    pairs = [
        ("integer", numpy.int32(7), 7),
        ("bigint", numpy.int64(-7), -7),
        ("real", numpy.float32(0.5), 0.5),
        ("float8", numpy.float64(0.5), 0.5),
        ("boolean", numpy.bool_(True), True),
        ("date", numpy.datetime64("2026-01-02"), dt.date(2026, 1, 2)),
        (
            "timestamp",
            numpy.datetime64("2026-01-02T03:04:05.123456789"),
            dt.datetime(2026, 1, 2, 3, 4, 5, 123456),
        ),
        ("timestamp", numpy.datetime64("NaT"), None),
        ("interval", numpy.timedelta64(90, "s"), dt.timedelta(seconds=90)),
        ("float8[]", numpy.array([0.5, 1.5]), [0.5, 1.5]),
        (
            "timestamp[]",
            numpy.array(["2026-01-02T03:04:05", "NaT"], "datetime64[ns]"),
            [dt.datetime(2026, 1, 2, 3, 4, 5), None],
        ),
    ]
    for kind, value, expected in pairs:
        assert connection.sql(f"SELECT $1::{kind}", [value]).fetchone() == (expected,), kind
    # The array's own type is that of its items.
    nanoseconds = pairs[-1][1]
    assert connection.sql("SELECT ?", [nanoseconds]).fetchone() == (pairs[-1][2],)
    for value in (numpy.longdouble(1), numpy.array([1], numpy.longdouble)):
        with pytest.raises(TypeError, match="longdouble"):
            connection.sql("SELECT ?", [value])


def test_missing_values_of_pandas_are_null(connection):
    pandas = pytest.importorskip("pandas")
    values = [pandas.NaT, pandas.NA, pandas.Timestamp("2026-01-02 03:04:05")]
    row = connection.sql("SELECT $1::timestamp, $2::integer, $3::timestamp", values).fetchone()
    assert row == (None, None, dt.datetime(2026, 1, 2, 3, 4, 5))
