/** The servers of the tests in this folder begin as a test asks, and leave nothing behind. */
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createServer } from 'node:net';
import { expect, test } from 'vitest';
import { freePort } from '../support/free-port.ts';
import { startPostgres, unprivileged } from '../support/postgres.ts';
import { isGone } from '../support/process-tree.ts';
import { POSTGRES, neededProgram } from '../support/programs.ts';

test('a server takes another port than one that is taken; no process and no folder of it is left', async (context) => {
  const program = neededProgram(context, POSTGRES);
  const other = createServer().listen({ host: '127.0.0.1', port: 0 });
  await once(other, 'listening');
  const { port: takenPort } = other.address() as { port: number };
  const ports = [takenPort];
  const newPort = async (): Promise<number> => ports.shift() ?? freePort();
  const { primary, end } = await startPostgres(program, { newPort, settings: { work_mem: "'1MB'" } });
  other.close();
  try {
    const standby = await primary.standby('second');
    expect([primary.port, standby.port]).not.toContain(takenPort);
    expect(primary.log).toContain('Address already in use');
    const lasting = "SELECT pid FROM pg_stat_activity WHERE backend_type IN ('checkpointer', 'walwriter')";
    const pids: number[] = [];
    for (const server of [primary, standby]) {
      expect(await server.query('SHOW work_mem')).toEqual([{ work_mem: '1MB' }]);
      for (const { pid } of await server.query(lasting)) pids.push(Number(pid));
    }
    // A standby writes no log of its own.
    expect(pids.map(isGone)).toEqual([false, false, false]);
    await end();
    expect(pids.every(isGone)).toBe(true);
    expect([primary, standby].map(({ folder }) => existsSync(folder))).toEqual([false, false]);
  } finally {
    await end();
  }
});

test('a server of root runs as another user', () => {
  const nobody = 'nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin';
  const root = 'root:x:0:0:root:/root:/bin/bash';
  const postgres = 'postgres:x:101:104::/var/lib/postgresql:/bin/bash';
  expect(unprivileged([root, nobody, postgres].join('\n'))).toEqual({ uid: 101, gid: 104 });
  expect(unprivileged([root, nobody].join('\n'))).toEqual({ uid: 65_534, gid: 65_534 });
  expect(() => unprivileged(root)).toThrow('add a user postgres');
});
