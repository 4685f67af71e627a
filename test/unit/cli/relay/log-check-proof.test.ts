/** `poste relay log check-proof` against files that a relay answered. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { alice, bob } from '../../../support/hosts.ts';
import { itemTo } from '../../../support/mail.ts';
import type { ReceiptAlone } from '../../../support/receipt-oracle.ts';
import { relayHere, runHere } from '../../../support/command-run.ts';
import type { Ended, StartDocument } from '../../../support/poste-process.ts';
import { clientOf } from '../../../support/relay-command.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';

const STACK = /\n\s+at |node:internal/;

interface Files {
  start: StartDocument;
  folder: string;
  /** Paths. */
  proof: string;
  accept: string;
  /** The same of an item whose receipt was signed together with two others. */
  proofTogether: string;
  together: ReceiptAlone;
  consistency: string;
  old: string;
  new: string;
  proofDocument: Record<string, unknown>;
}

const sizeOf = (note: string): string => note.split('\n')[1] ?? '';

/** The answers of a relay, in files; the relay has ended since. */
async function answeredFiles(): Promise<Files> {
  const folder = await temporaryFolder();
  const { process, start } = await relayHere(join(folder, 'store'));
  const [from, to] = [clientOf({ start }, alice), clientOf({ start }, bob)];
  await from.enrol();
  await to.enrol();
  const checkpoint = async (): Promise<string> => (await fetch(`${start.url}/v2/relay/log/checkpoint`)).text();
  const old = await checkpoint();
  const { results } = await from.push([itemTo([bob], 'm1')]);
  const target = `/v2/relay/log/proof?item_id=m1&target=${encodeURIComponent(bob.key)}`;
  const proofDocument = await from.request('GET', target);
  const pushedTogether = await from.push(['m2', 'm3', 'm4'].map((id) => itemTo([bob], id)));
  const proofTogether = await from.request('GET', target.replace('m1', 'm3'));
  const newer = await checkpoint();
  const sizes = `from=${sizeOf(old)}&to=${sizeOf(newer)}`;
  const consistency = await (await fetch(`${start.url}/v2/relay/log/consistency?${sizes}`)).text();
  process.signal('SIGTERM');
  await process.ended();
  const written = async (name: string, content: string): Promise<string> => {
    const path = join(folder, name);
    await writeFile(path, content);
    return path;
  };
  return {
    start,
    folder,
    proofDocument,
    proof: await written('proof.json', JSON.stringify(proofDocument)),
    accept: await written('accept.json', JSON.stringify(results[0])),
    proofTogether: await written('proof-together.json', JSON.stringify(proofTogether)),
    together: pushedTogether.results[1] as ReceiptAlone,
    consistency: await written('consistency.json', consistency),
    old: await written('old.txt', old),
    new: await written('new.txt', newer),
  };
}

const check = (...args: string[]): Promise<Ended> => runHere(['relay', 'log', 'check-proof', ...args]);

/** The same of what comes on standard input. */
function checkInput(input: string): Promise<Ended> {
  return runHere(['relay', 'log', 'check-proof', '-'], { stdin: input });
}

describe('relay log check-proof', () => {
  test('verifies an item and its accept receipt with the relay gone, one sentence each', async () => {
    const { proof, accept, start } = await answeredFiles();
    for (const key of [start.relay_pubkey, start.fingerprint]) {
      const { code, stdout, stderr } = await check(proof, '--relay-key', key, '--accept', accept);
      expect([code, stderr]).toEqual([0, '']);
      const sentences = stdout.trimEnd().split('\n');
      expect(sentences).toHaveLength(4);
      expect(sentences.every((sentence) => sentence.endsWith('.'))).toBe(true);
      expect(sentences[2]).toContain(`m1 of ${alice.key} was accepted`);
      expect(sentences[3]).toContain('is in the log');
    }
  });

  test('verifies a receipt that was signed together with others, as a result, as kept, and as traced', async () => {
    const { proofTogether, together, start, folder } = await answeredFiles();
    const { accept, proof, tree, tree_sig } = together;
    const file = join(folder, 'together.json');
    const checked = async (document: object): Promise<Ended> => {
      await writeFile(file, JSON.stringify(document));
      return check(proofTogether, '--relay-key', start.fingerprint, '--accept', file);
    };
    const kept = { item_id: 'm3', accept, proof, tree, tree_sig };
    const traced = { relay_pubkey: start.relay_pubkey, seq: 1, fault: null, accept, proof, tree, tree_sig };
    for (const document of [together, kept, traced]) {
      const { code, stdout, stderr } = await checked(document);
      expect([code, stderr]).toEqual([0, '']);
      expect(stdout.trimEnd().split('\n')[3]).toBe(
        'The accept receipt, signed by the relay with 2 others in one statement, is in the log: ' +
          'every target with its seq and its wire bytes.',
      );
    }
    // Of the receipt alone it is not said who signed it.
    expect((await checked(accept)).stdout).toContain('The accept receipt is in the log');
    const bad: [object, RegExp][] = [
      [{ ...kept, tree: undefined }, /was signed with others: add tree and tree_sig of the answer to the result/],
      [{ ...kept, tree_sig: undefined }, /is not signed by the relay/],
      [{ ...kept, proof: { ...proof, index: 0 } }, /is not signed by the relay/],
      [{ ...kept, tree: { ...tree, size: 4 } }, /is not signed by the relay/],
      [{ ...kept, accept: { ...accept, at: 1 } }, /is not signed by the relay/],
    ];
    for (const [document, said] of bad) {
      const { code, stdout, stderr } = await checked(document);
      expect([code, stdout]).toEqual([1, '']);
      expect(stderr).toMatch(said);
    }
  });

  test('without a key says which fingerprint is to be compared', async () => {
    const { proof, start } = await answeredFiles();
    const { code, stderr } = await check(proof);
    expect(code).toBe(0);
    expect(stderr).toBe(`poste: compare ${start.fingerprint} with the relay that you trust, or give --relay-key.\n`);
  });

  test('--json prints one document, and an error as one too', async () => {
    const { proof, accept, start, proofDocument, folder } = await answeredFiles();
    const { code, stdout, stderr } = await check(proof, '--accept', accept, '--relay-key', start.fingerprint, '--json');
    expect([code, stderr]).toEqual([0, '']);
    const document = JSON.parse(stdout) as { verified: { check: string }[] };
    expect(document).toMatchObject({ relay_pubkey: start.relay_pubkey, fingerprint: start.fingerprint, pinned: true });
    expect(document.verified.map((one) => one.check)).toEqual(['checkpoint', 'inclusion', 'item', 'accept']);
    const wrong = join(folder, 'wrong.json');
    await writeFile(wrong, JSON.stringify({ ...proofDocument, index: 1 }));
    const refused = await check(wrong, '--json');
    expect([refused.code, refused.stdout]).toEqual([1, '']);
    expect(JSON.parse(refused.stderr)).toMatchObject({ code: 'NOT_VERIFIED' });
  });

  test('verifies that one checkpoint continues another', async () => {
    const { consistency, start, ...files } = await answeredFiles();
    const key = ['--relay-key', start.fingerprint];
    const good = await check(consistency, ...key, '--old', files.old, '--new', files.new);
    expect([good.code, good.stderr]).toEqual([0, '']);
    expect(good.stdout.split('\n')[2]).toContain('begin with the');
    const swapped = await check(consistency, ...key, '--old', files.new, '--new', files.old);
    expect([swapped.code, swapped.stdout]).toEqual([1, '']);
  });

  test('ends with 1 and the first thing that fails when a file was tampered with', async () => {
    const { accept, start, folder, proofDocument, proof } = await answeredFiles();
    const { checkpoint, record_b64: record } = proofDocument as { checkpoint: string; record_b64: string };
    const bytes = Buffer.from(record, 'base64');
    bytes[30]! ^= 1;
    const tampered: [Record<string, unknown>, RegExp][] = [
      [{ record_b64: bytes.toString('base64') }, /not in the tree/],
      [{ checkpoint: checkpoint.replace('poste/', 'posts/') }, /none that the relay key signed/],
      [{ index: 2 }, /not in the tree/],
      [{ proof: [] }, /not in the tree/],
      [{ relay_pubkey: alice.key }, /not the one that is trusted/],
    ];
    const file = join(folder, 'tampered.json');
    for (const [members, said] of tampered) {
      await writeFile(file, JSON.stringify({ ...proofDocument, ...members }));
      const { code, stdout, stderr } = await check(file, '--relay-key', start.fingerprint, '--accept', accept);
      expect([code, stdout]).toEqual([1, '']);
      expect(stderr).toMatch(/^poste: [^\n]+\.\n$/);
      expect(stderr).toMatch(said);
      expect(stderr).not.toMatch(STACK);
    }
    const receipt = join(folder, 'receipt.json');
    const result = { accept: { v: 1, type: 'relay-accept' }, sig: '' };
    await writeFile(receipt, JSON.stringify(result));
    expect(await check(proof, '--accept', receipt)).toMatchObject({ code: 1, stdout: '' });
  });

  test('reads standard input', async () => {
    const { proofDocument } = await answeredFiles();
    expect(await checkInput(JSON.stringify(proofDocument))).toMatchObject({ code: 0 });
    const refused = await checkInput('no JSON');
    expect([refused.code, refused.stderr]).toEqual([
      1,
      'poste: standard input holds no JSON: give the document as the relay served it.\n',
    ]);
  });

  test('a file that is missing ends with 3, a key that is none with 2', async () => {
    const folder = await temporaryFolder();
    const missing = await check(join(folder, 'missing.json'));
    expect([missing.code, missing.stdout]).toEqual([3, '']);
    expect(missing.stderr).toMatch(
      /missing\.json cannot be read \(it is not there\): name a file that you can read\.\n$/,
    );
    expect((await check(folder)).code).toBe(1);
    expect((await check('-', '--relay-key', 'SHA256:short')).code).toBe(2);
    expect((await check()).code).toBe(2);
  });
});
