// node-postgres: parameters and results, prepared statements, cursors, COPY, pools, errors.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { text } from "node:stream/consumers";
import { pipeline } from "node:stream/promises";
import { Readable } from "node:stream";
import { from as copyFrom, to as copyTo } from "pg-copy-streams";
import Cursor from "pg-cursor";
import pg from "pg";

const checks = [];
const check = (name, body) => checks.push({ name, body });

async function fresh(client, name, columns) {
  await client.query(`DROP TABLE IF EXISTS ${name}`);
  await client.query(`CREATE TABLE ${name} (${columns})`);
}

check("values of every type", async (client) => {
  const day = new Date(2026, 1, 28);
  const moment = new Date("2026-03-01T12:00:00.123Z");
  const values = [
    ["boolean", true, true],
    ["smallint", -7, -7],
    ["integer", 2000000000, 2000000000],
    ["bigint", 9000000000000000000n, "9000000000000000000"],
    ["real", 1.5, 1.5],
    ["double precision", -2.25e300, -2.25e300],
    ["numeric", "12345678901234567890.0123456789", "12345678901234567890.0123456789"],
    ["text", "Grüße, 世界 🌊", "Grüße, 世界 🌊"],
    ["bytea", Buffer.from([0, 1, 255]), Buffer.from([0, 1, 255])],
    ["date", day, day],
    ["time", "23:59:59.123456", "23:59:59.123456"],
    ["timestamptz", moment, moment],
    ["uuid", "6f1d9d5e-9a1c-4f0f-8a3c-2b1f0c9d8e7f", "6f1d9d5e-9a1c-4f0f-8a3c-2b1f0c9d8e7f"],
    ["json", { a: [1, null, "ü"] }, { a: [1, null, "ü"] }],
    ["jsonb", { a: [1, null, "ü"] }, { a: [1, null, "ü"] }],
    ["integer[]", [1, null, 3], [1, null, 3]],
    ["text[]", ["a", 'with "quotes"', null, "", "NULL"], ["a", 'with "quotes"', null, "", "NULL"]],
    ["boolean[]", [true, false], [true, false]],
  ];
  for (const [type, sent, wanted] of values) {
    const { rows } = await client.query(`SELECT $1::${type} AS value`, [sent]);
    assert.deepEqual(rows[0].value, wanted, type);
    const missing = await client.query(`SELECT $1::${type} AS value`, [null]);
    assert.equal(missing.rows[0].value, null, type);
  }
});

check("an interval has parts", async (client) => {
  const { rows } = await client.query("SELECT interval '1 month 2 days 03:04:05.5' AS value");
  assert.deepEqual({ ...rows[0].value }, {
    months: 1, days: 2, hours: 3, minutes: 4, seconds: 5, milliseconds: 500,
  });
});

check("values arrive in binary", async (client) => {
  const query = { text: "SELECT 7::int AS a, 'x'::text AS b, true AS c", binary: true };
  const { rows } = await client.query(query);
  assert.deepEqual(rows, [{ a: 7, b: "x", c: true }]);
});

check("columns are described", async (client) => {
  const { fields } = await client.query("SELECT 1::int AS a, 'b'::text AS b, now() AS c");
  assert.deepEqual(fields.map(({ name, dataTypeID }) => [name, dataTypeID]), [
    ["a", 23], ["b", 25], ["c", 1184],
  ]);
});

check("rows come as arrays", async (client) => {
  const { rows } = await client.query({ text: "SELECT 1 AS a, 2 AS a", rowMode: "array" });
  assert.deepEqual(rows, [[1, 2]]);
});

check("a named statement is prepared once", async (client) => {
  for (let value = 0; value < 10; value += 1) {
    const query = { name: "next", text: "SELECT $1::int + 1 AS next", values: [value] };
    assert.equal((await client.query(query)).rows[0].next, value + 1);
  }
});

check("changes tell how many rows they touched", async (client) => {
  await fresh(client, "counted", "id integer PRIMARY KEY, name text");
  const added = await client.query(
    "INSERT INTO counted VALUES ($1, $2), ($3, $4) RETURNING id", [1, "a", 2, "b"]);
  assert.deepEqual([added.command, added.rowCount, added.rows], ["INSERT", 2, [{ id: 1 }, { id: 2 }]]);
  const changed = await client.query("UPDATE counted SET name = $1 WHERE id = $2", ["c", 2]);
  assert.deepEqual([changed.command, changed.rowCount], ["UPDATE", 1]);
});

check("several statements in one text give several results", async (client) => {
  const results = await client.query("SELECT 1 AS a; SELECT 2 AS b, 3 AS c;");
  assert.deepEqual(results.map(({ rows }) => rows), [[{ a: 1 }], [{ b: 2, c: 3 }]]);
  const nothing = await client.query("");
  assert.deepEqual(nothing.rows, []);
});

check("a transaction is undone", async (client) => {
  await fresh(client, "kept", "id integer PRIMARY KEY");
  await client.query("BEGIN");
  await client.query("INSERT INTO kept VALUES (1)");
  await client.query("ROLLBACK");
  const { rows } = await client.query("SELECT count(*)::int AS rows FROM kept");
  assert.deepEqual(rows, [{ rows: 0 }]);
});

check("a cursor reads in parts", async (client) => {
  const sql = "SELECT i FROM generate_series(1, $1::int) AS s(i) ORDER BY i";
  const cursor = client.query(new Cursor(sql, [250]));
  const sizes = [];
  for (let rows = await cursor.read(100); rows.length > 0; rows = await cursor.read(100)) {
    sizes.push(rows.length);
  }
  await cursor.close();
  assert.deepEqual(sizes, [100, 100, 50]);
  assert.equal((await client.query("SELECT 1 AS one")).rows[0].one, 1);
});

check("a cursor is closed before its end", async (client) => {
  const cursor = client.query(new Cursor("SELECT i FROM generate_series(1, 100000) AS s(i)"));
  assert.equal((await cursor.read(10)).length, 10);
  await cursor.close();
  assert.equal((await client.query("SELECT 1 AS one")).rows[0].one, 1);
});

check("streams are copied both ways", async (client) => {
  await fresh(client, "copied", "id integer PRIMARY KEY, name text");
  const lines = Array.from({ length: 5000 }, (_, i) => `${i}\tn${i}\n`);
  await pipeline(Readable.from(lines), client.query(copyFrom("COPY copied FROM STDIN")));
  const out = client.query(copyTo("COPY (SELECT * FROM copied ORDER BY id) TO STDOUT"));
  assert.equal(await text(out), lines.join(""));
});

check("errors have a code and a place", async (client) => {
  await fresh(client, "strict", "id integer PRIMARY KEY");
  await client.query("INSERT INTO strict VALUES (1)");
  for (const [sql, code, position] of [
    ["SELECT nothing FROM strict", "42703", "8"],
    ["SELECT * FROM nowhere", "42P01", "15"],
    ["INSERT INTO strict VALUES (1)", "23505", undefined],
    ["SELECT 1 / 0", "22012", undefined],
  ]) {
    await assert.rejects(client.query(sql), (error) => {
      assert.deepEqual([error.code, error.position, error.severity], [code, position, "ERROR"]);
      return true;
    });
  }
});

check("a pool serves many at once", async () => {
  const pool = new pg.Pool({ max: 4 });
  try {
    const asked = Array.from({ length: 40 }, (_, i) => pool.query("SELECT $1::int AS i", [i]));
    const rows = (await Promise.all(asked)).map((result) => result.rows[0].i);
    assert.deepEqual(rows, Array.from({ length: 40 }, (_, i) => i));
  } finally {
    await pool.end();
  }
});

check("a statement takes too long", async (client) => {
  await client.query("SET statement_timeout = 300");
  const endless = "SELECT count(*) FROM generate_series(1, 300000) a, generate_series(1, 300000) b";
  await assert.rejects(client.query(endless), { code: "57014" });
});

const { version } = createRequire(import.meta.url)("pg/package.json");
console.log(`# node-postgres ${version}, Node ${process.versions.node}`);
for (const [at, { name, body }] of checks.entries()) {
  // It takes the address from PGHOST, PGPORT, PGUSER and PGDATABASE.
  const client = new pg.Client();
  try {
    await client.connect();
    await body(client);
    console.log(`ok ${at + 1} - ${name}`);
  } catch (error) {
    console.log(`not ok ${at + 1} - ${name}`);
    console.log(`${error.message ?? error}`.replace(/^/gm, "#   "));
  } finally {
    await client.end().catch(() => {});
  }
}
console.log(`1..${checks.length}`);
