/** Streams of events when the process stops. */
import { expect, test } from 'vitest';
import { LiveStreams } from '../../../../src/http/browser-session/live-streams.ts';
import { Sessions } from '../../../../src/http/browser-session/sessions.ts';
import type { Exchange } from '../../../../src/http/exchange.ts';
import { found } from '../../../support/found.ts';

test('one that is asked for while the process stops is refused and not begun', async () => {
  const sessions = new Sessions(
    () => 0,
    (count) => Buffer.alloc(count, 1),
  );
  const entered = found(sessions.exchange(sessions.issueToken()), 'a fresh token is good');
  const streams = new LiveStreams({ sessions, subscribe: () => () => undefined });
  streams.close();
  const exchange = { startReply: () => expect.unreachable('a stream began') } as unknown as Exchange;
  const result = await streams.serve(exchange, 'a-request', entered.session);
  expect(result).toMatchObject({ status: 503, close: true });
  expect(streams.size).toBe(0);
});
