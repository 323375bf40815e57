import "./style.css";
import "uplot/dist/uPlot.min.css";
import { render } from "preact";
import { useEffect, useReducer, useState } from "preact/hooks";
import { seconds } from "./format";
import { Store } from "./store";
import { nextTheme, useTheme } from "./theme";
import { Controllers, Informers, Key, Overview, Pipeline, Queues, Reconciles, Requests, type ViewProps } from "./views";

const VIEWS: [string, string, (props: ViewProps) => preact.JSX.Element][] = [
  ["overview", "Overview", Overview],
  ["pipeline", "Pipeline", Pipeline],
  ["informers", "Informers", Informers],
  ["queues", "Queues", Queues],
  ["controllers", "Controllers", Controllers],
  ["reconciles", "Reconciles", Reconciles],
  ["key", "Key", Key],
  ["requests", "Requests", Requests],
];

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
  const [, update] = useReducer((version: number) => version + 1, 0);
  const [hash, setHash] = useState(location.hash);
  const [choice, setChoice, theme] = useTheme();

  useEffect(() => store.subscribe(() => update(undefined as never)), []);
  useEffect(() => {
    const follow = () => setHash(location.hash);
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  useEffect(() => {
    const focus = (event: KeyboardEvent) => {
      const typing = event.target instanceof HTMLElement && event.target.closest("input, select, textarea");
      if (event.key === "/" && !typing) {
        event.preventDefault();
        document.querySelector<HTMLInputElement>("[data-filter]")?.focus();
      }
    };
    addEventListener("keydown", focus);
    return () => removeEventListener("keydown", focus);
  }, []);

  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?");
  const [name, title, View] = VIEWS.find(([view]) => view === path) ?? VIEWS[0]!;
  const parameters = new URLSearchParams(query);
  const { snapshot, connection } = store;
  const locked = connection === "unauthorized" || connection === "forbidden";
  useEffect(() => {
    document.title = `${title} · informer console`;
  }, [title]);
  const state = { live: "live", connecting: "connecting", lost: "reconnecting", unauthorized: "signed out", forbidden: "forbidden" }[connection];
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => {
        event.preventDefault();
        document.getElementById("main")?.focus();
      }}>Skip to the content</a>
      <header>
        <div class="top">
          <span class="brand">informer <span class="muted">console</span></span>
          <span class={`connection ${connection}`} role="status"><i aria-hidden="true" />{state}</span>
          {snapshot && <span class="muted uptime">up {seconds(snapshot.process.uptimeSeconds)}</span>}
          <button type="button" class="theme" onClick={() => setChoice(nextTheme(choice))}>Theme: {choice}</button>
        </div>
        <nav aria-label="Views">
          {VIEWS.map(([view, label]) => (
            <a href={`#/${view}`} aria-current={view === name ? "page" : undefined} key={view}>{label}</a>
          ))}
        </nav>
      </header>
      <main id="main" tabIndex={-1} class={connection === "lost" ? "stale" : ""}>
        <h1>{title}</h1>
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
            ? <View key={name} store={store} snapshot={snapshot} theme={theme} parameter={(of) => parameters.get(of) ?? ""} />
            : <p class="muted lead">Waiting for the first snapshot…</p>}
      </main>
    </>
  );
}

render(<App />, document.getElementById("app")!);
void store.run();
