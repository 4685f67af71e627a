/**
 * Tests who may fill how much of the quarantine, and what a full room does: bounds are those of the product, or small
 * ones.
 */
import { expect, onTestFinished, test } from 'vitest';
import {
  QUARANTINE_BOUNDS,
  QUARANTINE_ROOMS,
  type QuarantineBounds,
  bareScopeOf,
  scopesOf,
  type QuarantineRow,
  STRANGERS_BYTES_PER_MINUTE,
  UNKNOWN_KEY_ITEM_BYTES_MAX,
} from '../../../../src/host/core/quarantine.ts';
import { OWNER_ID, type PeerId } from '../../../../src/host/core/rows.ts';
import type { IncomingItem } from '../../../../src/host/inbound/verify.ts';
import { discardQuarantined, listQuarantine, retryQuarantine } from '../../../../src/host/inbound/quarantine.ts';
import {
  LOSS_REPORT_EVERY_MS,
  quarantineUsage,
  reportQuarantineLosses,
} from '../../../../src/host/inbound/quarantine-rows.ts';
import { receiveItems } from '../../../../src/host/inbound/receive.ts';
import { canonicalBytes } from '../../../../src/protocol/documents.ts';
import { sha256Hex } from '../../../../src/protocol/encodings.ts';
import type { Epoch } from '../../../../src/protocol/names.ts';
import type { PublicKey } from '../../../../src/protocol/public-key.ts';
import { hostNamed, relay } from '../../../support/hosts.ts';
import {
  type PairedContext,
  addAgent,
  itemFor,
  pairedContexts,
  pin,
  sendTo,
} from '../../../support/paired-contexts.ts';
import { SeededRandom } from '../../../support/seeded-random.ts';
import { rowsOf } from '../../../support/stored-rows.ts';

interface Pair {
  alice: PairedContext;
  bob: PairedContext;
  logged: string[];
}

async function pair(): Promise<Pair> {
  const { alice, bob } = await pairedContexts();
  await addAgent(alice, 'anna');
  const logged: string[] = [];
  bob.context.log = (level, message) => void logged.push(`${level}: ${message}`);
  return { alice, bob, logged };
}

/** Until the test is over. */
function bounded(bounds: QuarantineBounds, changes: Partial<QuarantineBounds>): void {
  const before = { ...bounds };
  Object.assign(bounds, changes);
  onTestFinished(() => void Object.assign(bounds, before));
}

function garbage(senderPubkey: PublicKey, name: string, bytes = 10): IncomingItem {
  const wire = Buffer.alloc(bytes, name);
  return { via: 'lan', relay: null, kind: 'envelope', itemId: name, wire, senderPubkey };
}

/** A receipt that says it is from a host, and may be under the next key of that host. */
function awaited(senderPubkey: PublicKey, name: string, bytes = 600, host = 'alice'): IncomingItem {
  const recipient = `anna@${host}`;
  const hash = 'a'.repeat(64);
  const keys = { host_pubkey: senderPubkey, sender_host_pubkey: senderPubkey };
  const rec = { v: 1, type: 'receipt', msg: name, recipient, seq: 1, state: 'read', at: 1, ...keys, wire_hash: hash };
  const short = canonicalBytes({ rec: { ...rec, more: '' }, sig: '' });
  const wire = canonicalBytes({ rec: { ...rec, more: 'x'.repeat(bytes - short.length) }, sig: '' });
  return { via: 'lan', relay: null, kind: 'receipt', itemId: `receipt:${name}:${recipient}:1`, wire, senderPubkey };
}

/** The name that an item was made under. */
function nameOf({ itemId }: { itemId: string }): string {
  return itemId.split(':')[1] ?? itemId;
}

function overRelay(item: IncomingItem, seq = 1): IncomingItem {
  return { ...item, via: 'relay', relay: { pubkey: relay.key, epoch: 'E' as Epoch, seq } };
}

function stranger(at: number): PublicKey {
  return hostNamed(`stranger-${at}`).key;
}

function keptBy({ bob }: Pair): Promise<QuarantineRow[]> {
  return rowsOf(bob.store(), 'quarantine', []);
}

/** Everything that is stored of the quarantine is what its rows say, and no scope is beyond its bounds. */
async function expectSound(p: Pair): Promise<void> {
  const rows = await keptBy(p);
  const usage = new Map<string, { items: number; bytes: number }>();
  const oldest: string[] = [];
  for (const row of rows) {
    const { room = 'hosts', share = '', isBare } = row;
    for (const { name, bounds, isOldestDropped } of isBare ? [bareScopeOf(room)] : scopesOf({ room, share })) {
      const { items, bytes } = usage.get(name) ?? { items: 0, bytes: 0 };
      const counted = { items: items + 1, bytes: bytes + (isBare ? JSON.stringify(row).length : row.wireBytes) };
      usage.set(name, counted);
      expect(counted.items).toBeLessThanOrEqual(bounds.itemsMax);
      expect(counted.bytes).toBeLessThanOrEqual(bounds.bytesMax);
      if (isOldestDropped) oldest.push(`${name} ${row.number}`);
    }
  }
  await p.bob.store().read(async (reader) => {
    const stored = new Map<string, { items: number; bytes: number }>();
    for await (const { key, row } of reader.range('quarantineUsage', [])) {
      stored.set(key[0], { items: row.items, bytes: row.bytes });
    }
    expect(Object.fromEntries(stored)).toEqual(Object.fromEntries(usage));
    const indexed: string[] = [];
    for await (const { key } of reader.range('quarantineOldest', [])) indexed.push(key.join(' '));
    expect(indexed.toSorted()).toEqual(oldest.toSorted());
    const wires: number[] = [];
    for await (const { key } of reader.range('quarantineWire', [])) wires.push(key[0]);
    expect(wires).toEqual(rows.filter(({ isBare }) => !isBare).map(({ number }) => number));
  });
}

test('free keys fill a small room, their oldest goes, and nothing of hosts and relays has to wait', async () => {
  const p = await pair();
  const { alice, bob } = p;
  for (let key = 0; key < 5; key++) {
    const items = Array.from({ length: 100 }, (_, at) => awaited(stranger(key), `s${key}-${at}`));
    expect(new Set((await receiveItems(bob.context, items)).map(({ status }) => status))).toEqual(
      new Set(['quarantined']),
    );
  }
  const { itemsMax } = QUARANTINE_BOUNDS.strangers.key;
  const kept = await keptBy(p);
  expect(kept.map(nameOf)).toEqual(
    Array.from(
      { length: 5 * itemsMax },
      (_, at) => `s${Math.floor(at / itemsMax)}-${100 - itemsMax + (at % itemsMax)}`,
    ),
  );
  const { id } = await sendTo(alice, bob, { from: 'anna', to: ['nobody'] });
  const misaddressed = await itemFor(alice, bob, id);
  let through = 0;
  const behind = overRelay(garbage(stranger(9), 'behind'), 2);
  await receiveItems(bob.context, [overRelay(misaddressed), behind], {
    done: (_tx, count) => void (through = count),
  });
  expect(through).toBe(2);
  expect((await keptBy(p)).slice(-2)).toMatchObject([
    { reason: 'unknown-agent', room: 'relays', share: 'peer-alice' },
    { room: 'relays', share: `key:${stranger(9)}` },
  ]);
  expect((await keptBy(p)).some(({ isBare }) => isBare)).toBe(false);
  await expectSound(p);
});

test('strangers all together have their room, and one of them no more than a share of it', async () => {
  bounded(QUARANTINE_BOUNDS.strangers.all, { itemsMax: 5 });
  bounded(QUARANTINE_BOUNDS.strangers.unknown, { itemsMax: 5 });
  bounded(QUARANTINE_BOUNDS.strangers.key, { itemsMax: 2, bytesMax: 6_000 });
  const p = await pair();
  const bring = (...items: IncomingItem[]): Promise<unknown> => receiveItems(p.bob.context, items);
  const names = async (): Promise<string[]> => (await keptBy(p)).map(nameOf);
  await bring(awaited(stranger(1), 'a1'), awaited(stranger(1), 'a2'), awaited(stranger(2), 'b1'));
  await bring(awaited(stranger(1), 'a3'));
  expect(await names()).toEqual(['a2', 'b1', 'a3']);
  await bring(awaited(stranger(3), 'c1'), awaited(stranger(4), 'd1'), awaited(stranger(5), 'e1'));
  expect(await names()).toEqual(['b1', 'a3', 'c1', 'd1', 'e1']);
  // By bytes too; and one that could never fit keeps its record alone.
  await bring(awaited(stranger(1), 'a4', 5_700));
  expect(await names()).toEqual(['b1', 'c1', 'd1', 'e1', 'a4']);
  await bring(awaited(stranger(1), 'a5', 6_001));
  expect((await keptBy(p)).at(-1)).toMatchObject({ isBare: true, wireBytes: 6_001 });
  expect(await names()).toEqual(['b1', 'c1', 'd1', 'e1', 'a4', 'a5']);
  await expectSound(p);
});

test('a host that is not paired any more, and a retired key, are strangers', async () => {
  const p = await pair();
  const { alice, bob } = p;
  const retired = hostNamed('alice-before').key;
  const peer = await bob.store().read((reader) => reader.get('peer', 'peer-alice' as never));
  const keys = [...peer!.keys, { publicKey: retired, pinnedAtMs: 0, retiredAtMs: 1 }];
  await pin(bob, alice, { keys });
  await receiveItems(bob.context, [garbage(retired, 'old'), garbage(alice.host.key, 'now')]);
  await pin(bob, alice, { keys, unpairedAtMs: 5 });
  await receiveItems(bob.context, [garbage(alice.host.key, 'later'), overRelay(garbage(alice.host.key, 'relayed'))]);
  expect((await keptBy(p)).map(({ itemId, room, share }) => [itemId, room, share])).toEqual([
    ['old', 'strangers', `key:${retired}`],
    ['now', 'hosts', 'peer-alice'],
    ['later', 'strangers', `key:${alice.host.key}`],
    ['relayed', 'relays', `key:${alice.host.key}`],
  ]);
  await expectSound(p);
});

test('what a relay brings in the name of a host takes nothing of what the host brings itself', async () => {
  bounded(QUARANTINE_BOUNDS.relays.host, { itemsMax: 1 });
  const p = await pair();
  const { alice, bob } = p;
  const key = alice.host.key;
  await receiveItems(bob.context, [overRelay(garbage(key, 'r1')), overRelay(garbage(key, 'r2')), garbage(key, 'l1')]);
  expect((await keptBy(p)).map(({ itemId, room, isBare }) => [itemId, room, isBare])).toEqual([
    ['r1', 'relays', undefined],
    ['r2', 'relays', true],
    ['l1', 'hosts', undefined],
  ]);
  await expectSound(p);
});

test('records without bytes have a bound too, and their oldest goes', async () => {
  bounded(QUARANTINE_BOUNDS.relays.key, { itemsMax: 1 });
  bounded(QUARANTINE_BOUNDS.relays.bare, { itemsMax: 3 });
  const p = await pair();
  const items = Array.from({ length: 6 }, (_, at) => overRelay(garbage(stranger(1), `g${at}`), at + 1));
  await receiveItems(p.bob.context, items);
  expect((await keptBy(p)).map(({ itemId }) => itemId)).toEqual(['g0', 'g3', 'g4', 'g5']);
  const { rooms } = await listQuarantine(p.bob.context, {});
  expect(rooms[1]).toMatchObject({ room: 'relays', items: 1, without_bytes: 3, dropped: 2 });
  await expectSound(p);
});

test('the owner is told what there was no room for, once a day, and what came since', async () => {
  bounded(QUARANTINE_BOUNDS.strangers.key, { itemsMax: 1 });
  bounded(QUARANTINE_BOUNDS.relays.key, { itemsMax: 1 });
  const p = await pair();
  const { bob } = p;
  const told = (): Promise<string[]> =>
    bob.store().read(async (reader) => {
      const bodies: string[] = [];
      for await (const { row } of reader.range('entry', [OWNER_ID])) {
        bodies.push(`${reader.get('message', row.ref)?.subject}\n${reader.get('body', row.ref)}`);
      }
      return bodies;
    });
  await receiveItems(bob.context, [awaited(stranger(1), 'a1')]);
  await reportQuarantineLosses(bob.context);
  expect(await told()).toEqual([]);
  await receiveItems(bob.context, [awaited(stranger(1), 'a2'), awaited(stranger(1), 'a3')]);
  await receiveItems(bob.context, [overRelay(garbage(stranger(1), 'r1')), overRelay(garbage(stranger(1), 'r2'))]);
  await reportQuarantineLosses(bob.context);
  await reportQuarantineLosses(bob.context);
  const [relays, strangers, ...more] = await told();
  expect(more).toEqual([]);
  expect(relays).toMatch(
    /^Quarantine full for what a relay brings\n.*1 item came .* their senders have to send them again/,
  );
  expect(strangers).toMatch(
    /^Quarantine full for what hosts bring that are not paired\n.*2 items cannot be shown any more/,
  );
  await receiveItems(bob.context, [awaited(stranger(1), 'a4')]);
  await reportQuarantineLosses(bob.context);
  expect(await told()).toHaveLength(2);
  bob.clock.nowMs += LOSS_REPORT_EVERY_MS;
  await reportQuarantineLosses(bob.context);
  expect((await told())[2]).toContain('1 item cannot be shown any more');
  // What comes again and is known, or has no bytes still, is no other loss.
  await receiveItems(bob.context, [overRelay(garbage(stranger(1), 'r2')), awaited(stranger(1), 'a4')]);
  bob.clock.nowMs += LOSS_REPORT_EVERY_MS;
  await reportQuarantineLosses(bob.context);
  expect(await told()).toHaveLength(3);
});

test('of a stranger bytes are kept of what may wait for the next key of a paired host, up to 64 KiB', async () => {
  const p = await pair();
  const { bob } = p;
  const key = stranger(1);
  const items = [
    garbage(key, 'garbage'),
    awaited(key, 'awaited', UNKNOWN_KEY_ITEM_BYTES_MAX),
    awaited(key, 'long', UNKNOWN_KEY_ITEM_BYTES_MAX + 1),
    awaited(key, 'of-another', 600, 'zoe'),
  ];
  const received = await receiveItems(bob.context, items);
  expect(received.map(({ status }) => status)).toEqual(['rejected', 'quarantined', 'rejected', 'rejected']);
  expect((await keptBy(p)).map((row) => [nameOf(row), row.isBare ?? false, row.wireBytes, row.wireHash])).toEqual(
    items.map((item, at) => [nameOf(item), at !== 1, item.wire.length, sha256Hex(item.wire)]),
  );
  // A quarantine that only strangers filled is not full, and nothing is lost: what is not kept is not taken.
  expect(await bob.store().read(quarantineUsage)).toMatchObject({ items: 4, bare: 0 });
  expect((await listQuarantine(bob.context, {})).rooms[2]).toMatchObject({ without_bytes: 3, dropped: 0 });
  // What came without its bytes gets them when it comes again and is awaited now; what changes nothing writes nothing.
  await bob.store().transact((tx) => tx.put('peerName', ['zoe'], 'peer-zoe' as PeerId));
  const writes = watchedWrites(bob);
  await receiveItems(bob.context, items);
  expect(writes.filter((table) => table === 'quarantineWire')).toHaveLength(1);
  expect((await keptBy(p)).filter(({ isBare }) => !isBare).map(nameOf)).toEqual(['awaited', 'of-another']);
  writes.length = 0;
  await receiveItems(bob.context, items);
  expect(writes).toEqual([]);
  await expectSound(p);
});

test('no stranger has more than 1 MiB written in a minute, of whatever number of items', async () => {
  const p = await pair();
  const { bob } = p;
  const requests = Array.from({ length: 12 }, (_, request) =>
    Array.from({ length: 30 }, (_none, at) => awaited(stranger(request), `r${request}-${at}`, 60_000)),
  );
  for (const items of requests) await receiveItems(bob.context, items);
  const written = (await keptBy(p)).map((row) => JSON.stringify(row).length + (row.isBare ? 0 : row.wireBytes));
  const bytes = written.reduce((sum, each) => sum + each, 0);
  expect(bytes).toBeGreaterThan(STRANGERS_BYTES_PER_MINUTE / 2);
  expect(bytes).toBeLessThanOrEqual(STRANGERS_BYTES_PER_MINUTE);
  const [last = garbage(stranger(1), '')] = requests.at(-1)?.slice(-1) ?? [];
  expect(await receiveItems(bob.context, [last])).toMatchObject([{ status: 'rejected', code: 'quarantine full' }]);
  expect((await listQuarantine(bob.context, {})).rooms[2]?.dropped).toBeGreaterThan(100);
  bob.clock.nowMs += 60_000;
  expect(await receiveItems(bob.context, [last])).toMatchObject([{ status: 'quarantined' }]);
  await expectSound(p);
});

/** The tables that transactions of a host write to from now on. */
function watchedWrites(host: PairedContext): string[] {
  const tables: string[] = [];
  const own = host.store();
  const transact = own.transact.bind(own);
  own.transact = (work) =>
    transact((tx) => {
      const put = tx.put.bind(tx);
      tx.put = (table, key, row) => {
        tables.push(table);
        put(table, key, row);
      };
      return work(tx);
    });
  return tables;
}

test('the log has a line a minute of it, however many senders bring however much', async () => {
  const p = await pair();
  const many = Array.from({ length: 100 }, (_, at) => garbage(stranger(1), `m${at}`));
  await receiveItems(p.bob.context, many);
  expect(p.logged).toEqual(['warn: an item went into quarantine']);
  p.bob.clock.nowMs += 60_000;
  await receiveItems(p.bob.context, [garbage(stranger(1), 'later')]);
  expect(p.logged).toHaveLength(2);
});

test('what is there from before there were rooms is counted and let go as it was', async () => {
  const p = await pair();
  const { bob, alice } = p;
  await receiveItems(bob.context, [garbage(alice.host.key, 'before')]);
  await bob.store().transact((tx) => {
    const { room: _room, share: _share, ...row } = tx.get('quarantine', 1)!;
    tx.put('quarantine', [1], row);
    for (const scope of ['hosts', 'hosts/peer-alice']) tx.delete('quarantineUsage', [scope]);
    for (const scope of ['all', 'peer:peer-alice']) tx.put('quarantineUsage', [scope], { items: 1, bytes: 10 });
  });
  expect(await listQuarantine(bob.context, {})).toMatchObject({
    total_items: 1,
    total_bytes: 10,
    items: [{ room: null }],
  });
  expect(await retryQuarantine(bob.context, {})).toMatchObject({ kept: [{ number: 1 }] });
  expect(await discardQuarantined(bob.context, { numbers: [1] })).toEqual({ discarded: [1], not_found: [] });
  await expectSound(p);
});

test('property: after anything that may happen, what is counted is what is there, and within the bounds', async () => {
  for (const room of QUARANTINE_ROOMS) {
    for (const bounds of Object.values(QUARANTINE_BOUNDS[room])) {
      if (bounds.itemsMax > 0) bounded(bounds, { itemsMax: 4, bytesMax: 3_000 });
    }
    bounded(QUARANTINE_BOUNDS[room].all, { itemsMax: 6, bytesMax: 4_000 });
  }
  const p = await pair();
  const { bob, alice } = p;
  const random = new SeededRandom(11);
  const keys = [alice.host.key, stranger(1), stranger(2), '' as PublicKey];
  for (let step = 0; step < 60; step++) {
    const items = Array.from({ length: 1 + random.below(5) }, () => {
      const [key, name, bytes] = [random.pick(keys), `n${random.below(40)}`, 1 + random.below(1500)];
      const item = random.chance(0.5) ? garbage(key, name, bytes) : awaited(key || stranger(3), name, 600 + bytes);
      return random.chance(0.5) ? overRelay(item, 1 + random.below(99)) : item;
    });
    await receiveItems(bob.context, items);
    const numbers = (await keptBy(p)).map(({ number }) => number);
    if (random.chance(0.3)) await discardQuarantined(bob.context, { numbers: [random.pick(numbers)] });
    if (random.chance(0.2)) await retryQuarantine(bob.context, {});
    await expectSound(p);
  }
  const { rooms } = await listQuarantine(bob.context, {});
  for (const { dropped } of rooms) expect(dropped).toBeGreaterThan(0);
});
