/** What the relay did in the last minutes, live, or in another time of the last week. */
import type { VNode } from 'preact';
import { html } from 'htm/preact';
import { useState } from 'preact/hooks';
import type { ConsoleSample, ConsoleSamples } from '../../protocol/operator-documents.ts';
import { read } from '../shared/api.ts';
import { Time, Warning } from '../shared/components.ts';
import { useLoaded } from '../shared/use-loaded.ts';
import { Chart } from './chart.ts';
import { CHART_RANGES, RECENT, type Range, RangeField, rangeQuery } from './range.ts';
import { samples } from './state.ts';

/** How long after its last change a range is asked for. */
const CHOOSING_MS = 200;
/** A range that ends now is loaded again after so many samples. */
const RELOADED_EVERY = 15;

export function Charts(): VNode {
  const [range, setRange] = useState<Range>(RECENT);
  const live = samples.value;
  const isLive = range.kind === 'recent';
  const turn = range.kind === 'custom' || isLive ? 0 : Math.floor((live.at(-1)?.at ?? 0) / (RELOADED_EVERY * 2000));
  const load = async (last: ConsoleSamples | undefined): Promise<ConsoleSamples> =>
    isLive ? (last ?? { samples: [], first_at: null }) : read<ConsoleSamples>('samples', rangeQuery(range));
  const { value: loaded, problem } = useLoaded(load, [range, turn], { delayMs: CHOOSING_MS });
  const all = isLive ? live : (loaded?.samples ?? []);
  return html`<section aria-label="Measurements">
    <form class="filters chart-range" onSubmit=${(event: Event) => event.preventDefault()}>
      <${RangeField} range=${range} change=${setRange} kinds=${CHART_RANGES} />
    </form>
    <${Warning} text=${problem} />
    ${isLive || !loaded ? null : html`<${Kept} loaded=${loaded} />`}
    ${all.length === 0 ? isLive && html`<p class="none">The first measurements come in a few seconds.</p>` : html`<${Drawn} all=${all} key=${range.kind} />`}
  </section>`;
}

function Kept({ loaded }: { loaded: ConsoleSamples }): VNode {
  const { samples: found, first_at: first } = loaded;
  if (first === null) return html`<p class="note">There are no measurements yet.</p>`;
  return html`<p class="note">
    ${found.length === 0 && 'There are no measurements of this time. '}The relay keeps them in memory for a week: the oldest
    is from <${Time} at=${first} />.
  </p>`;
}

function Drawn({ all }: { all: readonly ConsoleSample[] }): VNode {
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
