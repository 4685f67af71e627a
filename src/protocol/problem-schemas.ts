/** The problem document of every code, as a JSON Schema: what `problemDocument` makes, and no member more. */
import Type, { type TProperties, type TSchema } from 'typebox';
import { PROBLEMS, type ProblemCode } from './problem.ts';
import { CLOSED, EpochText, Seq, Time } from './shapes.ts';

/** What a code adds to the members that every problem has. */
const ADDED: Partial<Record<ProblemCode, TProperties>> = {
  BAD_ACK: { head_seq: Seq },
  CLOCK_SKEW: { now: Time },
  ENROL_REFUSED: { reason: Type.Optional(Type.String({ description: 'the word of the authority' })) },
  EPOCH_CHANGED: { epoch: EpochText },
};

export function problemSchema(code: ProblemCode): TSchema {
  const { status, title } = PROBLEMS[code];
  return Type.Object(
    {
      type: Type.Literal('about:blank'),
      title: Type.Literal(title),
      status: Type.Literal(status),
      detail: Type.String({ minLength: 1, description: 'for people' }),
      code: Type.Literal(code),
      ...ADDED[code],
    },
    CLOSED,
  );
}
