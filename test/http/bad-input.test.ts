/** Bodies that no client of ours would send: refused with a stable code, nothing stored, and the relay serves on. */
import { describe, expect, test } from 'vitest';
import type { ProblemCode } from '../../src/protocol/problem.ts';
import { enrolBody } from '../support/enrolments.ts';
import { ANY_ADAPTER } from '../support/adapters.ts';
import { type HttpRelay, relayForSuite } from '../support/http-relay.ts';
import { alice, bob, dave } from '../support/hosts.ts';
import { itemTo } from '../support/mail.ts';
import { jsonOf } from '../support/problems.ts';
import { type RawResponse, rawRequest, requestBytes } from '../support/raw-http.ts';
import { IS_THOROUGH } from '../support/thorough.ts';

const ROUTES = ['/v1/relay/challenge', '/v1/relay/enrol', '/v2/relay/items', '/v2/relay/ack'] as const;
const SMALL_BYTES = 8192;

const bodies: [string, string | Uint8Array][] = [
  ['no body', ''],
  ['a space', ' '],
  ['half an object', '{'],
  ['half a text', '{"items'],
  ['two documents', '{}{}'],
  ['a comma too many', '{"items":[],}'],
  ['single quotes', "{'items':[]}"],
  ['a comment', '{"items":[]/* */}'],
  ['NaN', '{"through":NaN}'],
  ['a number', '5'],
  ['a text', '"items"'],
  ['true', 'true'],
  ['null', 'null'],
  ['a list', '[]'],
  ['a list of a request', '[{"items":[]}]'],
  ['an empty object', '{}'],
  ['members of other types', '{"items":{},"pubkey":5,"host":null,"sig":[],"owner_fp":{},"epoch":1,"through":"0"}'],
  [
    'members that are null',
    '{"items":null,"pubkey":null,"host":null,"sig":null,"owner_fp":null,"epoch":null,"through":null}',
  ],
  ['members behind a prototype', '{"__proto__":{"items":[],"epoch":"E","through":0}}'],
  ['a constructor', '{"constructor":{"prototype":{"items":[]}}}'],
  ['an infinite number', '{"epoch":"E","through":1e400}'],
  ['a number beyond integers', '{"epoch":"E","through":9007199254740993}'],
  ['a BOM', Buffer.from('\uFEFF{"items":[],"epoch":"E","through":0}')],
  ['UTF-16', Buffer.from('{"items":[],"epoch":"E","through":0}', 'utf16le')],
  ['invalid UTF-8', Buffer.from('{"items":[],"x":"\xff","epoch":"E","through":0}', 'latin1')],
  ['an overlong encoding', Buffer.concat([Buffer.from('{"items":[],"x":"'), Buffer.of(0xc0, 0x80), Buffer.from('"}')])],
  [
    'a surrogate in UTF-8',
    Buffer.concat([Buffer.from('{"items":[],"x":"'), Buffer.of(0xed, 0xa0, 0x80), Buffer.from('"}')]),
  ],
  ['NUL bytes', Buffer.alloc(1000)],
  ['32 lists in each other, in an object', `{"items":${'['.repeat(32)}${']'.repeat(32)}}`],
  ['3,000 lists in each other', `{"items":${'['.repeat(3000)}${']'.repeat(3000)}}`],
  ['3,000 lists that never end', `{"items":${'['.repeat(3000)}`],
  ['objects in each other', `${'{"a":'.repeat(1000)}1${'}'.repeat(1000)}`],
];

/** Beyond what challenge and enrol take. */
const largeBodies: [string, () => Buffer][] = [
  ['8 MiB of {}', () => Buffer.from(`[${'{},'.repeat(2_796_201)}{}]`)],
  ['8 MiB of {} as items', () => Buffer.from(`{"items":[${'{},'.repeat(2_796_190)}{}]}`)],
  ['8 MiB of open lists', () => Buffer.alloc(8_388_608, '[')],
  ['8 MiB of open objects', () => Buffer.from('{"":'.repeat(2_097_152))],
  ['8 MiB of commas', () => Buffer.from(`{"items":[${','.repeat(8_388_590)}]}`)],
  ['8 MiB of quotes', () => Buffer.alloc(8_388_608, '"')],
  ['8 MiB of backslashes in a text', () => Buffer.from(`{"items":"${'\\'.repeat(8_388_590)}"}`)],
  ['8 MiB of escaped quotes in a text that never ends', () => Buffer.from(`{"items":"${'\\"'.repeat(4_194_290)}`)],
  ['8 MiB of numbers', () => Buffer.from(`{"items":[${'1,'.repeat(4_194_290)}1]}`)],
  ['8 MiB of digits', () => Buffer.from(`{"through":${'1'.repeat(8_388_580)}}`)],
  ['100,000 items', () => Buffer.from(`{"items":[${'0,'.repeat(99_990)}0]}`)],
];

describe.each(ANY_ADAPTER)('%s', (adapter) => {
  const suite = relayForSuite(adapter);

  const enrolled = async (): Promise<HttpRelay> => {
    const relay = suite.current;
    if (!relay.relay.engine.directory.get(bob.key)) await relay.enrol(alice, bob);
    return relay;
  };

  describe.each(ROUTES)('POST %s', (path) => {
    test.each(bodies)('%s is BAD_REQUEST', async (_what, body) => {
      const relay = await enrolled();
      await withNothingStored(relay, async () => {
        expect(await post(relay, path, body)).toBeProblem('BAD_REQUEST');
      });
    });

    test('the same for a stranger, who is told no more', async () => {
      const relay = await enrolled();
      await withNothingStored(relay, async () => {
        for (const [, body] of bodies) {
          const response = await rawRequest(relay.port, requestBytes('POST', path, {}, body));
          expect(response).toBeProblem(path.startsWith('/v1') ? 'BAD_REQUEST' : 'NOT_ENROLLED');
        }
      });
    });
  });

  // One function reads the bodies of both.
  describe.each(['/v2/relay/items', '/v2/relay/ack'])('POST %s', (path) => {
    const isTried = (at: number): boolean => IS_THOROUGH || (at % 2 === 0) === path.endsWith('items');
    test.each(largeBodies.filter((_, at) => isTried(at)))('%s is BAD_REQUEST', async (_what, bodyOf) => {
      const relay = await enrolled();
      const body = bodyOf();
      expect(body.length).toBeLessThanOrEqual(8_388_608);
      await withNothingStored(relay, async () => {
        expect(await post(relay, path, body)).toBeProblem('BAD_REQUEST');
      });
    });
  });

  test.each(largeBodies)('%s to challenge and enrol is too large', async (_what, bodyOf) => {
    const relay = await enrolled();
    const { length } = bodyOf();
    for (const path of ['/v1/relay/challenge', '/v1/relay/enrol']) {
      const head = requestBytes('POST', path, { 'content-length': String(length) });
      expect(await rawRequest(relay.port, head)).toBeProblem('BODY_TOO_LARGE');
    }
  });

  test('32 arrays and objects in each other are no more than a body may have', async () => {
    const relay = await enrolled();
    const nested = `{"items":[],"more":${'['.repeat(31)}${']'.repeat(31)}}`;
    expect(jsonOf(await post(relay, '/v2/relay/items', nested))).toEqual({ epoch: relay.epoch, results: [] });
  });

  test('escaped lone surrogates are data that nobody asked for, or malformed', async () => {
    const relay = await enrolled();
    const lone = String.raw`"\ud800"`;
    await withNothingStored(relay, async () => {
      const ignored = await post(relay, '/v2/relay/items', `{"items":[],"more":${lone},${lone}:1}`);
      expect(ignored.status).toBe(200);
      expect(await post(relay, '/v2/relay/items', `{"items":${lone}}`)).toBeProblem('BAD_REQUEST');
      expect(await post(relay, '/v2/relay/ack', `{"epoch":${lone},"through":0}`)).toBeProblem('EPOCH_CHANGED');
      expect(await post(relay, '/v1/relay/challenge', `{"pubkey":${lone}}`)).toBeProblem('BAD_REQUEST');
      const sig = 'A'.repeat(88);
      const enrol = (host: string, owner: string): string =>
        `{"host":${host},"pubkey":"${dave.key}","owner_fp":${owner},"sig":"${sig}"}`;
      expect(await post(relay, '/v1/relay/enrol', enrol(lone, '""'))).toBeProblem('BAD_REQUEST');
      expect(await post(relay, '/v1/relay/enrol', enrol('"dave"', lone))).toBeProblem('BAD_REQUEST');
    });
  });

  test('a surrogate inside a sealed envelope is the business of who sealed it', async () => {
    const relay = await enrolled();
    const wire = Buffer.from(String.raw`{"id":"lone","sealed":{"alg":"a","enc":"e","ct":"\ud800"}}`);
    const { results } = await relay.client(alice).push([itemTo([bob], 'lone', wire)]);
    expect(results[0]?.status).toBe('accepted');
    const { items } = await relay.client(bob).pull();
    expect(items.find(({ item_id }) => item_id === 'lone')?.wire).toEqual(wire);
  });

  test.each<[string, Record<string, unknown>, ProblemCode]>([
    [
      'a proof of 100 lists in each other',
      { proof: JSON.parse(`${'['.repeat(100)}${']'.repeat(100)}`) as unknown },
      'BAD_REQUEST',
    ],
    ['a signature of 87 characters', { sig: 'A'.repeat(87) }, 'BAD_REQUEST'],
    ['a signature that is a list', { sig: ['A'.repeat(88)] }, 'BAD_REQUEST'],
    ['a key in a list', { pubkey: [dave.key] }, 'BAD_REQUEST'],
    ['a key without padding', { pubkey: dave.key.slice(0, 43) }, 'BAD_REQUEST'],
    ['a key with bits behind the end', { pubkey: `${dave.key.slice(0, 42)}${nextLetter(dave.key)}=` }, 'BAD_REQUEST'],
    ['a key with a newline', { pubkey: `${dave.key}\n` }, 'BAD_REQUEST'],
    ['a key of zeros', { pubkey: Buffer.alloc(32).toString('base64') }, 'ENROL_REFUSED'],
    ['no challenge', {}, 'NO_CHALLENGE'],
  ])('enrol with %s', async (_what, sent, code) => {
    const relay = await enrolled();
    await withNothingStored(relay, async () => {
      const body = enrolBody(dave, Buffer.alloc(32).toString('base64'), { sent });
      expect(await post(relay, '/v1/relay/enrol', JSON.stringify(body))).toBeProblem(code);
    });
  });

  test('a body of the largest size is read, and one byte more is not', async () => {
    const relay = await enrolled();
    const empty = JSON.stringify({ items: [] });
    expect((await post(relay, '/v2/relay/items', empty.padEnd(8_388_608))).status).toBe(200);
    expect(await post(relay, '/v2/relay/items', empty.padEnd(8_388_609))).toBeProblem('BODY_TOO_LARGE');
    const ofChallenge = JSON.stringify({ pubkey: dave.key }).padEnd(SMALL_BYTES);
    expect((await post(relay, '/v1/relay/challenge', ofChallenge)).status).toBe(200);
    expect(await post(relay, '/v1/relay/challenge', `${ofChallenge} `)).toBeProblem('BODY_TOO_LARGE');
  });
});

function post(relay: HttpRelay, path: string, body: string | Uint8Array): Promise<RawResponse> {
  return path.startsWith('/v1')
    ? rawRequest(relay.port, requestBytes('POST', path, {}, body))
    : relay.send(relay.hop(alice, 'POST', path, body));
}

/** Runs `work`, after which nothing is stored that was not, and the relay serves. */
async function withNothingStored(relay: HttpRelay, work: () => Promise<void>): Promise<void> {
  const lsn = await relay.lastLsn();
  const waiting = await relay.queue(bob);
  await work();
  expect((await relay.client(bob).ownInfo()).you).toMatchObject({ host: 'bob' });
  expect(await relay.lastLsn()).toBe(lsn);
  expect(await relay.queue(bob)).toEqual(waiting);
  expect(relay.relay.engine.directory.get(dave.key)).toBeUndefined();
  expect(relay.errors).toEqual([]);
}

/** Base64 of the same bytes with a bit set behind their end. */
function nextLetter(key: string): string {
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
  return alphabet[alphabet.indexOf(key[42] ?? 'A') + 1] ?? 'B';
}
