"""Fetches all rows of a query through ADBC's driver for Flight SQL and says how long it took.

    adbc_rows.py ADDRESS SQL

Prints one line {"rows": ..., "seconds": ...}. Time is measured here, so that neither the start of
Python nor the connection counts.
"""

import json
import sys
import time

import adbc_driver_flightsql.dbapi as flight_sql


def main():
    address, sql = sys.argv[1:]
    with flight_sql.connect(address, autocommit=True) as connection, connection.cursor() as cursor:
        started = time.perf_counter()
        cursor.execute(sql)
        rows = sum(batch.num_rows for batch in cursor.fetch_record_batch())
        seconds = time.perf_counter() - started
    print(json.dumps({"rows": rows, "seconds": seconds}))


if __name__ == "__main__":
    main()
