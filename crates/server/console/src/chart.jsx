// Charts of a result: one column across, others up. A chart can run its statement each second.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { isNumeric, isTime } from "./rows.js";
import { execute, isRepeatable, theme } from "./state.js";
import { visible } from "./text.js";

const POINTS_MAX = 20_000;
const LINES_MAX = 8;
const COLOURS = ["--chart-1", "--chart-2", "--chart-3", "--chart-4", "--chart-5", "--chart-6", "--chart-7", "--chart-8"];

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Seconds since 1970 of PostgreSQL's text of a time. */
export function seconds(text) {
  const iso = text.replace(" ", "T").replace(/([+-]\d\d)$/, "$1:00");
  return Date.parse(/[+-]\d\d:\d\d$|Z$/.test(iso) || !iso.includes("T") ? iso : `${iso}Z`) / 1000;
}

const axis = () => ({
  stroke: colour("--text-soft"),
  grid: { stroke: colour("--border-soft"), width: 1 },
  ticks: { stroke: colour("--border"), width: 1 },
  font: "11px system-ui, sans-serif",
});

/** A chart of series; used for results and for the live view. */
export function Plot({ data, series, height, kind = "line", xIsTime, labels, xLabel }) {
  const host = useRef();
  const plot = useRef(null);
  const key = JSON.stringify([series, kind, xIsTime, theme.value, labels?.length, height]);
  useEffect(() => {
    const width = () => Math.max(120, host.current.clientWidth);
    const bars = kind === "bars" ? uPlot.paths.bars({ size: [0.7, 60] }) : undefined;
    const lines = series.map((label, number) => ({
      label,
      stroke: colour(COLOURS[number % COLOURS.length]),
      fill: kind === "bars" ? `${colour(COLOURS[number % COLOURS.length])}bb` : undefined,
      width: 1.6,
      paths: kind === "points" ? () => null : bars,
      points: { show: kind === "points" ? true : undefined, size: kind === "points" ? 5 : 4 },
    }));
    const across = axis();
    if (labels) across.values = (_, ticks) => ticks.map((tick) => (Number.isInteger(tick) ? visible(labels[tick] ?? "", 14) : ""));
    const options = {
      width: width(), height,
      scales: { x: { time: Boolean(xIsTime), range: kind === "bars" ? (_, from, to) => [from - 0.6, to + 0.6] : undefined } },
      series: [{ label: xLabel ?? "x", value: labels ? (_, tick) => visible(labels[tick] ?? "", 40) : undefined }, ...lines],
      axes: [across, { ...axis(), size: 64 }],
      legend: { show: series.length > 0 && height > 150 },
    };
    plot.current = new uPlot(options, data, host.current);
    const observer = new ResizeObserver(() => host.current && plot.current.setSize({ width: width(), height }));
    observer.observe(host.current);
    return () => {
      observer.disconnect();
      plot.current.destroy();
    };
  }, [key]);
  useEffect(() => plot.current?.setData(data), [data]);
  return <div class="plot" ref={host} />;
}

export function Chart({ rows, tab, run }) {
  rows.version.value;
  const { columns } = rows;
  const numeric = columns.map(({ type }, column) => (isNumeric(type) ? column : -1)).filter((column) => column >= 0);
  const [x, setX] = useState(() => {
    const time = columns.findIndex(({ type }) => isTime(type));
    return time >= 0 ? time : 0;
  });
  const [chosen, setChosen] = useState(null);
  const [kind, setKind] = useState(() => (isTime(columns[x]?.type ?? "") || isNumeric(columns[x]?.type ?? "") ? "line" : "bars"));
  const [every, setEvery] = useState(0);
  const ys = (chosen ?? numeric.filter((column) => column !== x).slice(0, 3)).filter((column) => columns[column]);

  useEffect(() => {
    if (!every) return undefined;
    let isBusy = false;
    const timer = setInterval(async () => {
      if (document.hidden || isBusy) return;
      isBusy = true;
      await execute(tab, run.sql, { parameters: run.parameters, limit: POINTS_MAX, quiet: true });
      isBusy = false;
    }, every * 1000);
    return () => clearInterval(timer);
  }, [every, run.sql]);

  const isAcross = isTime(columns[x]?.type ?? "") || isNumeric(columns[x]?.type ?? "");
  const drawn = useMemo(() => {
    const points = [];
    const total = Math.min(rows.count, POINTS_MAX);
    for (let row = 0; row < total; row++) {
      const text = rows.text(row, x);
      const across = !isAcross ? row : text === null || text === undefined ? NaN : isTime(columns[x].type) ? seconds(text) : Number(text);
      if (Number.isNaN(across)) continue;
      const up = ys.map((column) => {
        const value = rows.text(row, column);
        return value === null || value === undefined || !Number.isFinite(Number(value)) ? null : Number(value);
      });
      points.push([across, ...up, text]);
    }
    if (isAcross) points.sort((a, b) => a[0] - b[0]);
    const data = [0, ...ys].map((_, series) => points.map((point) => point[series]));
    return { data, labels: isAcross ? null : points.map((point) => point.at(-1) ?? "NULL") };
  }, [rows, rows.version.value, x, ys.join(), isAcross]);

  if (numeric.length === 0) return <p class="empty">A chart needs a column of numbers.</p>;
  const toggle = (column) =>
    setChosen(ys.includes(column) ? ys.filter((other) => other !== column) : [...ys, column].slice(-LINES_MAX));
  return (
    <div class="chart">
      <div class="chart-bar">
        <label>Across <select value={x} onChange={(event) => setX(Number(event.currentTarget.value))}>
          {columns.map((column, number) => <option key={number} value={number}>{visible(column.name, 40)}</option>)}
        </select></label>
        <label>Form <select value={kind} onChange={(event) => setKind(event.currentTarget.value)}>
          <option value="line">Lines</option><option value="points">Points</option><option value="bars">Bars</option>
        </select></label>
        {(every > 0 || isRepeatable(run)) && (
          <label>Refresh <select value={every} onChange={(event) => setEvery(Number(event.currentTarget.value))}>
            <option value={0}>off</option><option value={1}>each second</option><option value={5}>each 5 s</option><option value={30}>each 30 s</option>
          </select></label>
        )}
        <fieldset class="chips"><legend>Up</legend>
          {numeric.slice(0, 40).map((column) => (
            <label key={column} class="chip"><input type="checkbox" checked={ys.includes(column)} onChange={() => toggle(column)} />{visible(columns[column].name, 30)}</label>
          ))}
        </fieldset>
      </div>
      {rows.count > POINTS_MAX && <p class="note">The first {POINTS_MAX.toLocaleString("en-US")} rows are drawn.</p>}
      <Plot data={drawn.data} labels={drawn.labels} series={ys.map((column) => visible(columns[column].name, 40))} xIsTime={isTime(columns[x].type)} xLabel={visible(columns[x].name, 40)} kind={kind} height={320} />
    </div>
  );
}
