/** Ids that a person shortens, in the commands that take them. */
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { EXIT } from '../../../../src/cli/lib/exit.ts';
import { CallFailed, DaemonClient } from '../../../../src/host/api/client.ts';
import { runHere } from '../../../support/command-run.ts';
import { posteHome, type PosteHome } from '../../../support/poste-home.ts';

const AND_WHAT_IS = '; poste inbox --state all lists what is';

interface Sent {
  message_id: string;
}

/** A host with two agents, and messages between them, sent one after another: their ids begin alike. */
async function hostWithMail(): Promise<{ home: PosteHome; ids: string[] }> {
  const home = await posteHome();
  await home.daemon();
  for (const name of ['ann', 'ben']) await home.json('agent', 'add', name);
  const ids: string[] = [];
  for (const subject of ['one', 'two']) {
    const sent = await home.json<Sent>('send', '--as', 'ann', '--to', 'ben', '--subject', subject, '--body', 'b');
    ids.push(sent.message_id);
  }
  return { home, ids };
}

/** So many characters of the first id that it differs from the second. */
function startOf([id = '', other = '']: readonly string[]): string {
  let at = 0;
  while (id[at] === other[at]) at++;
  return id.slice(0, at + 1);
}

describe('the first characters of an id', () => {
  test('mean the message in every command that takes one', { timeout: 60_000 }, async () => {
    const { home, ids } = await hostWithMail();
    const [id = ''] = ids;
    const start = startOf(ids);
    expect(start.length).toBeLessThan(id.length);
    const peeked = await home.json('inbox', 'read', '--peek', '--as', 'ben', start);
    expect(peeked).toMatchObject({ messages: [{ message_id: id }] });
    expect(await home.json('inbox', 'ack', '--as', 'ben', start)).toMatchObject({ changed: [id] });
    expect(await home.json('sent', '--as', 'ann', start)).toMatchObject({ messages: [{ message_id: id }] });
    expect(await home.json('trace', start)).toMatchObject({ message_id: id });
    expect(await home.json('reply', '--as', 'ben', start, '--body', 'yes')).toMatchObject({ thread: id });
    const joining = ['--to', 'ben', '--subject', 's', '--body', 'b', '--reply-to', start];
    expect(await home.json('send', '--as', 'ann', ...joining)).toMatchObject({ thread: id });
    const thread = await home.json<{ messages: object[] }>('inbox', 'thread', '--as', 'ben', start);
    expect(thread.messages).toHaveLength(3);
  });

  test('that mean several are refused with all of them', { timeout: 60_000 }, async () => {
    const { home, ids } = await hostWithMail();
    const shared = startOf(ids).slice(0, -1);
    const { code, stderr } = await home.run('inbox', 'read', '--as', 'ben', shared);
    expect(code).toBe(EXIT.conflict);
    expect(stderr).toMatch(
      /^poste: several ids begin with \w+: \w{26} \(from ann@here\), \w{26} \(from ann@here\); give more of /,
    );
    const asJson = await home.run('trace', shared, '--json');
    expect(JSON.parse(asJson.stderr)).toMatchObject({ code: 'AMBIGUOUS_ID', details: { candidates: ids } });
    // Nothing was read by it.
    expect(await home.json('inbox', '--as', 'ben')).toMatchObject({ unread: 2 });
  });

  test('that mean none, of somebody else or too few are not found', { timeout: 60_000 }, async () => {
    const { home, ids } = await hostWithMail();
    const start = startOf(ids);
    await home.json('agent', 'add', 'eve');
    for (const [as, text] of [
      ['ben', '06NOSUCH'],
      ['ben', start.slice(0, 5)],
      ['eve', start],
    ] as const) {
      const { code, stderr } = await home.run('inbox', 'read', '--as', as, text);
      expect({ code, stderr }).toEqual({
        code: EXIT.notFound,
        stderr: `poste: not in this mailbox: ${text}${AND_WHAT_IS}.\n`,
      });
    }
    expect((await home.run('trace', start.slice(0, 5))).code).toBe(EXIT.notFound);
    expect((await home.run('sent', '--as', 'ben', start)).code).toBe(EXIT.notFound);
  });
});

test.each([
  [
    ['trace', '1234'],
    ['trace', { message_id: '1234' }],
  ],
  [
    ['trace', '1234', '--as', 'ann'],
    ['message-numbers', { numbers: [1234] }],
  ],
  [
    ['trace', '123'],
    ['message-numbers', { numbers: [123] }],
  ],
])('%j: four digits end an id where no mailbox is named', async (args, [name, input]) => {
  const call = vi.spyOn(DaemonClient.prototype, 'call').mockRejectedValue(new CallFailed('NONE', 404, 'none', {}));
  onTestFinished(() => call.mockRestore());
  await runHere(args, { environment: { POSTE_HOME: '/nowhere/poste', POSTE_AGENT: '' } });
  expect(call.mock.calls.map((words) => words.slice(0, 2))).toEqual([[name, input]]);
});
