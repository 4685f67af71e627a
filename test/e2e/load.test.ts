/**
 * A relay's process in a crowd of strangers: honest hosts are served, no commit is dropped, memory stays bounded, and
 * afterwards every counter is where it was. `npm run torture -- --only load` has 2,000 connections for a minute.
 */
import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import type { PublicKey } from '../../src/protocol/public-key.ts';
import type { RelayClient } from '../../src/host/relay/relay-client.ts';
import { RelayCallFailed } from '../../src/host/relay/relay-request.ts';
import { Crowd } from './crowd.ts';
import { type TestHost, alice, bob, hostNamed } from '../support/hosts.ts';
import { envelopeWire, itemTo } from '../support/mail.ts';
import { relayProcess, run } from '../support/poste-process.ts';
import { clientOf } from '../support/relay-command.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { IS_THOROUGH, TIMES, tried } from '../support/thorough.ts';
import { PATIENCE_MS } from '../support/patience.ts';

/** The torture run has fifteen times as much. */
const IS_LONG = TIMES > 1;
const CONNECTIONS = IS_LONG ? 2_000 : 400;
const CROWDED_MS = IS_LONG ? 60_000 : 8_000;
const QUIET_MS = CROWDED_MS / 6;
const RSS_MAX_MB = 512;
const PULLED_AT_ONCE = 500;
const ITEM_BYTES = 32 << 10;
const WAITING_ITEMS = 100;
/** More than this machine pushes in the time. */
const LIMITS = JSON.stringify({
  max_queue_items: 1_000_000,
  max_sender_items: 1_000_000,
  max_queue_bytes: 1_000_000_000,
  max_sender_bytes: 1_000_000_000,
});
const reader = hostNamed('reader');

interface Pushed {
  seqs: number[];
  tookMs: number[];
  refused: number;
}

/** Pushes one item after another, each until it is accepted. */
async function pushFor(ms: number, client: RelayClient, label: string): Promise<Pushed> {
  const pushed: Pushed = { seqs: [], tookMs: [], refused: 0 };
  const endMs = performance.now() + ms;
  for (let at = 0; performance.now() < endMs; at++) {
    const item = itemTo([bob], `${label}-${at}`);
    const sentMs = performance.now();
    for (let seq: number | undefined; seq === undefined; ) {
      try {
        const { results } = await client.push([item]);
        seq = results[0]?.targets?.[0]?.seq;
        if (seq !== undefined) pushed.seqs.push(seq);
      } catch (error) {
        if (!(error instanceof RelayCallFailed)) throw error;
        pushed.refused++;
      }
    }
    pushed.tookMs.push(performance.now() - sentMs);
  }
  return pushed;
}

function p99({ tookMs }: Pushed): number {
  return tookMs.toSorted((a, b) => a - b)[Math.floor(tookMs.length * 0.99)] ?? Infinity;
}

async function metricsOf(url: string): Promise<ReadonlyMap<string, number>> {
  const text = await (await fetch(`${url}/metrics`)).text();
  return new Map(Array.from(text.matchAll(/^([a-z_]+) (\S+)$/gm), ([, name = '', value]) => [name, Number(value)]));
}

function peakRssMb(pid: number): number {
  return Number(/^VmHWM:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1]) / 1024;
}

describe.runIf(process.platform === 'linux')('a relay in a crowd', () => {
  test.runIf(IS_THOROUGH)(
    `of ${CONNECTIONS} connections serves honest hosts, and is itself again afterwards`,
    async () => {
      const storeDir = await temporaryFolder();
      const room = ['--max-connections', '6000', '--max-connections-per-address', '1000', '--limits', LIMITS];
      const args = ['--admin-listen', '127.0.0.1:0', '--pushes-per-minute', '1000000', ...room];
      const { process: relay, start } = await relayProcess(storeDir, args);
      const clientFor = (host: TestHost): RelayClient => clientOf({ start }, host);
      for (const host of [alice, bob, reader]) await clientFor(host).enrol();
      const large = Array.from({ length: WAITING_ITEMS }, (_none, at) =>
        itemTo([reader], `large-${at}`, envelopeWire(`large-${at}`, ITEM_BYTES)),
      );
      for (let at = 0; at < large.length; at += 10) await clientFor(alice).push(large.slice(at, at + 10));

      const quiet = await pushFor(QUIET_MS, clientFor(alice), 'quiet');
      const adminUrl = start.admin_url ?? '';
      const before = await metricsOf(adminUrl);
      const crowd = await Crowd.of(CONNECTIONS, {
        port: Number(new URL(start.url).port),
        relayPubkey: start.relay_pubkey as PublicKey,
        reader,
      });
      const most = crowd.size;
      const crowded = await pushFor(CROWDED_MS, clientFor(alice), 'crowded');
      await crowd.leave();

      const rssMb = peakRssMb(relay.pid);
      tried(
        `load: ${most} connections for ${CROWDED_MS / 1000} s (${Object.entries(crowd.opened)
          .map(([name, count]) => `${name} ${count}`)
          .join(', ')}); peak RSS ${rssMb.toFixed(0)} MB; ` +
          `${crowded.seqs.length} honest pushes, ${crowded.refused} refused and tried again, ` +
          `p99 ${p99(crowded).toFixed(0)} ms; before ${quiet.seqs.length}, p99 ${p99(quiet).toFixed(0)} ms`,
      );
      expect(most).toBeGreaterThan(CONNECTIONS * 0.8);
      expect(rssMb).toBeLessThan(RSS_MAX_MB);
      expect(crowded.seqs.length).toBeGreaterThan(10);

      // What was accepted is there, each item once, at the seq that was told.
      const seqs: number[] = [];
      for (let after = 0; ; after = seqs.at(-1) ?? 0) {
        const { items } = await clientFor(bob).pull({ after, limit: PULLED_AT_ONCE });
        if (items.length === 0) break;
        seqs.push(...items.map(({ seq }) => seq));
      }
      expect(seqs).toEqual([...quiet.seqs, ...crowded.seqs]);

      // A counter may be higher by this: connections of this test, files of LevelDB's tables, garbage.
      const more = Object.entries({
        poste_relay_open_connections: 2,
        poste_relay_waiting_pulls: 0,
        process_open_fds: 40,
        nodejs_heap_size_used_bytes: 64 << 20,
      });
      await expect
        .poll(
          async () => {
            const after = await metricsOf(adminUrl);
            return more.filter(([name, by]) => !((after.get(name) ?? NaN) <= (before.get(name) ?? NaN) + by));
          },
          { timeout: PATIENCE_MS },
        )
        .toEqual([]);
      expect(relay.stderr).not.toContain('MaxListenersExceededWarning');
      relay.signal('SIGTERM');
      expect((await relay.ended()).code).toBe(0);
      const verified = await run(['relay', 'log', 'verify', '--store-dir', storeDir]);
      expect(verified).toMatchObject({ code: 0 });
    },
  );
});
