/** `poste relay move`, `move status` and `move cancel`: what is asked, and what is printed. */
import { expect, test } from 'vitest';
import { displayFingerprint } from '../../../../src/protocol/public-key.ts';
import { isoTime } from '../../../../src/protocol/time.ts';
import type { RelayMoveStarted, RelayMoveView } from '../../../../src/host/contract/relay-move.ts';
import { EXIT } from '../../../../src/cli/lib/exit.ts';
import { moveText } from '../../../../src/cli/host/relay-move.ts';
import type { CommandWorld } from '../../../support/command-run.ts';
import { daemonAnswers, runAsked } from '../../../support/daemon-answers.ts';
import { bob, relay as relayHost } from '../../../support/hosts.ts';
import { PIPE } from '../../../support/screens.ts';
import { NOON_MS } from '../../../support/test-clock.ts';

const OLD = { url: 'https://old.example', relay_pubkey: bob.key, fingerprint: displayFingerprint(bob.key) };
const NEW = {
  url: 'https://new.example',
  relay_pubkey: relayHost.key,
  fingerprint: displayFingerprint(relayHost.key),
};

const MOVE: RelayMoveView = {
  state: 'leaving',
  from: OLD,
  to: NEW,
  started_at: isoTime(NOON_MS),
  since: isoTime(NOON_MS),
  waiting_for: ['carol', 'dave'],
  written_to: ['dave'],
  held: 2,
  last_item_at: isoTime(NOON_MS),
  next_at: isoTime(NOON_MS + 86_400_000),
};

const STARTED: RelayMoveStarted = {
  relay: { ...NEW, pinned_at: isoTime(NOON_MS), protocol: 2, token_from: null, ca_file: null },
  trust: 'first-use',
  from: OLD,
  move: { ...MOVE, state: 'adding', waiting_for: [], written_to: [], held: 0, last_item_at: null, next_at: null },
};

const run = (args: string[], world?: CommandWorld) => runAsked(['relay', 'move', ...args], world);

test('at a terminal the owner sees address and key, and is asked; what was shown is what is taken', async () => {
  const asked = daemonAnswers(STARTED);
  const { code, stdout, stderr } = await run([NEW.url], { typed: 'y\n' });
  expect(code).toBe(EXIT.ok);
  expect(stderr).toContain(`  address      ${NEW.url}\n  key          ${NEW.fingerprint}\n`);
  expect(stderr).toContain(`Leave ${OLD.url} for it? [y/N] `);
  expect(stdout).toContain('adding: the new relay does not work yet');
  expect(asked).toEqual([
    { name: 'relay-move', input: { url: NEW.url, dry_run: true } },
    { name: 'relay-move', input: { url: NEW.url, key: NEW.fingerprint } },
  ]);
});

test('another answer than yes moves nothing', async () => {
  const asked = daemonAnswers({ ...STARTED, move: null });
  const { code, stderr } = await run([NEW.url], { typed: 'n\n' });
  expect(code).toBe(EXIT.failure);
  expect(stderr).toContain('nothing was done');
  expect(asked.map(({ input }) => input)).toEqual([{ url: NEW.url, dry_run: true }]);
});

test('without a terminal it takes --key or --yes, and asks nothing', async () => {
  const asked = daemonAnswers(STARTED);
  const { code, stderr } = await run([NEW.url]);
  expect(code).toBe(EXIT.usage);
  expect(stderr).toContain('add --yes to go ahead, or name it with --key');
  expect(asked).toEqual([]);
  expect((await run(['to', NEW.url, '--yes', '--json'])).stdout).toContain('"state":"adding"');
  expect((await run([NEW.url, '--key', NEW.fingerprint, '--token-file', '/t'])).code).toBe(EXIT.ok);
  expect(asked.map(({ input }) => input)).toEqual([
    { url: NEW.url },
    { url: NEW.url, key: NEW.fingerprint, token_file: '/t' },
  ]);
});

test.each([
  ['no address', []],
  ['two addresses', [NEW.url, OLD.url, '--yes']],
  ['an unknown flag', [NEW.url, '--guest']],
  ['status with an argument', ['status', NEW.url]],
  ['cancel with a flag of the other', ['cancel', '--yes']],
])('%s is a usage error, and nothing is asked', async (_what, args) => {
  const asked = daemonAnswers(STARTED);
  expect((await run(args)).code).toBe(EXIT.usage);
  expect(asked).toEqual([]);
});

test('status says how far it is, what it waits for, and who was written to', async () => {
  const text = moveText(PIPE, MOVE);
  expect(text).toContain('leaving: paired hosts are told that the old relay is left');
  expect(text).toMatch(/waits for +carol, dave\n/);
  expect(text).toMatch(/written to +the owners of dave\n/);
  expect(text).toMatch(/unconfirmed +2 messages at the old relay\n/);
  expect(text).toMatch(/next step +\S+ at the earliest\n/);
  expect(moveText(PIPE, { ...MOVE, state: 'done', next_at: null })).not.toMatch(/unconfirmed|last item|next step/);
  const asked = daemonAnswers({ move: null });
  expect((await run(['status'])).stdout).toBe('This host moves to no other relay.\n');
  expect((await run(['status', '--json'])).stdout).toBe('{"move":null}\n');
  expect(asked[0]).toEqual({ name: 'relay-move-status', input: {} });
});

test('cancel says where the host stays, and whether the new relay is still used', async () => {
  const asked = daemonAnswers({ move: MOVE, kept: true });
  expect((await run(['cancel'])).stdout).toBe(
    `This host stays at ${OLD.url}.
Paired hosts may know ${NEW.url}: it stays in use. poste relay remove lets it go.
`,
  );
  expect(asked).toEqual([{ name: 'relay-move-cancel', input: {} }]);
  daemonAnswers({ move: { ...MOVE, state: 'adding' }, kept: false });
  expect((await run(['cancel'])).stdout).toBe(`This host stays at ${OLD.url}.\n`);
});
