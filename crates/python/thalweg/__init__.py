"""Thalweg, a memory-first SQL database for live data, in the process of a Python program.

>>> import thalweg
>>> connection = thalweg.connect()
>>> connection.sql("SELECT 6 * 7 AS answer").fetchall()
[(42,)]

``thalweg.connect("directory")`` opens a durable database. ``python -m thalweg`` is the program with
its shell and server.
"""

from __future__ import annotations

import atexit as _atexit

from . import _connection
from ._connection import Appender, Connection, connect
from ._cursor import Cursor
from ._errors import (
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Warning,  # noqa: A004 - the name is PEP 249's
)
from ._relation import Relation
from ._thalweg import __version__
from ._types import (
    BINARY,
    DATETIME,
    NUMBER,
    ROWID,
    STRING,
    Binary,
    Date,
    DateFromTicks,
    Interval,
    Json,
    Time,
    TimeFromTicks,
    Timestamp,
    TimestampFromTicks,
)
from .aio import connect_async

apilevel = "2.0"
"""The version of PEP 249."""

threadsafety = 2
"""Threads may share the module and its connections."""

paramstyle = "qmark"
"""Parameters are ``?``. PostgreSQL's ``$1`` and names such as ``$symbol`` work as well."""

_atexit.register(_connection.close_all)

__all__ = [
    "BINARY",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Appender",
    "Binary",
    "Connection",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "Interval",
    "Json",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Relation",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "Warning",
    "__version__",
    "apilevel",
    "connect",
    "connect_async",
    "paramstyle",
    "threadsafety",
]
