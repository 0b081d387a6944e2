"""Results as text and as HTML."""

from __future__ import annotations

import html
from collections.abc import Sequence

ROWS_SHOWN = 20
CHARACTERS_SHOWN = 40

Row = Sequence[str | None]


def _cell(value: str | None) -> str:
    if value is None:
        return "NULL"
    text = " ".join(value.split("\n"))
    return text if len(text) <= CHARACTERS_SHOWN else text[: CHARACTERS_SHOWN - 1] + "…"


def as_text(columns: Sequence[tuple[str, str]], rows: Sequence[Row], has_more: bool) -> str:
    """A table of the first rows, with names and types above."""
    names = [_cell(name) for name, _ in columns]
    types = [_cell(kind) for _, kind in columns]
    cells = [[_cell(value) for value in row] for row in rows]
    lines = [names, types, *cells]
    widths = [max((len(line[i]) for line in lines), default=0) for i in range(len(columns))]

    def line(values: Sequence[str]) -> str:
        return "│ " + " │ ".join(v.ljust(w) for v, w in zip(values, widths, strict=True)) + " │"

    def rule(left: str, middle: str, right: str) -> str:
        return left + middle.join("─" * (width + 2) for width in widths) + right

    if not columns:
        return "(no columns)"
    body = [line(values) for values in cells]
    head = [rule("┌", "┬", "┐"), line(names), line(types), rule("├", "┼", "┤")]
    return "\n".join([*head, *body, rule("└", "┴", "┘"), _count(len(rows), has_more)])


def as_html(columns: Sequence[tuple[str, str]], rows: Sequence[Row], has_more: bool) -> str:
    """An HTML table of the first rows, with names and types above."""
    head = "".join(
        f"<th>{html.escape(name)}<br><small>{html.escape(kind)}</small></th>"
        for name, kind in columns
    )
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(_cell(value))}</td>" for value in row) + "</tr>"
        for row in rows
    )
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f"{table}<p>{_count(len(rows), has_more)}</p>"


def _count(rows: int, has_more: bool) -> str:
    if has_more:
        return f"the first {rows} rows"
    return f"{rows} row" if rows == 1 else f"{rows} rows"
