/** Bytes that are no UTF-8, wherever a user gives them: they are refused with a sentence, and nothing is written. */
import { readFileSync, readdirSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { EXIT } from '../../../src/cli/lib/exit.ts';
import { freshToken } from '../../../src/host/relay/enrolment-token.ts';
import { readRelayKey } from '../../../src/relay/store/relay-key.ts';
import { NotUtf8, utf8Text } from '../../../src/lib/user-text.ts';
import { anyText } from '../../support/any-text.ts';
import { runHere } from '../../support/command-run.ts';
import { alice } from '../../support/hosts.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

const SOURCES = join(import.meta.dirname, '../../../src');
const LATIN1 = Buffer.from('# a\n"J\xfcrgen"\n', 'latin1');
const SAID = 'line 2 is no UTF-8';

test('text comes back as its bytes were, and bytes that are none are refused', () => {
  fc.assert(
    fc.property(anyText(), (text) => {
      const bytes = Buffer.from(text);
      expect(Buffer.from(utf8Text(bytes))).toEqual(bytes);
    }),
  );
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 1 }), (array) => {
      const bytes = Buffer.from(array);
      fc.pre(!bytes.equals(Buffer.from(bytes.toString())));
      expect(() => utf8Text(bytes)).toThrow(NotUtf8);
    }),
  );
  expect(utf8Text(Buffer.from('\uFEFFa\uFFFD'))).toBe('\uFEFFa\uFFFD');
});

/**
 * What reads as UTF-8 whatever there is: what Poste, the system or another program of the machine wrote for programs.
 */
const OWN_FILES = new Set([
  'cli/host/daemon-service.ts',
  'cli/lib/service-manager.ts',
  'cli/lib/daemon-call.ts',
  'cli/lib/daemon-start.ts',
  'cli/lib/setup-record.ts',
  'cli/mail/run-as-hook.ts',
  'cli/mail/run-as-mcp.ts',
  'cli/mail/run-record.ts',
  'cli/main.ts',
  'cli/relay/doctor.ts',
  'cli/relay/cluster.ts',
  'host/base/project-agents.ts',
  'host/wake/processes.ts',
  'http/browser-session/assets.ts',
  'lib/http-request.ts',
  'lib/package-root.ts',
  'relay/shared-log/open-view.ts',
  'relay/shared-log/witness.ts',
  'relay/store/cutover.ts',
  'relay/store/position.ts',
  'relay/store/unopened.ts',
]);

test('no other file is read as UTF-8 without a look at its bytes', () => {
  const all = readdirSync(SOURCES, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts'));
  const found = all.filter((name) =>
    /readFile(?:Sync)?\([^\n]*'utf-?8'|stream\/consumers/.test(readFileSync(join(SOURCES, name), 'utf8')),
  );
  expect(found.filter((name) => !OWN_FILES.has(name))).toEqual(['lib/user-text.ts']);
});

interface Place {
  folder: string;
  /** A file in Latin-1. */
  file: string;
}

async function place(): Promise<Place> {
  const folder = await temporaryFolder();
  const file = join(folder, 'latin1');
  await writeFile(file, LATIN1);
  return { folder, file };
}

const MESSAGE = ['send', '--as', 'a', '--to', 'b', '--subject', 's', '--body-file'];
const LOG = ['--log', 'postgres://127.0.0.1:1/x'];

describe('a command that is given bytes that are no UTF-8', () => {
  test.each<[what: string, args: (file: string) => string[], from: 'file' | 'stdin']>([
    ['a body', (file) => [...MESSAGE, file], 'file'],
    ['a body on stdin', () => [...MESSAGE, '-'], 'stdin'],
    ['a body on stdin, by --body -', () => [...MESSAGE.slice(0, -1), '--body', '-'], 'stdin'],
    ['a pairing code', () => ['peer', 'accept', '127.0.0.1:1'], 'stdin'],
    ['a proof', (file) => ['relay', 'log', 'check-proof', file], 'file'],
    ['a proof on stdin', () => ['relay', 'log', 'check-proof', '-'], 'stdin'],
    ['a password', (file) => ['relay', 'cluster', 'init', ...LOG, '--log-password-file', file], 'file'],
    ['an authority', (file) => ['relay', 'set', 'https://relay.example', '--ca', file], 'file'],
    ['the config of a relay', (file) => ['relay', 'serve', '--config', file], 'file'],
  ])('%s', async (_what, args, from) => {
    const { folder, file } = await place();
    const world = { environment: { POSTE_HOME: folder }, ...(from === 'stdin' && { stdin: LATIN1 }) };
    const { code, stderr } = await runHere(args(file), world);
    expect(stderr).toContain(`${from === 'stdin' ? 'standard input' : file} cannot be read (${SAID})`);
    expect(code).toBe(EXIT.usage);
  });

  test('the config of a host, before there is one', async () => {
    const { folder } = await place();
    await writeFile(join(folder, 'config.toml'), LATIN1);
    const { code, stderr } = await runHere(['init', '--host', 'here'], { environment: { POSTE_HOME: folder } });
    expect(stderr).toContain(`config.toml cannot be read (${SAID})`);
    expect(code).toBe(EXIT.usage);
    expect(readdirSync(folder).toSorted()).toEqual(['config.toml', 'latin1']);
  });

  test.each(['claude-code', 'codex', 'gemini'])('settings of %s, which stay as they are', async (program) => {
    const { folder } = await place();
    const of = { 'claude-code': '.claude/settings.json', codex: '.codex/hooks.json', gemini: '.gemini/settings.json' };
    const file = join(folder, of[program as keyof typeof of]);
    await mkdir(join(file, '..'));
    await writeFile(file, Buffer.from('{\n"name": "J\xfcrgen"}\n', 'latin1'));
    const before = await readFile(file);
    const environment = { HOME: folder, POSTE_HOME: folder };
    const { code, stderr } = await runHere(['hooks', 'install', program, '--agent', 'a'], { environment });
    expect(stderr).toContain(`${file} cannot be read (${SAID})`);
    expect(code).toBe(EXIT.failure);
    expect(await readFile(file)).toEqual(before);
  });
});

test('a token and a key that are no UTF-8 are refused', async () => {
  const { folder, file } = await place();
  const { signal } = new AbortController();
  await expect(freshToken({ type: 'file', path: file }, alice.signer, signal)).rejects.toThrow(SAID);
  const command = `cat '${file}'`;
  await expect(freshToken({ type: 'command', command }, alice.signer, signal)).rejects.toThrow(SAID);
  await writeFile(join(folder, 'relay.key'), LATIN1, { mode: 0o600 });
  await expect(readRelayKey(folder)).rejects.toThrow(SAID);
});
