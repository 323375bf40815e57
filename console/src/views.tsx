import { useMemo, useState } from "preact/hooks";
import { causeOrError, causeText, InformerActions, KeyLink, outcome, PartTable, result, type ViewProps } from "./columns";
import {
  type Controller, finished, type Handler, type Informer, informerName, isFailed, type LatencyBucket, quantile, type Queue, type Reconcile,
  type Snapshot, sum, type Watch, type Write,
} from "./data";
import { ago, bytes, clock, count, counted, NONE, rate, seconds, visible } from "./format";
import { failureLevel, failuresText, type Problem, problems, recentText, severity, type StageName, sumOfFailures } from "./health";
import { ended, type FailingKey } from "./log";
import { objectLink } from "./object";
import { setParameter } from "./page";
import { Badge, type Level } from "./parts";
import type { Replicas } from "./replicas";
import type { Store } from "./store";
import type { Alert, Column } from "./table";

interface Stage {
  name?: StageName;
  title: string;
  /** The large figure, and what it counts. */
  figure: string;
  noun: string;
  facts: [string, string][];
  /** A problem that the stage has now. */
  problem?: string;
  link: string;
}

/** A rate without its unit. */
const perSecond = (value: number | null | undefined) => rate(value).replace(/\/s$/, "");

function stages(replicas: Replicas, chosen: string): Stage[] {
  const { current, series } = replicas;
  const of = (all: Snapshot) => all.informers.filter((one) => chosen === "" || one.name === chosen);
  const informers = current.flatMap(of);
  const handlers = informers.flatMap((one) => one.handlers);
  const count_ = (value: (one: Informer) => number) => count(sum(informers, value));
  const rate_ = (value: (one: Informer) => number) => perSecond(replicas.rate((all) => sum(of(all), value)));
  const queues = current.flatMap((one) => one.queues);
  const controllers = current.flatMap((one) => one.controllers);
  const relists = sum(informers, (one) => sum(Object.entries(one.relists), ([reason, times]) => (reason === "first" ? 0 : times)));
  const failing = informers.filter((one) => one.failures > 0).length;
  const failures = recentFailures(controllers);
  const mean = (total: (one: Queue) => number, number: (one: Queue) => number) => {
    const [time, times] = [total, number].map((value) => replicas.increase((all) => sum(all.queues, value)));
    return times ? seconds((time ?? 0) / times) : NONE;
  };
  return [
    { name: "server", title: "API server", figure: perSecond(series.last("requests")), noun: "client requests/s, without lists and watches of informers", link: "#/requests",
      facts: [["client requests", count(replicas.sum((all) => sum(all.client.requests, (one) => one.count)))], ["watches opened", count_((one) => one.watches)]] },
    { name: "reflector", title: "Reflector", figure: rate_((one) => one.events), noun: "events/s", link: "#/informers",
      facts: [["not synced", count(informers.filter((one) => !one.synced).length)], ["failing", count(failing)], ["relists", count(relists)]] },
    { name: "deltaQueue", title: "Delta queue", figure: rate_((one) => one.changes), noun: "changes/s", link: "#/informers",
      facts: [["waiting changes", count_((one) => one.queued)], ["undecodable", count_((one) => one.undecodable)]] },
    { title: "Store", figure: count_((one) => one.objects), noun: "objects", link: "#/informers",
      facts: [["memory of the objects", bytes(sum(informers, (one) => one.bytes))]] },
    { name: "handlers", title: "Handlers", figure: rate_((one) => sum(one.handlers, (handler) => handler.calls)), noun: "calls/s", link: "#/informers",
      facts: [["pending events", count(sum(handlers, (one) => one.depth))], ["panics", count(sum(handlers, (one) => one.panics))]] },
    { name: "workQueues", title: "Work queues", figure: perSecond(replicas.rate((all) => sum(all.queues, (one) => one.added))), noun: "keys added/s", link: "#/queues",
      facts: [["ready, delayed", `${count(sum(queues, (one) => one.ready))}, ${count(sum(queues, (one) => one.waiting))}`],
        ["mean wait, last second", mean((one) => one.queuedSecondsTotal, (one) => one.started)]] },
    { name: "workers", title: "Workers", figure: perSecond(replicas.rate((all) => sum(all.controllers, finished))), noun: "reconciles/s", link: "#/controllers",
      ...(failures.failed > 0 && { problem: failuresText(failures) }),
      facts: [["busy workers", `${count(sum(controllers, (one) => one.active))} of ${count(sum(controllers, (one) => one.workers))}`],
        ["mean duration, last second", mean((one) => one.workedSecondsTotal, (one) => one.done)]] },
  ];
}

/** The problems of a stage, which are those of the overview. */
function StageProblems({ stage, found }: { stage: Stage; found: Problem[] }) {
  const levels = (["bad", "warn"] as const).map((level) => ({ level, all: found.filter((one) => one.level === level) }));
  const noun = { bad: "error", warn: "warning" };
  return (
    <>
      {levels.filter(({ all }) => all.length > 0).map(({ level, all }) => (
        <p key={level} title={all.map((one) => `${one.subject} ${one.text}`).join("\n")}>
          <Badge level={level}>{level === "bad" && stage.problem ? stage.problem : counted(all.length, noun[level])}</Badge>
        </p>
      ))}
    </>
  );
}

const eventRate = ({ store, name }: Informer) =>
  store.rate((of) => of.informers.find((one) => one.name === name)?.events);

export function Pipeline({ replicas }: ViewProps) {
  const [chosen, setChosen] = useState("");
  const informers = replicas.snapshots.flatMap((one) => one.informers);
  const names = [...new Set(informers.map((one) => one.name))];
  const found = replicas.summed.flatMap(problems).filter((one) => chosen === "" || !one.informer || one.informer === chosen);
  return (
    <>
      <p class="muted lead">
        From the API server to the reconciler. Rates are those of the last second. A red or amber stage has a problem that
        the <a href="#/overview">overview</a> describes.
      </p>
      <label class="choice">
        Informer{" "}
        <select value={chosen} onChange={(event) => setChosen(event.currentTarget.value)}>
          <option value="">all</option>
          {names.map((one) => <option value={one} key={one}>{one}</option>)}
        </select>
      </label>
      <ol class="pipeline">
        {stages(replicas, chosen).map((stage) => {
          const problems = found.filter((one) => stage.name && one.stage === stage.name);
          return (
            <li class={`card ${problems.length > 0 ? severity(problems) : ""}`} key={stage.title}>
              <h2><a href={stage.link}>{stage.title}</a></h2>
              <p><strong>{stage.figure}</strong> <span class="muted">{stage.noun}</span></p>
              <StageProblems stage={stage} found={problems} />
              <dl>
                {stage.facts.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}
              </dl>
            </li>
          );
        })}
      </ol>
      <PartTable replicas={replicas} heading="By informer" name="informers" rows={informers} id={(one) => one.name} empty="This manager has no informers." columns={[
        { title: "Informer", value: (one) => one.name, width: "minmax(0, 3fr)" },
        { title: "Events", value: (one) => one.events, show: (one) => rate(eventRate(one)), width: "5rem", numeric: true },
        { title: "Waiting", value: (one) => one.queued, show: (one) => count(one.queued), width: "5.5rem", numeric: true, narrow: false },
        { title: "Objects", value: (one) => one.objects, show: (one) => count(one.objects), width: "5.5rem", numeric: true },
        { title: "Memory", value: (one) => one.bytes, show: (one) => bytes(one.bytes), width: "6rem", numeric: true, narrow: false },
        { title: "Pending", value: (one) => sum(one.handlers, (handler) => handler.depth), width: "5rem", numeric: true },
      ]} />
      {chosen !== "" && <p class="muted">The stages API server, work queues and workers are those of the whole process.</p>}
    </>
  );
}

/** The counts that are not zero, such as `2 panics`. */
const alerts = (...counts: [number: number, one: string, several?: string | undefined, level?: Level][]): Alert[] =>
  counts.filter(([number]) => number > 0)
    .map(([number, one, several, level = "warn"]) => [level, counted(number, one, several)]);

const informerAlerts = (one: Informer): Alert[] =>
  alerts([one.panics, "panic"], [one.crashes, "restart"], [one.failures, "failure"], [one.undecodable, "undecodable", "undecodable"]);

/** The scope of an informer; of a namespace only its name. */
const scopeText = (name: string) => informerName(name).scope.replace(/^namespace=(\S+)$/, "$1");

const phaseLevel = (one: Informer): Level =>
  one.crash || one.notServed || (one.running && !one.synced) ? "bad" : one.failures > 0 ? "warn" : one.synced ? "ok" : "none";

/** True for an informer that fails now, and not only in the past. */
const failsNow = (one: Informer) => one.crash !== null || one.notServed || one.failures > 0;

const informerColumns: Column<Informer>[] = [
  { title: "Kind", value: (one) => informerName(one.name).resource, width: "minmax(13.5rem, 3fr)" },
  { title: "Scope", value: (one) => informerName(one.name).scope, show: (one) => <>{scopeText(one.name)}</>, width: "minmax(6rem, 1fr)", narrow: false },
  { title: "Form", value: (one) => informerName(one.name).form, width: "minmax(4.5rem, 1fr)", narrow: false },
  { title: "Phase", value: (one) => one.phase, width: "7rem", show: (one) => <Badge level={phaseLevel(one)}>{one.phase}</Badge> },
  { title: "Objects", value: (one) => one.objects, width: "4rem", numeric: true,
    show: (one) => (one.store.snapshot?.showsObjects ? <a href={objectLink({ store: one.store, informer: one.name })}>{count(one.objects)}</a> : count(one.objects)) },
  { title: "Memory", value: (one) => one.bytes, show: (one) => bytes(one.bytes), width: "5rem", numeric: true, narrow: false },
  { title: "Version", value: (one) => one.version, show: (one) => one.version || NONE, width: "minmax(4rem, 1fr)", narrow: false },
  { title: "Version age", value: (one) => one.versionAgeSeconds ?? -1, show: (one) => seconds(one.versionAgeSeconds), width: "5.5rem", numeric: true, narrow: false },
  { title: "Lists", value: (one) => sum(Object.values(one.relists), (times) => times), width: "3rem", numeric: true, narrow: false },
  { title: "Undecodable", value: (one) => one.undecodable, width: "5.5rem", numeric: true, narrow: false },
];

/** The bounds of the buckets, which are the same for all handlers. */
const BOUNDS = [1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, null];

const bound = (value: number | null) => (value === null ? NONE : value === Infinity ? "> 10 s" : `≤ ${seconds(value)}`);

/** The explanation of the durations of a handler. */
const CALL = "the time of one call of the handler, from the delivery of an event until the handler has returned, without the time for which the event was pending";
const quantileHint = (share: string) => `${share} of the calls took at most this time, which is the upper bound of a histogram bucket. It is ${CALL}.`;

/** The name of a handler; of a controller's handler only the name of the controller. */
function handlerName({ store, name }: Handler & { store: Store }): string {
  const controller = name.replace(/^controller /, "");
  return store.snapshot?.controllers.some((one) => one.name === controller) ? controller : name;
}

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

export function Informers({ replicas }: ViewProps) {
  const informers = replicas.snapshots.flatMap((one) => one.informers);
  const notes = informers.filter((one) => one.lastError || one.crash || Object.keys(one.relists).length > 1);
  notes.sort((a, b) => Number(failsNow(b)) - Number(failsNow(a)));
  const failing = notes.filter(failsNow);
  const handlers = informers.flatMap((one) => one.handlers.map((handler, at) => ({ ...handler, store: one.store, of: one.name, at })));
  const acts: Column<Informer> = { title: "Actions", value: () => "", show: (one) => one.store.snapshot?.actions && <InformerActions store={one.store} name={one.name} />, width: "9.5rem" };
  const acting = replicas.snapshots.some((one) => one.actions);
  // The names of the kinds need the room.
  const left = [...(acting || replicas.mixed ? ["Version", "Version age"] : []), ...(acting && replicas.mixed ? ["Lists"] : [])];
  const columns = [...informerColumns.filter(({ title }) => !left.includes(title)), ...(acting ? [acts] : [])];
  return (
    <>
      <PartTable replicas={replicas} name="informers" rows={informers} id={(one) => one.name} columns={columns} alerts={informerAlerts}
        empty="This manager has no informers. Add a controller or read through the cache." />
      {notes.length > 0 && (
        <section class={`card ${failing.some((one) => phaseLevel(one) === "bad") ? "bad" : failing.length > 0 ? "warn" : ""}`}>
          <h2>Lists and errors</h2>
          <ul class="plain sources">
            {notes.map((one) => <InformerNote of={one} mixed={replicas.mixed} key={`${one.store.name} ${one.name}`} />)}
          </ul>
        </section>
      )}
      <PartTable replicas={replicas} heading="Handlers" name="handlers" rows={handlers} id={(one) => `${one.of} ${one.at}`} alerts={(one) => alerts([one.panics, "panic"])} empty="No informer has a handler." columns={[
        { title: "Informer", value: (one) => one.of, width: "minmax(17rem, 2fr)" },
        { title: "Handler", value: (one) => one.name, show: (one) => <>{visible(handlerName(one))}</>, width: "minmax(7rem, 2fr)" },
        { title: "Pending", value: (one) => one.depth, show: (one) => count(one.depth), width: "4rem", numeric: true },
        { title: "Most pending", value: (one) => one.depthMax, show: (one) => count(one.depthMax), width: "6rem", numeric: true, narrow: false },
        { title: "Calls", value: (one) => one.calls, show: (one) => count(one.calls), width: "5rem", numeric: true, narrow: false },
        { title: "p50", value: (one) => quantile(one.latency, 0.5) ?? -1, show: (one) => bound(quantile(one.latency, 0.5)), width: "5rem", numeric: true, narrow: false, hint: quantileHint("half") },
        { title: "p99", value: (one) => quantile(one.latency, 0.99) ?? -1, show: (one) => bound(quantile(one.latency, 0.99)), width: "5rem", numeric: true, hint: quantileHint("99 %") },
        { title: "Latency, 10 µs–10 s", value: (one) => latencyText(one.latency), show: (one) => <Latency latency={one.latency} />, width: "8.5rem", narrow: false,
          hint: `the number of calls by their time, on a logarithmic scale. It is ${CALL}.` },
        { title: "Panics", value: (one) => one.panics, width: "4rem", numeric: true, narrow: false,
          show: (one) => (one.panics > 0 ? <Badge level="warn">{count(one.panics)}</Badge> : "0") },
      ]} />
    </>
  );
}

/** The last error of an informer, its next attempt, and its lists by reason. */
function InformerNote({ of: one, mixed }: { of: Informer; mixed: boolean }) {
  const retry = one.nextAttemptSeconds === null ? "" : `, next attempt in ${seconds(one.nextAttemptSeconds)}`;
  const failing = `${counted(one.failures, "failure")} in a row${retry}: `;
  const lists = Object.entries(one.relists).map(([reason, times]) => `${reason.replaceAll("_", " ")} ${times}`).join(", ");
  return (
    <li>
      <b>{one.name}</b>{mixed && <span class="muted"> on {one.store.name}</span>}
      {one.crash && <p class="error-text">restarts after a panic: {visible(one.crash)}</p>}
      {one.lastError && (one.failures > 0 || !one.synced
        ? <p class="error-text">{one.failures > 0 && failing}{visible(one.lastError)}</p>
        : <p class="muted">recovered from: {visible(one.lastError)}</p>)}
      {alerts([one.panics, "panic"], [one.crashes, "restart"]).map(([level, text]) => <Badge level={level} key={text}>{text}</Badge>)}
      {lists !== "" && <p class="muted">lists by reason: {lists}</p>}
    </li>
  );
}

const oldest = (one: Queue): number | null => (one.ready > 0 ? one.oldestSeconds : null);
const longest = (one: Queue): number | null => (one.processing > 0 ? one.longestSeconds : null);

const queueColumns: Column<Queue>[] = [
  { title: "Queue", value: (one) => one.name, width: "minmax(0, 2fr)" },
  { title: "Ready", value: (one) => one.ready, show: (one) => count(one.ready), width: "5rem", numeric: true },
  { title: "Oldest ready key", value: (one) => oldest(one) ?? -1, show: (one) => seconds(oldest(one)), width: "7.5rem", numeric: true },
  { title: "Delayed", value: (one) => one.waiting, show: (one) => count(one.waiting), width: "5rem", numeric: true },
  { title: "Running", value: (one) => one.processing, width: "4.5rem", numeric: true, narrow: false },
  { title: "Longest running", value: (one) => longest(one) ?? -1, show: (one) => seconds(longest(one)), width: "7rem", numeric: true, narrow: false },
  { title: "Added", value: (one) => one.added, show: (one) => count(one.added), width: "5rem", numeric: true, narrow: false },
  { title: "Retries", value: (one) => one.retries, show: (one) => count(one.retries), width: "5rem", numeric: true, narrow: false },
  { title: "Mean wait", value: (one) => (one.started ? one.queuedSecondsTotal / one.started : -1), width: "5rem", numeric: true, narrow: false,
    show: (one) => seconds(one.started ? one.queuedSecondsTotal / one.started : null) },
  { title: "Mean duration", value: (one) => (one.done ? one.workedSecondsTotal / one.done : -1), width: "7rem", numeric: true, narrow: false,
    show: (one) => seconds(one.done ? one.workedSecondsTotal / one.done : null) },
];

export function Queues({ replicas }: ViewProps) {
  const queues = replicas.snapshots.flatMap((one) => one.queues);
  const depths = queues.flatMap((queue) =>
    queue.depths.map((depth) => ({ ...depth, store: queue.store, queue: queue.name, id: `${queue.name} ${depth.priority} ${depth.group}` })));
  return (
    <>
      <p class="muted lead">Totals and means are since the start of the program.</p>
      <PartTable replicas={replicas} name="queues" rows={queues} columns={queueColumns} id={(one) => one.name}
        alerts={(one) => [...(one.orderFailed ? [["bad", "order failed"] as Alert] : []), ...alerts([one.retries, "retry", "retries", "none"])]} empty="This manager has no queues." />
      <PartTable replicas={replicas} heading="Ready keys by priority and group" name="rows" rows={depths} id={(one) => one.id} empty="No key is ready: the workers keep up." columns={[
        { title: "Queue", value: (one) => one.queue, width: "minmax(0, 2fr)" },
        { title: "Priority", value: (one) => one.priority ?? 0, show: (one) => one.priority ?? NONE, width: "6rem", numeric: true },
        { title: "Group", value: (one) => one.group ?? "", show: (one) => one.group ?? NONE, width: "minmax(0, 1fr)" },
        { title: "Ready", value: (one) => one.ready, show: (one) => count(one.ready), width: "6rem", numeric: true },
      ]} />
    </>
  );
}

/** The failed reconciles of controllers in the last minute. */
const recentFailures = (controllers: Controller[]) => sumOfFailures(controllers.map(({ store, name }) => store.failures(name)));

/** The number of failed reconciles, as a link to those that the page knows. */
function Failed({ of, mixed }: { of: Controller; mixed: boolean }) {
  const { store, name, results } = of;
  const recent = store.failures(name);
  // The table has a column of replicas only if it has rows of several.
  const filter = mixed ? `${name} ${store.name}` : name;
  const link = `#/reconciles?${new URLSearchParams({ failed: "true", filter })}`;
  return (
    <a class={recent.failed > 0 ? "error-text" : ""} href={link}>
      {count(results.error)}<span class="visually-hidden"> failed reconciles of {name}; {failuresText(recent)}</span>
    </a>
  );
}

const controllerColumns = (mixed: boolean): Column<Controller>[] => [
  { title: "Controller", value: (one) => one.name, width: "minmax(0, 1.5fr)" },
  { title: "Kind", value: (one) => one.kind || NONE, width: "minmax(0, 2.5fr)", narrow: false },
  { title: "Phase", value: (one) => one.phase, width: "minmax(6rem, 1fr)", show: (one) => <Badge level="none">{one.phase}</Badge>, narrow: false },
  { title: "Running", value: (one) => one.active, show: (one) => `${one.active} of ${one.workers}`, width: "4.5rem", numeric: true },
  { title: "Succeeded", value: (one) => finished(one) - one.results.error, show: (one) => count(finished(one) - one.results.error), width: "5rem", numeric: true },
  { title: "Failed", value: (one) => one.results.error, show: (one) => (one.results.error > 0 ? <Failed of={one} mixed={mixed} /> : "0"), width: "4rem", numeric: true },
  { title: "Failed, last minute", value: (one) => one.store.failures(one.name).failed, show: (one) => recentText(one.store.failures(one.name)), width: "8rem", numeric: true, narrow: false },
  { title: "Failing", hint: "keys whose last reconcile failed", value: (one) => one.failing ?? -1,
    show: (one) => (one.failing == null ? NONE : count(one.failing)), width: "4rem", numeric: true, narrow: false },
  { title: "Requeued", value: (one) => one.results.requeue + one.results.requeue_after, width: "5rem", numeric: true, narrow: false,
    show: (one) => count(one.results.requeue + one.results.requeue_after) },
  { title: "Panics", value: (one) => one.panics, width: "4rem", numeric: true, narrow: false },
  { title: "Timeouts", value: (one) => one.timeouts, width: "4.5rem", numeric: true, narrow: false },
];

/** The failures in total have no column on a narrow page with several replicas. */
function controllerAlerts(one: Controller, mixed: boolean): Alert[] {
  const recent = one.store.failures(one.name).failed;
  const total = mixed && recent === 0 ? one.results.error : 0;
  const level = failureLevel(one);
  return alerts([recent, "failed/min", "failed/min", level], [one.failing ?? 0, "failing", "failing", level], [one.panics, "panic"], [one.timeouts, "timeout"], [total, "failed", "failed"]);
}

export function Controllers({ replicas }: ViewProps) {
  const controllers = replicas.snapshots.flatMap((one) => one.controllers);
  const running = controllers.flatMap((one) => one.running.map((reconcile) => ({ ...reconcile, store: one.store, controller: one.name })));
  const sharded = controllers.filter((one) => one.shard);
  return (
    <>
      <p class="muted lead">The totals are since the start of the program.</p>
      <PartTable replicas={replicas} name="controllers" rows={controllers} columns={controllerColumns(replicas.mixed)} id={(one) => one.name}
        alerts={(one) => controllerAlerts(one, replicas.mixed)} empty="This manager has no controllers." />
      <PartTable replicas={replicas} heading="Running reconciles" name="running reconciles" rows={running} id={(one) => one.id ?? one.controller + one.request} empty="No reconcile is running." columns={[
        { title: "Key", value: (one) => one.request, show: (one) => <KeyLink name={one.request} />, width: "minmax(0, 2fr)" },
        { title: "Controller", value: (one) => one.controller, width: "minmax(0, 1fr)" },
        { title: "Running for", value: (one) => one.beganSecondsAgo, show: (one) => seconds(one.beganSecondsAgo), width: "7.5rem", numeric: true },
        { title: "Cause", value: causeText, width: "minmax(0, 3fr)", long: true },
      ]} />
      <FailingKeys replicas={replicas} />
      <Sources controllers={controllers} />
      {sharded.length > 0 && (
        <>
          <PartTable replicas={replicas} heading="Shards" name="shards" rows={sharded} id={(one) => one.name} empty="" columns={[
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

const failingColumns: Column<FailingKey>[] = [
  { title: "Key", value: (one) => one.request, show: (one) => <KeyLink name={one.request} />, width: "minmax(0, 2fr)" },
  { title: "Controller", value: (one) => one.controller, width: "minmax(0, 1fr)" },
  { title: "Failures", value: (one) => one.failures, show: (one) => count(one.failures), width: "5rem", numeric: true, hint: "failed reconciles in a row" },
  { title: "Last attempt", value: (one) => ended(one.last), show: (one) => ago(ended(one.last)), width: "7.5rem" },
  { title: "Last error", value: (one) => one.last.error ?? "", width: "minmax(0, 4fr)", long: true, show: (one) => <span class="error-text">{visible(one.last.error ?? NONE)}</span> },
];

/** The keys whose newest known reconcile has failed. */
function FailingKeys({ replicas }: { replicas: Replicas }) {
  const rows = replicas.log.failing.filter((one) => replicas.shown.includes(one.store));
  if (rows.length === 0) return null;
  return (
    <>
      <PartTable replicas={replicas} heading="Failing keys" name="failing keys" rows={rows} columns={failingColumns} newestFirst
        id={(one) => `${one.controller} ${one.request}`} empty="" />
      <p class="muted lead">The newest known reconcile of these keys failed. Until a console is read, the program records only failed reconciles, so a key may have succeeded since.</p>
    </>
  );
}

const watchText = ({ role, source, resource }: Watch) => `${resource || source} (${role})`;

const writeText = ({ verb, resource, subresource, count: times, failed }: Write) =>
  `${verb} ${resource || "resources"}${subresource === "" ? "" : ` (${subresource})`}: ${counted(times, "request")}${failed > 0 ? `, ${count(failed)} failed` : ""}`;

/** What each controller watches and writes. */
function Sources({ controllers }: { controllers: Controller[] }) {
  const known = controllers.filter((one) => (one.watches?.length ?? 0) > 0);
  if (known.length === 0) return null;
  return (
    <section class="card">
      <h2>Watches and writes</h2>
      <ul class="plain sources">
        {known.map(({ store, name, watches = [], writes = [] }) => (
          <li key={`${store.name} ${name}`}>
            <b>{name}</b>{store.name !== "" && <span class="muted"> on {store.name}</span>}
            <p><span class="muted">watches</span> {watches.map(watchText).join("; ")}</p>
            {writes.length === 0
              ? <p><span class="muted">writes</span> nothing yet</p>
              : <div><span class="muted">writes</span><ul>{writes.map(writeText).map((text) => <li key={text}>{text}</li>)}</ul></div>}
          </li>
        ))}
      </ul>
    </section>
  );
}

const reconcileColumns: Column<Reconcile>[] = [
  { title: "Began", value: (one) => clock(one.began), width: "6.5rem" },
  { title: "Key", value: (one) => one.request, show: (one) => <KeyLink name={one.request} />, width: "minmax(0, 2fr)" },
  { title: "Controller", value: (one) => one.controller, width: "minmax(0, 1fr)" },
  { title: "Result", value: (one) => outcome(one.result), show: (one) => result(one.result), width: "6rem" },
  { title: "Duration", value: (one) => one.seconds ?? 0, show: (one) => seconds(one.seconds), width: "5rem", numeric: true, narrow: false },
  { title: "Cause, error", value: causeOrError, width: "minmax(0, 5fr)", long: true,
    show: (one) => (one.error ? <span class="error-text">{visible(one.error)}</span> : visible(causeOrError(one))) },
];

export function Reconciles({ replicas, parameter }: ViewProps) {
  const { log: { all }, chosen } = replicas;
  const failedOnly = parameter("failed") === "true";
  const [paused, setPaused] = useState<Reconcile[] | null>(null);
  const shown = paused ?? all;
  const rows = useMemo(() => (chosen === "" ? shown : shown.filter((one) => one.store.name === chosen)), [shown, chosen]);
  const dropped = sum(replicas.shown, (one) => one.dropped);
  return (
    <>
      {dropped > 0 && (
        <p class="muted lead" role="status">
          {counted(dropped, "more reconcile", "more reconciles")} ended while this page was open. {dropped === 1 ? "It is" : "They are"} not in the list:
          at most 500 of a controller are sent each second, and a successful one is not recorded if it began before a page was opened.
        </p>
      )}
      <PartTable replicas={replicas} name="reconciles" rows={rows} columns={reconcileColumns} id={(one) => one.id} newestFirst latest
        filter={parameter("filter")} onFilter={(filter) => setParameter("filter", filter)} only={failedOnly ? isFailed : undefined}
        bar={<>
          <button type="button" aria-pressed={failedOnly} onClick={() => setParameter("failed", failedOnly ? "" : "true")}>Failed only</button>
          <button type="button" aria-pressed={paused !== null} onClick={() => setPaused(paused ? null : all)}>Pause</button>
        </>}
        empty="No recorded reconcile has ended yet. Only failures are recorded before the console is first read." />
    </>
  );
}

export function Requests({ replicas }: ViewProps) {
  const programs = replicas.shown.filter((one) => one.snapshot);
  const requests = replicas.snapshots.flatMap((one) => one.client.requests);
  return (
    <>
      {programs.map((one) => <Process key={one.name} store={one} snapshot={one.snapshot as Snapshot} />)}
      <p class="muted lead">
        Lists and watches of informers are not counted here. The view <a href="#/informers">Informers</a> shows the number
        of lists, and the <a href="#/pipeline">pipeline</a> the number of opened watches.
      </p>
      <PartTable replicas={replicas} heading="Requests of the client by verb and status" name="rows" rows={requests} id={(one) => `${one.verb} ${one.code}`}
        empty="The client has sent no request." columns={[
          { title: "Verb", value: (one) => one.verb, width: "minmax(0, 1fr)" },
          { title: "Status", value: (one) => one.code, width: "minmax(0, 1fr)",
            show: (one) => <Badge level={one.code === 0 || one.code >= 500 ? "bad" : one.code >= 400 ? "warn" : "ok"}>{one.code || "no response"}</Badge> },
          { title: "Requests", value: (one) => one.count, show: (one) => count(one.count), width: "7rem", numeric: true },
          { title: "Mean duration", value: (one) => one.seconds / one.count, show: (one) => seconds(one.seconds / one.count), width: "9rem", numeric: true },
        ]} />
    </>
  );
}

function Process({ store, snapshot: { process, client, leases } }: { store: Store; snapshot: Snapshot }) {
  const facts: [string, string][] = [
    ["program", process.program ?? NONE], ["host", process.host ?? NONE],
    ["API server", client.server], ["library", process.library], ["process", String(process.pid)],
    ["uptime", seconds(process.uptimeSeconds)], ["tokio tasks", count(process.tasks)], ["threads", count(process.threads)],
    ["resident memory", bytes(process.residentBytes)],
  ];
  if (leases[0]) facts.push(["identity", leases[0].identity]);
  return (
    <section class="card">
      <h2>Process{store.name === "" ? "" : ` ${store.name}`}</h2>
      <dl class="facts">{facts.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>
    </section>
  );
}
