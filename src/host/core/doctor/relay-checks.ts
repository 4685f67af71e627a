/**
 * Whether the relay that this host uses is the pinned one, knows this host as it is now, and hands over what it holds.
 *
 * Pure. Every look has its own outcome: one that failed says so, and says nothing of the others.
 */
import { HOP_SKEW_MAX_MS } from '../../../protocol/hop.ts';
import { shellWord } from '../../../protocol/shell-word.ts';
import type { RelayProofSource } from '../rows.ts';
import { type Check, type CheckId, type Subject, broken, note, ok } from './check.ts';
import { CLOCK_NOTE_MS } from './peer-checks.ts';
import { agoText, countText, spanText } from './words.ts';

/** One look: what it showed, why it did not, or that it was of no use after another. `reason` is a clause. */
export type Looked<T> = { type: 'seen'; value: T } | { type: 'failed'; reason: string } | { type: 'not-looked' };

export interface RelayCheckFacts {
  url: string;
  /** It speaks version 1 alone, in which it can be asked for little. */
  isV1: boolean;
  proof: RelayProofSource | null;
  /** Fingerprints. `seen`: one that it showed and that nobody has confirmed. */
  pinned: string;
  seen: { fingerprint: string; atMs: number } | null;
  /** As the daemon knows it. */
  known: {
    epoch: string | null;
    problem: { code: string; message: string; atMs: number } | null;
    /** When a hosted enrolment runs out. */
    validUntilMs: number | null;
    isCrowded: boolean;
    receivedThrough: number;
  };
  /** In v1 neither epoch nor clock is told. */
  info: Looked<{ fingerprint: string; epoch: string | null; aheadMs: number | null }>;
  /** Whether a checkpoint of its log is signed by the pinned key, and of the epoch that it says. */
  signedLog: Looked<'proven' | 'not-signed' | 'another-epoch'>;
  /** What it says of this host; null when it does not know it. */
  you: Looked<{ headSeq: number; ackedThrough: number } | null>;
  /** The key to seal to that it hands out for this host. */
  encKey: Looked<'own' | 'none' | 'another' | 'not-signed'>;
  /** Whose mail it takes for this host, beside who is paired. */
  senders: Looked<'as-paired' | 'another' | 'not-published'>;
  /** What waits there; `more` when there is more than was counted. */
  queue: Looked<{ items: number; more: boolean }>;
}

/** `isNeeded`: a paired host is reached by nothing else. */
export function noRelayCheck(isNeeded: boolean): Check {
  const subject = { area: 'relay', id: 'relay' } as const;
  if (!isNeeded) return ok(subject, 'none is set: mail goes over the LAN alone');
  return note(subject, 'none is set, and the LAN does not reach every paired host', 'poste relay set <url>');
}

export function relayChecks(facts: RelayCheckFacts, nowMs: number): Check[] {
  const isAnother = facts.info.type === 'seen' && facts.info.value.fingerprint !== facts.pinned;
  // What another relay says besides its key is of no use.
  if (isAnother) return [...reachCheck(facts), keyCheck(facts)];
  return [
    ...reachCheck(facts),
    keyCheck(facts),
    ...epochCheck(facts),
    ...clockCheck(facts),
    ...enrolmentCheck(facts, nowMs),
    ...encKeyCheck(facts),
    ...sendersCheck(facts),
    ...queueCheck(facts),
    ...linkCheck(facts, nowMs),
  ];
}

function of(id: CheckId): Subject {
  return { area: 'relay', id };
}

/** For a look that failed where others did not. */
function unseen(id: CheckId, what: string, reason: string): Check {
  return note(of(id), `${what} could not be seen: ${reason}`, 'poste doctor');
}

function reachCheck({ url, info }: RelayCheckFacts): Check[] {
  if (info.type === 'not-looked') return [];
  if (info.type === 'seen') return [ok(of('relay-reach'), `${url} answers`)];
  const command = `curl -i ${shellWord(`${url}/v2/relay/info`)}`;
  return [broken(of('relay-reach'), `${url} cannot be used: ${info.reason}`, command)];
}

/** Specification, "Relay key pinning": a changed key is reported until the owner confirms it. */
function keyCheck({ url, isV1, pinned, seen, info, signedLog }: RelayCheckFacts): Check {
  const subject = of('relay-key');
  const shown = info.type === 'seen' && info.value.fingerprint !== pinned ? info.value.fingerprint : seen?.fingerprint;
  if (shown !== undefined) {
    const sentence = `it shows the key ${shown} and not the pinned ${pinned}: it is not used until you confirm the new one with its operator`;
    const word = shellWord(url);
    // In version 1 no key can be named.
    const command = isV1 ? `poste relay unset && poste relay set ${word}` : `poste relay set ${word} --key ${shown}`;
    return broken(subject, sentence, command);
  }
  if (signedLog.type === 'seen' && signedLog.value === 'not-signed') {
    const sentence = `it says that it has the pinned key ${pinned}, and its log is not signed by it: something else answers at ${url}`;
    return broken(subject, sentence, `curl -i ${shellWord(`${url}/v2/relay/log/checkpoint`)}`);
  }
  if (isV1) return note(subject, `it speaks only version 1, which proves no key: it showed ${pinned} when it was set`);
  if (info.type !== 'seen') return ok(subject, `${pinned} is pinned`);
  const proven = signedLog.type === 'seen' ? ', and its log is signed by it' : '';
  return ok(subject, `it is the pinned ${pinned}${proven}`);
}

function epochCheck({ info, known, signedLog }: RelayCheckFacts): Check[] {
  const epoch = info.type === 'seen' ? info.value.epoch : null;
  if (epoch === null) return [];
  const subject = of('relay-epoch');
  if (signedLog.type === 'seen' && signedLog.value === 'another-epoch') {
    return [note(subject, `it says the epoch ${epoch}, and its log is signed for another one`, 'poste doctor')];
  }
  if (known.epoch === null)
    return [note(subject, `${epoch}, which the daemon has not entered yet`, 'poste relay status')];
  if (known.epoch === epoch) return [ok(subject, epoch)];
  const sentence = `it began the epoch ${epoch} after ${known.epoch}: the daemon begins there anew by itself`;
  return [note(subject, sentence, 'poste relay status')];
}

function clockCheck({ info }: RelayCheckFacts): Check[] {
  const aheadMs = info.type === 'seen' ? info.value.aheadMs : null;
  if (aheadMs === null) return [];
  const subject = of('relay-clock');
  const offMs = Math.abs(aheadMs);
  if (offMs <= CLOCK_NOTE_MS)
    return [ok(subject, `this clock and the relay's agree within ${spanText(CLOCK_NOTE_MS)}`)];
  const sentence = `this clock is ${spanText(offMs)} ${aheadMs > 0 ? 'ahead of' : 'behind'} the relay's`;
  if (offMs <= HOP_SKEW_MAX_MS) return [note(subject, sentence, 'timedatectl')];
  const refused = `${sentence}: it refuses whatever is off by more than ${spanText(HOP_SKEW_MAX_MS)}`;
  return [broken(subject, refused, 'timedatectl set-ntp true')];
}

function enrolmentCheck({ url, you, known, proof }: RelayCheckFacts, nowMs: number): Check[] {
  const subject = of('relay-enrolment');
  if (you.type === 'not-looked') return [];
  if (you.type === 'failed') return [unseen('relay-enrolment', 'whether it knows this host', you.reason)];
  const token = tokenCommand(url);
  if (!you.value) {
    const why = known.problem ? `: ${known.problem.message}` : '';
    return [broken(subject, `it does not know this host${why}`, known.problem ? token : 'poste relay status')];
  }
  const { validUntilMs, isCrowded } = known;
  if (validUntilMs !== null && nowMs >= validUntilMs) {
    const sentence = `the enrolment ran out ${agoText(nowMs - validUntilMs)} and was not renewed`;
    return [broken(subject, sentence, proof ? 'poste relay status' : token)];
  }
  const until = validUntilMs === null ? '' : `, for ${spanText(validUntilMs - nowMs)} more`;
  if (!isCrowded) return [ok(subject, `it knows this host${until}`)];
  return [note(subject, `it knows this host${until}; many hosts have its name there, which older programs go by`)];
}

function encKeyCheck(facts: RelayCheckFacts): Check[] {
  const { encKey } = facts;
  const subject = of('relay-enc-key');
  if (encKey.type === 'not-looked') return [];
  if (encKey.type === 'failed') return [unseen('relay-enc-key', 'the key to seal to that it hands out', encKey.reason)];
  switch (encKey.value) {
    case 'own':
      return [ok(subject, "it hands out this host's own key to seal to")];
    case 'none':
      return [broken(subject, 'it hands out no key to seal to for this host: nobody can send here', anew(facts))];
    case 'another':
      return [broken(subject, 'it hands out another key to seal to than the one this host has now', anew(facts))];
    case 'not-signed':
      return [broken(subject, 'the key to seal to that it hands out is not signed by this host', anew(facts))];
    default:
      return assertNever(encKey.value);
  }
}

function sendersCheck(facts: RelayCheckFacts): Check[] {
  const { senders } = facts;
  const subject = of('relay-senders');
  if (senders.type === 'not-looked') return [];
  if (senders.type === 'failed') return [unseen('relay-senders', 'whose mail it takes for this host', senders.reason)];
  switch (senders.value) {
    case 'as-paired':
      return [ok(subject, 'it takes mail for this host from the paired hosts and nobody else')];
    case 'another': {
      const sentence = 'it takes mail for this host by another list than the paired hosts of now';
      return [broken(subject, sentence, anew(facts))];
    }
    case 'not-published':
      return [note(subject, 'it was not told yet whose mail to take for this host', 'poste relay status')];
    default:
      return assertNever(senders.value);
  }
}

function queueCheck({ queue, you, known }: RelayCheckFacts): Check[] {
  const subject = of('relay-queue');
  if (queue.type === 'not-looked') return [];
  if (queue.type === 'failed') return [unseen('relay-queue', 'what waits for this host', queue.reason)];
  if (you.type === 'seen' && you.value && you.value.headSeq < known.receivedThrough) {
    return [note(subject, 'it went back in time: the daemon reads its queue from the start', 'poste relay status')];
  }
  const { items, more } = queue.value;
  if (items === 0) return [ok(subject, 'nothing waits there for this host')];
  const isOne = items === 1 && !more;
  const count = `${more ? 'more than ' : ''}${countText(items, 'item')}`;
  return [note(subject, `${count} ${isOne ? 'waits' : 'wait'} there and ${isOne ? 'was' : 'were'} not taken yet`)];
}

/** Gone by themselves when the relay is well, as it is now. */
const PASSING: ReadonlySet<string> = new Set([
  'UNREACHABLE',
  'RATE_LIMITED',
  'UNAVAILABLE',
  'NOT_ENROLLED',
  'EPOCH_CHANGED',
]);

/** What the daemon itself ran into; it tries again by itself. */
function linkCheck({ url, known, info, you, seen }: RelayCheckFacts, nowMs: number): Check[] {
  const { problem } = known;
  const isSaid = seen !== null || info.type === 'failed' || (you.type === 'seen' && !you.value);
  if (!problem || isSaid) return [];
  const { code, message, atMs } = problem;
  const subject = of('relay-link');
  const sentence = `the daemon could not use it ${agoText(nowMs - atMs)}: ${message}`;
  if (PASSING.has(code)) return [note(subject, `${sentence}; it tries again by itself`, 'poste relay status')];
  const isForToken = code === 'NO_TOKEN' || code === 'ENROL_REFUSED';
  return [broken(subject, sentence, isForToken ? tokenCommand(url) : 'poste relay status')];
}

function tokenCommand(url: string): string {
  return `poste relay set ${shellWord(url)} --token-file <file>`;
}

/** Makes the relay know this host as if it never had. */
function anew({ url, pinned, proof }: RelayCheckFacts): string {
  const token =
    proof === null
      ? ''
      : proof.type === 'file'
        ? ` --token-file ${shellWord(proof.path)}`
        : ` --token-command ${shellWord(proof.command)}`;
  return `poste relay unset && poste relay set ${shellWord(url)} --key ${pinned}${token}`;
}

function assertNever(value: never): never {
  throw new Error(`invariant: ${JSON.stringify(value)} is none of its kind`);
}
