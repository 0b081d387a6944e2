"""Fixtures of all tests."""

import signal

import pytest

import thalweg

# A shell starts commands in the background with this signal ignored, and their children inherit it.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def connection():
    """A database in memory."""
    with thalweg.connect(threads=2) as opened:
        yield opened


@pytest.fixture
def prices(connection):
    """A connection with a table of three rows."""
    connection.sql("CREATE TABLE prices (symbol text PRIMARY KEY, price numeric(12, 2), n bigint)")
    connection.sql(
        "INSERT INTO prices VALUES ('AAPL', 187.5, 1), ('MSFT', 402.25, 2), ('X', NULL, 3)"
    )
    return connection
