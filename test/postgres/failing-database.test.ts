/**
 * Databases that fail a command: one that does not take the password, and one that is lost or whose disk is full while
 * `poste relay cluster publish` moves a log into it.
 */
import { randomInt } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { CommandRun, commandContext, runHere } from '../support/command-run.ts';
import { type MovingLog, StoppedRelay } from '../support/moving-log.ts';
import { POSTGRES_DISK_BYTES, hasOwnDisks } from '../support/own-disks.ts';
import type { Ended } from '../support/poste-process.ts';
import { type PostgresServer, type Servers, startPostgres } from '../support/postgres.ts';
import { NEEDS, POSTGRES, findProgram, neededProgram } from '../support/programs.ts';
import { disposableFolder, temporaryFolder } from '../support/temporary-folder.ts';
import { IS_THOROUGH } from '../support/thorough.ts';
import { found } from '../support/found.ts';

const TIMEOUT_MS = 300_000;
const WRONG = 'not-the-secret';
const RIGHT = 'the-secret';

let servers: Servers | undefined;
let hasDisks = false;
let folder = '';
let stopped: StoppedRelay | undefined;
const ending: (() => Promise<void>)[] = [];

beforeAll(async () => {
  const program = findProgram(POSTGRES);
  if (program === undefined) return;
  hasDisks = await hasOwnDisks();
  servers = await startPostgres(program, { diskBytes: hasDisks ? POSTGRES_DISK_BYTES : undefined });
  const own = await disposableFolder();
  ({ folder } = own);
  ending.push(servers.end, own.remove);
}, TIMEOUT_MS);

afterAll(async () => {
  for (const end of ending) await end();
});

beforeEach(async (context) => {
  neededProgram(context, POSTGRES);
  await primary().freeDisk();
  if (!primary().isRunning) await primary().start();
});

function primary(): PostgresServer {
  return found(servers, 'PostgreSQL was not started').primary;
}

/** A stopped relay with mail, and an empty database for its log. */
async function begin(port = primary().port): Promise<{ moving: MovingLog; database: string }> {
  stopped ??= await StoppedRelay.make(join(folder, 'store'));
  const database = await primary().newDatabase();
  return { moving: await stopped.moving(primary().url(database, port)), database };
}

/** A database that asks this role for its password. */
async function guarded(): Promise<{ role: string; database: string }> {
  const database = await primary().newDatabase();
  const role = `guarded_${database}`;
  await primary().query(`CREATE ROLE ${role} LOGIN PASSWORD '${RIGHT}'`);
  const file = join(primary().folder, 'pg_hba.conf');
  await writeFile(file, `host all ${role} 127.0.0.1/32 scram-sha-256\n${await readFile(file, 'utf8')}`);
  await primary().query('SELECT pg_reload_conf()');
  return { role, database };
}

/** Returns what the command said with the password in the address, and with the password in a file. */
async function withPassword(password: string, ...command: string[]): Promise<Ended[]> {
  const { role, database } = await guarded();
  const at = `127.0.0.1:${primary().port}/${database}`;
  const file = join(await temporaryFolder(), 'password');
  await writeFile(file, `${password}\n`, { mode: 0o600 });
  const args = [...command, '--durability', 'single'];
  return [
    await runHere([...args, '--log', `postgres://${role}:${password}@${at}`]),
    await runHere([...args, '--log', `postgres://${role}@${at}`, '--log-password-file', file]),
  ];
}

describe('a password that is wrong', () => {
  test.each(['serve', 'init', 'publish'])(
    'ends %s with a sentence and a code for which a supervisor tries again',
    async (name) => {
      const { moving } = await begin();
      const command = {
        serve: [
          'serve',
          '--store-dir',
          join(moving.storeDir, '../view'),
          '--key-file',
          join(moving.storeDir, 'relay.key'),
        ],
        init: ['cluster', 'init'],
        publish: ['cluster', 'publish', '--store-dir', moving.storeDir],
      }[name] ?? [name];
      for (const { code, stdout, stderr } of await withPassword(WRONG, 'relay', ...command)) {
        expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
        expect(stderr).toMatch(/^poste: .*password authentication failed for user "guarded_/m);
        expect(stderr).not.toContain(WRONG);
      }
      await moving.servesAsBefore('store');
    },
  );

  test('and the right one lets the same role in', async () => {
    for (const { stderr } of await withPassword(RIGHT, 'relay', 'cluster', 'init'))
      expect(stderr).toContain('this user may not make them (permission denied for schema public)');
  });
});

/** The lines of publish about what it does, before and after the store is marked as the view of a log. */
const UNMARKED = ['the log is held', 'what the store holds is loaded'] as const;
const MARKED = [
  'the store is marked as moved',
  'the log takes its place',
  'what is left of other logs goes from ',
] as const;
type Step = (typeof UNMARKED)[number] | (typeof MARKED)[number];

/** Every one in a thorough run; else another one each time. */
function tried(steps: readonly Step[]): readonly Step[] {
  return IS_THOROUGH ? steps : steps.slice(randomInt(steps.length)).slice(0, 1);
}

/** Publishes; when the command says that step, nothing of it comes to the server before `happens` is done. */
async function publishWhile(
  step: Step,
  happens: () => Promise<void>,
): Promise<{ moving: MovingLog; database: string; ended: Ended }> {
  const link = await primary().link();
  const begun = await begin(link.port);
  const context = commandContext({ typed: '' });
  const said = new Promise<void>((resolve) => {
    context.stderr.on('more', () => {
      if (context.stderr.text.includes(step)) resolve(link.hold('requests'));
    });
  });
  const command = new CommandRun(begun.moving.args('publish'), context);
  await Promise.race([said, command.ended()]);
  context.stderr.removeAllListeners('more');
  await happens();
  link.release();
  return { ...begun, ended: await command.ended() };
}

/** Into a database that is lost at that step; an empty one is in its place. */
async function publishIntoLost(step: Step): Promise<MovingLog> {
  const { moving, database, ended } = await publishWhile(step, () => primary().kill());
  expect(ended).toMatchObject({ code: 75 });
  await primary().start();
  await primary().query(`DROP DATABASE ${database}`);
  await primary().query(`CREATE DATABASE ${database}`);
  return moving;
}

describe('a database that is lost while a log is moved into it', () => {
  test.each(tried([...UNMARKED, ...MARKED]))(
    'from "%s" on: the same command goes on when it is back',
    async (step) => {
      const { moving, ended } = await publishWhile(step, () => primary().kill());
      expect(ended).toMatchObject({ code: 75, stdout: '' });
      expect(ended.stderr).toContain('poste: the log cannot be reached');
      await primary().start();
      expect(await moving.command('publish')).toMatchObject({ code: 0 });
      await moving.servesAsBefore('log');
    },
    TIMEOUT_MS,
  );

  test.each(tried(UNMARKED))(
    'from "%s" on, and does not come back: the store serves as before, and moves into another',
    async (step) => {
      const moving = await publishIntoLost(step);
      await moving.servesAsBefore('store');
      expect(await moving.command('publish')).toMatchObject({ code: 0 });
      await moving.servesAsBefore('log');
    },
    TIMEOUT_MS,
  );

  test.each(tried(MARKED))(
    'from "%s" on, and does not come back: a backup of the store serves in a new epoch',
    async (step) => {
      const moving = await publishIntoLost(step);
      // The log may have served elsewhere since: only its operator knows that it did not.
      const refused = await moving.command('publish');
      expect(refused).toMatchObject({ code: 5 });
      expect(refused.stderr).toContain('holds no log: see that --log names the right database');
      const backup = join(moving.storeDir, '../relay.backup');
      const here = (...args: string[]): Promise<Ended> => runHere(['relay', ...args, '--store-dir', moving.storeDir]);
      expect(await here('backup', backup)).toMatchObject({ code: 0 });
      expect(await here('restore', backup, '--yes')).toMatchObject({ code: 0 });
      const { epoch, ids } = await moving.found('store');
      expect(epoch).not.toBe(moving.told.epoch);
      expect(ids).toEqual(['one', 'two', 'three']);
      expect(await moving.command('publish')).toMatchObject({ code: 0 });
      expect(await moving.found('log')).toMatchObject({ epoch, ids });
    },
    TIMEOUT_MS,
  );
});

test(
  'a disk that is full while a log is moved: nothing of the store is lost, and the same command goes on',
  async ({ skip }) => {
    if (!hasDisks) skip(`${NEEDS}root and a system that mounts disks`);
    const { moving, ended } = await publishWhile('what the store holds is loaded', () => primary().fillDisk());
    expect(ended).toMatchObject({ code: 75, stdout: '' });
    expect(ended.stderr).toContain('No space left on device');
    await primary().freeDisk();
    if (!primary().isRunning) await primary().start();
    expect(await moving.command('publish')).toMatchObject({ code: 0 });
    await moving.servesAsBefore('log');
  },
  TIMEOUT_MS,
);
