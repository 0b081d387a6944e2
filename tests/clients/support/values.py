"""What Python has for each type, beside the type's name."""

import datetime
import decimal
import uuid

UTC = datetime.timezone.utc
ID = uuid.UUID("6f1d9d5e-9a1c-4f0f-8a3c-2b1f0c9d8e7f")

VALUES = [
    ("boolean", True),
    ("smallint", -7),
    ("integer", 2_000_000_000),
    ("bigint", -9_000_000_000_000_000_000),
    ("real", 1.5),
    ("double precision", -2.25e300),
    ("numeric", decimal.Decimal("12345678901234567890.0123456789")),
    ("text", "Grüße, 世界 🌊"),
    ("varchar(10)", "short"),
    ("bytea", b"\x00\x01\xff"),
    ("date", datetime.date(2026, 2, 28)),
    ("time", datetime.time(23, 59, 59, 123456)),
    ("timestamp", datetime.datetime(1999, 12, 31, 23, 59, 59, 1)),
    ("timestamptz", datetime.datetime(2026, 3, 1, 12, tzinfo=UTC)),
    ("interval", datetime.timedelta(days=3, seconds=4, microseconds=5)),
    ("uuid", ID),
    ("integer[]", [1, None, 3]),
    ("integer[]", []),
    ("text[]", ["a", 'with "quotes"', None, "", "NULL", "back\\slash"]),
    ("double precision[]", [0.5, -1.0]),
    ("uuid[]", [ID]),
    ("date[]", [datetime.date(2026, 1, 1)]),
    ("boolean[]", [True, False]),
    ("numeric[]", [decimal.Decimal("1.5")]),
    ("timestamptz[]", [datetime.datetime(2026, 3, 1, 12, tzinfo=UTC)]),
]


def columns_of_every_type(values):
    """The columns of a table that holds them all."""
    return ", ".join(f"c{at} {kind}" for at, (kind, _) in enumerate(values))
