/** `poste relay log trace <item>`: the whole life of one item. */
import type { Command } from 'commander';
import { printable } from '../../protocol/printable.ts';
import { isoTime } from '../../protocol/time.ts';
import type { FormatHost } from '../../relay/core/describe-event.ts';
import type { LifeStep } from '../../relay/core/describe-event.ts';
import {
  type AuditedStoreFlags,
  enrolmentsOf,
  hostFormatter,
  inAuditedStore,
  requireKeysOf,
  prunedClause,
  withAuditedLog,
} from './audited-store.ts';
import { relayCommand } from './relay-command.ts';
import type { CommandContext } from '../lib/context.ts';
import { CommandFailed } from '../lib/exit.ts';
import { print } from '../lib/output.ts';
import { itemMeant } from './item-meant.ts';
import { hostReference } from './values.ts';
import { documentOf, type TracedItem, trace } from '../../relay/replay/records.ts';

interface TraceFlags extends AuditedStoreFlags {
  sender?: string;
  target?: string;
}

const LIMITS_OF_A_LOG =
  'The log holds what changed. A repeated push that was answered duplicate changed nothing and is not in it, nor is any pull: that an item was handed over is known by the ack that covers its seq.';

const NOTES = `
${LIMITS_OF_A_LOG}

Examples:
  $ poste relay log trace 0197f3a2-55d1-7c60-8c55-2b1f0f6b8c11
  $ poste relay log trace m1 --sender laptop --json`;

export function relayLogTraceCommand(context: CommandContext): Command {
  return withAuditedLog(relayCommand(context, 'trace'))
    .argument('<item>', 'its id, or the first characters')
    .option('--sender <host>', 'only as pushed by this host', hostReference)
    .option('--target <host>', 'only as pushed to this host', hostReference)
    .addHelpText('after', NOTES)
    .action(async (itemId: string, flags: TraceFlags) => runTrace(context, itemId, flags));
}

async function runTrace(context: CommandContext, text: string, flags: TraceFlags): Promise<void> {
  await inAuditedStore(context, flags, async (offline, work) => {
    const enrolments = await enrolmentsOf(offline);
    const { sender, target } = flags;
    const itemId = await itemMeant(offline, text);
    const choice = {
      itemId,
      ...(sender !== undefined && { senders: requireKeysOf(sender, enrolments) }),
      ...(target !== undefined && { targets: requireKeysOf(target, enrolments) }),
    };
    const lives = await work.run(trace(offline, choice));
    if (lives.length === 0) {
      const whom = sender === undefined && target === undefined ? '' : ' between these hosts';
      const before = offline.store.firstLsn === 1 ? 'what was refused is not in the log' : prunedClause(offline);
      throw new CommandFailed(
        'notFound',
        'UNKNOWN_ITEM',
        `no item ${printable(itemId)} was ever accepted${whom} in this log; ${before}`,
      );
    }
    print(context, flags, traceDocument(lives), () => traceText(lives, hostFormatter(enrolments)));
  });
}

function traceDocument(lives: readonly TracedItem[]): object {
  return { items: documentOf(lives), note: LIMITS_OF_A_LOG };
}

function traceText(lives: readonly TracedItem[], formatHost: FormatHost): string {
  const parts = lives.map(({ itemId, kind, senderPubkey, targetPubkey, bytes, wireHash, state, steps }) => {
    const title = `${kind} ${printable(itemId)} of ${formatHost(senderPubkey)} for ${formatHost(targetPubkey)}: ${state}\n`;
    const size = `  ${bytes} wire bytes, SHA-256 ${wireHash}\n`;
    const lines = steps.map((step) => {
      return `  ${String(step.lsn).padStart(8)}  ${isoTime(step.timeMs)}  ${stepWords(step, formatHost)}\n`;
    });
    return `${title}${size}${lines.join('')}`;
  });
  return `${parts.join('\n')}\n${LIMITS_OF_A_LOG}\n`;
}

function stepWords(step: LifeStep, formatHost: FormatHost): string {
  switch (step.type) {
    case 'accepted':
      return `accepted at seq ${step.seq} of ${formatHost(step.targetPubkey)}`;
    case 'rotated':
      return `its target went on as ${formatHost(step.targetPubkey)}, where it is to be moved`;
    case 'moved':
      return `moved from seq ${step.fromSeq} to seq ${step.seq} of ${formatHost(step.targetPubkey)}`;
    case 'acked':
      return `acked: the target had everything through seq ${step.through}`;
    case 'expired':
      return 'expired: its target did not ack it in time';
    case 'noticed':
      return `its sender got a notice: ${printable(step.itemId)} at seq ${step.seq} of ${formatHost(step.targetPubkey)}`;
    case 'lost':
      return `lost: its wire bytes were ${step.reason}; a push of the same item is accepted anew`;
    case 'target revoked':
      return 'its target was revoked: nobody can pull it any more';
    case 'forgotten':
      return 'forgotten: a push of the same item would be a new one from here on';
  }
}
