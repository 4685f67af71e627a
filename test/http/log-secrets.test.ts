/** Tests what a relay logs of a whole life of requests: that they were, and nothing of what they said. */
import { expect, test } from 'vitest';
import { FIRST_ADAPTER } from '../support/adapters.ts';
import { ask, consoleToken, enterConsole } from '../support/console-session.ts';
import { ControlClient } from '../../src/cli/relay/control-client.ts';
import { hopBytes } from '../support/hops.ts';
import { enrolWithToken, hostedRelayForTest } from '../support/hosted-relay.ts';
import { relayForTest } from '../support/http-relay.ts';
import { alice, bob, hostNamed, relay as relayHost } from '../support/hosts.ts';
import { envelopeWire, itemTo } from '../support/mail.ts';
import { rawRequest, requestBytes } from '../support/raw-http.ts';
import { rotationBody } from '../support/rotations.ts';

const ADMIN = { adminListen: { host: '127.0.0.1', port: 0 } };

test('no key, id, subject, body, cursor, signature, token or cookie is ever in the log', async () => {
  const relay = await relayForTest(FIRST_ADAPTER, { ...ADMIN, admission: 'invite' });
  const control = new ControlClient(relay.folder);
  const invites = await Promise.all(
    [alice, bob].map((host) => control.post('/v1/invites', { label: `for ${host.name}`, lifetime_ms: 60_000 })),
  );
  const tokens = invites.map(({ token }) => token);
  await relay.client(alice).enrol('owner-of-alice', tokens[0]);
  await relay.client(bob).enrol('owner-of-bob', tokens[1]);
  const wire = envelopeWire('item-id-1', 300);
  await relay.client(alice).push([itemTo([bob], 'item-id-1', wire)]);
  const { epoch, items } = await relay.client(bob).pull();
  const envelope = { id: 'item-id-2', to_host: 'bob', subject: 'a-subject', sealed: { alg: 'a', enc: 'e', ct: 'c' } };
  await relay.sendByName(alice, 'POST', '/v1/relay/messages', { envelopes: [envelope] });
  const page = await relay.sendByName(bob, 'GET', '/v1/relay/messages');
  const { cursor } = JSON.parse(page.body.toString()) as { cursor: string };
  await relay.sendByName(bob, 'GET', `/v1/relay/messages?after=${cursor}`);
  await relay.client(bob).ack(epoch, items[0]?.seq ?? 0);
  await relay.send(relay.hop(alice, 'GET', `/v2/relay/enc-key?key=${encodeURIComponent(bob.key)}`));
  await relay.send(relay.hop(alice, 'POST', '/v2/relay/items', '{"items": "not-a-list"}'));
  await relay.send(relay.hop(alice, 'GET', '/v2/relay/items'), { host: hostNamed('mallory') } as never);
  await relay.client(bob).request('POST', '/v2/relay/rotate', rotationBody(bob, hostNamed('bob-next')));
  for (const path of ['/secret-path?secret-query', '/v2/relay/info?secret-query', '/v2/relay/items/secret-path']) {
    await rawRequest(relay.port, requestBytes('GET', path, { 'x-mail-host': 'secret-header' }));
  }
  await rawRequest(
    relay.port,
    hopBytes(relay.hop(alice, 'POST', '/v1/relay/ack', '{"cursor":"secret-cursor"}')),
    'POST',
  );
  const session = await enterConsole(relay);
  const oneTime = await consoleToken(relay);
  await ask(relay, 'POST', '/session', {}, { token: oneTime });
  await session.get(`/host?key=${encodeURIComponent(alice.key)}`);
  await session.get('/hosts?search=secret-search');
  await session.post('/revoke', { host_pubkey: alice.key, confirm: 'alice' });
  await control.post('/v1/hosts/revoke', { host: bob.key }).catch(() => undefined);

  expect(relay.logged.length).toBeGreaterThan(20);
  const keys = [alice, bob, relayHost, hostNamed('bob-next')].flatMap(({ key }) => [
    key,
    encodeURIComponent(key),
    Buffer.from(key, 'base64').toString('hex'),
  ]);
  const words = [
    'alice',
    'bob',
    'mallory',
    'owner-of',
    'item-id',
    'a-subject',
    'not-a-list',
    'secret-',
    wire.toString('base64'),
  ];
  const secrets = [...tokens, cursor, oneTime, session.cookie, session.csrf];
  const text = JSON.stringify(relay.logged);
  expect([...keys, ...words, ...secrets].filter((word) => word === '' || text.includes(word))).toEqual([]);
  // What is there is from closed sets, and enough to find a request by its id.
  for (const { level, fields } of relay.logged) {
    expect(level).toBe('info');
    expect(
      Object.keys(fields).filter((name) => !['id', 'method', 'route', 'status', 'code', 'durationMs'].includes(name)),
    ).toEqual([]);
    expect(fields).toMatchObject({ id: expect.stringMatching(/^[0-9a-f]{16}$/) as string });
  }
});

test('nor is a token of an account or anything that it claims', async () => {
  const hosted = await hostedRelayForTest(FIRST_ADAPTER, ADMIN);
  await enrolWithToken(hosted, alice, { account: 'an-account', org: 'an-org', client_id: 'a-client' });
  await enrolWithToken(hosted, bob, { account: 'an-account', exp: 1 });
  const { logged } = hosted.relay;
  expect(logged.length).toBeGreaterThan(3);
  const text = JSON.stringify(logged);
  for (const word of ['an-account', 'an-org', 'a-client', 'eyJ', alice.key]) expect(text).not.toContain(word);
});
