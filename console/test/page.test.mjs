// Tests of the page with the made-up data of `mock.mjs`.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { gzipSync } from "node:zlib";
import { readFile } from "node:fs/promises";
import { AxeBuilder } from "@axe-core/playwright";
import { go, launch, open } from "./browser.mjs";
import { HOSTILE, Mock } from "./mock.mjs";

const OBJECT = "objects?informer=websites.v1.example.com&key=default%2Fshop-23";
const VIEWS = ["overview", "pipeline", "informers", "queues", "controllers", "reconciles", "reconciles?failed=true&filter=shop", "key?key=default%2Fshop-23", "requests", "objects", OBJECT];
const STEPS = 120;
const BUNDLE_MAX = 250 * 1024;

let browser;
before(async () => { browser = await launch(); });
after(() => browser.close());

async function served(t, options) {
  const mock = new Mock(options);
  const url = await mock.start();
  t.after(() => mock.stop());
  return { mock, url };
}

for (const colorScheme of ["light", "dark"]) {
  test(`axe finds nothing in any view with the ${colorScheme} theme`, async (t) => {
    const { url } = await served(t, { objects: true });
    const { page, errors, close } = await open(browser, url, { colorScheme });
    await page.waitForSelector(".tiles");
    assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), colorScheme);
    for (const view of VIEWS) {
      await go(page, view);
      const { violations } = await new AxeBuilder({ page }).analyze();
      assert.deepEqual(violations.map(({ id, nodes }) => `${view}: ${id}: ${nodes[0].html}`), []);
    }
    assert.deepEqual(errors, []);
    await close();
  });
}

test("page and login are accessible without data", async (t) => {
  const { url } = await served(t, { token: "secret-token" });
  const { page, close } = await open(browser, url);
  await page.waitForSelector(".login");
  const { violations } = await new AxeBuilder({ page }).analyze();
  assert.deepEqual(violations.map(({ id }) => id), []);
  await page.getByLabel("Bearer token of the cluster").fill("secret-token");
  await page.getByRole("button", { name: "Connect" }).click();
  await page.waitForSelector(".tiles");
  assert.ok(!(await page.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage }))).includes("secret-token"));
  await close();
});

test("bundle is within its limit; the first paint is reported", async (t) => {
  const { url } = await served(t, {});
  const paints = [];
  for (let run = 0; run < 3; run++) {
    const { page, close } = await open(browser, url);
    await page.waitForSelector(".tiles");
    paints.push(await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0].startTime));
    await close();
  }
  let size = 0;
  for (const file of ["index.html", "console.css", "console.js"]) {
    size += gzipSync(await readFile(`../crates/informer-runtime/src/console/assets/${file}`)).length;
  }
  const best = Math.min(...paints);
  t.diagnostic(`first paint after ${Math.round(best)} ms, at most ${Math.round(Math.max(...paints))} ms; ${size} bytes compressed`);
  assert.ok(size < BUNDLE_MAX);
});

test("page works under a path prefix", async (t) => {
  const { url } = await served(t, { prefix: "/clusters/eu-1/operator" });
  const { page, errors, close } = await open(browser, url);
  await page.waitForSelector(".tiles");
  await go(page, "key?key=default%2Fshop-1");
  assert.deepEqual(errors, []);
  await close();
});

test("page reconnects after the server restarts, and keeps its series", async (t) => {
  const first = new Mock({});
  const url = await first.start();
  const { page, close } = await open(browser, url);
  await page.waitForSelector(".connection.live");
  await first.stop();
  await page.waitForSelector(".connection.lost");
  assert.match(await page.getByRole("alert").textContent(), /No connection/);
  const second = new Mock({ age: 5, healthy: true });
  second.pid = 4343;
  await second.start(first.port);
  t.after(() => second.stop());
  await page.waitForSelector(".connection.live", { timeout: 15_000 });
  await page.getByRole("heading", { name: "Reconciles" }).first().waitFor();
  await page.getByText(/^up \d+\.?\d* s$/).waitFor();
  await close();
});

test("failures during a gap in the connection are not counted as those of the last minute", async (t) => {
  const { mock, url } = await served(t, {});
  const { page, close } = await open(browser, url);
  const failures = page.locator(".tile", { hasText: "Reconciles" }).getByText(/failed in the last minute/);
  await failures.filter({ hasText: /, [67],\d{3} failed in total$/ }).waitFor();
  const port = mock.port;
  await mock.stop();
  await page.waitForSelector(".connection.lost");
  // The same program, an hour and 6,260 failed reconciles later.
  mock.born -= 3600;
  await mock.start(port);
  await page.waitForSelector(".connection.live", { timeout: 15_000 });
  const later = failures.filter({ hasText: /, 13,\d{3} failed in total$/ });
  await later.waitFor();
  const [, failed] = (await later.textContent()).match(/^([\d,]+) failed in the last minute/);
  assert.ok(Number(failed.replaceAll(",", "")) < 200, `${failed} failed in the last minute`);
  await close();
});

test("actions are offered only if they are allowed, and run only after a confirmation", async (t) => {
  const { mock, url } = await served(t, { actions: "0f1e2d" });
  const { page, errors, close } = await open(browser, url);
  await page.waitForSelector(".tiles");
  await go(page, "informers");
  const relist = page.getByRole("button", { name: "Relist" }).first();
  page.once("dialog", (dialog) => dialog.dismiss());
  await relist.click();
  assert.equal(mock.acted, undefined);
  page.on("dialog", (dialog) => dialog.accept());
  await relist.click();
  await page.getByText("relist done").waitFor();
  await page.getByRole("button", { name: "Drop" }).first().click();
  await page.getByText("409: drop: a controller uses the informer").waitFor();
  await go(page, "key?key=default%2Fshop-23");
  await page.getByRole("button", { name: "Requeue" }).click();
  await page.getByText("requeue done").waitFor();
  assert.deepEqual(mock.acted.map(({ action }) => action), ["relist", "drop", "requeue"]);
  assert.deepEqual(mock.acted[2].body, { controller: "website", key: "default/shop-23" });
  const { violations } = await new AxeBuilder({ page }).analyze();
  assert.deepEqual(violations.map(({ id }) => id), []);
  assert.deepEqual(errors, []);
  await close();

  const readOnly = await served(t, {});
  const second = await open(browser, readOnly.url);
  await second.page.waitForSelector(".tiles");
  await go(second.page, "informers");
  assert.equal(await second.page.getByRole("button", { name: "Relist" }).count(), 0);
  await second.close();
});

test("hostile name is shown as text", async (t) => {
  const { url } = await served(t, {});
  const { page, errors, close } = await open(browser, url);
  await page.waitForSelector(".tiles");
  await go(page, "reconciles");
  await page.locator("[data-filter]").first().fill("onerror");
  const link = page.getByRole("cell").getByRole("link").first();
  assert.equal(await link.textContent(), HOSTILE.replace("\u202e", "\\u202e"));
  await link.click();
  await page.waitForSelector(".history li");
  assert.equal(await page.getByLabel(/^Key, such as/).inputValue(), HOSTILE);
  assert.equal(await page.locator("main img").count(), 0);
  assert.equal(await page.title(), "Key · website-operator-5d9c-x7k2p, leader · informer console");
  assert.equal(await page.locator("header .identity").textContent(), "website-operator-5d9c-x7k2p, leader");
  assert.deepEqual(errors, []);
  await close();
});

test("60 frames a second are possible while 2,000 reconciles a second are added", async (t) => {
  const { url } = await served(t, { backlog: 2_000, perSecond: 2_000 });
  const { page, errors, close } = await open(browser, url);
  await page.waitForSelector(".tiles");
  await go(page, "reconciles");
  await page.getByRole("table").getByRole("row").nth(5).waitFor();
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable", { timeDomain: "threadTicks" });
  const busy = async () => (await session.send("Performance.getMetrics")).metrics.find(({ name }) => name === "TaskDuration").value;
  const FRAMES = 300;
  const before = await busy();
  const slowest = await page.evaluate(async (frames) => {
    const next = () => new Promise((resolve) => requestAnimationFrame(resolve));
    let [last, slowest] = [await next(), 0];
    for (let frame = 0; frame < frames; frame++) {
      const now = await next();
      [last, slowest] = [now, Math.max(slowest, now - last)];
    }
    return slowest;
  }, FRAMES);
  const perFrame = ((await busy()) - before) * 1000 / FRAMES;
  t.diagnostic(`2,000 reconciles a second: ${perFrame.toFixed(1)} ms of processor time per frame, slowest frame ${slowest.toFixed(0)} ms`);
  assert.ok(perFrame < 1000 / 60, "60 frames a second are possible");
  assert.deepEqual(errors, []);
  await close();
});

test("100,000 rows are filtered, sorted and scrolled without blocking", async (t) => {
  const { url } = await served(t, { backlog: 100_000, perSecond: 0 });
  const { page, close } = await open(browser, url);
  page.setDefaultTimeout(120_000);
  await page.waitForSelector(".tiles");
  await go(page, "reconciles");
  await page.getByText("latest 100,000 reconciles").waitFor();
  const rendered = await page.getByRole("table").getByRole("row").count();
  assert.ok(rendered < 60, `${rendered} rows are rendered`);
  // The processor time of the page's main thread does not depend on what else the machine does.
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable", { timeDomain: "threadTicks" });
  const busy = async () => (await session.send("Performance.getMetrics")).metrics.find(({ name }) => name === "TaskDuration").value;
  const before = await busy();
  const elapsed = await page.evaluate(async (steps) => {
    const body = document.querySelector(".table-body");
    const next = () => new Promise((resolve) => requestAnimationFrame(resolve));
    const began = await next();
    for (let step = 0; step < steps; step++) {
      // Ten rows per frame.
      body.scrollTop += 500;
      await next();
    }
    return performance.now() - began;
  }, STEPS);
  const perFrame = ((await busy()) - before) * 1000 / STEPS;
  t.diagnostic(`scrolling: ${perFrame.toFixed(1)} ms of processor time and ${(elapsed / STEPS).toFixed(1)} ms per frame`);
  assert.ok(perFrame < 1000 / 60, "60 frames a second are possible");
  await page.evaluate(() => { document.querySelector(".table-body").scrollTop = 1e9; });
  await page.waitForFunction(() => document.querySelector('.table-body [aria-rowindex="100001"]'));
  const began = Date.now();
  await page.locator("[data-filter]").first().fill("shop-999");
  await page.getByText(/^100 of the latest 100,000 reconciles$/).waitFor();
  await page.getByRole("button", { name: "Duration" }).click();
  await page.waitForSelector("[aria-sort=descending]");
  t.diagnostic(`filter and sort of 100,000 rows: ${Date.now() - began} ms`);
  await close();
});

test("reconciles beyond the limit of an event are counted", async (t) => {
  const { url } = await served(t, { dropped: 1200, period: 200 });
  const { page, errors, close } = await open(browser, url);
  await page.waitForSelector(".tiles");
  await go(page, "reconciles");
  await page.getByText(/^[\d,]+00 more reconciles ended while this page was open/).waitFor();
  assert.deepEqual(errors, []);
  await close();
});

for (const [font, style] of [["the default font", ""], ["a wide font", "* { letter-spacing: 0.12em }"], ["a large font", ":root { font-size: 24px }"]]) {
  test(`views fit a phone with ${font}`, async (t) => {
    const { url } = await served(t, { actions: "0f1e2d", members: 2, objects: true });
    const { page, errors, close } = await open(browser, url, { hasTouch: true, bypassCSP: true });
    if (style) await page.addStyleTag({ content: style });
    await page.waitForSelector(".tiles");
    for (const width of [390, 360]) {
      await page.setViewportSize({ width, height: 844 });
      for (const view of VIEWS) {
        await go(page, view);
        const fit = (width) => document.documentElement.scrollWidth === width
          && [...document.querySelectorAll(".row")].every((row) => row.scrollWidth <= row.clientWidth);
        await page.waitForFunction(fit, width, { timeout: 5_000 }).catch(() => assert.fail(`${view} is wider than ${width} px`));
      }
    }
    assert.deepEqual(errors, []);
    await close();
  });
}

test("page is usable with the keyboard", async (t) => {
  const { url } = await served(t, {});
  const { page, close } = await open(browser, url);
  await page.waitForSelector(".tiles");
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Skip to the content");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "main");
  await go(page, "reconciles");
  await page.keyboard.press("/");
  await page.keyboard.type("failed");
  await page.getByText(/ of the latest [\d,]+ reconciles$/).waitFor();
  await close();
});

test("healthy program has no problems, and a failing one names them", async (t) => {
  const { url } = await served(t, { healthy: true, backlog: 0, perSecond: 5 });
  const { page, close } = await open(browser, url);
  await page.getByRole("heading", { name: "Everything works" }).waitFor();
  await close();
  const failing = await served(t, {});
  const other = await open(browser, failing.url);
  await other.page.getByText(/403 Forbidden/).waitFor();
  await other.close();
});

test("summary of a key names its present state, its last result and its last error", async (t) => {
  const { url } = await served(t, {});
  const { page, errors, close } = await open(browser, `${url}#/key?key=default%2Fshop-23`);
  const lines = page.locator(".summary p");
  await page.getByText(/^Last result: failed, ended \d+ s ago\. 3 of the 5 known reconciles since \d\d:\d\d:\d\d failed\.$/).waitFor();
  assert.match(await lines.first().textContent(), /^Now: waiting for retry 3, queued 3\.2 s ago$/);
  assert.match(await lines.nth(2).textContent(), /^Last error, of the reconcile that ended \d+ s ago: update Deployment default\/shop-23: /);
  // A failure has a shape of its own, and a wait has its true width.
  assert.equal(await page.locator(".track .cross").count(), 3);
  const waits = await page.locator(".track .wait").evaluateAll((all) => all.map((one) => one.getBoundingClientRect().width));
  assert.ok(waits.length === 5 && Math.max(...waits) < 4, `${waits}`);
  // No mark is outside of the axis.
  const outside = await page.evaluate(() => {
    const axis = document.querySelector(".track .base").getBoundingClientRect();
    return [...document.querySelectorAll(".track svg rect, .track .cross")].map((one) => one.getBoundingClientRect())
      .filter(({ left, right }) => left < axis.left - 0.5 || right > axis.right + 0.5).length;
  });
  assert.equal(outside, 0);
  await page.getByText("Causes", { exact: true }).first().waitFor();
  const time = page.locator(".history time").first();
  assert.match(await time.getAttribute("title"), /^\d{4}-\d\d-\d\dT.*Z$/);
  assert.deepEqual(errors, []);
  await close();
});

test("controllers name their sources and writes, and link to their failed reconciles", async (t) => {
  const { url } = await served(t, {});
  const { page, errors, close } = await open(browser, url, { viewport: { width: 390, height: 844 } });
  await page.waitForSelector(".tiles");
  await go(page, "controllers");
  await page.getByText("watches websites.example.com/v1 (for); deployments.apps/v1 (owns); ingresses.networking.k8s.io/v1 (owns); timer (source)").waitFor();
  const running = page.getByRole("table", { name: "running reconciles" });
  await running.getByRole("cell", { name: "certificates" }).first().waitFor();
  await page.getByRole("link", { name: /failed reconciles of website/ }).click();
  await page.getByText(/^\d+ of the latest [\d,]+ reconciles$/).waitFor();
  assert.equal(await page.locator("[data-filter]").inputValue(), "website");
  assert.equal(await page.getByRole("button", { name: "Failed only" }).getAttribute("aria-pressed"), "true");
  assert.deepEqual(errors, []);
  await close();
});

test("stages of the pipeline have the problems of the overview", async (t) => {
  const { url } = await served(t, {});
  const { page, errors, close } = await open(browser, url, { viewport: { width: 390, height: 844 } });
  await page.waitForSelector(".tiles");
  await go(page, "pipeline");
  const stages = page.locator(".pipeline li");
  await stages.last().locator(".badge.bad").getByText(/^[\d,]+ failed in the last minute/).waitFor();
  // The informer that has not synced is an error in the overview, and so it is here.
  const reflector = stages.filter({ hasText: "Reflector" });
  assert.equal(await reflector.getAttribute("class"), "card bad");
  await reflector.locator(".badge.bad").getByText("1 error").waitFor();
  assert.deepEqual(await stages.locator("h2").allTextContents(), ["API server", "Reflector", "Delta queue", "Store", "Handlers", "Work queues", "Workers"]);
  assert.deepEqual(await stages.locator("strong + span").allTextContents(), ["client requests/s, without lists and watches of informers", "events/s", "changes/s", "objects", "calls/s", "keys added/s", "reconciles/s"]);
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 390);
  const { violations } = await new AxeBuilder({ page }).analyze();
  assert.deepEqual(violations.map(({ id }) => id), []);
  await close();
  const healthy = await served(t, { healthy: true });
  const other = await open(browser, healthy.url);
  await other.page.waitForSelector(".tiles");
  await go(other.page, "pipeline");
  await other.page.locator(".pipeline li", { hasText: "Workers" }).getByText(/^[1-9][\d.]*$/).waitFor();
  assert.equal(await other.page.locator(".pipeline .badge").count(), 0);
  assert.deepEqual([...errors, ...other.errors], []);
  await other.close();
});

test("failed reconciles of the last minute are shown beside their total", async (t) => {
  const { url } = await served(t, {});
  const { page, errors, close } = await open(browser, url, { viewport: { width: 1280, height: 800 } });
  await page.locator(".tile", { hasText: "Reconciles" }).getByText(/^[\d,]+ failed in the last minute, [67],\d{3} failed in total$/).waitFor();
  await go(page, "controllers");
  const row = page.getByRole("table", { name: "controllers", exact: true }).getByRole("row").filter({ hasText: "website" });
  const cells = row.getByRole("cell");
  await page.waitForFunction(() => /^[\d,]+$/.test(document.querySelectorAll('[aria-label="controllers"] .table-body .row [role=cell]')[6].textContent));
  assert.match(await cells.nth(5).textContent(), /^4,\d{3} failed reconciles of website/);
  const healthy = await served(t, { healthy: true });
  const other = await open(browser, healthy.url);
  await other.page.getByText("0 failed in the last minute, 0 failed in total").waitFor();
  await other.close();
  assert.deepEqual(errors, []);
  await close();
});

test("failed reconciles are shown alone, with the text filter, and by a link", async (t) => {
  const { url } = await served(t, { perSecond: 0 });
  const { page, errors, close } = await open(browser, url, { viewport: { width: 390, height: 844 } });
  await page.waitForSelector(".tiles");
  await go(page, "reconciles");
  await page.getByText("latest 300 reconciles", { exact: true }).waitFor();
  const button = page.getByRole("button", { name: "Failed only" });
  assert.equal(await button.getAttribute("aria-pressed"), "false");
  await button.click();
  await page.getByText("14 of the latest 300 reconciles", { exact: true }).waitFor();
  assert.equal(await button.getAttribute("aria-pressed"), "true");
  const results = await page.locator("main .table-body .badge").allTextContents();
  // Not all rows are rendered.
  assert.ok(results.length > 5 && results.every((one) => one === "failed"), `${results}`);
  await page.locator("[data-filter]").fill("website");
  await page.getByText("9 of the latest 300 reconciles", { exact: true }).waitFor();
  await page.waitForFunction(() => location.hash === "#/reconciles?failed=true&filter=website");
  const { violations } = await new AxeBuilder({ page }).analyze();
  assert.deepEqual(violations.map(({ id }) => id), []);
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 390);

  const shared = await open(browser, page.url());
  await shared.page.getByText("9 of the latest 300 reconciles", { exact: true }).waitFor();
  await shared.page.getByRole("button", { name: "Failed only" }).click();
  await shared.page.waitForFunction(() => location.hash === "#/reconciles?filter=website");
  assert.equal(await shared.page.locator("[data-filter]").inputValue(), "website");
  await shared.close();

  // A link to the view clears both.
  await page.getByRole("navigation").getByRole("link", { name: "Reconciles" }).click();
  await page.getByText("latest 300 reconciles", { exact: true }).waitFor();
  assert.equal(await page.locator("[data-filter]").inputValue(), "");
  assert.deepEqual(errors, []);
  await close();
});

test("cause in a table has the key only if another object caused the reconcile", async (t) => {
  const { url } = await served(t, { perSecond: 0 });
  const { page, errors, close } = await open(browser, url, { viewport: { width: 1280, height: 800 } });
  await page.waitForSelector(".tiles");
  await go(page, "reconciles");
  await page.locator("[data-filter]").fill("shop-21 ");
  const causes = async (name) => {
    const table = page.getByRole("table", { name, exact: true });
    await table.getByRole("link", { name: /^default\/shop-/ }).first().waitFor();
    const at = (await table.getByRole("columnheader").allTextContents()).findIndex((one) => one.startsWith("Cause"));
    return page.evaluate(([name, at]) => [...document.querySelectorAll(`[aria-label="${name}"] .table-body .row`)]
      .map((row) => [row.textContent.match(/default\/shop-\d+/)?.[0], row.children[at].textContent]), [name, at]);
  };
  const CAUSE = "updated Website (spec, labels); updated Deployment (other fields)";
  await page.getByText("11 of the latest 300 reconciles", { exact: true }).waitFor();
  const ofKey = new Map(await causes("reconciles"));
  assert.equal(ofKey.get("default/shop-211"), `${CAUSE}; added Secret default/shop-211-tls; deleted Pod`);
  assert.equal(ofKey.get("default/shop-212"), CAUSE);
  await go(page, "controllers");
  assert.equal(new Map(await causes("running reconciles")).get("default/shop-8"), CAUSE);
  assert.deepEqual(errors, []);
  await close();
});

const CONFLICT = /^update (Deployment|Secret) default\/shop-\d+: the object was changed by another client; read it again and retry$/;

for (const [device, viewport] of [["desktop", { width: 1280, height: 800 }], ["phone", { width: 390, height: 844 }]]) {
  test(`failed reconcile has its whole error and its controller: ${device}`, async (t) => {
    const { url } = await served(t, { perSecond: 0 });
    const { page, errors, close } = await open(browser, `${url}#/reconciles?failed=true`, { viewport });
    const row = page.getByRole("table", { name: "reconciles" }).getByRole("row").nth(1);
    await row.getByText("failed", { exact: true }).waitFor();
    await row.getByRole("cell", { name: /^(website|certificates)$/ }).waitFor();
    const cell = row.getByRole("cell", { name: CONFLICT });
    assert.match(await cell.getAttribute("title"), CONFLICT);
    assert.equal(await cell.evaluate((one) => one.scrollHeight <= one.clientHeight && one.scrollWidth <= one.clientWidth), true, "the error is cut");
    assert.equal(await row.evaluate((one) => one.scrollHeight <= one.offsetHeight), true, "the row is cut");
    assert.deepEqual(errors, []);
    await close();
  });
}

test("counts of panics, timeouts and failures are visible on a phone", async (t) => {
  const { mock, url } = await served(t, {});
  const { snapshot } = mock;
  mock.snapshot = () => {
    const all = snapshot.call(mock);
    Object.assign(all.controllers[0], { panics: 2, timeouts: 1 });
    Object.assign(all.informers[0], { panics: 1, undecodable: 3 });
    all.informers[0].handlers[0].panics = 1;
    return all;
  };
  const { page, errors, close } = await open(browser, url, { viewport: { width: 360, height: 844 } });
  await page.waitForSelector(".tiles");
  const shows = async (view, table, ...texts) => {
    await go(page, view);
    for (const text of texts) {
      const badge = page.getByRole("table", { name: table, exact: true }).getByText(text, { exact: true }).first();
      await badge.waitFor();
      assert.ok(await badge.evaluate((one) => one.getBoundingClientRect().right <= innerWidth && one.scrollWidth <= one.clientWidth), `${text} is cut`);
    }
  };
  await shows("controllers", "controllers", "2 panics", "1 timeout", /^[\d,]+ failed\/min$/);
  await shows("informers", "informers", "1 panic", "3 undecodable", "4 failures");
  await shows("informers", "handlers", "1 panic");
  await shows("queues", "queues", /^[\d,]+ retries$/);
  assert.deepEqual(errors, []);
  await close();
});

test("share of failed reconciles is the same in the overview and the controllers", async (t) => {
  // Since the start of this program less than a minute has passed, so all reconciles are known.
  const { url } = await served(t, { age: 20, perSecond: 0, backlog: 50 });
  const { page, errors, close } = await open(browser, url, { viewport: { width: 1280, height: 800 } });
  const problem = page.locator(".health li", { hasText: "Controller website" });
  await problem.getByText(/: [\d,]+ of [\d,]+ reconciles failed in the last minute \(4\.\d\s%\); last error: update Deployment/).waitFor();
  await page.locator(".tile", { hasText: "Reconciles" }).getByText(/^[\d,]+ failed in the last minute \(4\.\d\s%\), /).waitFor();
  await go(page, "controllers");
  const row = page.getByRole("table", { name: "controllers", exact: true }).getByRole("row").filter({ hasText: "Website.example.com" });
  await row.getByRole("cell", { name: /^\d+ \(4\.\d\s%\)$/ }).waitFor();
  assert.deepEqual(errors, []);
  await close();
});

test("informers name their errors first, and their names fit", async (t) => {
  const { url } = await served(t, {});
  const { page, errors, close } = await open(browser, url, { viewport: { width: 1280, height: 800 } });
  await page.waitForSelector(".tiles");
  await go(page, "informers");
  const note = page.locator("main section.card.bad", { hasText: "Lists and errors" }).locator("li").first();
  await note.getByText(/^4 failures in a row, next attempt in 2\.4 s: list ingresses\.v1\.networking\.k8s\.io: 403 Forbidden/).waitFor();
  const headings = await page.locator("main h2").allTextContents();
  assert.deepEqual(headings, ["Lists and errors", "Handlers"]);
  const cut = await page.evaluate(() => [...document.querySelectorAll(".row > span")].filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.textContent));
  assert.deepEqual(cut, []);
  const scope = page.getByRole("cell", { name: "cert-manager", exact: true });
  assert.equal(await scope.getAttribute("title"), "namespace=cert-manager");
  assert.deepEqual(errors, []);
  await close();
});

test("lines of rows end at the scroll bar, and columns of a table keep their distance", async (t) => {
  const { url } = await served(t, { perSecond: 0 });
  const { page, errors, close } = await open(browser, `${url}#/reconciles`, { viewport: { width: 1280, height: 800 } });
  await page.getByText("latest 300 reconciles", { exact: true }).waitFor();
  const [body, row, gap] = await page.evaluate(() => {
    const [body, row] = [".table-body", ".table-body .row"].map((one) => document.querySelector(one));
    return [body.clientWidth, row.offsetWidth, parseFloat(getComputedStyle(row).columnGap)];
  });
  assert.equal(row, body);
  assert.ok(gap >= 24);
  assert.deepEqual(errors, []);
  await close();
});

test("heading of the charts says since when the page records", async (t) => {
  const { url } = await served(t, {});
  const { page, errors, close } = await open(browser, url);
  await page.getByRole("heading", { name: /^Since \d\d:\d\d$/ }).waitFor();
  assert.deepEqual(errors, []);
  await close();
});

test("failures are an error only if a key has been failing for ten seconds", async (t) => {
  const { mock, url } = await served(t, { age: 20, perSecond: 0, backlog: 50, failing: 0, identity: null });
  const { page, errors, close } = await open(browser, url, { viewport: { width: 1280, height: 800 } });
  const problem = page.locator(".health li", { hasText: "Controller website" });
  await problem.getByText(/ reconciles failed in the last minute \(4\.\d\s%\); no key is failing now; last error: /).waitFor();
  assert.equal(await problem.locator(".badge").textContent(), "warning");
  Object.assign(mock, { failing: 2, failingSeconds: 9 });
  await problem.getByText(/; 2 keys are failing now, one of them for 9 s; /).waitFor();
  assert.equal(await problem.locator(".badge").textContent(), "warning");
  Object.assign(mock, { failing: 1, failingSeconds: 10 });
  await problem.getByText(/; 1 key is failing now, for 10 s; /).waitFor();
  assert.equal(await problem.locator(".badge").textContent(), "error");
  assert.equal(await page.locator("header .identity").textContent(), "website-operator on node-1", "without a lease");
  await go(page, "controllers");
  const row = page.getByRole("table", { name: "controllers", exact: true }).getByRole("row").filter({ hasText: "Website.example.com" });
  await row.getByRole("cell", { name: "1", exact: true }).waitFor();
  assert.deepEqual(errors, []);
  await close();
});

test("list of reconciles stands still while it is paused", async (t) => {
  const { url } = await served(t, { backlog: 50, perSecond: 40 });
  const { page, errors, close } = await open(browser, url, { viewport: { width: 1280, height: 800 } });
  await page.waitForSelector(".tiles");
  await go(page, "reconciles");
  const first = () => page.getByRole("table", { name: "reconciles" }).locator(".table-body .row").first().textContent();
  const total = () => page.getByText(/^latest [\d,]+ reconciles$/).textContent();
  const pause = page.getByRole("button", { name: "Pause" });
  await pause.click();
  assert.equal(await pause.getAttribute("aria-pressed"), "true");
  const before = [await first(), await total()];
  const snapshot = await page.locator("header .uptime").textContent();
  await page.waitForFunction((text) => document.querySelector("header .uptime").textContent !== text, snapshot);
  assert.deepEqual([await first(), await total()], before);
  await pause.click();
  await page.waitForFunction((text) => document.querySelector('[aria-label="reconciles"] .table-body .row')?.textContent !== text, before[0]);
  assert.deepEqual(errors, []);
  await close();
});

test("failing keys are those whose newest known reconcile failed", async (t) => {
  const { mock, url } = await served(t, { backlog: 0, perSecond: 0 });
  const { event } = mock;
  let number = 0;
  const next = (...results) => {
    mock.event = () => {
      const snapshot = mock.snapshot();
      snapshot.dropped = 0;
      snapshot.reconciles = results.splice(0).map(([request, failed]) => ({
        id: `made-${number++}`, controller: "website", request: `default/${request}`, causes: ["retry of failure 1"], omitted: 0, waitedSeconds: 0.1,
        beganSecondsAgo: 0.1, seconds: 0.01, result: failed ? "error" : "success", error: failed ? `${request}: denied` : null,
      }));
      return `event: snapshot\ndata: ${JSON.stringify(snapshot)}\n\n`;
    };
  };
  next(["a", true], ["b", true], ["a", true], ["c", true], ["c", false]);
  const { page, errors, close } = await open(browser, url);
  await page.waitForSelector(".tiles");
  await go(page, "controllers");
  const rows = page.getByRole("table", { name: "failing keys" }).locator(".table-body .row");
  await rows.nth(1).waitFor();
  const cells = await rows.evaluateAll((all) => all.map((row) => [...row.children].map((one) => one.textContent)));
  assert.deepEqual(cells.map(([key, controller, failures, , error]) => [key, controller, failures, error]), [
    ["default/a", "website", "2", "a: denied"], ["default/b", "website", "1", "b: denied"]]);
  assert.match(cells[0][3], /^\d+ s ago$/);
  assert.equal(await rows.first().getByRole("link").getAttribute("href"), "#/key?key=default%2Fa");
  next(["b", true]);
  await page.waitForFunction(() => document.querySelector('[aria-label="failing keys"] .table-body .row')?.textContent.startsWith("default/bwebsite2"));
  next(["a", false], ["b", false]);
  await page.getByRole("heading", { name: "Failing keys" }).waitFor({ state: "detached" });
  mock.event = event;
  assert.deepEqual(errors, []);
  await close();
});

test("queue whose ready keys grow without a pause is a problem", async (t) => {
  const { mock, url } = await served(t, { healthy: true, backlog: 0, perSecond: 0 });
  const { snapshot } = mock;
  let grown = 0;
  mock.snapshot = () => {
    const all = snapshot.call(mock);
    all.queues[0].ready = 100 + grown++;
    return all;
  };
  const { page, errors, close } = await open(browser, url);
  await page.locator(".health").getByText(/^Queue website: its ready keys have grown for 3\d s, from 100 to 1\d\d$/).waitFor({ timeout: 45_000 });
  await go(page, "pipeline");
  await page.locator(".pipeline li", { hasText: "Work queues" }).locator(".badge.warn").waitFor();
  mock.snapshot = snapshot;
  await page.locator(".pipeline .badge").waitFor({ state: "detached" });
  assert.deepEqual(errors, []);
  await close();
});

test("unknown key has an explanation", async (t) => {
  const { url } = await served(t, {});
  const { page, close } = await open(browser, `${url}#/key?key=default%2Funknown`);
  await page.getByText("Nothing is known about this key").waitFor();
  await close();
});

test("view of a key also has the reconciles that only the page knows", async (t) => {
  const { mock, url } = await served(t, { perSecond: 0 });
  const made = (id, ago, failed) => ({ id, controller: "website", request: "default/unknown", causes: [], omitted: 0, waitedSeconds: 0, beganSecondsAgo: ago,
    seconds: 0.01, result: failed ? "error" : "success", error: failed ? "denied" : null });
  mock.event = () => {
    const snapshot = { ...mock.snapshot(), dropped: 0, reconciles: [made("a", 90, true), made("b", 30, false)] };
    return `event: snapshot\ndata: ${JSON.stringify(snapshot)}\n\n`;
  };
  const { page, errors, close } = await open(browser, `${url}#/key?key=default%2Funknown`);
  await page.getByText(/^Last result: succeeded, ended \d+ s ago\. 1 of the 2 known reconciles since \d\d:\d\d:\d\d failed\.$/).waitFor();
  assert.equal(await page.locator(".history li").count(), 2);
  assert.deepEqual(errors, []);
  await close();

  // A reconcile of the log that the program also returns is shown once.
  const other = await served(t, { perSecond: 0 });
  other.mock.event = () => {
    const snapshot = { ...other.mock.snapshot(), dropped: 0, reconciles: [{ ...made("5e1f00d5e1f00d00-22", 92, false), request: "default/shop-23" },
      { ...made("older", 300, false), request: "default/shop-23" }] };
    return `event: snapshot\ndata: ${JSON.stringify(snapshot)}\n\n`;
  };
  const both = await open(browser, `${other.url}#/key?key=default%2Fshop-23`);
  await both.page.getByText(/ 3 of the 6 known reconciles since /).waitFor();
  await both.close();
});
