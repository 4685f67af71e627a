/** Says why a server cannot listen on an address, as a sentence with the next step. */
import { createServer } from 'node:net';

/** The fault and its remedy, by the code of the system. */
const FAULTS: Readonly<Record<string, string>> = {
  EADDRINUSE: 'another process has it; choose another address',
  EADDRNOTAVAIL: 'no network interface of this machine has that address; choose another one',
  EACCES: 'this user may not listen on that port; choose one from 1024 on',
  ENOTFOUND: 'there is no such name; choose another address',
  EAI_AGAIN: 'its name cannot be looked up now; name a number',
};

export class ListenFailed extends Error {
  /** `code` is that of the system; `undefined` where it is unknown. */
  static at(host: string, port: number, code: string | undefined): ListenFailed {
    const unknown = `another process may have it${code === undefined ? '' : ` (${code})`}; choose another address`;
    return new ListenFailed(`${host}:${port} cannot be listened on: ${FAULTS[code ?? ''] ?? unknown}`);
  }
}

/** Says why nobody can listen there, for a server that does not say it; `undefined` when it can be listened on now. */
export function whyNotListening(host: string, port: number): Promise<string | undefined> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', (error: NodeJS.ErrnoException) => resolve(error.code));
    server.listen({ host, port, exclusive: true }, () => server.close(() => resolve(undefined)));
  });
}
