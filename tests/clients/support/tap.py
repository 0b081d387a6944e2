"""Checks that report in the Test Anything Protocol: one line each, and how many there were."""

import asyncio
import inspect
import sys
import traceback

_checks = []


def check(function):
    """Marks a check: a function that takes what `run` opens for it."""
    _checks.append(function)
    return function


def run(version, opened):
    """Runs every check with what `opened` gives, a context manager; asynchronous ones as well."""
    print(f"# {version}", flush=True)
    for number, function in enumerate(_checks, start=1):
        name = function.__name__.replace("_", " ")
        try:
            if inspect.iscoroutinefunction(function):
                asyncio.run(_awaited(function, opened))
            else:
                with opened() as connection:
                    function(connection)
            print(f"ok {number} - {name}", flush=True)
        except Exception as error:
            print(f"not ok {number} - {name}", flush=True)
            for line in _told(error):
                print(f"#   {line}", flush=True)
    print(f"1..{len(_checks)}", flush=True)
    sys.exit(0)


async def _awaited(function, opened):
    async with opened() as connection:
        await function(connection)


def _told(error):
    """The place in the check, and the error's own words."""
    here = [frame for frame in traceback.extract_tb(error.__traceback__) if "tap.py" not in
            frame.filename and "site-packages" not in frame.filename]
    lines = [f"{frame.name}, line {frame.lineno}: {frame.line}" for frame in here[-1:]]
    text = f"{type(error).__name__}: {error}".rstrip()
    return lines + text.splitlines()


def equal(found, wanted):
    """Fails with both values where they differ."""
    if found != wanted:
        raise AssertionError(f"found {found!r}, wanted {wanted!r}")
