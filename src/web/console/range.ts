/** A time to look at: one that ends now, or one of the user's choice. */
import type { VNode } from 'preact';
import { html } from 'htm/preact';
import { DAY_MS, HOUR_MS } from '../../protocol/limits.ts';
import { SelectField, onValue } from '../shared/fields.ts';
import { relayTime } from './state.ts';

type RangeKind = 'recent' | 'any' | 'hour' | 'day' | 'week' | 'custom';

export interface Range {
  kind: RangeKind;
  /** A custom range has it, in the form of `datetime-local`. */
  since: string;
  until: string;
}

export const RECENT: Range = { kind: 'recent', since: '', until: '' };
export const ANY_TIME: Range = { kind: 'any', since: '', until: '' };

const NAMES: Readonly<Record<RangeKind, string>> = {
  recent: 'last 15 minutes, live',
  any: 'any time',
  hour: 'last hour',
  day: 'last day',
  week: 'last week',
  custom: 'from … to …',
};
export const CHART_RANGES: readonly RangeKind[] = ['recent', 'hour', 'day', 'week', 'custom'];
export const LOG_RANGES: readonly RangeKind[] = ['any', 'hour', 'day', 'week', 'custom'];

const LENGTHS_MS: Readonly<Partial<Record<RangeKind, number>>> = { hour: HOUR_MS, day: DAY_MS, week: 7 * DAY_MS };

interface RangeFieldProps {
  range: Range;
  change: (range: Range) => void;
  kinds: readonly RangeKind[];
}

export function RangeField({ range, change, kinds }: RangeFieldProps): VNode {
  const field = (name: 'since' | 'until') => onValue((value) => change({ ...range, [name]: value }));
  return html`<${SelectField}
      label="Time"
      value=${range.kind}
      options=${kinds.map((kind) => [kind, NAMES[kind]])}
      change=${(kind: string) => change({ ...range, kind: kind as RangeKind })}
    />
    ${
      range.kind === 'custom' &&
      html`<label>
          <span>From</span>
          <input type="datetime-local" step="1" value=${range.since} onInput=${field('since')} />
        </label>
        <label>
          <span>To</span>
          <input type="datetime-local" step="1" value=${range.until} onInput=${field('until')} />
        </label>`
    }`;
}

/** The parameters of a request, by the clock of the relay. */
export function rangeQuery({ kind, since, until }: Range): Record<string, string> {
  const length = LENGTHS_MS[kind];
  if (length !== undefined) return { since: String(Math.max(0, relayTime() - length)) };
  if (kind !== 'custom') return {};
  return {
    ...(since !== '' && { since: String(new Date(since).getTime()) }),
    // To the end of that second.
    ...(until !== '' && { until: String(new Date(until).getTime() + 999) }),
  };
}
