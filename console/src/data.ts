// The types of the data API, version 1.
import type { Store } from "./store";

/** A part of a program; the page adds the store of the program. */
export interface Part {
  store: Store;
}

export interface Handler {
  name: string;
  synced: boolean;
  depth: number;
  depthMax: number;
  calls: number;
  panics: number;
  blocked: number;
  secondsTotal: number;
  latency: LatencyBucket[];
}

/** The calls of a handler that took at most `upToSeconds` and are in no shorter bucket. */
export interface LatencyBucket {
  upToSeconds: number | null;
  calls: number;
}

export interface Informer extends Part {
  name: string;
  what: string;
  running: boolean;
  synced: boolean;
  phase: string;
  version: string;
  versionAgeSeconds: number | null;
  lastError: string | null;
  failures: number;
  notServed: boolean;
  nextAttemptSeconds: number | null;
  lists: number;
  relists: Record<string, number>;
  events: number;
  watches: number;
  objects: number;
  bytes: number;
  changes: number;
  queued: number;
  undecodable: number;
  undecodableTotal: number;
  panics: number;
  crash: string | null;
  crashes: number;
  handlers: Handler[];
}

export interface Queue extends Part {
  name: string;
  ready: number;
  waiting: number;
  processing: number;
  longestSeconds: number;
  oldestSeconds: number;
  depths: { priority: number | null; group: string | null; ready: number }[];
  otherDepths: number;
  orderFailed: boolean;
  added: number;
  retries: number;
  started: number;
  queuedSecondsTotal: number;
  done: number;
  workedSecondsTotal: number;
}

export interface Reconcile extends Part {
  id: string;
  controller: string;
  request: string;
  causes: string[];
  omitted: number;
  waitedSeconds: number | null;
  beganSecondsAgo: number;
  seconds: number | null;
  result: string | null;
  error: string | null;
  /** The time of the begin in milliseconds by the clock of the browser; the page adds it. */
  began: number;
}

export interface Controller extends Part {
  name: string;
  kind: string;
  phase: string;
  workers: number;
  active: number;
  results: { success: number; error: number; requeue: number; requeue_after: number };
  /** The number of keys whose last reconcile failed, and the time for which the first of them has been failing. */
  failing?: number | null;
  failingSeconds?: number | null;
  terminalErrors: number;
  panics: number;
  timeouts: number;
  triggerPanics: number;
  sources: string[];
  /** Older programs send neither `watches` nor `writes`. */
  watches?: Watch[];
  writes?: Write[];
  running: { id?: string; request: string; beganSecondsAgo: number; causes?: string[] }[];
  shard: { active: boolean; members: number; refused: number; remembered: number } | null;
}

/** A source of a controller. */
export interface Watch {
  /** `for`, `owns` or `watches`, or `source` for a source that is no kind. */
  role: string;
  source: string;
  /** Such as `deployments.apps/v1`; empty for a source that is no kind. */
  resource: string;
  informers: string[];
}

/** The requests of a controller that write a resource with one verb. */
export interface Write {
  verb: string;
  /** Empty for the writes that are counted together. */
  resource: string;
  subresource: string;
  count: number;
  failed: number;
}

export interface Lease extends Part {
  kind: string;
  namespace: string;
  name: string;
  identity: string;
  active: boolean;
  holder: string | null;
  failures: number;
  failingSeconds: number | null;
  lastError: string | null;
}

/** The requests of a client with one verb and status; a `code` of 0 means no response. */
export interface RequestTotal extends Part {
  verb: string;
  code: number;
  count: number;
  seconds: number;
}

export interface Snapshot {
  version: number;
  manager: string;
  process: {
    library: string;
    /** The names of the program and of its host. Older programs do not send them. */
    program?: string;
    host?: string | null;
    pid: number;
    uptimeSeconds: number;
    tasks: number;
    threads: number;
    residentBytes: number | null;
  };
  informers: Informer[];
  queues: Queue[];
  controllers: Controller[];
  leases: Lease[];
  client: { server: string; requests: RequestTotal[] };
  omitted: { informers: number; queues: number; controllers: number; leases: number };
  /** The token that actions need; `null` if the program does not allow actions. */
  actions: { token: string } | null;
  /** True if the program shows its cached objects. */
  showsObjects: boolean;
  /** Only in events. */
  reconciles?: Reconcile[];
  /** The reconciles that ended since the last event and are missing in `reconciles`; only in events. */
  dropped?: number;
}

export interface KeyHistory {
  key: string;
  controllers: {
    controller: string;
    queued: { ageSeconds: number; causes: string[]; omitted: number } | null;
    running: Reconcile[];
    reconciles: Reconcile[];
  }[];
}

export interface ObjectEntry {
  key: string;
  resourceVersion: string;
}

/** A page of the keys of an informer. */
export interface ObjectList {
  informer: string;
  total: number;
  matching: number;
  /** The number of matching keys on earlier pages. Older programs do not send it. */
  before?: number;
  objects: ObjectEntry[];
  /** The key after which the next page begins. */
  next: string | null;
}

export interface ObjectContent {
  informer: string;
  key: string;
  resourceVersion: string;
  metadataOnly: boolean;
  /** True for a Secret, whose values are replaced by their sizes. */
  redacted: boolean;
  object: object;
}

/** The type of an object. */
export interface TypeMeta {
  apiVersion: string;
  kind: string;
}

/** Returns the type of the objects of an informer; `null` if no controller watches it. */
export function typeOf(snapshot: Snapshot | null, informer: string): TypeMeta | null {
  for (const { source, informers } of (snapshot?.controllers ?? []).flatMap(({ watches }) => watches ?? [])) {
    // Such as `kind Pod.v1` or `kind Deployment.v1.apps in another cache`.
    const [, kind, version, group] = /^kind ([^. ]+)\.([^. ]+)(?:\.(\S+))?/.exec(source) ?? [];
    if (kind && version && informers.includes(informer)) return { apiVersion: group ? `${group}/${version}` : version, kind };
  }
  return null;
}

export const sum = <T>(all: T[], of: (one: T) => number): number =>
  all.reduce((total, one) => total + of(one), 0);

/** True for an ended reconcile that has failed, also by a panic or a timeout. */
export const isFailed = ({ result }: { result: string | null }): boolean => result === "error";

const OF_OBJECT = /^(?:listed|added|updated|deleted|resync of|event of) /;

/** The kind of the object of a cause. */
const KIND = /^(?:listed|added|updated|deleted|resync of|event of) (\S+)/;

/** Returns a cause, such as `updated Pod default/web (spec)`, without the key of its object if that is `key`. */
export function causeWithoutKey(cause: string, key: string): string {
  if (!OF_OBJECT.test(cause)) return cause;
  const part = ` ${key}`;
  for (let at = cause.indexOf(part); at >= 0; at = cause.indexOf(part, at + 1)) {
    const rest = cause.slice(at + part.length);
    if (rest === "" || rest.startsWith(" (")) return cause.slice(0, at) + rest;
  }
  return cause;
}

/** Returns the kind in a cause without its API group, such as `updated Website (spec)`. */
const withoutGroup = (cause: string): string => (OF_OBJECT.test(cause) ? cause.replace(/^(\w+(?: of)? [^\s.]+)\.\S+/, "$1") : cause);

/**
 * Returns the causes of a reconcile for a table in which the key has its own column. The API group of a kind is left
 * out, unless a cause of the same reconcile has an object of another kind with the same name.
 */
export function shortCauses(causes: string[], key: string): string[] {
  const kinds = new Set(causes.map((cause) => KIND.exec(cause)?.[1]).filter((kind) => kind !== undefined));
  const names = new Set([...kinds].map((kind) => kind.split(".")[0]));
  const shortened = names.size === kinds.size ? withoutGroup : (cause: string) => cause;
  return causes.map((cause) => shortened(causeWithoutKey(cause, key)));
}

export const finished = (one: Controller): number =>
  one.results.success + one.results.error + one.results.requeue + one.results.requeue_after;

/** The bound of the bucket with a quantile: infinite for the last bucket, and `null` without calls. */
export function quantile(latency: LatencyBucket[], of: number): number | null {
  const rank = Math.max(1, Math.ceil(sum(latency, (one) => one.calls) * of));
  let counted = 0;
  for (const { upToSeconds, calls } of latency) {
    counted += calls;
    if (counted >= rank) return upToSeconds ?? Infinity;
  }
  return null;
}

/** The parts of an informer's name, such as `pods.v1 namespace=a form=Metadata`. */
export function informerName(name: string): { resource: string; scope: string; form: string } {
  const form = / form=(\S+)/.exec(name)?.[1] ?? "";
  const [resource = name, ...rest] = name.replace(/ form=\S+/, "").split(" ");
  return { resource, scope: rest.join(" ") || "all", form: form || "default" };
}
