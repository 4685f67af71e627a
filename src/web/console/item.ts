/** What became of one item, at each of its targets. */
import type { VNode } from 'preact';
import { html } from 'htm/preact';
import { useEffect, useState } from 'preact/hooks';
import type { ConsoleTrace, TraceStep } from '../../protocol/operator-documents.ts';
import { read } from '../shared/api.ts';
import { Code, Panel, StateMark, Time, Words } from '../shared/parts.ts';
import { failed } from '../shared/session.ts';
import { hostPlace, samples } from './state.ts';
import { bytes, count } from '../shared/text.ts';

export function Item({ lsn }: { lsn: string }): VNode {
  const [trace, setTrace] = useState<ConsoleTrace>();
  const [problem, setProblem] = useState('');
  const isWaiting = trace?.targets.some(({ state }) => state === 'waiting') ?? true;
  // While it waits anything may still happen to it.
  const position = isWaiting ? (samples.value.at(-1)?.log_position ?? 0) : 0;
  useEffect(() => {
    read<ConsoleTrace>('trace', { lsn }).then(
      (found) => {
        setTrace(found);
        setProblem('');
      },
      (error: unknown) => setProblem(failed(error)),
    );
  }, [lsn, position]);

  if (problem && !trace) return html`<h1 tabindex="-1">Item</h1><p class="warning" role="alert">${problem}</p>`;
  if (!trace) return html`<h1 tabindex="-1">Item</h1><p class="none">Asking the relay…</p>`;
  const { sender } = trace;
  return html`<h1 tabindex="-1">Item <${Code} text=${trace.item_id} /></h1>
    ${problem && html`<p class="warning" role="alert">${problem}</p>`}
    <p class="note">
      ${trace.kind} from <a href=${hostPlace(sender.host_pubkey)}><${Words} text=${sender.name ?? 'unknown host'} /></a>,
      record ${count(trace.lsn)}
    </p>
    ${trace.targets.map(
      ({ target, bytes: size, state, steps }) =>
        html`<${Panel} title=${`To ${target.name ?? 'unknown host'}`}>
          <p>
            <${StateMark} state=${state} />${' '}
            <a href=${hostPlace(target.host_pubkey)}><${Words} text=${target.name ?? 'unknown host'} /></a>, ${bytes(size)}
          </p>
          <ol class="steps">
            ${steps.map((step) => html`<${Step} step=${step} />`)}
          </ol>
        </${Panel}>`,
    )}
    ${
      trace.searched_up_to < trace.log_position &&
      isWaiting &&
      html`<p class="note">Looked at up to record ${count(trace.searched_up_to)} of ${count(trace.log_position)}.</p>`
    }`;
}

function Step({ step }: { step: TraceStep }): VNode {
  return html`<li class="step">
    <span class="step-what">${step.what}</span> <${Words} text=${step.text} />
    <span class="event-when">
      ${step.at !== null && html`<${Time} at=${step.at} />`}${step.lsn !== null && ` · ${count(step.lsn)}`}
    </span>
  </li>`;
}
