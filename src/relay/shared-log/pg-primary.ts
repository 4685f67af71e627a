/**
 * Finds the primary among the servers of a log.
 *
 * All are asked at the same time. A primary of before that came back beside the one that took its place is one too,
 * until somebody makes it a standby: the one of the highest timeline counts.
 */
import { Socket } from 'node:net';
import type { LogEndpoint } from './log-address.ts';
import { PgLink, isForbidden, reasonOf } from './pg-link.ts';
import { LogRefused, LogUnreachable, ServerRefused } from './shared-log.ts';

/** A server that has not answered when another is a primary is waited for no longer than this. */
const OTHERS_WITHIN_MS = 1_000;

/** What one server turned out to be. */
type Asked =
  | { type: 'primary'; link: PgLink }
  | { type: 'unfit'; why: string }
  | { type: 'refused'; error: LogRefused };

/** Throws `LogRefused` when no server can be used and one of them never will be as it is; else `LogUnreachable`. */
export async function openPrimary(endpoints: readonly LogEndpoint[], answerWithinMs: number): Promise<PgLink> {
  const all = await askedAll(endpoints, answerWithinMs);
  const links = all.flatMap((one) => (one.type === 'primary' ? [one.link] : []));
  const [newest] = links.toSorted((one, other) => other.server.timeline - one.server.timeline);
  const areCopies = links.every(({ server }) => server.systemId === newest?.server.systemId);
  for (const link of links) if (link !== newest || !areCopies) link.close();
  if (!areCopies)
    throw new LogRefused('--log names primaries that are no copies of each other: name the servers of one log');
  if (newest) return newest;
  const refused = all.find((one) => one.type === 'refused');
  if (refused) throw refused.error;
  throw new LogUnreachable(all.flatMap((one) => (one.type === 'unfit' ? [one.why] : [])).join('; '));
}

/** What each turned out to be, in their order. */
function askedAll(endpoints: readonly LogEndpoint[], answerWithinMs: number): Promise<Asked[]> {
  const waitedFor = new Set<Socket>();
  let late: NodeJS.Timeout | undefined;
  const ask = async (endpoint: LogEndpoint): Promise<Asked> => {
    const socket = new Socket();
    waitedFor.add(socket);
    const one = await asked(endpoint, socket, answerWithinMs);
    waitedFor.delete(socket);
    if (waitedFor.size === 0) clearTimeout(late);
    else if (one.type === 'primary')
      late ??= setTimeout(() => waitedFor.forEach((other) => other.destroy()), OTHERS_WITHIN_MS);
    return one;
  };
  return Promise.all(endpoints.map(ask));
}

async function asked(endpoint: LogEndpoint, socket: Socket, answerWithinMs: number): Promise<Asked> {
  const { name } = endpoint;
  try {
    const link = await PgLink.connect(endpoint, socket, answerWithinMs);
    return link ? { type: 'primary', link } : { type: 'unfit', why: `${name} is a standby` };
  } catch (error) {
    socket.destroy();
    if (error instanceof LogRefused) return { type: 'refused', error };
    const why = `${name}: ${reasonOf(error)}`;
    if (!isForbidden(error)) return { type: 'unfit', why };
    return {
      type: 'refused',
      error: new ServerRefused(
        `the server of the log refuses this user (${why}): see that password, user and database are right`,
        { cause: error },
      ),
    };
  }
}
