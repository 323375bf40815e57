// Starts the browser of the tests.
import { chromium } from "playwright-core";

export const launch = () =>
  chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });

/** Opens the page and collects its errors, and its requests to other servers than that of the page. */
export async function open(browser, url, options = {}) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  const errors = [];
  page.on("pageerror", (error) => errors.push(error.message));
  page.on("console", (message) => {
    if (message.type() === "error" && !/Failed to load resource|ERR_/.test(message.text())) errors.push(message.text());
  });
  page.on("request", (request) => {
    if (!request.url().startsWith(new URL(url).origin) && !request.url().startsWith("data:")) errors.push(`request to ${request.url()}`);
  });
  await page.goto(url);
  return { page, errors, close: () => context.close() };
}

/** Shows a view of the console. */
export async function go(page, view) {
  await page.evaluate((to) => { location.hash = `#/${to}`; }, view);
  await page.waitForFunction((name) => document.querySelector("nav [aria-current]")?.getAttribute("href") === `#/${name}`, view.split("?")[0]);
  if (view.startsWith("key")) await page.waitForSelector(".history li");
  if (view.startsWith("objects") && view.includes("key=")) await page.waitForSelector(".yaml");
}
