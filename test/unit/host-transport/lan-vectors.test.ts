import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { claimedHop, isHopSigned, lanHopHeaders } from '../../../src/host/transport/lan-hop.ts';
import { signerFromSeed } from '../../../src/protocol/ed25519.ts';
import {
  isCodeOf,
  isPairingMac,
  pairingCodeText,
  pairingMac,
  parsePairingCode,
} from '../../../src/protocol/pairing-code.ts';
import type { PublicKey } from '../../../src/protocol/public-key.ts';

interface Keys {
  name: string;
  seed: string;
  pubkey: PublicKey;
}
interface HopFile {
  receiver: Keys;
  host: Keys;
  cases: {
    name: string;
    method: string;
    target: string;
    body: string | null;
    timestamp: string;
    headers: Record<string, string>;
  }[];
}
interface PairingFile {
  cases: {
    name: string;
    inviter: Keys;
    acceptor: Keys;
    secret: string;
    code: string;
    acceptor_mac: { mac: string };
    inviter_mac: { mac: string };
  }[];
}

function vectors(file: string): unknown {
  return JSON.parse(readFileSync(new URL(`../../vectors/${file}`, import.meta.url), 'utf8'));
}

const hops = vectors('lan-hop.json') as HopFile;

describe.each(hops.cases)('a hop of the vectors, $name', ({ method, target, body, timestamp, headers }) => {
  const signer = signerFromSeed(Buffer.from(hops.host.seed, 'base64'));
  const nowMs = Number(timestamp);

  test('is made to the byte', () => {
    const caller = { signer, hostName: hops.host.name, nowMs };
    expect(lanHopHeaders(caller, hops.receiver.pubkey, method, target, body ?? '')).toEqual(headers);
  });

  test('is taken by its receiver, and by no other, for no other request, and at no other time', () => {
    const hop = claimedHop(headers, nowMs);
    if ('code' in hop) throw new Error(hop.detail);
    const request = { method, target, body: Buffer.from(body ?? '') };
    const called = [hops.receiver.pubkey];
    expect(isHopSigned(hop, request, called, false)).toBe(true);
    expect(isHopSigned(hop, request, [hops.host.pubkey, ...called], true)).toBe(true);
    expect(isHopSigned(hop, request, [hops.host.pubkey], true)).toBe(false);
    expect(isHopSigned(hop, { ...request, method: 'PUT' }, called, true)).toBe(false);
    expect(isHopSigned(hop, { ...request, target: `${target}?` }, called, true)).toBe(false);
    expect(isHopSigned(hop, { ...request, body: Buffer.from('x') }, called, true)).toBe(false);
    expect(isHopSigned({ ...hop, timestamp: String(nowMs + 1) }, request, called, true)).toBe(false);
    expect(claimedHop(headers, nowMs + 300_000)).not.toHaveProperty('code');
    expect(claimedHop(headers, nowMs + 300_001)).toMatchObject({ code: 'CLOCK_SKEW' });
    expect(claimedHop(headers, nowMs - 300_001)).toMatchObject({ code: 'CLOCK_SKEW' });
  });

  test.each(['x-mail-key', 'x-mail-ts', 'x-mail-sig'])('without %s is none', (name) => {
    const { [name]: _left, ...others } = headers;
    expect(claimedHop(others, nowMs)).toMatchObject({ code: 'BAD_SIGNATURE' });
  });
});

describe.each((vectors('lan-pairing.json') as PairingFile).cases)('a pairing of the vectors, $name', (pairing) => {
  const { inviter, acceptor, code } = pairing;
  const secret = Buffer.from(pairing.secret, 'base64');
  const parties = { inviter_pubkey: inviter.pubkey, acceptor_pubkey: acceptor.pubkey };

  test('has its code, however it is written', () => {
    expect(pairingCodeText(inviter.pubkey, secret)).toBe(code);
    const written = [
      code,
      code.toLowerCase(),
      code.replaceAll('-', ''),
      code.replaceAll('-', ' ').replaceAll('0', 'O'),
    ];
    for (const text of written) {
      const parsed = parsePairingCode(text);
      expect(parsed?.secret).toEqual(secret);
      expect(parsed && isCodeOf(parsed, inviter.pubkey)).toBe(true);
      expect(parsed && isCodeOf(parsed, acceptor.pubkey)).toBe(false);
    }
    for (const text of ['', code.slice(1), `${code}0`, code.replace(/.$/, 'U'), `Z${code.slice(1)}`]) {
      expect(parsePairingCode(text)).toBeUndefined();
    }
  });

  test('has its MACs, each of one role and these keys', () => {
    expect(pairingMac(secret, 'acceptor', parties)).toBe(pairing.acceptor_mac.mac);
    expect(pairingMac(secret, 'inviter', parties)).toBe(pairing.inviter_mac.mac);
    expect(isPairingMac(pairing.acceptor_mac.mac, secret, 'acceptor', parties)).toBe(true);
    expect(isPairingMac(pairing.acceptor_mac.mac, secret, 'inviter', parties)).toBe(false);
    const swapped = { inviter_pubkey: acceptor.pubkey, acceptor_pubkey: inviter.pubkey };
    expect(isPairingMac(pairing.acceptor_mac.mac, secret, 'acceptor', swapped)).toBe(false);
    expect(isPairingMac(pairing.acceptor_mac.mac, Buffer.alloc(16), 'acceptor', parties)).toBe(false);
    expect(isPairingMac('none', secret, 'acceptor', parties)).toBe(false);
  });
});
