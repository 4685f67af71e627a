/** The trace of one item: its events at each of its targets. */
import type { VNode } from 'preact';
import { html } from 'htm/preact';
import type { ConsoleTrace, TraceStep } from '../../protocol/operator-documents.ts';
import { read } from '../shared/api.ts';
import { Code, Panel, StateMark, Time, Untrusted, Warning } from '../shared/components.ts';
import { bytes } from '../shared/format.ts';
import { useLoaded } from '../shared/use-loaded.ts';
import { hostHref, samples } from './state.ts';

export function Item({ lsn }: { lsn: string }): VNode {
  // New events can change only an item that still waits.
  const position = samples.value.at(-1)?.log_position ?? 0;
  const load = async (last: ConsoleTrace | undefined): Promise<ConsoleTrace> =>
    last && !isWaiting(last) ? last : read<ConsoleTrace>('trace', { lsn });
  const { value: trace, problem } = useLoaded(load, [lsn, position], { keptAs: `item ${lsn}` });

  if (problem && !trace) return html`<h1 tabindex="-1">Item</h1><${Warning} text=${problem} />`;
  if (!trace) return html`<h1 tabindex="-1">Item</h1><p class="none">Asking the relay…</p>`;
  const { sender } = trace;
  return html`<h1 tabindex="-1">Item <${Code} text=${trace.item_id} /></h1>
    <${Warning} text=${problem} />
    <p class="note">
      ${trace.kind} from${' '}
      <a href=${hostHref(sender.host_pubkey)}><${Untrusted} text=${sender.name ?? 'unknown host'} /></a>,
      record ${trace.lsn}
    </p>
    ${trace.targets.map(
      ({ target, bytes: size, state, steps }) =>
        html`<${Panel} title=${`To ${target.name ?? 'unknown host'}`}>
          <p>
            <${StateMark} state=${state} />${' '}
            <a href=${hostHref(target.host_pubkey)}><${Untrusted} text=${target.name ?? 'unknown host'} /></a>,
            ${' '}${bytes(size)}
          </p>
          <ol class="steps">
            ${steps.map((step) => html`<${Step} step=${step} />`)}
          </ol>
        </${Panel}>`,
    )}
    ${
      trace.searched_up_at !== null &&
      isWaiting(trace) &&
      html`<p class="note">
        The log was searched up to <${Time} at=${trace.searched_up_at} />; there may be more after it.
      </p>`
    }`;
}

function isWaiting({ targets }: ConsoleTrace): boolean {
  return targets.some(({ state }) => state === 'waiting');
}

function Step({ step }: { step: TraceStep }): VNode {
  return html`<li class="step">
    <span class="step-what">${step.what}</span> <${Untrusted} text=${step.text} />
    <span class="event-when">
      ${step.at !== null && html`<${Time} at=${step.at} />`}${step.lsn !== null && ` · record ${step.lsn}`}
    </span>
  </li>`;
}
