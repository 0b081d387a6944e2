// Sorting and filtering of the rows that have arrived.
import { TURN_MS, isNumeric, pause } from "./rows.js";

/** A test of cells for a filter: `text`, `=text`, `!text`, `>5`, `<=5`, `null` or `!null`. */
export function filterOf(text, type) {
  const [, operator, rest] = /^\s*(<=|>=|=|!|<|>)?\s*(.*?)\s*$/s.exec(text);
  if (rest === "" && !operator) return null;
  if (rest.toLowerCase() === "null" && operator !== ">" && operator !== "<") {
    return operator === "!" ? (cell) => cell !== null : (cell) => cell === null;
  }
  const number = Number(rest);
  const asNumbers = isNumeric(type) && rest !== "" && !Number.isNaN(number);
  const key = asNumbers ? Number : (cell) => cell.toLowerCase();
  const wanted = asNumbers ? number : rest.toLowerCase();
  const test = {
    "=": (cell) => key(cell) === wanted,
    "<": (cell) => key(cell) < wanted,
    ">": (cell) => key(cell) > wanted,
    "<=": (cell) => key(cell) <= wanted,
    ">=": (cell) => key(cell) >= wanted,
    "!": (cell) => !cell.toLowerCase().includes(rest.toLowerCase()),
  }[operator] ?? ((cell) => cell.toLowerCase().includes(rest.toLowerCase()));
  return (cell) => cell !== null && test(cell);
}

/** Texts that are sorted here; more would fill the browser's memory. */
const SORTED_TEXTS_MAX = 2_000_000;

/**
 * The numbers of the rows to show, in order; null for all as they came.
 * Throws a RangeError if a column has too many texts to sort.
 */
export async function ordered(rows, sort, filters, isStale) {
  const tests = [...filters].map(([column, text]) => [column, filterOf(text, rows.columns[column].type)]);
  const active = tests.filter(([, test]) => test);
  if (!sort && active.length === 0) return null;
  const numbers = [];
  const keys = [];
  const asNumbers = sort && isNumeric(rows.columns[sort.column].type);
  await rows.each((row, cell) => {
    if (!active.every(([column, test]) => test(cell(column)))) return;
    numbers.push(row);
    if (sort && !asNumbers && numbers.length > SORTED_TEXTS_MAX) {
      throw new RangeError("More than 2 million texts are not sorted here: use ORDER BY, or filter first.");
    }
    if (sort) {
      const text = cell(sort.column);
      keys.push(text === null || !asNumbers ? text : Number(text));
    }
  }, isStale);
  if (!sort) return Uint32Array.from(numbers);
  const order = Uint32Array.from(numbers, (_, index) => index);
  const sorted = await inOrder(order, comparison(keys, sort.descending ? -1 : 1), isStale);
  return sorted.map((index) => numbers[index]);
}

/** Compares rows by their keys, and equal ones by their place. */
function comparison(keys, sign) {
  return (a, b) => {
    const [left, right] = [keys[a], keys[b]];
    // Like PostgreSQL: NULLs are last in ascending order, and first in descending order.
    if (left === null || right === null) return sign * ((left === null) - (right === null)) || a - b;
    if (left === right) return a - b;
    // NaN is greater than every number.
    if (left !== left || right !== right) return sign * ((left !== left) - (right !== right)) || a - b;
    return left < right ? -sign : sign;
  };
}

const RUN = 1 << 15;

/** Sorts runs and merges them, in turns, so that the page stays usable. */
async function inOrder(order, compare, isStale) {
  let began = performance.now();
  const turn = async () => {
    if (performance.now() - began < TURN_MS) return;
    await pause();
    began = performance.now();
  };
  for (let from = 0; from < order.length && !isStale(); from += RUN) {
    order.subarray(from, from + RUN).sort(compare);
    await turn();
  }
  let [from, to] = [order, new Uint32Array(order.length)];
  for (let length = RUN; length < order.length && !isStale(); length *= 2) {
    for (let start = 0; start < order.length; start += 2 * length) {
      let left = start;
      let right = Math.min(start + length, order.length);
      const [middle, end] = [right, Math.min(start + 2 * length, order.length)];
      for (let at = start; at < end; at++) {
        const takesLeft = left < middle && (right >= end || compare(from[left], from[right]) <= 0);
        to[at] = takesLeft ? from[left++] : from[right++];
        if ((at & 0x3fff) === 0) await turn();
      }
    }
    [from, to] = [to, from];
  }
  return from;
}
