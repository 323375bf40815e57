import { useEffect, useState } from "preact/hooks";
import { Chart } from "./chart";
import {
  type Controller, finished, type Informer, informerName, type LatencyBucket, quantile, type Queue, type Reconcile, type Snapshot,
  type KeyHistory, sum,
} from "./data";
import { bytes, clock, count, NONE, rate, seconds } from "./format";
import { problems } from "./health";
import { Badge, Tile } from "./parts";
import type { Store } from "./store";
import { type Column, Table } from "./table";

export interface ViewProps {
  store: Store;
  snapshot: Snapshot;
  theme: string;
  parameter: (name: string) => string;
}

export const keyLink = (key: string) => `#/key?key=${encodeURIComponent(key)}`;

const result = (value: string | null) => {
  if (value === null) return <Badge level="none">running</Badge>;
  return <Badge level={value === "error" ? "bad" : "ok"}>{value.startsWith("requeue") ? "requeued" : value}</Badge>;
};

interface ActionProps {
  store: Store;
  action: "requeue" | "relist" | "drop";
  body: Record<string, string>;
  /** The effect, of which the user is asked. */
  question: string;
  children: string;
}

function Action({ store, action, body, question, children }: ActionProps) {
  return (
    <button type="button" class="action" onClick={() => {
      if (confirm(question)) void store.act(action, body);
    }}>{children}</button>
  );
}

/** The actions on an informer. */
function InformerActions({ store, name }: { store: Store; name: string }) {
  return (
    <>
      <Action store={store} action="relist" body={{ informer: name }}
        question={`Relist ${name}? The informer reads all objects from the API server again.`}>Relist</Action>{" "}
      <Action store={store} action="drop" body={{ informer: name }}
        question={`Drop ${name}? Its objects are removed from the cache, and the next read lists them again. An informer that is in use stays.`}>Drop</Action>
    </>
  );
}

function Tiles({ store, snapshot }: ViewProps) {
  const { informers, queues, controllers, process } = snapshot;
  const synced = informers.filter((one) => one.synced).length;
  const election = snapshot.leases.find((lease) => lease.kind === "leader-election");
  const leader = election ? (election.active ? "leader" : "standby") : "no election";
  const rates = { done: store.rate((of) => sum(of.controllers, finished)), errors: store.series.errors.at(-1) };
  return (
    <div class="tiles">
      <Tile title="Informers synced" value={`${synced} of ${informers.length}`} link="#/informers"
        detail={`${count(sum(informers, (one) => one.objects))} objects`} />
      <Tile title="Queued keys" value={count(sum(queues, (one) => one.ready))} link="#/queues"
        detail={`${count(sum(queues, (one) => one.waiting))} delayed`} />
      <Tile title="Reconciles" value={rate(rates.done)} link="#/reconciles"
        detail={`${rate(rates.errors)} errors`} />
      <Tile title="Workers busy" link="#/controllers"
        value={`${sum(controllers, (one) => one.active)} of ${sum(controllers, (one) => one.workers)}`}
        detail={`${controllers.length} controllers`} />
      <Tile title="API requests" value={rate(store.series.requests.at(-1))} link="#/requests"
        detail={`${count(sum(snapshot.client.requests, (one) => one.count))} in total`} />
      <Tile title="Process" value={bytes(process.residentBytes)} link="#/requests"
        detail={`${leader}, ${count(process.tasks)} tasks`} />
    </div>
  );
}

export function Overview(props: ViewProps) {
  const { store, snapshot, theme } = props;
  const found = problems(store);
  return (
    <>
      <section class={`card health ${found.some((one) => one.level === "bad") ? "bad" : found.length > 0 ? "warn" : "ok"}`}>
        <h2>{found.length === 0 ? "Everything works" : found.length === 1 ? "1 problem" : `${found.length} problems`}</h2>
        {found.length > 0 && (
          <ul>
            {found.slice(0, 20).map((one) => (
              <li key={one.subject + one.link + one.text}>
                <Badge level={one.level}>{one.level === "bad" ? "error" : "warning"}</Badge>
                <span><a href={one.link}>{one.subject}</a> {one.text}</span>
              </li>
            ))}
          </ul>
        )}
        {found.length > 20 && <p class="muted">and {found.length - 20} more</p>}
      </section>
      <Tiles {...props} />
      <div class="charts">
        <Chart store={store} theme={theme} title="Reconciles" format={rate} lines={[
          { series: "success", label: "succeeded", color: "--line-1" }, { series: "errors", label: "failed", color: "--line-2" }]} />
        <Chart store={store} theme={theme} title="Work queues" format={count} lines={[
          { series: "ready", label: "ready", color: "--line-1" }, { series: "waiting", label: "delayed", color: "--line-3" },
          { series: "processing", label: "in process", color: "--line-2" }]} />
        <Chart store={store} theme={theme} title="Watch events" format={rate} lines={[
          { series: "events", label: "received", color: "--line-1" }]} />
        <Chart store={store} theme={theme} title="API requests" format={rate} lines={[
          { series: "requests", label: "sent", color: "--line-1" }, { series: "requestErrors", label: "failed", color: "--line-2" }]} />
        <Chart store={store} theme={theme} title="Cached objects" format={count} lines={[
          { series: "objects", label: "objects", color: "--line-1" }]} />
        <Chart store={store} theme={theme} title="Resident memory" format={bytes} lines={[
          { series: "memory", label: "process", color: "--line-1" }]} />
      </div>
      <Leases snapshot={snapshot} />
    </>
  );
}

function Leases({ snapshot }: { snapshot: Snapshot }) {
  if (snapshot.leases.length === 0) return null;
  return (
    <section class="card">
      <h2>Leases</h2>
      <ul class="plain">
        {snapshot.leases.map((lease) => (
          <li key={`${lease.kind} ${lease.namespace}/${lease.name}`}>
            <Badge level={lease.lastError ? "bad" : lease.active ? "ok" : "none"}>{lease.active ? "active" : "standby"}</Badge>{" "}
            <b>{lease.namespace}/{lease.name}</b> <span class="muted">{lease.kind}</span>
            <div class="muted">this process is {lease.identity}{lease.holder ? `, the holder is ${lease.holder}` : ""}</div>
          </li>
        ))}
      </ul>
    </section>
  );
}

interface Stage {
  title: string;
  rate: string;
  facts: [string, string][];
  level?: "warn" | "bad";
  link: string;
}

function stages(store: Store, snapshot: Snapshot, chosen: string): Stage[] {
  const of = (all: Snapshot) => all.informers.filter((one) => chosen === "" || one.name === chosen);
  const informers = of(snapshot);
  const handlers = informers.flatMap((one) => one.handlers);
  const count_ = (value: (one: Informer) => number) => count(sum(informers, value));
  const rate_ = (value: (one: Informer) => number) => rate(store.rate((all) => sum(of(all), value)));
  const { queues, controllers, client } = snapshot;
  const relists = sum(informers, (one) => sum(Object.entries(one.relists), ([reason, times]) => (reason === "first" ? 0 : times)));
  const backlog = sum(informers, (one) => one.queued);
  const depth = sum(handlers, (one) => one.depth);
  const failing = informers.filter((one) => one.failures > 0).length;
  const [before, now] = [store.previous?.queues ?? [], queues];
  const started = sum(now, (one) => one.started) - sum(before, (one) => one.started);
  const waited = sum(now, (one) => one.queuedSecondsTotal) - sum(before, (one) => one.queuedSecondsTotal);
  const done = sum(now, (one) => one.done) - sum(before, (one) => one.done);
  const worked = sum(now, (one) => one.workedSecondsTotal) - sum(before, (one) => one.workedSecondsTotal);
  const mean = (total: number, number: number) => (store.previous && number > 0 ? seconds(Math.max(0, total / number)) : NONE);
  return [
    { title: "API server", rate: rate(store.series.requests.at(-1)), link: "#/requests",
      facts: [["requests", count(sum(client.requests, (one) => one.count))], ["watches opened", count_((one) => one.watches)]] },
    { title: "Reflector", rate: rate_((one) => one.events), link: "#/informers", level: failing > 0 ? "warn" : undefined,
      facts: [["relists", count(relists)], ["failing", count(failing)]] },
    { title: "Queue", rate: rate_((one) => one.changes), link: "#/informers", level: backlog > 1000 ? "warn" : undefined,
      facts: [["waiting changes", count(backlog)], ["undecodable", count_((one) => one.undecodable)]] },
    { title: "Store", rate: count_((one) => one.objects), link: "#/informers",
      facts: [["objects held", bytes(sum(informers, (one) => one.bytes))], ["not synced", count(informers.filter((one) => !one.synced).length)]] },
    { title: "Handlers", link: "#/informers", level: depth > 1000 ? "warn" : undefined,
      rate: rate_((one) => sum(one.handlers, (handler) => handler.calls)),
      facts: [["pending events", count(depth)], ["panics", count(sum(handlers, (one) => one.panics))]] },
    { title: "Work queue", rate: rate(store.rate((all) => sum(all.queues, (one) => one.added))), link: "#/queues",
      facts: [["ready, delayed", `${count(sum(queues, (one) => one.ready))}, ${count(sum(queues, (one) => one.waiting))}`],
        ["mean wait", mean(waited, started)]] },
    { title: "Workers", rate: rate(store.rate((all) => sum(all.controllers, finished))), link: "#/controllers",
      level: (store.series.errors.at(-1) ?? 0) > 0 ? "bad" : undefined,
      facts: [["busy", `${sum(controllers, (one) => one.active)} of ${sum(controllers, (one) => one.workers)}`],
        ["mean duration", mean(worked, done)]] },
  ];
}

const eventRate = (store: Store, name: string) =>
  store.rate((of) => of.informers.find((one) => one.name === name)?.events);

export function Pipeline({ store, snapshot }: ViewProps) {
  const [chosen, setChosen] = useState("");
  return (
    <>
      <p class="muted lead">
        From the API server to the reconciler. The large figure of each stage is its rate in the last second, and that
        of the store its number of objects.
      </p>
      <label class="choice">
        Informer{" "}
        <select value={chosen} onChange={(event) => setChosen(event.currentTarget.value)}>
          <option value="">all</option>
          {snapshot.informers.map((one) => <option value={one.name} key={one.name}>{one.name}</option>)}
        </select>
      </label>
      <ol class="pipeline">
        {stages(store, snapshot, chosen).map((stage) => (
          <li class={`card ${stage.level ?? ""}`} key={stage.title}>
            <h2><a href={stage.link}>{stage.title}</a></h2>
            <strong>{stage.rate}</strong>
            <dl>
              {stage.facts.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}
            </dl>
          </li>
        ))}
      </ol>
      <h2>By informer</h2>
      <Table name="informers" rows={snapshot.informers} id={(one) => one.name} empty="This manager has no informers." columns={[
        { title: "Informer", value: (one) => one.name, width: "minmax(0, 3fr)" },
        { title: "Events", value: (one) => one.events, show: (one) => rate(eventRate(store, one.name)), width: "5rem", numeric: true },
        { title: "Waiting", value: (one) => one.queued, show: (one) => count(one.queued), width: "5.5rem", numeric: true, narrow: false },
        { title: "Objects", value: (one) => one.objects, show: (one) => count(one.objects), width: "5.5rem", numeric: true },
        { title: "Memory", value: (one) => one.bytes, show: (one) => bytes(one.bytes), width: "6rem", numeric: true, narrow: false },
        { title: "Pending", value: (one) => sum(one.handlers, (handler) => handler.depth), width: "5rem", numeric: true },
      ]} />
      {chosen !== "" && <p class="muted">The stages API server, work queue and workers are those of the whole process.</p>}
    </>
  );
}

const informerColumns: Column<Informer>[] = [
  { title: "Kind", value: (one) => informerName(one.name).resource, width: "minmax(0, 3fr)" },
  { title: "Scope", value: (one) => informerName(one.name).scope, width: "minmax(0, 1.5fr)", narrow: false },
  { title: "Form", value: (one) => informerName(one.name).form, width: "minmax(0, 1fr)", narrow: false },
  { title: "Phase", value: (one) => one.phase, width: "7rem",
    show: (one) => <Badge level={one.crash ? "bad" : one.synced ? (one.failures > 0 ? "warn" : "ok") : "bad"}>{one.phase}</Badge> },
  { title: "Objects", value: (one) => one.objects, show: (one) => count(one.objects), width: "5.5rem", numeric: true },
  { title: "Memory", value: (one) => one.bytes, show: (one) => bytes(one.bytes), width: "6rem", numeric: true, narrow: false },
  { title: "Version", value: (one) => one.version, width: "minmax(0, 1fr)", narrow: false },
  { title: "Version age", value: (one) => one.versionAgeSeconds ?? -1, show: (one) => seconds(one.versionAgeSeconds), width: "7rem", numeric: true, narrow: false },
  { title: "Lists", value: (one) => sum(Object.values(one.relists), (times) => times), width: "4.5rem", numeric: true, narrow: false },
  { title: "Undecodable", value: (one) => one.undecodable, width: "7rem", numeric: true, narrow: false },
];

/** The bounds of the buckets, which are the same for all handlers. */
const BOUNDS = [1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, null];

const bound = (value: number | null) => (value === Infinity ? "over 10 s" : seconds(value));

function latencyText(latency: LatencyBucket[]): string {
  const text = ({ upToSeconds, calls }: LatencyBucket) => `${count(calls)} ${upToSeconds === null ? "longer" : `up to ${seconds(upToSeconds)}`}`;
  return latency.map(text).join(", ") || "no calls";
}

/** The histogram of a handler as small bars, from 10 µs to 10 s. */
function Latency({ latency }: { latency: LatencyBucket[] }) {
  const calls = BOUNDS.map((bound) => latency.find((one) => one.upToSeconds === bound)?.calls ?? 0);
  const most = Math.max(1, ...calls);
  // A bucket with a few calls among many must be visible, so the height is logarithmic.
  const height = (value: number) => (value === 0 ? 0 : 2 + (Math.log1p(value) / Math.log1p(most)) * 16);
  return (
    <svg class="histogram" viewBox={`0 0 ${BOUNDS.length * 7} 18`} role="img" aria-label={latencyText(latency)}>
      {calls.map((value, at) => <rect key={at} x={at * 7} y={18 - height(value)} width="6" height={height(value)} />)}
    </svg>
  );
}

export function Informers({ store, snapshot }: ViewProps) {
  const notes = snapshot.informers.filter((one) => one.lastError || Object.keys(one.relists).length > 1);
  const handlers = snapshot.informers.flatMap((one) => one.handlers.map((handler, at) => ({ ...handler, of: one.name, at })));
  return (
    <>
      <Table name="informers" rows={snapshot.informers} id={(one) => one.name}
        columns={snapshot.actions
          ? [...informerColumns.filter(({ title }) => title !== "Version"), { title: "Actions", value: () => "", show: (one) => <InformerActions store={store} name={one.name} />, width: "8.5rem" }]
          : informerColumns}
        empty="This manager has no informers. Add a controller or read through the cache." />
      <h2>Handlers</h2>
      <Table name="handlers" rows={handlers} id={(one) => `${one.of} ${one.at}`} empty="No informer has a handler." columns={[
        { title: "Informer", value: (one) => one.of, width: "minmax(0, 2fr)" },
        { title: "Handler", value: (one) => one.name, width: "minmax(0, 2fr)", narrow: false },
        { title: "Pending", value: (one) => one.depth, show: (one) => count(one.depth), width: "5.5rem", numeric: true },
        { title: "Most pending", value: (one) => one.depthMax, show: (one) => count(one.depthMax), width: "8rem", numeric: true, narrow: false },
        { title: "Calls", value: (one) => one.calls, show: (one) => count(one.calls), width: "6rem", numeric: true, narrow: false },
        { title: "p50", value: (one) => quantile(one.latency, 0.5) ?? -1, show: (one) => bound(quantile(one.latency, 0.5)), width: "5rem", numeric: true, narrow: false },
        { title: "p99", value: (one) => quantile(one.latency, 0.99) ?? -1, show: (one) => bound(quantile(one.latency, 0.99)), width: "5rem", numeric: true },
        { title: "Latency", value: (one) => latencyText(one.latency), show: (one) => <Latency latency={one.latency} />, width: "7rem", narrow: false },
        { title: "Panics", value: (one) => one.panics, width: "5rem", numeric: true, narrow: false,
          show: (one) => (one.panics > 0 ? <Badge level="warn">{count(one.panics)}</Badge> : "0") },
      ]} />
      {notes.length > 0 && <h2>Lists and errors</h2>}
      {notes.map((one) => (
        <section class="card" key={one.name}>
          <h3>{one.name}</h3>
          <p class="muted">lists by reason: {Object.entries(one.relists).map(([reason, times]) => `${reason.replaceAll("_", " ")} ${times}`).join(", ")}</p>
          {one.lastError && <p class="error-text">{one.failures > 0 ? `${one.failures} failures in a row; ` : "recovered from: "}{one.lastError}</p>}
        </section>
      ))}
    </>
  );
}

const queueColumns: Column<Queue>[] = [
  { title: "Queue", value: (one) => one.name, width: "minmax(0, 2fr)" },
  { title: "Ready", value: (one) => one.ready, show: (one) => count(one.ready), width: "5rem", numeric: true },
  { title: "Oldest", value: (one) => one.oldestSeconds, show: (one) => seconds(one.oldestSeconds), width: "6rem", numeric: true },
  { title: "Delayed", value: (one) => one.waiting, show: (one) => count(one.waiting), width: "5.5rem", numeric: true },
  { title: "In process", value: (one) => one.processing, width: "6.5rem", numeric: true, narrow: false },
  { title: "Longest", value: (one) => one.longestSeconds, show: (one) => seconds(one.longestSeconds), width: "6.5rem", numeric: true, narrow: false },
  { title: "Added", value: (one) => one.added, show: (one) => count(one.added), width: "6rem", numeric: true, narrow: false },
  { title: "Retries", value: (one) => one.retries, show: (one) => count(one.retries), width: "6rem", numeric: true, narrow: false },
  { title: "Mean wait", value: (one) => (one.started ? one.queuedSecondsTotal / one.started : -1), width: "7rem", numeric: true, narrow: false,
    show: (one) => seconds(one.started ? one.queuedSecondsTotal / one.started : null) },
  { title: "Mean duration", value: (one) => (one.done ? one.workedSecondsTotal / one.done : -1), width: "8.5rem", numeric: true, narrow: false,
    show: (one) => seconds(one.done ? one.workedSecondsTotal / one.done : null) },
];

export function Queues({ snapshot }: ViewProps) {
  const depths = snapshot.queues.flatMap((queue) =>
    queue.depths.map((depth) => ({ ...depth, queue: queue.name, id: `${queue.name} ${depth.priority} ${depth.group}` })));
  return (
    <>
      <Table name="queues" rows={snapshot.queues} columns={queueColumns} id={(one) => one.name} empty="This manager has no queues." />
      <h2>Ready keys by priority and group</h2>
      <Table name="rows" rows={depths} id={(one) => one.id} empty="No key is ready: the workers keep up." columns={[
        { title: "Queue", value: (one) => one.queue, width: "minmax(0, 2fr)" },
        { title: "Priority", value: (one) => one.priority ?? 0, show: (one) => one.priority ?? NONE, width: "6rem", numeric: true },
        { title: "Group", value: (one) => one.group ?? "", show: (one) => one.group ?? NONE, width: "minmax(0, 1fr)" },
        { title: "Ready", value: (one) => one.ready, show: (one) => count(one.ready), width: "6rem", numeric: true },
      ]} />
    </>
  );
}

const controllerColumns: Column<Controller>[] = [
  { title: "Controller", value: (one) => one.name, width: "minmax(0, 2fr)" },
  { title: "Kind", value: (one) => one.kind || NONE, width: "minmax(0, 1.5fr)", narrow: false },
  { title: "Phase", value: (one) => one.phase, width: "minmax(0, 1fr)", show: (one) => <Badge level="none">{one.phase}</Badge>, narrow: false },
  { title: "Busy", value: (one) => one.active, show: (one) => `${one.active} of ${one.workers}`, width: "5.5rem", numeric: true },
  { title: "Succeeded", value: (one) => finished(one) - one.results.error, show: (one) => count(finished(one) - one.results.error), width: "6.5rem", numeric: true },
  { title: "Failed", value: (one) => one.results.error, show: (one) => count(one.results.error), width: "5rem", numeric: true },
  { title: "Requeued", value: (one) => one.results.requeue + one.results.requeue_after, width: "6.5rem", numeric: true, narrow: false,
    show: (one) => count(one.results.requeue + one.results.requeue_after) },
  { title: "Panics", value: (one) => one.panics, width: "5rem", numeric: true, narrow: false },
  { title: "Timeouts", value: (one) => one.timeouts, width: "6rem", numeric: true, narrow: false },
];

export function Controllers({ snapshot }: ViewProps) {
  const running = snapshot.controllers.flatMap((one) => one.running.map((reconcile) => ({ ...reconcile, controller: one.name })));
  return (
    <>
      <Table name="controllers" rows={snapshot.controllers} columns={controllerColumns} id={(one) => one.name} empty="This manager has no controllers." />
      <h2>Running reconciles</h2>
      <Table name="running reconciles" rows={running} id={(one) => one.id ?? one.controller + one.request} empty="No reconcile is running." columns={[
        { title: "Key", value: (one) => one.request, show: (one) => <a href={keyLink(one.request)}>{one.request}</a>, width: "minmax(0, 2fr)" },
        { title: "Controller", value: (one) => one.controller, width: "minmax(0, 1fr)", narrow: false },
        { title: "Running for", value: (one) => one.beganSecondsAgo, show: (one) => seconds(one.beganSecondsAgo), width: "7.5rem", numeric: true },
        { title: "Cause", value: (one) => one.causes?.join("; ") || NONE, width: "minmax(0, 3fr)" },
      ]} />
      {snapshot.controllers.some((one) => one.shard) && (
        <>
          <h2>Shards</h2>
          <Table name="shards" rows={snapshot.controllers.filter((one) => one.shard)} id={(one) => one.name} empty="" columns={[
            { title: "Controller", value: (one) => one.name, width: "2fr" },
            { title: "Lease", value: (one) => (one.shard?.active ? "active" : "none"), width: "1fr" },
            { title: "Members", value: (one) => one.shard?.members ?? 0, width: "6rem", numeric: true },
            { title: "Refused", value: (one) => one.shard?.refused ?? 0, width: "6rem", numeric: true },
          ]} />
        </>
      )}
    </>
  );
}

const reconcileColumns: Column<Reconcile>[] = [
  { title: "Began", value: (one) => clock(one.began), show: (one) => clock(one.began), width: "6.5rem" },
  { title: "Key", value: (one) => one.request, show: (one) => <a href={keyLink(one.request)}>{one.request}</a>, width: "minmax(0, 2fr)" },
  { title: "Controller", value: (one) => one.controller, width: "minmax(0, 1fr)", narrow: false },
  { title: "Result", value: (one) => one.result ?? "", show: (one) => result(one.result), width: "5.5rem" },
  { title: "Duration", value: (one) => one.seconds ?? 0, show: (one) => seconds(one.seconds), width: "6rem", numeric: true, narrow: false },
  { title: "Cause", value: (one) => one.causes.join("; ") || NONE, width: "minmax(0, 2.5fr)", narrow: false },
  { title: "Error", value: (one) => one.error ?? "", show: (one) => <span class="error-text">{one.error}</span>, width: "minmax(0, 2.5fr)", narrow: false },
];

export function Reconciles({ store, parameter }: ViewProps) {
  return (
    <>
      {store.dropped > 0 && (
        <p class="card warn" role="status">
          {count(store.dropped)} more reconciles ended while this page was open. They are not in the list, because an
          event contains at most 500 of a controller.
        </p>
      )}
      <Table name="reconciles" rows={store.reconciles} columns={reconcileColumns} id={(one) => one.id} newestFirst filter={parameter("result")}
        empty="No reconcile has ended since the console was enabled." />
    </>
  );
}

export function Requests({ snapshot }: ViewProps) {
  const { process, client } = snapshot;
  const facts: [string, string][] = [
    ["API server", client.server], ["library", process.library], ["process", String(process.pid)],
    ["uptime", seconds(process.uptimeSeconds)], ["tokio tasks", count(process.tasks)], ["threads", count(process.threads)],
    ["resident memory", bytes(process.residentBytes)],
  ];
  return (
    <>
      <section class="card">
        <h2>Process</h2>
        <dl class="facts">{facts.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>
      </section>
      <h2>Requests of the client by verb and status</h2>
      <Table name="rows" rows={client.requests} id={(one) => `${one.verb} ${one.code}`}
        empty="The client has sent no request. Lists and watches of informers are not counted here." columns={[
          { title: "Verb", value: (one) => one.verb, width: "minmax(0, 1fr)" },
          { title: "Status", value: (one) => one.code, width: "minmax(0, 1fr)",
            show: (one) => <Badge level={one.code === 0 || one.code >= 500 ? "bad" : one.code >= 400 ? "warn" : "ok"}>{one.code || "no response"}</Badge> },
          { title: "Requests", value: (one) => one.count, show: (one) => count(one.count), width: "7rem", numeric: true },
          { title: "Mean duration", value: (one) => one.seconds / one.count, show: (one) => seconds(one.seconds / one.count), width: "9rem", numeric: true },
        ]} />
    </>
  );
}

interface Entry extends Reconcile {
  end: number;
}

/** Enqueues a key in a controller: by default in one that knows the key. */
function Requeue({ store, snapshot, name, known }: { store: Store; snapshot: Snapshot; name: string; known: string[] }) {
  const [chosen, setChosen] = useState("");
  const all = snapshot.controllers.map((one) => one.name);
  const controller = all.includes(chosen) ? chosen : (known.find((one) => all.includes(one)) ?? all[0] ?? "");
  return (
    <section class="card actions">
      <label>Controller{" "}
        <select value={controller} onChange={(event) => setChosen(event.currentTarget.value)}>
          {all.map((one) => <option value={one} key={one}>{one}</option>)}
        </select>
      </label>{" "}
      <Action store={store} action="requeue" body={{ controller, key: name }}
        question={`Requeue ${name} in controller ${controller}? It is reconciled as soon as a worker is free.`}>Requeue</Action>
    </section>
  );
}

export function Key({ store, snapshot, parameter }: ViewProps) {
  const key = parameter("key");
  const [text, setText] = useState(key);
  const [shown, setShown] = useState<{ of: KeyHistory; at: number } | null>(null);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    setText(key);
    setShown(null);
    if (!key) return;
    let active = true;
    const read = async () => {
      try {
        const response = await fetch(`v1/history?key=${encodeURIComponent(key)}`, { headers: store.headers, cache: "no-store" });
        if (!response.ok) throw new Error((await response.text()).slice(0, 300));
        const of = (await response.json()) as KeyHistory;
        if (active) setShown({ of, at: Date.now() });
        if (active) setProblem("");
      } catch (error) {
        if (active) setProblem(error instanceof Error ? error.message : String(error));
      }
    };
    void read();
    const timer = setInterval(read, 2_000);
    return () => {
      active = false;
      clearInterval(timer);
    };
  }, [key]);
  return (
    <>
      <form class="card search" onSubmit={(event) => {
        event.preventDefault();
        location.hash = keyLink(text.trim());
      }}>
        <label><span>Key, such as <code>namespace/name</code></span>
          <input value={text} onInput={(event) => setText(event.currentTarget.value)} spellcheck={false} autocapitalize="off" />
        </label>
        <button type="submit">Show</button>
      </form>
      {problem && <p class="error-text" role="alert">The history cannot be read: {problem}</p>}
      {key && snapshot.actions && snapshot.controllers.length > 0 && (
        <Requeue store={store} snapshot={snapshot} name={key} known={shown?.of.controllers.map((of) => of.controller) ?? []} />
      )}
      {shown && <HistoryView history={shown.of} at={shown.at} />}
      {!key && <p class="muted lead">Enter a key, or choose one in the list of reconciles, to see why it was reconciled.</p>}
    </>
  );
}

function HistoryView({ history, at }: { history: KeyHistory; at: number }) {
  const began = (one: Reconcile) => at - one.beganSecondsAgo * 1000;
  const entry = (controller: string) => (one: Reconcile): Entry =>
    ({ ...one, controller, began: began(one), end: one.seconds === null ? at : began(one) + one.seconds * 1000 });
  const entries = history.controllers
    .flatMap((of) => [...of.running, ...of.reconciles].map(entry(of.controller)))
    .sort((a, b) => b.began - a.began);
  if (history.controllers.length === 0) {
    return <p class="muted lead">Nothing is known about this key. The last 1,000 reconciles of each controller are kept.</p>;
  }
  return (
    <>
      {history.controllers.filter((of) => of.queued).map((of) => (
        <section class="card" key={of.controller}>
          <Badge level="warn">queued</Badge> in <b>{of.controller}</b> for {seconds(of.queued?.ageSeconds)}: {of.queued?.causes.join("; ")}
        </section>
      ))}
      {entries.length > 0 && <Track entries={entries} at={at} />}
      <ol class="history">
        {entries.slice(0, 200).map((one) => (
          <li class={`card ${one.result === "error" ? "bad" : ""}`} key={one.controller + one.id}>
            <div class="history-head">
              <time>{clock(one.began)}</time> <b>{one.controller}</b> {result(one.result)}
              {one.request !== history.key && <span>reconciled <a href={keyLink(one.request)}>{one.request}</a></span>}
            </div>
            <p class="muted">
              {one.waitedSeconds !== null && <>{seconds(one.waitedSeconds)} after its first cause, </>}
              {one.seconds === null ? `running for ${seconds(one.beganSecondsAgo)}` : `took ${seconds(one.seconds)}`}, id <code>{one.id}</code>
            </p>
            {one.causes.length === 0
              ? <p>No cause was recorded.</p>
              : <ul>{one.causes.map((cause, at) => <li key={at}>{cause}</li>)}{one.omitted > 0 && <li class="muted">and {one.omitted} more</li>}</ul>}
            {one.error && <p class="error-text">{one.error}</p>}
          </li>
        ))}
      </ol>
      {entries.length > 200 && <p class="muted">{entries.length - 200} older reconciles are not shown.</p>}
    </>
  );
}

/** The time line: for each controller a lane with the wait and the duration of each reconcile. */
function Track({ entries, at }: { entries: Entry[]; at: number }) {
  const lanes = [...new Set(entries.map((one) => one.controller))];
  const from = Math.min(...entries.map((one) => one.began - (one.waitedSeconds ?? 0) * 1000));
  const span = Math.max(at - from, 1);
  const x = (time: number) => ((time - from) / span) * 1000;
  return (
    <section class="card track">
      <h2>Time line</h2>
      {lanes.map((lane) => (
        <div key={lane}>
          <span class="muted">{lane}</span>
          <svg viewBox="0 0 1000 24" preserveAspectRatio="none" role="img"
            aria-label={`${entries.filter((one) => one.controller === lane).length} reconciles of ${lane}`}>
            <rect x="0" y="11" width="1000" height="2" class="base" />
            {entries.filter((one) => one.controller === lane).map((one) => (
              <g key={one.id}>
                <rect class="wait" x={x(one.began - (one.waitedSeconds ?? 0) * 1000)} y="9" height="6"
                  width={((one.waitedSeconds ?? 0) * 1000 / span) * 1000} />
                <rect class={one.result === "error" ? "bad" : "ok"} x={x(one.began)} y="2" height="20"
                  width={Math.max(2, x(one.end) - x(one.began))} />
              </g>
            ))}
          </svg>
        </div>
      ))}
      <div class="track-ends muted"><span>{clock(from)}</span><span>now</span></div>
    </section>
  );
}
