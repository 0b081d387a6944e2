"""Fetches all rows of a query through psycopg, in binary, and says how long it took.

    psycopg_rows.py MODE CONNECTION SQL

With the mode "objects" every value becomes a Python object, as programs get them; with "result"
the rows stay in libpq's result. Prints one line {"rows": ..., "seconds": ...}. Time is measured
here, so that neither the start of Python nor the connection counts.
"""

import json
import sys
import time

import psycopg

FETCHED_AT_ONCE = 50_000


def objects(connection, sql):
    cursor = connection.cursor(binary=True)
    cursor.execute(sql)
    rows = 0
    while fetched := cursor.fetchmany(FETCHED_AT_ONCE):
        rows += len(fetched)
    return rows


def result(connection, sql):
    answer = connection.pgconn.exec_params(sql.encode(), [], result_format=1)
    if answer.status != psycopg.pq.ExecStatus.TUPLES_OK:
        sys.exit(answer.error_message.decode())
    return answer.ntuples


def main():
    mode, target, sql = sys.argv[1:]
    fetch = {"objects": objects, "result": result}[mode]
    with psycopg.connect(target, autocommit=True) as connection:
        started = time.perf_counter()
        rows = fetch(connection, sql)
        seconds = time.perf_counter() - started
    print(json.dumps({"rows": rows, "seconds": seconds}))


if __name__ == "__main__":
    main()
