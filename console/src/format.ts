const decimal = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export const NONE = "–";

export function count(value: number | null | undefined): string {
  if (value === null || value === undefined) return NONE;
  return value >= 1e6 ? `${decimal.format(value / 1e6)} M` : whole.format(value);
}

/** A number with its noun, such as `1 queue` or `2 queues`. */
export const counted = (value: number, one: string, several = `${one}s`): string => `${count(value)} ${value === 1 ? one : several}`;

/** A number with all its digits. */
export const exact = (value: number): string => whole.format(value);

export function rate(value: number | null | undefined): string {
  if (value === null || value === undefined) return NONE;
  return `${value < 100 ? decimal.format(value) : whole.format(value)}/s`;
}

export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined) return NONE;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; value >= 1024 && unit < units.length - 1; unit++) value /= 1024;
  return `${unit === 0 ? whole.format(value) : decimal.format(value)} ${units[unit]}`;
}

export function seconds(value: number | null | undefined): string {
  if (value === null || value === undefined) return NONE;
  if (value === 0) return "0 s";
  if (value < 0.001) return `${whole.format(Math.max(1, value * 1e6))} µs`;
  if (value < 1) return `${value < 0.01 ? decimal.format(value * 1e3) : whole.format(value * 1e3)} ms`;
  if (value < 60) return `${decimal.format(value)} s`;
  if (value < 3600) return `${Math.floor(value / 60)} min ${Math.floor(value % 60)} s`;
  if (value < 86_400) return `${Math.floor(value / 3600)} h ${Math.floor((value % 3600) / 60)} min`;
  return `${Math.floor(value / 86_400)} d ${Math.floor((value % 86_400) / 3600)} h`;
}

/** Control characters, invisible characters, and those that change the order of others. */
export const INVISIBLE = /[\u0000-\u001f\u007f-\u009f\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** Returns a text with an escape, such as `\u202e`, for each character that is invisible or changes the order of others. Line breaks are escaped, too. */
export const visible = (text: string): string => text.replace(INVISIBLE, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);

/** The local time of day with milliseconds. */
export function clock(milliseconds: number): string {
  const date = new Date(milliseconds);
  const two = (value: number) => String(value).padStart(2, "0");
  const time = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  return `${time}.${String(date.getMilliseconds()).padStart(3, "0")}`;
}

/** The age of a time, such as `8 s ago`. */
export const ago = (milliseconds: number): string => `${seconds(Math.max(0, Math.round((Date.now() - milliseconds) / 1000)))} ago`;

/** The local date with a space, such as `2026-11-29 `; empty for today. */
export function day(milliseconds: number): string {
  const date = (of: Date) => [of.getFullYear(), of.getMonth() + 1, of.getDate()].map((value) => String(value).padStart(2, "0")).join("-");
  const text = date(new Date(milliseconds));
  return text === date(new Date()) ? "" : `${text} `;
}
