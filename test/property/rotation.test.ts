/**
 * Two keys with histories become one host: every combination of what each received and sent, with the other things
 * that a key may have (list, account, name, encryption key, notices) drawn beside it; then the rules, one by one.
 *
 * All combinations live in one relay, each with hosts of its own, and take every step together.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { RotateOutcome, Refusal } from '../../src/relay/core/decision.ts';
import type { EncKeyRow, EnrolmentRow, SendersRow, TargetRow, UsageRow } from '../../src/relay/core/rows.ts';
import { accountEnrolOf, encKeyOf, enrolOf, pushOf, rotateOf, sendersOf } from '../support/commands.ts';
import { type TestHost, hostNamed } from '../support/hosts.ts';
import { expectReplayed } from '../support/replay.ts';
import { SeededRandom } from '../support/seeded-random.ts';
import { disposableFolder } from '../support/temporary-folder.ts';
import { TestRelay } from '../support/test-relay.ts';
import { IS_THOROUGH, share } from '../support/thorough.ts';

const DAY_MS = 86_400_000;
const RETENTION_MS = 14 * DAY_MS;
const SAME = 'the same bytes';
const OTHER = 'other bytes';
const SEED = 20_251_121;

/** The fate of one item under a key: `other` where its bytes differ from those of the other key. */
const OLD_ITEMS = ['none', 'waiting', 'acked', 'expired'] as const;
const NEW_ITEMS = ['none', 'waiting', 'waiting other', 'acked', 'acked other', 'expired', 'expired other'] as const;
type ItemState = (typeof OLD_ITEMS)[number] | (typeof NEW_ITEMS)[number];

interface Combination {
  isNewEnrolled: boolean;
  /** `r`, which the peer pushed to the key. */
  oldReceived: ItemState;
  newReceived: ItemState;
  /** `s`, which the key pushed to the peer. */
  oldSent: ItemState;
  newSent: ItemState;
  /** `iat` of the key's sender list, counted from the rotation. */
  oldListAgeMs: number | null;
  newListAgeMs: number | null;
  oldAccount: string | null;
  newAccount: string | null;
  /** A third host of the new key's account has the old key's name. */
  isNameTaken: boolean;
  hasOldEncKey: boolean;
  hasNewEncKey: boolean;
  hasOldNotice: boolean;
  hasNewNotice: boolean;
}

/** The state of one key that can be seen. */
interface KeyState {
  queue: { seq: number; itemId: string; sender: string; wire: string | undefined }[];
  head: TargetRow;
  enrolment: EnrolmentRow | undefined;
  list: SendersRow | undefined;
  encKey: EncKeyRow | undefined;
}

interface World extends Combination {
  number: number;
  old: TestHost;
  new: TestHost;
  peer: TestHost;
  third: TestHost;
  before: { old: KeyState; new: KeyState };
  after: { old: KeyState; new: KeyState };
  rotated: RotateOutcome | Refusal;
  accounts: (UsageRow | undefined)[];
  /** Told seqs by who pushed: what a duplicate may be answered with. */
  toldSeqs: Map<string, number>;
}

function combinations(): Combination[] {
  const random = new SeededRandom(SEED);
  const all: Combination[] = [];
  const drawn = (number: number): Omit<Combination, 'isNewEnrolled' | `${'old' | 'new'}${'Received' | 'Sent'}`> => {
    const oldAccount = random.pick([null, `acme-${number}`]);
    return {
      oldListAgeMs: random.pick([null, 20]),
      newListAgeMs: random.pick([null, 10, 20, 30]),
      oldAccount,
      newAccount: random.pick([null, `acme-${number}`, `acme-${number}`, `umbrella-${number}`]),
      isNameTaken: oldAccount === null && random.chance(0.4),
      hasOldEncKey: random.chance(0.5),
      hasNewEncKey: random.chance(0.5),
      hasOldNotice: random.chance(0.5),
      hasNewNotice: random.chance(0.5),
    };
  };
  for (const oldReceived of OLD_ITEMS) {
    for (const oldSent of OLD_ITEMS) {
      const fresh = { ...drawn(all.length), newListAgeMs: null, newAccount: null, isNameTaken: false };
      const nothing = { newReceived: 'none', newSent: 'none', hasNewEncKey: false, hasNewNotice: false } as const;
      all.push({ ...fresh, ...nothing, isNewEnrolled: false, oldReceived, oldSent });
      for (const newReceived of NEW_ITEMS) {
        for (const newSent of NEW_ITEMS) {
          all.push({ ...drawn(all.length), isNewEnrolled: true, oldReceived, oldSent, newReceived, newSent });
        }
      }
    }
  }
  return all;
}

function worldOf(combination: Combination, number: number): World {
  const [old, fresh, peer, third] = ['old', 'new', 'peer', 'third'].map((role) => hostNamed(`${role}-${number}`));
  const empty = {} as KeyState;
  return {
    ...combination,
    number,
    old: old!,
    new: fresh!,
    peer: peer!,
    third: third!,
    before: { old: empty, new: empty },
    after: { old: empty, new: empty },
    rotated: { type: 'KeyRotated', hostPubkey: fresh!.key, movedItems: -1, headSeq: -1 },
    accounts: [],
    toldSeqs: new Map(),
  };
}

/** One combination in three, begun anywhere, unless all are asked for. */
const STRIDE = IS_THOROUGH ? 1 : 3;
const BEGUN = Math.floor(Math.random() * STRIDE);
const worlds: World[] = combinations().flatMap((combination, number) =>
  number % STRIDE === BEGUN ? [worldOf(combination, number)] : [],
);

let relay: TestRelay;
let remove: () => Promise<void>;

/** Lets every combination take a step of its own; answers what was wrong with which. */
async function everywhere(step: (world: World) => unknown): Promise<string[]> {
  const faults = worlds.map(async (world) => {
    try {
      await step(world);
      return [];
    } catch (error) {
      const { number, oldReceived, oldSent, newReceived, newSent } = world;
      const what = `received ${oldReceived}/${newReceived}, sent ${oldSent}/${newSent}`;
      return [`combination ${number} of seed ${SEED} (${what}): ${error instanceof Error ? error.message : 'failed'}`];
    }
  });
  return (await Promise.all(faults)).flat();
}

/** Worlds whose rotation is not refused. */
function rotatedEverywhere(step: (world: World) => unknown): Promise<string[]> {
  return everywhere((world) => (haveOtherAccounts(world) ? undefined : step(world)));
}

function haveOtherAccounts({ oldAccount, newAccount }: Combination): boolean {
  return oldAccount !== null && newAccount !== null && oldAccount !== newAccount;
}

async function push(world: World, from: TestHost, itemId: string, to: TestHost, wire: string): Promise<number> {
  const { verdict, seqs } = await relay.pushOne(pushOf(from, itemId, [[to, wire]]));
  expect(verdict).toBe('accepted');
  world.toldSeqs.set(`${itemId} ${from.key} ${to.key}`, seqs[0]!);
  return seqs[0]!;
}

/** One item on its way to `state`, as far as it gets before (`expired`) or after the others expired. */
async function pass(
  world: World,
  state: ItemState,
  isBefore: boolean,
  route: [TestHost, string, TestHost],
): Promise<void> {
  const [from, itemId, to] = route;
  if (state === 'none' || state.startsWith('expired') !== isBefore) return;
  const seq = await push(world, from, itemId, to, state.endsWith('other') ? OTHER : SAME);
  if (state.startsWith('acked')) await relay.ack(to, seq);
}

async function passAll(world: World, isBefore: boolean): Promise<void> {
  const { old, new: fresh, peer } = world;
  await pass(world, world.oldReceived, isBefore, [peer, 'r', old]);
  await pass(world, world.newReceived, isBefore, [peer, 'r', fresh]);
  await pass(world, world.oldSent, isBefore, [old, 's', peer]);
  await pass(world, world.newSent, isBefore, [fresh, 's', peer]);
}

async function enrol(host: TestHost, account: string | null, hostName = host.name): Promise<void> {
  const command = account === null ? enrolOf(host, { hostName }) : accountEnrolOf(host, account, { hostName });
  expect(await relay.enrol(command)).toMatchObject({ type: 'Enrolled' });
}

async function enrolAll({ old, new: fresh, peer, third, ...world }: World): Promise<void> {
  await enrol(old, world.oldAccount);
  await enrol(peer, null);
  if (world.isNewEnrolled) await enrol(fresh, world.newAccount);
  await enrol(third, world.newAccount, world.isNameTaken ? old.name : third.name);
}

async function publishAll(world: World): Promise<void> {
  const { old, new: fresh, peer, third } = world;
  const { nowMs } = relay.clock;
  const { oldListAgeMs, newListAgeMs } = world;
  if (oldListAgeMs !== null) await relay.publishSenders(sendersOf(old, [peer], { iatMs: nowMs - oldListAgeMs }));
  if (newListAgeMs !== null)
    await relay.publishSenders(sendersOf(fresh, [peer, third], { iatMs: nowMs - newListAgeMs }));
  if (world.hasOldEncKey) await relay.engine.publishEncKey(encKeyOf(old, 'old', { nowMs }));
  if (world.hasNewEncKey) await relay.engine.publishEncKey(encKeyOf(fresh, 'new', { nowMs }));
}

async function stateOf(host: TestHost): Promise<KeyState> {
  const queue = await relay.queue(host);
  const wires = await relay.engine.payloads(queue);
  return {
    queue: queue.map(({ seq, itemId, senderPubkey: sender }, at) => {
      return { seq, itemId, sender, wire: wires[at]?.toString() };
    }),
    head: relay.engine.head(host.key),
    enrolment: relay.store.get('enrolment', host.key),
    list: relay.store.get('senders', host.key),
    encKey: relay.store.get('encKey', host.key),
  };
}

const usageOf = (account: string | null): UsageRow | undefined =>
  account === null ? undefined : relay.store.get('account', account);

beforeAll(async () => {
  const disposable = await disposableFolder();
  remove = disposable.remove;
  relay = new TestRelay(disposable.folder, {});
  await relay.open();
  const faults: string[] = [];
  const step = async (one: (world: World) => Promise<unknown>): Promise<void> => {
    faults.push(...(await everywhere(one)));
  };
  await step(enrolAll);
  await step(async (world) => {
    if (world.hasOldNotice) await push(world, world.old, 'told-old', world.peer, SAME);
    if (world.hasNewNotice) await push(world, world.new, 'told-new', world.peer, SAME);
    await passAll(world, true);
  });
  relay.clock.move(RETENTION_MS);
  await relay.sweep();
  relay.clock.move(1000);
  await step((world) => passAll(world, false));
  await step(publishAll);
  await step(async (world) => {
    world.before = { old: await stateOf(world.old), new: await stateOf(world.new) };
  });
  await step(async (world) => {
    world.rotated = await relay.rotate(rotateOf(world.old, world.new));
  });
  await step(async (world) => {
    world.after = { old: await stateOf(world.old), new: await stateOf(world.new) };
    world.accounts = [usageOf(world.oldAccount), usageOf(world.newAccount)];
  });
  if (faults.length > 0) throw new Error(faults.join('\n'));
});

afterAll(async () => {
  await relay?.close();
  await remove?.();
});

test('two proven accounts that differ refuse the rotation, and nothing changes', async () => {
  const faults = await everywhere((world) => {
    if (!haveOtherAccounts(world)) return;
    expect(world.rotated).toMatchObject({ code: 'ENROL_REFUSED' });
    expect(world.after).toEqual(world.before);
  });
  expect(faults).toEqual([]);
  expect(worlds.filter(haveOtherAccounts).length).toBeGreaterThan(share(10));
});

test('rule 1: the old queue follows the new, in order, without gaps, from max(old next, new next, now)', async () => {
  const faults = await rotatedEverywhere(({ before, after, rotated, new: fresh }) => {
    const { old, new: own } = before;
    const firstSeq = Math.max(old.head.headSeq + 1, own.head.headSeq + 1, relay.clock.nowMs);
    const moved = old.queue.map((item, at) => Object.assign({}, item, { seq: firstSeq + at }));
    expect(after.new.queue).toEqual([...own.queue, ...moved]);
    const headSeq = moved.at(-1)?.seq ?? own.head.headSeq;
    expect(rotated).toEqual({ type: 'KeyRotated', hostPubkey: fresh.key, movedItems: moved.length, headSeq });
    expect(after.new.head.headSeq).toBe(headSeq);
    expect(after.old.queue).toEqual([]);
  });
  expect(faults).toEqual([]);
});

test('rule 1: the name follows the host, unless another host of the account has it', async () => {
  const faults = await rotatedEverywhere((world) => {
    const { before, after, newAccount, isNameTaken } = world;
    const keepsOwn = isNameTaken && newAccount !== null;
    const expected = keepsOwn ? before.new.enrolment?.hostName : before.old.enrolment?.hostName;
    expect(after.new.enrolment?.hostName).toBe(expected);
  });
  expect(faults).toEqual([]);
});

test('rule 1: a proven account and its authority stay, whichever key had them, and pay for all the queue', async () => {
  const faults = await rotatedEverywhere(({ oldAccount, newAccount, after, accounts }) => {
    const account = oldAccount ?? newAccount ?? null;
    const authorizedBy = account === null ? 'host-key' : 'account-token';
    expect(after.new.enrolment).toMatchObject({ account, authorizedBy, revokedAtMs: null, rotatedTo: null });
    const { queueItems: items, queueBytes: bytes } = after.new.head;
    const usage = items === 0 ? undefined : { items, bytes };
    expect(accounts).toEqual([oldAccount, newAccount].map((one) => (one === null ? undefined : usage)));
  });
  expect(faults).toEqual([]);
});

test('rule 2: of two sender lists the newer stays, and that of the new key at equal times', async () => {
  const faults = await rotatedEverywhere(({ before, after }) => {
    const [old, own] = [before.old.list, before.new.list];
    expect(after.new.list).toEqual(old && (!own || own.iatMs < old.iatMs) ? old : own);
    expect(after.old.list).toBeUndefined();
  });
  expect(faults).toEqual([]);
});

test('rule 3: the old key is revoked for good', async () => {
  const faults = await rotatedEverywhere(async ({ old, new: fresh, peer, after }) => {
    expect(after.old.enrolment).toMatchObject({ revokedAtMs: relay.clock.nowMs, rotatedTo: fresh.key });
    expect(await relay.enrol(enrolOf(old))).toMatchObject({ code: 'ENROL_REFUSED' });
    expect((await relay.pushOne(pushOf(peer, 'late', [[old, SAME]]))).verdict).toBe('rejected:target revoked');
  });
  expect(faults).toEqual([]);
});

test('the new key keeps its own encryption key and acked_through, and the old encryption key is hidden', async () => {
  const faults = await rotatedEverywhere(async ({ old, before, after }) => {
    expect(after.new.encKey).toEqual(before.new.encKey);
    expect(after.new.head.ackedThrough).toBe(before.new.head.ackedThrough);
    expect(await relay.engine.encKey(old.key)).toBeUndefined();
  });
  expect(faults).toEqual([]);
});

test('no quota is lost or charged twice: queue and shares are what waits', async () => {
  const faults = await rotatedEverywhere(({ peer, old, new: fresh, after }) => {
    const mail = after.new.queue.filter(({ itemId }) => !itemId.startsWith('expired:'));
    const bytes = mail.reduce((sum, { wire }) => sum + wire!.length, 0);
    expect(after.new.head).toMatchObject({ queueItems: mail.length, queueBytes: bytes });
    expect(after.old.head).toMatchObject({ queueItems: 0, queueBytes: 0 });
    const share = mail.length === 0 ? undefined : { items: mail.length, bytes };
    expect(relay.store.get('share', fresh.key + peer.key)).toEqual(share);
    expect(relay.store.get('share', old.key + peer.key)).toBeUndefined();
  });
  expect(faults).toEqual([]);
});

test('the same rotation again answers moved_items 0 and changes nothing, and a circle is refused', async () => {
  const { lastLsn } = relay.store;
  const faults = await rotatedEverywhere(async ({ old, new: fresh, after }) => {
    const again = { type: 'KeyRotated', hostPubkey: fresh.key, movedItems: 0, headSeq: after.new.head.headSeq };
    expect(await relay.rotate(rotateOf(old, fresh))).toEqual(again);
    expect(await relay.rotate(rotateOf(fresh, old))).toMatchObject({ code: 'ENROL_REFUSED' });
    expect(await relay.rotate(rotateOf(old, hostNamed('elsewhere')))).toMatchObject({ code: 'ENROL_REFUSED' });
    expect(await stateOf(fresh)).toEqual(after.new);
  });
  expect(faults).toEqual([]);
  expect(relay.store.lastLsn).toBe(lastLsn);
});

/** Returns what a push of either bytes must be answered when the two keys had the item in these states. */
function verdictOf(states: readonly ItemState[], isOther: boolean): string {
  const known = states.filter((state) => state !== 'none');
  if (known.length === 0) return 'accepted';
  return known.some((state) => state.endsWith('other') === isOther) ? 'duplicate' : 'rejected:conflict';
}

/** Pushes the item once more under the new keys, with the bytes that either had, and by its id alone. */
async function pushAgain(
  world: World,
  states: readonly ItemState[],
  route: [TestHost, string, TestHost],
): Promise<void> {
  const [from, itemId, to] = route;
  const told = new Set([...world.toldSeqs].flatMap(([mark, seq]) => (mark.startsWith(`${itemId} `) ? [seq] : [])));
  const waitingBefore = (await relay.queue(to)).length;
  for (const [wire, isOther] of [
    [SAME, false],
    [OTHER, true],
  ] as const) {
    const expected = verdictOf(states, isOther);
    if (expected === 'accepted') continue;
    const { verdict, seqs } = await relay.pushOne(pushOf(from, itemId, [[to, wire]]));
    expect(verdict).toBe(expected);
    expect(seqs.filter((seq) => !told.has(seq))).toEqual([]);
  }
  const byId = await relay.pushOne(pushOf(from, itemId, [[to, 'whatever']], { isKnownById: true }));
  expect(byId.verdict).toBe(verdictOf(states, false) === 'accepted' ? 'accepted' : 'duplicate');
  const added = byId.verdict === 'accepted' ? 1 : 0;
  expect((await relay.queue(to)).length).toBe(waitingBefore + added);
}

test('lineage: what either key received is known of the new key, and nothing is stored twice', async () => {
  const faults = await rotatedEverywhere((world) => {
    return pushAgain(world, [world.oldReceived, world.newReceived], [world.peer, 'r', world.new]);
  });
  expect(faults).toEqual([]);
});

test('lineage: what either key sent is known of the new key, and nothing is stored twice', async () => {
  const faults = await rotatedEverywhere((world) => {
    return pushAgain(world, [world.oldSent, world.newSent], [world.new, 's', world.peer]);
  });
  expect(faults).toEqual([]);
});

test('all of it outlives a restart, and the log says what the rows say', async () => {
  const states = await Promise.all(worlds.map(({ new: fresh }) => stateOf(fresh)));
  await relay.reopen();
  expect(await Promise.all(worlds.map(({ new: fresh }) => stateOf(fresh)))).toEqual(states);
  await expectReplayed(relay.store);
});

test('what expires is told once, to the key that its sender has now, under the key that was pushed to', async () => {
  const waiting = await Promise.all(
    worlds.map(async ({ old, new: fresh, peer }) => {
      const senders = [old.key, fresh.key] as string[];
      const ofHost = (await relay.queue(peer)).filter(({ senderPubkey }) => senders.includes(senderPubkey));
      return ofHost.map(({ itemId, payloadTarget }) => `expired:${itemId}:${payloadTarget}`);
    }),
  );
  relay.clock.move(RETENTION_MS);
  await relay.sweep();
  const faults = await rotatedEverywhere(async (world) => {
    const notices = await relay.queue(world.new);
    expect(notices.map(({ itemId }) => itemId).toSorted()).toEqual(waiting[worlds.indexOf(world)]!.toSorted());
    expect(await relay.queue(world.old)).toEqual([]);
    const told = (await relay.queue(world.peer)).map(({ itemId }) => itemId);
    // The notices of earlier expiries are gone by now; each of these names the key that the peer pushed to.
    const received = new Set([world.old.key, world.new.key].map((key) => `expired:r:${key}`));
    expect(told.filter((id) => !received.has(id))).toEqual([]);
    expect(new Set(told).size).toBe(told.length);
  });
  expect(faults).toEqual([]);
  expect(waiting.flat().length).toBeGreaterThan(share(100));
});
