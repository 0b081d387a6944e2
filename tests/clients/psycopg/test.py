"""psycopg 3: parameters and results of every type, COPY, cursors, pipelines, cancel, errors."""

import datetime
import decimal
import threading

import psycopg
from psycopg import errors
from psycopg.rows import class_row, dict_row
from psycopg.types.json import Json, Jsonb
import values
from tap import check, equal, run

VALUES = values.VALUES


def fresh(connection, name, columns):
    """A table of its own for one check."""
    connection.execute(f"DROP TABLE IF EXISTS {name}")
    connection.execute(f"CREATE TABLE {name} ({columns})")


def values_go_round(connection, binary):
    wrong = []
    for kind, value in VALUES:
        with connection.cursor(binary=binary) as cursor:
            try:
                mark = "%b" if binary else "%t"
                row = cursor.execute(f"SELECT {mark}::{kind}", [value]).fetchone()
                if row != (value,):
                    wrong.append(f"{kind}: sent {value!r}, found {row!r}")
                row = cursor.execute(f"SELECT {mark}::{kind}", [None]).fetchone()
                if row != (None,):
                    wrong.append(f"{kind}: sent NULL, found {row!r}")
            except psycopg.Error as error:
                wrong.append(f"{kind}: {error}")
    assert not wrong, "\n".join(wrong)


@check
def values_of_every_type_as_text(connection):
    values_go_round(connection, binary=False)


@check
def values_of_every_type_in_binary(connection):
    values_go_round(connection, binary=True)


@check
def values_of_every_type_through_a_table(connection):
    columns = values.columns_of_every_type(VALUES)
    fresh(connection, "every", f"id integer PRIMARY KEY, {columns}")
    marks = ", ".join(["%s"] * (len(VALUES) + 1))
    row = (1, *(value for _, value in VALUES))
    connection.execute(f"INSERT INTO every VALUES ({marks})", row)
    for binary in (False, True):
        cursor = connection.cursor(binary=binary)
        equal(cursor.execute("SELECT * FROM every").fetchone(), row)


@check
def parameters_without_a_cast_take_their_type_from_where_they_stand(connection):
    fresh(connection, "plain", "id bigint PRIMARY KEY, day date, amount numeric(10, 2)")
    day = datetime.date(2026, 5, 1)
    connection.execute("INSERT INTO plain VALUES (%s, %s, %s)", [1, day, decimal.Decimal("1.5")])
    row = connection.execute("SELECT * FROM plain WHERE id = %s AND day = %s", [1, day]).fetchone()
    equal(row, (1, day, decimal.Decimal("1.50")))
    rows = connection.execute("SELECT id FROM plain WHERE id = ANY(%s)", [[1, 2]]).fetchall()
    equal(rows, [(1,)])
    row = connection.execute("SELECT id FROM plain WHERE amount < %s LIMIT %s", [2.0, 1])
    equal(row.fetchall(), [(1,)])


@check
def json_goes_round(connection):
    value = {"a": [1, None, "ü"], "b": {"c": True}}
    equal(connection.execute("SELECT %s::json", [Json(value)]).fetchone(), (value,))
    equal(connection.execute("SELECT %s::jsonb", [Jsonb(value)]).fetchone(), (value,))
    fresh(connection, "documents", "id integer PRIMARY KEY, body json")
    connection.execute("INSERT INTO documents VALUES (1, %s)", [Jsonb(value)])
    equal(connection.execute("SELECT body FROM documents").fetchone(), (value,))


@check
def columns_are_described(connection):
    cursor = connection.execute(
        "SELECT 1::int AS a, 'x'::varchar(7) AS b, 1::numeric(5, 2) AS c, now() AS d"
    )
    equal([column.name for column in cursor.description], ["a", "b", "c", "d"])
    equal([column.type_code for column in cursor.description], [23, 1043, 1700, 1184])
    equal(cursor.description[1].display_size, 7)
    equal((cursor.description[2].precision, cursor.description[2].scale), (5, 2))


@check
def rows_become_dictionaries_and_objects(connection):
    cursor = connection.cursor(row_factory=dict_row)
    equal(cursor.execute("SELECT 1 AS one, 'b' AS two").fetchone(), {"one": 1, "two": "b"})

    class Pair:
        def __init__(self, left, right):
            self.sum = left + right

    cursor = connection.cursor(row_factory=class_row(Pair))
    equal(cursor.execute("SELECT 1 AS left, 2 AS right").fetchone().sum, 3)


@check
def prepared_statements_are_used_again(connection):
    connection.prepare_threshold = 0
    for value in range(20):
        row = connection.execute("SELECT %s + 1 AS next", [value], prepare=True).fetchone()
        equal(row, (value + 1,))


@check
def many_rows_are_inserted_at_once(connection):
    fresh(connection, "many", "id integer PRIMARY KEY, name text")
    cursor = connection.cursor()
    cursor.executemany("INSERT INTO many VALUES (%s, %s)", [(i, f"n{i}") for i in range(200)])
    equal(cursor.rowcount, 200)
    equal(connection.execute("SELECT count(*), max(name) FROM many").fetchone(), (200, "n99"))
    cursor.executemany(
        "INSERT INTO many VALUES (%s, %s) RETURNING id",
        [(i, "x") for i in range(200, 203)],
        returning=True,
    )
    equal([results.fetchone() for results in cursor.results()], [(200,), (201,), (202,)])


@check
def changes_tell_how_many_rows_they_touched(connection):
    fresh(connection, "counted", "id integer PRIMARY KEY, name text")
    equal(connection.execute("INSERT INTO counted VALUES (1, 'a'), (2, 'b')").rowcount, 2)
    equal(connection.execute("UPDATE counted SET name = 'c' WHERE id > 1").rowcount, 1)
    equal(connection.execute("DELETE FROM counted").statusmessage, "DELETE 2")


@check
def a_transaction_is_kept_or_undone(connection):
    fresh(connection, "kept", "id integer PRIMARY KEY")
    with connection.transaction():
        connection.execute("INSERT INTO kept VALUES (1)")
        equal(connection.info.transaction_status.name, "INTRANS")
    try:
        with connection.transaction():
            connection.execute("INSERT INTO kept VALUES (2)")
            raise ValueError("changed my mind")
    except ValueError:
        pass
    equal(connection.execute("SELECT id FROM kept").fetchall(), [(1,)])
    equal(connection.info.transaction_status.name, "IDLE")


@check
def savepoints_nest(connection):
    fresh(connection, "nested", "id integer PRIMARY KEY")
    with connection.transaction():
        connection.execute("INSERT INTO nested VALUES (1)")
        try:
            with connection.transaction():
                connection.execute("INSERT INTO nested VALUES (2)")
                connection.execute("INSERT INTO nested VALUES (1)")
        except errors.UniqueViolation:
            pass
        connection.execute("INSERT INTO nested VALUES (3)")
    equal(connection.execute("SELECT id FROM nested ORDER BY 1").fetchall(), [(1,), (3,)])


@check
def isolation_levels_are_taken(connection):
    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    with connection.transaction():
        equal(connection.execute("SHOW transaction_isolation").fetchone(), ("repeatable read",))
    connection.isolation_level = None
    connection.read_only = True
    try:
        with connection.transaction():
            connection.execute("CREATE TABLE never (id integer)")
    except errors.ReadOnlySqlTransaction:
        return
    raise AssertionError("a transaction that reads only has made a table")


@check
def a_pipeline_answers_in_order(connection):
    fresh(connection, "piped", "id integer PRIMARY KEY")
    with connection.pipeline():
        cursors = [connection.execute("SELECT %s::int", [value]) for value in range(50)]
        connection.execute("INSERT INTO piped VALUES (1)")
        equal([cursor.fetchone()[0] for cursor in cursors], list(range(50)))
    equal(connection.execute("SELECT count(*) FROM piped").fetchone(), (1,))


@check
def a_pipeline_that_fails_is_one_transaction(connection):
    fresh(connection, "piped", "id integer PRIMARY KEY")
    try:
        with connection.pipeline():
            connection.execute("INSERT INTO piped VALUES (1)")
            connection.execute("INSERT INTO piped VALUES (1)")
            connection.execute("INSERT INTO piped VALUES (2)")
    except errors.UniqueViolation:
        pass
    # Everything up to the place where the client synchronises is undone.
    equal(connection.execute("SELECT id FROM piped").fetchall(), [])


@check
def copy_in_and_out_as_text(connection):
    fresh(connection, "copied", "id integer PRIMARY KEY, name text, at timestamptz")
    rows = [(i, None if i % 3 else f"tab\t{i}\nline\\", datetime.datetime(2026, 1, 1, i % 24,
             tzinfo=values.UTC)) for i in range(1000)]
    with connection.cursor().copy("COPY copied FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)
    with connection.cursor().copy("COPY (SELECT * FROM copied ORDER BY id) TO STDOUT") as copy:
        copy.set_types(["int4", "text", "timestamptz"])
        equal(list(copy.rows()), rows)


@check
def copy_in_and_out_in_binary(connection):
    kinds = ["integer", "text", "numeric", "date", "uuid", "double precision", "integer[]"]
    columns = ", ".join(f"c{at} {kind}" for at, kind in enumerate(kinds))
    fresh(connection, "copied", columns)
    rows = [(i, f"n{i}", decimal.Decimal(i) / 8, datetime.date(2026, 1, 1 + i % 28), values.ID,
             i / 3, [i, None]) for i in range(1000)]
    types = ["int4", "text", "numeric", "date", "uuid", "float8", "int4[]"]
    with connection.cursor().copy("COPY copied FROM STDIN (FORMAT BINARY)") as copy:
        copy.set_types(types)
        for row in rows:
            copy.write_row(row)
    out = "COPY (SELECT * FROM copied ORDER BY c0) TO STDOUT (FORMAT BINARY)"
    with connection.cursor().copy(out) as copy:
        copy.set_types(types)
        equal(list(copy.rows()), rows)


@check
def a_copy_that_is_given_up_leaves_nothing(connection):
    fresh(connection, "copied", "id integer PRIMARY KEY")
    try:
        with connection.cursor().copy("COPY copied FROM STDIN") as copy:
            copy.write_row([1])
            raise ValueError("changed my mind")
    except ValueError:
        pass
    try:
        with connection.cursor().copy("COPY copied FROM STDIN") as copy:
            copy.write("1\nnot a number\n")
        raise AssertionError("a wrong number was copied")
    except errors.InvalidTextRepresentation:
        pass
    equal(connection.execute("SELECT count(*) FROM copied").fetchone(), (0,))


@check
def a_cursor_of_the_server_reads_in_parts(connection):
    with connection.transaction(), connection.cursor(name="parts") as cursor:
        cursor.itersize = 100
        cursor.execute("SELECT i FROM generate_series(1, 1050) AS s(i) ORDER BY i")
        equal(cursor.fetchone(), (1,))
        equal(len(cursor.fetchmany(49)), 49)
        equal([row[0] for row in cursor], list(range(51, 1051)))


@check
def a_client_cursor_sends_one_text(connection):
    cursor = psycopg.ClientCursor(connection)
    row = cursor.execute("SELECT %s, %s, %s", ["it's", 4, None]).fetchone()
    equal(row, ("it's", 4, None))
    cursor.execute("SELECT 1; SELECT 2, 3")
    equal(cursor.fetchall(), [(1,)])
    assert cursor.nextset()
    equal(cursor.fetchall(), [(2, 3)])


@check
def a_query_is_cancelled(connection):
    timer = threading.Timer(0.3, connection.cancel_safe)
    timer.start()
    endless = "SELECT count(*) FROM generate_series(1, 300000) a, generate_series(1, 300000) b"
    try:
        connection.execute(endless)
        raise AssertionError("the query was not cancelled")
    except errors.QueryCanceled:
        pass
    finally:
        timer.join()
    equal(connection.execute("SELECT 1").fetchone(), (1,))


@check
def errors_have_the_classes_of_postgresql(connection):
    fresh(connection, "strict", "id integer PRIMARY KEY, n integer NOT NULL CHECK (n > 0)")
    connection.execute("INSERT INTO strict VALUES (1, 1)")
    wanted = [
        ("SELEKT 1", errors.SyntaxError),
        ("SELECT * FROM nowhere", errors.UndefinedTable),
        ("SELECT nothing FROM strict", errors.UndefinedColumn),
        ("SELECT no_such(1)", errors.UndefinedFunction),
        ("SELECT 1 / 0", errors.DivisionByZero),
        ("SELECT 'x'::integer", errors.InvalidTextRepresentation),
        ("SELECT 3000000000::integer", errors.NumericValueOutOfRange),
        ("SELECT '2026-02-30'::date", errors.DatetimeFieldOverflow),
        ("INSERT INTO strict VALUES (1, 1)", errors.UniqueViolation),
        ("INSERT INTO strict VALUES (2, NULL)", errors.NotNullViolation),
        ("INSERT INTO strict VALUES (2, 0)", errors.CheckViolation),
        ("CREATE TABLE strict (id integer)", errors.DuplicateTable),
        ("SELECT (SELECT id FROM (VALUES (1), (2)) v(id))", errors.CardinalityViolation),
    ]
    wrong = []
    for sql, kind in wanted:
        try:
            connection.execute(sql)
            wrong.append(f"{sql}: no error")
        except kind:
            pass
        except psycopg.Error as error:
            wrong.append(f"{sql}: {type(error).__name__} {error.sqlstate} {error}")
    assert not wrong, "\n".join(wrong)


@check
def an_error_says_where_it_is(connection):
    try:
        connection.execute("SELECT 1, nothing FROM (VALUES (1)) v(a)")
        raise AssertionError("no error")
    except errors.UndefinedColumn as error:
        equal(error.diag.statement_position, "11")
        equal(error.diag.severity, "ERROR")


@check
def a_unique_violation_names_its_constraint(connection):
    fresh(connection, "named", "id integer PRIMARY KEY")
    try:
        connection.execute("INSERT INTO named VALUES (1), (1)")
        raise AssertionError("no error")
    except errors.UniqueViolation as error:
        told = (error.diag.schema_name, error.diag.table_name, error.diag.constraint_name)
        equal(told, ("public", "named", "named_pkey"))


@check
def a_failed_block_takes_nothing_more(connection):
    connection.autocommit = False
    try:
        connection.execute("SELECT 1 / 0")
    except errors.DivisionByZero:
        pass
    try:
        connection.execute("SELECT 1")
        raise AssertionError("a failed block went on")
    except errors.InFailedSqlTransaction:
        connection.rollback()
    equal(connection.execute("SELECT 1").fetchone(), (1,))


@check
def settings_are_told(connection):
    info = connection.info
    equal(info.encoding, "utf-8")
    equal(info.parameter_status("standard_conforming_strings"), "on")
    equal(info.parameter_status("integer_datetimes"), "on")
    assert info.server_version >= 150000, info.server_version
    connection.execute("SET application_name TO 'reader'")
    equal(info.parameter_status("application_name"), "reader")
    equal(connection.execute("SELECT current_setting('application_name')").fetchone(), ("reader",))


@check
def notices_arrive(connection):
    told = []
    connection.add_notice_handler(lambda diagnostic: told.append(diagnostic.message_primary))
    connection.execute("DROP TABLE IF EXISTS was_never_there")
    equal(told, ['table "was_never_there" does not exist, skipping'])


@check
def types_are_looked_up_in_the_catalog(connection):
    found = psycopg.types.TypeInfo.fetch(connection, "numeric")
    assert found is not None, "pg_type has no numeric"
    equal((found.name, found.oid, found.array_oid), ("numeric", 1700, 1231))


@check
def notifications_arrive(connection):
    connection.execute("LISTEN news")
    with psycopg.connect(autocommit=True) as other:
        other.execute("SELECT pg_notify('news', 'first')")
        other.execute("NOTIFY news, 'second'")
    heard = [notify.payload for notify in connection.notifies(timeout=30, stop_after=2)]
    equal(heard, ["first", "second"])
    connection.execute("UNLISTEN *")


@check
def what_is_not_there_is_refused(connection):
    for sql in ("PREPARE TRANSACTION 'later'",):
        try:
            connection.execute(sql)
            raise AssertionError(f"{sql} was taken")
        except (errors.FeatureNotSupported, errors.SyntaxError):
            pass


run(
    f"psycopg {psycopg.__version__}, libpq {psycopg.pq.version_pretty(psycopg.pq.version())}",
    lambda: psycopg.connect(autocommit=True),
)
