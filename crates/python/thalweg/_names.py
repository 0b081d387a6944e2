"""Names and strings as SQL writes them."""

from __future__ import annotations


def quoted(name: str) -> str:
    """A name in quotes."""
    return '"' + name.replace('"', '""') + '"'


def qualified(table: str) -> str:
    """The name of a table, whose parts are separated by points, with each part in quotes."""
    return ".".join(quoted(part) for part in table.split("."))
