/** The commands that move a log into a real PostgreSQL and back, and what serves meanwhile. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { relayHere, runHere } from '../support/command-run.ts';
import { alice, bob } from '../support/hosts.ts';
import { itemTo } from '../support/mail.ts';
import { startPostgres } from '../support/postgres.ts';
import { POSTGRES, neededProgram } from '../support/programs.ts';
import { clientOf } from '../support/relay-command.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { atTestEnd } from '../support/test-end.ts';

test('a log moves into PostgreSQL with its mail, and back', { timeout: 120_000 }, async (context) => {
  const { primary, end } = await startPostgres(neededProgram(context, POSTGRES));
  atTestEnd(end);
  const storeDir = join(await temporaryFolder(), 'store');
  const log = ['--log', primary.url(), '--durability', 'single'];
  const command = (name: string, ...args: string[]): ReturnType<typeof runHere> =>
    runHere(['relay', 'cluster', name, ...log, '--store-dir', storeDir, '--json', ...args]);
  const keyed = ['--key-file', join(storeDir, 'relay.key')];

  const alone = await relayHere(storeDir);
  for (const host of [alice, bob]) await clientOf(alone, host).enrol();
  const items = [itemTo([bob], 'one'), itemTo([bob], 'two')];
  const { results, epoch } = await clientOf(alone, alice).push(items);
  expect(await command('publish')).toMatchObject({ code: 4 });
  await alone.process.stop();

  const published = await command('publish');
  expect(published).toMatchObject({ code: 0 });
  expect(JSON.parse(published.stdout)).toMatchObject({
    items: 2,
    damaged_items: 0,
    log: expect.stringContaining('127.0.0.1') as string,
  });
  const refused = await runHere(['relay', 'serve', '--store-dir', storeDir]);
  expect(refused).toMatchObject({ code: 5 });
  expect(refused.stderr).toContain(`kept at 127.0.0.1:${primary.port}/postgres`);
  expect(JSON.parse((await command('publish')).stdout)).toMatchObject({ items: null });
  expect((await command('publish', '--abort')).stderr).toContain('nothing to give up');

  const shared = await relayHere(storeDir, [...log, ...keyed]);
  expect(await clientOf(shared, alice).push(items)).toEqual({
    epoch,
    results: results.map(({ status: _status, ...one }) => Object.assign(one, { status: 'duplicate' })),
  });
  await shared.process.stop();
  const backup = join(storeDir, '../relay.backup');
  expect(await runHere(['relay', 'backup', backup, '--store-dir', storeDir])).toMatchObject({ code: 0 });

  expect(await command('withdraw')).toMatchObject({ code: 2 });
  expect(await command('withdraw', '--yes')).toMatchObject({ code: 0 });
  const gone = await runHere(['relay', 'serve', '--store-dir', join(storeDir, '../other'), ...log, ...keyed]);
  expect(gone).toMatchObject({ code: 5 });
  expect(gone.stderr).toContain('the log went to the store of node');
  expect(JSON.parse((await command('withdraw')).stdout)).toMatchObject({ was_done: true });
  const again = await relayHere(storeDir);
  const page = await clientOf(again, bob).pull();
  expect([page.epoch, page.items.map(({ item_id: id }) => id)]).toEqual([epoch, ['one', 'two']]);
  await again.process.stop();

  // A backup of the shared log becomes the store, and goes back as another log.
  expect(await runHere(['relay', 'restore', backup, '--store-dir', storeDir, '--yes'])).toMatchObject({ code: 0 });
  const other = JSON.parse((await command('publish')).stdout) as object;
  expect(other).toMatchObject({ items: 2 });
  const restored = await relayHere(storeDir, [...log, ...keyed]);
  expect(restored.start.epoch).not.toBe(epoch);
  expect((await clientOf(restored, bob).pull()).items).toHaveLength(2);
});

test('a log moves out of the hands of a relay that serves, with all that was answered', {
  timeout: 120_000,
}, async (context) => {
  const { primary, end } = await startPostgres(neededProgram(context, POSTGRES));
  atTestEnd(end);
  const folder = await temporaryFolder();
  const key = join(folder, 'relay.key');
  await writeFile(key, (await runHere(['relay', 'keygen'])).stdout, { mode: 0o600 });
  const log = ['--log', primary.url(), '--durability', 'single', '--key-file', key];
  const [leading, own] = [join(folder, 'leading'), join(folder, 'own')];
  const shared = await relayHere(leading, log);
  for (const host of [alice, bob]) await clientOf(shared, host).enrol();

  const accepted: string[] = [];
  const pushing = (async () => {
    for (let at = 0; ; at++) {
      const { results } = await clientOf(shared, alice).push([itemTo([bob], `item-${at}`)]);
      accepted.push(...results.flatMap(({ item_id: id, status }) => (status === 'accepted' ? (id ?? []) : [])));
    }
  })().catch((error: unknown) => error);
  await expect.poll(() => accepted.length).toBeGreaterThan(3);
  expect(await runHere(['relay', 'cluster', 'withdraw', ...log, '--store-dir', own, '--yes'])).toMatchObject({
    code: 0,
  });
  expect(await pushing).toBeInstanceOf(Error);
  const { code, stderr } = await shared.process.ended();
  expect(code).toBe(5);
  expect(stderr).toContain('the log went to the store of node');

  const alone = await relayHere(own, ['--key-file', key]);
  expect(alone.start.epoch).toBe(shared.start.epoch);
  const waiting: string[] = [];
  for (let after = 0, more = true; more; ) {
    const page = await clientOf(alone, bob).pull({ after });
    waiting.push(...page.items.map(({ item_id: id }) => id));
    after = page.items.at(-1)?.seq ?? after;
    more = page.items.length > 0;
  }
  expect(waiting).toEqual(expect.arrayContaining(accepted));
});
