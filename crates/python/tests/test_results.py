"""Rows of queries."""

import pytest

import thalweg


def test_rows_come_once_in_their_order(connection):
    rows = connection.sql("SELECT g FROM generate_series(1, 100000) s(g) ORDER BY g")
    assert rows.fetchone() == (1,)
    assert rows.fetchmany(3) == [(2,), (3,), (4,)]
    rest = rows.fetchall()
    assert rest[0] == (5,) and rest[-1] == (100000,) and len(rest) == 99996
    assert rows.fetchone() is None and rows.fetchmany(2) == [] and rows.fetchall() == []


def test_a_relation_can_be_iterated(connection):
    rows = connection.sql("SELECT g, g * 2 FROM generate_series(1, 3000) s(g) ORDER BY g")
    assert [b - a for a, b in rows] == list(range(1, 3001))


def test_large_results_are_streamed(connection):
    rows = connection.sql("SELECT g FROM generate_series(1, 1000000000) s(g)")
    assert rows.fetchmany(2) == [(1,), (2,)]
    rows.close()
    with pytest.raises(thalweg.InterfaceError, match="closed"):
        rows.fetchone()
    assert connection.sql("SELECT 1").fetchone() == (1,)


def test_a_relation_outlives_its_connection(prices):
    rows = prices.sql("SELECT symbol FROM prices ORDER BY symbol")
    prices.sql("DELETE FROM prices")
    prices.close()
    assert rows.fetchall() == [("AAPL",), ("MSFT",), ("X",)]


def test_columns_have_names_and_types(prices):
    rows = prices.sql("SELECT *, now() AS at, ARRAY[1] AS a FROM prices")
    assert rows.columns == ["symbol", "price", "n", "at", "a"]
    assert rows.types == ["text", "numeric", "bigint", "timestamp with time zone", "integer[]"]


def test_printing_takes_no_rows(prices):
    rows = prices.sql("SELECT symbol, price FROM prices ORDER BY symbol")
    text, page = repr(rows), rows._repr_html_()
    for shown in ("symbol", "numeric", "AAPL", "402.25", "NULL", "3 rows"):
        assert shown in text and shown in page, shown
    assert len(rows.fetchall()) == 3
    many = prices.sql("SELECT '<b>' AS tag FROM generate_series(1, 1000)")
    assert "the first 20 rows" in repr(many)
    assert "&lt;b&gt;" in many._repr_html_() and "<b>" not in many._repr_html_()
    assert len(many.fetchall()) == 1000


def test_statements_without_rows_return_none(connection):
    assert connection.sql("CREATE TABLE t (a integer)") is None
    assert connection.sql("") is None and connection.sql("-- nothing") is None


def test_the_last_of_several_statements_is_returned(connection):
    rows = connection.sql("CREATE TABLE t (a integer); INSERT INTO t VALUES (1); SELECT a FROM t")
    assert rows.fetchall() == [(1,)]
    with pytest.raises(thalweg.DataError):
        connection.sql("INSERT INTO t VALUES (2); INSERT INTO t SELECT 1 / 0 FROM t")
    assert connection.sql("SELECT count(*) FROM t").fetchone() == (1,)


def test_all_of_several_statements_run_to_their_end(prices):
    with pytest.raises(thalweg.DataError) as failed:
        prices.sql("SELECT 1 / (g - 2) FROM generate_series(1, 3) s(g); SELECT 1")
    assert failed.value.sqlstate == "22012"
    prices.sql("CREATE SEQUENCE s")
    prices.sql("SELECT nextval('s') FROM generate_series(1, 5000); SELECT 1")
    assert prices.sql("SELECT nextval('s')").fetchone() == (5001,)
    with pytest.raises(thalweg.NotSupportedError, match="STDIN"):
        prices.sql("DELETE FROM prices; COPY prices FROM STDIN; SELECT 1")
    assert prices.sql("SELECT count(*) FROM prices").fetchone() == (3,)
    assert not prices.in_transaction
    with pytest.raises(thalweg.ProgrammingError) as failed:
        prices.sql("SELECT 'é'; SELECT nonsense FROM prices")
    assert failed.value.position == 20


def test_an_error_in_the_middle_is_an_exception(connection):
    rows = connection.sql("SELECT 1 / (500000 - g) FROM generate_series(1, 1000000) s(g)")
    with pytest.raises(thalweg.DataError) as failed:
        rows.fetchall()
    assert failed.value.sqlstate == "22012"
    with pytest.raises(thalweg.DataError):
        rows.fetchone()


def test_no_columns_and_no_rows(prices):
    assert prices.sql("SELECT FROM prices").fetchall() == [(), (), ()]
    assert prices.sql("SELECT symbol FROM prices WHERE false").fetchall() == []
    assert "0 rows" in repr(prices.sql("SELECT symbol FROM prices WHERE false"))


def test_copy_with_the_program_is_refused_and_with_files_works(prices, tmp_path):
    for statement in ("COPY prices FROM STDIN", "COPY prices TO STDOUT"):
        with pytest.raises(thalweg.NotSupportedError, match="HINT"):
            prices.sql(statement)
    path = tmp_path / "prices.csv"
    prices.sql(f"COPY prices TO '{path}' WITH (FORMAT csv, HEADER)")
    assert prices.sql(f"SELECT count(*) FROM '{path}'").fetchone() == (3,)
