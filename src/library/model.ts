/**
 * The relay without cleverness: arrays, sets and sums over everything, for tests that compare.
 *
 * A host is a set of keys and a queue is an array. It remembers every item it ever took and counts anew whenever a
 * limit is asked for. It writes nothing down twice.
 */
import { signedRecordJson } from '../protocol/documents.ts';
import type { Sha256Hex } from '../protocol/encodings.ts';
import type { Signer } from '../protocol/ed25519.ts';
import { DENY_KEPT_MS, dedupHorizonMs, retentionMs } from '../protocol/limits.ts';
import { foldHostName } from '../protocol/names.ts';
import type { PublicKey } from '../protocol/public-key.ts';
import type { DenyHosts, EnrolHost, IssueInvite, PublishSenders, PushItem, RotateKey } from '../relay/core/command.ts';
import { UNUSED_LAPSES_AFTER_MS } from '../relay/core/directory.ts';
import type { RelaySettings } from '../relay/core/decision.ts';
import type { TargetRow, UsageRow } from '../relay/core/rows.ts';
import {
  type ModelEnrolment,
  type ModelHost,
  type ModelItem,
  type ModelPush,
  type Selectors,
  haveSame,
  isMeant,
  isSameEntry,
  plus,
  takesTooMuch,
  rejection,
  usageOf,
} from './model-values.ts';

export class NaiveModel {
  readonly enrolments = new Map<PublicKey, ModelEnrolment>();
  readonly items: ModelItem[] = [];
  readonly heads = new Map<PublicKey, number>();
  readonly acked = new Map<PublicKey, number>();
  readonly lists = new Map<PublicKey, { senders: Set<PublicKey>; iatMs: number }>();
  readonly invites = new Map<Sha256Hex, number>();
  denied: (Selectors & { untilMs: number })[] = [];
  readonly #hosts = new Map<PublicKey, ModelHost>();
  readonly #queues = new Map<PublicKey, ModelItem[]>();
  readonly #successors = new Map<PublicKey, PublicKey>();
  /** The times at which something was to be forgotten, renewed since or not. */
  readonly #deadlines: number[] = [];
  /** The last of the deadlines that passed. */
  #forgottenMs = 0;
  readonly #settings: RelaySettings;
  readonly #signer: Signer;

  /** `signer` is the relay's, of expiry notices. */
  constructor(settings: RelaySettings, signer: Signer) {
    this.#settings = settings;
    this.#signer = signer;
  }

  /** Returns what waits for `target`, in order. */
  queue(target: PublicKey): ModelItem[] {
    const queue = this.#queues.get(target) ?? [];
    this.#queues.set(target, queue);
    return queue;
  }

  /** The host that this key belongs or belonged to. */
  host(key: PublicKey): ModelHost {
    return this.#hosts.get(key) ?? { keys: new Set([key]), present: key };
  }

  live(): ModelEnrolment[] {
    return [...this.enrolments.values()].filter(({ isRevoked }) => !isRevoked);
  }

  isLive(key: PublicKey): boolean {
    return this.enrolments.get(key)?.isRevoked === false;
  }

  targetRow(target: PublicKey): TargetRow {
    const { items, bytes } = usageOf(this.queue(target));
    const [headSeq, ackedThrough] = [this.heads.get(target) ?? 0, this.acked.get(target) ?? 0];
    return { headSeq, ackedThrough, queueItems: items, queueBytes: bytes };
  }

  /** Returns what these keys have queued at `target`. */
  share(target: PublicKey, senders: ReadonlySet<PublicKey>): UsageRow {
    return usageOf(this.queue(target).filter(({ sender }) => senders.has(sender)));
  }

  /** A revoked host's mail stays charged until it expires. */
  account(account: string): UsageRow {
    const hosts = [...this.enrolments.values()].filter((host) => host.account === account);
    return usageOf(hosts.flatMap(({ key }) => this.queue(key)));
  }

  dedupRows(senders: ReadonlySet<PublicKey>): number {
    return this.items.filter((item) => senders.has(item.sender) && !item.isForgotten && !item.isNotice).length;
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

  rotate({ oldPubkey, newPubkey, iatMs, nowMs }: RotateKey): { verdict: string; movedItems: number; headSeq: number } {
    const [old, other] = [this.enrolments.get(oldPubkey), this.enrolments.get(newPubkey)];
    const answer = (verdict: string, movedItems = 0): { verdict: string; movedItems: number; headSeq: number } => {
      return { verdict, movedItems, headSeq: this.heads.get(newPubkey) ?? 0 };
    };
    if (!old) return answer('NOT_ENROLLED');
    if (this.#successors.get(oldPubkey) === newPubkey) return answer('KeyRotated');
    if (old.isRevoked) return answer('ENROL_REFUSED');
    if (iatMs > nowMs + 300_000) return answer('IAT_IN_FUTURE');
    const keys = new Set([...this.host(oldPubkey).keys, ...this.host(newPubkey).keys]);
    const isForbidden =
      this.host(oldPubkey).keys.has(newPubkey) ||
      other?.isRevoked === true ||
      (old.account !== null && other !== undefined && other.account !== null && other.account !== old.account) ||
      [old, ...(other ? [other] : [])].some((one) => this.#isDenied(keys, one, nowMs));
    if (isForbidden) return answer('ENROL_REFUSED');

    // The one that lasts longer counts of two proofs of one account.
    const isOlder = (old.validUntilMs ?? Infinity) > (other?.validUntilMs ?? Infinity);
    const proof = !other || (old.account !== null && (other.account === null || isOlder)) ? old : other;
    const isNameTaken = this.live().some(
      ({ key, account, name }) =>
        !keys.has(key) &&
        account !== null &&
        account === proof.account &&
        foldHostName(name) === foldHostName(old.name),
    );
    this.enrolments.set(newPubkey, {
      ...proof,
      key: newPubkey,
      name: isNameTaken ? (other ?? old).name : old.name,
      enrolledAtMs: other?.enrolledAtMs ?? nowMs,
      seen: old.seen || other?.seen === true,
      invited: old.invited || other?.invited === true,
    });
    old.isRevoked = true;
    this.#successors.set(oldPubkey, newPubkey);
    for (const key of keys) this.#hosts.set(key, { keys, present: newPubkey });

    const [oldList, newList] = [this.lists.get(oldPubkey), this.lists.get(newPubkey)];
    if (oldList && (!newList || newList.iatMs < oldList.iatMs)) this.lists.set(newPubkey, oldList);
    this.lists.delete(oldPubkey);

    const moved = this.queue(oldPubkey).splice(0);
    let seq = Math.max((this.heads.get(oldPubkey) ?? 0) + 1, (this.heads.get(newPubkey) ?? 0) + 1, nowMs);
    for (const item of moved) {
      this.items.splice(this.items.indexOf(item), 1);
      Object.assign(item, { target: newPubkey, seq });
      this.items.push(item);
      this.queue(newPubkey).push(item);
      this.heads.set(newPubkey, seq++);
    }
    return answer('KeyRotated', moved.length);
  }

  revoke(key: PublicKey): string {
    const enrolment = this.enrolments.get(key);
    if (!enrolment) return 'NOT_ENROLLED';
    enrolment.isRevoked = true;
    return 'Revoked';
  }

  deny({ hostFp, clientId, account, org, nowMs }: DenyHosts): void {
    const selectors = { hostFp, clientId, account, org };
    const before = this.denied.find((one) => isSameEntry(one, selectors));
    // The clock may have gone back since.
    const entry = { ...selectors, untilMs: Math.max(nowMs + DENY_KEPT_MS, before?.untilMs ?? 0) };
    this.denied = [...this.denied.filter((one) => !isSameEntry(one, entry)), entry];
    this.#revokeMatches(entry);
  }

  invite({ inviteHash, expiresAtMs }: IssueInvite): void {
    this.invites.set(inviteHash, expiresAtMs);
  }

  /** Applies the deny entries that stand again, as the relay does when it starts. */
  restart(nowMs: number): void {
    for (const entry of this.denied) if (entry.untilMs > nowMs) this.#revokeMatches(entry);
  }

  /** Expires what is due, queue by queue in the order of their keys, then forgets what is to be forgotten. */
  sweep(nowMs: number): void {
    const queues = [...this.#queues].toSorted(([a], [b]) => (a < b ? -1 : 1));
    const due = queues.flatMap(([, queue]) => queue.filter(({ expiresAtMs }) => expiresAtMs <= nowMs));
    for (const item of due) this.#expire(item, nowMs);
    this.#forgottenMs = Math.max(this.#forgottenMs, ...this.#deadlines.filter((deadlineMs) => deadlineMs <= nowMs));
    for (const item of this.items) if (item.dedupUntilMs <= nowMs) item.isForgotten = true;
    this.denied = this.denied.filter(({ untilMs }) => untilMs > nowMs);
    for (const [hash, expiresAtMs] of this.invites) if (expiresAtMs <= nowMs) this.invites.delete(hash);
  }

  /** An item that ends after its time is known for the horizon from there on. */
  #extend(item: ModelItem, nowMs: number): void {
    item.dedupUntilMs = Math.max(item.dedupUntilMs, nowMs + dedupHorizonMs(this.#settings.limits));
    this.#deadlines.push(item.dedupUntilMs);
  }

  #expire(item: ModelItem, nowMs: number): void {
    const queue = this.queue(item.target);
    queue.splice(queue.indexOf(item), 1);
    this.#extend(item, nowMs);
    const { sender, pushedTo, itemId, acceptedAtMs } = item;
    const told = this.host(sender).present;
    if (item.isNotice || !this.isLive(told)) return;
    const rec = {
      v: 1,
      type: 'relay-expired',
      item_id: itemId,
      target_pubkey: pushedTo,
      accepted_at: acceptedAtMs,
      expired_at: nowMs,
    };
    this.#append(told, nowMs, {
      sender: this.#signer.publicKey,
      itemId: `expired:${itemId}:${pushedTo}`,
      wire: signedRecordJson(this.#signer, rec),
      dedupUntilMs: Number.MAX_SAFE_INTEGER,
      isNotice: true,
    });
  }

  /** The verdict, and the seqs of each target of a stored item. */
  push(command: PushItem): ModelPush {
    const { senderPubkey, item, wireVerdict, isKnownById, nowMs } = command;
    const { limits } = this.#settings;
    const { itemId, targets } = item;
    const keys = targets.map(({ hostPubkey }) => hostPubkey);
    const sender = this.host(senderPubkey).keys;
    if (targets.length > limits.max_targets) return rejection('too many targets');
    if (keys.some((key, at) => keys.indexOf(key) !== at)) return rejection('duplicate target');
    if (targets.some(({ wire }) => wire.length > limits.max_item_bytes)) return rejection('too large');
    if (keys.some((key) => !this.enrolments.has(key))) return rejection('unknown target');
    if (keys.some((key) => !this.isLive(key))) return rejection('target revoked');
    const lists = keys.flatMap((key) => this.lists.get(key) ?? []);
    if (lists.some(({ senders }) => ![...sender].some((key) => senders.has(key))))
      return rejection('sender not accepted by target');
    if (wireVerdict !== 'ok') return rejection(wireVerdict);
    const sameId = this.items.filter((one) => !one.isForgotten && sender.has(one.sender) && one.itemId === itemId);
    const atTarget = keys.map((key) => sameId.filter(({ pushedTo }) => this.host(key).keys.has(pushedTo)));
    const known = atTarget.map((all, at) =>
      all.filter(({ wire }) => isKnownById || wire === targets[at]?.wire.toString()),
    );
    if (known.some((same, at) => same.length === 0 && atTarget[at]!.length > 0)) return rejection('conflict');
    const seqs = known.map((all) => all.map(({ toldSeq }) => toldSeq));
    if (known.every((all) => all.length > 0)) return { verdict: 'duplicate', seqs };
    const added = targets.filter((_target, at) => known[at]?.length === 0);
    const quota = this.#quota(senderPubkey, added);
    if (quota) return rejection(`quota:${quota}`);
    for (const { hostPubkey, wire } of added) {
      // A deadline that passed already, because the clock went back, would end the row at once.
      const dedupUntilMs = Math.max(nowMs + retentionMs(limits) + dedupHorizonMs(limits), this.#forgottenMs + 1);
      this.#deadlines.push(dedupUntilMs);
      const place = { sender: senderPubkey, itemId, wire: wire.toString(), dedupUntilMs, isNotice: false };
      seqs[keys.indexOf(hostPubkey)] = [this.#append(hostPubkey, nowMs, place)];
    }
    return { verdict: 'accepted', seqs };
  }

  #append(
    target: PublicKey,
    nowMs: number,
    item: Pick<ModelItem, 'sender' | 'itemId' | 'wire' | 'dedupUntilMs' | 'isNotice'>,
  ): number {
    const seq = Math.max((this.heads.get(target) ?? 0) + 1, nowMs);
    const expiresAtMs = nowMs + retentionMs(this.#settings.limits);
    const places = { pushedTo: target, toldSeq: seq, target, seq };
    const appended = { ...item, ...places, acceptedAtMs: nowMs, expiresAtMs, isForgotten: false };
    this.heads.set(target, seq);
    this.items.push(appended);
    this.queue(target).push(appended);
    return seq;
  }

  ack(target: PublicKey, through: number, nowMs: number): { verdict: string; deleted: number } {
    if (through > (this.heads.get(target) ?? 0)) return { verdict: 'BAD_ACK', deleted: 0 };
    const queue = this.queue(target);
    const left = queue.filter(({ seq }) => seq > through);
    for (const item of queue) if (item.seq <= through && item.expiresAtMs <= nowMs) this.#extend(item, nowMs);
    // An ack that releases nothing short of the head is not noted.
    if (left.length < queue.length || through === this.heads.get(target))
      this.acked.set(target, Math.max(through, this.acked.get(target) ?? 0));
    return { verdict: 'Acked', deleted: queue.splice(0, queue.length, ...left).length - left.length };
  }

  /** `lapsing` are those of which one must have given way. */
  enrol(command: EnrolHost): { verdict: string; lapsing: PublicKey[] } {
    const { hostPubkey: key, hostName, authorizedBy, answer, inviteHash, nowMs } = command;
    const before = this.enrolments.get(key);
    if (before?.isRevoked) return { verdict: 'ENROL_REFUSED', lapsing: [] };
    if (!answer.ok) return { verdict: 'ENROL_REFUSED', lapsing: [] };
    const claimed = {
      account: answer.account ?? before?.account ?? null,
      org: answer.org ?? before?.org ?? null,
      clientId: answer.clientId ?? before?.clientId ?? null,
    };
    if (this.#isDenied(this.host(key).keys, claimed, nowMs)) return { verdict: 'ENROL_REFUSED', lapsing: [] };
    const isWeaker = before?.authorizedBy === 'account-token' && authorizedBy === 'host-key';
    const proof = isWeaker ? before : { ...claimed, authorizedBy };
    const isTaken = this.live().some(
      (host) =>
        host.key !== key &&
        proof.account !== null &&
        host.account === proof.account &&
        foldHostName(host.name) === foldHostName(hostName),
    );
    if (isTaken) return { verdict: 'NAME_TAKEN', lapsing: [] };
    const isOpen = this.#settings.admission === 'open';
    const isInvite = inviteHash !== undefined && (this.invites.get(inviteHash) ?? 0) > nowMs;
    if (!before && !isOpen && !isInvite) return { verdict: 'ENROL_REFUSED', lapsing: [] };
    const isFull = !before && this.live().length >= this.#settings.enrolmentsMax;
    const lapsing = isFull ? this.#lapsing(nowMs) : [];
    if (isFull && lapsing.length === 0) return { verdict: 'ENROLMENTS_FULL', lapsing: [] };
    const isSpent = isInvite && (!before || (isOpen && before.account === null && !before.invited));
    if (isSpent) this.invites.delete(inviteHash);
    const { account, org, clientId, authorizedBy: authority } = proof;
    this.enrolments.set(key, {
      key,
      name: hostName,
      account,
      org,
      clientId,
      authorizedBy: authority,
      validUntilMs: answer.validUntilMs ?? null,
      enrolledAtMs: before?.enrolledAtMs ?? nowMs,
      isRevoked: false,
      seen: before?.seen ?? false,
      invited: isSpent || before?.invited === true,
    });
    return { verdict: 'Enrolled', lapsing };
  }

  #lapsing(nowMs: number): PublicKey[] {
    const unused = this.live().filter(({ seen }) => !seen);
    const oldestMs = Math.min(...unused.map(({ enrolledAtMs }) => enrolledAtMs));
    if (nowMs - oldestMs < UNUSED_LAPSES_AFTER_MS) return [];
    return unused.filter(({ enrolledAtMs }) => enrolledAtMs === oldestMs).map(({ key }) => key);
  }

  #revokeMatches(entry: Selectors): void {
    for (const enrolment of this.live()) {
      if (isMeant(entry, this.host(enrolment.key).keys, enrolment)) enrolment.isRevoked = true;
    }
  }

  #isDenied(keys: ReadonlySet<PublicKey>, claims: Omit<Selectors, 'hostFp'>, nowMs: number): boolean {
    return this.denied.some((entry) => entry.untilMs > nowMs && isMeant(entry, keys, claims));
  }

  /** Returns which quota the new places of one item would pass, in the order of docs/protocol.md. */
  #quota(senderPubkey: PublicKey, added: PushItem['item']['targets']): string | undefined {
    const { limits, dedupRowsMax } = this.#settings;
    const sender = this.host(senderPubkey).keys;
    const queues = added.map(({ hostPubkey, wire }) => plus(usageOf(this.queue(hostPubkey)), 1, wire.length));
    const shares = added.map(({ hostPubkey, wire }) => plus(this.share(hostPubkey, sender), 1, wire.length));
    const accountOf = (key: PublicKey): string | null => this.enrolments.get(key)?.account ?? null;
    const accounts = [...new Set(added.map(({ hostPubkey }) => accountOf(hostPubkey)))];
    const owners = accounts
      .filter((account) => account !== null)
      .map((account) => {
        const ofAccount = added.filter(({ hostPubkey }) => accountOf(hostPubkey) === account);
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
    const known = { items: this.items, waiting: [...this.#queues.values()].flat(), enrolments: this.enrolments };
    return takesTooMuch(senderPubkey, sender, added, known, this.#settings) ? 'relay_bytes' : undefined;
  }
}
