// Derives problems from the data, most severe first.
import { informerName, type Snapshot } from "./data";
import { count, seconds } from "./format";
import { ended } from "./log";
import { isCurrent } from "./replicas";
import type { Store } from "./store";

export interface Problem {
  store: Store;
  level: "bad" | "warn";
  subject: string;
  text: string;
  link: string;
}

/** A reconcile that runs longer than this is shown as a problem. */
const LONG_RECONCILE = 60;
/** A handler with more pending events than this is shown as a problem. */
const DEEP_HANDLER = 1_000;

/** A problem of a replica that is known. */
type Found = Omit<Problem, "store">;

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
    const text = `${count(Math.round(failed))} failed requests in the last minute (5xx or no response)`;
    found.push({ level: "warn", subject: "API server", text, link: "#/overview" });
  }
  return found;
}

function ofInformers(snapshot: Snapshot): Found[] {
  const found: Found[] = [];
  for (const one of snapshot.informers) {
    const add = (level: Problem["level"], text: string) =>
      found.push({ level, subject: `Informer ${informerName(one.name).resource}`, text, link: "#/informers" });
    const error = one.lastError ? `: ${one.lastError}` : "";
    if (one.crash) add("bad", `restarts after a panic: ${one.crash}`);
    else if (one.notServed) add("bad", `watches a kind that the server does not serve${error}`);
    else if (one.running && !one.synced) add("bad", `has not synced${error}`);
    else if (one.failures > 0) add("warn", `retries after ${count(one.failures)} failed requests${error}`);
    if (one.undecodable > 0) add("warn", `has ${count(one.undecodable)} objects that cannot be decoded`);
    for (const handler of one.handlers) {
      if (handler.depth > DEEP_HANDLER) {
        add("warn", `handler ${handler.name} has ${count(handler.depth)} pending events`);
      }
      if (handler.panics > 0) add("warn", `handler ${handler.name} panicked ${count(handler.panics)} times`);
    }
  }
  return found;
}

function ofControllers(snapshot: Snapshot, store: Store): Found[] {
  const found: Found[] = [];
  for (const one of snapshot.controllers) {
    const add = (level: Problem["level"], text: string, link = "#/controllers") =>
      found.push({ level, subject: `Controller ${one.name}`, text, link });
    const since = Date.now() - 60_000;
    let failed = 0;
    let last = "";
    const reconciles = store.log.all;
    for (let at = reconciles.length - 1; at >= 0; at--) {
      const reconcile = reconciles[at];
      if (!reconcile || ended(reconcile) < since) break;
      if (reconcile.store === store && reconcile.controller === one.name && reconcile.result === "error") {
        failed += 1;
        last ||= reconcile.error ?? "";
      }
    }
    if (failed > 0) {
      const link = "#/reconciles?failed=true";
      add("bad", `${count(failed)} failed reconciles in the last minute; the last error: ${last}`, link);
    }
    if (one.panics > 0) add("warn", `${count(one.panics)} reconciles panicked`);
    const longest = Math.max(0, ...one.running.map((running) => running.beganSecondsAgo));
    if (longest > LONG_RECONCILE) add("warn", `a reconcile has been running for ${seconds(longest)}`);
  }
  for (const queue of snapshot.queues) {
    if (queue.orderFailed) {
      const text = "its order failed and was replaced by FIFO";
      found.push({ level: "bad", subject: `Queue ${queue.name}`, text, link: "#/queues" });
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
