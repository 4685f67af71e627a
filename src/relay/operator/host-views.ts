/** The hosts as the console shows them: a list, the biggest queues, and one host with its quotas. */
import type { ConsoleHost, ConsoleHosts, HostShown, QuotaUse } from '../../protocol/operator-documents.ts';
import { type PublicKey, displayFingerprint } from '../../protocol/public-key.ts';
import { allHosts, hostDocument } from './hosts.ts';
import type { EnrolmentRow, RowReader } from '../core/rows.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Engine } from '../engine/engine.ts';
import type { LastPull } from './activity.ts';

const HOSTS_LISTED_MAX = 200;
const BIGGEST_MAX = 10;

export interface HostViewOptions {
  engine: Engine;
  rows: RowReader;
  clock: Clock;
  lastPull: (target: PublicKey) => LastPull | undefined;
}

/** Those whose name, account, owner, fingerprint or key holds the words, the biggest queues first. */
export async function listHosts(
  search: string,
  state: string | undefined,
  { engine, clock }: HostViewOptions,
): Promise<ConsoleHosts> {
  const words = search.toLowerCase();
  const listed: HostShown[] = [];
  let matches = 0;
  let total = 0;
  for await (const slice of allHosts(engine, clock.nowMs(), () => clock.monotonicMs())) {
    total += slice.length;
    const fitting = slice.filter((host) => (!state || host.state === state) && isFitting(host, words));
    matches += fitting.length;
    listed.push(...fitting);
    keepFirst(listed, HOSTS_LISTED_MAX);
  }
  return { hosts: listed, matches, total };
}

export async function biggestQueues({ engine, clock }: HostViewOptions): Promise<HostShown[]> {
  const biggest: HostShown[] = [];
  for await (const slice of allHosts(engine, clock.nowMs(), () => clock.monotonicMs())) {
    biggest.push(...slice.filter(({ queue_items }) => queue_items > 0));
    keepFirst(biggest, BIGGEST_MAX);
  }
  return biggest;
}

export function hostView(row: EnrolmentRow, { engine, rows, clock, lastPull }: HostViewOptions): ConsoleHost {
  const { hostPubkey } = row;
  const senders = rows.get('senders', hostPubkey);
  const members = rows.get('lineage', hostPubkey)?.members ?? [{ hostPubkey, retiredAtMs: null }];
  const pull = lastPull(hostPubkey);
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
    last_pull: pull ? { at: pull.atMs, through: pull.through ?? null } : null,
  };
}

function quotas({ hostPubkey, account }: EnrolmentRow, engine: Engine, rows: RowReader): QuotaUse[] {
  const { limits, dedupRowsMax } = engine.settings;
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
  ];
}

function isFitting({ host, account, owner_fp, fingerprint, host_pubkey }: HostShown, words: string): boolean {
  if (words === '') return true;
  return [host, account ?? '', owner_fp, fingerprint, host_pubkey].some((text) => text.toLowerCase().includes(words));
}

function keepFirst(hosts: HostShown[], count: number): void {
  hosts.sort((a, b) => b.queue_bytes - a.queue_bytes || compare(a.host, b.host) || a.enrolled_at - b.enrolled_at);
  hosts.length = Math.min(hosts.length, count);
}

function compare(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
