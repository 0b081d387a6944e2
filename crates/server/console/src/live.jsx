// The live view: running statements, counters, tables, log and checkpoints, read each second.
import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { metrics, query, session } from "./api.js";
import { announcement } from "./state.js";
import { count, duration, size, visible } from "./text.js";

const SAMPLES = 120;

const ACTIVITY = `SELECT pid, usename, application_name, client_addr::text AS client, state, query,
  extract(epoch FROM now() - query_start) * 1000 AS ms FROM pg_catalog.pg_stat_activity
  WHERE pid <> pg_backend_pid() ORDER BY state = 'active' DESC, query_start`;
const TABLES = `SELECT schemaname, tablename, rows, dead_rows, chunks, bytes
  FROM pg_catalog.thalweg_tables ORDER BY bytes DESC LIMIT 200`;
const LOG = `SELECT position, bytes, checkpoint_due_bytes FROM pg_catalog.thalweg_log`;
const CHECKPOINTS = `SELECT position, bytes, began, seconds, failure
  FROM pg_catalog.thalweg_checkpoints ORDER BY position DESC LIMIT 8`;

const NODES = `SELECT id, address, answers, buckets, rows, bytes, streams
  FROM thalweg_cluster.nodes ORDER BY id LIMIT 300`;
const GATEWAYS = `SELECT address, defines, answers, definitions
  FROM thalweg_cluster.gateways ORDER BY defines DESC, address LIMIT 100`;

/** True for the gateway of a cluster, and null until the server was asked. */
const isGateway = signal(null);
/** A schema or a table that does not exist: only gateways have those of clusters. */
const ABSENT = new Set(["3F000", "42P01"]);

async function readCluster() {
  if (isGateway.value === false) return null;
  try {
    const [nodes, gateways] = await Promise.all([query(NODES), query(GATEWAYS)]);
    isGateway.value = true;
    return { nodes, gateways };
  } catch (failure) {
    if (!ABSENT.has(failure.sqlstate)) throw failure;
    isGateway.value = false;
    return null;
  }
}

/** The sum of a metric over its labels. */
function sum(found, name) {
  let total = 0;
  for (const [key, value] of found) if (key === name || key.startsWith(`${name}{`)) total += value;
  return total;
}

const PANELS = [
  { title: "Statements", name: "thalweg_statements_total", isRate: true, unit: (value) => `${count(Math.round(value))}/s` },
  { title: "Rows sent", name: "thalweg_rows_sent_total", isRate: true, unit: (value) => `${count(Math.round(value))}/s` },
  { title: "Running", name: "thalweg_statements_running", unit: (value) => count(value) },
  { title: "Connections", name: "thalweg_connections", unit: (value) => count(value) },
  { title: "Memory of tables", name: "thalweg_tables_memory_bytes", unit: size },
  { title: "Log written", name: "thalweg_log_written_bytes_total", isRate: true, unit: (value) => `${size(value)}/s` },
];

/** Reads `load` each `every` milliseconds while the page is visible. */
function usePolled(load, every) {
  const [state, setState] = useState({ value: null, failure: null });
  useEffect(() => {
    let isOver = false;
    let timer;
    const again = async () => {
      if (!document.hidden) {
        try {
          const value = await load();
          if (!isOver) setState({ value, failure: null });
        } catch (failure) {
          if (!isOver) setState((state) => ({ ...state, failure }));
        }
      }
      if (!isOver) timer = setTimeout(again, every);
    };
    again();
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, []);
  return state;
}

export function Live() {
  return (
    <main class="live" aria-label="Live view">
      <Counters />
      <Activity />
      <Cluster />
      <div class="live-pair">
        <Tables />
        <Storage />
      </div>
    </main>
  );
}

function Counters() {
  const samples = useRef([]);
  const { failure } = usePolled(async () => {
    const found = await metrics();
    const values = PANELS.map((panel) => sum(found, panel.name));
    samples.current = [...samples.current, { at: Date.now() / 1000, values }].slice(-SAMPLES);
    return samples.current.length;
  }, 1000);
  const all = samples.current;
  return (
    <section aria-label="Counters">
      {failure && <Trouble failure={failure} />}
      <div class="panels">
        {PANELS.map((panel, number) => {
          const values = all.map((sample, index) => {
            if (!panel.isRate) return sample.values[number];
            const before = all[index - 1];
            return before ? Math.max(0, (sample.values[number] - before.values[number]) / (sample.at - before.at)) : null;
          });
          return (
            <figure key={panel.name} class="panel">
              <figcaption>{panel.title} <strong>{values.at(-1) === null || values.length === 0 ? "–" : panel.unit(values.at(-1))}</strong></figcaption>
              <Spark values={values} label={panel.title} />
            </figure>
          );
        })}
      </div>
    </section>
  );
}

/** A small curve without axes. */
function Spark({ values, label }) {
  const known = values.filter((value) => value !== null);
  const top = Math.max(...known, 1e-9);
  const step = 100 / (SAMPLES - 1);
  const from = SAMPLES - values.length;
  const points = values
    .map((value, index) => (value === null ? null : `${((from + index) * step).toFixed(2)},${(30 - (value / top) * 27).toFixed(2)}`))
    .filter(Boolean);
  const left = points[0]?.split(",")[0];
  return (
    <svg class="spark" viewBox="0 0 100 31" preserveAspectRatio="none" role="img" aria-label={`${label} over the last two minutes`}>
      {points.length > 1 && <polygon points={`${left},31 ${points.join(" ")} 100,31`} />}
      {points.length > 1 && <polyline points={points.join(" ")} vector-effect="non-scaling-stroke" />}
    </svg>
  );
}

function Trouble({ failure }) {
  return <p class="note bad">{failure.sqlstate} {visible(failure.message, 300)}</p>;
}

function Activity() {
  const { value, failure } = usePolled(() => query(ACTIVITY), 1000);
  async function end(what, pid) {
    if (what === "pg_terminate_backend" && !confirm(`End the connection of process ${pid}?`)) return;
    try {
      const [done] = await query(`SELECT ${what}($1::int) AS done`, { parameters: [Number(pid)], unattended: false });
      announcement.value = done.done === "t" ? `Process ${pid} got the request.` : `There is no process ${pid} any more.`;
    } catch (failure) {
      announcement.value = visible(failure.message, 300);
    }
  }
  return (
    <section class="card">
      <h2>Connections and statements</h2>
      {failure && <Trouble failure={failure} />}
      <div class="scroll">
        <table>
          <thead><tr><th class="number">Process</th><th>User</th><th>Application</th><th>State</th><th class="number">For</th><th>Statement</th><th><span class="hidden">Actions</span></th></tr></thead>
          <tbody>
            {value?.slice(0, 300).map((row) => (
              <tr key={row.pid}>
                <td class="number">{row.pid}</td>
                <td>{visible(row.usename ?? "", 40)}</td>
                <td>{visible(row.application_name ?? "", 40)}</td>
                <td><span class={`badge ${row.state === "active" ? "good" : row.state?.includes("transaction") ? "warn" : ""}`}>{row.state}</span></td>
                <td class="number">{row.state === "active" && row.ms !== null ? duration(Number(row.ms)) : ""}</td>
                <td class="statement"><code>{visible(row.query ?? "", 240)}</code></td>
                <td class="actions">
                  <button class="quiet" disabled={row.state !== "active"} onClick={() => end("pg_cancel_backend", row.pid)}>Cancel</button>
                  <button class="quiet bad" onClick={() => end("pg_terminate_backend", row.pid)}>End</button>
                </td>
              </tr>
            ))}
            {value?.length === 0 && <tr><td colSpan={7} class="soft">No other connection is open. The console opens one for each request.</td></tr>}
          </tbody>
        </table>
      </div>
      {value && !session.value?.superuser && <p class="note">Statements of other roles are shown to superusers.</p>}
    </section>
  );
}

/** The workers and gateways of a cluster; nothing for a server that stands alone. */
function Cluster() {
  const { value, failure } = usePolled(readCluster, 2000);
  if (!value) return failure ? <section class="card"><h2>Cluster</h2><Trouble failure={failure} /></section> : null;
  const answer = (row) => (row.answers === "t" ? <span class="badge good">answers</span> : <span class="bad">does not answer</span>);
  return (
    <section class="card">
      <h2>Cluster</h2>
      {failure && <Trouble failure={failure} />}
      <div class="scroll">
        <table>
          <thead><tr><th>Worker</th><th class="number">Number</th><th>State</th><th class="number">Buckets</th><th class="number">Rows</th><th class="number">Size</th><th class="number">Streams</th></tr></thead>
          <tbody>
            {value.nodes.map((row) => (
              <tr key={row.id}>
                <td>{visible(row.address, 80)}</td><td class="number">{row.id}</td><td>{answer(row)}</td>
                <td class="number">{count(row.buckets)}</td>
                <td class="number">{row.rows === null ? "" : count(row.rows)}</td>
                <td class="number">{row.bytes === null ? "" : size(row.bytes)}</td>
                <td class="number">{row.streams === null ? "" : count(row.streams)}</td>
              </tr>
            ))}
            {value.nodes.length === 0 && <tr><td colSpan={7} class="soft">No worker has joined.</td></tr>}
          </tbody>
        </table>
      </div>
      <div class="scroll">
        <table>
          <thead><tr><th>Gateway</th><th>Part</th><th>State</th><th class="number">Definitions</th></tr></thead>
          <tbody>
            {value.gateways.map((row) => (
              <tr key={row.address}>
                <td>{visible(row.address, 80)}</td><td>{row.defines === "t" ? "first" : "further"}</td>
                <td>{answer(row)}</td><td class="number">{count(row.definitions)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function Tables() {
  const { value, failure } = usePolled(() => query(TABLES), 2000);
  return (
    <section class="card">
      <h2>Tables in memory</h2>
      {isGateway.value && <p class="note">The rows of tables are in the memory of the workers above.</p>}
      {failure && <Trouble failure={failure} />}
      <div class="scroll">
        <table>
          <thead><tr><th>Table</th><th class="number">Rows</th><th class="number">Dead</th><th class="number">Chunks</th><th class="number">Size</th></tr></thead>
          <tbody>
            {value?.map((row) => (
              <tr key={`${row.schemaname}.${row.tablename}`}>
                <td><bdi>{row.schemaname === "public" ? "" : `${visible(row.schemaname, 40)}.`}{visible(row.tablename, 80)}</bdi></td>
                <td class="number">{count(row.rows)}</td><td class="number">{count(row.dead_rows)}</td>
                <td class="number">{count(row.chunks)}</td><td class="number">{size(row.bytes)}</td>
              </tr>
            ))}
            {value?.length === 0 && <tr><td colSpan={5} class="soft">There are no tables.</td></tr>}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function Storage() {
  const log = usePolled(async () => {
    const [[state], checkpoints] = await Promise.all([query(LOG), query(CHECKPOINTS)]);
    return { state, checkpoints };
  }, 2000);
  const { state, checkpoints } = log.value ?? {};
  const due = Number(state?.checkpoint_due_bytes ?? 0);
  const isVolatile = !state || (due === 0 && Number(state.bytes) === 0);
  return (
    <section class="card">
      <h2>Log and checkpoints</h2>
      {log.failure && <Trouble failure={log.failure} />}
      {log.value && isVolatile && <p class="soft">This database writes no log: it is in memory only.</p>}
      {state && !isVolatile && (
        <p>
          The log has {size(state.bytes)}{due > 0 && <>; the next checkpoint comes at {size(due)}.</>}
          {due > 0 && <meter class="wide" min={0} max={due} value={Number(state.bytes)} aria-label="Log until the next checkpoint" />}
        </p>
      )}
      <div class="scroll">
        <table>
          <thead><tr><th>Checkpoint</th><th class="number">Size</th><th class="number">Took</th><th>State</th></tr></thead>
          <tbody>
            {checkpoints?.map((row) => (
              <tr key={row.position}>
                <td>{visible(row.began ?? `at ${row.position}`, 40)}</td><td class="number">{size(row.bytes)}</td>
                <td class="number">{row.seconds === null ? "" : duration(Number(row.seconds) * 1000)}</td>
                <td>{row.failure ? <span class="bad">{visible(row.failure, 200)}</span> : <span class="badge good">whole</span>}</td>
              </tr>
            ))}
            {checkpoints?.length === 0 && <tr><td colSpan={4} class="soft">There is no checkpoint yet.</td></tr>}
          </tbody>
        </table>
      </div>
    </section>
  );
}
