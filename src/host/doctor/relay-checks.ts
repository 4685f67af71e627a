/**
 * Checks of the relay: whether it is the pinned one, knows this host's present keys and senders, and delivers its
 * queue.
 *
 * Pure. Every probe has its own outcome: a failed one does not affect the others.
 */
import { assertNever } from '../../lib/assert-never.ts';
import { HOP_SKEW_MAX_MS } from '../../protocol/hop.ts';
import { DAY_MS } from '../../protocol/limits.ts';
import { isoSecond } from '../../protocol/time.ts';
import { shellWord } from '../../lib/shell-word.ts';
import type { RelayProofSource } from '../core/relay-rows.ts';
import { broken, note, ok } from '../../lib/check.ts';
import type { Check, CheckId } from '../contract/daemon.ts';
import type { HostKey } from '../core/rows.ts';
import { CLOCK_NOTE_MS } from './peer-checks.ts';
import { TWO_CAUSES } from '../core/evidence-text.ts';
import { agoText, countText, spanText } from '../core/spans.ts';
import { OPERATORS_KEY } from '../relay/owners-relays.ts';
import type { WitnessFact } from '../relay/relay-witnesses.ts';

/** The outcome of one probe; `reason` is a clause. */
export type ProbeResult<T> = { type: 'seen'; value: T } | { type: 'failed'; reason: string; code?: string };

/** The outcome of a probe that is left out when an earlier one showed that it is of no use. */
export type Probed<T> = ProbeResult<T> | { type: 'skipped' };

export interface RelayCheckFacts {
  url: string;
  /** Of a relay that is one of several. */
  among?: {
    /** Another one can be used now. */
    isOtherWell: boolean;
    /** Since it was last heard, as far as this daemon knows. */
    silentMs: number;
  };
  /** It speaks only version 1, which has few things to ask for. */
  isV1: boolean;
  proof: RelayProofSource | null;
  /** Fingerprints. `seen`: another key that it showed, and that the owner has not confirmed. */
  pinned: string;
  seen: { fingerprint: string; atMs: number } | null;
  /** The daemon's own state. */
  known: {
    epoch: string | null;
    problem: { code: string; message: string; atMs: number } | null;
    /** When a hosted enrolment expires. */
    validUntilMs: number | null;
    isCrowded: boolean;
    receivedThrough: number;
    /** Days for which it keeps items; null before it said so. */
    retentionDays: number | null;
    /** Until then mail takes another one, for a notice of it before its time; 0 for none. */
    avoidedUntilMs: number;
  };
  /** A v1 relay shows neither epoch nor clock. */
  info: ProbeResult<{ fingerprint: string; epoch: string | null; aheadMs: number | null }>;
  /** `proven`: the pinned key signed a checkpoint of its log, in the epoch that it shows. */
  signedLog: Probed<'proven' | 'not-signed' | 'another-epoch'>;
  /** Its record of this host; null when it has none. */
  you: Probed<{ headSeq: number; ackedThrough: number } | null>;
  /** The encryption key that it shows for this host. */
  encKey: Probed<'own' | 'none' | 'another' | 'not-signed'>;
  /** `as-paired`: its list of accepted senders is the list of paired hosts. */
  senders: Probed<'as-paired' | 'another' | 'not-published'>;
  /** The number of items that wait there; `more` when not all were counted. */
  queue: Probed<{ items: number; more: boolean }>;
  /** Of the witnesses that the owner named. */
  witnesses: Probed<readonly WitnessFact[]>;
  /** What the owner has not dismissed: what the relay did, and whether its signatures show two histories. */
  evidence: readonly { number: number; clause: string; isTwoHistories: boolean }[];
}

/** `isNeeded`: a paired host cannot be reached without a relay. */
export function noRelayCheck(isNeeded: boolean): Check {
  const subject = { area: 'relay', id: 'relay' } as const;
  if (!isNeeded) return ok(subject, 'none is set: mail goes over the LAN alone');
  return note(subject, 'none is set, and the LAN does not reach every paired host', 'poste relay set <url>');
}

export function relayChecks(facts: RelayCheckFacts, nowMs: number): Check[] {
  const isAnother = facts.info.type === 'seen' && facts.info.value.fingerprint !== facts.pinned;
  // Only the key matters when it is another one.
  if (isAnother) return [...reachCheck(facts), keyCheck(facts)];
  return [
    ...reachCheck(facts),
    keyCheck(facts),
    ...epochCheck(facts),
    ...evidenceChecks(facts),
    ...witnessChecks(facts, nowMs),
    ...clockCheck(facts),
    ...retentionCheck(facts),
    ...avoidedCheck(facts, nowMs),
    ...enrolmentCheck(facts, nowMs),
    ...encKeyCheck(facts),
    ...sendersCheck(facts),
    ...queueCheck(facts),
    ...linkCheck(facts, nowMs),
  ];
}

function of(id: CheckId): Pick<Check, 'area' | 'id'> {
  return { area: 'relay', id };
}

function shownBy<T>(probe: Probed<T>): T | undefined {
  return probe.type === 'seen' ? probe.value : undefined;
}

/** Returns the check of a probe's finding. One that failed although others did not is a note; one left out is none. */
function probedCheck<T>(id: CheckId, what: string, probe: Probed<T>, checkOf: (value: T) => Check): Check[] {
  if (probe.type === 'skipped') return [];
  if (probe.type === 'seen') return [checkOf(probe.value)];
  return [note(of(id), `${what} could not be seen: ${probe.reason}`, 'poste doctor')];
}

/** One of several may be away for so long before somebody must act. */
const AWAY_MS = DAY_MS;

function reachCheck(facts: RelayCheckFacts): Check[] {
  const { url, among, info } = facts;
  if (info.type === 'seen') return [ok(of('relay-reach'), `${url} answers`)];
  if (among?.isOtherWell && among.silentMs < AWAY_MS) {
    const sentence = `${url} cannot be used: ${info.reason}; mail takes another relay meanwhile`;
    return [note(of('relay-reach'), sentence, 'poste relay list')];
  }
  // curl may trust other authorities.
  const isNotTrusted = info.code === 'CERTIFICATE_NOT_TRUSTED';
  const command = isNotTrusted
    ? `${again(facts)} --ca <file with the certificate of its authority>`
    : `curl -i ${shellWord(`${url}/v2/relay/info`)}`;
  return [broken(of('relay-reach'), `${url} cannot be used: ${info.reason}`, command)];
}

/** Specification, "Relay key pinning": a changed key is reported until the owner confirms it. */
function keyCheck(facts: RelayCheckFacts): Check {
  const { url, isV1, pinned, seen, info, signedLog } = facts;
  const subject = of('relay-key');
  const shown = info.type === 'seen' && info.value.fingerprint !== pinned ? info.value.fingerprint : seen?.fingerprint;
  if (shown !== undefined) {
    const sentence =
      `it shows the key ${shown} and not the pinned ${pinned}: ` +
      'it is not used until its operator tells you the new one';
    // Never suggest the shown key: an agent that follows the advice would confirm an impostor. Version 1 can name no
    // key.
    const command = isV1 ? 'poste relay unset' : `${again(facts)} --key ${OPERATORS_KEY}`;
    return broken(subject, sentence, command);
  }
  if (shownBy(signedLog) === 'not-signed') {
    const sentence =
      `it says that it has the pinned key ${pinned}, and its log is not signed by it: ` +
      `something else answers at ${url}`;
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
  if (shownBy(signedLog) === 'another-epoch') {
    return [note(subject, `it says the epoch ${epoch}, and its log is signed for another one`, 'poste doctor')];
  }
  if (known.epoch === null)
    return [note(subject, `${epoch}, which the daemon has not entered yet`, 'poste relay status')];
  if (known.epoch === epoch) return [ok(subject, epoch)];
  const sentence = `it began the epoch ${epoch} after ${known.epoch}: the daemon begins there anew by itself`;
  return [note(subject, sentence, 'poste relay status')];
}

function evidenceChecks({ isV1, evidence }: RelayCheckFacts): Check[] {
  const subject = of('relay-evidence');
  if (isV1) return [];
  if (evidence.length === 0) return [ok(subject, 'nothing that it signed contradicts what it signed before')];
  const proofs = evidence.filter(({ isTwoHistories }) => isTwoHistories);
  const words = evidence.filter(({ isTwoHistories }) => !isTwoHistories);
  return [
    ...proofs
      .slice(0, 1)
      .map(({ number, clause }) => broken(subject, `it ${clause}: ${TWO_CAUSES}${more(proofs)}`, show(number))),
    ...words.slice(0, 1).map(({ number, clause }) => note(subject, `it ${clause}${more(words)}`, show(number))),
  ];
}

function witnessChecks({ witnesses }: RelayCheckFacts, nowMs: number): Check[] {
  const subject = of('relay-witness');
  if (witnesses.type !== 'seen')
    return witnesses.type === 'skipped' ? [] : [note(subject, `not witnessed: ${witnesses.reason}`, 'poste doctor')];
  return witnesses.value.map(({ name, fault, lastMs, hasGrown }) => {
    if (fault === null) return ok(subject, `${name} cosigned its log ${agoText(nowMs - lastMs)}`);
    const sentence = `not witnessed by ${name}: ${fault}`;
    if (nowMs - lastMs < DAY_MS || !hasGrown) return note(subject, sentence, 'poste doctor');
    const since = `its log has grown since, and ${name} was seen to cosign it ${agoText(nowMs - lastMs)}`;
    return broken(subject, `${sentence}; ${since}, or never: ask the owner of the witness`, 'poste doctor');
  });
}

function more({ length }: readonly unknown[]): string {
  return length > 1 ? `; ${length - 1} more like this` : '';
}

function show(number: number): string {
  return `poste relay evidence show ${number}`;
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

/** A relay of several that accepted messages which the host got over another one alone. */
export interface RelayDoubt {
  /** The names of both relays and of the host. */
  relay: string;
  over: string;
  host: string;
  messages: number;
}

export function doubtCheck({ relay, over, host, messages }: RelayDoubt): Check {
  const accepted = `${relay} accepted ${countText(messages, 'message')} for ${host}`;
  const sentence = `${accepted} that it got over ${over} alone: mail for it takes ${relay} last for a day`;
  return note({ ...of('relay-doubt'), about: host }, sentence, 'poste relay list');
}

function avoidedCheck({ among, known: { avoidedUntilMs: untilMs } }: RelayCheckFacts, nowMs: number): Check[] {
  if (!among || nowMs >= untilMs) return [];
  const sentence =
    'it said that the time of a message was up before that can have been: ' +
    `mail for every host takes it last until ${isoSecond(untilMs)}`;
  return [note(of('relay-doubt'), sentence, 'poste relay list')];
}

/** A longer retention puts off what a sender is told of mail that nobody confirmed, by the relay's word alone. */
const RETENTION_DAYS_MAX = 60;

function retentionCheck({ known: { retentionDays } }: RelayCheckFacts): Check[] {
  if (retentionDays === null || retentionDays <= RETENTION_DAYS_MAX) return [];
  const sentence =
    `it keeps mail for ${countText(Math.floor(retentionDays), 'day')}: senders are told of mail that nobody ` +
    'confirms only after that';
  return [note(of('relay-retention'), sentence)];
}

/** A relay, and the keys of this host from the newest that it knew on; none where it is not known to know one. */
export interface KeysAtRelay {
  url: string;
  keys: readonly HostKey[];
}

/**
 * Relays that have not learned the present key of this host. One that goes on with a key that was given up as stolen,
 * or can be brought to one, lets its thief read and ack what is sealed for it there.
 */
export function ownKeyChecks(relays: readonly KeysAtRelay[], nowMs: number): Check[] {
  return relays.flatMap(({ url, keys }): Check[] => {
    const present = keys.at(-1);
    if (!present || keys.length === 1) return [];
    const named = relays.length > 1 ? { relay: url } : {};
    const taken = agoText(nowMs - present.sinceMs);
    const unknown = `${new URL(url).host} does not know the key that this host took ${taken}`;
    if (!keys.some(({ isStolen }) => isStolen))
      return [
        { ...note(of('relay-own-key'), `${unknown}: it learns it when it can be used`, 'poste relay list'), ...named },
      ];
    const sentence = `${unknown}: until it learns it, the thief of a former one can take the mail that waits there`;
    return [{ ...broken(of('relay-own-key'), sentence, 'poste relay list'), ...named }];
  });
}

function enrolmentCheck(facts: RelayCheckFacts, nowMs: number): Check[] {
  const { you, known, proof } = facts;
  const subject = of('relay-enrolment');
  const token = tokenCommand(facts);
  const { problem, validUntilMs, isCrowded } = known;
  return probedCheck('relay-enrolment', 'whether it knows this host', you, (record) => {
    if (!record) {
      const why = problem ? `: ${problem.message}` : '';
      return broken(subject, `it does not know this host${why}`, problem ? token : 'poste relay status');
    }
    if (validUntilMs !== null && nowMs >= validUntilMs) {
      const sentence = `the enrolment ran out ${agoText(nowMs - validUntilMs)} and was not renewed`;
      return broken(subject, sentence, proof ? 'poste relay status' : token);
    }
    const until = validUntilMs === null ? '' : `, for ${spanText(validUntilMs - nowMs)} more`;
    if (!isCrowded) return ok(subject, `it knows this host${until}`);
    return note(subject, `it knows this host${until}; many hosts have its name there, which older programs go by`);
  });
}

const ENC_KEY_FAULTS = {
  none: 'it hands out no key to seal to for this host: nobody can send here',
  another: 'it hands out another key to seal to than the one this host has now',
  'not-signed': 'the key to seal to that it hands out is not signed by this host',
} as const;

function encKeyCheck(facts: RelayCheckFacts): Check[] {
  const subject = of('relay-enc-key');
  return probedCheck('relay-enc-key', 'the key to seal to that it hands out', facts.encKey, (key) => {
    if (key === 'own') return ok(subject, "it hands out this host's own key to seal to");
    return broken(subject, ENC_KEY_FAULTS[key], anew(facts));
  });
}

function sendersCheck(facts: RelayCheckFacts): Check[] {
  const subject = of('relay-senders');
  return probedCheck('relay-senders', 'whose mail it takes for this host', facts.senders, (senders) => {
    switch (senders) {
      case 'as-paired':
        return ok(subject, 'it takes mail for this host from the paired hosts and nobody else');
      case 'another': {
        const sentence = 'it takes mail for this host by another list than the paired hosts of now';
        return broken(subject, sentence, anew(facts));
      }
      case 'not-published':
        return note(subject, 'it does not have the list of accepted senders of this host yet', 'poste relay status');
      default:
        return assertNever(senders);
    }
  });
}

function queueCheck({ queue, you, known }: RelayCheckFacts): Check[] {
  const subject = of('relay-queue');
  return probedCheck('relay-queue', 'what waits for this host', queue, ({ items, more }) => {
    // When that probe failed, this check cannot see it.
    const headSeq = shownBy(you)?.headSeq ?? Infinity;
    if (headSeq < known.receivedThrough) {
      return note(subject, 'it went back in time: the daemon reads its queue from the start', 'poste relay status');
    }
    if (items === 0) return ok(subject, 'nothing waits there for this host');
    const isOne = items === 1;
    const count = `${more ? 'more than ' : ''}${countText(items, 'item')}`;
    return note(subject, `${count} ${isOne ? 'waits' : 'wait'} there and ${isOne ? 'was' : 'were'} not taken yet`);
  });
}

/** Problems that go away by themselves once the relay works, as it does now. */
const PASSING: ReadonlySet<string> = new Set([
  'UNREACHABLE',
  'RATE_LIMITED',
  'UNAVAILABLE',
  'NOT_ENROLLED',
  'EPOCH_CHANGED',
]);

/** The daemon's own last problem; the daemon tries again by itself. */
function linkCheck(facts: RelayCheckFacts, nowMs: number): Check[] {
  const { known, info, you, seen } = facts;
  const { problem } = known;
  const isReported = seen !== null || info.type === 'failed' || shownBy(you) === null;
  if (!problem || isReported) return [];
  const { code, message, atMs } = problem;
  const subject = of('relay-link');
  const sentence = `the daemon could not use it ${agoText(nowMs - atMs)}: ${message}`;
  if (PASSING.has(code)) return [note(subject, `${sentence}; it tries again by itself`, 'poste relay status')];
  const isForToken = code === 'NO_TOKEN' || code === 'ENROL_REFUSED';
  return [broken(subject, sentence, isForToken ? tokenCommand(facts) : 'poste relay status')];
}

type Named = Pick<RelayCheckFacts, 'url'>;

/** The command that names the relay once more: one of several keeps its place and its role. */
function again({ url }: Named): string {
  return `poste relay set ${shellWord(url)}`;
}

function tokenCommand(facts: Named): string {
  return `${again(facts)} --token-file <file>`;
}

/** The command that has this host publish what the relay should have of it once more. */
function anew({ pinned, proof, ...facts }: RelayCheckFacts): string {
  const token =
    proof === null
      ? ''
      : proof.type === 'file'
        ? ` --token-file ${shellWord(proof.path)}`
        : ` --token-command ${shellWord(proof.command)}`;
  return `${again(facts)} --key ${pinned}${token}`;
}
