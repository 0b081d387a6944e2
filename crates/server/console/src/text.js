// Texts of strangers, made safe to look at.

// Control characters, and those that are invisible or change the direction of what follows.
const HIDDEN =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

const SIGNS = { "\n": "↵", "\t": "⇥" };

function sign(character) {
  const code = character.charCodeAt(0).toString(16).toUpperCase();
  return SIGNS[character] ?? `⟨U+${code.padStart(4, "0")}⟩`;
}

/** A text with a visible sign for every hidden character, of at most `charsMax` characters. */
export function visible(text, charsMax = 400) {
  const isLong = text.length > charsMax;
  const shown = (isLong ? text.slice(0, charsMax) : text).replace(HIDDEN, sign);
  return isLong ? `${shown}…` : shown;
}

/** Like `visible`, but lines stay lines. */
export const visibleLines = (text) =>
  text.split("\n").map((line) => visible(line.replace(/\r$/, ""), 20000)).join("\n");

const UNITS = ["B", "kB", "MB", "GB", "TB"];
export function size(bytes) {
  let [value, unit] = [Number(bytes) || 0, 0];
  while (value >= 1000 && unit < UNITS.length - 1) {
    value /= 1000;
    unit++;
  }
  return `${unit && value < 100 ? value.toFixed(1) : Math.round(value)} ${UNITS[unit]}`;
}

export function duration(milliseconds) {
  if (!Number.isFinite(milliseconds)) return "";
  if (milliseconds < 1) return `${Math.round(milliseconds * 1000)} µs`;
  if (milliseconds < 1000) return `${milliseconds.toFixed(milliseconds < 10 ? 2 : 0)} ms`;
  const seconds = milliseconds / 1000;
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 2 : 1)} s`;
  return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
}

export const count = (number) => Number(number).toLocaleString("en-US").replaceAll(",", "\u202f");

/** A name as SQL writes it. */
export const quoted = (name) =>
  /^[a-z_][a-z0-9_$]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`;
