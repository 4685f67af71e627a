/** `poste agent remove`: nobody loses mail without a question. */
import { expect, test } from 'vitest';
import { EXIT } from '../../../../src/cli/lib/exit.ts';
import { type CommandEnded, runHere } from '../../../support/command-run.ts';
import { accepted, idOf, send } from '../../../support/mail-context.ts';
import { useInbox } from '../../../../src/host/mailbox/inbox.ts';
import { contextAtSocket } from '../../../support/socket-context.ts';
import { wakeContext } from '../../../support/wake-context.ts';

test('agent remove names what would be lost, and without a terminal wants --yes', async () => {
  const world = await wakeContext(['alice', 'bob']);
  const { context } = world;
  const { home } = await contextAtSocket(world);
  const poste = (...args: string[]): Promise<CommandEnded> =>
    runHere(['agent', 'remove', ...args], { environment: { POSTE_HOME: home } });
  const first = accepted(await send(context, 'alice', { to: ['bob'] })).message_id;
  accepted(await send(context, 'alice', { to: ['bob'] }));
  accepted(await useInbox(context, await idOf(context, 'bob'), { action: 'mark_read', message_ids: [first] }));

  const asked = await poste('BOB');
  expect(asked).toMatchObject({ code: EXIT.usage, stdout: '' });
  expect(asked.stderr).toContain('removing bob deletes its mailbox with 2 messages (1 unread): add --yes');
  expect(await idOf(context, 'bob')).toBeDefined();

  // One that is not there is refused with what may have been meant, and nobody is asked.
  expect(await poste('bobb')).toMatchObject({ code: EXIT.notFound, stderr: expect.stringContaining('bob') });
  expect(await poste('--yes', 'bob')).toEqual({
    code: EXIT.ok,
    signal: null,
    stdout: 'Removed bob, with 2 messages (1 unread).\n',
    stderr: '',
  });
  expect((await poste('--yes', 'bob')).code).toBe(EXIT.notFound);
});
