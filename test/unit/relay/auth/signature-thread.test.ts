/** The thread of signatures: those that it makes and verifies, and who does so where there is no thread. */
import { readFile } from 'node:fs/promises';
import { describe, expect, onTestFinished, test } from 'vitest';
import { receiptStatement } from '../../../../src/protocol/documents.ts';
import { type Signer, signerFromSeed, verifySignature } from '../../../../src/protocol/ed25519.ts';
import { publicKeyFromBytes } from '../../../../src/protocol/public-key.ts';
import { eventually } from '../../../support/eventually.ts';
import { alice, bob } from '../../../support/hosts.ts';
import { SignatureThread } from '../../../../src/relay/auth/signature-thread.ts';
import { fileOfThread } from '../../../support/thread-file.ts';

/** The file of the bundle: a thread does not run TypeScript. */
const BUNDLED = new URL('../../../../dist/program/signature-worker.js', import.meta.url);
const SIGNER = signerFromSeed(Buffer.alloc(32, 7));

/** Counts what the thread pool signs. */
class CountedSigner implements Signer {
  inPool = 0;
  readonly publicKey = SIGNER.publicKey;
  readonly privateKey = SIGNER.privateKey;

  sign(message: Uint8Array): string {
    return SIGNER.sign(message);
  }

  signInPool(message: Uint8Array): Promise<string> {
    this.inPool++;
    return SIGNER.signInPool(message);
  }
}

function threadOf(signer: Signer, file: URL | undefined): SignatureThread {
  const thread = new SignatureThread(signer, file);
  onTestFinished(() => thread.close());
  return thread;
}

/** A thread that has begun to sign. */
async function running(signer: CountedSigner, file: URL = BUNDLED): Promise<SignatureThread> {
  const thread = threadOf(signer, file);
  for (let before = -1; before !== signer.inPool; ) {
    before = signer.inPool;
    await Promise.race([thread.sign(['a first text']), new Promise((resolve) => setImmediate(resolve))]);
  }
  return thread;
}

function listOf(count: number, name: string): string[] {
  return Array.from({ length: count }, (_, at) => `{"${name}":${at},"é":"\u{1f4ee}"}`);
}

function signed(texts: readonly string[]): string[] {
  return texts.map((text) => SIGNER.sign(Buffer.from(text)));
}

function signedTogether(receipts: readonly string[]) {
  const { text, paths } = receiptStatement(SIGNER.publicKey, receipts);
  return { text, signature: SIGNER.sign(Buffer.from(text)), paths: paths.toString('latin1') };
}

/** Claims of two hosts, every third of which is false in one of three ways; and whether each is right. */
async function verifiedBy(thread: SignatureThread): Promise<boolean[]> {
  const message = Buffer.from('what was signed: \u00e9\n\u{1f4ee}');
  const good = alice.signer.sign(message);
  return Promise.all([
    thread.verify(alice.key, message, good),
    thread.verify(bob.key, message, good),
    thread.verify(bob.key, message, bob.signer.sign(message)),
    thread.verify(alice.key, Buffer.concat([message, Buffer.of(0xff)]), good),
    thread.verify(alice.key, message, `${good.slice(0, -4)}AAA=`),
    thread.verify(alice.key, message, 'no signature'),
    thread.verify(alice.key, Buffer.of(0xff, 0xfe), alice.signer.sign(Buffer.of(0xff, 0xfe))),
  ]);
}

const VERDICTS = [true, false, true, false, false, false, true];

describe('the signature thread', () => {
  test('signs as the signer does, each text in its place, verifies beside, leaves the thread pool alone', async () => {
    const signer = new CountedSigner();
    const thread = await running(signer);
    const { inPool } = signer;
    const lists = [listOf(200, 'a'), listOf(0, 'b'), listOf(1, 'c'), listOf(3, 'd'), listOf(40, 'e')];
    const together = [listOf(200, 'f'), listOf(2, 'g'), listOf(7, 'h')];
    const [signatures, trees, verdicts] = await Promise.all([
      Promise.all(lists.map((texts) => thread.sign(texts))),
      Promise.all(together.map((receipts) => thread.signTree(receipts))),
      verifiedBy(thread),
    ]);
    expect(signatures).toEqual(lists.map(signed));
    expect(trees).toEqual(together.map(signedTogether));
    expect(verdicts).toEqual(VERDICTS);
    expect(signer.inPool).toBe(inPool);
  });

  test('is not needed: without a file for it the thread pool signs, and the caller verifies', async () => {
    const signer = new CountedSigner();
    const thread = threadOf(signer, undefined);
    expect(await thread.sign(listOf(5, 'a'))).toEqual(signed(listOf(5, 'a')));
    expect(signer.inPool).toBe(5);
    expect(await thread.signTree(listOf(5, 'a'))).toEqual(signedTogether(listOf(5, 'a')));
    expect(await verifiedBy(thread)).toEqual(VERDICTS);
  });

  test.each([
    ['cannot be loaded', 'import "./nothing-here.mjs";'],
    ['fails at once', 'throw new Error("no");'],
    [
      'ends when it is asked',
      'import { parentPort } from "node:worker_threads"; parentPort.on("message", () => process.exit(1));',
    ],
  ])('a thread that %s costs no signature and no verdict', async (_, source) => {
    const signer = new CountedSigner();
    const thread = threadOf(signer, await fileOfThread(source));
    const lists = Array.from({ length: 30 }, (_, at) => listOf(2, `list ${at}`));
    for (const texts of lists) {
      const asked = verifiedBy(thread);
      const together = thread.signTree(texts);
      expect(await thread.sign(texts)).toEqual(signed(texts));
      expect(await together).toEqual(signedTogether(texts));
      expect(await asked).toEqual(VERDICTS);
    }
  });

  test('what it is asked in one turn of the event loop goes to it as one message', async () => {
    // It says that a claim is right when all seven come together with the text.
    const source = `import { parentPort } from "node:worker_threads";
      parentPort.on("message", ({ texts, claims }) => {
        const isWhole = claims.length === 21 && texts === "a text\\n";
        parentPort.postMessage({ signatures: "".padEnd(88), valid: [1, 2, 3, 4, 5, 6, 7].map(() => isWhole) });
      });`;
    const thread = threadOf(new CountedSigner(), await fileOfThread(source));
    const together = async () => (await Promise.all([verifiedBy(thread), thread.sign(['a text'])]))[0];
    expect(await eventually(together, (verdicts) => verdicts.every(Boolean))).toEqual(VERDICTS.map(() => true));
  });

  test('a request is verified before the receipts that waited in front of it are signed', async () => {
    const thread = await running(new CountedSigner());
    const order: string[] = [];
    const texts = listOf(2_000, 'a');
    const asked = thread.sign(texts).then((signatures) => {
      order.push('signed');
      return signatures;
    });
    // The thread has its first messages, and the rest waits.
    await new Promise((resolve) => setImmediate(resolve));
    expect(await verifiedBy(thread)).toEqual(VERDICTS);
    order.push('verified');
    expect(await asked).toEqual(signed(texts));
    expect(order).toEqual(['verified', 'signed']);
  });

  test('receipts are signed however many requests are to be verified', async () => {
    const thread = await running(new CountedSigner());
    let verified = 0;
    const claims = Array.from({ length: 400 }, () =>
      thread.verify(alice.key, Buffer.of(1), 'no signature').finally(() => verified++),
    );
    const texts = listOf(20, 'a');
    expect(await thread.sign(texts)).toEqual(signed(texts));
    expect(verified).toBeLessThan(claims.length);
    expect(await Promise.all(claims)).toEqual(claims.map(() => false));
  });

  test('a receipt is signed however many requests are to be verified and trees to be signed', async () => {
    const thread = await running(new CountedSigner());
    const claims = Array.from({ length: 400 }, () => thread.verify(alice.key, Buffer.of(1), 'no signature'));
    let made = 0;
    const trees = Array.from({ length: 20 }, () => thread.signTree(listOf(200, 'a')).finally(() => made++));
    expect(await thread.sign(['one text'])).toEqual(signed(['one text']));
    expect(made).toBeLessThan(trees.length);
    expect(await Promise.all(trees)).toEqual(trees.map(() => signedTogether(listOf(200, 'a'))));
    expect(await Promise.all(claims)).toEqual(claims.map(() => false));
  });

  test('what it was asked when it was closed is done all the same, and what comes afterwards too', async () => {
    const signer = new CountedSigner();
    const thread = await running(signer);
    const lists = Array.from({ length: 8 }, (_, at) => listOf(100, `list ${at}`));
    const asked = lists.map((texts) => thread.sign(texts));
    const together = lists.map((receipts) => thread.signTree(receipts));
    const claimed = verifiedBy(thread);
    await thread.close();
    expect(await Promise.all(asked)).toEqual(lists.map(signed));
    expect(await Promise.all(together)).toEqual(lists.map(signedTogether));
    expect(await claimed).toEqual(VERDICTS);
    expect(await verifiedBy(thread)).toEqual(VERDICTS);
    expect(await thread.sign(['afterwards'])).toEqual(signed(['afterwards']));
  });
});

test('gives the verdict of the verifier on every signature of other projects', async () => {
  const thread = await running(new CountedSigner());
  const folder = new URL('../../../vectors/third-party/', import.meta.url);
  for (const name of ['ed25519-wycheproof.json', 'ed25519-speccheck.json']) {
    const { cases } = JSON.parse(await readFile(new URL(name, folder), 'utf8')) as {
      cases: { pk: string; msg: string; sig: string }[];
    };
    const verdicts = cases.map(async ({ pk, msg, sig }) => {
      const key = publicKeyFromBytes(Buffer.from(pk, 'hex'));
      const [message, signature] = [Buffer.from(msg, 'hex'), Buffer.from(sig, 'hex').toString('base64')];
      return [await thread.verify(key, message, signature), verifySignature(key, message, signature)];
    });
    for (const [byThread, byVerifier] of await Promise.all(verdicts)) expect(byThread).toBe(byVerifier);
    expect(cases.length).toBeGreaterThan(10);
  }
});
