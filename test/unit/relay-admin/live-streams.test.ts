/** Streams of samples when the relay stops. */
import { expect, test } from 'vitest';
import { LiveStreams } from '../../../src/relay/admin/console/live-streams.ts';
import { Sessions } from '../../../src/relay/admin/console/sessions.ts';
import type { Exchange } from '../../../src/relay/http/exchange.ts';

test('one that is asked for while the relay stops is refused and not begun', async () => {
  const sessions = new Sessions(
    () => 0,
    (count) => Buffer.alloc(count, 1),
  );
  const entered = sessions.exchange(sessions.issueToken());
  if (!entered) throw new Error('a fresh token is good');
  const streams = new LiveStreams({ listen: () => () => undefined } as never, sessions);
  streams.close();
  const exchange = { startReply: () => expect.unreachable('a stream began') } as unknown as Exchange;
  const result = await streams.serve(exchange, 'a-request', entered.session);
  expect(result).toMatchObject({ status: 503, close: true });
  expect(streams.size).toBe(0);
});
