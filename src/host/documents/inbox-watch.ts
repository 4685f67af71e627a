/** What is unread in a mailbox, and the wait until it is something else. */
import { type Static, Type } from 'typebox';
import { InboxResult, MessageSummary } from './mail.ts';

/** A wait ends after this long, and may be asked for again. */
export const INBOX_WAIT_MS_MAX = 55_000;
/** How many of the unread messages are shown, the newest first. */
export const UNREAD_SHOWN_MAX = 20;

export const WatchInboxInput = Type.Object(
  {
    mark: Type.Optional(
      Type.String({ maxLength: 64, description: 'mark of the answer before. Without it the answer comes at once.' }),
    ),
    wait_ms: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: INBOX_WAIT_MS_MAX,
        description: 'How long to wait for something else to be unread than at mark.',
      }),
    ),
  },
  { additionalProperties: false },
);
export type WatchInboxInput = Static<typeof WatchInboxInput>;

/** Nothing is marked by it: neither as read nor as told. */
export const WatchInboxResult = Type.Object({
  /** Names what is unread: the same mark, the same messages. */
  mark: Type.String(),
  notice: InboxResult.properties.notice,
  unread: Type.Integer(),
  total: Type.Integer(),
  /** The newest first, at most `UNREAD_SHOWN_MAX`. */
  summaries: Type.Array(MessageSummary),
});
export type WatchInboxResult = Static<typeof WatchInboxResult>;
