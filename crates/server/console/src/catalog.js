// The catalog: schemas, tables with their sizes, and columns, for the tree and for completion.
import { signal } from "@preact/signals";
import { query } from "./api.js";
import { quoted } from "./text.js";

export const catalog = signal({ schemas: [], completion: {}, failure: null, isLoading: false });

const TABLES = `SELECT n.nspname AS schema, c.relname AS name, c.relkind::text AS kind,
  c.oid::text AS oid, c.reltuples::bigint AS rows, pg_total_relation_size(c.oid) AS bytes
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  WHERE c.relkind IN ('r', 'v', 'm', 'p', 'S') ORDER BY 1, 2`;

const COLUMNS = `SELECT a.attrelid::text AS oid, a.attname AS name, a.attnotnull AS required,
  format_type(a.atttypid, a.atttypmod) AS type
  FROM pg_catalog.pg_attribute a WHERE a.attnum > 0 AND NOT a.attisdropped
  ORDER BY a.attrelid, a.attnum`;

const SYSTEM = new Set(["pg_catalog", "information_schema"]);

export async function loadCatalog() {
  catalog.value = { ...catalog.value, isLoading: true };
  try {
    const [tables, columns] = await Promise.all([query(TABLES), query(COLUMNS, { rowsMax: 100000 })]);
    const byTable = Map.groupBy ? Map.groupBy(columns, (column) => column.oid) : grouped(columns);
    const schemas = new Map();
    const completion = {};
    for (const table of tables) {
      table.columns = byTable.get(table.oid) ?? [];
      if (!schemas.has(table.schema)) schemas.set(table.schema, { name: table.schema, tables: [] });
      schemas.get(table.schema).tables.push(table);
      completion[table.schema] ??= {};
      completion[table.schema][table.name] = table.columns.map((column) => column.name);
    }
    const all = [...schemas.values()];
    all.sort((a, b) => SYSTEM.has(a.name) - SYSTEM.has(b.name) || a.name.localeCompare(b.name));
    all.forEach((schema) => (schema.isSystem = SYSTEM.has(schema.name)));
    catalog.value = { schemas: all, completion, failure: null, isLoading: false };
  } catch (failure) {
    catalog.value = { ...catalog.value, failure, isLoading: false };
  }
}

function grouped(columns) {
  const found = new Map();
  for (const column of columns) {
    if (!found.has(column.oid)) found.set(column.oid, []);
    found.get(column.oid).push(column);
  }
  return found;
}

export const fullName = (table) =>
  table.schema === "public" || table.schema === "pg_catalog"
    ? quoted(table.name)
    : `${quoted(table.schema)}.${quoted(table.name)}`;
