// Objects as YAML, and the differences between two versions by line.
import { diffLines } from "diff";
import { DEFAULT_SCALAR_STYLE_RULES, dump, SCALAR_STYLE, type ScalarStyleRule } from "js-yaml";
import { visible } from "./format";

/** The longest computation of a diff in milliseconds. */
const TIMEOUT = 500;
/** The number of unchanged lines that are shown before and after a change. */
const CONTEXT = 3;
/** Fewer unchanged lines than this number are not folded. */
const MIN_FOLDED = 3;

export interface DiffLine {
  sign: "+" | "-" | " ";
  text: string;
}

/** Lines of a diff; folded lines are shown on demand. */
export interface Hunk {
  folded: boolean;
  lines: DiffLine[];
}

/** Returns an object without some fields of its metadata. */
function without(object: object, fields: string[]): object {
  const { metadata } = object as { metadata?: unknown };
  if (typeof metadata !== "object" || metadata === null || Array.isArray(metadata)) return object;
  return { ...object, metadata: Object.fromEntries(Object.entries(metadata).filter(([name]) => !fields.includes(name))) };
}

/**
 * Control characters except tabs and line breaks, invisible characters, and those that change the order of others. A
 * string with such a character is a double-quoted scalar, which contains its escape.
 */
const ESCAPED = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/;

const quoteEscaped: ScalarStyleRule = (layout) => {
  if (ESCAPED.test(layout.node.value)) layout.style = SCALAR_STYLE.DOUBLE_QUOTED;
};

const scalarStyleRules = [quoteEscaped, ...Object.values(DEFAULT_SCALAR_STYLE_RULES)];

/** Escapes what the library leaves in double-quoted scalars. Other scalars contain none of these characters. */
const escaped = (text: string): string =>
  text.replace(new RegExp(ESCAPED, "g"), (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);

/** The first fields of an object. */
const FIRST = ["apiVersion", "kind", "metadata"];

/** Returns an object with its type and its metadata first. A program may send the fields in any order. */
function ordered(object: object): object {
  if (!isMap(object)) return object;
  const entries = Object.entries(object);
  const first = FIRST.flatMap((name) => entries.filter(([of]) => of === name));
  return Object.fromEntries([...first, ...entries.filter(([of]) => !FIRST.includes(of))]);
}

const dumped = (object: object): string => escaped(dump(ordered(object), { noRefs: true, lineWidth: -1, seqNoIndent: true, scalarStyleRules }));

/** Returns an object as YAML, by default without `metadata.managedFields`. */
export const yaml = (object: object, managedFields: boolean): string => dumped(without(object, managedFields ? [] : ["managedFields"]));

/** Compares two versions. Each version has another resourceVersion, which is no difference of interest. */
export function diffObjects(before: object, after: object, managedFields: boolean): DiffLine[] | null {
  const hidden = managedFields ? ["resourceVersion"] : ["managedFields", "resourceVersion"];
  return diff(dumped(without(before, hidden)), dumped(without(after, hidden)));
}

/** Returns the lines of both texts; `null` if the comparison takes too long. */
function diff(before: string, after: string): DiffLine[] | null {
  const changes = diffLines(before, after, { timeout: TIMEOUT });
  if (!changes) return null;
  return changes.flatMap(({ value, added, removed }) => {
    const sign = added ? "+" : removed ? "-" : " ";
    return value.replace(/\n$/, "").split("\n").map((text): DiffLine => ({ sign, text }));
  });
}

/** Folds the unchanged lines that are not next to a change, unless they are few. */
export function fold(lines: DiffLine[]): Hunk[] {
  const isNear = (at: number) => lines.slice(Math.max(0, at - CONTEXT), at + CONTEXT + 1).some(({ sign }) => sign !== " ");
  const hunks: Hunk[] = [];
  lines.forEach((line, at) => {
    const folded = !isNear(at);
    const last = hunks.at(-1);
    if (last?.folded === folded) last.lines.push(line);
    else hunks.push({ folded, lines: [line] });
  });
  for (const hunk of hunks) hunk.folded &&= hunk.lines.length >= MIN_FOLDED;
  return hunks;
}

const isMap = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null && !Array.isArray(value);

/** Returns the paths of the fields that differ, such as `spec.image`. A list is one field. */
export function changedFields(before: object, after: object): string[] {
  const hidden = ["managedFields", "resourceVersion"];
  const compare = (path: string[], a: unknown, b: unknown): string[] => {
    if (isMap(a) && isMap(b)) {
      return [...new Set([...Object.keys(a), ...Object.keys(b)])].flatMap((name) => compare([...path, name], a[name], b[name]));
    }
    return JSON.stringify(a) === JSON.stringify(b) ? [] : [visible(path.join("."))];
  };
  return compare([], without(before, hidden), without(after, hidden));
}
