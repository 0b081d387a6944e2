"""DuckDB as a peer of the benchmarks: runs one statement for each line of JSON on standard input.

    duckdb_peer.py DATABASE

DATABASE is a file, or ":memory:". A line {"sql": "..."} is answered by one line
{"seconds": ..., "rows": [...]}, and {"sql": "...", "fetch": true} brings the rows along, as text.
{"close": true} closes the database, says how long that took, and ends. Time is measured here, so
that neither the start of Python nor this protocol counts.
"""

import json
import sys
import time

import duckdb


def run(connection, request):
    started = time.perf_counter()
    if not request.get("fetch"):
        connection.execute(request["sql"])
        return {"seconds": time.perf_counter() - started, "rows": []}
    # Results are asked for as Arrow: nothing is turned into objects while time runs.
    table = connection.sql(request["sql"]).to_arrow_table()
    seconds = time.perf_counter() - started
    columns = [[None if value is None else str(value) for value in column.to_pylist()]
               for column in table.columns]
    return {"seconds": seconds, "rows": [list(row) for row in zip(*columns)]}


def main():
    connection = duckdb.connect(sys.argv[1])
    # Standard output belongs to the answers.
    connection.execute("SET enable_progress_bar = false")
    # What Python loads when it is first needed is loaded now.
    connection.sql("SELECT 1").to_arrow_table()
    print(json.dumps({"version": duckdb.__version__}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        if request.get("close"):
            started = time.perf_counter()
            connection.close()
            print(json.dumps({"seconds": time.perf_counter() - started, "rows": []}), flush=True)
            return
        try:
            answer = run(connection, request)
        except duckdb.Error as error:
            answer = {"error": str(error)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
