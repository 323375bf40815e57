// What the views of the console share: their properties, the column of the replica, and the actions.
import { type Part, shortCauses } from "./data";
import { NONE, visible } from "./format";
import { Badge } from "./parts";
import { isCurrent, type Replicas } from "./replicas";
import type { Store } from "./store";
import { type Column, Table, type TableProps } from "./table";

export interface ViewProps {
  replicas: Replicas;
  theme: string;
  parameter: (name: string) => string;
}

export const keyLink = (key: string) => `#/key?key=${encodeURIComponent(key)}`;

/** The outcome of a reconcile in one word. */
export const outcome = (value: string | null): string =>
  value === null ? "running" : value === "error" ? "failed" : value === "success" ? "succeeded" : value.startsWith("requeue") ? "requeued" : value;

export const result = (value: string | null) =>
  <Badge level={value === "error" ? "bad" : value === "success" ? "ok" : "none"}>{outcome(value)}</Badge>;

/** A link to the view of a key. */
export const KeyLink = ({ name }: { name: string }) => <a href={keyLink(name)}>{visible(name)}</a>;

interface Caused {
  request: string;
  causes?: string[];
  error?: string | null;
}

/** The causes of a reconcile for a table in which the key has its own column. */
export const causeText = ({ request, causes = [] }: Caused): string => shortCauses(causes, request).join("; ") || NONE;

/** The error of a failed reconcile, and the causes of others. */
export const causeOrError = (one: Caused): string => one.error || causeText(one);

/** The name of a replica: the whole name, or the part that differs from the others. */
export function ReplicaName({ store, text }: { store: Store; text: string }) {
  if (isCurrent(store)) return <>{text}</>;
  return <span class="old">{text}<span class="visually-hidden"> (old data)</span></span>;
}

/** A table of parts of programs. It has a column for the replica if the rows of several replicas are mixed. */
export function PartTable<T extends Part>({ replicas, columns, id, ...props }: TableProps<T> & { replicas: Replicas }) {
  const replica: Column<T> = {
    title: "Replica",
    value: (one) => one.store.name,
    show: (one) => <ReplicaName store={one.store} text={replicas.short(one.store)} />,
    width: "minmax(5rem, 1fr)",
    secondary: true,
  };
  // On a narrow page, the column takes the place of the others after the third one.
  const kept = columns.filter((column) => column.narrow !== false).slice(0, 3);
  const others = columns.slice(1).map((column) => (kept.includes(column) || column.long ? column : { ...column, narrow: false }));
  const all = replicas.mixed ? [...columns.slice(0, 1), replica, ...others] : columns;
  return <Table {...props} columns={all} id={(one) => `${one.store.name} ${id(one)}`} />;
}

/** The name of a replica for the question before an action; empty if the page shows one program. */
const on = (store: Store) => (store.name === "" ? "" : ` on ${store.name}`);

interface ActionProps {
  store: Store;
  action: "requeue" | "relist" | "drop";
  body: Record<string, string>;
  /** The action as a command, such as `Relist pods.v1`, and its effect. The user confirms them. */
  command: string;
  effect: string;
  children: string;
}

export function Action({ store, action, body, command, effect, children }: ActionProps) {
  return (
    <button type="button" class="action" onClick={() => {
      if (confirm(`${command}${on(store)}? ${effect}`)) void store.act(action, body);
    }}>{children}</button>
  );
}

/** The actions on an informer. */
export function InformerActions({ store, name }: { store: Store; name: string }) {
  return (
    <>
      <Action store={store} action="relist" body={{ informer: name }}
        command={`Relist ${name}`} effect="The informer reads all objects from the API server again.">Relist</Action>{" "}
      <Action store={store} action="drop" body={{ informer: name }}
        command={`Drop ${name}`} effect="Its objects are removed from the cache, and the next read lists them again. An informer that is in use stays.">Drop</Action>
    </>
  );
}
