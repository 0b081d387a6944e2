"""Transactions, directories, and connections of one database."""

import pytest

import thalweg


def count(connection):
    return connection.sql("SELECT count(*) FROM prices").fetchone()[0]


def test_begin_commit_and_rollback(prices):
    prices.begin()
    assert prices.in_transaction
    prices.sql("DELETE FROM prices")
    assert count(prices) == 0
    prices.rollback()
    assert count(prices) == 3 and not prices.in_transaction
    prices.begin()
    prices.sql("DELETE FROM prices WHERE symbol = 'X'")
    prices.commit()
    assert count(prices) == 2
    prices.commit()
    prices.rollback()


def test_a_block_is_a_transaction(prices):
    with prices.transaction():
        prices.sql("DELETE FROM prices WHERE symbol = 'X'")
    assert count(prices) == 2
    with pytest.raises(ZeroDivisionError), prices.transaction():
        prices.sql("DELETE FROM prices")
        raise ZeroDivisionError
    assert count(prices) == 2
    with pytest.raises(thalweg.InternalError) as failed, prices.transaction():
        with pytest.raises(thalweg.IntegrityError):
            prices.sql("INSERT INTO prices VALUES ('AAPL')")
        prices.sql("SELECT 1")
    assert failed.value.sqlstate == "25P02"
    assert not prices.in_transaction


def test_a_transaction_within_another_one_is_refused(prices):
    with pytest.raises(thalweg.InternalError) as refused, prices.transaction():
        prices.sql("DELETE FROM prices")
        with prices.transaction():
            raise AssertionError("the inner block began")
    assert refused.value.sqlstate == "25001"
    assert count(prices) == 3 and not prices.in_transaction


def test_a_failed_transaction_is_not_committed_silently(prices):
    with pytest.raises(thalweg.InternalError) as failed, prices.transaction():
        prices.sql("DELETE FROM prices")
        with pytest.raises(thalweg.ProgrammingError):
            prices.sql("SELECT * FROM missing")
    assert failed.value.sqlstate == "25P02"
    assert count(prices) == 3 and not prices.in_transaction


def test_without_autocommit_statements_open_a_transaction(prices):
    prices.autocommit = False
    prices.sql("DELETE FROM prices")
    assert prices.in_transaction
    prices.rollback()
    assert count(prices) == 3


def test_connections_of_a_database_have_their_own_transactions(prices):
    other = prices.duplicate()
    prices.begin()
    prices.sql("DELETE FROM prices")
    assert count(other) == 3 and count(prices) == 0
    prices.commit()
    assert count(other) == 0
    other.close()
    assert count(prices) == 0


def test_cursors_share_the_transaction(prices):
    prices.begin()
    prices.cursor().execute("DELETE FROM prices")
    assert prices.cursor().execute("SELECT count(*) FROM prices").fetchone() == (0,)
    prices.rollback()


def test_a_directory_keeps_its_rows(tmp_path):
    path = tmp_path / "market"
    for round in range(3):
        with thalweg.connect(path) as connection:
            connection.sql("CREATE TABLE IF NOT EXISTS t (a integer PRIMARY KEY)")
            assert connection.sql("SELECT count(*) FROM t").fetchone() == (round,)
            connection.execute("INSERT INTO t VALUES (?)", [round])
            with pytest.raises(thalweg.Error):
                thalweg.connect(path)
        assert repr(connection).startswith("<thalweg.Connection closed")


def test_leaving_by_an_exception_undoes_the_transaction(tmp_path):
    with pytest.raises(ZeroDivisionError), thalweg.connect(tmp_path / "d") as connection:
        connection.sql("CREATE TABLE t (a integer)")
        connection.begin()
        connection.sql("INSERT INTO t VALUES (1)")
        raise ZeroDivisionError
    with thalweg.connect(tmp_path / "d") as connection:
        assert connection.sql("SELECT count(*) FROM t").fetchone() == (0,)
        connection.begin()
        connection.sql("INSERT INTO t VALUES (1)")
    with thalweg.connect(tmp_path / "d") as connection:
        assert connection.sql("SELECT count(*) FROM t").fetchone() == (1,)


def test_options(tmp_path):
    with thalweg.connect(
        tmp_path / "d", threads=1, memory_limit=64 << 20, durability="none"
    ) as connection:
        assert connection.sql("SELECT 1").fetchone() == (1,)
    with pytest.raises(ValueError, match="durability"):
        thalweg.connect(durability="perhaps")
