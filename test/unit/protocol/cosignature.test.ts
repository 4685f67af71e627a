import { createPublicKey, hash, verify } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { noteText, plainNote, signCheckpoint } from '../../../src/protocol/checkpoint.ts';
import {
  addCheckpointBody,
  cosignatureLine,
  openCosignature,
  parseAddCheckpoint,
  parseSize,
  parseWitnessKey,
  witnessKeyText,
} from '../../../src/protocol/cosignature.ts';
import { epochNumbered } from '../../support/epochs.ts';
import { alice, bob, relay } from '../../support/hosts.ts';

const NAME = 'witness.example/w1';
const TIME = 1_679_315_147;
const note = signCheckpoint({ epoch: epochNumbered(7), size: 300, rootHash: Buffer.alloc(32, 0xab) }, relay.signer);
const key = { name: NAME, publicKey: alice.key };
const line = cosignatureLine(note, NAME, alice.signer, TIME);
const cosigned = `${note}${line}\n`;

/** c2sp.org/tlog-cosignature by its text, with nothing of ours. */
function verifiedByHand(whole: string, name: string, rawKey: Buffer): number | undefined {
  const end = whole.lastIndexOf('\n\n') + 1;
  const id = hash('sha256', Buffer.concat([Buffer.from(`${name}\n\x04`), rawKey]), 'buffer').subarray(0, 4);
  for (const one of whole.slice(end + 1, -1).split('\n')) {
    const [dash, by, base64 = ''] = one.split(' ');
    const blob = Buffer.from(base64, 'base64');
    if (dash !== '\u2014' || by !== name || !blob.subarray(0, 4).equals(id)) continue;
    const time = blob.readBigUInt64BE(4);
    const der = Buffer.concat([Buffer.from('302a300506032b6570032100', 'hex'), rawKey]);
    const signed = Buffer.from(`cosignature/v1\ntime ${time}\n${whole.slice(0, end)}`);
    const isRight = verify(null, signed, createPublicKey({ key: der, format: 'der', type: 'spki' }), blob.subarray(12));
    return isRight ? Number(time) : undefined;
  }
  return undefined;
}

describe('a cosignature v1', () => {
  test('is what the document of C2SP says, read by a verifier that shares nothing with it', () => {
    expect(verifiedByHand(cosigned, NAME, Buffer.from(alice.key, 'base64'))).toBe(TIME);
    expect(verifiedByHand(cosigned, NAME, Buffer.from(bob.key, 'base64'))).toBeUndefined();
  });

  test('is read with its time, among others and those of other kinds', () => {
    const other = cosignatureLine(note, 'witness.example/w2', bob.signer, TIME + 1);
    const mlDsa = `\u2014 ${NAME} ${Buffer.alloc(4 + 8 + 2420, 6).toString('base64')}`;
    expect(openCosignature(`${note}${mlDsa}\n${other}\n${line}\n`, key)).toEqual({ line, timeS: TIME });
    expect(openCosignature(note, key)).toBeUndefined();
  });

  test('leaves the plain note as it was', () => {
    expect(plainNote(cosigned, relay.key)?.note).toBe(note);
  });

  test.each([
    ['another text', cosigned.replace('\n300\n', '\n301\n')],
    ['the signature of another under its name', `${note}${cosignatureLine(note, NAME, bob.signer, TIME)}\n`, bob.key],
    ['another time', `${note}${line.replace('AABkGFDL', 'AABkGFDM')}\n`],
    ['a right and a wrong one', `${cosigned}${line.replace('AABkGFDL', 'AABkGFDM')}\n`],
  ])('is none over %s', (_what, wrong, publicKey = alice.key) => {
    expect(wrong).not.toBe(cosigned);
    const asked = publicKey === bob.key ? key : { name: NAME, publicKey };
    expect(openCosignature(wrong, asked)).toBeUndefined();
  });

  test('of the document is framed as ours: a key id, a time and a signature', () => {
    const example =
      'jWbPPwAAAABkGFDLEZMHwSRaJNiIDoe9DYn/zXcrtPHeolMI5OWXEhZCB9dlrDJsX3b2oyin1nPZqhf5nNo0xUe+mbIUBkBIfZ+qnA==';
    const [theirs, ours] = [example, line.split(' ')[2] ?? ''].map((text) => Buffer.from(text, 'base64'));
    expect(theirs?.length).toBe(ours?.length);
    expect(theirs?.subarray(4, 12)).toEqual(ours?.subarray(4, 12));
  });
});

describe('the verifier key of a witness', () => {
  test('of a public witness is read, and written again', () => {
    const vkey = 'remora.n621.de+da77ade7+BOvN63jn/bLvkieywe8R6UYAtVtNbZpXh34x7onlmtw2';
    const read = parseWitnessKey(vkey);
    expect(read?.name).toBe('remora.n621.de');
    expect(read && witnessKeyText(read)).toBe(vkey);
  });

  test.each([
    ['of a log (0x01)', 'example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k'],
    ['with another key id', witnessKeyText(key).replace(/\+[0-9a-f]{8}\+/, '+00000000+')],
    ['with a name that has a space', witnessKeyText({ ...key, name: 'a b' })],
    ['of too few bytes', `${NAME}+00000000+BAAA`],
    ['that is nothing', ''],
  ])('is none %s', (_what, vkey) => {
    expect(parseWitnessKey(vkey)).toBeUndefined();
  });
});

describe('the body of add-checkpoint', () => {
  const proof = [Buffer.alloc(32, 1), Buffer.alloc(32, 2)];

  test('has the old size, the proof a hash a line, an empty line and the note', () => {
    const body = addCheckpointBody({ old: 12, proof, note });
    const hashes = proof.map((one) => one.toString('base64'));
    expect(body).toBe(`old 12\n${hashes.join('\n')}\n\n${noteText(note)}\n${note.split('\n\n')[1]}`);
    expect(parseAddCheckpoint(body)).toEqual({ old: 12, proof, note });
    expect(parseAddCheckpoint(addCheckpointBody({ old: 0, proof: [], note }))).toEqual({ old: 0, proof: [], note });
  });

  test.each([
    ['no empty line', `old 1\n${note.split('\n\n')[0]}`],
    ['no old size', `\n\n${note}`],
    ['a size with a zero before it', `old 01\n\n${note}`],
    ['a size beyond counting', `old 9007199254740993\n\n${note}`],
    ['a short hash', `old 1\nAAAA\n\n${note}`],
    ['64 hashes', addCheckpointBody({ old: 1, proof: Array.from({ length: 64 }, () => Buffer.alloc(32)), note })],
  ])('is none with %s', (_what, body) => {
    expect(parseAddCheckpoint(body)).toBeUndefined();
  });

  test('sizes are decimals without a zero before them', () => {
    expect(['0', '7', '9007199254740991', '-1', '1e3', ' 1', ''].map(parseSize)).toEqual([
      0,
      7,
      Number.MAX_SAFE_INTEGER,
      undefined,
      undefined,
      undefined,
      undefined,
    ]);
  });
});
