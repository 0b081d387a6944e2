// Tabs, saved queries, history and preferences in this browser's storage. Rows are never stored.

const PREFIX = "thalweg.";

export function load(key, fallback) {
  try {
    const text = localStorage.getItem(PREFIX + key);
    return text === null ? fallback : JSON.parse(text);
  } catch {
    return fallback;
  }
}

/** False if the browser refuses: its storage is full, or switched off. */
export function save(key, value) {
  try {
    localStorage.setItem(PREFIX + key, JSON.stringify(value));
    return true;
  } catch {
    return false;
  }
}
