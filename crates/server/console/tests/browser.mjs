// Tests of the console in headless Chromium, with pictures of its main views in `pictures/`.
// THALWEG_PROGRAM names the server, THALWEG_BROWSER the browser. `cargo xtask console --test`
// sets both.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import axe from "axe-core";
import { chromium } from "playwright-core";

const PICTURES = process.env.THALWEG_PICTURES ?? "pictures";
const LIMIT = 30_000;

const freePort = () => new Promise((resolve) => {
  const server = createServer().listen(0, "127.0.0.1", () => {
    const { port } = server.address();
    server.close(() => resolve(port));
  });
});

/** A server of its own, in memory. */
class Server {
  static async start(ports, settings = []) {
    const server = new Server();
    server.ports = ports ?? [await freePort(), await freePort(), await freePort()];
    server.settings = settings;
    await server.begin();
    return server;
  }

  get url() {
    return `http://127.0.0.1:${this.ports[2]}`;
  }

  async begin() {
    const [postgres, grpc, http] = this.ports.map(String);
    const words = ["serve", "--postgres-port", postgres, "--grpc-port", grpc, "--http-port", http, ...this.settings];
    this.printed = "";
    this.child = spawn(process.env.THALWEG_PROGRAM, words, { stdio: ["ignore", "pipe", "pipe"] });
    for (const stream of [this.child.stdout, this.child.stderr]) {
      stream.on("data", (data) => (this.printed += data));
    }
    const deadline = Date.now() + LIMIT;
    while (Date.now() < deadline) {
      const ready = await fetch(`${this.url}/health/ready`).then((answer) => answer.ok, () => false);
      if (ready) return;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    throw new Error(`the server did not start: ${this.printed}`);
  }

  end() {
    return new Promise((resolve) => {
      this.child.once("exit", resolve);
      this.child.kill("SIGKILL");
    });
  }
}

const profile = mkdtempSync(join(tmpdir(), "thalweg-console-"));
mkdirSync(PICTURES, { recursive: true });
const context = await chromium.launchPersistentContext(profile, {
  executablePath: process.env.THALWEG_BROWSER,
  headless: true,
  viewport: { width: 1280, height: 800 },
  reducedMotion: "reduce",
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
const server = await Server.start();
const page = await context.newPage();
page.setDefaultTimeout(LIMIT);
const faults = [];
let isAway = false;
/** The servers that the page may send requests to. */
const own = [server.url];
page.on("request", (request) => {
  const url = request.url();
  const isOwn = own.some((server) => url.startsWith(`${server}/`)) || /^(data|blob):/.test(url);
  if (!isOwn) faults.push(`a request to ${url}`);
});
page.on("console", (message) => {
  // The browser reports refused log-ins and a server that is away.
  const isExpected = isAway || /status of 401|ERR_CONNECTION/.test(message.text());
  if (message.type() === "error" && !isExpected) faults.push(message.text());
});
page.on("pageerror", (error) => faults.push(String(error.stack ?? error)));

// THALWEG_DIST names built files that are used in place of the server's: for work on the page.
if (process.env.THALWEG_DIST) {
  for (const [name, type] of [["app.js", "text/javascript"], ["app.css", "text/css"]]) {
    const [stem, ending] = name.split(".");
    const body = gunzipSync(readFileSync(join(process.env.THALWEG_DIST, `${name}.gz`)));
    const answer = (route) => route.fulfill({ body, contentType: type });
    await context.route(new RegExp(`/console/assets/${stem}\\.\\w+\\.${ending}$`), answer);
  }
}

/** Violations of WCAG 2.1 AA, as axe finds them. */
async function violations() {
  await page.evaluate(axe.source);
  const found = await page.evaluate(() => globalThis.axe.run(document, {
    runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"],
  }));
  return found.violations.flatMap(({ id, nodes }) =>
    nodes.map(({ html, any }) => `${id}: ${html.slice(0, 160)} ${any[0]?.message ?? ""}`));
}

const modifier = process.platform === "darwin" ? "Meta" : "Control";
const editor = () => page.locator(".editor .cm-content");
async function write(sql) {
  await editor().focus();
  // Chromium styles a text that replaces a selection, which the page's policy refuses.
  await page.keyboard.press(`${modifier}+a`);
  await page.keyboard.press("Delete");
  await page.keyboard.insertText(sql);
}
async function run(sql) {
  await write(sql);
  await page.keyboard.press(`${modifier}+Enter`);
  await page.locator(".toolbar .primary:not(.stop)").waitFor();
}
const cell = (row, column) => page.locator(`#c${row}-${column}`);
// Playwright hides the caret with a style that the page's policy forbids, so it stays.
const picture = (name) => page.screenshot({ path: join(PICTURES, `${name}.png`), caret: "initial" });

const tests = [];
const test = (name, body) => tests.push({ name, body });

test("a page without a password opens at once and runs statements", async () => {
  await page.goto(server.url);
  assert.equal(page.url(), `${server.url}/console/#query`);
  await run("SELECT 1 AS one, NULL AS nothing, 'a' AS text");
  assert.equal(await cell(0, 0).textContent(), "1");
  assert.equal(await cell(0, 1).textContent(), "NULL");
});

test("several statements give several results", async () => {
  await run(`CREATE TABLE trades (id bigint PRIMARY KEY, symbol text NOT NULL, price numeric(12,2), at timestamptz, note text);
INSERT INTO trades SELECT i, 'S' || i % 40, (i % 997) / 7.0, timestamptz '2026-01-05 09:00:00+00' + i * interval '1 second', repeat('x', (i % 9)::int) FROM generate_series(1, 50000) AS g(i);
SELECT id, symbol, price, at, note FROM trades ORDER BY id`);
  const titles = await page.locator(".result-tabs button").allTextContents();
  assert.equal(titles.length, 3);
  await page.locator(".result-tabs button").nth(2).click();
  assert.equal(await cell(0, 1).textContent(), "S1");
  assert.equal(await cell(0, 3).textContent(), "2026-01-05 09:00:01+00");
  await page.locator("button[aria-label='Read the catalog again']").click();
  await page.locator(".tree .name", { hasText: "trades" }).waitFor();
  await picture("query-light");
});

test("an error is shown with its place marked", async () => {
  await run("SELECT 1;\nSELECT 'é', wrong FROM trades");
  assert.match(await page.locator(".failure").textContent(), /42703.*wrong/s);
  assert.equal(await page.locator(".editor .cm-error").textContent(), "wrong");
  await picture("error");
});

test("parameters have fields", async () => {
  await write("SELECT $1::int + 1 AS n, $2::text AS t");
  await page.locator(".parameter input").nth(0).fill("41");
  await page.locator(".parameter button").nth(1).click();
  await editor().focus();
  await page.keyboard.press(`${modifier}+Enter`);
  await page.waitForFunction(() => document.querySelector("#c0-0")?.textContent === "42");
  assert.equal(await cell(0, 1).textContent(), "NULL");
});

const ENDLESS = "SELECT count(*) FROM generate_series(1, 10000000) AS a(i), generate_series(1, 10000000) AS b(i)";

test("Escape cancels", async () => {
  await write(ENDLESS);
  await page.keyboard.press(`${modifier}+Enter`);
  await page.locator(".stop").waitFor();
  await page.waitForTimeout(300);
  await page.keyboard.press("Escape");
  await page.locator(".failure").waitFor();
  assert.match(await page.locator(".failure").textContent(), /57014/);
});

test("millions of rows scroll, sort and filter in a bounded window", async () => {
  await page.locator("select[aria-label='Maximum rows of a result']").selectOption("10000000");
  await run("SELECT i, i % 7 AS seven, 'text ' || i AS t FROM generate_series(1, 2000000) AS g(i)");
  await cell(0, 0).waitFor();
  await page.waitForFunction(() => document.querySelector(".result-bar .soft")?.textContent.includes("2\u202f000\u202f000 rows"));
  await page.locator(".grid").focus();
  await page.keyboard.press(`${modifier}+End`);
  await page.waitForFunction(() => document.querySelector("#c1999999-2")?.textContent === "text 2000000");
  assert.ok(await page.locator(".grid-cell").count() < 2000);
  await page.keyboard.press(`${modifier}+Home`);
  await page.waitForFunction(() => document.querySelector("#c0-0")?.textContent === "1");
  await page.locator(".grid").evaluate((grid) => { grid.scrollTop = grid.scrollHeight / 2; });
  await page.waitForFunction(() => {
    const first = Number(document.querySelector(".grid-cell")?.textContent);
    return first > 900_000 && first < 1_100_000;
  });
  await page.locator("select[aria-label='Maximum rows of a result']").selectOption("100000");
  await run("SELECT id, symbol, price FROM trades ORDER BY id");
  await page.locator(".grid-sort").nth(2).click();
  await page.locator(".grid-sort").nth(2).click();
  await page.waitForFunction(() => document.querySelector("#c0-2")?.textContent === "142.29");
  await page.locator(".grid-corner button").click();
  await page.locator(".grid-filter").nth(1).fill("=S7");
  await page.waitForFunction(() => document.querySelector(".grid-note")?.textContent.startsWith("1\u202f250 of"));
  assert.equal(await cell(0, 1).textContent(), "S7");
});

test("hostile values are texts", async () => {
  await run(`SELECT '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>' AS "<b>name</b>",
  'abc' || chr(8238) || 'txt.exe' AS bidi, chr(1) || chr(27) || '[31m' AS control, repeat('x', 3000000) AS long,
  repeat(chr(777) || 'a', 400) AS marks, E'two\\nlines' AS lines`);
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  assert.match(await cell(0, 0).textContent(), /^<img src=x/);
  assert.match(await cell(0, 1).textContent(), /⟨U\+202E⟩/);
  assert.match(await cell(0, 2).textContent(), /^⟨U\+0001⟩⟨U\+001B⟩\[31m/);
  assert.match(await cell(0, 3).textContent(), /cut$/);
  assert.match(await page.locator(".grid-sort").first().textContent(), /<b>name<\/b>/);
  await picture("hostile");
  await page.locator(".grid").focus();
  await page.keyboard.press("Enter");
  await page.locator("dialog.detail").waitFor();
  await page.keyboard.press("Escape");
});

test("wide results show a window of their columns", async () => {
  const wide = (columns) => `SELECT ${Array.from({ length: columns }, (_, number) =>
    `i + ${number} AS c${number}`).join(", ")} FROM generate_series(1, 100) AS g(i)`;
  await run(wide(5000));
  assert.match(await page.locator(".failure").textContent(), /54011/);
  await run(wide(1664));
  await cell(0, 0).waitFor();
  assert.ok(await page.locator(".grid-cell").count() < 3000);
  await page.locator(".grid").focus();
  await page.keyboard.press(`${modifier}+ArrowRight`);
  await page.waitForFunction(() => document.querySelector("#c0-1663")?.textContent === "1664");
});

test("a cell of 100 MB is shown by its beginning", async () => {
  await run("SELECT 1 AS n, repeat('0123456789', 10000000) AS large");
  assert.match(await cell(0, 1).textContent(), /^0123456789.*cut$/);
  await page.locator(".grid").focus();
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("Enter");
  await page.locator("dialog.detail[open]").waitFor();
  assert.match(await page.locator("dialog.detail .note").textContent(), /100 MB/);
  await page.keyboard.press("Escape");
  await page.locator("dialog.detail").waitFor({ state: "detached" });
});

test("a text of 100 MB is refused, and a long one can be edited", async () => {
  await write("SELECT 1");
  const paste = (bytes) => editor().evaluate((content, bytes) => {
    const clipboardData = new DataTransfer();
    clipboardData.setData("text/plain", "-- a comment\n".repeat(bytes / 13));
    content.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
  }, bytes);
  await paste(100 << 20);
  await page.locator(".announcement", { hasText: "at most 4\u202f000\u202f000 characters" }).waitFor();
  assert.equal(await editor().textContent(), "SELECT 1");
  await page.keyboard.press("Enter");
  await paste(3_900_000);
  await page.keyboard.press(`${modifier}+Home`);
  await page.keyboard.insertText("SELECT 7 AS seven;");
  await page.keyboard.press(`${modifier}+Enter`);
  await page.locator(".toolbar .primary:not(.stop)").waitFor();
  await page.waitForFunction(() => document.querySelector("#c0-0")?.textContent === "7");
  await run("SELECT 8 AS eight");
  assert.equal(await cell(0, 0).textContent(), "8");
});

test("a plan is a tree with times", async () => {
  await write("SELECT symbol, count(*), avg(price) FROM trades WHERE id > 100 GROUP BY symbol ORDER BY 2 DESC");
  await page.locator(".toolbar button", { hasText: "Analyze" }).click();
  await page.locator(".plan-node").first().waitFor();
  assert.ok(await page.locator(".plan-node").count() > 1);
  assert.ok(await page.locator(".plan-time meter").count() > 1);
  await picture("plan");
});

test("a result is drawn", async () => {
  await run("SELECT symbol, count(*) AS trades, avg(price) AS average FROM trades GROUP BY symbol ORDER BY symbol LIMIT 25");
  await page.locator(".forms button", { hasText: "Chart" }).click();
  await page.locator(".plot canvas").waitFor();
  await picture("chart");
  await page.locator(".chart-bar select").nth(2).selectOption("1");
  for (let number = 0; number < 3; number++) {
    await page.waitForRequest((request) => request.url().endsWith("/api/run"));
  }
  await page.locator(".chart-bar select").nth(2).selectOption("0");
  await page.locator(".plot canvas").waitFor();
});

test("results are exported", async () => {
  await run("SELECT 1 AS a, 'x,y' AS b");
  for (const [choice, ending] of [["shown csv", ".csv"], ["all parquet", ".parquet"]]) {
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      page.locator(".export").selectOption(choice),
    ]);
    assert.ok(download.suggestedFilename().endsWith(ending));
  }
});

test("nothing offers to run a change again", async () => {
  await page.locator("select[aria-label='Maximum rows of a result']").selectOption("1000");
  await run("CREATE TABLE changes (n int PRIMARY KEY)");
  const parts = () => page.locator(".export optgroup").count();
  const loads = () => page.locator(".result-bar button", { hasText: "Load all" }).count();
  await run("INSERT INTO changes SELECT i FROM generate_series(1, 5000) AS g(i) RETURNING n");
  assert.match(await page.locator(".result-bar .soft").textContent(), /first 1\u202f000 rows/);
  assert.deepEqual([await parts(), await loads()], [1, 0]);
  await run("SELECT n FROM changes");
  assert.deepEqual([await parts(), await loads()], [2, 1]);
  await page.locator(".result-bar button", { hasText: "Load all" }).click();
  await page.locator(".result-bar .soft", { hasText: "5\u202f000 rows" }).waitFor();
  await run("SELECT n FROM changes; SELECT n FROM changes");
  assert.deepEqual([await parts(), await loads()], [1, 0]);
  await page.locator("select[aria-label='Maximum rows of a result']").selectOption("100000");
});

test("the live view shows counters, tables and statements", async () => {
  await page.locator(".bar nav button", { hasText: "Live" }).click();
  await page.locator("td", { hasText: "trades" }).waitFor();
  await page.waitForTimeout(3200);
  await picture("live-light");
  await page.emulateMedia({ colorScheme: "dark" });
  await picture("live-dark");
});

test("the live view cancels a statement", async () => {
  await page.locator(".bar nav button", { hasText: "Query" }).click();
  await write(ENDLESS);
  await page.keyboard.press(`${modifier}+Enter`);
  await page.locator(".stop").waitFor();
  await page.locator(".bar nav button", { hasText: "Live" }).click();
  const running = page.locator("tr", { hasText: "AS a(i)" });
  await running.waitFor();
  assert.match(await running.textContent(), /thalweg console.*active/);
  await running.getByRole("button", { name: "Cancel" }).click();
  await running.waitFor({ state: "detached" });
  await page.locator(".bar nav button", { hasText: "Query" }).click();
  assert.match(await page.locator(".failure").textContent(), /57014/);
});

test("the page is dark, narrow and very wide", async () => {
  await page.locator(".bar nav button", { hasText: "Query" }).click();
  await run("SELECT id, symbol, price, at, note FROM trades ORDER BY id");
  await cell(0, 0).waitFor();
  await picture("query-dark");
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize({ width: 360, height: 740 });
  await page.locator(".bar button[aria-label='Side bar']").click();
  const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  assert.ok(overflow <= 0, `the page is ${overflow} pixels too wide`);
  await picture("query-360");
  await page.locator(".bar nav button", { hasText: "Live" }).click();
  await page.waitForTimeout(500);
  await picture("live-360");
  await page.locator(".bar nav button", { hasText: "Query" }).click();
  await page.setViewportSize({ width: 3840, height: 2160 });
  await page.locator(".bar button[aria-label='Side bar']").click();
  await page.waitForTimeout(300);
  await picture("query-4k");
  await page.setViewportSize({ width: 1280, height: 800 });
});

test("each view is accessible, light and dark", async () => {
  await run("SELECT 1 AS one, NULL AS nothing; SELECT wrong");
  const found = [];
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    for (const view of ["Live", "Query"]) {
      await page.locator(".bar nav button", { hasText: view }).click();
      await page.waitForTimeout(300);
      found.push(...await violations());
    }
    await page.locator(".result-tabs button").first().click();
    await cell(0, 0).waitFor();
    found.push(...await violations());
    await page.locator(".result-tabs button").last().click();
  }
  await page.emulateMedia({ colorScheme: "light" });
  assert.deepEqual([...new Set(found)], []);
});

test("every control has a name", async () => {
  const nameless = await page.evaluate(() =>
    [...document.querySelectorAll("button, input, select")]
      .filter((control) => {
        const name = control.getAttribute("aria-label") || control.textContent.trim() || control.labels?.length;
        return !name;
      })
      .map((control) => control.outerHTML));
  assert.deepEqual(nameless, []);
});

test("tabs come back after a reload", async () => {
  await write("SELECT 'kept in this browser'");
  await page.waitForTimeout(100);
  await page.reload();
  await editor().waitFor();
  assert.match(await editor().textContent(), /kept in this browser/);
});

test("a server that goes away is named, and comes back", async () => {
  isAway = true;
  await server.end();
  await write("SELECT 1");
  await page.keyboard.press(`${modifier}+Enter`);
  await page.locator(".away").waitFor();
  await picture("away");
  await server.begin();
  await page.locator(".away").waitFor({ state: "detached" });
  isAway = false;
  await run("SELECT 2 AS two");
  assert.equal(await cell(0, 0).textContent(), "2");
});

test("roles log in where the server wants passwords", async () => {
  const guarded = await Server.start(null, ["--config", join(import.meta.dirname, "passwords.toml")]);
  const password = /password[^\n]*?\b([a-z2-9]{24})\b/i.exec(guarded.printed)?.[1];
  assert.ok(password, guarded.printed);
  own.push(guarded.url);
  await page.goto(guarded.url);
  await page.locator("input[name=username]").fill("thalweg");
  await page.locator("input[name=password]").fill("wrong");
  await page.keyboard.press("Enter");
  await page.locator(".login [role=alert]").waitFor();
  await picture("login");
  await page.locator("input[name=password]").fill(password);
  await page.keyboard.press("Enter");
  await editor().waitFor();
  const [cookie] = (await context.cookies(guarded.url)).filter(({ name }) => name.includes(`${guarded.ports[2]}`));
  assert.ok(cookie.httpOnly && cookie.sameSite === "Strict");
  await run("SELECT current_user");
  assert.equal(await cell(0, 0).textContent(), "thalweg");
  await page.locator(".bar button", { hasText: "Log out" }).click();
  await page.locator("input[name=username]").waitFor();
  await guarded.end();
});

let failed = 0;
const only = process.argv[2];
for (const { name, body } of tests.filter(({ name }) => !only || name.includes(only))) {
  const before = faults.length;
  try {
    await body();
    assert.deepEqual(faults.slice(before), []);
    console.log(`ok    ${name}`);
  } catch (error) {
    failed++;
    console.log(`FAIL  ${name}\n${String(error.stack).split("\n").filter((line) => !/waiting|element|scroll|retrying/.test(line)).slice(0, 12).join("\n")}`);
    await picture(`failed-${failed}`);
    await page.setViewportSize({ width: 1280, height: 800 });
  }
}
await context.close();
await server.end();
rmSync(profile, { recursive: true, force: true });
console.log(`${tests.length - failed} of ${tests.length} passed`);
process.exit(failed ? 1 : 0);
