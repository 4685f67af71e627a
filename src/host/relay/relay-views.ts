/** What the owner is shown of the relays of this host. */
import { isoTime, isoTimeOrNull } from '../../protocol/time.ts';
import { displayFingerprint } from '../../protocol/public-key.ts';
import { showsTwoHistories } from '../core/evidence-text.ts';
import type { RelayRow } from '../core/relay-rows.ts';
import type { RelayStatusResult, RelayView } from '../contract/relays.ts';
import type { HostContext } from '../base/context.ts';
import { evidenceIn, sharedRelays } from '../outbox/trust-rows.ts';
import { livePeers } from '../peers/peers.ts';
import type { Reader } from '../store/host-store.ts';
import { ownRelays } from '../store/own-relays.ts';
import { pinnedView } from './owners-relays.ts';
import { heldByRelays, outboxCounts } from './relay-counts.ts';
import { enrolmentIn, positionIn } from './relay-rows.ts';
import type { RelayUse } from './relay-use.ts';

/** Finds what this daemon has of a relay in use; nothing before it began with it. */
type UseOf = (relayPubkey: RelayRow['pubkey']) => RelayUse | undefined;

export async function relayStatus(reader: Reader, context: HostContext, useOf: UseOf): Promise<RelayStatusResult> {
  const row = reader.get('relay');
  const own = await ownRelays(reader);
  let quarantined = 0;
  for await (const { row: item } of reader.range('quarantine', [])) if (item.via === 'relay') quarantined++;
  return {
    relay: row ? pinnedView(row) : null,
    ...(await linkMembers(reader, context, row, useOf)),
    outbox: await outboxCounts(reader),
    quarantined,
    ...(own.some(({ rank }) => rank > 0) && { relays: await relayViews(reader, context, useOf) }),
  };
}

/** Of each, in the owner's order. */
export async function relayViews(reader: Reader, context: HostContext, useOf: UseOf): Promise<RelayView[]> {
  const own = await ownRelays(reader);
  const peers = await livePeers(reader);
  const held = await heldByRelays(reader);
  const views: RelayView[] = [];
  for (const [at, { row, role }] of own.entries()) {
    const health = useOf(row.pubkey)?.link.health;
    const there = held.get(row.pubkey);
    const heardMs = health?.heardMs;
    views.push({
      number: at + 1,
      role,
      relay: pinnedView(row),
      ...(await linkMembers(reader, context, row, useOf)),
      is_down: health?.isDown ?? false,
      heard_seconds: heardMs === undefined ? null : Math.floor(heardMs / 1000),
      unheard_seconds: Math.floor((health?.unheardMs ?? 0) / 1000),
      held: there?.held ?? 0,
      held_alone: there?.alone ?? 0,
      copies_at: own.flatMap(({ row: other }, nth) => (there?.also.has(other.pubkey) ? [nth + 1] : [])),
      hosts: peers.filter((peer) => sharedRelays(reader, peer)[0] === row.pubkey).map(({ hostName }) => hostName),
    });
  }
  return views;
}

type LinkMembers = Omit<RelayStatusResult, 'relay' | 'outbox' | 'quarantined' | 'relays'>;

async function linkMembers(
  reader: Reader,
  context: HostContext,
  row: RelayRow | undefined,
  useOf: UseOf,
): Promise<LinkMembers> {
  const { link, pull } = (row && useOf(row.pubkey)) ?? {};
  const { publicKey: hostPubkey } = context.identity().signer;
  const scope = row?.epoch ? { relayPubkey: row.pubkey, epoch: row.epoch, hostPubkey } : undefined;
  const known = scope && enrolmentIn(reader, scope);
  const { problem, state = 'connecting' } = link ?? {};
  const evidence = row ? await evidenceIn(reader, row.pubkey) : [];
  const isDoubted = (state === 'ready' || state === 'connecting') && evidence.some(showsTwoHistories);
  return {
    state: row ? (isDoubted ? 'two-histories' : state) : 'unset',
    problem: problem ? { code: problem.code, message: problem.message, at: isoTime(problem.atMs) } : null,
    seen_key: row?.seenKey
      ? {
          relay_pubkey: row.seenKey.pubkey,
          fingerprint: displayFingerprint(row.seenKey.pubkey),
          at: isoTime(row.seenKey.atMs),
        }
      : null,
    epoch: row?.epoch ?? null,
    epochs_left: (row && reader.get('relayTrust', row.pubkey)?.left.length) ?? 0,
    clock_ahead_ms: link?.skewMs ?? null,
    limits: link?.session?.limits ?? null,
    enrolment: known
      ? {
          checked_at: isoTime(known.checkedAtMs),
          authorized_by: known.authorizedBy,
          account: known.account,
          crowded: known.isCrowded,
          valid_until: isoTimeOrNull(known.validUntilMs),
          enc_key: known.encKey && {
            at: isoTime(known.encKey.at),
            checked_at: isoTime(known.encKey.checkedAtMs),
          },
          senders: known.senders && {
            count: known.senders.count,
            iat: isoTime(known.senders.iat),
            checked_at: isoTime(known.senders.checkedAtMs),
          },
        }
      : null,
    received_through: scope ? positionIn(reader, scope) : 0,
    head_seq: pull?.headSeq ?? null,
    long_poll: pull?.isHeldBack ?? null,
    evidence: evidence.filter(({ dismissedAtMs }) => dismissedAtMs === null).length,
  };
}
