/**
 * What a tool call answers.
 *
 * A success is structured, and the same as JSON text for clients that show text alone. A failure is JSON text alone: its
 * shape is not that of the tool's output schema, which some clients hold structured content to even then.
 */
import type { CallToolResult } from '@modelcontextprotocol/server';
import type { ProblemAnswer } from '../local/operations.ts';

export function succeeded(output: Readonly<Record<string, unknown>>): CallToolResult {
  return { structuredContent: output, content: [{ type: 'text', text: JSON.stringify(output) }] };
}

/** `code` for programs, one sentence, and what may help: suggestions, the member that is wrong. */
export function failed({ code, message, details }: ProblemAnswer): CallToolResult {
  return { isError: true, content: [{ type: 'text', text: JSON.stringify({ code, message, details }) }] };
}
