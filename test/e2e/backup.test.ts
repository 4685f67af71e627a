/** `poste relay backup -` as a process whose output nobody takes (unit/cli/relay/backup.test.ts: all else). */
import { randomBytes } from 'node:crypto';
import { mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { RelayClient } from '../../src/host/relay/relay-client.ts';
import type { PublicKey } from '../../src/protocol/public-key.ts';
import { type TestHost, alice, bob } from '../support/hosts.ts';
import { itemTo } from '../support/mail.ts';
import { type Ended, type RelayProcess, poste, relayProcess, run } from '../support/poste-process.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const EXIT = { ok: 0, failure: 1, usage: 2, notFound: 3, conflict: 4, refused: 5, temporary: 75, interrupted: 130 };

function clientOf({ start }: RelayProcess, host: TestHost): RelayClient {
  const options = { url: start.url, signer: host.signer, hostName: host.name, nowMs: () => Date.now() };
  return new RelayClient(options, start.relay_pubkey as PublicKey);
}

async function stopped(relay: RelayProcess): Promise<void> {
  relay.process.signal('SIGTERM');
  expect((await relay.process.ended()).code).toBe(EXIT.ok);
}

interface Store {
  storeDir: string;
  folder: string;
  /** `poste relay <args> --store-dir <its own>`. */
  command: (...args: string[]) => Promise<Ended>;
  start: (...args: string[]) => Promise<RelayProcess>;
}

async function store(): Promise<Store> {
  const folder = await temporaryFolder();
  const storeDir = join(folder, 'store');
  return {
    storeDir,
    folder,
    command: (...words) => run(['relay', ...words, '--store-dir', storeDir]),
    start: (...args) => relayProcess(storeDir, args),
  };
}

describe('relay backup', () => {
  test.each([
    ['a reader that leaves', EXIT.failure, /standard output closed before all of the backup was written \(EPIPE\)/],
    ['ctrl-c while nobody reads', EXIT.interrupted, /nothing was done/],
  ])(
    'to standard output fails after %s, and leaves nothing in the folder for temporary files',
    async (by, code, said) => {
      const { folder, storeDir, start } = await store();
      const relay = await start();
      for (const host of [alice, bob]) await clientOf(relay, host).enrol();
      // More than a pipe takes, and than any compression makes small.
      const items = Array.from({ length: 8 }, (_none, at) => {
        const [id, ct] = [`m${at}`, randomBytes(200_000).toString('base64')];
        return itemTo([bob], id, Buffer.from(JSON.stringify({ id, sealed: { alg: 'test', ct, enc: 'e' }, v: 1 })));
      });
      const pushed = await clientOf(relay, alice).push(items);
      expect(pushed.results.map(({ status }) => status)).toEqual(items.map(() => 'accepted'));
      await stopped(relay);
      const scratch = join(folder, 'tmp');
      await mkdir(scratch);
      const backup = poste(['relay', 'backup', '-', '--store-dir', storeDir], { TMPDIR: scratch });
      await backup.printed('poste-backup 1');
      if (by === 'a reader that leaves') backup.leave();
      else {
        backup.stall();
        backup.signal('SIGINT');
      }
      const ended = await backup.ended();
      expect([ended.code, ended.stderr]).toEqual([code, expect.stringMatching(said)]);
      expect(ended.stderr).toMatch(/^poste: [^\n]+\.\n$/);
      expect(await readdir(scratch)).toEqual([]);
    },
  );
});
