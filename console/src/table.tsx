// A table that renders only its visible rows, and filters and sorts all of them.
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { count } from "./format";

export interface Column<T> {
  title: string;
  /** The value by which rows are sorted and filtered. */
  value: (row: T) => string | number;
  show?: (row: T) => ComponentChildren;
  /** The width as in `grid-template-columns`. */
  width: string;
  numeric?: boolean;
  /** False for a column that is left out on a narrow page. */
  narrow?: boolean;
}

export interface TableProps<T> {
  name: string;
  rows: T[];
  columns: Column<T>[];
  id: (row: T) => string;
  empty: string;
  /** True if the rows are in the order of time; without a sort, the newest is first. */
  newestFirst?: boolean;
  filter?: string;
}

const ROW = 36;
/** The number of rows above and below the visible ones that are rendered, too. */
const EXTRA = 8;
/** A table with at most this number of rows has no filter. */
const FEW = 5;

interface Sort {
  /** The title of the column. */
  by: string;
  down: boolean;
}

export function Table<T extends object>({ name, rows, columns, id, empty, newestFirst, filter: first }: TableProps<T>) {
  const [filter, setFilter] = useState(first ?? "");
  const [sort, setSort] = useState<Sort | null>(null);
  const [top, setTop] = useState(0);
  const [size, setSize] = useState({ width: 1000, height: 480 });
  const frame = useRef<HTMLDivElement>(null);
  const texts = useRef(new WeakMap<T, string>());

  useEffect(() => setFilter(first ?? ""), [first]);
  useEffect(() => {
    const element = frame.current;
    if (!element) return;
    const observer = new ResizeObserver(() => setSize({ width: element.clientWidth, height: element.clientHeight }));
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
    const matching = words.length === 0 ? rows.slice() : rows.filter((row) => words.every((word) => text(row).includes(word)));
    const by = sort && columns.find((column) => column.title === sort.by);
    if (by) {
      const sign = sort.down ? -1 : 1;
      const keyed = matching.map((row) => ({ row, key: by.value(row) }));
      keyed.sort((a, b) => (a.key < b.key ? -sign : a.key > b.key ? sign : 0));
      return keyed.map(({ row }) => row);
    }
    return newestFirst ? matching.reverse() : matching;
  }, [rows, columns.length, filter, sort, newestFirst]);

  const visible = columns.filter((column) => size.width >= 640 || column.narrow !== false);
  const grid = { gridTemplateColumns: visible.map((column) => column.width).join(" ") };
  const start = Math.max(0, Math.floor(top / ROW) - EXTRA);
  const end = Math.min(shown.length, Math.ceil((top + size.height) / ROW) + EXTRA);
  const order = ({ title }: Column<T>) => (sort?.by !== title ? "none" : sort.down ? "descending" : "ascending");
  const choose = ({ title, numeric }: Column<T>) => setSort({ by: title, down: sort?.by === title ? !sort.down : (numeric ?? false) });
  const total = shown.length === rows.length ? count(rows.length) : `${count(shown.length)} of ${count(rows.length)}`;

  return (
    <section class="table-card">
      <div class="table-bar">
        {(rows.length > FEW || filter !== "") && (
          <label>
            <span class="visually-hidden">Filter {name}</span>
            <input type="search" placeholder="Filter" value={filter} data-filter
              onInput={(event) => setFilter(event.currentTarget.value)} />
          </label>
        )}
        <span class="muted">{total} {name}</span>
      </div>
      <div class="table" role="table" aria-label={name} aria-rowcount={shown.length + 1}>
        <div role="rowgroup" class="table-head">
          <div role="row" aria-rowindex={1} class="row" style={grid}>
            {visible.map((column) => (
              <span role="columnheader" aria-sort={order(column)} class={column.numeric ? "numeric" : ""} key={column.title}>
                <button type="button" onClick={() => choose(column)}>
                  {column.title}
                  {sort?.by === column.title && <span aria-hidden="true" class="sort">{sort.down ? "▼" : "▲"}</span>}
                </button>
              </span>
            ))}
          </div>
        </div>
        <div role="rowgroup" class="table-body" ref={frame} tabIndex={0} aria-label={`Rows of ${name}`}
          style={{ height: `${Math.min(shown.length > 0 ? shown.length * ROW - 1 : 2 * ROW, 16 * ROW)}px` }}
          onScroll={(event) => setTop(event.currentTarget.scrollTop)}>
          {shown.length === 0
            ? <div role="row" class="empty"><span role="cell">{rows.length === 0 ? empty : "No row matches the filter."}</span></div>
            : <div role="presentation" class="space" style={{ height: `${shown.length * ROW}px` }}>
                {shown.slice(start, end).map((row, offset) => (
                  <div role="row" aria-rowindex={start + offset + 2} class="row" key={id(row)}
                    style={{ ...grid, top: `${(start + offset) * ROW}px` }}>
                    {visible.map((column) => {
                      const text = String(column.value(row));
                      return (
                        <span role="cell" class={column.numeric ? "numeric" : ""} title={text} key={column.title}>
                          {column.show ? column.show(row) : text}
                        </span>
                      );
                    })}
                  </div>
                ))}
              </div>}
        </div>
      </div>
    </section>
  );
}
