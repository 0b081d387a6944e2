"""Connections for asyncio."""

import asyncio

import pytest

import thalweg

LONG = "SELECT count(*) FROM generate_series(1, 100000) a(x), generate_series(1, 10000000) b(y)"


def test_statements_and_transactions():
    async def main():
        async with await thalweg.connect_async() as connection:
            await connection.sql("CREATE TABLE t (a integer PRIMARY KEY)")
            assert await connection.executemany("INSERT INTO t VALUES (?)", [(1,), (2,)]) == 2
            async with connection.transaction():
                await connection.upsert("t", [(3,)])
            with pytest.raises(ZeroDivisionError):
                async with connection.transaction():
                    await connection.sql("DELETE FROM t")
                    raise ZeroDivisionError
            rows = await connection.sql("SELECT a FROM t ORDER BY a")
            assert rows.columns == ["a"] and await rows.fetchone() == (1,)
            assert [row async for row in rows] == [(2,), (3,)]

    asyncio.run(main())


def test_connections_work_side_by_side():
    async def main():
        connection = await thalweg.connect_async()

        async def work(number):
            own = await connection.duplicate()
            rows = await own.sql("SELECT sum(g) FROM generate_series(1, ?) s(g)", [number])
            return await rows.fetchone()

        results = await asyncio.gather(*(work(number) for number in range(1, 21)))
        assert results == [(number * (number + 1) // 2,) for number in range(1, 21)]
        await connection.close()

    asyncio.run(main())


def test_a_cancelled_task_cancels_its_statement():
    async def main():
        connection = await thalweg.connect_async()

        async def work():
            rows = await connection.sql(LONG)
            await rows.fetchall()

        task = asyncio.create_task(work())
        # The loop goes on while the statement runs.
        for _ in range(20):
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        rows = await connection.sql("SELECT 1")
        assert await rows.fetchall() == [(1,)]
        await connection.close()

    asyncio.run(main())


def test_a_cancelled_task_that_waits_leaves_the_statement_of_another_one_alone():
    async def main():
        connection = await thalweg.connect_async()
        await connection.sql("CREATE TABLE t (a bigint)")
        running = asyncio.create_task(connection.sql(f"INSERT INTO t {LONG}"))
        waiting = asyncio.create_task(connection.sql("SELECT 1"))
        for _ in range(10):
            await asyncio.sleep(0.01)
        for task in (waiting, running):
            assert not running.done()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert await (await connection.sql("SELECT count(*) FROM t")).fetchall() == [(0,)]
        await connection.close()

    asyncio.run(main())


def test_a_relation_can_be_closed():
    async def main():
        async with await thalweg.connect_async() as connection:
            rows = await connection.sql("SELECT g FROM generate_series(1, 1000000000) s(g)")
            assert await rows.fetchone() == (1,)
            await rows.close()
            with pytest.raises(thalweg.InterfaceError):
                await rows.fetchone()

    asyncio.run(main())
