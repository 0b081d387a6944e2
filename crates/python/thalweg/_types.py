"""Values of SQL that have no class in Python, and the type objects of PEP 249."""

from __future__ import annotations

import datetime
from typing import Any, NamedTuple


class Interval(NamedTuple):
    """An interval with months, whose length in days depends on the date that it is added to.

    Intervals without months are ``datetime.timedelta``.
    """

    months: int = 0
    days: int = 0
    microseconds: int = 0


class Json:
    """Marks a value to be written as JSON. Only strings need it, which are JSON texts otherwise."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"Json({self.value!r})"


class TypeObject:
    """Equals every type code of a cursor's description that belongs to a group of types."""

    def __init__(self, name: str, types: frozenset[str]) -> None:
        self._name, self._types = name, types

    def __eq__(self, other: object) -> bool:
        if isinstance(other, TypeObject):
            return self._types == other._types
        return other in self._types

    def __hash__(self) -> int:
        return hash(self._types)

    def __repr__(self) -> str:
        return f"thalweg.{self._name}"


STRING = TypeObject(
    "STRING",
    frozenset({"text", "character varying", "character", "name", "uuid", "json", "jsonb"}),
)
BINARY = TypeObject("BINARY", frozenset({"bytea"}))
NUMBER = TypeObject(
    "NUMBER",
    frozenset({"smallint", "integer", "bigint", "real", "double precision", "numeric", "oid"}),
)
DATETIME = TypeObject(
    "DATETIME",
    frozenset(
        {
            "date",
            "time without time zone",
            "timestamp without time zone",
            "timestamp with time zone",
            "interval",
        }
    ),
)
ROWID = TypeObject("ROWID", frozenset())

Date = datetime.date
Time = datetime.time
Timestamp = datetime.datetime
Binary = bytes


def DateFromTicks(ticks: float) -> datetime.date:  # noqa: N802 - the name is PEP 249's
    """The local date of a time in seconds since 1970."""
    return datetime.date.fromtimestamp(ticks)


def TimeFromTicks(ticks: float) -> datetime.time:  # noqa: N802
    """The local time of day of a time in seconds since 1970."""
    return datetime.datetime.fromtimestamp(ticks).time()


def TimestampFromTicks(ticks: float) -> datetime.datetime:  # noqa: N802
    """The local date and time of a time in seconds since 1970."""
    return datetime.datetime.fromtimestamp(ticks)
