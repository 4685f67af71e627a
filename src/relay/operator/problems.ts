/** Problems that only the control socket knows, in the form of every other problem. */
import type { Reply } from '../../http/exchange.ts';

const CONTROL_PROBLEMS = {
  UNKNOWN_HOST: { status: 404, title: 'Unknown Host' },
  AMBIGUOUS_HOST: { status: 409, title: 'Ambiguous Host' },
  NO_OPERATOR_LISTENER: { status: 409, title: 'No Operator Listener' },
  BACKUPS_UNDER_WAY: { status: 409, title: 'Backups Under Way' },
} as const;

export function controlProblem(
  code: keyof typeof CONTROL_PROBLEMS,
  detail: string,
  members: Readonly<Record<string, unknown>> = {},
): Reply {
  const { status, title } = CONTROL_PROBLEMS[code];
  const document = { type: 'about:blank', title, status, detail, code, ...members };
  return { status, headers: { 'content-type': 'application/problem+json' }, body: JSON.stringify(document) };
}
