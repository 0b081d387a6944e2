"""influxdb-client: points over HTTP, and their rows over PostgreSQL's protocol."""

import contextlib
import datetime
import os

import influxdb_client
import psycopg
from influxdb_client import InfluxDBClient, Point, WritePrecision
from influxdb_client.client.write_api import SYNCHRONOUS, WriteOptions
from influxdb_client.rest import ApiException
from tap import check, equal, run

URL = f"http://127.0.0.1:{os.environ['THALWEG_HTTP_PORT']}"
TIME = datetime.datetime(2024, 1, 2, 3, 4, 5, 678901, tzinfo=datetime.timezone.utc)


@contextlib.contextmanager
def connected():
    with (
        psycopg.connect(autocommit=True) as sql,
        InfluxDBClient(URL, token="thalweg:any", org="any", enable_gzip=True) as client,
    ):
        sql.execute("DROP TABLE IF EXISTS weather")
        yield client, sql


def rows(sql):
    query = "SELECT city, temperature, clouds, time FROM weather ORDER BY city"
    return sql.execute(query).fetchall()


@check
def the_server_is_healthy(connection):
    client, _ = connection
    equal(client.ping(), True)
    equal(client.health().status, "pass")
    equal(bool(client.version()), True)


@check
def points_become_rows(connection):
    client, sql = connection
    points = [
        Point("weather").tag("city", "Oslo").field("temperature", 3.5).field("clouds", 7)
        .time(TIME),
        Point("weather").tag("city", "a, b=c").field("temperature", -1.0).field("sky", 'so "blue"')
        .time(TIME, WritePrecision.US),
    ]
    writer = client.write_api(write_options=SYNCHRONOUS)
    writer.write(bucket="public", record=points, write_precision=WritePrecision.US)
    equal(rows(sql), [("Oslo", 3.5, 7, TIME), ("a, b=c", -1.0, None, TIME)])
    equal(sql.execute("SELECT sky FROM weather WHERE city <> 'Oslo'").fetchone(), ('so "blue"',))


@check
def a_repeated_point_replaces_its_fields(connection):
    client, sql = connection
    writer = client.write_api(write_options=SYNCHRONOUS)
    for temperature in [1.0, 2.0]:
        line = f"weather,city=Oslo temperature={temperature},clouds=1i 1704164645"
        writer.write(bucket="public", record=line, write_precision=WritePrecision.S)
    equal([row[:3] for row in rows(sql)], [("Oslo", 2.0, 1)])


@check
def batches_are_written_in_the_background(connection):
    client, sql = connection
    failed = []
    with client.write_api(
        write_options=WriteOptions(batch_size=500),
        error_callback=lambda _, data, error: failed.append(error),
    ) as writer:
        for number in range(2_000):
            writer.write("public", record=f"weather,city=c temperature=1 {number}000")
    equal(failed, [])
    equal(sql.execute("SELECT count(*) FROM weather").fetchone(), (2_000,))


@check
def a_conflict_of_types_names_its_line(connection):
    client, sql = connection
    writer = client.write_api(write_options=SYNCHRONOUS)
    lines = ["weather,city=a clouds=1i 1", "weather,city=b clouds=\"many\" 1"]
    try:
        writer.write(bucket="public", record=lines)
    except ApiException as error:
        equal(error.status, 400)
        equal("line 2" in error.message, True)
    else:
        raise AssertionError("there is no error")
    equal(sql.execute("SELECT city FROM weather").fetchall(), [("a",)])


run(f"influxdb-client {influxdb_client.__version__}", connected)
