// The state of one program: the last snapshot, the series of the last 15 minutes, and the result of the last
// action.
import { finished, isFailed, type KeyHistory, type ObjectContent, type ObjectList, type Reconcile, type Snapshot, sum } from "./data";
import { ended, type ReconcileLog } from "./log";
import { type Connection, messageOf, problemOf } from "./stream";

/** 15 minutes with a sample each second. */
const MAX_SAMPLES = 900;
/** The time over which failures are counted, in seconds. */
const MINUTE = 60;
/** The longest time between two snapshots of which nothing is missing, in seconds. */
const MAX_GAP = 5;
/** The longest duration of a read in milliseconds. */
const TIMEOUT = 20_000;

export const SERIES = [
  "success", "errors", "ready", "waiting", "processing", "requests", "rejected", "requestErrors", "events", "objects", "memory",
] as const;
export type SeriesName = (typeof SERIES)[number];

/** The series of charts. */
export class Series {
  times: number[] = [];
  values = Object.fromEntries(SERIES.map((name) => [name, []])) as unknown as Record<SeriesName, (number | null)[]>;

  add(time: number, values: Record<SeriesName, number | null>): void {
    this.times = this.times.concat(time).slice(-MAX_SAMPLES);
    for (const name of SERIES) this.values[name] = this.values[name].concat(values[name]).slice(-MAX_SAMPLES);
  }

  last(name: SeriesName): number | null {
    return this.values[name].at(-1) ?? null;
  }

  /** The sum of a series over the last minute. */
  recent(name: SeriesName): number {
    return sum(this.values[name].slice(-60), (value) => value ?? 0);
  }
}

/** The error of a read that the program refused. */
export class ReadError extends Error {
  constructor(readonly status: number, problem: string) {
    super(problem);
  }
}

/** The results of the reconciles of a controller. */
interface Results {
  finished: number;
  failed: number;
}

/** The failed reconciles of a controller in the last minute. */
export interface Failures {
  failed: number;
  /**
   * The number of reconciles that ended in the last minute; `null` if the program has run for longer than that and
   * the page does not have data for a whole minute yet.
   */
  finished: number | null;
  /** The last error that is known. */
  error: string;
}

/** Ready keys that have grown without a pause. */
interface Growth {
  since: number;
  from: number;
  to: number;
}

export class Store {
  /** The name of the replica; empty if the page shows one program. */
  readonly name: string;
  /** The path of the data. */
  readonly path: string;
  readonly log: ReconcileLog;
  readonly series = new Series();
  snapshot: Snapshot | null = null;
  previous: Snapshot | null = null;
  connection: Connection = "connecting";
  /** The reason why there is no connection. */
  problem = "";
  /** The number of ended reconciles that the page did not receive. */
  dropped = 0;
  /** The result of the last action. */
  notice: { level: "ok" | "bad"; text: string } | null = null;
  /** The token is kept in memory only. */
  token = "";
  /** The time of the last snapshot by the clock of the browser. */
  at = 0;
  /** The growth of the ready keys of each queue, by its name. */
  readonly growth = new Map<string, Growth>();
  /** The results of each controller in the last minute, oldest first. */
  #results: { uptime: number; of: Map<string, Results> }[] = [];
  #logged: { second: number; log: Reconcile[]; of: Map<string, { failed: number; error: string }> } | null = null;
  #seen = new Set<string>();
  #changed: () => void;

  constructor(name: string, path: string, log: ReconcileLog, changed: () => void) {
    this.name = name;
    this.path = path;
    this.log = log;
    this.#changed = changed;
  }

  /** The seconds between the last two snapshots of one process; `null` if there is only one. */
  get interval(): number | null {
    // The times of the process are exact, also if the page has received both snapshots together.
    return this.snapshot && this.previous ? this.snapshot.process.uptimeSeconds - this.previous.process.uptimeSeconds : null;
  }

  /** The age of the data in seconds; `null` without data. */
  get age(): number | null {
    return this.snapshot ? (Date.now() - this.at) / 1000 : null;
  }

  /** The increase of a counter between the last two snapshots. */
  increase(count: (of: Snapshot) => number | undefined): number | null {
    if (!this.snapshot || !this.previous) return null;
    const [now, before] = [count(this.snapshot), count(this.previous)];
    return now === undefined || before === undefined || now < before ? null : now - before;
  }

  /** The increase of a counter per second. */
  rate(count: (of: Snapshot) => number | undefined): number | null {
    const increase = this.increase(count);
    return increase === null || !this.interval ? null : increase / this.interval;
  }

  get headers(): Record<string, string> {
    return this.token ? { authorization: `Bearer ${this.token}` } : {};
  }

  /** Runs an action, and shows its result. */
  async act(action: "requeue" | "relist" | "drop", body: Record<string, string>): Promise<void> {
    const headers = { ...this.headers, "content-type": "application/json", "x-informer-token": this.snapshot?.actions?.token ?? "" };
    try {
      const response = await fetch(`${this.path}actions/${action}`, { method: "POST", headers, body: JSON.stringify(body) });
      if (!response.ok) throw new Error(await problemOf(response));
      const { message } = (await response.json()) as { message: string };
      this.notice = { level: "ok", text: message };
    } catch (error) {
      this.notice = { level: "bad", text: messageOf(error) };
    }
    this.#changed();
  }

  dismiss(): void {
    this.notice = null;
    this.#changed();
  }

  /** Reads the history of a key. */
  async history(key: string): Promise<KeyHistory> {
    return JSON.parse(await this.#read("history", { key })) as KeyHistory;
  }

  /** Reads a page of the keys of an informer. */
  async objects(informer: string, contains: string, after: string): Promise<ObjectList> {
    return JSON.parse(await this.#read("objects", { informer, contains, after })) as ObjectList;
  }

  /** Reads an object, and the size of its JSON. */
  async object(informer: string, key: string): Promise<{ content: ObjectContent; size: number }> {
    const text = await this.#read("object", { informer, key });
    return { content: JSON.parse(text) as ObjectContent, size: text.length };
  }

  async #read(name: string, parameters: Record<string, string>): Promise<string> {
    const signal = AbortSignal.timeout(TIMEOUT);
    const query = new URLSearchParams(parameters);
    const response = await fetch(`${this.path}${name}?${query}`, { headers: this.headers, cache: "no-store", signal });
    if (!response.ok) throw new ReadError(response.status, await problemOf(response));
    return response.text();
  }

  lose(connection: Connection, problem: string): void {
    this.connection = connection;
    this.problem = problem;
    this.#changed();
  }

  /** Forgets a reconcile that the page no longer keeps. */
  forget(id: string): void {
    this.#seen.delete(id);
  }

  apply(snapshot: Snapshot): void {
    const now = Date.now();
    const same = this.snapshot?.process.pid === snapshot.process.pid
      && snapshot.process.uptimeSeconds > this.snapshot.process.uptimeSeconds;
    if (this.snapshot && !same) {
      this.#seen.clear();
      this.#forgetLastMinute();
    }
    this.previous = same ? this.snapshot : null;
    [this.snapshot, this.at] = [snapshot, now];
    const { informers, queues, controllers, leases, client } = snapshot;
    for (const one of [...informers, ...queues, ...controllers, ...leases, ...client.requests]) one.store = this;
    const added = (snapshot.reconciles ?? []).filter(({ id }) => !this.#seen.has(id));
    for (const one of added) {
      one.store = this;
      one.began = now - one.beganSecondsAgo * 1000;
      this.#seen.add(one.id);
    }
    this.log.add(added, this.name !== "");
    this.dropped += snapshot.dropped ?? 0;
    delete snapshot.reconciles;
    this.#sample(now / 1000);
    this.#measure(now / 1000);
    [this.connection, this.problem] = ["live", ""];
    this.#changed();
  }

  /** The failed reconciles of a controller in the last minute. */
  failures(controller: string): Failures {
    const [now, first] = [this.#results.at(-1), this.#results[0]];
    const counted = (of: typeof now) => of?.of.get(controller) ?? { finished: 0, failed: 0 };
    const increase = (of: keyof Results) => counted(now)[of] - counted(first)[of];
    const { failed = 0, error = "" } = this.#recentLog().get(controller) ?? {};
    const uptime = now?.uptime ?? 0;
    // The program sends the failures before the page was opened, but not the number of the other reconciles.
    if (uptime < MINUTE) return { failed: counted(now).failed, finished: counted(now).finished, error };
    if (uptime - (first?.uptime ?? 0) < MINUTE - 1) return { failed: Math.max(failed, increase("failed")), finished: null, error };
    return { failed: increase("failed"), finished: increase("finished"), error };
  }

  /** The failed reconciles of the last minute that the page knows, by controller. */
  #recentLog(): Map<string, { failed: number; error: string }> {
    const second = Math.floor(Date.now() / 1000);
    const { all } = this.log;
    if (this.#logged?.second === second && this.#logged.log === all) return this.#logged.of;
    const of = new Map<string, { failed: number; error: string }>();
    for (let at = all.length - 1; at >= 0; at--) {
      const one = all[at]!;
      if (ended(one) < Date.now() - MINUTE * 1000) break;
      if (one.store !== this || !isFailed(one)) continue;
      const known = of.get(one.controller);
      if (known) known.failed += 1;
      else of.set(one.controller, { failed: 1, error: one.error ?? "" });
    }
    this.#logged = { second, log: all, of };
    return of;
  }

  #forgetLastMinute(): void {
    this.#results = [];
    this.growth.clear();
  }

  #measure(time: number): void {
    const { process, controllers, queues } = this.snapshot as Snapshot;
    // After a gap in the data, neither the last minute nor a growth without a pause is known.
    const newest = this.#results.at(-1);
    if (newest && process.uptimeSeconds - newest.uptime > MAX_GAP) {
      this.#forgetLastMinute();
    }
    const results = controllers.map((one): [string, Results] => [one.name, { finished: finished(one), failed: one.results.error }]);
    this.#results.push({ uptime: process.uptimeSeconds, of: new Map(results) });
    while (this.#results.length > 2 && this.#results[1]!.uptime <= process.uptimeSeconds - MINUTE) this.#results.shift();
    for (const { name, ready } of queues) {
      const known = this.growth.get(name);
      if (known && ready > known.to) known.to = ready;
      else this.growth.set(name, { since: time, from: ready, to: ready });
    }
  }

  #sample(time: number): void {
    const { informers, queues, process } = this.snapshot as Snapshot;
    const failed = (of: Snapshot) =>
      sum(of.client.requests, ({ code, count }) => (code === 0 || code >= 500 ? count : 0));
    this.series.add(time, {
      success: this.rate((of) => sum(of.controllers, (one) => finished(one) - one.results.error)),
      errors: this.rate((of) => sum(of.controllers, (one) => one.results.error)),
      ready: sum(queues, (one) => one.ready),
      waiting: sum(queues, (one) => one.waiting),
      processing: sum(queues, (one) => one.processing),
      requests: this.rate((of) => sum(of.client.requests, (one) => one.count)),
      rejected: this.rate((of) => sum(of.client.requests, ({ code, count }) => (code >= 400 && code < 500 ? count : 0))),
      requestErrors: this.rate(failed),
      events: this.rate((of) => sum(of.informers, (one) => one.events)),
      objects: sum(informers, (one) => one.objects),
      memory: process.residentBytes,
    });
  }
}
