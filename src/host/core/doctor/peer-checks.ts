/** Whether mail gets to each paired host, and over which way. Pure. */
import { HOP_SKEW_MAX_MS } from '../../../protocol/hop.ts';
import { shellWord } from '../../../protocol/shell-word.ts';
import { type Check, broken, note, ok } from './check.ts';
import { agoText, countText, spanText } from './words.ts';

/** Clocks that differ by more are worth a word: hops are refused at 5 minutes. */
export const CLOCK_NOTE_MS = 30_000;

export interface LanFacts {
  /** Where it is to listen, `host:port`. */
  listen: string;
  /** Where it does; null while it does not. */
  port: number | null;
}

export type PeerProbe =
  /** It took a signed request of this host. */
  | { type: 'answered'; agents: number; aheadMs: number }
  | { type: 'no-address' }
  | { type: 'unreached'; reason: string }
  /** Something answers at its address, under another key. */
  | { type: 'another-host'; fingerprint: string }
  /** It answers, and takes nothing from this host. */
  | { type: 'refused'; code: string; reason: string };

export interface PeerFacts {
  host: string;
  address: string | null;
  reachedAtMs: number | null;
  /** Envelopes that nobody has taken yet. */
  waiting: number;
  oldestAtMs: number | null;
  /** `null` where the daemon was not asked. */
  probe: PeerProbe | null;
  /** Whether the relay shows the host's own word for its encryption key, and so takes mail for it. */
  atRelay: 'carried' | 'absent' | 'not-seen' | 'no-relay';
}

/** The listener is needed by whoever is paired. */
export function lanChecks({ listen, port }: LanFacts, peers: number): Check[] {
  if (peers === 0) return [];
  const subject = { area: 'peers', id: 'lan-listener' } as const;
  if (port !== null) return [ok(subject, `paired hosts are listened for at port ${port}`)];
  const at = listen.slice(listen.lastIndexOf(':') + 1);
  const sentence = `${listen} cannot be listened at, so no paired host reaches this one over the LAN`;
  return [broken(subject, `${sentence}: end what holds it, or change lan.listen`, `ss -ltnp 'sport = :${at}'`)];
}

export function peerCheck(peer: PeerFacts, nowMs: number): Check {
  const { host, probe, address } = peer;
  const subject = { area: 'peers', id: 'peer', about: host } as const;
  if (!probe) return note(subject, `${reachedText(peer, nowMs)}${waitingText(peer, nowMs)}`);
  switch (probe.type) {
    case 'answered':
      return answered(subject, peer, probe, nowMs);
    case 'refused':
      return refused(subject, peer, probe, nowMs);
    case 'no-address':
      return outOfReach(subject, peer, 'no address of it on the LAN is known', nowMs);
    case 'unreached':
      return outOfReach(subject, peer, probe.reason, nowMs);
    case 'another-host':
      return outOfReach(
        subject,
        peer,
        `what answers at ${address} has the key ${probe.fingerprint} and not its own`,
        nowMs,
      );
    default:
      return assertNever(probe);
  }
}

type PeerSubject = { area: 'peers'; id: 'peer'; about: string };

function answered(
  subject: PeerSubject,
  peer: PeerFacts,
  { agents, aheadMs }: Extract<PeerProbe, { type: 'answered' }>,
  nowMs: number,
): Check {
  const sentence = `answers at ${peer.address}, ${countText(agents, 'agent')}${waitingText(peer, nowMs)}`;
  if (Math.abs(aheadMs) <= CLOCK_NOTE_MS) return ok(subject, sentence);
  return note(subject, `${sentence}; its clock and this one differ by ${spanText(Math.abs(aheadMs))}`, 'timedatectl');
}

function refused(
  subject: PeerSubject,
  peer: PeerFacts,
  { code, reason }: Extract<PeerProbe, { type: 'refused' }>,
  nowMs: number,
): Check {
  const waiting = waitingText(peer, nowMs);
  if (code === 'NOT_ENROLLED') {
    const sentence = `answers at ${peer.address} and is not paired with this host any more${waiting}`;
    return broken(subject, `${sentence}: pair again`, 'poste pair invite');
  }
  if (code === 'CLOCK_SKEW') {
    const sentence = `refuses this host: the two clocks differ by more than ${spanText(HOP_SKEW_MAX_MS)}${waiting}`;
    return broken(subject, sentence, 'timedatectl set-ntp true');
  }
  return broken(subject, `${reason}${waiting}`, 'poste outbox');
}

const AT_RELAY: Readonly<Record<Exclude<PeerFacts['atRelay'], 'carried'>, string>> = {
  absent: 'it is not at the relay either',
  'not-seen': 'the relay does not say whether it is there',
  'no-relay': 'no relay is set',
};

/** Normal for a host elsewhere that a relay carries for; otherwise it depends on whether anything waits. */
function outOfReach(subject: PeerSubject, peer: PeerFacts, why: string, nowMs: number): Check {
  const waiting = waitingText(peer, nowMs);
  if (peer.atRelay === 'carried') return ok(subject, `${why}; its mail goes over the relay${waiting}`);
  const sentence = `${why}, and ${AT_RELAY[peer.atRelay]}; ${reachedText(peer, nowMs)}${waiting}`;
  const command = `poste peers address ${shellWord(peer.host)} <host:port>`;
  return peer.waiting > 0 ? broken(subject, sentence, command) : note(subject, sentence, command);
}

function reachedText({ reachedAtMs }: PeerFacts, nowMs: number): string {
  return reachedAtMs === null ? 'it was never reached' : `it was last reached ${agoText(nowMs - reachedAtMs)}`;
}

function waitingText({ waiting, oldestAtMs }: PeerFacts, nowMs: number): string {
  if (waiting === 0 || oldestAtMs === null) return '';
  const since = `for ${spanText(nowMs - oldestAtMs)}`;
  return waiting === 1
    ? `; 1 message waits for it, ${since}`
    : `; ${waiting} messages wait for it, the oldest ${since}`;
}

function assertNever(value: never): never {
  throw new Error(`invariant: ${JSON.stringify(value)} is none of its kind`);
}
