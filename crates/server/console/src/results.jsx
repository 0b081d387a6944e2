// The outcome of a run: results, messages, errors, plans and charts.
import { useEffect, useState } from "preact/hooks";
import { Chart } from "./chart.jsx";
import { saveAll, saveShown } from "./export.js";
import { Grid } from "./grid.jsx";
import { Plan, planOf } from "./plan.jsx";
import { announcement, execute, isRepeatable, stop } from "./state.js";
import { count, duration, visible, visibleLines } from "./text.js";

function titleOf(result, number) {
  if (result.rows) return `${number + 1}: ${count(result.rows.count)} ${result.rows.count === 1 ? "row" : "rows"}`;
  if (result.complete) return `${number + 1}: ${result.complete.tag}`;
  return `${number + 1}: messages`;
}

export function Results({ tab }) {
  const run = tab.run.value;
  if (!run) {
    return (
      <div class="empty">
        <p>Results appear here.</p>
        <dl class="keys">
          <dt><kbd>Ctrl</kbd> <kbd>Enter</kbd></dt><dd>run the selection, or all</dd>
          <dt><kbd>Shift</kbd> <kbd>Ctrl</kbd> <kbd>Enter</kbd></dt><dd>run the statement under the cursor</dd>
          <dt><kbd>Esc</kbd></dt><dd>cancel</dd>
          <dt><kbd>Ctrl</kbd> <kbd>S</kbd></dt><dd>save the query in this browser</dd>
        </dl>
      </div>
    );
  }
  const { results, failure, state } = run;
  results.forEach((result) => result.rows?.version.value);
  const count_ = results.length + (failure ? 1 : 0);
  const shown = Math.min(tab.shown.value, Math.max(0, count_ - 1));
  return (
    <>
      {count_ > 1 && (
        <div class="result-tabs" role="tablist" aria-label="Results">
          {results.map((result, number) => (
            <button key={number} role="tab" aria-selected={number === shown} onClick={() => (tab.shown.value = number)}>{titleOf(result, number)}</button>
          ))}
          {failure && <button role="tab" class="bad" aria-selected={shown === results.length} onClick={() => (tab.shown.value = results.length)}>Error</button>}
        </div>
      )}
      {failure && shown === results.length
        ? <Failure failure={failure} />
        : results[shown]
          ? <Result key={`${shown}`} result={results[shown]} run={run} tab={tab} />
          : <div class="empty">{state === "running" ? <Waiting run={run} tab={tab} /> : <p>Nothing to run.</p>}</div>}
    </>
  );
}

function Waiting({ run, tab }) {
  const [, tick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => tick((number) => number + 1), 100);
    return () => clearInterval(timer);
  }, []);
  return (
    <p>
      <span class="spinner" aria-hidden="true" /> {run.isCanceling ? "Canceling" : "Running"} for {duration(performance.now() - run.began)}{" "}
      <button onClick={() => stop(tab)}>Cancel</button>
    </p>
  );
}

function Failure({ failure }) {
  return (
    <div class="failure" role="alert">
      <p class="failure-message"><span class="state">{failure.sqlstate ?? "Error"}</span> {visible(failure.message ?? String(failure), 4000)}</p>
      {failure.detail && <p><b>Detail</b> {visible(failure.detail, 4000)}</p>}
      {failure.hint && <p><b>Hint</b> {visible(failure.hint, 4000)}</p>}
      {failure.position && <p class="soft">At character {count(failure.position)}, marked in the editor.</p>}
    </div>
  );
}

function Notices({ notices }) {
  if (!notices?.length) return null;
  return (
    <ul class="notices">
      {notices.slice(0, 200).map((notice, number) => (
        <li key={number} class={notice.severity === "WARNING" ? "warning" : ""}><b>{notice.severity}</b> {visible(notice.message, 2000)}{notice.detail && ` (${visible(notice.detail, 2000)})`}</li>
      ))}
    </ul>
  );
}

function Result({ result, run, tab }) {
  const { rows, complete, notices } = result;
  rows?.version.value;
  const plan = rows && complete && rows.count < 10 ? planOf(rows) : null;
  const [form, setForm] = useState(run.kind === "plan" ? "plan" : "rows");
  if (!rows) {
    return (
      <div class="command">
        <Notices notices={notices} />
        {complete && <p><code>{visible(complete.tag, 200)}</code> <span class="soft">{duration(complete.milliseconds)}</span></p>}
      </div>
    );
  }
  const isPlan = plan && form === "plan";
  const shown = form === "plan" && !plan ? "rows" : form;
  return (
    <div class="result">
      <div class="result-bar">
        <div class="forms" role="group" aria-label="Form">
          {plan && <button aria-pressed={isPlan} onClick={() => setForm("plan")}>Tree</button>}
          <button aria-pressed={shown === "rows"} onClick={() => setForm("rows")}>Rows</button>
          <button aria-pressed={shown === "chart"} onClick={() => setForm("chart")}>Chart</button>
        </div>
        <span class="spring" />
        <Status result={result} run={run} tab={tab} />
        <Export rows={rows} run={run} tab={tab} />
      </div>
      <Notices notices={notices} />
      {shown === "plan" && <Plan plan={plan} />}
      {shown === "chart" && <Chart rows={rows} tab={tab} run={run} />}
      {shown === "rows" && <Grid rows={rows} label="Rows of the result" />}
    </div>
  );
}

function Status({ result, run, tab }) {
  const { rows, complete } = result;
  const number = `${count(rows.count)} ${rows.count === 1 ? "row" : "rows"}`;
  if (!complete) {
    return <span class="soft">{number} {run.state === "running" ? "so far" : "before the end"}</span>;
  }
  return (
    <span class="soft">
      {complete.more ? `first ${number}, there are more ` : number}
      {complete.more && isRepeatable(run) && <button class="quiet" onClick={() => execute(tab, run.sql, { parameters: run.parameters, limit: null })}>Load all</button>}
      {" · "}{duration(complete.milliseconds)}
    </span>
  );
}

function Export({ rows, run, tab }) {
  const name = visible(tab.title.value, 40).replace(/[^\w -]+/g, "_") || "result";
  async function chosen(event) {
    const [scope, format] = event.currentTarget.value.split(" ");
    event.currentTarget.value = "";
    try {
      announcement.value = "Exporting…";
      const cut = scope === "shown" ? await saveShown(rows, format, name) : await saveAll(run.sql, run.parameters, format, name);
      announcement.value = cut ? `Exported; ${count(cut)} long cells are cut.` : "Exported.";
    } catch (failure) {
      announcement.value = `The export failed: ${visible(failure.message, 300)}`;
    }
  }
  return (
    <select class="export" aria-label="Export" value="" onChange={chosen}>
      <option value="" disabled hidden>Export</option>
      <optgroup label="Rows that have arrived">
        <option value="shown csv">CSV</option>
        <option value="shown json">JSON lines</option>
      </optgroup>
      {isRepeatable(run) && (
        <optgroup label="All rows: runs the query again">
          <option value="all csv">CSV</option>
          <option value="all json">JSON lines</option>
          <option value="all arrow">Arrow</option>
          <option value="all parquet">Parquet</option>
        </optgroup>
      )}
    </select>
  );
}

export const errorText = (failure) => visibleLines(failure?.message ?? String(failure));
