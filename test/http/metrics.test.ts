/** `/metrics` of a whole relay: its names, what it counts, and that no label says who. */
import '../support/problems.ts';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { ControlClient } from '../../src/cli/relay/control-client.ts';
import { checkImage } from '../../src/lib/image.ts';
import { BACKUP_KIND } from '../../src/relay/image/backup.ts';
import { ANY_ADAPTER } from '../support/adapters.ts';
import { type HttpRelay, relayForTest } from '../support/http-relay.ts';
import { alice, bob, carol, hostNamed } from '../support/hosts.ts';
import { itemTo } from '../support/mail.ts';
import { rawRequest, requestBytes } from '../support/raw-http.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const LAST_BACKUP = 'poste_relay_last_backup_timestamp_seconds';

/** By name and labels, as they are written. */
type Samples = ReadonlyMap<string, number>;

describe.each(ANY_ADAPTER)('%s', (adapter) => {
  const started = (): Promise<HttpRelay> => relayForTest(adapter, { adminListen: { host: '127.0.0.1', port: 0 } });

  test('it counts what happened to items, requests and batches', async () => {
    const relay = await started();
    await relay.enrol(alice, bob, carol);
    const push = [itemTo([bob], 'one'), itemTo([bob, carol], 'two'), itemTo([hostNamed('nobody')], 'three')];
    await relay.client(alice).push(push);
    await relay.client(alice).push(push);
    await relay.client(alice).request('POST', '/v2/relay/items', { items: [{}] });
    const { epoch, items } = await relay.client(bob).pull();
    await relay.client(bob).ack(epoch, items[0]?.seq ?? 0);
    await relay.relay.engine.rotateEpoch({
      type: 'RotateEpoch',
      epoch: relay.epoch as never,
      reason: 'reset',
      nowMs: 1,
    });
    for (const path of ['/nothing', '/secret/bob']) await rawRequest(relay.port, requestBytes('PUT', path));
    relay.clock.move(7000);
    await sampled(relay);
    const metrics = await scrape(relay);
    const position = await relay.lastLsn();
    const expected: Record<string, number> = {
      poste_relay_items_accepted_total: 2,
      poste_relay_items_duplicate_total: 2,
      'poste_relay_items_rejected_total{code="unknown target"}': 2,
      'poste_relay_items_rejected_total{code="malformed"}': 1,
      poste_relay_items_acked_total: 1,
      'poste_relay_epoch_rotations_total{reason="reset"}': 1,
      'poste_relay_requests_refused_total{code="NOT_FOUND"}': 2,
      'poste_relay_http_request_duration_seconds_count{method="other",route="none",code="404"}': 2,
      'poste_relay_http_request_duration_seconds_count{method="POST",route="/v2/relay/items",code="200"}': 3,
      poste_relay_queue_items: 2,
      poste_relay_queue_bytes: relay.relay.engine.waiting.bytes,
      poste_relay_oldest_item_age_seconds: 7,
      poste_relay_log_position: position,
      poste_relay_log_first_position: 1,
      poste_relay_hosts: 3,
      poste_relay_waiting_pulls: 0,
      poste_relay_broken_queues: 0,
      poste_relay_damaged_rows: 0,
      poste_relay_rows_check_found: 0,
      poste_relay_disk_low: 0,
      poste_relay_ready: 1,
      [`poste_relay_build_info{version="0.0.0-test",node="${process.versions.node}"}`]: 1,
    };
    expect(Object.fromEntries(Object.keys(expected).map((name) => [name, metrics.get(name)]))).toEqual(expected);
    expect(metrics.get('poste_relay_store_commit_duration_seconds_count')).toBeGreaterThan(5);
    expect(metrics.get('poste_relay_store_commit_events_sum')).toBeLessThan(position);
    expect(metrics.get('poste_relay_disk_free_bytes')).toBeGreaterThan(0);
    expect(metrics.get('process_resident_memory_bytes')).toBeGreaterThan(0);
  });

  test('it counts the epoch that a start began', async () => {
    const relay = await started();
    await relay.stop();
    relay.clock.move(11 * 60_000);
    await relay.start();
    expect((await scrape(relay)).get('poste_relay_epoch_rotations_total{reason="stale-heartbeat"}')).toBe(1);
    await relay.restart();
    expect((await scrapeText(relay)).match(/^poste_relay_epoch_rotations_total/m)).toBeNull();
  });

  test('it says when the last good backup was taken: not without a plan, until one is asked for', async () => {
    const relay = await started();
    expect((await scrape(relay)).has(LAST_BACKUP)).toBe(false);
    const { chunks } = await new ControlClient(relay.folder).stream('/v1/backup', new AbortController().signal);
    await checkImage(chunks, BACKUP_KIND);
    const takenS = relay.clock.nowMs() / 1000;
    await expect.poll(async () => (await scrape(relay)).get(LAST_BACKUP), { interval: 5 }).toBe(takenS);
  });

  test('it tells the time of the last good backup of a plan, after a restart too, and 0 without one', async () => {
    const relay = await started();
    const folder = await temporaryFolder();
    const backups = { folder, keep: 3, everyMs: 86_400_000 };
    const lastBackup = async () => (await scrape(relay)).get(LAST_BACKUP);
    await relay.restart({ backups: { ...backups, folder: join(folder, 'missing') } });
    expect(await lastBackup()).toBe(0);
    const takenS = relay.clock.nowMs() / 1000;
    await relay.restart({ backups });
    await expect.poll(lastBackup, { interval: 5 }).toBe(takenS);
    relay.clock.move(60_000);
    await relay.restart({ backups });
    await expect.poll(lastBackup, { interval: 5 }).toBe(takenS);
    expect(await readdir(folder)).toHaveLength(1);
  });

  test('no label and no name says which host, key, account or path', async () => {
    const relay = await started();
    await relay.enrol(alice, bob);
    await relay.client(alice).push([itemTo([bob], 'an-item')]);
    await rawRequest(relay.port, requestBytes('GET', `/v2/relay/enc-key?key=${encodeURIComponent(bob.key)}`));
    await rawRequest(relay.port, requestBytes('GET', `/v9/${bob.name}`));
    const text = await scrapeText(relay);
    for (const word of [alice.key, bob.key, 'alice', 'bob', 'an-item', 'enc-key?', 'v9'])
      expect(text).not.toContain(word);
    const labels = new Set(Array.from(text.matchAll(/[{,]([a-z_]+)="/g), ([, name = '']) => name));
    const ofTheProcess = new Set(['kind', 'type', 'space', 'major', 'minor', 'patch', 'version', 'node', 'le']);
    expect([...labels].filter((name) => !ofTheProcess.has(name)).toSorted()).toEqual(['code', 'method', 'route']);
  });

  test('the public port has no /metrics; while nothing waits the oldest item has no age', async () => {
    const relay = await started();
    expect(await rawRequest(relay.port, requestBytes('GET', '/metrics'))).toBeProblem('NOT_FOUND');
    await sampled(relay);
    expect((await scrape(relay)).get('poste_relay_oldest_item_age_seconds')).toBe(0);
  });
});

/** The age of the oldest item is asked for on a timer, and answered soon after. */
async function sampled(relay: HttpRelay): Promise<void> {
  relay.timers.pass(5000);
  await relay.relay.engine.oldestWaiting();
  relay.timers.pass(5000);
  await relay.relay.engine.oldestWaiting();
}

async function scrapeText(relay: HttpRelay): Promise<string> {
  const response = await rawRequest(relay.relay.adminPort ?? 0, requestBytes('GET', '/metrics', { host: 'localhost' }));
  expect([response.status, response.headers.get('content-type')]).toEqual([
    200,
    'text/plain; version=0.0.4; charset=utf-8',
  ]);
  return response.body.toString();
}

async function scrape(relay: HttpRelay): Promise<Samples> {
  const lines = (await scrapeText(relay)).split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  return new Map(
    lines.map((line) => {
      const end = line.lastIndexOf(' ');
      return [line.slice(0, end), Number(line.slice(end + 1))];
    }),
  );
}
