/** What the console shows of the check of rows against the log. Findings are untrusted: show them as text only. */
import Type, { type Static } from 'typebox';
import { CLOSED, Count, Time, orNull } from './shapes.ts';

const Text = Type.String();

/** The check of the rows against the log, since the start. */
export const RowsCheckShown = Type.Object(
  {
    last: Type.Union(
      [
        Type.Object(
          {
            at: Time,
            rows: Count,
            found: Type.Integer({ minimum: 0, description: 'what was not as the log gives it' }),
            findings: Type.Array(Text, { description: 'the first of them: which row, and what is wrong with it' }),
          },
          CLOSED,
        ),
        Type.Null(),
      ],
      { description: 'the last one that came to its end; null before any' },
    ),
    failed_at: Type.Union([Time, Type.Null()], {
      description: 'when one failed; null when a whole one came after it, or none failed',
    }),
    under_way: Type.Union([Type.Object({ stage: Text, done: Count, of: orNull(Count) }, CLOSED), Type.Null()], {
      description: 'how far the one is that is under way',
    }),
  },
  CLOSED,
);
export type RowsCheckShown = Static<typeof RowsCheckShown>;
