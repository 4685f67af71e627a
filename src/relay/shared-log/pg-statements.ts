/**
 * The tables and statements of a log in PostgreSQL.
 *
 * One statement is one transaction and one round trip, and leaves nothing open when a client dies. Every statement that
 * takes or changes the lead compares what was seen before. The settings that a role, a database or a pooler could
 * change are set within each statement: without `synchronous_commit` no standby is waited for, and without warnings
 * nobody hears that a wait was cancelled. Columns have the names that the relay has for them.
 *
 * An append locks the fence row `FOR SHARE` and does not write it: under an open transaction, updates of one row become
 * slower without bound. `FOR KEY SHARE` would not hold off who takes the lead.
 */

export const CREATE_TABLES = `
CREATE TABLE IF NOT EXISTS relay_log (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  format int NOT NULL,
  log_id uuid NOT NULL,
  state text NOT NULL,
  term int8 NOT NULL,
  tenure uuid,
  is_free boolean NOT NULL,
  holder text NOT NULL,
  beat int8 NOT NULL,
  beat_at timestamptz NOT NULL,
  acked_no int8 NOT NULL,
  system_identifier int8 NOT NULL,
  timeline int4 NOT NULL,
  settings bytea NOT NULL,
  doubt text,
  wanted_by text,
  pruned_no int8 NOT NULL,
  snapshot_no int8 NOT NULL);
CREATE TABLE IF NOT EXISTS batch (
  log_id uuid, no int8, first_lsn int8 NOT NULL, last_lsn int8 NOT NULL, term int8 NOT NULL, acked_no int8 NOT NULL,
  effects bytea NOT NULL, body bytea NOT NULL, PRIMARY KEY (log_id, no));
ALTER TABLE batch ALTER body SET STORAGE EXTERNAL;
CREATE TABLE IF NOT EXISTS payload (
  log_id uuid, target bytea, seq int8, wire bytea NOT NULL, PRIMARY KEY (log_id, target, seq));
ALTER TABLE payload ALTER wire SET STORAGE EXTERNAL;
CREATE TABLE IF NOT EXISTS snapshot (
  log_id uuid, through_no int8, part int4, body bytea NOT NULL, PRIMARY KEY (log_id, through_no, part));
ALTER TABLE snapshot ALTER body SET STORAGE EXTERNAL;
CREATE TABLE IF NOT EXISTS node (
  log_id uuid, name text, version text NOT NULL, format int NOT NULL, seen_at timestamptz NOT NULL,
  PRIMARY KEY (log_id, name))`;

const TABLES = ['relay_log', 'batch', 'payload', 'snapshot', 'node'];
const RIGHTS = ['SELECT', 'INSERT', 'UPDATE', 'DELETE'];

/** The rights that a role needs which is not the owner of the tables. */
export const GRANTS = (role: string): string => `GRANT ${RIGHTS.join(', ')} ON ${TABLES.join(', ')} TO ${role};`;

/** Finds the rights that this user lacks, and the tables that the database lacks. */
export const LACKING = `
SELECT t.name AS table, r.name AS right, to_regclass(t.name) IS NULL AS "isTable"
FROM unnest('{${TABLES.join(',')}}'::text[]) AS t(name), unnest('{${RIGHTS.join(',')}}'::text[]) AS r(name)
WHERE NOT coalesce(has_table_privilege(to_regclass(t.name), r.name), false)`;

const ARMED = `set_config('synchronous_commit', 'on', true) = 'on'
  AND set_config('client_min_messages', 'warning', true) = 'warning'`;

/**
 * For each connection: a plan that is compiled costs more than it saves, and nothing waits for ever in the server. What
 * a role or a database may have set otherwise is set back: a statement that is cut short, or that sees an older row.
 * Every row is looked up by its key: a plan that was made and kept while a table was empty would read the whole of a
 * full one.
 */
export const SESSION = `SET jit = off; SET enable_seqscan = off; SET lock_timeout = '2s';
  SET client_connection_check_interval = '2s'; SET statement_timeout = 0;
  SET default_transaction_isolation = 'read committed'; SET default_transaction_read_only = off`;

const SYSTEM = `(SELECT system_identifier FROM pg_control_system())`;
/** The timeline of the WAL: the control file shows the old one after a promotion. */
const TIMELINE = `('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int`;

const NAMES = `current_setting('synchronous_standby_names') AS names`;
const CLOCK_AND_SERVER = `(extract(epoch FROM clock_timestamp()) * 1000)::int8 AS "nowMs",
  ${SYSTEM}::text AS "systemId", ${TIMELINE} AS timeline`;

export const SERVER = `
SELECT pg_is_in_recovery() AS "isStandby", ${SYSTEM}::text AS "systemId",
  CASE WHEN NOT pg_is_in_recovery() THEN ${TIMELINE} END AS timeline,
  current_setting('server_version_num')::int AS version,
  pg_backend_pid() || ' ' || pg_postmaster_start_time() AS backend, current_setting('fsync') AS fsync,
  current_setting('full_page_writes') AS "fullPageWrites", ${NAMES}`;

export const IDENTITY = `
SELECT ${CLOCK_AND_SERVER}, to_regclass('relay_log') IS NOT NULL AS "hasTables", ${NAMES}`;

export const STATE = `
SELECT l.log_id::text AS "logId", l.state, l.format, l.term, l.tenure::text, l.is_free AS "isFree", l.holder, l.beat,
  (extract(epoch FROM l.beat_at) * 1000)::int8 AS "beatMs", l.settings, l.doubt, l.wanted_by AS "wantedBy",
  l.system_identifier::text AS "systemId", l.timeline, l.pruned_no AS "prunedNo", l.snapshot_no AS "snapshotNo",
  coalesce(b.no, l.pruned_no) AS "lastNo", coalesce(b.last_lsn, 0) AS "lastLsn",
  greatest(l.acked_no, b.acked_no) AS "ackedNo"
FROM relay_log l LEFT JOIN LATERAL (
  SELECT no, last_lsn, acked_no FROM batch WHERE log_id = l.log_id ORDER BY no DESC LIMIT 1) b ON true`;

export const INITIALISE = `
INSERT INTO relay_log SELECT true, $4::int4, $1::uuid, 'serving', 0, NULL, true, '', 0, clock_timestamp(), 0,
  $2::int8, $3::int4, '\\x'::bytea, NULL, NULL, 0, 0 WHERE ${ARMED} ON CONFLICT DO NOTHING`;

/** The doubt with a reason that it may have already. What is added comes last (doubt.ts). */
const doubtWith = (reason: string): string =>
  `CASE WHEN ${reason} IS NULL OR position(${reason} IN doubt) > 0 THEN doubt
    ELSE concat_ws('; ', doubt, ${reason}) END`;

/**
 * $1 log, $2 term, $3 beat, $4 tenure or null as seen; $5 new tenure, $6 holder, $7 settings, $8 and $9 the server as
 * seen, $10 doubt to add or null, $11 doubt or null as seen: one that came since must be answered before anything is
 * served.
 */
export const LEAD = `
UPDATE relay_log SET term = term + 1, tenure = $5::uuid, is_free = false, holder = $6, beat = beat + 1,
  beat_at = clock_timestamp(), settings = $7, system_identifier = $8::int8, timeline = $9::int4, wanted_by = NULL,
  doubt = ${doubtWith('$10::text')}
WHERE one AND log_id = $1::uuid AND term = $2::int8 AND beat = $3::int8 AND tenure IS NOT DISTINCT FROM $4::uuid
  AND doubt IS NOT DISTINCT FROM $11::text
  AND state = 'serving' AND ${SYSTEM} = $8::int8 AND ${TIMELINE} = $9::int4 AND ${ARMED} RETURNING term`;

const LEADS = `one AND log_id = $1::uuid AND term = $2::int8 AND tenure = $3::uuid AND NOT is_free`;
const OF_TENURE = `${LEADS} AND ${ARMED}`;

/** $4 and $5 number and effects of the last batch that was acknowledged. */
export const RENEW = `
UPDATE relay_log SET beat = beat + 1, beat_at = clock_timestamp(), acked_no = greatest(acked_no, $4::int8)
WHERE ${OF_TENURE} RETURNING doubt, wanted_by AS "wantedBy",
  $4::int8 <= pruned_no OR EXISTS (
    SELECT 1 FROM batch b WHERE b.log_id = $1::uuid AND b.no = $4::int8 AND b.effects = $5::bytea) AS holds,
  ${CLOCK_AND_SERVER}, ${NAMES}`;

/**
 * $1 log, $2 term, $3 beat, $4 tenure or null, $5 state as seen; $6 and $7 the server as seen; $8 new state, $9 new
 * tenure. The heartbeat stays: who changes the row does not know whether this is an older copy of the log.
 */
const CHANGED = `term = term + 1, beat = beat + 1, is_free = true, wanted_by = NULL, state = $8, tenure = $9::uuid`;
const UNCHANGED = `one AND log_id = $1::uuid AND term = $2::int8 AND beat = $3::int8
  AND tenure IS NOT DISTINCT FROM $4::uuid AND state = $5
  AND ${SYSTEM} = $6::int8 AND ${TIMELINE} = $7::int4 AND ${ARMED}`;

export const CHANGE = `UPDATE relay_log SET ${CHANGED} WHERE ${UNCHANGED} RETURNING one`;

/** $10 new log, $11 the batch that its snapshot stands for, $12 the format of what was loaded. */
export const REPLACE = `
UPDATE relay_log SET ${CHANGED}, format = $12::int4, beat_at = clock_timestamp(), log_id = $10::uuid, holder = '',
  acked_no = $11::int8, pruned_no = $11::int8, snapshot_no = $11::int8, settings = '\\x'::bytea, doubt = NULL,
  system_identifier = $6::int8, timeline = $7::int4
WHERE ${UNCHANGED} RETURNING one`;

/** On the server where the lead was taken, and on no other. */
export const RESIGN = `
UPDATE relay_log SET is_free = true, beat = beat + 1, beat_at = clock_timestamp(),
  acked_no = greatest(acked_no, $4::int8)
WHERE ${OF_TENURE} AND system_identifier = ${SYSTEM} AND timeline = ${TIMELINE}`;

/**
 * A write that waits for the standbys, on the server where the lead was taken: they have everything that was stored
 * before it. It waits for an append that still runs.
 */
export const SETTLE = `
UPDATE relay_log SET beat = beat + 1, beat_at = clock_timestamp()
WHERE ${OF_TENURE} AND state = 'serving' AND system_identifier = ${SYSTEM} AND timeline = ${TIMELINE}`;

/** $4 the newest format that the leader knows, $5 how many milliseconds a node counts that is not seen any more. */
export const RAISE = `
WITH raised AS (
  UPDATE relay_log SET format = $4::int4 WHERE ${OF_TENURE} AND format < $4::int4 AND NOT EXISTS (
    SELECT 1 FROM node n WHERE n.log_id = $1::uuid AND n.format < $4::int4
      AND n.seen_at > clock_timestamp() - $5::int8 * interval '1 ms')
  RETURNING format)
SELECT coalesce((SELECT format FROM raised), format) AS format FROM relay_log WHERE ${OF_TENURE}`;

/** It waits for no standby: it comes again. What was not seen for a long time is forgotten. */
export const NOTE_NODE = `
WITH gone AS (DELETE FROM node WHERE seen_at < clock_timestamp() - interval '30 days')
INSERT INTO node SELECT $1::uuid, $2, $3, $4::int4, clock_timestamp()
WHERE set_config('synchronous_commit', 'off', true) = 'off'
ON CONFLICT (log_id, name) DO UPDATE SET
  version = excluded.version, format = excluded.format, seen_at = excluded.seen_at`;

export const NODES = `
SELECT name, version, format, (extract(epoch FROM seen_at) * 1000)::int8 AS "seenMs"
FROM node WHERE log_id = $1::uuid ORDER BY name`;

export const WANT = `UPDATE relay_log SET wanted_by = $2 WHERE one AND log_id = $1::uuid AND ${ARMED}`;

/** $4 what is settled: the beginning of the doubt, or nothing of it. */
export const CLEAR_DOUBT = `
UPDATE relay_log SET doubt =
  CASE WHEN starts_with(doubt, $4::text) THEN nullif(substr(doubt, length($4::text) + 3), '') ELSE doubt END
WHERE ${OF_TENURE} RETURNING one`;

export const DOUBT = `
UPDATE relay_log SET doubt = ${doubtWith('$2::text')}
WHERE one AND log_id = $1::uuid AND ${ARMED}`;

/**
 * $15 null, or the names of standbys that were read: where others are named by now, nothing is written. The form of the
 * deletion matters: planned on an empty table, any simpler one reads the whole of a full one.
 */
export const APPEND = `
WITH fence AS (
  SELECT l.log_id, l.term, l.doubt FROM relay_log l
  WHERE l.one AND l.log_id = $1::uuid AND l.term = $2::int8 AND l.tenure = $3::uuid AND NOT l.is_free
    AND l.state = 'serving' AND ($15::text IS NULL OR current_setting('synchronous_standby_names') = $15::text)
    AND ${ARMED} FOR SHARE),
b AS (
  INSERT INTO batch SELECT f.log_id, $4::int8, $5::int8, $6::int8, f.term, $7::int8, $8::bytea, $9::bytea FROM fence f
  WHERE $4::int8 = 1 OR EXISTS (
    SELECT 1 FROM batch q WHERE q.log_id = f.log_id AND q.no = $4::int8 - 1 AND q.last_lsn = $5::int8 - 1)
  RETURNING log_id),
p AS (
  INSERT INTO payload SELECT b.log_id, u.t, u.s, u.w
  FROM b, unnest($10::bytea[], $11::int8[], $12::bytea[]) AS u(t, s, w)),
d AS (
  DELETE FROM payload WHERE ctid = ANY (ARRAY(SELECT x.ctid FROM b, unnest($13::bytea[], $14::int8[]) AS g(t, s),
    LATERAL (SELECT o.ctid FROM payload o WHERE o.log_id = b.log_id AND o.target = g.t AND o.seq = g.s OFFSET 0) x)))
SELECT (SELECT count(*) FROM b)::int AS appended, (SELECT doubt FROM fence) AS doubt`;

export const STANDBY_NAMES = `SELECT ${NAMES}`;

/**
 * $1 log, $2 after, $3 how many, $4 whether those that nobody acknowledged too, $5 bytes of bodies at most, but one
 * batch. The length of a body that is stored outside its row is known without it.
 */
export const BATCHES = `
SELECT b.no, b.first_lsn AS "firstLsn", b.last_lsn AS "lastLsn", b.term, b.effects, b.body FROM (
  SELECT f.no, sum(octet_length(f.body)) OVER (ORDER BY f.no) AS bytes, row_number() OVER (ORDER BY f.no) AS at FROM (
    SELECT no, body FROM batch WHERE log_id = $1::uuid AND no > $2::int8 AND ($4::bool OR no <= (
      SELECT greatest(l.acked_no, (SELECT q.acked_no FROM batch q WHERE q.log_id = l.log_id ORDER BY q.no DESC LIMIT 1))
      FROM relay_log l WHERE l.log_id = $1::uuid)) ORDER BY no LIMIT $3::int8) f) s
JOIN batch b ON b.log_id = $1::uuid AND b.no = s.no WHERE s.bytes <= $5::int8 OR s.at = 1 ORDER BY b.no`;

export const BATCH = `
SELECT l.pruned_no AS "prunedNo", b.term, b.effects, b.last_lsn AS "lastLsn"
FROM relay_log l LEFT JOIN batch b ON b.log_id = l.log_id AND b.no = $2::int8
WHERE l.log_id = $1::uuid`;

export const PAYLOADS = `
SELECT u.n::int AS n, p.wire FROM unnest($2::bytea[], $3::int8[]) WITH ORDINALITY AS u(t, s, n),
  LATERAL (SELECT wire FROM payload o WHERE o.log_id = $1::uuid AND o.target = u.t AND o.seq = u.s OFFSET 0) p`;

/** $1 log, $2 term, $3 tenure in the row. */
const HOLD = `hold AS (
  SELECT l.term FROM relay_log l
  WHERE l.one AND l.log_id = $1::uuid AND l.term = $2::int8 AND l.tenure = $3::uuid AND ${ARMED} FOR SHARE)`;

/** $4 the log that is loaded; $5 to $7 as of an append. */
export const LOAD_PAYLOADS = `
WITH ${HOLD}, p AS (
  INSERT INTO payload SELECT $4::uuid, u.t, u.s, u.w
  FROM hold, unnest($5::bytea[], $6::int8[], $7::bytea[]) AS u(t, s, w))
SELECT count(*)::int AS held FROM hold`;

/** $4 the log that is loaded; $5 number, $6 first and $7 last record, $8 effects, $9 body. */
export const LOAD_BATCH = `
WITH ${HOLD}, b AS (
  INSERT INTO batch SELECT $4::uuid, $5::int8, $6::int8, $7::int8, hold.term, $5::int8, $8::bytea, $9::bytea FROM hold)
SELECT count(*)::int AS held FROM hold`;

/** $4 the log that is loaded; $5 through, $6 part, $7 body. */
export const LOAD_PART = `
WITH ${HOLD}, s AS (
  INSERT INTO snapshot SELECT $4::uuid, $5::int8, $6::int4, $7::bytea FROM hold
  ON CONFLICT (log_id, through_no, part) DO UPDATE SET body = excluded.body)
SELECT count(*)::int AS held FROM hold`;

const SWEPT_AT_ONCE = 2_000;

/** Some rows of one log that the row of the lead does not name. Each recursion finds the next log in the index. */
const sweepOf = (table: string): string => `
WITH RECURSIVE ids AS (
  (SELECT log_id FROM ${table} ORDER BY log_id LIMIT 1)
  UNION ALL
  SELECT (SELECT t.log_id FROM ${table} t WHERE t.log_id > ids.log_id ORDER BY t.log_id LIMIT 1)
  FROM ids WHERE ids.log_id IS NOT NULL),
gone AS (
  SELECT ids.log_id FROM ids, relay_log l
  WHERE ids.log_id IS NOT NULL AND l.one AND l.log_id <> ids.log_id
    AND position(ids.log_id::text IN l.state) = 0 LIMIT 1)
DELETE FROM ${table} WHERE ctid = ANY (ARRAY(
  SELECT x.ctid FROM gone,
    LATERAL (SELECT o.ctid FROM ${table} o WHERE o.log_id = gone.log_id LIMIT ${SWEPT_AT_ONCE}) x))`;

export const SWEEPS: readonly (readonly [name: string, text: string])[] = ['payload', 'batch', 'snapshot'].map(
  (table) => [`sweep ${table}`, sweepOf(table)],
);

/**
 * Snapshots and pruning wait for no standby: a standby that lacks one of these statements lacks everything after it
 * too. They lock the row as an append does.
 */
const UNHURRIED = `SELECT log_id, snapshot_no, pruned_no FROM relay_log
  WHERE ${LEADS} AND state = 'serving' AND set_config('synchronous_commit', 'local', true) = 'local' FOR SHARE`;

/** $4 through, $5 part, $6 body. */
export const PUT_PART = `
WITH fence AS (${UNHURRIED})
INSERT INTO snapshot SELECT f.log_id, $4::int8, $5::int4, $6::bytea FROM fence f WHERE f.snapshot_no < $4::int8
ON CONFLICT (log_id, through_no, part) DO UPDATE SET body = excluded.body`;

export const PART = `SELECT body FROM snapshot WHERE log_id = $1::uuid AND through_no = $2::int8 AND part = $3::int4`;

/** $4 through, $5 acknowledged. */
export const MAKE_VALID = `
UPDATE relay_log SET snapshot_no = $4::int8, acked_no = greatest(acked_no, $5::int8)
WHERE ${OF_TENURE} AND snapshot_no < $4::int8
  AND EXISTS (SELECT 1 FROM snapshot s WHERE s.log_id = $1::uuid AND s.through_no = $4::int8 AND s.part = 0)
  AND EXISTS (SELECT 1 FROM batch b WHERE b.log_id = $1::uuid AND b.no > $4::int8)`;

/** $4 how many. */
export const DROP_PARTS = `
WITH fence AS (${UNHURRIED}),
d AS (
  DELETE FROM snapshot WHERE ctid = ANY (ARRAY(SELECT s.ctid FROM fence f, snapshot s
    WHERE s.log_id = f.log_id AND s.through_no <> f.snapshot_no LIMIT $4::int8)) RETURNING 1)
SELECT (SELECT count(*) FROM fence)::int AS own, (SELECT count(*) FROM d)::int AS deleted`;

/** $4 through. Before the batches go: who finds none must find this. */
export const MARK_PRUNED = `
UPDATE relay_log SET pruned_no = $4::int8
WHERE ${OF_TENURE} AND $4::int8 <= snapshot_no AND pruned_no < $4::int8`;

/** $4 how many. */
export const DELETE_BATCHES = `
WITH fence AS (${UNHURRIED}),
d AS (
  DELETE FROM batch WHERE ctid = ANY (ARRAY(SELECT x.ctid FROM fence f,
    LATERAL (
      SELECT o.ctid FROM batch o WHERE o.log_id = f.log_id AND o.no <= f.pruned_no ORDER BY o.no LIMIT $4::int8) x))
  RETURNING 1)
SELECT (SELECT count(*) FROM fence)::int AS own, (SELECT pruned_no FROM fence) AS "prunedNo",
  (SELECT count(*) FROM d)::int AS deleted`;
