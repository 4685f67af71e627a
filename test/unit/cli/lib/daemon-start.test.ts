/** Which commands start a daemon, and what they say of one that does not come up. */
import { existsSync } from 'node:fs';
import { mkdir, readFile, stat, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { commandsBelow } from '../../../../src/cli/lib/command-tree.ts';
import { startInBackground } from '../../../../src/cli/lib/daemon-start.ts';
import { PatientDaemon } from '../../../../src/cli/lib/patient-daemon.ts';
import { posteCommand } from '../../../../src/cli/run.ts';
import { ownPaths } from '../../../../src/host/base/paths.ts';
import { openHostStore } from '../../../../src/host/store/open.ts';
import { commandContext } from '../../../support/command-run.ts';
import { posteHome } from '../../../support/poste-home.ts';
import { contextAtSocket } from '../../../support/socket-context.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';
import { atTestEnd } from '../../../support/test-end.ts';
import { wakeContext } from '../../../support/wake-context.ts';

/** The names of the commands that take `--start`, by whether they start a daemon without it. */
async function starters(POSTE_NO_START: string): Promise<Record<'starting' | 'looking', string[]>> {
  const commands = commandsBelow(await posteCommand(undefined, commandContext({ environment: { POSTE_NO_START } })));
  const names = (starts: boolean): string[] =>
    commands.flatMap(({ name, command }) => (command.opts()['start'] === starts && name !== 'poste' ? [name] : []));
  return { starting: names(true), looking: names(false) };
}

describe('a daemon is started', () => {
  test('by the commands that need one, and by none that only looks at it', async () => {
    const { starting, looking } = await starters('');
    expect(looking).toEqual(['poste status', 'poste session end', 'poste session list']);
    expect(starting).toEqual(expect.arrayContaining(['poste send', 'poste inbox list', 'poste run', 'poste mcp']));
    const { starting: forbidden, looking: others } = await starters('1');
    expect(forbidden).toEqual([]);
    expect(others.toSorted()).toEqual([...starting, ...looking].toSorted());
  });

  test('only before the first answer: a later one was stopped, as for an upgrade', async () => {
    const { home, server } = await contextAtSocket(await wakeContext(['alice']));
    const context = commandContext({ environment: { POSTE_HOME: home } });
    const daemon = new PatientDaemon(context, { start: true, as: 'alice' }, new AbortController().signal);
    await daemon.askNow('list-agents', {});
    server.close();
    await expect(daemon.askNow('list-agents', {})).rejects.toMatchObject({ code: 'DAEMON_NOT_RUNNING' });
  });
});

/** Starts a daemon of this host, and resolves with what is said of it. */
async function refusal(POSTE_HOME: string, program?: string): Promise<{ code: string; message: string }> {
  const context = commandContext({ environment: { POSTE_HOME } });
  const own = program === undefined ? context : { ...context, program };
  return startInBackground(own, ownPaths(own), { lockedMs: 0 }).then(
    () => Promise.reject(new Error('a daemon answers')),
    (error: { code: string; message: string }) => error,
  );
}

describe('a daemon that does not come up', () => {
  test('where there is no host, nothing is begun', async () => {
    const home = join(await temporaryFolder(), 'nowhere');
    const { code, message } = await refusal(home);
    expect({ code, message }).toEqual({
      code: 'STORE_ABSENT',
      message: `there is no store at ${join(home, 'store')}: make one with poste init`,
    });
    expect(existsSync(home)).toBe(false);
  });

  test('gives its own reason, such as that another process has the store', async () => {
    const { folder } = await posteHome();
    const store = await openHostStore(join(folder, 'store'), () => undefined);
    atTestEnd(() => store.close());
    await writeFile(join(folder, 'daemon.log'), 'poste: of another day.\n');
    expect((await refusal(folder)).message).toMatch(
      /^the daemon did not start: a daemon runs on the store at \S+ already/,
    );
    expect(await readFile(join(folder, 'daemon.log'), 'utf8')).toMatch(
      /^poste: of another day\.\nposte: a daemon runs/,
    );
  });

  test('and says nothing is said with its exit code, and with where the log is', async () => {
    const { folder } = await posteHome();
    const log = join(folder, 'daemon.log');
    await writeFile(log, 'poste: of another day.\n');
    await truncate(log, 9 << 20);
    const { code, message } = await refusal(folder, join(folder, 'gone.js'));
    expect(code).toBe('DAEMON_NOT_STARTED');
    expect(message).toBe(`the daemon did not start (exit code 1): see ${log}`);
    // One that has become too long is begun anew.
    expect((await stat(`${log}.old`)).size).toBe(9 << 20);
    expect(await readFile(log, 'utf8')).toContain('gone.js');
  });

  test('for want of a log says so', async () => {
    const { folder } = await posteHome();
    await mkdir(join(folder, 'daemon.log'));
    const { message } = await refusal(folder);
    expect(message).toBe(
      `the daemon did not start: its log ${join(folder, 'daemon.log')} cannot be written (it is a folder)`,
    );
  });
});
