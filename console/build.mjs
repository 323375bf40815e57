// Builds two pages to the folders that are given as the arguments: the console of informer-runtime, and the
// page of the embedded API server. Each has an HTML file, a style sheet, a script, and the licenses of the
// packages in the script.
import { build } from "esbuild";
import { mkdir, readFile, writeFile } from "node:fs/promises";

const [console_ = "../crates/informer-runtime/src/console/assets", server = "../crates/informer-apiserver/src/http/web_ui/assets"] =
  process.argv.slice(2);

async function page(out, name, source, packages, { title, data }) {
  await mkdir(out, { recursive: true });
  await build({
    entryPoints: { [name]: `${source}/main.tsx` },
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
  const html = await readFile("src/index.html", "utf8");
  await writeFile(`${out}/index.html`, html.replaceAll("{name}", name).replace("{title}", title).replace("{data}", data));
  const license = async (used) => `${used}\n\n${await readFile(`node_modules/${used}/LICENSE`, "utf8")}`;
  await writeFile(`${out}/licenses.txt`, (await Promise.all(packages.map(license))).join("\n\n"));
}

await page(console_, "console", "src", ["preact", "uplot", "js-yaml", "diff"], { title: "informer console", data: "v1/snapshot" });
await page(server, "server", "src/server", ["preact"], { title: "informer API server", data: "v1/state" });
