// The view of the cached objects: the keys of an informer, and an object.
import { useEffect, useState } from "preact/hooks";
import type { ViewProps } from "./columns";
import type { ObjectEntry, ObjectList, Part } from "./data";
import { count } from "./format";
import { ObjectView, objectLink } from "./object";
import type { Store } from "./store";
import { messageOf } from "./stream";
import { Table } from "./table";

/** The time between two reads of the keys in milliseconds. */
const PERIOD = 5_000;
/** The time after the last input until the filter is applied, in milliseconds. */
const PAUSE = 250;
/** The number of pages of keys that are read; more are found by a filter. */
const MAX_PAGES = 10;

type Row = ObjectEntry & Part;

interface Keys {
  rows: Row[];
  last: ObjectList;
  /** The filter with which they were read. */
  contains: string;
}

/** How many keys there are, match the filter, and are loaded. */
function countText({ rows, last: { total, matching, next }, contains }: Keys): string {
  const all = contains === "" ? `${count(total)} ${total === 1 ? "key" : "keys"}` : `${count(matching)} of ${count(total)} keys match`;
  return next === null ? all : `${all}; the first ${count(rows.length)} are loaded`;
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

/** Reads pages of keys again and again while the page is visible. */
function useKeys(store: Store, informer: string, contains: string, pages: number): [Keys | null, string] {
  const [keys, setKeys] = useState<Keys | null>(null);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    let active = true;
    let timer = 0;
    const read = async (): Promise<Keys> => {
      let last = await store.objects(informer, contains, "");
      const entries = [...last.objects];
      for (let page = 1; page < pages && last.next !== null; page++) {
        last = await store.objects(informer, contains, last.next);
        entries.push(...last.objects);
      }
      return { last, contains, rows: entries.map((one) => ({ ...one, store })) };
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
  }, [store, informer, contains, pages]);
  return [keys, problem];
}

function ObjectKeys({ store, informer, contains: first }: { store: Store; informer: string; contains: string }) {
  const [text, setText] = useState(first);
  const [contains, setContains] = useState(first);
  const [pages, setPages] = useState(1);
  const [keys, problem] = useKeys(store, informer, contains, pages);
  useEffect(() => {
    const next = text.trim();
    // Without a change of the filter, the loaded pages stay.
    if (next === contains) return;
    const timer = setTimeout(() => {
      setContains(next);
      setPages(1);
    }, PAUSE);
    return () => clearTimeout(timer);
  }, [text, contains]);
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
          <Table name="objects" rows={keys.rows} filtered sortable={keys.last.next === null} id={(one) => one.key} columns={[
            { title: "Key", value: (one) => one.key, show: (one) => <a href={objectLink({ store, informer, key: one.key })}>{one.key}</a>, width: "minmax(0, 3fr)" },
            { title: "Resource version", value: (one) => Number(one.resourceVersion) || one.resourceVersion, show: (one) => one.resourceVersion, width: "11rem" },
          ]} empty={contains === "" ? "The cache has no object of this informer." : "No key contains the filter."} />
          {keys.last.next !== null && (
            <p>
              {pages < MAX_PAGES
                ? <button type="button" onClick={() => setPages(pages + 1)}>More objects</button>
                : <span class="muted">There are more objects; use the filter to find them.</span>}{" "}
              <span class="muted">The keys can be sorted when all of them are loaded.</span>
            </p>
          )}
        </>
      )}
      {!keys && problem === "" && <p class="muted">Reading the keys…</p>}
    </>
  );
}
