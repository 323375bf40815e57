import "../style.css";
import "./server.css";
import { render } from "preact";
import { useEffect, useReducer, useState } from "preact/hooks";
import { seconds } from "../format";
import { nextTheme, useTheme } from "../theme";
import { Server } from "./data";
import { Faults, Kinds, Requests, Versions, type ViewProps, Watches } from "./views";

const VIEWS: [string, string, (props: ViewProps) => preact.JSX.Element][] = [
  ["requests", "Requests", Requests],
  ["watches", "Watches", Watches],
  ["faults", "Faults", Faults],
  ["objects", "Objects", Kinds],
  ["versions", "Versions", Versions],
];

const server = new Server();

function App() {
  const [, update] = useReducer((version: number) => version + 1, 0);
  const [hash, setHash] = useState(location.hash);
  const [choice, setChoice] = useTheme();
  const [result, setResult] = useState<{ text: string; failed: boolean } | null>(null);

  useEffect(() => server.subscribe(() => update(undefined as never)), []);
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
  const { state, problem } = server;
  useEffect(() => {
    document.title = `${title} · informer API server`;
  }, [title]);
  const act = async (action: object) => {
    try {
      setResult({ text: await server.act(action), failed: false });
      return true;
    } catch (error) {
      setResult({ text: error instanceof Error ? error.message : String(error), failed: true });
      return false;
    }
  };
  const connection = problem ? "lost" : state ? "live" : "connecting";
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => {
        event.preventDefault();
        document.getElementById("main")?.focus();
      }}>Skip to the content</a>
      <header>
        <div class="top">
          <span class="brand">informer <span class="muted">API server</span></span>
          <span class={`connection ${connection}`} role="status"><i aria-hidden="true" />{problem ? "reconnecting" : connection}</span>
          {state && <span class="muted uptime">up {seconds(state.elapsedMillis / 1000)}</span>}
          <button type="button" class="theme" onClick={() => setChoice(nextTheme(choice))}>Theme: {choice}</button>
        </div>
        <nav aria-label="Views">
          {VIEWS.map(([view, label]) => (
            <a href={`#/${view}`} aria-current={view === name ? "page" : undefined} key={view}>{label}</a>
          ))}
        </nav>
      </header>
      <main id="main" tabIndex={-1} class={problem ? "stale" : ""}>
        <h1>{title}</h1>
        {problem && (
          <p class="card warn" role="alert">No connection to the server{state ? "; the data shown is from the last successful update" : ""}: {problem}</p>
        )}
        {result && (
          <p class={`card result ${result.failed ? "bad" : "ok"}`} role={result.failed ? "alert" : "status"}>
            <span>{result.text}</span>
            <button type="button" onClick={() => setResult(null)}>Close</button>
          </p>
        )}
        {state
          ? <View key={name} server={server} state={state} act={act} filter={new URLSearchParams(query).get("filter") ?? ""} />
          : !problem && <p class="muted lead">Waiting for the server…</p>}
      </main>
    </>
  );
}

render(<App />, document.getElementById("app")!);
void server.run();
