"""Analytical peers of the benchmarks: loads Parquet files into memory and asks questions in SQL.

    questions_peer.py ENGINE THREADS REPETITIONS

ENGINE is duckdb, polars, datafusion or chdb. Standard input holds one JSON object {"tables":
{"name": "path"}, "queries": ["..."]}; each query is run REPETITIONS times after one run that is not
counted. Prints {"seconds": [[...], ...]}, a list a query. Time is measured here, around the query
alone; results stay in the engine's own form.
"""

import json
import os
import sys
import time


def duckdb_engine(threads, tables):
    import duckdb

    connection = duckdb.connect()
    connection.execute(f"SET threads TO {threads}")
    for name, path in tables.items():
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM read_parquet('{path}')")
    return lambda sql: connection.sql(sql).to_arrow_table()


def polars_engine(_, tables):
    import polars

    context = polars.SQLContext(
        {name: polars.read_parquet(path) for name, path in tables.items()}
    )
    return lambda sql: context.execute(sql, eager=True)


def datafusion_engine(threads, tables):
    import datafusion

    context = datafusion.SessionContext(
        datafusion.SessionConfig().with_target_partitions(threads)
    )
    for name, path in tables.items():
        batches = context.read_parquet(path).collect()
        share = max(1, (len(batches) + threads - 1) // threads)
        parts = [batches[at:at + share] for at in range(0, len(batches), share)]
        context.register_record_batches(name, parts)
    return lambda sql: context.sql(sql).collect()


def chdb_engine(threads, tables):
    from chdb import session

    connection = session.Session()
    for name, path in tables.items():
        connection.query(
            f"CREATE TABLE {name} ENGINE = Memory AS SELECT * FROM file('{path}', Parquet)"
        )
    return lambda sql: connection.query(f"{sql} SETTINGS max_threads = {threads}", "Null")


def main():
    engine, threads, repetitions = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    # Engines that tell of their progress do it elsewhere.
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    # Has to be known before Polars is loaded.
    os.environ["POLARS_MAX_THREADS"] = str(threads)
    request = json.load(sys.stdin)
    engines = {
        "duckdb": duckdb_engine,
        "polars": polars_engine,
        "datafusion": datafusion_engine,
        "chdb": chdb_engine,
    }
    ask = engines[engine](threads, request["tables"])
    seconds = []
    for query in request["queries"]:
        samples = []
        try:
            for run in range(repetitions + 1):
                started = time.perf_counter()
                result = ask(query)
                elapsed = time.perf_counter() - started
                del result
                if run > 0:
                    samples.append(elapsed)
        except Exception as error:  # An engine that lacks a function is no peer for this question.
            print(f"{engine}: {error}", file=sys.stderr)
            samples = []
        seconds.append(samples)
    json.dump({"seconds": seconds}, answer)
    answer.close()


if __name__ == "__main__":
    main()
