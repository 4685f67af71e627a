/**
 * Draws what the relay did in the last minutes, live, or in another time of the last week, as small time charts: uPlot
 * in the colours of the style, as wide as its container. The latest values are also there as text.
 */
import type { VNode } from 'preact';
import { html } from 'htm/preact';
import { useEffect, useRef } from 'preact/hooks';
import type { ConsoleSample, ConsoleSamples } from '../../protocol/operator-documents.ts';
import { read } from '../shared/api.ts';
import { NO_VALUE, Time, Warning } from '../shared/components.ts';
import { useKept, useLoaded } from '../shared/use-loaded.ts';
import { CHART_RANGES, RECENT, type Range, RangeField, rangeQuery } from './range.ts';
import { samples } from './state.ts';
import uPlot from 'uplot';
import { DAY_MS, HOUR_MS } from '../../protocol/limits.ts';
import { count, duration, rate, time } from '../shared/format.ts';

/** A range is asked for so long after its last change. */
const CHOOSING_MS = 200;
/** A range that ends now is loaded again after so many samples. */
const RELOADED_EVERY = 15;

export function Charts(): VNode {
  const [range, setRange] = useKept<Range>('charts', 'range', RECENT);
  const live = samples.value;
  const isLive = range.kind === 'recent';
  const turn = range.kind === 'custom' || isLive ? 0 : Math.floor((live.at(-1)?.at ?? 0) / (RELOADED_EVERY * 2000));
  const load = async (last: ConsoleSamples | undefined): Promise<ConsoleSamples> =>
    isLive ? (last ?? { samples: [], first_at: null }) : read<ConsoleSamples>('samples', rangeQuery(range));
  const { value: loaded, problem } = useLoaded(load, [range, turn], { delayMs: CHOOSING_MS, keptAs: 'charts' });
  const all = isLive ? live : (loaded?.samples ?? []);
  return html`<section aria-label="Measurements">
    <form class="filters chart-range" onSubmit=${(event: Event) => event.preventDefault()}>
      <${RangeField} range=${range} change=${setRange} kinds=${CHART_RANGES} />
    </form>
    <${Warning} text=${problem} />
    ${isLive || !loaded ? null : html`<${SamplesNote} loaded=${loaded} />`}
    ${all.length > 0 && html`<${DrawnCharts} all=${all} key=${range.kind} />`}
    ${all.length === 0 && isLive && html`<p class="none">The first measurements come in a few seconds.</p>`}
  </section>`;
}

function SamplesNote({ loaded }: { loaded: ConsoleSamples }): VNode {
  const { samples: found, first_at: first } = loaded;
  if (first === null) return html`<p class="note">There are no measurements yet.</p>`;
  return html`<p class="note">
    ${found.length === 0 && 'There are no measurements of this time. '}The relay keeps them in memory for a week: the
    oldest is from <${Time} at=${first} />.
  </p>`;
}

function DrawnCharts({ all }: { all: readonly ConsoleSample[] }): VNode {
  const times = all.map(({ at }) => at);
  const line = (label: string, colour: string, value: (sample: ConsoleSample) => number | null) => ({
    label,
    colour,
    values: all.map(value),
  });
  return html`<div class="charts">
    <${Chart}
      title="Items a second"
      times=${times}
      unit="rate"
      lines=${[
        line('accepted', '--line-1', (one) => one.accepted_per_s),
        line('delivered', '--line-2', (one) => one.acked_per_s),
        line('rejected', '--line-3', (one) => one.rejected_per_s),
      ]}
    />
    <${Chart}
      title="Time of one write"
      times=${times}
      unit="duration"
      lines=${[
        line('half of them within', '--line-1', (one) => one.commit_p50_ms),
        line('99 % within', '--line-3', (one) => one.commit_p99_ms),
      ]}
    />
    <${Chart}
      title="Items waiting"
      times=${times}
      unit="count"
      lines=${[line('all queues', '--line-1', (one) => one.queue_items)]}
    />
    <${Chart}
      title="Longest wait"
      times=${times}
      unit="duration"
      lines=${[line('oldest item', '--line-2', (one) => one.oldest_item_age_ms)]}
    />
  </div>`;
}

/**
 * The kind of the values: it decides how they are formatted, and the steps of the axis. Durations are in milliseconds.
 */
type Unit = 'rate' | 'count' | 'duration';

const FORMATS: Readonly<Record<Unit, (value: number) => string>> = { rate, count, duration };
const SECOND_MS = 1000;
const MINUTE_MS = 60 * SECOND_MS;
const STEPS: Readonly<Record<Unit, number[]>> = {
  rate: decimalSteps(-2, 9),
  // Items are whole.
  count: decimalSteps(0, 12),
  duration: [
    ...decimalSteps(-3, 2),
    ...[1, 2, 5, 10, 15, 30].map((size) => size * SECOND_MS),
    ...[1, 2, 5, 10, 15, 30].map((size) => size * MINUTE_MS),
    ...[1, 2, 3, 6, 12].map((size) => size * HOUR_MS),
    ...[1, 2, 5, 10, 20, 50, 100, 200, 500].map((size) => size * DAY_MS),
  ],
};

interface Line {
  label: string;
  /** A colour of the style: `--line-1`. */
  colour: string;
  /** `null` where the value is unknown. */
  values: readonly (number | null)[];
}

interface ChartProps {
  title: string;
  /** Milliseconds. */
  times: readonly number[];
  lines: readonly Line[];
  unit: Unit;
}

const HEIGHT = 150;
const DARK = matchMedia('(prefers-color-scheme: dark)');

function Chart({ title, times, lines, unit }: ChartProps): VNode {
  const latestOf = (values: Line['values']): string => formatOrNone(values.at(-1) ?? null, FORMATS[unit]);
  const container = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot>(null);
  const data = [times.map((at) => at / 1000), ...lines.map(({ values }) => [...values])] as uPlot.AlignedData;
  const latest = useRef(data);
  latest.current = data;

  useEffect(() => {
    const { current } = container;
    if (!current) return undefined;
    const make = (): void => {
      chart.current?.destroy();
      chart.current = new uPlot(options(lines, unit, current.clientWidth), latest.current, current);
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

  const texts = lines.map(({ label, values }) => `${label} ${latestOf(values)}`).join(', ');
  return html`<figure class="chart">
    <figcaption>
      <span class="chart-title">${title}</span>
      <span class="chart-keys">
        ${lines.map(
          ({ label, colour, values }) =>
            html`<span class="chart-key">
              <i class=${`swatch swatch${colour}`}></i>${label} <b>${latestOf(values)}</b>
            </span>`,
        )}
      </span>
    </figcaption>
    <div class="chart-place" ref=${container} role="img" aria-label="${title}, now: ${texts}"></div>
  </figure>`;
}

/** 1, 2 and 5 times each power of ten. */
function decimalSteps(fromPower: number, toPower: number): number[] {
  const powers = Array.from({ length: toPower - fromPower + 1 }, (_none, at) => fromPower + at);
  return powers.flatMap((power) => [1, 2, 5].map((size) => Number(`${size}e${power}`)));
}

function formatOrNone(value: number | null, format: (value: number) => string): string {
  return value === null ? NO_VALUE : format(value);
}

/** Writes as much of a time as the step between two marks needs. */
function tickText(atS: number, stepS: number): string {
  const text = time(atS * 1000);
  if (stepS >= DAY_MS / 1000) return text.slice(5, 10);
  return stepS >= HOUR_MS / 1000 ? text.slice(5, 16) : text.slice(11, stepS >= 60 ? 16 : 19);
}

function options(lines: readonly Line[], unit: Unit, width: number): uPlot.Options {
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
      {
        ...axis,
        space: 90,
        size: 26,
        values: (_chart, ticks, _at, _space, stepS) => ticks.map((tick) => tickText(tick, stepS)),
      },
      { ...axis, size: 58, incrs: STEPS[unit], values: (_chart, ticks) => ticks.map((tick) => FORMATS[unit](tick)) },
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
