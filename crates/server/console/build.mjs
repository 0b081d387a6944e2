// Bundles the console into dist/: one script and one style, compressed, and the page.
import { build } from "esbuild";
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

const LIMIT_BYTES = 300 * 1024;

mkdirSync("dist", { recursive: true });
const { outputFiles } = await build({
  entryPoints: { app: "src/main.jsx" },
  bundle: true,
  minify: true,
  write: false,
  format: "esm",
  target: ["chrome111", "firefox113", "safari16.4"],
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "inline",
  outdir: "dist",
  absWorkingDir: process.cwd(),
});

let total = 0;
const put = (name, contents) => {
  const compressed = gzipSync(contents, { level: 9 });
  total += compressed.length;
  writeFileSync(`dist/${name}.gz`, compressed);
  console.log(`${name}: ${contents.length} bytes, ${compressed.length} compressed`);
};
for (const file of outputFiles) {
  put(file.path.replace(/.*[/\\]/, ""), Buffer.from(file.contents));
}
put("icon.svg", readFileSync("src/icon.svg"));
copyFileSync("src/index.html", "dist/index.html");
if (total > LIMIT_BYTES) {
  throw new Error(`the console has ${total} bytes, more than the limit of ${LIMIT_BYTES}`);
}
