/** Why a relay has the HTTP server that it has, on machines where uWebSockets.js runs and where it does not. */
import { expect, test } from 'vitest';
import { NOT_INSTALLED } from '../../../../../src/relay/http/uws-binding.ts';
import { serverCheck } from '../../../../../src/cli/relay/doctor/process-checks.ts';
import type { RelaySubject } from '../../../../../src/cli/relay/doctor/subject.ts';
import type { StatusDocument } from '../../../../../src/relay/operator/documents.ts';

const FAULTS = [
  '20.69.0 needs glibc 2.38, and this system has an older one',
  '20.51.4 is for Node 18, 20, 22, 23, and this is 24',
];

const ABSENT = { binding: undefined, faults: FAULTS };
const HERE = { binding: { version: '20.51.4' }, faults: FAULTS.slice(0, 1) };

function subject(status?: Partial<StatusDocument>, server?: 'uws' | 'node'): RelaySubject {
  return {
    isStoreNamed: true,
    storeDir: '/var/lib/poste',
    options: (server === undefined ? {} : { server }) as RelaySubject['options'],
    status: status && ({ server_asked: null, role: 'alone', ...status } as StatusDocument),
    positionFile: '/var/lib/poste/position',
    sharesLog: false,
    configFile: { path: '/etc/poste/relay.toml', isThere: true, isNamed: true },
    unit: undefined,
    keySource: { environment: false, file: undefined },
    nowMs: 0,
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

test('where it runs, a relay that has node:http was started otherwise', () => {
  expect(serverCheck(subject({ server: 'node:http 20.1.0', pid: 7 }), HERE)).toMatchObject({
    state: 'note',
    sentence: expect.stringContaining('although uWebSockets.js 20.51.4 runs here') as string,
    command: expect.stringContaining('kill 7; ') as string,
  });
  expect(serverCheck(subject({ server: 'uWebSockets.js 20.51.4' }), HERE).state).toBe('ok');
  expect(serverCheck(subject(), HERE)).toMatchObject({ state: 'ok', sentence: 'uWebSockets.js 20.51.4' });
});
