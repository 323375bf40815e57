// A time series of the last 15 minutes, drawn by uPlot.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { bytes, count } from "./format";
import type { Series, SeriesName } from "./store";

interface Line {
  series: SeriesName;
  label: string;
  color: "--line-1" | "--line-2" | "--line-3" | "--line-4";
}

interface Props {
  series: Series;
  title: string;
  lines: Line[];
  format: (value: number | null) => string;
  theme: string;
}

/** The distances of the marks on an axis of bytes. */
const BINARY = Array.from({ length: 50 }, (_, power) => 2 ** power);
/** The distances of the ticks on an axis with whole numbers. */
const WHOLE = Array.from({ length: 36 }, (_, at) => [1, 2, 5][at % 3]! * 10 ** Math.floor(at / 3));
const HEIGHT = 150;
const MAX_SPAN = 900;
const MIN_SPAN = 2;
/** The distances of the marks on the axis of the time, in seconds. */
const TIMES = [1, 2, 5, 10, 15, 30, 60, 120, 300];

export function Chart({ series, title, lines, format, theme }: Props) {
  const frame = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const data = (): uPlot.AlignedData => [series.times, ...lines.map((line) => series.values[line.series])];
  const last = lines.map((line) => ({ ...line, text: format(series.last(line.series)) }));

  useEffect(() => {
    const element = frame.current;
    if (!element) return;
    const style = getComputedStyle(document.documentElement);
    const color = (name: string) => style.getPropertyValue(name).trim();
    const axis = { stroke: color("--muted"), grid: { stroke: color("--border"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
    const made = new uPlot({
      width: element.clientWidth,
      height: HEIGHT,
      legend: { show: false },
      cursor: { drag: { x: false, y: false } },
      // Half of the label of the last tick can be to the right of the plot.
      padding: [8, 26, 0, 0],
      scales: {
        // The range fits the data, up to 15 minutes.
        x: {
          range: (_, min, max) => {
            const end = max ?? Date.now() / 1000;
            return [end - Math.min(MAX_SPAN, Math.max(MIN_SPAN, end - (min ?? end))), end];
          },
        },
        y: { range: (_, __, max) => [0, Math.max(1, (max ?? 0) * 1.1)] },
      },
      axes: [
        { ...axis, size: 24, space: 70, incrs: TIMES, values: (_, times, __, ___, step) => times.map((time) => new Date(time * 1000).toTimeString().slice(0, step < 60 ? 8 : 5)) },
        { ...axis, size: 62, space: 36, ...(format === bytes ? { incrs: BINARY } : format === count ? { incrs: WHOLE } : {}), values: (_, values) => values.map((value) => format(value)) },
      ],
      series: [{}, ...lines.map((line) => ({ stroke: color(line.color), width: 1.5, points: { show: false }, spanGaps: false }))],
    }, data(), element);
    plot.current = made;
    const observer = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: HEIGHT }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
    };
  }, [theme]);
  useEffect(() => plot.current?.setData(data()));

  return (
    <section class="card chart">
      <h3>{title}</h3>
      <ul class="legend">
        {last.map((line) => (
          <li key={line.series}><i class={line.color.slice(2)} aria-hidden="true" />{line.label} <b>{line.text}</b></li>
        ))}
      </ul>
      <div ref={frame} role="img" aria-label={`${title}: ${last.map((line) => `${line.label} ${line.text}`).join(", ")}`} />
    </section>
  );
}
