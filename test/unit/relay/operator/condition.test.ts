/** Tests what is wrong with a relay, in words: by the same conditions as its alerts. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { isoTime } from '../../../../src/protocol/time.ts';
import { type Condition, RULES, faultsOf } from '../../../../src/relay/operator/condition.ts';
import { CALM, SOUND_LOG as LOG } from '../../../support/conditions.ts';

const DAY_MS = 86_400_000;
const NOW_MS = 1000 * DAY_MS;
const FOLDER = { folder: '/b', keep: 3, everyMs: DAY_MS };

const WELL: Condition = {
  ...CALM,
  refusals: [{ reason: 'NOT_FOUND', what: 'request', last_at: 1, last_minute: 1, last_hour: 1 }],
  backups: {
    everyMs: DAY_MS,
    last: { isGood: true, atMs: NOW_MS },
    newest: { name: 'b', atMs: NOW_MS - 2 * DAY_MS, bytes: 1 },
  },
  sharedLog: LOG,
  nowMs: NOW_MS,
};

function refused(reason: string): Partial<Condition> {
  return { refusals: [{ reason, what: 'item', last_at: 1, last_minute: 0, last_hour: 1 }] };
}

/** A change of each rule's condition, by its alert. */
const WRONG: Readonly<Record<string, Partial<Condition>>> = {
  PosteRelayNotReady: { isReady: false },
  PosteRelayNobodyLeads: { sharedLog: { ...LOG, leader: null } },
  PosteRelayLogUnreachable: { sharedLog: { ...LOG, is_reached: false } },
  PosteRelayLogStalled: { sharedLog: { ...LOG, is_stalled: true } },
  PosteRelayLogInDoubt: { sharedLog: { ...LOG, doubt: 'a batch is missing' } },
  PosteRelayDiskLow: { isDiskLow: true },
  PosteRelayRowsDamaged: { damagedRows: 1 },
  PosteRelayRowsDiffer: { rowsFound: 1 },
  PosteRelayQueueBroken: { brokenQueues: 1 },
  PosteRelayMailLost: { lost: 2 },
  PosteRelayBackupOld: {
    backups: {
      ...FOLDER,
      last: { isGood: true, atMs: 1 },
      newest: { name: 'b', atMs: NOW_MS - 2 * DAY_MS - 1, bytes: 1 },
    },
  },
  PosteRelayMailAboutToExpire: { oldestItemAgeMs: 12 * DAY_MS + 1 },
  PosteRelayQuotaReached: refused('quota:target-queue-items'),
  PosteRelayEnrolmentsFull: refused('ENROLMENTS_FULL'),
  PosteRelayLogBehind: { sharedLog: { ...LOG, behind_ms: 30_001 } },
  PosteRelayLogFenced: { sharedLog: { ...LOG, fences: 1, fenced_at: NOW_MS } },
};

interface Alert {
  alert: string;
  labels: { severity: string };
}

describe('what is wrong with a relay', () => {
  test('is nothing when all is well, and nothing of a log that nobody shares', () => {
    expect(faultsOf(WELL)).toEqual([]);
    expect(faultsOf({ ...WELL, sharedLog: undefined, backups: undefined, oldestItemAgeMs: undefined })).toEqual([]);
  });

  test('a relay that follows is well without being ready', () => {
    expect(faultsOf({ ...WELL, isReady: undefined })).toEqual([]);
  });

  test.each(Object.entries(WRONG))('%s', (alert, change) => {
    expect(faultsOf({ ...WELL, ...change }).map((fault) => fault.alert)).toEqual([alert]);
  });

  test('a backup that failed is told at once, before the alert', () => {
    const backups = { ...FOLDER, last: { isGood: false, atMs: NOW_MS }, newest: { name: 'b', atMs: NOW_MS, bytes: 1 } };
    expect(faultsOf({ ...WELL, backups })).toMatchObject([{ what: 'The last backup failed; it is tried again.' }]);
  });

  test('a fence is told with its time, for an hour', () => {
    const fenced = (agoMs: number) =>
      faultsOf({ ...WELL, sharedLog: { ...LOG, fences: 2, fenced_at: NOW_MS - agoMs } });
    expect(fenced(3_599_999)).toMatchObject([
      { what: `Another relay took the lead while this one served (${isoTime(NOW_MS - 3_599_999)}).` },
    ]);
    expect(fenced(3_600_000)).toEqual([]);
  });

  test('settings that differ are named', () => {
    const sharedLog = { ...LOG, settings_differ: ['limits', 'admission'] };
    expect(faultsOf({ ...WELL, sharedLog })).toMatchObject([
      { alert: null, what: 'This relay has other settings than the one that leads: limits, admission.' },
    ]);
  });

  test('every alert that it names exists and is as serious, and the worst come first', () => {
    const file = readFileSync(join(import.meta.dirname, '../../../../scripts/deploy/alerts.yml'), 'utf8');
    const { groups } = parse(file) as { groups: { rules: Alert[] }[] };
    const severities = new Map(groups.flatMap(({ rules }) => rules).map((one) => [one.alert, one.labels.severity]));
    const named = RULES.flatMap(({ alert, is_critical }) => (alert === null ? [] : [{ alert, is_critical }]));
    expect(named.map(({ alert }) => alert).toSorted()).toEqual(Object.keys(WRONG).toSorted());
    for (const { alert, is_critical } of named)
      expect([alert, severities.get(alert)]).toEqual([alert, is_critical ? 'critical' : 'warning']);
    const order = RULES.map(({ is_critical }) => is_critical);
    expect(order).toEqual(order.toSorted((a, b) => Number(b) - Number(a)));
  });
});
