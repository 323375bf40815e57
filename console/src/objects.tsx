// The view of the cached objects: the keys of an informer, and an object.
import { useEffect, useState } from "preact/hooks";
import type { ViewProps } from "./columns";
import type { ObjectEntry, ObjectList, Part } from "./data";
import { count, counted, exact, visible } from "./format";
import { ObjectView, objectLink } from "./object";
import { setParameter } from "./page";
import type { Store } from "./store";
import { messageOf } from "./stream";
import { Table } from "./table";

/** The time between two reads of the keys in milliseconds. */
const PERIOD = 5_000;
/** The time after the last input until the filter is applied, in milliseconds. */
const PAUSE = 250;
/** The number of pages of keys in a window, which are 2,000 keys. The page holds the keys of one window only. */
const PAGES = 4;

type Row = ObjectEntry & Part;

/** The begin of a window of keys. */
interface Start {
  /** The window begins after this key; empty for the first window. */
  after: string;
  /** The number of keys in the windows before. */
  before: number;
}

const FIRST: Start = { after: "", before: 0 };

/** The keys of a window. */
interface Keys {
  rows: Row[];
  last: ObjectList;
  /** The filter and the begin with which they were read. */
  contains: string;
  start: Start;
}

/** The informer, the filter and the windows that were shown last, to restore them on the way back from an object. */
let lastShown = { id: "", contains: "", starts: [FIRST] };

/** True if the window has all keys, or all that match the filter. */
const isWhole = ({ start, last }: Keys): boolean => start.after === "" && last.next === null;

/** How many keys there are and match the filter, and which of them are shown. */
function countText(keys: Keys): string {
  const { rows, start, last: { total, matching }, contains } = keys;
  if (isWhole(keys)) return contains === "" ? counted(total, "key") : `${count(matching)} of ${counted(total, "key")} match`;
  const shown = rows.length === 0 ? "no objects" : `objects ${exact(start.before + 1)}–${exact(start.before + rows.length)}`;
  return contains === "" ? `${shown} of ${exact(total)}` : `${shown} of ${exact(matching)} whose keys match; ${exact(total)} in total`;
}

export function Objects({ replicas, parameter }: ViewProps) {
  const stores = replicas.shown.filter((one) => one.snapshot?.showsObjects);
  const options = stores.flatMap((store) => [...new Set(store.snapshot?.informers.map(({ name }) => name))].map((informer) => ({ store, informer })));
  const [informer, replica, key] = [parameter("informer"), parameter("replica"), parameter("key")];
  const store = replicas.stores.find(({ name }) => name === replica);
  if (key !== "" && store) return <ObjectView key={[replica, informer, key].join("\n")} name={{ store, informer, key }} />;
  const at = options.findIndex((one) => one.informer === informer && one.store.name === replica);
  const chosen = options[Math.max(0, at)];
  if (!chosen) {
    return (
      <p class="muted lead">
        {stores.length > 0 ? "This manager has no informers." : <>
          The program shows no objects. It can show them with <code>Console::show_objects</code>, and{" "}
          <code>informer console</code> with <code>--show-objects</code>. A server without authorization shows them
          only on a loopback address.
        </>}
      </p>
    );
  }
  return (
    <>
      <label class="choice">
        Informer{" "}
        <select value={String(Math.max(0, at))} onChange={(event) => {
          const next = options[Number(event.currentTarget.value)];
          if (next) location.hash = objectLink(next);
        }}>
          {options.map((one, number) => (
            <option value={number} key={`${one.store.name} ${one.informer}`}>{one.informer}{one.store.name === "" ? "" : ` of ${one.store.name}`}</option>
          ))}
        </select>
      </label>
      <ObjectKeys key={`${chosen.store.name} ${chosen.informer}`} {...chosen} contains={parameter("contains")} />
    </>
  );
}

/** Reads a window of keys again and again while the page is visible. */
function useKeys(store: Store, informer: string, contains: string, start: Start): [Keys | null, string] {
  const [keys, setKeys] = useState<Keys | null>(null);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    let active = true;
    let timer = 0;
    const read = async (): Promise<Keys> => {
      let last = await store.objects(informer, contains, start.after);
      const before = last.before ?? start.before;
      const entries = [...last.objects];
      for (let page = 1; page < PAGES && last.next !== null; page++) {
        last = await store.objects(informer, contains, last.next);
        entries.push(...last.objects);
      }
      return { last, contains, start: { ...start, before }, rows: entries.map((one) => ({ ...one, store })) };
    };
    const repeat = async () => {
      try {
        if (document.visibilityState === "visible") {
          const read_ = await read();
          if (active) setKeys(read_);
        }
        if (active) setProblem("");
      } catch (error) {
        if (active) setProblem(messageOf(error));
      }
      if (active) timer = setTimeout(() => void repeat(), PERIOD);
    };
    void repeat();
    return () => {
      active = false;
      clearTimeout(timer);
    };
  }, [store, informer, contains, start.after]);
  return [keys, problem];
}

function ObjectKeys({ store, informer, contains: first }: { store: Store; informer: string; contains: string }) {
  const [text, setText] = useState(first);
  const [contains, setContains] = useState(first);
  const id = `${store.name} ${informer}`;
  const [starts, setStarts] = useState(lastShown.id === id && lastShown.contains === first ? lastShown.starts : [FIRST]);
  const start = starts.at(-1) ?? FIRST;
  const [keys, problem] = useKeys(store, informer, contains, start);
  // A link to this view may have another filter. The filter that this view has set is no change.
  useEffect(() => {
    if (first !== contains) setText(first);
  }, [first]);
  useEffect(() => {
    const next = text.trim();
    // Without a change of the filter, the window stays.
    if (next === contains) return;
    const timer = setTimeout(() => {
      setContains(next);
      setStarts([FIRST]);
      setParameter("contains", next);
    }, PAUSE);
    return () => clearTimeout(timer);
  }, [text, contains]);
  useEffect(() => {
    lastShown = { id, contains, starts };
  }, [id, contains, starts]);
  // Until the chosen window is read, the one before stays, and another cannot be chosen.
  const isRead = keys !== null && keys.contains === contains && keys.start.after === start.after;
  const previous = () => setStarts(starts.slice(0, -1));
  const next = () => {
    if (keys?.last.next) setStarts([...starts, { after: keys.last.next, before: keys.start.before + keys.rows.length }]);
  };
  return (
    <>
      <div class="object-bar">
        <label>
          <span class="visually-hidden">Filter objects by key</span>
          <input type="search" placeholder="Filter by key" value={text} data-filter spellcheck={false}
            onInput={(event) => setText(event.currentTarget.value)} />
        </label>
        {keys && <span class="muted" role="status">{countText(keys)}</span>}
      </div>
      {problem !== "" && <p class="error-text" role="alert">The objects cannot be read: {problem}</p>}
      {keys && (
        <>
          {/* Another window begins at its first row. */}
          <Table key={keys.start.after} name="objects" rows={keys.rows} filtered sortable={isWhole(keys)} id={(one) => one.key} columns={[
            { title: "Key", value: (one) => one.key, show: (one) => <a href={objectLink({ store, informer, key: one.key })}>{visible(one.key)}</a>, width: "minmax(0, 3fr)" },
            { title: "Resource version", value: (one) => Number(one.resourceVersion) || one.resourceVersion, show: (one) => one.resourceVersion, width: "11rem" },
          ]} empty={emptyText(keys)} />
          {!isWhole(keys) && (
            <div class="object-bar">
              <Turn enabled={isRead && starts.length > 1} act={previous}>Previous</Turn>
              <Turn enabled={isRead && keys.last.next !== null} act={next}>Next</Turn>
              <span class="muted">Keys can be sorted only if all of them are shown. The filter reduces their number.</span>
            </div>
          )}
        </>
      )}
      {!keys && problem === "" && <p class="muted">Reading the keys…</p>}
    </>
  );
}

function emptyText({ start, contains }: Keys): string {
  if (start.after !== "") return "The objects of this part were deleted.";
  return contains === "" ? "The cache has no object of this informer." : "No key contains the filter.";
}

/** A button that shows another window. It keeps the focus while it has no effect. */
function Turn({ enabled, act, children }: { enabled: boolean; act: () => void; children: string }) {
  return (
    <button type="button" aria-disabled={!enabled} onClick={() => enabled && act()}>
      {children}<span class="visually-hidden"> objects</span>
    </button>
  );
}
