import "./style.css";
import "uplot/dist/uPlot.min.css";
import { render } from "preact";
import { useState } from "preact/hooks";
import { Page, useChanges, type View } from "./page";
import { Store } from "./store";
import { Controllers, Informers, Key, Overview, Pipeline, Queues, Reconciles, Requests, type ViewProps } from "./views";

const VIEWS: View<ViewProps>[] = [
  ["overview", "Overview", Overview],
  ["pipeline", "Pipeline", Pipeline],
  ["informers", "Informers", Informers],
  ["queues", "Queues", Queues],
  ["controllers", "Controllers", Controllers],
  ["reconciles", "Reconciles", Reconciles],
  ["key", "Key", Key],
  ["requests", "Requests", Requests],
];

const CONNECTIONS = { live: "live", connecting: "connecting", lost: "reconnecting", unauthorized: "signed out", forbidden: "forbidden" };

const store = new Store();

function Login() {
  const [token, setToken] = useState("");
  const forbidden = store.connection === "forbidden";
  return (
    <form class="card login" onSubmit={(event) => {
      event.preventDefault();
      store.setToken(token);
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

function App() {
  useChanges(store);
  const { snapshot, connection } = store;
  const locked = connection === "unauthorized" || connection === "forbidden";
  return (
    <Page product="console" views={VIEWS} connection={[connection, CONNECTIONS[connection]]}
      uptime={snapshot?.process.uptimeSeconds} stale={connection === "lost"}>
      {({ View, name, theme, parameter }) => (
        <>
          {connection === "lost" && (
            <p class="card warn" role="alert">No connection to the program{snapshot ? "; the figures are from before" : ""}: {store.problem}</p>
          )}
          <div role="status" class="live">
            {store.notice && (
              <p class={`card notice ${store.notice.level}`}>
                {store.notice.text} <button type="button" onClick={() => store.dismiss()}>Dismiss</button>
              </p>
            )}
          </div>
          {locked
            ? <Login />
            : snapshot
              ? <View key={name} store={store} snapshot={snapshot} theme={theme} parameter={parameter} />
              : <p class="muted lead">Waiting for the first snapshot…</p>}
        </>
      )}
    </Page>
  );
}

render(<App />, document.getElementById("app")!);
void store.run();
