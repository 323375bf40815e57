// The frame of both pages: the skip link, the header with the views, the route in the location hash, and the
// key that moves the focus to the filter.
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useReducer, useState } from "preact/hooks";
import { seconds } from "./format";
import { nextTheme, useTheme } from "./theme";

/** The name in the location hash, the title, and the component of a view. */
export type View<Props> = [name: string, title: string, component: (props: Props) => JSX.Element];

export interface Route<Props> {
  View: View<Props>[2];
  name: string;
  theme: string;
  /** Returns a parameter of the location hash; empty if it is missing. */
  parameter: (name: string) => string;
}

interface Props<ViewProps> {
  /** The name of the page after `informer`. */
  product: string;
  views: View<ViewProps>[];
  /** The state of the connection: its style class and its text. */
  connection: [level: string, text: string];
  uptime?: number;
  /** The name of the program, and whether it leads. */
  identity?: string;
  /** True if the data is from before the connection was lost. */
  stale: boolean;
  /** Returns the heading and the title of a view; empty for those of the view. */
  heading?: (name: string, parameter: (name: string) => string) => string;
  children: (route: Route<ViewProps>) => ComponentChildren;
}

export function Page<ViewProps>({ product, views, connection: [level, text], uptime, identity = "", stale, heading, children }: Props<ViewProps>) {
  const [choice, setChoice, theme] = useTheme();
  const [path = "", query = ""] = useHash().replace(/^#\/?/, "").split("?");
  const [name, title, View] = views.find(([view]) => view === path) ?? views[0]!;
  const parameters = new URLSearchParams(query);
  const parameter = (of: string) => parameters.get(of) ?? "";
  const shown = heading?.(name, parameter) || title;
  useFilterKey();
  useEffect(() => {
    document.title = [shown, identity, `informer ${product}`].filter(Boolean).join(" · ");
  }, [shown, identity]);
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => {
        event.preventDefault();
        document.getElementById("main")?.focus();
      }}>Skip to the content</a>
      <header>
        <div class="top">
          <span class="brand">informer <span class="muted">{product}</span></span>
          <span class={`connection ${level}`} role="status"><i aria-hidden="true" />{text}</span>
          {identity !== "" && <span class="identity" title={identity}>{identity}</span>}
          {uptime !== undefined && <span class="muted uptime">up {seconds(uptime)}</span>}
          <button type="button" class="theme" onClick={() => setChoice(nextTheme(choice))}>Theme: {choice}</button>
        </div>
        <nav aria-label="Views">
          {views.map(([view, label]) => (
            <a href={`#/${view}`} aria-current={view === name ? "page" : undefined} key={view}>{label}</a>
          ))}
        </nav>
      </header>
      <main id="main" tabIndex={-1} class={stale ? "stale" : ""}>
        <h1>{shown}</h1>
        {children({ View, name, theme, parameter })}
      </main>
    </>
  );
}

/** Renders the component again for each change of the data. */
export function useChanges(data: { subscribe: (listener: () => void) => () => void }): void {
  const [, update] = useReducer((version: number) => version + 1, 0);
  useEffect(() => data.subscribe(() => update(undefined as never)), [data]);
}

/** Sets a parameter of the location hash without a new entry in the browser's history; an empty value removes it. */
export function setParameter(name: string, value: string): void {
  const [path = "", query = ""] = location.hash.split("?");
  const parameters = new URLSearchParams(query);
  if (value === "") parameters.delete(name);
  else parameters.set(name, value);
  history.replaceState(null, "", parameters.size === 0 ? path : `${path}?${parameters}`);
  // `replaceState` sends no event.
  dispatchEvent(new HashChangeEvent("hashchange"));
}

function useHash(): string {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const follow = () => setHash(location.hash);
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  return hash;
}

/** Moves the focus to the first filter when the user types `/` outside an input. */
function useFilterKey(): void {
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
}
