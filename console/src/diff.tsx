// The differences between two versions of an object.
import { useMemo } from "preact/hooks";
import { type DiffLine, diffObjects, fold } from "./yaml";

const KINDS = { "+": "added", "-": "removed", " ": "" };

function Line({ sign, text }: DiffLine) {
  return (
    <div class={`line ${KINDS[sign]}`}>
      <span class="sign" aria-hidden="true">{sign}</span>
      {sign !== " " && <span class="visually-hidden">{KINDS[sign]}: </span>}
      <span>{text}</span>
    </div>
  );
}

export function Diff({ before, after, managedFields }: { before: object; after: object; managedFields: boolean }) {
  const lines = useMemo(() => diffObjects(before, after, managedFields), [before, after, managedFields]);
  if (!lines) return <p class="muted">The versions differ in too many lines to compare them.</p>;
  const count = (of: string) => lines.filter(({ sign }) => sign === of).length;
  const [added, removed] = [count("+"), count("-")];
  if (added + removed === 0) return <p class="muted">The versions do not differ.</p>;
  return (
    <>
      <p class="muted">{changes({ added, removed })}</p>
      <div class="yaml" role="group" aria-label="Differences">
        {fold(lines).map(({ folded, lines }, at) => {
          const shown = lines.map((line, at) => <Line key={at} {...line} />);
          if (!folded) return <div key={at}>{shown}</div>;
          return (
            <details key={at}>
              <summary>{lines.length} unchanged {lines.length === 1 ? "line" : "lines"}</summary>
              {shown}
            </details>
          );
        })}
      </div>
    </>
  );
}

/** Describes a change, such as `2 lines added, 1 removed`. */
export function changes({ added, removed }: { added: number; removed: number }): string {
  return `${added} ${added === 1 ? "line" : "lines"} added, ${removed} removed`;
}
