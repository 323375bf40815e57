// The data of the server's web UI. The types are those of `http/web_ui/state.rs` in informer-apiserver.

export interface Kind {
  apiVersion: string;
  kind: string;
  resource: string;
  objects: number;
  events: number;
  historyBytes: number;
  custom: boolean;
}

export interface Request {
  number: number;
  atMillis: number;
  verb: string;
  resource: string | null;
  path: string;
  query: string;
  userAgent: string;
  user: string;
  status: number | null;
}

export interface Fault {
  number: number;
  /** Null if the rule is too large. */
  rule: { name?: string; match: Record<string, unknown>; when: Record<string, unknown>; action: unknown } | null;
  matched: number;
  fired: number;
}

export interface State {
  elapsedMillis: number;
  resourceVersion: number;
  oldestVersion: number;
  kinds: Kind[];
  openWatches: number;
  watches: Request[];
  faults: Fault[];
  loggedRequests: number;
  requests: Request[];
}

const PERIOD = 1000;
const TIMEOUT = 10_000;
/** The number of requests that the page keeps. */
const MAX_REQUESTS = 20_000;

/** Polls the state, and keeps the requests of earlier responses. */
export class Server {
  state: State | null = null;
  requests: Request[] = [];
  /** Requests a second since the state before. */
  rate: number | null = null;
  /** The problem of the last poll; empty if it succeeded. */
  problem = "";
  private readonly listeners = new Set<() => void>();

  subscribe(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Executes an action. Returns the sentence of the server about its result, or throws it. */
  async act(action: object): Promise<string> {
    const response = await this.fetch("v1/actions", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(action),
    });
    await this.poll();
    return (response as { message: string }).message;
  }

  async run(): Promise<never> {
    for (;;) {
      await this.poll();
      await new Promise((resolve) => setTimeout(resolve, PERIOD));
    }
  }

  private async poll(): Promise<void> {
    // Requests without a status are asked for again, because they may have got one since.
    const open = this.requests.find((request) => request.status === null);
    const last = this.requests.at(-1);
    const after = Math.max(open ? open.number - 1 : last?.number ?? 0, (last?.number ?? 0) - MAX_PENDING_LOOKBACK);
    try {
      this.take((await this.fetch(`v1/state?after=${after}`)) as State);
      this.problem = "";
    } catch (error) {
      this.problem = error instanceof Error ? error.message : String(error);
    }
    this.listeners.forEach((listener) => listener());
  }

  private take(state: State): void {
    const before = this.state;
    const restarted = before !== null && (state.elapsedMillis < before.elapsedMillis || state.loggedRequests < before.loggedRequests);
    if (restarted) this.requests = [];
    const first = state.requests[0]?.number ?? Infinity;
    this.requests = [...this.requests.filter((request) => request.number < first), ...state.requests].slice(-MAX_REQUESTS);
    const seconds = before && !restarted ? (state.elapsedMillis - before.elapsedMillis) / 1000 : 0;
    this.rate = before && seconds > 0.1 ? (state.loggedRequests - before.loggedRequests) / seconds : this.rate;
    this.state = state;
  }

  private async fetch(path: string, init: RequestInit = {}): Promise<unknown> {
    const response = await fetch(path, { ...init, cache: "no-store", signal: AbortSignal.timeout(TIMEOUT) });
    const text = await response.text();
    if (response.ok) return JSON.parse(text) as unknown;
    throw new Error(message(text) ?? `the server responded with ${response.status}`);
  }
}

/** The number of requests before the last one whose missing status is asked for again. */
const MAX_PENDING_LOOKBACK = 500;

function message(text: string): string | null {
  try {
    const status = JSON.parse(text) as { message?: unknown };
    return typeof status.message === "string" ? status.message : null;
  } catch {
    return null;
  }
}
