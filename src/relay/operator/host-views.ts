/** The hosts as the console shows them: a list, the biggest queues, and one host with its quotas. */
import type {
  ConsoleHost,
  ConsoleHosts,
  HostListed,
  HostOrder,
  HostShown,
  QuotaUse,
} from '../../protocol/operator-documents.ts';
import { foldHostName } from '../../protocol/names.ts';
import { type PublicKey, displayFingerprint } from '../../protocol/public-key.ts';
import { allHosts, hostDocument } from './hosts.ts';
import { sendersRow } from '../core/decision.ts';
import type { EnrolmentRow, RowReader } from '../core/rows.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Engine } from '../engine/engine.ts';
import type { LastPull } from './activity.ts';

const HOSTS_PER_PAGE = 50;
const BIGGEST_MAX = 10;
const SORTED_AT_ONCE = 1000;

export interface HostViewOptions {
  engine: Engine;
  rows: RowReader;
  clock: Clock;
  lastPull: (target: PublicKey) => LastPull | undefined;
}

interface AskedHosts {
  /** Part of a name, account, owner, fingerprint or key. */
  search: string;
  state: string | undefined;
  sort: HostOrder;
  /** Against the natural order of `sort`. */
  isReversed: boolean;
  offset: number;
}

export async function listHosts(
  { search, state, sort, isReversed, offset }: AskedHosts,
  options: HostViewOptions,
): Promise<ConsoleHosts> {
  const { engine, clock } = options;
  const words = search.toLowerCase();
  const order = hostOrder(sort, isReversed);
  const wanted = offset + HOSTS_PER_PAGE;
  const listed: HostListed[] = [];
  let matches = 0;
  let total = 0;
  for await (const slice of allHosts(engine, clock.nowMs(), clock.monotonicMs)) {
    total += slice.length;
    const fitting = slice.filter((host) => (!state || host.state === state) && isFitting(host, words));
    matches += fitting.length;
    listed.push(...fitting.map((host) => listedHost(host, options)));
    // Not for each slice: most of what is sorted stays as it is.
    if (listed.length > 2 * wanted + SORTED_AT_ONCE) keepFirst(listed, wanted, order);
  }
  keepFirst(listed, wanted, order);
  return { hosts: listed.slice(offset), offset, per_page: HOSTS_PER_PAGE, matches, total };
}

function listedHost(host: HostShown & { host_pubkey: PublicKey }, { engine, lastPull }: HostViewOptions): HostListed {
  const { max_queue_items: itemsMax, max_queue_bytes: bytesMax } = engine.settings.limits;
  const fullness = Math.max(host.queue_items / itemsMax, host.queue_bytes / bytesMax);
  return { ...host, last_seen: lastPull(host.host_pubkey)?.atMs ?? null, fullness };
}

type Order<Host> = (a: Host, b: Host) => number;

/** Equal ones by name, then the oldest first. */
function hostOrder(sort: HostOrder, isReversed: boolean): Order<HostListed> {
  const sign = isReversed ? -1 : 1;
  return (a, b) => sign * NATURAL_ORDERS[sort](a, b) || byName(a, b) || a.enrolled_at - b.enrolled_at;
}

const NATURAL_ORDERS: Readonly<Record<HostOrder, Order<HostListed>>> = {
  bytes: (a, b) => b.queue_bytes - a.queue_bytes,
  items: (a, b) => b.queue_items - a.queue_items,
  full: (a, b) => b.fullness - a.fullness,
  // One that has not called since the start called before that.
  seen: (a, b) => (a.last_seen ?? 0) - (b.last_seen ?? 0),
  name: byName,
  enrolled: (a, b) => b.enrolled_at - a.enrolled_at,
};

function byName(a: HostShown, b: HostShown): number {
  return compare(foldHostName(a.host), foldHostName(b.host));
}

export async function biggestQueues({ engine, clock }: HostViewOptions): Promise<HostShown[]> {
  const biggest: HostShown[] = [];
  for await (const slice of allHosts(engine, clock.nowMs(), clock.monotonicMs)) {
    biggest.push(...slice.filter(({ queue_items }) => queue_items > 0));
    keepFirst(biggest, BIGGEST_MAX, (a, b) => b.queue_bytes - a.queue_bytes || byName(a, b));
  }
  return biggest;
}

export async function hostView(
  row: EnrolmentRow,
  { engine, rows, clock, lastPull }: HostViewOptions,
): Promise<ConsoleHost> {
  const { hostPubkey } = row;
  const senders = sendersRow(rows, hostPubkey);
  const members = rows.get('lineage', hostPubkey)?.members ?? [{ hostPubkey, retiredAtMs: null }];
  const pull = lastPull(hostPubkey);
  // A host whose queue is damaged is shown all the same.
  const waiting = await engine.page(hostPubkey, 0, 1).catch(() => undefined);
  return {
    host: hostDocument(row, engine, clock.nowMs()),
    quotas: quotas(row, engine, rows),
    allowed_senders: senders?.senders.length ?? null,
    senders_published_at: senders?.iatMs ?? null,
    enc_key_published_at: rows.get('encKey', hostPubkey)?.atMs ?? null,
    lineage: members.map((member) => ({
      host_pubkey: member.hostPubkey,
      fingerprint: displayFingerprint(member.hostPubkey),
      retired_at: member.retiredAtMs,
    })),
    oldest_waiting_at: waiting?.rows[0]?.acceptedAtMs ?? null,
    last_pull: pull ? { at: pull.atMs, through: pull.through ?? null } : null,
  };
}

function quotas({ hostPubkey, account }: EnrolmentRow, engine: Engine, rows: RowReader): QuotaUse[] {
  const { directory, mail, settings } = engine;
  const { limits, dedupRowsMax } = settings;
  const { isVouchedFor, own, left } = mail.factsOf(hostPubkey, directory.keysOf(hostPubkey), settings);
  const { queueItems, queueBytes } = engine.head(hostPubkey);
  const ofAccount = account === null ? undefined : (rows.get('account', account) ?? { items: 0, bytes: 0 });
  return [
    { name: 'queue', unit: 'items', used: queueItems, max: limits.max_queue_items },
    { name: 'queue', unit: 'bytes', used: queueBytes, max: limits.max_queue_bytes },
    ...(ofAccount
      ? [
          { name: 'account', unit: 'items', used: ofAccount.items, max: limits.max_owner_items },
          { name: 'account', unit: 'bytes', used: ofAccount.bytes, max: limits.max_owner_bytes },
        ]
      : []),
    {
      name: 'remembered pushes',
      unit: 'rows',
      used: rows.get('sender', hostPubkey)?.dedupRows ?? 0,
      max: dedupRowsMax,
    },
    // Without a known disk there is no part of it.
    ...(isVouchedFor || left === Infinity
      ? []
      : [{ name: 'part of the disk', unit: 'bytes', used: own, max: Math.max(0, Math.floor((own + left) / 2)) }]),
  ];
}

function isFitting({ host, account, owner_fp, fingerprint, host_pubkey }: HostShown, words: string): boolean {
  if (words === '') return true;
  return [host, account ?? '', owner_fp, fingerprint, host_pubkey].some((text) => text.toLowerCase().includes(words));
}

function keepFirst<Host>(hosts: Host[], count: number, order: Order<Host>): void {
  hosts.sort(order);
  hosts.length = Math.min(hosts.length, count);
}

function compare(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
