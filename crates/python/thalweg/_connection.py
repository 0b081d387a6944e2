"""Connections to a database."""

from __future__ import annotations

import itertools
import os
import re
import sys
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from . import _errors, _frames
from ._cursor import Cursor
from ._names import qualified, quoted
from ._parameters import Parameters, bind
from ._relation import Relation
from ._thalweg import Appender as _Appender
from ._thalweg import Outcome, Session

_open_connections: weakref.WeakSet[Connection] = weakref.WeakSet()

# Numbers for the names of rows that are registered for one statement.
_numbers = itertools.count(1)

# A limit of a text's length. A cast to such a type would cut the text silently.
_LENGTH_LIMIT = re.compile(r"character varying\(\d+\)")


def connect(
    path: str | os.PathLike[str] | None = None,
    *,
    threads: int | None = None,
    memory_limit: int | None = None,
    durability: str = "fsync",
) -> Connection:
    """Opens a database in this process: in memory, or in a directory, which is created if missing.

    ``threads`` execute queries (one for each core by default). ``memory_limit`` is the memory of
    all queries in bytes, beyond which they use files. ``durability`` says when a write is
    acknowledged: ``fsync`` (it survives a crash of the machine), ``write`` (a crash of the process)
    or ``none``.
    """
    directory = None if path is None or path == ":memory:" else os.fsdecode(path)
    if directory is not None and "://" in directory:
        raise _errors.NotSupportedError(
            f"{directory}: this package opens databases in its own process only\n"
            "HINT: Connect to a server with a driver of PostgreSQL, such as psycopg, or with ADBC."
        )
    session = Session(
        directory, threads=threads, memory_limit=memory_limit, durability=durability
    )
    return Connection(session, directory)


class Connection:
    """A session of an embedded database, with one transaction.

    Statements outside of a transaction commit by themselves, unless ``autocommit`` is set to
    False. Threads may share a connection: their statements run one by one.
    """

    Warning = _errors.Warning
    Error = _errors.Error
    InterfaceError = _errors.InterfaceError
    DatabaseError = _errors.DatabaseError
    DataError = _errors.DataError
    OperationalError = _errors.OperationalError
    IntegrityError = _errors.IntegrityError
    InternalError = _errors.InternalError
    ProgrammingError = _errors.ProgrammingError
    NotSupportedError = _errors.NotSupportedError

    def __init__(self, session: Session, directory: str | None) -> None:
        self._session, self._directory = session, directory
        self._closed = False
        # Held while a statement runs, with the steps that belong to it.
        self._lock = threading.RLock()
        self._registered: set[str] = set()
        self.autocommit = True
        self.replacement_scans = True
        self.notices: list[str] = []
        """Remarks of the engine about the last statement."""
        _open_connections.add(self)

    # Statements

    def sql(self, sql: str, parameters: Parameters | None = None) -> Relation | None:
        """Runs statements and returns the rows of the last one; None if it returns none.

        A query runs as far as its rows are read.
        Parameters are ``?`` or ``$1`` with a sequence of values, or ``$name`` with a mapping.
        Several statements are one transaction, and take no parameters.
        A name that is no table is looked up among the caller's variables, so that a query reads
        data frames and Arrow tables by their names.
        """
        outcome = self._run(sql, parameters, frame=1)
        return None if outcome is None or outcome.rows is None else Relation(outcome.rows)

    def execute(self, sql: str, parameters: Parameters | None = None) -> Cursor:
        """Runs statements with a new cursor, and returns it."""
        cursor = Cursor(self)
        outcome = self._run(sql, parameters, frame=1)
        cursor._take(outcome)
        return cursor

    def executemany(self, sql: str, rows: Iterable[Parameters]) -> Cursor:
        """Runs a statement for each element of ``rows`` with a new cursor, and returns it."""
        return Cursor(self).executemany(sql, rows)

    def cursor(self) -> Cursor:
        """A cursor, which shares the transaction of the connection."""
        self._check_open()
        return Cursor(self)

    def duplicate(self) -> Connection:
        """Another connection to the same database, with a transaction of its own.

        Threads that are to work at the same time have one each.
        """
        self._check_open()
        return Connection(self._session.duplicate(), self._directory)

    def cancel(self) -> None:
        """Ends the statement that another thread runs on this connection with SQLSTATE 57014."""
        self._session.cancel()

    # Transactions

    @property
    def in_transaction(self) -> bool:
        """True between ``begin()`` and ``commit()`` or ``rollback()``."""
        return self._session.transaction() != "idle"

    def begin(self) -> None:
        """Begins a transaction. There are none within others: one that is open is an error."""
        with self._lock:
            if self.in_transaction:
                raise _errors.from_engine("25001", "a transaction is open already")
            self._session.execute("BEGIN")

    def commit(self) -> None:
        """Commits the transaction. Does nothing if there is none.

        A transaction of which a statement has failed is rolled back, and raises an error.
        """
        with self._lock:
            state = self._session.transaction()
            if state == "failed":
                self._session.execute("ROLLBACK")
                raise _errors.from_engine(
                    "25P02", "a statement of the transaction had failed: it was rolled back"
                )
            if state == "active":
                self._session.execute("COMMIT")

    def rollback(self) -> None:
        """Undoes the transaction. Does nothing if there is none."""
        with self._lock:
            if self.in_transaction:
                self._session.execute("ROLLBACK")

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """A block that is one transaction: committed at its end, undone by an exception."""
        self.begin()
        try:
            yield self
        except BaseException:
            self.rollback()
            raise
        self.commit()

    # Data of the program

    def register(self, name: str, rows: Any) -> Connection:
        """Makes rows known to the queries of this connection as a table.

        ``rows`` is a data frame of pandas or polars, a table or reader of pyarrow, or any object
        with ``__arrow_c_stream__``. A table of the database that has the name comes first.
        """
        self._check_open()
        names = {name, name.lower()}
        self._session.register(list(names), _frames.stream_of(rows))
        self._registered |= names
        return self

    def unregister(self, name: str) -> Connection:
        """Ends ``register``."""
        self._check_open()
        for known in {name, name.lower()}:
            self._session.unregister(known)
            self._registered.discard(known)
        return self

    def upsert(self, table: str, rows: Any, columns: list[str] | None = None) -> int:
        """Inserts rows, or replaces the values of rows that have the same primary key.

        ``rows`` is everything that ``register`` takes, or a list of tuples or dictionaries. Tuples
        have a value for each of ``columns``, or for each column of the table; of data frames and
        dictionaries, ``columns`` are those that are written, or all. A key may occur once only.
        Returns the number of rows that were inserted or changed.
        """
        self._check_open()
        types = dict(self._session.table_columns(table))
        name = f"thalweg_rows_{next(_numbers)}"
        if _frames.is_frame(rows):
            found = self._session.register([name], _frames.stream_of(rows))
            given = found if columns is None else columns
        else:
            given, values = _frames.tuples_of(rows, columns, list(types))
            self._session.register_rows(name, table, given, values)
        try:
            outcome = self._run(self._upsert_text(table, name, given, types), None)
        finally:
            self._session.unregister(name)
        return 0 if outcome is None else outcome.count

    def _upsert_text(
        self, table: str, source: str, given: list[str], types: Mapping[str, str]
    ) -> str:
        unknown = [column for column in given if column not in types]
        if unknown:
            raise _errors.ProgrammingError(f'column "{unknown[0]}" of {table} does not exist')
        key = self._primary_key(table)
        names = ", ".join(quoted(column) for column in given)
        values = ", ".join(
            f"CAST({quoted(column)} AS {_LENGTH_LIMIT.sub('text', types[column])})"
            for column in given
        )
        rest = [column for column in given if column not in key]
        action = "DO NOTHING"
        if rest:
            changes = ", ".join(f"{quoted(c)} = excluded.{quoted(c)}" for c in rest)
            action = f"DO UPDATE SET {changes}"
        conflict = ", ".join(quoted(column) for column in key)
        return (
            f"INSERT INTO {qualified(table)} ({names}) SELECT {values} FROM {quoted(source)} "
            f"ON CONFLICT ({conflict}) {action}"
        )

    def _primary_key(self, table: str) -> list[str]:
        found = self._session.execute(
            "SELECT a.attname::text FROM pg_index i JOIN pg_attribute a "
            "ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey) "
            "WHERE i.indrelid = $1::regclass AND i.indisprimary",
            [qualified(table)],
        )
        rows = None if found is None else found.rows
        key = [] if rows is None else [name for (name,) in rows.fetch()]
        if not key:
            raise _errors.ProgrammingError(f"{table} has no primary key to upsert by")
        return key

    def appender(self, table: str) -> Appender:
        """A bulk writer, the fastest way to add many rows: all of them or none."""
        self._check_open()
        return Appender(self._session.appender(table))

    # The end

    @property
    def closed(self) -> bool:
        """True after ``close()``."""
        return self._closed

    def close(self) -> None:
        """Ends the connection. An open transaction is rolled back.

        The database closes with its last connection and result.
        """
        if not self._closed:
            self._closed = True
            self._session.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """Ends an open transaction by ``commit``, or after an exception by ``rollback``; closes."""
        if self._closed:
            return
        try:
            if kind is None:
                self.commit()
            else:
                self.rollback()
        finally:
            self.close()

    def __repr__(self) -> str:
        place = "in memory" if self._directory is None else repr(self._directory)
        return f"<thalweg.Connection {'closed' if self._closed else place}>"

    def _check_open(self) -> None:
        if self._closed:
            raise _errors.InterfaceError("the connection is closed")

    def _run(
        self, sql: str, parameters: Parameters | None, frame: int | None = None
    ) -> Outcome | None:
        """Runs statements. ``frame`` counts the frames between this one and the caller's."""
        self._check_open()
        numbered, values = bind(sql, parameters)
        with ExitStack() as steps:
            steps.enter_context(self._lock)
            self._begin_unless_autocommit()
            if frame is not None and self.replacement_scans:
                caller = sys._getframe(frame + 1)
                steps.enter_context(
                    _frames.registered_variables(self._session, sql, caller, self._registered)
                )
            outcome = self._session.execute(numbered, values)
            self.notices = [] if outcome is None else outcome.notices
        return outcome

    def _run_many(self, sql: str, rows: Iterable[Parameters]) -> int:
        self._check_open()
        pairs = [bind(sql, row) for row in rows]
        if not pairs:
            return 0
        text = pairs[0][0]
        if any(other != text for other, _ in pairs):
            raise _errors.ProgrammingError("rows are all sequences or all mappings")
        with self._lock:
            self._begin_unless_autocommit()
            return self._session.execute_many(text, [values for _, values in pairs])

    def _begin_unless_autocommit(self) -> None:
        if not self.autocommit and not self.in_transaction:
            self._session.execute("BEGIN")


class Appender:
    """Adds many rows to a table in a transaction of its own.

    As a context manager it is finished at the end of the block; an exception discards its rows.
    After an append that failed it adds nothing, also if the program goes on.
    """

    def __init__(self, appender: _Appender) -> None:
        self._appender = appender
        self._waiting: list[Any] = []
        self._is_open = True
        self._has_failed = False

    def append_row(self, *values: Any) -> None:
        """Adds a row: a value for each column of the table."""
        self._waiting.append(values)
        if len(self._waiting) >= 8192:
            self._flush()

    def append(self, rows: Any) -> None:
        """Adds rows: everything that ``Connection.register`` takes, or a list of tuples.

        The columns of a data frame are matched by name; those that are missing get their defaults.
        Dictionaries are for ``Connection.upsert``.
        """
        self._flush()
        with self._failing():
            if _frames.is_frame(rows):
                self._appender.append_arrow(_frames.stream_of(rows))
                return
            tuples = list(rows)
            if any(isinstance(row, Mapping) for row in tuples):
                raise _errors.ProgrammingError("an appender takes tuples, not dictionaries")
            self._appender.append_rows(tuples)

    def finish(self) -> int:
        """Commits all rows and returns their number."""
        if self._has_failed:
            raise _errors.InterfaceError("an append has failed: the appender adds no rows")
        self._flush()
        self._is_open = False
        return self._appender.finish()

    def close(self) -> None:
        """Discards the rows, unless they are committed."""
        self._is_open = False
        self._waiting.clear()
        self._appender.close()

    def __enter__(self) -> Appender:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None and self._is_open:
            self.finish()
        else:
            self.close()

    def _flush(self) -> None:
        if self._waiting:
            rows, self._waiting = self._waiting, []
            with self._failing():
                self._appender.append_rows(rows)

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Discards all rows if an append fails in the block, since some may be missing then."""
        try:
            yield
        except BaseException:
            self._has_failed = True
            self._waiting.clear()
            with suppress(_errors.Error):
                self._appender.close()
            raise


def close_all() -> None:
    """Closes the connections of this process, at its end."""
    for connection in list(_open_connections):
        # A forked process cannot close the connections of its parent.
        with suppress(_errors.Error):
            connection.close()


def _renew_locks() -> None:
    """Frees the locks of connections in a forked process, whose owners are not in it."""
    for connection in list(_open_connections):
        connection._lock = threading.RLock()


os.register_at_fork(after_in_child=_renew_locks)
