/**
 * The check of the rows against the log, as operators see it: a command that asks for one has its progress each second,
 * and then what it found; the console shows the last, and how far one is that is under way.
 */
import type { Exchange, Reply } from '../../http/exchange.ts';
import { problemReply } from '../../http/replies.ts';
import type { Timers } from '../../lib/clock.ts';
import { parseJsonBounded, REQUEST_JSON_BOUNDS } from '../../protocol/bounded-json.ts';
import type { RowsCheckShown } from '../../protocol/operator-documents.ts';
import { parserOf } from '../../protocol/schemas.ts';
import type { CheckedAt, RowsCheck } from '../jobs/rows-check.ts';
import { type RowsCheckDocument, VerifyRequest } from './documents.ts';
import { streamLines } from './stream-lines.ts';

interface CheckRequest {
  body: Buffer;
  exchange: Exchange;
  /** Of the request. */
  id: string;
}

export interface CheckParts {
  /** `undefined` while the relay starts, and where it cannot be done. */
  rowsCheck: () => RowsCheck | undefined;
  timers: Timers;
}

const parseVerify = parserOf(VerifyRequest);
const PROGRESS_EVERY_MS = 1000;

/** Sends the check, or the reply that says why there is none. */
export function checkRows(
  { body, exchange, id }: CheckRequest,
  { rowsCheck, timers }: CheckParts,
): Reply | Promise<'streamed'> {
  const parsed = parseVerify(parseJsonBounded(body, REQUEST_JSON_BOUNDS));
  if (!parsed) return problemReply('BAD_REQUEST', 'send {cpu_percent}: a whole number from 1 to 100');
  const check = rowsCheck();
  if (!check) return problemReply('UNAVAILABLE', 'this relay starts, or it runs from its sources and cannot do this');
  return streamLines(exchange, id, checkLines(check, parsed.cpu_percent / 100, timers));
}

async function* checkLines(check: RowsCheck, share: number, timers: Timers): AsyncGenerator<RowsCheckDocument[]> {
  const before = check.last;
  const ended = check.check(share);
  do {
    const { stage, done, of } = check.run?.progress ?? { stage: 'checkpoints', done: 0, of: undefined };
    yield [{ type: 'progress', stage, done, of: of ?? null }];
  } while (!(await isOverSoon(ended, timers)));
  const { last } = check;
  yield [last === undefined || last === before ? { type: 'failed' } : reportLine(last)];
}

/** Whether the work ends before more is to be said of it. */
function isOverSoon(ended: Promise<void>, timers: Timers): Promise<boolean> {
  return new Promise((resolve) => {
    const cancel = timers.after(PROGRESS_EVERY_MS, () => resolve(false));
    void ended.then(() => {
      cancel();
      resolve(true);
    });
  });
}

function reportLine({ durationMs, checked }: CheckedAt): RowsCheckDocument {
  const { findings, found, lsn, replayedFrom, records, rows, busyMs } = checked;
  const listed = findings.map(({ code, message }) => ({ code, message }));
  const counts = { found, lsn, replayed_from: replayedFrom, records, rows };
  return { type: 'report', findings: listed, ...counts, busy_ms: busyMs, duration_ms: durationMs };
}

const FINDINGS_SHOWN_MAX = 10;

export function rowsCheckShown({ last, failedAtMs, run }: RowsCheck): RowsCheckShown {
  return {
    last: last
      ? {
          at: last.atMs,
          rows: last.checked.rows,
          found: last.checked.found,
          findings: last.checked.findings.slice(0, FINDINGS_SHOWN_MAX).map(({ message }) => message),
        }
      : null,
    failed_at: failedAtMs ?? null,
    under_way: run ? { stage: run.progress.stage, done: run.progress.done, of: run.progress.of ?? null } : null,
  };
}
