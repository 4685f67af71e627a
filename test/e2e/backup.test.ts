/** `poste relay backup -` as a process whose output nobody takes (unit/cli/relay/backup.test.ts: all else). */
import { randomBytes } from 'node:crypto';
import { mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { alice, bob } from '../support/hosts.ts';
import { itemTo } from '../support/mail.ts';
import { poste, relayProcess } from '../support/poste-process.ts';
import { EXIT, clientOf, newStore, stopped } from '../support/relay-command.ts';

describe('relay backup', () => {
  test.each([
    ['a reader that leaves', EXIT.failure, /standard output closed before all of the backup was written \(EPIPE\)/],
    ['ctrl-c while nobody reads', EXIT.interrupted, /nothing was done/],
  ])(
    'to standard output fails after %s, and leaves nothing in the folder for temporary files',
    async (by, code, said) => {
      const { folder, storeDir } = await newStore();
      const relay = await relayProcess(storeDir);
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
