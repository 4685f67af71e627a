/** `poste waiting`, and the reminder that a daemon gives once over its restarts. */
import { expect, test } from 'vitest';
import { EXIT } from '../../../../src/cli/lib/exit.ts';
import { waitingText } from '../../../../src/cli/mail/waiting.ts';
import type { InboxResult } from '../../../../src/host/contract/mail.ts';
import type { Debt, WaitingResult } from '../../../../src/host/contract/waiting.ts';
import { runHere } from '../../../support/command-run.ts';
import { posteHome, type PosteHome } from '../../../support/poste-home.ts';
import { PIPE } from '../../../support/screens.ts';

const DEBT: Debt = {
  message_id: 'm1',
  subject: 'Which\u202e port?',
  asker: 'ann@here',
  debtor: 'bob@laptop',
  since: '2025-11-20T21:48:23Z',
  state: 'read',
  at: '2025-11-20T21:50:00Z',
  asker_is: 'live',
  debtor_is: 'unreachable',
  reminded_at: null,
};

async function ask(home: PosteHome, from: string, to: string, subject: string): Promise<string> {
  const args = ['send', '--as', from, '--to', to, '--subject', subject, '--body', 'b', '--needs-reply'];
  return (await home.json<{ message_id: string }>(...args)).message_id;
}

test('a line for each debt says who waits for whom, since when, and what is known; words of others obey nobody', () => {
  const [titles, line] = waitingText(PIPE, { debts: [DEBT], total: 1 }).split('\n');
  expect(titles).toMatch(/^SINCE +WAITS +FOR +WHO IS +MESSAGE IS +REMINDED +MESSAGE +SUBJECT$/);
  expect(line).toMatch(
    /^2025-11-20T21:48:23Z +ann@here +bob@laptop +unreachable +read +- +m1 +Which\\u\{202e\} port\?$/,
  );
  expect(waitingText(PIPE, { debts: [DEBT], total: 3 })).toContain('\n2 more answers owed: --limit shows them.\n');
  expect(waitingText(PIPE, { debts: [], total: 0 })).toBe('Nobody waits for an answer.\n');
});

test('of all agents or of one; an answer ends it, and a name that is none is refused', async () => {
  const home = await posteHome();
  await home.daemon();
  for (const name of ['ann', 'bob', 'cat']) await home.json('agent', 'add', name);
  const first = await ask(home, 'ann', 'bob', 'first');
  await ask(home, 'bob', 'cat', 'second');
  const subjects = async (...args: string[]): Promise<string[]> =>
    (await home.json<WaitingResult>('waiting', ...args)).debts.map(({ subject }) => subject);
  expect(await subjects()).toEqual(['first', 'second']);
  expect(await subjects('--as', 'ann')).toEqual(['first']);
  expect(await subjects('--limit', '1')).toEqual(['first']);
  const asCat = await runHere(['waiting'], { environment: { ...home.environment, POSTE_AGENT: 'cat' }, columns: 100 });
  expect(asCat.stdout).toContain('second');
  expect(asCat.stdout).not.toContain('first');
  await home.json('reply', '--as', 'bob', first, '--body', 'b');
  expect(await subjects()).toEqual(['second']);
  expect(await home.run('waiting', '--as', 'nobody')).toMatchObject({ code: EXIT.notFound, stdout: '' });
  expect((await home.run('waiting', '--limit', '0')).code).toBe(EXIT.usage);
});

test('given a debt of some age, when daemons are killed and started, then its debtor has one reminder', async () => {
  const home = await posteHome('here', { POSTE_REMIND_AFTER_HOURS: '0.0000001' });
  const reminders = async (): Promise<string[]> => {
    const asked = ['inbox', '--as', 'bob', '--state', 'all'];
    const { summaries = [] } = await home.json<InboxResult>(...asked);
    return summaries.filter(({ from }) => from === 'poste@here').map(({ subject }) => subject);
  };
  const first = await home.daemonProcess();
  for (const name of ['ann', 'bob']) await home.json('agent', 'add', name);
  await ask(home, 'ann', 'bob', 'first');
  await first.kill();
  for (let start = 0; start < 2; start++) {
    const daemon = await home.daemonProcess();
    await expect.poll(reminders).toEqual(['ann@here waits for your answer']);
    await daemon.kill();
  }
});
