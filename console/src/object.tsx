// An object as YAML, its versions that the page has seen, and the differences between two of them.
import { useMemo, useRef, useState } from "preact/hooks";
import { keyLink } from "./columns";
import { changes, Diff } from "./diff";
import { clock } from "./format";
import { Badge } from "./parts";
import { type ObjectName, SEEN, useFollowed, type Version } from "./versions";
import { yaml } from "./yaml";

/** The number of changed fields that are named. */
const MAX_FIELDS = 3;

/** The link to the objects of an informer, or to one of them. */
export function objectLink({ store, informer, key = "" }: Omit<ObjectName, "key"> & { key?: string }): string {
  const parameters = { ...(store.name !== "" && { replica: store.name }), informer, ...(key !== "" && { key }) };
  return `#/objects?${new URLSearchParams(parameters)}`;
}

const label = ({ content, at, deleted }: Version) => `${content.resourceVersion || "no version"}, ${clock(at)}${deleted ? ", deleted" : ""}`;

/** What happened with this version. */
export function versionText({ deleted, change }: Version, first: boolean): string {
  if (deleted) return "deleted";
  if (first) return "first version seen";
  if (!change) return "changed";
  const { fields } = change;
  const more = fields.length > MAX_FIELDS ? ` and ${fields.length - MAX_FIELDS} more` : "";
  return `${fields.slice(0, MAX_FIELDS).join(", ")}${more}${fields.length > 0 ? ": " : ""}${changes(change)}`;
}

export function ObjectView({ name }: { name: ObjectName }) {
  const [object] = useFollowed([name]);
  const [managedFields, setManagedFields] = useState(false);
  const [chosen, setChosen] = useState<{ shown: number | null; base: number | null }>({ shown: null, base: null });
  const versions = object?.versions ?? [];
  const find = (id: number | null) => versions.find((one) => one.id === id);
  const newest = versions.at(-1);
  const shown = find(chosen.shown) ?? newest;
  const base = find(chosen.base);
  const card = useRef<HTMLElement>(null);
  // The card is above the list of versions, and often off screen.
  const choose = (shown: number, base: number | null) => {
    setChosen({ shown, base });
    card.current?.focus({ preventScroll: true });
    card.current?.scrollIntoView({ block: "start" });
  };
  if (!object) return null;
  const where = `${name.informer}${name.store.name === "" ? "" : ` of ${name.store.name}`}`;
  return (
    <>
      <section class="card object-head">
        <p class="muted">
          in <a href={objectLink({ store: name.store, informer: name.informer })}>{where}</a>;{" "}
          <a href={keyLink(name.key)}>reconciles of this key</a>
        </p>
        <div role="status">
          {object.missing && newest && <p><Badge level="bad">deleted</Badge> The object was deleted at {clock(newest.at)}. Its last version is kept here.</p>}
          {object.missing && !newest && <p>The cache has no object with this key. It is shown as soon as it is created.</p>}
          {shown?.content.redacted && <p><Badge level="none">Secret</Badge> The values of Secrets do not leave the program. A value of the same size is no difference.</p>}
          {shown?.content.metadataOnly && <p><Badge level="none">metadata</Badge> The cache contains only the metadata of this object.</p>}
        </div>
        {object.problem !== "" && <p class="error-text" role="alert">The object cannot be read: {object.problem}</p>}
        {!newest && !object.missing && object.problem === "" && <p class="muted">Reading the object…</p>}
      </section>
      {shown && (
        <section class="card object-card" ref={card} tabIndex={-1} aria-label={base ? "Differences" : "Object"}>
          <div class="object-bar">
            <label>Version{" "}
              <select value={find(chosen.shown) ? String(chosen.shown) : ""} onChange={(event) => setChosen({ ...chosen, shown: Number(event.currentTarget.value) || null })}>
                <option value="">newest</option>
                {versions.toReversed().map((one) => <option value={one.id} key={one.id}>{label(one)}</option>)}
              </select>
            </label>
            <label>Compare with{" "}
              <select value={base ? String(base.id) : ""} onChange={(event) => setChosen({ ...chosen, base: Number(event.currentTarget.value) || null })}>
                <option value="">no other</option>
                {versions.toReversed().map((one) => <option value={one.id} key={one.id}>{label(one)}</option>)}
              </select>
            </label>
            <label class="check">
              <input type="checkbox" checked={managedFields} onChange={(event) => setManagedFields(event.currentTarget.checked)} />{" "}
              Show managed fields
            </label>
            {shown !== newest && (
              <span>
                <Badge level="warn">not the newest</Badge>{" "}
                <button type="button" onClick={() => setChosen({ shown: null, base: null })}>Newest<span class="visually-hidden"> version</span></button>
              </span>
            )}
          </div>
          {base
            ? <Diff before={base.content.object} after={shown.content.object} managedFields={managedFields} />
            : <Yaml object={shown.content.object} managedFields={managedFields} />}
        </section>
      )}
      {versions.length > 0 && (
        <Versions versions={versions} dropped={object.dropped} shown={shown} base={base} choose={choose} />
      )}
    </>
  );
}

function Yaml({ object, managedFields }: { object: object; managedFields: boolean }) {
  const text = useMemo(() => yaml(object, managedFields), [object, managedFields]);
  return <pre class="yaml">{text}</pre>;
}

interface VersionsProps {
  versions: Version[];
  dropped: number;
  shown: Version | undefined;
  base: Version | undefined;
  choose: (shown: number, base: number | null) => void;
}

function Versions({ versions, dropped, shown, base, choose }: VersionsProps) {
  return (
    <section class="card">
      <h2>Versions seen</h2>
      <ol class="versions">
        {versions.map((one, at) => {
          const before = versions[at - 1];
          return (
            <li key={one.id} aria-current={one === shown ? "true" : undefined}>
              <time>{clock(one.at)}</time>
              <span><code>{one.content.resourceVersion}</code>{one === base && <> <Badge level="none">compared with</Badge></>}</span>
              <span class={one.deleted ? "error-text" : "muted"}>{versionText(one, !before && dropped === 0)}</span>
              <span class="buttons">
                <button type="button" onClick={() => choose(one.id, null)}>Show<span class="visually-hidden"> {label(one)}</span></button>{" "}
                {before && !one.deleted && <button type="button" onClick={() => choose(one.id, before.id)}>Diff with previous<span class="visually-hidden"> version: {label(one)}</span></button>}
              </span>
            </li>
          );
        }).reverse()}
      </ol>
      {dropped > 0 && <p class="muted">{dropped} older {dropped === 1 ? "version was" : "versions were"} dropped.</p>}
      <p class="muted">{SEEN}</p>
    </section>
  );
}
