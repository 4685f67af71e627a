/** `poste setup` on a machine with the real programs, from nothing to a first mail and back. */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { claudeHome } from './claude.ts';
import { codexSettings } from './codex.ts';
import { check, type Scenario } from './scenario.ts';
import { listedMail } from './turns.ts';
import { until } from '../until.ts';
import type { World } from './world.ts';

const SETUP = ['setup', '--yes', '--no-service', '--allow-tools'];
const UNDO = ['setup', '--undo', '--yes'];
const CLAUDE_FILE = '.claude.json';
const HOMES = ['.claude', '.codex'];
/** The copy of what a file was before it was changed. */
const COPY = /\.poste-/;

type Files = Record<string, string>;

/** The files with a program's settings, and what stands in them. */
function settingsOf(world: World): Files {
  const names = HOMES.flatMap((folder) =>
    readdirSync(join(world.home, folder), { withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map(({ name }) => join(folder, name)),
  );
  const settings = [...names, CLAUDE_FILE].filter((name) => /\.(?:json|toml)$/.test(name) && !COPY.test(name));
  return Object.fromEntries(settings.map((name) => [name, world.read(name)]));
}

function changed(before: Files, after: Files): string[] {
  const names = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...names].filter((name) => before[name] !== after[name]);
}

async function bothHomes(world: World): Promise<void> {
  const settings = { permissions: { allow: ['Bash'] } };
  await claudeHome(world, { hasHooks: false, hasTools: false, settings });
  world.write('.codex/config.toml', codexSettings(world));
}

/** Claude writes to Codex, which answers. */
function firstMailModel(world: World): void {
  world.model.script = ({ newest }) => {
    const [id] = listedMail(newest);
    if (id !== undefined) {
      return { type: 'tool', name: 'mcp__poste__mail_reply', input: { message_id: id, body: 'I am Codex.' } };
    }
    if (newest.includes('look at the mail')) return { type: 'tool', name: 'mcp__poste__mail_inbox', input: {} };
    if (!newest.includes('write to Codex')) return undefined;
    const input = { to: ['codex'], subject: 'Hello', body: 'Who are you?', needs_reply: true };
    return { type: 'tool', name: 'mcp__poste__mail_send', input };
  };
}

/** What Claude Code changed in its own file while it ran is not ours: only our server is gone from it. */
function withoutServer(text: string): string {
  const { mcpServers: _ours, ...others } = JSON.parse(text) as Record<string, unknown>;
  return JSON.stringify(others);
}

async function daemonHasEnded(world: World): Promise<void> {
  await until('the daemon has ended', () => world.processes(/\0daemon\0/).length === 0 || undefined);
}

export const SETUP_SCENARIOS: readonly Scenario[] = [
  {
    programs: ['claude', 'codex'],
    isBare: true,
    name: 'poste setup and its undo leave every setting byte for byte as it was',
    async run(world) {
      await bothHomes(world);
      const before = settingsOf(world);
      await world.poste(...SETUP);
      const touched = changed(before, settingsOf(world));
      check(touched.length === 4, `setup changed ${touched.join(', ')}`);
      await world.poste(...UNDO);
      const left = changed(before, settingsOf(world));
      check(left.length === 0, `not as before: ${left.join(', ')}`);
      await daemonHasEnded(world);
      return `written and put back: ${touched.join(', ')}`;
    },
  },
  {
    programs: ['claude', 'codex'],
    isBare: true,
    name: 'from nothing to a first mail to Codex, and its answer, with poste setup and one prompt each',
    async run(world) {
      await bothHomes(world);
      const before = settingsOf(world);
      await world.poste(...SETUP);
      firstMailModel(world);
      await world.run('claude', ['-p', 'write to Codex']);
      await world.run('codex', ['exec', '--skip-git-repo-check', 'look at the mail']);
      const mail = await world.poste('inbox', 'list', '--as', 'claude', '--json');
      check(mail.includes('"reply_to"'), `Claude Code has no answer: ${mail}`);
      const used = settingsOf(world);
      await world.poste(...UNDO);
      const after = settingsOf(world);
      // Claude Code counts its starts in its own file, so that one is held against what it had become.
      const others = changed(before, { ...after, [CLAUDE_FILE]: before[CLAUDE_FILE] ?? '' });
      check(others.length === 0, `not as before: ${others.join(', ')}`);
      const isClean =
        withoutServer(used[CLAUDE_FILE] ?? '{}') === JSON.stringify(JSON.parse(after[CLAUDE_FILE] ?? '{}'));
      check(isClean, `${CLAUDE_FILE} is ${after[CLAUDE_FILE]}`);
      await daemonHasEnded(world);
      return 'and undone';
    },
  },
];
