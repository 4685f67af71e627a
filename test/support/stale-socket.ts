/** A socket that a killed process left behind: its file is there, and nobody listens. */
import { once } from 'node:events';
import { rename } from 'node:fs/promises';
import { createServer } from 'node:net';

export async function leaveSocket(path: string): Promise<void> {
  const server = createServer().listen(path);
  await once(server, 'listening');
  // Its name is kept from the server, which would remove it.
  await rename(path, `${path}.kept`);
  server.close();
  await once(server, 'close');
  await rename(`${path}.kept`, path);
}
