import { describe, expect, test } from 'vitest';
import { openCheckpoint, signCheckpoint } from '../../../src/protocol/checkpoint.ts';
import { hostFingerprint } from '../../../src/protocol/public-key.ts';
import { signNote } from '../../../src/protocol/signed-note.ts';
import { epochNumbered } from '../../support/epochs.ts';
import { alice, relay } from '../../support/hosts.ts';

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

  test('is read back by whoever has the key of the relay, and by nobody else', () => {
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
