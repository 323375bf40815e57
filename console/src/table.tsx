// A table that renders only its visible rows, and filters and sorts all of them.
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { count, visible } from "./format";
import { Badge, type Level } from "./parts";

interface Width {
  /** The width as in `grid-template-columns`. */
  width: string;
}

export interface Column<T> extends Width {
  title: string;
  /** The value by which rows are sorted and filtered. */
  value: (row: T) => string | number;
  show?: (row: T) => ComponentChildren;
  /** An explanation of the title, which the title shows as its tooltip. */
  hint?: string;
  numeric?: boolean;
  /** False for a column that is left out on a narrow page. */
  narrow?: boolean;
  /** True for a column that is never the name of the row. */
  secondary?: boolean;
  /** True if the text may take two lines. On a narrow page, it is below the other columns on up to three lines. */
  long?: boolean;
}

/** A count with its noun. */
export type Alert = [level: Level, text: string];

export interface TableProps<T> {
  name: string;
  rows: T[];
  columns: Column<T>[];
  id: (row: T) => string;
  empty: string;
  /** True if the rows are in the order of time; without a sort, the newest is first. */
  newestFirst?: boolean;
  filter?: string;
  /** Called with the filter when the user has changed it and pauses. */
  onFilter?: (filter: string) => void;
  /** Returns true for the rows that are shown, if the filter also matches them. By default all rows are. */
  only?: ((row: T) => boolean) | undefined;
  /** What is shown between the filter and the number of rows. */
  bar?: ComponentChildren;
  /** True if the server filters the rows and the view counts them, so that the table does neither. */
  filtered?: boolean;
  /** False if the table has only a part of the rows, which stay in their order. */
  sortable?: boolean;
  /** True if the table keeps only the latest rows. The number of rows then says so. */
  latest?: boolean;
  /** The heading of the section. */
  heading?: string;
  /** Counts that must not be hidden, such as `2 panics`. On a narrow page, they are beside the name of the row. */
  alerts?: (row: T) => Alert[];
}

/** The height of a row in pixels: on one line, and on two lines on a narrow page. */
const [ROW, TALL_ROW] = [36, 58];
/** The height of a row with a long text of two lines, and what three lines add to a row on a narrow page. */
const [LONG_ROW, LONG_LINES] = [50, 60];
/** The height of the heads of these tables on a narrow page, and of the table's body at most. */
const [LONG_HEAD, BODY] = [78, 16 * ROW];
/** A page that is narrower than this number of pixels has rows on two lines. */
const MIN_WIDTH = 640;
/** The number of rows above and below the visible ones that are rendered, too. */
const EXTRA = 8;
/** A table with at most this number of rows has no filter. */
const FEW = 5;
/** The gap and the padding of a row in pixels. */
const [GAP, PADDING] = [24, 28];
/** The time after the last input until a change of the filter is reported, in milliseconds. */
const PAUSE = 250;

/** Returns the name of one row, such as `queue` for `queues`. */
const singular = (name: string): string => name.replace(/(?<=ch|sh|s|x)es$|s$/, "");

/** The width of a column in `rem`; `null` if it is flexible. */
const fixed = ({ width }: Width): number | null => (width.endsWith("rem") ? parseFloat(width) : null);

/** The least width of a column in `rem`. */
const least = ({ width }: Width): number => Number(/^(?:minmax\()?([\d.]+)rem/.exec(width)?.[1] ?? 2);

/** True if all columns fit on one line of this number of pixels. */
const fits = (columns: Width[], width: number, rem: number): boolean =>
  width >= Math.max(MIN_WIDTH, columns.reduce((total, one) => total + least(one) * rem + GAP, PADDING));

/**
 * The first column takes the first of two lines; the others share the second one in proportion to their widths. A
 * column with a long text takes further lines.
 */
const twoLines = (columns: (Width & { long?: boolean })[]): string =>
  columns.slice(1).filter(({ long }) => !long).map((column) => `minmax(0, ${fixed(column) ?? 8}fr)`).join(" ") || "minmax(0, 1fr)";

/** Moves the first flexible column, which has the name of the row, to the begin. */
function nameFirst<T>(columns: Column<T>[]): Column<T>[] {
  const name = columns.find((column) => fixed(column) === null && !column.secondary);
  return name ? [name, ...columns.filter((column) => column !== name)] : columns;
}

const titleOf = ({ title, hint }: { title: string; hint?: string }) => (hint ? `${title}: ${hint}` : title);

interface Sort {
  /** The title of the column. */
  by: string;
  down: boolean;
}

export function Table<T extends object>({ name, rows, columns, id, empty, newestFirst, filter: first, onFilter, only, bar, filtered, sortable = true, latest, heading, alerts }: TableProps<T>) {
  const [filter, setFilter] = useState(first ?? "");
  const [sort, setSort] = useState<Sort | null>(null);
  const [top, setTop] = useState(0);
  const [size, setSize] = useState({ width: 1000, height: 480, rem: 16, bar: 0 });
  const frame = useRef<HTMLDivElement>(null);
  const texts = useRef(new WeakMap<T, string>());

  const reported = useRef(first ?? "");
  useEffect(() => {
    // The filter that this table has reported may be older than the text that the user has entered since.
    if (first !== reported.current) setFilter(first ?? "");
    reported.current = first ?? "";
  }, [first]);
  useEffect(() => {
    if (!onFilter || filter === reported.current) return;
    const timer = setTimeout(() => {
      reported.current = filter;
      onFilter(filter);
    }, PAUSE);
    return () => clearTimeout(timer);
  }, [filter]);
  useEffect(() => {
    const element = frame.current;
    if (!element) return;
    const observer = new ResizeObserver(() => setSize({
      width: element.clientWidth,
      height: element.clientHeight,
      // The head has no scroll bar.
      bar: element.offsetWidth - element.clientWidth,
      rem: parseFloat(getComputedStyle(document.documentElement).fontSize),
    }));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  const shown = useMemo(() => {
    const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
    const text = (row: T) => {
      let known = texts.current.get(row);
      if (known === undefined) {
        known = columns.map((column) => column.value(row)).join("\n").toLowerCase();
        texts.current.set(row, known);
      }
      return known;
    };
    const matches = (row: T) => (!only || only(row)) && words.every((word) => text(row).includes(word));
    const matching = words.length === 0 && !only ? rows.slice() : rows.filter(matches);
    const by = sortable && sort && columns.find((column) => column.title === sort.by);
    if (by) {
      const sign = sort.down ? -1 : 1;
      const keyed = matching.map((row) => ({ row, key: by.value(row) }));
      keyed.sort((a, b) => (a.key < b.key ? -sign : a.key > b.key ? sign : 0));
      return keyed.map(({ row }) => row);
    }
    return newestFirst ? matching.reverse() : matching;
  }, [rows, columns.length, filter, only, sort, newestFirst, sortable]);

  const wide = fits(columns, size.width, size.rem);
  const shownColumns = wide ? columns : nameFirst(columns.filter((column) => column.narrow !== false));
  const grid = { gridTemplateColumns: wide ? shownColumns.map((column) => column.width).join(" ") : twoLines(shownColumns) };
  const long = shownColumns.some((column) => column.long);
  const two = !wide && shownColumns.length > 1;
  const height = long ? (wide ? LONG_ROW : TALL_ROW + LONG_LINES) : two ? TALL_ROW : ROW;
  const headHeight = two ? (long ? LONG_HEAD : TALL_ROW) : ROW;
  const start = Math.max(0, Math.floor(top / height) - EXTRA);
  const end = Math.min(shown.length, Math.ceil((top + size.height) / height) + EXTRA);
  const order = ({ title }: Column<T>) => (!sortable || sort?.by !== title ? "none" : sort.down ? "descending" : "ascending");
  const choose = ({ title, numeric }: Column<T>) => setSort({ by: title, down: sort?.by === title ? !sort.down : (numeric ?? false) });
  const total = shown.length === rows.length ? `${latest ? "latest " : ""}${count(rows.length)}` : `${count(shown.length)} of ${latest ? "the latest " : ""}${count(rows.length)}`;

  const cellClass = (column: Column<T>) => [column.numeric && "numeric", column.long && "long"].filter(Boolean).join(" ");
  const cell = (row: T, column: Column<T>, at: number) => {
    const text = visible(String(column.value(row)));
    const content = column.show ? column.show(row) : text;
    const title = typeof content === "string" ? content : text;
    const found = at === 0 && !wide ? (alerts?.(row) ?? []) : [];
    return (
      <span role="cell" class={cellClass(column)} title={title || undefined} key={column.title}>
        {found.length === 0
          ? content
          : <span class="alerts"><span>{content}</span> {found.map(([level, text]) => <Badge level={level} key={text}>{text}</Badge>)}</span>}
      </span>
    );
  };

  return (
    <section class="table-card">
      {(!filtered || heading) && (
        <div class="table-bar">
          {heading && <h2>{heading}</h2>}
          {!filtered && (rows.length > FEW || filter !== "") && (
            <label>
              <span class="visually-hidden">Filter {name}</span>
              <input type="search" placeholder="Filter" value={filter} data-filter
                onInput={(event) => setFilter(event.currentTarget.value)} />
            </label>
          )}
          {bar}
          {!filtered && <span class="muted">{total} {rows.length === 1 ? singular(name) : name}</span>}
        </div>
      )}
      <div class={["table", two && "two-lines", long && "long-rows"].filter(Boolean).join(" ")} role="table" aria-label={name} aria-rowcount={shown.length + 1}>
        <div role="rowgroup" class="table-head" style={{ paddingRight: `${size.bar}px` }}>
          <div role="row" aria-rowindex={1} class="row" style={{ ...grid, height: `${headHeight}px` }}>
            {shownColumns.map((column) => (
              <span role="columnheader" aria-sort={order(column)} class={cellClass(column)} key={column.title}>
                {sortable
                  ? <button type="button" title={titleOf(column)} onClick={() => choose(column)}>
                      {column.title}
                      {sort?.by === column.title && <span aria-hidden="true" class="sort">{sort.down ? "▼" : "▲"}</span>}
                    </button>
                  : <span class="unsorted" title={titleOf(column)}>{column.title}</span>}
              </span>
            ))}
          </div>
        </div>
        <div role="rowgroup" class="table-body" ref={frame} tabIndex={0} aria-label={`Rows of ${name}`}
          style={{ height: `${Math.min(shown.length > 0 ? shown.length * height - 1 : 2 * ROW, BODY)}px` }}
          onScroll={(event) => setTop(event.currentTarget.scrollTop)}>
          {shown.length === 0
            ? <div role="row" class="empty"><span role="cell">{rows.length === 0 ? empty : "No row matches the filter."}</span></div>
            : <div role="presentation" class="space" style={{ height: `${shown.length * height}px` }}>
                {shown.slice(start, end).map((row, offset) => (
                  <div role="row" aria-rowindex={start + offset + 2} class="row" key={id(row)}
                    style={{ ...grid, height: `${height}px`, top: `${(start + offset) * height}px` }}>
                    {shownColumns.map((column, at) => cell(row, column, at))}
                  </div>
                ))}
              </div>}
        </div>
      </div>
    </section>
  );
}
