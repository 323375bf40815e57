// Small parts of the views of both pages.
import type { ComponentChildren } from "preact";
import { ago, clock, day } from "./format";

export type Level = "ok" | "warn" | "bad" | "none";

export function Badge({ level, children }: { level: Level; children: ComponentChildren }) {
  return <span class={`badge ${level}`}>{children}</span>;
}

export function Tile({ title, value, detail, link }: { title: string; value: string; detail: string; link: string }) {
  return (
    <a class="card tile" href={link}>
      <span class="muted">{title}</span>
      <strong>{value}</strong>
      <span class="muted">{detail}</span>
    </a>
  );
}

/** A time of day, with its date if that is not today, and its age or another text. */
export function Time({ at, note = ago(at) }: { at: number; note?: string }) {
  const iso = new Date(at).toISOString();
  return (
    <>
      <time dateTime={iso} title={iso}>{day(at)}{clock(at)}</time> <span class="muted">{note}</span>
    </>
  );
}
