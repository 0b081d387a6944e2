// Copies and files. Rows that have arrived are written here; whole results are exported by the
// server, which runs the statement again.
import { exportRows } from "./api.js";
import { isNumeric } from "./rows.js";

export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Pages without TLS have no clipboard on other machines.
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

function download(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

const csvCell = (text) => {
  if (text === null) return "";
  return text === "" || /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

/** JSON keeps numbers that every reader reads alike; others are texts, as PostgreSQL writes them. */
function jsonValue(text, type) {
  if (text === null) return "null";
  if (type === "boolean") return text === "t" ? "true" : "false";
  if (/^jsonb?$/.test(type)) return text;
  if (isNumeric(type) && /^-?\d+(\.\d+)?(e[+-]?\d+)?$/i.test(text)) return text;
  return JSON.stringify(text);
}

const PART_CHARS = 1 << 20;

/** The rows that have arrived, as CSV or as JSON lines. Returns the number of cells that are cut. */
export async function saveShown(rows, format, name) {
  const { columns } = rows;
  const parts = [];
  let part = format === "csv" ? `${columns.map((column) => csvCell(column.name)).join(",")}\n` : "";
  const keys = columns.map((column) => JSON.stringify(column.name));
  await rows.each((_, cell) => {
    const cells = columns.map((column, number) =>
      format === "csv" ? csvCell(cell(number)) : `${keys[number]}:${jsonValue(cell(number), column.type)}`);
    part += format === "csv" ? `${cells.join(",")}\n` : `{${cells.join(",")}}\n`;
    if (part.length > PART_CHARS) {
      parts.push(new Blob([part]));
      part = "";
    }
  });
  download(new Blob([...parts, part]), `${name}.${format === "csv" ? "csv" : "jsonl"}`);
  return rows.cuts.size;
}

const EXTENSIONS = { csv: "csv", json: "jsonl", arrow: "arrow", parquet: "parquet" };

/** All rows of a statement, which the server runs again. */
export async function saveAll(sql, parameters, format, name) {
  download(await exportRows(sql, parameters, format), `${name}.${EXTENSIONS[format]}`);
}
