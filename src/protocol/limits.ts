/** The limits of the protocol: the twelve settings that `GET /v2/relay/info` reports, and the fixed limits. */

export const HOUR_MS = 3_600_000;
export const DAY_MS = 86_400_000;

/** Exactly the documented members with their documented defaults. Sizes are in bytes. */
export const DEFAULT_LIMITS = {
  max_item_bytes: 524_288,
  max_batch: 200,
  max_pull: 500,
  max_pull_bytes: 8_388_608,
  max_targets: 64,
  /** Fractions of a day are allowed. */
  retention_days: 14,
  max_queue_items: 10_000,
  max_queue_bytes: 52_428_800,
  max_sender_items: 2_000,
  max_sender_bytes: 20_971_520,
  max_owner_items: 10_000,
  max_owner_bytes: 52_428_800,
};

export type Limits = typeof DEFAULT_LIMITS;

export function retentionMs(limits: Limits): number {
  return Math.round(limits.retention_days * DAY_MS);
}

/** Returns how long a dedup record outlives its item: retention + 7 days. */
export function dedupHorizonMs(limits: Limits): number {
  return retentionMs(limits) + 7 * DAY_MS;
}

/** Largest request body of the routes without a signed hop: challenge, enrol, rotate. */
export const SMALL_BODY_BYTES_MAX = 8_192;
/** Largest request body of the other routes, unless `RELAY_MAX_BODY` sets another. */
export const BODY_BYTES_MAX = 8_388_608;
/** Largest `wait` of a pull, in seconds. */
export const WAIT_SECONDS_MAX = 30;

/** A name with more live enrolments than this is crowded: look-ups by name treat it as ambiguous. */
export const CROWDED_NAME_ENROLMENTS = 16;

/** Sender keys in one published list. */
export const LISTED_SENDERS_MAX = 256;
/** So far may `iat` of a list or rotation, or `at` of an advertisement, be ahead of the relay's clock. */
export const ISSUED_AHEAD_MAX_MS = 300_000;

/** One host may publish this number of sender lists, and of encryption keys: each publication stays in the log. */
export const PUBLICATIONS_PER_HOUR = 60;

/** A deny entry is kept for this time: longer than any account token is valid. */
export const DENY_KEPT_MS = DAY_MS;

export const CHALLENGE_LIFETIME_MS = 300_000;
export const CHALLENGE_BYTES = 32;
export const OPEN_CHALLENGES_MAX = 10_000;
export const OPEN_CHALLENGES_PER_KEY_AND_ADDRESS = 4;

/** One host key, or one client address without a hop, may ask and show so many checkpoints, links and consistencies. */
export const LOG_READS_PER_MINUTE = 120;
/** All client addresses together may ask so often without a hop. */
export const LOG_READS_OF_STRANGERS_PER_SECOND = 50;

/**
 * Work that a relay does for a host beyond what the host brings and what is new to it, in units of about 20 µs of a
 * processor. For each push that a host may make in a minute it may ask for so many, and a client address for four times
 * as many.
 */
export const WORK_PER_PUSH = 100;
export const WORK_OF_ADDRESS = 4;
/** A request that brings and gets nothing new. */
export const WORK_OF_REQUEST = 10;
/** An item that is moved to another key. */
export const WORK_OF_MOVED_ITEM = 10;
/** A page that was handed over before costs one for each item, and one for so many of its bytes. */
export const PAGE_BYTES_A_WORK = 4_096;
/** One for so many places where an item may be known, beyond those of hosts that changed their keys a few times. */
export const PLACES_A_WORK = 8;

export const HEARTBEAT_EVERY_MS = 30_000;
/** If the stored heartbeat is older than this at startup, the relay begins a new epoch. */
export const HEARTBEAT_STALE_MS = 600_000;

/** The label of an invite that an operator makes may have this length. */
export const INVITE_LABEL_CHARACTERS_MAX = 100;
export const INVITE_LIFETIME_MIN_MS = 60_000;
export const INVITE_LIFETIME_MAX_MS = 365 * DAY_MS;
