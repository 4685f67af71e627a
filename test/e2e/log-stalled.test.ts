/** A daemon and a relay whose log cannot be written: a full disk, and a pipe that nobody reads. */
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { type PosteProcess, type ProcessOptions, poste, relayProcess } from '../support/poste-process.ts';
import { posteHome } from '../support/poste-home.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const FULL: ProcessOptions = { under: ['/bin/sh', '-c', 'exec "$@" 2>/dev/full', 'sh'] };
/** Their lines are more than a pipe holds. */
const REQUESTS = 1000;

async function answersTo(url: string, requests: number): Promise<Set<number>> {
  const statuses = new Set<number>();
  const ask = (): Promise<Response> => fetch(`${url}/v2/relay/none?${'x'.repeat(200)}`);
  for (let at = 0; at < requests; at += 50) {
    // A connection that was idle for 12 s may end just as it is used again, on a machine that is busy.
    const some = Array.from({ length: 50 }, () => ask().catch(ask));
    for (const { status } of await Promise.all(some)) statuses.add(status);
  }
  return statuses;
}

async function stopped(process: PosteProcess): Promise<void> {
  process.signal('SIGTERM');
  expect(await process.ended()).toMatchObject({ code: 0, signal: null });
}

test('a relay whose log is on a full disk serves, and stops when it is told', async () => {
  const store = join(await temporaryFolder(), 'store');
  const { process, start } = await relayProcess(
    store,
    ['--log-level', 'debug', '--admin-listen', '127.0.0.1:0'],
    {},
    FULL,
  );
  expect([...(await answersTo(start.url, 100))]).toEqual([404]);
  const metrics = await (await fetch(`${start.admin_url}/metrics`)).text();
  expect(metrics).toMatch(/^poste_relay_log_lines_lost_total [1-9]\d{2,}$/m);
  await stopped(process);
}, 180_000);

test('a relay whose log nobody reads serves, and stops when it is told', async () => {
  const store = join(await temporaryFolder(), 'store');
  const { process, start } = await relayProcess(store, ['--log-level', 'debug']);
  process.stallLog();
  expect([...(await answersTo(start.url, REQUESTS))]).toEqual([404]);
  process.signal('SIGTERM');
  await expect.poll(() => process.isRunning, { timeout: 60_000 }).toBe(false);
  process.readLog();
  expect(await process.ended()).toMatchObject({ code: 0, signal: null });
}, 180_000);

test('a daemon whose log is on a full disk serves, and stops when it is told', async () => {
  const home = await posteHome();
  const daemon = poste(['daemon', '--json', '--log-level', 'debug'], home.environment, FULL);
  await daemon.printed('}\n');
  // It says on its log that it listens for the other host.
  await home.json('peer', 'invite', '--fingerprint', 'SHA256:YGR2P3VavhgDVqsg8srBFpjJ/ubLObVE88XbdF2hP3Y');
  const status = await home.json<{ host: string; log_lines_lost: number }>('status');
  expect(status).toMatchObject({ host: 'here' });
  expect(status.log_lines_lost).toBeGreaterThan(0);
  await stopped(daemon);
}, 180_000);
