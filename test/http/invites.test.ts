/**
 * A relay that serves with `--admission invite`: a new host brings an open invite, and each invite lets one host in.
 */
import { describe, expect, test } from 'vitest';
import { sha256Hex } from '../../src/protocol/encodings.ts';
import { ANY_ADAPTER } from '../support/adapters.ts';
import { type EnrolChanges, enrolHost } from '../support/enrolments.ts';
import { type HttpRelay, relayForTest } from '../support/http-relay.ts';
import { alice, bob } from '../support/hosts.ts';

const TOKEN = 'poste-invite-an-open-one';
const HOUR_MS = 3_600_000;

describe.each(ANY_ADAPTER)('%s', (adapter) => {
  const invited = async (...tokens: string[]): Promise<HttpRelay> => {
    const relay = await relayForTest(adapter, { admission: 'invite' });
    for (const token of tokens) await issue(relay, token);
    return relay;
  };

  test('an open invite lets one host in, and no second one', async () => {
    const relay = await invited(TOKEN);
    expect((await enrolHost(relay, alice, shown(TOKEN))).status).toBe(200);
    expect(await enrolHost(relay, bob, shown(TOKEN))).toBeProblem('ENROL_REFUSED', {
      reason: 'this relay lets invited hosts in, and the proof is no open invite',
    });
    expect(relay.relay.engine.directory.liveCount).toBe(1);
  });

  test.each<[string, unknown]>([
    ['no proof', undefined],
    ['null', null],
    ['a number', 5],
    ['an object', { token: TOKEN }],
    ['a list', [TOKEN]],
    ['an empty text', ''],
    ['another token', `${TOKEN}x`],
    ['the token in other letters', TOKEN.toUpperCase()],
    ['the token with a space', `${TOKEN} `],
    ['the hash that the relay keeps', sha256Hex(TOKEN)],
  ])('%s is no invite, and leaves the open one open', async (_what, proof) => {
    const relay = await invited(TOKEN);
    const refused = await enrolHost(relay, alice, shown(proof));
    expect(refused).toBeProblem('ENROL_REFUSED', {
      reason: 'this relay lets invited hosts in, and the proof is no open invite',
    });
    expect(refused.body.toString()).not.toContain(TOKEN);
    expect(relay.relay.engine.directory.get(alice.key)).toBeUndefined();
    expect((await enrolHost(relay, alice, shown(TOKEN))).status).toBe(200);
  });

  test('an invite survives a restart, and so does that it was used', async () => {
    const relay = await invited(TOKEN, `${TOKEN}-2`);
    await enrolHost(relay, alice, shown(TOKEN));
    await relay.restart();
    expect(await enrolHost(relay, bob, shown(TOKEN))).toBeProblem('ENROL_REFUSED');
    expect((await enrolHost(relay, bob, shown(`${TOKEN}-2`))).status).toBe(200);
  });
});

function shown(proof: unknown): EnrolChanges {
  return { sent: { proof } };
}

async function issue(relay: HttpRelay, token: string): Promise<void> {
  const nowMs = relay.clock.nowMs();
  const inviteHash = sha256Hex(token);
  await relay.relay.engine.admissions.issueInvite({
    type: 'IssueInvite',
    inviteHash,
    label: '',
    expiresAtMs: nowMs + HOUR_MS,
    nowMs,
  });
}
