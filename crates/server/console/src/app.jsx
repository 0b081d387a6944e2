// The page: a bar, the side bar, and the editor above its results.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { connection, logout, session } from "./api.js";
import { loadCatalog } from "./catalog.js";
import { Editor, chosenText, focusEditor } from "./editor.jsx";
import { Live } from "./live.jsx";
import { Login, Logo } from "./login.jsx";
import { Results } from "./results.jsx";
import { Sidebar } from "./sidebar.jsx";
import {
  addTab, announcement, closeTab, current, execute, isRunning, rowsMax, saveQuery, sidebar, stop, tabs,
  theme, view,
} from "./state.js";
import { load, save } from "./storage.js";
import { duration, visible } from "./text.js";

export function App() {
  const state = connection.value;
  useEffect(() => {
    if (state === "ready") loadCatalog();
  }, [state, session.value?.user]);
  if (state === "login") return <Login />;
  if (!session.value) return <p class="empty">{state === "away" ? "The server cannot be reached. The console tries again…" : "Connecting…"}</p>;
  return (
    <div class="app">
      <Bar />
      {state === "away" && <p class="away" role="alert">The server cannot be reached. Running statements may have ended or not. The console reconnects by itself…</p>}
      {view.value === "live" ? <Live /> : <Query />}
      <p class="announcement" role="status" aria-live="polite">{announcement.value}</p>
    </div>
  );
}

const THEMES = { system: "◐", light: "☀", dark: "☾" };

function Bar() {
  const { user, version, passwords } = session.value;
  const names = Object.keys(THEMES);
  const next = names[(names.indexOf(theme.value) + 1) % names.length];
  return (
    <header class="bar">
      <button class="quiet icon" aria-label="Side bar" aria-pressed={sidebar.value} onClick={() => (sidebar.value = !sidebar.value)}>☰</button>
      <h1 title={`Thalweg ${version}`}><Logo /> <span>Thalweg</span></h1>
      <nav aria-label="Views">
        <button aria-current={view.value === "query" ? "page" : undefined} onClick={() => (view.value = "query")}>Query</button>
        <button aria-current={view.value === "live" ? "page" : undefined} onClick={() => (view.value = "live")}>Live</button>
      </nav>
      <span class="spring" />
      <span class="user" title="Role"><bdi>{visible(user, 40)}</bdi></span>
      <button class="quiet icon" aria-label={`Colours: ${theme.value}. Change to ${next}`} title={`Colours: ${theme.value}`} onClick={() => (theme.value = next)}>{THEMES[theme.value]}</button>
      {passwords && <button class="quiet" onClick={logout}>Log out</button>}
    </header>
  );
}

function Query() {
  const commands = useMemo(() => ({
    run: (scope) => runChosen(scope),
    save: () => saveQuery(current.value),
    escape: () => {
      if (!isRunning(current.value)) return false;
      stop(current.value);
      return true;
    },
  }), []);
  useEffect(() => {
    const pressed = (event) => {
      if (event.key === "Escape" && !event.defaultPrevented && !document.querySelector("dialog[open]")) commands.escape();
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !event.defaultPrevented) {
        event.preventDefault();
        commands.run(event.shiftKey ? "statement" : "all");
      }
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
  const [split, setSplit] = useState(() => load("split", 42));
  const frame = useRef();
  function drag(event) {
    event.preventDefault();
    const { top, height } = frame.current.getBoundingClientRect();
    const move = (moved) => setSplit(Math.min(85, Math.max(12, ((moved.clientY - top) / height) * 100)));
    const end = () => {
      removeEventListener("pointermove", move);
      removeEventListener("pointerup", end);
      setSplit((split) => (save("split", split), split));
    };
    addEventListener("pointermove", move);
    addEventListener("pointerup", end);
  }
  const keys = (event) => {
    const by = { ArrowUp: -4, ArrowDown: 4 }[event.key];
    if (by) setSplit((split) => Math.min(85, Math.max(12, split + by)));
  };
  return (
    <div class={sidebar.value ? "query with-sidebar" : "query"}>
      {sidebar.value && <Sidebar />}
      <main class="work" ref={frame}>
        <section class="top" style={{ flexBasis: `${split}%` }} aria-label="Editor">
          <Tabs />
          <Toolbar />
          <Parameters tab={current.value} />
          <Editor commands={commands} />
        </section>
        <div class="divider" role="separator" aria-orientation="horizontal" aria-label="Height of the editor" aria-valuenow={Math.round(split)} tabIndex={0} onPointerDown={drag} onKeyDown={keys} />
        <section class="bottom" aria-label="Results"><Results key={current.value.id} tab={current.value} /></section>
      </main>
    </div>
  );
}

const PARAMETERS_MAX = 40;
/** Longer texts are scripts, which have no parameters. */
const PARAMETERS_CHARS_MAX = 200_000;

/** The number of parameters that a text mentions, outside of its strings and comments. */
export function parametersOf(sql) {
  if (sql.length > PARAMETERS_CHARS_MAX) return 0;
  const bare = sql.replace(/'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|\/\*[\s\S]*?\*\/|\$(\w*)\$[\s\S]*?\$\1\$/g, " ");
  const numbers = [...bare.matchAll(/\$(\d{1,4})/g)].map(([, digits]) => Number(digits));
  return Math.min(PARAMETERS_MAX, Math.max(0, ...numbers));
}

function valuesOf(tab, sql) {
  const values = tab.parameters.value;
  return Array.from({ length: parametersOf(sql) }, (_, index) => values[index] === undefined ? "" : values[index]);
}

/** Runs what is chosen, after a prefix that the editor does not have. */
function runChosen(scope, prefix = "", kind = "rows") {
  const tab = current.value;
  const { sql, offset } = chosenText(scope);
  const options = { parameters: valuesOf(tab, sql), offset: offset - prefix.length, kind };
  if (sql.trim()) execute(tab, prefix + sql, options);
}

const explain = (options) => runChosen("statement", `EXPLAIN (${options}FORMAT JSON) `, "plan");

const LIMITS = [1000, 10000, 100000, 1000000, 10000000];

function Toolbar() {
  const tab = current.value;
  const run = tab.run.value;
  const isBusy = isRunning(tab);
  return (
    <div class="toolbar" role="toolbar" aria-label="Commands">
      {isBusy
        ? <button class="primary stop" onClick={() => stop(tab)} title="Esc">Cancel</button>
        : <button class="primary" onClick={() => runChosen("all")} title="Ctrl-Enter">Run</button>}
      <button disabled={isBusy} onClick={() => explain("")} title="Shows the plan; runs nothing">Explain</button>
      <button disabled={isBusy} onClick={() => explain("ANALYZE, ")} title="Runs the statement, and shows the plan with times">Analyze</button>
      <button onClick={() => saveQuery(tab)} title="Ctrl-S">Save</button>
      <label class="limit">Rows <select aria-label="Maximum rows of a result" value={String(rowsMax.value)} onChange={(event) => (rowsMax.value = Number(event.currentTarget.value))}>
        {LIMITS.map((limit) => <option key={limit} value={String(limit)}>{limit >= 1000000 ? `${limit / 1000000} M` : `${limit / 1000} k`}</option>)}
      </select></label>
      <span class="spring" />
      {isBusy ? <Clock run={run} /> : run && <span class={run.failure ? "soft bad" : "soft"}>{run.failure ? `Error ${run.failure.sqlstate ?? ""}` : duration(run.elapsed)}</span>}
    </div>
  );
}

function Clock({ run }) {
  const [, tick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => tick((number) => number + 1), 100);
    return () => clearInterval(timer);
  }, []);
  return <span class="soft"><span class="spinner" aria-hidden="true" /> {duration(performance.now() - run.began)}</span>;
}

function Parameters({ tab }) {
  const number = parametersOf(tab.text.value);
  if (number === 0) return null;
  const set = (index, value) => {
    const values = [...tab.parameters.value];
    values[index] = value;
    tab.parameters.value = values;
  };
  return (
    <div class="parameters" role="group" aria-label="Parameters">
      {Array.from({ length: number }, (_, index) => {
        const value = tab.parameters.value[index] === undefined ? "" : tab.parameters.value[index];
        return (
          <span key={index} class="parameter">
            <label>${index + 1} <input value={value ?? ""} disabled={value === null} placeholder={value === null ? "NULL" : "value"} onInput={(event) => set(index, event.currentTarget.value)} /></label>
            <button class="quiet" aria-pressed={value === null} onClick={() => set(index, value === null ? "" : null)}>NULL</button>
          </span>
        );
      })}
    </div>
  );
}

function Tabs() {
  const [renamed, setRenamed] = useState(null);
  return (
    <div class="tabs">
      <div class="tabs-list" role="group" aria-label="Queries">
        {tabs.value.map((tab) => (
          <span key={tab.id} class={tab === current.value ? "tab current" : "tab"}>
            {renamed === tab
              ? <input class="rename" value={tab.title.value} aria-label="Name of the query" ref={(input) => input?.focus()} onBlur={(event) => { tab.title.value = event.currentTarget.value.trim() || tab.title.value; setRenamed(null); }} onKeyDown={(event) => (event.key === "Enter" || event.key === "Escape") && event.currentTarget.blur()} />
              : <button class="title" aria-pressed={tab === current.value} title="Double click to rename" onClick={() => { current.value = tab; focusEditor(); }} onDblClick={() => setRenamed(tab)}>
                {isRunning(tab) && <span class="spinner" aria-label="running" />}<bdi>{visible(tab.title.value, 40)}</bdi>
              </button>}
            <button class="quiet close" aria-label={`Close ${visible(tab.title.value, 40)}`} onClick={() => closeTab(tab)}>×</button>
          </span>
        ))}
      </div>
      <button class="quiet icon" aria-label="New query" title="New query" onClick={() => addTab()}>+</button>
    </div>
  );
}
