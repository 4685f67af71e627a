/**
 * What the owner makes of the relays of this host: sets the first, adds others, removes one, prefers one. Each is one
 * transaction, after whatever had to be asked of the relay.
 *
 * Invariants:
 *   - a relay is known by its key alone: none is in use twice, at whatever addresses;
 *   - a key that changed at an address has to be named before it is used;
 *   - a relay of v1, which proves no key, is used alone or not at all.
 */
import { displayFingerprint, type PublicKey } from '../../protocol/public-key.ts';
import { HOME_RELAYS_MAX, HOME_URL_CHARACTERS_MAX } from '../../protocol/home-relays.ts';
import { isoTime } from '../../protocol/time.ts';
import { RELAYS_MAX } from '../contract/limits.ts';
import type {
  PinnedRelay,
  RelayAddInput,
  RelayAddResult,
  RelayRemoveInput,
  RelayRemoveResult,
  RelaySetInput,
  RelaySetResult,
  RelayUnsetResult,
} from '../contract/relays.ts';
import { type Refusal, refusal } from '../core/refusal.ts';
import type { RelayRole, RelayRow } from '../core/relay-rows.ts';
import type { HostContext } from '../base/context.ts';
import { homeOf, renewOwnHome, type OwnRelay, ownRelays } from '../outbox/homes.ts';
import { livePeers } from '../peers/peers.ts';
import type { Reader, Transaction } from '../store/host-store.ts';
import { heldAt, outboxCounts } from './relay-counts.ts';
import { type NamedRelay, namedRelay, parseRelayUrl, pinnedAs } from './relay-input.ts';
import { pinRelay, publishAnew, putOwnRelays, rowPinned } from './relay-rows.ts';

/** A placeholder for the key that only the relay's operator can confirm. */
export const OPERATORS_KEY = "SHA256:<the fingerprint that the relay's operator gives you>";

/** What the changes need of the daemon. */
export interface OwnersParts {
  context: HostContext;
  stopping: AbortSignal;
  /** Called before others learn that the owner named a relay: it is begun with anew. */
  naming: (relayPubkey: PublicKey) => void;
}

/** Pins the relay at an address: one that is in use there, else the first. A key that changed there has to be named. */
export async function setRelay(parts: OwnersParts, input: RelaySetInput): Promise<RelaySetResult | Refusal> {
  const { context, naming } = parts;
  const named = await namedRelay(context, input, parts.stopping);
  if ('code' in named) return named;
  return context.store.transact(async (tx): Promise<RelaySetResult | Refusal> => {
    const own = await ownRelays(tx);
    const place = own.find(({ row }) => row.url === named.url) ?? own.find(({ rank }) => rank === 0);
    const before = place?.row;
    const others = own.filter((one) => one !== place);
    const refused = refusedKey(named, before) ?? refusedBeside(named, others);
    if (refused) return refused;
    tx.afterCommit(() => naming(named.pubkey));
    const pinned = pinnedAs(named, input, before, context.nowMs());
    const isFirst = place === undefined || place.rank === 0;
    const row =
      isFirst && others.length === 0
        ? pinRelay(tx, context, pinned)
        : await replaceRow(tx, context, own, place, rowPinned(pinned, before, context.nowMs()));
    const { pubkey: relayPubkey, epoch } = row;
    if (epoch) publishAnew(tx, { relayPubkey, epoch, hostPubkey: context.identity().signer.publicKey });
    await renewOwnHome(tx, context);
    return { relay: pinnedView(row), trust: trustIn(named, before) };
  });
}

/** A key that is not the one pinned at the address, or a protocol that is not. */
function refusedKey({ url, pubkey: shown, isV1, isNamed }: NamedRelay, before: RelayRow | undefined) {
  const isSame = before?.pubkey === shown;
  if (before && !before.isV1 && isV1 && (isSame || before.url === url)) {
    const message =
      `The relay at ${url} spoke v2 and speaks v1 now: ` +
      'it is pinned, and used in v2 alone. poste relay unset lets it go.';
    return refusal('RELAY_UNREACHABLE', message);
  }
  if (!before || isSame || before.url !== url || isNamed) return undefined;
  const [fingerprint, pinned] = [displayFingerprint(shown), displayFingerprint(before.pubkey)];
  const shows = `The relay at ${url} had the key ${pinned} and shows ${fingerprint} now`;
  const message = `${shows}: ask its operator which is right.`;
  // In v1 no key can be named.
  if (isV1) return refusal('RELAY_KEY_MISMATCH', `${message} poste relay unset lets this relay go.`);
  const details = { shown: fingerprint, pinned };
  return refusal('RELAY_KEY_MISMATCH', `${message} Name that one: --key ${OPERATORS_KEY}.`, details);
}

/** Says why it cannot be used beside the others, if it cannot. */
function refusedBeside({ url, pubkey, isV1 }: NamedRelay, others: readonly OwnRelay[]): Refusal | undefined {
  const known = others.find(({ row }) => row.pubkey === pubkey)?.row;
  if (known) return knownRelay(known, url);
  const [first] = others;
  const old = isV1 ? url : others.find(({ row }) => row.isV1)?.row.url;
  if (!first || old === undefined) return undefined;
  const message = `The relay at ${old} speaks only v1: a host can use it alone, and not beside another one.`;
  return isV1 ? refusal('RELAY_UNREACHABLE', message) : refusal('TOO_MANY_RELAYS', message);
}

function knownRelay({ pubkey, url }: RelayRow, asked: string): Refusal {
  const fingerprint = displayFingerprint(pubkey);
  const where = url === asked ? 'already' : `at ${url} already: an address is changed by poste relay remove, and add`;
  return refusal('RELAY_KNOWN', `This host uses the relay with the key ${fingerprint} ${where}.`, { url });
}

/** Puts the row in the place of one that is in use, or behind the homes. */
async function replaceRow(
  tx: Transaction,
  context: HostContext,
  own: readonly OwnRelay[],
  place: OwnRelay | undefined,
  row: RelayRow,
  role: RelayRole = place?.role ?? 'home',
): Promise<RelayRow> {
  const relays = own.map((one) => (one === place ? { row, role } : one));
  await putOwnRelays(tx, context, place ? relays : [...relays, { row, role }]);
  return row;
}

function trustIn({ pubkey, isNamed }: NamedRelay, before: RelayRow | undefined): RelaySetResult['trust'] {
  if (isNamed) return 'named';
  return before?.pubkey === pubkey ? 'same' : 'first-use';
}

/** Written in the transaction that adds a relay, before it. A refusal leaves everything as it was. */
export type WithRelay = (tx: Transaction, row: RelayRow) => Promise<Refusal | undefined>;

/** Uses one more relay: as a home, at which paired hosts send this one mail, or as a guest. */
export async function addRelay(
  parts: OwnersParts,
  input: RelayAddInput,
  besides?: WithRelay,
): Promise<RelayAddResult | Refusal> {
  const { context, naming } = parts;
  const { guest, dry_run: isDryRun } = input;
  const role: RelayRole = guest ? 'guest' : 'home';
  const named = await namedRelay(context, input, parts.stopping);
  if ('code' in named) return named;
  if (role === 'home' && named.url.length > HOME_URL_CHARACTERS_MAX) {
    const message = `Other hosts are told the address: it may have ${HOME_URL_CHARACTERS_MAX} characters at most.`;
    return refusal('BAD_INPUT', message, { field: 'url' });
  }
  return context.store.transact(async (tx): Promise<RelayAddResult | Refusal> => {
    const own = await ownRelays(tx);
    const place = own.find(({ row }) => row.url === named.url);
    const others = own.filter((one) => one !== place);
    const refused =
      refusedKey(named, place?.row) ??
      refusedBeside(named, others) ??
      (place && isAsBefore(place, named, role) ? knownRelay(place.row, named.url) : undefined) ??
      refusedRole(own, place, role);
    if (refused) return refused;
    const listed = await listedAs(tx, named);
    if ('code' in listed) return listed;
    const row = rowPinned(pinnedAs(named, input, place?.row, context.nowMs()), place?.row, context.nowMs());
    if (!isDryRun) {
      const stopped = await besides?.(tx, row);
      if (stopped) return stopped;
      tx.afterCommit(() => naming(named.pubkey));
      await replaceRow(tx, context, own, place, row, role);
    }
    const homes = others.filter((one) => one.role === 'home').length;
    const at = place?.role === role ? own.indexOf(place) : role === 'home' ? homes : others.length;
    return { relay: pinnedView(row), number: at + 1, role, trust: trustIn(named, place?.row), ...listed };
  });
}

/** The paired hosts that take mail there. Another key than they name at this address has to be named by the owner. */
async function listedAs(
  reader: Reader,
  { url, pubkey, isNamed }: NamedRelay,
): Promise<Pick<RelayAddResult, 'hosts'> | Refusal> {
  const hosts: string[] = [];
  let other: PublicKey | undefined;
  for (const { peerId, hostName } of await livePeers(reader)) {
    const relays = homeOf(reader, peerId) ?? [];
    if (relays.some((relay) => relay.relay_pubkey === pubkey)) hosts.push(hostName);
    else other ??= relays.find((relay) => relay.url === url)?.relay_pubkey;
  }
  if (hosts.length > 0 || other === undefined || isNamed) return { hosts };
  const [shown, expected] = [displayFingerprint(pubkey), displayFingerprint(other)];
  const message =
    `The relay at ${url} has the key ${shown}, and a paired host says that it is ${expected}: ` +
    `ask its operator which is right, and name that one: --key ${OPERATORS_KEY}.`;
  return refusal('RELAY_KEY_MISMATCH', message, { shown, expected });
}

/** Nothing about it would be another: its owner need not confirm a key either. */
function isAsBefore({ row, role }: OwnRelay, named: NamedRelay, asked: RelayRole): boolean {
  return row.pubkey === named.pubkey && role === asked && row.seenKey === null;
}

function refusedRole(own: readonly OwnRelay[], place: OwnRelay | undefined, role: RelayRole): Refusal | undefined {
  const homes = own.filter((one) => one.role === 'home' && one !== place).length;
  if (role === 'home' && homes >= HOME_RELAYS_MAX) {
    const message =
      `A host takes mail at ${HOME_RELAYS_MAX} relays at most: poste relay remove lets one go, ` +
      'and --guest adds one only to write to hosts that live there.';
    return refusal('TOO_MANY_RELAYS', message);
  }
  if (!place && own.length >= RELAYS_MAX) {
    return refusal('TOO_MANY_RELAYS', `A host uses ${RELAYS_MAX} relays at most: poste relay remove lets one go.`);
  }
  if (place?.role === 'home' && role === 'guest' && homes === 0) return neededRelay(place.row);
  return undefined;
}

function neededRelay({ url }: RelayRow, remedy = ''): Refusal {
  const message = `${url} is the last relay at which this host takes mail: without it only the LAN reaches this host.`;
  return refusal('RELAY_NEEDED', `${message}${remedy}`);
}

/** Uses no relay any more. Mail that it took may still arrive; no expiry notice will be seen. */
export async function unsetRelay({ context }: OwnersParts): Promise<RelayUnsetResult | Refusal> {
  return context.store.transact(async (tx) => {
    const own = await ownRelays(tx);
    const [only, ...others] = own;
    if (!only) return refusal('NO_RELAY', 'No relay is set: poste relay set sets one.');
    if (others.length > 0) {
      const message = 'This host uses several relays: poste relay remove lets one of them go.';
      return refusal('TOO_MANY_RELAYS', message, { relays: own.map(({ row }) => row.url) });
    }
    await putOwnRelays(tx, context, []);
    const { relay_accepted: accepted } = await outboxCounts(tx);
    return { relay: pinnedView(only.row), relay_accepted: accepted };
  });
}

/**
 * Uses a relay no more. `lastPull` takes what waits there before, and answers how many items still do, or null when the
 * relay cannot be asked.
 */
export async function removeRelay(
  { context }: OwnersParts,
  input: RelayRemoveInput,
  lastPull: (relayPubkey: PublicKey) => Promise<number | null>,
): Promise<RelayRemoveResult | Refusal> {
  const asked = await context.store.read((reader) => removable(reader, input));
  if ('code' in asked) return asked;
  const left = await lastPull(asked.relay.row.pubkey);
  return context.store.transact(async (tx): Promise<RelayRemoveResult | Refusal> => {
    const found = await removable(tx, input);
    if ('code' in found) return found;
    const { own, relay } = found;
    const { alone } = await heldAt(tx, relay.row.pubkey);
    const others = own.filter((one) => one !== relay);
    await putOwnRelays(tx, context, others);
    const number = own.indexOf(relay) + 1;
    return { relay: pinnedView(relay.row), number, role: relay.role, held_alone: alone, left_behind: left };
  });
}

async function removable(reader: Reader, { relay: which, last }: RelayRemoveInput) {
  const own = await ownRelays(reader);
  const relay = relayNamed(own, which);
  if ('code' in relay) return relay;
  const isLast = relay.role === 'home' && own.filter(({ role }) => role === 'home').length === 1;
  return isLast && !last
    ? neededRelay(relay.row, ' poste relay remove --last lets it go all the same.')
    : { own, relay };
}

/** Puts a relay before the others of its role. */
export async function preferRelay({ context }: OwnersParts, which: string): Promise<Refusal | undefined> {
  return context.store.transact(async (tx) => {
    const own = await ownRelays(tx);
    const relay = relayNamed(own, which);
    if ('code' in relay) return relay;
    await putOwnRelays(tx, context, [relay, ...own.filter((one) => one !== relay)]);
    return undefined;
  });
}

/** By its number in the owner's order, or by its address. */
function relayNamed(own: readonly OwnRelay[], which: string): OwnRelay | Refusal {
  const parsed = parseRelayUrl(which);
  const relay = 'url' in parsed ? own.find(({ row }) => row.url === parsed.url) : own[Number(which) - 1];
  return relay ?? refusal('NO_RELAY', `This host uses no relay ${which}: poste relay list shows those that it uses.`);
}

export function pinnedView({ url, pubkey, pinnedAtMs, proof, ca, isV1 }: RelayRow): PinnedRelay {
  return {
    url,
    relay_pubkey: pubkey,
    fingerprint: displayFingerprint(pubkey),
    pinned_at: isoTime(pinnedAtMs),
    protocol: isV1 ? 1 : 2,
    token_from: proof?.type ?? null,
    ca_file: ca?.path ?? null,
  };
}
