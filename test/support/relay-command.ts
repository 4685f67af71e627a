/**
 * Holds what tests of `poste relay` share: its exit codes, a client of the relay that a command started, how commands
 * end.
 */
import { join } from 'node:path';
import { expect } from 'vitest';
import { RelayClient } from '../../src/host/relay/relay-client.ts';
import type { PublicKey } from '../../src/protocol/public-key.ts';
import type { TestHost } from './hosts.ts';
import type { Ended, StartDocument } from './poste-process.ts';
import { temporaryFolder } from './temporary-folder.ts';

/** As scripts know them: written out, so that a change of them fails. */
export const EXIT = {
  ok: 0,
  failure: 1,
  usage: 2,
  notFound: 3,
  conflict: 4,
  refused: 5,
  temporary: 75,
  interrupted: 130,
};

/** A stack trace would show this. */
export const STACK = /\n\s+at |node:internal/;

/** Returns what a process says beside its log, whose lines may say of an error where it came from. */
export function saidOf({ stderr }: Ended): string {
  return stderr
    .split('\n')
    .filter((line) => !line.startsWith('{"level"'))
    .join('\n');
}

/** A relay that serves, as a process of its own or in this one. */
interface Started {
  process: { signal: (name: 'SIGTERM' | 'SIGINT') => void; ended: () => Promise<Ended> };
  start: StartDocument;
}

export function clientOf({ start }: Pick<Started, 'start'>, host: TestHost): RelayClient {
  const options = { url: start.url, signer: host.signer, hostName: host.name, nowMs: () => Date.now() };
  return new RelayClient(options, start.relay_pubkey as PublicKey);
}

export async function terminate({ process }: Pick<Started, 'process'>): Promise<Ended> {
  process.signal('SIGTERM');
  return process.ended();
}

/** Stops the relay, which must end well. */
export async function stopped(relay: Pick<Started, 'process'>): Promise<void> {
  expect((await terminate(relay)).code).toBe(EXIT.ok);
}

/** One sentence on standard error, and nothing anywhere else. */
export function sentenceOf({ stdout, stderr }: Ended): string {
  expect(stdout).toBe('');
  expect(stderr).toMatch(/^poste: [^\n]+\.\n$/);
  expect(stderr).not.toMatch(STACK);
  return stderr;
}

/** A store folder that is not there yet, and the folder around it. */
export async function newStore(): Promise<{ folder: string; storeDir: string }> {
  const folder = await temporaryFolder();
  return { folder, storeDir: join(folder, 'store') };
}
