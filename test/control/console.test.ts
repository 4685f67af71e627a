/** `POST /v1/console`: a link that opens the console once. */
import { expect, test } from 'vitest';
import { ControlClient } from '../../src/cli/relay/control-client.ts';
import { FIRST_ADAPTER } from '../support/adapters.ts';
import { relayForTest } from '../support/http-relay.ts';

test('every call gives another link to the listener of the operator, good for a minute', async () => {
  const relay = await relayForTest(FIRST_ADAPTER, { adminListen: { host: '127.0.0.1', port: 0 } });
  const control = new ControlClient(relay.folder);
  const [one, other] = [await control.post('/v1/console', {}), await control.post('/v1/console', {})];
  const form = new RegExp(`^http://127\\.0\\.0\\.1:${relay.relay.adminPort}/console/#token=[A-Za-z0-9_-]{43}$`);
  for (const { url, expires_at } of [one, other]) {
    expect(url).toMatch(form);
    expect(expires_at).toBe(relay.clock.nowMs() + 60_000);
  }
  expect(one['url']).not.toBe(other['url']);
});

test('a relay without an operator listener has no console, and says what to do', async () => {
  const relay = await relayForTest(FIRST_ADAPTER);
  await expect(new ControlClient(relay.folder).post('/v1/console', {})).rejects.toMatchObject({
    exit: 'conflict',
    code: 'NO_OPERATOR_LISTENER',
    message: expect.stringContaining('--admin-listen') as string,
  });
});
