/** Checks of paired hosts: does mail reach each, over the LAN or a relay, and does each know this host's key? */
import { assertNever } from '../../lib/assert-never.ts';
import { isIP } from 'node:net';
import { parseListenAddress } from '../../lib/listen-address.ts';
import { shellWord } from '../../lib/shell-word.ts';
import { HOP_SKEW_MAX_MS } from '../../protocol/hop.ts';
import { DAY_MS } from '../../protocol/limits.ts';
import { displayFingerprint, parsePublicKey } from '../../protocol/public-key.ts';
import { broken, note, ok } from '../../lib/check.ts';
import type { Check } from '../contract/daemon.ts';
import type { HostContext } from '../base/context.ts';
import type { PeerRow } from '../core/rows.ts';
import { agoText, countText, spanText } from '../core/spans.ts';
import { LanCallFailed, type LanClient } from '../lan/lan-client.ts';
import { currentKey } from '../peers/peers.ts';

/** A larger difference between clocks is noted: hops are refused at 5 minutes. */
export const CLOCK_NOTE_MS = 30_000;

interface LanFacts {
  /** The configured address, `host:port`. */
  listen: string;
  /** The port that it listens at; null while it does not. */
  port: number | null;
}

export type PeerProbe =
  /** It accepted a signed request. `isDoubted`: it did not sign that it is at this address. */
  | { type: 'answered'; agents: number; aheadMs: number; isDoubted: boolean }
  | { type: 'no-address' }
  | { type: 'unreached'; reason: string }
  /** Another key answers at its address. */
  | { type: 'another-host'; fingerprint: string }
  /** It answers, but refuses this host. */
  | { type: 'refused'; code: string; reason: string };

export interface PeerFacts {
  host: string;
  address: string | null;
  reachedAtMs: number | null;
  /** The LAN reaches it, and yet the last mail to it failed there. */
  mailFails: boolean;
  /** Envelopes that neither the peer nor the relay has accepted yet. */
  waiting: number;
  /** Null exactly when none waits. */
  oldestAtMs: number | null;
  /** Those of them that the relay refused because the peer does not accept mail from this host. */
  refusedByList: number;
  /** Null when the daemon was not asked. */
  probe: PeerProbe | null;
  /** `carried`: the relay shows the peer's signed encryption key, and so accepts mail for it. */
  atRelay: 'carried' | 'absent' | 'not-seen' | 'no-relay';
}

/** Paired hosts need the listener. */
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
      return answeredCheck(subject, peer, probe, nowMs);
    case 'refused':
      return refusedCheck(subject, peer, probe, nowMs);
    case 'no-address':
      return outOfReachCheck(subject, peer, 'no address of it on the LAN is known', nowMs);
    case 'unreached':
      return outOfReachCheck(subject, peer, probe.reason, nowMs);
    case 'another-host':
      return outOfReachCheck(
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

function answeredCheck(
  subject: PeerSubject,
  peer: PeerFacts,
  { agents, aheadMs, isDoubted }: Extract<PeerProbe, { type: 'answered' }>,
  nowMs: number,
): Check {
  const answers = `answers at ${peer.address}`;
  if (peer.mailFails)
    return outOfReachCheck(subject, peer, `${answers}, and yet the last mail to it failed there`, nowMs);
  const sentence = `${answers}, ${countText(agents, 'agent')}${waitingText(peer, nowMs)}`;
  if (isDoubted) {
    const why = 'a tunnel or a router passes calls on to it, or something else answers there in its name';
    const mend = `lan.advertise in the config of ${peer.host} lets it prove this address`;
    const command = `poste peer address ${shellWord(peer.host)} <host:port>`;
    return note(subject, `${sentence}, but does not prove that it is there: ${why}; ${mend}`, command);
  }
  if (Math.abs(aheadMs) <= CLOCK_NOTE_MS) return ok(subject, sentence);
  return note(subject, `${sentence}; its clock and this one differ by ${spanText(Math.abs(aheadMs))}`, 'timedatectl');
}

function refusedCheck(
  subject: PeerSubject,
  peer: PeerFacts,
  { code, reason }: Extract<PeerProbe, { type: 'refused' }>,
  nowMs: number,
): Check {
  const waiting = waitingText(peer, nowMs);
  if (code === 'NOT_ENROLLED') {
    const sentence = `answers at ${peer.address} and is not paired with this host any more${waiting}`;
    return broken(subject, `${sentence}: pair again`, 'poste peer invite');
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

/** Normal for a remote host with a relay; otherwise it depends on whether mail waits. */
function outOfReachCheck(subject: PeerSubject, peer: PeerFacts, why: string, nowMs: number): Check {
  const waiting = waitingText(peer, nowMs);
  if (peer.refusedByList > 0) {
    const refused = `${countText(peer.refusedByList, 'message')} ${peer.refusedByList === 1 ? 'is' : 'are'} refused`;
    const refuses = 'over the relay it takes no mail from this host, as if it were not paired any more';
    const sentence = `${why}, and ${refuses}: ${refused}${waiting}`;
    return broken(subject, `${sentence}; pair again`, 'poste peer invite');
  }
  if (peer.atRelay === 'carried') return ok(subject, `${why}; its mail goes over the relay${waiting}`);
  const sentence = `${why}, and ${AT_RELAY[peer.atRelay]}; ${reachedText(peer, nowMs)}${waiting}`;
  const command = `poste peer address ${shellWord(peer.host)} <host:port>`;
  return peer.waiting > 0 ? broken(subject, sentence, command) : note(subject, sentence, command);
}

/** Paired hosts that are not known to have this host's present key. */
export interface OwnKeyFacts {
  /** The hosts that may not know it, and if each answers over the LAN. */
  unaware: { host: string; isAnswering: boolean }[];
  /** `shown`: the relay shows the rotations that lead them to it. */
  atRelay: 'shown' | 'not-shown' | 'not-seen' | 'no-relay';
}

const RECORD_AT_RELAY: Readonly<Record<Exclude<OwnKeyFacts['atRelay'], 'shown'>, string>> = {
  'not-shown': 'the relay shows no record of the change',
  'not-seen': 'the relay does not say whether it shows the record of the change',
  'no-relay': 'no relay is set',
};

/** After `poste host rotate-key`: which peers do not know the new key. No check when all know it. */
export function ownKeyCheck({ unaware, atRelay }: OwnKeyFacts): Check[] {
  if (unaware.length === 0) return [];
  const subject = { area: 'peers', id: 'own-key' } as const;
  const named = (hosts: OwnKeyFacts['unaware']): string => hosts.map(({ host }) => host).join(', ');
  const sentence = `not known to have this host's new key yet: ${named(unaware)}`;
  const away = unaware.filter(({ isAnswering }) => !isAnswering);
  const [first] = away;
  if (!first) return [note(subject, `${sentence}; the daemon sends it over the LAN by itself`)];
  if (atRelay === 'shown') {
    return [note(subject, `${sentence}; the relay shows them the signed record when mail goes either way`)];
  }
  const cut = `the LAN does not reach ${named(away)}, and ${RECORD_AT_RELAY[atRelay]}: mail waits until the LAN does`;
  return [broken(subject, `${sentence}; ${cut}`, `poste peer address ${shellWord(first.host)} <host:port>`)];
}

/** What a paired host said lately of its relays, or of those of this host, that two copies of a host may explain. */
export interface HomeFacts {
  host: string;
  /** It signed two documents of its relays with one number. */
  twinAtMs: number | null;
  /** It held a later document of this host than this host itself. `over`: a relay's address, or the LAN. */
  later: { atMs: number; over: string } | null;
}

/** A host that runs twice is worth knowing for so long. */
const COPIES_NOTED_MS = 30 * DAY_MS;

/** No check where there are no signs of it. Mail is safe: what comes twice is known. */
export function copyChecks(homes: readonly HomeFacts[], nowMs: number): Check[] {
  const isLate = (atMs: number): boolean => nowMs - atMs < COPIES_NOTED_MS;
  return homes.flatMap(({ host, twinAtMs, later }) => {
    const checks: Check[] = [];
    if (twinAtMs !== null && isLate(twinAtMs)) {
      const said = `showed two lists of its relays with one number, ${agoText(nowMs - twinAtMs)}`;
      checks.push(
        note(
          { area: 'peers', id: 'peer-copies', about: host },
          `${said}: two copies of that host may run; tell its owner`,
        ),
      );
    }
    if (later && isLate(later.atMs)) {
      const when = `${agoText(nowMs - later.atMs)} over ${later.over}`;
      const said = `held a later list of this host's relays than this host, ${when}`;
      const why = 'this host was set back to a copy, or runs twice, and may have forgotten a relay since';
      checks.push(note({ area: 'peers', id: 'own-copy', about: host }, `${said}: ${why}`, 'poste relay list'));
    }
    return checks;
  });
}

function reachedText({ reachedAtMs }: PeerFacts, nowMs: number): string {
  return reachedAtMs === null ? 'it was never reached' : `it was last reached ${agoText(nowMs - reachedAtMs)}`;
}

function waitingText({ waiting, oldestAtMs }: PeerFacts, nowMs: number): string {
  if (oldestAtMs === null) return '';
  const since = `for ${spanText(nowMs - oldestAtMs)}`;
  const age = waiting === 1 ? since : `the oldest ${since}`;
  return `; ${countText(waiting, 'message waits', 'messages wait')} for it, ${age}`;
}

export async function probePeer(context: HostContext, client: LanClient, peer: PeerRow): Promise<PeerProbe> {
  const { address } = peer;
  if (address === null) return { type: 'no-address' };
  try {
    const { publicKey } = currentKey(peer);
    const askedMs = context.nowMs();
    const { pubkey, now, isProven } = await client.provenHello({ address, publicKey });
    const aheadMs = Math.round((askedMs + context.nowMs()) / 2 - now);
    const shown = parsePublicKey(pubkey);
    if (shown && shown !== publicKey) return { type: 'another-host', fingerprint: displayFingerprint(shown) };
    const agents = await client.agents({ address, publicKey });
    // Only the host that advertises a name signs it.
    const isDoubted = !isProven && isIP(parseListenAddress(address)?.host ?? '') !== 0;
    return { type: 'answered', agents: agents.agents.length, aheadMs, isDoubted };
  } catch (error) {
    if (!(error instanceof LanCallFailed)) throw error;
    const { message: reason, code, isAnswered } = error;
    return isAnswered ? { type: 'refused', code, reason } : { type: 'unreached', reason };
  }
}
