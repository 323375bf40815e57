// Tests of the page with a real program: the sample operator on the embedded server with an injected fault.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createServer } from "node:net";
import { after, before, test } from "node:test";
import { go, launch, open } from "./browser.mjs";

let browser;
before(async () => { browser = await launch(); });
after(() => browser.close());

async function freePort() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** Starts a program: the executable in an environment variable, or the one that cargo builds. Returns its first line. */
async function spawned(built, cargo, args) {
  const options = { cwd: "..", stdio: ["pipe", "pipe", "inherit"] };
  const program = built ? spawn(built, args, options) : spawn("cargo", ["run", "--quiet", ...cargo, "--", ...args], options);
  const ended = new Promise((resolve) => program.on("exit", resolve));
  const line = await new Promise((resolve, reject) => {
    program.stdout.once("data", (data) => resolve(String(data).trim()));
    program.once("exit", () => reject(new Error("the program ended")));
  });
  return { program, ended, line };
}

/** Starts the operator with a replica for each port. It stops at the end of its standard input. */
async function start(...ports) {
  const addresses = ports.map((port) => `127.0.0.1:${port}`);
  const { program, ended } = await spawned(process.env.OPERATOR, ["-p", "website-operator", "--example", "console"], addresses);
  return () => {
    program.stdin.end();
    return ended;
  };
}

async function served(url) {
  for (let attempt = 0; attempt < 100; attempt++) {
    if (await fetch(url).then((response) => response.ok, () => false)) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

test("operator with a fault is shown live, before and after its restart", async () => {
  const port = await freePort();
  let stop = await start(port);
  const url = `http://127.0.0.1:${port}/debug/informer/`;
  try {
    await served(url);
    const { page, errors, close } = await open(browser, url);
    await page.getByText(/failed in the last minute/).first().waitFor();
    await page.getByRole("link", { name: "Reconciles", exact: true }).click();
    await page.locator("[data-filter]").first().fill("failed");
    await page.getByText("409").first().waitFor();
    await page.getByRole("cell").getByRole("link").first().click();
    await page.getByText(/^(listed|updated) Website\.example\.com default\/shop-\d+/).first().waitFor();
    await page.getByRole("link", { name: / in websites\.v1\.example\.com$/ }).click();
    await page.waitForSelector(".yaml");
    assert.match(await page.locator("pre.yaml").textContent(), /^apiVersion: example\.com\/v1\nkind: Website\nmetadata:\n/);
    // The operator changes each object every ten seconds.
    await page.getByText(/spec\.replicas.*: \d+ lines? added, \d+ removed$/).first().waitFor();
    await page.getByRole("link", { name: "Informers" }).click();
    await page.getByText("websites.v1.example.com").first().waitFor();
    if (process.env.SHOTS) {
      for (const view of ["overview", "pipeline", "reconciles", "informers"]) {
        await page.evaluate((to) => { location.hash = `#/${to}`; }, view);
        await page.waitForTimeout(500);
        await page.screenshot({ path: `${process.env.SHOTS}/console-program-${view}.png` });
      }
    }
    await stop();
    await page.waitForSelector(".connection.lost");
    stop = await start(port);
    await page.waitForSelector(".connection.live", { timeout: 20_000 });
    assert.deepEqual(errors, []);
    await close();
  } finally {
    await stop();
  }
});

test("two replicas of a sharded operator are shown in one view with one that is unreachable", async () => {
  const ports = [await freePort(), await freePort()];
  const unreachable = await freePort();
  const stop = await start(...ports);
  let proxy;
  try {
    for (const port of ports) await served(`http://127.0.0.1:${port}/debug/informer/`);
    const attach = [...ports, unreachable].flatMap((port) => ["--attach", `http://127.0.0.1:${port}`]);
    proxy = await spawned(process.env.INFORMER, ["--bin", "informer"], ["console", ...attach]);
    const { page, errors, close } = await open(browser, proxy.line);
    await page.getByText("2 of 3 live").waitFor();
    await page.getByRole("cell", { name: "unreachable" }).waitFor();
    await page.getByRole("cell", { name: "1 of 2" }).nth(1).waitFor({ timeout: 60_000 });
    await go(page, "reconciles");
    for (const port of ports) await page.getByRole("cell", { name: `:${port}`, exact: true }).first().waitFor();
    await page.getByRole("cell").getByRole("link").first().click();
    await page.getByRole("img", { name: /^\d+ reconciles of website of 127\.0\.0\.1:/ }).first().waitFor();
    assert.deepEqual(errors, []);
    await close();
  } finally {
    proxy?.program.kill("SIGTERM");
    await stop();
  }
});
