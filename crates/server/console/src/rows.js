// The rows of one result. Recent batches are in memory; older ones become blobs, which the browser
// may move to its disk. So millions of rows can be scrolled in a bounded window of memory.
import { signal } from "@preact/signals";
import { Batch, messages } from "./arrow.js";

const WINDOW_BYTES = 48 << 20;
/** A result beyond this size is stopped. */
export const RESULT_BYTES_MAX = 1 << 30;

/** Work that takes longer lets the page react in between. */
export const TURN_MS = 40;
export const pause = () => new Promise((resolve) => setTimeout(resolve));

export class Rows {
  constructor(columns) {
    this.columns = columns;
    this.batches = [];
    this.count = 0;
    this.bytes = 0;
    this.windowBytes = 0;
    this.cuts = new Map();
    /** Changes when rows arrive or come back from a blob. */
    this.version = signal(0);
  }

  append(bytes) {
    for (const message of messages(bytes)) {
      const batch = { start: this.count, rows: message.rows, size: message.bytes.length };
      batch.data = new Batch(message.bytes);
      batch.used = performance.now();
      this.batches.push(batch);
      this.count += batch.rows;
      this.bytes += batch.size;
      this.windowBytes += batch.size;
    }
    this.shrink();
    this.version.value++;
  }

  cut(cells) {
    for (const [row, column, bytes] of cells) this.cuts.set(row * this.columns.length + column, bytes);
  }

  /** The whole length of a cell that the server cut, in bytes. */
  cutBytes(row, column) {
    return this.cuts.size ? this.cuts.get(row * this.columns.length + column) : undefined;
  }

  /** Moves the batches that were used longest ago out of memory. */
  shrink() {
    if (this.windowBytes <= WINDOW_BYTES) return;
    const loaded = this.batches.filter((batch) => batch.data).sort((a, b) => a.used - b.used);
    for (const batch of loaded) {
      if (this.windowBytes <= WINDOW_BYTES / 2) break;
      batch.blob ??= new Blob([batch.data.bytes]);
      batch.data = null;
      this.windowBytes -= batch.size;
    }
  }

  find(row) {
    let [low, high] = [0, this.batches.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.batches[middle].start <= row) low = middle;
      else high = middle - 1;
    }
    return this.batches[low];
  }

  /** The text of a cell; null for NULL, undefined while its batch is being loaded. */
  text(row, column) {
    const batch = this.find(row);
    if (!batch) return undefined;
    if (!batch.data) {
      this.load(batch);
      return undefined;
    }
    batch.used = performance.now();
    return batch.data.text(row - batch.start, column);
  }

  async load(batch) {
    if (batch.data) return batch.data;
    batch.loading ??= batch.blob.arrayBuffer().then((buffer) => {
      batch.data = new Batch(new Uint8Array(buffer));
      batch.used = performance.now();
      batch.loading = null;
      this.windowBytes += batch.size;
      this.shrink();
      this.version.value++;
      return batch.data;
    });
    return batch.loading;
  }

  /**
   * Calls back with each row's number and a reader of its cells, in order. Between batches the page
   * reacts to its user.
   */
  async each(visit, until = () => false) {
    let began = performance.now();
    for (const batch of this.batches) {
      if (performance.now() - began > TURN_MS) {
        await pause();
        began = performance.now();
      }
      const data = batch.data ?? (await this.load(batch)) ?? batch.data;
      for (let row = 0; row < batch.rows; row++) {
        if (until()) return;
        visit(batch.start + row, (column) => data.text(row, column));
      }
    }
  }
}

/** Types whose values are compared and drawn as numbers. */
const NUMBERS = /^(smallint|integer|bigint|real|double precision|numeric|decimal|oid)\b/;
export const isNumeric = (type) => NUMBERS.test(type) && !type.endsWith("[]");
export const isTime = (type) => /^(timestamp|date)/.test(type) && !type.endsWith("[]");
