// Tests of the web UI of the embedded API server with `informer serve --web-ui`.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { after, before, test } from "node:test";
import { AxeBuilder } from "@axe-core/playwright";
import { launch, open } from "./browser.mjs";

const HOSTILE = "<img src=x onerror=alert(1)>";
const VIEWS = ["requests", "watches", "faults", "objects", "versions"];

let browser;
before(async () => { browser = await launch(); });
after(() => browser.close());

/** Starts the server. Returns its URL, the URL of its page, and a function that stops it. */
async function start(listen = "127.0.0.1:0") {
  const informer = process.env.INFORMER;
  const serve = ["serve", "--web-ui", "--json", "--listen", listen];
  const program = informer
    ? spawn(informer, serve, { stdio: ["ignore", "pipe", "inherit"] })
    : spawn("cargo", ["run", "--quiet", "--bin", "informer", "--", ...serve], { cwd: "..", stdio: ["ignore", "pipe", "inherit"] });
  const ended = new Promise((resolve) => program.on("exit", resolve));
  const line = await new Promise((resolve, reject) => {
    program.stdout.once("data", (data) => resolve(String(data)));
    program.once("exit", () => reject(new Error("the server ended")));
  });
  return { ...JSON.parse(line), stop: () => { program.kill("SIGTERM"); return ended; } };
}

const maps = (server) => `${server.url}/api/v1/namespaces/default/configmaps`;

const create = (server, name) =>
  fetch(maps(server), {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ metadata: { name } }),
  });

async function go(page, view) {
  await page.evaluate((to) => { location.hash = `#/${to}`; }, view);
  await page.waitForFunction((name) => document.querySelector("nav [aria-current]")?.getAttribute("href") === `#/${name}`, view);
}

test("requests are shown, and a rule that is added fails the next one", async (t) => {
  const server = await start();
  t.after(server.stop);
  await fetch(`${maps(server)}/missing`, { headers: { "user-agent": HOSTILE } });
  const { page, errors, close } = await open(browser, server.webUi);
  await page.getByRole("cell", { name: HOSTILE }).first().waitFor();
  await page.getByRole("cell", { name: "404" }).waitFor();
  await go(page, "faults");
  await page.locator("form select").first().selectOption("get");
  await page.locator("form select").nth(1).selectOption("429 Too Many Requests");
  await page.getByRole("button", { name: "Add the rule" }).click();
  await page.getByText("Added 1 fault rule.").waitFor();
  assert.equal((await fetch(`${maps(server)}/a`)).status, 429);
  assert.equal((await fetch(`${maps(server)}/a`)).status, 404);
  await page.locator("textarea").fill("- action: {explode: {}}");
  await page.getByRole("button", { name: "Add the rule" }).click();
  await page.getByRole("alert").getByText(/explode/).waitFor();
  await page.getByRole("button", { name: "Remove all rules" }).click();
  await page.getByText("No fault rule is active.").waitFor();
  assert.deepEqual(errors, []);
  await close();
});

test("a click expires an open watch, and a rewind removes the last object", async (t) => {
  const server = await start();
  t.after(server.stop);
  await create(server, "a");
  const before = (await (await fetch(`${maps(server)}/a`)).json()).metadata.resourceVersion;
  const watch = await fetch(`${maps(server)}?watch=true&resourceVersion=${before}`);
  await create(server, "b");
  const { page, errors, close } = await open(browser, server.webUi);
  await go(page, "watches");
  await page.getByRole("button", { name: /^Expire the watch/ }).click();
  await page.getByText(/Injected the fault into watch \d+\./).waitFor();
  assert.match(await watch.text(), /"code":410/);
  await page.getByText("No client watches now.").waitFor();
  await go(page, "versions");
  page.once("dialog", (dialog) => dialog.accept());
  await page.getByLabel("Version").fill(before);
  await page.getByRole("button", { name: "Rewind" }).click();
  await page.getByText(`Restored the objects at resourceVersion ${before}.`).waitFor();
  assert.equal((await fetch(`${maps(server)}/b`)).status, 404);
  assert.deepEqual(errors, []);
  await close();
});

test("page reconnects to a server that has restarted", async () => {
  let server = await start();
  const { page, close } = await open(browser, server.webUi);
  await page.waitForSelector(".connection.live");
  await server.stop();
  await page.waitForSelector(".connection.lost");
  server = await start(new URL(server.url).host);
  try {
    await page.waitForSelector(".connection.live", { timeout: 20_000 });
  } finally {
    await server.stop();
  }
  await close();
});

for (const colorScheme of ["light", "dark"]) {
  test(`axe finds nothing in any view of the server with the ${colorScheme} theme`, async (t) => {
    const server = await start();
    t.after(server.stop);
    await create(server, "a");
    const { page, errors, close } = await open(browser, server.webUi, { colorScheme });
    await page.waitForSelector(".tiles");
    for (const view of VIEWS) {
      await go(page, view);
      const { violations } = await new AxeBuilder({ page }).analyze();
      assert.deepEqual(violations.map(({ id, nodes }) => `${view}: ${id}: ${nodes[0].html}`), []);
    }
    assert.deepEqual(errors, []);
    await close();
  });
}
