/** Refusals of operations: a value with a closed code, a sentence for people, and details for programs. */

/** DO NOT CHANGE a code: programs switch on them. */
const REFUSAL_CODES = [
  'BAD_INPUT', // details.field names the member
  'UNKNOWN_RECIPIENT', // details.recipients: [{to, suggestions}]
  'NO_SUCH_AGENT', // details.suggestions
  'NAME_TAKEN',
  'NO_SUCH_MESSAGE',
  'AMBIGUOUS_ID', // details.candidates: the ids that the first characters may mean
  'NO_SUCH_SESSION',
  'IDEMPOTENCY_CONFLICT', // the key was used for other content
  'TOO_LARGE',
  'NO_SUCH_PEER',
  'ALREADY_PAIRED',
  'PAIRING_REFUSED',
  'PEER_UNREACHABLE',
  'NO_SUCH_ROW',
  'NOT_CANCELLABLE',
  'NOT_CONFIGURED',
  'NO_RELAY', // none is set
  'RELAY_KEY_MISMATCH', // details.shown and details.pinned or details.expected: fingerprints
  'RELAY_UNREACHABLE',
  'RELAY_KNOWN', // details.number: the relay that has this key, or this address
  'RELAY_NEEDED', // details.relays: numbers and addresses of those that there are
  'TOO_MANY_RELAYS', // details.max
  'MOVE_UNDER_WAY', // details.url: the relay that this host moves to
  'NO_MOVE', // none is under way
  'UNAVAILABLE', // may be tried again
] as const;
export type RefusalCode = (typeof REFUSAL_CODES)[number];

export interface Refusal {
  type: 'refusal';
  code: RefusalCode;
  /** One sentence for people: what is wrong and what to do. */
  message: string;
  details: Readonly<Record<string, unknown>>;
}

export function refusal(code: RefusalCode, message: string, details: Readonly<Record<string, unknown>> = {}): Refusal {
  return { type: 'refusal', code, message, details };
}

export function isRefusal(value: unknown): value is Refusal {
  return typeof value === 'object' && value !== null && (value as { type?: unknown }).type === 'refusal';
}
