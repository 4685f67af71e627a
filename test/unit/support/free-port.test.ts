import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { expect, test } from 'vitest';
import { freePort } from '../../support/free-port.ts';

test('a port stays reserved: another process of the tests does not get it', async () => {
  const port = await freePort();

  const another = createSocket('udp4');
  const failed = once(another, 'error');
  another.bind({ port, address: '127.0.0.1', exclusive: true });

  expect((await failed)[0]).toMatchObject({ code: 'EADDRINUSE' });
  another.close();
});
