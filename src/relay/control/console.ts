/** `POST /v1/console`: a URL by which a browser on this machine gets into the console, once. */
import { SMALL_BODY_BYTES_MAX } from '../../protocol/limits.ts';
import type { Clock } from '../engine/ambient.ts';
import { jsonReply } from '../../http/replies.ts';
import type { OpenRoute } from '../http/route.ts';
import type { ConsoleUrlDocument } from './documents.ts';
import { controlProblem } from './problems.ts';

export interface ConsoleRouteOptions {
  clock: Clock;
  /** What serves the console; `undefined` without an operator's listener. */
  operator: () => { consoleUrl(): { url: string; lifetimeMs: number } } | undefined;
}

export function consoleRoute({ clock, operator }: ConsoleRouteOptions): OpenRoute {
  return {
    method: 'POST',
    path: '/v1/console',
    access: 'open',
    counted: undefined,
    bodyBytesMax: SMALL_BODY_BYTES_MAX,
    handle: () => {
      const issued = operator()?.consoleUrl();
      if (!issued) {
        return controlProblem(
          'NO_OPERATOR_LISTENER',
          'this relay serves without its operator listener: start it without --admin-listen off',
        );
      }
      const document: ConsoleUrlDocument = { url: issued.url, expires_at: clock.nowMs() + issued.lifetimeMs };
      return jsonReply(200, document);
    },
  };
}
