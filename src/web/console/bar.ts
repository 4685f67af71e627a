/** How much of a limit is used. */
import type { VNode } from 'preact';
import { html } from 'htm/preact';
import { bytes, count } from '../shared/text.ts';

interface BarProps {
  label: string;
  used: number;
  max: number;
  unit: string;
}

export function Bar({ label, used, max, unit }: BarProps): VNode {
  const share = max > 0 ? Math.min(1, Math.max(0, used) / max) : 1;
  const shown = unit === 'bytes' ? `${bytes(used)} of ${bytes(max)}` : `${count(used)} of ${count(max)} ${unit}`;
  const kind = share >= 0.9 ? 'full' : share >= 0.7 ? 'filling' : 'fine';
  return html`<div class="bar">
    <div class="bar-text"><span>${label}</span><span>${shown}</span></div>
    <meter class=${kind} min="0" max="1" value=${share} aria-label="${label}: ${shown}">${shown}</meter>
  </div>`;
}
