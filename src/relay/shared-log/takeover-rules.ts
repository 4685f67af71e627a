/** The rules by which a node may lead a shared log, and by which the epoch goes on when it does. */
import type { Clock } from '../../lib/clock.ts';
import type { EpochReason } from '../core/event.ts';
import { heartbeatFault } from '../store/position.ts';
import type { Durability } from './durability.ts';
import type { LogServer, LogState } from './shared-log.ts';

/** A node whose clock differs more from that of the server does not lead. */
export const CLOCK_OFF_MS = 60_000;

/** Returns the answer of the server, and how far this clock is off its: 0 where the answer may be as old as it took. */
export async function clocked<T extends { nowMs: number }>(
  clock: Clock,
  ask: () => Promise<T>,
): Promise<T & { offMs: number }> {
  const sentMs = clock.nowMs();
  const answer = await ask();
  const [nowMs, atMs] = [clock.nowMs(), answer.nowMs];
  return { ...answer, offMs: Math.max(0, Math.min(sentMs, nowMs) - atMs, atMs - Math.max(sentMs, nowMs)) };
}

/** Says why a node with this clock must not lead, as the end of a sentence; `undefined` when it may. */
export function clockFault(offMs: number): string | undefined {
  if (offMs <= CLOCK_OFF_MS) return undefined;
  return `its clock differs by ${Math.round(offMs / 1000)} s from that of the server of the log`;
}

interface Own {
  holder: string;
  settings: Buffer;
  acceptsSettings: boolean;
  /** By how much this clock is off that of the server. */
  offMs: number;
}

/** Says why this node must not lead, as the end of a sentence; `undefined` when it may. */
export function obstacle({ settings, holder }: LogState, own: Own): string | undefined {
  const ofClock = clockFault(own.offMs);
  if (ofClock !== undefined) return ofClock;
  const isOther = settings.length > 0 && !settings.equals(own.settings);
  if (!isOther || holder === own.holder || own.acceptsSettings) return undefined;
  return (
    `it was started with other settings than ${holder} ` +
    `(${settingsThatDiffer(settings, own.settings).join(', ')}): start both alike, or ` +
    'this one with --accept-settings'
  );
}

/** The view of this node as it was found at the start. */
interface Proof {
  /** The tenure of this node that appended its last batch. */
  ledLast: string | undefined;
  /** True when it has everything that was written to it, and its last batch is in the log. */
  isWhole: boolean;
}

export interface EpochFault {
  reason: EpochReason;
  sentence: string;
}

export function isSameServer(one: LogServer, other: LogServer): boolean {
  return one.systemId === other.systemId && one.timeline === other.timeline;
}

/**
 * Says why the epoch may not go on, apart from a doubt; `undefined` when it may. Its heartbeat must be recent, as that
 * of any log: what was put back from an older copy says the same of itself as before. Then, where the log lies on the
 * server that it lay on, it lost nothing. Where it lies on another, only a node can prove that it is whole that led
 * last, and whose last batch is in it; or the operator says that its storage loses nothing.
 *
 * `seenMs` is when this node first saw the heartbeat, by the server's clock: what it saw while that was recent, and
 * sees again, was not put back, however long the server was away since.
 */
export function epochFault(
  { term, tenure, ledOn, beatMs }: LogState,
  server: LogServer,
  durability: Durability,
  { ledLast, isWhole }: Proof,
  seenMs: number,
): EpochFault | undefined {
  if (term === 0) return undefined;
  const stale = heartbeatFault(beatMs, seenMs, 'log');
  if (stale) return { reason: stale.reason, sentence: `${stale.clause[0]?.toUpperCase()}${stale.clause.slice(1)}.` };
  if (isSameServer(ledOn, server) || durability === 'storage') return undefined;
  const provesAll = ledLast !== undefined && ledLast === tenure && isWhole;
  if (durability === 'standby' && provesAll) return undefined;
  return {
    reason: 'log-server-changed',
    sentence: 'The log lies on another server than before, and nothing proves that this one has all of it.',
  };
}

/** The names of the settings that differ; none while one of the two is not known. */
export function settingsThatDiffer(one: Buffer, other: Buffer): string[] {
  if (one.length === 0 || other.length === 0) return [];
  const [before, now] = [one, other].map((bytes) => JSON.parse(bytes.toString()) as Record<string, unknown>);
  const names = new Set([...Object.keys(before ?? {}), ...Object.keys(now ?? {})]);
  return [...names].filter((name) => JSON.stringify(before?.[name]) !== JSON.stringify(now?.[name]));
}
