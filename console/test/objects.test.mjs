// Tests of the view of objects with the made-up data of `mock.mjs`.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { AxeBuilder } from "@axe-core/playwright";
import { load } from "js-yaml";
import { go, launch, open } from "./browser.mjs";
import { HOSTILE, Mock, MockProxy } from "./mock.mjs";

const SHOP = "objects?informer=websites.v1.example.com&key=default%2Fshop-23";

let browser;
before(async () => { browser = await launch(); });
after(() => browser.close());

async function served(t, options = {}) {
  const mock = new Mock({ objects: true, ...options });
  const url = await mock.start();
  t.after(() => mock.stop());
  return { mock, url };
}

const accessible = async (page) => {
  const { violations } = await new AxeBuilder({ page }).analyze();
  assert.deepEqual(violations.map(({ id, nodes }) => `${id}: ${nodes[0].html}`), []);
};

test("objects are not offered by default", async (t) => {
  const { url } = await served(t, { objects: false });
  const { page, errors, close } = await open(browser, url);
  await page.waitForSelector(".tiles");
  await go(page, "objects");
  await page.getByText(/^The program shows no objects/).waitFor();
  await go(page, "key?key=default%2Fshop-23");
  assert.equal(await page.getByRole("heading", { name: "Object", exact: true }).count(), 0);
  assert.deepEqual(errors, []);
  await close();
});

test("keys of an informer are filtered by the program and read in pages", async (t) => {
  const { url } = await served(t);
  const { page, errors, close } = await open(browser, url);
  await page.waitForSelector(".tiles");
  await go(page, "objects");
  await page.getByText("1,001 keys", { exact: true }).waitFor();
  assert.equal(await page.getByRole("button", { name: "Next objects" }).count(), 0);
  await page.getByRole("button", { name: "Key" }).click();
  await page.keyboard.press("/");
  await page.keyboard.type("shop-77");
  await page.getByText("11 of 1,001 keys match", { exact: true }).waitFor();
  await page.getByRole("cell").getByRole("link", { name: "default/shop-778" }).click();
  await page.getByText("host: shop-778.example.com").waitFor();
  await page.goBack();
  await page.getByLabel("Informer").selectOption("secrets.v1 namespace=cert-manager");
  await page.getByRole("link", { name: "cert-manager/ca" }).click();
  await page.getByText("tls.key: (redacted, 1704 bytes)").waitFor();
  await page.getByText("The values of Secrets do not leave the program.").waitFor();
  assert.deepEqual(errors, []);
  await close();
});

test("keys are shown in windows, of which one is in memory", async (t) => {
  const { mock, url } = await served(t, { websites: 9_999 });
  const { page, errors, close } = await open(browser, url, { viewport: { width: 390, height: 844 } });
  await page.waitForSelector(".tiles");
  await go(page, "objects");
  const [previous, next] = ["Previous objects", "Next objects"].map((name) => page.getByRole("button", { name }));
  const shows = async (text) => {
    await page.getByText(text, { exact: true }).waitFor();
    const rows = await page.getByRole("table", { name: "objects" }).getAttribute("aria-rowcount");
    assert.ok(Number(rows) <= 2001, `${rows} rows are in the table`);
  };
  await shows("objects 1–2,000 of 10,000");
  assert.equal(await page.getByRole("columnheader").getByRole("button").count(), 0, "a part of the keys is not sorted");
  assert.equal(await previous.getAttribute("aria-disabled"), "true");
  await accessible(page);
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 390);
  await page.evaluate(() => { document.querySelector(".table-body").scrollTop = 9_000; });
  await next.click();
  await shows("objects 2,001–4,000 of 10,000");
  assert.equal(await page.evaluate(() => document.querySelector(".table-body").scrollTop), 0);
  await next.click();
  await shows("objects 4,001–6,000 of 10,000");
  // The position counts the keys that are left.
  const keys = [...mock.cached["websites.v1.example.com"].keys()].sort();
  for (const key of keys.slice(10, 20)) mock.cached["websites.v1.example.com"].delete(key);
  await shows("objects 3,991–5,990 of 9,990");
  const first = await page.getByRole("cell").getByRole("link").first().textContent();
  assert.equal(first, keys[4_000]);
  await page.getByRole("cell").getByRole("link").nth(1).click();
  await page.waitForSelector(".yaml");
  await page.goBack();
  await shows("objects 3,991–5,990 of 9,990");
  await previous.click();
  await shows("objects 1,991–3,990 of 9,990");
  for (let window = 0; window < 3; window++) {
    await next.click();
    await page.getByText(new RegExp(`^objects ${["3,991", "5,991", "7,991"][window]}`)).waitFor();
  }
  await shows("objects 7,991–9,990 of 9,990");
  assert.equal(await next.getAttribute("aria-disabled"), "true");
  assert.equal(await next.evaluate((one) => one === document.activeElement), true, "the button keeps the focus");
  await page.locator("[data-filter]").fill("shop-");
  await shows("objects 1–2,000 of 9,989 whose keys match; 9,990 in total");
  await page.locator("[data-filter]").fill("shop-77");
  await page.getByText("111 of 9,990 keys match", { exact: true }).waitFor();
  assert.equal(await page.evaluate(() => location.hash), "#/objects?contains=shop-77");
  await page.getByRole("button", { name: "Key" }).click();
  await page.getByRole("navigation").getByRole("link", { name: "Objects" }).click();
  await shows("objects 1–2,000 of 9,990");
  assert.deepEqual(errors, []);
  await close();
});

test("changes are shown as versions with a diff that is readable without colors", async (t) => {
  const { mock, url } = await served(t);
  const { page, errors, close } = await open(browser, url);
  await page.waitForSelector(".tiles");
  await go(page, SHOP);
  const yaml = page.locator("pre.yaml");
  assert.match(await yaml.textContent(), /^apiVersion: example\.com\/v1\nkind: Website\n/);
  assert.doesNotMatch(await yaml.textContent(), /managedFields/);
  await page.getByLabel("Managed fields").check();
  await yaml.getByText("managedFields").waitFor();
  await page.getByLabel("Managed fields").uncheck();
  mock.change("default/shop-23", (object) => { object.spec.replicas = 3; });
  await page.getByText("1 line added, 1 removed").waitFor();
  await yaml.getByText("replicas: 3").waitFor();
  mock.change("default/shop-23", (object) => { object.spec.regions.push("ap-1"); });
  await page.getByText("1 line added, 0 removed").waitFor();
  assert.equal(await page.locator(".versions li").count(), 3);
  await page.getByRole("button", { name: /^Diff with previous version: 184469/ }).click();
  assert.deepEqual(await page.locator(".line.added").allTextContents(), ["+added:   - ap-1"]);
  assert.equal(await page.evaluate(() => document.activeElement.getAttribute("aria-label")), "Differences");
  const rows = page.locator(".versions li");
  assert.equal(await rows.nth(0).getAttribute("aria-current"), "true");
  assert.match(await rows.nth(0).textContent(), /spec\.regions: 1 line added/);
  await rows.nth(1).getByText("compared with").waitFor();
  assert.equal(await page.locator(".line.removed").count(), 0);
  // The unchanged lines are folded, and shown with the keyboard.
  const folded = page.locator(".yaml details").first();
  assert.match(await folded.textContent(), /^\d+ unchanged lines/);
  await folded.locator("summary").focus();
  await page.keyboard.press("Enter");
  await folded.getByText("kind: Website").waitFor();
  await page.getByLabel("Compare with").selectOption({ index: 3 });
  await page.locator(".line.removed").waitFor();
  assert.deepEqual(await page.locator(".line.removed").allTextContents(), ["-removed:   replicas: 2"]);
  await accessible(page);
  await page.getByRole("button", { name: /^Show 184467/ }).click();
  await yaml.getByText("replicas: 2").waitFor();
  await accessible(page);
  await page.getByText("not the newest").waitFor();
  await page.getByRole("button", { name: "Newest version" }).click();
  await yaml.getByText("- ap-1").waitFor();
  assert.equal(await page.getByText("not the newest").count(), 0);
  assert.deepEqual(errors, []);
  await close();
});

test("items of lists are shown with their type, which is no difference to a watch event", async (t) => {
  const { mock, url } = await served(t);
  const { page, errors, close } = await open(browser, url);
  await page.waitForSelector(".tiles");
  const yaml = page.locator("pre.yaml");
  const change = (informer, type) => mock.change("default/shop-23", (object) => {
    object.spec.replicas += 1;
    Object.assign(object, type);
  }, informer);
  const diff = async () => {
    await page.getByText("spec.replicas: 1 line added, 1 removed", { exact: true }).last().waitFor();
    await page.getByRole("button", { name: /^Diff with previous version: 184468/ }).click();
    const lines = page.locator(".line.added, .line.removed");
    await lines.first().waitFor();
    assert.deepEqual(await lines.allTextContents(), ["-removed:   replicas: 2", "+added:   replicas: 3"]);
  };
  // A controller watches the kind of this informer.
  await go(page, "objects?informer=deployments.v1.apps&key=default%2Fshop-23");
  assert.match(await yaml.textContent(), /^apiVersion: apps\/v1\nkind: Deployment\nmetadata:\n/);
  change("deployments.v1.apps", { apiVersion: "apps/v1", kind: "Deployment" });
  await diff();
  await accessible(page);
  change("deployments.v1.apps", { apiVersion: "apps/v1", kind: "Deployment" });
  await page.getByText("spec.replicas: 1 line added, 1 removed", { exact: true }).nth(1).waitFor();

  // The kind of this informer is known as soon as a version has it.
  await go(page, `objects?${new URLSearchParams({ informer: "pods.v1 form=Metadata", key: "default/shop-23" })}`);
  await page.waitForFunction(() => document.querySelector("pre.yaml")?.textContent.startsWith("metadata:\n"));
  change("pods.v1 form=Metadata", { apiVersion: "v1", kind: "Pod" });
  await diff();
  await page.getByRole("button", { name: /^Show 184467/ }).click();
  await yaml.waitFor();
  assert.match(await yaml.textContent(), /^apiVersion: v1\nkind: Pod\nmetadata:\n/);
  assert.deepEqual(errors, []);
  await close();
});

test("deleted object is said, and its last version stays", async (t) => {
  const { mock, url } = await served(t);
  const { page, errors, close } = await open(browser, url);
  await page.waitForSelector(".tiles");
  await go(page, SHOP);
  mock.cached["websites.v1.example.com"].delete("default/shop-23");
  await page.getByText(/^deleted The object was deleted at/).waitFor();
  await page.locator("pre.yaml").getByText("host: shop-23.example.com").waitFor();
  assert.equal(await page.locator(".versions li").count(), 2);
  await go(page, "objects?informer=websites.v1.example.com&key=default%2Fshop-24");
  await go(page, SHOP);
  assert.equal(await page.locator(".versions li").count(), 2, "the versions are kept while the page is open");
  await page.evaluate(() => { location.hash = "#/objects?informer=websites.v1.example.com&key=default%2Fother"; });
  await page.getByText(/^The cache has no object with this key/).waitFor();
  await accessible(page);
  assert.deepEqual(errors, []);
  await close();
});

test("story of a key links to the object, and shows its versions among the reconciles", async (t) => {
  const { mock, url } = await served(t);
  const { page, errors, close } = await open(browser, url);
  await page.waitForSelector(".tiles");
  await go(page, "key?key=default%2Fshop-23");
  await page.getByRole("link", { name: "default/shop-23 in websites.v1.example.com" }).waitFor();
  await page.getByRole("img", { name: "1 versions in websites.v1.example.com" }).waitFor();
  assert.equal(await page.locator(".track circle.first").count(), 1);
  assert.equal(await page.locator(".object-head a").count(), 1, "only the informer of the reconciled kind is read");
  mock.change("default/shop-23", (object) => { object.spec.replicas = 5; });
  const changed = page.locator(".history li").first();
  await changed.locator(".badge", { hasText: "changed" }).waitFor();
  await changed.getByText("1 line added, 1 removed").first().click();
  await changed.getByText("replicas: 5").waitFor();
  assert.equal(await page.locator(".track circle:not(.first)").count(), 1);
  await accessible(page);
  await page.getByRole("link", { name: "default/shop-23 in websites.v1.example.com" }).click();
  await page.getByText("1 line added, 1 removed").waitFor();
  assert.deepEqual(errors, []);
  await close();
});

test("hostile key and values of an object are shown as text", async (t) => {
  const { url } = await served(t);
  const { page, errors, close } = await open(browser, url);
  await page.waitForSelector(".tiles");
  await go(page, "objects");
  await page.locator("[data-filter]").fill("<img");
  const link = page.getByRole("cell").getByRole("link");
  await page.getByText("1 of 1,001 keys match", { exact: true }).waitFor();
  const shown = HOSTILE.replace("\u202e", "\\u202e");
  assert.equal(await link.textContent(), shown);
  await link.click();
  await page.getByRole("heading", { name: shown }).waitFor();
  await page.waitForSelector(".yaml");
  const yaml = await page.locator("pre.yaml").textContent();
  assert.match(yaml, /onerror/);
  assert.match(yaml, /text: "default\/<img .*\\u202e"/, "characters that change the order of others are visible");
  assert.equal(load(yaml).metadata.labels.text, HOSTILE, "the YAML has the same data");
  assert.equal(await page.locator("main img").count(), 0);
  assert.match(await page.title(), /^default\/<img src=x onerror=.* · informer console$/);
  assert.deepEqual(errors, []);
  await close();
});

test("object of one of several replicas is read from this replica", async (t) => {
  const mocks = { "a:1": new Mock({ objects: true }), "b:1": new Mock({ objects: true }), "c:1": new Mock({}) };
  mocks["b:1"].change("default/shop-23", (object) => { object.spec.host = "only-in-b"; });
  const proxy = new MockProxy(mocks);
  const url = await proxy.start();
  t.after(() => proxy.stop());
  const { page, errors, close } = await open(browser, url);
  await page.getByText("3 of 3 live").waitFor();
  await go(page, "objects");
  const options = await page.getByLabel("Informer").locator("option").allTextContents();
  assert.equal(options.filter((one) => one.endsWith("of c:1")).length, 0);
  await page.getByLabel("Informer").selectOption("websites.v1.example.com of b:1");
  await page.locator("[data-filter]").fill("shop-23");
  await page.getByRole("link", { name: "default/shop-23", exact: true }).click();
  await page.getByText("host: only-in-b").waitFor();
  await accessible(page);
  assert.deepEqual(errors, []);
  await close();
});

test("large object with a changed version is shown without blocking for long", async (t) => {
  const { mock, url } = await served(t);
  mock.change("default/shop-23", (object) => { object.spec.lines = Array.from({ length: 20_000 }, (_, at) => `line ${at}`); });
  const { page, errors, close } = await open(browser, url);
  await page.waitForSelector(".tiles");
  await go(page, SHOP);
  mock.change("default/shop-23", (object) => { object.spec.lines[9_999] = "other"; });
  await page.getByRole("button", { name: /^Diff with previous/ }).click();
  await page.locator(".line.added").getByText("other").waitFor();
  assert.equal(await page.locator(".yaml > details").count(), 2, "the unchanged lines are folded");
  assert.deepEqual(errors, []);
  await close();
});
