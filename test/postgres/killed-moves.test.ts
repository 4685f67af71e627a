/**
 * `poste relay cluster publish` and `withdraw` as processes that are killed before each of their steps: the same
 * command goes on, and epoch, sequence numbers and mail are as they were. What is given up is tried at every step in
 * crash/move-log.
 */
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { type MovingLog, StoppedRelay } from '../support/moving-log.ts';
import { patchedProgram } from '../support/patched-program.ts';
import { poste } from '../support/poste-process.ts';
import { type Servers, startPostgres } from '../support/postgres.ts';
import { POSTGRES, findProgram, neededProgram } from '../support/programs.ts';
import { disposableFolder } from '../support/temporary-folder.ts';

const TIMEOUT_MS = 300_000;

/** The program waits for its end before the step of that number, and says which it is. */
const STOPS = {
  file: 'cli/relay/cluster.ts',
  from: 'step: async (step) => work.say(',
  to: `step: async (step) => (globalThis.passed = (globalThis.passed ?? 0) + 1) === Number(process.env.STOP_BEFORE)
    ? new Promise(() => { process.stdout.write(step + '\\n'); setInterval(() => undefined, 60_000); })
    : work.say(`,
};
const PUBLISH_STEPS = [
  'the log is held',
  'what the store holds is loaded',
  'the store is marked as moved',
  'the log takes its place',
  'what is left of other logs goes from ',
  'the log of ',
] as const;
const WITHDRAW_STEPS = [
  'this node takes the lead',
  'the log is moved to this node',
  'the view becomes a store of its own',
] as const;

let servers: Servers | undefined;
let main = '';
let stopped: StoppedRelay | undefined;
/** The folder of its store. */
let template = '';
const ending: (() => Promise<void>)[] = [];

beforeAll(async () => {
  const program = findProgram(POSTGRES);
  if (program === undefined) return;
  servers = await startPostgres(program);
  const own = await disposableFolder();
  ending.push(servers.end, own.remove);
  main = await patchedProgram(own.folder, [STOPS]);
  template = join(own.folder, 'store');
}, TIMEOUT_MS);

afterAll(async () => {
  for (const end of ending) await end();
});

beforeEach(async (context) => {
  neededProgram(context, POSTGRES);
  stopped ??= await StoppedRelay.make(template);
}, TIMEOUT_MS);

/** A stopped relay with mail, and an empty database for its log. */
async function begin(): Promise<MovingLog> {
  if (!servers || !stopped) throw new Error('PostgreSQL was not started');
  return stopped.moving(servers.primary.url(await servers.primary.newDatabase()));
}

/** Kills the process of a command before a step of it. */
async function killed(moving: MovingLog, name: string, number: number, step: string, ...more: string[]): Promise<void> {
  const process = poste(moving.args(name, ...more), { STOP_BEFORE: String(number + 1) }, { main });
  await process.printed(step);
  await process.kill();
  expect(await process.ended()).toMatchObject({ signal: 'SIGKILL' });
}

test.each(PUBLISH_STEPS.map((step, number) => [step, number] as const))(
  'publish that is killed before "%s" goes on',
  async (step, number) => {
    const moving = await begin();
    await killed(moving, 'publish', number, step);
    expect(await moving.command('publish')).toMatchObject({ code: 0 });
    await moving.servesAsBefore('log');
  },
  TIMEOUT_MS,
);

test.each(WITHDRAW_STEPS.map((step, number) => [step, number] as const))(
  'withdraw that is killed before "%s" goes on',
  async (step, number) => {
    const moving = await begin();
    expect(await moving.command('publish')).toMatchObject({ code: 0 });
    await killed(moving, 'withdraw', number, step, '--yes');
    expect(await moving.command('withdraw', '--yes')).toMatchObject({ code: 0 });
    await moving.servesAsBefore('store');
  },
  TIMEOUT_MS,
);
