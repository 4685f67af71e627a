/**
 * The shell blocks of docs/cluster-drills.md, typed as they stand there: a pair of servers by hand, of which one dies.
 * Before that, those of docs/cluster.md are typed with a database of that pair.
 */
import { chmod, realpath } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { blocksOf, docPage } from '../support/doc-pages.ts';
import { eventually } from '../support/eventually.ts';
import { freePort } from '../support/free-port.ts';
import { Machine, typeBlock } from '../support/page-machine.ts';
import { PATIENCE_MS } from '../support/patience.ts';
import { POSTGRES, neededProgram } from '../support/programs.ts';
import { atTestEnd } from '../support/test-end.ts';
import { IS_THOROUGH } from '../support/thorough.ts';

const BLOCKS = ['docs/cluster-drills.md', 'docs/cluster.md']
  .flatMap((path) => blocksOf(docPage(path)))
  .filter(({ language }) => language === 'sh');
/** PostgreSQL does not run as root, and this is the user of Debian's package. */
const AS_ITS_USER = process.getuid?.() === 0 ? 'setpriv --reuid=postgres --regid=postgres --clear-groups ' : '';

/** Types the blocks below a heading, and returns what they print. */
async function type(heading: string, machine: Machine): Promise<string> {
  const blocks = BLOCKS.filter((block) => block.heading === heading);
  expect(blocks).not.toEqual([]);
  let printed = '';
  for (const block of blocks) printed += await typeBlock(block, () => machine);
  return printed;
}

/** A machine with the key of a relay. A database of the pair stands for the one that docs/cluster.md names. */
async function clusterMachine(pair: Machine, database: string): Promise<Machine> {
  const psql = 'psql -h 127.0.0.1 -p 5541 -U postgres';
  await pair.typed(pair.here(`${psql} -c "CREATE DATABASE ${database}"`));
  const machine = await Machine.make();
  const [both, one] = ['127.0.0.1:5541,127.0.0.1:5542', '127.0.0.1:5541'].map((address) => pair.here(address));
  machine.stands.push(
    ['relay@db1.example,db2.example/mail', `postgres@${both}/${database}`],
    [/(?:relay|owner)@db\.example\/mail/g, `postgres@${one}/${database}`],
    // There is no terminal to ask on.
    ['poste relay cluster withdraw', 'poste relay cluster withdraw --yes'],
    ['/var/lib/poste', join(machine.folder, 'store')],
  );
  // The servers ask for no password.
  await machine.typed('umask 077', 'poste relay keygen > relay.key', 'echo none | tee owner.password > log.password');
  return machine;
}

test.runIf(IS_THOROUGH)(
  'a pair by hand: the standby takes over, and the old primary becomes its standby',
  async (context) => {
    const bin = dirname(await realpath(neededProgram(context, POSTGRES)));
    const machine = await Machine.make();
    for (const folder of [machine.folder, dirname(machine.folder)]) await chmod(folder, 0o777);
    for (const name of ['initdb', 'pg_ctl', 'psql', 'pg_basebackup', 'pg_rewind']) {
      await machine.program(`bin/${name}`, `exec ${AS_ITS_USER}${join(bin, name)} "$@"`);
    }
    for (const port of ['5541', '5542']) machine.stands.push([port, String(await freePort())]);
    atTestEnd(async () => {
      await machine.type('for db in db1 db2; do pg_ctl -D $db -m immediate -w stop || true; done');
    });
    await machine.typed('umask 077', 'poste relay keygen > relay.key');
    const standby = (port: string) =>
      machine.typed(
        machine.here(`psql -h 127.0.0.1 -p ${port} -U postgres -Atc "SELECT sync_state FROM pg_stat_replication"`),
      );
    expect(await type('A pair by hand', machine)).toMatch(/ db2 +\| streaming \| sync/);
    const anew = await clusterMachine(machine, 'anew');
    expect(await type('Set up', anew)).toContain('GRANT');
    const moved = await clusterMachine(machine, 'moved');
    await (await moved.serve('poste relay serve --store-dir store --key-file relay.key')).end();
    expect(await type('Move a relay into PostgreSQL, and back', moved)).toContain('store');
    for (const { left } of [anew, moved]) await left.at(-1)?.end();
    await machine.typed('pg_ctl -D db1 -m immediate -w stop');
    expect(await type('The primary dies', machine)).toMatch(/ db1\n/);
    await type('The old primary becomes the standby', machine);
    expect(
      await eventually(
        () => standby('5542'),
        (state) => state === 'sync\n',
      ),
    ).toBe('sync\n');
  },
  4 * PATIENCE_MS,
);
