import { hash } from 'node:crypto';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { canonicalBytes } from '../../../src/protocol/documents.ts';
import { signerFromSeed } from '../../../src/protocol/ed25519.ts';
import type { ItemId } from '../../../src/protocol/names.ts';
import { inspectEnvelope, isPlainlySealed, isSignedReceipt } from '../../../src/protocol/items.ts';
import { sealedEnvelope } from '../../../bench/work.ts';
import { anyText } from '../../support/any-text.ts';

const ID = 'm1' as ItemId;
const SEALED = { alg: 'HPKE', enc: 'QQ==', ct: 'Qg==' };
const ENVELOPE = { id: 'm1', sealed: SEALED, subject: 'Hello' };

function bytesOf(value: unknown): Buffer {
  return Buffer.from(JSON.stringify(value));
}

/** `object` without one member. */
function without(object: object, name: string): object {
  return Object.fromEntries(Object.entries(object).filter(([member]) => member !== name));
}

describe('envelope wire bytes', () => {
  it('a sealed envelope with its id is sealed, in whatever order, spacing and company', () => {
    expect(inspectEnvelope(bytesOf(ENVELOPE), ID)).toBe('sealed');
    const spaced = Buffer.from(JSON.stringify({ x: [1, { body: 'no member of the envelope' }], ...ENVELOPE }, null, 2));
    expect(inspectEnvelope(spaced, ID)).toBe('sealed');
    expect(inspectEnvelope(bytesOf({ ...ENVELOPE, sealed: { ...SEALED, key_id: '0' } }), ID)).toBe('sealed');
  });

  it.each([
    ['no bytes', Buffer.alloc(0)],
    ['no JSON', Buffer.from('{"id":"m1"')],
    ['no UTF-8', Buffer.concat([Buffer.from('{"id":"m1","x":"'), Buffer.of(0xff), Buffer.from('"}')])],
    ['a byte order mark', Buffer.concat([Buffer.from('\ufeff'), bytesOf(ENVELOPE)])],
    ['a list', bytesOf([ENVELOPE])],
    ['a text', bytesOf('sealed')],
    ['null', bytesOf(null)],
    ['a plaintext body beside the sealed one', bytesOf({ ...ENVELOPE, body: 'plain' })],
    ['a body that is null', bytesOf({ ...ENVELOPE, body: null })],
    ['an empty body', bytesOf({ ...ENVELOPE, body: '' })],
    [
      'a body under an escaped name',
      Buffer.from(String.raw`{"id":"m1","b\u006fdy":"plain","sealed":${JSON.stringify(SEALED)}}`),
    ],
    ['a body and nothing sealed', bytesOf({ id: 'm1', body: 'plain' })],
    ['nothing sealed', bytesOf({ id: 'm1' })],
    ['sealed null', bytesOf({ ...ENVELOPE, sealed: null })],
    ['sealed true', bytesOf({ ...ENVELOPE, sealed: true })],
    ['sealed text', bytesOf({ ...ENVELOPE, sealed: 'sealed' })],
    ['a sealed list', bytesOf({ ...ENVELOPE, sealed: [SEALED] })],
    ['an empty sealed object', bytesOf({ ...ENVELOPE, sealed: {} })],
    ['a sealed object lent by __proto__', Buffer.from(`{"id":"m1","__proto__":{"sealed":${JSON.stringify(SEALED)}}}`)],
    ['members lent by __proto__', Buffer.from(`{"id":"m1","sealed":{"__proto__":${JSON.stringify(SEALED)}}}`)],
    [
      'nesting past the bound',
      Buffer.from(JSON.stringify(ENVELOPE).replace('"Hello"', '['.repeat(32) + ']'.repeat(32))),
    ],
    ['more values than the bound', bytesOf({ ...ENVELOPE, x: Array.from({ length: 10_000 }, () => 0) })],
  ])('not sealed: %s', (_why, wire) => {
    expect(inspectEnvelope(wire, ID)).toBe('not sealed');
  });

  it.each(['alg', 'enc', 'ct'])('not sealed: %s missing, empty, or no text', (name) => {
    expect(inspectEnvelope(bytesOf({ ...ENVELOPE, sealed: without(SEALED, name) }), ID)).toBe('not sealed');
    for (const value of ['', null, 1, true, ['QQ=='], { a: 1 }]) {
      const sealed = { ...SEALED, [name]: value };
      expect(inspectEnvelope(bytesOf({ ...ENVELOPE, sealed }), ID)).toBe('not sealed');
    }
  });

  it.each([
    ['no id', without(ENVELOPE, 'id')],
    ['another id', { ...ENVELOPE, id: 'm2' }],
    ['an id in other letters', { ...ENVELOPE, id: 'M1' }],
    ['an id with a space', { ...ENVELOPE, id: 'm1 ' }],
    ['an id that is a list', { ...ENVELOPE, id: ['m1'] }],
    ['an id that is null', { ...ENVELOPE, id: null }],
  ])('id mismatch: %s', (_why, envelope) => {
    expect(inspectEnvelope(bytesOf(envelope), ID)).toBe('id mismatch');
  });

  it('id mismatch: an id lent by __proto__', () => {
    const wire = Buffer.from(`{"__proto__":{"id":"m1"},"sealed":${JSON.stringify(SEALED)}}`);
    expect(inspectEnvelope(wire, ID)).toBe('id mismatch');
  });

  it('the last of two members counts, as for every reader that parses', () => {
    const sealed = `"sealed":${JSON.stringify(SEALED)}`;
    expect(inspectEnvelope(Buffer.from(`{"id":"m2","id":"m1",${sealed}}`), ID)).toBe('sealed');
    expect(inspectEnvelope(Buffer.from(`{"id":"m1","id":"m2",${sealed}}`), ID)).toBe('id mismatch');
    expect(inspectEnvelope(Buffer.from(`{"id":"m1","body":1,"body":2,${sealed}}`), ID)).toBe('not sealed');
    expect(inspectEnvelope(Buffer.from(`{"id":"m1",${sealed},"sealed":{"x":"y"}}`), ID)).toBe('not sealed');
    expect(inspectEnvelope(Buffer.from(`{"id":"m1","sealed":{"x":"y"},${sealed}}`), ID)).toBe('sealed');
  });

  it('property: no bytes throw, and none without a sealed object are sealed', () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.uint8Array(),
          fc.json().map((text) => Buffer.from(text)),
        ),
        (bytes) => {
          expect(inspectEnvelope(Buffer.from(bytes), ID)).toBe('not sealed');
        },
      ),
      { numRuns: 300 },
    );
  });
});

function own(value: unknown, name: string): unknown {
  const isThere = typeof value === 'object' && value !== null && Object.hasOwn(value, name);
  return isThere ? (value as Record<string, unknown>)[name] : undefined;
}

/** `inspectEnvelope` by parsing alone, for bytes within the bounds. */
function parsedVerdict(wire: Buffer): string {
  let envelope: Record<string, unknown>;
  try {
    envelope = JSON.parse(new TextDecoder('utf8', { fatal: true, ignoreBOM: true }).decode(wire)) as typeof envelope;
  } catch {
    return 'not sealed';
  }
  const isFilled = (name: string) => {
    const text = own(own(envelope, 'sealed'), name);
    return typeof text === 'string' && text !== '';
  };
  if (own(envelope, 'body') !== undefined || !['alg', 'enc', 'ct'].every(isFilled)) return 'not sealed';
  return own(envelope, 'id') === ID ? 'sealed' : 'id mismatch';
}

describe('the form of an envelope is read from its bytes', () => {
  const texts = fc.oneof(
    fc.string(),
    anyText(),
    fc.constantFrom('m1', '', 'a"b', 'a\\', '\n\t', '\0', 'Grüße 🎉', 'x'.repeat(47), 'x'.repeat(48), 'x'.repeat(600)),
    fc.base64String({ maxLength: 300 }),
  );
  const values = fc.oneof(
    { weight: 6, arbitrary: texts },
    { weight: 3, arbitrary: fc.nat() },
    { weight: 3, arbitrary: fc.array(texts, { maxLength: 3 }) },
    { weight: 1, arbitrary: fc.jsonValue({ maxDepth: 2 }) },
  );
  const names = fc.oneof(
    fc.constantFrom('id', 'sealed', 'body', 'alg', 'enc', 'ct', '__proto__', 'to', 'v', 'sub'),
    texts,
  );
  const member = fc.tuple(names, values).map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`);
  /** Mostly the members that are named, in any order, among others. */
  const objectOf = (named: fc.Arbitrary<string[]>) =>
    fc
      .tuple(named, fc.oneof(fc.constant([]), fc.array(member, { maxLength: 4 })))
      .chain(([own, others]) => fc.shuffledSubarray([...own, ...others], { minLength: own.length + others.length }))
      .map((members) => `{${members.join(',')}}`);
  const sealedObject = objectOf(
    fc
      .tuple(texts, texts, texts)
      .map(([alg, enc, ct]) => [
        `"alg":${JSON.stringify(`H${alg}`)}`,
        `"enc":${JSON.stringify(`Q${enc}`)}`,
        `"ct":${JSON.stringify(ct)}`,
      ]),
  );
  const envelopes = objectOf(sealedObject.map((sealed) => ['"id":"m1"', `"sealed":${sealed}`]));
  const bytes = fc.oneof(
    fc.nat({ max: 255 }),
    fc.constantFrom(...Buffer.from(String.raw`{}[]":,\ u09-.e`), 0x1f, 0x0a, 0x7f, 0x80, 0xc3, 0xff),
  );
  /** One edit: bytes taken out from an offset on, and others put there. */
  const edits = fc.array(fc.tuple(fc.nat(), fc.nat({ max: 3 }), fc.array(bytes, { maxLength: 3 })), { maxLength: 2 });

  const cuts = fc.oneof({ weight: 9, arbitrary: fc.constant(null) }, { weight: 1, arbitrary: fc.nat() });

  it('property: as by parsing, in any order, doubled, escaped, in Unicode, altered or cut off', () => {
    const verdicts = new Map<string, number>();
    fc.assert(
      fc.property(envelopes, edits, cuts, (text, changes, cut) => {
        let wire = Buffer.from(text);
        for (const [place, gone, added] of changes) {
          const at = place % (wire.length + 1);
          wire = Buffer.concat([wire.subarray(0, at), Buffer.from(added), wire.subarray(at + gone)]);
        }
        if (cut !== null) wire = wire.subarray(0, cut % (wire.length + 1));
        const verdict = parsedVerdict(wire);
        expect(inspectEnvelope(wire, ID)).toBe(verdict);
        const isPlain = isPlainlySealed(wire, ID);
        expect(isPlain && verdict !== 'sealed').toBe(false);
        const seen = `${verdict}, ${isPlain ? 'read' : 'parsed'}`;
        verdicts.set(seen, (verdicts.get(seen) ?? 0) + 1);
      }),
      { numRuns: 3_000 },
    );
    const often = [...verdicts].filter(([, times]) => times >= 100).map(([seen]) => seen);
    expect(often.toSorted()).toEqual(['not sealed, parsed', 'sealed, parsed', 'sealed, read']);
  });

  it('an escaped quote does not end a text, wherever it stands', () => {
    const rest = `"sealed":${JSON.stringify(SEALED)}}`;
    for (let length = 0; length < 100; length++) {
      const text = 'x'.repeat(length);
      expect(inspectEnvelope(Buffer.from(`{"id":"m1","x":"${text}\\",${rest}`), ID)).toBe('not sealed');
      expect(inspectEnvelope(Buffer.from(`{"id":"m1","x":"${text}\\"",${rest}`), ID)).toBe('sealed');
    }
  });

  it('every byte of an envelope in every value, and every length of it, as by parsing', () => {
    const wire = Buffer.from(
      '{"id":"m1","sealed":{"alg":"\\"","ct":"' + 'x'.repeat(60) + '","enc":"e"},"to":["a","b"],"v":10}',
    );
    expect(isPlainlySealed(wire, ID)).toBe(true);
    for (let at = 0; at < wire.length; at++) {
      expect(inspectEnvelope(wire.subarray(0, at), ID)).toBe('not sealed');
      const was = wire[at]!;
      for (let byte = 0; byte < 256; byte++) {
        wire[at] = byte;
        if (inspectEnvelope(wire, ID) !== parsedVerdict(wire)) throw new Error(`byte ${byte} at ${at}`);
      }
      wire[at] = was;
    }
  });

  it('envelopes of hosts and of benchmarks are read, those with many members or agents are parsed', async () => {
    const { sealEnvelope, generateSealKey } = await import('../../../src/host/wire/sealing.ts');
    const head = { v: 1, type: 'envelope', id: 'm1', from: 'a@h', from_host_pubkey: SIGNER.publicKey } as const;
    const content = {
      kind: 'note',
      needs_reply: false,
      origin: null,
      refs: [],
      reply_to: null,
      thread: 'm1',
      body: 'hi',
    };
    const { enc_pub: encPub } = await generateSealKey();
    const sealed = (subject: string, to: string[]) =>
      sealEnvelope({ ...head, subject, to, to_host: 't', created_at: 1_763_675_303_000 }, content, encPub, SIGNER);
    expect(isPlainlySealed(canonicalBytes(await sealed('Grüße: "42"\n', ['b@t', 'c@t'])), ID)).toBe(true);
    expect(isPlainlySealed(sealedEnvelope('m1', 1024), ID)).toBe(true);
    const many = canonicalBytes(
      await sealed(
        '',
        Array.from({ length: 65 }, (_, at) => `a${at}@t`),
      ),
    );
    const wide = bytesOf({ ...ENVELOPE, ...Object.fromEntries(Array.from({ length: 64 }, (_, at) => [`x${at}`, at])) });
    for (const wire of [many, wide]) {
      expect(isPlainlySealed(wire, ID)).toBe(false);
      expect(inspectEnvelope(wire, ID)).toBe('sealed');
    }
  });
});

const SIGNER = signerFromSeed(hash('sha256', 'recipient host', 'buffer'));
const RETIRED = signerFromSeed(hash('sha256', 'recipient host, before', 'buffer'));
const STRANGER = signerFromSeed(hash('sha256', 'stranger', 'buffer'));
const SIGNERS = [SIGNER.publicKey, RETIRED.publicKey];
const RECEIPT_ID = 'receipt:m1:agent@host:3' as ItemId;
const REC = {
  v: 1,
  type: 'receipt',
  msg: 'm1',
  recipient: 'agent@host',
  seq: 3,
  state: 'delivered',
  at: 1_763_675_303_000,
  host_pubkey: SIGNER.publicKey as string,
};

/** The wire bytes of `rec`, properly signed by `signer`. */
function signedReceipt(rec: unknown, signer = SIGNER): Buffer {
  return canonicalBytes({ rec, sig: signer.sign(canonicalBytes(rec)) });
}

describe('receipt wire bytes', () => {
  it('a delivery receipt signed by the pushing host is one', () => {
    expect(isSignedReceipt(signedReceipt(REC), RECEIPT_ID, SIGNERS)).toBe(true);
  });

  it.each(['delivered', 'notified', 'read', 'acked'])('in the state %s', (state) => {
    expect(isSignedReceipt(signedReceipt({ ...REC, state }), RECEIPT_ID, SIGNERS)).toBe(true);
  });

  it('also signed by a key that was rotated into that of the pushing host', () => {
    const rec = { ...REC, host_pubkey: RETIRED.publicKey };
    expect(isSignedReceipt(signedReceipt(rec, RETIRED), RECEIPT_ID, SIGNERS)).toBe(true);
    expect(isSignedReceipt(signedReceipt(rec, RETIRED), RECEIPT_ID, [SIGNER.publicKey])).toBe(false);
  });

  it('members it does not know are kept, and covered by the signature', () => {
    expect(
      isSignedReceipt(signedReceipt({ ...REC, wire_hash: 'ff', toJSON: { b: 1, a: 2 } }), RECEIPT_ID, SIGNERS),
    ).toBe(true);
  });

  it('refuses what is not exactly RFC 8785', () => {
    const receipt = { rec: REC, sig: SIGNER.sign(canonicalBytes(REC)) };
    const wire = canonicalBytes(receipt).toString('utf8');
    expect(isSignedReceipt(Buffer.from(wire), RECEIPT_ID, SIGNERS)).toBe(true);
    const others = [
      JSON.stringify(receipt),
      JSON.stringify({ sig: receipt.sig, rec: JSON.parse(canonicalBytes(REC).toString('utf8')) as unknown }),
      ` ${wire}`,
      `${wire}\n`,
      wire.replace('"seq":3', '"seq":3.0'),
      wire.replace('"seq":3', '"seq": 3'),
      wire.replace('"seq":3', '"seq":3,"seq":3'),
      wire.replace('"agent@host"', '"agent\\u0040host"'),
      wire.replace('"type":"receipt"', '"type":"receip\\u0074"'),
      `\ufeff${wire}`,
      wire.slice(0, -1),
      '',
    ];
    for (const other of others) {
      expect(other).not.toBe(wire);
      expect(isSignedReceipt(Buffer.from(other), RECEIPT_ID, SIGNERS)).toBe(false);
    }
  });

  it('refuses members out of order in an object with a member called toJSON', () => {
    const rec = { ...REC, x: { a: 1, b: 2, toJSON: null } };
    const wire = signedReceipt(rec).toString('utf8');
    const disordered = wire.replace('{"a":1,"b":2,"toJSON":null}', '{"toJSON":null,"b":2,"a":1}');
    expect(disordered).not.toBe(wire);
    expect(isSignedReceipt(Buffer.from(wire), RECEIPT_ID, SIGNERS)).toBe(true);
    expect(isSignedReceipt(Buffer.from(disordered), RECEIPT_ID, SIGNERS)).toBe(false);
  });

  it.each([
    ['another type', { ...REC, type: 'relay-accept' }],
    ['no type', without(REC, 'type')],
    ['an unknown state', { ...REC, state: 'lost' }],
    ['a state in other letters', { ...REC, state: 'Delivered' }],
    ['a state that every list has', { ...REC, state: 'length' }],
    ['a state that is a number', { ...REC, state: 0 }],
    ['no state', without(REC, 'state')],
    ['another message', { ...REC, msg: 'm2' }],
    ['a message that is a number', { ...REC, msg: 1 }],
    ['no message', without(REC, 'msg')],
    ['another recipient', { ...REC, recipient: 'agent@other' }],
    ['a recipient in a list', { ...REC, recipient: ['agent@host'] }],
    ['no recipient', without(REC, 'recipient')],
    ['another sequence number', { ...REC, seq: 4 }],
    ['a sequence number as a text', { ...REC, seq: '3' }],
    ['no sequence number', without(REC, 'seq')],
    ['colons that move the borders', { ...REC, msg: 'm1:agent@host', recipient: '3' }],
    ['the key of another host', { ...REC, host_pubkey: STRANGER.publicKey as string }],
    ['a key that is none', { ...REC, host_pubkey: 'key' }],
    ['no key', without(REC, 'host_pubkey')],
    ['a record that is a list', [REC]],
    ['a record that is null', null],
    ['a record that is a text', 'receipt'],
  ])('refuses, although signed by the pushing host: %s', (_why, rec) => {
    expect(isSignedReceipt(signedReceipt(rec), RECEIPT_ID, SIGNERS)).toBe(false);
  });

  it('refuses an id that is not its own', () => {
    for (const id of ['receipt:m1:agent@host:4', 'receipt:m2:agent@host:3', 'm1']) {
      expect(isSignedReceipt(signedReceipt(REC), id as ItemId, SIGNERS)).toBe(false);
    }
  });

  it('refuses the signature of another key, a retired one of the same host included', () => {
    expect(isSignedReceipt(signedReceipt(REC, STRANGER), RECEIPT_ID, SIGNERS)).toBe(false);
    expect(isSignedReceipt(signedReceipt(REC, RETIRED), RECEIPT_ID, SIGNERS)).toBe(false);
    const ofStranger = { ...REC, host_pubkey: STRANGER.publicKey };
    expect(isSignedReceipt(signedReceipt(ofStranger, STRANGER), RECEIPT_ID, SIGNERS)).toBe(false);
    expect(isSignedReceipt(signedReceipt(REC), RECEIPT_ID, [])).toBe(false);
  });

  it.each([
    ['missing', { rec: REC }],
    ['null', { rec: REC, sig: null }],
    ['empty', { rec: REC, sig: '' }],
    ['in hexadecimal', { rec: REC, sig: 'ab'.repeat(64) }],
    ['of zeros', { rec: REC, sig: Buffer.alloc(64).toString('base64') }],
    ['over the whole receipt', { rec: REC, sig: SIGNER.sign(canonicalBytes({ rec: REC })) }],
    ['over another record', { rec: REC, sig: SIGNER.sign(canonicalBytes({ ...REC, state: 'read' })) }],
    ['under another name', { rec: REC, signature: SIGNER.sign(canonicalBytes(REC)) }],
    ['with a third member beside it', { rec: REC, sig: SIGNER.sign(canonicalBytes(REC)), x: 1 }],
  ])('refuses a signature %s', (_why, receipt) => {
    expect(isSignedReceipt(canonicalBytes(receipt), RECEIPT_ID, SIGNERS)).toBe(false);
  });

  it.each([
    ['a list', '[]'],
    ['null', 'null'],
    ['an empty object', '{}'],
    ['no UTF-8', Buffer.of(0x7b, 0xff, 0x7d)],
    ['a number JCS cannot carry', '{"rec":{"type":"receipt","x":1e400},"sig":""}'],
    ['a lone surrogate', String.raw`{"rec":{"type":"receipt","x":"\ud800"},"sig":""}`],
  ])('refuses %s', (_why, wire) => {
    expect(isSignedReceipt(Buffer.from(wire), RECEIPT_ID, SIGNERS)).toBe(false);
  });

  it('malformed, and never a throw: values JCS cannot carry in an otherwise good receipt', () => {
    const wire = signedReceipt({ ...REC, x: 1 }).toString('utf8');
    for (const carried of ['1e400', String.raw`"\ud800"`, '['.repeat(30) + ']'.repeat(30), String.raw`{"\udfff":1}`]) {
      const changed = wire.replace('"x":1', `"x":${carried}`);
      expect(changed).not.toBe(wire);
      expect(isSignedReceipt(Buffer.from(changed), RECEIPT_ID, SIGNERS)).toBe(false);
    }
  });

  it('property: one changed byte anywhere, and it is a signed receipt no more', () => {
    const wire = signedReceipt(REC);
    fc.assert(
      fc.property(fc.nat({ max: wire.length - 1 }), fc.integer({ min: 1, max: 255 }), (at, change) => {
        const changed = Buffer.from(wire);
        changed[at] = (changed[at] ?? 0) ^ change;
        expect(isSignedReceipt(changed, RECEIPT_ID, SIGNERS)).toBe(false);
      }),
      { numRuns: 500 },
    );
  });
});
