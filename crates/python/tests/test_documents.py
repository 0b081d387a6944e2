"""The examples of the documents, as they stand."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

SOURCES = pathlib.Path(os.environ.get("THALWEG_SOURCES", pathlib.Path(__file__).parents[3]))


def examples():
    for name in ("docs/python.md", "README.md"):
        text = (SOURCES / name).read_text()
        for found in re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            line = text.count("\n", 0, found.start()) + 2
            yield pytest.param(found[1], id=f"{name}:{line}")


@pytest.mark.parametrize("program", list(examples()))
def test_an_example_runs(program, tmp_path):
    for library in re.findall(r"^import (pandas|polars|pyarrow)", program, re.MULTILINE):
        pytest.importorskip(library)
    if "pandas" in program:
        pytest.importorskip("pyarrow")
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 0, ran.stderr
