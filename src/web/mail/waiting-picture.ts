/** The picture of who waits for whom: those who wait on the left, those who owe an answer on the right. */
import type { VNode } from 'preact';
import { html } from 'htm/preact';
import { printable } from '../../protocol/printable.ts';
import { countText } from '../shared/format.ts';
import {
  ageText,
  layOutPicture,
  type Line,
  LINE_ENDS,
  pictureText,
  type Wait,
  waitText,
  WIDTH,
} from './waiting-layout.ts';

const NAME_CHARACTERS = 13;
const DAY_MS = 86_400_000;

export function WaitingPicture({ waits, nowMs }: { waits: readonly Wait[]; nowMs: number }): VNode {
  const { height, askers, debtors, lines } = layOutPicture(waits);
  const more = waits.length - lines.length;
  return html`<svg
      class="waits"
      viewBox="0 0 ${WIDTH} ${height}"
      role="img"
      aria-label="Who waits for whom"
      aria-description=${pictureText(waits, nowMs)}
    >
      <defs>
        <marker
          id="wait-end"
          viewBox="0 0 8 8"
          refX="7"
          refY="4"
          markerWidth="8"
          markerHeight="8"
          markerUnits="userSpaceOnUse"
          orient="auto"
        >
          <path d="M0 0 8 4 0 8z" class="wait-end" />
        </marker>
      </defs>
      <text x="0" y="16" class="waits-head">Waits</text>
      <text x=${WIDTH} y="16" class="waits-head" text-anchor="end">Owes an answer</text>
      ${lines.map((line) => html`<${WaitLine} line=${line} nowMs=${nowMs} />`)}
      ${askers.map(({ name, y }) => html`<${NameText} name=${name} x=${0} y=${y} anchor="start" />`)}
      ${debtors.map(({ name, y }) => html`<${NameText} name=${name} x=${WIDTH} y=${y} anchor="end" />`)}
    </svg>
    ${more > 0 && html`<p class="note">${countText(more, 'more pair')} in the table.</p>`}`;
}

function WaitLine({ line, nowMs }: { line: Line; nowMs: number }): VNode {
  const { wait, fromY, toY } = line;
  const { asker, debtor, count, sinceMs } = wait;
  const ageMs = nowMs - sinceMs;
  const age = ageMs >= 3 * DAY_MS ? 'old' : ageMs >= DAY_MS ? 'late' : 'new';
  const middle = (LINE_ENDS.from + LINE_ENDS.to) / 2;
  return html`<g>
    <title>${printable(`${asker} waits for ${debtor}: ${waitText(wait, nowMs)}`)}</title>
    <path
      class="wait wait-${age}"
      marker-end="url(#wait-end)"
      d="M${LINE_ENDS.from} ${fromY}C${middle} ${fromY} ${middle} ${toY} ${LINE_ENDS.to} ${toY}"
    />
    <text x=${LINE_ENDS.from - 6} y=${fromY} class="waits-age" text-anchor="end" dominant-baseline="central">
      ${ageText(sinceMs, nowMs)}${count > 1 ? ` ×${count}` : ''}
    </text>
  </g>`;
}

function NameText({ name, x, y, anchor }: { name: string; x: number; y: number; anchor: string }): VNode {
  const whole = printable(name);
  const shown = whole.length > NAME_CHARACTERS ? `${whole.slice(0, NAME_CHARACTERS - 1)}…` : whole;
  return html`<text x=${x} y=${y} class="waits-name" text-anchor=${anchor} dominant-baseline="central">
    <title>${whole}</title>${shown}
  </text>`;
}
