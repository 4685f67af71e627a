/**
 * The shell blocks of the README and of docs, typed as they stand there, on machines that have nothing yet. They need
 * no network, and leave no process behind.
 */
import { cp, mkdir, readFile, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { type Chosen, blocksToRun, isChosen, userBlocks } from '../support/doc-blocks.ts';
import { type Block, commandsOf } from '../support/doc-pages.ts';
import { fixtureBackup, fixtureStore } from '../support/fixture-stores.ts';
import { freePort } from '../support/free-port.ts';
import { Machine, typeBlock } from '../support/page-machine.ts';
import { PATIENCE_MS } from '../support/patience.ts';
import { IS_THOROUGH } from '../support/thorough.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const ACP_AGENT = fileURLToPath(new URL('../support/scripted-acp-agent.ts', import.meta.url));
const BLOCKS = userBlocks();
const TO_RUN = blocksToRun(BLOCKS);

const typedBlocks: Block[] = [];

/** Types the blocks of a page, or of a heading of it, and returns what they print. `machines` are called by prompts. */
async function typeBlocks(chosen: Chosen, machines: Machine | Record<string, Machine>): Promise<string> {
  const blocks = TO_RUN.filter((block) => isChosen(chosen, block));
  expect(blocks).not.toEqual([]);
  let printed = '';
  for (const block of blocks) {
    printed += await typeBlock(block, (name) => (machines instanceof Machine ? machines : machines[name]));
    typedBlocks.push(block);
  }
  return printed;
}

async function agents(machine: Machine, ...names: string[]): Promise<void> {
  const [first = '', ...others] = names;
  await machine.typed('poste init', `poste agent add ${first} --start`);
  for (const name of others) await machine.typed(`poste agent add ${name}`);
}

/** The id of the newest message that an agent sent. */
async function newestOf(machine: Machine, agent: string): Promise<string> {
  const { messages } = JSON.parse(await machine.typed(`poste sent --as ${agent} --json`)) as {
    messages: { message_id: string }[];
  };
  return messages[0]?.message_id ?? '';
}

/** A machine with the folders of a relay that was installed by docs/operating.md, of which it is the user. */
async function relayMachine(): Promise<Machine> {
  const machine = await Machine.make();
  const { folder } = machine;
  machine.stands.push(
    [/\/opt\/poste(?:-new)?\//g, ROOT],
    [/(?<![\w/.-])\/(?=var\/lib\/|etc\/poste|backups|archives)/g, `${folder}/`],
  );
  for (const name of [
    'var/lib',
    'etc/poste',
    'backups',
    'archives',
    'var/lib/poste-backups',
    'var/lib/poste-archives',
  ]) {
    await mkdir(join(folder, name), { recursive: true, mode: 0o700 });
  }
  await machine.program('bin/sudo', '[ "$1" = -u ] && shift 2\nexec "$@"');
  await machine.program('bin/systemctl', '');
  await machine.typed('umask 077', machine.here('poste relay keygen > /etc/poste/relay.key'));
  const definition = BLOCKS.flatMap(commandsOf).find(({ text }) => text.startsWith('as_relay() {'));
  machine.begins = machine.here(definition?.text.split('\n')[0] ?? '');
  return machine;
}

describe.runIf(IS_THOROUGH)('the shell blocks', { timeout: 4 * PATIENCE_MS }, () => {
  test('README: a first mail, and when mail does not arrive', async () => {
    const machine = await Machine.make('claude', 'codex');
    expect(await typeBlocks({ page: 'README.md', heading: 'First mail in a minute' }, machine)).toContain('codex@');
    machine.stands.push(['01M8JFTJ', (await newestOf(machine, 'claude')).slice(0, 12)]);
    const printed = await typeBlocks({ page: 'README.md', heading: 'When mail does not arrive' }, machine);
    expect(printed).toContain('\nNothing is broken, ');
  });

  test('README: a relay for two machines, over which mail goes', async () => {
    const [server, laptop] = [await Machine.make(), await Machine.make()];
    for (const [name, machine, agent] of [
      ['server', server, 'tester'] as const,
      ['laptop', laptop, 'builder'] as const,
    ]) {
      await machine.typed(`poste init --host ${name}`, `poste agent add ${agent} --start`);
      machine.stands.unshift([/(?:192\.168\.1\.5|0\.0\.0\.0):8787/g, `127.0.0.1:${server.ports.relay}`]);
    }
    laptop.relay = server;
    await laptop.program('bin/scp', `cp "${server.folder}/\${1#192.168.1.5:}" "$2"`);
    await pair(server, laptop);
    const printed = await typeBlocks({ page: 'README.md', heading: 'A relay in a minute' }, { server, laptop });
    expect(printed).toContain('Nothing is broken.');
    // Nobody listens there.
    for (const [machine, peer] of [[server, 'laptop'] as const, [laptop, 'server'] as const]) {
      await machine.typed(`poste peer address ${peer} 127.0.0.1:1`);
    }
    await laptop.typed('poste send --as builder --to tester@server --subject "Over the relay" --body Hello');
    expect(await server.typed('poste inbox --as tester --wait 45')).toContain('Over the relay');
    expect(await laptop.typed(`poste trace ${await newestOf(laptop, 'builder')}`)).toContain('relay');
  });

  test('docs/host.md: an upgrade, and nothing is left', async () => {
    const machine = await Machine.make('claude', 'codex', 'gemini', 'opencode', 'git', 'npm');
    await mkdir(join(machine.folder, 'shop/.git'), { recursive: true });
    await machine.typed('poste setup --yes', 'cd shop', 'poste setup --yes --project --notes');
    await machine.typed('echo hello | poste send --as claude --to codex --subject s --body -');
    expect(await readdir(join(machine.folder, 'shop'))).toContain('CLAUDE.md');
    await typeBlocks({ page: 'docs/host.md', heading: 'Upgrade' }, machine);
    await typeBlocks({ page: 'docs/host.md', heading: 'Remove it all' }, machine);
    const files = await readdir(machine.folder, { recursive: true, withFileTypes: true });
    const left = files.filter((entry) => !entry.isDirectory()).map(({ parentPath, name }) => join(parentPath, name));
    const own = left.filter((path) => !path.startsWith(join(machine.folder, 'bin/')));
    expect(own).toEqual([join(machine.folder, 'before-upgrade.backup')]);
  });

  test('docs/library.md', async () => {
    const machine = await Machine.make();
    await machine.typed(`ln -s ${ROOT}docs docs`);
    const printed = await typeBlocks({ page: 'docs/library.md' }, machine);
    expect(printed.trim().split('\n').length).toBeGreaterThan(2);
  });

  test('docs/mail.md', async () => {
    expect(await typeBlocks({ page: 'docs/mail.md' }, await Machine.make())).toContain('Ready');
  });

  test('docs/mcp.md: entries that begin the tools, and agents of a checkout', async () => {
    const machine = await Machine.make();
    // What stands behind -- is what the program would start; its client says nothing and leaves.
    const add =
      'while [ "$#" -gt 0 ] && [ "$1" != -- ]; do shift; done\n[ "$#" = 0 ] || { shift; exec "$@" < /dev/null; }';
    for (const name of ['claude', 'codex', 'copilot', 'cline']) await machine.program(`bin/${name}`, add);
    await agents(machine, 'builder', 'reviewer', 'writer', 'fixer');
    await typeBlocks({ page: 'docs/mcp.md', heading: 'The mail tools over MCP' }, machine);
    machine.cwd = join(machine.folder, 'shop');
    await mkdir(join(machine.cwd, '.git'), { recursive: true });
    const printed = await typeBlocks({ page: 'docs/mcp.md', heading: 'Several checkouts' }, machine);
    expect(printed).toContain('done: add the agent claude-shop');
    expect(await readdir(machine.cwd)).toEqual(['.git']);
  });

  test('docs/relay-mail.md: a relay, another key of it, and what looks for the fault', async () => {
    const machine = await Machine.make();
    machine.stands.push(['https://relay.example', `http://127.0.0.1:${machine.ports.relay}`]);
    await agents(machine, 'ann', 'bert');
    const first = await machine.serve('poste relay serve');
    const heading = 'Mail over a relay';
    const printed = await typeBlocks({ page: 'docs/relay-mail.md', heading }, { laptop: machine });
    expect(printed).toMatch(/state +ready/);
    await first.end();
    await machine.serve('poste relay serve --store-dir other');
    await typeBlocks({ page: 'docs/relay-mail.md', heading: "When the relay's key changes" }, { laptop: machine });
    await machine.typed('poste send --as ann --to bert --subject s --body b');
    machine.stands.push(['01M80HQDFX5ZRD3FX1M03XMNFC', await newestOf(machine, 'ann')]);
    await typeBlocks({ page: 'docs/relay-mail.md', heading: 'When something does not arrive' }, machine);
  });

  test('docs/waking.md: hooks, a session by hand, and workers without a terminal', async () => {
    const machine = await Machine.make('claude', 'codex');
    await agents(machine, 'backend', 'tester', 'reviewer', 'checker', 'writer', 'asker');
    await typeBlocks({ page: 'docs/waking.md', heading: 'Waking agents' }, machine);
    const mail = (to: string) => machine.typed(`poste send --as asker --to ${to} --kind request --subject s --body b`);
    await mail('backend');
    await typeBlocks({ page: 'docs/waking.md', heading: 'A program that none of these covers' }, machine);
    const tsx = import.meta.resolve('tsx');
    for (const name of ['gemini', 'qwen', 'opencode']) {
      const notes = join(machine.folder, name);
      await mkdir(notes);
      await machine.program(`bin/${name}`, `exec ${process.execPath} --import ${tsx} ${ACP_AGENT} ${notes} reads`);
    }
    await typeBlocks({ page: 'docs/waking.md', heading: 'Workers without a terminal' }, machine);
    for (const agent of ['backend', 'tester', 'writer']) await mail(agent);
    for (const name of ['gemini', 'qwen', 'opencode']) {
      const prompts = () => readFile(join(machine.folder, name, 'prompts'), 'utf8').catch(() => '');
      await expect.poll(prompts, { timeout: PATIENCE_MS }).toContain('unread message');
    }
  });

  test('docs/audit.md', async () => {
    const machine = await relayMachine();
    await cp((await fixtureStore(3)).folder, join(machine.folder, 'var/lib/poste'), { recursive: true });
    await cp(fixtureBackup(3), join(machine.folder, 'var/lib/poste-backups/drill.backup'));
    const printed = await typeBlocks({ page: 'docs/audit.md' }, machine);
    expect(printed).toContain('expired: its target did not ack it in time');
    expect(printed.match(/^Verified: /gm)).toHaveLength(2);
  });

  test('docs/backup.md', async () => {
    const machine = await relayMachine();
    const first = await machine.serve(
      machine.here('poste relay serve --key-file /etc/poste/relay.key --store-dir /var/lib/poste'),
    );
    await first.end();
    const printed = await typeBlocks({ page: 'docs/backup.md' }, machine);
    expect(printed).toContain('This was a dry run: the store is as it was.');
    expect(printed).toContain('"last_backup":{"at":');
  });

  describe('docs/operating.md', () => {
    const page = 'docs/operating.md';

    test('a relay that runs', async () => {
      const machine = await relayMachine();
      const settings = await readFile(join(ROOT, 'scripts/deploy/relay.toml'), 'utf8');
      await writeFile(join(machine.folder, 'etc/poste/relay.toml'), machine.here(settings));
      await machine.settings(machine.here('store_dir = "/var/lib/poste"\n'));
      await machine.serve(
        machine.here('poste relay serve --config /etc/poste/relay.toml --key-file /etc/poste/relay.key'),
      );
      for (const heading of ['In five minutes', 'Is everything well?']) await typeBlocks({ page, heading }, machine);
      const link = await typeBlocks({ page, heading: 'What to watch' }, machine);
      expect(link).toContain(`http://127.0.0.1:${machine.ports.operator}/console/#token=`);
      expect(await typeBlocks({ page, heading: 'Upgrades' }, machine)).toContain('Rehearsed: ');
    });

    test('a hosted one', async () => {
      const machine = await Machine.make();
      await typeBlocks({ page, heading: 'A hosted relay' }, machine);
      expect(machine.field('authority')).toBe('account-token');
    });

    test('one with a witness', async () => {
      const machine = await relayMachine();
      const at = `127.0.0.1:${await freePort()}`;
      machine.stands.push(
        ['poste relay witness', `poste relay witness --listen ${at}`],
        ['https://witness.example', `http://${at}`],
        ["'witness.example/w1+6d1c7c2e+BO…'", () => machine.field('key')],
      );
      await typeBlocks({ page, heading: 'A witness' }, machine);
      const [witness, relay] = machine.left.map(({ printed }) => printed);
      expect(witness).toMatch(/^Poste witness .* is ready\.$/m);
      expect(relay).toMatch(/^Poste relay .* is ready\.$/m);
    });
  });

  test('are all typed', () => {
    expect(TO_RUN.filter((block) => !typedBlocks.includes(block))).toEqual([]);
  });
});

/** By a code and a fingerprint, without anybody who confirms. */
async function pair(inviting: Machine, accepting: Machine): Promise<void> {
  const { fingerprint } = JSON.parse(await accepting.typed('poste status --json')) as { fingerprint: string };
  const invitation = await inviting.typed(`poste peer invite --json --fingerprint ${fingerprint}`);
  const { code, addresses } = JSON.parse(invitation) as { code: string; addresses: string[] };
  await accepting.typed(`echo ${code} | poste peer accept ${addresses[0] ?? ''}`);
}
