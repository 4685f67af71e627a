/** Shows who waits for whom, of all agents of this host: as a picture and as a table. */
import type { VNode } from 'preact';
import { html } from 'htm/preact';
import type { Debt, WaitingResult } from '../../host/contract/waiting.ts';
import { timeMsOf } from '../../protocol/time.ts';
import { act } from '../shared/api.ts';
import { NO_VALUE, Panel, StateMark, Table, Time, Untrusted, Warning } from '../shared/components.ts';
import { countText } from '../shared/format.ts';
import { useLoaded } from '../shared/use-loaded.ts';
import { messageHref, shortAddress, waitingChanges } from './state.ts';
import { ageText, waitsOf } from './waiting-layout.ts';
import { WaitingPicture } from './waiting-picture.ts';

const WHERE_TEXTS: Readonly<Record<Debt['debtor_is'], string>> = {
  live: 'running',
  offline: 'not running',
  remote: 'its host does not tell',
  unreachable: 'its host is not reachable now',
  unlisted: 'its host lists it no more',
  gone: 'removed',
};

export function Waiting(): VNode {
  const { value, problem } = useLoaded(load, [], { changes: waitingChanges.value, keptAs: 'waiting' });
  return html`<h1 tabindex="-1">Waiting</h1>
    <${Warning} text=${problem} />
    ${!value && !problem && html`<p class="none">Loading who waits…</p>`}
    ${value && value.total === 0 && html`<p class="none">Nobody waits for an answer.</p>`}
    ${value && value.total > 0 && html`<${Debts} ...${value} />`}`;
}

interface LoadedDebts extends WaitingResult {
  nowMs: number;
}

async function load(): Promise<LoadedDebts> {
  return { nowMs: Date.now(), ...(await act<WaitingResult>('waiting', { all: true })) };
}

function Debts({ debts, total, nowMs }: LoadedDebts): VNode {
  const waits = waitsOf(
    debts.map(({ asker, debtor, since }) => ({
      asker: shortAddress(asker),
      debtor: shortAddress(debtor),
      sinceMs: timeMsOf(since),
    })),
  );
  return html`<${Panel} title="Who waits for whom"><${WaitingPicture} waits=${waits} nowMs=${nowMs} /></${Panel}>
    <${Panel} title="Answers that are owed">
      <${Table} label="Answers that are owed" columns=${columnsAt(nowMs)} rows=${debts} keyOf=${keyOf} none="" />
      ${total > debts.length && html`<p class="note">${countText(total - debts.length, 'later one')} not shown.</p>`}
    </${Panel}>`;
}

function keyOf({ message_id, debtor }: Debt): string {
  return `${message_id} ${debtor}`;
}

function columnsAt(nowMs: number): object[] {
  return [
    { title: 'Waits', cell: ({ asker }: Debt) => html`<${Untrusted} text=${shortAddress(asker)} />` },
    { title: 'For', cell: ({ debtor }: Debt) => html`<${Untrusted} text=${shortAddress(debtor)} />` },
    { title: 'Question', cell: (debt: Debt) => html`<${Question} debt=${debt} />` },
    {
      title: 'Since',
      cell: ({ since }: Debt) =>
        html`<span><${Time} at=${timeMsOf(since)} />, ${ageText(timeMsOf(since), nowMs)}</span>`,
    },
    { title: 'It is', cell: ({ state }: Debt) => html`<${StateMark} state=${state} />` },
    { title: 'Who owes is', cell: whereText },
    {
      title: 'Reminded',
      cell: ({ reminded_at: at }: Debt) => (at === null ? NO_VALUE : html`<${Time} at=${timeMsOf(at)} />`),
    },
  ];
}

/** Nobody needs to be told where they are themselves. */
function whereText({ debtor, debtor_is: is }: Debt): string {
  return shortAddress(debtor) === 'you' ? NO_VALUE : WHERE_TEXTS[is];
}

/** The owner can open their own conversations alone. */
function Question({ debt: { message_id, subject, asker, debtor } }: { debt: Debt }): VNode {
  const isOwn = [asker, debtor].some((address) => shortAddress(address) === 'you');
  const text = html`<${Untrusted} text=${subject} />`;
  return isOwn ? html`<a href=${messageHref(message_id)}>${text}</a>` : text;
}
