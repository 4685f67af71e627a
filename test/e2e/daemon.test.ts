/** A host as its owner meets it: its daemon, and the commands that ask it. */
import { statSync } from 'node:fs';
import { chmod, readFile, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { InboxResult, SearchResult, SendResult } from '../../src/host/contract/mail.ts';
import type { SentResult } from '../../src/host/contract/sent-mail.ts';
import type { StatusResult } from '../../src/host/contract/daemon.ts';
import { PosteHome, endDaemon, posteHome } from '../support/poste-home.ts';
import { runHere } from '../support/command-run.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

/** Commands start the daemon, as they do everywhere but in tests. */
const STARTING = { POSTE_NO_START: '' };

const send = (to: string, body: string): string[] => [
  'send',
  '--as',
  'eve',
  '--to',
  to,
  '--subject',
  's',
  '--body',
  body,
];

describe('a host', () => {
  test('init, daemon, agents, send, inbox; and all of it is there after kill -9', async () => {
    const here = await posteHome();
    const daemon = await here.daemonProcess();
    expect(statSync(join(here.folder, 'daemon.sock')).mode & 0o777).toBe(0o600);
    await here.json('agent', 'add', 'eve');
    await here.json('agent', 'add', 'bob', '--role', 'review');
    const sent = await here.json<SendResult>(...send('role:review', 'Hello.'));
    expect(sent.recipients).toMatchObject([{ recipient: 'bob@here', status: 'offline' }]);

    await daemon.kill();
    const again = await here.daemonProcess();
    const list = await here.json<InboxResult>('inbox', '--as', 'bob');
    expect(list.summaries).toMatchObject([{ message_id: sent.message_id, from: 'eve@here' }]);
    const read = await here.json<InboxResult>('inbox', 'read', '--as', 'bob', sent.message_id);
    expect(read.messages).toMatchObject([{ body: 'Hello.' }]);
    await here.json('reply', '--as', 'bob', sent.message_id, '--body', 'Yes.');
    expect(await here.json<InboxResult>('inbox', '--as', 'eve')).toMatchObject({ unread: 1 });
    const { messages } = await here.json<SentResult>('sent', '--as', 'eve');
    expect(messages).toMatchObject([
      { message_id: sent.message_id, recipients: [{ recipient: 'bob@here', state: 'read' }] },
    ]);
    const way = await here.run('sent', '--as', 'eve', sent.message_id);
    expect(way.stdout).toMatch(/\nto bob@here\n {2}\S+ {2}delivered .*\n(?:.*\n)* {2}\S+ {2}read /);
    const found = await here.json<SearchResult>('inbox', 'search', '--as', 'bob', 'HELLO', 'eve');
    expect(found.summaries).toMatchObject([{ message_id: sent.message_id }]);
    const none = await here.run('inbox', 'search', '--as', 'bob', 'nothing of it');
    expect(none).toMatchObject({ code: 0, stdout: 'No message matches.\n' });

    again.signal('SIGTERM');
    expect(await again.ended()).toMatchObject({ code: 0, stderr: '' });
    expect(await readdir(here.folder)).toEqual(['config.toml', 'store']);
  });

  test('a second daemon is refused in one sentence, and the first goes on', async () => {
    const here = await posteHome();
    const daemon = await here.daemonProcess();
    const second = await here.runProcess('daemon');
    expect(second).toMatchObject({ code: 4, stdout: '' });
    expect(second.stderr).toMatch(/^poste: a daemon runs on the store at \S+ already: poste status shows it\.\n$/);
    expect((await here.json<StatusResult>('status')).pid).toBe(daemon.pid);
  });

  test('a command starts the daemon that it needs; what forbids that, and what only looks, starts none', async () => {
    const here = await posteHome('here', STARTING);
    onTestFinished(async () => endDaemon(await here.client.call('status', {}).then(({ pid }) => pid)));
    const without = [
      await here.run('status'),
      await here.run('session', 'list'),
      await here.run('inbox', '--as', 'owner', '--no-start'),
      await here.runProcess('--no-start', 'send', '--as', 'owner', '--to', 'owner', '--subject', 's', '--body', 'b'),
      await runHere(['agent'], { environment: { ...here.environment, POSTE_NO_START: '1' } }),
    ];
    for (const { code, stdout, stderr } of without) {
      expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
      expect(stderr).toMatch(/^poste: no daemon is running on the store at \S+: start it with poste daemon\.\n$/);
    }
    expect(await readdir(here.folder)).toEqual(['config.toml', 'store']);

    // At once, as programs begin at a login, one of them at a terminal.
    const typed = runHere(['inbox', '--as', 'owner'], { environment: here.environment, typed: '' });
    const sent = here.runProcess('send', '--as', 'owner', '--to', 'owner', '--subject', 's', '--body', 'b');
    const added = here.json('agent', 'add', 'eve');
    expect(await typed).toMatchObject({ code: 0, stderr: 'poste: starting the daemon; poste daemon stop ends it.\n' });
    expect(await sent).toMatchObject({ code: 0, stderr: '', stdout: expect.stringMatching(/^Accepted /) });
    await added;
    expect((await here.json<InboxResult>('inbox', '--as', 'owner')).unread).toBe(1);
    // One daemon served, and the others that were started too late did not replace its log.
    const log = await readFile(join(here.folder, 'daemon.log'), 'utf8');
    expect(log.match(/keeps the mail of here/g)).toHaveLength(1);
    expect(statSync(join(here.folder, 'daemon.log')).mode & 0o777).toBe(0o600);
  });

  test('doctor says what is broken and what mends it, with a daemon and without one', async () => {
    const here = await posteHome();
    const without = await here.run('doctor');
    expect(without).toMatchObject({
      code: 1,
      stderr: 'poste: 1 thing is broken: below each stands the command that repairs it.\n',
    });
    expect(without.stdout).toMatch(/BROKEN +daemon +does not run.*\n +\$ poste daemon\n/);
    expect(without.stdout).toMatch(/ok +store +\S+ opens\n/);
    await chmod(join(here.folder, 'store'), 0o755);
    await here.daemon();
    const open = await here.run('doctor', '--json');
    expect(open.code).toBe(1);
    expect(JSON.parse(open.stderr)).toMatchObject({ code: 'BROKEN', details: { checks: [{ id: 'folder' }] } });
    const { checks } = JSON.parse(open.stdout) as { checks: { id: string; state: string; command: string }[] };
    const broken = checks.find(({ state }) => state === 'broken');
    expect(broken).toMatchObject({ id: 'folder', command: `chmod 700 ${join(here.folder, 'store')}` });
    await chmod(join(here.folder, 'store'), 0o700);
    const well = await here.run('doctor');
    expect(well).toMatchObject({ code: 0, stderr: '', stdout: expect.stringMatching(/\nNothing is broken\.\n$/) });
  });

  test('doctor where there is no host yet', async () => {
    const nowhere = new PosteHome(join(await temporaryFolder(), 'nowhere'));
    const { code, stdout } = await nowhere.run('doctor');
    expect(code).toBe(1);
    expect(stdout).toMatch(/BROKEN +store +.* has not been made yet\n +\$ poste init\n/);
  });

  test('a command says why the daemon did not start, in the words of the daemon', async () => {
    const here = await posteHome('here', STARTING);
    await writeFile(join(here.folder, 'config.toml'), 'retention_days = "x"\n');
    const { code, stderr } = await here.run('inbox', '--as', 'owner');
    expect(code).toBe(1);
    expect(stderr).toMatch(/^poste: the daemon did not start: \S+config\.toml, line 1: retention_days must be .*\.\n$/);
  });

  test('what is no host, what cannot be, and what is missing ends with one sentence and its code', async () => {
    const here = await posteHome();
    const nowhere = new PosteHome(join(here.folder, 'nowhere'));
    const cases: [PosteHome, string[], number, RegExp][] = [
      [nowhere, ['daemon'], 3, /there is no store at \S+: make one with poste init/],
      [nowhere, ['agent', 'add', 'eve', '--start'], 3, /there is no store at \S+: make one with poste init/],
      [nowhere, ['backup', 'x'], 3, /there is no store/],
      [here, ['init'], 4, /there is a host already/],
      [here, ['init', '--host', '-x'], 2, /It must be letters/],
      [here, ['send'], 2, /required option '--to/],
      [here, ['send', '--to', 'a', '--subject', 's'], 2, /no body given/],
      [here, ['send', '--to', 'a', '--subject', 's', '--body', 'b', '--kind', 'loud'], 2, /Allowed choices/],
      [here, ['send', '--as', 'a b', '--to', 'a', '--subject', 's', '--body', 'b'], 2, /not the name of an agent/],
      [here, ['send', '--to', 'a', '--subject', 's', '--body-file', '/nope'], 3, /cannot be read/],
      [here, ['inbox', '--web', '--as', 'x'], 2, /leave out --as/],
      [here, ['inbox', 'search', '--as', 'owner'], 2, /missing required argument 'text'/],
      [here, ['sent', '--as', 'owner', 'x', '--limit', '2'], 2, /leave out the message/],
      [here, ['restore', process.execPath], 2, /add --yes/],
      [here, ['restore', '/nope', '--yes'], 3, /cannot be read/],
      [here, ['agent', 'add'], 2, /missing required argument/],
    ];
    for (const [where, args, code, why] of cases) {
      const ended = await where.run(...args);
      expect({ args, code: ended.code }).toEqual({ args, code });
      expect(ended.stderr).toMatch(why);
      expect(ended.stderr).not.toContain('    at ');
    }
  });

  test('refusals of the daemon have exit codes that scripts can switch on', async () => {
    const here = await posteHome();
    await here.daemon();
    await here.json('agent', 'add', 'eve');
    const cases: [string[], number, string][] = [
      [['agent', 'add', 'EVE'], 4, 'NAME_TAKEN'],
      [['agent', 'remove', 'evee'], 3, 'NO_SUCH_AGENT'],
      [send('evee', 'x'), 3, 'UNKNOWN_RECIPIENT'],
      [['send', '--to', 'eve', '--subject', 's', '--body', 'b'], 2, 'BAD_INPUT'],
      [['inbox', '--as', 'nobody'], 3, 'NO_SUCH_AGENT'],
      [['inbox', 'read', '--as', 'eve', 'nope'], 3, 'NO_SUCH_MESSAGE'],
      [['inbox', 'search', '--as', 'eve', ' '], 2, 'BAD_INPUT'],
      [['sent', '--as', 'eve', 'nope'], 3, 'NO_SUCH_MESSAGE'],
    ];
    for (const [args, code, name] of cases) {
      const ended = await here.run(...args, '--json');
      const { code: said } = JSON.parse(ended.stderr) as { code: string };
      expect({ args, code: ended.code, said }).toEqual({ args, code, said: name });
    }
  });
});

describe('backup and restore', () => {
  test('a backup of the running daemon is restored with its mail; what came since is told and kept aside', async () => {
    const here = await posteHome();
    const daemon = await here.daemon();
    await here.json('agent', 'add', 'eve');
    const first = await here.json<SendResult>(...send('eve', 'before'));
    const file = join(here.folder, 'poste.backup');
    const backup = await here.json<{ messages: number }>('backup', file);
    expect(backup.messages).toBe(1);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect((await here.run('backup', file)).code).toBe(4);
    await here.json(...send('eve', 'after'));
    const before = await here.json<StatusResult>('status');

    expect(await here.run('restore', file, '--yes')).toMatchObject({ code: 4 });
    daemon.signal('SIGTERM');
    await daemon.ended();
    const report = await here.json<{ replaced: object; kept_aside: string; receipt_floor: number }>(
      'restore',
      file,
      '--yes',
    );
    expect(report.replaced).toEqual({
      readable: true,
      same_host: true,
      messages_since: 1,
      outgoing_since: 0,
      agents_since: [],
    });
    expect(report.receipt_floor).toBeGreaterThan(Date.now());
    expect(statSync(report.kept_aside).isDirectory()).toBe(true);

    await here.daemon();
    const list = await here.json<InboxResult>('inbox', '--as', 'eve');
    expect(list.summaries?.map(({ message_id }) => message_id)).toEqual([first.message_id]);
    const owner = await here.json<InboxResult>('inbox', '--as', 'owner');
    expect(owner.summaries).toMatchObject([{ from: 'poste@here', subject: 'Restored from a backup', kind: 'alert' }]);
    expect((await here.json<StatusResult>('status')).fingerprint).toBe(before.fingerprint);
  });

  test('an altered backup and one of another host change nothing', async () => {
    const [here, other] = [await posteHome(), await posteHome()];
    const file = join(here.folder, 'poste.backup');
    await here.json('backup', file);
    const bytes = await readFile(file);
    const altered = join(here.folder, 'altered.backup');
    await writeFile(altered, Buffer.concat([bytes.subarray(0, -1), Buffer.from(' ')]));
    expect(await here.run('restore', altered, '--yes')).toMatchObject({ code: 1 });
    expect(await other.run('restore', file, '--yes')).toMatchObject({
      code: 4,
      stderr: expect.stringContaining('that of another host'),
    });
    expect((await readdir(here.folder)).toSorted()).toEqual(['altered.backup', 'config.toml', 'poste.backup', 'store']);
    expect(await readdir(other.folder)).toEqual(['config.toml', 'store']);
  });
});
