/** A small time chart: uPlot, in the colours of the style, as wide as its place. What it shows is said in words beside it. */
import type { VNode } from 'preact';
import { html } from 'htm/preact';
import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import { clock } from './text.ts';

export interface Line {
  label: string;
  /** A colour of the style: `--line-1`. */
  colour: string;
  /** `null` where nothing is known. */
  values: readonly (number | null)[];
}

interface ChartProps {
  title: string;
  /** Milliseconds. */
  times: readonly number[];
  lines: readonly Line[];
  /** A value as people read it. */
  written: (value: number) => string;
}

const HEIGHT = 150;
const DARK = matchMedia('(prefers-color-scheme: dark)');

export function Chart({ title, times, lines, written }: ChartProps): VNode {
  const place = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot>(null);
  const data = [times.map((at) => at / 1000), ...lines.map(({ values }) => [...values])] as uPlot.AlignedData;
  const latest = useRef(data);
  latest.current = data;

  useEffect(() => {
    const { current } = place;
    if (!current) return undefined;
    const make = (): void => {
      chart.current?.destroy();
      chart.current = new uPlot(options(lines, written, current.clientWidth), latest.current, current);
    };
    make();
    const resized = new ResizeObserver(() => {
      chart.current?.setSize({ width: current.clientWidth, height: HEIGHT });
    });
    resized.observe(current);
    DARK.addEventListener('change', make);
    return () => {
      resized.disconnect();
      DARK.removeEventListener('change', make);
      chart.current?.destroy();
    };
  }, []);
  useEffect(() => chart.current?.setData(data), [times]);

  const words = lines.map(({ label, values }) => `${label} ${said(values.at(-1) ?? null, written)}`).join(', ');
  return html`<figure class="chart">
    <figcaption>
      <span class="chart-title">${title}</span>
      <span class="chart-keys">
        ${lines.map(
          ({ label, colour, values }) =>
            html`<span class="chart-key"><i class=${`swatch swatch${colour}`}></i>${label} <b>${said(values.at(-1) ?? null, written)}</b></span>`,
        )}
      </span>
    </figcaption>
    <div class="chart-place" ref=${place} role="img" aria-label="${title}, now: ${words}"></div>
  </figure>`;
}

function said(value: number | null, written: (value: number) => string): string {
  return value === null ? '–' : written(value);
}

function options(lines: readonly Line[], written: (value: number) => string, width: number): uPlot.Options {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string): string => style.getPropertyValue(name).trim();
  const axis: uPlot.Axis = {
    stroke: colour('--soft'),
    grid: { stroke: colour('--edge'), width: 1 },
    ticks: { show: false },
    font: '11px system-ui, sans-serif',
  };
  return {
    width: Math.max(width, 1),
    height: HEIGHT,
    legend: { show: false },
    cursor: { show: false },
    padding: [8, 8, 0, 0],
    scales: { y: { range: (_chart, _min, max) => [0, max > 0 ? max * 1.1 : 1] } },
    axes: [
      { ...axis, space: 70, size: 26, values: (_chart, ticks) => ticks.map((tick) => clock(tick * 1000)) },
      { ...axis, size: 58, values: (_chart, ticks) => ticks.map((tick) => written(tick)) },
    ],
    series: [
      {},
      ...lines.map(({ label, colour: name }) => ({
        label,
        stroke: colour(name),
        width: 1.5,
        spanGaps: true,
        points: { show: false },
      })),
    ],
  };
}
