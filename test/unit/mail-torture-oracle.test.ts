/** The oracle of `test/e2e/mail-torture.test.ts` finds what is wrong, and nothing when all is well. */
import { describe, expect, test } from 'vitest';
import { mayKeepReceipt } from '../support/mail-torture/on-its-way.ts';
import { type Asked, type History, type Mail, type Seen, faultsIn } from '../support/mail-torture/oracle.ts';

const FROM = 'one@north';
const TO = 'two@south';

function asked(status: 'remote' | 'live-wake' = 'remote'): Asked {
  const recipients = [{ recipient: TO, addressed_as: [TO], status, detail: '' }];
  const result = { message_id: 'm', thread: 'm', duplicate: false, recipients };
  return { subject: 'words', from: FROM, beganMs: 10, accepted: { result, endedMs: 20 } };
}

const MAIL: Mail = { messageId: 'm', subject: 'words', from: FROM, kind: 'message', replyTo: null };
const ALERT: Mail = { messageId: 'a', subject: 'late', from: 'poste@north', kind: 'alert', replyTo: 'm' };

interface Case {
  history?: Partial<History>;
  states?: readonly string[];
  mail?: readonly Mail[];
  alerts?: readonly Mail[];
  seen?: Partial<Seen>;
}

function faultsOf({ history, states = ['pending', 'delivered'], mail = [MAIL], alerts = [], seen }: Case): string[] {
  const one = asked();
  return faultsIn(
    { asked: [one], everAsked: [one], acts: [], shown: [], restores: [], earlierRestores: [], ...history },
    {
      sent: new Map([['m', new Map([[TO, states]])]]),
      boxes: new Map([
        [TO, mail],
        [FROM, alerts],
      ]),
      woken: new Set(),
      open: [],
      reported: new Set(),
      ...seen,
    },
  );
}

const RESTORE = { host: 'south', takenMs: 0, restoredMs: 30, messagesSince: 1 };

describe('mail', () => {
  test('that arrived once, as its sender knows, is right', () => {
    expect(faultsOf({})).toEqual([]);
  });

  test.each<[string, Case, RegExp]>([
    ['lost', { states: ['pending'], mail: [] }, /was lost in silence \(pending\)/],
    ['said to be delivered', { mail: [] }, /did not arrive and is said to be delivered/],
    ['doubled', { mail: [MAIL, MAIL] }, /arrived 2 times/],
    ['doubled under another id', { mail: [MAIL, { ...MAIL, messageId: 'n' }] }, /has words 2 times/],
    ['forgotten by its sender', { seen: { sent: new Map() } }, /is not there any more/],
    ['unknown to its sender', { states: ['pending'] }, /its sender knows nothing of it/],
    ['that nobody wrote', { mail: [MAIL, { ...MAIL, messageId: 'n', subject: 'other' }] }, /nobody wrote: other/],
    ['alerted about for nothing', { alerts: [ALERT] }, /alerted for nothing/],
    ['on its way', { seen: { open: ['m is pending'] } }, /m is pending, for ever/],
  ])('is found: %s', (_, given, fault) => {
    expect(faultsOf(given)).toEqual(expect.arrayContaining([expect.stringMatching(fault)]));
  });

  test('that a restore took away is right when the restore counts it and the owner has a report', () => {
    const seen = { reported: new Set(['south']) };
    expect(faultsOf({ mail: [], history: { restores: [RESTORE] }, seen })).toEqual([]);
    expect(faultsOf({ mail: [], history: { restores: [RESTORE] } })).toEqual([expect.stringMatching(/has no report/)]);
    const uncounted = { ...RESTORE, messagesSince: 0 };
    expect(faultsOf({ mail: [], history: { restores: [uncounted] }, seen })).toEqual([
      '1 messages are gone from south, and its restore spoke of 0',
    ]);
    const earlier = { ...RESTORE, restoredMs: 5 };
    expect(faultsOf({ mail: [], history: { restores: [earlier] }, seen })).toEqual([
      expect.stringMatching(/did not arrive and is said to be delivered/),
    ]);
  });
});

describe('receipts', () => {
  const states = ['pending', 'delivered', 'notified', 'read'];
  const read = { agent: TO, what: 'read', ids: ['m'], endedMs: 40 } as const;

  test('say what was done', () => {
    expect(faultsOf({ states, history: { acts: [read] } })).toEqual([]);
  });

  test.each<[string, History['acts']]>([
    ['nobody did it', []],
    ['another agent did', [{ ...read, agent: 'one@south' }]],
    ['it was done to another message', [{ ...read, ids: ['n'] }]],
    ['it was done before', [{ ...read, endedMs: 5 }]],
    ['less was done', [{ agent: TO, what: 'told', endedMs: 40 }]],
  ])('that lie are found: %s', (_, acts) => {
    expect(faultsOf({ states, history: { acts } })).toContainEqual(
      expect.stringMatching(/is said to be read, and nobody did that/),
    );
  });
});

describe('a wake', () => {
  const woken = asked('live-wake');
  const history = { asked: [woken], everAsked: [woken] };

  test('that was one is right', () => {
    const shown = [{ agent: TO, atMs: 15 }];
    expect(faultsOf({ history: { ...history, shown }, seen: { woken: new Set([TO]) } })).toEqual([]);
  });

  test.each([[[]], [[{ agent: TO, atMs: 5 }]], [[{ agent: TO, atMs: 25 }]], [[{ agent: FROM, atMs: 15 }]]])(
    'that was none is found: %j',
    (shown) => {
      expect(faultsOf({ history: { ...history, shown } })).toEqual([
        'words says that it woke two@south, and nothing did',
      ]);
    },
  );

  test('that a session is said to have had, and had not, is found', () => {
    expect(faultsOf({ seen: { woken: new Set([TO]) } })).toEqual([`${TO} is said to have been woken, and never was`]);
  });
});

describe('a receipt that stays in quarantine', () => {
  const item = { host: 'north', id: `receipt:m:${TO}:1` };
  const restore = { host: 'north', takenMs: 0, restoredMs: 30, messagesSince: 1 };
  const quiet = { asked: [], everAsked: [asked()], acts: [], shown: [], restores: [], earlierRestores: [] };
  const world = { history: quiet, isClockOff: false };

  test.each<[string, Partial<History>, boolean]>([
    ['after a restore of its host', { restores: [restore] }, true],
    ['after a restore of its host in an earlier run', { earlierRestores: [restore] }, true],
    ['for a message that is not known, after a restore of its host', { everAsked: [], restores: [restore] }, true],
    ['without a restore', {}, false],
    ['after a restore of another host', { restores: [{ ...restore, host: 'south' }] }, false],
    ['for a message of after the restore', { earlierRestores: [{ ...restore, restoredMs: 5 }] }, false],
    ['for a message of before the backup', { earlierRestores: [{ ...restore, takenMs: 25 }] }, false],
  ])('is right or not: of no message that is known, %s', (_, history, isRight) => {
    const given = { ...world, history: { ...quiet, ...history } };
    expect(mayKeepReceipt(given, { ...item, reason: 'unknown-message' })).toBe(isRight);
    expect(mayKeepReceipt(given, { ...item, reason: 'retired-key' })).toBe(false);
  });

  test('is right under a former key only in a run in which a clock is off', () => {
    const former = { ...item, reason: 'retired-key' };
    expect(mayKeepReceipt({ ...world, isClockOff: true }, former)).toBe(true);
    expect(mayKeepReceipt(world, former)).toBe(false);
    expect(mayKeepReceipt({ ...world, isClockOff: true }, { ...former, reason: 'bad-signature' })).toBe(false);
  });
});
