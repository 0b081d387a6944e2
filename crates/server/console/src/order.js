// Sorting and filtering of the rows that have arrived.
import { isNumeric } from "./rows.js";

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

/** The numbers of the rows to show, in order; null for all as they came. */
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
    if (sort) {
      const text = cell(sort.column);
      keys.push(text === null || !asNumbers ? text : Number(text));
    }
  }, isStale);
  if (!sort) return Uint32Array.from(numbers);
  const order = Uint32Array.from(numbers, (_, index) => index);
  const sign = sort.descending ? -1 : 1;
  order.sort((a, b) => {
    const [left, right] = [keys[a], keys[b]];
    // Like PostgreSQL: NULLs are last in ascending order, and first in descending order.
    if (left === null || right === null) return sign * ((left === null) - (right === null)) || a - b;
    if (left === right) return a - b;
    // NaN is greater than every number.
    if (left !== left || right !== right) return sign * ((left !== left) - (right !== right)) || a - b;
    return left < right ? -sign : sign;
  });
  return order.map((index) => numbers[index]);
}
