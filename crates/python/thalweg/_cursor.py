"""Cursors of PEP 249."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ._errors import InterfaceError, ProgrammingError
from ._parameters import Parameters
from ._relation import Relation

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from ._connection import Connection
    from ._thalweg import Outcome


class Cursor:
    """Runs statements of a connection, and holds the rows of the last one.

    Cursors of one connection share its transaction. A thread that needs one of its own uses
    ``connection.duplicate()``.
    """

    arraysize = 1

    def __init__(self, connection: Connection) -> None:
        self._connection: Connection | None = connection
        self._relation: Relation | None = None
        self._rowcount = -1
        self._status: str | None = None

    @property
    def connection(self) -> Connection:
        """The connection that the cursor belongs to."""
        if self._connection is None:
            raise InterfaceError("the cursor is closed")
        return self._connection

    @property
    def description(self) -> list[tuple[Any, ...]] | None:
        """The columns of the result; None if the last statement returned no rows."""
        return None if self._relation is None else self._relation.description

    @property
    def rowcount(self) -> int:
        """The number of rows that the last statement wrote; -1 if it wrote none."""
        return self._rowcount

    @property
    def statusmessage(self) -> str | None:
        """The command tag of the last statement, such as ``INSERT 0 3``."""
        return self._status

    def execute(self, sql: str, parameters: Parameters | None = None) -> Cursor:
        """Runs statements. Parameters are ``?`` or ``$1`` (a sequence), or ``$name``."""
        connection = self.connection
        self._forget()
        self._take(connection._run(sql, parameters, frame=1))
        return self

    def executemany(self, sql: str, rows: Iterable[Parameters]) -> Cursor:
        """Runs a statement once for each element of ``rows``, in one transaction."""
        connection = self.connection
        self._forget()
        self._rowcount = connection._run_many(sql, rows)
        return self

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row; None at the end."""
        return self._result.fetchone()

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        """The next rows, at most ``size``; ``arraysize`` if it is not given."""
        return self._result.fetchmany(self.arraysize if size is None else size)

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows that are left."""
        return self._result.fetchall()

    def df(self) -> pandas.DataFrame:
        """The rows that are left, as a data frame of pandas."""
        return self._result.df()

    def pl(self) -> polars.DataFrame:
        """The rows that are left, as a data frame of polars."""
        return self._result.pl()

    def arrow(self) -> pyarrow.Table:
        """The rows that are left, as a table of pyarrow."""
        return self._result.arrow()

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self._result)

    def setinputsizes(self, sizes: object) -> None:
        """Does nothing: types follow from the statement."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Does nothing: values are never cut."""

    def close(self) -> None:
        """Frees the rows. The cursor runs no further statements."""
        self._forget()
        self._connection = None

    def __enter__(self) -> Cursor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _result(self) -> Relation:
        if self._connection is None:
            raise InterfaceError("the cursor is closed")
        if self._relation is None:
            raise ProgrammingError("the last statement returned no rows")
        return self._relation

    def _take(self, outcome: Outcome | None) -> None:
        if outcome is not None:
            self._rowcount, self._status = outcome.count, outcome.tag
            self._relation = None if outcome.rows is None else Relation(outcome.rows)

    def _forget(self) -> None:
        self._relation, self._rowcount, self._status = None, -1, None
