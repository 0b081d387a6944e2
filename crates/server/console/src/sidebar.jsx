// The side bar: the schema tree, saved queries and the history.
import { useState } from "preact/hooks";
import { catalog, fullName, loadCatalog } from "./catalog.js";
import { insertText } from "./editor.jsx";
import { addTab, clearHistory, execute, forgetQuery, history, saved } from "./state.js";
import { count, duration, quoted, size, visible } from "./text.js";

const SECTIONS = { schema: "Schema", saved: "Saved", history: "History" };
const KINDS = { r: "table", p: "table", v: "view", m: "materialized view", S: "sequence" };
const TABLES_MAX = 500;

export function Sidebar() {
  const [section, setSection] = useState("schema");
  return (
    <aside class="sidebar" aria-label="Schema, saved queries and history">
      <div class="sections" role="tablist">
        {Object.entries(SECTIONS).map(([key, title]) => (
          <button key={key} role="tab" aria-selected={section === key} onClick={() => setSection(key)}>{title}</button>
        ))}
      </div>
      {section === "schema" && <Schema />}
      {section === "saved" && <Saved />}
      {section === "history" && <History />}
    </aside>
  );
}

function Schema() {
  const { schemas, failure, isLoading } = catalog.value;
  const [wanted, setWanted] = useState("");
  const matches = (table) => !wanted || table.name.toLowerCase().includes(wanted.toLowerCase());
  return (
    <>
      <div class="side-bar">
        <input type="search" placeholder="Find a table" aria-label="Find a table" value={wanted} onInput={(event) => setWanted(event.currentTarget.value)} />
        <button class="quiet" title="Read the catalog again" aria-label="Read the catalog again" onClick={loadCatalog} disabled={isLoading}>↻</button>
      </div>
      {failure && <p class="note bad">{visible(failure.message, 300)}</p>}
      <div class="tree" role="group" aria-label="Schemas">
        {schemas.map((schema) => {
          const tables = schema.tables.filter(matches);
          if (wanted && tables.length === 0) return null;
          return (
            <details key={schema.name} open={!schema.isSystem || Boolean(wanted)}>
              <summary><bdi>{visible(schema.name, 80)}</bdi> <small>{tables.length}</small></summary>
              {tables.slice(0, TABLES_MAX).map((table) => <Table key={table.oid} table={table} />)}
              {tables.length > TABLES_MAX && <p class="note">{tables.length - TABLES_MAX} more: find them by name.</p>}
            </details>
          );
        })}
        {!isLoading && !failure && schemas.every((schema) => schema.isSystem) && <p class="note">There are no tables yet.</p>}
      </div>
    </>
  );
}

function Table({ table }) {
  const [isOpen, setOpen] = useState(false);
  const name = fullName(table);
  const isStored = table.kind === "r" || table.kind === "p";
  return (
    <details class="table" onToggle={(event) => event.target === event.currentTarget && setOpen(event.currentTarget.open)}>
      <summary title={KINDS[table.kind]}>
        <span class={`kind kind-${table.kind}`} aria-label={KINDS[table.kind]} />
        <bdi class="name">{visible(table.name, 80)}</bdi>
        {isStored && Number(table.bytes) > 0 && <small>{size(table.bytes)}</small>}
      </summary>
      {isOpen && (
        <div class="columns">
          <p class="actions">
            <button class="quiet" onClick={() => { const tab = addTab(`SELECT *\nFROM ${name}\nLIMIT 1000`, table.name); execute(tab, tab.text.value); }}>Rows</button>
            <button class="quiet" onClick={() => insertText(name)}>Insert name</button>
            {isStored && Number(table.rows) >= 0 && <small>{count(table.rows)} rows</small>}
          </p>
          <ul>
            {table.columns.slice(0, 400).map((column) => (
              <li key={column.name}>
                <button class="quiet name" title="Insert the name" onClick={() => insertText(quoted(column.name))}><bdi>{visible(column.name, 80)}</bdi></button>
                <small>{visible(column.type, 60)}{column.required === "t" ? " not null" : ""}</small>
              </li>
            ))}
          </ul>
        </div>
      )}
    </details>
  );
}

function Saved() {
  if (saved.value.length === 0) return <p class="note">Queries that are saved (Ctrl-S) stay in this browser.</p>;
  return (
    <ul class="entries">
      {saved.value.map((entry) => (
        <li key={entry.title}>
          <button class="entry" onClick={() => addTab(entry.text, entry.title)}><b>{visible(entry.title, 60)}</b><code>{visible(entry.text, 160)}</code></button>
          <button class="quiet" aria-label={`Delete ${visible(entry.title, 60)}`} onClick={() => forgetQuery(entry)}>×</button>
        </li>
      ))}
    </ul>
  );
}

function History() {
  if (history.value.length === 0) return <p class="note">Statements that were run appear here, without those about passwords.</p>;
  return (
    <>
      <ul class="entries">
        {history.value.slice(0, 100).map((entry) => (
          <li key={entry.at}>
            <button class="entry" onClick={() => addTab(entry.text)}>
              <small class={entry.ok ? "" : "bad"}>{new Date(entry.at).toLocaleTimeString()} · {entry.ok ? duration(entry.milliseconds) : "error"}</small>
              <code>{visible(entry.text, 200)}</code>
            </button>
          </li>
        ))}
      </ul>
      <p class="actions"><button class="quiet" onClick={clearHistory}>Clear the history</button></p>
    </>
  );
}
