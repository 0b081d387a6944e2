"""Data frames and Arrow tables of the program, as tables of a query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from ._errors import Error, InterfaceError, ProgrammingError
from ._names import quoted
from ._relation import Relation
from ._thalweg import Session, relation_names


def is_frame(value: object) -> bool:
    """True for objects that ``stream_of`` takes.

    The class is asked, because attributes of an object may be computed, or fail, on access.
    """
    return hasattr(type(value), "__arrow_c_stream__") or _is_pandas(value)


def _is_pandas(value: object) -> bool:
    kind = type(value)
    return kind.__module__.partition(".")[0] == "pandas" and kind.__name__ == "DataFrame"


def stream_of(rows: Any) -> Any:
    """The object with ``__arrow_c_stream__`` for a data frame or table."""
    if _is_pandas(rows):
        try:
            import pyarrow
        except ModuleNotFoundError:
            raise InterfaceError(
                "pandas hands its rows over through pyarrow, which is not installed\n"
                "HINT: pip install pyarrow"
            ) from None
        return pyarrow.Table.from_pandas(rows, preserve_index=False)
    if isinstance(rows, Relation):
        # An error of the query is raised here, not as one of the stream.
        rows._open.read_ahead()
    if is_frame(rows):
        return rows
    kind = type(rows)
    raise InterfaceError(
        f"{kind.__module__}.{kind.__qualname__} is no table: it has no __arrow_c_stream__"
    )


def tuples_of(
    rows: Any, columns: list[str] | None, all_columns: list[str]
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Columns and values of a list of tuples or dictionaries."""
    rows = list(rows)
    if not rows or not isinstance(rows[0], Mapping):
        return columns or all_columns, [tuple(row) for row in rows]
    keys = rows[0].keys()
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Mapping) or row.keys() != keys:
            raise ProgrammingError(f"row {number} has other keys than the first one")
    columns = columns or list(keys)
    missing = [column for column in columns if column not in keys]
    if missing:
        raise ProgrammingError(f'rows have no column "{missing[0]}"')
    return columns, [tuple(row[column] for column in columns) for row in rows]


@contextmanager
def registered_variables(
    session: Session, sql: str, frame: FrameType, registered: Set[str]
) -> Iterator[None]:
    """Registers the data frames that a text reads by the names of variables, for a block.

    The frame's local variables come first, then the global ones. Names that are registered already,
    or belong to a relation of the database, are left out: a stream would be read for nothing.
    """
    found = []
    try:
        for name, rows in _variables(sql, frame):
            if name not in registered and not _is_relation(session, name):
                session.register([name], stream_of(rows))
                found.append(name)
        yield
    finally:
        # Another thread may have closed the connection.
        with suppress(InterfaceError):
            for name in found:
                session.unregister(name)


def _variables(sql: str, frame: FrameType) -> list[tuple[str, Any]]:
    """The data frames among a frame's variables that have the names of relations in a text."""
    scopes = [list(frame.f_locals.items()), list(frame.f_globals.items())]
    if not any(is_frame(value) for scope in scopes for _, value in scope):
        return []
    try:
        names = relation_names(sql)
    except Error:  # The statement itself reports its syntax error.
        return []
    found = [(name, _variable(scopes, name)) for name in names]
    return [(name, rows) for name, rows in found if rows is not None]


def _is_relation(session: Session, name: str) -> bool:
    found = session.execute("SELECT to_regclass($1) IS NOT NULL", [quoted(name)])
    return found is not None and found.rows is not None and found.rows.fetch() == [(True,)]


def _variable(scopes: list[list[tuple[str, Any]]], name: str) -> Any | None:
    for scope in scopes:
        # Names in SQL are in lower case unless they are quoted.
        exact = [value for variable, value in scope if variable == name]
        folded = [value for variable, value in scope if variable.lower() == name]
        for value in exact + folded:
            if is_frame(value):
                return value
    return None
