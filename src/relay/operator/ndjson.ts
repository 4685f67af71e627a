/** A list as NDJSON, written piece by piece. An end that did not come is seen by the peer: the reply is chunked. */
import type { Exchange } from '../../http/exchange.ts';

/** Writes each slice of documents as lines. Throws what `slices` throws; the connection is cut then. */
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
