import { describe, expect, test } from 'vitest';
import {
  type Checkpoint,
  PLAIN_NOTE_CHARACTERS_MAX,
  noteText,
  openCheckpoint,
  openNote,
  plainNote,
  signCheckpoint,
  signNote,
} from '../../../src/protocol/checkpoint.ts';
import { hostFingerprint, publicKeyFromBytes } from '../../../src/protocol/public-key.ts';
import { epochNumbered } from '../../support/epochs.ts';
import { alice, bob, relay } from '../../support/hosts.ts';

const checkpoint = { epoch: epochNumbered(7), size: 300, rootHash: Buffer.alloc(32, 0xab) };
const note = signCheckpoint(checkpoint, relay.signer);
const origin = `poste/${hostFingerprint(relay.key)}/${checkpoint.epoch}`;
const root = checkpoint.rootHash.toString('base64');

describe('a checkpoint', () => {
  test('has origin, size and root, and is signed under its origin', () => {
    const [text, signature = ''] = note.split('\n\n');
    expect(text).toBe(`${origin}\n300\n${root}`);
    expect(signature.startsWith(`\u2014 ${origin} `)).toBe(true);
  });

  test('is read with the key of the relay, and with no other key', () => {
    expect(openCheckpoint(note, relay.key)).toEqual(checkpoint);
    expect(openCheckpoint(note, alice.key)).toBeUndefined();
  });

  const signedAs = (text: string, name = origin): string => signNote(text, name, relay.signer);

  test('may have extension lines that are not empty', () => {
    const extended = signedAs(`${origin}\n300\n${root}\nmore\n`);
    expect(openCheckpoint(extended, relay.key)).toEqual(checkpoint);
  });

  test.each([
    ['the origin of another relay', signedAs(`${origin.replace('poste', 'pos')}\n300\n${root}\n`)],
    ['a name that is not its origin', signedAs(`${origin}\n300\n${root}\n`, `${origin}0`)],
    ['no epoch', signedAs(`${origin.slice(0, 71)}\n300\n${root}\n`, origin.slice(0, 71))],
    [
      'an epoch of more than 64 characters',
      signCheckpoint({ ...checkpoint, epoch: 'e'.repeat(65) as never }, relay.signer),
    ],
    ['an epoch that no key can hold', signCheckpoint({ ...checkpoint, epoch: '\u202e' as never }, relay.signer)],
    ['something before the origin', signedAs(`x${origin}\n300\n${root}\n`, `x${origin}`)],
    ['no root', signedAs(`${origin}\n300\n`)],
    ['a short root', signedAs(`${origin}\n300\n${root.slice(0, 40)}\n`)],
    ['a size with a zero before it', signedAs(`${origin}\n0300\n${root}\n`)],
    ['a size that is no number', signedAs(`${origin}\n3e2\n${root}\n`)],
    ['a size beyond counting', signedAs(`${origin}\n9007199254740993\n${root}\n`)],
    ['a negative size', signedAs(`${origin}\n-1\n${root}\n`)],
    ['an empty extension', signedAs(`${origin}\n300\n${root}\n\nmore\n`)],
  ])('is none with %s', (_what, wrong) => {
    expect(openCheckpoint(wrong, relay.key)).toBeUndefined();
  });
});

describe('a checkpoint with after', () => {
  const asked = { ...checkpoint, after: Buffer.alloc(32, 0xcd) };
  const line = `after ${asked.after.toString('base64')}`;

  test('has it as its fourth line', () => {
    const signed = signCheckpoint(asked, relay.signer);
    expect(noteText(signed)).toBe(`${origin}\n300\n${root}\n${line}\n`);
    expect(openCheckpoint(signed, relay.key)).toEqual(asked);
  });

  test.each([
    ['a line that is not the fourth', `more\n${line}`],
    ['31 bytes', `after ${Buffer.alloc(31).toString('base64')}`],
    ['base64 that is not canonical', line.replace(/=$/, '')],
    ['base64url', `after ${Buffer.alloc(32, 0xff).toString('base64url')}`],
    ['another word', line.replace('after', 'behind')],
    ['two spaces', line.replace(' ', '  ')],
  ])('has none in %s', (_what, lines) => {
    const signed = signNote(`${origin}\n300\n${root}\n${lines}\n`, origin, relay.signer);
    expect(openCheckpoint(signed, relay.key)).toEqual(checkpoint);
  });
});

describe('a plain note', () => {
  const asked: Checkpoint = { ...checkpoint, after: Buffer.alloc(32, 0xcd) };
  const cosignatures = signNote('other\n', 'example.com/witness', bob.signer).split('\n\n')[1]!;
  const text = `${origin}\n300\n${root}\n`;

  test.each([
    ['three lines', checkpoint],
    ['four lines', asked],
  ])('has %s and one signature: cosignatures are cut off', (_what, one) => {
    const signed = signCheckpoint(one, relay.signer);
    const [above, own] = signed.split('\n\n');
    for (const cosigned of [signed, `${signed}${cosignatures}`, `${above}\n\n${cosignatures}${own}${own}`])
      expect(plainNote(cosigned, relay.key)).toEqual({ note: signed, checkpoint: one });
  });

  test('of the largest size has exactly as many characters as one may have', () => {
    const largest = signCheckpoint({ ...asked, size: Number.MAX_SAFE_INTEGER }, relay.signer);
    expect(largest).toHaveLength(PLAIN_NOTE_CHARACTERS_MAX);
    expect(plainNote(largest, relay.key)?.note).toBe(largest);
  });

  test.each([
    ['an unknown fourth line', signNote(`${text}more\n`, origin, relay.signer)],
    ['a fifth line', signNote(`${text}after ${root}\nmore\n`, origin, relay.signer)],
    ['two lines after', signNote(`${text}after ${root}\nafter ${root}\n`, origin, relay.signer)],
    ['an epoch of more characters', signCheckpoint({ ...asked, epoch: 'X'.repeat(64) as never }, relay.signer)],
    ['the signature of another alone', signNote(text, origin, alice.signer)],
    ['no signature', text],
  ])('is none with %s', (_what, note) => {
    expect(plainNote(note, relay.key)).toBeUndefined();
  });
});

const TEXT = 'one line\nand another\n';
const NAME = 'example.com/log';

const signed = signNote(TEXT, NAME, alice.signer);
const [, line = ''] = signed.split('\n\n');

describe("the example of Go's note package, whose format this is", () => {
  const text = "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n";
  const note =
    `${text}\n\u2014 PeterNeumann ` +
    'x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n';
  const [type, ...key] = Buffer.from('ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW', 'base64');

  test('verifies', () => {
    expect(type).toBe(1);
    expect(openNote(note, 'PeterNeumann', publicKeyFromBytes(Buffer.from(key)))).toBe(text);
  });
});

describe('a note', () => {
  test('gives its text to a reader who has the key and the name', () => {
    expect(signed.startsWith(`${TEXT}\n\u2014 ${NAME} `)).toBe(true);
    expect(openNote(signed, NAME, alice.key)).toBe(TEXT);
  });

  test('may hold empty lines: the last one ends the text', () => {
    const text = 'one\n\nanother\n\n\nthird\n';
    expect(openNote(signNote(text, NAME, alice.signer), NAME, alice.key)).toBe(text);
  });

  test.each([
    ['another key', NAME, bob],
    ['another name', 'example.com/other', alice],
  ])('is none of %s', (_what, name, { key }) => {
    expect(openNote(signed, name, key)).toBeUndefined();
  });

  test('may have signatures of others, before and after, of unknown kinds too', () => {
    const [, others = ''] = signNote(TEXT, 'example.com/witness', bob.signer).split('\n\n');
    const unknown = `\u2014 example.com/witness ${Buffer.alloc(3000, 7).toString('base64')}\n`;
    const cosigned = `${TEXT}\n${others}${unknown}${line}${others.repeat(16)}`;
    expect(openNote(cosigned, NAME, alice.key)).toBe(TEXT);
    expect(openNote(`${TEXT}\n${others}${unknown}`, NAME, alice.key)).toBeUndefined();
  });

  test('is invalid with a signature of the same key that does not verify', () => {
    const [, wrong = ''] = signNote('another text\n', NAME, alice.signer).split('\n\n');
    expect(openNote(`${TEXT}\n${wrong}`, NAME, alice.key)).toBeUndefined();
    expect(openNote(`${TEXT}\n${line}${wrong}`, NAME, alice.key)).toBeUndefined();
  });

  test('is none when any of its bits is flipped', () => {
    const bytes = Buffer.from(signed);
    for (let at = 0; at < 8 * bytes.length; at++) {
      const copy = Buffer.from(bytes);
      copy[at >> 3]! ^= 1 << (at & 7);
      expect([at, openNote(copy.toString('utf8'), NAME, alice.key)]).toEqual([at, undefined]);
    }
  });

  test.each([
    ['nothing', ''],
    ['no signature', `${TEXT}\n`],
    ['no empty line', `${TEXT}${line}`],
    ['no newline at the end', signed.slice(0, -1)],
    ['something behind the signature', `${signed}more\n`],
    ['an empty line behind the signature', `${signed}\n`],
    ['another dash', signed.replace('\u2014', '-')],
    ['two spaces', signed.replace(`${NAME} `, `${NAME}  `)],
    ['base64 that is not canonical', signed.replace(/=\n$/, '\n')],
    ['a signature that is too short', `${TEXT}\n\u2014 ${NAME} AAAAAA==\n`],
    ['carriage returns', signed.replaceAll('\n', '\r\n')],
    ['a control character', signNote('one\tline\n', NAME, alice.signer)],
    ['half a character', signNote('one\ud800line\n', NAME, alice.signer)],
    ['a text that is too long', signNote(`${'x'.repeat(20_000)}\n`, NAME, alice.signer)],
  ])('is none with %s', (_what, note) => {
    expect(openNote(note, NAME, alice.key)).toBeUndefined();
  });
});
