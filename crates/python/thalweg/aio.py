"""Connections for asyncio.

Statements run in threads, so that the event loop goes on meanwhile. A task that is cancelled
cancels its statement.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from ._connection import Connection, connect
from ._parameters import Parameters
from ._relation import Relation

T = TypeVar("T")

_THREADS_MAX = 64
_pool: ThreadPoolExecutor | None = None
_pool_lock = threading.Lock()


def _threads() -> ThreadPoolExecutor:
    global _pool
    with _pool_lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(_THREADS_MAX, thread_name_prefix="thalweg-aio")
        return _pool


def _forget_threads() -> None:
    """Makes a forked process start threads of its own."""
    global _pool, _pool_lock
    _pool, _pool_lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forget_threads)


async def _in_thread(cancel: Callable[[], None], work: Callable[..., T], *arguments: Any) -> T:
    running = _threads().submit(work, *arguments)
    ended = asyncio.wrap_future(running)
    try:
        return await asyncio.shield(ended)
    except asyncio.CancelledError:
        # The statement's own error is of no interest: asyncio would log it if nothing asked for it.
        ended.add_done_callback(lambda done: done.cancelled() or done.exception())
        if not running.cancel():
            # A statement that begins after a cancel does not hear it.
            while not running.done():
                cancel()
                await asyncio.sleep(0.01)
        raise


async def connect_async(
    path: str | os.PathLike[str] | None = None, **options: Any
) -> AsyncConnection:
    """Opens a database for asyncio. The options are those of ``thalweg.connect``."""
    opened = await _in_thread(lambda: None, lambda: connect(path, **options))
    return AsyncConnection(opened)


class AsyncRelation:
    """The rows of a query, as ``thalweg.Relation`` has them."""

    def __init__(self, relation: Relation, connection: AsyncConnection) -> None:
        self._relation, self._do = relation, connection._do

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self._relation.columns

    @property
    def description(self) -> list[tuple[Any, ...]]:
        """The columns as PEP 249 describes them."""
        return self._relation.description

    async def fetchone(self) -> tuple[Any, ...] | None:
        """The next row; None at the end."""
        return await self._do(self._relation.fetchone)

    async def fetchmany(self, size: int = 1) -> list[tuple[Any, ...]]:
        """The next rows, at most ``size``."""
        return await self._do(self._relation.fetchmany, size)

    async def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows that are left."""
        return await self._do(self._relation.fetchall)

    async def df(self) -> Any:
        """The rows that are left, as a data frame of pandas."""
        return await self._do(self._relation.df)

    async def pl(self) -> Any:
        """The rows that are left, as a data frame of polars."""
        return await self._do(self._relation.pl)

    async def arrow(self) -> Any:
        """The rows that are left, as a table of pyarrow."""
        return await self._do(self._relation.arrow)

    async def close(self) -> None:
        """Ends the query, if it still runs, and frees its rows."""
        await self._do(self._relation.close)

    async def __aiter__(self) -> AsyncIterator[tuple[Any, ...]]:
        while rows := await self.fetchmany(1024):
            for row in rows:
                yield row

    def __repr__(self) -> str:
        return f"<thalweg.aio.AsyncRelation {self.columns}>"


class AsyncConnection:
    """A connection for asyncio. Its statements, and reads of their rows, run one by one."""

    def __init__(self, connection: Connection) -> None:
        # The variables of a caller belong to another thread than the statement.
        connection.replacement_scans = False
        self._connection = connection
        # Tasks wait here for their turns. One that is cancelled meanwhile has no statement yet, and
        # must not cancel that of another task.
        self._turn = asyncio.Lock()

    async def sql(
        self, sql: str, parameters: Parameters | None = None
    ) -> AsyncRelation | None:
        """Runs statements and returns the rows of the last one; None if it returns none."""
        relation = await self._do(self._connection.sql, sql, parameters)
        return None if relation is None else AsyncRelation(relation, self)

    async def executemany(self, sql: str, rows: Iterable[Parameters]) -> int:
        """Runs a statement for each element of ``rows``, and returns the number of rows written."""
        cursor = await self._do(self._connection.executemany, sql, rows)
        return cursor.rowcount

    async def register(self, name: str, rows: Any) -> None:
        """Makes rows known to queries as a table."""
        await self._do(self._connection.register, name, rows)

    async def upsert(self, table: str, rows: Any, columns: list[str] | None = None) -> int:
        """Inserts rows, or replaces those of the same primary key."""
        return await self._do(self._connection.upsert, table, rows, columns)

    async def begin(self) -> None:
        """Begins a transaction."""
        await self._do(self._connection.begin)

    async def commit(self) -> None:
        """Commits the transaction."""
        await self._do(self._connection.commit)

    async def rollback(self) -> None:
        """Undoes the transaction."""
        await self._do(self._connection.rollback)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncConnection]:
        """A block that is one transaction: committed at its end, undone by an exception."""
        await self.begin()
        try:
            yield self
        except BaseException:
            await self.rollback()
            raise
        await self.commit()

    async def duplicate(self) -> AsyncConnection:
        """Another connection to the same database, whose statements run beside this one's."""
        return AsyncConnection(await self._do(self._connection.duplicate))

    async def close(self) -> None:
        """Ends the connection, and cancels the statement that runs on it."""
        await _in_thread(self._connection.cancel, self._connection.close)

    async def __aenter__(self) -> AsyncConnection:
        return self

    async def __aexit__(self, kind: object, value: object, trace: object) -> None:
        await self._do(self._connection.__exit__, kind, value, trace)

    async def _do(self, work: Callable[..., T], *arguments: Any) -> T:
        async with self._turn:
            return await _in_thread(self._connection.cancel, work, *arguments)
