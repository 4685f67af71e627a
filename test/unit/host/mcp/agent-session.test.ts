/** When the session of a `poste mcp` registers, and when it begins to wait for doorbells. */
import { once } from 'node:events';
import { setImmediate as turn } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { AgentSession } from '../../../../src/host/mcp/agent-session.ts';
import type { DaemonLink } from '../../../../src/host/mcp/daemon-link.ts';
import { deferred } from '../../../support/deferred.ts';

/** A session whose daemon answers a registration when the test says so, and never ends a wait. */
function session() {
  const asked: string[] = [];
  const registration = deferred();
  const wait = deferred();
  const callRunning = async (operation: string, _input: unknown, { signal }: { signal: AbortSignal }) => {
    asked.push(operation);
    if (operation === 'session-wait') {
      wait.resolve();
      await once(signal, 'abort');
      throw signal.reason;
    }
    if (operation === 'session-register') await Promise.race([registration.promise, once(signal, 'abort')]);
    signal.throwIfAborted();
    return { live_ms: 180_000 };
  };
  const own = new AgentSession({
    link: { callRunning } as unknown as Pick<DaemonLink, 'callRunning'>,
    sessionId: 'mcp-1',
    inbox: { socket: '/nowhere', token: 'none' },
    parentPid: () => 42,
    log: () => {},
  });
  onTestFinished(() => own.end());
  return { own, asked, registration, wait };
}

test('waits for doorbells as soon as its session is registered, and not before', async () => {
  const { asked, registration, wait } = session();
  await turn();
  expect(asked).toEqual(['session-register']);
  registration.resolve();
  await wait.promise;
  expect(asked).toEqual(['session-register', 'session-wait']);
});

test('ends while its registration is under way', async () => {
  const { own, asked } = session();
  await turn();
  await own.end();
  expect(asked).toEqual(['session-register']);
});
