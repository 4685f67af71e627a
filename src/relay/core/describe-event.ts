/**
 * Says what each event means to a person: one sentence, the hosts it is about, the items it names, and facts. `poste
 * relay log show`, `poste relay log verify` and the console show nothing else of an event, and a new event type does
 * not compile before it has a description here.
 *
 * Ids, names and reasons in a description are text that strangers chose: who prints it must escape it. Signatures,
 * hashes of tokens and wire bytes are left out.
 */
import { countText } from './count-text.ts';
import type { ItemId } from '../../protocol/names.ts';
import { type PublicKey, displayFingerprint } from '../../protocol/public-key.ts';
import { isoTime } from '../../protocol/time.ts';
import {
  type AcceptedTarget,
  type DedupExtended,
  type ItemAccepted,
  type LogEntry,
  type RelayEvent,
  eventTimeMs,
} from './event.ts';

/** Names a host in a sentence. */
export type FormatHost = (key: PublicKey) => string;

export const byFingerprint: FormatHost = displayFingerprint;

export interface EventHost {
  /** The part of the host in this event: `from`, `to`, `old key` and so on. */
  role: string;
  key: PublicKey;
}

interface EventFact {
  name: string;
  value: string;
}

interface EventDescription {
  /** One line. A function, because most readers need no sentence and a fingerprint costs a hash. */
  sentence: (host: FormatHost) => string;
  hosts: readonly EventHost[];
  itemIds: readonly ItemId[];
  facts: readonly EventFact[];
}

/** Items of one event that are facts; an expiry can hold hundreds. */
const ITEMS_SHOWN_MAX = 20;

type EventOf<Type extends RelayEvent['type']> = Extract<RelayEvent, { type: Type }>;

const DESCRIPTIONS: { readonly [Type in RelayEvent['type']]: (event: EventOf<Type>) => EventDescription } = {
  RelayInitialised: (event) =>
    descriptionOf(
      (host) => `relay ${host(event.relayPubkey)} was created, epoch ${event.epoch}, schema ${event.schemaVersion}`,
      { facts: { epoch: event.epoch } },
    ),
  EpochRotated: ({ epoch, reason }) =>
    descriptionOf(() => `epoch ${epoch} began (${reason})`, { facts: { epoch, reason } }),
  RelayRestored: ({ epoch, backupCreatedAtMs, backupLsn, backupEpoch, replacedLsn, replacedEpoch }) => {
    const backup = `the backup of ${isoTime(backupCreatedAtMs)} (record ${backupLsn} of epoch ${backupEpoch})`;
    const replaced = replacedEpoch === null ? '' : `, replacing record ${replacedLsn} of epoch ${replacedEpoch}`;
    return descriptionOf(() => `restored from ${backup}${replaced}`, {
      facts: {
        epoch,
        'backup of': isoTime(backupCreatedAtMs),
        'epoch of the backup': backupEpoch,
        'last record of the backup': backupLsn,
        'epoch that was replaced': replacedEpoch,
        'last record that was replaced': replacedLsn,
      },
    });
  },
  SeqFloorsRaised: ({ floors }) =>
    descriptionOf(
      (host) => {
        const each = floors.map(({ targetPubkey, headSeq }) => `${host(targetPubkey)} continues after ${headSeq}`);
        return `no seq is given twice: ${each.join(', ')}`;
      },
      { hosts: floors.map(({ targetPubkey }) => ['host', targetPubkey]), facts: { queues: floors.length } },
    ),
  SchemaMigrated: ({ schemaVersion }) =>
    descriptionOf(() => `the rows were migrated to schema ${schemaVersion}`, { facts: { schema: schemaVersion } }),
  CheckpointTaken: ({ rows, throughLsn }) =>
    descriptionOf(
      () =>
        `the ${countText(rows, 'row')} after record ${throughLsn} ${rows === 1 ? 'was' : 'were'} saved: ` +
        'a replay may begin there',
      {
        facts: { 'after record': throughLsn, rows },
      },
    ),
  HostEnrolled: ({ hostPubkey, hostName, account, org, clientId, ownerFp, authorizedBy }) => {
    const ofAccount = account === null ? '' : `, account ${account}`;
    return descriptionOf((host) => `${host(hostPubkey)} enrolled as ${hostName} by ${authorizedBy}${ofAccount}`, {
      hosts: [['host', hostPubkey]],
      facts: { name: hostName, account, org, client: clientId, owner: ownerFp || null, authority: authorizedBy },
    });
  },
  HostSeen: (event) => ofHost(event, (host) => `${host} made its first request`),
  V2HopMade: (event) => ofHost(event, (host) => `${host} made its first v2 request: v1 is refused to it from here on`),
  EnrolmentLapsed: (event) => ofHost(event, (host) => `the unused enrolment of ${host} lapsed to make room`),
  HostRevoked: (event) => ofHost(event, (host) => `${host} was revoked (${event.cause})`, { cause: event.cause }),
  KeyRotated: ({ oldPubkey, newPubkey, moved, firstSeq }) => {
    const moving = moved === 0 ? '' : `; ${countText(moved, 'item')} will move, from seq ${firstSeq} on`;
    return descriptionOf((host) => `${host(oldPubkey)} changed its key to ${host(newPubkey)}${moving}`, {
      hosts: [
        ['old key', oldPubkey],
        ['new key', newPubkey],
      ],
      facts: { 'items to move': moved },
    });
  },
  ItemsMoved: ({ oldPubkey, newPubkey, fromSeqs, firstSeq, left }) => {
    const [items, place] = [fromSeqs.length, `from seq ${firstSeq} on; ${left} left`];
    return descriptionOf(
      (host) => `${countText(items, 'item')} moved from ${host(oldPubkey)} to ${host(newPubkey)}, ${place}`,
      {
        hosts: [
          ['old key', oldPubkey],
          ['new key', newPubkey],
        ],
        facts: { items, left },
      },
    );
  },
  DenyEntryAdded: ({ hostFp, clientId, account, org, reason, untilMs }) => {
    const selectors = { host: hostFp, client: clientId, account, org };
    const named = Object.entries(selectors).flatMap(([name, value]) => (value === null ? [] : `${name} ${value}`));
    return descriptionOf(() => `denied until ${isoTime(untilMs)}: ${named.join(', ')} (${reason})`, {
      facts: { ...selectors, reason },
    });
  },
  InviteIssued: ({ label, expiresAtMs }) => {
    const forWhom = label === '' ? '' : ` for ${label}`;
    return descriptionOf(() => `an invite was issued${forWhom}, valid until ${isoTime(expiresAtMs)}`, {
      facts: { label: label || null },
    });
  },
  InviteSpent: (event) => ofHost(event, (host) => `${host} used an invite`),
  AdmissionsLapsed: ({ denied, invites }) =>
    descriptionOf(
      () =>
        `${countText(denied.length, 'deny entry', 'deny entries')} and ${countText(invites.length, 'invite')} ended`,
      {
        facts: { 'deny entries': denied.length, invites: invites.length },
      },
    ),
  SendersPublished: (event) => {
    const senders = event.senders.length;
    return ofHost(event, (host) => `${host} accepts mail from ${countText(senders, 'sender')}`, { senders });
  },
  SendersDated: (event) => ofHost(event, (host) => `${host} accepts mail from the same senders as before`),
  SendersRenewed: (event) => ofHost(event, (host) => `${host} accepts mail from the same senders as before`),
  EncKeyPublished: (event) => ofHost(event, (host) => `${host} published an encryption key`),
  ItemAccepted: ({ kind, itemId, senderPubkey, targets }) =>
    descriptionOf(
      (host) => {
        const places = targets.map(({ hostPubkey, seq, bytes }) => `${host(hostPubkey)} at ${seq} (${bytes} B)`);
        return `${kind} ${itemId} of ${host(senderPubkey)} accepted for ${places.join(', ')}`;
      },
      {
        hosts: [['from', senderPubkey], ...targets.map(({ hostPubkey }): Role => ['to', hostPubkey])],
        itemIds: [itemId],
        facts: { kind, bytes: targets.reduce((sum, { bytes }) => sum + bytes, 0) },
      },
    ),
  ItemsAcked: (event) => {
    const { targetPubkey, through, bytes } = event;
    const items = event.items + event.notices;
    return descriptionOf(
      (host) => `${host(targetPubkey)} acked through ${through}: ${countText(items, 'item')}, ${bytes} B`,
      {
        hosts: [['host', targetPubkey]],
        facts: { items, through },
      },
    );
  },
  ItemsExpired: ({ targetPubkey, items, notices }) =>
    descriptionOf(
      (host) => {
        const expired = items.map(({ itemId, seq }) => `${itemId} at ${seq}`).join(', ');
        const sent = notices.length === 0 ? '' : `; ${countText(notices.length, 'notice')} to senders`;
        return `expired at ${host(targetPubkey)}: ${expired}${sent}`;
      },
      {
        hosts: [['host', targetPubkey]],
        itemIds: [...items, ...notices].map(({ itemId }) => itemId),
        facts: { items: items.length, notices: notices.length, item: firstIds(items) },
      },
    ),
  DedupExtended: ({ targetPubkey, items, dedupUntilMs }) => {
    const itemIds = items.map(({ itemId }) => itemId);
    const known = `known until ${isoTime(dedupUntilMs)}: ${itemIds.join(', ')}`;
    return descriptionOf((host) => `acked late by ${host(targetPubkey)}, ${known}`, {
      hosts: [['host', targetPubkey]],
      itemIds,
      facts: { items: items.length, item: firstIds(items) },
    });
  },
  DedupPurged: (event) => {
    const rows = event.senders.reduce((sum, one) => sum + one.rows, 0);
    return descriptionOf(() => `forgot the items that were known until ${isoTime(event.beforeMs)}`, {
      facts: { rows },
    });
  },
  ItemLost: ({ kind, itemId, senderPubkey, targetPubkey, seq, reason }) =>
    descriptionOf(
      (host) => `${kind} ${itemId} of ${host(senderPubkey)} was lost for ${host(targetPubkey)} at ${seq} (${reason})`,
      {
        hosts: [
          ['from', senderPubkey],
          ['host', targetPubkey],
        ],
        itemIds: [itemId],
        facts: { reason },
      },
    ),
};

export function describeEvent(event: RelayEvent): EventDescription {
  const describe = DESCRIPTIONS[event.type] as (event: RelayEvent) => EventDescription;
  return describe(event);
}

/** Every host key in the event, also those that the description leaves out, such as the senders of a sender list. */
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

type Role = readonly [role: string, key: PublicKey];
/** A fact of `null` is left out; one of several values is several facts of one name. */
type Facts = Readonly<Record<string, string | number | null | readonly string[]>>;

interface Parts {
  hosts?: readonly Role[];
  itemIds?: readonly ItemId[];
  facts?: Facts;
}

function descriptionOf(sentence: EventDescription['sentence'], { hosts = [], itemIds = [], facts = {} }: Parts) {
  return {
    sentence,
    hosts: hosts.map(([role, key]) => ({ role, key })),
    itemIds,
    facts: Object.entries(facts).flatMap(([name, value]) =>
      (Array.isArray(value) ? value : value === null ? [] : [value]).map((one) => ({ name, value: String(one) })),
    ),
  };
}

function ofHost(
  { hostPubkey }: { hostPubkey: PublicKey },
  sentence: (host: string) => string,
  facts: Facts = {},
): EventDescription {
  return descriptionOf((host) => sentence(host(hostPubkey)), { hosts: [['host', hostPubkey]], facts });
}

function firstIds(items: readonly { itemId: ItemId }[]): ItemId[] {
  return items.slice(0, ITEMS_SHOWN_MAX).map(({ itemId }) => itemId);
}

export type ItemState = 'waiting' | 'acked' | 'expired' | 'lost';

export type LifeStep = { lsn: number; timeMs: number } & (
  | { type: 'accepted'; targetPubkey: PublicKey; seq: number }
  /** The target changed its key; its queue follows. */
  | { type: 'rotated'; targetPubkey: PublicKey }
  | { type: 'moved'; targetPubkey: PublicKey; fromSeq: number; seq: number }
  | { type: 'acked'; through: number }
  | { type: 'expired' }
  /** A notice for the sender was put into its own queue. */
  | { type: 'noticed'; targetPubkey: PublicKey; seq: number; itemId: ItemId }
  | { type: 'lost'; reason: 'missing' | 'corrupt' }
  /** No host can pull the item any more; it expires in time. */
  | { type: 'target revoked' }
  /** The same push would be accepted as a new item from here on. */
  | { type: 'forgotten' }
);

/**
 * The life of one item at one target, followed through the log: accepted, moved by rotations, acked, expired, lost,
 * forgotten. `poste relay log trace` and the trace of the console are made of it.
 *
 * What the log does not hold: a repeated push that was answered `duplicate` changed nothing and left no record, and
 * neither did any pull. That an item was delivered is known by the ack that covers its seq, and by nothing before it.
 */
export class ItemLife {
  readonly accepted: ItemAccepted;
  readonly target: AcceptedTarget;
  readonly steps: LifeStep[];
  state: ItemState = 'waiting';
  /** The key and the seq under which the item is queued now. */
  queuedKey: PublicKey;
  queuedSeq: number;
  #dedupUntilMs: number;
  #isKnown = true;

  /** `target` is one of the targets for which `accepted`, the event of record `lsn`, accepted the item. */
  constructor(lsn: number, accepted: ItemAccepted, target: AcceptedTarget) {
    const { hostPubkey: targetPubkey, seq } = target;
    this.accepted = accepted;
    this.target = target;
    this.steps = [{ lsn, timeMs: accepted.acceptedAtMs, type: 'accepted', targetPubkey, seq }];
    this.queuedKey = targetPubkey;
    this.queuedSeq = seq;
    this.#dedupUntilMs = accepted.dedupUntilMs;
  }

  get isWaiting(): boolean {
    return this.state === 'waiting';
  }

  /** Takes the records after the acceptance, in order. Records that concern other items may be left out. */
  follow(entry: LogEntry): void {
    if (this.isWaiting) this.#followWaiting(entry);
    if (this.#isKnown) this.#followKnown(entry);
  }

  #followWaiting({ lsn, event }: LogEntry): void {
    const { queuedKey, queuedSeq, steps } = this;
    const at = { lsn, timeMs: eventTimeMs(event) };
    switch (event.type) {
      case 'KeyRotated':
        if (event.oldPubkey === queuedKey) steps.push({ ...at, type: 'rotated', targetPubkey: event.newPubkey });
        return;
      case 'ItemsMoved': {
        const position = event.oldPubkey === queuedKey ? event.fromSeqs.indexOf(queuedSeq) : -1;
        if (position === -1) return;
        this.queuedKey = event.newPubkey;
        this.queuedSeq = event.firstSeq + position;
        const { queuedKey: targetPubkey, queuedSeq: seq } = this;
        steps.push({ ...at, type: 'moved', targetPubkey, fromSeq: queuedSeq, seq });
        return;
      }
      case 'ItemsAcked':
        if (event.targetPubkey !== queuedKey || event.through < queuedSeq) return;
        this.state = 'acked';
        steps.push({ ...at, type: 'acked', through: event.through });
        return;
      case 'ItemsExpired': {
        if (event.targetPubkey !== queuedKey || !event.items.some(({ seq }) => seq === queuedSeq)) return;
        this.state = 'expired';
        steps.push({ ...at, type: 'expired' });
        this.#dedupUntilMs = Math.max(this.#dedupUntilMs, event.dedupUntilMs);
        const noticeId = `expired:${this.accepted.itemId}:${this.target.hostPubkey}`;
        for (const { targetPubkey, seq, itemId } of event.notices) {
          if (itemId === noticeId) steps.push({ ...at, type: 'noticed', targetPubkey, seq, itemId });
        }
        return;
      }
      case 'DedupExtended':
        if (event.items.some((item) => this.#isThis(item)))
          this.#dedupUntilMs = Math.max(this.#dedupUntilMs, event.dedupUntilMs);
        return;
      case 'ItemLost':
        if (event.targetPubkey !== queuedKey || event.seq !== queuedSeq) return;
        this.state = 'lost';
        this.#isKnown = false;
        steps.push({ ...at, type: 'lost', reason: event.reason });
        return;
      case 'HostRevoked':
        if (event.hostPubkey === queuedKey) steps.push({ ...at, type: 'target revoked' });
        return;
      default:
    }
  }

  #followKnown({ lsn, event }: LogEntry): void {
    if (event.type !== 'DedupPurged' || event.beforeMs < this.#dedupUntilMs) return;
    this.#isKnown = false;
    this.steps.push({ lsn, timeMs: event.atMs, type: 'forgotten' });
  }

  #isThis({ itemId, senderPubkey, pushedTo }: DedupExtended['items'][number]): boolean {
    const { accepted, target } = this;
    return itemId === accepted.itemId && senderPubkey === accepted.senderPubkey && pushedTo === target.hostPubkey;
  }
}
