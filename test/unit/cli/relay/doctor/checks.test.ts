/** The checks of `poste relay doctor` of the server of a shared log and of the HTTP server, by their answers. */
import { expect, test } from 'vitest';
import type { RelaySubject } from '../../../../../src/cli/relay/doctor/subject.ts';
import type { Check } from '../../../../../src/lib/check.ts';
import type { Durability } from '../../../../../src/relay/shared-log/durability.ts';
import { logChecks, serverCheck, witnessChecks } from '../../../../../src/cli/relay/doctor/process-checks.ts';
import { NOT_INSTALLED } from '../../../../../src/relay/http/uws-binding.ts';
import type { StatusDocument } from '../../../../../src/relay/operator/documents.ts';
import type { LogInspection } from '../../../../../src/relay/shared-log/inspect-log.ts';

const NOW_MS = 1_800_000_000_000;

const SUBJECT: RelaySubject = {
  isStoreNamed: true,
  storeDir: '/var/lib/poste',
  options: undefined,
  status: undefined,
  positionFile: '/var/lib/poste/position',
  sharesLog: true,
  configFile: { path: '/etc/poste/relay.toml', isThere: true, isNamed: true },
  unit: '[Service]\n',
  keySource: { environment: false, file: undefined },
  nowMs: NOW_MS,
};

const SERVING = {
  whyNotServed: undefined,
  format: 1,
  isNewer: false,
  leader: 'alpha-00000001',
  term: 7,
  beatAgeMs: 500,
  doubt: undefined,
};

const WELL: LogInspection = {
  place: 'db.example:5432/mail',
  user: 'relay',
  nowMs: NOW_MS - 100,
  synchronousCommit: 'on',
  standbyNames: 'second',
  namesFault: undefined,
  standbys: [{ name: 'second', sync: 'sync', lagSeconds: 0.1 }],
  lacking: [],
  log: SERVING,
};

function checksOf(changes: Partial<LogInspection>, durability: Durability = 'standby'): Check[] {
  return logChecks(SUBJECT, { type: 'inspected', inspection: { ...WELL, ...changes } }, durability);
}

test('a log that is well is ok in everything', () => {
  const checks = checksOf({});
  expect(checks.map(({ id, state, command }) => [id, state, command])).toEqual(
    ['log-reach', 'log-clock', 'log-copies', 'log-role', 'log-leader', 'log-doubt'].map((id) => [id, 'ok', null]),
  );
  expect(checks.map(({ sentence }) => sentence)).toEqual([
    'db.example:5432/mail answers, and its primary takes relay',
    'this clock and that of the database are 0.1 s apart',
    'commits wait for second (0.1 s behind); synchronous_commit is on for its user, and each batch sets it to on',
    'relay may do everything that a relay does',
    'alpha-00000001 leads, in term 7',
    'the log is not in doubt',
  ]);
});

test.each<[string, Partial<LogInspection>, string, Check['state'], string, string | null, Durability?]>([
  ['apart', { nowMs: NOW_MS - 9_000 }, 'log-clock', 'note', '9.0 s apart', 'timedatectl set-ntp true'],
  ['far apart', { nowMs: NOW_MS + 61_000 }, 'log-clock', 'broken', 'does not take the lead', 'timedatectl'],
  [
    'of which no standby is named',
    { standbyNames: '', namesFault: 'the server of the log names no standby' },
    'log-copies',
    'broken',
    'names no standby',
    'ALTER SYSTEM SET synchronous_standby_names',
  ],
  [
    'of one copy',
    { standbyNames: '', standbys: [] },
    'log-copies',
    'ok',
    'synchronous_standby_names is empty',
    null,
    'single',
  ],
  [
    'whose standby is away',
    { standbys: [{ name: 'third', sync: 'async', lagSeconds: undefined }] },
    'log-copies',
    'broken',
    'no such standby is connected: pushes wait',
    'pg_stat_replication',
  ],
  [
    'whose standbys this user may not see',
    { standbys: [{ name: '', sync: undefined, lagSeconds: undefined }] },
    'log-copies',
    'ok',
    'this user may not see',
    null,
  ],
  [
    'without its tables',
    { lacking: [{ table: 'batch', right: 'SELECT', isTable: true }], log: undefined },
    'log-role',
    'note',
    'lacks tables of the log',
    'poste relay cluster init --log',
  ],
  [
    'without a right',
    { lacking: [{ table: 'batch', right: 'INSERT', isTable: false }] },
    'log-role',
    'broken',
    'relay lacks rights (INSERT on batch)',
    "psql -c 'GRANT SELECT, INSERT, UPDATE, DELETE ON relay_log, batch",
  ],
  [
    'that was not begun',
    { log: undefined },
    'log-leader',
    'note',
    'the first relay begins it',
    'systemctl start poste-relay',
  ],
  [
    'of a newer software',
    { log: { ...SERVING, format: 9, isNewer: true } },
    'log-leader',
    'broken',
    'the format 9',
    'poste --version',
  ],
  [
    'that moved',
    { log: { ...SERVING, whyNotServed: 'the log went to the store of node x' } },
    'log-leader',
    'broken',
    'went to the store of node x',
    'poste relay cluster publish --help',
  ],
  [
    'without a leader',
    { log: { ...SERVING, leader: undefined } },
    'log-leader',
    'broken',
    'no relay leads',
    'journalctl',
  ],
  [
    'whose leader is silent',
    { log: { ...SERVING, beatAgeMs: 300_000 } },
    'log-leader',
    'broken',
    'no sign of life for 5 minutes',
    'journalctl -u poste-relay',
  ],
  ['in doubt', { log: { ...SERVING, doubt: 'it lacks batch 3' } }, 'log-doubt', 'broken', 'batch 3', 'journalctl'],
])('a log %s', (_what, changes, id, state, sentence, command, durability) => {
  const found = checksOf(changes, durability).filter((check) => check.id === id);
  expect(found).toMatchObject([{ state, sentence: expect.stringContaining(sentence) as string }]);
  expect(found[0]?.command ?? '').toContain(command ?? '');
  expect(found[0]?.command === null).toBe(command === null);
});

const FAULTS = [
  '20.69.0 needs glibc 2.38, and this system has an older one',
  '20.51.4 is for Node 18, 20, 22, 23, and this is 24',
];

const ABSENT = { binding: undefined, faults: FAULTS };
const HERE = { binding: { version: '20.51.4' }, faults: FAULTS.slice(0, 1) };

function subject(status?: Partial<StatusDocument>, server?: 'uws' | 'node'): RelaySubject {
  return {
    ...SUBJECT,
    options: (server === undefined ? {} : { server }) as RelaySubject['options'],
    status: status && ({ server_asked: null, role: 'alone', ...status } as StatusDocument),
    unit: undefined,
  };
}

test('where uWebSockets.js does not run, each release says why', () => {
  for (const given of [subject(), subject({ server: 'node:http 21.0.0' })]) {
    const { state, sentence, command } = serverCheck(given, ABSENT);
    expect(state).toBe('note');
    for (const fault of FAULTS) expect(sentence).toContain(fault);
    expect(command).toBe('node --version  # 22 or 20: theirs needs no more than glibc 2.27');
  }
  const absent = {
    binding: undefined,
    faults: [`20.69.0 ${NOT_INSTALLED} for this Node and machine`, FAULTS[1] ?? ''],
  };
  expect(serverCheck(subject(), absent).command).toBe('npm ci --omit=dev');
});

test('where it is asked for and does not run, the relay does not start', () => {
  expect(serverCheck(subject(undefined, 'uws'), ABSENT)).toMatchObject({
    state: 'broken',
    sentence: expect.stringContaining(FAULTS[0] ?? '') as string,
    command: '$EDITOR /etc/poste/relay.toml  # server = "node"',
  });
});

test.each<[ms: number | null, fault: string | null, state: string, sentence: string]>([
  [120_000, null, 'ok', 'w.example cosigned the log 2 minutes ago'],
  [120_000, 'it answers 500', 'note', 'w.example cosigned the log 2 minutes ago: it answers 500'],
  [7_200_000, null, 'broken', 'w.example cosigned the log 2 hours ago; hosts that name it count nothing older'],
  [
    null,
    'it is away',
    'broken',
    'w.example has not cosigned the log yet: it is away; hosts that name it count nothing older',
  ],
])('a witness that cosigned %s ms ago, fault %s: %s', (ms, fault, state, sentence) => {
  const witnesses = [{ name: 'w.example', cosigned_ms_ago: ms, fault }];
  expect(witnessChecks(subject({ witnesses }))).toMatchObject([{ state, about: 'w.example', sentence }]);
  expect(witnessChecks(subject())).toEqual([]);
});

test('where it runs, a relay that has node:http was started otherwise', () => {
  expect(serverCheck(subject({ server: 'node:http 20.1.0', pid: 7 }), HERE)).toMatchObject({
    state: 'note',
    sentence: expect.stringContaining('although uWebSockets.js 20.51.4 runs here') as string,
    command: expect.stringContaining('kill 7; ') as string,
  });
  expect(serverCheck(subject({ server: 'uWebSockets.js 20.51.4' }), HERE).state).toBe('ok');
  expect(serverCheck(subject(), HERE)).toMatchObject({ state: 'ok', sentence: 'uWebSockets.js 20.51.4' });
});
