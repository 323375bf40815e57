import "../style.css";
import "./server.css";
import { render } from "preact";
import { useState } from "preact/hooks";
import { Page, useChanges, type View } from "../page";
import { Server } from "./data";
import { Faults, Kinds, Requests, Versions, type ViewProps, Watches } from "./views";

const VIEWS: View<ViewProps>[] = [
  ["requests", "Requests", Requests],
  ["watches", "Watches", Watches],
  ["faults", "Faults", Faults],
  ["objects", "Objects", Kinds],
  ["versions", "Versions", Versions],
];

const server = new Server();

function App() {
  useChanges(server);
  const [result, setResult] = useState<{ text: string; failed: boolean } | null>(null);
  const { state, problem } = server;
  const act = async (action: object) => {
    try {
      setResult({ text: await server.act(action), failed: false });
      return true;
    } catch (error) {
      setResult({ text: error instanceof Error ? error.message : String(error), failed: true });
      return false;
    }
  };
  return (
    <Page product="API server" views={VIEWS} stale={problem !== ""} uptime={state ? state.elapsedMillis / 1000 : undefined}
      connection={problem ? ["lost", "reconnecting"] : state ? ["live", "live"] : ["connecting", "connecting"]}>
      {({ View, name, parameter }) => (
        <>
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
            ? <View key={name} server={server} state={state} act={act} filter={parameter("filter")} />
            : !problem && <p class="muted lead">Waiting for the server…</p>}
        </>
      )}
    </Page>
  );
}

render(<App />, document.getElementById("app")!);
void server.run();
