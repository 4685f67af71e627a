/** Asks the server of a shared log how it is, for `poste relay doctor`. Nothing is changed, and no table is made. */
import type { Durability } from './durability.ts';
import { namesFault } from './durability.ts';
import type { LogEndpoint } from './log-address.ts';
import { phaseOf, whyNotServed } from './log-phase.ts';
import { ANSWER_WITHIN_MS, type PgLink, isAnswer } from './pg-link.ts';
import { openPrimary } from './pg-primary.ts';
import { type IdentityRow, type LackingRow, type StateRow, stateOf } from './pg-rows.ts';
import * as sql from './pg-statements.ts';
import { LogRefused } from './shared-log.ts';
import { LOG_FORMAT } from '../core/log-format.ts';

export interface LogInspection {
  /** `host:port/database` of the primary, or the servers that were asked. */
  place: string;
  user: string;
  /** The server's clock. */
  nowMs: number;
  synchronousCommit: string;
  standbyNames: string;
  /** Why the names promise no second copy, where one is asked for. */
  namesFault: string | undefined;
  standbys: LogStandby[];
  lacking: { table: string; right: string; isTable: boolean }[];
  log: InspectedLog | undefined;
}

export interface LogStandby {
  name: string;
  /** `sync`, `quorum`, `potential` or `async`; null where this user may not see it. */
  sync: string | null;
  /** Seconds until what was written last is safe there; null when nothing waits or this user may not see it. */
  lagSeconds: number | null;
}

interface InspectedLog {
  /** Why it serves nobody. */
  whyNotServed: string | undefined;
  format: number;
  isNewer: boolean;
  leader: string | undefined;
  term: number;
  /** Since the sign of life of the relay that leads, or led. */
  beatAgeMs: number;
  doubt: string | undefined;
}

interface StandbyRow {
  application_name: string | null;
  sync_state: string | null;
  lag_s: number | null;
}

const SETTINGS = `SELECT current_setting('synchronous_commit') AS synchronous_commit, current_user AS user_name`;
const STANDBYS = `SELECT application_name, sync_state, extract(epoch FROM flush_lag)::float8 AS lag_s FROM pg_stat_replication`;
const BEAT = `SELECT (extract(epoch FROM clock_timestamp() - beat_at) * 1000)::float8 AS age_ms FROM relay_log`;

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
  const asked = async <R extends object>(name: string, text: string): Promise<R[]> =>
    (await link.query<R>({ name, text })).rows;
  const [identity] = await asked<IdentityRow>('identity', sql.IDENTITY);
  const [settings] = await asked<{ synchronous_commit: string; user_name: string }>('settings', SETTINGS);
  const standbys = await asked<StandbyRow>('standbys', STANDBYS);
  const lacking = await asked<LackingRow>('lacking', sql.LACKING);
  if (!identity || !settings) throw new LogRefused('the server of the log says nothing of itself');
  const mayRead = identity.has_tables && !lacking.some((one) => one.table_name === 'relay_log' || one.lacks_table);
  return {
    place: endpoints.map(({ name }) => name).join(','),
    user: settings.user_name,
    nowMs: Number(identity.now_ms),
    synchronousCommit: settings.synchronous_commit,
    standbyNames: identity.standby_names,
    namesFault: namesFault(durability, identity.standby_names),
    standbys: standbys.map(({ application_name: name, sync_state: sync, lag_s: lagSeconds }) => ({
      name: name ?? '',
      sync,
      lagSeconds,
    })),
    lacking: lacking.map((one) => ({ table: one.table_name, right: one.right_name, isTable: one.lacks_table })),
    log: mayRead ? await inspectedLog(asked) : undefined,
  };
}

async function inspectedLog(
  asked: <R extends object>(name: string, text: string) => Promise<R[]>,
): Promise<InspectedLog | undefined> {
  const [row] = await asked<StateRow>('state', sql.STATE);
  const [beat] = await asked<{ age_ms: number }>('beat', BEAT);
  if (!row) return undefined;
  const { state, format, isFree, holder, term, doubt } = stateOf(row);
  return {
    whyNotServed: whyNotServed(phaseOf(state)),
    format,
    isNewer: format > LOG_FORMAT,
    leader: isFree ? undefined : holder,
    term,
    beatAgeMs: beat?.age_ms ?? 0,
    doubt,
  };
}
