// The grid: shows a window of the rows and columns of a result, whatever its size.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { useSignal } from "@preact/signals";
import { copyText } from "./export.js";
import { ordered } from "./order.js";
import { isNumeric } from "./rows.js";
import { announcement } from "./state.js";
import { count, size, visible, visibleLines } from "./text.js";

const ROW = 24;
const HEAD = 26;
const FILTER = 28;
const CHARACTER = innerWidth >= 3000 ? 8.6 : 7.4;
/** Browsers limit an element's height; beyond this the scroll bar stands for more rows. */
const HEIGHT_MAX = 8_000_000;
const WIDTH_MIN = 56;
const WIDTH_MAX = 420;
const SAMPLE = 60;
const COPY_CELLS_MAX = 200_000;

/** Widths of columns, from their names and first rows. */
function widthsOf(rows) {
  return rows.columns.map((column, number) => {
    let longest = column.name.length + 3;
    for (let row = 0; row < Math.min(SAMPLE, rows.count); row++) {
      longest = Math.max(longest, Math.min(60, rows.text(row, number)?.length ?? 4));
    }
    return Math.round(Math.min(WIDTH_MAX, Math.max(WIDTH_MIN, longest * CHARACTER + 20)));
  });
}

export function Grid({ rows, label }) {
  rows.version.value;
  const box = useRef();
  const top = useSignal(0);
  const [place, setPlace] = useState({ left: 0, width: 800, height: 300 });
  const [cursor, setCursor] = useState({ row: 0, column: 0, fromRow: 0, fromColumn: 0 });
  const [sort, setSort] = useState(null);
  const [filters, setFilters] = useState(new Map());
  const [isFiltering, setFiltering] = useState(false);
  const [order, setOrder] = useState(null);
  const [own, setOwn] = useState({});
  const [detail, setDetail] = useState(null);
  const hasRows = rows.count > 0;
  const base = useMemo(() => widthsOf(rows), [rows, hasRows]);
  const widths = base.map((width, column) => own[column] ?? width);

  // A sort or a filter is over the rows that are here; it runs again when more have arrived.
  const isOrdered = Boolean(sort || [...filters.values()].some((text) => text.trim()));
  useEffect(() => {
    if (!isOrdered) {
      setOrder(null);
      return undefined;
    }
    let isStale = false;
    const timer = setTimeout(async () => {
      try {
        const found = await ordered(rows, sort, filters, () => isStale);
        if (!isStale) setOrder(found);
      } catch (error) {
        announcement.value = error.message;
        setSort(null);
      }
    }, 120);
    return () => {
      isStale = true;
      clearTimeout(timer);
    };
  }, [rows, sort, filters, isOrdered && rows.count]);

  useEffect(() => {
    const observer = new ResizeObserver(() => measure());
    observer.observe(box.current);
    measure();
    return () => observer.disconnect();
  }, []);

  const total = order ? order.length : rows.count;
  const head = HEAD + (isFiltering ? FILTER : 0);
  const visibleRows = Math.max(1, Math.floor((place.height - head) / ROW));
  const topMax = Math.max(0, total - visibleRows);
  const height = Math.min(HEIGHT_MAX, total * ROW + head);
  const isScaled = total * ROW + head > HEIGHT_MAX;
  const rowAt = (index) => (order ? order[index] : index);
  const gutter = Math.max(40, String(rows.count).length * (CHARACTER + 1) + 14);
  const lefts = [gutter];
  widths.forEach((width) => lefts.push(lefts.at(-1) + width));

  function measure() {
    if (!box.current) return;
    const { scrollLeft, clientWidth, clientHeight } = box.current;
    setPlace({ left: scrollLeft, width: clientWidth, height: clientHeight });
  }

  function scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = box.current;
    if (!isScaled) top.value = scrollTop / ROW;
    else if (Math.abs(scrollTop - (box.current.ownTop ?? -9)) > 2) {
      top.value = (scrollTop / Math.max(1, scrollHeight - clientHeight)) * topMax;
    }
    measure();
  }

  function scrollTo(row) {
    top.value = Math.max(0, Math.min(topMax, row));
    const { scrollHeight, clientHeight } = box.current;
    const at = isScaled ? (top.value / Math.max(1, topMax)) * (scrollHeight - clientHeight) : top.value * ROW;
    box.current.ownTop = Math.round(at);
    box.current.scrollTop = at;
  }

  function wheel(event) {
    if (!isScaled || event.ctrlKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) return;
    event.preventDefault();
    scrollTo(top.value + (event.deltaMode === 1 ? event.deltaY : event.deltaY / ROW));
  }

  function moveTo(row, column, extends_) {
    row = Math.max(0, Math.min(total - 1, row));
    column = Math.max(0, Math.min(widths.length - 1, column));
    const from = extends_ ? cursor : { fromRow: row, fromColumn: column };
    setCursor({ row, column, fromRow: from.fromRow, fromColumn: from.fromColumn });
    if (row < top.value) scrollTo(row);
    else if (row >= top.value + visibleRows) scrollTo(row - visibleRows + 1);
    const [from_, to] = [lefts[column] - gutter, lefts[column + 1]];
    if (from_ < box.current.scrollLeft) box.current.scrollLeft = from_;
    else if (to > box.current.scrollLeft + place.width) box.current.scrollLeft = to - place.width;
  }

  async function copy() {
    const [r1, r2] = [cursor.fromRow, cursor.row].sort((a, b) => a - b);
    const [c1, c2] = [cursor.fromColumn, cursor.column].sort((a, b) => a - b);
    if ((r2 - r1 + 1) * (c2 - c1 + 1) > COPY_CELLS_MAX) {
      announcement.value = `A copy has at most ${count(COPY_CELLS_MAX)} cells: export the result instead.`;
      return;
    }
    const lines = [];
    for (let index = r1; index <= r2; index++) {
      const row = rowAt(index);
      if (rows.text(row, c1) === undefined) await rows.load(rows.find(row));
      const cells = [];
      for (let column = c1; column <= c2; column++) cells.push(rows.text(row, column) ?? "");
      lines.push(cells.join("\t"));
    }
    await copyText(lines.join("\n"));
    announcement.value = `Copied ${count(lines.length)} × ${c2 - c1 + 1} cells.`;
  }

  function pressed(event) {
    const { row, column } = cursor;
    const isCommand = event.ctrlKey || event.metaKey;
    const moves = {
      ArrowDown: [isCommand ? total : row + 1, column],
      ArrowUp: [isCommand ? 0 : row - 1, column],
      ArrowRight: [row, isCommand ? widths.length : column + 1],
      ArrowLeft: [row, isCommand ? 0 : column - 1],
      PageDown: [row + visibleRows, column],
      PageUp: [row - visibleRows, column],
      Home: [isCommand ? 0 : row, 0],
      End: [isCommand ? total : row, widths.length],
    };
    if (event.target.tagName === "INPUT") return;
    if (moves[event.key]) moveTo(...moves[event.key], event.shiftKey);
    else if (isCommand && event.key.toLowerCase() === "c") copy();
    else if (isCommand && event.key.toLowerCase() === "a") {
      setCursor({ row: total - 1, column: widths.length - 1, fromRow: 0, fromColumn: 0 });
    } else if (event.key === "Enter" && total) setDetail({ row: rowAt(row), column });
    else if (event.key === "f" && !isCommand) setFiltering(!isFiltering);
    else if (event.key === "s" && !isCommand) sortBy(column);
    else return;
    event.preventDefault();
  }

  function sortBy(column) {
    if (sort?.column !== column) setSort({ column, descending: false });
    else setSort(sort.descending ? null : { column, descending: true });
  }

  function drag(event, column) {
    event.preventDefault();
    event.stopPropagation();
    const [from, width] = [event.clientX, widths[column]];
    const move = (moved) =>
      setOwn((all) => ({ ...all, [column]: Math.max(WIDTH_MIN, width + moved.clientX - from) }));
    const end = () => {
      removeEventListener("pointermove", move);
      removeEventListener("pointerup", end);
    };
    addEventListener("pointermove", move);
    addEventListener("pointerup", end);
  }

  const shown = [];
  for (let column = 0; column < widths.length; column++) {
    if (lefts[column + 1] > place.left && lefts[column] < place.left + place.width) shown.push(column);
  }
  const first = Math.max(0, Math.min(Math.floor(top.value), topMax));
  const last = Math.min(total, first + visibleRows + 2);
  const between = (value, a, b) => value >= Math.min(a, b) && value <= Math.max(a, b);
  const isSelected = (row, column) =>
    between(row, cursor.fromRow, cursor.row) && between(column, cursor.fromColumn, cursor.column);
  const lines = [];
  for (let index = first; index < last; index++) lines.push(index);

  return (
    <div class="grid-frame">
      <div
        class="grid" ref={box} tabIndex={0} role="grid" aria-label={label} aria-rowcount={total + 1}
        aria-colcount={widths.length} aria-activedescendant={total ? `c${cursor.row}-${cursor.column}` : undefined}
        onScroll={scrolled} onWheel={wheel} onKeyDown={pressed}
      >
        <div class="grid-space" style={{ height: `${Math.max(height, head)}px`, width: `${lefts.at(-1)}px` }}>
          <div class="grid-window" style={{ height: `${place.height}px`, width: `${lefts.at(-1)}px` }}>
            <div class="grid-head" role="row" aria-rowindex={1} style={{ height: `${head}px` }}>
              <div class="grid-corner" role="columnheader" aria-label="Row" style={{ width: `${gutter}px` }}>
                <button class="quiet" title="Filter columns (f)" aria-pressed={isFiltering} onClick={() => setFiltering(!isFiltering)}>⌕</button>
              </div>
              {shown.map((column) => (
                <div
                  key={column} class="grid-name" role="columnheader" aria-colindex={column + 1}
                  aria-sort={sort?.column === column ? (sort.descending ? "descending" : "ascending") : "none"}
                  style={{ left: `${lefts[column]}px`, width: `${widths[column]}px` }}
                >
                  <button class="grid-sort" tabIndex={-1} title={`${visible(rows.columns[column].name, 200)}: ${rows.columns[column].type}. Sort (s)`} onClick={() => sortBy(column)}>
                    <bdi>{visible(rows.columns[column].name, 100)}</bdi>
                    <small>{rows.columns[column].type}</small>
                    {sort?.column === column && <span aria-hidden="true">{sort.descending ? "▼" : "▲"}</span>}
                  </button>
                  {isFiltering && (
                    <input
                      class="grid-filter" value={filters.get(column) ?? ""} placeholder="text, =x, >5, null"
                      aria-label={`Filter ${visible(rows.columns[column].name, 60)}`}
                      onInput={(event) => setFilters(new Map(filters).set(column, event.currentTarget.value))}
                    />
                  )}
                  <span class="grid-edge" onPointerDown={(event) => drag(event, column)} />
                </div>
              ))}
            </div>
            {lines.map((index) => {
              const row = rowAt(index);
              return (
                <div
                  key={index} role="row" aria-rowindex={index + 2} class={index % 2 ? "grid-row odd" : "grid-row"}
                  style={{ top: `${head + (index - first) * ROW}px`, height: `${ROW}px` }}
                >
                  <div class="grid-number" role="rowheader" style={{ width: `${gutter}px` }}>{count(row + 1)}</div>
                  {shown.map((column) => {
                    const text = rows.text(row, column);
                    const isCut = text && rows.cutBytes(row, column) !== undefined;
                    const type = rows.columns[column].type;
                    const classes = ["grid-cell"];
                    if (text === null) classes.push("null");
                    if (text === undefined) classes.push("loading");
                    if (isNumeric(type)) classes.push("number");
                    if (isSelected(index, column)) classes.push("selected");
                    if (index === cursor.row && column === cursor.column) classes.push("active");
                    return (
                      <div
                        key={column} id={`c${index}-${column}`} role="gridcell" aria-colindex={column + 1}
                        aria-selected={isSelected(index, column)} class={classes.join(" ")}
                        style={{ left: `${lefts[column]}px`, width: `${widths[column]}px` }}
                        onPointerDown={(event) => event.button === 0 && moveTo(index, column, event.shiftKey)}
                        onPointerEnter={(event) => event.buttons === 1 && moveTo(index, column, true)}
                        onDblClick={() => setDetail({ row, column })}
                      >
                        {text === null ? "NULL" : text === undefined ? "…" : <bdi>{visible(text, 240)}</bdi>}
                        {isCut && <b class="cut">cut</b>}
                      </div>
                    );
                  })}
                </div>
              );
            })}
          </div>
        </div>
      </div>
      {isOrdered && (
        <p class="grid-note">
          {order ? `${count(total)} of ${count(rows.count)} rows that have arrived` : "Sorting…"}{" "}
          <button class="quiet" onClick={() => { setSort(null); setFilters(new Map()); }}>Show all</button>
        </p>
      )}
      {detail && <Detail rows={rows} {...detail} close={() => { setDetail(null); box.current.focus(); }} />}
    </div>
  );
}

/** One cell, as far as the server sent it. */
function Detail({ rows, row, column, close }) {
  const dialog = useRef();
  useLayoutEffect(() => dialog.current.showModal(), []);
  const text = rows.text(row, column);
  const whole = rows.cutBytes(row, column);
  const { name, type } = rows.columns[column];
  let shown = text;
  if (/^jsonb?$/.test(type) && text && whole === undefined) {
    try {
      shown = JSON.stringify(JSON.parse(text), null, 2);
    } catch { /* It is shown as it came. */ }
  }
  return (
    <dialog ref={dialog} onClose={close} class="detail" aria-label="Cell">
      <header>
        <strong><bdi>{visible(name, 80)}</bdi></strong> <small>{type}, row {count(row + 1)}</small>
        <span class="spring" />
        <button onClick={() => copyText(text ?? "")}>Copy</button>
        <button onClick={() => dialog.current.close()}>Close</button>
      </header>
      {whole !== undefined && <p class="note">The value has {size(whole)}. Its beginning is shown; export the result to get all of it.</p>}
      <pre tabIndex={0}>{shown === null ? "NULL" : visibleLines(shown ?? "")}</pre>
    </dialog>
  );
}
