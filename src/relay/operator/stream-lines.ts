/** Lists and progress for a command on the control socket, as NDJSON. */
import type { Exchange } from '../../http/exchange.ts';

/** The reply is chunked, so that the peer notices when the end is missing. */
export async function streamLines(
  exchange: Exchange,
  requestId: string,
  slices: AsyncIterable<readonly object[]>,
): Promise<'streamed'> {
  const stream = exchange.startReply(200, { 'content-type': 'application/x-ndjson', 'x-request-id': requestId });
  try {
    for await (const documents of slices) {
      if (exchange.isAborted) break;
      if (documents.length > 0) {
        await stream.write(Buffer.from(documents.map((document) => `${JSON.stringify(document)}\n`).join('')));
      }
    }
  } catch (error) {
    exchange.abort();
    throw error;
  }
  stream.end();
  return 'streamed';
}
