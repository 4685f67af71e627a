/** `poste agent remove`: nobody loses mail without a question. */
import { expect, test } from 'vitest';
import { EXIT } from '../../../../src/cli/lib/exit.ts';
import { type CommandEnded, runHere } from '../../../support/command-run.ts';
import { accepted, idOf, send } from '../../../support/mail-context.ts';
import { useInbox } from '../../../../src/host/mail/inbox.ts';
import { contextAtSocket } from '../../../support/socket-context.ts';
import { wakeContext } from '../../../support/wake-context.ts';

test('agent remove asks with what would be lost, and without a terminal wants --yes', async () => {
  const world = await wakeContext(['alice', 'bob', 'carol']);
  const { context } = world;
  const { home } = await contextAtSocket(world);
  const environment = { POSTE_HOME: home };
  const poste = (...args: string[]): Promise<CommandEnded> => runHere(['agent', 'remove', ...args], { environment });
  const first = accepted(await send(context, 'alice', { to: ['bob'] })).message_id;
  accepted(await send(context, 'alice', { to: ['bob'] }));
  accepted(await useInbox(context, await idOf(context, 'bob'), { action: 'mark_read', message_ids: [first] }));

  const asked = await poste('BOB');
  expect(asked).toMatchObject({ code: EXIT.usage, stdout: '' });
  expect(asked.stderr).toContain('removing bob deletes its mailbox with 2 messages (1 unread): add --yes');
  expect(await idOf(context, 'bob')).toBeDefined();

  // On a terminal the question names it, and nothing but a yes does it.
  const refused = await runHere(['agent', 'remove', 'bob'], { environment, typed: 'n\n' });
  expect(refused.stderr).toContain(
    'Remove bob and delete its mailbox with 2 messages (1 unread)? This cannot be undone. [y/N] ',
  );
  expect(refused).toMatchObject({ code: EXIT.failure, stdout: '' });
  expect(await idOf(context, 'bob')).toBeDefined();
  const yes = await runHere(['agent', 'remove', 'carol'], { environment, typed: 'y\n' });
  expect(yes).toMatchObject({ code: EXIT.ok, stdout: 'Removed carol, with no message.\n' });

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
