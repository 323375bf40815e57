// The state of the page: the last snapshot, the series of the last 15 minutes, and the last reconciles.
import { finished, type Reconcile, type Snapshot, sum } from "./data";

/** 15 minutes with a sample each second. */
const MAX_SAMPLES = 900;
/** The page keeps this number of reconciles; older ones are dropped. */
const MAX_RECONCILES = 100_000;
/** The server sends an event each second, so a long silence means that the connection is broken. */
const SILENCE = 15_000;
/** A connection that ends after this time is opened again at once. */
const SETTLED = 2_000;
const MAX_DELAY = 5_000;

export type Connection = "connecting" | "live" | "lost" | "unauthorized" | "forbidden";

export const SERIES = [
  "success", "errors", "ready", "waiting", "processing", "requests", "requestErrors", "events", "objects", "memory",
] as const;
export type SeriesName = (typeof SERIES)[number];

export class Store {
  snapshot: Snapshot | null = null;
  previous: Snapshot | null = null;
  connection: Connection = "connecting";
  /** The reason why there is no connection. */
  problem = "";
  times: number[] = [];
  series = Object.fromEntries(SERIES.map((name) => [name, []])) as unknown as Record<SeriesName, (number | null)[]>;
  reconciles: Reconcile[] = [];
  /** The number of ended reconciles that the page did not receive. */
  dropped = 0;
  #seen = new Set<string>();
  #at = 0;
  #before = 0;
  #listeners = new Set<() => void>();
  /** The result of the last action. */
  notice: { level: "ok" | "bad"; text: string } | null = null;
  /** The token is kept in memory only. */
  #token = "";
  #retry: (() => void) | null = null;

  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #changed(): void {
    for (const listener of this.#listeners) listener();
  }

  /** The seconds between the last two snapshots of one process; `null` if there is only one. */
  get interval(): number | null {
    return this.previous && this.#at > this.#before ? (this.#at - this.#before) / 1000 : null;
  }

  /** The increase of a counter per second. */
  rate(count: (of: Snapshot) => number | undefined): number | null {
    if (!this.snapshot || !this.previous || !this.interval) return null;
    const [now, before] = [count(this.snapshot), count(this.previous)];
    return now === undefined || before === undefined || now < before ? null : (now - before) / this.interval;
  }

  setToken(token: string): void {
    this.#token = token.trim();
    this.connection = "connecting";
    this.#changed();
    this.#retry?.();
  }

  get headers(): Record<string, string> {
    return this.#token ? { authorization: `Bearer ${this.#token}` } : {};
  }

  /** Runs an action, and shows its result. */
  async act(action: "requeue" | "relist" | "drop", body: Record<string, string>): Promise<void> {
    const headers = { ...this.headers, "content-type": "application/json", "x-informer-token": this.snapshot?.actions?.token ?? "" };
    try {
      const response = await fetch(`v1/actions/${action}`, { method: "POST", headers, body: JSON.stringify(body) });
      if (!response.ok) throw new Error((await response.text()).slice(0, 300));
      const { message } = (await response.json()) as { message: string };
      this.notice = { level: "ok", text: message };
    } catch (error) {
      this.notice = { level: "bad", text: error instanceof Error ? error.message : String(error) };
    }
    this.#changed();
  }

  dismiss(): void {
    this.notice = null;
    this.#changed();
  }

  async run(): Promise<void> {
    for (let delay = 500; ; ) {
      const began = Date.now();
      try {
        await this.#read();
        // The server ends a stream from time to time, to check the permission again.
        if (this.connection === "live" && Date.now() - began > SETTLED) continue;
        this.#lose("lost", "the server closed the connection");
      } catch (error) {
        if (this.connection !== "unauthorized" && this.connection !== "forbidden") {
          this.#lose("lost", error instanceof Error ? error.message : String(error));
        }
      }
      delay = Date.now() - began > SILENCE ? 500 : Math.min(delay * 2, MAX_DELAY);
      const waits = this.connection === "unauthorized" || this.connection === "forbidden";
      await new Promise<void>((resolve) => {
        this.#retry = resolve;
        if (!waits) setTimeout(resolve, delay);
      });
    }
  }

  #lose(connection: Connection, problem: string): void {
    this.connection = connection;
    this.problem = problem;
    this.#changed();
  }

  async #read(): Promise<void> {
    const abort = new AbortController();
    let timer = setTimeout(() => abort.abort(), SILENCE);
    try {
      const response = await fetch("v1/events", { headers: this.headers, signal: abort.signal, cache: "no-store" });
      if (response.status === 401 || response.status === 403) {
        const problem = (await response.text()).slice(0, 300);
        this.#lose(response.status === 401 ? "unauthorized" : "forbidden", problem);
        throw new Error(problem);
      }
      if (!response.ok || !response.body) throw new Error((await response.text()).slice(0, 300));
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let chunks: string[] = []; ; ) {
        const { done, value } = await reader.read();
        if (done) return;
        clearTimeout(timer);
        timer = setTimeout(() => abort.abort(), SILENCE);
        // The chunks of a large event are joined once, when its end has arrived.
        const ends = value.includes("\n\n") || (value.startsWith("\n") && chunks.at(-1)?.endsWith("\n"));
        chunks.push(value);
        if (!ends) continue;
        const parts = chunks.join("").split("\n\n");
        chunks = [parts.pop() ?? ""];
        for (const part of parts) {
          const data = part.split("\n").find((line) => line.startsWith("data: "));
          if (data) this.apply(JSON.parse(data.slice(6)) as Snapshot);
        }
      }
    } finally {
      clearTimeout(timer);
      abort.abort();
    }
  }

  apply(snapshot: Snapshot): void {
    const now = Date.now();
    const same = this.snapshot?.process.pid === snapshot.process.pid
      && snapshot.process.uptimeSeconds > this.snapshot.process.uptimeSeconds;
    if (this.snapshot && !same) this.#seen.clear();
    [this.previous, this.#before] = [same ? this.snapshot : null, this.#at];
    [this.snapshot, this.#at] = [snapshot, now];
    const added = (snapshot.reconciles ?? []).filter(({ id }) => !this.#seen.has(id));
    for (const one of added) {
      one.began = now - one.beganSecondsAgo * 1000;
      this.#seen.add(one.id);
    }
    if (added.length > 0) {
      const all = this.reconciles.concat(added);
      for (const { id } of all.splice(0, Math.max(0, all.length - MAX_RECONCILES))) this.#seen.delete(id);
      this.reconciles = all;
    }
    this.dropped += snapshot.dropped ?? 0;
    delete snapshot.reconciles;
    this.#sample(now / 1000);
    [this.connection, this.problem] = ["live", ""];
    this.#changed();
  }

  #sample(time: number): void {
    const { informers, queues, process } = this.snapshot as Snapshot;
    const failed = (of: Snapshot) =>
      sum(of.client.requests, ({ code, count }) => (code === 0 || code >= 500 ? count : 0));
    const values: Record<SeriesName, number | null> = {
      success: this.rate((of) => sum(of.controllers, (one) => finished(one) - one.results.error)),
      errors: this.rate((of) => sum(of.controllers, (one) => one.results.error)),
      ready: sum(queues, (one) => one.ready),
      waiting: sum(queues, (one) => one.waiting),
      processing: sum(queues, (one) => one.processing),
      requests: this.rate((of) => sum(of.client.requests, (one) => one.count)),
      requestErrors: this.rate(failed),
      events: this.rate((of) => sum(of.informers, (one) => one.events)),
      objects: sum(informers, (one) => one.objects),
      memory: process.residentBytes,
    };
    this.times = this.times.concat(time).slice(-MAX_SAMPLES);
    for (const name of SERIES) this.series[name] = this.series[name].concat(values[name]).slice(-MAX_SAMPLES);
  }

  /** The sum of a series over the last minute, and `false` if the series has no value in it. */
  recent(name: SeriesName): number {
    return sum(this.series[name].slice(-60), (value) => value ?? 0);
  }
}
