/**
 * The console of a relay that follows a shared log: its page, its sessions, and an overview of what such a relay knows.
 * Everything else that the page may ask for is answered with who leads.
 */
import { AccessControl, SECURITY_HEADERS, ownHosts } from '../../http/browser-session/access.ts';
import { builtPage, readAssets } from '../../http/browser-session/assets.ts';
import { KEEP_ALIVE, LiveStreams } from '../../http/browser-session/live-streams.ts';
import { type PageRoute, pageLink, pageRoutes } from '../../http/browser-session/page-routes.ts';
import { Sessions, TOKEN_LIFETIME_MS } from '../../http/browser-session/sessions.ts';
import { Budget } from '../../http/budget.ts';
import type { Exchange, Reply } from '../../http/exchange.ts';
import { RequestPipeline } from '../../http/pipeline.ts';
import { jsonReply, problemReply } from '../../http/replies.ts';
import type { Clock, RandomBytes, Timers } from '../../lib/clock.ts';
import { SMALL_BODY_BYTES_MAX } from '../../protocol/limits.ts';
import type { ConsoleFollowing } from '../../protocol/operator-documents.ts';
import { CONSOLE_OPERATIONS, consoleProblem } from './console-routes.ts';
import { CONSOLE_PAGE } from './operator-server.ts';

/** A browser takes a stream as lost that says nothing for a minute. */
const KEEP_ALIVE_EVERY_MS = 20_000;
/** Bodies of this console are a token, or none. */
const BODIES_BYTES_MAX = 1 << 20;

interface FollowerConsoleOptions {
  /** Where the listener listens. */
  host: string;
  clock: Clock;
  timers: Timers;
  randomBytes: RandomBytes;
  /** Where the built page is; absent: in `dist`. */
  consoleFolder: string | undefined;
  overview: () => Promise<ConsoleFollowing>;
  unexpected: (error: unknown) => void;
}

export class FollowerConsole {
  readonly #options: FollowerConsoleOptions;
  readonly #sessions: Sessions;
  readonly #streams: LiveStreams;
  readonly #pipeline: RequestPipeline<PageRoute>;
  #port = 0;

  static async start(options: FollowerConsoleOptions): Promise<FollowerConsole> {
    const folder = options.consoleFolder ?? builtPage('console');
    return new FollowerConsole(options, await readAssets(folder, CONSOLE_PAGE.path));
  }

  private constructor(options: FollowerConsoleOptions, assets: Awaited<ReturnType<typeof readAssets>>) {
    const { host, clock, timers, randomBytes, overview, unexpected } = options;
    const monotonicMs = (): number => clock.monotonicMs();
    this.#options = options;
    const sessions = new Sessions(monotonicMs, randomBytes);
    this.#sessions = sessions;
    // The page asks for what is new by itself.
    this.#streams = new LiveStreams({
      sessions,
      subscribe: (send) => timers.every(KEEP_ALIVE_EVERY_MS, () => send(KEEP_ALIVE)),
    });
    const access = new AccessControl({ page: CONSOLE_PAGE, sessions, ownHosts: () => ownHosts(host, this.#port) });
    const bodies = new Budget({ bytesMax: BODIES_BYTES_MAX, monotonicMs });
    this.#pipeline = new RequestPipeline({
      routes: [...pageRoutes({ access, sessions, assets, streams: this.#streams }), ...routesOf(access, overview)],
      timers,
      randomId: () => randomBytes(8).toString('hex'),
      stopping: 'the relay is stopping, or takes the lead',
      discardBytesMax: SMALL_BODY_BYTES_MAX,
      accept: ({ route, exchange, id, query, framing }) => ({
        room: { budget: bodies, holders: [], expectedBytes: framing.contentLength },
        handle: (body) => route.handle({ exchange, id, query, body }),
      }),
      failed: (error) => {
        unexpected(error);
        return problemReply('UNAVAILABLE', 'the relay cannot answer this now');
      },
      complete: (reply, id) => ({ ...reply, headers: { ...SECURITY_HEADERS, ...reply.headers, 'x-request-id': id } }),
      unexpected,
    });
  }

  handle(exchange: Exchange): void {
    this.#pipeline.handle(exchange);
  }

  /** To be called with the port on which it listens. */
  listening(port: number): void {
    this.#port = port;
  }

  /** A URL that opens the console once, within a minute. */
  consoleUrl(): { url: string; lifetimeMs: number } {
    const address = { host: this.#options.host, port: this.#port };
    const url = pageLink(address, CONSOLE_PAGE.path, this.#sessions.issueToken());
    return { url, lifetimeMs: TOKEN_LIFETIME_MS };
  }

  /** Ends every stream, and resolves when every request is answered. */
  async close(): Promise<void> {
    this.#streams.close();
    await this.#pipeline.drain();
  }
}

function routesOf(access: AccessControl, overview: FollowerConsoleOptions['overview']): PageRoute[] {
  return CONSOLE_OPERATIONS.map(({ id, method, path, access: level }): PageRoute => {
    const answer = async (): Promise<Reply> => {
      const known = await overview();
      return id === 'consoleOverview' ? jsonReply(200, known) : notLeading(known.shared_log.leader);
    };
    const handle = access.guard(level === 'console read' ? 'read' : 'action', answer);
    return { method, path, bodyBytesMax: SMALL_BODY_BYTES_MAX, handle };
  });
}

function notLeading(leader: string | null): Reply {
  const where = leader === null ? 'no relay leads now' : `${leader} leads: open the console of that relay`;
  return consoleProblem('NOT_LEADING', `this relay follows, and ${where}`);
}
