/** `poste restore --dry-run`: what a restore would replace, bring back and lose, without one. */
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { mkdir, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { EXIT } from '../../../../src/cli/lib/exit.ts';
import { softwareVersion } from '../../../../src/lib/package-root.ts';
import { posteHome, PosteHome } from '../../../support/poste-home.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';

const LAN = { POSTE_LAN_LISTEN: '127.0.0.1:0' };

afterEach(() => {
  vi.unstubAllEnvs();
});

/** Every file below a folder, with its bytes as a hash. */
function contentOf(folder: string): Record<string, string> {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  const paths = files.map(({ parentPath, name }) => join(parentPath, name));
  return Object.fromEntries(paths.map((path) => [path, createHash('sha256').update(readFileSync(path)).digest('hex')]));
}

/** A host with a backup of one message, and two messages and an agent since. */
async function hostWithBackup(): Promise<{ home: PosteHome; file: string; stop: () => Promise<void> }> {
  const home = await posteHome('here', LAN);
  const daemon = await home.daemon();
  const file = join(home.folder, '..', 'poste.backup');
  await home.json('agent', 'add', 'ann');
  const send = (to: string): Promise<unknown> =>
    home.json('send', '--as', 'ann', '--to', to, '--subject', 's', '--body', 'b');
  await send('owner');
  await home.json('backup', file);
  await home.json('agent', 'add', 'late');
  for (const to of ['late', 'owner']) await send(to);
  return { home, file, stop: () => daemon.stop() };
}

const PLAN = {
  dry_run: true,
  messages: 1,
  agents: 1,
  peers: 0,
  waiting: 0,
  replaced: { readable: true, same_host: true, messages_since: 2, outgoing_since: 0, agents_since: ['late'] },
  receipt_floor: null,
  kept_aside: null,
};

describe('a dry run', () => {
  test('says what the backup holds and what would be lost, and changes nothing', { timeout: 60_000 }, async () => {
    const { home, file, stop } = await hostWithBackup();
    const scratch = await temporaryFolder();
    vi.stubEnv('TMPDIR', scratch);
    // Also while the daemon runs, which a restore itself refuses.
    expect(await home.json('restore', file, '--dry-run')).toMatchObject({ ...PLAN, daemon_runs: true });
    expect((await home.run('restore', file, '--dry-run')).stdout).toContain('stop it before you restore');
    expect(await home.run('restore', file, '--yes')).toMatchObject({ code: EXIT.conflict });
    await stop();

    const before = contentOf(home.folder);
    const shown = await home.json<{ backup: { created_at: string } }>('restore', file, '--dry-run');
    expect(shown).toMatchObject({
      ...PLAN,
      daemon_runs: false,
      backup: { host: 'here', version: softwareVersion(), created_at: expect.stringMatching(/Z$/) as string },
    });
    const { code, stdout, stderr } = await home.run('restore', file, '--dry-run');
    expect({ code, stderr }).toEqual({ code: EXIT.ok, stderr: '' });
    expect(stdout.split('\n')).toEqual([
      `A restore would bring back the backup of ${shown.backup.created_at}`,
      expect.stringMatching(/^ {2}of host here, SHA256:\S{43}$/),
      `  written by Poste ${softwareVersion()}, schema 1`,
      '  holds 1 message, 1 agent, 0 paired hosts',
      '  keys and pairings are kept from the present store',
      '  2 messages of the present store are not in the backup',
      '  not in the backup: the agent late',
      'Nothing was changed.',
      '',
    ]);
    expect(contentOf(home.folder)).toEqual(before);
    expect(readdirSync(scratch)).toEqual([]);

    // The restore does what was said.
    expect(await home.json('restore', file, '--yes')).toMatchObject({
      ...PLAN,
      dry_run: false,
      receipt_floor: expect.any(Number) as number,
      kept_aside: expect.stringContaining('store.replaced-') as string,
    });
  });

  test('sees the store that an interrupted restore left, and leaves it there', { timeout: 60_000 }, async () => {
    const { home, file, stop } = await hostWithBackup();
    await stop();
    await rename(join(home.folder, 'store'), join(home.folder, 'store.restored'));
    const before = contentOf(home.folder);
    expect(await home.json('restore', file, '--dry-run')).toMatchObject(PLAN);
    expect(contentOf(home.folder)).toEqual(before);
  });

  test('of a new machine says that there is no store, and makes no folder', { timeout: 60_000 }, async () => {
    const { file, stop } = await hostWithBackup();
    await stop();
    const empty = new PosteHome(join(await temporaryFolder(), 'none'));
    const { code, stdout } = await empty.run('restore', file, '--dry-run');
    expect(code).toBe(EXIT.ok);
    expect(stdout).toContain('  there is no former store, so keys and pairings are those of the backup\n');
    expect(() => readdirSync(empty.folder)).toThrow('ENOENT');
  });

  test('refuses what a restore refuses, unless --force is given', { timeout: 60_000 }, async () => {
    const { file, stop } = await hostWithBackup();
    await stop();
    const other = await posteHome('other');
    expect(await other.run('restore', file, '--dry-run')).toMatchObject({
      code: EXIT.conflict,
      stderr: expect.stringContaining('that of another host') as string,
    });
    expect((await other.run('restore', file, '--dry-run', '--force')).stdout).toContain(
      'the present store belongs to another host: nothing is kept from it',
    );
    const broken = join(await temporaryFolder(), 'poste');
    await mkdir(join(broken, 'store'), { recursive: true });
    await writeFile(join(broken, 'store', 'CURRENT'), 'nonsense');
    const damaged = new PosteHome(broken);
    expect((await damaged.run('restore', file, '--dry-run')).code).toBe(EXIT.failure);
    expect((await damaged.run('restore', file, '--dry-run', '--force')).stdout).toContain('cannot be read');
    await writeFile(`${file}.cut`, readFileSync(file).subarray(0, 200));
    expect((await other.run('restore', `${file}.cut`, '--dry-run')).code).toBe(EXIT.failure);
    expect((await other.run('restore', `${file}.none`, '--dry-run')).code).toBe(EXIT.notFound);
    for (const flag of ['--dry-run', '--yes'])
      expect(await other.run('restore', broken, flag, '--force')).toMatchObject({
        code: EXIT.notFound,
        stderr: `poste: ${broken} cannot be read (it is a folder): name a backup file.\n`,
      });
    expect((await other.run('restore', file, '--dry-run', '--yes')).code).toBe(EXIT.usage);
  });
});
