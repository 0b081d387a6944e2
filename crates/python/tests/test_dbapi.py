"""PEP 249."""

import pytest

import thalweg


def test_the_module_describes_itself():
    assert thalweg.apilevel == "2.0"
    assert thalweg.threadsafety == 2
    assert thalweg.paramstyle == "qmark"
    for name in ("Error", "InterfaceError", "DatabaseError", "IntegrityError", "NotSupportedError"):
        assert getattr(thalweg.Connection, name) is getattr(thalweg, name)


def test_a_cursor_holds_the_rows_of_its_last_statement(prices):
    cursor = prices.cursor()
    assert cursor.description is None and cursor.rowcount == -1
    assert cursor.execute("SELECT symbol, n FROM prices ORDER BY n") is cursor
    assert [(column[0], column[1]) for column in cursor.description] == [
        ("symbol", "text"),
        ("n", "bigint"),
    ]
    assert all(len(column) == 7 for column in cursor.description)
    assert cursor.description[0][1] == thalweg.STRING != thalweg.NUMBER
    assert cursor.description[1][1] == thalweg.NUMBER
    assert cursor.fetchmany() == [("AAPL", 1)]
    cursor.arraysize = 2
    assert cursor.fetchmany() == [("MSFT", 2), ("X", 3)]
    assert cursor.fetchone() is None
    cursor.execute("UPDATE prices SET n = n + 1 WHERE n > 1")
    assert cursor.rowcount == 2 and cursor.statusmessage == "UPDATE 2"
    with pytest.raises(thalweg.ProgrammingError):
        cursor.fetchone()
    cursor.close()
    with pytest.raises(thalweg.InterfaceError):
        cursor.execute("SELECT 1")


def test_executemany_is_one_transaction(prices):
    cursor = prices.cursor()
    rows = [(f"S{i}", i, i) for i in range(1000)]
    cursor.executemany("INSERT INTO prices VALUES (?, ?, ?)", rows)
    assert cursor.rowcount == 1000
    with pytest.raises(thalweg.IntegrityError) as failed:
        cursor.executemany("INSERT INTO prices VALUES (?, ?, ?)", [("new", 1, 1), ("AAPL", 1, 1)])
    assert failed.value.sqlstate == "23505"
    assert prices.sql("SELECT count(*) FROM prices").fetchone() == (1003,)
    assert not prices.in_transaction
    cursor.executemany("DELETE FROM prices WHERE symbol = $s", [{"s": "AAPL"}, {"s": "none"}])
    assert cursor.rowcount == 1
    assert cursor.executemany("DELETE FROM prices WHERE symbol = ?", []).rowcount == 0


@pytest.mark.parametrize(
    ("sql", "values", "expected"),
    [
        ("SELECT ? + 1, ?", [1, "a"], (2, "a")),
        ("SELECT $2::text, $1::int", [1, "a"], ("a", 1)),
        ("SELECT $a + 1, $b, $a", {"a": 1, "b": "x", "unused": 3}, (2, "x", 1)),
        ("SELECT '?', \"?\" FROM (SELECT 1 AS \"?\") t WHERE ? = 5 -- ?", [5], ("?", 1)),
        ("SELECT 'a' LIKE 'a' ESCAPE'\\', ?, 'b'", [1], (True, 1, "b")),
        ("SELECT E'\\'?', /* ? */ $$ ? $$, ?", ["a"], ("'?", " ? ", "a")),
        ("SELECT '{\"a\": 1}'::jsonb ?? ?", ["a"], (True,)),
        ("SELECT '{\"a\": 1}'::jsonb ? $1", ["a"], (True,)),
        ("SELECT '$a', $a", {"a": 1}, ("$a", 1)),
    ],
)
def test_parameters(connection, sql, values, expected):
    assert connection.sql(sql, values).fetchone() == expected


def test_notices_are_those_of_the_last_statement(connection):
    connection.sql("DROP TABLE IF EXISTS missing")
    assert len(connection.notices) == 1 and "missing" in connection.notices[0]
    connection.sql("SELECT 1")
    assert connection.notices == []


def test_wrong_parameters_are_named(connection):
    with pytest.raises(thalweg.ProgrammingError, match="2 parameters, but 1"):
        connection.sql("SELECT ?::int, ?::int", [1])
    with pytest.raises(thalweg.ProgrammingError, match=r"\$b"):
        connection.sql("SELECT $a, $b", {"a": 1})
    with pytest.raises(thalweg.ProgrammingError, match="not a string"):
        connection.sql("SELECT ?", "a")
    with pytest.raises(thalweg.ProgrammingError, match="all sequences or all mappings"):
        connection.executemany("SELECT $a", [{"a": 1}, [2]])


@pytest.mark.parametrize(
    ("sql", "kind", "sqlstate"),
    [
        ("SELEC 1", thalweg.ProgrammingError, "42601"),
        ("SELECT * FROM missing", thalweg.ProgrammingError, "42P01"),
        ("SELECT 1 / 0", thalweg.DataError, "22012"),
        ("INSERT INTO prices VALUES ('AAPL')", thalweg.IntegrityError, "23505"),
        ("INSERT INTO prices VALUES (NULL)", thalweg.IntegrityError, "23502"),
        ("SELECT 1; LISTEN a", thalweg.NotSupportedError, "0A000"),
    ],
)
def test_exceptions_follow_the_sqlstate(prices, sql, kind, sqlstate):
    with pytest.raises(kind) as failed:
        prices.sql(sql).fetchall()
    assert failed.value.sqlstate == sqlstate
    assert isinstance(failed.value, thalweg.Error)
    assert prices.sql("SELECT 1").fetchone() == (1,)


def test_an_error_has_its_parts(connection):
    with pytest.raises(thalweg.ProgrammingError) as failed:
        connection.sql("SELECT nonsense FROM pg_class")
    assert failed.value.position == 8
    assert "nonsense" in str(failed.value)


def test_closed_connections_say_so(connection):
    cursor = connection.cursor()
    connection.close()
    connection.close()
    assert connection.closed
    for use in (
        lambda: connection.sql("SELECT 1"),
        lambda: cursor.execute("SELECT 1"),
        connection.cursor,
        connection.duplicate,
        connection.begin,
        lambda: connection.appender("t"),
    ):
        with pytest.raises(thalweg.InterfaceError, match="closed"):
            use()


def test_servers_are_refused_with_a_hint():
    with pytest.raises(thalweg.NotSupportedError, match="HINT"):
        thalweg.connect("thalweg://localhost:7470")
