/** `poste run` as a process: killed in the middle of a command, and beside another one of its agent. */
import { chmod, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { EXIT } from '../../src/cli/lib/exit.ts';
import { PATIENCE_MS } from '../support/patience.ts';
import { posteHome } from '../support/poste-home.ts';
import { poste } from '../support/poste-process.ts';
import { isGone, signal } from '../support/process-tree.ts';
import { atTestEnd } from '../support/test-end.ts';

test('a run that is killed loses no mail, leaves no second command, and says that a try is the second', async () => {
  const home = await posteHome();
  await home.daemon();
  for (const name of ['ann', 'ben']) await home.json('agent', 'add', name);
  const [program, started] = ['program.sh', 'started'].map((name) => join(home.folder, name));
  const work = `[ "$POSTE_TRY" -gt 1 ] || sleep 600`;
  await writeFile(program ?? '', `#!/bin/sh\necho "$$ $POSTE_TRY $POSTE_MESSAGE_ID" >> ${started}\n${work}\n`);
  await chmod(program ?? '', 0o700);
  const run = () => poste(['run', '--as', 'ben', '--', program ?? ''], home.environment);
  const first = run();
  const asked = ['--to', 'ben', '--kind', 'request', '--subject', 's', '--body', 'b'];
  const { message_id } = await home.json<{ message_id: string }>('send', '--as', 'ann', ...asked);
  const lines = async () => (await readFile(started ?? '', 'utf8').catch(() => '')).trimEnd().split('\n');
  await expect.poll(async () => (await lines())[0], { timeout: 30_000 }).toMatch(/ 1 /);
  const [command = 0] = ((await lines())[0] ?? '').split(' ').map(Number);
  atTestEnd(() => signal(-command, 'SIGKILL'));
  // The process of the command is on record once its sender can know that it was started.
  await expect.poll(() => readFile(join(home.folder, 'run-ben.json'), 'utf8')).toContain(`"pid":${command}`);

  const beside = await home.run('run', '--as', 'ben', '--', 'true');
  expect(beside).toMatchObject({ code: EXIT.conflict, stderr: expect.stringContaining(`process ${first.pid} has`) });

  signal(first.pid, 'SIGKILL');
  // The command still holds its output open.
  await expect.poll(() => isGone(first.pid)).toBe(true);
  expect(isGone(command)).toBe(false);
  const second = run();
  await expect
    .poll(() => second.stderr, { timeout: PATIENCE_MS })
    .toContain(`ended process ${command}, the command of a run that was killed`);
  expect(isGone(command)).toBe(true);
  await expect.poll(() => second.stderr, { timeout: PATIENCE_MS }).toContain(`${message_id} of ann@here: done`);
  expect((await lines()).map((line) => line.replace(/^\d+ /, ''))).toEqual([`1 ${message_id}`, `2 ${message_id}`]);
  second.signal('SIGTERM');
  expect((await second.ended()).code).toBe(EXIT.ok);
}, 90_000);
