/** Standard input, for commands that take text there. */
import type { CommandContext } from './context.ts';

/** Standard input as text: empty when it is a terminal, or longer than `bytesMax`. */
export async function readStandardInput({ stdin }: CommandContext, bytesMax: number): Promise<string> {
  if (stdin.isTTY) return '';
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of stdin as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > bytesMax) break;
    chunks.push(chunk);
  }
  return bytes > bytesMax ? '' : Buffer.concat(chunks).toString('utf8');
}
