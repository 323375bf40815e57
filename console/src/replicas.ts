// The programs that the page shows: the one that serves it, or several that `informer console --attach` names.
import { type Snapshot, sum } from "./data";
import { ReconcileLog } from "./log";
import { Series, SERIES, type SeriesName, Store } from "./store";
import { type Connection, EventStream } from "./stream";

/** Samples of the sums over several replicas are this number of milliseconds apart. */
const PERIOD = 1_000;
/** With several replicas, changes are shown together after this number of milliseconds. */
const PAUSE = 200;
/** Data that is older than this number of seconds is shown as such. */
const OLD = 5;
/** The number of milliseconds until the next attempt to read the list of the replicas. */
const RETRY = 1_000;

interface TargetEvent {
  target: number;
  snapshot?: Snapshot;
  error?: string;
}

export class Replicas {
  stores: Store[] = [];
  /** The name of the replica to which the views are restricted; empty for all. */
  chosen = "";
  /** The state of the stream of several replicas; the state of each one is in its store. */
  connection: Connection = "connecting";
  problem = "";
  readonly log = new ReconcileLog();
  #sums = new Series();
  #stream: EventStream | null = null;
  #listeners = new Set<() => void>();
  #pending = false;

  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** True if the page shows several programs. */
  get several(): boolean {
    return this.stores.length > 1;
  }

  /** True if rows of several replicas are in one table. */
  get mixed(): boolean {
    return this.several && this.chosen === "";
  }

  /** The replicas that the views show. */
  get shown(): Store[] {
    return this.chosen === "" ? this.stores : this.stores.filter((one) => one.name === this.chosen);
  }

  /** The snapshots of the shown replicas, also old ones. */
  get snapshots(): Snapshot[] {
    return this.shown.flatMap((one) => one.snapshot ?? []);
  }

  /** The shown replicas whose data is part of sums: the connected ones, or all if none is connected. */
  get summed(): Store[] {
    const known = this.shown.filter((one) => one.snapshot);
    const live = known.filter((one) => one.connection === "live");
    return live.length > 0 ? live : known;
  }

  /** The snapshots that are part of sums. */
  get current(): Snapshot[] {
    return this.summed.flatMap((one) => one.snapshot ?? []);
  }

  get series(): Series {
    const [only, ...others] = this.shown;
    return only && others.length === 0 ? only.series : this.#sums;
  }

  /** The sum of a number of each snapshot. */
  sum(of: (snapshot: Snapshot) => number): number {
    return sum(this.current, of);
  }

  /** The sum of the increases of a counter per second. */
  rate(of: (snapshot: Snapshot) => number | undefined): number | null {
    return known(this.summed.map((one) => one.rate(of)));
  }

  /** The sum of the increases of a counter between the last two snapshots. */
  increase(of: (snapshot: Snapshot) => number | undefined): number | null {
    return known(this.summed.map((one) => one.increase(of)));
  }

  /** The part of a replica's name in which it differs from the others, such as `operator-0` or `:8082`. */
  short({ name }: Store): string {
    const names = this.stores.map((one) => one.name.split(/(?=[.:/])/));
    const parts = name.split(/(?=[.:/])/);
    const same = (at: number) => names.every((one) => one.at(at) === parts.at(at));
    let [start, end] = [0, 0];
    while (start < parts.length - 1 && same(start)) start += 1;
    while (end < parts.length - 1 - start && same(-1 - end)) end += 1;
    return parts.slice(start, parts.length - end).join("").replace(/^[./]/, "");
  }

  choose(name: string): void {
    this.chosen = name;
    this.#notify();
  }

  setToken(token: string): void {
    for (const one of this.stores) {
      one.token = token.trim();
      one.connection = "connecting";
    }
    this.#notify();
    this.#stream?.retry();
  }

  async run(): Promise<void> {
    const names = await readTargets();
    if (names.length < 2) return this.#runOne();
    this.stores = names.map((name, number) => new Store(name, `v1/targets/${number}/`, this.log, () => this.#changed()));
    setInterval(() => this.#sample(), PERIOD);
    this.#notify();
    this.#stream = new EventStream("v1/targets/events", {
      headers: () => ({}),
      event: (data) => this.#apply(JSON.parse(data) as TargetEvent),
      lost: (connection, problem) => {
        [this.connection, this.problem] = [connection, problem];
        for (const one of this.stores) one.lose("lost", "no connection to the proxy");
      },
    });
    return this.#stream.run();
  }

  #runOne(): Promise<void> {
    const store = new Store("", "v1/", this.log, () => this.#notify());
    this.stores = [store];
    this.#stream = new EventStream("v1/events", {
      headers: () => store.headers,
      event: (data) => store.apply(JSON.parse(data) as Snapshot),
      lost: (connection, problem) => store.lose(connection, problem),
    });
    this.#notify();
    return this.#stream.run();
  }

  #apply({ target, snapshot, error }: TargetEvent): void {
    [this.connection, this.problem] = ["live", ""];
    const store = this.stores[target];
    if (snapshot) store?.apply(snapshot);
    else store?.lose("lost", error ?? "");
  }

  #sample(): void {
    const stores = this.stores.filter((one) => one.connection === "live");
    const last = (name: SeriesName) => known(stores.map((one) => one.series.last(name)));
    const values = Object.fromEntries(SERIES.map((name) => [name, last(name)])) as Record<SeriesName, number | null>;
    this.#sums.add(Date.now() / 1000, values);
    // The ages of the data change also without events.
    this.#changed();
  }

  #changed(): void {
    if (this.#pending) return;
    this.#pending = true;
    setTimeout(() => {
      this.#pending = false;
      this.#notify();
    }, PAUSE);
  }

  #notify(): void {
    for (const listener of this.#listeners) listener();
  }
}

/** The sum of the known numbers; `null` if none is known. */
function known(values: (number | null)[]): number | null {
  const numbers = values.filter((value) => value !== null);
  return numbers.length === 0 ? null : sum(numbers, (value) => value);
}

/** True if a replica is connected and sends data. */
export const isCurrent = (store: Store): boolean => store.connection === "live" && (store.age ?? 0) < OLD;

/** The names of several programs; empty if the server of the page shows only itself. */
async function readTargets(): Promise<string[]> {
  for (;;) {
    try {
      const response = await fetch("v1/targets", { cache: "no-store" });
      if (!response.ok) return [];
      return ((await response.json()) as { targets: { name: string }[] }).targets.map(({ name }) => name);
    } catch {
      await new Promise((resolve) => setTimeout(resolve, RETRY));
    }
  }
}
