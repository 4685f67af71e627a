/** The vectors of what paired hosts say to each other on a LAN, checked without the code that made them. */
import { createHmac } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import {
  type Document,
  type HostKeys,
  bytes,
  expectSigned,
  hopLines,
  jcs,
  readVectors,
  sha256Of,
  utf8,
} from '../../support/vector-oracle.ts';

interface LanHopCase {
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

interface Mac {
  document: Document;
  canonical: string;
  mac: string;
}

interface PairingCase {
  name: string;
  inviter: HostKeys;
  acceptor: HostKeys;
  secret: string;
  code_bytes_hex: string;
  code: string;
  acceptor_mac: Mac;
  inviter_mac: Mac;
}

const hopFile = readVectors('lan-hop.json') as { receiver: HostKeys; host: HostKeys; cases: LanHopCase[] };
const pairingFile = readVectors('lan-pairing.json') as { cases: PairingCase[] };

describe('lan-hop.json', () => {
  const { receiver, host, cases } = hopFile;

  it.each(cases)('$name', async (one) => {
    expect(one.signed_message).toBe(hopLines('mail-hop-lan', one, receiver.pubkey));
    expect(one.signed_message_hex).toBe(Buffer.from(one.signed_message, 'utf8').toString('hex'));
    expect(one.body_sha256).toBe(sha256Of(utf8(one.body ?? '')));
    await expectSigned(utf8(one.signed_message), one.signature, host);
    expect(one.headers).toEqual({
      'x-mail-host': host.name,
      'x-mail-key': host.pubkey,
      'x-mail-ts': one.timestamp,
      'x-mail-sig': one.signature,
    });
  });
});

const DIGITS = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';

/** The bytes that a code carries, as hex: digit by digit into one number. */
function decodedCode(code: string): string {
  let value = 0n;
  for (const digit of code.replaceAll('-', '')) value = value * 32n + BigInt(DIGITS.indexOf(digit));
  return value.toString(16).padStart(64, '0');
}

describe('lan-pairing.json', () => {
  it.each(pairingFile.cases)('$name: the code', ({ inviter, secret, code, code_bytes_hex }) => {
    expect(code).toMatch(/^[01][0-9A-HJKMNP-TV-Z]{3}(?:-[0-9A-HJKMNP-TV-Z]{4}){12}$/);
    expect(decodedCode(code)).toBe(code_bytes_hex);
    expect(code_bytes_hex.slice(0, 32)).toBe(sha256Of(bytes(inviter.pubkey)).slice(0, 32));
    expect(code_bytes_hex.slice(32)).toBe(bytes(secret).toString('hex'));
    expect(bytes(secret)).toHaveLength(16);
  });

  it.each(pairingFile.cases)('$name: the two MACs', ({ inviter, acceptor, secret, acceptor_mac, inviter_mac }) => {
    const keys = { inviter_pubkey: inviter.pubkey, acceptor_pubkey: acceptor.pubkey };
    expect(acceptor_mac.document).toEqual({ v: 1, type: 'lan-pair', role: 'acceptor', ...keys });
    expect(inviter_mac.document).toEqual({ v: 1, type: 'lan-pair', role: 'inviter', ...keys });
    for (const { document, canonical, mac } of [acceptor_mac, inviter_mac]) {
      expect(canonical).toBe(jcs(document));
      expect(createHmac('sha256', bytes(secret)).update(canonical).digest('base64')).toBe(mac);
    }
    expect(acceptor_mac.mac).not.toBe(inviter_mac.mac);
  });
});
