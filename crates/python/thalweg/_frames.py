"""Data frames and Arrow tables of the program, as tables of a query."""

from __future__ import annotations

from collections.abc import Mapping
from types import FrameType
from typing import Any

from ._errors import InterfaceError
from ._thalweg import Session, relation_names


def is_frame(value: object) -> bool:
    """True for objects that ``stream_of`` takes."""
    return hasattr(value, "__arrow_c_stream__") or _is_pandas(value)


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
    if hasattr(rows, "__arrow_c_stream__"):
        return rows
    kind = type(rows)
    raise InterfaceError(
        f"{kind.__module__}.{kind.__qualname__} is no table: it has no __arrow_c_stream__"
    )


def tuples_of(rows: Any, columns: list[str]) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Columns and values of a list of tuples or dictionaries."""
    rows = list(rows)
    if rows and isinstance(rows[0], Mapping):
        columns = list(rows[0])
        return columns, [tuple(row[column] for column in columns) for row in rows]
    return columns, [tuple(row) for row in rows]


def register_variables(session: Session, sql: str, frame: FrameType) -> list[str]:
    """Registers the data frames that a text reads by the names of variables.

    Returns the names, which end with the statement. The frame's local variables come first, then
    the global ones.
    """
    if not any(map(is_frame, frame.f_locals.values())) and not any(
        map(is_frame, frame.f_globals.values())
    ):
        return []
    try:
        names = relation_names(sql)
    except Exception:  # The statement itself reports its syntax error.
        return []
    found = []
    for name in names:
        rows = _variable(frame, name)
        if rows is not None:
            session.register([name], stream_of(rows))
            found.append(name)
    return found


def _variable(frame: FrameType, name: str) -> Any | None:
    for variables in (frame.f_locals, frame.f_globals):
        value = variables.get(name)
        if value is None:
            # Names in SQL are in lower case unless they are quoted.
            value = next((v for k, v in variables.items() if k.lower() == name), None)
        if value is not None and is_frame(value):
            return value
    return None
