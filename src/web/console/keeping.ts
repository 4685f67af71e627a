/** Shows what is kept and for how long: the backups, and the log of the relay. */
import type { VNode } from 'preact';
import { html } from 'htm/preact';
import { useState } from 'preact/hooks';
import type {
  ConsoleBackup,
  ConsoleFollowing,
  ConsoleOverview,
  LogKeptShown,
} from '../../protocol/operator-documents.ts';
import { act } from '../shared/api.ts';
import { Code, type FactRow, Facts, Moment, Panel, Time, Untrusted } from '../shared/components.ts';
import { bytes, count, duration } from '../shared/format.ts';
import { failureText, notice } from '../shared/session.ts';
import { reloadOverview } from './state.ts';

type Overview = ConsoleOverview | ConsoleFollowing;

export function Keeping({ known }: { known: Overview }): VNode {
  return html`<div class="columns">
    <${Panel} title="Backups">
      <${Facts} rows=${backupRows(known)} />
      ${known.role !== 'following' && known.can_take_backup && html`<${TakeBackup} />`}
    </${Panel}>
    <${Panel} title="Log of the relay"><${Facts} rows=${logRows(known.log_kept, known.now)} /></${Panel}>
  </div>`;
}

function backupRows({ backups, command_backup_at: commanded, now }: Overview): FactRow[] {
  const moment = (at: number): VNode => html`<${Moment} at=${at} nowMs=${now} />`;
  const byCommand: FactRow = ['by command', commanded !== null && moment(commanded)];
  if (!backups) {
    return [['plan', html`none: start the relay with <${Code} text="--backup-dir" />`], byCommand];
  }
  const { newest, last, next_at: next, every_ms: everyMs, keep, folder } = backups;
  const size = newest && html` <${Code} text=${newest.name} />, ${bytes(newest.bytes)}`;
  return [
    ['last', newest ? html`${moment(newest.at)}${size}` : 'none yet'],
    ['failed', last?.ok === false && moment(last.at)],
    ['next', moment(next)],
    ['plan', `every ${duration(everyMs)}, the newest ${count(keep)} are kept`],
    ['where', html`<${Code} text=${folder} />`],
    byCommand,
  ];
}

function logRows(kept: LogKeptShown, nowMs: number): FactRow[] {
  const { first_at: first, is_pruned: isPruned, keep_ms: keepMs, archive_folder: archives, last_removal: last } = kept;
  const start = isPruned ? 'older events were removed' : 'nothing was removed';
  return [
    ['goes back to', first === null ? 'unknown' : html`<${Moment} at=${first} nowMs=${nowMs} />; ${start}`],
    ['is kept', keepMs === null ? 'for ever' : `for ${duration(keepMs)}`],
    [
      'last removal',
      last &&
        html`<${Moment} at=${last.at} nowMs=${nowMs} />: events from <${Time} at=${last.from} /> to${' '}
          <${Time} at=${last.through} />
          ${last.archive !== null && html`, now in <${Untrusted} text=${last.archive} />`}`,
    ],
    ['archives', archives !== null && html`<${Code} text=${archives} />`],
  ];
}

function TakeBackup(): VNode {
  const [isUnderWay, setUnderWay] = useState(false);
  const take = async (): Promise<void> => {
    setUnderWay(true);
    notice.value = 'The backup is being taken…';
    try {
      const backup = await act<ConsoleBackup>('backup', {});
      notice.value = `The backup ${backup.name} is complete: ${bytes(backup.bytes)}.`;
      await reloadOverview();
    } catch (error) {
      notice.value = failureText(error);
    }
    setUnderWay(false);
  };
  return html`<p class="actions">
    <button type="button" disabled=${isUnderWay} onClick=${() => void take()}>Take a backup</button>
  </p>`;
}
