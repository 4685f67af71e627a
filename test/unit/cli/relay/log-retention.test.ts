/** A real relay that prunes its log, and the commands that look into what is left, into backups and into archives. */
import { hash } from 'node:crypto';
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { DAY_MS } from '../../../../src/protocol/limits.ts';
import { displayFingerprint } from '../../../../src/protocol/public-key.ts';
import { RELAY_KEY_FILE } from '../../../../src/relay/store/relay-key.ts';
import { relay as relayHost } from '../../../support/hosts.ts';
import { liveALife } from '../../../support/life.ts';
import { relayHere, runHere } from '../../../support/command-run.ts';
import type { Ended } from '../../../support/poste-process.ts';
import { EXIT } from '../../../support/relay-command.ts';
import { temporaryFolder } from '../../../support/temporary-folder.ts';
import { TestClock } from '../../../support/test-clock.ts';
import { TestRelay } from '../../../support/test-relay.ts';

/** A store whose relay lived long ago and beat until now. */
async function oldStore(): Promise<string> {
  const folder = join(await temporaryFolder(), 'store');
  const clock = new TestClock(Date.now() - 200 * DAY_MS);
  const relay = new TestRelay(folder, { clock });
  await relay.open();
  await liveALife(relay.engine, clock);
  clock.nowMs = Date.now();
  await relay.engine.heartbeat(clock.nowMs);
  await relay.close();
  // The seed of a test host is the hash of its name.
  const seed = hash('sha256', 'relay', 'buffer');
  await writeFile(join(folder, RELAY_KEY_FILE), `${seed.toString('base64')}\n`, { mode: 0o600 });
  return folder;
}

async function metric(adminUrl: string, name: string): Promise<number> {
  const text = await (await fetch(`${adminUrl}/metrics`)).text();
  return Number(new RegExp(`^${name} (?<value>.*)$`, 'm').exec(text)?.groups?.['value']);
}

function jsonOf({ code, stdout }: Ended): Record<string, unknown> {
  expect(code).toBe(EXIT.ok);
  return JSON.parse(stdout) as Record<string, unknown>;
}

function log(...args: string[]): Promise<Ended> {
  return runHere(['relay', 'log', ...args]);
}

describe('relay serve --log-keep-days', () => {
  test('prunes what is older into an archive, and everything that looks into the log says so', async () => {
    const folder = await oldStore();
    const archives = join(await temporaryFolder(), 'archives');
    const flags = ['--log-keep-days', '1', '--log-archive-dir', archives, '--admin-listen', '127.0.0.1:0'];
    const { process: relay, start } = await relayHere(folder, [...flags, '--log-level', 'info']);
    expect(start.notices).toEqual([]);
    const first = () => metric(start.admin_url ?? '', 'poste_relay_log_first_position');
    await expect.poll(first, { interval: 200 }).toBeGreaterThan(1);
    const firstLsn = await first();
    await expect.poll(() => relay.stderr).toContain('old log records were pruned');
    expect(relay.stderr).toContain('the rows were kept');
    relay.signal('SIGTERM');
    expect((await relay.ended()).code).toBe(EXIT.ok);
    const [name = ''] = await readdir(archives);
    expect(name).toMatch(/^poste-[0-9a-f]{12}-log-000000000001-[0-9]{12}\.archive$/);
    const archive = ['--archive', join(archives, name)];
    const store = ['--store-dir', folder];

    expect(jsonOf(await log('verify', ...store, '--json'))).toMatchObject({
      verified: true,
      pruned_through: firstLsn - 1,
      checkpoints: 1,
    });
    expect(jsonOf(await log('verify', ...archive, '--json'))).toMatchObject({ verified: true, first_lsn: 1 });
    expect((await log('verify', ...archive)).stdout).toContain(displayFingerprint(relayHost.key));
    const shown = await log('show', ...store, '--limit', '1');
    expect([shown.code, shown.stderr]).toEqual([EXIT.ok, expect.stringContaining('the log was pruned through record')]);
    expect((await log('show', ...archive, '--limit', '1')).stdout).toContain('RelayInitialised');
    expect(await log('trace', 'm1', ...store)).toMatchObject({
      code: EXIT.notFound,
      stderr: expect.stringContaining('the log was pruned through record') as string,
    });
    expect((await log('trace', 'm1', ...archive)).code).toBe(EXIT.ok);
    for (const place of [
      ['--lsn', '2'],
      ['--time', '2000-01-01'],
    ]) {
      const ended = await log('at', ...store, ...place);
      expect([ended.code, ended.stderr]).toEqual([
        EXIT.notFound,
        expect.stringContaining('the log was pruned through'),
      ]);
    }
    expect((await log('rebuild', ...store, '--yes')).code).toBe(EXIT.ok);
    expect(jsonOf(await log('verify', ...store, '--json'))).toMatchObject({ verified: true });
  });

  test('a folder for archives that cannot be used is said before the start', async () => {
    const folder = await temporaryFolder();
    await writeFile(join(folder, 'file'), '');
    const args = ['--log-keep-days', '1', '--log-archive-dir', join(folder, 'file', 'x')];
    const ended = await runHere(['relay', 'serve', '--store-dir', join(folder, 'store'), ...args]);
    expect([ended.code, ended.stderr]).toEqual([EXIT.failure, expect.stringContaining('cannot be used for archives')]);
  });
});

describe('relay log archive', () => {
  test('writes the records of a stopped relay, never over another file, and refuses what is not kept', async () => {
    const folder = await oldStore();
    const places = await temporaryFolder();
    const file = join(places, 'log.archive');
    const archive = (...args: string[]): Promise<Ended> =>
      runHere(['relay', 'log', 'archive', ...args, '--store-dir', folder]);
    const written = jsonOf(await archive(file, '--through', '20', '--json'));
    expect(written).toMatchObject({ file, records: 20, first_lsn: 1, last_lsn: 20, relay_pubkey: relayHost.key });
    expect(await archive(file)).toMatchObject({ code: EXIT.conflict });
    expect((await archive(file, '--force', '--from', '5')).stdout).toMatch(/^The archive is complete\.\n.*from 5 to /s);
    const shown = await runHere(['relay', 'log', 'show', '--archive', file, '--json', '--limit', '1']);
    expect(JSON.parse(shown.stdout)).toMatchObject({ lsn: 5 });
    for (const args of [
      ['--through', '999'],
      ['--from', '999'],
    ])
      expect(await archive(join(places, 'none'), ...args)).toMatchObject({ code: EXIT.notFound });
    expect(await archive(join(places, 'none'), '--from', '5', '--through', '4')).toMatchObject({ code: EXIT.usage });
    expect((await runHere(['relay', 'log', 'archive'])).stderr).toMatch(/missing required argument 'file'/);
    await mkdir(join(places, 'folder'));
    expect((await archive(join(places, 'folder'), '--force')).code).not.toBe(EXIT.ok);
    expect((await readdir(places)).toSorted()).toEqual(['folder', 'log.archive']);
    const damaged = await runHere(['relay', 'log', 'show', '--archive', join(folder, RELAY_KEY_FILE)]);
    expect([damaged.code, damaged.stderr]).toEqual([
      EXIT.failure,
      expect.stringContaining('it is no archive of a log'),
    ]);
    const both = await runHere(['relay', 'log', 'show', '--archive', file, '--backup', file]);
    expect(both.code).toBe(EXIT.usage);
  });
});
