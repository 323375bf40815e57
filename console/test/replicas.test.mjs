// Tests of the page with several replicas, with the made-up data of `mock.mjs`.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { AxeBuilder } from "@axe-core/playwright";
import { go, launch, open } from "./browser.mjs";
import { HOSTILE, Mock, MockProxy } from "./mock.mjs";

const VIEWS = ["overview", "pipeline", "informers", "queues", "controllers", "reconciles", "key?key=default%2Fshop-23", "requests", "objects"];
const [A, B, C] = ["operator-0.operator:8082", "operator-1.operator:8082", "operator-2.operator:8082"];

let browser;
before(async () => { browser = await launch(); });
after(() => browser.close());

/** Serves a leader with a problem, a healthy replica, and one that is unreachable. */
async function served(t, options = {}) {
  const mocks = {
    [A]: new Mock({ members: 2, identity: "operator-0", ...options }),
    [B]: new Mock({ members: 2, identity: "operator-1", leader: false, healthy: true, ...options }),
    [C]: new Mock({ down: "connect to 10.0.0.3:8082: connection refused" }),
  };
  mocks[B].number = 5000;
  const proxy = new MockProxy(mocks);
  const url = await proxy.start();
  t.after(() => proxy.stop());
  return { mocks, url };
}

const cells = (page, name) => page.getByRole("table", { name, exact: true }).getByRole("cell");
const choose = (page, name) => page.getByLabel(/^Replica/).selectOption(name);

for (const [kind, options] of [["light", { colorScheme: "light" }], ["dark", { colorScheme: "dark" }], ["phone", { viewport: { width: 390, height: 844 } }]]) {
  test(`axe finds nothing in any view of several replicas: ${kind}`, async (t) => {
    const { url } = await served(t, { actions: "0f1e2d" });
    const { page, errors, close } = await open(browser, url, options);
    await page.getByText("2 of 3 live").waitFor();
    for (const view of VIEWS) {
      await go(page, view);
      const { violations } = await new AxeBuilder({ page }).analyze();
      assert.deepEqual(violations.map(({ id, nodes }) => `${view}: ${id}: ${nodes[0].html}`), []);
      const cut = await page.evaluate(() => [...document.querySelectorAll(".row")].filter((row) => row.scrollWidth > row.clientWidth).length);
      assert.equal(cut, 0, `${view}: rows are wider than their table`);
    }
    assert.deepEqual(errors, []);
    await close();
  });
}

test("overview has a row per replica, and an unreachable one does not stop the others", async (t) => {
  const { mocks, url } = await served(t);
  const { page, errors, close } = await open(browser, url);
  const row = (name) => page.getByRole("table", { name: "replicas" }).getByRole("row").filter({ hasText: name });
  await row(A).getByText(/problems?$/).waitFor();
  await row(A).getByText("leader", { exact: true }).waitFor();
  await row(B).getByText("healthy").waitFor();
  await row(B).getByText("standby").waitFor();
  await row(B).getByText("1 of 2").first().waitFor();
  await row(C).getByText("unreachable").waitFor();
  await page.locator(".health").getByText(/connection refused; it has sent no data$/).waitFor();
  mocks[B].down = "connect to 10.0.0.2:8082: timed out";
  await page.getByText("1 of 3 live").waitFor();
  await page.locator(".health").getByText(/timed out; its data is \d+ s old$/).waitFor();
  await go(page, "informers");
  await page.getByText(/^\(its data below is \d+ s old\)$/).waitFor();
  mocks[B].down = "";
  await page.getByText("2 of 3 live").waitFor();
  assert.deepEqual(errors, []);
  await close();
});

test("tables have a column of the replica, and the choice of a replica restricts all views", async (t) => {
  const { url } = await served(t);
  const { page, errors, close } = await open(browser, url);
  await page.getByText("2 of 3 live").waitFor();
  await go(page, "controllers");
  await page.getByText("4 controllers").waitFor();
  assert.equal(await cells(page, "controllers").filter({ hasText: /^operator-1$/ }).count(), 2);
  await go(page, "reconciles");
  await page.locator("[data-filter]").fill(`${B} certificates`);
  await page.getByText(/^[\d,]+ of the latest [\d,]+ reconciles$/).waitFor();
  await page.waitForFunction((other) => !document.querySelector("main .table-body").textContent.includes(other), "operator-0");
  await page.locator("[data-filter]").fill("");
  await choose(page, B);
  await page.waitForFunction(() => ![...document.querySelectorAll("[role=columnheader]")].some((one) => one.textContent === "Replica"));
  await go(page, "controllers");
  await page.getByText("2 controllers").waitFor();
  await go(page, "overview");
  await page.getByRole("heading", { name: "Everything works" }).waitFor();
  await choose(page, "");
  await page.getByRole("button", { name: A }).click();
  assert.equal(await page.getByLabel(/^Replica/).inputValue(), A);
  assert.deepEqual(errors, []);
  await close();
});

test("failed reconcile of a replica has its key, controller and error on a phone", async (t) => {
  const { url } = await served(t);
  const { page, errors, close } = await open(browser, url, { viewport: { width: 390, height: 844 } });
  await page.getByText("2 of 3 live").waitFor();
  await go(page, "reconciles?failed=true");
  const row = page.getByRole("table", { name: "reconciles" }).getByRole("row").nth(1);
  await row.getByRole("cell").first().getByRole("link").waitFor();
  await row.getByText("operator-0", { exact: true }).waitFor();
  await row.getByText(/^(website|certificates)$/).waitFor();
  await row.getByText(/: the object was changed by another client; read it again and retry$/).waitFor();
  await go(page, "controllers");
  await page.getByRole("table", { name: "controllers", exact: true }).getByText(/^[\d,]+ failed\/min$/).first().waitFor();
  assert.deepEqual(errors, []);
  await close();
});

test("reconciles of several replicas are in the order of their ends", async (t) => {
  const { url } = await served(t, { backlog: 2000, perSecond: 0 });
  const { page, close } = await open(browser, url);
  await page.getByText("2 of 3 live").waitFor();
  await go(page, "reconciles");
  await page.getByText("latest 4,000 reconciles", { exact: true }).waitFor();
  // Each replica has reconciled the key twice, 25 seconds apart.
  await page.locator("[data-filter]").fill("shop-778");
  await page.getByText("4 of the latest 4,000 reconciles").waitFor();
  const replicas = await page.evaluate(() => [...document.querySelectorAll("main .table-body .row")].map((row) => row.children[1].textContent));
  assert.deepEqual([new Set(replicas.slice(0, 2)).size, new Set(replicas.slice(2)).size], [2, 2], `${replicas}`);
  await close();
});

test("the story of a key merges the reconciles of all replicas on one time line", async (t) => {
  // The page itself knows no reconcile of the key.
  const { mocks, url } = await served(t, { backlog: 0, perSecond: 0 });
  const { page, errors, close } = await open(browser, url);
  await page.getByText("2 of 3 live").waitFor();
  await go(page, "key?key=default%2Fshop-23");
  await page.getByRole("img", { name: `5 reconciles of website of ${A}` }).waitFor();
  await page.getByRole("img", { name: `5 reconciles of website of ${B}` }).waitFor();
  assert.equal(await page.locator(".history li.card").count(), 10);
  const times = await page.locator(".history time").allTextContents();
  assert.deepEqual(times, times.toSorted().reverse());
  await page.getByText(`${C} is unreachable: connect to 10.0.0.3:8082: connection refused`).waitFor();
  mocks[C].down = "";
  await page.getByRole("img", { name: `5 reconciles of website of ${C}` }).waitFor();
  assert.deepEqual(errors, []);
  await close();
});

test("actions go to the replica of the row", async (t) => {
  const { mocks, url } = await served(t, { actions: "0f1e2d" });
  mocks[B].actions = "another";
  const { page, errors, close } = await open(browser, url);
  await page.getByText("2 of 3 live").waitFor();
  const questions = [];
  page.on("dialog", (dialog) => {
    questions.push(dialog.message());
    void dialog.accept();
  });
  await go(page, "informers");
  const row = page.getByRole("table", { name: "informers" }).getByRole("row").filter({ hasText: "operator-1" }).first();
  await row.getByRole("button", { name: "Relist" }).click();
  await page.getByText(`${B}: relist done`).waitFor();
  await go(page, "key?key=default%2Fshop-23");
  await page.getByLabel("Controller").selectOption({ label: `certificates of ${A}` });
  await page.getByRole("button", { name: "Requeue" }).click();
  await page.getByText(`${A}: requeue done`).waitFor();
  assert.deepEqual(mocks[B].acted.map(({ action }) => action), ["relist"]);
  assert.deepEqual(mocks[A].acted, [{ method: "POST", action: "requeue", body: { controller: "certificates", key: "default/shop-23" } }]);
  assert.match(questions[0], new RegExp(`^Relist websites\\.v1\\.example\\.com on ${B}\\? `));
  assert.deepEqual(errors, []);
  await close();
});

test("hostile names and errors of replicas are shown as text", async (t) => {
  const proxy = new MockProxy({ "a:1": new Mock({ identity: HOSTILE }), [HOSTILE]: new Mock({ down: HOSTILE }) });
  const url = await proxy.start();
  t.after(() => proxy.stop());
  const { page, errors, close } = await open(browser, url);
  await page.getByText("1 of 2 live").waitFor();
  for (const view of VIEWS) {
    await go(page, view);
    assert.equal(await page.locator("main img").count(), 0);
  }
  assert.doesNotMatch(await page.title(), /hacked/);
  assert.deepEqual(errors, []);
  await close();
});

test("page reconnects to the proxy", async (t) => {
  const mocks = { "a:1": new Mock({ healthy: true }), "b:1": new Mock({ healthy: true }) };
  const first = new MockProxy(mocks);
  const url = await first.start();
  const { page, close } = await open(browser, url);
  await page.getByText("2 of 2 live").waitFor();
  await first.stop();
  await page.getByText(/^No connection to the proxy; the figures are from before/).waitFor();
  const second = new MockProxy(mocks);
  await second.start(first.port);
  t.after(() => second.stop());
  await page.getByText("2 of 2 live").waitFor({ timeout: 20_000 });
  await close();
});
