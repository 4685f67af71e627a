/**
 * The relay without cleverness: arrays, maps and sums over everything, for tests that compare.
 *
 * It remembers every item it ever took and counts anew whenever a limit is asked for. It writes nothing down twice.
 */
import { canonicalize } from 'json-canonicalize';
import { dedupHorizonMs, retentionMs } from '../../src/protocol/limits.ts';
import { foldHostName } from '../../src/protocol/names.ts';
import type { PublicKey } from '../../src/protocol/public-key.ts';
import type { EnrolHost, PublishSenders, PushItem } from '../../src/relay/core/command.ts';
import { UNUSED_LAPSES_AFTER_MS } from '../../src/relay/core/directory.ts';
import type { RelaySettings } from '../../src/relay/core/facts.ts';
import type { AuthorityName, TargetRow, UsageRow } from '../../src/relay/core/rows.ts';
import { relay } from './hosts.ts';

export interface ModelHost {
  key: PublicKey;
  name: string;
  account: string | null;
  authorizedBy: AuthorityName;
  enrolledAtMs: number;
  seen: boolean;
}

export interface ModelItem {
  sender: PublicKey;
  target: PublicKey;
  itemId: string;
  wire: string;
  seq: number;
  acceptedAtMs: number;
  expiresAtMs: number;
  dedupUntilMs: number;
  /** What came in one request is due together. */
  request: number;
  isNotice: boolean;
  isExpired: boolean;
  isForgotten: boolean;
}

export class Model {
  readonly hosts = new Map<PublicKey, ModelHost>();
  readonly items: ModelItem[] = [];
  readonly heads = new Map<PublicKey, number>();
  readonly acked = new Map<PublicKey, number>();
  readonly lists = new Map<PublicKey, { senders: Set<PublicKey>; iatMs: number }>();
  #request = 0;
  readonly #settings: RelaySettings;

  constructor(settings: RelaySettings) {
    this.#settings = settings;
  }

  /** What waits for `target`, in order. */
  queue(target: PublicKey): ModelItem[] {
    return this.items.filter(
      (item) => item.target === target && !item.isExpired && item.seq > (this.acked.get(target) ?? 0),
    );
  }

  targetRow(target: PublicKey): TargetRow {
    const { items, bytes } = usageOf(this.queue(target));
    const [headSeq, ackedThrough] = [this.heads.get(target) ?? 0, this.acked.get(target) ?? 0];
    return { headSeq, ackedThrough, queueItems: items, queueBytes: bytes };
  }

  share(target: PublicKey, sender: PublicKey): UsageRow {
    return usageOf(this.queue(target).filter((item) => item.sender === sender));
  }

  account(account: string): UsageRow {
    const hosts = [...this.hosts.values()].filter((host) => host.account === account);
    return usageOf(hosts.flatMap(({ key }) => this.queue(key)));
  }

  dedupRows(sender: PublicKey): number {
    return this.items.filter((item) => item.sender === sender && !item.isForgotten && !item.isNotice).length;
  }

  /** Items pushed from now on come in another request. */
  nextRequest(): void {
    this.#request++;
  }

  publishSenders({ hostPubkey, senders, iatMs, nowMs }: PublishSenders): string {
    const before = this.lists.get(hostPubkey);
    const keys = new Set(senders);
    if (iatMs > nowMs + 300_000) return 'IAT_IN_FUTURE';
    if (before && before.iatMs > iatMs) return 'STALE_LIST';
    if (before?.iatMs === iatMs && !haveSame(before.senders, keys)) return 'STALE_LIST';
    this.lists.set(hostPubkey, { senders: keys, iatMs });
    return 'SendersListed';
  }

  /** Expires what is due, in the order in which it became due, then forgets what is to be forgotten. */
  sweep(nowMs: number): void {
    const waiting = [...this.heads.keys()].flatMap((target) => this.queue(target));
    const due = waiting.filter(({ expiresAtMs }) => expiresAtMs <= nowMs);
    const entries = grouped(due, ({ expiresAtMs, request }) => `${expiresAtMs} ${request}`);
    const oldestFirst = [...entries.values()].toSorted(
      ([a], [b]) => a!.expiresAtMs - b!.expiresAtMs || a!.request - b!.request,
    );
    for (const entry of oldestFirst) {
      // Target by target, in the order of what was pushed together, whatever of it still waits.
      const inOrder = this.items.filter(({ request }) => request === entry[0]?.request);
      for (const items of grouped(inOrder, ({ target }) => target).values()) {
        for (const item of items) if (entry.includes(item)) this.#expire(item, nowMs);
      }
    }
    for (const item of this.items) if (item.dedupUntilMs <= nowMs) item.isForgotten = true;
  }

  #expire(item: ModelItem, nowMs: number): void {
    const { limits } = this.#settings;
    item.isExpired = true;
    item.dedupUntilMs = Math.max(item.dedupUntilMs, nowMs + dedupHorizonMs(limits));
    const { sender, target, itemId, acceptedAtMs } = item;
    if (item.isNotice || !this.hosts.has(sender)) return;
    const seq = Math.max((this.heads.get(sender) ?? 0) + 1, nowMs);
    this.heads.set(sender, seq);
    const rec = {
      v: 1,
      type: 'relay-expired',
      item_id: itemId,
      target_pubkey: target,
      accepted_at: acceptedAtMs,
      expired_at: nowMs,
    };
    this.items.push({
      sender: relay.key,
      target: sender,
      itemId: `expired:${itemId}:${target}`,
      wire: canonicalize({ rec, sig: relay.signer.sign(Buffer.from(canonicalize(rec))) }),
      seq,
      acceptedAtMs: nowMs,
      expiresAtMs: nowMs + retentionMs(limits),
      dedupUntilMs: Number.MAX_SAFE_INTEGER,
      request: ++this.#request,
      isNotice: true,
      isExpired: false,
      isForgotten: false,
    });
  }

  /** The verdict, and the seq of each target of a stored item. */
  push({ senderPubkey, item, wireVerdict, nowMs }: PushItem): { verdict: string; seqs: number[] } {
    const { limits } = this.#settings;
    const { itemId, targets } = item;
    const keys = targets.map(({ hostPubkey }) => hostPubkey);
    if (targets.length > limits.max_targets) return rejected('too many targets');
    if (keys.some((key, at) => keys.indexOf(key) !== at)) return rejected('duplicate target');
    if (targets.some(({ wire }) => wire.length > limits.max_item_bytes)) return rejected('too large');
    if (keys.some((key) => !this.hosts.has(key))) return rejected('unknown target');
    const refuses = (key: PublicKey): boolean => this.lists.get(key)?.senders.has(senderPubkey) === false;
    if (keys.some(refuses)) return rejected('sender not accepted by target');
    if (wireVerdict !== 'ok') return rejected(wireVerdict);
    const known = targets.map(({ hostPubkey }) =>
      this.items.find(
        (one) => !one.isForgotten && one.sender === senderPubkey && one.target === hostPubkey && one.itemId === itemId,
      ),
    );
    if (known.some((one, at) => one && one.wire !== targets[at]?.wire.toString())) return rejected('conflict');
    if (known.every((one) => one !== undefined))
      return { verdict: 'duplicate', seqs: known.map((one) => one?.seq ?? 0) };
    const quota = this.#quota(
      senderPubkey,
      targets.filter((_target, at) => !known[at]),
    );
    if (quota) return rejected(`quota:${quota}`);
    const seqs = targets.map(({ hostPubkey: target, wire }, at) => {
      const before = known[at];
      if (before) return before.seq;
      const seq = Math.max((this.heads.get(target) ?? 0) + 1, nowMs);
      this.heads.set(target, seq);
      const expiresAtMs = nowMs + retentionMs(limits);
      this.items.push({
        sender: senderPubkey,
        target,
        itemId,
        wire: wire.toString(),
        seq,
        acceptedAtMs: nowMs,
        expiresAtMs,
        dedupUntilMs: expiresAtMs + dedupHorizonMs(limits),
        request: this.#request,
        isNotice: false,
        isExpired: false,
        isForgotten: false,
      });
      return seq;
    });
    return { verdict: 'accepted', seqs };
  }

  ack(target: PublicKey, through: number): { verdict: string; deleted: number } {
    if (through > (this.heads.get(target) ?? 0)) return { verdict: 'BAD_ACK', deleted: 0 };
    const before = this.queue(target).length;
    this.acked.set(target, Math.max(through, this.acked.get(target) ?? 0));
    return { verdict: 'Acked', deleted: before - this.queue(target).length };
  }

  /** `lapsing` are those of which one must have given way. */
  enrol(command: EnrolHost): { verdict: string; lapsing: PublicKey[] } {
    const { hostPubkey: key, hostName, authorizedBy, answer, nowMs } = command;
    if (!answer.ok) return { verdict: 'ENROL_REFUSED', lapsing: [] };
    const before = this.hosts.get(key);
    const isWeaker = before?.authorizedBy === 'account-token' && authorizedBy === 'host-key';
    const account = isWeaker ? before.account : (answer.account ?? before?.account ?? null);
    const isTaken = [...this.hosts.values()].some(
      (host) =>
        host.key !== key &&
        account !== null &&
        host.account === account &&
        foldHostName(host.name) === foldHostName(hostName),
    );
    if (isTaken) return { verdict: 'NAME_TAKEN', lapsing: [] };
    const lapsing = before || this.hosts.size < this.#settings.enrolmentsMax ? [] : this.#lapsing(nowMs);
    if (!before && this.hosts.size >= this.#settings.enrolmentsMax && lapsing.length === 0) {
      return { verdict: 'ENROLMENTS_FULL', lapsing: [] };
    }
    this.hosts.set(key, {
      key,
      name: hostName,
      account,
      authorizedBy: isWeaker ? before.authorizedBy : authorizedBy,
      enrolledAtMs: before?.enrolledAtMs ?? nowMs,
      seen: before?.seen ?? false,
    });
    return { verdict: 'Enrolled', lapsing };
  }

  #lapsing(nowMs: number): PublicKey[] {
    const unused = [...this.hosts.values()].filter(({ seen }) => !seen);
    const oldestMs = Math.min(...unused.map(({ enrolledAtMs }) => enrolledAtMs));
    if (nowMs - oldestMs < UNUSED_LAPSES_AFTER_MS) return [];
    return unused.filter(({ enrolledAtMs }) => enrolledAtMs === oldestMs).map(({ key }) => key);
  }

  /** Which quota the new places of one item would pass, in the order of protocol.md section 4. */
  #quota(sender: PublicKey, added: PushItem['item']['targets']): string | undefined {
    const { limits, dedupRowsMax } = this.#settings;
    const queues = added.map(({ hostPubkey, wire }) => plus(usageOf(this.queue(hostPubkey)), 1, wire.length));
    const shares = added.map(({ hostPubkey, wire }) => plus(this.share(hostPubkey, sender), 1, wire.length));
    const accounts = [...new Set(added.map(({ hostPubkey }) => this.hosts.get(hostPubkey)?.account ?? null))];
    const owners = accounts
      .filter((account) => account !== null)
      .map((account) => {
        const ofAccount = added.filter(({ hostPubkey }) => this.hosts.get(hostPubkey)?.account === account);
        const bytes = ofAccount.reduce((sum, { wire }) => sum + wire.length, 0);
        return plus(this.account(account), ofAccount.length, bytes);
      });
    if (queues.some(({ items }) => items > limits.max_queue_items)) return 'queue_items';
    if (queues.some(({ bytes }) => bytes > limits.max_queue_bytes)) return 'queue_bytes';
    if (shares.some(({ items }) => items > limits.max_sender_items)) return 'sender_items';
    if (shares.some(({ bytes }) => bytes > limits.max_sender_bytes)) return 'sender_bytes';
    if (owners.some(({ items }) => items > limits.max_owner_items)) return 'owner_items';
    if (owners.some(({ bytes }) => bytes > limits.max_owner_bytes)) return 'owner_bytes';
    if (this.dedupRows(sender) + added.length > dedupRowsMax) return 'dedup_rows';
    return undefined;
  }
}

function rejected(code: string): { verdict: string; seqs: number[] } {
  return { verdict: `rejected:${code}`, seqs: [] };
}

/** No quota is charged for notices. */
function usageOf(all: readonly ModelItem[]): UsageRow {
  const items = all.filter(({ isNotice }) => !isNotice);
  return { items: items.length, bytes: items.reduce((sum, { wire }) => sum + wire.length, 0) };
}

function haveSame(a: ReadonlySet<PublicKey>, b: ReadonlySet<PublicKey>): boolean {
  return a.size === b.size && [...a].every((key) => b.has(key));
}

function grouped<T>(all: readonly T[], markOf: (one: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const one of all) groups.set(markOf(one), [...(groups.get(markOf(one)) ?? []), one]);
  return groups;
}

function plus(usage: UsageRow, items: number, bytes: number): UsageRow {
  return { items: usage.items + items, bytes: usage.bytes + bytes };
}
