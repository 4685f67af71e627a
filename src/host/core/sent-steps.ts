/** What is kept of the way of a message to one recipient. Pure. */
import type { SentRecipient, SentStep } from './rows.ts';

/** The oldest make room: a row must not grow with what others say. */
export const SENT_STEPS_MAX = 20;

/** A recipient of whom this was learned now. The same state again takes the place of what was said of it before. */
export function withStep(
  known: SentRecipient,
  { seq = known.seq, state, atMs }: SentStep & { seq?: number },
): SentRecipient {
  const before = known.steps.at(-1)?.state === state ? known.steps.slice(0, -1) : known.steps;
  return { ...known, state, atMs, seq, steps: [...before, { state, atMs }].slice(-SENT_STEPS_MAX) };
}
