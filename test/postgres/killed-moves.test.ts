/**
 * `poste relay log publish` and `withdraw` as processes that are killed before each of their steps: the same command goes on
 * or the move is given up, and epoch, sequence numbers and mail are as they were.
 */
import { randomInt } from 'node:crypto';
import { cp } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { RelayClient } from '../../src/host/relay/relay-client.ts';
import type { PublicKey } from '../../src/protocol/public-key.ts';
import { type RelayHere, relayHere, runHere } from '../support/command-run.ts';
import { type TestHost, alice, bob } from '../support/hosts.ts';
import { itemTo } from '../support/mail.ts';
import { patchedProgram } from '../support/patched-program.ts';
import { type Ended, poste } from '../support/poste-process.ts';
import { type Servers, startPostgres } from '../support/postgres.ts';
import { POSTGRES, findProgram, neededProgram } from '../support/programs.ts';
import { disposableFolder, temporaryFolder } from '../support/temporary-folder.ts';
import { IS_THOROUGH } from '../support/thorough.ts';

const TIMEOUT_MS = 300_000;

/** The program waits for its end before the step of that number, and says which it is. */
const STOPS = {
  file: 'cli/relay/move-log.ts',
  from: 'step: async (step) => progress.say(',
  to: `step: async (step) => (globalThis.passed = (globalThis.passed ?? 0) + 1) === Number(process.env.STOP_BEFORE)
    ? new Promise(() => { process.stdout.write(step + '\\n'); setInterval(() => undefined, 60_000); })
    : progress.say(`,
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
const ITEMS = ['one', 'two', 'three'].map((id) => itemTo([bob], id));

let servers: Servers | undefined;
let main = '';
/** The store of a relay that is stopped, with mail. */
let template = '';
/** What its hosts were told. */
let before: { epoch: string; seqs: unknown };
const ending: (() => Promise<void>)[] = [];

function clientOf({ start }: RelayHere, host: TestHost): RelayClient {
  const options = { url: start.url, signer: host.signer, hostName: host.name, nowMs: Date.now };
  return new RelayClient(options, start.relay_pubkey as PublicKey);
}

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
  if (before) return;
  const relay = await relayHere(template);
  for (const host of [alice, bob]) await clientOf(relay, host).enrol();
  const { results, epoch } = await clientOf(relay, alice).push(ITEMS);
  before = { epoch, seqs: results.map(({ targets }) => targets) };
  await relay.process.stop();
}, TIMEOUT_MS);

/** A stopped relay with mail, and an empty database for its log. */
class Moving {
  readonly storeDir: string;
  readonly log: string[];

  static async begin(): Promise<Moving> {
    const primary = servers?.primary;
    if (!primary) throw new Error('PostgreSQL was not started');
    const database = await primary.newDatabase();
    const storeDir = join(await temporaryFolder(), 'store');
    await cp(template, storeDir, { recursive: true });
    return new Moving(storeDir, primary.url(database));
  }

  private constructor(storeDir: string, url: string) {
    this.storeDir = storeDir;
    this.log = ['--log', url, '--durability', 'single'];
  }

  args(command: string, ...more: string[]): string[] {
    return ['relay', 'log', command, ...this.log, '--store-dir', this.storeDir, ...more];
  }

  command(name: string, ...more: string[]): Promise<Ended> {
    return runHere(this.args(name, ...more));
  }
}

/** Kills the process of a command before a step of it. */
async function killed(moving: Moving, name: string, number: number, step: string, ...more: string[]): Promise<void> {
  const process = poste(moving.args(name, ...more), { STOP_BEFORE: String(number + 1) }, { main });
  await process.printed(step);
  await process.kill();
  expect(await process.ended()).toMatchObject({ signal: 'SIGKILL' });
}

/** Serves from there, is as before for hosts, and serves nowhere else. */
async function servesAsBefore({ storeDir, log }: Moving, where: 'store' | 'log'): Promise<void> {
  const keyed = [...log, '--key-file', join(storeDir, 'relay.key')];
  const refused = await runHere(['relay', 'serve', '--store-dir', storeDir, ...(where === 'log' ? [] : keyed)]);
  expect(refused).toMatchObject({ code: 5 });
  expect(refused.stderr).toMatch(
    where === 'log'
      ? /is a view of a log that is kept at/
      : /with a log of its own|the database of the log is empty|the log went to/,
  );
  const relay = await relayHere(storeDir, where === 'log' ? keyed : []);
  const { results, epoch } = await clientOf(relay, alice).push(ITEMS);
  expect(results.map(({ status }) => status)).toEqual(['duplicate', 'duplicate', 'duplicate']);
  expect({ epoch, seqs: results.map(({ targets }) => targets) }).toEqual(before);
  const page = await clientOf(relay, bob).pull();
  expect(page.items.map(({ item_id: id }) => id)).toEqual(['one', 'two', 'three']);
  await relay.process.stop();
}

/** Every one in a thorough run; else another one each time. */
function tried<Step>(steps: readonly Step[]): [Step, number][] {
  const all = steps.map((step, number): [Step, number] => [step, number]);
  return IS_THOROUGH ? all : [all[randomInt(all.length)] as [Step, number]];
}

test.each(tried(PUBLISH_STEPS))(
  'publish that is killed before "%s" goes on',
  async (step, number) => {
    const moving = await Moving.begin();
    await killed(moving, 'publish', number, step);
    expect(await moving.command('publish')).toMatchObject({ code: 0 });
    await servesAsBefore(moving, 'log');
  },
  TIMEOUT_MS,
);

test.each(tried(PUBLISH_STEPS))(
  'publish that is killed before "%s" is given up, or has happened',
  async (step, number) => {
    const moving = await Moving.begin();
    await killed(moving, 'publish', number, step);
    const given = await moving.command('publish', '--abort');
    const [isBegun, hasMoved] = [number > 0, number > PUBLISH_STEPS.indexOf('the log takes its place')];
    expect(given).toMatchObject({ code: isBegun && !hasMoved ? 0 : 5 });
    await servesAsBefore(moving, hasMoved ? 'log' : 'store');
  },
  TIMEOUT_MS,
);

test.each(tried(WITHDRAW_STEPS))(
  'withdraw that is killed before "%s" goes on',
  async (step, number) => {
    const moving = await Moving.begin();
    expect(await moving.command('publish')).toMatchObject({ code: 0 });
    await killed(moving, 'withdraw', number, step, '--yes');
    expect(await moving.command('withdraw', '--yes')).toMatchObject({ code: 0 });
    await servesAsBefore(moving, 'store');
  },
  TIMEOUT_MS,
);

test.each(tried(WITHDRAW_STEPS))(
  'withdraw that is killed before "%s" is taken back',
  async (step, number) => {
    const moving = await Moving.begin();
    expect(await moving.command('publish')).toMatchObject({ code: 0 });
    await killed(moving, 'withdraw', number, step, '--yes');
    expect(await moving.command('publish')).toMatchObject({ code: 0 });
    await servesAsBefore(moving, 'log');
  },
  TIMEOUT_MS,
);
