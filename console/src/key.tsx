// The view of a key: why it was reconciled, in all replicas on one time line.
import { useEffect, useMemo, useState } from "preact/hooks";
import { Action, keyLink, KeyLink, outcome, result, type ViewProps } from "./columns";
import { isFailed, type KeyHistory, type Reconcile } from "./data";
import { ago, clock, count, counted, day, seconds, visible } from "./format";
import { ObjectLinks, seenVersions, useKeyObjects, VersionItem, VersionLane } from "./key-objects";
import { ended } from "./log";
import { Badge, type Level, Time } from "./parts";
import type { Replicas } from "./replicas";
import type { Store } from "./store";
import { messageOf } from "./stream";
import { type Followed, SEEN } from "./versions";

/** The time between two reads of the histories in milliseconds. */
const PERIOD = 2_000;
/** The number of reconciles that are shown. */
const MAX_ENTRIES = 200;
/** The number of reconciles and versions that are shown before the user asks for more. */
const FIRST_ENTRIES = 20;
/** A failure among this number of the last reconciles colors the summary. */
const RECENT = 5;
/** The number of reconciles on the time line, and of those that are taken from the log of the page. */
const MAX_KNOWN = 1_000;

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
  const objects = useKeyObjects(key, stories.map(({ store, read }) => ({ store, history: read?.of })));
  const read = stories.filter((one) => one.read !== null);
  const logged = useLogged(key, replicas);
  const entries = merge(read.flatMap(entriesOf), logged);
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
      {read.length > 0 && <Summary stories={read} entries={entries} name={key} />}
      {key && <Requeue stories={stories} name={key} />}
      {key && <ObjectLinks name={key} objects={objects} stores={replicas.shown} />}
      {read.length > 0 && <HistoryView name={key} stories={read} entries={entries} objects={objects} />}
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

/** The reconciles of a key that the page has received, which may be older than those that the programs keep. */
function useLogged(key: string, { log: { all }, stores, chosen }: Replicas): Entry[] {
  return useMemo(() => {
    const found: Entry[] = [];
    for (let at = all.length - 1; at >= 0 && found.length < MAX_KNOWN; at--) {
      const one = all[at]!;
      if (one.request === key && (chosen === "" || one.store.name === chosen)) found.push({ ...one, end: ended(one) });
    }
    return found;
  }, [all, key, stores, chosen]);
}

/** The reconciles of the histories and of the log without duplicates, newest first. */
function merge(histories: Entry[], logged: Entry[]): Entry[] {
  const id = (one: Entry) => JSON.stringify([one.store.name, one.controller, one.id]);
  const known = new Set(histories.map(id));
  return [...histories, ...logged.filter((one) => !known.has(id(one)))].sort((a, b) => b.began - a.began);
}

/** What the controllers do with a key now. */
function present(stories: Story[], name: string): string {
  const all = stories.flatMap(({ store, read }) => (read?.of.controllers ?? []).map((one) => ({ ...one, store })));
  const states = all.flatMap(({ store, controller, running, queued }) => {
    const where = all.length > 1 ? ` in ${controller}${of(store)}` : "";
    const began = running.filter(({ request }) => request === name);
    const retry = /^retry of failure (\d+)$/.exec(queued?.causes[0] ?? "")?.[1];
    return [
      ...(began.length > 0 ? [`running${where} for ${seconds(Math.max(...began.map((one) => one.beganSecondsAgo)))}`] : []),
      ...(queued ? [`waiting${retry ? ` for retry ${retry}` : ""}${where}, queued ${seconds(queued.ageSeconds)} ago`] : []),
    ];
  });
  return states.join("; ") || "idle";
}

/** The failures of the known reconciles, such as `None of the 4 known reconciles since 20:43:57 failed.` */
function failuresOf(own: Entry[]): string {
  if (own.length < 2) return "No earlier reconcile is known.";
  const since = Math.min(...own.map((one) => one.began));
  const failed = own.filter(isFailed).length;
  return `${failed === 0 ? "None" : count(failed)} of the ${count(own.length)} known reconciles since ${day(since)}${clock(since).slice(0, 8)} failed.`;
}

/** The present state of a key, its last result, and its last error. */
function Summary({ stories, entries, name }: { stories: Story[]; entries: Entry[]; name: string }) {
  // The history also contains the reconciles of other keys that an event of this key caused.
  const own = entries.filter((one) => one.request === name && one.result !== null).sort((a, b) => b.end - a.end);
  if (entries.length === 0 && stories.every(({ read }) => read?.of.controllers.length === 0)) return null;
  const [last] = own;
  const failed = own.slice(0, RECENT).filter((one) => one.result === "error");
  const error = own.find((one) => one.error);
  const level: Level = last?.result === "error" ? "bad" : failed.length > 0 ? "warn" : last ? "ok" : "none";
  return (
    <section class={`card ${level} summary`}>
      <p><b>Now:</b> {present(stories, name)}</p>
      {last && <p>Last result: {result(last.result)}, ended {ago(last.end)}. {failuresOf(own)}</p>}
      {error && <p>Last error, of the reconcile that ended {ago(error.end)}: <span class="error-text">{visible(error.error ?? "")}</span></p>}
    </section>
  );
}

function HistoryView({ name, stories, entries, objects }: { name: string; stories: Story[]; entries: Entry[]; objects: Followed[] }) {
  const [allShown, showAll] = useState(false);
  useEffect(() => showAll(false), [name]);
  const versions = seenVersions(objects);
  const at = Math.max(...stories.map((one) => one.read?.at ?? 0), ...versions.map(({ version }) => version.at), ...entries.slice(0, 1).map((one) => one.end));
  const controllers = stories.flatMap(({ store, read }) => (read?.of.controllers ?? []).map((one) => ({ ...one, store })));
  if (controllers.length === 0 && entries.length === 0) {
    return <p class="muted lead">Nothing is known about this key. The last 1,000 reconciles of each controller are kept.</p>;
  }
  const items = [
    ...entries.slice(0, MAX_ENTRIES).map((one) => ({
      time: one.began,
      item: <EntryItem entry={one} name={name} key={`${one.store.name} ${one.controller} ${one.id}`} />,
    })),
    ...versions.map((one) => ({
      time: one.version.at,
      item: <VersionItem {...one} key={`${one.object.store.name} ${one.object.informer} version ${one.version.id}`} />,
    })),
  ].sort((a, b) => b.time - a.time);
  return (
    <>
      {controllers.filter((one) => one.queued).map((one) => (
        <section class="card warn" key={one.store.name + one.controller}>
          <Badge level="warn">queued</Badge> in <b>{one.controller}</b>{of(one.store)} for {seconds(one.queued?.ageSeconds)}. Causes: {visible(one.queued?.causes.join("; ") || "none recorded")}
        </section>
      ))}
      {entries.length > 0 && <Track entries={entries.slice(0, MAX_KNOWN)} objects={objects} at={at} />}
      <ol class="history">{items.slice(0, allShown ? undefined : FIRST_ENTRIES).map(({ item }) => item)}</ol>
      {!allShown && items.length > FIRST_ENTRIES && (
        <button type="button" onClick={() => showAll(true)}>Show {counted(items.length - FIRST_ENTRIES, "older entry", "older entries")}</button>
      )}
      {entries.length > MAX_ENTRIES && <p class="muted">{counted(entries.length - MAX_ENTRIES, "older reconcile is", "older reconciles are")} not in this list.</p>}
    </>
  );
}

function EntryItem({ entry: one, name }: { entry: Entry; name: string }) {
  return (
    <li class={`card ${one.result === "error" ? "bad" : ""}`}>
      <div class="history-head">
        <Time at={one.began} note={one.result === null ? "running" : `ended ${ago(one.end)}`} /> <b>{one.controller}</b>{one.store.name !== "" && <span class="muted">on {one.store.name}</span>} {result(one.result)}
        {one.request !== name && <span>reconciled <KeyLink name={one.request} /></span>}
      </div>
      <p class="muted">
        {one.waitedSeconds !== null && <>{seconds(one.waitedSeconds)} after its first cause, </>}
        {one.seconds === null ? `running for ${seconds(one.beganSecondsAgo)}` : `took ${seconds(one.seconds)}`}, id <code>{one.id}</code>
      </p>
      {one.causes.length === 0
        ? <p>No cause was recorded.</p>
        : <div><span class="muted">Causes</span><ul>{one.causes.map((cause, at) => <li key={at}>{visible(cause)}</li>)}{one.omitted > 0 && <li class="muted">and {one.omitted} more</li>}</ul></div>}
      {one.error && <p class="error-text">{visible(one.error)}</p>}
    </li>
  );
}

/** Draws failures over the other reconciles at the same place. */
const failedLast = (one: Entry, other: Entry) => Number(levelOf(one) === "bad") - Number(levelOf(other) === "bad");

const levelOf = ({ result }: Entry) => (result === null ? "running" : result === "error" ? "bad" : result === "success" ? "ok" : "requeued");

/** The least width of a bar on the time line in percent. */
const MIN_WIDTH = 0.8;

/** The wait before a reconcile, up to its start. The stroke keeps a short wait visible. */
function Wait({ of: { began, waitedSeconds }, x }: { of: Entry; x: (time: number) => number }) {
  if (!waitedSeconds) return null;
  const width = x(began) - x(began - waitedSeconds * 1000);
  return <rect class="wait" x={`${x(began) - width}%`} y="8" height="8" width={`${width}%`} />;
}

/**
 * The time line: for each controller of each replica a lane with the wait and the duration of each reconcile, and a
 * lane with the versions of each object.
 */
function Track({ entries, objects, at }: { entries: Entry[]; objects: Followed[]; at: number }) {
  const laneOf = (one: Entry) => `${one.controller}${of(one.store)}`;
  const lanes = [...new Set(entries.map(laneOf))].sort();
  const from = Math.min(...entries.map((one) => one.began - (one.waitedSeconds ?? 0) * 1000));
  const span = Math.max(at - from, 1);
  const x = (time: number) => ((time - from) / span) * 100;
  const kinds: [line: string, label: string, shown: boolean][] = [
    ["line-1", "succeeded", entries.some((one) => levelOf(one) === "ok")], ["line-2 failed", "failed", entries.some((one) => levelOf(one) === "bad")],
    ["requeued", "requeued", entries.some((one) => levelOf(one) === "requeued")], ["running", "running", entries.some((one) => levelOf(one) === "running")],
    ["line-3", "waiting for a worker", true], ["line-4", "version", objects.length > 0], ["line-4 first", "first version seen", objects.length > 0],
  ];
  // A bar at the end of the axis must not leave it.
  const width = (one: Entry) => Math.max(MIN_WIDTH, x(one.end) - x(one.began));
  const left = (one: Entry) => Math.min(x(one.began), 100 - width(one));
  return (
    <section class="card track">
      <h2>Time line</h2>
      <ul class="legend">{kinds.filter(([, , shown]) => shown).map(([line, label]) => <li key={label}><i class={line} />{label}</li>)}</ul>
      {lanes.map((lane) => (
        <div key={lane}>
          <span class="muted">{lane}</span>
          <svg role="img" class="reconciles" aria-label={`${entries.filter((one) => laneOf(one) === lane).length} reconciles of ${lane}`}>
            <rect x="0" y="11" width="100%" height="2" class="base" />
            {entries.filter((one) => laneOf(one) === lane).toSorted(failedLast).map((one) => (
              <g key={one.id}>
                <Wait of={one} x={x} />
                <rect class={levelOf(one)} x={`${left(one)}%`} y={one.result === "error" ? 27 : 3} height={one.result === "error" ? 2 : 18}
                  width={`${width(one)}%`}>
                  <title>{`${outcome(one.result)}, ${clock(one.began)}`}</title>
                </rect>
                {one.result === "error" && (
                  <svg class="mark" x={`${left(one) + width(one) / 2}%`} y="28" overflow="visible">
                    <path class="cross" d="M-4,-4 L4,4 M4,-4 L-4,4" />
                  </svg>
                )}
              </g>
            ))}
          </svg>
        </div>
      ))}
      {objects.map((one) => <VersionLane object={one} x={x} key={`${one.store.name} ${one.informer}`} />)}
      <div class="track-ends muted"><span>{day(from)}{clock(from)}</span><span>{clock(at)}, {seconds(span / 1000)} later</span></div>
      {objects.length > 0 && <p class="muted">{SEEN}</p>}
    </section>
  );
}
