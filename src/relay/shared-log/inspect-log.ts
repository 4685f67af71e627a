/** Asks the server of a shared log how it is, for `poste relay doctor`. Nothing is changed, and no table is made. */
import type { Durability } from './durability.ts';
import { namesFault } from './durability.ts';
import type { LogEndpoint } from './log-address.ts';
import { phaseOf, whyNotServed } from './log-phase.ts';
import { ANSWER_WITHIN_MS, type PgLink, isAnswer, openPrimary } from './pg-link.ts';
import type { LackingRight } from './pg-session.ts';
import type { IdentityRow } from './postgres-log.ts';
import * as sql from './pg-statements.ts';
import { LogRefused, type LogState } from './shared-log.ts';
import { LOG_FORMAT } from '../core/log-format.ts';

export interface LogInspection {
  /** `host:port/database` of the primary, or the servers that were asked. */
  place: string;
  user: string;
  /** The server's clock. */
  nowMs: number;
  synchronousCommit: string;
  standbyNames: string;
  /** Says why the names promise no second copy, where one is asked for. */
  namesFault: string | undefined;
  standbys: LogStandby[];
  lacking: LackingRight[];
  log: InspectedLog | undefined;
}

export interface LogStandby {
  name: string;
  /** `sync`, `quorum`, `potential` or `async`; `undefined` where this user may not see it. */
  sync: string | undefined;
  /** Seconds until what was written last is safe there; `undefined` when nothing waits or this user may not see it. */
  lagSeconds: number | undefined;
}

interface InspectedLog {
  /** Says why it serves nobody. */
  whyNotServed: string | undefined;
  format: number;
  isNewer: boolean;
  leader: string | undefined;
  term: number;
  /** Since the sign of life of the relay that leads, or led. */
  beatAgeMs: number;
  doubt: string | undefined;
}

const SETTINGS = `SELECT current_setting('synchronous_commit') AS "synchronousCommit", current_user AS user`;
const STANDBYS = `SELECT coalesce(application_name, '') AS name, sync_state AS sync,
  extract(epoch FROM flush_lag)::float8 AS "lagSeconds" FROM pg_stat_replication`;
const BEAT_AGE = `
SELECT (extract(epoch FROM clock_timestamp() - beat_at) * 1000)::float8 AS "beatAgeMs" FROM relay_log`;

/** Throws `LogRefused` and `LogUnreachable`. */
export async function inspectLog(
  endpoints: readonly LogEndpoint[],
  durability: Durability,
  answerWithinMs: number = ANSWER_WITHIN_MS,
): Promise<LogInspection> {
  const link = await openPrimary(endpoints, answerWithinMs);
  try {
    return await inspected(link, endpoints, durability);
  } catch (error) {
    if (isAnswer(error))
      throw new LogRefused(`the server of the log refuses a question: ${error.message}`, { cause: error });
    throw error;
  } finally {
    link.close();
  }
}

async function inspected(
  link: PgLink,
  endpoints: readonly LogEndpoint[],
  durability: Durability,
): Promise<LogInspection> {
  const rowsOf = async <R extends object>(name: string, text: string): Promise<R[]> =>
    (await link.query<R>({ name, text })).rows;
  const [identity] = await rowsOf<IdentityRow>('identity', sql.IDENTITY);
  const [settings] = await rowsOf<Pick<LogInspection, 'user' | 'synchronousCommit'>>('settings', SETTINGS);
  if (!identity || !settings) throw new LogRefused('the server of the log says nothing of itself');
  const standbys = await rowsOf<LogStandby>('standbys', STANDBYS);
  const lacking = await rowsOf<LackingRight>('lacking', sql.LACKING);
  const mayRead = identity.hasTables && !lacking.some(({ table, isTable }) => table === 'relay_log' || isTable);
  const [row] = mayRead ? await rowsOf<LogState>('state', sql.STATE) : [];
  const [beat] = mayRead ? await rowsOf<Pick<InspectedLog, 'beatAgeMs'>>('beat', BEAT_AGE) : [];
  return {
    place: endpoints.map(({ name }) => name).join(','),
    ...settings,
    nowMs: identity.nowMs,
    standbyNames: identity.names,
    namesFault: namesFault(durability, identity.names),
    standbys,
    lacking,
    log: row && beat && { ...inspectedLog(row), ...beat },
  };
}

function inspectedLog({ state, format, isFree, holder, term, doubt }: LogState): Omit<InspectedLog, 'beatAgeMs'> {
  const isNewer = format > LOG_FORMAT;
  const leader = isFree ? undefined : holder;
  return { whyNotServed: whyNotServed(phaseOf(state)), format, isNewer, leader, term, doubt };
}
