/** Looking for words in a mailbox. */
import { type Static, Type } from 'typebox';
import { MessageSummary } from './mail.ts';

export const SEARCH_CHARACTERS_MAX = 200;
export const SEARCH_LIMIT_MAX = 100;

export const SearchInput = Type.Object(
  {
    text: Type.String({
      minLength: 1,
      maxLength: SEARCH_CHARACTERS_MAX,
      description:
        'Words that are all to be in the sender, the subject or the body; upper and lower case are the same.',
    }),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: SEARCH_LIMIT_MAX })),
    cursor: Type.Optional(
      Type.String({ minLength: 1, maxLength: 200, description: 'next_cursor of the answer before.' }),
    ),
  },
  { additionalProperties: false },
);
export type SearchInput = Static<typeof SearchInput>;

export const SearchResult = Type.Object({
  notice: Type.String(),
  /** The newest first. */
  summaries: Type.Array(MessageSummary),
  /** How many messages this answer looked at. */
  looked_at: Type.Integer(),
  /** When the last one that it looked at was stored; null when it looked at none. */
  looked_back_to: Type.Union([Type.Integer(), Type.Null()]),
  /** Null when everything was looked at; one answer looks at a part of a large mailbox. */
  next_cursor: Type.Union([Type.String(), Type.Null()]),
});
export type SearchResult = Static<typeof SearchResult>;
