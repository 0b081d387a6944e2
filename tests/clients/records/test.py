"""The record API: stubs made of its definition, rows packed with struct."""

import contextlib
import os
import pathlib
import queue
import struct
import sys

import grpc
import psycopg
import tap
from google.protobuf import __version__ as protobuf_version
from grpc_tools import protoc
from tap import check, equal, run

# The examples of docs/records.md find the stubs here as well.
DEFINITIONS = pathlib.Path(tap.__file__).resolve().parents[3] / "crates/protocol/proto"
OUTPUT = ["--python_out=.", "--grpc_python_out=."]
if protoc.main(["protoc", f"-I{DEFINITIONS}", *OUTPUT, "thalweg/v1/records.proto"]) != 0:
    sys.exit("no stubs could be made")

from thalweg.v1 import records_pb2 as pb
from thalweg.v1 import records_pb2_grpc

ADDRESS = f"127.0.0.1:{os.environ['THALWEG_GRPC_PORT']}"
TABLE = """CREATE TABLE IF NOT EXISTS account
    (id integer PRIMARY KEY, amount integer NOT NULL, owner text NOT NULL)"""
ACCOUNT = pb.Table(number=0, name="account")


@contextlib.contextmanager
def connected():
    with psycopg.connect(autocommit=True) as sql, grpc.insecure_channel(ADDRESS) as channel:
        sql.execute(TABLE)
        sql.execute("DELETE FROM account")
        yield records_pb2_grpc.RecordsStub(channel), sql


def account(number, amount, owner):
    name = owner.encode()
    return struct.pack("<iiB", number, amount, len(name)) + name


def key(number):
    return struct.pack("<i", number)


def requests(*rows):
    """The table, and behind it rows in messages of their own."""
    yield pb.WriteRequest(tables=[ACCOUNT])
    for some in rows:
        yield pb.WriteRequest(rows=[some])


def create(*rows):
    return pb.Rows(operation=pb.OPERATION_CREATE, packed=rows)


def failures(replies):
    return [(failure.index, failure.sqlstate) for reply in replies for failure in reply.failures]


@check
def rows_are_upserted(opened):
    records, sql = opened
    starts = range(0, 10_000, 1_000)
    rows = (pb.Rows(packed=[account(n, 7, "a") for n in range(s, s + 1_000)]) for s in starts)
    equal(records.Upsert(requests(*rows)).rows, 10_000)
    found = sql.execute("SELECT count(*), sum(amount) FROM account").fetchone()
    equal(found, (10_000, 70_000))


@check
def values_need_no_packing(opened):
    records, sql = opened
    values = [pb.Value(int=1), pb.Value(text="20"), pb.Value(text="ü")]
    rows = pb.Rows(values=[pb.Values(values=values)])
    equal(records.Create(requests(rows)).rows, 1)
    equal(sql.execute("SELECT * FROM account").fetchall(), [(1, 20, "ü")])


@check
def rows_have_some_of_the_columns(opened):
    records, sql = opened
    sql.execute("DROP TABLE IF EXISTS reading")
    sql.execute("CREATE TABLE reading (id int PRIMARY KEY, n int NOT NULL, note text DEFAULT '-')")
    sql.execute("INSERT INTO reading VALUES (1, 10, 'first'), (2, 20, 'second')")
    some = pb.Table(number=0, name="reading", columns=["n", "id"])
    rows = pb.Rows(packed=[struct.pack("<ii", 11, 1), struct.pack("<ii", 30, 3)])
    equal(records.Upsert(iter([pb.WriteRequest(tables=[some], rows=[rows])])).rows, 2)
    found = sql.execute("SELECT * FROM reading ORDER BY id").fetchall()
    equal(found, [(1, 11, "first"), (2, 20, "second"), (3, 30, "-")])
    # A row that might be new needs all that must not be NULL.
    keys = pb.Table(number=0, name="reading", columns=["id"])
    rows = pb.Rows(packed=[key(1)])
    refused = records.Write(iter([pb.WriteRequest(tables=[keys], rows=[rows])]))
    equal(failures(refused), [(0, "23502")])


@check
def a_writer_that_comes_again_ends_its_old_stream(opened):
    records, sql = opened
    name = [("thalweg-writer", "till-7")]
    held, sent = queue.SimpleQueue(), requests(pb.Rows(packed=[account(1, 1, "a")]))
    for request in sent:
        held.put(request)
    old = records.Write(iter(held.get, None), metadata=name)
    equal(next(reply.durable for reply in old if reply.durable), 1)
    again = requests(pb.Rows(packed=[account(1, 2, "a")]))
    equal(list(records.Write(again, metadata=name))[-1].durable, 1)
    try:
        list(old)
        raise AssertionError("the old stream goes on")
    except grpc.RpcError as error:
        equal(dict(error.trailing_metadata())["sqlstate"], "57014")
    finally:
        held.put(None)
    equal(sql.execute("SELECT amount FROM account").fetchall(), [(2,)])


@check
def each_row_of_a_write_fails_by_itself(opened):
    records, sql = opened
    twice = create(account(1, 1, "a"), account(1, 2, "b"))
    gone = pb.Rows(operation=pb.OPERATION_REMOVE, packed=[key(5)])
    replies = list(records.Write(requests(twice, gone, create(account(2, 3, "c")))))
    equal(replies[-1].durable, 4)
    equal(failures(replies), [(1, "23505"), (2, "P0002")])
    equal(sql.execute("SELECT id, amount FROM account ORDER BY id").fetchall(), [(1, 1), (2, 3)])


@check
def the_first_failure_ends_the_other_calls(opened):
    records, _ = opened
    try:
        records.Create(requests(create(account(1, 1, "a")), create(account(1, 2, "b"))))
        raise AssertionError("no error")
    except grpc.RpcError as error:
        equal(error.code(), grpc.StatusCode.ALREADY_EXISTS)
        trailers = dict(error.trailing_metadata())
        equal((trailers["sqlstate"], trailers["record-index"]), ("23505", "1"))


@check
def rows_are_looked_up(opened):
    records, _ = opened
    rows = [account(n, n * 10, "a") for n in range(1, 6)]
    records.Upsert(requests(pb.Rows(packed=rows)))
    keys = pb.Keys(packed=[key(2), key(9)])
    last = pb.Range(limit=2, descending=True)
    asked = [pb.SearchRequest(tables=[ACCOUNT], keys=[keys]), pb.SearchRequest(ranges=[last])]
    answers = list(records.Search(iter(asked)))
    equal(answers[-1].answered, 3)
    found = [(found.index, list(found.packed)) for answer in answers for found in answer.found]
    equal(found, [(0, [rows[1]]), (2, [rows[4], rows[3]])])


@check
def a_table_is_described(opened):
    records, _ = opened
    described = records.Describe(pb.DescribeRequest(table="account"))
    columns = [(column.name, column.type, column.nullable) for column in described.columns]
    wanted = [("id", "integer", False), ("amount", "integer", False), ("owner", "text", False)]
    equal(columns, wanted)
    equal(list(described.key), ["id"])


run(f"grpcio {grpc.__version__}, protobuf {protobuf_version}", connected)
