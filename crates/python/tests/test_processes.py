"""Threads, signals, forks, leaks, and the order in which libraries are loaded."""

import signal
import subprocess
import sys
import textwrap
import threading

import pytest

import thalweg


def python(program, *arguments):
    """Runs a program in a Python of its own. A program that hangs fails the test."""
    command = [sys.executable, "-c", textwrap.dedent(program), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_ten_threads_with_connections_of_their_own(connection):
    connection.sql("CREATE TABLE t (id bigint PRIMARY KEY, thread integer)")
    failures = []

    def work(number):
        try:
            own = connection.duplicate()
            for i in range(100):
                own.execute("INSERT INTO t VALUES (?, ?)", [number * 1000 + i, number])
                (seen,) = own.sql("SELECT count(*) FROM t WHERE thread = ?", [number]).fetchone()
                assert seen == i + 1
            own.close()
        except BaseException as failure:
            failures.append(failure)

    run_all([threading.Thread(target=work, args=(number,)) for number in range(10)])
    assert failures == []
    assert connection.sql("SELECT count(*) FROM t").fetchone() == (1000,)


def test_ten_threads_share_a_connection(connection):
    connection.sql("CREATE TABLE t (id bigint PRIMARY KEY)")
    failures = []

    def work(number):
        try:
            cursor = connection.cursor()
            for i in range(100):
                cursor.execute("INSERT INTO t VALUES (?)", [number * 1000 + i])
                assert cursor.execute("SELECT ?::int", [i]).fetchall() == [(i,)]
        except BaseException as failure:
            failures.append(failure)

    run_all([threading.Thread(target=work, args=(number,)) for number in range(10)])
    assert failures == []
    assert connection.sql("SELECT count(*) FROM t").fetchone() == (1000,)


def run_all(threads):
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


LONG = "SELECT count(*) FROM generate_series(1, 100000) a(x), generate_series(1, 10000000) b(y)"


def test_other_threads_run_during_a_query(connection):
    ended = threading.Event()

    def stop():
        connection.cancel()
        # The cancel may come before the query begins.
        while not ended.wait(0.1):
            connection.cancel()

    thread = threading.Thread(target=stop)
    thread.start()
    with pytest.raises(thalweg.OperationalError) as canceled:
        connection.sql(LONG).fetchall()
    ended.set()
    thread.join()
    assert canceled.value.sqlstate == "57014"
    assert connection.sql("SELECT 1").fetchone() == (1,)


@pytest.mark.parametrize("reading", ["fetchall()", "arrow()", "__repr__()"])
def test_ctrl_c_cancels_a_query(reading):
    if reading == "arrow()":
        pytest.importorskip("pyarrow")
    program = f"""
        import sys, thalweg
        connection = thalweg.connect()
        print("ready", flush=True)
        try:
            connection.sql({LONG!r}).{reading}
        except KeyboardInterrupt:
            print("interrupted", connection.sql("SELECT 1").fetchone(), flush=True)
    """
    running = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, text=True
    )
    assert running.stdout.readline() == "ready\n"
    # The signal may come before the query begins, but then it ends the program the same way.
    timer = threading.Timer(0.5, running.send_signal, [signal.SIGINT])
    timer.start()
    output, _ = running.communicate(timeout=120)
    assert output == "interrupted (1,)\n" and running.returncode == 0


def test_ctrl_c_ends_many_small_statements():
    program = """
        import os, signal, threading, thalweg
        connection = thalweg.connect()
        connection.sql("CREATE TABLE t (a bigint PRIMARY KEY)")
        rows = [(i,) for i in range(100_000)]
        threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT]).start()
        try:
            while True:
                connection.executemany("INSERT INTO t VALUES (?) ON CONFLICT DO NOTHING", rows)
        except KeyboardInterrupt:
            print(connection.in_transaction)
    """
    ran = python(program)
    assert ran.stdout == "False\n", ran.stderr


def test_a_forked_process_gets_an_error():
    program = """
        import os, sys, thalweg
        connection = thalweg.connect()
        connection.sql("CREATE TABLE t (a integer)")
        rows = connection.sql("SELECT g FROM generate_series(1, 1000000) s(g)")
        child = os.fork()
        if child == 0:
            for use in (lambda: connection.sql("SELECT 1"), thalweg.connect, rows.fetchone):
                try:
                    use()
                    sys.exit(1)
                except thalweg.OperationalError as error:
                    if error.sqlstate != "55000" or "spawn" not in str(error):
                        sys.exit(2)
            # Objects of the parent are dropped at the exit.
            sys.exit(0)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), connection.sql("SELECT 1").fetchone())
    """
    ran = python(program)
    assert ran.stdout == "0 (1,)\n", ran.stderr


def test_a_fork_before_the_first_connection_works():
    program = """
        import os, sys, thalweg
        child = os.fork()
        if child == 0:
            sys.exit(thalweg.connect().sql("SELECT 7").fetchone()[0])
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status))
    """
    ran = python(program)
    assert ran.stdout == "7\n", ran.stderr


def test_a_process_ends_with_open_connections(tmp_path):
    program = """
        import sys, thalweg
        connection = thalweg.connect(sys.argv[1])
        connection.sql("CREATE TABLE IF NOT EXISTS t (a integer)")
        connection.sql("INSERT INTO t VALUES (1)")
        rows = connection.sql("SELECT g FROM generate_series(1, 100000000) s(g)")
        rows.fetchone()
        print(connection.sql("SELECT count(*) FROM t").fetchone()[0])
    """
    for expected in ("1\n", "2\n"):
        ran = python(program, str(tmp_path / "d"))
        assert (ran.stdout, ran.returncode) == (expected, 0), ran.stderr


def test_ten_thousand_connections_leak_nothing():
    program = """
        import gc, os, thalweg
        def resident():
            with open("/proc/self/statm") as statm:
                return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        def threads():
            return len(os.listdir("/proc/self/task"))
        base = thalweg.connect(threads=1)
        base.sql("CREATE TABLE t (a integer PRIMARY KEY)")
        def use(times):
            for i in range(times):
                connection = base.duplicate()
                connection.sql("SELECT a FROM t WHERE a = 1").fetchall()
                if i % 2:
                    connection.close()
        use(2000)
        gc.collect()
        before = resident(), threads(), len(os.listdir("/proc/self/fd"))
        use(10000)
        gc.collect()
        after = resident(), threads(), len(os.listdir("/proc/self/fd"))
        assert after[0] - before[0] < 20 << 20, (before, after)
        assert after[1:] == before[1:], (before, after)
        print("same")
    """
    ran = python(program)
    assert ran.stdout == "same\n", ran.stderr


def test_databases_end_their_threads_and_files():
    program = """
        import gc, os, tempfile, thalweg
        def use(times, path):
            for _ in range(times):
                thalweg.connect(path, threads=1).sql("SELECT 1").fetchall()
                connection = thalweg.connect(threads=1)
                connection.sql("SELECT 1").fetchall()
                connection.close()
        def counts():
            gc.collect()
            return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))
        with tempfile.TemporaryDirectory() as path:
            use(5, path)
            before = counts()
            use(50, path)
            after = counts()
        assert after[0] <= before[0] + 8 and after[1] <= before[1] + 8, (before, after)
        print("same")
    """
    ran = python(program)
    assert ran.stdout == "same\n", ran.stderr


@pytest.mark.parametrize("order", ["first", "last"])
def test_other_libraries_with_their_own_allocators(order):
    others = [
        name for name in ("numpy", "pandas", "pyarrow", "polars", "duckdb") if installed(name)
    ]
    if not others:
        pytest.skip("no other library is installed")
    imports = ["thalweg", *others] if order == "first" else [*others, "thalweg"]
    program = f"""
        import {", ".join(imports)}
        import threading
        connection = thalweg.connect()
        def work():
            own = connection.duplicate()
            for _ in range(20):
                rows = own.sql("SELECT sum(g) FROM generate_series(1, 100000) s(g)")
                assert rows.fetchone() == (5000050000,)
        threads = [threading.Thread(target=work) for _ in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        print("ok")
    """
    ran = python(program)
    assert ran.stdout == "ok\n", ran.stderr


def installed(name):
    import importlib.util

    return importlib.util.find_spec(name) is not None
