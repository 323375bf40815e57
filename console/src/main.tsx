import "./style.css";
import "uplot/dist/uPlot.min.css";
import { render } from "preact";
import { useState } from "preact/hooks";
import type { ViewProps } from "./columns";
import { seconds, visible } from "./format";
import type { Snapshot } from "./data";
import { Key } from "./key";
import { Objects } from "./objects";
import { Overview } from "./overview";
import { Page, useChanges, type View } from "./page";
import { Replicas } from "./replicas";
import type { Store } from "./store";
import { Controllers, Informers, Pipeline, Queues, Reconciles, Requests } from "./views";

const VIEWS: View<ViewProps>[] = [
  ["overview", "Overview", Overview],
  ["pipeline", "Pipeline", Pipeline],
  ["informers", "Informers", Informers],
  ["queues", "Work queues", Queues],
  ["controllers", "Controllers", Controllers],
  ["reconciles", "Reconciles", Reconciles],
  ["key", "Key", Key],
  ["objects", "Objects", Objects],
  ["requests", "Requests", Requests],
];

const CONNECTIONS = { live: "live", connecting: "connecting", lost: "reconnecting", unauthorized: "signed out", forbidden: "forbidden" };

const replicas = new Replicas();

function Login({ store }: { store: Store }) {
  const [token, setToken] = useState("");
  const forbidden = store.connection === "forbidden";
  return (
    <form class="card login" onSubmit={(event) => {
      event.preventDefault();
      replicas.setToken(token);
    }}>
      <h2>{forbidden ? "Permission denied" : "Sign in"}</h2>
      <p class="error-text" role="alert">{store.problem}</p>
      <label>
        Bearer token of the cluster
        <input type="password" autocomplete="off" value={token} onInput={(event) => setToken(event.currentTarget.value)} />
      </label>
      <p class="muted">
        Its user needs <code>get</code> on the paths <code>/debug/informer/v1/*</code>. The page keeps the token in
        memory only, for example from <code>kubectl create token</code>.
      </p>
      <button type="submit">Connect</button>
    </form>
  );
}

function Notices() {
  return (
    <div role="status" class="notices">
      {replicas.stores.map((store) => store.notice && (
        <p class={`card notice ${store.notice.level}`} key={store.name}>
          <span>{store.name !== "" && <b>{store.name}: </b>}{store.notice.text}</span> <button type="button" onClick={() => store.dismiss()}>Dismiss</button>
        </p>
      ))}
    </div>
  );
}

/** The choice of a replica, and the replicas without a connection. */
function ReplicaBar({ list }: { list: boolean }) {
  const lost = replicas.shown.filter((one) => one.connection === "lost");
  return (
    <>
      <label class="choice">
        Replica{" "}
        <select value={replicas.chosen} onChange={(event) => replicas.choose(event.currentTarget.value)}>
          <option value="">all {replicas.stores.length}</option>
          {replicas.stores.map((one) => <option value={one.name} key={one.name}>{one.name}{one.connection === "lost" ? " (unreachable)" : ""}</option>)}
        </select>
      </label>
      {list && lost.length > 0 && (
        <section class="card warn">
          {lost.map((one) => (
            <p key={one.name}>
              <span role="alert"><b>{one.name}</b> is unreachable: {one.problem}</span>{" "}
              {/* The age changes each second, so it is not part of the alert. */}
              <span class="muted">{one.age === null ? "(no data yet)" : `(its data below is ${seconds(Math.round(one.age))} old)`}</span>
            </p>
          ))}
        </section>
      )}
    </>
  );
}

/** The state of the connection, as a style class and a text. */
function connection(): [string, string] {
  const [only] = replicas.stores;
  if (!only) return ["connecting", CONNECTIONS.connecting];
  if (!replicas.several) return [only.connection, CONNECTIONS[only.connection]];
  if (replicas.connection !== "live") return [replicas.connection, CONNECTIONS[replicas.connection]];
  const live = replicas.stores.filter((one) => one.connection === "live").length;
  const level = live === replicas.stores.length ? "live" : live > 0 ? "partial" : "lost";
  return [level, `${live} of ${replicas.stores.length} live`];
}

/** The name of a program and its identity in its leases, usually the name of its Pod; without a lease, its host. */
function identityOf({ leases, process: { program = "", host } }: Snapshot): string {
  const election = leases.find((one) => one.kind === "leader-election");
  const { identity = host ?? "" } = election ?? leases[0] ?? {};
  const name = identity.startsWith(program) ? identity : [program, identity].filter(Boolean).join(" on ");
  return visible(election ? `${name}, ${election.active ? "leader" : "standby"}` : name);
}

function App() {
  useChanges(replicas);
  const [only] = replicas.several ? [] : replicas.stores;
  const locked = only?.connection === "unauthorized" || only?.connection === "forbidden";
  const state = connection();
  const problem = replicas.several ? replicas.problem : (only?.problem ?? "");
  const known = replicas.snapshots.length > 0;
  return (
    <Page product="console" views={VIEWS} connection={state} uptime={only?.snapshot?.process.uptimeSeconds}
      identity={only?.snapshot ? identityOf(only.snapshot) : ""} stale={state[0] === "lost"}
      heading={(name, parameter) => (name === "objects" ? visible(parameter("key")) : "")}>
      {({ View, name, theme, parameter }) => (
        <>
          {state[0] === "lost" && problem && (
            <p class="card warn" role="alert">No connection to the {replicas.several ? "proxy" : "program"}{known ? "; the figures are from before" : ""}: {problem}</p>
          )}
          <Notices />
          {replicas.several && <ReplicaBar list={name !== "overview" && replicas.problem === ""} />}
          {locked && only
            ? <Login store={only} />
            : known || replicas.several
              ? <View key={name} replicas={replicas} theme={theme} parameter={parameter} />
              : <p class="muted lead">Waiting for the first snapshot…</p>}
        </>
      )}
    </Page>
  );
}

render(<App />, document.getElementById("app")!);
void replicas.run();
