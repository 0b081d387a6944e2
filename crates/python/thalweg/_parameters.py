"""Parameters of statements: ``?``, ``$1`` and ``$name`` become ``$1``, ``$2``, … ."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ._errors import ProgrammingError

Parameters = Sequence[Any] | Mapping[str, Any]

# The parts of a statement in which no parameter stands, and the parameters.
_TOKENS = re.compile(
    r"""
      (?P<skipped>
          \b[eE]'(?:[^'\\]|\\.|'')*'          # a string with escapes
        | '(?:[^']|'')*'                    # a string
        | "(?:[^"]|"")*"                    # a quoted name
        | --[^\n]*                          # a comment to the end of the line
        | /\*.*?\*/                         # a comment
        | \$(?P<tag>[A-Za-z_]\w*)?\$.*?\$(?(tag)(?P=tag))\$   # a string between dollars
        | [A-Za-z_]\w*(?:\$\w*)+            # a name with dollars
        | \?\?                              # an operator of JSON, doubled
      )
      | \$(?P<number>\d+)
      | \$(?P<name>[A-Za-z_]\w*)
      | (?P<mark>\?)
    """,
    re.VERBOSE | re.DOTALL,
)


def bind(sql: str, parameters: Parameters | None) -> tuple[str, list[Any] | None]:
    """The statement with numbered parameters, and their values in this order.

    A sequence gives values for ``?`` or ``$1``, a mapping for ``$name``. Within a statement with
    ``?`` as parameter, the operators of JSON are written ``??``, ``??|`` and ``??&``.
    """
    if parameters is None:
        return sql, None
    if isinstance(parameters, Mapping):
        return _bind_names(sql, parameters)
    if isinstance(parameters, (str, bytes)):
        raise ProgrammingError("parameters are a sequence or a mapping, not a string")
    return _number_marks(sql), list(parameters)


def _number_marks(sql: str) -> str:
    if "?" not in sql:
        return sql
    tokens = list(_TOKENS.finditer(sql))
    if any(token["number"] for token in tokens):
        return sql
    count = 0

    def replaced(token: re.Match[str]) -> str:
        nonlocal count
        if token["mark"]:
            count += 1
            return f"${count}"
        return token[0][1:] if token[0] == "??" else token[0]

    return _TOKENS.sub(replaced, sql)


def _bind_names(sql: str, values: Mapping[str, Any]) -> tuple[str, list[Any]]:
    numbers: dict[str, int] = {}

    def replaced(token: re.Match[str]) -> str:
        name = token["name"]
        if not name:
            return token[0]
        if name not in values:
            raise ProgrammingError(f"no value was given for the parameter ${name}")
        return f"${numbers.setdefault(name, len(numbers) + 1)}"

    numbered = _TOKENS.sub(replaced, sql)
    return numbered, [values[name] for name in numbers]
