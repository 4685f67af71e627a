/**
 * What each event means to a person: one sentence, the hosts it is about, the items it names, and facts. `poste relay
 * log show`, `poste relay log verify` and the console show nothing else of an event, and a new event type does not
 * compile before it has a description here.
 *
 * Ids, names and reasons in a description are text that strangers chose: who prints it must escape it. Signatures,
 * hashes of tokens and wire bytes are left out.
 */
import { countText } from './count-text.ts';
import type { ItemId } from '../../protocol/names.ts';
import { type PublicKey, displayFingerprint } from '../../protocol/public-key.ts';
import { isoTime } from '../../protocol/time.ts';
import type { RelayEvent } from './event.ts';

/** How a host is named in a sentence. */
export type FormatHost = (key: PublicKey) => string;

export const byFingerprint: FormatHost = displayFingerprint;

export interface EventHost {
  /** What the host is in this event: `from`, `to`, `old key` and so on. */
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
    described(
      (host) => `relay ${host(event.relayPubkey)} was created, epoch ${event.epoch}, schema ${event.schemaVersion}`,
      { facts: { epoch: event.epoch } },
    ),
  EpochRotated: ({ epoch, reason }) =>
    described(() => `epoch ${epoch} began (${reason})`, { facts: { epoch, reason } }),
  RelayRestored: ({ epoch, backupCreatedAtMs, backupLsn, backupEpoch, replacedLsn, replacedEpoch }) => {
    const backup = `the backup of ${isoTime(backupCreatedAtMs)} (record ${backupLsn} of epoch ${backupEpoch})`;
    const replaced = replacedEpoch === null ? '' : `, replacing record ${replacedLsn} of epoch ${replacedEpoch}`;
    return described(() => `restored from ${backup}${replaced}`, {
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
    described(
      (host) => {
        const each = floors.map(({ targetPubkey, headSeq }) => `${host(targetPubkey)} continues after ${headSeq}`);
        return `no seq is given twice: ${each.join(', ')}`;
      },
      { hosts: floors.map(({ targetPubkey }) => ['host', targetPubkey]), facts: { queues: floors.length } },
    ),
  SchemaMigrated: ({ schemaVersion }) =>
    described(() => `the rows were migrated to schema ${schemaVersion}`, { facts: { schema: schemaVersion } }),
  CheckpointTaken: ({ rows, throughLsn }) =>
    described(
      () =>
        `the ${countText(rows, 'row')} after record ${throughLsn} ${rows === 1 ? 'was' : 'were'} saved: a replay may begin there`,
      {
        facts: { 'after record': throughLsn, rows },
      },
    ),
  HostEnrolled: ({ hostPubkey, hostName, account, org, clientId, ownerFp, authorizedBy }) => {
    const ofAccount = account === null ? '' : `, account ${account}`;
    return described((host) => `${host(hostPubkey)} enrolled as ${hostName} by ${authorizedBy}${ofAccount}`, {
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
    return described((host) => `${host(oldPubkey)} changed its key to ${host(newPubkey)}${moving}`, {
      hosts: [
        ['old key', oldPubkey],
        ['new key', newPubkey],
      ],
      facts: { 'items to move': moved },
    });
  },
  ItemsMoved: ({ oldPubkey, newPubkey, fromSeqs, firstSeq, left }) => {
    const [items, place] = [fromSeqs.length, `from seq ${firstSeq} on; ${left} left`];
    return described(
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
    return described(() => `denied until ${isoTime(untilMs)}: ${named.join(', ')} (${reason})`, {
      facts: { ...selectors, reason },
    });
  },
  InviteIssued: ({ label, expiresAtMs }) => {
    const forWhom = label === '' ? '' : ` for ${label}`;
    return described(() => `an invite was issued${forWhom}, valid until ${isoTime(expiresAtMs)}`, {
      facts: { label: label || null },
    });
  },
  InviteSpent: (event) => ofHost(event, (host) => `${host} used an invite`),
  AdmissionsLapsed: ({ denied, invites }) =>
    described(
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
    described(
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
    return described(
      (host) => `${host(targetPubkey)} acked through ${through}: ${countText(items, 'item')}, ${bytes} B`,
      {
        hosts: [['host', targetPubkey]],
        facts: { items, through },
      },
    );
  },
  ItemsExpired: ({ targetPubkey, items, notices }) =>
    described(
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
    return described((host) => `acked late by ${host(targetPubkey)}, ${known}`, {
      hosts: [['host', targetPubkey]],
      itemIds,
      facts: { items: items.length, item: firstIds(items) },
    });
  },
  DedupPurged: (event) => {
    const rows = event.senders.reduce((sum, one) => sum + one.rows, 0);
    return described(() => `forgot the items that were known until ${isoTime(event.beforeMs)}`, { facts: { rows } });
  },
  ItemLost: ({ kind, itemId, senderPubkey, targetPubkey, seq, reason }) =>
    described(
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

function described(sentence: EventDescription['sentence'], { hosts = [], itemIds = [], facts = {} }: Parts) {
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
  return described((host) => sentence(host(hostPubkey)), { hosts: [['host', hostPubkey]], facts });
}

function firstIds(items: readonly { itemId: ItemId }[]): ItemId[] {
  return items.slice(0, ITEMS_SHOWN_MAX).map(({ itemId }) => itemId);
}
