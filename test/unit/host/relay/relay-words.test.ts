/** A relay that says whatever it likes: none of it is without bounds, and none makes the host throw. */
import { createServer } from 'node:http';
import { expect, test } from 'vitest';
import { RelayClient } from '../../../../src/host/relay/relay-client.ts';
import { RelayV1Client } from '../../../../src/host/relay/relay-v1-client.ts';
import { RelayCallFailed } from '../../../../src/host/relay/relay-request.ts';
import { encKeyOf } from '../../../../src/host/peers/peers.ts';
import { DEFAULT_LIMITS } from '../../../../src/protocol/limits.ts';
import { isPrintable } from '../../../../src/protocol/printable.ts';
import { NO_RELAY_HEADER } from '../../../support/flaky-proxy.ts';
import { alice, relay } from '../../../support/hosts.ts';
import { NOON_MS } from '../../../support/test-clock.ts';
import { listeningPort } from '../../../support/listening-port.ts';

const LONG = 'A'.repeat(1 << 20);

async function answering(status: number, text: string): Promise<{ client: RelayClient; v1: RelayV1Client }> {
  const server = createServer((_request, response) => {
    response.writeHead(status, { 'content-type': 'application/json', [NO_RELAY_HEADER]: 'yes' }).end(text);
  });
  const url = `http://127.0.0.1:${await listeningPort(server)}`;
  const options = { url, signer: alice.signer, hostName: alice.name, nowMs: () => NOON_MS };
  return { client: new RelayClient(options, relay.key), v1: new RelayV1Client(options, relay.key) };
}

async function failureOf(asked: Promise<unknown>): Promise<RelayCallFailed> {
  const failure: unknown = await asked.then(
    () => undefined,
    (error: unknown) => error,
  );
  if (!(failure instanceof RelayCallFailed)) throw new Error(`not refused as it should be: ${String(failure)}`);
  return failure;
}

test.each([
  ['a code without an end', { code: LONG, detail: 'no' }],
  ['words without an end', { code: 'UNAVAILABLE', detail: LONG }],
  ['words that a terminal obeys', { code: 'X\u001b[2J', detail: '\u202e\u0007\n' }],
])('%s: what is said of it is short and printable', async (_what, document) => {
  const { client } = await answering(503, JSON.stringify(document));
  const { code, message } = await failureOf(client.ack('E', 1));
  expect(['', 'UNAVAILABLE']).toContain(code);
  expect(message.length).toBeLessThan(400);
  expect(isPrintable(message)).toBe(true);
});

test.each(['a\0b', '\ud800', 'a b', 'a\u202eb'])('an epoch that no key can hold (%j) is none', async (epoch) => {
  const info = { v: 2, relay_pubkey: relay.key, epoch, limits: DEFAULT_LIMITS, version: '1', now: NOON_MS };
  const { client } = await answering(200, JSON.stringify(info));
  expect((await failureOf(client.info())).message).toContain('no relay of this protocol');
});

test('v1: a cursor that no address can hold is none', async () => {
  const { v1 } = await answering(200, '{"envelopes":[],"cursor":"\\ud800","more":false}');
  expect((await failureOf(v1.pull(null))).message).toContain('no relay of this protocol');
});

test('a key to seal to that no canonical form carries is signed by nobody', () => {
  const shown = { host_pubkey: alice.key, enc_pub: '\ud800'.repeat(44), at: 1, sig: 'A'.repeat(86) + '==' };
  expect(encKeyOf(shown, alice.key)).toBeUndefined();
});

test('a result without an end is none', async () => {
  const results = [{ item_id: 'm1', status: `rejected:${LONG}` }];
  const { client } = await answering(200, JSON.stringify({ epoch: 'E', results }));
  const item = { kind: 'envelope', item_id: 'm1', targets: [] } as const;
  expect((await client.push([{ ...item, targets: [] }])).results).toEqual([{ item_id: null, status: '' }]);
});
