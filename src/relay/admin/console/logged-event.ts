/**
 * An event as the console shows it: which hosts and which item it is about, and what else is worth a word. Signatures,
 * hashes of tokens and wire bytes are not.
 */
import type { LoggedEvent } from '../../../protocol/operator-documents.ts';
import type { PublicKey } from '../../../protocol/public-key.ts';
import type { DenySelectors } from '../../core/rows.ts';
import { type LogEntry, type RelayEvent, eventTimeMs } from '../../core/event.ts';

/** The name that a key is known by; `undefined` when it was never enrolled. */
export type NameOf = (key: PublicKey) => string | undefined;

type Role = readonly [role: string, hostPubkey: PublicKey];
type Fact = readonly [name: string, value: string | number | null];

interface Told {
  atMs: number;
  hosts: readonly Role[];
  itemId?: string;
  facts: readonly Fact[];
}

/** An expiry can hold hundreds of items. */
const ITEMS_SHOWN_MAX = 20;

export function loggedEvent({ lsn, event }: LogEntry, nameOf: NameOf): LoggedEvent {
  const { atMs, hosts, itemId, facts } = told(event);
  return {
    lsn,
    type: event.type,
    at: atMs,
    hosts: hosts.map((one) => namedKey(one, nameOf)),
    item_id: itemId ?? null,
    facts: facts.flatMap(([name, value]) => (value === null ? [] : [{ name, value: String(value) }])),
  };
}

export function namedKey([role, hostPubkey]: Role, nameOf: NameOf): LoggedEvent['hosts'][number] {
  return { role, host_pubkey: hostPubkey, name: nameOf(hostPubkey) ?? null };
}

/** Whether the event is about one of these keys. */
export function isAbout(event: RelayEvent, keys: ReadonlySet<string>): boolean {
  return told(event).hosts.some(([, key]) => keys.has(key));
}

/** Whether the event names this item. An ack names none: it is of a whole queue. */
export function isOfItem(event: RelayEvent, itemId: string): boolean {
  if (event.type === 'ItemAccepted' || event.type === 'ItemLost') return event.itemId === itemId;
  return event.type === 'ItemsExpired' && event.items.some((item) => item.itemId === itemId);
}

function told(event: RelayEvent): Told {
  const atMs = eventTimeMs(event);
  switch (event.type) {
    case 'RelayInitialised':
      return { atMs, hosts: [], facts: [['epoch', event.epoch]] };
    case 'EpochRotated':
      return {
        atMs,
        hosts: [],
        facts: [
          ['epoch', event.epoch],
          ['reason', event.reason],
        ],
      };
    case 'CheckpointTaken':
      return {
        atMs,
        hosts: [],
        facts: [
          ['after record', event.throughLsn],
          ['rows', event.rows],
        ],
      };
    case 'HostEnrolled':
      return {
        atMs,
        hosts: [['host', event.hostPubkey]],
        facts: [
          ['name', event.hostName],
          ['account', event.account],
          ['org', event.org],
          ['client', event.clientId],
          ['owner', event.ownerFp || null],
          ['authority', event.authorizedBy],
        ],
      };
    case 'HostSeen':
    case 'EnrolmentLapsed':
      return { atMs, hosts: [['host', event.hostPubkey]], facts: [] };
    case 'HostRevoked':
      return { atMs, hosts: [['host', event.hostPubkey]], facts: [['cause', event.cause]] };
    case 'KeyRotated':
      return {
        atMs,
        hosts: [
          ['old key', event.oldPubkey],
          ['new key', event.newPubkey],
        ],
        facts: [['items to move', event.moved]],
      };
    case 'ItemsMoved':
      return {
        atMs,
        hosts: [
          ['old key', event.oldPubkey],
          ['new key', event.newPubkey],
        ],
        facts: [
          ['items', event.fromSeqs.length],
          ['left', event.left],
        ],
      };
    case 'DenyEntryAdded':
      return { atMs, hosts: [], facts: [...selectors(event), ['reason', event.reason]] };
    case 'InviteIssued':
      return { atMs, hosts: [], facts: [['label', event.label || null]] };
    case 'InviteSpent':
      return { atMs, hosts: [['host', event.hostPubkey]], facts: [] };
    case 'AdmissionsLapsed':
      return {
        atMs,
        hosts: [],
        facts: [
          ['deny entries', event.denied.length],
          ['invites', event.invites.length],
        ],
      };
    case 'SendersPublished':
      return { atMs, hosts: [['host', event.hostPubkey]], facts: [['senders', event.senders.length]] };
    case 'EncKeyPublished':
      return { atMs, hosts: [['host', event.hostPubkey]], facts: [] };
    case 'ItemAccepted':
      return {
        atMs,
        hosts: [['from', event.senderPubkey], ...event.targets.map(({ hostPubkey }) => ['to', hostPubkey] as const)],
        itemId: event.itemId,
        facts: [
          ['kind', event.kind],
          ['bytes', event.targets.reduce((sum, { bytes }) => sum + bytes, 0)],
        ],
      };
    case 'ItemsAcked':
      return {
        atMs,
        hosts: [['host', event.targetPubkey]],
        facts: [
          ['items', event.items + event.notices],
          ['through', event.through],
        ],
      };
    case 'ItemsExpired':
      return {
        atMs,
        hosts: [['host', event.targetPubkey]],
        facts: [
          ['items', event.items.length],
          ['notices', event.notices.length],
          ...event.items.slice(0, ITEMS_SHOWN_MAX).map(({ itemId }) => ['item', itemId] as const),
        ],
      };
    case 'DedupPurged':
      return { atMs, hosts: [], facts: [['rows', event.senders.reduce((sum, { rows }) => sum + rows, 0)]] };
    case 'ItemLost':
      return {
        atMs,
        hosts: [
          ['from', event.senderPubkey],
          ['host', event.targetPubkey],
        ],
        itemId: event.itemId,
        facts: [['reason', event.reason]],
      };
    default:
      return otherEvent(event);
  }
}

/** A kind of event that this page knows nothing of is shown all the same. */
function otherEvent(event: { atMs: number }): Told {
  return { atMs: event.atMs, hosts: [], facts: [] };
}

function selectors({ hostFp, clientId, account, org }: DenySelectors): Fact[] {
  return [
    ['host', hostFp],
    ['client', clientId],
    ['account', account],
    ['org', org],
  ];
}
