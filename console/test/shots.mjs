// Takes screenshots of each view: `node test/shots.mjs FOLDER [URL]`.
import { chromium } from "playwright-core";
import { Mock } from "./mock.mjs";

const folder = process.argv[2] ?? "/tmp";
const mock = new Mock({ backlog: 2000 });
const url = process.argv[3] ?? (await mock.start());
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
const views = (process.env.VIEWS ?? "overview,pipeline,informers,queues,controllers,reconciles,requests").split(",");
const pages = views.map((view) => [view, `#/${view}`]);
pages.push(["key", "#/key?key=default%2Fshop-23"]);
for (const [name, viewport, colorScheme] of [
  ["desktop", { width: 1280, height: 800 }, "light"],
  ["dark", { width: 1280, height: 800 }, "dark"],
  ["phone", { width: 390, height: 844 }, "light"],
]) {
  const page = await browser.newPage({ viewport, colorScheme });
  page.on("console", (message) => message.type() === "error" && console.log(name, message.text()));
  page.on("pageerror", (error) => console.log(name, error.message));
  await page.goto(url);
  await page.waitForSelector(".tiles");
  await page.waitForTimeout(6000);
  for (const [view, hash] of pages) {
    await page.evaluate((to) => { location.hash = to; }, hash);
    await page.waitForTimeout(500);
    await page.screenshot({ path: `${folder}/console-${name}-${view}.png`, fullPage: name === "phone" });
  }
  await page.close();
}
await browser.close();
if (mock.server) await mock.stop();
