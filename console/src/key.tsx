// The view of a key: why it was reconciled, in all replicas on one time line.
import { useEffect, useState } from "preact/hooks";
import { Action, keyLink, result, type ViewProps } from "./columns";
import type { KeyHistory, Reconcile } from "./data";
import { clock, seconds } from "./format";
import { Badge } from "./parts";
import type { Store } from "./store";
import { messageOf } from "./stream";

/** The time between two reads of the histories in milliseconds. */
const PERIOD = 2_000;
/** The number of reconciles that are shown. */
const MAX_ENTRIES = 200;

interface Entry extends Reconcile {
  end: number;
}

/** What a replica knows about the key. */
interface Story {
  store: Store;
  /** The last history that was read, and the time when it was read. */
  read: { of: KeyHistory; at: number } | null;
  /** The reason why the last attempt failed; empty if it succeeded. */
  problem: string;
}

const of = (store: Store) => (store.name === "" ? "" : ` of ${store.name}`);

/** Reads the histories of a key from the replicas again and again. */
function useStories(key: string, stores: Store[]): Story[] {
  const [stories, setStories] = useState<Story[]>([]);
  const names = stores.map((one) => one.name).join(" ");
  useEffect(() => {
    setStories(stores.map((store) => ({ store, read: null, problem: "" })));
    if (!key) return;
    let active = true;
    const busy = new Set<Store>();
    const update = (store: Store, change: Partial<Story>) => {
      if (active) setStories((all) => all.map((one) => (one.store === store ? { ...one, ...change } : one)));
    };
    // A replica that does not respond delays no other.
    const read = async (store: Store) => {
      if (busy.has(store)) return;
      busy.add(store);
      try {
        const history = await store.history(key);
        update(store, { read: { of: history, at: Date.now() }, problem: "" });
      } catch (error) {
        update(store, { problem: messageOf(error) });
      }
      busy.delete(store);
    };
    const readAll = () => stores.forEach((store) => void read(store));
    readAll();
    const timer = setInterval(readAll, PERIOD);
    return () => {
      active = false;
      clearInterval(timer);
    };
  }, [key, names]);
  return key ? stories : [];
}

/** The time of the newest reconcile of a controller, `Infinity` for a queued or running one. */
function newest({ queued, running, reconciles }: KeyHistory["controllers"][number], at: number): number {
  if (queued || running.length > 0) return Infinity;
  return Math.max(0, ...reconciles.map((one) => at - one.beganSecondsAgo * 1000));
}

/** Enqueues a key in a controller: by default in the one that reconciled the key last. */
function Requeue({ stories, name }: { stories: Story[]; name: string }) {
  const [chosen, setChosen] = useState("");
  const options = stories.flatMap(({ store, read }) => (store.snapshot?.actions ? store.snapshot.controllers : []).map((one) => {
    const known = read?.of.controllers.find((of) => of.controller === one.name);
    return { store, controller: one.name, id: `${store.name} ${one.name}`, last: known && read ? newest(known, read.at) : -1 };
  }));
  const [first, ...others] = options;
  if (!first) return null;
  const last = others.reduce((best, one) => (one.last > best.last ? one : best), first);
  const { store, controller, id } = options.find((one) => one.id === chosen) ?? last;
  return (
    <section class="card actions">
      <label>Controller{" "}
        <select value={id} onChange={(event) => setChosen(event.currentTarget.value)}>
          {options.map((one) => <option value={one.id} key={one.id}>{one.controller}{of(one.store)}</option>)}
        </select>
      </label>{" "}
      <Action store={store} action="requeue" body={{ controller, key: name }}
        command={`Requeue ${name} in controller ${controller}`} effect="It is reconciled as soon as a worker is free.">Requeue</Action>
    </section>
  );
}

export function Key({ replicas, parameter }: ViewProps) {
  const key = parameter("key");
  const [text, setText] = useState(key);
  const stories = useStories(key, replicas.shown);
  useEffect(() => setText(key), [key]);
  const read = stories.filter((one) => one.read !== null);
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
      {stories.filter((one) => one.problem !== "" && one.store.connection !== "lost").map((one) => (
        <p class="error-text" role="alert" key={one.store.name}>The history{of(one.store)} cannot be read: {one.problem}</p>
      ))}
      {key && <Requeue stories={stories} name={key} />}
      {read.length > 0 && <HistoryView name={key} stories={read} />}
      {!key && <p class="muted lead">Enter a key, or choose one in the list of reconciles, to see why it was reconciled.</p>}
    </>
  );
}

function entriesOf({ store, read }: Story): Entry[] {
  if (!read) return [];
  const began = (one: Reconcile) => read.at - one.beganSecondsAgo * 1000;
  const entry = (controller: string) => (one: Reconcile): Entry =>
    ({ ...one, store, controller, began: began(one), end: one.seconds === null ? read.at : began(one) + one.seconds * 1000 });
  return read.of.controllers.flatMap((of) => [...of.running, ...of.reconciles].map(entry(of.controller)));
}

function HistoryView({ name, stories }: { name: string; stories: Story[] }) {
  const at = Math.max(...stories.map((one) => one.read?.at ?? 0));
  const entries = stories.flatMap(entriesOf).sort((a, b) => b.began - a.began);
  const controllers = stories.flatMap(({ store, read }) => (read?.of.controllers ?? []).map((one) => ({ ...one, store })));
  if (controllers.length === 0) {
    return <p class="muted lead">Nothing is known about this key. The last 1,000 reconciles of each controller are kept.</p>;
  }
  return (
    <>
      {controllers.filter((one) => one.queued).map((one) => (
        <section class="card" key={one.store.name + one.controller}>
          <Badge level="warn">queued</Badge> in <b>{one.controller}</b>{of(one.store)} for {seconds(one.queued?.ageSeconds)}: {one.queued?.causes.join("; ")}
        </section>
      ))}
      {entries.length > 0 && <Track entries={entries} at={at} />}
      <ol class="history">
        {entries.slice(0, MAX_ENTRIES).map((one) => (
          <li class={`card ${one.result === "error" ? "bad" : ""}`} key={`${one.store.name} ${one.controller} ${one.id}`}>
            <div class="history-head">
              <time>{clock(one.began)}</time> <b>{one.controller}</b>{one.store.name !== "" && <span class="muted">on {one.store.name}</span>} {result(one.result)}
              {one.request !== name && <span>reconciled <a href={keyLink(one.request)}>{one.request}</a></span>}
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
      {entries.length > MAX_ENTRIES && <p class="muted">{entries.length - MAX_ENTRIES} older reconciles are not shown.</p>}
    </>
  );
}

/** The time line: for each controller of each replica a lane with the wait and the duration of each reconcile. */
function Track({ entries, at }: { entries: Entry[]; at: number }) {
  const laneOf = (one: Entry) => `${one.controller}${of(one.store)}`;
  const lanes = [...new Set(entries.map(laneOf))].sort();
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
            aria-label={`${entries.filter((one) => laneOf(one) === lane).length} reconciles of ${lane}`}>
            <rect x="0" y="11" width="1000" height="2" class="base" />
            {entries.filter((one) => laneOf(one) === lane).map((one) => (
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
