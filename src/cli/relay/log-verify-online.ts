/** `poste relay log verify --online`: whether the rows of a running relay are what its log gives. */
import { countText } from '../../host/core/spans.ts';
import { printable } from '../../protocol/printable.ts';
import type { RowsCheckDocument } from '../../relay/operator/documents.ts';
import type { CommandContext } from '../lib/context.ts';
import { CommandFailed, EXIT, interruption } from '../lib/exit.ts';
import { jsonLine } from '../lib/format.ts';
import { withProgress } from '../lib/output.ts';
import { relayOf } from './control-client.ts';

export interface OnlineFlags {
  storeDir: string;
  cpuPercent: number;
  json?: boolean;
}

type Report = Extract<RowsCheckDocument, { type: 'report' }>;

/** The relay goes on with a check whose asker went away. */
export async function verifyOnline(context: CommandContext, flags: OnlineFlags): Promise<void> {
  const interrupted = interruption(context);
  const lines = relayOf(flags).follow('/v1/verify', { cpu_percent: flags.cpuPercent }, interrupted.signal);
  let report: Report;
  try {
    report = await withProgress(context, reported(lines));
  } catch (error) {
    throw interrupted.failure() ?? error;
  }
  context.stdout.write(flags.json ? jsonLine(documentOf(report)) : textOf(report));
  if (report.found > 0) context.exitCode = EXIT.failure;
}

async function* reported(
  lines: AsyncIterable<RowsCheckDocument>,
): AsyncGenerator<{ stage: string; done: number; of: number | undefined }, Report> {
  for await (const line of lines) {
    if (line.type === 'report') return line;
    if (line.type === 'failed') break;
    yield { stage: line.stage, done: line.done, of: line.of ?? undefined };
  }
  throw new CommandFailed(
    'temporary',
    'CHECK_ENDED',
    'the relay gave the check up, because it stops or something failed: its log says why; try again',
  );
}

function seconds(ms: number): number {
  return Math.round(ms) / 1000;
}

function documentOf({ type: _type, busy_ms: busyMs, duration_ms: durationMs, ...report }: Report): object {
  return {
    verified: report.found === 0,
    ...report,
    busy_seconds: seconds(busyMs),
    elapsed_seconds: seconds(durationMs),
  };
}

function textOf(report: Report): string {
  const { findings, found, records, rows, replayed_from: from, busy_ms: busyMs, duration_ms: durationMs } = report;
  const time = `${(durationMs / 1000).toFixed(1)} s, of which it worked ${(busyMs / 1000).toFixed(1)} s`;
  const looked = `${countText(rows, 'row')} against ${countText(records, 'log record')}, replayed from ${from} on (${time})`;
  if (found === 0) return `Verified: ${looked}.\n`;
  const lines = findings.map(({ code, message }) => `${code}: ${printable(message)}.\n`);
  const more = found > findings.length ? `${found - findings.length} more.\n` : '';
  const next =
    'Stop the relay, run poste relay log verify, and then poste relay log rebuild. Where the log is shared, move the database aside instead.\n';
  return `${lines.join('')}${more}Not verified: ${found} found in ${looked}.\n${next}`;
}
