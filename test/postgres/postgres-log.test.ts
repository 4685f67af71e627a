/** The shared log in PostgreSQL: what every shared log promises, and what real servers do to it. */
import { randomUUID } from 'node:crypto';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Client } from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { relayFailure } from '../../src/cli/relay/failure.ts';
import { sharedLogOf } from '../../src/cli/relay/shared-log-options.ts';
import { logEndpoints } from '../../src/relay/shared-log/log-address.ts';
import type { Durability } from '../../src/relay/shared-log/durability.ts';
import { type LogInspection, inspectLog } from '../../src/relay/shared-log/inspect-log.ts';
import { APPEND, SESSION } from '../../src/relay/shared-log/pg-statements.ts';
import { PostgresLog } from '../../src/relay/shared-log/postgres-log.ts';
import {
  Fenced,
  LogRefused,
  LogUnreachable,
  NotWritten,
  OutcomeUnknown,
  type SharedLog,
  ServerRefused,
  type Tenure,
  isPassing,
} from '../../src/relay/shared-log/shared-log.ts';
import { type PostgresServer, type Servers, startPostgres } from '../support/postgres.ts';
import { commandContext } from '../support/command-run.ts';
import { run } from '../support/poste-process.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { POSTGRES, findProgram, neededProgram } from '../support/programs.ts';
import { keepsWhatADurableLogPromises, sharedForm } from '../support/durable-log-conformance.ts';
import { batchOf, keepsWhatASharedLogPromises } from '../support/shared-log-conformance.ts';
import { lookedAtLater } from '../support/deferred.ts';
import { found } from '../support/found.ts';

let servers: Servers | undefined;
let database = '';

function primary(): PostgresServer {
  return found(servers, 'PostgreSQL was not started').primary;
}

function client(
  durability: Durability = 'single',
  url = primary().url(database),
  more: { answerWithinMs?: number; monotonicMs?: () => number; format?: number } = {},
): PostgresLog {
  const log = new PostgresLog({ endpoints: logEndpoints(url), durability, ...more });
  onTestFinished(() => log.close());
  return log;
}

async function copyFaultOf(durability: Durability): Promise<string | undefined> {
  return (await client(durability).open()).copyFault;
}

async function leading(log: SharedLog, holder = 'one'): Promise<Tenure> {
  await log.open();
  await log.initialise(randomUUID());
  const { state } = await log.open();
  const tenure = state ? await log.lead(state, { holder, settings: Buffer.from('{}') }) : 'held';
  if (tenure === 'held') throw new Error('the lead is held');
  return tenure;
}

/**
 * For a log that waits for its answers a short time only: on a busy machine one may come later, and it is asked again.
 */
async function inTime(ask: () => Promise<unknown>): Promise<void> {
  const isAnswered = (): Promise<boolean> =>
    ask().then(
      () => true,
      () => false,
    );
  await expect.poll(isAnswered).toBe(true);
}

/** The address of a role of that name, which may connect and no more. */
async function roleOf(name: string): Promise<string> {
  await primary().query(`DROP ROLE IF EXISTS ${name}`);
  await primary().query(`CREATE ROLE ${name} LOGIN`);
  return primary().url(database).replace('postgres@', `${name}@`);
}

async function waitingInSync(): Promise<number[]> {
  const rows = await primary().query("SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'");
  return rows.map(({ pid }) => Number(pid));
}

beforeAll(async () => {
  const program = findProgram(POSTGRES);
  if (program !== undefined) servers = await startPostgres(program);
});
afterAll(() => servers?.end());
beforeEach(async (context) => {
  neededProgram(context, POSTGRES);
  database = await primary().newDatabase();
});

describe('a shared log in PostgreSQL', () => {
  keepsWhatASharedLogPromises((format) => client('single', undefined, format === undefined ? {} : { format }));

  test('is reached through whichever of its servers is the primary', async () => {
    const { port } = primary();
    const log = client('single', `postgres://postgres@127.0.0.1:1,127.0.0.1:${port}/${database}`);
    expect((await log.open()).server.timeline).toBe(1);
    const nowhere = client('single', `postgres://postgres@127.0.0.1:1/${database}`);
    await expect(nowhere.open()).rejects.toThrow(LogUnreachable);
    await expect(nowhere.open()).rejects.toThrow('127.0.0.1:1');
  });

  test('says of a server that names no standby, or any, that a batch would have no second copy', async () => {
    expect(await copyFaultOf('standby')).toContain('names no standby');
    for (const durability of ['single', 'storage'] as const) expect(await copyFaultOf(durability)).toBeUndefined();
    await primary().query("ALTER SYSTEM SET synchronous_standby_names = '*'");
    await primary().query('SELECT pg_reload_conf()');
    try {
      await expect.poll(() => copyFaultOf('standby')).toContain('holds a *');
    } finally {
      await primary().synchronousWith('');
    }
  });

  test('is refused on a server that may forget', async () => {
    await primary().query("ALTER SYSTEM SET fsync = 'off'");
    await primary().query('SELECT pg_reload_conf()');
    try {
      await expect
        .poll(() =>
          client()
            .open()
            .then(
              () => '',
              (error: Error) => error.message,
            ),
        )
        .toContain('turn on fsync');
      await expect(client().open()).rejects.toThrow(LogRefused);
    } finally {
      await primary().query('ALTER SYSTEM RESET fsync');
      await primary().query('SELECT pg_reload_conf()');
    }
  });

  test('an append whose answer is lost is unknown, and is there', async () => {
    const link = await primary().link();
    const log = client('single', primary().url(database, link.port));
    const tenure = await leading(log);
    await log.append(tenure, batchOf(1, 1, ['a']), 0);
    link.loseAnswer(/^append$/m);
    await expect(log.append(tenure, batchOf(2, 2, ['b']), 1)).rejects.toThrow(OutcomeUnknown);
    expect((await client().open()).state?.lastNo).toBe(2);
    link.mend();
    // The connection is had anew, and the fence still knows the tenure.
    await log.append(tenure, batchOf(3, 3, ['c']), 2);
  });

  test('an append that comes to the server after the lead was taken is fenced there, and changes nothing', async () => {
    const link = await primary().link();
    const log = client('single', primary().url(database, link.port));
    const before = await leading(log);
    await log.append(before, batchOf(1, 1, ['a']), 0);
    link.hold('requests');
    const late = lookedAtLater(log.append(before, batchOf(2, 2, ['late']), 1));
    await expect.poll(() => link.keptBytes).toBeGreaterThan(0);
    const other = client();
    const after = await leading(other, 'two');
    link.release();
    await expect(late).rejects.toThrow(Fenced);
    await other.append(after, batchOf(2, 2, ['b']), 1);
    const batches = await other.batches(after.logId, 0, after);
    expect(batches.map(({ records }) => records.map(String))).toEqual([['a'], ['b']]);
  });

  test('a server that is gone without a word is given up, for reads and for a batch', async () => {
    const [link, other] = [await primary().link(), await primary().link()];
    // On a busy machine a connection by the first way may take too long.
    other.cut();
    let nowMs = 0;
    const url = `postgres://postgres@127.0.0.1:${link.port},127.0.0.1:${other.port}/${database}`;
    const tenure = await leading(client());
    const log = client('single', url, { answerWithinMs: 200, monotonicMs: () => nowMs });
    await inTime(() => log.append(tenure, batchOf(1, 1, ['a']), 0));
    await inTime(() => log.open());
    link.hold('requests');
    const appended = lookedAtLater(log.append(tenure, batchOf(2, 2, ['b']), 1));
    await expect(log.open()).rejects.toThrow('no answer came in time');
    other.mend();
    // By another way now. A batch that is on its way may still come.
    await inTime(() => log.renew(tenure, batchOf(1, 1, [])));
    let isOver = false;
    appended.finally(() => (isOver = true)).catch(() => undefined);
    await inTime(() => log.renew(tenure, batchOf(1, 1, [])));
    expect(isOver).toBe(false);
    nowMs += 200;
    await inTime(() => log.renew(tenure, batchOf(1, 1, [])));
    await expect(appended).rejects.toThrow(OutcomeUnknown);
  });

  test('has one connection for all that is asked at once, and none after it was closed', async () => {
    const log = client();
    const tenure = await leading(log);
    const connections = `SELECT pid FROM pg_stat_activity WHERE datname = '${database}'`;
    await log.close();
    await expect.poll(() => primary().query(connections)).toEqual([]);
    const other = client();
    const asked = [
      other.open(),
      other.renew(tenure, batchOf(0, 1, [])),
      other.batches(tenure.logId, 0),
      other.batch(tenure.logId, 1),
    ];
    await Promise.all(asked);
    expect(await primary().query(connections)).toHaveLength(1);
    const late = client();
    const opening = late.open();
    await late.close();
    await expect(opening).rejects.toThrow(LogUnreachable);
    await other.close();
    await expect.poll(() => primary().query(connections)).toEqual([]);
  });

  test('says what the server refuses, and is not in doubt about it', async () => {
    const log = client();
    const tenure = await leading(log);
    await log.append(tenure, batchOf(1, 1, ['a']), 0);
    const other = client('single', primary().url(database).replace('postgres@', 'reader@'));
    await primary().query('DROP ROLE IF EXISTS reader');
    await primary().query('CREATE ROLE reader LOGIN');
    await expect(other.open()).rejects.toThrow('the server of the log refuses a statement: permission denied');
    await expect(other.append(tenure, batchOf(2, 2, ['b']), 1)).rejects.toThrow(LogRefused);
    expect((await log.open()).state?.lastNo).toBe(1);
  });
});

test('what is planned while the tables are empty looks rows up by their keys', async () => {
  const url = primary().url(database);
  await leading(client('single', url));
  const session = new Client({ connectionString: url });
  await session.connect();
  try {
    // As a connection does that keeps its plans: the first ones are made of an empty table.
    await session.query(SESSION);
    await session.query('ANALYZE payload; SET plan_cache_mode = force_generic_plan');
    await session.query(`PREPARE append AS ${APPEND}`);
    const of = `'${randomUUID()}', 1, '${randomUUID()}', 1, 1, 1, 0, 'x', 'x', '{}', '{}', '{}', '{}', '{}', NULL`;
    const { rows } = await session.query<{ 'QUERY PLAN': string }>(`EXPLAIN EXECUTE append(${of})`);
    const plan = rows.map((row) => row['QUERY PLAN']).join('\n');
    expect(plan).toContain('payload_pkey');
    expect(plan).not.toContain('Seq Scan');
  } finally {
    await session.end();
  }
});

describe('what a server does not allow', () => {
  test('ends a node that starts, with what is missing', async () => {
    const tenure = await leading(client());
    await expect(client('single', primary().url('nowhere')).open()).rejects.toThrow(LogRefused);
    await expect(client('single', primary().url('nowhere')).open()).rejects.toThrow(
      'database "nowhere" does not exist',
    );
    const nobody = primary().url(database).replace('postgres@', 'nobody_here@');
    await expect(client('single', nobody).open()).rejects.toThrow(LogRefused);
    const url = await roleOf(`lacking_${database}`);
    const grant = async (text: string): Promise<unknown> => primary().query(text, [], database);
    await grant(`GRANT SELECT, UPDATE ON relay_log TO lacking_${database}`);
    await grant(`GRANT SELECT ON batch TO lacking_${database}`);
    await expect(client('single', url).open()).rejects.toThrow(/lacks rights .*INSERT on batch/);
    expect((await client().open()).state?.logId).toBe(tenure.logId);
  });

  test('is waited for by one that runs', async () => {
    await leading(client());
    const url = await roleOf(`running_${database}`);
    const role = `running_${database}`;
    const all = 'relay_log, batch, payload, snapshot, node';
    await primary().query(`GRANT SELECT, INSERT, UPDATE, DELETE ON ${all} TO ${role}`, [], database);
    const log = client('single', url);
    const { state } = await log.open();
    const tenure = state && (await log.lead(state, { holder: 'one', settings: Buffer.from('{}') }));
    if (!tenure || tenure === 'held') throw new Error('the lead is held');
    await primary().query(`REVOKE INSERT ON batch FROM ${role}`, [], database);
    await expect(log.append(tenure, batchOf(1, 1, ['a']), 0)).rejects.toThrow(NotWritten);
    await primary().query(`REVOKE ALL ON relay_log FROM ${role}`, [], database);
    await expect(log.open()).rejects.toThrow(NotWritten);
    await primary().query(`GRANT SELECT, INSERT, UPDATE, DELETE ON ${all} TO ${role}`, [], database);
    await log.append(tenure, batchOf(1, 1, ['a']), 0);
    await primary().query(`ALTER ROLE ${role} NOLOGIN`);
    await primary().query('SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE usename = $1', [role]);
    await expect.poll(() => log.open().catch((error: unknown) => error)).toBeInstanceOf(LogUnreachable);
    await primary().query(`ALTER ROLE ${role} LOGIN`);
    await log.append(tenure, batchOf(2, 2, ['b']), 1);
  });

  test('a table that an older database lacks is made by a user who may, and asked for by one who may not', async () => {
    await leading(client());
    await primary().query('DROP TABLE node', [], database);
    const url = await roleOf(`poor_${database}`);
    await primary().query(`GRANT ALL ON relay_log, batch, payload, snapshot TO poor_${database}`, [], database);
    await expect(client('single', url).open()).rejects.toThrow('run poste relay cluster init as their owner');
    const log = client();
    const logId = (await log.open()).state?.logId ?? '';
    await log.noteNode(logId, { name: 'one', version: '1.0.0' });
    expect(await log.nodes(logId)).toHaveLength(1);
  });
});

/** Whatever changes that table ends with this code. */
async function failing(table: string, code: string): Promise<void> {
  const raise =
    "CREATE OR REPLACE FUNCTION failing() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'failed' USING " +
    `ERRCODE = '${code}'; END $$`;
  await primary().query(raise, [], database);
  await primary().query(
    `CREATE TRIGGER failing BEFORE INSERT OR UPDATE ON ${table} EXECUTE FUNCTION failing()`,
    [],
    database,
  );
}

describe('an error of the server', () => {
  test.each(['58030', '58P01', '25006', '08P01', '57P03', '53100'])(
    '%s passes: the batch is given to it again',
    async (code) => {
      const log = client();
      const tenure = await leading(log);
      await failing('batch', code);
      await expect(log.append(tenure, batchOf(1, 1, ['a']), 0)).rejects.toThrow(NotWritten);
      await primary().query('DROP TRIGGER failing ON batch', [], database);
      await log.append(tenure, batchOf(1, 1, ['a']), 0);
      await failing('relay_log', code);
      const failure: unknown = await log.renew(tenure, batchOf(1, 1, [])).catch((error: unknown) => error);
      expect(isPassing(failure)).toBe(true);
      await primary().query('DROP TRIGGER failing ON relay_log', [], database);
      expect(await log.renew(tenure, batchOf(1, 1, []))).toMatchObject({ holds: true });
    },
  );

  test('that does not pass ends a relay with a code for which a supervisor starts it again', async () => {
    const log = client();
    const tenure = await leading(log);
    await failing('batch', 'XX001');
    const failure: unknown = await log.append(tenure, batchOf(1, 1, ['a']), 0).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(ServerRefused);
    expect(relayFailure(failure)).toMatchObject({
      exit: 'failure',
      message: 'the server of the log refuses a statement: failed',
    });
  });

  test('of wire bytes that lie there without their batch is no batch that came there before', async () => {
    const log = client();
    const tenure = await leading(log);
    const payloads = [{ place: Buffer.alloc(40, 1), wire: Buffer.from('wire') }];
    await log.append(tenure, batchOf(1, 1, ['a'], { payloads }), 0);
    await expect(log.append(tenure, batchOf(1, 1, ['a'], { payloads }), 0)).rejects.toThrow(OutcomeUnknown);
    await expect(log.append(tenure, batchOf(2, 2, ['b'], { payloads }), 1)).rejects.toThrow(ServerRefused);
  });

  test('of a statement that another backend prepared names the pooler', async () => {
    const log = client();
    await leading(log);
    await failing('relay_log', '26000');
    await expect(log.doubt((await log.open()).state?.logId ?? '', 'why')).rejects.toThrow(
      'a pooler in transaction mode',
    );
  });

  test('of one process for both connections names the pooler, before anything is appended', async () => {
    await primary().query("CREATE FUNCTION pg_backend_pid() RETURNS int LANGUAGE sql AS 'SELECT 7'", [], database);
    await primary().query(`ALTER DATABASE ${database} SET search_path = public, pg_catalog`);
    const log = client();
    const tenure = await leading(log);
    const failure: unknown = await log.append(tenure, batchOf(1, 1, ['a']), 0).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(ServerRefused);
    expect(relayFailure(failure)).toMatchObject({
      exit: 'failure',
      message: expect.stringMatching(/^there is a pooler in transaction mode .*: let it run in session mode, or name/),
    });
  });

  test('of a process that has the number of one before the server was started again is none of a pooler', async () => {
    const functions = [
      "pg_backend_pid() RETURNS int LANGUAGE sql AS 'SELECT 7'",
      "pg_postmaster_start_time() RETURNS timestamptz LANGUAGE sql AS 'SELECT clock_timestamp()'",
    ];
    for (const one of functions) await primary().query(`CREATE FUNCTION ${one}`, [], database);
    await primary().query(`ALTER DATABASE ${database} SET search_path = public, pg_catalog`);
    const log = client();
    await log.append(await leading(log), batchOf(1, 1, ['a']), 0);
    expect((await log.open()).state).toMatchObject({ lastNo: 1 });
  });

  test('of tables that are gone for a while is waited for', async () => {
    const log = client();
    const tenure = await leading(log);
    await primary().query('ALTER TABLE batch RENAME TO gone', [], database);
    await expect(log.append(tenure, batchOf(1, 1, ['a']), 0)).rejects.toThrow(NotWritten);
    await primary().query('ALTER TABLE gone RENAME TO batch', [], database);
    await log.append(tenure, batchOf(1, 1, ['a']), 0);
  });
});

test('the password file is read anew with each connection', async () => {
  const role = `renewed_${database}`;
  await primary().query(`CREATE ROLE ${role} SUPERUSER LOGIN PASSWORD 'first'`);
  const hba = join(primary().folder, 'pg_hba.conf');
  await writeFile(hba, `host all ${role} 127.0.0.1/32 scram-sha-256\n${await readFile(hba, 'utf8')}`);
  await primary().query('SELECT pg_reload_conf()');
  const file = join(await temporaryFolder(), 'password');
  await writeFile(file, 'first\n');
  const url = primary().url(database).replace('postgres@', `${role}@`);
  const shared = found(
    await sharedLogOf(commandContext(), { log: url, logPasswordFile: file, durability: 'single' }),
    'no log was named',
  );
  onTestFinished(() => shared.log.close());
  await leading(client());
  await shared.log.open();
  await primary().query(`ALTER ROLE ${role} PASSWORD 'second'`);
  const cut = 'SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE usename = $1';
  await primary().query(cut, [role]);
  const opened = (): Promise<unknown> => shared.log.open().catch((error: unknown) => error);
  await expect.poll(opened).toMatchObject({ message: expect.stringContaining('password authentication failed') });
  expect(await opened()).toBeInstanceOf(LogUnreachable);
  await rm(file);
  expect(await opened()).toBeInstanceOf(LogUnreachable);
  await writeFile(file, 'second\n');
  expect((await shared.log.open()).state).toBeDefined();
});

test('the command begins a log once, prints what its relays need, and shows no password', async () => {
  const url = primary().url(database).replace('postgres@', 'postgres:secret@');
  const init = (...flags: string[]): ReturnType<typeof run> =>
    run(['relay', 'cluster', 'init', '--log', url, ...flags]);
  const refused = await init();
  expect(refused).toMatchObject({ code: 5, stdout: '' });
  expect(refused.stderr).toContain('names no standby');
  const first = await init('--durability', 'single', '--json');
  expect(JSON.parse(first.stdout)).toMatchObject({ initialised: true, state: 'serving', last_batch: 0 });
  await primary().query('DROP TABLE node', [], database);
  const again = await init('--durability', 'single');
  expect(await primary().query("SELECT to_regclass('node') IS NOT NULL AS is_there", [], database)).toEqual([
    { is_there: true },
  ]);
  expect(again.stdout).toContain('was begun before and has 0 batches; it has every table.');
  expect(again.stdout).toContain(
    'GRANT SELECT, INSERT, UPDATE, DELETE ON relay_log, batch, payload, snapshot, node TO relay;',
  );
  for (const { stdout, stderr } of [refused, first, again]) expect(stdout + stderr).not.toContain('secret');
});

function takeLead(name: string): ReturnType<typeof run> {
  const log = primary().url(database);
  return run(['relay', 'cluster', 'take-lead', '--log', log, '--durability', 'single', '--node', name]);
}

test('the command has the lead given to a relay that follows, and to no other', async () => {
  const log = client();
  const tenure = await leading(log, 'one');
  expect(await takeLead('one')).toMatchObject({ code: 0, stdout: 'one leads.\n' });
  expect((await takeLead('two')).stderr).toContain('the relay two does not follow the log now');
  await log.noteNode(tenure.logId, { name: 'two', version: '1.0.0' });
  const asked = takeLead('two');
  await expect.poll(async () => (await log.renew(tenure, batchOf(0, 1, []))).wantedBy).toBe('two');
  await log.resign(tenure, 0);
  await leading(client(), 'two');
  expect(await asked).toMatchObject({ code: 0, stdout: 'two leads.\n' });
});

function rotateEpoch(...args: string[]): ReturnType<typeof run> {
  return run(['relay', 'rotate-epoch', '--log', primary().url(database), '--durability', 'single', ...args]);
}

test('a new epoch is asked for from any machine: the relay that leads begins it, or the next one', async () => {
  expect(await rotateEpoch()).toMatchObject({ code: 3, stdout: '' });
  const log = client();
  const tenure = await leading(log, 'one');
  const asking = rotateEpoch('--json');
  await expect.poll(async () => (await log.renew(tenure, batchOf(0, 1, []))).doubt).toContain('rotate-epoch --log');
  await log.clearDoubt(tenure, (await log.open()).state?.doubt ?? '');
  const { code, stdout } = await asking;
  expect({ code, ...(JSON.parse(stdout) as object) }).toEqual({
    code: 0,
    log_id: tenure.logId,
    leader: 'one',
    begun: true,
  });
  await log.resign(tenure, 0);
  expect(await rotateEpoch()).toMatchObject({
    code: 0,
    stdout: 'The next relay that leads the log begins a new epoch.\n',
  });
  expect((await log.open()).state?.doubt).toContain('rotate-epoch --log');
});

function asked(durability: Durability, url = primary().url(database)): Promise<LogInspection> {
  return inspectLog(logEndpoints(url), durability);
}

describe('asked how it is, without a change', () => {
  test('says what its server promises, and makes no table', async () => {
    const empty = await asked('single');
    expect(empty).toMatchObject({ user: 'postgres', synchronousCommit: 'on', namesFault: undefined, log: undefined });
    expect(empty.place).toBe(`127.0.0.1:${primary().port}/${database}`);
    expect(Math.abs(empty.nowMs - Date.now())).toBeLessThan(60_000);
    expect(new Set(empty.lacking.map(({ isTable }) => isTable))).toEqual(new Set([true]));
    expect((await asked('single')).lacking).toEqual(empty.lacking);
    expect((await asked('standby')).namesFault).toContain('names no standby');
  });

  test('says who leads and since when there was no sign of life, and what a role may not do', async () => {
    const log = client();
    const { logId, term } = await leading(log);
    expect((await asked('single')).log).toMatchObject({ leader: 'one', term, isNewer: false, doubt: undefined });
    expect((await asked('single')).log?.beatAgeMs).toBeGreaterThanOrEqual(0);
    await log.doubt(logId, 'of a test');
    expect((await asked('single')).log?.doubt).toBe('of a test');
    const role = await asked('single', await roleOf('asking'));
    expect(role).toMatchObject({ user: 'asking', log: undefined });
    expect(role.lacking).toContainEqual({ table: 'batch', right: 'INSERT', isTable: false });
    await expect(asked('single', 'postgres://postgres@127.0.0.1:1/mail')).rejects.toThrow(LogUnreachable);
  });
});

describe('a relay over it', () => {
  keepsWhatADurableLogPromises(async () => sharedForm(() => client()));
});

describe('with a synchronous standby', () => {
  let standby: PostgresServer;
  beforeAll(async () => {
    if (!servers) return;
    standby = await primary().standby('second');
    await primary().synchronousWith('second');
  });
  afterAll(async () => {
    await servers?.primary.synchronousWith('');
  });

  /** An append that waits because the standby takes nothing. */
  async function waitingAppend(): Promise<{ appended: Promise<unknown>; pid: number }> {
    const log = client('standby');
    const tenure = await leading(log);
    await log.append(tenure, batchOf(1, 1, ['a']), 0);
    await standby.receive(false);
    onTestFinished(() => standby.receive(true));
    const appended = lookedAtLater(log.append(tenure, batchOf(2, 2, ['b']), 1));
    await expect.poll(waitingInSync).toHaveLength(1);
    const [pid = 0] = await waitingInSync();
    return { appended, pid };
  }

  test('its server names that standby, when it is asked how the log is', async () => {
    const { standbys, namesFault } = await inspectLog(logEndpoints(primary().url(database)), 'standby');
    expect(namesFault).toBeUndefined();
    expect(standbys).toMatchObject([{ name: 'second', sync: 'sync' }]);
  });

  test('a batch is acknowledged when the standby has it, and not before', async () => {
    await primary().query(`ALTER DATABASE ${database} SET statement_timeout = '50ms'`);
    const { appended } = await waitingAppend();
    let isOver = false;
    void appended.finally(() => (isOver = true));
    // Something that asks another connection is answered meanwhile.
    expect((await client('standby').open()).state?.lastNo).toBe(1);
    expect(isOver).toBe(false);
    await standby.receive(true);
    expect(await appended).toEqual({ doubt: undefined });
  });

  test('a wait that is cancelled ends in success and a warning: nobody knows the outcome', async () => {
    const { appended, pid } = await waitingAppend();
    await primary().query('SELECT pg_cancel_backend($1)', [pid]);
    await expect(appended).rejects.toThrow(OutcomeUnknown);
  });

  test('the same with a role that hears no warnings and waits for nobody', async () => {
    await primary().query(`ALTER DATABASE ${database} SET client_min_messages = 'error'`);
    await primary().query(`ALTER DATABASE ${database} SET synchronous_commit = 'local'`);
    await primary().query(`ALTER DATABASE ${database} SET default_transaction_read_only = 'on'`);
    const { appended, pid } = await waitingAppend();
    await primary().query('SELECT pg_cancel_backend($1)', [pid]);
    await expect(appended).rejects.toThrow(OutcomeUnknown);
  });

  test('names that are emptied release the wait without a warning: nobody knows the outcome', async () => {
    const { appended } = await waitingAppend();
    await primary().synchronousWith('');
    await expect(appended).rejects.toThrow('synchronous_standby_names was changed');
    await standby.receive(true);
    await primary().synchronousWith('second');
  });

  test('names that change between two batches are read anew; without a promised copy nothing is written', async () => {
    const log = client('standby');
    const tenure = await leading(log);
    await log.append(tenure, batchOf(1, 1, ['a']), 0);
    await primary().synchronousWith('ANY 1 (second, third)');
    await log.append(tenure, batchOf(2, 2, ['b']), 1);
    await primary().synchronousWith('');
    for (let time = 0; time < 2; time++)
      await expect(log.append(tenure, batchOf(3, 3, ['c']), 2)).rejects.toThrow(NotWritten);
    expect((await log.renew(tenure, batchOf(2, 1, []))).copyFault).toContain('names no standby');
    // It goes on following, and takes no lead.
    const { state, copyFault } = await log.open();
    expect(state).toMatchObject({ lastNo: 2 });
    expect(copyFault).toContain('names no standby');
    if (!state) throw new Error('the log has begun');
    await expect(log.lead(state, { holder: 'one', settings: Buffer.from('{}') })).rejects.toThrow(NotWritten);
    await primary().synchronousWith('second');
    await log.append(tenure, batchOf(3, 3, ['c']), 2);
    expect((await log.open()).state?.lastNo).toBe(3);
    expect(await log.renew(tenure, batchOf(3, 1, []))).toMatchObject({
      copyFault: undefined,
      server: (await log.open()).server,
    });
  });

  /** A lead that waits because the standby takes nothing. */
  async function waitingLead(): Promise<{ log: SharedLog; led: Promise<unknown> }> {
    const log = client('standby');
    await log.resign(await leading(log), 0);
    const { state } = await log.open();
    if (!state) throw new Error('the log has begun');
    await standby.receive(false);
    onTestFinished(() => standby.receive(true));
    const led = lookedAtLater(log.lead(state, { holder: 'one', settings: Buffer.from('{}') }));
    await expect.poll(waitingInSync).toHaveLength(1);
    return { log, led };
  }

  test('a lead whose wait is cancelled is no lead', async () => {
    const { led } = await waitingLead();
    await primary().query('SELECT pg_cancel_backend($1)', await waitingInSync());
    await expect(led).rejects.toThrow(OutcomeUnknown);
  });

  test('a lead whose wait ended with the names is no lead', async () => {
    const { log, led } = await waitingLead();
    await primary().synchronousWith('');
    await expect(led).rejects.toThrow('synchronous_standby_names was changed');
    expect((await log.open()).copyFault).toContain('names no standby');
    await standby.receive(true);
    await primary().synchronousWith('second');
  });

  test('a server that is killed while the batch waits: nobody knows the outcome', async () => {
    const { appended } = await waitingAppend();
    await primary().kill();
    await expect(appended).rejects.toThrow(OutcomeUnknown);
    await primary().start();
  });

  test('the lead is not taken on a server that took the place of the one that was seen', async () => {
    const url = `postgres://postgres@127.0.0.1:${primary().port},127.0.0.1:${standby.port}/${database}`;
    const log = client('single', url);
    const tenure = await leading(log);
    await log.resign(tenure, 0);
    const { state: seen, server } = await log.open();
    if (!seen) throw new Error('the log has begun');
    await primary().kill();
    await standby.promote();
    await standby.query("ALTER SYSTEM SET synchronous_standby_names = ''");
    await standby.query('SELECT pg_reload_conf()');
    const candidate = { holder: 'one', settings: Buffer.from('{}') };
    // The connection that was lost is noticed at once, or by the first statement.
    await expect.poll(() => log.lead(seen, candidate).catch(() => 'lost')).toBe('held');
    await expect
      .poll(() =>
        log.open().then(
          (one) => one.server.timeline,
          () => 0,
        ),
      )
      .toBe(2);
    const opened = await log.open();
    expect(opened.server).toEqual({ systemId: server.systemId, timeline: 2 });
    expect(opened.state).toMatchObject({ term: 1, ledOn: server });
    const led = opened.state && (await log.lead(opened.state, { ...candidate, doubt: 'another server' }));
    expect(led).toMatchObject({ term: 2 });
    expect((await log.open()).state).toMatchObject({ ledOn: opened.server, doubt: 'another server' });
    await primary().start();
    // It is a primary too, and named first.
    expect((await client('single', url).open()).server.timeline).toBe(2);
  });
});

test('of two commands that ask for the lead at once one gets it, and the other says who did', async () => {
  const log = client();
  const tenure = await leading(log, 'one');
  for (const name of ['two', 'three']) await log.noteNode(tenure.logId, { name, version: '1.0.0' });
  const misspelt = await takeLead('thre');
  expect(misspelt).toMatchObject({ code: 5, stdout: '' });
  expect(misspelt.stderr).toContain('did you mean three?');
  const wish = async (): Promise<string | undefined> => (await log.renew(tenure, batchOf(0, 1, []))).wantedBy;
  const first = takeLead('two');
  await expect.poll(wish, { timeout: 30_000 }).toBe('two');
  const second = takeLead('three');
  await expect.poll(wish, { timeout: 30_000 }).toBe('three');
  await log.resign(tenure, 0);
  await leading(client(), 'three');
  expect(await second).toMatchObject({ code: 0, stdout: 'three leads.\n' });
  const lost = await first;
  expect(lost).toMatchObject({ code: 75, stdout: '' });
  expect(lost.stderr).toContain('the relay three took the lead meanwhile, and not two');
});

test('the lead of a log that went elsewhere is given to nobody', async () => {
  const log = client();
  const tenure = await leading(log, 'one');
  await log.noteNode(tenure.logId, { name: 'two', version: '1.0.0' });
  const { state } = await log.open();
  if (state) await log.change(state, { state: 'moved one', tenure: randomUUID() });
  const refused = await takeLead('two');
  expect(refused).toMatchObject({ code: 5, stdout: '' });
  expect(refused.stderr).toContain('the log went to the store of node one');
});
