/** `poste relay add`, `list`, `remove` and `prefer`: what is asked, and what is printed. */
import { expect, test } from 'vitest';
import { displayFingerprint } from '../../../../src/protocol/public-key.ts';
import { isoTime } from '../../../../src/protocol/time.ts';
import type { RelayAddResult, RelayView } from '../../../../src/host/contract/relays.ts';
import { EXIT } from '../../../../src/cli/lib/exit.ts';
import { elsewhereLines, relayListText, removedText } from '../../../../src/cli/host/relay-list.ts';
import type { CommandWorld } from '../../../support/command-run.ts';
import { daemonAnswers, runAsked } from '../../../support/daemon-answers.ts';
import { relay as relayHost } from '../../../support/hosts.ts';
import { PIPE, terminal } from '../../../support/screens.ts';
import { NOON_MS } from '../../../support/test-clock.ts';

const fingerprint = displayFingerprint(relayHost.key);
const URL_2 = 'https://relay2.example';

const RELAY: RelayView['relay'] = {
  url: URL_2,
  relay_pubkey: relayHost.key,
  fingerprint,
  pinned_at: isoTime(NOON_MS),
  protocol: 2,
  token_from: null,
  ca_file: null,
};

function view(number: number, url: string, changes: Partial<RelayView> = {}): RelayView {
  return {
    number,
    role: 'home',
    relay: { ...RELAY, url },
    state: 'ready',
    problem: null,
    seen_key: null,
    epoch: 'FIRST',
    epochs_left: 0,
    clock_ahead_ms: 0,
    limits: null,
    enrolment: null,
    received_through: 0,
    head_seq: 0,
    long_poll: true,
    evidence: 0,
    is_down: false,
    heard_seconds: 2,
    unheard_seconds: 0,
    held: 0,
    held_alone: 0,
    copies_at: [],
    hosts: [],
    ...changes,
  };
}

const SILENT = view(2, 'https://r2.example', {
  is_down: true,
  state: 'failing',
  heard_seconds: 425,
  unheard_seconds: 425,
  held: 312,
  copies_at: [1],
});

const ADDED: RelayAddResult = { relay: RELAY, number: 2, role: 'home', trust: 'first-use', hosts: [] };

const run = (args: string[], world?: CommandWorld) => runAsked(['relay', ...args], world);

test('the list has a line for each relay: number, address, use, state, key, and what is to be known of it', () => {
  const guest = view(3, 'https://x.example', { role: 'guest', hosts: ['bob'] });
  const short = fingerprint.slice(0, 15);
  expect(relayListText(terminal(120), [view(1, 'https://r1.example'), SILENT, guest])).toBe(
    `1  https://r1.example  home   ready          ${short}  long poll, heard 2 s ago
2  https://r2.example  home   not heard 7 m  ${short}  312 messages there have second copies at 1
3  https://x.example   guest  ready          ${short}  for bob
`,
  );
});

test.each<[string, Partial<RelayView>, string]>([
  ['does not answer', { is_down: true }, 'down'],
  ['was silent for hours', { is_down: true, unheard_seconds: 7300 }, 'not heard 2 h'],
  ['shows another key', { state: 'key-changed', is_down: true, unheard_seconds: 900 }, 'key-changed'],
  ['has no session yet', { state: 'connecting', is_down: true }, 'connecting'],
])('the state of a relay that %s', (_what, changes, state) => {
  expect(relayListText(PIPE, [view(2, URL_2, changes)]).split(/ {2,}/)[3]).toBe(state);
});

test('messages that one relay alone has, and its problem, stand in its line', () => {
  const problem = { code: 'NO_TOKEN', message: 'no fresh token\u001b[2J', at: isoTime(NOON_MS) };
  const text = relayListText(PIPE, [
    view(2, URL_2, { state: 'failing', held: 3, held_alone: 2, copies_at: [1, 3], problem }),
  ]);
  expect(text).toContain(
    '1 message there has a second copy at 1 and 3, 2 messages there alone, no fresh token\\u{1b}[2J',
  );
  expect(text.trimEnd().split('\n')).toHaveLength(1);
});

test('at a terminal the owner sees address, key and what the operator will see, and is asked', async () => {
  const asked = daemonAnswers(ADDED);
  const { code, stdout, stderr } = await run(['add', URL_2], { typed: 'y\n' });
  expect(code).toBe(EXIT.ok);
  expect(stderr).toContain(`  address      ${URL_2}\n  key          ${fingerprint}\n`);
  expect(stderr).toContain('so a second operator sees its subject');
  expect(stderr).toContain('Add it as home relay 2? [y/N] ');
  expect(stdout).toContain(`This host uses ${URL_2}, as its relay 2, with the key\n  ${fingerprint}\n`);
  expect(asked.map(({ input }) => input)).toEqual([
    { url: URL_2, dry_run: true },
    // What the owner confirmed, and no other that answers by then.
    { url: URL_2, key: fingerprint },
  ]);
});

test('another answer than yes adds nothing', async () => {
  const asked = daemonAnswers(ADDED);
  const { code, stderr } = await run(['add', URL_2, '--guest'], { typed: 'n\n' });
  expect(code).toBe(EXIT.failure);
  expect(stderr).toContain('nothing was done');
  expect(asked.map(({ input }) => input)).toEqual([{ url: URL_2, guest: true, dry_run: true }]);
});

test('a guest is told that no host learns of it, and who named the key', async () => {
  daemonAnswers({ ...ADDED, role: 'guest', hosts: ['bob'] });
  const { stderr } = await run(['add', URL_2, '--guest'], { typed: 'n\n' });
  expect(stderr).toContain('bob takes mail at a relay with this key.\n');
  expect(stderr).toContain('No paired host learns that this host is there.\n');
  expect(stderr).not.toContain('second operator');
});

test('without a terminal it takes --key or --yes, and asks nothing', async () => {
  const asked = daemonAnswers(ADDED);
  const { code, stderr } = await run(['add', URL_2]);
  expect(code).toBe(EXIT.usage);
  expect(stderr).toContain('add --yes to go ahead, or name it with --key');
  expect(asked).toEqual([]);
  expect((await run(['add', URL_2, '--key', fingerprint])).code).toBe(EXIT.ok);
  expect((await run(['add', URL_2, '--yes', '--json'])).stdout).toContain('"number":2');
  expect(asked.map(({ input }) => input)).toEqual([{ url: URL_2, key: fingerprint }, { url: URL_2 }]);
});

test.each([['0'], ['9'], ['relay2'], ['']])('%j names no relay', async (which) => {
  const asked = daemonAnswers({});
  const { code, stderr } = await run(['remove', which]);
  expect(code).toBe(EXIT.usage);
  expect(stderr).toContain('It must be its number, as poste relay list shows it, or its URL.');
  expect(asked).toEqual([]);
});

test('a relay is removed and preferred by number or address', async () => {
  const asked = daemonAnswers({ relay: RELAY, number: 2, role: 'home', held_alone: 0, left_behind: 0 });
  await run(['remove', '2']);
  await run(['remove', URL_2, '--last']);
  const preferred = daemonAnswers({ relays: [view(1, URL_2)] });
  expect((await run(['prefer', '2'])).stdout).toMatch(/^1 {2}https:\/\/relay2\.example {2}home/);
  expect(asked.map(({ input }) => input)).toEqual([{ relay: '2' }, { relay: URL_2, last: true }]);
  expect(preferred).toEqual([{ name: 'relay-prefer', input: { relay: '2' } }]);
});

test('what lay at a removed relay is said', () => {
  const gone = { relay: RELAY, number: 2, role: 'home' as const, held_alone: 0, left_behind: 0 };
  expect(removedText(gone)).toBe(`This host does not use ${URL_2} any more.\n`);
  expect(removedText({ ...gone, held_alone: 12, left_behind: 1 })).toBe(`This host does not use ${URL_2} any more.
12 messages lay only there and go elsewhere now.
1 item for this host still waits there.
`);
  expect(removedText({ ...gone, held_alone: 1, left_behind: null })).toContain(
    '1 message lay only there and goes elsewhere now.\nIt did not answer a last time: ',
  );
});

test('where a host takes mail is said while no relay of it is used that works', () => {
  const r = { url: 'https://r.example', fingerprint, is_shared: false };
  expect(elsewhereLines({ host: 'bob' })).toEqual([]);
  expect(elsewhereLines({ host: 'bob', takes_mail_at: [r] })).toEqual([
    `bob: no common relay; bob takes mail at https://r.example (${fingerprint})`,
  ]);
  expect(elsewhereLines({ host: 'bob', takes_mail_at: [{ ...r, url: URL_2, is_shared: true }, r] })).toEqual([
    `bob: no common relay works; bob takes mail at https://r.example (${fingerprint})`,
  ]);
  expect(elsewhereLines({ host: 'bob', takes_mail_at: [] })).toEqual(['bob: takes mail over the LAN alone']);
});
