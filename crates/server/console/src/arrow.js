// Reads the record batches of an Arrow IPC stream whose columns are texts (Utf8).
// Buffers stay as they arrived: a cell is decoded when it is shown.

const RECORD_BATCH = 3;
const decoder = new TextDecoder();

/** The place of a table's field in a flatbuffer, or 0 if it is absent. */
function field(view, table, index) {
  const vtable = table - view.getInt32(table, true);
  const slot = 4 + 2 * index;
  if (slot >= view.getUint16(vtable, true)) return 0;
  const offset = view.getUint16(vtable + slot, true);
  return offset && table + offset;
}

const follow = (view, at) => at + view.getUint32(at, true);
const long = (view, at) => Number(view.getBigInt64(at, true));

/** The record batches of whole messages: `[{ rows, bytes }]`, where bytes hold one message each. */
export function messages(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const found = [];
  let at = 0;
  while (at + 8 <= bytes.length) {
    const length = view.getInt32(at + 4, true);
    if (length === 0) break;
    const message = follow(view, at + 8);
    const kind = view.getUint8(field(view, message, 1));
    const size = field(view, message, 3);
    const end = at + 8 + length + (size ? long(view, size) : 0);
    if (kind === RECORD_BATCH) {
      const batch = follow(view, field(view, message, 2));
      const rows = field(view, batch, 0);
      found.push({ rows: rows ? long(view, rows) : 0, bytes: bytes.slice(at, end) });
    }
    at = end;
  }
  return found;
}

/** Reads cells of one message. */
export class Batch {
  constructor(bytes) {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const message = follow(view, 8);
    const batch = follow(view, field(view, message, 2));
    this.bytes = bytes;
    this.view = view;
    this.body = 8 + view.getInt32(4, true);
    const buffers = field(view, batch, 2);
    this.buffers = buffers ? follow(view, buffers) + 4 : 0;
  }

  buffer(number) {
    return this.body + long(this.view, this.buffers + 16 * number);
  }

  /** The text of a cell; null for NULL. */
  text(row, column) {
    const validity = 3 * column;
    const hasNulls = long(this.view, this.buffers + 16 * validity + 8) > 0;
    if (hasNulls) {
      const byte = this.bytes[this.buffer(validity) + (row >> 3)];
      if (!(byte & (1 << (row & 7)))) return null;
    }
    const offsets = this.buffer(validity + 1) + 4 * row;
    const data = this.buffer(validity + 2);
    const from = data + this.view.getInt32(offsets, true);
    const to = data + this.view.getInt32(offsets + 4, true);
    return decoder.decode(this.bytes.subarray(from, to));
  }
}
