// Tests of the page with a real program: the sample operator on the embedded server with an injected fault.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createServer } from "node:net";
import { after, before, test } from "node:test";
import { launch, open } from "./browser.mjs";

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

/** Starts the program. It stops at the end of its standard input. */
async function start(port) {
  const program = spawn("cargo", ["run", "--quiet", "-p", "website-operator", "--example", "console", "--", `127.0.0.1:${port}`],
    { cwd: "..", stdio: ["pipe", "pipe", "inherit"] });
  const ended = new Promise((resolve) => program.on("exit", resolve));
  await new Promise((resolve, reject) => {
    program.stdout.once("data", resolve);
    program.once("exit", () => reject(new Error("the program ended")));
  });
  return () => {
    program.stdin.end();
    return ended;
  };
}

test("operator with a fault is shown live, before and after its restart", async () => {
  const port = await freePort();
  let stop = await start(port);
  const url = `http://127.0.0.1:${port}/debug/informer/`;
  try {
    for (let attempt = 0; attempt < 100; attempt++) {
      if (await fetch(url).then((response) => response.ok, () => false)) break;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    const { page, errors, close } = await open(browser, url);
    await page.getByText(/failed reconciles in the last minute/).waitFor();
    await page.getByRole("link", { name: "Reconciles", exact: true }).click();
    await page.locator("[data-filter]").first().fill("error");
    await page.getByText("409").first().waitFor();
    await page.getByRole("cell").getByRole("link").first().click();
    await page.getByText(/^(listed|updated) Website\.example\.com default\/shop-\d+/).first().waitFor();
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
