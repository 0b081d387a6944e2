"""Exceptions of PEP 249, chosen by the SQLSTATE of the engine's error."""

from __future__ import annotations


class Warning(Exception):  # noqa: A001 - the name is PEP 249's
    """A class that PEP 249 demands. Remarks are in ``Connection.notices`` and raise nothing."""


class Error(Exception):
    """The base class of all errors.

    ``sqlstate`` has PostgreSQL's five characters, and ``hint`` the next step, if there is one.
    """

    sqlstate: str | None = None
    detail: str | None = None
    hint: str | None = None
    position: int | None = None
    """Place in the statement: the character's number, counted from 1."""


class InterfaceError(Error):
    """The package was used wrongly, for example after ``close()``."""


class DatabaseError(Error):
    """An error of the database."""


class DataError(DatabaseError):
    """A value is out of range or malformed."""


class OperationalError(DatabaseError):
    """The database could not do it now: a conflict, a cancel, a limit, a file."""


class IntegrityError(DatabaseError):
    """A constraint does not hold."""


class InternalError(DatabaseError):
    """The transaction is in the wrong state, or Thalweg has a defect."""


class ProgrammingError(DatabaseError):
    """The statement is wrong, or names something that does not exist."""


class NotSupportedError(DatabaseError):
    """Thalweg lacks the feature."""


_CLASSES = {
    "0A": NotSupportedError,
    "08": OperationalError,
    "21": ProgrammingError,
    "22": DataError,
    "23": IntegrityError,
    "25": InternalError,
    "26": ProgrammingError,
    "28": OperationalError,
    "2B": ProgrammingError,
    "34": ProgrammingError,
    "3B": ProgrammingError,
    "3D": ProgrammingError,
    "3F": ProgrammingError,
    "40": OperationalError,
    "42": ProgrammingError,
    "53": OperationalError,
    "54": OperationalError,
    "55": OperationalError,
    "57": OperationalError,
    "58": OperationalError,
    "P0": ProgrammingError,
    "XX": InternalError,
}


def class_of(sqlstate: str) -> type[Error]:
    """The class of an SQLSTATE."""
    if sqlstate == "08003":
        return InterfaceError
    return _CLASSES.get(sqlstate[:2], DatabaseError)


def from_engine(
    sqlstate: str,
    message: str,
    detail: str | None = None,
    hint: str | None = None,
    position: int | None = None,
) -> Error:
    """The exception for an error of the engine. The shared object calls this."""
    lines = [message]
    if detail:
        lines.append(f"DETAIL: {detail}")
    if hint:
        lines.append(f"HINT: {hint}")
    error = class_of(sqlstate)("\n".join(lines))
    error.sqlstate, error.detail, error.hint, error.position = sqlstate, detail, hint, position
    return error
