/** The vectors of a pairing on a LAN, checked without the code that made them; and what our code makes of them. */
import { createHmac } from 'node:crypto';
import { expect } from 'vitest';
import { isFromAcceptor, isFromInviter } from '../../../src/host/peers/pairing-invite.ts';
import type { LanPairing } from '../../../src/protocol/lan.ts';
import { isCodeOf, pairingCodeText, pairingMac, parsePairingCode } from '../../../src/protocol/pairing-code.ts';
import type { PublicKey } from '../../../src/protocol/public-key.ts';
import {
  type Document,
  type HostKeys,
  type VectorChecks,
  bytes,
  each,
  expectSigned,
  jcs,
  readVectors,
  sha256Of,
  utf8,
} from './oracle.ts';

interface Mac {
  document: Document;
  canonical: string;
  mac: string;
}

/** As our code names a key that it has checked. */
type Party = HostKeys & { pubkey: PublicKey };

interface Parties {
  inviter_pubkey: PublicKey;
  acceptor_pubkey: PublicKey;
}

interface PairingCase {
  name: string;
  inviter: Party;
  acceptor: Party;
  secret: string;
  code_bytes_hex: string;
  code: string;
  acceptor_mac: Mac;
  request: LanPairing;
  inviter_mac: Mac;
  answer: LanPairing;
}

const { cases } = readVectors('lan-pairing.json') as { cases: PairingCase[] };

const DIGITS = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';

/** The bytes that a code carries, as hex: digit by digit into one number. */
function decodedCode(code: string): string {
  let value = 0n;
  for (const digit of code.replaceAll('-', '')) value = value * 32n + BigInt(DIGITS.indexOf(digit));
  return value.toString(16).padStart(64, '0');
}

function partiesOf({ inviter, acceptor }: Pick<PairingCase, 'inviter' | 'acceptor'>): Parties {
  return { inviter_pubkey: inviter.pubkey, acceptor_pubkey: acceptor.pubkey };
}

const independent = [
  ...each(cases, 'the code', ({ inviter, secret, code, code_bytes_hex }) => {
    expect(code).toMatch(/^[01][0-9A-HJKMNP-TV-Z]{3}(?:-[0-9A-HJKMNP-TV-Z]{4}){12}$/);
    expect(decodedCode(code)).toBe(code_bytes_hex);
    expect(code_bytes_hex.slice(0, 32)).toBe(sha256Of(bytes(inviter.pubkey)).slice(0, 32));
    expect(code_bytes_hex.slice(32)).toBe(bytes(secret).toString('hex'));
    expect(bytes(secret)).toHaveLength(16);
  }),

  ...each(cases, 'the two MACs', (one) => {
    const { secret, acceptor_mac, inviter_mac, request, answer } = one;
    const keys = partiesOf(one);
    const { mac: ofRequest, ...asked } = request;
    const { mac: ofAnswer, ...answered } = answer;
    expect([ofRequest, ofAnswer]).toEqual([acceptor_mac.mac, inviter_mac.mac]);
    expect(acceptor_mac.document).toEqual({ v: 2, type: 'lan-pair', role: 'acceptor', ...keys, body: asked });
    expect(inviter_mac.document).toEqual({
      v: 2,
      type: 'lan-pair',
      role: 'inviter',
      ...keys,
      body: answered,
      acceptor_mac: acceptor_mac.mac,
    });
    for (const { document, canonical, mac } of [acceptor_mac, inviter_mac]) {
      expect(canonical).toBe(jcs(document));
      expect(createHmac('sha256', bytes(secret)).update(canonical).digest('base64')).toBe(mac);
    }
    expect(acceptor_mac.mac).not.toBe(inviter_mac.mac);
  }),

  ...each(cases, 'each side says its key and signs the key to seal to', async (one) => {
    for (const [host, body] of [
      [one.acceptor, one.request],
      [one.inviter, one.answer],
    ] as const) {
      expect(body).toMatchObject({ host: host.name, pubkey: host.pubkey });
      const { host_pubkey, enc_pub, at, sig } = body.enc_key;
      expect(host_pubkey).toBe(host.pubkey);
      const document = { v: 1, type: 'relay-enc-key', host_pubkey, enc_pub, at };
      await expectSigned(utf8(jcs(document)), sig, host);
    }
  }),
];

/** The word with one member changed, left out or added, its MAC as it was. */
function changesOf(word: LanPairing): LanPairing[] {
  const { mac, ...body } = word;
  const changed = Object.entries(body).flatMap(([name, value]) => {
    const { [name as keyof typeof body]: _left, ...others } = body;
    const another =
      typeof value === 'object' ? { ...value, at: 0 } : typeof value === 'string' ? `${value}0` : Number(value) + 1;
    return [
      { ...others, mac },
      { ...body, mac, [name]: another },
    ];
  });
  return [...changed, { ...word, more: null }] as LanPairing[];
}

const ofOurCode = [
  ...each(cases, 'our code makes and takes the code, however it is written', ({ inviter, acceptor, code, ...one }) => {
    const secret = bytes(one.secret);
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
  }),

  ...each(cases, 'our code makes and takes the MACs over every word of both sides', ({ request, answer, ...one }) => {
    const [secret, parties] = [bytes(one.secret), partiesOf(one)];
    const { mac: acceptorMac, ...asked } = request;
    const { mac: inviterMac, ...answered } = answer;
    expect(pairingMac(secret, { role: 'acceptor', ...parties, body: asked })).toBe(acceptorMac);
    const answers = { role: 'inviter', ...parties, body: answered, acceptor_mac: acceptorMac } as const;
    expect(pairingMac(secret, answers)).toBe(inviterMac);
    expect(isFromAcceptor(request, secret, parties)).toBe(true);
    expect(isFromInviter(answer, secret, parties, acceptorMac)).toBe(true);
  }),

  ...each(
    cases,
    'our code refuses any word changed, left out or added, of another role, request, key or secret',
    ({ request, answer, ...one }) => {
      const [secret, parties] = [bytes(one.secret), partiesOf(one)];
      const swapped = { inviter_pubkey: parties.acceptor_pubkey, acceptor_pubkey: parties.inviter_pubkey };
      for (const bent of changesOf(request)) expect(isFromAcceptor(bent, secret, parties)).toBe(false);
      for (const bent of changesOf(answer)) expect(isFromInviter(bent, secret, parties, request.mac)).toBe(false);
      expect(isFromAcceptor(request, secret, swapped)).toBe(false);
      expect(isFromAcceptor(request, Buffer.alloc(16), parties)).toBe(false);
      expect(isFromInviter(answer, secret, parties, answer.mac)).toBe(false);
      expect(isFromInviter(request, secret, swapped, request.mac)).toBe(false);
      expect(isFromAcceptor({ ...answer, mac: request.mac }, secret, parties)).toBe(false);
      expect(isFromAcceptor({ ...request, mac: 'none' }, secret, parties)).toBe(false);
      // What has no canonical form has no MAC.
      const unwritable = { ...request, note: '\ud800' };
      expect(isFromAcceptor(unwritable, secret, parties)).toBe(false);
    },
  ),
];

export const LAN_PAIRING: VectorChecks = { file: 'lan-pairing.json', checks: [...independent, ...ofOurCode] };
