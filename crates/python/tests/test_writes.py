"""Upserts and appenders."""

import pytest

import thalweg


def rows(connection):
    return connection.sql("SELECT symbol, n FROM prices ORDER BY symbol").fetchall()


def test_upsert_inserts_and_replaces(prices):
    assert prices.upsert("prices", [("AAPL", 1, 10), ("NEW", 2, 20)]) == 2
    assert prices.upsert("prices", [("X", 30)], columns=["symbol", "n"]) == 1
    assert prices.upsert("prices", [{"n": 40, "symbol": "D"}, {"n": 2, "symbol": "MSFT"}]) == 2
    assert rows(prices) == [("AAPL", 10), ("D", 40), ("MSFT", 2), ("NEW", 20), ("X", 30)]
    assert prices.upsert("public.prices", []) == 0
    # The columns that were not given keep their values.
    (price,) = prices.sql("SELECT price::text FROM prices WHERE symbol = 'MSFT'").fetchone()
    assert price == "402.25"


def test_upsert_by_several_columns(connection):
    connection.sql('CREATE TABLE "T" (a integer, b text, "C" integer, PRIMARY KEY (a, b))')
    connection.upsert("T", [(1, "x", 1), (1, "y", 2)])
    connection.upsert("T", [(1, "x", 3)])
    assert connection.sql('SELECT * FROM "T" ORDER BY b').fetchall() == [(1, "x", 3), (1, "y", 2)]
    connection.sql("CREATE TABLE keys (a integer PRIMARY KEY)")
    assert connection.upsert("keys", [(1,), (2,)]) == 2
    connection.upsert("keys", [(1,), (3,)])
    assert connection.sql("SELECT count(*) FROM keys").fetchone() == (3,)


def test_wrong_upserts_are_refused(prices):
    prices.sql("CREATE TABLE heap (a integer)")
    for table, given, message in [
        ("heap", [(1,)], "primary key"),
        ("missing", [(1,)], "missing"),
        ("prices", [{"symbol": "A", "nothing": 1}], "nothing"),
    ]:
        with pytest.raises(thalweg.ProgrammingError, match=message):
            prices.upsert(table, given)
    for given in ([{"symbol": "A"}, {"symbol": "B", "n": 1}], [{"symbol": "A"}, ("B",)]):
        with pytest.raises(thalweg.ProgrammingError, match="row 2"):
            prices.upsert("prices", given)
    with pytest.raises(thalweg.ProgrammingError, match='no column "n"'):
        prices.upsert("prices", [{"symbol": "A"}], columns=["symbol", "n"])
    with pytest.raises(ValueError, match="2 values for 3 columns"):
        prices.upsert("prices", [("A", 1)])
    assert len(rows(prices)) == 3


def test_upserts_belong_to_the_transaction(prices):
    with pytest.raises(ZeroDivisionError), prices.transaction():
        prices.upsert("prices", [("AAPL", 1, 10)])
        raise ZeroDivisionError
    assert rows(prices)[0] == ("AAPL", 1)


def test_an_appender_adds_all_rows_or_none(prices):
    with prices.appender("prices") as appender:
        for i in range(20_000):
            appender.append_row(f"S{i}", i, i)
        appender.append([("L1", 1, 1), ("L2", None, None)])
        assert len(rows(prices)) == 3
    assert len(rows(prices)) == 20_005
    with pytest.raises(ZeroDivisionError), prices.appender("prices") as appender:
        appender.append_row("lost", 1, 1)
        raise ZeroDivisionError
    with (
        pytest.raises(thalweg.InterfaceError, match="failed"),
        prices.appender("prices") as appender,
    ):
        appender.append_row("lost", 1, 1)
        with pytest.raises(ValueError, match="row 2"):
            appender.append([("lost as well", 1, 1), ("short", 1)])
        appender.append_row("lost too", 1, 1)
    with pytest.raises(thalweg.ProgrammingError, match="dictionaries"):
        prices.appender("prices").append([{"symbol": "S", "price": 1, "n": 1}])
    appender = prices.appender("prices")
    appender.append_row("AAPL", 1, 1)
    with pytest.raises(thalweg.IntegrityError):
        appender.finish()
    with pytest.raises(thalweg.InterfaceError, match="closed"):
        appender.finish()
    assert len(rows(prices)) == 20_005
    with pytest.raises(thalweg.ProgrammingError, match="missing"):
        prices.appender("missing")


def test_limits_of_texts_hold_for_every_way_to_write(connection):
    connection.sql("CREATE TABLE short (id integer PRIMARY KEY, name varchar(3))")

    def append():
        with connection.appender("short") as appender:
            appender.append_row(1, "abcd")

    for write in (
        append,
        lambda: connection.upsert("short", [(1, "abcd")]),
        lambda: connection.execute("INSERT INTO short VALUES (1, ?)", ["abcd"]),
        lambda: connection.executemany("INSERT INTO short VALUES (?, ?)", [(1, "abcd")]),
    ):
        with pytest.raises(thalweg.DataError, match="too long"):
            write()
    connection.upsert("short", [(1, "abc")])
    assert connection.sql("SELECT name FROM short").fetchall() == [("abc",)]
