/** Two hosts on a LAN, by the commands of their owners. */
import { PassThrough, type Readable } from 'node:stream';
import { describe, expect, test } from 'vitest';
import type { InboxResult, SendResult } from '../../src/host/contract/mail.ts';
import type { CancelResult, OutboxResult, QuarantineResult } from '../../src/host/contract/outbox.ts';
import type { InviteResult, PeersResult, RotateKeyResult } from '../../src/host/contract/peers.ts';
import { blocksOf, commandsOf, docPage } from '../support/doc-pages.ts';
import { freePort } from '../support/free-port.ts';
import { pairHomes, type PosteHome, posteHome } from '../support/poste-home.ts';
import { CommandRun, commandContext } from '../support/command-run.ts';

interface LanHome {
  home: PosteHome;
  daemon: CommandRun;
}

async function lanHome(name: string, agent: string): Promise<LanHome> {
  const home = await posteHome(name, { POSTE_LAN_LISTEN: '127.0.0.1:0' });
  const daemon = await home.daemon();
  await home.json('agent', 'add', agent);
  return { home, daemon };
}

async function pairedHomes(): Promise<[here: LanHome, there: LanHome]> {
  const [here, there] = await Promise.all([lanHome('here', 'eve'), lanHome('there', 'bob')]);
  const { code, stdout, stderr } = await pairHomes(here.home, there.home);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  const address = expect.stringMatching(/^127\.0\.0\.1:[1-9]/) as string;
  expect(JSON.parse(stdout)).toMatchObject({ host: 'here', address });
  return [here, there];
}

function send({ home }: LanHome, from: string, to: string, subject: string): Promise<SendResult> {
  return home.json<SendResult>('send', '--as', from, '--to', to, '--subject', subject, '--body', 'Hello.');
}

/** A command at a terminal; `typed` is what its person types there. */
function atTerminal({ home }: LanHome, typed: Readable, ...args: string[]): CommandRun {
  return new CommandRun(args, commandContext({ environment: home.environment, typed }));
}

/** The words behind `poste` that docs/lan.md has each machine type. */
const SHOWN = Object.fromEntries(
  blocksOf(docPage('docs/lan.md'))
    .flatMap(commandsOf)
    .map(({ machine, text }) => [machine, text.split(' ').slice(1)]),
);

describe('the code', () => {
  test('is in no command line, and pairs the host that the owner of the other sees and confirms', async () => {
    const [here, there] = await Promise.all([lanHome('here', 'eve'), lanHome('there', 'bob')]);
    const [hands, others] = [new PassThrough(), new PassThrough()];
    const inviting = atTerminal(here, hands, ...(SHOWN['laptop'] ?? []));
    await inviting.printed('This host is ');
    const [, command = ''] = /^ {2}poste (peer accept .*)$/m.exec(inviting.stdout) ?? [];
    const [, code = ''] = /^ {2}([0-9A-Z-]{64})$/m.exec(inviting.stdout) ?? [];
    expect(code).not.toBe('');
    expect(command).not.toContain(code);
    expect(command.split(' ').slice(0, -1)).toEqual(SHOWN['server']?.slice(0, -1));
    const accepting = atTerminal(there, others, ...command.split(' '));
    others.write(`${code}\n`);
    await inviting.asked('[y/N]');
    const { fingerprint } = await there.home.client.call('status', {});
    expect(inviting.stderr).toMatch(/there came with the code, from 127\.0\.0\.1:/);
    for (const { stderr } of [inviting, accepting]) expect(stderr).toContain(fingerprint);
    expect(await here.home.client.call('peers', {})).toEqual({ peers: [] });
    expect(accepting.stderr).toContain('waits until its owner has confirmed');
    hands.write('y\n');
    expect(await inviting.ended()).toMatchObject({ code: 0, stdout: expect.stringContaining('Paired with there.') });
    expect(await accepting.ended()).toMatchObject({ code: 0, stdout: expect.stringContaining('Paired with here.') });
  });

  test('is void when the owner does not know the host that came, whatever was typed before it came', async () => {
    const [here, thief] = await Promise.all([lanHome('here', 'eve'), lanHome('there', 'bob')]);
    const hands = new PassThrough();
    const inviting = atTerminal(here, hands, 'peer', 'invite', '--json');
    await inviting.printed('}\n');
    const { code, addresses } = JSON.parse(inviting.stdout) as InviteResult;
    hands.write('y\n');
    const stolen = thief.home.runWith(code, 'peer', 'accept', addresses[0] ?? '');
    await inviting.asked('[y/N]');
    hands.write('n\n');
    expect(await inviting.ended()).toMatchObject({ code: 1, stderr: expect.stringContaining('NOT_CONFIRMED') });
    expect(await stolen).toMatchObject({
      code: 5,
      stdout: '',
      stderr: expect.stringContaining('no invitation is open'),
    });
    expect(await here.home.client.call('peers', {})).toEqual({ peers: [] });
  });

  test('takes the place of the one before, and says so; its host is named where there is no terminal', async () => {
    const [here, there] = await Promise.all([lanHome('here', 'eve'), lanHome('there', 'bob')]);
    expect(await here.home.run('peer', 'invite')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('--fingerprint'),
    });
    const { fingerprint } = await there.home.client.call('status', {});
    const first = await here.home.json<InviteResult>('peer', 'invite', '--fingerprint', fingerprint);
    expect(first).toMatchObject({ voids_earlier: false, addresses: [expect.stringMatching(/^127\.0\.0\.1:[1-9]/)] });
    const again = await here.home.run('peer', 'invite', '--fingerprint', fingerprint);
    expect(again.stdout).toMatch(/\nThe code that you printed before is void now\.\n$/);
    const late = await there.home.runWith(first.code, 'peer', 'accept', first.addresses[0] ?? '');
    expect(late).toMatchObject({ code: 5, stdout: '' });
  });
});

/** Asks again until it is so: a command is a process, and takes its time. */
async function until<T>(ask: () => Promise<T>, isSo: (answer: T) => boolean): Promise<T> {
  const deadline = performance.now() + 30_000;
  for (;;) {
    const answer = await ask();
    if (isSo(answer)) return answer;
    if (performance.now() > deadline) throw new Error(`it is not so: ${JSON.stringify(answer)}`);
  }
}

/** Resolves with the inbox once so much in it is unread. */
const unread = (host: LanHome, agent: string, count: number) =>
  until(
    () => inboxOf(host, agent),
    (inbox) => inbox.unread === count,
  );
const inboxOf = ({ home }: LanHome, agent: string) => home.json<InboxResult>('inbox', '--as', agent);
const outboxOf = ({ home }: LanHome, ...flags: string[]) => home.json<OutboxResult>('outbox', 'list', ...flags);

describe('two hosts', () => {
  test('are paired by a code, exchange mail with receipts, go on under a new key, and are unpaired', async () => {
    const [here, there] = await pairedHomes();
    const { message_id: id } = await send(here, 'eve', 'bob@there', 'first');
    const got = await unread(there, 'bob', 1);
    expect(got.summaries).toMatchObject([{ message_id: id, from: 'eve@here', subject: 'first' }]);
    await until(
      () => outboxOf(here, '--show', 'all'),
      ({ rows }) => rows.some(({ message_id, state }) => message_id === id && state === 'done'),
    );
    await there.home.json('reply', '--as', 'bob', id, '--body', 'Yes.');
    await unread(here, 'eve', 1);

    const rotated = await here.home.json<RotateKeyResult & { unaware: string[] }>('host', 'rotate-key', '--yes');
    expect(rotated).toMatchObject({ peers: 1, unaware: [] });
    const { peers } = await until(
      () => there.home.json<PeersResult>('peer', 'list'),
      (list) => list.peers[0]?.host_pubkey === rotated.host_pubkey,
    );
    expect(peers).toMatchObject([{ host: 'here', retired_keys: 1, lan_failures: 0 }]);
    await send(here, 'eve', 'bob@there', 'second');
    await unread(there, 'bob', 2);
    // With its receipt: what is not confirmed when the hosts are unpaired is told of.
    await until(
      () => outboxOf(here),
      ({ rows }) => rows.length === 0,
    );

    await there.daemon.stop();
    expect((await here.home.run('host', 'rotate-key', '--yes')).stdout).toContain('1, not told yet: there.');
    const { message_id: waiting } = await send(here, 'eve', 'bob@there', 'third');
    const { rows } = await until(
      () => outboxOf(here),
      (list) => list.rows.some(({ lan_attempts }) => lan_attempts > 0),
    );
    expect((await here.home.run('outbox')).stdout).toContain(waiting);
    expect((await here.home.run('peer', 'list')).stdout).toMatch(/there .*failed since/);
    const row = String(rows.find(({ message_id }) => message_id === waiting)?.row);
    expect(await here.home.json<CancelResult>('outbox', 'cancel', row)).toMatchObject({ was_tried: true });
    expect(await here.home.run('outbox', 'cancel', row)).toMatchObject({ code: 4 });

    await send(here, 'eve', 'bob@there', 'fourth');
    const paired = await here.home.json<PeersResult>('peer', 'list');
    const start = paired.peers[0]?.fingerprint.slice(0, 15) ?? '';
    expect(await here.home.run('peer', 'remove', `${start}00`, '--yes')).toMatchObject({ code: 3 });
    expect((await here.home.run('peer', 'remove', start, '--yes')).stdout).toContain('not paired with there');
    const told = await inboxOf(here, 'eve');
    expect(told.summaries).toMatchObject([{ from: 'poste@here', subject: 'Undelivered to there', kind: 'alert' }, {}]);
    expect((await here.home.run('peer', 'list')).stdout).toContain('not paired with any host');

    // The other side was not told: what it sends goes into quarantine, by nobody's fault in silence.
    const again = await there.home.daemon();
    expect(await send(there, 'bob', 'eve@here', 'fifth')).toMatchObject({ recipients: [{ status: 'remote' }] });
    expect(await here.home.json<QuarantineResult>('quarantine')).toMatchObject({ total_items: 0 });
    again.signal('SIGTERM');
    expect(await again.ended()).toMatchObject({ code: 0 });
  }, 180_000);

  test('what came for an agent that is not there is shown, let in when it is, or discarded', async () => {
    const [here, there] = await pairedHomes();
    await there.home.json('agent', 'add', 'carol');
    await until(
      () => here.home.json<PeersResult>('peer', 'list'),
      ({ peers }) => peers[0]?.agents !== null,
    );
    await there.home.json('agent', 'remove', '--yes', 'bob');
    await send(here, 'eve', 'bob@there', 'for the next bob');
    const kept = await until(
      () => there.home.json<QuarantineResult>('quarantine'),
      ({ total_items }) => total_items === 1,
    );
    expect(kept.items).toMatchObject([{ number: 1, reason: 'unknown-agent', host: 'here' }]);
    const shown = await there.home.run('quarantine', 'show', '1');
    expect(shown.stdout).toContain('unknown-agent');
    expect(shown.stdout).toContain('| {"created_at"');
    expect((await there.home.run('quarantine')).stdout).toContain('1 item, ');
    // What can be done is done, and the rest is named.
    expect(await there.home.run('quarantine', 'retry', '1', '7')).toMatchObject({
      code: 3,
      stdout: expect.stringMatching(/^Let in 0 items\.\n {2}1 stays: .*\n$/) as string,
      stderr: 'poste: nothing in quarantine has the number 7: see poste quarantine.\n',
    });
    await there.home.json('agent', 'add', 'bob');
    expect((await there.home.run('quarantine', 'retry')).stdout).toContain('Let in 1 item.');
    expect(await inboxOf(there, 'bob')).toMatchObject({ unread: 1 });
    expect((await there.home.run('quarantine')).stdout).toBe('The quarantine is empty.\n');
    await there.home.json('agent', 'remove', '--yes', 'bob');
    await send(here, 'eve', 'bob@there', 'for the bob after that');
    await until(
      () => there.home.json<QuarantineResult>('quarantine', '--host', 'here'),
      ({ items }) => items.length === 1,
    );
    const discarded = await there.home.run('quarantine', 'discard', '--yes', '1', '2', '--json');
    expect({ ...discarded, stdout: JSON.parse(discarded.stdout) as object }).toMatchObject({
      code: 3,
      stdout: { discarded: [2], not_found: [1] },
      stderr: expect.stringContaining('"not_found":[1]') as string,
    });
  }, 180_000);
});

test('wrong arguments, refusals and what is not there: a sentence, its code, and how it ends', async () => {
  const here = await lanHome('here', 'eve');
  const there = await lanHome('there', 'bob');
  const { home } = here;
  const { fingerprint } = await home.client.call('status', {});
  const { code, addresses } = await there.home.json<InviteResult>('peer', 'invite', '--fingerprint', fingerprint);
  const [address = ''] = addresses;
  const wrong = `${code.slice(0, -4)}${code.endsWith('0000') ? '0001' : '0000'}`;
  const nobody = `127.0.0.1:${await freePort()}`;
  const cases: [args: string[], exit: number, code: string, says: RegExp, stdin?: string][] = [
    [['peer', 'no-such'], 2, '', /unknown command|too many arguments/],
    [['peer', 'invite', '--fingerprint', 'SHA256:x'], 2, 'BAD_INPUT', /fingerprint/],
    [['peer', 'accept'], 2, 'USAGE', /missing required argument 'address'/],
    [['peer', 'accept', 'laptop'], 2, 'USAGE', /host:port/],
    [['peer', 'accept', address, code], 2, 'USAGE', /too many arguments/],
    [['peer', 'accept', 'laptop/x:80'], 2, 'BAD_INPUT', /address/, code],
    [['peer', 'accept', address], 2, 'BAD_INPUT', /code/, '0123'],
    [['peer', 'accept', nobody], 75, 'PEER_UNREACHABLE', /did not answer \(ECONNREFUSED\)/, code.replace('-', '')],
    [['peer', 'accept', address], 5, 'PAIRING_REFUSED', /the code is wrong.*ask for a new code/, wrong],
    [['peer', 'list', 'lost'], 2, 'USAGE', /too many arguments|unknown command/],
    [['peer', 'address', 'nowhere', '127.0.0.1:9'], 3, 'NO_SUCH_PEER', /not paired with nowhere/],
    [['peer', 'remove', 'nowhere'], 2, 'NOT_CONFIRMED', /no terminal to ask on.*--yes/],
    [['peer', 'remove', 'nowhere', '--yes'], 3, 'NO_SUCH_PEER', /not paired with nowhere/],
    [['outbox', 'list', '--show', 'some'], 2, 'USAGE', /open, undelivered, all/],
    [['outbox', 'list', '--limit', '1000'], 2, 'USAGE', /limit/],
    [['outbox', 'cancel', '9'], 3, 'NO_SUCH_ROW', /no row 9/],
    [['outbox', 'cancel', 'x'], 2, 'USAGE', /row/],
    [['quarantine', 'show', '9'], 3, 'NO_SUCH_ROW', /number 9/],
    [['quarantine', 'discard', '1'], 2, 'NOT_CONFIRMED', /--yes/],
    [
      ['quarantine', 'list', '--host', 'elsewhere'],
      3,
      'NO_SUCH_PEER',
      /--host: .*not paired with elsewhere; it knows no/,
    ],
    [['outbox', 'list', '--host', 'elsewhere'], 3, 'NO_SUCH_PEER', /--host: .*not paired with elsewhere; it knows no/],
    [['relay', 'quarantine', '--host', 'elsewhere'], 3, 'NO_SUCH_PEER', /--host: /],
    [['quarantine', 'list', '--reason', 'none'], 2, 'USAGE', /malformed/],
    [['doctor', 'all'], 2, 'USAGE', /too many arguments/],
    [['doctor', '--start'], 2, 'USAGE', /unknown option '--start'/],
    [['trace'], 2, 'USAGE', /missing required argument 'message-id'/],
    [['trace', 'm1', 'm2'], 2, 'USAGE', /too many arguments/],
    [['trace', 'x'.repeat(129)], 2, 'BAD_INPUT', /<message-id>/],
    [['trace', 'nonesuch'], 3, 'NO_SUCH_MESSAGE', /knows no message nonesuch/],
    [['host', 'rotate-key'], 2, 'NOT_CONFIRMED', /--yes/],
    [['host'], 2, '', /Usage: poste host/],
  ];
  const nothing = {
    code: 3,
    stdout: '',
    stderr: 'poste: nothing in quarantine has the number 8 or 9: see poste quarantine.\n',
  };
  expect(await home.run('quarantine', 'discard', '--yes', '8', '9')).toMatchObject(nothing);
  expect(await home.run('quarantine', 'retry', '8', '9')).toMatchObject(nothing);
  for (const [args, exit, problem, says, stdin = ''] of cases) {
    const [plain, json] = await Promise.all([
      home.runWith(stdin, ...args),
      problem === '' ? undefined : home.runWith(stdin, ...args, '--json'),
    ]);
    expect({ args, code: plain.code, stdout: plain.stdout }).toEqual({ args, code: exit, stdout: '' });
    expect(plain.stderr).toMatch(says);
    if (!json) continue;
    const said = JSON.parse(json.stderr) as object;
    expect({ args, exit: json.code, ...said }).toMatchObject({ args, exit, code: problem });
  }
  for (const command of ['peer', 'outbox', 'quarantine', 'host']) {
    const { code: exit, stdout } = await home.run(command, '--help');
    expect({ command, exit }).toEqual({ command, exit: 0 });
    expect(stdout).toContain(`$ poste ${command}`);
  }

  // Wrong tries use up nothing.
  const right = await home.runWith(`${code.toLowerCase()}\n`, 'peer', 'accept', address);
  expect(right).toMatchObject({ code: 0, stdout: expect.stringContaining('Paired with there.') });
}, 180_000);
