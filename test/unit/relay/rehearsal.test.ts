/** The relay of a rehearsal, and what is found wrong in its answers. */
import { existsSync } from 'node:fs';
import { dirname } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openCheckpoint } from '../../../src/protocol/checkpoint.ts';
import type { Epoch } from '../../../src/protocol/names.ts';
import type { PublicKey } from '../../../src/protocol/public-key.ts';
import { type RehearsedRelay, startRehearsal } from '../../../src/relay/rehearsal.ts';
import { openBackup } from '../../../src/relay/replay/offline.ts';
import {
  type CheckedAnswers,
  type AskedRelay,
  askEverything,
  type LogEnd,
} from '../../../src/relay/replay/questions.ts';
import { verify } from '../../../src/relay/replay/verify.ts';
import { resultOf } from '../../support/audits.ts';
import { fixtureBackup } from '../../support/fixture-stores.ts';

interface World {
  relay: RehearsedRelay;
  end: LogEnd;
  relayPubkey: PublicKey;
}

/** One for all tests: what is asked changes no answer. */
let world: World;
let stop: () => Promise<void>;

beforeAll(async () => {
  const offline = await openBackup(fixtureBackup(3));
  const folder = dirname(offline.level.location);
  const { epoch, treeSize, rootHash } = await resultOf(verify(offline));
  const relayPubkey = offline.header?.relay_pubkey as PublicKey;
  const relay = await startRehearsal(offline.store, 3, '0.1.0');
  stop = async () => {
    await relay.stop();
    await offline.close();
    if (existsSync(folder)) throw new Error('the copy is still there');
  };
  world = { relay, end: { epoch: epoch as Epoch, treeSize: treeSize ?? 0, rootHash: rootHash ?? '' }, relayPubkey };
});

afterAll(() => stop());

type Answer = Awaited<ReturnType<AskedRelay['ask']>>;

/** The rehearsal of a relay whose answers are changed on their way. */
async function answeredSo(change: (target: string, answer: Answer) => Partial<Answer>): Promise<CheckedAnswers> {
  const { relay, end } = world;
  const ask: AskedRelay['ask'] = async (question) => {
    const answer = await relay.ask(question);
    return { ...answer, ...change(question.target, answer) };
  };
  return resultOf(askEverything({ ...relay, ask }, end));
}

/** The same answer with one text in the place of another. */
function replaced(answer: Answer, from: RegExp, to: string): Partial<Answer> {
  const text = answer.body.toString();
  expect(text).toMatch(from);
  return { body: Buffer.from(text.replace(from, to)) };
}

test('every answer is what the log says, in the epoch of the backup', async () => {
  const { answers, faults, hosts } = await answeredSo(() => ({}));
  expect({ faults, hosts }).toEqual({ faults: [], hosts: 3 });
  expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
  expect(answers.filter(({ asked }) => asked.includes('/log/proof'))).toHaveLength(2);
});

test('nothing is signed with the key of the relay', async () => {
  const { relay, relayPubkey, end } = world;
  const { body } = await relay.ask({ target: '/v2/relay/log/checkpoint' });
  expect(openCheckpoint(body.toString(), relayPubkey)).toBeUndefined();
  expect(openCheckpoint(body.toString(), relay.signer.publicKey)).toMatchObject({ epoch: end.epoch });
  const info = await relay.ask({ target: '/v2/relay/info' });
  expect(JSON.parse(info.body.toString())).toMatchObject({ relay_pubkey: relay.signer.publicKey });
});

test('a hop that the rehearsal did not sign is refused, and time stands still', async () => {
  const { relay } = world;
  const [host] = relay.hosts;
  const asked = await relay.ask({ target: '/v2/relay/items?after=0', host });
  expect(asked.status).toBe(200);
  const stranger = await relay.ask({ target: '/v2/relay/items?after=0', host: relay.signer.publicKey });
  expect(stranger.status).toBe(401);
  const now = async () =>
    (JSON.parse((await relay.ask({ target: '/v2/relay/info' })).body.toString()) as { now: string }).now;
  expect(await now()).toBe(await now());
});

const EMPTY = Buffer.from('{}');
/** A frame of no bytes. */
const FOUR_ZEROS = Buffer.alloc(4);

const WRONG: readonly [what: string, of: string, change: (answer: Answer) => Partial<Answer>, fault: RegExp][] = [
  ['another epoch', '/info', (a) => replaced(a, /"epoch":"[^"]+"/, `"epoch":"${'0'.repeat(26)}"`), /not that of the b/],
  ['no page', '/items', (a) => replaced(a, /"last_seq"/, '"latest_seq"'), /the answer is no page/],
  [
    'a page without end',
    '/items',
    (a) => replaced(a, /"last_seq":\d+,"more":false/, '"last_seq":0,"more":true'),
    /no page/,
  ],
  ['a refusal', '/items', () => ({ status: 503 }), /it is answered with 503/],
  ['a link that is unknown', '/link', () => ({ status: 404 }), /it is answered with 404/],
  ['an item that is unknown', '/proof', () => ({ status: 404, body: EMPTY }), /answered with 404/],
  ['no document', '/info', (a) => replaced(a, /^\{/, ''), /cannot be read/],
  ['a checkpoint that is no text', '/checkpoint', () => ({ type: 'application/json', body: EMPTY }), /no checkpoint/],
  ['other wire bytes', '/items', (a) => replaced(a, /"wire_b64":"[^"]*"/, '"wire_b64":"AAAA"'), /of other bytes/],
  ['a leaf that is not in the tree', '/proof', (a) => replaced(a, /"index":\d+/, '"index":7'), /not in the tree/],
  [
    'a log that does not go on',
    '/consistency',
    (a) => replaced(a, /"proof":\[[^\]]+\]/, '"proof":[]'),
    /does not continue/,
  ],
  ['a checkpoint of another', '/checkpoint', (a) => replaced(a, /^poste\/./, 'poste/x'), /none that the relay key/],
];

test.each(WRONG)('%s is found', async (_what, of, change, fault) => {
  const { faults } = await answeredSo((target, answer) => {
    const isJson = answer.type.includes('json') || answer.type.startsWith('text/');
    const isOther = of === '/items' && isJson && !answer.body.toString().includes('"wire_b64":"');
    return target.includes(of) && isJson && !isOther ? change(answer) : {};
  });
  expect(faults.some((one) => fault.test(one))).toBe(true);
});

test('a record that was pruned is no fault', async () => {
  const body = Buffer.from('{"code":"RECORD_PRUNED"}');
  const { faults } = await answeredSo((target) => (target.includes('/log/proof') ? { status: 404, body } : {}));
  expect(faults).toEqual([]);
});

test('a page in the binary form is read, and what is none is found', async () => {
  const { answers } = await answeredSo(() => ({}));
  const pages = answers.filter(({ asked }) => asked.endsWith('in the binary form'));
  expect(Object.keys(pages[0]?.members ?? {})).toEqual(expect.arrayContaining(['frames[].seq', 'frames[].wire']));
  const changed = await answeredSo((_target, { type }) => (type.includes('msgpack') ? { body: FOUR_ZEROS } : {}));
  expect(changed.faults).toEqual(pages.map(({ asked }) => `${asked}: it cannot be read`));
});
