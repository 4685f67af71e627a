/**
 * The vectors of signed requests, to a relay and on a LAN, checked without the code that made them; and what our code
 * makes of them.
 */
import { expect } from 'vitest';
import { claimedHop, isHopSigned, lanHopHeaders } from '../../../src/host/lan/lan-hop.ts';
import { sha256Hex } from '../../../src/protocol/encodings.ts';
import { signerFromSeed } from '../../../src/protocol/ed25519.ts';
import type { PublicKey } from '../../../src/protocol/public-key.ts';
import {
  type HostKeys,
  type Keys,
  type VectorChecks,
  bytes,
  each,
  expectSigned,
  hopLines,
  readVectors,
  sha256Of,
  utf8,
} from './oracle.ts';

interface HopCase {
  name: string;
  method: string;
  target: string;
  body: string | null;
  body_sha256: string;
  timestamp: string;
  signed_message: string;
  signed_message_hex: string;
  signature: string;
  headers: Record<string, string>;
}

/** That the case signs this message as `host`, and says of its bytes what is true. */
async function expectHop(one: HopCase, message: string, host: HostKeys): Promise<void> {
  expect(one.signed_message).toBe(message);
  expect(one.signed_message_hex).toBe(Buffer.from(one.signed_message, 'utf8').toString('hex'));
  expect(one.body_sha256).toBe(sha256Of(utf8(one.body ?? '')));
  await expectSigned(utf8(one.signed_message), one.signature, host);
}

function hop(): VectorChecks {
  type RelayHopCase = HopCase & { version: 1 | 2 };
  const { relay, host, cases } = readVectors('hop.json') as { relay: Keys; host: HostKeys; cases: RelayHopCase[] };
  const signatureOf = (version: 1 | 2, target: string): string | undefined =>
    cases.find((one) => one.version === version && one.target === target)?.signature;
  const run = (): void => {
    for (const version of [1, 2] as const) {
      const targets = cases.filter((one) => one.version === version).map(({ target }) => target);
      expect(targets.some((target) => !target.includes('?'))).toBe(true);
      expect(targets.some((target) => target.endsWith('?'))).toBe(true);
      expect(targets.some((target) => /\?./.test(target))).toBe(true);
      expect(targets.some((target) => !/^\/v[12]\/relay\//.test(target))).toBe(true);
    }
    expect(cases.map(({ body }) => body)).toEqual(expect.arrayContaining([null, '']));
  };
  const checks = each(cases, '', async (one) => {
    const [path = '', query] = one.target.split(/(?=\?)/s);
    const signedPath = path.slice(path.search(/\/v[12]\/relay\//));
    const message =
      one.version === 2
        ? hopLines('mail-hop-v2', { ...one, target: signedPath + (query ?? '') }, relay.pubkey)
        : hopLines('mail-hop-v1', { ...one, target: signedPath });
    await expectHop(one, message, host);
    expect(one.headers).toEqual({
      'x-mail-host': host.name,
      'x-mail-ts': one.timestamp,
      'x-mail-sig': one.signature,
      ...(one.version === 2 && { 'x-mail-key': host.pubkey }),
    });
  });
  const questionMark = (): void => {
    expect(signatureOf(2, '/v2/relay/info?')).toBeDefined();
    expect(signatureOf(2, '/v2/relay/info?')).not.toBe(signatureOf(2, '/v2/relay/info'));
    expect(signatureOf(1, '/v1/relay/messages?')).toBeDefined();
    expect(signatureOf(1, '/v1/relay/messages?')).toBe(signatureOf(1, '/v1/relay/messages?after=c1'));
  };
  return {
    file: 'hop.json',
    checks: [
      { name: 'has the cases in which clients go wrong', run },
      ...checks,
      { name: 'a question mark alone changes a v2 signature and no v1 signature', run: questionMark },
    ],
  };
}

type LanHost = HostKeys & { pubkey: PublicKey };
type LanHopCase = HopCase & { nonce: string };

const lan = readVectors('lan-hop.json') as { receiver: LanHost; host: LanHost; cases: LanHopCase[] };

const independentOfLan = each(lan.cases, '', async (one) => {
  const { receiver, host } = lan;
  expect(one.nonce).toMatch(/^[A-Za-z0-9_-]{21}[AQgw]$/);
  await expectHop(one, hopLines('mail-hop-lan-2', one, receiver.pubkey, one.nonce), host);
  expect(one.headers).toEqual({
    'x-mail-host': host.name,
    'x-mail-key': host.pubkey,
    'x-mail-ts': one.timestamp,
    'x-mail-nonce': one.nonce,
    'x-mail-sig': one.signature,
  });
});

const madeByOurCode = each(lan.cases, 'our code makes it to the byte', (one) => {
  const { method, target, timestamp, nonce, headers } = one;
  const body = one.body ?? '';
  const { receiver, host } = lan;
  const caller = { signer: signerFromSeed(bytes(host.seed)), hostName: host.name, nowMs: Number(timestamp) };
  expect(lanHopHeaders(caller, receiver.pubkey, method, target, body, nonce)).toEqual(headers);
  const [first, second] = [1, 2].map(() => lanHopHeaders(caller, receiver.pubkey, method, target, body));
  expect(first?.['x-mail-nonce']).not.toBe(second?.['x-mail-nonce']);
});

const TAKEN = 'our code takes it as its receiver, and as no other, for no other request, and at no other time';
const takenByOurCode = each(lan.cases, TAKEN, ({ method, target, body, timestamp, headers }) => {
  const { receiver, host } = lan;
  const nowMs = Number(timestamp);
  const hop = claimedHop((name) => headers[name], nowMs);
  if ('code' in hop) throw new Error(hop.detail);
  const request = { method, target, bodyHash: sha256Hex(body ?? '') };
  const called = [receiver.pubkey];
  expect(isHopSigned(hop, request, called, false)).toBe(true);
  expect(isHopSigned(hop, request, [host.pubkey, ...called], true)).toBe(true);
  expect(isHopSigned(hop, request, [host.pubkey], true)).toBe(false);
  expect(isHopSigned(hop, { ...request, method: 'PUT' }, called, true)).toBe(false);
  expect(isHopSigned(hop, { ...request, target: `${target}?` }, called, true)).toBe(false);
  expect(isHopSigned(hop, { ...request, bodyHash: sha256Hex('x') }, called, true)).toBe(false);
  expect(isHopSigned({ ...hop, timestamp: String(nowMs + 1) }, request, called, true)).toBe(false);
  expect(isHopSigned({ ...hop, nonce: 'AAAAAAAAAAAAAAAAAAAAAA' }, request, called, true)).toBe(false);
  expect(claimedHop((name) => headers[name], nowMs + 300_000)).not.toHaveProperty('code');
  expect(claimedHop((name) => headers[name], nowMs + 300_001)).toMatchObject({ code: 'CLOCK_SKEW' });
  expect(claimedHop((name) => headers[name], nowMs - 300_001)).toMatchObject({ code: 'CLOCK_SKEW' });
});

const withoutAHeader = ['x-mail-key', 'x-mail-ts', 'x-mail-sig', 'x-mail-nonce'].flatMap((name) =>
  each(lan.cases, `to our code it is none without ${name}`, ({ headers, timestamp }) => {
    const { [name]: _left, ...others } = headers;
    expect(claimedHop((other) => others[other], Number(timestamp))).toMatchObject({ code: 'BAD_SIGNATURE' });
  }),
);

const LAN_HOP: VectorChecks = {
  file: 'lan-hop.json',
  checks: [...independentOfLan, ...madeByOurCode, ...takenByOurCode, ...withoutAHeader],
};

export const HOPS: readonly VectorChecks[] = [hop(), LAN_HOP];
