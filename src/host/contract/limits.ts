/**
 * Says how much the operations take and answer. Apart from their schemas, because commands need these numbers, and the
 * library of schemas takes as long to load as all of Node.js.
 */

export const TO_MAX = 20;
export const SUBJECT_CHARACTERS_MAX = 200;
export const BODY_CHARACTERS_MAX = 262_144;
export const REFS_MAX = 20;
/** The specification names no bound of one reference; something must. */
export const REF_CHARACTERS_MAX = 2000;
export const ADDRESS_CHARACTERS_MAX = 200;
export const IDEMPOTENCY_KEY_CHARACTERS_MAX = 100;
/** An idempotency key is remembered this long. */
export const IDEMPOTENCY_MS = 30 * 86_400_000;
/** One message may go to this number of concrete agents, groups expanded. */
export const RECIPIENTS_MAX = 500;
/** A summary shows this number of addresses of a message's recipients. */
export const SHOWN_TO_MAX = 20;

export const LIST_LIMIT_MAX = 100;
export const READ_MAX = 20;
/** The bytes of bodies in one answer, when the input names no bound. */
export const READ_BYTES_DEFAULT = 65_536;
export const READ_BYTES_MAX = 1 << 20;

/** The most ids that an answer names for a text that may mean several. */
export const FOUND_MAX = 6;

/** The longest wait; a client then waits again. */
export const INBOX_WAIT_MS_MAX = 55_000;
/** One call of `mail_inbox` may wait this long; clients of MCP give a call 60 s. */
export const LIST_WAIT_SECONDS_MAX = 50;
/** An invitation to pair is open this long, and one answer about who accepts it may wait this long. */
export const INVITE_MS = 600_000;
export const PAIR_WAIT_MS_MAX = 20_000;
/** So many of the unread messages are shown, the newest first. */
export const UNREAD_SHOWN_MAX = 20;

export const SEARCH_CHARACTERS_MAX = 200;
/** The messages of a search that names no limit. */
export const SEARCH_LIMIT_DEFAULT = 50;

/** So many messages of one conversation are counted, the newest first. */
export const CONVERSATION_MESSAGES_MAX = 100;
export const PREVIEW_CHARACTERS_MAX = 160;

/** One answer shows this number of debts. */
export const DEBTS_SHOWN_MAX = 200;

export const OUTBOX_PAGE_MAX = 200;
export const QUARANTINE_PAGE_MAX = 200;

/** The relays that a host uses. */
export const RELAYS_MAX = 8;
/** The length of the authorities that a host trusts for its relay: twice the size of a bundle of all public ones. */
export const CA_CHARACTERS_MAX = 1 << 19;
