/** What whoever runs a command gives it on stdin. */

/** As text; nothing when it is a terminal, and no more than `bytesMax`. */
export async function readStandardInput(bytesMax: number): Promise<string> {
  if (process.stdin.isTTY) return '';
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of process.stdin as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > bytesMax) break;
    chunks.push(chunk);
  }
  return bytes > bytesMax ? '' : Buffer.concat(chunks).toString('utf8');
}
