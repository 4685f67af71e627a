/** `poste relay add`, `list`, `prefer` and `remove` with a daemon and two relays of the built program. */
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { expect, test } from 'vitest';
import type { Check } from '../../src/host/contract/daemon.ts';
import type { RelayAddResult, RelayListResult, RelayStatusResult } from '../../src/host/contract/relays.ts';
import { EXIT } from '../../src/cli/lib/exit.ts';
import { type RelayHere, relayHere, runHere } from '../support/command-run.ts';
import { eventually } from '../support/eventually.ts';
import { type PosteHome, posteHome } from '../support/poste-home.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const TEST_MS = 120_000;

interface World {
  relays: readonly [RelayHere, RelayHere];
  urls: readonly [string, string];
  home: PosteHome;
}

async function world(): Promise<World> {
  const folder = await temporaryFolder();
  const relays = [await relayHere(join(folder, 'r1')), await relayHere(join(folder, 'r2'))] as const;
  const home = await posteHome();
  await home.daemon();
  return { relays, urls: [relays[0].start.url, relays[1].start.url], home };
}

async function areIn(home: PosteHome, states: readonly string[]): Promise<void> {
  const shown = async () => (await home.json<RelayListResult>('relay', 'list')).relays.map(({ state }) => state);
  expect(await eventually(shown, (found) => isDeepStrictEqual(found, states))).toEqual(states);
}

/** What the doctor finds: it ends with 1 where something is broken. */
async function checksOf(home: PosteHome): Promise<Check[]> {
  return (JSON.parse((await home.run('doctor', '--json')).stdout) as { checks: Check[] }).checks;
}

test(
  'a second relay is added, listed, preferred and removed; with one relay nothing says that there could be several',
  async () => {
    const { urls, relays, home } = await world();
    const poste = (...args: string[]) => home.run(...args);
    const json = <T>(...args: string[]) => home.json<T>(...args);
    expect((await poste('relay', 'list')).stdout).toBe('No relay is set: choose one with poste relay set.\n');
    await poste('relay', 'set', urls[0]);
    await areIn(home, ['ready']);
    expect(await json('relay', 'status')).not.toHaveProperty('relays');
    expect(await json('status')).not.toHaveProperty('relays');
    expect((await checksOf(home)).filter((check) => 'relay' in check)).toEqual([]);

    const fingerprint = (await json<RelayAddResult>('relay', 'add', urls[1], '--yes')).relay.fingerprint;
    await areIn(home, ['ready', 'ready']);
    const list = await poste('relay', 'list');
    const cells = list.stdout.split('\n').map((line) => line.split(/ {2,}/).slice(0, 4));
    expect(cells).toEqual([['1', urls[0], 'home', 'ready'], ['2', urls[1], 'home', 'ready'], ['']]);
    expect(await poste('relay', 'add', urls[1], '--key', fingerprint)).toMatchObject({ code: EXIT.conflict });
    expect(await poste('relay', 'unset')).toMatchObject({
      code: EXIT.conflict,
      stderr: expect.stringContaining('poste relay remove'),
    });
    const status = await json<RelayStatusResult>('relay', 'status');
    expect(status.relay?.url).toBe(urls[0]);
    expect(status.relays?.map(({ relay: { url }, role }) => [url, role])).toEqual(urls.map((url) => [url, 'home']));
    expect((await poste('status')).stdout).toContain(`  relay        1 ${urls[0]} works; 2 ${urls[1]} works\n`);
    const several = await checksOf(home);
    const about = (url: string) => several.filter(({ relay }) => relay === url).map(({ id }) => id);
    expect(about(urls[1])).toEqual(about(urls[0]));
    expect(about(urls[1])).toContain('relay-key');

    await relays[1].process.stop();
    await areIn(home, ['ready', 'failing']);
    const reach = (await checksOf(home)).filter(({ id }) => id === 'relay-reach');
    expect(reach.map(({ relay, state }) => [relay, state])).toEqual([
      [urls[0], 'ok'],
      [urls[1], 'note'],
    ]);
    expect((await poste('doctor')).stdout).toContain(`\nThe relay ${urls[1]}\n`);

    expect((await poste('relay', 'prefer', '2')).stdout).toContain(`1  ${urls[1]}`);
    expect(await poste('relay', 'remove', '3')).toMatchObject({ code: EXIT.notFound });
    expect((await poste('relay', 'remove', urls[1])).stdout).toContain(`does not use ${urls[1]} any more`);
    const last = await poste('relay', 'remove', '1');
    expect(last).toMatchObject({ code: EXIT.conflict, stderr: expect.stringContaining('--last') });
    expect((await poste('relay', 'remove', '1', '--last')).code).toBe(EXIT.ok);
    await areIn(home, []);

    const asked = await runHere(['relay', 'add', urls[0]], { environment: home.environment, typed: 'n\n' });
    expect(asked).toMatchObject({ code: EXIT.failure, stderr: expect.stringContaining('Add it as home relay 1?') });
    await areIn(home, []);
  },
  TEST_MS,
);
