// Small parts of the views of both pages.
import type { ComponentChildren } from "preact";

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
