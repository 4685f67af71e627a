/** Form fields of several views. */
import type { VNode } from 'preact';
import { html } from 'htm/preact';

/** An event handler that passes on the new value of its field. */
export function onValue(change: (value: string) => void) {
  return ({ currentTarget }: { currentTarget: { value: string } }): void => change(currentTarget.value);
}

interface SearchFieldProps {
  placeholder: string;
  charactersMax: number;
  value: string;
  change: (value: string) => void;
  /** Says whether it gets the focus when its view opens, instead of the heading. */
  isFirstFocused?: boolean;
}

export function SearchField({ placeholder, charactersMax, value, change, isFirstFocused }: SearchFieldProps): VNode {
  return html`<label class="wide">
    <span>Search</span>
    <input
      type="search"
      maxlength=${charactersMax}
      placeholder=${placeholder}
      value=${value}
      data-first-focus=${isFirstFocused ? '' : undefined}
      onInput=${onValue(change)}
    />
  </label>`;
}

interface SelectFieldProps {
  label: string;
  value: string;
  options: readonly (readonly [value: string, name: string])[];
  change: (value: string) => void;
  isDisabled?: boolean;
}

export function SelectField({ label, value, options, change, isDisabled = false }: SelectFieldProps): VNode {
  return html`<label>
    <span>${label}</span>
    <select value=${value} disabled=${isDisabled} onChange=${onValue(change)}>
      ${options.map(([option, name]) => html`<option value=${option}>${name}</option>`)}
    </select>
  </label>`;
}
