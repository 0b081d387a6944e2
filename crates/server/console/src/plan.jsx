// A plan as a tree, with the time and the rows of each node.
import { count, duration, size, visible } from "./text.js";

/** The plan of a result of `EXPLAIN (FORMAT JSON)`, or null. The last one is the physical plan. */
export function planOf(rows) {
  const column = rows.columns.findIndex(({ name }) => name === "plan" || name === "QUERY PLAN");
  if (column < 0) return null;
  for (let row = rows.count - 1; row >= 0; row--) {
    try {
      const found = JSON.parse(rows.text(row, column));
      const plan = (Array.isArray(found) ? found[0] : found)?.Plan;
      if (plan) return plan;
    } catch { /* It is a plan as text. */ }
  }
  return null;
}

const DEPTH_MAX = 200;

function flat(node, depth, into) {
  into.push({ node, depth });
  if (depth < DEPTH_MAX) (node.Plans ?? []).forEach((child) => flat(child, depth + 1, into));
  return into;
}

/** Time that a node took; scans count theirs apart. */
function timeOf(node) {
  const extras = node.Extras ?? {};
  const times = [node["Actual Total Time"], extras.scan_time, extras.join_time, extras.build_time];
  const found = times.filter((time) => typeof time === "number");
  return found.length ? found.reduce((sum, time) => sum + time, 0) : undefined;
}

const readable = (key, value) => {
  if (/bytes$/.test(key)) return size(value);
  if (/time$/.test(key) && typeof value === "number") return duration(value);
  return typeof value === "number" ? count(value) : String(value);
};

export function Plan({ plan }) {
  const nodes = flat(plan, 0, []);
  const times = nodes.map(({ node }) => timeOf(node));
  const longest = Math.max(0, ...times.filter(Number.isFinite));
  const isMeasured = longest > 0;
  return (
    <div class="plan" role="tree" aria-label="Plan" tabIndex={0}>
      <div class="plan-head" aria-hidden="true">
        <span>Operator</span>{isMeasured && <><span>Rows</span><span>Time</span></>}
      </div>
      {nodes.map(({ node, depth }, number) => {
        const details = String(node.Details ?? (node.Expressions ?? []).join(", ") ?? "");
        const type = String(node["Node Type"]);
        const rest = details.startsWith(type) ? details.slice(type.length).replace(/^:\s*/, "") : details;
        const extras = Object.entries(node.Extras ?? {}).filter(([, value]) => value !== 0);
        const share = isMeasured ? (times[number] ?? 0) / longest : 0;
        return (
          <div key={number} class="plan-node" role="treeitem" aria-level={depth + 1} aria-expanded={node.Plans?.length ? true : undefined}>
            <div class="plan-what" style={{ paddingInlineStart: `${depth * 18}px` }}>
              <strong>{visible(type, 80)}</strong>
              {rest && <span class="plan-detail">{visible(rest, 1200)}</span>}
              {extras.length > 0 && (
                <span class="plan-extras">
                  {extras.map(([key, value]) => `${key} ${readable(key, value)}`).join("   ")}
                </span>
              )}
            </div>
            {isMeasured && (
              <>
                <div class="plan-number">{node["Actual Rows"] === undefined ? "" : count(node["Actual Rows"])}</div>
                <div class="plan-number plan-time">
                  <meter min={0} max={1} value={share} aria-label="Share of the longest time" />
                  {times[number] === undefined ? "" : duration(times[number])}
                </div>
              </>
            )}
          </div>
        );
      })}
    </div>
  );
}
