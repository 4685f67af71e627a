/** `poste host rename`: what it answers, what other commands show afterwards, and what it refuses. */
import { expect, test } from 'vitest';
import type { InboxResult, SendResult } from '../../../../src/host/contract/mail.ts';
import { EXIT } from '../../../../src/cli/lib/exit.ts';
import { pairHomes, posteHome } from '../../../support/poste-home.ts';

const LOOPBACK = { POSTE_LAN_LISTEN: '127.0.0.1:0' };

test('the host has the new name at once and after a restart, and its mail can be read and replied to', async () => {
  const here = await posteHome('here');
  const daemon = await here.daemon();
  await here.json('agent', 'add', 'eve');
  await here.json('agent', 'add', 'bob');
  const sending = ['send', '--as', 'eve', '--subject', 's', '--body', 'b', '--to'];
  const { message_id: id } = await here.json<SendResult>(...sending, 'bob');
  expect(await here.run('host', 'rename', 'server')).toEqual({
    code: EXIT.ok,
    signal: null,
    stdout: 'This host was here and is server now: its agents have the addresses agent@server.\n',
    stderr: '',
  });
  expect(await here.json('status')).toMatchObject({ host: 'server' });
  expect(await here.json('agent', 'list', '--as', 'eve')).toMatchObject({ you: 'eve@server' });
  const read = await here.json<InboxResult>('inbox', 'read', '--as', 'bob', id);
  expect(read.messages).toMatchObject([{ from: 'eve@here', body: 'b' }]);
  const reply = await here.json<SendResult>('reply', '--as', 'bob', id, '--body', 'Yes.');
  expect(reply.recipients).toMatchObject([{ recipient: 'eve@server' }]);
  const got = await here.json<InboxResult>('inbox', '--as', 'eve');
  expect(got.summaries).toMatchObject([{ from: 'bob@server' }]);
  const former = await here.run(...sending, 'bob@here');
  expect(former.stderr).toContain('not paired with a host of that name');

  await daemon.stop();
  await here.daemon();
  expect(await here.json('status')).toMatchObject({ host: 'server' });
});

test('the name that it has changes nothing, and the command says so', async () => {
  const here = await posteHome('here');
  await here.daemon();
  const { code, stdout } = await here.run('host', 'rename', 'here');
  expect({ code, stdout }).toEqual({
    code: EXIT.ok,
    stdout: 'This host is called here already: nothing was changed.\n',
  });
  expect(await here.json('host', 'rename', 'here')).toEqual({ host: 'here', former_host: 'here', renamed: false });
  expect(await here.json('host', 'rename', 'Here')).toEqual({ host: 'Here', former_host: 'here', renamed: true });
});

test('a paired host keeps its name until it is unpaired', async () => {
  const [here, there] = await Promise.all([posteHome('here', LOOPBACK), posteHome('there', LOOPBACK)]);
  await Promise.all([here.daemon(), there.daemon()]);
  expect(await pairHomes(there, here)).toMatchObject({ code: EXIT.ok, stderr: '' });
  const refused = await here.run('host', 'rename', 'server', '--json');
  expect([refused.code, refused.stdout]).toEqual([EXIT.conflict, '']);
  expect(JSON.parse(refused.stderr)).toMatchObject({ code: 'ALREADY_PAIRED', details: { hosts: ['there'] } });
  const { stderr } = await here.run('host', 'rename', 'server');
  expect(stderr).toMatch(/^poste: This host is paired with there, .* unpair on both sides .*, and pair again\.\n$/);
  expect(await here.json('status')).toMatchObject({ host: 'here' });
  await here.json('peer', 'remove', 'there', '--yes');
  expect(await here.json('host', 'rename', 'server')).toMatchObject({ renamed: true });
});

test.each([
  [['host', 'rename'], /missing required argument 'name'/],
  [['host', 'rename', 'a', 'b'], /too many arguments/],
  [['host', 'rename', 'two words'], /must be letters, digits, dots, hyphens and underscores/],
  [['host', 'rename', '-server'], /unknown option/],
  [['host', 'rename', 'server.'], /must be letters, digits, dots, hyphens and underscores/],
])('%j is a wrong use, and asks no daemon', async (args, says) => {
  const here = await posteHome('here');
  const { code, stdout, stderr } = await here.run(...args);
  expect({ code, stdout }).toEqual({ code: EXIT.usage, stdout: '' });
  expect(stderr).toMatch(says);
});
