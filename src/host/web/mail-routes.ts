/** What the owner's page asks for: operations of the socket in the name of the owner, each behind the page's doors. */
import type { Reply } from '../../http/exchange.ts';
import { jsonReply, otherProblemReply } from '../../http/replies.ts';
import { STATUS_CODES } from 'node:http';
import type { Access } from '../../page-access/access.ts';
import type { PageRoute } from '../../page-access/page-routes.ts';
import { type Refusal, isRefusal } from '../core/refusal.ts';
import { OWNER_ID } from '../core/rows.ts';
import type { Handlers } from '../local/handlers.ts';
import { type OperationName, REQUEST_BYTES_MAX } from '../local/operations.ts';
import { parseOperationInput, perform } from '../local/perform.ts';
import { STATUS_OF } from '../local/refusal-status.ts';

/** Whoever is at the page may read and write mail, and nothing else of the host. */
const SHOWN: readonly OperationName[] = [
  'mail-inbox',
  'mail-search',
  'mail-send',
  'mail-reply',
  'mail-agents',
  'mail-sent',
];

export interface MailRoutesOptions {
  access: Access;
  handlers: Handlers;
  /** Aborted when the daemon stops. */
  stopping: AbortSignal;
}

/** All by POST: even a list says of mail that somebody was told of it. */
export function mailRoutes({ access, handlers, stopping }: MailRoutesOptions): PageRoute[] {
  return SHOWN.map((name) => ({
    method: 'POST',
    path: `${access.page.path}/${name}`,
    bodyBytesMax: REQUEST_BYTES_MAX,
    handle: access.behind('action', async ({ body }) => {
      const input = parseOperationInput(name, body.bytes);
      if (isRefusal(input)) return refused(input);
      const output = await perform(handlers, name, { agentId: OWNER_ID, signal: stopping }, input);
      return isRefusal(output) ? refused(output) : jsonReply(200, output);
    }),
  }));
}

function refused({ code, message, details }: Refusal): Reply {
  const status = STATUS_OF[code];
  return otherProblemReply({ status, title: STATUS_CODES[status] ?? 'Refused' }, code, message, { details });
}
