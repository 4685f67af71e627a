/** SIGTERM while the daemon is asked: what was answered is kept, what was not says so, and it ends within 25 s. */
import { randomBytes } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { CallFailed } from '../../src/host/api/client.ts';
import type { SendResult } from '../../src/host/contract/mail.ts';
import { KilledDaemon } from '../support/killed-daemon.ts';

const STOP_MS = 25_000;
/** Nothing was done, or it is not known whether. A request that came while the daemon stopped gets `UNAVAILABLE`. */
const ENDED_CODES: ReadonlySet<string> = new Set(['DAEMON_NOT_RUNNING', 'DAEMON_GONE', 'UNAVAILABLE']);

function isEnd(error: unknown): boolean {
  return error instanceof CallFailed && ENDED_CODES.has(error.code);
}

/** A daemon with the agent eve. */
async function daemonWithEve(): Promise<KilledDaemon> {
  const daemon = await KilledDaemon.begin('here');
  await daemon.answered((client) => client.call('add-agent', { name: 'eve' }));
  return daemon;
}

function send({ client }: KilledDaemon, subject: string, body = 'b'): Promise<SendResult> {
  return client.call('mail-send', { to: ['eve'], subject, body }, { as: 'eve' });
}

test('requests under way are answered, or fail with a code; what was answered is there afterwards', async () => {
  const daemon = await daemonWithEve();
  const sends = Array.from({ length: 60 }, (_, at) => send(daemon, `s${at}`));
  const outcomes = Promise.allSettled(sends);
  await Promise.race(sends);
  const { code, stderr } = await daemon.stop();
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  const settled = await outcomes;
  const answered = settled.flatMap((one) => (one.status === 'fulfilled' ? [one.value.message_id] : []));
  const failures = settled.flatMap((one) => (one.status === 'rejected' ? [one.reason as unknown] : []));
  expect(failures.filter((error) => !isEnd(error))).toEqual([]);
  expect(answered.length).toBeGreaterThan(0);
  daemon.killAndBegin();
  const list = await daemon.answered((client) => client.call('mail-inbox', { limit: 100 }, { as: 'eve' }));
  const held = new Set(list.summaries?.map(({ message_id }) => message_id));
  expect(answered.filter((id) => !held.has(id))).toEqual([]);
});

test('a backup that is being read ends as half a one, also when its reader has stalled', async () => {
  const daemon = await daemonWithEve();
  // More than sockets take, and than any compression makes small.
  for (let at = 0; at < 16; at++) await send(daemon, `s${at}`, randomBytes(150_000).toString('base64'));
  const chunks = daemon.client.backup(new AbortController().signal);
  expect((await chunks.next()).value?.toString('latin1')).toMatch(/^poste-host-backup 1\n/);
  const stoppedAtMs = performance.now();
  const { code, stderr } = await daemon.stop();
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect(performance.now() - stoppedAtMs).toBeLessThan(STOP_MS);
  const rest = (async () => {
    for await (const _ of chunks);
  })();
  await expect(rest).rejects.toMatchObject({ code: 'DAEMON_GONE' });
  expect((await readdir(daemon.folder)).toSorted()).toEqual(['config.toml', 'store']);
});
