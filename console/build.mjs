// Builds the page to the folder that is given as the argument: index.html, console.css,
// console.js, and the licenses of the packages in the bundle.
import { build } from "esbuild";
import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";

const out = process.argv[2] ?? "../crates/informer-runtime/src/console/assets";
await mkdir(out, { recursive: true });
await build({
  entryPoints: { console: "src/main.tsx" },
  outdir: out,
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "inline",
  charset: "utf8",
});
await copyFile("src/index.html", `${out}/index.html`);

const license = async (name) => `${name}\n\n${await readFile(`node_modules/${name}/LICENSE`, "utf8")}`;
await writeFile(`${out}/licenses.txt`, (await Promise.all(["preact", "uplot"].map(license))).join("\n\n"));
