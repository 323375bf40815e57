import { useState } from "preact/hooks";
import { bytes, count, NONE, rate, seconds } from "../format";
import { Badge, Tile } from "../parts";
import { type Column, Table } from "../table";
import type { Fault, Kind, Request, Server, State } from "./data";

export interface ViewProps {
  server: Server;
  state: State;
  /** Executes an action and shows its result. Returns false if it failed. */
  act: (action: object) => Promise<boolean>;
  filter: string;
}

const total = <T,>(rows: T[], value: (row: T) => number) => rows.reduce((sum, row) => sum + value(row), 0);

const time = (request: Request) => request.atMillis / 1000;

const status = (request: Request) => {
  if (request.status === null) return <Badge level="none">running</Badge>;
  return <Badge level={request.status < 400 ? "ok" : request.status < 500 ? "warn" : "bad"}>{request.status}</Badge>;
};

const REQUEST: Column<Request>[] = [
  { title: "Time", value: time, show: (request) => `${time(request).toFixed(3)} s`, width: "96px", numeric: true },
  { title: "Verb", value: (request) => request.verb, width: "110px" },
  { title: "Resource", value: (request) => request.resource ?? NONE, width: "minmax(110px, 1fr)" },
  { title: "Path", value: (request) => request.path + (request.query && `?${request.query}`), width: "minmax(120px, 3fr)", narrow: false },
  { title: "Client", value: (request) => request.userAgent || NONE, width: "minmax(100px, 1.2fr)", narrow: false },
  { title: "User", value: (request) => request.user || NONE, width: "minmax(80px, 0.8fr)", narrow: false },
];

export function Requests({ server, state, filter }: ViewProps) {
  const { requests } = server;
  const failed = total(requests, (request) => ((request.status ?? 0) >= 400 ? 1 : 0));
  const removed = state.loggedRequests - requests.length;
  return (
    <>
      <div class="tiles">
        <Tile title="Requests" value={rate(server.rate)} detail={`${count(state.loggedRequests)} in total`} link="#/requests" />
        <Tile title="Failed" value={count(failed)} detail="of the requests below" link="#/requests" />
        <Tile title="Open watches" value={count(state.openWatches)} detail="streams of events" link="#/watches" />
        <Tile title="Faults" value={count(total(state.faults, (fault) => fault.fired))} link="#/faults"
          detail={`injected by ${count(state.faults.length)} ${state.faults.length === 1 ? "rule" : "rules"}`} />
        <Tile title="Objects" value={count(total(state.kinds, (kind) => kind.objects))} link="#/objects"
          detail={`of ${count(state.kinds.length)} kinds`} />
        <Tile title="Version" value={String(state.resourceVersion)} detail={`oldest restorable: ${state.oldestVersion}`} link="#/versions" />
      </div>
      {removed > 0 && <p class="muted">Older requests are not shown: {count(removed)}.</p>}
      <Table name="requests" rows={requests} newestFirst id={(request) => String(request.number)} filter={filter}
        empty="No program has sent a request yet."
        columns={[...REQUEST.slice(0, 2), { title: "Status", value: (request) => request.status ?? 0, show: status, width: "80px" }, ...REQUEST.slice(2)]} />
    </>
  );
}

/** Faults that a click injects into an open watch. */
const WATCH_FAULTS: [string, string, unknown][] = [
  ["410", "Expire the watch with 410 Gone", { expire: {} }],
  ["End", "End the response of the watch", { cut: {} }],
  ["Stall", "Send no further events, and keep the connection open", { stall: {} }],
];

export function Watches({ state, act }: ViewProps) {
  const age = (request: Request) => (state.elapsedMillis - request.atMillis) / 1000;
  const columns: Column<Request>[] = [
    { title: "Open for", value: age, show: (request) => seconds(age(request)), width: "84px", numeric: true },
    ...REQUEST.slice(2),
    {
      title: "Inject",
      value: () => "",
      width: "164px",
      show: (request) => (
        <span class="actions">
          {WATCH_FAULTS.map(([label, title, fault]) => (
            <button type="button" title={title} key={label} aria-label={`${title}: ${request.path}`}
              onClick={() => void act({ action: "inject", watch: request.number, fault })}>{label}</button>
          ))}
        </span>
      ),
    },
  ];
  return (
    <>
      <p class="muted lead">
        The open watches of all clients. A fault that is injected here affects this watch only; the client then
        watches or lists again.
      </p>
      {state.openWatches > 0 && (
        <p><button type="button" class="danger" onClick={() => void act({ action: "endWatches" })}>End all watches</button></p>
      )}
      {state.openWatches > state.watches.length && <p class="muted">The newest {count(state.watches.length)} of {count(state.openWatches)} watches:</p>}
      <Table name="watches" rows={state.watches} newestFirst id={(request) => String(request.number)} columns={columns}
        empty="No client watches now." />
    </>
  );
}

const RULE_COLUMNS: Column<Fault>[] = [
  { title: "Rule", value: (fault) => fault.number, width: "60px", numeric: true },
  { title: "Match", value: (fault) => fault.rule ? describe(fault.rule.match) || "all requests" : "too large to show", width: "minmax(120px, 1.5fr)" },
  { title: "When", value: (fault) => fault.rule ? describe(fault.rule.when) || "always" : NONE, width: "minmax(80px, 1fr)", narrow: false },
  { title: "Action", value: (fault) => fault.rule ? fault.rule.name ?? describe(fault.rule.action) : NONE, width: "minmax(120px, 1.5fr)" },
  { title: "Matched", value: (fault) => fault.matched, width: "80px", numeric: true },
  { title: "Injected", value: (fault) => fault.fired, width: "80px", numeric: true },
];

/** Returns the fields of a rule that are set, for example `verb watch, resource pods`. */
function describe(value: unknown): string {
  if (typeof value !== "object" || value === null) return String(value);
  const set = Object.entries(value).filter(([name, one]) => one !== null && !(name === "seed" && one === 0));
  const text = (one: unknown) => {
    const inner = describe(one);
    return typeof one === "object" ? (inner ? `(${inner})` : "") : inner;
  };
  return set.map(([name, one]) => `${name} ${text(one)}`.trim()).join(", ");
}

const VERBS = ["any", "get", "list", "watch", "create", "update", "patch", "delete"];
const ACTIONS: [string, object | string][] = [
  ["410 Expired", { expire: {} }],
  ["409 Conflict", { status: { code: 409 } }],
  ["429 Too Many Requests", { status: { code: 429, retryAfter: 1 } }],
  ["500 Internal Server Error", { status: { code: 500 } }],
  ["503 Service Unavailable", { status: { code: 503 } }],
  ["Delay of 2 s", { delay: { millis: 2000 } }],
  ["No response", "neverAnswer"],
  ["Executed, but the connection is reset", "lostAnswer"],
  ["Watch ends after 3 events", { cut: { afterEvents: 3 } }],
  ["Watch stalls after 3 events", { stall: { afterEvents: 3 } }],
];

export function Faults({ state, act }: ViewProps) {
  const [verb, setVerb] = useState("any");
  const [resource, setResource] = useState("");
  const [action, setAction] = useState(0);
  const [times, setTimes] = useState("1");
  const [edited, setEdited] = useState<string | null>(null);
  const rule = {
    match: { ...(verb === "any" ? {} : { verb }), ...(resource === "" ? {} : { resource }) },
    when: times === "" ? {} : { times: Number(times) },
    action: ACTIONS[action]?.[1],
  };
  const text = edited ?? JSON.stringify([rule], null, 2);
  const choose = (change: () => void) => {
    setEdited(null);
    change();
  };
  const columns: Column<Fault>[] = [
    ...RULE_COLUMNS,
    {
      title: "Remove",
      value: () => "",
      width: "90px",
      show: (fault) => (
        <span class="actions">
          <button type="button" aria-label={`Remove rule ${fault.number}`}
            onClick={() => void act({ action: "removeFault", number: fault.number })}>Remove</button>
        </span>
      ),
    },
  ];
  return (
    <>
      <Table name="fault rules" rows={state.faults} id={(fault) => String(fault.number)} columns={columns}
        empty="No fault rule is active." />
      {state.faults.length > 0 && (
        <p><button type="button" class="danger" onClick={() => void act({ action: "removeAllFaults" })}>Remove all rules</button></p>
      )}
      <form class="card form" onSubmit={(event) => {
        event.preventDefault();
        void act({ action: "addFaults", rules: text });
      }}>
        <h2>Add a fault rule</h2>
        <div class="fields">
          <label>
            Verb
            <select value={verb} onChange={(event) => { const { value } = event.currentTarget; choose(() => setVerb(value)); }}>
              {VERBS.map((one) => <option key={one}>{one}</option>)}
            </select>
          </label>
          <label>
            Resource
            <input value={resource} placeholder="any, or pods" list="resources"
              onInput={(event) => { const { value } = event.currentTarget; choose(() => setResource(value.trim())); }} />
          </label>
          <datalist id="resources">
            {[...new Set(state.kinds.map((kind) => kind.resource))].map((one) => <option value={one} key={one} />)}
          </datalist>
          <label>
            Fault
            <select value={action} onChange={(event) => { const { value } = event.currentTarget; choose(() => setAction(Number(value))); }}>
              {ACTIONS.map(([label], index) => <option value={index} key={label}>{label}</option>)}
            </select>
          </label>
          <label>
            Times
            <input type="number" min="1" value={times} placeholder="always"
              onInput={(event) => { const { value } = event.currentTarget; choose(() => setTimes(value)); }} />
          </label>
        </div>
        <label>
          <span class="muted">The rule as JSON or YAML, as in a file of <code>informer serve --faults</code></span>
          <textarea spellcheck={false} value={text} onInput={(event) => setEdited(event.currentTarget.value)} />
        </label>
        <p><button type="submit" class="primary">Add the rule</button></p>
      </form>
    </>
  );
}

const collection = (kind: Kind) =>
  `../../${kind.apiVersion.includes("/") ? "apis" : "api"}/${kind.apiVersion}/${kind.resource}?limit=500`;

const KIND: Column<Kind>[] = [
  { title: "Kind", value: (kind) => kind.kind, width: "minmax(110px, 1.5fr)" },
  { title: "API version", value: (kind) => kind.apiVersion, width: "minmax(90px, 1.5fr)", narrow: false },
  {
    title: "Resource",
    value: (kind) => kind.resource,
    width: "minmax(100px, 1.5fr)",
    show: (kind) => <a href={collection(kind)} target="_blank" rel="noreferrer">{kind.resource}</a>,
  },
  { title: "Objects", value: (kind) => kind.objects, show: (kind) => count(kind.objects), width: "90px", numeric: true },
  { title: "Events", value: (kind) => kind.events, show: (kind) => count(kind.events), width: "90px", numeric: true },
  { title: "History", value: (kind) => kind.historyBytes, show: (kind) => bytes(kind.historyBytes), width: "100px", numeric: true, narrow: false },
];

export function Kinds({ state, filter }: ViewProps) {
  return (
    <>
      <p class="muted lead">
        The kinds that have objects or events. The events are those in the history, from which watches resume. A link shows the objects as JSON.
      </p>
      <Table name="kinds" rows={state.kinds} id={(kind) => `${kind.apiVersion} ${kind.kind}`} columns={KIND} filter={filter}
        empty="The server has no objects." />
    </>
  );
}

export function Versions({ state, act }: ViewProps) {
  const [version, setVersion] = useState("");
  const [advance, setAdvance] = useState("3600");
  const wanted = version === "" ? Math.max(state.oldestVersion, state.resourceVersion - 1) : Number(version);
  return (
    <>
      <section class="card">
        <h2>resourceVersion {state.resourceVersion}</h2>
        <p class="muted">
          The history reaches back to {state.oldestVersion}. It contains {count(total(state.kinds, (kind) => kind.events))} events
          ({bytes(total(state.kinds, (kind) => kind.historyBytes))}).
        </p>
      </section>
      <form class="card form" onSubmit={(event) => {
        event.preventDefault();
        const lost = state.resourceVersion - wanted;
        if (confirm(`Restore the objects at resourceVersion ${wanted}? The last ${count(lost)} changes are lost.`)) {
          void act({ action: "rewind", version: wanted }).then(() => setVersion(""));
        }
      }}>
        <h2>Rewind</h2>
        <p class="muted">
          Restores the objects at an earlier resourceVersion, as a restore from a backup does. All watches end, and later
          versions are used a second time.
        </p>
        <div class="fields">
          <label>
            Version
            <input type="number" min={state.oldestVersion} max={state.resourceVersion} value={version} placeholder={String(wanted)}
              onInput={(event) => setVersion(event.currentTarget.value)} />
          </label>
          <button type="submit" class="danger">Rewind</button>
        </div>
      </form>
      <section class="card form">
        <h2>Compact</h2>
        <p class="muted">
          Discards the history, as a compaction of etcd does. Watches and exact lists from an earlier version get 410 Gone.
        </p>
        <p><button type="button" class="danger" onClick={() => void act({ action: "compact" })}>Compact</button></p>
      </section>
      <form class="card form" onSubmit={(event) => {
        event.preventDefault();
        void act({ action: "advance", seconds: Number(advance) });
      }}>
        <h2>Clock</h2>
        <p class="muted">
          Moves the clock of the server forward. Events and tokens expire, and watches reach their deadlines.
        </p>
        <div class="fields">
          <label>
            Seconds
            <input type="number" min="1" required value={advance} onInput={(event) => setAdvance(event.currentTarget.value)} />
          </label>
          <button type="submit">Move forward</button>
        </div>
      </form>
    </>
  );
}
