// The objects of the view of a key: links to them, and their versions among the reconciles.
import type { KeyHistory } from "./data";
import { Diff } from "./diff";
import { objectLink, versionText } from "./object";
import { Badge, Time } from "./parts";
import { clock } from "./format";
import type { Store } from "./store";
import { type Followed, type ObjectName, useFollowed, type Version } from "./versions";

/** The number of objects of a key that are read. */
const MAX_OBJECTS = 4;

/** A version of an object that is shown among the reconciles. */
export interface SeenVersion {
  object: Followed;
  version: Version;
  /** The version before; undefined for the first one. */
  before: Version | undefined;
}

/** Follows the objects of a key, in the informers of the reconciled kinds of the controllers that know the key. */
export function useKeyObjects(key: string, stories: { store: Store; history: KeyHistory | undefined }[]): Followed[] {
  const names = stories.flatMap(({ store, history }): ObjectName[] => {
    if (!store.snapshot?.showsObjects) return [];
    const known = new Set(history?.controllers.map(({ controller }) => controller));
    const watches = store.snapshot.controllers.filter(({ name }) => known.has(name)).flatMap((one) => one.watches ?? []);
    const informers = watches.filter(({ role }) => role === "for").flatMap((one) => one.informers);
    return [...new Set(informers)].map((informer) => ({ store, informer, key }));
  });
  return useFollowed(names.slice(0, MAX_OBJECTS)).filter(({ versions }) => versions.length > 0);
}

export function ObjectLinks({ name, objects, stores }: { name: string; objects: Followed[]; stores: Store[] }) {
  const shows = stores.some(({ snapshot }) => snapshot?.showsObjects);
  if (!shows) return null;
  return (
    <section class="card object-head">
      <h2>Object</h2>
      {objects.map((one) => (
        <p key={`${one.store.name} ${one.informer}`}>
          <a href={objectLink(one)}>{one.key} in {one.informer}</a>{" "}
          <span class="muted">
            {one.store.name !== "" && `of ${one.store.name}, `}resource version {one.versions.at(-1)?.content.resourceVersion},{" "}
            {one.versions.length} {one.versions.length === 1 ? "version" : "versions"} seen
          </span>
          {one.missing && <> <Badge level="bad">deleted</Badge></>}
        </p>
      ))}
      {objects.length === 0 && <p><a href={`#/objects?${new URLSearchParams({ contains: name })}`}>Find the object in the caches</a></p>}
    </section>
  );
}

/** The versions that were seen after the first one, which are changes. */
export const seenVersions = (objects: Followed[]): SeenVersion[] =>
  objects.flatMap((object) => object.versions.flatMap((version, at) => (at === 0 ? [] : [{ object, version, before: object.versions[at - 1] }])));

export function VersionItem({ object, version, before }: SeenVersion) {
  return (
    <li class="card">
      <div class="history-head">
        <Time at={version.at} /> <b><a href={objectLink(object)}>{object.informer}</a></b>
        {object.store.name !== "" && <span class="muted">on {object.store.name}</span>}
        <Badge level={version.deleted ? "bad" : "none"}>{version.deleted ? "deleted" : "changed"}</Badge>
        <span class="muted">resource version {version.content.resourceVersion}</span>
      </div>
      {!version.deleted && before && (
        <details>
          <summary>{versionText(version, false)}</summary>
          <Diff before={before.content.object} after={version.content.object} managedFields={false} />
        </details>
      )}
    </li>
  );
}

/** The lane of the versions of an object on the time line. `x` returns the place of a time in percent. */
export function VersionLane({ object, x }: { object: Followed; x: (time: number) => number }) {
  const lane = `versions in ${object.informer}${object.store.name === "" ? "" : ` of ${object.store.name}`}`;
  const { versions } = object;
  return (
    <div>
      <span class="muted">{lane}</span>
      <svg role="img" aria-label={`${versions.length} ${lane}`}>
        <rect x="0" y="11" width="100%" height="2" class="base" />
        {versions.filter(({ at }) => x(at) >= 0).map((one) => {
          // The page cannot know whether the first version that it has seen is a change.
          const first = one === versions[0] && object.dropped === 0;
          return (
            <circle key={one.id} class={one.deleted ? "bad" : first ? "version first" : "version"} cx={`${x(one.at)}%`} cy="12" r="5">
              <title>{`${versionText(one, first)}, ${clock(one.at)}`}</title>
            </circle>
          );
        })}
      </svg>
    </div>
  );
}
