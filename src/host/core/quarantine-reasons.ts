/**
 * Why an item of a peer is kept in quarantine instead of being delivered or applied.
 *
 * Specification, "Receiving host rules", rules 2 and 4. DO NOT CHANGE a code: rows hold it and programs switch on it.
 */
export const QUARANTINE_REASONS = [
  'malformed', // no envelope, receipt or notice, or not in its one canonical form
  'id-mismatch', // it is not what its item id names
  'unknown-sender', // signed by a key of no paired host: it may be a new key that is not known here yet
  'unpaired', // signed by a host that was paired once
  'sender-mismatch', // brought by another host than the one that signed it
  'bad-signature',
  'wrong-from', // its sender does not live on the host that signed it
  'wrong-target', // it is for another host
  'no-seal-key', // sealed to a key that this host has not, or no longer
  'not-opened', // the seal is broken
  'bad-content', // what was sealed is no message
  'id-conflict', // its id came before with other content
  'unknown-agent', // no such agent lives here
  'unknown-message', // a receipt for what was never sent to that host
  'wrong-recipient', // a receipt for somebody whom the message did not go to there
  'wrong-hash', // a receipt for other bytes than were sent
] as const;
export type QuarantineReason = (typeof QUARANTINE_REASONS)[number];

/** What may be accepted when a key of a peer has been learned. */
export const REASONS_OF_UNKNOWN_KEYS: ReadonlySet<QuarantineReason> = new Set(['unknown-sender', 'unpaired']);
