/**
 * The resource `poste://inbox`: what is unread for the agent, for clients that show it or subscribe to it. Reading it
 * marks nothing: it tells the client, and not the agent.
 *
 * A client of the 2025 revision subscribes by `resources/subscribe`, one of the 2026 revision by `subscriptions/listen`,
 * which the connection answers (serve.ts).
 */
import { type McpServer, ProtocolError, ProtocolErrorCode, ResourceNotFoundError } from '@modelcontextprotocol/server';
import { CallFailed } from '../local/client.ts';
import type { DaemonLink } from './daemon-link.ts';
import type { InboxWatch } from './inbox-watch.ts';

export const INBOX_URI = 'poste://inbox';
const MIME_TYPE = 'application/json';

export function addInboxResource(server: McpServer, link: DaemonLink, watch: InboxWatch): void {
  const shown = {
    title: 'Unread mail',
    description: `How many messages wait for ${link.agent}, and the newest of them. Read them with the tool mail_inbox.`,
    mimeType: MIME_TYPE,
  };
  server.registerResource('inbox', INBOX_URI, shown, async (_uri, { mcpReq }) => {
    const { mark, ...unread } = await summary(link, mcpReq.signal);
    watch.shown(mark);
    return { contents: [{ uri: INBOX_URI, mimeType: MIME_TYPE, text: JSON.stringify(unread) }] };
  });
  server.server.setRequestHandler('resources/subscribe', ({ params }) => {
    refuseOther(params.uri);
    watch.begin();
    return {};
  });
  server.server.setRequestHandler('resources/unsubscribe', async ({ params }) => {
    refuseOther(params.uri);
    await watch.end();
    return {};
  });
}

async function summary(link: DaemonLink, signal: AbortSignal): ReturnType<typeof link.call<'watch-inbox'>> {
  try {
    return await link.call('watch-inbox', {}, { signal });
  } catch (error) {
    if (!(error instanceof CallFailed)) throw error;
    const { code, message, details } = error;
    throw new ProtocolError(ProtocolErrorCode.InternalError, message, { code, details });
  }
}

function refuseOther(uri: string): void {
  if (uri !== INBOX_URI) throw new ResourceNotFoundError(uri);
}
