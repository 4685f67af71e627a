/** Measurements of a relay over time, as its console shows them. */
import Type, { type Static } from 'typebox';
import { CLOSED, Count, EpochText, Time, orNull } from './shapes.ts';

const Number = Type.Number();

/** Parameters of a query. */
export const SinceTime = Type.Optional(Type.Integer({ ...Time, description: 'at or after this time' }));
export const UntilTime = Type.Optional(Type.Integer({ ...Time, description: 'at or before this time' }));

/** Measurements of the relay, taken every few seconds. */
export const ConsoleSample = Type.Object(
  {
    at: Time,
    accepted_per_s: Number,
    acked_per_s: Number,
    rejected_per_s: Number,
    requests_per_s: Number,
    commit_p50_ms: orNull(Number),
    commit_p99_ms: orNull(Number),
    queue_items: Type.Integer(),
    queue_bytes: Type.Integer(),
    oldest_item_age_ms: orNull(Number),
    disk_free_bytes: Number,
    is_disk_low: Type.Boolean(),
    hosts: Count,
    waiting_pulls: Count,
    log_position: Count,
    epoch: EpochText,
    rss_bytes: Number,
  },
  CLOSED,
);
export type ConsoleSample = Static<typeof ConsoleSample>;

export const ConsoleSamplesQuery = Type.Object({ since: SinceTime, until: UntilTime });

export const ConsoleSamples = Type.Object(
  {
    samples: Type.Array(ConsoleSample, { description: 'of longer times merged: means of rates, else the worst' }),
    first_at: Type.Union([Time, Type.Null()], { description: 'the oldest that there is: none outlives a restart' }),
  },
  CLOSED,
);
export type ConsoleSamples = Static<typeof ConsoleSamples>;
