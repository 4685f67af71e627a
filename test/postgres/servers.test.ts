/** The servers and links of the tests in this folder do what those tests rest on. */
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { Socket, connect, createServer } from 'node:net';
import { Client } from 'pg';
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest';
import { freePort } from '../support/free-port.ts';
import type { PostgresLink } from '../support/postgres-link.ts';
import { type PostgresServer, type Servers, startPostgres, unprivileged } from '../support/postgres.ts';
import { isGone } from '../support/process-tree.ts';
import { POSTGRES, findProgram, neededProgram } from '../support/programs.ts';
import { lookedAtLater } from '../support/deferred.ts';

interface Pair extends Servers {
  standby: PostgresServer;
  /** The way of the standby to its primary. */
  between: PostgresLink;
  /** A way of clients to the primary. */
  link: PostgresLink;
  takenPort: number;
}

let started: Pair | undefined;

function pair(): Pair {
  if (!started) throw new Error('PostgreSQL was not started');
  return started;
}

beforeAll(async () => {
  const program = findProgram(POSTGRES);
  if (program === undefined) return;
  const other = createServer().listen({ host: '127.0.0.1', port: 0 });
  await once(other, 'listening');
  const { port: takenPort } = other.address() as { port: number };
  const ports = [takenPort];
  const newPort = async (): Promise<number> => ports.shift() ?? freePort();
  const servers = await startPostgres(program, { newPort, settings: { work_mem: "'1MB'" } });
  other.close();
  try {
    const between = await servers.primary.link();
    const standby = await servers.primary.standby('second', between.port);
    await servers.primary.synchronousWith('second');
    await servers.primary.query('CREATE TABLE said (word text)');
    started = { ...servers, standby, between, link: await servers.primary.link(), takenPort };
  } catch (error) {
    await servers.end();
    throw error;
  }
});
afterAll(() => started?.end());
beforeEach(async (context) => {
  neededProgram(context, POSTGRES);
  if (!started) return;
  for (const link of [started.link, started.between]) link.mend();
  await started.standby.receive(true);
  await started.primary.query('DELETE FROM said');
});

/** A connection whose commits wait for the standby. */
async function connected(port: number, socket = new Socket()): Promise<Client> {
  const client = new Client({ connectionString: pair().primary.url('postgres', port), stream: () => socket });
  client.on('error', () => undefined);
  await client.connect();
  onTestFinished(() => client.end());
  return client;
}

async function words(server: PostgresServer): Promise<unknown[]> {
  return (await server.query('SELECT word FROM said ORDER BY word')).map(({ word }) => word);
}

function say(client: Client, word: string): Promise<unknown> {
  const saying = lookedAtLater(client.query({ name: 'say', text: 'INSERT INTO said VALUES ($1)', values: [word] }));
  return saying;
}

async function waitingInSync(): Promise<number> {
  return (await pair().primary.query("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'")).length;
}

test('a server has the settings of its test, and another port when the first was taken', async () => {
  const { primary, standby, takenPort } = pair();
  expect([primary.port, standby.port]).not.toContain(takenPort);
  expect(primary.log).toContain('Address already in use');
  for (const server of [primary, standby]) expect(await server.query('SHOW work_mem')).toEqual([{ work_mem: '1MB' }]);
});

test('a commit waits while the standby receives nothing, or the link to its primary is held', async () => {
  const { primary, standby, between } = pair();
  const client = await connected(primary.port);
  const pauses = [
    [() => standby.receive(false), () => standby.receive(true)],
    [() => between.hold('both'), () => between.release()],
  ] as const;
  for (const [pause, goOn] of pauses) {
    await pause();
    let isOver = false;
    const said = say(client, 'waits').then(() => (isOver = true));
    await expect.poll(waitingInSync).toBe(1);
    // A standby that receives would have confirmed it meanwhile.
    for (let asked = 0; asked < 10; asked++) expect(await waitingInSync()).toBe(1);
    expect(isOver).toBe(false);
    await goOn();
    await said;
  }
});

test('an answer that is lost is to a statement that was done', async () => {
  const { primary, link } = pair();
  const [client, other] = [await connected(link.port), await connected(link.port)];
  link.loseAnswer(/\bsay\b/, 2);
  await say(client, 'heard');
  await client.query('SELECT 1');
  const lost = say(other, 'lost');
  await expect(lost).rejects.toThrow('Connection terminated');
  expect(await words(primary)).toEqual(['heard', 'lost']);
  await expect(client.query('SELECT 1')).rejects.toThrow('Client has encountered a connection error');
  await expect(connected(link.port)).rejects.toThrow('Connection terminated');
  link.mend();
  await say(await connected(link.port), 'mended');
  expect(await words(primary)).toEqual(['heard', 'lost', 'mended']);
});

test('an answer that is lost was whole before', async () => {
  const { primary, link } = pair();
  const holder = await connected(primary.port);
  await holder.query('BEGIN; LOCK TABLE said IN EXCLUSIVE MODE');
  link.loseAnswer(/whole/);
  const client = await connected(link.port);
  let isOver = false;
  // The first rows are more than the server keeps back.
  const lost = client.query("SELECT repeat('x', 100000); INSERT INTO said VALUES ('whole')");
  lost.finally(() => (isOver = true)).catch(() => undefined);
  await expect
    .poll(() => primary.query("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"))
    .toHaveLength(1);
  expect(isOver).toBe(false);
  await holder.query('COMMIT');
  await expect(lost).rejects.toThrow('Connection terminated');
  expect(await words(primary)).toEqual(['whole']);
});

test('a link ends an answer after so many bytes', async () => {
  const { link } = pair();
  for (const bytes of [1, 100]) {
    link.mend();
    link.cutAfterAnswerBytes(bytes);
    const socket = connect({ host: '127.0.0.1', port: link.port });
    const parameters = Buffer.from('user\0postgres\0\0');
    // Version 3.0 of the protocol, as the first message of a client.
    const head = Buffer.from([0, 0, 0, 8 + parameters.length, 0, 3, 0, 0]);
    socket.write(Buffer.concat([head, parameters]));
    const answers = await socket.toArray();
    expect(Buffer.concat(answers)).toHaveLength(bytes);
  }
});

test('a statement that was held comes after its sender is gone', async () => {
  const { primary, link } = pair();
  const socket = new Socket();
  const client = await connected(link.port, socket);
  await say(client, 'early');
  link.hold('requests');
  const late = say(client, 'late');
  await expect.poll(() => link.keptBytes).toBeGreaterThan(0);
  socket.destroy();
  await expect(late).rejects.toThrow('Connection terminated');
  expect(await words(primary)).toEqual(['early']);
  link.release();
  await expect.poll(() => words(primary)).toEqual(['early', 'late']);
});

test('without names no commit waits', async () => {
  const { primary, standby } = pair();
  await standby.receive(false);
  await primary.synchronousWith('');
  await say(await connected(primary.port), 'alone');
  expect(await words(primary)).toEqual(['alone']);
  await standby.receive(true);
  await primary.synchronousWith('second');
});

test('a standby that is promoted has what was committed; the killed primary starts again with it', async () => {
  const { primary, standby } = pair();
  const client = await connected(primary.port);
  await say(client, 'kept');
  // What is busy does not see that its postmaster is gone.
  const busy = lookedAtLater(client.query('DO $$ BEGIN LOOP PERFORM 1; END LOOP; END $$'));
  const isBusy = "SELECT 1 FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'DO %'";
  await expect.poll(() => primary.query(isBusy)).toHaveLength(1);
  await primary.kill();
  await expect(busy).rejects.toThrow('Connection terminated');
  await standby.promote();
  expect(await words(standby)).toEqual(['kept']);
  await standby.query("INSERT INTO said VALUES ('later')");
  await primary.start();
  expect(await words(primary)).toEqual(['kept']);
  const timeline = 'SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) AS timeline';
  expect(await primary.query(timeline)).toEqual([{ timeline: '00000001' }]);
  expect(await standby.query(timeline)).toEqual([{ timeline: '00000002' }]);
});

test('a server that is stopped starts again, also from the middle of its work', async () => {
  const { standby } = pair();
  for (const mode of ['fast', 'immediate'] as const) {
    await standby.stop(mode);
    await standby.stop(mode);
    await standby.start();
    expect(await words(standby)).toContain('kept');
  }
});

test('a postmaster that is killed alone takes with it what it had started, and starts again', async () => {
  const { standby } = pair();
  const client = await connected(standby.port);
  const pids = (await standby.query('SELECT pid FROM pg_stat_activity')).map(({ pid }) => Number(pid));
  const asleep = lookedAtLater(client.query('SELECT pg_sleep(600)'));
  await standby.kill('postmaster');
  await expect(asleep).rejects.toThrow('terminat');
  expect(pids.filter((pid) => !isGone(pid))).toEqual([]);
  await standby.start();
  expect(await words(standby)).toContain('kept');
});

test('at the end no process and no folder is left', async () => {
  const { primary, standby, end } = pair();
  const lasting = "SELECT pid FROM pg_stat_activity WHERE backend_type IN ('checkpointer', 'walwriter')";
  const pids: number[] = [];
  for (const server of [primary, standby]) for (const { pid } of await server.query(lasting)) pids.push(Number(pid));
  expect(pids.map(isGone)).toEqual([false, false, false, false]);
  await end();
  started = undefined;
  expect(pids.every(isGone)).toBe(true);
  expect([primary, standby].map(({ folder }) => existsSync(folder))).toEqual([false, false]);
  await end();
});

test('a server of root runs as another user', () => {
  const nobody = 'nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin';
  const root = 'root:x:0:0:root:/root:/bin/bash';
  const postgres = 'postgres:x:101:104::/var/lib/postgresql:/bin/bash';
  expect(unprivileged([root, nobody, postgres].join('\n'))).toEqual({ uid: 101, gid: 104 });
  expect(unprivileged([root, nobody].join('\n'))).toEqual({ uid: 65_534, gid: 65_534 });
  expect(() => unprivileged(root)).toThrow('add a user postgres');
});
