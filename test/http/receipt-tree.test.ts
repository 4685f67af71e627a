/** Receipts that are signed together: `x-mail-receipts: tree` on a push, as docs/protocol.md has it. */
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { ItemToPush } from '../../src/host/relay/relay-forms.ts';
import { PushResponse } from '../../src/protocol/responses.ts';
import { isReceiptSigned } from '../../src/protocol/receipt-tree.ts';
import { parserOf } from '../../src/protocol/schemas.ts';
import { ANY_ADAPTER } from '../support/adapters.ts';
import { type HttpRelay, enrolledRelay, relayForSuite } from '../support/http-relay.ts';
import { alice, bob, carol, dave, relay as relayHost } from '../support/hosts.ts';
import { itemTo } from '../support/mail.ts';
import { jsonOf } from '../support/problems.ts';
import { type ReceiptAlone, isSignedInTree } from '../support/receipt-oracle.ts';

const TARGET = '/v2/relay/items';
const TREE = { 'x-mail-receipts': 'tree' };

interface Answer {
  epoch: string;
  results: {
    item_id: string;
    status: string;
    targets?: { seq: number }[];
    accept?: { item_id: string; epoch: string };
    sig?: string;
    proof?: ReceiptAlone['proof'];
  }[];
  tree?: ReceiptAlone['tree'];
  tree_sig?: string;
}

const parse = parserOf(PushResponse);

async function push(relay: HttpRelay, items: readonly unknown[], headers: Record<string, string> = TREE) {
  const answered = await relay.send(relay.hop(alice, 'POST', TARGET, JSON.stringify({ items })), {}, headers);
  expect(answered.status).toBe(200);
  const answer: unknown = jsonOf(answered);
  expect(parse(answer)).toBeDefined();
  return answer as Answer;
}

/** The receipts of an answer as a sender keeps them. */
function alone({ results, tree, tree_sig }: Answer): ReceiptAlone[] {
  return results.flatMap(({ accept, proof }) =>
    accept && proof && tree && tree_sig !== undefined ? [{ accept, proof, tree, tree_sig }] : [],
  );
}

/** What of an answer is against the rules: the form of the receipts, which results have one, and if each is good. */
async function faultsOf(answer: Answer, isTreeAsked: boolean): Promise<string[]> {
  const { results, tree, tree_sig, epoch } = answer;
  const stored = results.filter(({ status }) => !status.startsWith('rejected:'));
  const isTree = isTreeAsked && stored.length > 1;
  const faults: string[] = [];
  const hold = (holds: boolean, fault: string): void => void (holds || faults.push(fault));
  hold((tree !== undefined) === isTree && (tree_sig !== undefined) === isTree, 'a tree where none is, or none');
  hold(!isTree || tree?.size === stored.length, 'the size of the tree');
  for (const result of results) {
    const { item_id, accept } = result;
    const receipt = stored.includes(result) ? ['targets', 'accept', isTree ? 'proof' : 'sig'] : [];
    hold(Object.keys(result).join() === ['item_id', 'status', ...receipt].join(), `the members of ${item_id}`);
    if (receipt.length === 0) continue;
    hold(accept?.item_id === item_id && accept.epoch === epoch, `the receipt of ${item_id}`);
    hold(isReceiptSigned(relayHost.key, { tree, tree_sig, ...result }), `the signature of ${item_id}`);
  }
  for (const [at, receipt] of alone(answer).entries()) {
    hold(receipt.proof.index === at, `the index ${receipt.proof.index} at ${at}`);
    hold(await isSignedInTree(receipt, relayHost.key), `the place of ${at}`);
  }
  hold(alone(answer).length === (isTree ? stored.length : 0), 'the number of receipts in the tree');
  return faults;
}

describe.each(ANY_ADAPTER)('%s', (adapter) => {
  const suite = relayForSuite(adapter);
  let ids = 0;
  const newItem = (): ItemToPush => itemTo([bob], `tree-${++ids}`);

  const enrolled = async (): Promise<HttpRelay> => {
    const relay = suite.current;
    if (!relay.relay.engine.directory.get(alice.key)) await relay.enrol(alice, bob, carol);
    return relay;
  };

  test('info says that the relay signs receipts as a tree', async () => {
    const relay = await enrolled();
    expect(await relay.client(alice).info()).toMatchObject({ receipts: ['tree'] });
  });

  test('two receipts have one signature, and what was rejected is no leaf', async () => {
    const relay = await enrolled();
    const items = [newItem(), itemTo([dave], 'tree-dave'), newItem()];
    const answer = await push(relay, items);
    expect(answer.results.map(({ status }) => status)).toEqual(['accepted', 'rejected:unknown target', 'accepted']);
    expect(await faultsOf(answer, true)).toEqual([]);
    expect(answer.tree).toMatchObject({ size: 2, relay_pubkey: relayHost.key });
  });

  test('200 receipts, the most of a request, are good one by one', async () => {
    const relay = await enrolled();
    const answer = await push(relay, Array.from({ length: 200 }, newItem));
    expect(await faultsOf(answer, true)).toEqual([]);
    expect(answer.tree?.size).toBe(200);
  });

  test('fewer than two receipts are signed alone, whatever was asked', async () => {
    const relay = await enrolled();
    const rejected = itemTo([dave], 'tree-dave');
    for (const items of [[newItem()], [rejected, newItem(), 'malformed'], [rejected, rejected], []]) {
      expect(await faultsOf(await push(relay, items), true)).toEqual([]);
    }
  });

  test.each([{}, { 'x-mail-receipts': 'Tree' }, { 'x-mail-receipts': 'sig' }, { 'x-mail-receipts': 'tree, tree' }])(
    'each receipt has a signature of its own with the headers %j',
    async (headers) => {
      const relay = await enrolled();
      expect(await faultsOf(await push(relay, [newItem(), newItem()], headers), false)).toEqual([]);
    },
  );

  test('a header that is added or taken away on the way costs nothing: every receipt is good', async () => {
    const relay = await enrolled();
    const items = [newItem(), newItem(), newItem()];
    const hop = relay.hop(alice, 'POST', TARGET, JSON.stringify({ items }));
    const seen: unknown[] = [];
    for (const headers of [TREE, {}, TREE]) {
      const answered = await relay.send(hop, {}, headers);
      expect(answered.status).toBe(200);
      const answer = jsonOf(answered) as unknown as Answer;
      expect(await faultsOf(answer, headers === TREE)).toEqual([]);
      seen.push(answer.results.map(({ accept }) => accept));
    }
    expect(seen[1]).toEqual(seen[0]);
    expect(seen[2]).toEqual(seen[0]);
  });

  test('a retry after a lost answer gets the same receipts in a tree of its own, and both are good', async () => {
    const relay = await enrolled();
    const [one, two, three] = [newItem(), newItem(), newItem()];
    const lost = await push(relay, [one, two]);
    relay.clock.move(1000);
    const again = await push(relay, [three, two, one]);
    expect(again.results.map(({ status }) => status)).toEqual(['accepted', 'duplicate', 'duplicate']);
    expect(again.results[2]?.accept).toEqual(lost.results[0]?.accept);
    expect([lost.tree?.size, again.tree?.size]).toEqual([2, 3]);
    expect(await faultsOf(lost, true)).toEqual([]);
    expect(await faultsOf(again, true)).toEqual([]);
    // A receipt of one answer has no place in the tree of the other.
    const [receipt] = alone(lost);
    const { tree, tree_sig } = again;
    expect(await isSignedInTree({ ...receipt, tree, tree_sig } as ReceiptAlone, relayHost.key)).toBe(false);
    expect(isReceiptSigned(relayHost.key, { ...receipt, tree, tree_sig })).toBe(false);
  });

  test('a repeated header is refused, as every x-mail header is', async () => {
    const relay = await enrolled();
    const hop = relay.hop(alice, 'POST', TARGET, JSON.stringify({ items: [newItem()] }));
    expect(await relay.send(hop, {}, { ...TREE, 'X-Mail-Receipts': 'tree' })).toBeProblem('BAD_REQUEST');
  });

  test('any mixture of new, known, rejected and malformed items has the receipts of the rules', async () => {
    const relay = await enrolledRelay(adapter, [alice, bob]);
    const known = [newItem(), newItem(), newItem()];
    await push(relay, known);
    const kinds = ['new', 'known', 'conflict', 'unknown', 'malformed'] as const;
    const itemOf = (kind: (typeof kinds)[number], at: number): unknown => {
      const one = known[at % known.length];
      if (kind === 'new') return newItem();
      if (kind === 'known') return one;
      if (kind === 'conflict') return { ...one, targets: newItem().targets };
      return kind === 'unknown' ? itemTo([dave], 'tree-dave') : { kind: 'envelope', item_id: 'tree-m', targets: [] };
    };
    await fc.assert(
      fc.asyncProperty(fc.array(fc.constantFrom(...kinds), { maxLength: 20 }), fc.boolean(), async (mixture, asks) => {
        expect(await faultsOf(await push(relay, mixture.map(itemOf), asks ? TREE : {}), asks)).toEqual([]);
      }),
      { numRuns: 40 },
    );
  });
});
