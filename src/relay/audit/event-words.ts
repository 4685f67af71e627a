/** An event in words, for people, and as a document, for programs. What strangers chose stands in both as it is. */
import type { ItemId } from '../../protocol/names.ts';
import { type PublicKey, displayFingerprint } from '../../protocol/public-key.ts';
import { assertNever } from '../core/decision.ts';
import { type LogEntry, type RelayEvent, eventTimeMs } from '../core/event.ts';
import type { DenySelectors } from '../core/rows.ts';

/** How a host is called. */
export type HostCalled = (key: PublicKey) => string;

export const byFingerprint: HostCalled = displayFingerprint;

/** One line; ids, names and reasons in it are text of others. */
export function eventWords(event: RelayEvent, host: HostCalled): string {
  switch (event.type) {
    case 'RelayInitialised':
      return `relay ${host(event.relayPubkey)} began, epoch ${event.epoch}, schema ${event.schemaVersion}`;
    case 'EpochRotated':
      return `epoch ${event.epoch} began (${event.reason})`;
    case 'RelayRestored': {
      const { backupCreatedAtMs, backupLsn, backupEpoch, replacedLsn, replacedEpoch } = event;
      const replaced = replacedEpoch === null ? '' : `, in place of record ${replacedLsn} of epoch ${replacedEpoch}`;
      return `restored from the backup of ${timeWords(backupCreatedAtMs)} (record ${backupLsn} of epoch ${backupEpoch})${replaced}`;
    }
    case 'SeqFloorsRaised':
      return `no seq is given again: ${event.floors.map(({ targetPubkey, headSeq }) => `${host(targetPubkey)} goes on after ${headSeq}`).join(', ')}`;
    case 'SchemaMigrated':
      return `the rows were brought to schema ${event.schemaVersion}`;
    case 'CheckpointTaken':
      return `the ${event.rows} rows after record ${event.throughLsn} were kept: a replay may begin there`;
    case 'HostEnrolled': {
      const account = event.account === null ? '' : `, account ${event.account}`;
      return `${host(event.hostPubkey)} enrolled as ${event.hostName} by ${event.authorizedBy}${account}`;
    }
    case 'HostSeen':
      return `${host(event.hostPubkey)} made its first request`;
    case 'EnrolmentLapsed':
      return `the unused enrolment of ${host(event.hostPubkey)} gave way`;
    case 'HostRevoked':
      return `${host(event.hostPubkey)} was revoked (${event.cause})`;
    case 'KeyRotated': {
      const moving = event.moved === 0 ? '' : `; ${event.moved} items are to move, from seq ${event.firstSeq} on`;
      return `${host(event.oldPubkey)} went on as ${host(event.newPubkey)}${moving}`;
    }
    case 'ItemsMoved': {
      const { fromSeqs, firstSeq, left } = event;
      const from = `${fromSeqs.length} items moved from ${host(event.oldPubkey)} to ${host(event.newPubkey)}`;
      return `${from}, from seq ${firstSeq} on; ${left} left`;
    }
    case 'DenyEntryAdded':
      return `kept out until ${timeWords(event.untilMs)}: ${selectorWords(event)} (${event.reason})`;
    case 'InviteIssued':
      return `an invite was issued${event.label === '' ? '' : ` for ${event.label}`}, good until ${timeWords(event.expiresAtMs)}`;
    case 'InviteSpent':
      return `${host(event.hostPubkey)} used an invite`;
    case 'AdmissionsLapsed':
      return `${event.denied.length} deny entries and ${event.invites.length} invites lapsed`;
    case 'SendersPublished':
      return `${host(event.hostPubkey)} takes mail of ${event.senders.length} senders`;
    case 'EncKeyPublished':
      return `${host(event.hostPubkey)} published an encryption key`;
    case 'ItemAccepted': {
      const places = event.targets.map(({ hostPubkey, seq, bytes }) => `${host(hostPubkey)} at ${seq} (${bytes} B)`);
      return `${event.kind} ${event.itemId} of ${host(event.senderPubkey)} accepted for ${places.join(', ')}`;
    }
    case 'ItemsAcked': {
      const count = event.items + event.notices;
      return `${host(event.targetPubkey)} acked through ${event.through}: ${count} items, ${event.bytes} B`;
    }
    case 'ItemsExpired': {
      const ids = event.items.map(({ itemId, seq }) => `${itemId} at ${seq}`);
      const told = event.notices.length === 0 ? '' : `; ${event.notices.length} notices to senders`;
      return `expired at ${host(event.targetPubkey)}: ${ids.join(', ')}${told}`;
    }
    case 'DedupPurged':
      return `forgot what was to be known until ${timeWords(event.beforeMs)}`;
    case 'ItemLost': {
      const { kind, itemId, senderPubkey, targetPubkey, seq, reason } = event;
      return `${kind} ${itemId} of ${host(senderPubkey)} was lost for ${host(targetPubkey)} at ${seq} (${reason})`;
    }
    default:
      return assertNever(event);
  }
}

/** Every host key that the event names. */
export function hostsOf(event: RelayEvent): Set<PublicKey> {
  const keys = new Set<PublicKey>();
  const collect = (value: unknown, name: string): void => {
    if (Array.isArray(value)) for (const one of value) collect(one, name);
    else if (typeof value === 'object' && value !== null) {
      for (const [member, one] of Object.entries(value)) collect(one, member);
    } else if (typeof value === 'string' && isKeyMember(name)) keys.add(value as PublicKey);
  };
  collect(event, '');
  return keys;
}

function isKeyMember(name: string): boolean {
  return name.endsWith('Pubkey') || name === 'pushedTo' || name === 'senders';
}

/** Every item that the event names. */
export function itemsOf(event: RelayEvent): ItemId[] {
  switch (event.type) {
    case 'ItemAccepted':
    case 'ItemLost':
      return [event.itemId];
    case 'ItemsExpired':
      return [...event.items, ...event.notices].map(({ itemId }) => itemId);
    default:
      return [];
  }
}

/** With the names of every other document: `atMs` is `at`, `hostPubkey` is `host_pubkey`. */
export function eventDocument({ lsn, event }: LogEntry): Record<string, unknown> {
  const { type, ...members } = event;
  return { lsn, time: eventTimeMs(event), type, ...(documentOf(members) as object) };
}

/** Values as documents show them, all the way down. */
export function documentOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(documentOf);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [documentName(name), documentOf(one)]));
}

function documentName(name: string): string {
  const withoutUnit = name.replace(/Ms$/, '');
  return withoutUnit.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

function selectorWords({ hostFp, clientId, account, org }: DenySelectors): string {
  const named = Object.entries({ host: hostFp, client: clientId, account, org });
  return named.flatMap(([name, value]) => (value === null ? [] : `${name} ${value}`)).join(', ');
}

export function timeWords(timeMs: number): string {
  const date = new Date(timeMs);
  return Number.isNaN(date.getTime()) ? String(timeMs) : date.toISOString();
}
