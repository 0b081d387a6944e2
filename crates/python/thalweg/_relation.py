"""The rows of a query."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from . import _display
from ._errors import InterfaceError

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from ._thalweg import Rows


class Relation:
    """The rows of a query, which come from the engine as they are read.

    Each row is returned once, by whichever method reads it first. Printing a relation shows its
    first rows without taking them.
    """

    __slots__ = ("_rows",)

    def __init__(self, rows: Rows) -> None:
        self._rows: Rows | None = rows

    @property
    def _open(self) -> Rows:
        if self._rows is None:
            raise InterfaceError("the result is closed")
        return self._rows

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return [name for name, _ in self._open.columns]

    @property
    def types(self) -> list[str]:
        """The types of the columns, as SQL writes them."""
        return [kind for _, kind in self._open.columns]

    @property
    def description(self) -> list[tuple[Any, ...]]:
        """The columns as PEP 249 describes them: seven items each."""
        return [(name, kind, None, None, None, None, None) for name, kind in self._open.columns]

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row; None at the end."""
        rows = self._open.fetch(1)
        return rows[0] if rows else None

    def fetchmany(self, size: int = 1) -> list[tuple[Any, ...]]:
        """The next rows, at most ``size``."""
        return self._open.fetch(size)

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows that are left."""
        return self._open.fetch()

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        while rows := self._open.fetch(1024):
            yield from rows

    def df(self) -> pandas.DataFrame:
        """The rows that are left, as a data frame of pandas."""
        import pandas

        try:
            return self.arrow().to_pandas()
        except ModuleNotFoundError as missing:
            if missing.name != "pyarrow":
                raise
        return pandas.DataFrame(self.fetchall(), columns=self.columns)

    def pl(self) -> polars.DataFrame:
        """The rows that are left, as a data frame of polars. Intervals become text."""
        import polars

        self._open.read_ahead()
        return polars.DataFrame(_Views(self._open))

    def arrow(self) -> pyarrow.Table:
        """The rows that are left, as a table of pyarrow."""
        import pyarrow

        # An error of the query is raised here, not by Arrow.
        self._open.read_ahead()
        return pyarrow.RecordBatchReader.from_stream(self).read_all()

    def fetch_record_batch(self) -> pyarrow.RecordBatchReader:
        """The rows that are left as record batches, which the engine makes as they are read."""
        import pyarrow

        return pyarrow.RecordBatchReader.from_stream(self)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows that are left, for every library that reads Arrow's streams."""
        return self._open.arrow_stream()

    def close(self) -> None:
        """Ends the query, if it still runs, and frees its rows."""
        if self._rows is not None:
            self._rows.close()
            self._rows = None

    def __enter__(self) -> Relation:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._rows is None:
            return "<closed relation>"
        return _display.as_text(self._rows.columns, *self._rows.peek(_display.ROWS_SHOWN))

    def _repr_html_(self) -> str:
        if self._rows is None:
            return "<p>closed relation</p>"
        return _display.as_html(self._rows.columns, *self._rows.peek(_display.ROWS_SHOWN))


class _Views:
    """A stream with strings in the engine's layout."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._rows.arrow_stream(views=True)
