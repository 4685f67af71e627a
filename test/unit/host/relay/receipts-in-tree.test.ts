/** Messages that share a push have receipts that the relay signed together: kept, read again, and proven one by one. */
import { expect, test, vi } from 'vitest';
import { checkRow, traceText } from '../../../../src/cli/mail/trace.ts';
import type { TraceResult } from '../../../../src/host/contract/outbox.ts';
import { RETRY_TIMING } from '../../../../src/host/core/outbox-event.ts';
import { isRefusal } from '../../../../src/host/core/refusal.ts';
import type { MessageRow, OutboxRow } from '../../../../src/host/core/rows.ts';
import { traceWithProofs } from '../../../../src/host/doctor/diagnosis.ts';
import { RelayClient } from '../../../../src/host/relay/relay-client.ts';
import { signDocument } from '../../../../src/protocol/documents.ts';
import { isReceiptSigned } from '../../../../src/protocol/receipt-tree.ts';
import { FlakyProxy, NO_CHANCES } from '../../../support/flaky-proxy.ts';
import { alice as aliceHost, bob as bobHost, carol, relay as relayHost } from '../../../support/hosts.ts';
import { type HttpRelay, enrolledRelay, relayForTest } from '../../../support/http-relay.ts';
import { itemTo } from '../../../support/mail.ts';
import { PATIENCE_MS } from '../../../support/patience.ts';
import { type ReceiptAlone, isSignedInTree } from '../../../support/receipt-oracle.ts';
import { RelayContext, pinEachOther } from '../../../support/relay-contexts.ts';
import { SeededRandom } from '../../../support/seeded-random.ts';
import { atTestEnd } from '../../../support/test-end.ts';

const WITHIN = { timeout: PATIENCE_MS, interval: 10 };
const NO_STATEMENT = { tree: undefined, tree_sig: undefined };
const PUSH = 'POST /v2/relay/items';

async function proxyOf(port: () => number): Promise<FlakyProxy> {
  const proxy = await FlakyProxy.open(new SeededRandom(1), port);
  atTestEnd(() => proxy.close());
  return proxy;
}

interface Waiting {
  relay: HttpRelay;
  proxy: FlakyProxy;
  alice: RelayContext;
  bob: RelayContext;
  sent: MessageRow[];
}

/** Three messages of alice that waited for a relay, which bob's host uses too; nobody hears of any other way. */
async function waitingMail(): Promise<Waiting> {
  const relay = await relayForTest('node');
  const proxy = await proxyOf(() => relay.port);
  const alice = await RelayContext.open('alice', relay.clock);
  const bob = await RelayContext.open('bob', relay.clock);
  await pinEachOther(alice, bob);
  await alice.addAgent('anna');
  await bob.addAgent('bert');
  await bob.use(relay.url);
  await vi.waitFor(async () => expect(await bob.status()).toMatchObject({ state: 'ready' }), WITHIN);
  const sent: MessageRow[] = [];
  for (const body of ['one', 'two', 'three']) sent.push(await alice.sendTo(bob, 'anna', ['bert'], body));
  return { relay, proxy, alice, bob, sent };
}

async function accepted(alice: RelayContext, sent: readonly MessageRow[]): Promise<OutboxRow[]> {
  return vi.waitFor(async () => {
    const rows = await Promise.all(sent.map((message) => alice.rowOf(message)));
    expect(rows.every(({ acceptance }) => acceptance !== null)).toBe(true);
    return rows;
  }, WITHIN);
}

async function traceOf({ context }: RelayContext, { ref }: MessageRow): Promise<TraceResult> {
  const traced = await traceWithProofs(context, { message_id: ref }, new AbortController().signal);
  if (isRefusal(traced)) throw new Error(`${traced.code}: ${traced.message}`);
  return traced;
}

test('the receipts of one push are kept, each provable alone, by a host that started anew too', async () => {
  const { proxy, alice, sent } = await waitingMail();
  await alice.use(proxy.url);
  const rows = await accepted(alice, sent);
  const kept = rows.map(({ acceptance }) => acceptance as unknown as ReceiptAlone);
  expect(kept.map(({ tree }) => tree.size)).toEqual([3, 3, 3]);
  expect(kept.map(({ proof }) => proof.index).toSorted((one, other) => one - other)).toEqual([0, 1, 2]);
  expect(kept.every((one) => !('sig' in one))).toBe(true);
  for (const receipt of kept) expect(await isSignedInTree(receipt, relayHost.key)).toBe(true);
  await alice.restart();
  for (const message of sent) {
    const trace = await traceOf(alice, message);
    const [row] = trace.rows;
    expect(row).toMatchObject({ acceptance: { fault: null, tree: { size: 3 } }, proof: { state: 'served' } });
    expect(isReceiptSigned(relayHost.key, row?.acceptance)).toBe(true);
    const checked = trace.rows.map(checkRow);
    expect(checked).toMatchObject([{ state: 'verified' }]);
    const text = traceText(trace, checked);
    expect(text).toContain('its receipt verifies, signed with 2 others in one statement');
    expect(text).toContain('The accept receipt, signed by the relay with 2 others in one statement, is in the log');
  }
});

test('a header that is lost on the way costs a signature each, and nothing else', async () => {
  const { proxy, alice, sent } = await waitingMail();
  proxy.chances = { ...NO_CHANCES, lostHeader: 1 };
  await alice.use(proxy.url);
  const rows = await accepted(alice, sent);
  for (const { acceptance } of rows) {
    expect(acceptance).toMatchObject({ sig: expect.any(String) as string });
    expect(isReceiptSigned(relayHost.key, acceptance)).toBe(true);
  }
  const trace = await traceOf(alice, sent[0]!);
  expect(trace.rows.map(checkRow)).toMatchObject([{ state: 'verified' }]);
  expect(traceText(trace, [])).toContain('its receipt verifies\n');
});

test('after a lost answer the mail is pushed again, and its receipts are in the second tree', async () => {
  const { relay, proxy, alice, bob, sent } = await waitingMail();
  // He would confirm what the first push brought, and no second one would be needed.
  await bob.stop();
  let pushes = 0;
  proxy.cut = (asked) => (asked === PUSH && ++pushes === 1 ? 'answer' : undefined);
  await alice.use(proxy.url);
  await vi.waitFor(async () => {
    const failed = await Promise.all(sent.map((message) => alice.rowOf(message)));
    expect(failed.every(({ relayAttempts }) => relayAttempts === 1)).toBe(true);
  }, WITHIN);
  relay.clock.move(RETRY_TIMING.longestMs);
  // The first attempt may still be coming to its end, and its rows take part in no pass before.
  await vi.waitFor(async () => {
    relay.clock.move(1_000);
    await alice.pass();
    expect(pushes).toBe(2);
  }, WITHIN);
  const rows = await accepted(alice, sent);
  for (const { acceptance } of rows) expect(isReceiptSigned(relayHost.key, acceptance)).toBe(true);
  const trees = rows.map(({ acceptance }) => acceptance && 'tree' in acceptance && acceptance.tree);
  expect(trees).toMatchObject([{ size: 3 }, { size: 3 }, { size: 3 }]);
});

test('receipts without a statement that can be read prove nothing, and the others of the answer are good', async () => {
  const relay = await enrolledRelay('node', [aliceHost, bobHost]);
  const proxy = await proxyOf(() => relay.port);
  const nowMs = (): number => relay.clock.nowMs();
  const options = { url: proxy.url, signer: aliceHost.signer, hostName: 'alice', nowMs };
  const client = new RelayClient(options, relayHost.key);
  const items = [itemTo([bobHost], 'm1'), itemTo([bobHost], 'm2'), itemTo([bobHost], 'm3')];
  const { epoch, results } = await client.push(items);
  const [one, two, three] = results;
  const { tree, tree_sig } = one!;
  const stored = [one, two].map((result) => structuredClone(Object.assign({}, result, NO_STATEMENT)));
  const alone = { ...three, proof: undefined, sig: signDocument(relayHost.signer, three!.accept!) };
  const answered = async (statement: object): Promise<boolean[]> => {
    const document = { epoch, results: [...stored, alone], ...statement };
    proxy.instead = (method) => (method === 'POST' ? { status: 200, document, isForeign: true } : undefined);
    return (await client.push(items)).results.map((result) => isReceiptSigned(relayHost.key, result));
  };
  expect(await answered({ tree, tree_sig })).toEqual([true, true, true]);
  expect(await answered({ tree: { ...tree, more: 1 }, tree_sig })).toEqual([false, false, true]);
  expect(await answered({ tree, tree_sig: signDocument(carol.signer, tree!) })).toEqual([false, false, true]);
  for (const bad of [{}, { tree }, { tree_sig }, { tree: { ...tree, size: '3' }, tree_sig }, { tree: [], tree_sig }])
    expect(await answered(bad)).toEqual([false, false, true]);
});
