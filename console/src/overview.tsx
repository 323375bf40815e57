import { Chart } from "./chart";
import { type ViewProps, ReplicaName } from "./columns";
import { type Controller, finished, sum } from "./data";
import { bytes, clock, count, counted, day, NONE, rate, seconds, visible } from "./format";
import { failuresText, problems, recentText, severity, sumOfFailures } from "./health";
import { Badge, type Level, Tile } from "./parts";
import { isCurrent, type Replicas } from "./replicas";
import type { Series, Store } from "./store";
import { type Column, Table } from "./table";

/** The number of problems that are shown. */
const MAX_PROBLEMS = 20;

/** The charts have 15 minutes of data, with samples that are a second apart, after this number of seconds. */
const FULL = 898;

const election = (store: Store): string => {
  if (!store.snapshot || !isCurrent(store)) return NONE;
  const lease = store.snapshot.leases.find((one) => one.kind === "leader-election");
  return lease ? (lease.active ? "leader" : "standby") : "no election";
};

function Tiles({ replicas }: { replicas: Replicas }) {
  const { current, series } = replicas;
  const informers = current.flatMap((one) => one.informers);
  const queues = current.flatMap((one) => one.queues);
  const controllers = current.flatMap((one) => one.controllers);
  const synced = informers.filter((one) => one.synced).length;
  const memory = current.flatMap((one) => one.process.residentBytes ?? []);
  const failed = sumOfFailures(controllers.map(({ store, name }) => store.failures(name)));
  const [only] = replicas.summed;
  const programs = replicas.mixed || !only ? `of ${counted(replicas.summed.length, "replica")}` : election(only);
  return (
    <div class="tiles">
      <Tile title="Informers synced" value={`${synced} of ${informers.length}`} link="#/informers"
        detail={counted(sum(informers, (one) => one.objects), "object")} />
      <Tile title="Keys in work queues" value={`${count(sum(queues, (one) => one.ready))} ready`} link="#/queues"
        detail={`${count(sum(queues, (one) => one.waiting))} delayed`} />
      <Tile title="Reconciles" value={rate(replicas.rate((of) => sum(of.controllers, finished)))} link="#/reconciles"
        detail={`${failuresText(failed)}, ${count(replicas.sum((of) => sum(of.controllers, (one) => one.results.error)))} failed in total`} />
      <Tile title="Running reconciles" link="#/controllers" value={count(sum(controllers, (one) => one.active))}
        detail={`${counted(sum(controllers, (one) => one.workers), "worker")}, ${counted(controllers.length, "controller")}`} />
      <Tile title="API requests" value={rate(series.last("requests"))} link="#/requests"
        detail={`${count(replicas.sum((of) => sum(of.client.requests, (one) => one.count)))} in total`} />
      <Tile title="Memory" value={bytes(memory.length > 0 ? sum(memory, (one) => one) : null)} link="#/requests"
        detail={`${programs}, ${counted(replicas.sum((of) => of.process.tasks), "task")}`} />
    </div>
  );
}

/** The time of which the charts are, such as `Since 20:43`. */
function chartsHeading({ times }: Series): string {
  const [first, last] = [times[0], times.at(-1)];
  if (first === undefined || last === undefined || last - first >= FULL) return "Last 15 minutes";
  return `Since ${day(first * 1000)}${clock(first * 1000).slice(0, 5)}`;
}

export function Overview({ replicas, theme }: ViewProps) {
  const { series } = replicas;
  const found = replicas.shown.flatMap(problems);
  // The sort is stable, so the problems of a replica stay together.
  found.sort((a, b) => Number(b.level === "bad") - Number(a.level === "bad"));
  return (
    <>
      <section class={`card health ${severity(found)}`}>
        <h2>{found.length === 0 ? "Everything works" : counted(found.length, "problem")}</h2>
        {found.length > 0 && (
          <ul>
            {found.slice(0, MAX_PROBLEMS).map((one) => (
              <li key={one.store.name + one.subject + one.link + one.text}>
                <Badge level={one.level}>{one.level === "bad" ? "error" : "warning"}</Badge>
                <span>{replicas.mixed && <b>{one.store.name}: </b>}<a href={one.link}>{one.subject}</a>{/^Controller|^Queue/.test(one.subject) ? ": " : " "}{visible(one.text)}</span>
              </li>
            ))}
          </ul>
        )}
        {found.length > MAX_PROBLEMS && <p class="muted">and {found.length - MAX_PROBLEMS} more</p>}
      </section>
      {replicas.mixed && <ReplicaTable replicas={replicas} />}
      <Tiles replicas={replicas} />
      <h2>{chartsHeading(series)}</h2>
      <p class="muted">recorded by this page while it is open</p>
      <div class="charts">
        <Chart series={series} theme={theme} title="Reconciles" format={rate} lines={[
          { series: "success", label: "succeeded", color: "--line-1" }, { series: "errors", label: "failed", color: "--line-2" }]} />
        <Chart series={series} theme={theme} title="Work queues" format={count} lines={[
          { series: "ready", label: "ready", color: "--line-1" }, { series: "waiting", label: "delayed", color: "--line-3" },
          { series: "processing", label: "running", color: "--line-4" }]} />
        <Chart series={series} theme={theme} title="Watch events" format={rate} lines={[
          { series: "events", label: "received", color: "--line-1" }]} />
        <Chart series={series} theme={theme} title="API requests" format={rate} lines={[
          { series: "requests", label: "sent", color: "--line-1" }, { series: "rejected", label: "4xx", color: "--line-3" },
          { series: "requestErrors", label: "5xx or no response", color: "--line-2" }]} />
        <Chart series={series} theme={theme} title="Cached objects" format={count} lines={[
          { series: "objects", label: "objects", color: "--line-1" }]} />
        <Chart series={series} theme={theme} title="Resident memory" format={bytes} lines={[
          { series: "memory", label: "process", color: "--line-1" }]} />
      </div>
      <Leases replicas={replicas} />
    </>
  );
}

/** The health of a replica in one word or a few, and its problems. */
function health(store: Store): [level: Level, text: string] {
  if (store.connection === "connecting") return ["none", "connecting"];
  const found = problems(store);
  if (store.connection !== "live") return ["bad", "unreachable"];
  return [severity(found), found.length === 0 ? "healthy" : counted(found.length, "problem")];
}

/** The share of a replica in the shard groups of its controllers, such as `1 of 2`. */
function shards(store: Store): string {
  const sharded = (store.snapshot?.controllers ?? []).filter((one): one is Controller & { shard: object } => one.shard !== null);
  const shares = sharded.map(({ shard }) => (shard.active ? `1 of ${shard.members}` : "none"));
  if (new Set(shares).size > 1) return sharded.map(({ name }, at) => `${name} ${shares[at]}`).join(", ");
  return shares[0] ?? NONE;
}

/** The number of a snapshot; `null` without a connection, because an old number would be misleading. */
const present = (store: Store, of: (store: Store) => number | null): number | null => (store.connection === "live" ? of(store) : null);

const ready = (store: Store) => present(store, () => sum(store.snapshot?.queues ?? [], (one) => one.ready));
const oldest = (store: Store) => present(store, () => Math.max(0, ...(store.snapshot?.queues ?? []).map((one) => one.oldestSeconds)));
const failures = (store: Store) => sumOfFailures((store.snapshot?.controllers ?? []).map(({ name }) => store.failures(name)));
const failing = (store: Store) => present(store, () => failures(store).failed);
const reconciling = (store: Store) => present(store, () => store.rate((of) => sum(of.controllers, finished)));

/** Makes a column of stores a column of rows that contain a store. */
const ofRow = ({ value, show, ...column }: Column<Store>): Column<{ store: Store }> => ({
  ...column,
  value: (row) => value(row.store),
  ...(show && { show: (row: { store: Store }) => show(row.store) }),
});

/** One row per replica. */
function ReplicaTable({ replicas }: { replicas: Replicas }) {
  const badge = (store: Store) => {
    const [level, text] = health(store);
    return <Badge level={level}>{text}</Badge>;
  };
  // A table keeps the texts of its rows, and the data of a store changes. So each time the rows are new objects.
  const rows = replicas.stores.map((store) => ({ store }));
  const columns: Column<Store>[] = [
    { title: "Replica", value: (one) => one.name, width: "minmax(0, 2fr)",
      show: (one) => <button type="button" class="link" onClick={() => replicas.choose(one.name)}><ReplicaName store={one} text={one.name} /></button> },
    { title: "Health", value: (one) => health(one)[1], show: badge, width: "6.5rem" },
    { title: "Leader", value: election, show: (one) => (election(one) === NONE ? NONE : <Badge level={election(one) === "leader" ? "ok" : "none"}>{election(one)}</Badge>), width: "5.5rem", narrow: false },
    { title: "Shards", value: shards, width: "minmax(4rem, 1fr)", narrow: false },
    { title: "Reconciles", value: (one) => reconciling(one) ?? -1, show: (one) => rate(reconciling(one)), width: "5.5rem", numeric: true, narrow: false },
    { title: "Failed, last minute", value: (one) => failing(one) ?? -1, show: (one) => (failing(one) === null ? NONE : recentText(failures(one))), width: "8.5rem", numeric: true, narrow: false },
    { title: "Ready keys", value: (one) => ready(one) ?? -1, show: (one) => count(ready(one)), width: "5rem", numeric: true, narrow: false },
    { title: "Lag", value: (one) => oldest(one) ?? -1, show: (one) => seconds(oldest(one)), width: "4rem", numeric: true },
    { title: "Memory", value: (one) => one.snapshot?.process.residentBytes ?? -1, show: (one) => bytes(present(one, () => one.snapshot?.process.residentBytes ?? null)), width: "5rem", numeric: true, narrow: false },
    { title: "Data age", value: (one) => one.age ?? -1, show: (one) => (one.age === null ? NONE : seconds(Math.round(one.age))), width: "4.5rem", numeric: true, narrow: false },
  ];
  return (
    <>
      <Table name="replicas" rows={rows} columns={columns.map(ofRow)} id={(row) => row.store.name} empty="" />
      <p class="muted lead">
        The lag is the time for which the oldest ready key of a replica has waited for a worker. The figures and charts
        below are sums of the connected replicas.
      </p>
    </>
  );
}

function Leases({ replicas }: { replicas: Replicas }) {
  const leases = replicas.snapshots.flatMap((one) => one.leases);
  if (leases.length === 0) return null;
  return (
    <section class="card">
      <h2>Leases</h2>
      <ul class="plain">
        {leases.map((lease) => (
          <li key={`${lease.store.name} ${lease.kind} ${lease.namespace}/${lease.name}`}>
            {isCurrent(lease.store) ? (
              <Badge level={lease.lastError ? "bad" : lease.active ? "ok" : "none"}>{lease.active ? "active" : "standby"}</Badge>
            ) : (
              <Badge level="none">unknown</Badge>
            )}{" "}
            <b>{lease.namespace}/{lease.name}</b> <span class="muted">{lease.kind}{replicas.mixed ? ` of ${lease.store.name}` : ""}</span>
            <div class="muted">this process is {lease.identity}{lease.holder ? `, the holder is ${lease.holder}` : ""}</div>
          </li>
        ))}
      </ul>
    </section>
  );
}
