// Derives problems from the data, most severe first.
import { informerName, type Snapshot } from "./data";
import { count, seconds } from "./format";
import type { Store } from "./store";

export interface Problem {
  level: "bad" | "warn";
  subject: string;
  text: string;
  link: string;
}

/** A reconcile that runs longer than this is shown as a problem. */
const LONG_RECONCILE = 60;
/** A handler with more pending events than this is shown as a problem. */
const DEEP_HANDLER = 1_000;

export function problems(store: Store): Problem[] {
  const snapshot = store.snapshot;
  if (!snapshot) return [];
  const found = [...ofInformers(snapshot), ...ofControllers(snapshot, store), ...ofLeases(snapshot)];
  if (snapshot.manager !== "Running") {
    found.push({ level: "warn", subject: "Manager", text: `is ${snapshot.manager.toLowerCase()}`, link: "#/overview" });
  }
  const failed = store.recent("requestErrors");
  if (failed > 0) {
    const text = `${count(Math.round(failed))} failed requests in the last minute (5xx or no response)`;
    found.push({ level: "warn", subject: "API server", text, link: "#/overview" });
  }
  return found.sort((a, b) => Number(b.level === "bad") - Number(a.level === "bad"));
}

function ofInformers(snapshot: Snapshot): Problem[] {
  const found: Problem[] = [];
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

function ofControllers(snapshot: Snapshot, store: Store): Problem[] {
  const found: Problem[] = [];
  for (const one of snapshot.controllers) {
    const add = (level: Problem["level"], text: string, link = "#/controllers") =>
      found.push({ level, subject: `Controller ${one.name}`, text, link });
    const since = Date.now() - 60_000;
    let failed = 0;
    let last = "";
    for (let at = store.reconciles.length - 1; at >= 0; at--) {
      const reconcile = store.reconciles[at];
      if (!reconcile || reconcile.began < since) break;
      if (reconcile.controller === one.name && reconcile.result === "error") {
        failed += 1;
        last ||= reconcile.error ?? "";
      }
    }
    if (failed > 0) {
      const link = "#/reconciles?result=error";
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

function ofLeases(snapshot: Snapshot): Problem[] {
  return snapshot.leases.filter((lease) => lease.lastError).map((lease) => ({
    level: "bad",
    subject: `Lease ${lease.namespace}/${lease.name}`,
    text: `requests have failed for ${seconds(lease.failingSeconds)}: ${lease.lastError}`,
    link: "#/overview",
  }));
}
