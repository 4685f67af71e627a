/** `poste relay evidence`. `check` needs no daemon. */
import { mkdir, readFile, writeFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { displayFingerprint } from '../../../../src/protocol/public-key.ts';
import { runHere } from '../../../support/command-run.ts';
import { findEvidence, forkRow } from '../../../support/evidence-rows.ts';
import { alice, relay } from '../../../support/hosts.ts';
import type { Ended } from '../../../support/poste-process.ts';
import { evidenceOf, SignedLog } from '../../../support/signed-log.ts';
import { contextAtSocket } from '../../../support/socket-context.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';
import { wakeContext } from '../../../support/wake-context.ts';

const FINGERPRINT = displayFingerprint(relay.key);
const main = SignedLog.begin(1).grow('a', 'b', 'c', 'd');
const fork = evidenceOf([main.sign(), main.copy(3).grow('x', 'y').sign()]);

function checkFile(file: string, ...flags: string[]): Promise<Ended> {
  return runHere(['relay', 'evidence', 'check', file, ...flags]);
}

function check(input: string, ...flags: string[]): Promise<Ended> {
  const key = flags.includes('--relay-key') ? [] : ['--relay-key', FINGERPRINT];
  return runHere(['relay', 'evidence', 'check', '-', ...key, ...flags], { stdin: input });
}

const checkOf = (document: unknown, ...flags: string[]): Promise<Ended> => check(JSON.stringify(document), ...flags);

describe('relay evidence check', () => {
  test('ends with 1 where the notes contradict each other, and says how, a sentence a line', async () => {
    const { code, stdout, stderr } = await checkOf(fork);
    expect([code, stderr]).toEqual([1, '']);
    const lines = stdout.trimEnd().split('\n');
    expect(lines[0]).toBe(`The notes that the relay ${FINGERPRINT} signed contradict each other.`);
    expect(lines[1]).toContain('The relay signed two roots for the first 5 leaves of epoch');
    expect(lines[2]).toMatch(/^Note 1: 5 leaves of epoch \w+, root \w{64}\.$/);
    expect(lines).toHaveLength(4);
    expect(await checkOf(fork, '--relay-key', relay.key)).toMatchObject({ code: 1 });
  });

  test('ends with 0 where proofs join them, and with 2 where nothing does', async () => {
    const notes = [main.sign({ size: 3 }), main.sign({ after: [main.sign({ size: 3 })] })];
    const joined = await checkOf(evidenceOf(notes, [main.consistency(3)]));
    expect([joined.code, joined.stderr]).toEqual([0, '']);
    expect(joined.stdout).toContain('agree: the proofs join them into one history.');
    expect(joined.stdout).toMatch(/Note 2: 5 leaves of epoch \w+, root \w{64}, signed after note 1\.\n$/);
    const alone = await checkOf(evidenceOf(notes));
    expect([alone.code, alone.stderr]).toEqual([2, '']);
    expect(alone.stdout).toContain('do not contradict each other, and nothing here joins them.');
  });

  test('--json prints one document, and an error as one', async () => {
    const { code, stdout } = await checkOf(fork, '--json');
    expect([code, stdout.trimEnd().split('\n')]).toEqual([1, [expect.any(String)]]);
    expect(JSON.parse(stdout)).toMatchObject({
      relay_pubkey: relay.key,
      fingerprint: FINGERPRINT,
      kind: 'fork',
      verdict: 'contradict',
      notes: [{ epoch: main.epoch, size: 5, after: [] }, {}],
      findings: [expect.any(String)],
    });
    const refused = await checkOf({}, '--json');
    expect([refused.code, refused.stdout]).toEqual([2, '']);
    expect(JSON.parse(refused.stderr)).toMatchObject({ code: 'NOT_VERIFIED' });
  });

  /** None may end with the exit code of a contradiction, or of agreement. */
  test.each<[what: string, input: string, says: RegExp]>([
    [
      'no JSON',
      'words',
      /^poste: standard input cannot be checked: the document is no JSON, or is nested too deep\.\n$/,
    ],
    ['nothing', '', /is no JSON/],
    ['JSON of a great depth', '['.repeat(200_000), /is no JSON, or is nested too deep/],
    ['JSON of many values', JSON.stringify({ ...fork, more: Array(20_000).fill(0) }), /is no JSON/],
    ['another document', '{}', /cannot be checked: the document has not the members of relay-evidence, version 1/],
    [
      'two mebibytes',
      ' '.repeat(1 << 21),
      /standard input cannot be read \(it has more than 1048576 bytes\): name a file/,
    ],
    ['bytes that are no text', '\u0000', /is no JSON/],
    [
      'a note that would clear the screen',
      JSON.stringify({ ...fork, notes: ['\u001b[2J'] }),
      /note 1 is none that the/,
    ],
    [
      'evidence of another relay',
      JSON.stringify(evidenceOf([SignedLog.begin(1, null, alice).sign()], undefined, alice.key)),
      /is of the relay SHA256:\S+, which is not the one that is trusted/,
    ],
  ])('%s ends with 2 and one sentence', async (_what, input, says) => {
    const { code, stdout, stderr } = await check(input);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toMatch(says);
    expect(stderr).toMatch(/^poste: [^\n]+\.\n$/);
    expect(stderr).not.toContain('\u001b');
  });

  test('a file that is missing ends with 3, a folder, an endless file and a wrong flag with 2', async () => {
    const folder = await temporaryFolder();
    await mkdir(join(folder, 'inner'));
    const key = ['--relay-key', FINGERPRINT];
    await writeFile(join(folder, 'evidence.json'), JSON.stringify(fork));
    expect((await checkFile(join(folder, 'evidence.json'), ...key)).code).toBe(1);
    expect((await checkFile(join(folder, 'none.json'), ...key)).code).toBe(3);
    expect((await checkFile(join(folder, 'inner'), ...key)).code).toBe(2);
    expect((await checkFile('/dev/zero', ...key)).stderr).toContain('it has more than 1048576 bytes');
    expect((await checkFile(join(folder, 'evidence.json'))).code).toBe(2);
    expect((await checkFile(join(folder, 'evidence.json'), '--relay-key', 'SHA256:short')).code).toBe(2);
  });
});

describe('of a daemon', () => {
  const found = forkRow(1);

  async function here(): Promise<(...args: string[]) => Promise<Ended>> {
    const world = await wakeContext([]);
    await findEvidence(world.context, [found]);
    const { home } = await contextAtSocket(world);
    return (...args) => runHere(['relay', 'evidence', ...args], { environment: { POSTE_HOME: home } });
  }

  test('the list is the command without another word, and says what each is', async () => {
    const evidence = await here();
    const { code, stdout } = await evidence();
    expect(code).toBe(0);
    expect(stdout).toMatch(/^NUMBER +KIND +SIGNED +RELAY +FOUND +DISMISSED +WHAT\n +1 +fork +yes +SHA256:/);
    expect(stdout).toContain(`The relay signed two histories of its epoch ${found.epoch}.`);
    expect(await evidence('list')).toMatchObject({ stdout });
    expect(JSON.parse((await evidence('--json')).stdout)).toMatchObject({ evidence: [{ number: 1, kind: 'fork' }] });
  });

  test('show has the facts, and what the check finds in the document', async () => {
    const evidence = await here();
    const { code, stdout } = await evidence('show', '1');
    expect(code).toBe(0);
    expect(stdout).toContain(
      `Number 1: The relay signed two histories of its epoch ${found.epoch}.\n  kind       fork\n`,
    );
    expect(stdout).toContain(`\nThe notes that the relay ${FINGERPRINT} signed contradict each other.\n`);
    expect(JSON.parse((await evidence('show', '1', '--json')).stdout)).toMatchObject({
      document: { type: 'relay-evidence', notes: found.notes.map(({ note }) => note) },
    });
  });

  test('export writes what check takes, to a file that is not there yet or to standard output', async () => {
    const evidence = await here();
    const file = join(await temporaryFolder(), 'evidence.json');
    const written = await evidence('export', '1', file);
    expect([written.code, written.stderr]).toEqual([0, '']);
    const command = /poste relay evidence (check .*)\n$/.exec(written.stdout)?.[1] ?? '';
    expect(await evidence(...command.split(' '))).toMatchObject({ code: 1, stderr: '' });
    const again = await evidence('export', '1', file);
    expect([again.code, again.stdout]).toEqual([4, '']);
    expect(again.stderr).toMatch(
      /evidence\.json cannot be written \(a file is in its place\): name another file, or add/,
    );
    const { ino } = await stat(file);
    expect((await evidence('export', '1', file, '--force')).code).toBe(0);
    // A new file in the place of the old one: a full disk leaves no part of it.
    expect((await stat(file)).ino).not.toBe(ino);
    expect((await evidence('export', '1', '/dev/full', '--force')).stderr).toContain('/dev/full cannot be written');
    const { stdout } = await evidence('export', '1', '-');
    expect(stdout).toBe(await readFile(file, 'utf8'));
    expect((await evidence('export', '1', join(file, 'below'))).code).toBe(3);
  });

  test('of two exports into one file at once, one writes it and the other is refused', async () => {
    const evidence = await here();
    const file = join(await temporaryFolder(), 'evidence.json');
    const ended = await Promise.all([evidence('export', '1', file), evidence('export', '1', file)]);
    expect(new Set(ended.map(({ code }) => code))).toEqual(new Set([0, 4]));
    expect(await readFile(file, 'utf8')).toContain('"relay-evidence"');
  });

  test('dismiss says what it dismissed, and the list keeps it', async () => {
    const evidence = await here();
    const { code, stdout } = await evidence('dismiss', '1');
    expect([code, stdout]).toEqual([
      0,
      `Dismissed number 1: The relay signed two histories of its epoch ${found.epoch}.\n`,
    ]);
    const list = JSON.parse((await evidence('--json')).stdout) as { evidence: { dismissed_at: string | null }[] };
    expect(list.evidence.map(({ dismissed_at }) => dismissed_at)).toEqual([expect.any(String)]);
  });

  test.each(['show', 'export', 'dismiss'])('a number that is not in the list ends %s with 3', async (name) => {
    const evidence = await here();
    const { code, stderr } = await evidence(name, '2', ...(name === 'export' ? ['-'] : []));
    expect([code, stderr]).toEqual([3, 'poste: There is no evidence 2: see poste relay evidence.\n']);
    expect((await evidence(name, 'one', '-')).code).toBe(2);
  });
});
