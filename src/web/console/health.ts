/** How the relay is, in one sentence at the top of the page, and what to do about each thing that is wrong. */
import type { VNode } from 'preact';
import { html } from 'htm/preact';
import type { ConsoleFollowing, ConsoleOverview, RelayFault } from '../../protocol/operator-documents.ts';
import { Untrusted } from '../shared/components.ts';
import { ago, countText } from '../shared/format.ts';

const RUNBOOK = 'docs/operating.md, What to watch';

export function Health({ known }: { known: ConsoleOverview | ConsoleFollowing }): VNode {
  const [worst, ...others] = known.faults;
  if (!worst) {
    return html`<p class="health health-well" role="status"><b>All is well.</b> ${wellText(known)}</p>`;
  }
  return html`<section class="health ${worst.is_critical ? 'health-bad' : 'health-warn'}" aria-label="What is wrong">
    <p role="alert"><${FaultText} fault=${worst} /></p>
    ${
      others.length > 0 &&
      html`<ul>
        ${others.map((fault) => html`<li key=${fault.what}><${FaultText} fault=${fault} /></li>`)}
      </ul>`
    }
  </section>`;
}

function FaultText({ fault }: { fault: RelayFault }): VNode {
  return html`<b><${Untrusted} text=${fault.what} /></b> ${fault.mend}
    ${fault.alert !== null && html`<span class="runbook" title=${RUNBOOK}> ${fault.alert}</span>`}`;
}

function wellText(known: ConsoleOverview | ConsoleFollowing): string {
  const backup = backupText(known);
  if (known.role === 'following') {
    return `This relay follows ${known.shared_log.leader ?? 'nobody'} and is ready to take its place. ${backup}`;
  }
  const now = known.samples.at(-1);
  if (!now) return backup;
  const waiting = now.queue_items === 0 ? 'no mail waits' : `${countText(now.queue_items, 'item')} of mail waiting`;
  return `${countText(now.hosts, 'host')}, ${waiting}. ${backup}`;
}

function backupText({ backups, command_backup_at: commanded, now }: ConsoleOverview | ConsoleFollowing): string {
  const newest = Math.max(backups?.newest?.at ?? 0, commanded ?? 0);
  if (newest > 0) return `The last backup is from ${ago(newest, now)}.`;
  return backups ? 'The first backup is being taken.' : 'No backups are planned.';
}
