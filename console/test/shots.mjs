// Takes screenshots of each view: `node test/shots.mjs FOLDER [URL]`.
import { chromium } from "playwright-core";
import { Mock } from "./mock.mjs";

const folder = process.argv[2] ?? "/tmp";
const mock = new Mock({ backlog: 2000, objects: true });
const url = process.argv[3] ?? (await mock.start());
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
const views = (process.env.VIEWS ?? "overview,pipeline,informers,queues,controllers,reconciles,requests,objects").split(",");
const pages = views.map((view) => [view, `#/${view}`]);
pages.push(["key", "#/key?key=default%2Fshop-23"]);

/** Shows an object, and the difference between two of its versions. */
async function shootObject(page, name) {
  const key = "default/shop-23";
  await page.evaluate((to) => { location.hash = to; }, `#/objects?informer=websites.v1.example.com&key=${encodeURIComponent(key)}`);
  await page.waitForSelector(".yaml");
  mock.change(key, (object) => { object.spec.replicas += 1; });
  await page.locator(".versions li").nth(1).waitFor();
  mock.change(key, (object) => {
    object.spec.image = `registry.example.com/shop:1.${object.spec.replicas}.0`;
    object.spec.regions.push(`ap-${object.spec.replicas}`);
  });
  await page.locator(".versions li").nth(2).waitFor();
  await page.screenshot({ path: `${folder}/console-${name}-object.png`, fullPage: true });
  await page.getByRole("button", { name: /^Diff with/ }).first().click();
  await page.locator(".line.added").first().waitFor();
  await page.evaluate(() => scrollTo(0, 0));
  await page.screenshot({ path: `${folder}/console-${name}-object-diff.png`, fullPage: true });
  await page.evaluate((to) => { location.hash = to; }, `#/key?key=${encodeURIComponent(key)}`);
  await page.waitForSelector(".track .version");
  await page.screenshot({ path: `${folder}/console-${name}-key-versions.png`, fullPage: true });
}

async function shoot([name, viewport, colorScheme]) {
  const page = await browser.newPage({ viewport, colorScheme });
  page.on("console", (message) => message.type() === "error" && console.log(name, message.text()));
  page.on("pageerror", (error) => console.log(name, error.message));
  await page.goto(url);
  await page.waitForSelector(".tiles");
  // The share of failures is known after a minute.
  await page.waitForTimeout(Number(process.env.WAIT ?? 65) * 1000);
  return async () => {
    for (const [view, hash] of pages) {
      await page.evaluate((to) => { location.hash = to; }, hash);
      await page.waitForTimeout(500);
      await page.screenshot({ path: `${folder}/console-${name}-${view}.png`, fullPage: name === "phone" });
    }
    if (mock.server) await shootObject(page, name);
    await page.close();
  };
}

const opened = await Promise.all([
  ["desktop", { width: 1280, height: 800 }, "light"],
  ["dark", { width: 1280, height: 800 }, "dark"],
  ["phone", { width: 390, height: 844 }, "light"],
].map(shoot));
for (const shots of opened) await shots();
await browser.close();
if (mock.server) await mock.stop();
