// The server's interface. Every request carries the session's token, and goes to this server.
import { signal } from "@preact/signals";
import { Rows } from "./rows.js";

export const session = signal(null);
/** "connecting", "ready", "login" or "away". */
export const connection = signal("connecting");
export const loginReason = signal("");

export class SqlError extends Error {
  constructor(fields) {
    super(fields.message);
    Object.assign(this, fields);
  }
}

/** The server's limit of a request's body. */
const REQUEST_BYTES_MAX = 16 << 20;

/** A request's body; one beyond the server's limit is not sent. */
function bodyOf(value, bytesMax = REQUEST_BYTES_MAX) {
  // A text has at least as many bytes as characters.
  const text = (value.sql?.length ?? 0) > bytesMax ? "" : JSON.stringify(value);
  const bytes = text && new Blob([text]);
  if (text && bytes.size <= bytesMax) return bytes;
  throw new SqlError({
    sqlstate: "54000",
    message: `The text is longer than a request may be: ${bytesMax >> 20} MB.`,
    hint: "Load many rows with COPY from a file, or over Flight SQL.",
  });
}

const BASE = new URL("api/", document.baseURI).href;
let numbers = 0;
export const newName = () => `${Date.now().toString(36)}-${++numbers}`;

async function request(path, options = {}, isRetry = false) {
  const { method = "POST", unattended, signal } = options;
  const headers = { "X-Thalweg-Token": session.value?.token ?? "none" };
  const body = options.body === undefined ? undefined : bodyOf(options.body);
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (unattended) headers["X-Thalweg-Unattended"] = "1";
  let response;
  try {
    const credentials = "same-origin";
    response = await fetch(BASE + path, { method, headers, body, signal, credentials });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    serverIsAway();
    throw new SqlError({ sqlstate: "08006", message: "The server cannot be reached." });
  }
  if (response.ok) return response;
  const fields = await response.json().then((json) => json.error, () => null);
  const error = new SqlError(fields ?? { sqlstate: "08P01", message: response.statusText });
  if (response.status !== 401 || path === "login") throw error;
  // A server that trusts this machine gives a new session at once; others ask for a password.
  if (session.value) loginReason.value = error.message;
  if (!isRetry) await open();
  if (isRetry || !session.value) throw error;
  loginReason.value = "";
  return request(path, options, true);
}

let wait = 500;
function serverIsAway() {
  if (connection.value === "away") return;
  connection.value = "away";
  wait = 500;
  const again = async () => {
    await open();
    if (connection.value !== "away") return;
    wait = Math.min(wait * 1.6, 8000);
    setTimeout(again, wait);
  };
  setTimeout(again, wait);
}

/** Asks for this browser's session, and sets the connection's state. */
export async function open() {
  const headers = { "X-Thalweg-Token": "none", "X-Thalweg-Unattended": "1" };
  try {
    const response = await fetch(`${BASE}session`, { headers, credentials: "same-origin" });
    if (response.ok) {
      session.value = await response.json();
      connection.value = "ready";
    } else if (response.status === 401) {
      session.value = null;
      connection.value = "login";
    } else {
      serverIsAway();
    }
  } catch {
    if (connection.value !== "away") serverIsAway();
  }
}

export async function login(user, password) {
  const response = await request("login", { body: { user, password } });
  session.value = await response.json();
  loginReason.value = "";
  connection.value = "ready";
}

export async function logout() {
  await request("logout").catch(() => {});
  session.value = null;
  loginReason.value = "";
  await open();
}

export const cancel = (name) => request("cancel", { body: { name } }).catch(() => {});

/** Splits a body into frames: `{ kind, bytes }`. */
async function* frames(body) {
  const reader = body.getReader();
  let pieces = [];
  let size = 0;
  let wanted = 5;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    pieces.push(value);
    size += value.length;
    // The pieces of a long frame are joined once, when all of them are here.
    if (size < wanted) continue;
    const pending = joined(pieces, size);
    let at = 0;
    wanted = 5;
    while (pending.length - at >= 5) {
      const length = new DataView(pending.buffer, pending.byteOffset + at).getUint32(1, true);
      if (pending.length - at < 5 + length) {
        wanted = 5 + length;
        break;
      }
      yield { kind: pending[at], bytes: pending.subarray(at + 5, at + 5 + length) };
      at += 5 + length;
    }
    pieces = [pending.subarray(at)];
    size = pending.length - at;
  }
}

function joined(pieces, size) {
  if (pieces.length === 1) return pieces[0];
  const all = new Uint8Array(size);
  let at = 0;
  for (const piece of pieces) {
    all.set(piece, at);
    at += piece.length;
  }
  return all;
}

const JSON_FRAME = 0x6a;
const decoder = new TextDecoder();

/**
 * Runs a text. `on` gets `begin`, `statement`, `rows` (a new result), `more` (rows arrived),
 * `notice`, `complete`, `error` and `end`.
 */
export async function run(options, on) {
  const { sql, parameters, rowsMax, name = newName(), unattended, signal } = options;
  const body = { name, sql };
  if (parameters?.length) body.parameters = parameters;
  if (rowsMax) body.rows_max = rowsMax;
  const response = await request("run", { body, unattended, signal });
  let rows = null;
  let isWhole = false;
  try {
    for await (const { kind, bytes } of frames(response.body)) {
      if (kind !== JSON_FRAME) {
        rows.append(bytes);
        on({ more: rows });
        continue;
      }
      const frame = JSON.parse(decoder.decode(bytes));
      if (frame.columns) on({ rows: (rows = new Rows(frame.columns)) });
      else if (frame.cut) rows?.cut(frame.cut);
      else on(frame);
      isWhole ||= Boolean(frame.end);
    }
  } catch (error) {
    if (error.name === "AbortError") throw error;
  }
  if (!isWhole) {
    open();
    throw new SqlError({ sqlstate: "08006", message: "The connection broke off: the answer is not whole." });
  }
}

/** The rows of a small query, as objects of texts. */
export async function query(sql, { parameters, unattended = true, rowsMax = 20000 } = {}) {
  let [rows, failure] = [null, null];
  await run({ sql, parameters, unattended, rowsMax }, (frame) => {
    if (frame.rows) rows = frame.rows;
    if (frame.error) failure = new SqlError(frame.error);
  });
  if (failure) throw failure;
  const names = rows?.columns.map((column) => column.name) ?? [];
  const found = [];
  await rows?.each((_, cell) => {
    found.push(Object.fromEntries(names.map((name, column) => [name, cell(column)])));
  });
  return found;
}

export async function exportRows(sql, parameters, format) {
  const response = await request("export", { body: { sql, parameters, format } });
  return response.blob();
}

/** Metrics as a map from names with labels to numbers. */
export async function metrics() {
  const text = await (await request("metrics", { method: "GET", unattended: true })).text();
  const found = new Map();
  for (const line of text.split("\n")) {
    const at = line.lastIndexOf(" ");
    if (at > 0 && line[0] !== "#") found.set(line.slice(0, at), Number(line.slice(at + 1)));
  }
  return found;
}
