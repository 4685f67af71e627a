/** The operator's commands take settings from the config file of their relay, so that nobody repeats them as flags. */
import { rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { commandsBelow } from '../../../../src/cli/lib/command-tree.ts';
import { posteCommand } from '../../../../src/cli/run.ts';
import { type RelayHere, commandContext, relayHere, runHere } from '../../../support/command-run.ts';
import { alice } from '../../../support/hosts.ts';
import { EXIT, clientOf, sentenceOf, stopped } from '../../../support/relay-command.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';

interface Configured {
  folder: string;
  storeDir: string;
  config: string;
  /** Finds the file by itself. */
  environment: { POSTE_HOME: string };
  relay: RelayHere;
}

/** A relay whose key and position lie outside its store folder, as its file says. */
async function configured(): Promise<Configured> {
  const folder = await temporaryFolder();
  const [storeDir, config] = [join(folder, 'store'), join(folder, 'relay.toml')];
  const first = await relayHere(storeDir, ['--position-file', join(folder, 'position')]);
  await stopped(first);
  await rename(join(storeDir, 'relay.key'), join(folder, 'relay.key'));
  const settings = { store_dir: 'store', key_file: 'relay.key', position_file: 'position', backup_dir: 'off' };
  const lines = Object.entries(settings).map(([key, value]) => `${key} = "${value}"\n`);
  await writeFile(config, lines.join(''));
  const relay = await relayHere(storeDir, ['--config', config]);
  expect(relay.start).toMatchObject({ epoch: first.start.epoch, key: join(folder, 'relay.key') });
  return { folder, storeDir, config, environment: { POSTE_HOME: folder }, relay };
}

/** A witness is of several relays, and has a store of its own. */
function isOfRelay(name: string): boolean {
  return name.startsWith('poste relay ') && name !== 'poste relay witness';
}

test('every command of a relay that has --store-dir has --config', async () => {
  const described = commandsBelow(await posteCommand(undefined, commandContext()));
  const having = (flag: string): string[] =>
    described.filter(({ command }) => command.options.some(({ long }) => long === flag)).map(({ name }) => name);
  const own = having('--store-dir').filter(isOfRelay);
  expect(own.length).toBeGreaterThan(12);
  expect(own.filter((name) => !having('--config').includes(name))).toEqual([]);
});

describe('a running relay', () => {
  test('is found by its file, named or in its usual place', async () => {
    const { relay, config, environment, storeDir, folder } = await configured();
    await clientOf(relay, alice).enrol();
    for (const [args, world] of [
      [['--config', config], {}],
      [[], { environment }],
    ] as const) {
      const { stdout } = await runHere(['relay', 'hosts', '--json', ...args], world);
      expect(JSON.parse(stdout)).toMatchObject({ hosts: [{ host: 'alice' }] });
      expect(await runHere(['relay', 'admit', '--list', ...args], world)).toMatchObject({ code: EXIT.ok });
      expect(await runHere(['relay', 'revoke', '--yes', 'nobody', ...args], world)).toMatchObject({
        code: EXIT.notFound,
      });
    }
    const backup = await runHere(['relay', 'backup', join(folder, 'x.backup'), '--json'], { environment });
    expect(JSON.parse(backup.stdout)).toMatchObject({ online: true });
    // A flag wins over the file, and then the file that nobody named is not that of this store.
    const other = join(folder, 'other');
    for (const args of [[], ['--config', config]]) {
      const refused = await runHere(['relay', 'hosts', '--store-dir', other, ...args], { environment });
      expect(refused.code).toBe(EXIT.notFound);
      expect(sentenceOf(refused)).toContain(`there is no store folder at ${other}`);
    }
    await writeFile(config, 'stor_dir = "store"\n');
    const misspelt = await runHere(['relay', 'hosts'], { environment });
    expect(misspelt.code).toBe(EXIT.usage);
    expect(sentenceOf(misspelt)).toMatch(
      /relay\.toml, line 1: there is no setting stor_dir \(did you mean store_dir\?\)/,
    );
    expect(await runHere(['relay', 'hosts', '--store-dir', storeDir], { environment })).toMatchObject({
      code: EXIT.ok,
    });
  });
});

describe('a stopped relay', () => {
  test('is opened with the key and the position that its file names', async () => {
    const { relay, config, environment, folder } = await configured();
    await stopped(relay);
    const rotated = await runHere(['relay', 'rotate-epoch', '--json'], { environment });
    expect(rotated).toMatchObject({ code: EXIT.ok });
    const { epoch } = JSON.parse(rotated.stdout) as { epoch: string };
    // A key in the environment wins over the one in the file.
    const foreign = { ...environment, MAIL_RELAY_KEY: Buffer.alloc(32, 1).toString('base64') };
    const refused = await runHere(['relay', 'rotate-epoch'], { environment: foreign });
    expect(refused.code).toBe(EXIT.refused);
    expect(sentenceOf(refused)).toContain('the relay key is not the one of the store');
    const report = await runHere(['relay', 'log', 'verify', '--config', config]);
    expect(report).toMatchObject({ code: EXIT.ok });
    const backup = join(folder, 'x.backup');
    expect(await runHere(['relay', 'backup', backup], { environment })).toMatchObject({ code: EXIT.ok });
    expect(await runHere(['relay', 'restore', backup, '--yes'], { environment })).toMatchObject({ code: EXIT.ok });
    const again = await relayHere(join(folder, 'store'), ['--config', config]);
    expect(again.start.epoch).not.toBe(epoch);
    expect(again.start.notices).toEqual([]);
  });

  test('of another folder has nothing to do with a file that nobody named', async () => {
    const { environment, folder, relay } = await configured();
    const backup = join(folder, 'x.backup');
    expect(await runHere(['relay', 'backup', backup], { environment })).toMatchObject({ code: EXIT.ok });
    const elsewhere = await runHere(['relay', 'restore', backup, '--yes', '--store-dir', join(folder, 'drill')], {
      environment,
    });
    expect(elsewhere.code).toBe(EXIT.refused);
    expect(sentenceOf(elsewhere)).toContain(`there is no relay.key in ${join(folder, 'drill')}`);
    await stopped(relay);
  });

  test('says of a log that its file names, unless a variable or a flag names another', async () => {
    const { config, environment } = await configured();
    await writeFile(config, 'store_dir = "store"\nlog = "nonsense of the file"\n');
    const taken = async (args: readonly string[], more: Record<string, string> = {}): Promise<string> => {
      const ended = await runHere(['relay', 'cluster', 'take-lead', '--node', 'x', ...args], {
        environment: { ...environment, ...more },
      });
      return sentenceOf(ended);
    };
    expect(await taken([])).toContain('the address of the log cannot be used');
    const variable = { MAIL_RELAY_LOG: 'postgres://127.0.0.1:1/variable' };
    expect(await taken([], variable)).toContain('127.0.0.1:1/variable');
    expect(await taken(['--log', 'postgres://127.0.0.1:1/flag'], variable)).toContain('127.0.0.1:1/flag');
  });
});
