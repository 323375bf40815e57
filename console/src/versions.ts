// The versions of objects that the page has seen while it showed them.
import { useEffect, useReducer } from "preact/hooks";
import { type ObjectContent, type TypeMeta, typeOf } from "./data";
import { ReadError, type Store } from "./store";
import { messageOf } from "./stream";
import { changedFields, diffObjects } from "./yaml";

/** The time between two reads of an object in milliseconds. */
const PERIOD = 1_000;
/** The explanation of the versions. */
export const SEEN = "The page sees an object once a second while this view is open, so versions in between may be missing.";
/** The number of versions of an object that the page keeps. */
const MAX_VERSIONS = 50;
/** The size of the versions of an object that the page keeps, in characters of JSON. */
const MAX_SIZE = 16 << 20;
/** The number of objects whose versions the page keeps. */
const MAX_OBJECTS = 10;

export interface Version {
  /** A number that identifies the version on this page. */
  id: number;
  /** The time at which the page saw the version first. */
  at: number;
  content: ObjectContent;
  size: number;
  /** True if the object was deleted after this version, which is the last one. */
  deleted: boolean;
  /** The changes since the version before; `null` for the first one, and if they are too many. */
  change: { added: number; removed: number; fields: string[] } | null;
}

export interface ObjectName {
  store: Store;
  informer: string;
  key: string;
}

const uid = ({ object }: ObjectContent) => (object as { metadata?: { uid?: string } }).metadata?.uid ?? "";

function withType(content: ObjectContent, type: TypeMeta): ObjectContent {
  const { apiVersion, kind } = content.object as Partial<TypeMeta>;
  return { ...content, object: { ...content.object, apiVersion: apiVersion || type.apiVersion, kind: kind || type.kind } };
}

export class Followed implements ObjectName {
  readonly store: Store;
  readonly informer: string;
  readonly key: string;
  /** Oldest first. */
  versions: Version[] = [];
  /** The number of older versions that the page has dropped. */
  dropped = 0;
  /** True once the program has responded that it has no such object, until it has one. */
  missing = false;
  /** The reason why the last read failed; empty if it succeeded. */
  problem = "";
  #type: TypeMeta | null = null;
  #next = 1;
  #busy = false;

  constructor({ store, informer, key }: ObjectName) {
    [this.store, this.informer, this.key] = [store, informer, key];
  }

  /** Reads the object unless a read is under way. Returns true if something has changed. */
  async read(): Promise<boolean> {
    if (this.#busy) return false;
    this.#busy = true;
    const before = this.problem;
    try {
      const { content, size } = await this.store.object(this.informer, this.key);
      this.problem = "";
      return this.#see(content, size) || before !== "";
    } catch (error) {
      if (error instanceof ReadError && error.status === 404 && this.#isSynced) return this.#miss() || before !== "";
      this.problem = messageOf(error);
      return this.problem !== before;
    } finally {
      this.#busy = false;
    }
  }

  /** A cache without its first list does not show that an object is deleted. */
  get #isSynced(): boolean {
    return this.store.snapshot?.informers.find(({ name }) => name === this.informer)?.synced ?? false;
  }

  /**
   * Adds the type of an object if it lacks one: that of the informer or of another version. Items of a list of a
   * built-in kind have no type, and objects of watch events have one, which is no change.
   */
  #complete(content: ObjectContent): ObjectContent {
    const { apiVersion, kind } = content.object as Partial<TypeMeta>;
    const known = this.#type;
    this.#type ??= apiVersion && kind ? { apiVersion, kind } : typeOf(this.store.snapshot, this.informer);
    const type = this.#type;
    if (!type) return content;
    if (!known) this.versions = this.versions.map((one) => ({ ...one, content: withType(one.content, type) }));
    return withType(content, type);
  }

  #see(received: ObjectContent, size: number): boolean {
    const content = this.#complete(received);
    const wasMissing = this.missing;
    this.missing = false;
    let last = this.versions.at(-1);
    const isSame = last && uid(last.content) === uid(content) && last.content.resourceVersion === content.resourceVersion
      && (content.resourceVersion !== "" || JSON.stringify(last.content.object) === JSON.stringify(content.object));
    if (last && isSame) {
      // A program that restarts may miss the object for a moment.
      if (last.deleted) this.versions = this.versions.slice(0, -1);
      return wasMissing;
    }
    this.#add({ at: Date.now(), content, size, deleted: false, change: change(last, content) });
    return true;
  }

  #miss(): boolean {
    const wasMissing = this.missing;
    [this.missing, this.problem] = [true, ""];
    const last = this.versions.at(-1);
    if (last && !last.deleted) this.#add({ ...last, at: Date.now(), size: 0, deleted: true, change: null });
    return !wasMissing;
  }

  #add(version: Omit<Version, "id">): void {
    const versions = this.versions.concat({ ...version, id: this.#next++ });
    let size = versions.reduce((total, one) => total + one.size, 0);
    while (versions.length > MAX_VERSIONS || (size > MAX_SIZE && versions.length > 2)) {
      size -= versions.shift()?.size ?? 0;
      this.dropped += 1;
    }
    this.versions = versions;
  }
}

function change(last: Version | undefined, content: ObjectContent): Version["change"] {
  const lines = last && diffObjects(last.content.object, content.object, false);
  if (!lines) return null;
  const count = (of: string) => lines.filter(({ sign }) => sign === of).length;
  return { added: count("+"), removed: count("-"), fields: changedFields(last.content.object, content.object) };
}

/** The objects that were shown last, the newest one at the end. */
const kept = new Map<string, Followed>();

const idOf = ({ store, informer, key }: ObjectName) => [store.name, informer, key].join("\n");

function follow(name: ObjectName): Followed {
  const id = idOf(name);
  const known = kept.get(id);
  const followed = known?.store === name.store ? known : new Followed(name);
  kept.delete(id);
  kept.set(id, followed);
  for (const old of [...kept.keys()].slice(0, Math.max(0, kept.size - MAX_OBJECTS))) kept.delete(old);
  return followed;
}

/** Reads objects each second while the page is visible. Returns what the page has seen of them. */
export function useFollowed(names: ObjectName[]): Followed[] {
  const [, update] = useReducer((version: number) => version + 1, 0);
  const ids = names.map(idOf).join("\n\n");
  useEffect(() => {
    const followed = names.map(follow);
    let active = true;
    const read = async (one: Followed) => {
      if (document.visibilityState !== "visible" || one.store.connection !== "live") return;
      if ((await one.read()) && active) update(undefined as never);
    };
    const readAll = () => followed.forEach((one) => void read(one));
    readAll();
    const timer = setInterval(readAll, PERIOD);
    return () => {
      active = false;
      clearInterval(timer);
    };
  }, [ids]);
  return names.map((name) => kept.get(idOf(name)) ?? new Followed(name));
}
