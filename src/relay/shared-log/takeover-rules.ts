/** Whether a node may take the lead of a shared log, and whether the epoch goes on when it does. */
import type { EpochReason } from '../core/event.ts';
import type { Durability } from './durability.ts';
import type { LogServer, LogState } from './shared-log.ts';

/** A node whose clock differs more from that of the server does not lead. */
export const CLOCK_OFF_MS = 60_000;

interface Own {
  holder: string;
  settings: Buffer;
  acceptsSettings: boolean;
  /** By how much this clock is ahead of that of the server. */
  offMs: number;
}

/** Why this node must not lead, as the end of a sentence; `undefined` when it may. */
export function obstacle({ settings, holder }: LogState, own: Own): string | undefined {
  if (Math.abs(own.offMs) > CLOCK_OFF_MS)
    return `its clock differs by ${Math.round(Math.abs(own.offMs) / 1000)} s from that of the server`;
  const isOther = settings.length > 0 && !settings.equals(own.settings);
  if (!isOther || holder === own.holder || own.acceptsSettings) return undefined;
  return `it was started with other settings than ${holder} (${settingsThatDiffer(settings, own.settings).join(', ')}): start both alike, or this one with --accept-settings`;
}

/** As the view of this node was found at the start. */
interface Proof {
  /** The tenure of this node that appended its last batch. */
  ledLast: string | undefined;
  /** Whether it has everything that was written to it, and its last batch is in the log. */
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
 * Why the epoch may not go on; `undefined` when it may. The log lies on the server that it lay on: it lost nothing. It
 * lies on another: then only a node can prove that it is whole that led last, and whose last batch is in it; or the
 * operator says that its storage loses nothing.
 */
export function epochFault(
  { term, tenure, ledOn, doubt }: LogState,
  server: LogServer,
  durability: Durability,
  { ledLast, isWhole }: Proof,
): EpochFault | undefined {
  if (doubt !== undefined) return { reason: 'log-in-doubt', sentence: `The log is in doubt (${doubt}).` };
  if (term === 0 || isSameServer(ledOn, server) || durability === 'storage') return undefined;
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
