import { expect, test } from 'vitest';
import { alertText, OUTBOX_ALERTS } from '../../../../src/host/core/outbox-event.ts';
import { ANNA, BERT } from '../../../support/outbox-rows.ts';

const R1 = 'https://r1.example';
const message = { hostName: 'bob', subject: 'Nightly build', recipients: [ANNA, BERT], rowId: 7, relays: [R1] };

test.each(OUTBOX_ALERTS)('%s: names the host, the message and those it is about', (alert) => {
  const { subject, body } = alertText(alert, message);
  expect(subject).toMatch(/^(Undelivered|Undelivered\/unconfirmed|Delivered after all) to bob$/);
  expect(body).toContain('Your message "Nightly build" to anna@bob, bert@bob ');
  expect(body).toMatch(/\.$/);
});

test('what may have arrived is never called undelivered without a doubt', () => {
  const unconfirmed = ['unconfirmed', 'never-confirmed', 'stored-in-v1'] as const;
  for (const alert of OUTBOX_ALERTS) {
    const isUnconfirmed = (unconfirmed as readonly string[]).includes(alert);
    expect(alertText(alert, message).subject.includes('unconfirmed')).toBe(isUnconfirmed);
  }
  for (const alert of unconfirmed) expect(alertText(alert, message).body).toMatch(/may (or may not|well) have arrived/);
});

test('what expired names each relay at which it waited, and does not say that nobody fetched it', () => {
  expect(alertText('expired', message).body).toContain(
    `waited at ${R1} until its time was up, and bob did not confirm`,
  );
  const both = alertText('expired', { ...message, relays: [R1, 'https://r2.example'] });
  expect(both.subject).toBe('Undelivered to bob');
  expect(both.body).toContain(`waited at ${R1} and at https://r2.example until its time was up`);
});

test('what is unconfirmed names the relays that took it, where there are several', () => {
  for (const alert of ['unconfirmed', 'never-confirmed'] as const) {
    expect(alertText(alert, message).body).toMatch(/ was handed over[,.] /);
    const both = { ...message, relays: [R1, 'https://r2.example'], isOneOfMany: true };
    expect(alertText(alert, both).body).toContain(`was handed over to ${R1} and to https://r2.example`);
    expect(alertText(alert, { ...both, relays: [] }).body).toMatch(/ was handed over[,.] /);
  }
});

test('what is still tried says how to end that', () => {
  expect(alertText('undelivered', message).body).toContain('poste outbox cancel 7');
});

test('each says what happened and not what happened to another', () => {
  const bodies = OUTBOX_ALERTS.map((alert) => alertText(alert, message).body);
  expect(new Set(bodies).size).toBe(OUTBOX_ALERTS.length);
  const said: [(typeof OUTBOX_ALERTS)[number], RegExp][] = [
    ['undelivered', /for 72 hours/],
    ['given-up', /for 60 days and is not tried any more/],
    ['unpaired', /were unpaired/],
    ['quarantined', /in quarantine/],
    ['too-large', /larger than the relay takes/],
    ['expired', /until its time was up/],
    ['unconfirmed', /has confirmed no delivery/],
  ];
  for (const [alert, words] of said) {
    expect(OUTBOX_ALERTS.filter((one) => words.test(alertText(one, message).body))).toEqual([alert]);
  }
});
