/**
 * Every command once as a process: from the bundle, with its own standard output and exit code. What it does and
 * refuses beyond that is tried in process. Those that serve or wait, and those whose pipes matter, are processes in
 * other files of this folder.
 */
import { execFile } from 'node:child_process';
import { cp, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Command } from 'commander';
import { expect, test } from 'vitest';
import { CLI_PAGE, cliPage, MAN_PAGE, manPage } from '../../scripts/make-cli-docs.ts';
import { readyHelp, shownBy } from '../../scripts/program-help.ts';
import type { InviteResult } from '../../src/host/contract/peers.ts';
import { posteCommand } from '../../src/cli/run.ts';
import { commandContext, relayHere } from '../support/command-run.ts';
import { freePort } from '../support/free-port.ts';
import { alice, bob } from '../support/hosts.ts';
import { itemTo } from '../support/mail.ts';
import { GROFF, neededProgram } from '../support/programs.ts';
import { PosteHome, posteHome } from '../support/poste-home.ts';
import { type Environment, poste, run } from '../support/poste-process.ts';
import { clientOf } from '../support/relay-command.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

/** Processes of cli, completion, daemon, mcp, wake, witness and operator-commands, and of the test of `poste setup`. */
const ELSEWHERE = 'daemon,run,session,hooks,mcp,relay serve,relay witness,relay keygen,relay console,setup,completion';
/** The commands that were run here, without their arguments. */
const ran = new Set<string>(ELSEWHERE.split(','));

type Document = Record<string, unknown>;

/** The document that a command prints as a process; fails when it fails. `name` is the command, which `args` follow. */
async function printed(environment: Environment, name: string, ...args: string[]): Promise<Document> {
  const { code, signal, stdout, stderr } = await run([...name.split(' '), ...args, '--json'], environment);
  expect({ name, code, signal, stderr: code === 0 ? '' : stderr }).toEqual({ name, code: 0, signal: null, stderr: '' });
  ran.add(name);
  return JSON.parse(stdout.split('\n', 1)[0] ?? '') as Document;
}

test('of a host', { timeout: 120_000 }, async () => {
  const environment = { POSTE_LAN_LISTEN: '127.0.0.1:0', POSTE_HOME: join(await temporaryFolder(), 'here') };
  expect(await printed(environment, 'init', '--host', 'here')).toMatchObject({ host: 'here' });
  const here = new PosteHome(environment.POSTE_HOME, environment);
  const there = await posteHome('there', { POSTE_LAN_LISTEN: '127.0.0.1:0' });
  const [daemon] = await Promise.all([here.daemon(), there.daemon()]);
  const { start: relay } = await relayHere(join(await temporaryFolder(), 'relay'));
  const shown = (name: string, ...args: string[]): Promise<Document> => printed(environment, name, ...args);

  expect(await shown('agent', 'add', 'eve')).toMatchObject({ address: 'eve@here' });
  const as = ['--as', 'eve'];
  const sent = await shown('send', ...as, '--to', 'eve', '--subject', 's', '--body', 'b');
  const id = String(sent['message_id']);
  const { fingerprint } = await there.client.call('status', {});
  const { code, addresses } = (await shown('peer', 'invite', '--fingerprint', fingerprint)) as InviteResult;
  const address = addresses[0] ?? '';
  expect(await there.client.call('pair-accept', { code, address })).toMatchObject({ host: 'here' });
  expect(await shown('relay set', relay.url)).toMatchObject({ relay: { url: relay.url } });
  const backup = join(environment.POSTE_HOME, 'poste.backup');
  expect(await shown('reply', ...as, id, '--body', 'Yes.')).toMatchObject({ thread: id });
  const all = await Promise.all([
    shown('agent', 'list', ...as),
    shown('inbox', ...as),
    shown('sent', ...as),
    shown('waiting'),
    shown('trace', id),
    shown('status'),
    shown('doctor'),
    shown('peer'),
    shown('outbox'),
    shown('quarantine'),
    shown('relay status'),
    shown('relay evidence'),
    shown('relay quarantine'),
    shown('backup', backup),
  ]);
  expect(all).toMatchObject([
    { you: 'eve@here' },
    { summaries: [{ from: 'eve@here' }, {}] },
    { messages: [{}, {}] },
    { debts: [], total: 0 },
    { message_id: id },
    { host: 'here' },
    { ok: true },
    { peers: [{ host: 'there' }] },
    { rows: [] },
    { items: [] },
    { relay: { url: relay.url } },
    { evidence: [] },
    { items: [] },
    { file: backup },
  ]);
  const { start: second } = await relayHere(join(await temporaryFolder(), 'relay'));
  expect(await shown('relay add', second.url, '--yes')).toMatchObject({ relay: { url: second.url }, number: 2 });
  expect(await shown('relay list')).toMatchObject({ relays: [{ number: 1 }, { number: 2 }] });
  expect(await shown('relay move', second.url, '--yes')).toMatchObject({ from: { url: relay.url } });
  expect(await shown('relay move', 'cancel')).toMatchObject({ kept: true });
  expect(await shown('relay prefer', second.url)).toMatchObject({ relays: [{ relay: { url: second.url } }, {}] });
  expect(await shown('relay remove', second.url)).toMatchObject({ relay: { url: second.url } });
  expect(await shown('host', 'rotate-key', '--yes')).toMatchObject({ peers: 1 });
  expect(await shown('relay unset')).toMatchObject({ relay: { url: relay.url } });
  expect(await shown('peer', 'remove', 'there', '--yes')).toMatchObject({ host: 'there' });
  expect(await shown('host', 'rename', 'server')).toMatchObject({ host: 'server', former_host: 'here' });
  await daemon.stop();
  expect(await shown('restore', backup, '--yes')).toMatchObject({ replaced: { same_host: true } });
});

test('of a relay', { timeout: 120_000 }, async () => {
  const folder = await temporaryFolder();
  const storeDir = join(folder, 'store');
  const relay = await relayHere(storeDir);
  for (const host of [alice, bob]) await clientOf(relay, host).enrol();
  await clientOf(relay, alice).push([itemTo([bob], 'm1')]);
  const target = `/v2/relay/log/proof?item_id=m1&target=${encodeURIComponent(bob.key)}`;
  const proof = join(folder, 'proof.json');
  await writeFile(proof, JSON.stringify(await clientOf(relay, alice).request('GET', target)));
  const shown = (name: string, ...args: string[]): Promise<Document> =>
    printed({}, `relay ${name}`, ...args, '--store-dir', storeDir);

  const backup = join(folder, 'relay.backup');
  expect(await Promise.all([shown('hosts'), shown('admit'), shown('backup', backup)])).toMatchObject([
    { hosts: [{ host: 'alice' }, { host: 'bob' }] },
    { admission: 'open' },
    { items: 1, online: true },
  ]);
  expect(await shown('revoke', 'alice', '--yes')).toMatchObject({ is_new: true });
  expect(await shown('rotate-epoch')).toMatchObject({ epoch: expect.any(String) as string });
  expect(await shown('doctor')).toMatchObject({ broken: 0, store: storeDir });
  await relay.process.stop();
  const { relay_pubkey: key } = relay.start;
  expect(await printed({}, 'relay log check-proof', proof, '--relay-key', key)).toMatchObject({ pinned: true });
  expect(await printed({}, 'relay rehearse', '--backup', backup)).toMatchObject({ faults: [], differences: [] });
  // They open the store one at a time.
  expect(await shown('log verify')).toMatchObject({ verified: true });
  const built = join(import.meta.dirname, '../../dist/cli/main.js');
  const rehearsed = await printed({}, 'relay rehearse', '--backup', backup, '--against', built);
  expect(rehearsed).toMatchObject({ rehearsed: true, hosts: 2, differences: [], faults: [] });
  expect(await shown('log show', '--limit', '1')).toMatchObject({ lsn: 1 });
  expect(await shown('log at', '--lsn', '1')).toMatchObject({ lsn: 1 });
  expect(await shown('log trace', 'm1')).toMatchObject({ items: [{ item_id: 'm1' }] });
  expect(await shown('log archive', join(folder, 'log.archive'))).toMatchObject({ first_lsn: 1 });
  expect(await shown('log rebuild', '--yes')).toMatchObject({ lost: 0 });
  expect(await shown('restore', backup, '--yes')).toMatchObject({ carried: { revoked: 1 } });
});

test('of a shared log, whose server is not there', async () => {
  const log = ['--log', `postgres://postgres@127.0.0.1:${await freePort()}/mail`, '--json'];
  const at = [...log, '--store-dir', join(await temporaryFolder(), 'store')];
  for (const [name, args, code, problem] of [
    ['init', log, 75, 'LOG_UNREACHABLE'],
    ['take-lead', [...log, '--node', 'alpha'], 75, 'LOG_UNREACHABLE'],
    ['withdraw', at, 75, 'LOG_UNREACHABLE'],
    ['publish', at, 3, 'STORE_MISSING'],
  ] as const) {
    const key = { MAIL_RELAY_KEY: Buffer.alloc(32, 1).toString('base64') };
    const ended = await run(['relay', 'cluster', name, ...args], key);
    const { code: said } = JSON.parse(ended.stderr) as { code: string };
    expect({ name, code: ended.code, said }).toEqual({ name, code, said: problem });
    ran.add(`relay cluster ${name}`);
  }
});

test('none was left out', async () => {
  const poste = await posteCommand(undefined, commandContext());
  const groups = new Set(['relay', 'relay log', 'relay cluster']);
  const isGroup = (name: string): boolean => groups.has(name);
  const namesIn = (command: Command, parent: string): string[] =>
    command.commands.flatMap((child) => {
      const name = `${parent}${child.name()}`;
      return isGroup(name) ? namesIn(child, `${name} `) : [name];
    });
  expect([...ran].toSorted()).toEqual(namesIn(poste, '').toSorted());
});

// Here, because loading every command costs seconds.
test('docs/cli.md is what the commands say of themselves now: npm run docs:cli writes it', async () => {
  const page = await cliPage();
  expect(page.match(/^## poste/gm)?.length).toBeGreaterThan(50);
  expect(page).toBe(await readFile(CLI_PAGE, 'utf8'));
});

test('man/poste.1 is what the commands say of themselves now: npm run docs:cli writes it', async () => {
  const page = await manPage();
  expect(page.match(/^\.SS "poste /gm)?.length).toBeGreaterThan(50);
  expect(page).toBe(await readFile(MAN_PAGE, 'utf8'));
  // Every line that begins with a full stop is a request that is meant.
  const requests = [...page.matchAll(/^(?<request>[.'].*?)(?: |$)/gm)].map(({ groups }) => groups?.['request'] ?? '');
  const meant = ['.B', '.PP', '.RI', '.SH', '.SS', '.TH', '.TP', '.\\"', '.fi', '.nf'];
  expect(new Set(requests)).toEqual(new Set(meant));
});

test('groff takes the manual page without a warning', async (context) => {
  const groff = neededProgram(context, GROFF);
  const { stdout, stderr } = await promisify(execFile)(groff, ['-man', '-Tutf8', '-ww', MAN_PAGE], {
    maxBuffer: 16 << 20,
  });
  expect(stderr).toBe('');
  expect(stdout).toContain('relay log check-proof');
});

test('poste alone and its help are printed without the rest of the program, as the command line does', async () => {
  const dist = join(import.meta.dirname, '../../dist/cli');
  const folder = join(await temporaryFolder(), 'cli');
  await mkdir(folder);
  for (const name of ['main.js', 'package.json', 'help.json']) await cp(join(dist, name), join(folder, name));
  for (const args of [[], ['--help'], ['-h']]) {
    const { text, exitCode } = await shownBy(args);
    const said = args.length === 0 ? { stdout: '', stderr: text } : { stdout: text, stderr: '' };
    expect(await poste(args, {}, { main: join(folder, 'main.js') }).ended()).toEqual({
      code: exitCode,
      signal: null,
      ...said,
    });
  }
  const ready = await readyHelp();
  expect(JSON.parse(await readFile(join(dist, 'help.json'), 'utf8'))).toEqual(ready);
  for (const columns of [ready.wideFrom, ready.wideFrom + 1, 200]) {
    expect((await shownBy(['--help'], columns)).text).toBe(ready.wide);
    expect((await shownBy([], columns)).text).toBe(ready.wide);
  }
  expect((await shownBy([], ready.wideFrom - 1)).text).not.toBe(ready.wide);
});
