// Derives problems from the data, most severe first.
import { type Controller, informerName, type Snapshot } from "./data";
import { count, counted, seconds } from "./format";
import type { Level } from "./parts";
import { isCurrent } from "./replicas";
import type { Failures, Store } from "./store";

/** A stage of the pipeline. */
export type StageName = "server" | "reflector" | "deltaQueue" | "handlers" | "workQueues" | "workers";

export interface Problem {
  store: Store;
  /** The stage with the problem, and the informer whose stage it is. */
  stage?: StageName;
  informer?: string;
  level: "bad" | "warn";
  subject: string;
  text: string;
  link: string;
}

/** A reconcile that runs longer than this is shown as a problem. */
const LONG_RECONCILE = 60;
/** A handler with more pending events than this is shown as a problem. */
const DEEP_HANDLER = 1_000;

/** An informer with more changes in its delta queue than this is shown as a problem. */
const DEEP_DELTA_QUEUE = 1_000;
/** Failed reconciles are an error, and not a warning, if a key has been failing for this number of seconds. */
const LONG_FAILURE = 10;
/** A queue whose ready keys grow for this number of seconds is shown as a problem. */
const LONG_GROWTH = 30;

/** The share of failures, such as ` (4.4 %)`; empty if it is not known. It has a decimal below 10 %. */
function share({ failed, finished }: Failures): string {
  if (!finished || failed === 0) return "";
  const percent = (failed / finished) * 100;
  const text = percent < 0.05 ? "less than 0.1" : percent < 9.95 ? percent.toFixed(1) : Math.round(percent);
  return ` (${text}\u00a0%)`;
}

/** Like `34 (4.4 %)`. */
export const recentText = (failures: Failures): string => `${count(failures.failed)}${share(failures)}`;

/** The failed reconciles of the last minute, such as `34 failed in the last minute (4.4 %)`. */
export const failuresText = (failures: Failures): string => `${count(failures.failed)} failed in the last minute${share(failures)}`;

/** Adds failures up. */
export const sumOfFailures = (all: Failures[]): Failures => ({
  failed: all.reduce((total, one) => total + one.failed, 0),
  finished: all.some((one) => one.finished === null) ? null : all.reduce((total, one) => total + (one.finished ?? 0), 0),
  error: all.find((one) => one.error !== "")?.error ?? "",
});

/** A problem of a replica that is known. */
type Found = Omit<Problem, "store">;

export const severity = (found: Problem[]): Level => (found.some((one) => one.level === "bad") ? "bad" : found.length > 0 ? "warn" : "ok");

export function problems(store: Store): Problem[] {
  const sorted = found(store).sort((a, b) => Number(b.level === "bad") - Number(a.level === "bad"));
  return sorted.map((one) => ({ ...one, store }));
}

function found(store: Store): Found[] {
  const snapshot = store.snapshot;
  // The page itself reports that the only program is unreachable.
  if (store.name !== "" && store.connection === "lost") {
    const text = `is unreachable: ${store.problem}; ${snapshot ? `its data is ${seconds(Math.round(store.age ?? 0))} old` : "it has sent no data"}`;
    return [{ level: "bad", subject: "Program", text, link: "#/requests" }];
  }
  if (!snapshot) return [];
  const found = [...ofInformers(snapshot), ...ofControllers(snapshot, store), ...ofLeases(snapshot)];
  if (store.name !== "" && !isCurrent(store)) {
    found.push({ level: "warn", subject: "Program", text: `has sent no data for ${seconds(Math.round(store.age ?? 0))}`, link: "#/requests" });
  }
  if (snapshot.manager !== "Running") {
    found.push({ level: "warn", subject: "Manager", text: `is ${snapshot.manager.toLowerCase()}`, link: "#/overview" });
  }
  const failed = store.series.recent("requestErrors");
  if (failed > 0) {
    const text = `${counted(Math.round(failed), "failed request")} in the last minute (5xx or no response)`;
    found.push({ level: "warn", subject: "API server", text, link: "#/requests", stage: "server" });
  }
  return found;
}

function ofInformers(snapshot: Snapshot): Found[] {
  const found: Found[] = [];
  for (const one of snapshot.informers) {
    const add = (level: Problem["level"], text: string, stage: StageName = "reflector") =>
      found.push({ level, subject: `Informer ${informerName(one.name).resource}`, text, link: "#/informers", stage, informer: one.name });
    const error = one.lastError ? `: ${one.lastError}` : "";
    if (one.crash) add("bad", `restarts after a panic: ${one.crash}`);
    else if (one.notServed) add("bad", `watches a kind that the server does not serve${error}`);
    else if (one.running && !one.synced) add("bad", `has not synced${error}`);
    else if (one.failures > 0) add("warn", `retries after ${counted(one.failures, "failed request")}${error}`);
    if (one.undecodable > 0) add("warn", `has ${counted(one.undecodable, "object")} that cannot be decoded`, "deltaQueue");
    if (one.queued > DEEP_DELTA_QUEUE) add("warn", `has ${count(one.queued)} changes in its delta queue`, "deltaQueue");
    for (const handler of one.handlers) {
      if (handler.depth > DEEP_HANDLER) {
        add("warn", `has ${count(handler.depth)} pending events of handler ${handler.name}`, "handlers");
      }
      if (handler.panics > 0) add("warn", `has had ${counted(handler.panics, "panic")} of handler ${handler.name}`, "handlers");
    }
  }
  return found;
}

/** Failed reconciles are an error if it is not known how long a key has been failing, or if it is long. */
export const failureLevel = ({ failing = null, failingSeconds = null }: Controller): Problem["level"] =>
  failing === null || (failingSeconds ?? 0) >= LONG_FAILURE ? "bad" : "warn";

/**
 * The failed reconciles of a controller, and its failing keys. They are a warning as long as no key has been failing
 * for ten seconds.
 */
function ofFailures(of: Controller, store: Store): { level: Problem["level"]; text: string } | null {
  const { name, failing = null, failingSeconds = null } = of;
  const failures = store.failures(name);
  const { failed, finished } = failures;
  if (failed === 0 && !failing) return null;
  const number = finished === null ? counted(failed, "reconcile") : `${count(failed)} of ${counted(finished, "reconcile")}`;
  const parts = [`${number} failed in the last minute${share(failures)}`];
  if (failing === 0) parts.push("no key is failing now");
  if (failing) parts.push(`${counted(failing, "key is", "keys are")} failing now, ${failing > 1 ? "one of them " : ""}for ${seconds(failingSeconds)}`);
  // A key that waits long for its next attempt has not failed in the last minute.
  const error = failures.error || (store.log.failing.findLast((one) => one.store === store && one.controller === name)?.last.error ?? "");
  if (error !== "") parts.push(`last error: ${error}`);
  return { level: failureLevel(of), text: parts.join("; ") };
}

function ofControllers(snapshot: Snapshot, store: Store): Found[] {
  const found: Found[] = [];
  for (const one of snapshot.controllers) {
    const add = (level: Problem["level"], text: string, link = "#/controllers") =>
      found.push({ level, subject: `Controller ${one.name}`, text, link, stage: "workers" });
    const failures = ofFailures(one, store);
    if (failures) add(failures.level, failures.text, `#/reconciles?${new URLSearchParams({ failed: "true", filter: one.name })}`);
    if (one.panics > 0) add("warn", `${counted(one.panics, "reconcile")} panicked`);
    const longest = Math.max(0, ...one.running.map((running) => running.beganSecondsAgo));
    if (longest > LONG_RECONCILE) add("warn", `a reconcile has been running for ${seconds(longest)}`);
  }
  for (const queue of snapshot.queues) {
    if (queue.orderFailed) {
      const text = "its order failed and was replaced by FIFO";
      found.push({ level: "bad", subject: `Queue ${queue.name}`, text, link: "#/queues", stage: "workQueues" });
    }
    const growth = store.growth.get(queue.name);
    const grown = growth && isCurrent(store) ? store.at / 1000 - growth.since : 0;
    if (growth && grown >= LONG_GROWTH) {
      const text = `its ready keys have grown for ${seconds(Math.floor(grown))}, from ${count(growth.from)} to ${count(growth.to)}`;
      found.push({ level: "warn", subject: `Queue ${queue.name}`, text, link: "#/queues", stage: "workQueues" });
    }
  }
  return found;
}

function ofLeases(snapshot: Snapshot): Found[] {
  return snapshot.leases.filter((lease) => lease.lastError).map((lease) => ({
    level: "bad",
    subject: `Lease ${lease.namespace}/${lease.name}`,
    text: `requests have failed for ${seconds(lease.failingSeconds)}: ${lease.lastError}`,
    link: "#/overview",
  }));
}
