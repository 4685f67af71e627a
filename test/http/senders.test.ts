/** POST /v2/relay/senders: docs/protocol.md, "POST /v2/relay/senders"; "Sender allowlist". */
import { canonicalize } from 'json-canonicalize';
import { describe, expect, test } from 'vitest';
import { ANY_ADAPTER } from '../support/adapters.ts';
import { type HttpRelay, relayForSuite } from '../support/http-relay.ts';
import { type TestHost, alice, bob, carol } from '../support/hosts.ts';
import { itemTo } from '../support/mail.ts';
import { jsonOf } from '../support/problems.ts';
import type { RawResponse } from '../support/raw-http.ts';

const PATH = '/v2/relay/senders';
/** A well-encoded key of small order. */
const SMALL_ORDER = Buffer.from(`01${'00'.repeat(31)}`, 'hex').toString('base64');

const signed = (list: Record<string, unknown>, signer: TestHost = bob): object => ({
  list,
  sig: signer.signer.sign(Buffer.from(canonicalize(list))),
});

describe.each(ANY_ADAPTER)('%s', (adapter) => {
  const suite = relayForSuite(adapter);
  let iats = 0;

  const enrolled = async (): Promise<HttpRelay> => {
    const relay = suite.current;
    if (!relay.relay.engine.directory.get(alice.key)) await relay.enrol(alice, bob, carol);
    return relay;
  };

  const listOf = (senders: readonly unknown[], changes: Record<string, unknown> = {}): Record<string, unknown> => {
    const iat = suite.current.clock.nowMs() + ++iats;
    return { v: 1, type: 'relay-senders', host_pubkey: bob.key, senders, iat, ...changes };
  };

  const send = async (body: unknown, from: TestHost = bob): Promise<RawResponse> => {
    const relay = await enrolled();
    return relay.send(relay.hop(from, 'POST', PATH, JSON.stringify(body)));
  };

  test('a list is answered with its count and iat, and is enforced at once', async () => {
    const list = listOf([alice.key, alice.key]);
    const response = await send(signed(list));
    expect([response.status, jsonOf(response)]).toEqual([200, { senders: 1, iat: list['iat'] }]);
    const relay = suite.current;
    const statusOf = async (from: TestHost, id: string): Promise<string | undefined> =>
      (await relay.client(from).push([itemTo([bob], id)])).results[0]?.status;
    expect(await statusOf(alice, 's1')).toBe('accepted');
    expect(await statusOf(carol, 's2')).toBe('rejected:sender not accepted by target');
    expect((await send(signed(listOf([])))).status).toBe(200);
    expect(await statusOf(alice, 's3')).toBe('rejected:sender not accepted by target');
  });

  test('a list of another host is KEY_MISMATCH, with either signature', async () => {
    for (const signer of [alice, bob]) {
      expect(await send(signed(listOf([]), signer), alice)).toBeProblem('KEY_MISMATCH');
    }
  });

  test('a signature by another, over other bytes, or none is BAD_SIGNATURE', async () => {
    expect(await send(signed(listOf([]), alice))).toBeProblem('BAD_SIGNATURE');
    const list = listOf([alice.key]);
    expect(await send({ ...signed(list), list: { ...list, senders: [] } })).toBeProblem('BAD_SIGNATURE');
    expect(await send({ ...signed(list), list: { ...list, more: 1 } })).toBeProblem('BAD_SIGNATURE');
  });

  test('unknown members of the list are covered by its signature', async () => {
    expect((await send(signed(listOf([alice.key, carol.key], { more: { of: ['it'] } })))).status).toBe(200);
  });

  test('a key that is no acceptable point is 400', async () => {
    for (const key of [SMALL_ORDER, Buffer.alloc(32, 255).toString('base64'), `${alice.key.slice(0, 42)}x=`]) {
      expect(await send(signed(listOf([alice.key, key])))).toBeProblem('BAD_REQUEST');
    }
  });

  test.each<[string, Record<string, unknown>]>([
    ['another version', { v: 2 }],
    ['another type', { type: 'relay-enrol' }],
    ['no senders', { senders: undefined }],
    ['senders that are no keys', { senders: ['alice'] }],
    ['a fractional iat', { iat: 1.5 }],
    ['an iat of text', { iat: '1' }],
  ])('%s is 400', async (_what, changes) => {
    expect(await send(signed(listOf([], changes)))).toBeProblem('BAD_REQUEST');
  });

  test('a v1 hop opens no v2 route', async () => {
    const relay = await enrolled();
    expect(await relay.sendByName(bob, 'POST', PATH, signed(listOf([])))).toBeProblem('NOT_ENROLLED');
  });
});
