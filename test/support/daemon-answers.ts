/** What a command asks its daemon, without one: for one test, and until it is called again. */
import { onTestFinished, vi } from 'vitest';
import { DaemonClient } from '../../src/host/api/client.ts';
import { type CommandWorld, runHere } from './command-run.ts';

/** Every operation has this answer; returns what was asked. */
export function daemonAnswers(answer: object): { name: string; input: unknown }[] {
  const asked: { name: string; input: unknown }[] = [];
  const call = vi.spyOn(DaemonClient.prototype, 'call').mockImplementation((name, input) => {
    asked.push({ name, input });
    return Promise.resolve(answer as never);
  });
  onTestFinished(() => call.mockRestore());
  return asked;
}

export function runAsked(args: readonly string[], world: CommandWorld = {}): ReturnType<typeof runHere> {
  return runHere(args, { environment: { POSTE_HOME: '/nowhere/poste', HOME: '/nowhere' }, ...world });
}
