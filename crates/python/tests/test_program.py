"""The program in the wheel, and what is installed."""

import importlib.resources
import pathlib
import re
import signal
import subprocess
import sys
import sysconfig

import thalweg

MODULE = [sys.executable, "-m", "thalweg"]
SCRIPT = [str(pathlib.Path(sysconfig.get_path("scripts")) / "thalweg")]


def run(command, *arguments, **options):
    return subprocess.run(
        [*command, *arguments], capture_output=True, text=True, timeout=120, **options
    )


def test_the_program_runs_as_module_and_as_command():
    for command in (MODULE, SCRIPT):
        ran = run(command, "-c", "SELECT 6 * 7 AS answer", "--format", "csv")
        assert (ran.stdout, ran.returncode) == ("answer\n42\n", 0), ran.stderr
        assert run(command, "--version").stdout == f"thalweg {thalweg.__version__}\n"


def test_the_program_returns_its_exit_status():
    assert run(MODULE, "-c", "SELECT 1 / 0").returncode == 1
    assert run(MODULE, "--no-such-option").returncode == 2


def test_ctrl_c_ends_the_program(tmp_path):
    command = [*MODULE, "-c", "SELECT 1", "-c", "SELECT pg_sleep(100)"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert running.stdout.readline()
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=60)
    assert running.returncode == 130


def test_the_program_starts_itself_again():
    # The demo starts a second process of itself, which it kills.
    ran = run(MODULE, "demo")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "kill -9 after" in ran.stdout + ran.stderr


def test_the_types_are_installed():
    files = importlib.resources.files("thalweg")
    assert files.joinpath("py.typed").is_file()
    stub = files.joinpath("_thalweg.pyi").read_text()
    from thalweg import _thalweg

    for name in re.findall(r"^(?:class|def) (\w+)", stub, re.MULTILINE):
        assert hasattr(_thalweg, name), name
    current = ""
    for kind, name in re.findall(r"^(class|    def) (\w+)", stub, re.MULTILINE):
        if kind == "class":
            current = name
        elif not name.startswith("__"):
            assert hasattr(getattr(_thalweg, current), name), (current, name)


def test_everything_public_is_documented():
    for name in thalweg.__all__:
        value = getattr(thalweg, name)
        if isinstance(value, type) and value.__module__.startswith("thalweg"):
            assert value.__doc__, name
            for part, member in vars(value).items():
                is_described = callable(member) or isinstance(member, property)
                if not part.startswith("_") and is_described and not isinstance(member, type):
                    assert member.__doc__, f"{name}.{part}"
