/** `/v1/invites`: tokens that let one host in, and which of them are open. */
import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import { ControlClient } from '../../src/cli/relay/control-client.ts';
import type { IssuedInviteDocument } from '../../src/relay/operator/documents.ts';
import { INVITES_MAX } from '../../src/relay/core/decide-admission.ts';
import { FIRST_ADAPTER } from '../support/adapters.ts';
import { enrolHost } from '../support/enrolments.ts';
import { type HttpRelay, relayForTest } from '../support/http-relay.ts';
import { alice } from '../support/hosts.ts';

const HOUR_MS = 3_600_000;

const started = (admission: 'open' | 'invite' = 'invite'): Promise<HttpRelay> =>
  relayForTest(FIRST_ADAPTER, { admission });

test('a token is said once; what is kept is the hash of its text', async () => {
  const relay = await started();
  const issuedAtMs = relay.clock.nowMs();
  const answer = await issue(relay, { label: "Ada's laptop" });
  expect(answer).toEqual({
    token: expect.stringMatching(/^poste-invite-[A-Za-z0-9_-]{43}$/) as string,
    label: "Ada's laptop",
    issued_at: issuedAtMs,
    expires_at: issuedAtMs + HOUR_MS,
    admission: 'invite',
  });
  const token = answer.token;
  expect((await issue(relay)).token).not.toBe(token);
  await relay.stop();
  const { events, rows } = await relay.stored();
  expect(events.find(({ type }) => type === 'InviteIssued')).toEqual({
    type: 'InviteIssued',
    inviteHash: createHash('sha256').update(token, 'utf8').digest('hex'),
    label: "Ada's laptop",
    expiresAtMs: issuedAtMs + HOUR_MS,
    atMs: issuedAtMs,
  });
  const stored = JSON.stringify([events, rows]);
  expect(stored).not.toContain(token.slice(-20));
  expect(stored).not.toContain(Buffer.from(token.slice(-20)).toString('hex'));
});

test('it says when the relay is open to everybody', async () => {
  expect(await issue(await started('open'))).toMatchObject({ admission: 'open' });
});

test('the list holds what is open, and no token: neither what was used nor what has expired', async () => {
  const relay = await started();
  const nowMs = relay.clock.nowMs();
  const used = await issue(relay, { label: 'used' });
  await issue(relay, { label: 'short', lifetime_ms: 60_000 });
  await issue(relay, { label: 'long' });
  expect((await enrolHost(relay, alice, { sent: { proof: used['token'] } })).status).toBe(200);
  const long = { label: 'long', issued_at: nowMs, expires_at: nowMs + HOUR_MS };
  const client = new ControlClient(relay.folder);
  const listed = await client.list('/v1/invites');
  expect(listed).toHaveLength(2);
  expect(listed).toEqual(expect.arrayContaining([{ ...long, label: 'short', expires_at: nowMs + 60_000 }, long]));
  // Before a sweep has forgotten it.
  relay.clock.move(60_000);
  expect(await client.list('/v1/invites')).toEqual([long]);
  await relay.restart();
  expect(await client.list('/v1/invites')).toEqual([long]);
});

test.each<[string, object]>([
  ['no label', { lifetime_ms: HOUR_MS }],
  ['a label that is no text', { label: 5, lifetime_ms: HOUR_MS }],
  ['a long label', { label: 'x'.repeat(101), lifetime_ms: HOUR_MS }],
  ['a label with a control character', { label: 'a\u001b[2J', lifetime_ms: HOUR_MS }],
  ['half a character', { label: '\ud800', lifetime_ms: HOUR_MS }],
  ['no lifetime', { label: '' }],
  ['a lifetime of no time', { label: '', lifetime_ms: 59_999 }],
  ['a lifetime over a year', { label: '', lifetime_ms: 365 * 24 * HOUR_MS + 1 }],
  ['half a millisecond', { label: '', lifetime_ms: 60_000.5 }],
  ['a lifetime that is no number', { label: '', lifetime_ms: '60000' }],
])('%s is refused, and no invite is made', async (_what, body) => {
  const relay = await started();
  const client = new ControlClient(relay.folder);
  await expect(client.post('/v1/invites', body)).rejects.toMatchObject({ exit: 'usage', code: 'BAD_REQUEST' });
  expect(await client.list('/v1/invites')).toEqual([]);
});

test('too many open invites are refused for the time being', async () => {
  const relay = await started();
  const { engine } = relay.relay;
  const nowMs = relay.clock.nowMs();
  const hashes = Array.from({ length: INVITES_MAX }, (_, at) => createHash('sha256').update(String(at)).digest('hex'));
  type Hash = Parameters<typeof engine.admissions.issueInvite>[0]['inviteHash'];
  const command = { type: 'IssueInvite', label: '', expiresAtMs: nowMs + 1, nowMs } as const;
  await Promise.all(hashes.map((hash) => engine.admissions.issueInvite({ ...command, inviteHash: hash as Hash })));
  await expect(issue(relay)).rejects.toMatchObject({ exit: 'temporary', code: 'UNAVAILABLE' });
  relay.clock.move(1);
  relay.timers.pass(59_000);
  await expect.poll(() => issue(relay).catch(() => undefined)).toBeDefined();
});

function issue(relay: HttpRelay, changes: object = {}): Promise<IssuedInviteDocument> {
  return new ControlClient(relay.folder).post('/v1/invites', { label: '', lifetime_ms: HOUR_MS, ...changes });
}
