// State of the page: tabs with their texts and results, and the actions on them.
import { effect, signal } from "@preact/signals";
import { SqlError, cancel, newName, run } from "./api.js";
import { RESULT_BYTES_MAX } from "./rows.js";
import { load, save } from "./storage.js";

const HISTORY_MAX = 300;
const HISTORY_CHARS_MAX = 20000;
/** Longer texts of tabs are not stored. */
const STORED_CHARS_MAX = 500_000;
/** Requests that run at once: browsers open six connections to a server. */
const RUNNING_MAX = 4;
/** A statement that was canceled is abandoned after this time. */
const CANCEL_MS = 3000;

export const view = signal(location.hash === "#live" ? "live" : "query");
export const theme = signal(load("theme", "system"));
export const rowsMax = signal(load("rowsMax", 100000));
export const history = signal(load("history", []));
export const saved = signal(load("saved", []));
export const sidebar = signal(load("sidebar", innerWidth > 800));
export const announcement = signal("");

let numbers = 0;
function newTab(title, text = "") {
  return {
    id: ++numbers,
    title: signal(title),
    text: signal(text),
    parameters: signal([]),
    /** The last run: `{ state, results, began, … }`. */
    run: signal(null),
    shown: signal(0),
    mark: signal(null),
  };
}

const stored = load("tabs", [{ title: "Query 1", text: "" }]);
export const tabs = signal(stored.map((tab) => newTab(String(tab.title), String(tab.text))));
export const current = signal(tabs.value[Math.min(load("tab", 0), tabs.value.length - 1)]);

const storedTabs = () => tabs.value.map((tab) => {
  const text = tab.text.value;
  return { title: tab.title.value, text: text.length > STORED_CHARS_MAX ? "" : text };
});

let storing = 0;
effect(() => {
  const stored = storedTabs();
  const at = tabs.value.indexOf(current.value);
  clearTimeout(storing);
  storing = setTimeout(() => {
    save("tabs", stored);
    save("tab", at);
  }, 50);
});
effect(() => save("rowsMax", rowsMax.value));
effect(() => save("sidebar", sidebar.value));
effect(() => {
  save("theme", theme.value);
  document.documentElement.dataset.theme = theme.value;
});
effect(() => window.history.replaceState(null, "", view.value === "live" ? "#live" : "#query"));

export function addTab(text = "", title) {
  const used = new Set(tabs.value.map((tab) => tab.title.value));
  let number = tabs.value.length + 1;
  while (used.has(`Query ${number}`)) number++;
  const tab = newTab(title ?? `Query ${number}`, text);
  tabs.value = [...tabs.value, tab];
  current.value = tab;
  view.value = "query";
  return tab;
}

export function closeTab(tab) {
  stop(tab);
  const at = tabs.value.indexOf(tab);
  const rest = tabs.value.filter((other) => other !== tab);
  tabs.value = rest.length ? rest : [newTab("Query 1")];
  if (current.value === tab) current.value = tabs.value[Math.min(at, tabs.value.length - 1)];
}

export function saveQuery(tab) {
  const entry = { title: tab.title.value, text: tab.text.value };
  saved.value = [entry, ...saved.value.filter((other) => other.title !== entry.title)];
  announcement.value = save("saved", saved.value)
    ? `Saved “${entry.title}” in this browser.`
    : "This browser refuses to store the query.";
}

export function forgetQuery(entry) {
  saved.value = saved.value.filter((other) => other !== entry);
  save("saved", saved.value);
}

export function clearHistory() {
  history.value = [];
  save("history", []);
}

function remember(sql, outcome) {
  const text = sql.slice(0, HISTORY_CHARS_MAX);
  const entry = { text, at: Date.now(), ...outcome };
  const rest = history.value.filter((other) => other.text !== text);
  history.value = [entry, ...rest].slice(0, HISTORY_MAX);
  save("history", history.value);
}

/** A password in a statement does not belong into the history. */
const isSecret = (sql) => /\bpassword\b/i.test(sql);

/** True if a run was one query, which can run again without changing rows. */
export const isRepeatable = ({ results }) =>
  results.length === 1 && Boolean(results[0].complete?.tag.startsWith("SELECT"));

export const isRunning = (tab) => tab.run.value?.state === "running";

/** Cancels what a tab runs. */
export function stop(tab) {
  const running = tab.run.value;
  if (running?.state !== "running") return;
  tab.run.value = { ...running, isCanceling: true };
  cancel(running.name);
  // A server that does not answer is not waited for; it cancels what its client leaves.
  setTimeout(() => running.abort.abort(), CANCEL_MS);
}

/**
 * Runs a text in a tab. `offset` is where the text begins in the editor, in characters.
 * `quiet` runs keep what is shown until they have rows, for charts that refresh.
 */
export async function execute(tab, sql, options = {}) {
  const { parameters = [], offset = 0, kind = "rows", limit = rowsMax.value, quiet } = options;
  if (isRunning(tab) || !sql.trim()) return;
  if (tabs.value.filter(isRunning).length >= RUNNING_MAX) {
    announcement.value = `At most ${RUNNING_MAX} queries run at once. Cancel one, or wait.`;
    return;
  }
  const name = newName();
  const abort = new AbortController();
  const results = [];
  const state = { state: "running", name, abort, results, began: performance.now(), sql, parameters };
  Object.assign(state, { kind, limit, startedAt: Date.now() });
  const show = (more) => {
    Object.assign(state, more);
    // A copy, so that what depends on the run is drawn again.
    if (!quiet || state.state !== "running") tab.run.value = { ...state };
  };
  if (!quiet) {
    tab.mark.value = null;
    tab.shown.value = 0;
    show();
  }
  const messages = [];
  let failure = null;
  try {
    await run({ sql, parameters, rowsMax: limit, name, unattended: quiet, signal: abort.signal }, (frame) => {
      if (frame.begin) show({ processId: frame.begin.process_id });
      if (frame.notice) messages.push(frame.notice);
      if (frame.rows) results.push({ rows: frame.rows, complete: null, notices: messages.splice(0) });
      if (frame.rows) show();
      if (frame.more && frame.more.bytes > RESULT_BYTES_MAX && !state.isTooLarge) {
        state.isTooLarge = true;
        cancel(name);
      }
      if (frame.complete) {
        const last = results.at(-1);
        if (frame.complete.rows !== null && last && !last.complete) last.complete = frame.complete;
        else results.push({ rows: null, complete: frame.complete, notices: messages.splice(0) });
        show();
      }
      if (frame.error) failure = new SqlError(frame.error);
      if (frame.end?.rolled_back) {
        messages.push({
          severity: "WARNING",
          message: "The transaction was still open at the end of the text, and was rolled back.",
        });
      }
    });
  } catch (error) {
    const isAbandoned = error.name === "AbortError";
    const message = "The query was canceled. The server did not confirm it.";
    failure = isAbandoned ? new SqlError({ sqlstate: "57014", message }) : error;
  }
  if (failure && state.isTooLarge) {
    failure = null;
    const message = "The result was stopped at 1 GB. Export it to get all of it.";
    messages.push({ severity: "NOTICE", message });
  }
  if (messages.length) results.push({ rows: null, complete: null, notices: messages });
  if (failure?.position) tab.mark.value = { position: failure.position - 1 + offset, message: failure.message };
  const elapsed = performance.now() - state.began;
  if (failure && !quiet) tab.shown.value = results.length;
  show({ state: failure ? "failed" : "done", failure, elapsed });
  if (quiet) return;
  if (!isSecret(sql)) remember(sql, { ok: !failure, milliseconds: elapsed });
  announcement.value = failure
    ? `Error ${failure.sqlstate}: ${failure.message}`
    : `Done. ${results.length} ${results.length === 1 ? "result" : "results"}.`;
}
