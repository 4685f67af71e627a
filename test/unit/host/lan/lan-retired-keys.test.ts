/**
 * Tests what a key that a host gave up is still good for over the LAN: what the host itself brings, and nothing of a
 * thief's.
 */
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { describe, expect, test } from 'vitest';
import { wireOf } from '../../../../src/host/outbox/outbox.ts';
import { rotateOwnKey } from '../../../../src/host/peers/identity.ts';
import { receiveItems } from '../../../../src/host/inbound/receive.ts';
import { learnRotation, setAddress } from '../../../../src/host/peers/peers.ts';
import { lanHopHeaders } from '../../../../src/host/lan/lan-hop.ts';
import type { LanItem } from '../../../../src/protocol/lan.ts';
import { type LanHost, outboxRowsOf, pairedLanHosts, peerOf, quarantineOf, until } from '../../../support/lan-hosts.ts';
import { hop, keyOf, signerOf } from '../../../support/lan-requests.ts';
import { accepted, addAgents, send } from '../../../support/mail-context.ts';
import { rowsOf } from '../../../support/stored-rows.ts';

const ITEMS = { method: 'POST', target: '/v1/lan/items' };

async function withAgents(): Promise<[here: LanHost, there: LanHost]> {
  const [here, there] = await pairedLanHosts();
  await addAgents(here.context, ['eve']);
  await addAgents(there.context, ['bob']);
  return [here, there];
}

/** A message in the outbox of `here`, sealed and signed now, that does not leave; as it would be sent. */
async function written(here: LanHost, subject: string): Promise<LanItem> {
  await setAddress(here.context, 'there', '127.0.0.1:1');
  accepted(await send(here.context, 'eve', { to: ['bob@there'], subject }));
  const row = (await outboxRowsOf(here)).findLast(({ kind }) => kind === 'envelope');
  if (!row) throw new Error('it is in the outbox');
  const wire = await here.context.store.read((reader) => wireOf(reader, row.rowId));
  return { kind: row.kind, item_id: row.itemId, wire_b64: wire.toString('base64') };
}

async function subjectsAt({ context }: LanHost): Promise<string[]> {
  const messages = await rowsOf(context.store, 'message', []);
  return messages.flatMap(({ fromPeer, subject }) => (fromPeer === null ? [] : [subject])).toSorted();
}

const untilLearned = (there: LanHost, here: LanHost): Promise<true> =>
  until(there, async () => ((await peerOf(there, 'here'))?.keys.at(-1)?.publicKey === keyOf(here) ? true : undefined));

describe('a key that a host gave up', () => {
  test('signs what that host wrote before: it comes under the new key, by whatever retry', async () => {
    const [here, there] = await withAgents();
    const address = `127.0.0.1:${there.lan.port}`;
    await written(here, 'before');
    await rotateOwnKey(here.context);
    await setAddress(here.context, 'there', address);
    await until(here, async () =>
      (await outboxRowsOf(here)).every(({ state }) => state === 'done') ? true : undefined,
    );
    expect(await subjectsAt(there)).toEqual(['before']);
    expect(await quarantineOf(there)).toEqual([]);
  });

  test('brings nothing by its own hop, and nothing of that is kept', async () => {
    const [here, there] = await withAgents();
    const old = signerOf(here);
    const item = await written(here, 'before');
    await rotateOwnKey(here.context);
    await setAddress(here.context, 'there', `127.0.0.1:${there.lan.port}`);
    await untilLearned(there, here);
    for (const target of ['/v1/lan/items', '/v1/lan/agents']) {
      const asked = { signer: old, called: keyOf(there), method: 'POST', target, body: { items: [item] } };
      expect(await hop(there, asked)).toMatchObject({ status: 401, document: { code: 'NOT_ENROLLED' } });
    }
    expect(await quarantineOf(there)).toEqual([]);
  });

  test('brings nothing either when the rotation is learned while its body is on the way', async () => {
    const [here, there] = await withAgents();
    const old = signerOf(here);
    const item = await written(here, 'on the way');
    const body = JSON.stringify({ items: [item] });
    const caller = { signer: old, hostName: 'here', nowMs: Date.now() };
    const headers = lanHopHeaders(caller, keyOf(there), ITEMS.method, ITEMS.target, body);
    const head = Object.entries({ host: 'x', connection: 'close', 'content-length': `${body.length}`, ...headers });
    const socket = connect({ port: there.lan.port ?? 0, host: '127.0.0.1' });
    socket.write(`POST /v1/lan/items HTTP/1.1\r\n${head.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`);
    socket.write(body.slice(0, 10));
    // Its head is judged before the peer hears of the new key.
    await there.context.store.read(() => undefined);
    await new Promise((turn) => setImmediate(turn));
    await rotateOwnKey(here.context);
    await setAddress(here.context, 'there', `127.0.0.1:${there.lan.port}`);
    await untilLearned(there, here);
    socket.write(body.slice(10));
    const answer = await text(socket);
    expect(answer).toMatch(/^HTTP\/1\.1 401 /);
    expect(answer).toContain('NOT_ENROLLED');
    // The host itself brings it: nothing was lost.
    await until(here, async () =>
      (await outboxRowsOf(here)).every(({ state }) => state === 'done') ? true : undefined,
    );
    expect(await subjectsAt(there)).toEqual(['on the way']);
    expect(await quarantineOf(there)).toEqual([]);
  });
});

test('a copy of the old home, started after the rotation, delivers nothing as the host', async () => {
  const [here, there] = await withAgents();
  const thief = await here.copy();
  await thief.down();
  await rotateOwnKey(here.context);
  await untilLearned(there, here);
  await thief.up();
  accepted(await send(thief.context, 'eve', { to: ['bob@there'], subject: 'of the thief' }));
  await until(thief, async () => {
    const [row] = await outboxRowsOf(thief);
    return row?.lastError?.includes('NOT_ENROLLED') ? true : undefined;
  });
  // Neither does it bring what it signed by the hop of another key, whatever time it says, and nor does a rotation of
  // its own.
  const [row] = await outboxRowsOf(thief);
  const wire = await thief.context.store.read((reader) => wireOf(reader, row?.rowId ?? 0));
  const item = { kind: 'envelope', item_id: row?.itemId, wire_b64: wire.toString('base64') };
  await rotateOwnKey(thief.context);
  const asked = { signer: signerOf(thief), called: keyOf(there), ...ITEMS, body: { items: [item] } };
  expect(await hop(there, asked)).toMatchObject({ document: { results: [{ status: 'quarantined' }] } });
  expect(await quarantineOf(there)).toMatchObject([{ reason: 'unknown-sender' }]);
  expect(await subjectsAt(there)).toEqual([]);
  expect((await peerOf(there, 'here'))?.keys.at(-1)?.publicKey).toBe(keyOf(here));
  accepted(await send(here.context, 'eve', { to: ['bob@there'], subject: 'of the host' }));
  await until(there, async () => ((await subjectsAt(there)).join() === 'of the host' ? true : undefined));
});

test('mail that waits for a key arrives at the start of a daemon that was killed after the rotation', async () => {
  const [here, there] = await withAgents();
  await there.down();
  await rotateOwnKey(here.context);
  const { wire_b64: wire, ...item } = await written(here, 'under the new key');
  const rotations = await here.context.store.read((reader) => reader.get('identity')?.rotations ?? []);
  await here.down();
  await there.up();
  const incoming = { via: 'relay' as const, relay: null, senderPubkey: keyOf(here), wire: Buffer.from(wire, 'base64') };
  await receiveItems(there.context, [{ ...incoming, kind: item.kind, itemId: item.item_id }]);
  expect(await quarantineOf(there)).toMatchObject([{ reason: 'unknown-sender' }]);
  // The rotation is durable, and the daemon ends before anything comes of it.
  for (const rotation of rotations)
    await there.context.store.transact((tx) => learnRotation(tx, there.context, rotation));
  await there.down();
  await there.up();
  await until(there, async () => ((await quarantineOf(there)).length === 0 ? true : undefined));
  expect(await subjectsAt(there)).toEqual(['under the new key']);
});
