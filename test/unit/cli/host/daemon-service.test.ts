/** `poste daemon install` and `uninstall`, with a program in the place of systemctl that notes what it was told. */
import { existsSync } from 'node:fs';
import { chmod, mkdir, readFile, readdir, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { runHere } from '../../../support/command-run.ts';
import type { Ended, Environment } from '../../../support/poste-process.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';

interface Change {
  unit: string;
  changed: boolean;
  dry_run: boolean;
  backup: string | null;
  commands: string[];
  notices: string[];
  text?: string;
}

class User {
  readonly folder: string;
  readonly units: string;
  readonly unit: string;
  readonly host: string;

  constructor(folder: string) {
    this.folder = folder;
    this.units = join(folder, 'config', 'systemd', 'user');
    this.unit = join(this.units, 'poste.service');
    this.host = join(folder, 'a host');
  }

  run(...args: string[]): Promise<Ended> {
    const environment = {
      POSTE_HOME: this.host,
      XDG_CONFIG_HOME: join(this.folder, 'config'),
      PATH: join(this.folder, 'bin'),
    };
    return run(['daemon', ...args], environment);
  }

  async json(...args: string[]): Promise<Change> {
    const { code, stdout, stderr } = await this.run(...args, '--json');
    if (code !== 0) throw new Error(`${args.join(' ')} ended with ${code}: ${stderr}`);
    return JSON.parse(stdout) as Change;
  }

  /** The calls of systemctl since the last call of this. */
  async told(): Promise<string[]> {
    const file = join(this.folder, 'told');
    const lines = existsSync(file) ? (await readFile(file, 'utf8')).split('\n').slice(0, -1) : [];
    await writeFile(file, '');
    return lines;
  }
}

/** A user with a host; `fails` is what systemctl is to fail at. */
async function user(fails = 'nothing'): Promise<User> {
  const made = new User(await temporaryFolder());
  await mkdir(join(made.host, 'store'), { recursive: true });
  await mkdir(join(made.folder, 'bin'));
  const systemctl = join(made.folder, 'bin', 'systemctl');
  await writeFile(
    systemctl,
    `#!/bin/sh\necho "$@" >> '${made.folder}/told'\n` +
      `[ "$2" != ${fails} ] || { echo "Failed to $2: no bus" >&2; exit 1; }\n`,
  );
  await chmod(systemctl, 0o755);
  return made;
}

const INSTALLED = ['--user daemon-reload', '--user enable poste.service', '--user restart poste.service'];

describe('poste daemon install', () => {
  test('writes the unit and has it started; a second time nothing is written; uninstall takes it away', async () => {
    const ada = await user();
    const done = await ada.json('install');
    expect(done).toMatchObject({ unit: ada.unit, changed: true, dry_run: false, backup: null });
    expect(done.commands).toEqual(INSTALLED.map((line) => `systemctl ${line}`));
    expect(await ada.told()).toEqual(INSTALLED);
    const text = await readFile(ada.unit, 'utf8');
    expect(text).toBe(done.text);
    expect(text).toContain(`\nEnvironment="POSTE_HOME=${ada.host}"\n`);
    expect(text).toMatch(/\nExecStart=\S*node\S* \S+main\.js daemon\n/);
    expect((await stat(ada.unit)).mode & 0o777).toBe(0o600);

    expect(await ada.json('install')).toMatchObject({ changed: false, backup: null });
    expect(await ada.told()).toEqual([...INSTALLED.slice(0, 2), '--user start poste.service']);
    expect(await readdir(ada.units)).toEqual(['poste.service']);

    expect(await ada.json('uninstall')).toMatchObject({ changed: true, backup: null });
    expect(await ada.told()).toEqual(['--user disable --now poste.service', '--user daemon-reload']);
    expect(await readdir(ada.units)).toEqual([]);
    expect(existsSync(join(ada.host, 'store'))).toBe(true);
    expect(await ada.json('uninstall')).toMatchObject({ changed: false, commands: [] });
    expect(await ada.told()).toEqual([]);
  });

  test('--dry-run shows what would be written and run, and does neither', async () => {
    const ada = await user();
    const shown = await ada.run('install', '--dry-run');
    expect(shown).toMatchObject({ code: 0, stderr: '' });
    expect(shown.stdout).toContain(`${ada.unit} would be this:\n# Written by poste daemon install`);
    for (const line of INSTALLED) expect(shown.stdout).toContain(`Would run: systemctl ${line}\n`);
    expect(existsSync(ada.units)).toBe(false);
    await ada.json('install');
    await ada.told();
    const removal = await ada.run('uninstall', '--dry-run');
    expect(removal.stdout).toContain(`${ada.unit} would be removed\nWould run: systemctl --user disable --now`);
    expect(existsSync(ada.unit)).toBe(true);
    expect(await ada.told()).toEqual([]);
  });

  test('a unit that says something else is copied before it is replaced, and stays when it is not ours', async () => {
    const ada = await user();
    await mkdir(ada.units, { recursive: true });
    await writeFile(ada.unit, 'mine');
    const kept = await ada.run('uninstall', '--json');
    expect(kept.code).toBe(4);
    expect(JSON.parse(kept.stderr)).toMatchObject({ code: 'UNIT_FOREIGN' });
    const { backup } = await ada.json('install');
    expect(await readFile(backup ?? '', 'utf8')).toBe('mine');
    const edited = `${await readFile(ada.unit, 'utf8')}# mine too\n`;
    await writeFile(ada.unit, edited);
    const removed = await ada.json('uninstall');
    expect(await readFile(removed.backup ?? '', 'utf8')).toBe(edited);
    expect(existsSync(ada.unit)).toBe(false);
  });

  test('without systemctl the unit is written, and that is said', async () => {
    const ada = await user();
    await chmod(join(ada.folder, 'bin', 'systemctl'), 0o644);
    expect((await ada.json('install')).notices[0]).toContain('no systemctl');
    expect(existsSync(ada.unit)).toBe(true);
  });

  test('a failed install leaves everything as it was, and says what systemctl said', async () => {
    const ada = await user('enable');
    const failed = await ada.run('install');
    expect(failed).toMatchObject({ code: 1, stdout: '' });
    expect(failed.stderr).toBe(
      'poste: nothing was installed, as systemctl --user enable poste.service ended with 1: ' +
        'Failed to enable: no bus.\n',
    );
    expect(await readdir(ada.units)).toEqual([]);
    expect((await ada.told()).slice(-2)).toEqual(['--user disable poste.service', '--user daemon-reload']);
    // A unit of another hand is there again, and no copy of it is left.
    await writeFile(ada.unit, 'mine');
    expect((await ada.run('install')).code).toBe(1);
    expect(await readdir(ada.units)).toEqual(['poste.service']);
    expect(await readFile(ada.unit, 'utf8')).toBe('mine');
  });

  test('a failed uninstall removes the unit all the same, and says what systemctl said', async () => {
    const bob = await user('disable');
    await bob.json('install');
    const { stderr } = await bob.run('uninstall');
    const [outcome, why] = stderr.split(', as ');
    expect(outcome).toBe('poste: the unit is removed, but the service may still run');
    expect(why).toMatch(/^systemctl --user disable .*: Failed to disable: no bus\.\n$/);
    expect(existsSync(bob.unit)).toBe(false);
  });

  test('needs a host, a folder that can be written to, and arguments that mean something', async () => {
    const ada = await user();
    await writeFile(join(ada.folder, 'config'), 'no folder');
    const unwritable = await ada.run('install');
    expect(unwritable.code).toBe(1);
    expect(unwritable.stderr).toMatch(/^poste: \S+poste\.service cannot be (read|written) \(\w+\): .*\.\n$/);
    const nobody = new User(await temporaryFolder());
    const none = await nobody.run('install');
    expect(none.code).toBe(3);
    expect(none.stderr).toMatch(/^poste: there is no store at .*: make one with poste init\.\n$/);
    for (const [args, why] of [
      [['install', 'x'], /too many arguments/],
      [['uninstall', '--now'], /unknown option '--now'/],
      [['instal'], /too many arguments|unknown command/],
      [['install', '--log-level', 'warn'], /unknown option '--log-level'/],
    ] as const) {
      const ended = await ada.run(...args);
      expect({ args, code: ended.code, stdout: ended.stdout }).toEqual({ args, code: 2, stdout: '' });
      expect(ended.stderr).toMatch(why);
    }
    const { stdout } = await ada.run('install', '--help');
    expect(stdout).toContain('$ poste daemon install --dry-run');
  });
});

/** `poste` in this process. */
function run(args: readonly string[], environment: Environment = {}): Promise<Ended> {
  return runHere(args, { environment });
}
