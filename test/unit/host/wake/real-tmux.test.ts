/** The tmux rung against tmux itself. */
import { spawnSync } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import type { AgentId } from '../../../../src/host/core/rows.ts';
import { processFacts } from '../../../../src/host/wake/processes.ts';
import { tmuxMethod } from '../../../../src/host/wake/wake-methods.ts';
import { TMUX, neededProgram } from '../../../support/programs.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';
import { PATIENCE_MS } from '../../../support/patience.ts';

test('types into the pane of a program that runs there, and not into the shell that it leaves behind', async (context) => {
  const program = neededProgram(context, TMUX);
  const folder = await temporaryFolder();
  const socket = join(folder, 'tmux');
  const tmux = (...args: string[]): string =>
    spawnSync(program, ['-f', '/dev/null', '-S', socket, ...args], { encoding: 'utf8', timeout: PATIENCE_MS }).stdout;
  onTestFinished(() => {
    tmux('kill-server');
  });
  const heard = join(folder, 'heard');
  const started = join(folder, 'pid');
  // A program in a shell of its own: it says its number, reads one line and ends; then the shell is in front.
  const reader = `sh -c 'echo $$ > ${started}; read line; echo "$line" > ${heard}'`;
  tmux('new-session', '-d', '-x', '200', '-y', '50', 'sh', '-i');
  tmux('send-keys', '-l', '--', reader);
  tmux('send-keys', 'Enter');
  const pid = Number(await contentOf(started));
  const { signal } = new AbortController();
  const facts = await processFacts(pid, signal);
  const rung = tmuxMethod({ factsOf: processFacts, program });
  const session = {
    agentId: 'a'.repeat(32) as AgentId,
    sessionId: 's1',
    registeredAtMs: 0,
    seenAtMs: 0,
    endedAtMs: null,
    wake: [],
    process: typeof facts === 'object' ? facts.mark : null,
    woken: null,
  };
  const pane = tmux('display-message', '-p', '#{pane_id}').trim();
  const method = { type: 'tmux', socket, pane } as const;
  expect(await rung(session, method, 'You have 1 unread message.', signal)).toBe('given');
  expect(await contentOf(heard)).toBe('You have 1 unread message.\n');
  expect(await rung(session, method, `touch ${join(folder, 'obeyed')}`, signal)).toBe('unavailable');
  expect(tmux('capture-pane', '-p')).not.toContain('obeyed');
});

/** Resolves when the file has a line. */
function contentOf(path: string): Promise<string> {
  return vi.waitFor(
    async () => {
      const text = await readFile(path, 'utf8');
      expect(text).toContain('\n');
      return text;
    },
    { timeout: PATIENCE_MS },
  );
}
