"""asyncpg: values in binary, prepared statements, COPY, cursors, cancelling."""

import asyncio
import contextlib
import datetime
import decimal
import io
import json

import asyncpg
import values
from tap import check, equal, run

VALUES = [*values.VALUES, ("json", '{"a": [1, null]}')]


@contextlib.asynccontextmanager
async def connected():
    connection = await asyncpg.connect(timeout=20)
    try:
        yield connection
    finally:
        await connection.close()


async def fresh(connection, name, columns):
    await connection.execute(f"DROP TABLE IF EXISTS {name}; CREATE TABLE {name} ({columns})")


@check
async def values_of_every_type(connection):
    wrong = []
    for kind, value in VALUES:
        try:
            found = await connection.fetchval(f"SELECT $1::{kind}", value)
            if found != value:
                wrong.append(f"{kind}: sent {value!r}, found {found!r}")
            if await connection.fetchval(f"SELECT $1::{kind}", None) is not None:
                wrong.append(f"{kind}: NULL was lost")
        except (asyncpg.PostgresError, asyncpg.InterfaceError, ValueError) as error:
            wrong.append(f"{kind}: {error}")
    assert not wrong, "\n".join(wrong)


@check
async def values_of_every_type_through_a_table(connection):
    columns = values.columns_of_every_type(VALUES)
    await fresh(connection, "every", columns)
    marks = ", ".join(f"${at}" for at in range(1, len(VALUES) + 1))
    row = tuple(value for _, value in VALUES)
    await connection.execute(f"INSERT INTO every VALUES ({marks})", *row)
    equal(tuple(await connection.fetchrow("SELECT * FROM every")), row)


@check
async def a_codec_of_ones_own(connection):
    await connection.set_type_codec(
        "json", encoder=json.dumps, decoder=json.loads, schema="pg_catalog"
    )
    value = {"a": [1, None, "ü"]}
    equal(await connection.fetchval("SELECT $1::json", value), value)


@check
async def prepared_statements_are_described(connection):
    statement = await connection.prepare("SELECT $1::int + 1 AS next, $2::text AS name")
    equal([kind.name for kind in statement.get_parameters()], ["int4", "text"])
    columns = [(column.name, column.type.name) for column in statement.get_attributes()]
    equal(columns, [("next", "int4"), ("name", "text")])
    for value in range(5):
        row = await statement.fetchrow(value, "x")
        equal((row["next"], row["name"]), (value + 1, "x"))


@check
async def many_rows_at_once_are_one_transaction(connection):
    await fresh(connection, "many", "id integer PRIMARY KEY")
    await connection.executemany("INSERT INTO many VALUES ($1)", [(i,) for i in range(500)])
    equal(await connection.fetchval("SELECT count(*) FROM many"), 500)
    try:
        await connection.executemany("INSERT INTO many VALUES ($1)", [(900,), (901,), (1,)])
        raise AssertionError("a key was taken twice")
    except asyncpg.UniqueViolationError:
        pass
    equal(await connection.fetchval("SELECT count(*) FROM many"), 500)


@check
async def records_are_copied_both_ways(connection):
    await fresh(connection, "copied", "id integer, name text, amount numeric, day date")
    day = datetime.date(2026, 1, 1)
    rows = [(i, None if i % 5 == 0 else f"n{i}", decimal.Decimal(i) / 4, day) for i in range(2000)]
    told = await connection.copy_records_to_table("copied", records=rows)
    equal(told, "COPY 2000")
    found = await connection.fetch("SELECT * FROM copied ORDER BY id")
    equal([tuple(row) for row in found], rows)
    out = io.BytesIO()
    await connection.copy_from_query(
        "SELECT id, name FROM copied WHERE id < $1 ORDER BY id", 3, output=out, format="csv"
    )
    equal(out.getvalue().decode(), "0,\n1,n1\n2,n2\n")
    out.seek(0)
    await connection.copy_to_table("copied", source=out, columns=["id", "name"], format="csv")
    equal(await connection.fetchval("SELECT count(*) FROM copied"), 2003)


@check
async def a_cursor_reads_in_parts(connection):
    async with connection.transaction():
        rows = connection.cursor(
            "SELECT i FROM generate_series(1, $1::int) s(i) ORDER BY i", 1000, prefetch=64
        )
        equal([row["i"] async for row in rows], list(range(1, 1001)))
        cursor = await connection.cursor("SELECT i FROM generate_series(1, 10) s(i) ORDER BY i")
        equal([row[0] for row in await cursor.fetch(3)], [1, 2, 3])
        await cursor.forward(2)
        equal((await cursor.fetchrow())[0], 6)


@check
async def transactions_and_savepoints(connection):
    await fresh(connection, "kept", "id integer PRIMARY KEY")
    async with connection.transaction():
        await connection.execute("INSERT INTO kept VALUES (1)")
        with contextlib.suppress(ZeroDivisionError):
            async with connection.transaction():
                await connection.execute("INSERT INTO kept VALUES (2)")
                raise ZeroDivisionError
    equal([row["id"] for row in await connection.fetch("SELECT id FROM kept")], [1])
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        equal(await connection.fetchval("SELECT count(*) FROM kept"), 1)


@check
async def a_query_that_takes_too_long_is_cancelled(connection):
    endless = "SELECT count(*) FROM generate_series(1, 300000) a, generate_series(1, 300000) b"
    try:
        await connection.fetchval(endless, timeout=0.5)
        raise AssertionError("the query was not cancelled")
    except asyncio.TimeoutError:
        pass
    equal(await connection.fetchval("SELECT 1"), 1)


@check
async def a_changed_table_is_prepared_again(connection):
    await fresh(connection, "changing", "id integer")
    await connection.execute("INSERT INTO changing VALUES (1)")
    equal(len(await connection.fetchrow("SELECT * FROM changing")), 1)
    await connection.execute("ALTER TABLE changing ADD COLUMN name text")
    equal(tuple(await connection.fetchrow("SELECT * FROM changing")), (1, None))


@check
async def errors_tell_what_is_wrong(connection):
    await fresh(connection, "strict", "id integer PRIMARY KEY")
    await connection.execute("INSERT INTO strict VALUES (1)")
    for sql, kind in [
        ("SELECT * FROM nowhere", asyncpg.UndefinedTableError),
        ("SELECT 1 / 0", asyncpg.DivisionByZeroError),
        ("INSERT INTO strict VALUES (1)", asyncpg.UniqueViolationError),
        ("SELEKT", asyncpg.PostgresSyntaxError),
    ]:
        try:
            await connection.fetch(sql)
            raise AssertionError(f"{sql}: no error")
        except kind:
            pass


@check
async def a_pool_hands_connections_out_again(connection):
    async with asyncpg.create_pool(min_size=2, max_size=4) as pool:
        async def one(value):
            async with pool.acquire() as pooled:
                return await pooled.fetchval("SELECT $1::int", value)

        equal(await asyncio.gather(*(one(i) for i in range(40))), list(range(40)))


run(f"asyncpg {asyncpg.__version__}", connected)
