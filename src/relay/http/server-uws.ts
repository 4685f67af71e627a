/**
 * The uWebSockets.js adapter: with uws-connection.ts the only file that knows its API.
 *
 * A throw in a handler, or a return without reply and without `onAborted`, ends the whole process (SIGABRT); so nothing
 * throws, every connection has an `onAborted` at all times, and nothing touches `res` after an abort or an end. Chunks
 * are neutered after the callback.
 */
import { connectionsOfAll } from '../../http/connections.ts';
import { type HttpServer, type Listen, ListenFailed } from '../../http/exchange.ts';
import type { UwsBinding, us_listen_socket } from './uws-binding.ts';
import { UwsConnections } from './uws-connection.ts';

export function listenUws({ uws, version }: UwsBinding): Listen {
  return async ({ host, port, handler, connections }): Promise<HttpServer> => {
    const app = uws.App();
    const open = new UwsConnections(handler, connections ?? connectionsOfAll(Infinity));
    app.filter((res, count) => {
      if (Number(count) > 0) open.opened(res);
      else open.closing();
    });
    app.any('/*', (res, req) => open.requested(res, req));
    const socket = await new Promise<us_listen_socket | false>((resolve) => {
      // Exclusive: refuse the port when another process has it, instead of sharing it.
      app.listen(host, port, uws.LIBUS_LISTEN_EXCLUSIVE_PORT, resolve);
    });
    if (!socket)
      throw new ListenFailed(
        `${host}:${port} cannot be listened on: another process may have it; choose another address`,
      );
    let isListening = true;
    const stopAccepting = (): void => {
      if (isListening) uws.us_listen_socket_close(socket);
      isListening = false;
    };
    return {
      name: `uWebSockets.js ${version}`,
      port: uws.us_socket_local_port(socket),
      stopAccepting,
      close: () => {
        stopAccepting();
        // After the replies that wait for their turn, see `UwsExchange.reply`.
        setImmediate(() => app.close());
      },
    };
  };
}
